"""What this machine lacks for the kit, and how to mend it: `kit doctor`.

Every check runs on Linux and macOS. A check that fails (`ok` is False) stops the kit from working; one that is None only
limits what can be collected here, which matters to nobody who reads files that others sent.
"""

from __future__ import annotations

import locale
import os
import platform
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

DISTRIBUTION = "stallkit"
LEAST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 1 << 30
"""Below this the disk check fails: a recorded run with a few seconds of strace takes up to some hundred MiB, its frames the
same again."""
CAP_SYS_PTRACE = 19
"""Bit of the capability in CapEff of /proc/PID/status (linux/capability.h)."""
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin", "/usr/local/bin")
"""Searched after PATH: sshd lies in sbin, which an ordinary user's PATH leaves out."""


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    name: str  # what was looked at
    ok: bool | None  # true: fine. None: the kit works, but something can't be collected or shown here. False: the kit won't work.
    what: str  # what was found
    why: str = ""  # what it is needed for, or what follows; empty where all is well
    do: str = ""  # what mends it: a command where there is one; empty where nothing need be done


@dataclass(frozen=True)
class Program:
    """A program of the system that the kit calls, with the names it goes by."""

    name: str
    names: Sequence[str]
    why: str
    do: str


_SAID = tomllib.loads((Path(__file__).parent / "knowledge" / "programs.toml").read_text("utf-8"))
PROGRAMS = tuple(Program(**one) for one in _SAID["program"])


def _lack(code: str, what: str, ok: bool | None = None, **values: object) -> Check:
    """A check that failed, or limits something, with what `programs.toml` says of it."""
    said = {key: text.format(**values) for key, text in _SAID["lack"][code].items()}
    return Check(ok=ok, what=what, **said)


def find_program(name: str) -> str | None:
    """Path of a program: beside this Python (py-spy of the same environment), on PATH, in the system's sbin folders.

    `name`: a name of `PROGRAMS`, which is looked for under each of its names, or any other program.

    Examples
    --------
    >>> find_program("sh").endswith("/sh")
    True
    >>> find_program("no-such-program") is None
    True
    """
    names = next((entry.names for entry in PROGRAMS if entry.name == name), (name,))
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH") or os.defpath, *SYSTEM_FOLDERS]
    return next((found for known in names if (found := shutil.which(known, path=os.pathsep.join(folders)))), None)


def checks(proc: Path = Path("/proc"), data: Path | None = None) -> list[Check]:
    """Look at Python, packages, programs, rights, disk and locale.

    `proc`: where the kernel's process files are mounted; without them (macOS) the rights to trace are not looked at. `data`:
    folder that runs are written to; default: `data` beside the package, else the working folder.

    Examples
    --------
    >>> [check.name for check in checks()][:2]
    ['python', 'packages']
    """
    return [_python(), *_packages(), *map(_program, PROGRAMS), *_rights(proc), _disk(data), _locale()]


def render(found: list[Check]) -> str:
    """The checks as text for a terminal, those that need a hand last.

    Examples
    --------
    >>> gdb = Check("gdb", None, "not found", "dumps native stacks", "apt install gdb")
    >>> print(render([gdb, Check("python", True, "3.12.1")]))
    ok    python  3.12.1
    note  gdb     not found
                  why: dumps native stacks
                  do:  apt install gdb
    The kit works here; 1 note limits what it can collect.
    """
    order = {True: 0, None: 1, False: 2}
    mark = {True: "ok", None: "note", False: "FAIL"}
    width = max((len(check.name) for check in found), default=0)
    lines = []
    for check in sorted(found, key=lambda check: order[check.ok]):
        lines.append(f"{mark[check.ok]:<4}  {check.name:<{width}}  {check.what}")
        if check.ok is not True:
            lines += [f"{'':<{width + 8}}{label}{text}" for label, text in (("why: ", check.why), ("do:  ", check.do)) if text]
    failed = sum(check.ok is False for check in found)
    notes = sum(check.ok is None for check in found)
    if failed:
        lines.append(f"The kit does not work here yet: {failed} of {len(found)} checks failed.")
    elif notes:
        lines.append(f"The kit works here; {notes} note{'s limit' if notes > 1 else ' limits'} what it can collect.")
    else:
        lines.append("The kit works here, and all that it can use is present.")
    return "\n".join(lines)


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info < LEAST_PYTHON:
        return _lack("python", version, False, least=".".join(map(str, LEAST_PYTHON)))
    return Check("python", True, version)


def _packages() -> Iterator[Check]:
    """One check where all packages are within their bounds, else one for each that is not."""
    try:
        declared = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield _lack("not_installed", f"{DISTRIBUTION} runs from its source folder, not installed")
        return
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield _lack("packaging", "not installed", False)
        return
    needed = [entry for entry in map(Requirement, declared) if entry.marker is None or entry.marker.evaluate({"extra": ""})]
    wrong = [check for entry in needed if (check := _package(entry.name, entry.specifier))]
    if not wrong:
        yield Check("packages", True, f"{len(needed)} within their bounds")
    yield from wrong


def _package(name: str, bounds: SpecifierSet) -> Check | None:
    """A check that failed, or None where the package is there in a version that fits."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return _lack("package", "not installed", False, package=name, bounds=bounds)
    if not bounds.contains(version, prereleases=True):
        return _lack("bounds", f"{version}, wanted {bounds}", False, package=name, bounds=bounds)
    return None


def _program(program: Program) -> Check:
    found = find_program(program.name)
    return Check(program.name, True, found) if found else Check(program.name, None, "not found", program.why, program.do)


def _rights(proc: Path) -> Iterator[Check]:
    """What the kernel lets this user see and trace."""
    if not (proc / "self" / "status").exists():
        yield _lack("no_proc", f"no {proc}")
        return
    yield _tracing(proc)
    yield _hidden(proc)


def _tracing(proc: Path) -> Check:
    scope = _number(proc / "sys" / "kernel" / "yama" / "ptrace_scope")
    capable = _has_capability(proc / "self" / "status", CAP_SYS_PTRACE)
    what = f"ptrace_scope {'absent' if scope is None else scope}, {'with' if capable else 'without'} CAP_SYS_PTRACE"
    if scope == 3:
        return _lack("no_tracing", what)
    if capable:
        return Check("tracing", True, what)
    if not scope:
        return Check("tracing", True, what + ": processes of the same user only")
    return _lack("tracing_in_container" if _in_container() else "tracing", what)


def _hidden(proc: Path) -> Check:
    """hidepid of the proc mount; its values have had names since Linux 5.8 (Documentation/filesystems/proc.rst)."""
    for line in _text(proc / "self" / "mounts").splitlines():
        fields = line.split()
        if len(fields) < 4 or fields[1] != "/proc":
            continue
        value = dict(option.partition("=")[::2] for option in fields[3].split(",")).get("hidepid", "0")
        if value not in ("0", "off"):
            return _lack("hidepid", f"/proc is mounted with hidepid={value}")
    return Check("hidepid", True, "/proc shows the processes of all users")


def _disk(data: Path | None) -> Check:
    beside = Path(__file__).resolve().parent.parent / "data"
    folder = data or (beside if beside.is_dir() else Path.cwd())
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return _lack("no_folder", f"{folder}: {error.strerror}", False)
    what = f"{free / 2**30:.1f} GiB free in {folder}"
    return Check("disk", True, what) if free >= LEAST_FREE_BYTES else _lack("disk", what, False)


def _locale() -> Check:
    encoding = locale.getpreferredencoding(False)
    if encoding.replace("-", "").lower() == "utf8":
        return Check("locale", True, encoding)
    return _lack("locale", encoding)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _has_capability(status: Path, bit: int) -> bool:
    """Whether the effective set of a process holds a capability; False where the file does not tell.

    Examples
    --------
    >>> _has_capability(Path("/no/such/file"), CAP_SYS_PTRACE)
    False
    """
    for line in _text(status).splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            try:
                return bool(int(value, 16) >> bit & 1)
            except ValueError:
                return False
    return False


def _in_container() -> bool:
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists() or "KUBERNETES_SERVICE_HOST" in os.environ
