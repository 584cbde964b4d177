"""Finding and opening evidence: a recorded run, a folder of loose files, or one file becomes a `Run`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kit import knowledge_paths, parse
from kit import multi_host as hosts
from kit.clock import parse_time
from kit.errors import EvidenceError
from kit.reading import Capture
from kit.run import Run

MANIFEST_FORMAT = "stallkit-run"
MOST_FILES = 2000
"""A folder with more files is no evidence folder but, say, a home directory."""
_MOMENT = re.compile(r"[._-]t?(\d{1,3})\.[^.]+$")
_NODE = re.compile(r"node[._-]?(\d+)", re.IGNORECASE)
_PID = re.compile(r"(?:pid|proc)[._-]?(\d+)", re.IGNORECASE)


def open_run(path: str | Path, captured_at: str | None = None, knowledge: str | Path | Iterable[str | Path] | None = None) -> Run:
    """Open the evidence of a launch.

    Parameters
    ----------
    path : str or path
        A recorded run, a folder of loose files of any names, or one file.
    captured_at : str, optional
        When the evidence was taken, local time of the host (`2026-02-18 02:11:52`) unless it names a zone.
    knowledge : path or paths, optional
        Folders with log grammars and signatures of your own; those of `KIT_KNOWLEDGE` follow.

    Returns
    -------
    Run

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
    path, folders = Path(path), knowledge_paths.folders(knowledge)
    if not path.exists():
        raise EvidenceError(f"cannot open {path}", "there is no such file or folder", f"look what is there: ls {path.parent}")
    try:
        manifest = _manifest(path) if path.is_dir() else None
        captures = _recorded(path, manifest) if manifest else _loose(path)
        for capture in captures if folders else ():
            capture.kind = capture.kind or _kind_by_grammar(capture.path, folders)
    except PermissionError as error:
        raise EvidenceError(
            f"cannot read {error.filename or path}", "permission denied", f"copy it as its owner, or: sudo chmod -R a+rX {path}"
        ) from error
    if not captures:
        raise EvidenceError(
            f"no evidence in {path}",
            "the folder holds no files",
            "put the server's log there, and what else you have: ps, ss, /proc/PID/status, py-spy, nvidia-smi",
        )
    return Run(path, captures, manifest, captured_at, folders)


def _manifest(path: Path) -> dict | None:
    file = path / "run.json"
    if not file.is_file():
        return None
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return None
    if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
        return None
    return hosts.join(path, manifest) if manifest.get("hosts") else manifest


def _recorded(path: Path, manifest: dict) -> list[Capture]:
    captures, listed = [], set()
    for entry in manifest.get("captures") or []:
        file = path / entry["file"]
        listed.add(entry["file"])
        if not file.is_file() or path.resolve() not in file.resolve().parents:
            manifest.setdefault("missing", []).append({"what": entry["file"], "why": "the file is gone from the run", "do": ""})
            continue
        kind, promised = _kind(file, entry.get("kind"))
        at = entry.get("captured_at") or entry.get("started_at") or manifest.get("ended_at")
        captures.append(
            Capture(
                file=entry["file"],
                path=file,
                kind=kind,
                promised=promised,
                captured_ns=parse_time(at)[0] if at else None,
                moment=entry.get("moment"),
                pid=entry.get("pid"),
                node=entry.get("node"),
                whole=bool(entry.get("whole", True)),
                deleted=bool(entry.get("deleted")),
                source=entry.get("source"),
                note=entry.get("note"),
                sha256=entry.get("sha256"),
                host=entry.get("host"),
            )
        )
    for host in (None, *(entry["name"] for entry in manifest.get("hosts") or ())):
        files = sorted((path / (host or "") / "raw").glob("**/*"))
        extra = [file for file in files if file.is_file() and str(file.relative_to(path)) not in listed]
        captures += [replace(_loose_capture(path, file), host=host) for file in extra]
    return captures


def _loose(path: Path) -> list[Capture]:
    if path.is_file():
        return [_loose_capture(path.parent, path)]
    files = []
    for file in sorted(path.glob("**/*")):
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
            files.append(file)
        if len(files) > MOST_FILES:
            raise EvidenceError(
                f"{path} holds more than {MOST_FILES} files",
                "it seems to be no evidence folder",
                "copy the logs and captures of one launch into a folder of their own",
            )
    return [_loose_capture(path, file) for file in files]


def _loose_capture(base: Path, file: Path) -> Capture:
    name = str(file.relative_to(base))
    kind, promised = _kind(file, None)
    moment, node, pid = (pattern.search(file.name) for pattern in (_MOMENT, _NODE, _PID))
    return Capture(
        file=name,
        path=file,
        kind=kind,
        promised=promised,
        captured_ns=file.stat().st_mtime_ns,
        moment=int(moment.group(1)) if moment and not node else None,
        pid=int(pid.group(1)) if pid else None,
        node=int(node.group(1)) if node else None,
    )


def _kind(file: Path, declared: str | None) -> tuple[str | None, str | None]:
    """Kind of a file: as declared where that is known and plausible, else by its content and name."""
    try:
        if declared in parse.formats():
            open(file, "rb").close()  # one that may not be read has no kind
            return declared, None
        return parse.recognise(file.name, parse.head_of(file))
    except PermissionError:
        return None, None


def _kind_by_grammar(file: Path, folders: tuple[Path, ...]) -> str | None:
    """Kind of a file that is no format known here, but a log of a server that the user's knowledge describes."""
    try:
        return parse.recognise_server(parse.head_of(file), folders)
    except PermissionError:
        return None
