"""A run: the evidence of one launch, as a recorded folder, a folder of loose files, or one file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from kit import knowledge_paths, parse
from kit import multi_host as hosts
from kit.clock import NS, parse_time, show_time
from kit.errors import EvidenceError, UsageError
from kit.frames import FRAMES, TABLES
from kit.parse.base import Report, Source
from kit.schema import Row

if TYPE_CHECKING:
    import pandas

MANIFEST_FORMAT = "stallkit-run"
MOST_FILES = 2000
"""A folder with more files is no evidence folder but, say, a home directory."""
_MOMENT = re.compile(r"[._-]t?(\d{1,3})\.[^.]+$")
_NODE = re.compile(r"node[._-]?(\d+)", re.IGNORECASE)
_PID = re.compile(r"(?:pid|proc)[._-]?(\d+)", re.IGNORECASE)


@dataclass
class Capture:
    """One raw file: what, from where, when, and whether it is whole.

    Attributes
    ----------
    file : str
        Path relative to the run.
    path : pathlib.Path
        Where it lies.
    kind : str or None
        Kind of parser, None where nothing recognises it.
    promised : str or None
        Kind that the file's name promised where its content is of another.
    captured_ns : int or None
        When it was taken, UTC nanoseconds.
    moment, pid, node : int or None
        Number of the sample, process and node it is about.
    whole : bool
        False where the capture was cut.
    host : str or None
        Host it was taken from, in a run with several.
    deleted : bool
        True for a log that has no path any more: the process writes to it, and nobody can read it there.
    source, note, sha256 : str or None
        Path or command it came from; remark; checksum taken at capture.
    """

    file: str
    path: Path
    kind: str | None
    promised: str | None = None
    captured_ns: int | None = None
    moment: int | None = None
    pid: int | None = None
    node: int | None = None
    whole: bool = True
    deleted: bool = False
    source: str | None = None
    note: str | None = None
    sha256: str | None = None
    host: str | None = None


class Run:
    """The evidence of one launch. Make it with `kit.open_run`.

    Attributes
    ----------
    path : pathlib.Path
        Folder or file that was opened.
    name : str
        Its name.
    captures : list of Capture
        Raw files, ordered by name.
    missing : list of dict
        What the recording lacks: `what`, `why`, `do`.
    captured_ns : int or None
        Moment that the evidence speaks of: as asked, else of the manifest, else of the newest file.
    captured_by : str
        Where that moment comes from: `given`, `manifest`, `file time`.
    offset_s : int
        UTC offset of the host's local time; `offset_known` tells whether it is more than an assumption.
    reports : dict of str to kit.parse.Report
        What each parser read and did not understand, once the file was read.
    knowledge : tuple of pathlib.Path
        Folders of the user's knowledge, see `kit.knowledge_paths`.
    """

    def __init__(
        self,
        path: Path,
        captures: list[Capture],
        manifest: dict | None,
        captured_at: str | None,
        knowledge: tuple[Path, ...] = (),
    ):
        self.path = path
        self.knowledge = knowledge
        self.name = (manifest or {}).get("name") or path.name
        self.captures = captures
        self.manifest = manifest or {}
        self.recorded = manifest is not None
        self.missing: list[dict] = list(self.manifest.get("missing") or [])
        self.reports: dict[str, Report] = {}
        self._places = hosts.places(self.manifest)
        self.offset_s = int(self.manifest.get("utc_offset_s") or 0)
        self.offset_known = "utc_offset_s" in self.manifest
        self.captured_ns, self.captured_by = self._captured(captured_at)

    def _captured(self, captured_at: str | None) -> tuple[int | None, str]:
        if captured_at is not None:
            ns, own = parse_time(captured_at, self.offset_s)
            if own is not None:
                self.offset_s, self.offset_known = own, True
            return ns, "given"
        if self.manifest.get("ended_at"):
            return parse_time(self.manifest["ended_at"])[0], "manifest"
        times = [capture.captured_ns for capture in self.captures if capture.captured_ns is not None]
        return (max(times) if times else None), "file time"

    def source(self, capture: Capture) -> Source:
        """What the parser of a capture is told."""
        captured = capture.captured_ns if self.recorded else self.captured_ns
        place = self._places.get(capture.host or "")
        offset_s, node = (place.utc_offset_s, place.number) if place else (self.offset_s, capture.node)
        return Source(capture.file, captured, offset_s, capture.moment, capture.pid, node)

    def scan(self, consumers: dict[str, Callable[[Row], None]], threads_from_ns: int | None = None) -> None:
        """Read every capture once and hand each row to the consumer of its frame: the way in bounded memory.

        Parameters
        ----------
        consumers : dict of str to callable
            By frame name; rows of other frames are passed over. A file that cannot be read is reported, never raised.
            Where `log_skipped` has a consumer too, lines of large logs that only repeat others are counted for it instead
            of being made rows (`kit.parse.log_fast`).
        threads_from_ns : int, optional
            The sampler's rows of threads from before this are not wanted.
        """
        for capture in self.captures:
            for frame, row in self._rows(capture, "log_skipped" in consumers, threads_from_ns):
                consume = consumers.get(frame)
                if consume is not None:
                    consume(row)
        if "gaps" in consumers:
            for row in self._gaps():
                consumers["gaps"](row)

    def _gaps(self) -> Iterator[Row]:
        """Stretches without samples, as the manifest notes them."""
        for gap in self.manifest.get("gaps") or ():
            begin, end = (parse_time(gap[key])[0] for key in ("from", "to"))
            row = {"time": begin, "end": end, "duration_s": (end - begin) / NS, "why": gap["why"], "capture": "run.json"}
            if gap.get("host") in self._places:
                row["capture"] = f"{gap['host']}/run.json"
                self._places[gap["host"]].put("gaps", row)
            yield row

    def _rows(self, capture: Capture, skim: bool = False, threads_from_ns: int | None = None) -> Iterator[tuple[str, Row]]:
        if capture.kind is None:
            return
        source, place = self.source(capture), self._places.get(capture.host or "")
        if threads_from_ns is not None:
            source.threads_from_ns = threads_from_ns + (place.ahead_ns if place else 0)
        skimmed = parse.skim_file(capture.path, source, self.knowledge) if skim and capture.kind == "log" else None
        report, rows = skimmed or parse.parse_file(capture.path, capture.kind, source, self.knowledge)
        self.reports[capture.file] = report
        try:
            for frame, row in rows:
                if capture.moment is not None:
                    row.setdefault("moment", capture.moment)
                if self.recorded and frame in FRAMES and FRAMES[frame].snapshot and row.get("time") is None:
                    row["time"] = capture.captured_ns
                if "moment" in row and "moment" not in FRAMES[frame].by_name:
                    del row["moment"]
                if place is not None:
                    place.put(frame if frame in FRAMES else "log", row)
                yield frame, row
        except OSError as error:
            report.odd(f"could not be read to its end: {error.strerror}", "")
        if report.facts.get("cut") and report.facts.get("ends_open"):
            capture.whole = False

    def rows(self, frame: str) -> list[Row]:
        """All rows of one frame, as plain dicts with times in nanoseconds."""
        _known(frame)
        found: list[Row] = []
        self.scan({frame: found.append})
        return found

    def frame(self, name: str, columns: list[str] | None = None) -> pandas.DataFrame:
        """One frame of the run.

        Parameters
        ----------
        name : str
            Name of a frame (`kit.frames.FRAMES`, docs/columns.md).
        columns : list of str, optional
            Load these columns only.

        Returns
        -------
        pandas.DataFrame
            With all declared columns; empty where the run holds no such evidence.

        Raises
        ------
        UsageError
            Where there is no such frame; the message names the closest.

        Examples
        --------
        >>> import kit
        >>> kit.open_run(kit.sample_path("sg01-capture-hang")).frame("gpus")["util_percent"].max().item()
        100.0
        """
        from kit import store

        declared = _known(name)
        size = sum(capture.path.stat().st_size for capture in self.captures if capture.kind)
        if size < store.CACHE_FROM_BYTES or name == "gaps":
            built = declared.build(self._timed(name))
            return built if columns is None else built[columns]
        folder = store.cache_folder(self.path, self.recorded)
        settings = f"{self.captured_ns} {self.offset_s} {knowledge_paths.version(self.knowledge)}".rstrip()
        settings += str(self._places) if self._places else ""
        key = store.cache_key([capture.path for capture in self.captures if capture.kind], settings)
        cached = store.load(folder, declared, key, columns)
        if cached is None:
            try:
                store.save(folder, declared, key, self._timed(name))
                cached = store.load(folder, declared, key, columns)
            except OSError:  # no room or no right to write: the cache is a convenience, the frame is not
                cached = declared.build(self._timed(name))
        return cached if columns is None else cached[columns]

    def _timed(self, name: str) -> Iterator[Row]:
        zero = self.launch_zero_ns
        timed = "t_s" in FRAMES[name].by_name
        found = (row for capture in self.captures for frame, row in self._rows(capture) if frame == name)
        for row in self._gaps() if name == "gaps" else found:
            if timed and zero is not None and row.get("time") is not None:
                row["t_s"] = (row["time"] - zero) / NS
            yield row

    @property
    def judged_from_ns(self) -> int | None:
        """Begin of the samples that a verdict looks at, where a triage set one: rates of the last seconds, not of all."""
        moment = self.manifest.get("judged_from")
        return parse_time(moment)[0] if moment else None

    @property
    def launch_zero_ns(self) -> int | None:
        """Launch zero: start of the launched process where the manifest knows it, else the first stamp of the logs."""
        if not hasattr(self, "_zero"):
            started = (self.manifest.get("launch") or {}).get("started_at")
            self._zero = parse_time(started)[0] if started else self._first_stamp()
        return self._zero

    def _first_stamp(self) -> int | None:
        first: int | None = None
        for capture in self.captures:
            if capture.kind != "log":
                continue
            for frame, row in self._rows(capture, skim=True):
                if frame == "log" and row.get("time") is not None and row.get("time_source") == "own":
                    first = row["time"] if first is None else min(first, row["time"])
                    break
        return first

    def unread(self) -> list[str]:
        """One sentence for each file that is not what it seems, empty, cut, or partly not understood."""
        said = []
        for capture in self.captures:
            if capture.path.stat().st_size == 0:
                said.append(f"{capture.file} is empty")
            elif capture.kind is None:
                said.append(
                    f"{capture.file} was not recognised"
                    + (f" (its name promises {capture.promised})" if capture.promised else "")
                )
            elif capture.promised:
                said.append(f"{capture.file} holds {capture.kind}, not {capture.promised} as its name says")
            if not capture.whole:
                said.append(f"{capture.file} is cut: {capture.note or 'its last line is not whole'}")
            report = self.reports.get(capture.file)
            for reason, count in (report.reasons if report else {}).items():
                said.append(f"{capture.file}: {count} × {reason}")
        return said

    def __str__(self) -> str:
        kinds = ", ".join(f"{capture.file} ({capture.kind or 'not recognised'})" for capture in self.captures)
        moment = show_time(self.captured_ns, self.offset_s)
        lines = [f"run {self.name}: {len(self.captures)} captures, as of {moment} ({self.captured_by})", f"  {kinds}"]
        lines += [f"  missing: {entry.get('what')}: {entry.get('why')}" for entry in self.missing]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(c.file)}</td><td>{escape(c.kind or 'not recognised')}</td>"
            f"<td style='text-align:right'>{c.path.stat().st_size:,}</td><td>{escape(c.note or '')}</td></tr>"
            for c in self.captures
        )
        return (
            f"<p><b>{escape(self.name)}</b>, as of {show_time(self.captured_ns, self.offset_s)} ({self.captured_by})</p>"
            f"<table><tr><th>file</th><th>kind</th><th>bytes</th><th>note</th></tr>{rows}</table>"
        )


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
                entry["file"],
                file,
                kind,
                promised,
                parse_time(at)[0] if at else None,
                entry.get("moment"),
                entry.get("pid"),
                entry.get("node"),
                bool(entry.get("whole", True)),
                bool(entry.get("deleted")),
                entry.get("source"),
                entry.get("note"),
                entry.get("sha256"),
                entry.get("host"),
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
        name,
        file,
        kind,
        promised,
        file.stat().st_mtime_ns,
        int(moment.group(1)) if moment and not node else None,
        int(pid.group(1)) if pid else None,
        int(node.group(1)) if node else None,
    )


def _kind(file: Path, declared: str | None) -> tuple[str | None, str | None]:
    """Kind of a file: as declared where that is known and plausible, else by its content and name."""
    try:
        head = parse.head_of(file)
    except PermissionError:
        return None, None
    if declared in parse.formats():
        return declared, None
    return parse.recognise(file.name, head)


def _kind_by_grammar(file: Path, folders: tuple[Path, ...]) -> str | None:
    """Kind of a file that is no format known here, but a log of a server that the user's knowledge describes."""
    try:
        return parse.recognise_server(parse.head_of(file), folders)
    except PermissionError:
        return None


def _known(name: str):
    if name in FRAMES:
        return FRAMES[name]
    from difflib import get_close_matches

    if name in TABLES:
        raise UsageError(
            f"{name} is no frame of a run",
            "it is made of a verdict",
            f"use kit.analyse.verdict.tables.{name}(run) or: kit export RUN {name}",
        )
    near = get_close_matches(name, FRAMES, 1, 0.3)
    raise UsageError(
        f"there is no frame {name!r}",
        f"the closest is {near[0]!r}" if near else "no name is close",
        f"choose one of: {', '.join(FRAMES)}",
    )
