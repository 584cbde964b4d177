"""A library of launches: a line a run, what repeats, and how it went over time.

What a run was is judged once and kept in the user's cache, under a key of the kit's sources, the user's knowledge, and the run's
files. `kit.attempts` asks which setting separates launches, `kit.similar` which earlier one was like this: both read every run
given. This one is the index over all.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from statistics import median
from time import time_ns
from typing import TYPE_CHECKING, Any

from kit import knowledge_paths, progress
from kit.analyse.knowledge.judged_run import open_case, solved
from kit.clock import NS, parse_time, show_duration, show_time
from kit.document import Document, Section, Shown, Table, items, percent
from kit.errors import EvidenceError, KitError, UsageError
from kit.folder import write_whole
from kit.schema import table_of
from kit.store import cache_folder
from kit.words import count_of, named, short

if TYPE_CHECKING:
    import pandas

GOOD, BAD = ("ready", "ended"), ("stalled", "failed")
"""States of launches that worked, and of those that did not; the others are open."""
RECENT, MOST_GONE = 5, 3
"""The last so many launches are held against those before; of what repeated only before, so much is told."""
SLOWER = 1.5
"""A launch that takes so many times as long to be ready as the median of those before is told; neighbours differ by a tenth."""
DEEPEST, MOST_FILES = 4, 20_000
"""Folders that are looked through below the library, and files of a run that its key is made of."""
PACKED = re.compile(r"\.(?:log|zip|tgz|tar|tar\.\w+|7z)(?:\.gz)?$", re.IGNORECASE)
"""Files beside the runs that are a launch each: archives and logs."""
LONGEST_NAME, MOST_RANKS = 40, 4
HEADS = ("run", "when", "launch", "outcome", "belief", "to ready", "silent")
ALIKE = ("launch",)
SPARE = ("silent", "launch", "belief", "to ready", "when")
"""What a narrow terminal leaves out first: what was launched is told by the run's name, mostly."""
NEVER_BROKEN = frozenset(("when", "belief", "to ready", "silent"))
HALF_A_YEAR_NS = 183 * 86400 * NS
AGO_S = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass
class LibraryRun:
    """A run of a library: what its verdict says, in plain types."""

    name: str
    path: str  # from the library's folder
    error: str = ""  # why it could not be read; the rest is empty then
    # when it was launched, else when its evidence was taken: UTC, and local time of the host
    at_ns: int | None = None
    at: str = ""
    dated: bool = False  # whether that stands in the evidence; else it is the time of a file
    server: str = ""
    model: str = ""
    world_size: int | None = None
    state: str = ""
    klass: str = ""
    plain: str = ""
    phase: str = ""
    ranks: list[int] = field(default_factory=list)  # the odd ones
    confidence: float = 0.0
    ready_s: float | None = None  # from launch to ready
    lasted_s: float | None = None  # from launch to the end of the evidence
    silence_s: float | None = None  # since the last progress
    turned_out: str = ""  # the class that it turned out to be, where somebody said so (`kit learn`)

    @property
    def outcome(self) -> str:
        """How it ended: the class in words, by its verdict or as it turned out, and the phase of one that did not work."""
        phase = f"{self.phase}: " if self.state in BAD and self.phase else ""
        return f"{phase}{self.plain} ({self.turned_out or self.klass})"

    @property
    def classes(self) -> tuple[str, ...]:
        """What it may be asked for by: its class, what it turned out to be, its state."""
        return tuple(filter(None, (self.klass, self.turned_out, self.state)))

    def has(self, text: str) -> bool:
        """Whether what is told of it has a word."""
        told = (self.name, self.path, self.server, self.model, self.outcome, self.state, self.error)
        return text.casefold() in " ".join(told).casefold()

    @property
    def worked(self) -> bool | None:
        """Whether it became ready; None where that is open."""
        return True if self.state in GOOD or self.ready_s is not None else False if self.state in BAD else None

    def to_dict(self) -> dict[str, Any]:
        """Plain types under the names of the attributes; `class` for `klass`."""
        known = asdict(self)
        return {"class" if name == "klass" else name: value for name, value in known.items()}


@dataclass(repr=False)
class Library(Shown):
    """The runs of a folder, the newest first. Make it with `kit.runs`.

    Attributes
    ----------
    folder : pathlib.Path
    runs : list of LibraryRun
        Those that were asked for; `total` is the number of all.
    """

    folder: Path
    runs: list[LibraryRun]
    total: int

    @property
    def read(self) -> list[LibraryRun]:
        """Runs with an answer, the newest first."""
        return [run for run in self.runs if not run.error]

    def to_dict(self) -> dict[str, Any]:
        """Plain types: `folder`, `total`, `runs`, `trends`."""
        return {
            "folder": str(self.folder),
            "total": self.total,
            "runs": [run.to_dict() for run in self.runs],
            "trends": trends(self.read),
        }

    def frame(self) -> pandas.DataFrame:
        """A row a run, under the names of `LibraryRun`; `class` for `klass`."""
        names = ["class" if one.name == "klass" else one.name for one in fields(LibraryRun)]
        return table_of([run.to_dict() for run in self.runs], names)

    def document(self, brief: bool = False) -> Document:
        """How the launches ended, what repeats, a line a run; `brief`: without the lines."""
        states = Counter(run.state for run in self.read)
        failed = [run for run in self.runs if run.error]
        parts = [f"{count} {state}" for state, count in states.most_common()]
        parts += [f"{len(failed)} could not be read"] if failed else []
        count = count_of(len(self.runs), "launch", "launches")
        many = count if len(self.runs) == self.total else f"{len(self.runs):,} of {self.total:,} launches"
        sections = [Section("trend", items(trends(self.read)))]
        if not brief:
            sections.append(Section("runs", [self._table()]))
        sections.append(Section("not read", items([f"{run.path}: {run.error}" for run in failed], "!")))
        return Document(f"{many}: {', '.join(parts) or 'none'}", sections, str(self.folder))

    def _table(self) -> Table:
        """A line a run; server, model and ranks are told once where they are the same in all."""
        newest = max((run.at_ns or 0 for run in self.read), default=0)
        rows = [_cells(run, newest) for run in self.read]
        told = [{row[n] for row in rows} for n in range(len(HEADS))]
        shown = [n for n, head in enumerate(HEADS) if any(told[n]) and (head not in ALIKE or len(told[n]) > 1)]
        alike = [f"{head} {rows[0][n]}" for n, head in enumerate(HEADS) if n not in shown and any(told[n])]
        return Table(
            [HEADS[n] for n in shown],
            [[row[n] for n in shown] for row in rows],
            caption=f"the same in all: {', '.join(alike)}" if alike else "",
            numeric=NEVER_BROKEN,
            spare=SPARE,
            odd={n for n, run in enumerate(self.read) if run.state in BAD},
        )

    def __repr__(self) -> str:
        return f"<Library {self.folder}: {len(self.runs)} of {self.total} runs>"


def _lasted(seconds: float) -> str:
    """A duration in a narrow column: what takes minutes is told without seconds."""
    return re.sub(r"(?<=min) \d+ s$", "", show_duration(seconds))


def _cells(run: LibraryRun, newest_ns: int) -> tuple[str, ...]:
    """A run under `HEADS`. As `ls -l` does, what is older than half a year is told by its date alone, a file's time by `?`."""
    at = run.at[5:16] if newest_ns - (run.at_ns or 0) < HALF_A_YEAR_NS else run.at[:10]
    phase = f"{run.phase}: " if run.phase and run.state not in GOOD else ""
    ranks = f", {named('rank', run.ranks)}" if 0 < len(run.ranks) <= MOST_RANKS else ""
    model = short(run.model.rstrip("/").rpartition("/")[2], LONGEST_NAME)
    size = count_of(run.world_size, "rank") if (run.world_size or 0) > 1 else ""
    so_far = "" if not run.lasted_s or run.state == "failed" else f"≥ {_lasted(run.lasted_s)}"  # what failed never will be
    ready = so_far if run.ready_s is None else _lasted(run.ready_s)
    return (
        short(run.path, LONGEST_NAME),
        at if run.dated or not at else f"{at.split(' ')[0]} ?",
        ", ".join(filter(None, (f"{run.server} {model}".strip(), size))),
        phase + run.plain + ranks,
        percent(run.confidence) if run.klass != "undetermined" else "",
        ready,
        "" if run.silence_s is None else _lasted(run.silence_s),
    )


def runs(
    folder: str | Path = ".",
    *,
    text: str = "",
    klass: str = "",
    since: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    step: Callable[[str], None] = lambda what: None,
) -> Library:
    """List the launches of a folder: when, what, how each ended; and what repeats.

    Parameters
    ----------
    folder : str or path
        Recorded runs at any depth, folders of loose evidence, archives and logs in it.
    text : str, optional
        Keep those with this word in name, path, server, model or outcome.
    klass : str, optional
        Keep those of this class or state.
    since : str, optional
        Keep those of this time or later: `2026-02-18`, or so long ago: `7d`, `12h`.
    knowledge : path or paths, optional
        As for `kit.open_run`.
    step : callable, optional
        Is handed the name of each run that is judged now.

    Returns
    -------
    Library
        A run that cannot be read is kept, with the reason.

    Raises
    ------
    EvidenceError
        Where there is no such folder, or nothing in it.
    UsageError
        Where `since` is no time, or `klass` is none that a run has.

    Examples
    --------
    >>> import kit
    >>> library = kit.runs(kit.sample_path("launches"), klass="ready")
    >>> len(library.runs), library.total, library.runs[0].state
    (10, 10, 'ready')
    """
    folder, folders = Path(folder).expanduser(), knowledge_paths.folders(knowledge)
    from_ns = moment(since) if since is not None else 0
    places = launches_in(folder)
    if not places:
        raise EvidenceError(f"no runs in {folder}", "it holds no run, log or archive", "name a folder of runs: kit runs FOLDER")
    every = [judged(place, folder, folders, step) for place in progress.each(places)]
    known = {word for run in every for word in run.classes}
    if klass and klass not in known:
        raise UsageError(f"no run is {klass}", f"the runs are {', '.join(sorted(known)) or 'not readable'}", "name one of these")
    kept = [run for run in every if run.has(text) and klass in ("", *run.classes) and (run.at_ns or 0) >= from_ns]
    kept.sort(key=lambda run: (-(run.at_ns or 0), run.path))
    return Library(folder, kept, len(every))


def moment(text: str, now_ns: int | None = None) -> int:
    """A time, or how long ago, as UTC nanoseconds.

    Examples
    --------
    >>> moment("1970-01-02"), moment("2h", now_ns=7_200 * NS)
    (86400000000000, 0)
    """
    if ago := re.fullmatch(r"(\d+)\s*([mhdw])", text.strip()):
        return (time_ns() if now_ns is None else now_ns) - int(ago[1]) * AGO_S[ago[2]] * NS
    return parse_time(text if ":" in text else f"{text} 00:00")[0]


def launches_in(folder: Path) -> list[Path]:
    """Launches of a folder: recorded runs, folders of loose evidence, archives, logs. A run that is named is the only one."""
    if not folder.is_dir():
        raise EvidenceError(f"cannot list {folder}", "there is no such folder", "name a folder of runs: kit runs FOLDER")
    if _is_run(folder):
        return [folder]
    found = list(_below(folder, DEEPEST))
    files = [path for path in _children(folder) if path.is_file()]
    return found + [path for path in files if PACKED.search(path.name)] if found else [folder] if files else []


def _below(folder: Path, depth: int) -> Iterable[Path]:
    for child in _children(folder):
        if not child.is_dir() or child.is_symlink():
            continue
        if _is_run(child):
            yield child
            continue
        below = list(_below(child, depth - 1)) if depth > 1 else []
        recorded = [path for path in below if _is_run(path)]
        if recorded or not any(path.is_file() for path in _children(child)):
            yield from below
        else:
            yield child  # loose evidence, perhaps with a folder a rank


def _is_run(folder: Path) -> bool:
    return (folder / "run.json").exists() or (folder / "raw").is_dir()


def _children(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return []


def judged(path: Path, folder: Path, knowledge: Sequence[Path], step: Callable[[str], None] = lambda what: None) -> LibraryRun:
    """A run of a library, from the cache where nothing changed since it was judged."""
    at = str(path.relative_to(folder)) if path != folder else path.resolve().name
    place, key = cache_folder(path, recorded=False) / "judged.json", _key(path, knowledge)
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        kept = json.loads(place.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return LibraryRun(**{**kept["run"], "path": at})
    step(at)
    try:
        run = _judge(path, at, knowledge)
    except KitError as error:
        run = LibraryRun(path.name, at, f"{error.what}: {error.why}" if error.why else error.what)
    except Exception as error:  # a run that a reader fails on must not hide the others
        return LibraryRun(path.name, at, f"reading it failed: {type(error).__name__}: {short(str(error), 200)}")
    with suppress(OSError):  # a disk that is full, a home that may not be written
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(place, json.dumps({"key": key, "run": asdict(run)}))
    return run


def _judge(path: Path, at: str, knowledge: Sequence[Path]) -> LibraryRun:
    case = open_case(path, None, knowledge)
    run, verdict, scene = case.run, case.verdict, case.scene
    zero = run.launch_zero_ns
    end = run.captured_ns if run.captured_known else scene.log.last_time
    when = next((ns for ns in (zero, end, run.captured_ns) if ns is not None), None)
    ready = [step.time for steps in scene.progression.by_rank.values() for step in steps if step.phase == "ready" and step.time]
    noted = solved(run, knowledge)

    def since(ns: int | None) -> float | None:
        return None if ns is None or zero is None else max(0.0, (ns - zero) / NS)

    return LibraryRun(
        name=run.name,
        path=at,
        at_ns=when,
        at=show_time(when, run.offset_s) if when is not None else "",
        dated=zero is not None or run.captured_known,
        server=next(iter(case.known["server"]), ""),
        model=str(case.settings.options.get("model") or case.settings.options.get("model_path") or ""),
        world_size=verdict.facts.value("world_size"),
        state=verdict.state,
        klass=verdict.klass,
        plain=verdict.plain,
        phase=verdict.phase or "",
        ranks=verdict.ranks,
        confidence=verdict.confidence,
        ready_s=since(max(ready, default=None)),
        lasted_s=since(end),
        silence_s=verdict.facts.value("silence_s") if verdict.state not in ("ready", "ended") else None,
        turned_out=noted["class"] if noted else "",
    )


@cache
def _kit_version() -> str:
    """Hash of the kit's sources and knowledge: what decides a verdict."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[2]
    for path in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".toml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _key(path: Path, knowledge: Sequence[Path]) -> str:
    """Of the kit, the user's knowledge, and the run's files: size, times of change (which no copy keeps), inode."""
    digest = hashlib.sha256(_kit_version().encode())
    for place in (path, *knowledge):
        files = [place] if place.is_file() else sorted(place.rglob("*"))[:MOST_FILES]
        for file in files:
            with suppress(OSError):
                stat, inside = file.stat(), file.relative_to(place)
                if inside.parts[:1] != ("frames",):  # the cache of a recorded run
                    digest.update(f"{inside} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}\n".encode())
    return digest.hexdigest()


def trends(newest_first: Sequence[LibraryRun]) -> list[str]:
    """What the launches say together: since when none works, what repeats, what takes longer.

    Examples
    --------
    >>> def run(day, state, klass):
    ...     return LibraryRun(f"r{day}", f"r{day}", at=f"2026-02-{day}", server="vllm", state=state, klass=klass, plain="x")
    >>> for said in trends([run(14, "stalled", "hang"), run(13, "stalled", "hang"), run(12, "ready", "ready")]):
    ...     print(said)
    vllm: none of the last 2 launches worked (since r13, 2026-02-13); before, 1 of 1 did
    x (hang): 2 of the last 3 launches
    """
    said = []
    of_a_kind: dict[tuple[str, str], list[LibraryRun]] = defaultdict(list)
    for run in newest_first:
        of_a_kind[run.server, run.model].append(run)
    for (server, model), group in of_a_kind.items():
        what = " ".join(filter(None, (server or "launches of an unknown server", short(model, LONGEST_NAME))))
        said += [f"{what}: {sentence}" for sentence in (_broke(group), _slower(group)) if sentence]
    recent, before = newest_first[:RECENT], newest_first[RECENT:]
    ends, earlier = (Counter(run.outcome for run in part if run.state in BAD) for part in (recent, before))
    for outcome, count in ends.most_common():
        if count > 1 or outcome in earlier:
            past = f", {earlier[outcome]} of the {len(before)} before" if before else ""
            said.append(f"{outcome}: {count} of the last {len(recent)} launches{past}")
    for outcome, count in earlier.most_common(MOST_GONE):
        if count > 1 and outcome not in ends:
            last = next(run for run in before if run.outcome == outcome)
            said.append(f"{outcome}: {count} of the {len(before)} launches before the last {len(recent)}, none since")
            said[-1] += f"; the last was {last.path}, {last.at[:10]}"
    return said


def _broke(newest_first: list[LibraryRun]) -> str:
    """Since when none of a kind works, where some did before."""
    decided = [run for run in newest_first if run.worked is not None]
    bad = next((n for n, run in enumerate(decided) if run.worked), len(decided))
    before = decided[bad:]
    if not bad or not before:
        return ""
    first = decided[bad - 1]
    which = "the last launch did not work" if bad == 1 else f"none of the last {bad} launches worked"
    return (
        f"{which} (since {first.path}, {first.at[:10]}); before, {sum(bool(run.worked) for run in before)} of {len(before)} did"
    )


def _slower(newest_first: list[LibraryRun]) -> str:
    """Whether the last one took much longer to be ready than those before."""
    took = [run.ready_s for run in newest_first if run.ready_s]
    usual = median(took[1:]) if len(took) > 2 else 0.0
    if not usual or took[0] < SLOWER * usual:
        return ""
    before = f"{took[0] / usual:.1f} times the median of the {len(took) - 1} before"
    return f"the last one was ready after {show_duration(took[0])}, {before}"
