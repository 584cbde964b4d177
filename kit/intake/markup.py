"""Documents to text: HTML, notebooks, issues as JSON; quoted and indented stretches."""

from __future__ import annotations

import csv
import email
import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from email import policy
from html.parser import HTMLParser
from typing import Any

from kit.intake import announce, shippers
from kit.intake.content import Numbers
from kit.untrusted import load_json

MOST_BYTES = 64 << 20
"""Largest document that is taken apart as a whole; a larger one is read line by line."""
_HTML = re.compile(rb"<!doctype html|<html[\s>]|<(?:pre|body|div|table|details|code|ac:structured-macro)[\s>]", re.IGNORECASE)
_BLOCKS = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "summary", "details", "section", "table", "ul", "hr"}


PAGE_TIMES = 8
"""How much longer than its plain text the page of a mail is, at least, that says more."""
FAR = 1 << 20
"""How far behind the last line the next one is looked for: the whole rest, for each line that is not there, takes for ever."""
MOST_DEPTH, MOST_BESIDE = 2, 4
"""How deep an issue may stand in what a service answered with, and how many things beside it."""
_OF_AN_ISSUE = {"title", "number", "author", "user", "comments", "id", "created_at", "summary"}


def is_html(head: bytes) -> bool:
    """Whether a text is HTML, by its beginning."""
    return head.lstrip()[:1] == b"<" and _HTML.search(head[:4096]) is not None


class _Page(HTMLParser):
    """Text of a page: what stands in <pre> becomes a fenced block, headings and summaries become headings."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[int, str]] = []
        self._line, self._at, self._pre, self._hidden = "", 1, 0, 0
        self._opened = False

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag in ("script", "style", "svg", "head"):
            self._hidden += 1
        elif tag == "pre" or tag == "textarea":
            self.flush()
            self._pre += 1
            self._put("```")
            self._opened = True
        elif self._pre and tag == "br":
            self.flush(keep=True)
        elif tag in _BLOCKS and not self._pre:
            self.flush()
            self._line = "## " if tag[0] == "h" and tag[1:].isdecimal() or tag == "summary" else ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "svg", "head"):
            self._hidden = max(self._hidden - 1, 0)
        elif tag == "pre" or tag == "textarea":
            self.flush()
            self._pre = max(self._pre - 1, 0)
            self._put("```")
        elif (tag in _BLOCKS or tag in ("td", "th")) and not self._pre:
            if tag in ("td", "th"):
                self._line += "  "
            else:
                self.flush()

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        number = self.getpos()[0]
        begins, self._opened = self._opened and data.startswith("\n"), False
        for place, piece in enumerate(data.split("\n")):
            if place > begins:  # a newline right behind <pre> is none
                self.flush(keep=bool(self._pre))
            self._at = number + place
            self._line += piece if self._pre else re.sub(r"[^\S\r]+", " ", piece)

    def flush(self, keep: bool = False) -> None:
        """End the line at hand; empty ones stay in <pre> only."""
        if keep or self._line.strip():
            self._put(self._line)
        self._line = ""

    def _put(self, line: str) -> None:
        self.lines.append((self._at if line != "```" else self.getpos()[0], line))


_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_NO_TAG = re.compile(r"<(?!!--|[^<>]*>)")
"""A sign that opens no tag: html.parser looks for the end of each in all that follows."""


def html_lines(data: bytes) -> list[tuple[int, str]]:
    """Lines of a page, each with its number in the file."""
    text = _CDATA.sub(lambda found: f"<pre>{html.escape(found[1])}</pre>", data.decode("utf-8", "replace"))
    page = _Page()
    page.feed(_NO_TAG.sub("&lt;", text))
    page.close()
    page.flush()
    return page.lines


_REPORTED = re.compile(r"<(?:system-out|system-err|failure|description|comment)\b[^>]*>")
"""What of a tracker's export and of a test's report somebody or some program wrote."""


def is_report(head: bytes) -> bool:
    """Whether a text is XML with texts in it: an export of Jira, a report of JUnit."""
    return head.lstrip()[:1] == b"<" and _REPORTED.search(head.decode("utf-8", "replace")) is not None


def report_lines(data: bytes) -> list[tuple[int, str]]:
    """Lines of the texts in XML, each with its number in the file; a page that is written out in it is read as one."""
    text = _CDATA.sub(lambda found: html.escape(found[1]), data.decode("utf-8", "replace"))
    shown = html.unescape(re.sub(r"<[^<>]*>", "", text))
    lines = html_lines(shown.encode("utf-8", "replace")) if "<pre" in shown else list(enumerate(shown.split("\n"), 1))
    return [(number, line) for number, line in lines if line.strip()]


_MAIL = re.compile(rb"(?:\A|\n)MIME-Version: 1|(?:\A|\n)Content-T(?:ype|ransfer-Encoding): ", re.IGNORECASE)
_FIELD = re.compile(rb"(?:From |[A-Za-z][\w-]{1,40}:)")


def is_mail(head: bytes) -> bool:
    """Whether a text is a mail as it was sent: fields, one of them of MIME, then a blank line."""
    fields = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    lines = [line for line in fields.split(b"\n") if line[:1] not in (b" ", b"\t")]
    return len(lines) > 1 and all(map(_FIELD.match, lines)) and _MAIL.search(fields) is not None


def mail_lines(data: bytes) -> tuple[str, list[tuple[int, str]]] | None:
    """Lines of a mail's text and of the texts attached to it; of a text that is there twice, the plain one."""
    raw = data.decode("utf-8", "replace").replace("\r\n", "\n")
    message = email.message_from_bytes(data, policy=policy.default)
    found = [f"# {message['subject']}"] if message["subject"] else []
    body = message.get_body(("plain", "html"))
    page = message.get_body(("html",))
    if body is not None and page is not None and len(page.get_content()) > PAGE_TIMES * len(body.get_content()):
        body = page  # "your program shows no pages"
    for part in [*([body] if body else []), *message.iter_attachments()]:
        if part.get_content_maintype() != "text":
            continue
        text = part.get_content().replace("\r\n", "\n")
        if part.get_content_subtype() == "html":
            text = "\n".join(line for _, line in html_lines(text.encode("utf-8", "replace")))
        elif part.get_param("format") == "flowed":
            text = re.sub(r"(?m)(?<=\S) \n(?!>|-- $|\s)", " ", text)  # RFC 3676: a blank at the end continues the line
        found += [f"==> {part.get_filename()} <=="] * bool(part.get_filename()) + text.split("\n")
    return ("mail", _numbered(raw, iter(found))) if len(found) > 1 else None


def attachments(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of what is attached to a mail and is no text: archives, documents."""
    message = email.message_from_bytes(data, policy=policy.default)
    for number, part in enumerate(message.iter_attachments() if message.is_multipart() else (), 1):
        content = part.get_payload(decode=True) if part.get_content_maintype() not in ("text", "message", "multipart") else None
        if isinstance(content, bytes):
            yield (part.get_filename() or f"attachment-{number}").rpartition("/")[2], content


# --- JSON ------------------------------------------------------------------------------------------------------------------


def json_lines(data: bytes) -> tuple[str, list[tuple[int, str]]] | None:
    """Form and lines of a JSON document that wraps text: a notebook, an issue, records of a log; None for any other."""
    raw = data.decode("utf-8", "replace")
    try:
        value = load_json(raw, strict=False)
    except ValueError:
        # Read at once only where they come newest first, and all are records: others are read as they come, and none is lost.
        nested = raw.startswith('{"resourceLogs"')
        lines = list(shippers.records_of_lines(raw)) if nested or shippers.falls(data) else []
        return (
            _laid_out("json lines", lines) if nested or len(lines) == sum(1 for line in raw.split("\n") if line.strip()) else None
        )
    if isinstance(value, dict) and isinstance(value.get("cells"), list) and "nbformat" in value:
        return "notebook", _numbered(raw, _notebook(value))
    texts = list(_texts(value)) or list(_files(value))
    if texts:
        return "issue", _numbered(raw, (line for text in texts for line in [*text.replace("\r\n", "\n").split("\n"), ""]))
    if isinstance(value, str) and "\n" in value:
        return "text", _numbered(raw, iter(value.replace("\r\n", "\n").split("\n")))
    records = shippers.records_in(value)
    begins = _numbered(raw, (text.split("\n")[0] for _, text, _ in records or ()))
    return _laid_out("records", ((number, record) for (number, _), record in zip(begins, records or (), strict=True)))


def csv_lines(data: bytes) -> tuple[str, list[tuple[int, str]]] | None:
    """Form and lines of a table of records, as log services export it; None where its rows are none."""
    try:
        return _laid_out("csv", shippers.records_of_csv(data.decode("utf-8", "replace")))
    except csv.Error:
        return None


def _laid_out(form: str, records: Iterable[tuple[int, shippers.Record]]) -> tuple[str, list[tuple[int, str]]] | None:
    """Form and lines of numbered records in order of time; None where there is none, or one has no time."""
    records = list(records)
    several = len({service for _, (_, _, service) in records}) > 1
    found = [
        (when, (number, shippers.laid_out(when, text, service if several else "").decode().split("\n")))
        for number, (when, text, service) in records
    ]
    if not found or not all(when for when, _ in found):
        return None
    return form, [(number, line) for _, (number, lines) in shippers.in_order(found) for line in lines]


def _numbered(raw: str, lines: Iterator[str]) -> list[tuple[int, str]]:
    """Lines that were strings of a JSON text, or lines of a mail, each with the number of the line it stands in there.

    A line is found by its end, else by its beginning: a mail may break it in between, and writes `=` in another way.
    """
    behind = counted = 0
    number, numbered = 1, []
    for line in lines:
        bare = line.strip()
        if bare:
            parts = bare[-60:], bare[:30].partition("=")[0]
            probes = (json.dumps(part, ensure_ascii=ascii)[1:-1] for part in parts for ascii in (False, True))
            place, size = next(((at, len(one)) for one in probes if (at := raw.find(one, behind, behind + FAR)) >= 0), (-1, 0))
            if place >= 0:
                number += raw.count("\n", counted, place)
                counted, behind = place, place + size
        numbered.append((number, line))
    return numbered


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _notebook(value: dict) -> Iterator[str]:
    """Cells of a notebook: shell commands as prompts, other code as a heading, outputs as they were shown."""
    for cell in value["cells"]:
        if not isinstance(cell, dict):
            continue
        source = _joined(cell.get("source"))
        if cell.get("cell_type") != "code":
            yield from [*source.split("\n"), ""]
            continue
        commands = [line.strip() for line in source.split("\n") if line.lstrip().startswith("!")]
        if source.startswith(("%%bash", "%%sh", "%%!")):
            commands = ["!" + line for line in source.split("\n")[1:] if line.strip()]
        head = f"==> In [{cell.get('execution_count') or ' '}] {source.strip().split(chr(10))[0][:100]} <=="
        yield from [f"$ {line[1:].strip()}" for line in commands] or ["", head]
        for output in cell.get("outputs") or ():
            data = output.get("data") or {}
            shown = output.get("text") or data.get("text/plain") or "\n".join(map(str, output.get("traceback") or ()))
            if _joined(shown).startswith("<IPython.core.display.HTML") and "text/html" in data:  # a bar, a table of a trainer
                shown = "\n".join(line for _, line in html_lines(_joined(data["text/html"]).encode()) if line.strip())
            yield from _joined(shown).removesuffix("\n").split("\n")


def _texts(value: Any, within: bool = False, depth: int = 0) -> Iterator[str]:
    """Texts of an issue, a ticket or a chat as JSON: titles, bodies, comments, messages."""
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict):
            continue
        inner = next((item[key] for key in ("comments", "messages", "notes", "fields") if item.get(key)), None)
        if inner is None and isinstance(item.get("value"), list) and all(map(_is_message, item["value"])):
            inner = item["value"]
        body = next((text for key in ("body", "description", "content") if (text := _shown(item.get(key))) is not None), None)
        chat = item["text"] if isinstance(item.get("text"), str) and ("ts" in item or "user" in item) else None
        if body is not None and (within or item.keys() & _OF_AN_ISSUE):
            yield from ([f"# {item['title']}"] if isinstance(item.get("title"), str) else []) + [body]
        elif chat is not None:
            yield _of_slack(chat)
        elif inner is None and depth < MOST_DEPTH and len(item) <= MOST_BESIDE:  # {"ticket": {…}}
            yield from _texts([one for one in item.values() if isinstance(one, dict)], within, depth + 1)
        if isinstance(inner, dict):
            inner = [inner, *((inner.get("comment") or {}).get("comments") or [])]
        if isinstance(inner, list):
            yield from _texts(inner, within=True)


def _is_message(item: Any) -> bool:
    """Whether an object is a message of Teams, as Graph gives it."""
    return isinstance(item, dict) and isinstance(item.get("body"), dict) and "content" in item["body"]


def _files(value: Any) -> Iterator[str]:
    """Texts of an object whose keys are names of files: a gist, what a script put together; each behind its name."""
    files = value.get("files") if isinstance(value, dict) and isinstance(value.get("files"), dict) else value
    if not isinstance(files, dict):
        return
    texts = {name: one.get("content") if isinstance(one, dict) else one for name, one in files.items()}
    if any(isinstance(text, str) and "\n" in text and announce.FILE.fullmatch(name) for name, text in texts.items()):
        yield from (f"==> {name} <==\n{text}" for name, text in texts.items() if isinstance(text, str))


def _shown(body: Any) -> str | None:
    """Text of a message: as it stands, or of the page that it is (Teams)."""
    if isinstance(body, dict):
        body = body.get("content")
    if isinstance(body, str) and re.match(r"<(?:p|div|codeblock|attachment)\b", body):
        text = _CODEBLOCK.sub(lambda found: f"<pre>{found[1]}</pre>", body)
        return "\n".join(line for _, line in html_lines(text.encode("utf-8", "replace")))
    return body if isinstance(body, str) else None


_CODEBLOCK = re.compile(r"(?s)<codeblock\b[^>]*>(?:<code>)?([^<]*(?:<(?!/?codeblock\b)[^<]*)*?)(?:</code>)?</codeblock>")


def _of_slack(text: str) -> str:
    """A message with its fences on lines of their own, and the three signs that Slack escapes."""
    pieces = text.split("```")
    return html.unescape("".join(f"\n```\n{piece.strip(chr(10))}\n```\n" if at % 2 else piece for at, piece in enumerate(pieces)))


# --- quoted and indented stretches ----------------------------------------------------------------------------------------

_RUN = re.compile(rb"\n(?= {0,3}> ?\S| {4}|\t)")
_AHEAD = re.compile(rb"(?:\A|\n|:)[ \t]*\Z")
_QUOTED = re.compile(rb" {0,3}(?:>(?: |(?=[>\n]|\Z)))+")
_INDENTED = re.compile(rb" {4}|\t|[ \t]*(?=\n|\Z)")


BACK = 4096
"""What announces an indented stretch is looked for so many bytes before it: a page of blanks would be read once a line."""
_UNDERLINED = re.compile(rb"(?m)^[=~^-]{3,}\n(\n*)::\n")
"""What reStructuredText puts between a title and what is shown below it."""
_FENCE = re.compile(rb"(?m)^( {1,8}|\t)(`{3,}|~{3,})(.*)$")


def _dedented(data: bytes) -> bytes:
    """A text whose fenced blocks within lists stand at the begins of their lines."""
    marks, pieces, at = list(_FENCE.finditer(data)), [], 0
    unclosed: set[tuple[bytes, bytes]] = set()
    for number, mark in enumerate(marks):
        key = mark[1], mark[2]
        if mark.start() < at or b"`" in mark[3] or key in unclosed:
            continue
        closing = (
            marks[one] for one in range(number + 1, len(marks)) if marks[one][1] == mark[1] and marks[one][2].startswith(mark[2])
        )
        last = next((other for other in closing if not other[3].strip()), None)
        if last is None:
            unclosed.add(key)
            continue
        pieces += [data[at : mark.start()], re.sub(rb"(?m)^" + mark[1], b"", data[mark.start() : last.end()])]
        at = last.end()
    return b"".join([*pieces, data[at:]]) if pieces else data


def opened(data: bytes, announces: Callable[[str], bool]) -> bytes:
    """Quoted and indented stretches of a text with their marks off, where a blank line or a colon stands before them.

    Indents are code only behind a line that announces something: tools indent what they print.
    """
    data = _dedented(data)
    pieces, at = [], 0
    for found in _RUN.finditer(data):
        begin = found.end()
        if begin < at or not _AHEAD.search(data, max(found.start() - 80, 0), found.start()):
            continue
        mark = _QUOTED if _QUOTED.match(data, begin) else _INDENTED
        before = data[max(begin - BACK, 0) : begin].rstrip().rpartition(b"\n")[2][-200:].decode("utf-8", "replace")
        if mark is _INDENTED and not (before.endswith("::") or announces(before)):
            continue
        pieces.append(data[at:begin])
        while begin < len(data) and (put := mark.match(data, begin)) is not None:
            end = data.find(b"\n", begin) + 1 or len(data)
            pieces.append(data[put.end() : end])
            begin = end
        at = begin
    return _UNDERLINED.sub(rb"\n\1\n", b"".join([*pieces, data[at:]])) if pieces else data


_NUMBER = re.compile(rb"\d+")


def unpaged(data: bytes) -> list[tuple[int, str]] | None:
    """Numbered lines of a text of pages (a PDF's) without what heads and foots each; None where that is nothing."""
    pages = [page.split(b"\n") for page in data.split(b"\f")]
    edges = [[at for at, line in enumerate(page) if line.strip()] for page in pages]
    told: list[set[bytes]] = []
    for end in (0, -1):
        seen = [_NUMBER.sub(b"", page[at[end]].strip()) for page, at in zip(pages, edges, strict=True) if at]
        told.append({line for line, count in Counter(seen).items() if count > 1})
    if not any(told):
        return None
    kept, number = [], 1
    for page, at in zip(pages, edges, strict=True):
        first, last = (at[0], at[-1]) if at else (0, -1)
        first += bool(at) and _NUMBER.sub(b"", page[first].strip()) in told[0]
        last -= bool(at) and last >= first and _NUMBER.sub(b"", page[last].strip()) in told[1]
        while first <= last and not page[first].strip():
            first += 1
        while last >= first and not page[last].strip():
            last -= 1
        kept += [(number + line, page[line].decode("utf-8", "replace")) for line in range(first, last + 1)]
        number += len(page) - 1  # the feed ends no line
    return kept


_DIFF = re.compile(rb"(?m)^(?:diff --git .*|new file mode \d+|index [\da-f]+\.\..*|--- (?:/dev/null|a/).*|@@ -.*)$")


def is_diff(head: bytes) -> bool:
    """Whether a text is a unified diff."""
    return head.startswith((b"diff --git ", b"--- ")) and b"\n@@ -" in head and b"\n+++ " in head


def undiffed(block: bytes) -> bytes:
    """Files as a diff leaves them, each behind a line with its name; removed lines and the diff's own are empty."""
    block = re.sub(rb"(?m)^\+\+\+ (?:b/)?(.*)$", rb"==> \1 <==", _DIFF.sub(b"", block))
    return re.sub(rb"(?m)^(?:[+ ]|-.*$)", b"", block)


def to_bytes(lines: list[tuple[int, str]], numbers: Numbers) -> Iterator[bytes]:
    """Numbered lines as blocks of a text."""
    for begin in range(0, len(lines), 10_000):
        part = lines[begin : begin + 10_000]
        for number, _ in part:
            numbers.add(1, number)
        yield "".join(line.rstrip("\r\n") + "\n" for _, line in part).encode("utf-8", "replace")
