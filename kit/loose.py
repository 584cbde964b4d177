"""Files of any names and forms to captures: what intake makes of each, what the names say, which files are one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kit import parse
from kit.clock import in_range
from kit.folder import why_not
from kit.intake import Chain, Content, Note, Segment, Text, naming, overlaps, prose, segments, whole
from kit.parse import log_detection
from kit.parse.prose import claims_something
from kit.parse.text import HEAD_BYTES
from kit.parse.tool_words import TOOL_WORDS
from kit.parse.tracers import other_tracer
from kit.reading import FAILED, Capture
from kit.untrusted import WRONG_FORM, no_surrogates

MOST_FILES = 2000
"""Of a folder with more files only those that changed last are read: it is a whole host's logs, or no evidence folder."""
_REPLICA = re.compile(r"(?:[-_](?:\d{1,20}|[0-9a-f]{8,10}(?=-)|(?=[a-z]*\d)[a-z0-9]{5}$)){1,8}$")
"""What Kubernetes and compose put behind the name of a workload: numbers, the hash of a ReplicaSet, five signs for a pod."""
_RAISED = "Traceback (most recent call last)"
_OTHERS = {".git", ".venv", "node_modules", "__pycache__", "site-packages", ".ipynb_checkpoints", "frames"}
_NO_EVIDENCE = tuple((re.compile(one["begins"]), one["what"]) for one in TOOL_WORDS["no_evidence"])
"""What lies beside evidence and is none: (its beginning, what it is)."""

_NO_OUTPUT = re.compile(
    r"\.(?:md|rst|tex|html?|xml|svg|css|ya?ml|toml|ini|cfg|csv|tsv|json[l5]?|py|sh|ipynb|[jt]sx?|c|cc|cpp|h|go|rs)$", re.I
)
"""Names of files that people write, or that hold data: no program printed them."""
_ISSUE = re.compile(r"\.(?:md|markdown|rst)$", re.I)
"""Names of what people write that may quote what a program printed."""


def captures(
    base: Path, given: Iterable[Path], folders: tuple[Path, ...] = (), inside: Path | None = None
) -> tuple[list[Capture], list[Note]]:
    """Captures of files and folders, in the order of their names, and notes on what was not read.

    `base`: folder, or the one file, that was opened: names are relative to it. `given`: files and folders. `folders`: folders of
    the user's knowledge. `inside`: folder that no file may lead out of; by default each folder that is given.
    """
    notes: list[Note] = []
    base = base if base.is_dir() else base.parent
    files = list(_files(base, given, notes, inside))
    found: list[Capture] = []
    for path in files:
        name = _name(path, base)
        try:
            found += _of_file(path, name, folders, notes)
        except PermissionError:
            notes.append(Note(name, "cannot be read: permission denied"))
        except WRONG_FORM as error:  # a wrapping of a form that its tool never writes must not hide the other files
            notes.append(Note(name, f"{FAILED}: {type(error).__name__}: {error}"[:200]))
    if not any(capture.kind not in (None, prose.KIND) for capture in found):
        texts = [one for one in found if one.size_bytes and one.kind is None]
        texts = [one for one in texts if _ISSUE.search(one.file) or not _NO_OUTPUT.search(one.file)]
        heads = {one.id: one.head() for one in texts}
        # A few last lines that nothing tells are all that there is: they are read as a log, which decides nothing by itself.
        printed = [one for one in texts if _printed(heads[one.id])] or [
            one for one in texts if not one.promised and not _ISSUE.search(one.file) and _legible(heads[one.id])
        ]
        for capture in printed:
            capture.kind = "log"
    found = _one_log(_without_the_launch_before(_without_neighbours(found, notes), notes))
    found = _each_line_once(found, notes)
    nodes = naming.nodes(capture.file for capture in found)
    for capture in found:
        capture.node = nodes.get(capture.file, capture.node)
    return found, notes


def _name(path: Path, base: Path) -> str:
    return no_surrogates(str(path.relative_to(base)) if path.is_relative_to(base) else path.name)


def _files(base: Path, given: Iterable[Path], notes: list[Note], bound: Path | None) -> Iterator[Path]:
    """Regular files, each folder in the order of its names; on what is none, or leads elsewhere, a note."""
    for path in given:
        found, within = [path], bound
        if path.is_dir():
            found, within = [], bound or path
            for folder, names, files in os.walk(path):
                names[:] = sorted(name for name in names if not name.startswith(".") and name not in _OTHERS)
                found += [Path(folder, name) for name in files if not name.startswith(".")]
            if len(found) > MOST_FILES:
                notes.append(Note(path.name, f"holds {len(found)} files; only the {MOST_FILES} that changed last were read"))
                found = sorted(found, key=lambda file: file.lstat().st_mtime_ns)[-MOST_FILES:]
        for file in sorted(found):
            if why := why_not(file, within):
                notes.append(
                    Note(_name(file, base), f"{why}: it was not read{'; name it where it lies' if 'leads' in why else ''}")
                )
            else:
                yield file


def _of_file(path: Path, name: str, folders: tuple[Path, ...], notes: list[Note]) -> Iterator[Capture]:
    promised: dict[str, str | None] = {}

    def recognise(name: str, head: str) -> str | None:
        kind, promised[name] = parse.recognise(name, head)
        return kind or (parse.recognise_server(head, folders) if folders else None)

    if path.stat().st_size == 0:
        yield _capture(path, name, None)
    items = list(_in_one_piece(path, name) or segments(path, recognise, name, claims_something))
    written = [item for item in items if isinstance(item, Segment) and item.kind == prose.KIND]
    spoken = {item.file: item for item in written if not _no_evidence(item)}
    for item in items:
        if isinstance(item, Note):
            notes.append(item)
            continue
        if item.kind in (None, "strace") and (why := _of_another_tool(item.content.text.head(HEAD_BYTES))):
            notes += [Note(item.file, why)] if Note(item.file, why) not in notes else []
            continue
        of_words = item.kind == prose.KIND
        if (of_words or item.kind is None and item.how == "file") and of_words != (item.file in spoken):
            if item.file in spoken and _printed((left := prose.around(item, spoken[item.file])).head()):
                yield _capture(path, name, replace(left, kind="log"))
            continue  # what people wrote is one capture, or nothing that counts
        if item.how == "talk" or item.how == "header" and item.kind is None and name.endswith(".ipynb"):  # an output of a cell
            item.kind = "log" if _printed(item.head()) and not _tried_again(item, items) else item.kind
        elif item.how in ("fence", "prompt") and item.kind is None and _milestones(item.head()):
            item.kind = "log"
        if item.kind is None and item.how not in ("file", "stream"):
            notes.append(_unknown(item))
        elif item.kind is None and (why := _no_evidence(item)):
            notes.append(Note(item.file, f"{why}, no evidence of a launch"))
        else:
            yield _capture(path, name, item, promised.get(item.name))


def _in_one_piece(path: Path, name: str) -> list[Segment]:
    """The whole of a large file that holds one tool's output from its beginning to its end: nothing is looked for in it."""
    stat = path.stat()
    if stat.st_size < parse.TABLES_FROM_BYTES:
        return []
    with open(path, "rb") as file:
        kinds = set()
        for at in (0, stat.st_size // 2, stat.st_size - HEAD_BYTES):
            file.seek(at)
            lines = file.read(HEAD_BYTES).decode("utf-8", "replace").split("\n")
            kinds.add(parse.recognise(path.name, "\n".join(lines[at > 0 :]))[0])
    kind = kinds.pop()
    if kinds or kind is None or parse.formats()[kind].tables is None:
        return []
    content = whole(Text(name, path, stat.st_size, None, stat.st_mtime_ns))
    return [Segment(content, "file", path.name, kind=kind)]


def _legible(head: str) -> bool:
    """Whether a head is text with words in it, and no binary data."""
    return bool(re.search(r"[^\W\d_]{3}", head)) and head.count("\ufffd") <= parse.BINARY * len(head) and "\0" not in head


def _printed(head: str) -> bool:
    """Whether a text that no format knows is what some program printed, by its form: a level, a bar, an end, an error."""
    rows = (row for _, row in parse.formats()["log"].parse(head.splitlines(), parse.Source(""), parse.Report()) if "kind" in row)
    return any(row.get("milestone") or row.get("bar_kind") or row.get("level") or row["kind"] == "error" for row in rows)


def _tried_again(item: Segment, items: list[Segment | Note]) -> bool:
    """Whether a cell of a notebook failed, and cells after it printed logs without an error: it was mended in between."""
    if _RAISED not in item.head():
        return False
    later = [one.head() for one in items if isinstance(one, Segment) and one.how == "header" and one.line > item.line]
    return any(map(_printed, later)) and not any(_RAISED in head for head in later)


def _milestones(head: str) -> bool:
    """Whether each line of a block between fences is one that the grammars know: too short to look like a log, and one."""
    lines = [line for line in head.splitlines() if line.strip()]
    rows = [row for _, row in parse.formats()["log"].parse(lines, parse.Source(""), parse.Report()) if "kind" in row]
    return bool(rows) and all(row.get("milestone") or row.get("bar_kind") for row in rows)


def _no_evidence(segment: Segment) -> str | None:
    head = segment.content.text.head(HEAD_BYTES).decode("utf-8", "replace") if segment.kind == prose.KIND else segment.head()
    return next((why for sign, why in _NO_EVIDENCE if sign.search(head)), None)


def _of_another_tool(head: bytes) -> str | None:
    """What a text is that another tool than strace wrote, some of whose lines could be strace's."""
    tool = other_tracer(head.decode("utf-8", "replace"))
    return f"is output of {tool}, not of strace" if tool else None


def _unknown(segment: Segment) -> Note:
    head = segment.head().strip()
    announced = {
        "prompt": f"output of `{segment.command}`",
        "fence": "a block of code",
        "header": "a file",
        "assistant": "an assistant's answer",
    }.get(segment.how, "a part")
    why = _no_evidence(segment) or (
        f"{announced}, which is no evidence" if segment.how == "assistant" else f"{announced} that no parser knows"
    )
    return Note(segment.file, why, segment.line, head.split("\n")[0][:200], head.count("\n") + 1)


def _capture(path: Path, name: str, segment: Segment | None, promised: str | None = None) -> Capture:
    as_it_lies = segment is None or segment.how == "file" and segment.content.text.data == path and not segment.content.strip
    title = None if segment is None or segment.how == "file" else segment.name or None
    file = name if segment is None else segment.file
    here = naming.named(f"{file}/{title}" if title else file)
    if title is None and segment is not None and segment.how != "file":
        here = here._replace(moment=None)  # parsers number the moments within a text themselves
    when = path.stat().st_mtime_ns if segment is None else segment.content.text.mtime_ns
    when = when if when is not None and in_range(when) else None
    return Capture(
        file=file,
        path=path,
        kind=segment.kind if segment else None,
        promised=promised if promised and segment is not None and segment.kind != promised else None,
        captured_ns=when,
        moment=here.moment if title is None else None,
        pid=here.pid,
        node=here.node,
        rank=here.rank,
        content=None if as_it_lies or segment is None else segment.content,
        name=title,
        source=segment.command or None if segment else None,
        stream=None if segment is None else segment.content.text.stream,
        compared=segment is not None and segment.compared,
    )


def _without_neighbours(found: list[Capture], notes: list[Note]) -> list[Capture]:
    """Captures without the logs of services beside the launch, where a file holds those of several."""
    of_launch: dict[str, set[str]] = {}
    streams = [capture for capture in found if capture.stream]
    told = [capture for capture in streams if log_detection.of_a_launch(capture.head())]
    if not told:  # the only web server among them is the launch; of several it may be any
        web = [capture for capture in streams if log_detection.of_a_launch(capture.head(), own=False)]
        told = web if len({capture.stream for capture in web}) == 1 else []
    pods = {(capture.file, _pod(capture)) for capture in told}
    # A node's name is that of all containers of a pod, of which one may tell the launch and the others stand beside it.
    told += [one for one in streams if naming.is_node(one.stream or "") and (one.file, _pod(one)) not in pods]
    for capture in told:
        of_launch.setdefault(capture.file, set()).add(_workload(capture.stream or ""))
    kept = []
    for capture in found:
        own = of_launch.get(capture.file, set())
        if not own or not capture.stream or capture.kind not in (None, "log") or _workload(capture.stream) in own:
            kept.append(capture)
            continue
        line = capture.content.place(1)[1] if capture.content else None
        lines = capture.content.head(HEAD_BYTES).decode("utf-8", "replace").split("\n") if capture.content else [""]
        why = f"holds lines of {capture.stream}, which is no part of the launch, and they were set aside"
        notes.append(Note(capture.file, why, line, lines[-2 if len(lines) > 1 else 0][:200], len(lines) - 1))
    return kept


def _workload(service: str) -> str:
    """Name of a service without the numbers and hashes of its replicas.

    Examples
    --------
    >>> _workload("vllm-1"), _workload("llama-6c9f7d9c4b-x2x7k/server"), _workload("decode-0-1/main")
    ('vllm', 'llama/server', 'decode/main')
    """
    pod, _, container = service.partition("/")
    return _REPLICA.sub("", pod) + ("/" + container) * bool(container)


def _pod(capture: Capture) -> str:
    return (capture.stream or "").partition("/")[0]


def _without_the_launch_before(found: list[Capture], notes: list[Note]) -> list[Capture]:
    """Captures without the logs of the launch before, or for comparison, where there is a log of this one."""
    logs = [capture for capture in found if capture.kind == "log"]
    named = [capture for capture in logs if any(map(naming.of_the_launch_before, (capture.file, capture.title)))]
    aside = [capture for capture in logs if capture in named or capture.compared]
    if not aside or len(aside) == len(logs):
        return found
    before, compared = "is the log of the launch before, by its name", "holds a log for comparison, by the words before it"
    notes += [Note(one.file, f"{before if one in named else compared}, and was set aside") for one in aside]
    return [capture for capture in found if capture not in aside]


def _each_line_once(found: list[Capture], notes: list[Note]) -> list[Capture]:
    """Captures with the lines of a log that are there twice counted once; copies of a log's end are one log."""
    kept: list[Capture] = []
    before: dict[int, overlaps.Lines] = {}
    for capture in found:
        lines = overlaps.lines_of(_content(capture)) if capture.kind == "log" and not isinstance(capture.content, Chain) else None
        if lines is None or len(before) >= overlaps.MOST_LOGS:
            kept.append(capture)
            continue
        if (content := overlaps.once(lines)) is not None:
            notes.append(_repeated(capture, lines.content, content))
            capture = replace(capture, content=content)
            lines = overlaps.lines_of(content) or lines
        same = [at for at in before if not (_writer(kept[at]) or _writer(capture))]
        for at in same:
            if overlaps.holds(before[at], lines):
                notes.append(
                    Note(capture.file, f"holds lines of {kept[at].file} again, and they count once", None, None, len(lines.texts))
                )
                break
            if overlaps.holds(lines, before[at]):
                notes.append(
                    Note(
                        kept[at].file,
                        f"holds lines of {capture.file} again, and they count once",
                        None,
                        None,
                        len(before[at].texts),
                    )
                )
                kept[at], before[at] = capture, lines
                break
            for one, two, first, last in ((before[at], lines, kept[at], capture), (lines, before[at], capture, kept[at])):
                if (overlap := overlaps.follows(one, two)) is not None:
                    parts = (_content(first), two.from_line(overlap))
                    kept[at] = replace(last, content=Chain(parts))
                    notes.append(Note(last.file, f"goes on where {first.file} ends: {overlap} lines are in both, and count once"))
                    del before[at]
                    break
            else:
                continue
            break
        else:
            before[len(kept)] = lines
            kept.append(capture)
    return kept


def _content(capture: Capture) -> Content:
    """What is read of a log: a part of its file, or all of it."""
    return (
        capture.content if isinstance(capture.content, Content) else whole(Text(capture.file, capture.path, capture.size_bytes))
    )


def _writer(capture: Capture) -> bool:
    """Whether a log is that of one rank, node or service: others print the same lines."""
    return capture.rank is not None or capture.node is not None or capture.stream is not None


def _repeated(capture: Capture, before: Content, content: Content) -> Note:
    size = before.size - content.size
    line = before.place(1)[1]
    return Note(capture.file, f"holds lines twice that count once ({size:,} bytes)", line)


def _one_log(found: list[Capture]) -> list[Capture]:
    """Captures with the parts of each rotated log joined, the oldest first."""
    logs = {capture.file: capture for capture in found if capture.kind == "log" and not isinstance(capture.content, Chain)}
    for parts in naming.rotated(logs):
        contents: list[Content] = []
        for name in parts:
            capture = logs[name]
            contents.append(_content(capture))
        last = logs[parts[-1]]
        joined = replace(last, content=Chain(tuple(contents)))
        found = [joined if capture is last else capture for capture in found if capture is last or capture.file not in parts[:-1]]
    return found
