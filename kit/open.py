"""Finding and opening evidence: a recorded run, a folder of loose files, or one file becomes a `Run`."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

from kit import knowledge_paths, loose, parse, run_json
from kit import multi_host as hosts
from kit.clock import parse_time
from kit.errors import EvidenceError, UsageError, denied
from kit.folder import tidy, why_not
from kit.intake import Note, unpack
from kit.reading import Capture
from kit.run import Run

if TYPE_CHECKING:
    from kit.analyse.fleet import Fleet


@overload
def open_run(
    path: str | Path | Sequence[str | Path],
    captured_at: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    at: str | None = None,
    scheduler: None = None,
) -> Run: ...


@overload
def open_run(path: str | Path, *, knowledge: Iterable[str | Path] | None = None, scheduler: str) -> Fleet: ...


def open_run(
    path: str | Path | Sequence[str | Path],
    captured_at: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    at: str | None = None,
    scheduler: str | None = None,
) -> Run | Fleet:
    """Open the evidence of a launch.

    Parameters
    ----------
    path : str, path or sequence of them
        A recorded run, a folder of loose files of any names, or one file: a log, an archive, a text that somebody pasted;
        `-` is the standard input. Several are the evidence of one launch.
    captured_at : str, optional
        When the evidence was taken, local time of the host (`2026-02-18 02:11:52`) unless it names a zone.
    knowledge : path or paths, optional
        Folders with log grammars and signatures of your own; those of `KIT_KNOWLEDGE` follow.
    at : str, optional
        Leave out what came after this moment, local time of the host (`Run.as_of`).
    scheduler : str, optional
        Address of a Dask scheduler whose workers read the hosts of the launch, each by itself (`kit.fleet`).

    Returns
    -------
    Run, or Fleet where a scheduler is given

    Raises
    ------
    EvidenceError
        Where nothing is there or nothing can be read.
    UsageError
        Where a folder of knowledge is missing or a file in it is wrong.

    Examples
    --------
    >>> import kit
    >>> kit.open_run(kit.sample_path("sg02-one-snapshot")).captures[0].kind
    'fd'
    """
    folders = knowledge_paths.folders(knowledge)
    if scheduler is not None:
        return _fleet(path, scheduler, folders)
    paths = [_given(one) for one in ([path] if isinstance(path, (str, Path)) else path)]
    path = paths[0] if len(paths) == 1 else Path(os.path.commonpath([one.resolve() for one in paths]))
    manifest, captures, notes = _found(path, paths, folders)
    if not captures and not notes:
        raise EvidenceError(
            f"no evidence in {path}",
            "the folder holds no files",
            "put the server's log there, and what else you have: ps, ss, /proc/PID/status, py-spy, nvidia-smi",
        )
    run = Run(path, captures, manifest, captured_at, folders, tuple(notes))
    return run if at is None else run.as_of(at)


def _fleet(path: str | Path | Sequence[str | Path], scheduler: str, folders: tuple[Path, ...]) -> Fleet:
    """The hosts of a launch, read by the workers of a scheduler."""
    import kit  # the façade knows the analyses, this module does not

    if not isinstance(path, (str, Path)):
        raise UsageError("several paths were given", "the hosts of a launch lie in one folder", "give that folder")
    return kit.fleet(path, scheduler, knowledge=folders)


def _found(path: Path, paths: list[Path], folders: tuple[Path, ...]) -> tuple[dict | None, list[Capture], list[Note]]:
    """Manifest of a recorded run, captures, and what is wrong with either."""
    try:
        manifest, wrong = _manifest(path) if path.is_dir() and len(paths) == 1 else (None, [])
        if manifest is not None:
            captures, notes = _recorded(path, manifest, folders)
        else:
            captures, notes = loose.captures(path, paths, folders)
            if (packed := _packed_run(captures, wrong)) is not None:
                manifest, folder = packed
                captures, notes = _recorded(folder, manifest, folders)
        return manifest, captures, [*wrong, *notes]
    except PermissionError as error:
        raise denied(error) from error


def _given(path: str | Path) -> Path:
    """A path as it was given: `~` is the home, `-` the standard input, which is kept in a file while the process lives."""
    if str(path) == "-":
        folder = Path(tempfile.mkdtemp(prefix="stallkit-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        with open(folder / "stdin", "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return folder / "stdin"
    path = Path(path).expanduser()
    if not path.exists():
        raise EvidenceError(f"cannot open {path}", "there is no such file or folder", f"look what is there: ls {path.parent}")
    if not path.is_dir() and (why := why_not(path)):
        raise EvidenceError(
            f"cannot read {path}", f"it {why}", f"give its text on the standard input: cat {path} | kit verdict -"
        )
    return path


def _packed_run(captures: list[Capture], notes: list[Note]) -> tuple[dict, Path] | None:
    """Manifest and folder of the run that an archive holds, unpacked for as long as the process lives; None of no run."""
    found = next((one for one in captures if one.kind is None and one.content is not None and one.title == "run.json"), None)
    if found is None or any(one.path != found.path for one in captures):
        return None
    archive = found.path.name
    root = archive + found.file.partition(archive)[2].removesuffix("run.json")
    folder = Path(tempfile.mkdtemp(prefix="stallkit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for item in unpack(found.path, archive):
        if isinstance(item, Note):
            notes.append(item)
            continue
        if not item.name.startswith(root):
            continue
        target = folder / item.name.removeprefix(root)
        with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):  # one name for a file and a folder
            target.parent.mkdir(parents=True, exist_ok=True)
            with item.data.open("rb") as data, open(target, "wb") as file:
                shutil.copyfileobj(data, file)
            if item.mtime_ns is not None:
                os.utime(target, ns=(item.mtime_ns, item.mtime_ns))
    manifest, wrong = _manifest(folder)
    notes += wrong if manifest is not None else []
    return None if manifest is None else (manifest, folder)


def _manifest(path: Path) -> tuple[dict | None, list[Note]]:
    """The manifest of a folder; empty where it cannot be read and `raw/` tells that the folder is a run."""
    manifest, notes = run_json.read(path / "run.json")
    if manifest is None:
        return ({}, notes) if notes and (path / "raw").is_dir() else (None, notes)
    tidy(path)
    return (hosts.join(path, manifest, notes), notes) if manifest.get("hosts") else (manifest, notes)


def _recorded(path: Path, manifest: dict, folders: tuple[Path, ...]) -> tuple[list[Capture], list[Note]]:
    captures: list[Capture] = []
    notes: list[Note] = []
    listed: set[str] = set()
    missing = manifest.setdefault("missing", [])
    for entry in manifest.get("captures") or []:
        file = path / entry["file"]
        if entry["file"] in listed:
            continue
        listed.add(entry["file"])
        if not os.path.lexists(file):
            missing.append({"what": entry["file"], "why": "the file is gone from the run", "do": ""})
            continue
        if why := why_not(file, path):
            notes.append(Note(entry["file"], f"{why}: it was not read"))
            continue
        at = entry.get("captured_at") or entry.get("started_at") or manifest.get("ended_at")
        about = {key: entry.get(key) for key in ("moment", "pid", "node", "source", "note", "sha256", "host")}
        about |= {"captured_ns": parse_time(at)[0] if at else None, "deleted": bool(entry.get("deleted"))}
        about["grew_ns"] = parse_time(entry["grew_at"])[0] if entry.get("grew_at") else None
        about["whole"] = bool(entry.get("whole", True))
        if entry.get("kind") in parse.formats():
            captures.append(Capture(entry["file"], file, entry["kind"] if os.access(file, os.R_OK) else None, **about))
            continue
        more, said = loose.captures(path, [file], folders, inside=path)
        captures += [replace(capture, **about) for capture in more]
        notes += said
    for host in (None, *(entry["name"] for entry in manifest.get("hosts") or ())):
        base = path / (host or "") / "raw"
        files = sorted(base.glob("**/*")) if not base.is_symlink() else [base]
        extra = [file for file in files if (file is base or not file.is_dir()) and str(file.relative_to(path)) not in listed]
        more, said = loose.captures(path, extra, folders, inside=path)
        captures += [replace(capture, host=host) for capture in more]
        notes += said
    return captures, notes
