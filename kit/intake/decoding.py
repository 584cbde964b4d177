"""Members to texts: UTF-8, lines as their writer wrote them, whatever they went through on the way.

A text that needs nothing is handed on as it lies on the disk. The others are rewritten once, in blocks, and remember where
each line stood.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

from kit.intake import announce, blocks, markup, shippers, streams, terminal, wrapping
from kit.intake.content import Numbers, Spool, Text

HEAD_BYTES = 65_536
LARGE_BYTES = 64 << 20
"""A text of this size with colours and nothing else of a terminal is not rewritten: its parsers take colours off."""
BINARY = 0.05
"""A head with a larger share of bytes that are in no text is none: pickles of the flight recorder have a tenth."""
MOST_WRAPPINGS = 3
"""A quote of a numbered copy of what `ts` printed has three."""
OPENED_BYTES = 8 << 20
"""Largest text whose quoted and indented stretches are looked for: a mail, an issue, a chat."""


_DOCUMENT = re.compile(rb'\s*(?:[{"]|\[\s*(?:[\[{"\]]|-?[\d.]+\s*[,\]]))')
"""How JSON begins; a log may begin with a bracket, too."""


def encoding_of(head: bytes) -> str:
    """Tell the encoding from the first bytes: a byte-order mark, the NUL pattern of UTF-16, else UTF-8.

    Examples
    --------
    >>> encoding_of("a log".encode("utf-16")), encoding_of(b"plain"), encoding_of("für alle".encode("latin-1"))
    ('utf-16', 'utf-8', 'cp1252')
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    pairs = len(head) // 2
    if pairs >= 8:
        if head[1::2].count(0) > 0.8 * pairs and head[::2].count(0) < 0.2 * pairs:
            return "utf-16-le"
        if head[::2].count(0) > 0.8 * pairs and head[1::2].count(0) < 0.2 * pairs:
            return "utf-16-be"
    return "utf-8" if head.isascii() else _western(head)


def _western(head: bytes) -> str:
    """UTF-8, or Windows' Western European where letters stand alone between ASCII and nothing is UTF-8."""
    single = re.findall(rb"(?<![\x80-\xff])[\xa0-\xff](?![\x80-\xff])", head)
    several = re.findall(rb"[\x80-\xff]{2,}", head)
    return "cp1252" if single and not several and 0 not in head else "utf-8"


def is_binary(text: Text) -> bool:
    """Whether a file is no text: a pickle, a core dump; what of it is known is read as it lies."""
    head = text.head(HEAD_BYTES)
    if encoding_of(head) not in ("utf-8", "utf-8-sig"):
        return False
    shown = head.decode("utf-8", "replace")
    return sum(shown.count(sign) for sign in "\ufffd\0\x01\x02\x03\x04") > BINARY * len(shown)


def decode(text: Text, steered: bool = False) -> list[Text]:
    """Take off what lies around the lines of a text, and part those of several services.

    `steered`: whether it is known to steer a terminal. A large text is not searched for that, since its lines are read next.
    Returns the text, where there was nothing to take off; one a service where it is the stream of several.
    """
    return [_bared(one) for one in streams.apart(_lines(text, steered))]


def _lines(text: Text, steered: bool) -> Text:
    """A text as its writers printed it: out of its encoding, its records, its page, its terminal."""
    text = _to_utf8(text)
    head = text.head(HEAD_BYTES)
    first = head.lstrip()[:1]
    as_lines = (first == b"{" or b'\n{"' in head) and shippers.is_json_lines(head)
    whole = not as_lines or head.strip().count(b"\n") == 0 or shippers.falls(head)
    if _DOCUMENT.match(head) and text.size <= markup.MOST_BYTES and whole:
        text = _document(text, markup.json_lines)
    if shippers.is_csv(head) and text.size <= markup.MOST_BYTES:
        text = _document(text, markup.csv_lines)
    if as_lines and text.form is None:
        text = _rewritten(text, partial(shippers.lines_of, size=text.size), "json lines")
    if first == b"<" and markup.is_html(head) and text.size <= markup.MOST_BYTES:
        text = _document(text, lambda data: ("html", markup.html_lines(data)))
    elif first == b"<" and markup.is_report(head) and text.size <= markup.MOST_BYTES:
        text = _document(text, lambda data: ("xml", markup.report_lines(data)))
    elif markup.is_mail(head) and text.size <= markup.MOST_BYTES:
        text = _document(text, markup.mail_lines)
    elif markup.is_diff(head):
        text = _changed(text, [markup.undiffed], "diff")
    elif shippers.is_cast(head):
        text = _rewritten(text, shippers.cast_lines, "terminal")
    if b"\f" in head and text.size <= OPENED_BYTES:
        text = _document(text, lambda data: ("pages", lines) if (lines := markup.unpaged(data)) else None)
    return _plain(text, steered)


def _bared(text: Text) -> Text:
    """A text without what stands before its lines, and with its lines whole."""
    for _ in range(MOST_WRAPPINGS):
        around = wrapping.of(text.head(HEAD_BYTES))
        if around is None or around.stays:
            break
        text = _changed(text, [around.off], "marked")
    text, width = _screens(_oldest_first(_opened(text)))
    return unwrapped(text, width)


_WHEN = re.compile(rb".{0,30}?(20\d\d-)?(\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)")
LEAST_FALLING, LEAST_FALLS = 4, 2
"""Stamped lines by which a text that comes newest first is told, and how often their times fall; they never rise."""


def _oldest_first(text: Text) -> Text:
    """A text whose lines a log service shows newest first, turned round; lines without a stamp stay behind theirs."""
    head = [found[2] for line in text.head(HEAD_BYTES).split(b"\n") if (found := _WHEN.match(line))]
    falls = sum(1 for one, two in pairwise(head) if two < one)
    if (
        text.size > OPENED_BYTES
        or len(head) < LEAST_FALLING
        or falls < LEAST_FALLS
        or any(two > one for one, two in pairwise(head))
    ):
        return text

    def read(blocks: Iterable[tuple[int, bytes]], numbers: Numbers) -> Iterator[bytes]:
        records: list[list[tuple[int, bytes]]] = [[]]
        for number, line in enumerate(b"".join(block for _, block in blocks).removesuffix(b"\n").split(b"\n"), 1):
            if _WHEN.match(line) and records[-1]:
                records.append([])
            records[-1].append((number, line))
        for record in reversed(records):
            for number, line in record:
                numbers.add(1, number)
                yield line + b"\n"

    return _rewritten(text, read, text.form or "newest first")


def _opened(text: Text) -> Text:
    if text.size > OPENED_BYTES:
        return text
    with text.data.open("rb") as file:
        data = file.read()
    changed = wrapping.unboxed(wrapping.unlisted(wrapping.unnumbered(markup.opened(blocks.known(data), _announces))))
    return text if changed == data else replace(text, data=Spool([changed]), size=len(changed), form=text.form or "marked")


def _announces(line: str) -> bool:
    said = announce.read(line)
    return bool(said.name or said.command)


def _to_utf8(text: Text) -> Text:
    encoding = encoding_of(text.head(HEAD_BYTES))
    if encoding == "utf-8":
        return text

    def blocks() -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        with text.data.open("rb") as file:
            while chunk := file.read(1 << 20):
                yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()

    spool = Spool(blocks())
    return replace(text, data=spool, size=spool.size, form=encoding)


def _document(text: Text, read: Callable[[bytes], tuple[str, list[tuple[int, str]]] | None]) -> Text:
    with text.data.open("rb") as file:
        got = read(file.read())
    if got is None:
        return text
    form, lines = got
    return _rewritten(text, lambda blocks, numbers: markup.to_bytes(lines, numbers), form)


def _plain(text: Text, steered: bool) -> Text:
    """Terminal control off, written-out control too."""
    changes = terminal.written_out(text.head(1 << 20))
    if text.size >= LARGE_BYTES and not changes and not steered:
        return replace(text, unsearched=True)
    needed = changes or steered or any(sign in block for _, block in text.blocks() for sign in (b"\x1b", b"\b", b"\r\n"))
    return _changed(text, [*changes, terminal.clean], "terminal") if needed else text


def _changed(text: Text, changes: list[Callable[[bytes], bytes]], form: str) -> Text:
    """A text after changes that keep the number of lines."""

    def blocks() -> Iterator[bytes]:
        for _, block in text.blocks():
            for change in changes:
                block = change(block)
            yield block

    spool = Spool(blocks())
    return replace(text, data=spool, size=spool.size, form=text.form or form)


def _rewritten(text: Text, read: Callable[[Iterable[tuple[int, bytes]], Numbers], Iterator[bytes]], form: str) -> Text:
    """A text whose lines are others; their numbers lead back through those of the text itself."""
    numbers = Numbers()
    spool = Spool(read(text.blocks(), numbers))
    return replace(text, data=spool, size=spool.size, form=form, numbers=_through(numbers, text.numbers))


def _through(numbers: Numbers, before: Numbers | None) -> Numbers:
    if before is not None:
        for at, first in enumerate(numbers.firsts):
            numbers.firsts[at] = before.original(first)  # of a run the first line; runs of a document are single lines
    return numbers


# --- copies of a screen ----------------------------------------------------------------------------------------------------

BORDER = "│"
LEAST_ROWS, LEAST_PADDED = 8, 0.9


def _screens(text: Text) -> tuple[Text, int | None]:
    """A copy of a screen with its panes (tmux) one after the other, without what fills its rows; and the width of the first."""
    rows = text.head(HEAD_BYTES).decode("utf-8", "replace").split("\n")[:-1]
    if text.size > OPENED_BYTES or len(rows) < LEAST_ROWS:
        return text, None
    places = Counter(at for row in rows for at, sign in enumerate(row) if sign == BORDER)
    borders = sorted(at for at, count in places.items() if count >= 0.8 * len(rows))
    width, same = Counter(map(len, rows)).most_common(1)[0]
    padded = sum(1 for row in rows if row.endswith(" "))
    if not borders and (width not in WIDTHS or same < LEAST_PADDED * len(rows) or padded < 0.3 * len(rows)):
        return text, None
    edges = [-1, *borders, 1 << 20]
    panes = [(left + 1, right) for left, right in pairwise(edges) if right - left > 2]

    def read(blocks: Iterable[tuple[int, bytes]], numbers: Numbers) -> Iterator[bytes]:
        rows = b"".join(block for _, block in blocks).decode("utf-8", "replace").removesuffix("\n").split("\n")
        for left, right in panes:
            lines = [row[left:right].rstrip() for row in rows]
            numbers.add(len(lines), 1)
            yield ("\n".join(lines) + "\n").encode()

    return _rewritten(text, read, text.form or "screen"), (panes[0][1] - panes[0][0] if borders else width)


# --- hard wraps ------------------------------------------------------------------------------------------------------------

WIDTHS = range(60, 400)
LEAST_FULL, LEAST_OPENED, LEAST_RESTS = 4, 3, 16
_LABELLED = re.compile(rb"\d{1,5}: |[\w./-]+\[\d+\]: |[\w./-]{2,20}: (?:error|warning|fatal)\b|\w+=")
LONGEST_WORD = 20
SOFT_WIDTHS = range(60, 121)
"""Widths at which mailers (RFC 5322 asks for 78 at most, quoting takes some) and tickets (100, 120) break lines."""
LEAST_STAYING, LEAST_ODD, LEAST_PAIRS, LEAST_INSIDE, SPARE = 0.8, 0.95, 8, 4, 2
"""In which share of the records' further lines the next word did not fit: at all, and, with how many at least, where some of them
begin as lines of their own do; fewer do where no line at all is longer than the width and what it may spare."""
_BEGINS = re.compile(
    rb"[\[({|+<>=#*$-]|\d+[:/.-]\d|\s|(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|[IWEF]\d{4} "
    rb"|Traceback|Loading |Process |Thread |[\w.-]+@|[\w.-]+:\d+:\d+ \["
)
"""How lines begin that are no rest of the line before."""
_STAMPED = re.compile(
    rb"(?:[\w.-]+ +\| )?(?:\(\w[\w.]* [^)]*\) ?)?\[?(?:(?:DEBUG|INFO|WARNING|ERROR)\b|20\d\d-\d\d-\d\d|\d\d:\d\d:\d\d)"
    rb"|#\d+  ?(?:0x|\S+ \()|Thread \d+ [\"(]|slot +\w+: |\(gdb\) "
)


def unwrapped(text: Text, width: int | None = None) -> Text:
    """A text whose lines were broken at the width of a terminal, with its lines whole again; else the same text.

    Where the width is not known, it is told by its stamped lines: many are exactly as long as the longest, none is longer, and
    what comes after those begins as no line of the log begins.
    """
    head = text.head(1 << 20)
    width = width or _width(head)
    soft = _soft_width(head) if width is None and text.size <= OPENED_BYTES else None
    if width is None and soft is None:
        return text

    def read(blocks: Iterable[tuple[int, bytes]], numbers: Numbers) -> Iterator[bytes]:
        number, kept, full, last, between = 0, [], False, b"", b" " if soft else b""
        for _, block in blocks:
            out = []
            for line in block.removesuffix(b"\n").split(b"\n"):
                number += 1
                if (full or soft and kept and _opens(kept[0]) and _wraps(last, line, soft)) and kept and _goes_on(line):
                    kept.append(line)
                else:
                    if kept:
                        out.append(between.join(kept))
                    kept = [line]
                    numbers.add(1, number)
                full, last = _columns(line) == width, line
            yield b"\n".join(out) + b"\n" if out else b""
        yield between.join(kept) + b"\n" if kept else b""

    return _rewritten(text, read, text.form or "wrapped")


def _columns(line: bytes) -> int:
    return len(line) if line.isascii() else len(line.decode("utf-8", "replace"))


_RAISED = re.compile(rb"[\w.]+(?:Error|Exception|Interrupt|Exit)\b: |  what\(\): ")
"""How the line of an exception begins."""


def _opens(line: bytes) -> bool:
    """Whether a line begins as those of a log do."""
    return bool(_STAMPED.match(line) or wrapping.RECORD.match(line) or _RAISED.match(line))


def _goes_on(line: bytes) -> bool:
    """Whether a line may be the rest of the one before."""
    return not _opens(line) and line[:1] not in b"+|"


def _wraps(line: bytes, rest: bytes, width: int) -> bool:
    """Whether a mailer had to break a line there: the next word did not fit."""
    word = rest.split(b" ", 1)[0]
    return bool(word) and _columns(line) + 1 + _columns(word) > width


def _between_words(line: bytes, rest: bytes, width: int) -> bool:
    """Whether a line ends before a width, and only since the next word did not fit."""
    return bool(rest[:1].strip()) and width - LONGEST_WORD <= _columns(line) < width and _wraps(line, rest, width)


def _soft_width(head: bytes) -> int | None:
    """The width at which a mailer broke the records of a log between their words; None where it did not."""
    lines, pairs, inside = head.split(b"\n"), [], False
    for line, rest in pairwise(lines):
        inside = _opens(line) or inside and bool(pairs) and pairs[-1][1] == line
        if inside and rest and not _opens(rest) and line[:1] != b" " != rest[:1]:  # frames are lines of their own
            pairs.append((line, rest))
    width = max((_columns(line) for line in lines if _opens(line)), default=0)
    if width not in SOFT_WIDTHS:
        return None
    wrapped = sum(1 for line, rest in pairs if _wraps(line, rest, width))
    odd = any(_BEGINS.match(rest) or _LABELLED.match(rest) for _, rest in pairs)
    few = LEAST_INSIDE if max(map(_columns, lines)) <= width + SPARE else LEAST_PAIRS
    least = max(few, LEAST_ODD * len(pairs)) if odd else max(LEAST_OPENED, LEAST_STAYING * len(pairs))
    return width if wrapped >= least else None


def _closes(line: bytes, rest: bytes) -> bool:
    """Whether a bracket that a line leaves open is closed by the next: the numbers of a bar."""
    return line.rfind(b"[") > line.rfind(b"]") and b"]" in rest and b"[" not in rest.partition(b"]")[0]


def _width(head: bytes) -> int | None:
    lines = head.split(b"\n")
    columns = list(map(len if head.isascii() else _columns, lines))
    width = max(columns, default=0)
    if width not in WIDTHS:
        return None
    full = [at for at in range(len(lines) - 1) if columns[at] == width]
    between = sum(1 for line, rest in pairwise(lines) if _opens(line) and _goes_on(rest) and _between_words(line, rest, width))
    if between > len(full):
        return None
    rests = [at for at in full if lines[at + 1] and (not _BEGINS.match(lines[at + 1]) or _closes(lines[at], lines[at + 1]))]
    if len(full) < LEAST_FULL or 2 * len(rests) < len(full):
        return None
    opened = sum(1 for at in full if _opens(lines[at]))
    if opened and len(rests) >= max(LEAST_RESTS, 0.9 * len(full)):  # few records are long, other lines are
        return width
    return width if opened >= max(LEAST_OPENED, 0.1 * sum(1 for line in lines if _opens(line))) else None
