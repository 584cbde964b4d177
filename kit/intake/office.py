"""Texts of documents that people put outputs into: Word, Writer, Excel and Calc, RTF."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

MOST_BYTES = 64 << 20
"""Largest part of a document that is taken apart."""
MOST_BLANKS = 1000
_LETTER = re.compile("[A-Z]+")


def texts(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]] | None:
    """Names (empty: the document's own) and texts in a document; None where an archive is none. Tables become CSV."""
    names = set(archive.namelist())
    if "word/document.xml" in names:
        return iter([("", "\n".join(_paragraphs(_root(archive, "word/document.xml"))) + "\n")])
    if "xl/workbook.xml" in names:
        return _sheets(archive, sorted(name for name in names if re.fullmatch(r"xl/worksheets/[^/]+\.xml", name)))
    if "content.xml" in names and "mimetype" in names:
        return _open_document(_root(archive, "content.xml"))
    return None


def _root(archive: zipfile.ZipFile, name: str) -> Element:
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise ValueError(f"{name} has more than {MOST_BYTES >> 20} MiB")
    try:
        return ElementTree.fromstring(archive.read(name))
    except ElementTree.ParseError as error:
        raise ValueError(f"{name}: {error}") from None


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _attribute(element: Element, name: str) -> str:
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


_BETWEEN = {"br": "\n", "cr": "\n", "tab": "\t", "line-break": "\n"}
"""What stands for white space in a paragraph; Writer's `s` for as many blanks as it says."""


def _shown(element: Element) -> str:
    """Text of a paragraph."""
    tag = _tag(element)
    if tag in _BETWEEN or tag == "s":
        return _BETWEEN.get(tag) or " " * min(int(_attribute(element, "c") or 1), MOST_BLANKS)
    within = "".join(_shown(child) + (child.tail or "" if tag in ("p", "h", "span", "a") else "") for child in element)
    return (element.text or "" if tag in ("t", "p", "h", "span", "a") else "") + within


def _paragraphs(root: Element) -> Iterator[str]:
    """Texts of paragraphs, also of those in tables."""
    return (_shown(one) for one in root.iter() if _tag(one) in ("p", "h"))


def _as_csv(rows: Iterable[list[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        if out.tell() > MOST_BYTES:
            raise ValueError(f"a sheet has more than {MOST_BYTES >> 20} MiB")
    return out.getvalue()


def _sheets(archive: zipfile.ZipFile, names: list[str]) -> Iterator[tuple[str, str]]:
    """Sheets of Excel."""
    shared = []
    if "xl/sharedStrings.xml" in archive.namelist():
        shared = ["".join(one.itertext()) for one in _root(archive, "xl/sharedStrings.xml") if _tag(one) == "si"]
    for name in names:
        rows = (_row(row, shared) for row in _root(archive, name).iter() if _tag(row) == "row")
        yield (PurePosixPath(name).stem if len(names) > 1 else ""), _as_csv(rows)


def _row(row: Element, shared: list[str]) -> list[str]:
    cells: list[str] = []
    for cell in row:
        letters = _LETTER.match(_attribute(cell, "r"))
        column = 0
        for letter in letters[0][:3] if letters else "":
            column = 26 * column + ord(letter) - 64
        cells += [""] * (column - 1 - len(cells))
        value = "".join(cell.itertext())
        index = int(value) if _attribute(cell, "t") == "s" and value.isdecimal() else None
        cells.append(value if index is None or index >= len(shared) else shared[index])
    return cells


def _open_document(root: Element) -> Iterator[tuple[str, str]]:
    """Text and tables of Writer and Calc."""
    tables = [one for one in root.iter() if _tag(one) == "table"]
    for table in tables if any(_tag(one) == "spreadsheet" for one in root.iter()) else ():
        rows = (
            ["\n".join(_paragraphs(cell)) for cell in row if _tag(cell).endswith("cell")]
            for row in table.iter()
            if _tag(row) == "table-row"
        )
        yield (_attribute(table, "name") if len(tables) > 1 else ""), _as_csv(rows)
    if not tables:
        yield "", "\n".join(_paragraphs(root)) + "\n"


# --- RTF -------------------------------------------------------------------------------------------------------------------

_RTF = re.compile(
    r"\\u(?P<unicode>-?\d+) ?(?:\\'[0-9a-f]{2}|[^\\{}\n])?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<word>[a-z]{1,32})-?\d* ?"
    r"|\\(?P<sign>[^a-z])|(?P<brace>[{}])|[\r\n]+|(?P<text>[^\\{}\r\n]+)", re.DOTALL,
)  # fmt: skip
_HIDDEN = {"fonttbl", "colortbl", "stylesheet", "info", "pict", "expandedcolortbl", "generator", "listtable", "themedata"}
_WORDS = {"par": "\n", "line": "\n", "tab": "\t", "emdash": "--", "endash": "-", "bullet": "*", "lquote": "'", "rquote": "'",
          "ldblquote": '"', "rdblquote": '"', "page": "\n", "row": "\n", "cell": "\t"}  # fmt: skip
_SIGNS = {"\n": "\n", "\r": "\n", "~": "\u00a0", "\\": "\\", "{": "{", "}": "}", "_": "-"}


def of_rtf(data: str) -> str:
    r"""Text of a document in RTF.

    Examples
    --------
    >>> of_rtf(r"{\rtf1\ansi{\fonttbl\f0 Menlo;}\f0\fs22 a \{b\}\par caf\'e9 \u8211?\line x}")
    'a {b}\ncafé –\nx'
    """
    out: list[str] = []
    depth, hidden = 0, 0
    for found in _RTF.finditer(data):
        brace, word = found["brace"], found["word"]
        if brace:
            depth += 1 if brace == "{" else -1
            hidden = 0 if hidden > depth else hidden
        elif word in _HIDDEN or found["sign"] == "*":
            hidden = hidden or depth
        elif not hidden:
            if found["unicode"]:
                out.append(chr(int(found["unicode"][:7]) % 65536))
            elif found["hex"]:
                out.append(bytes.fromhex(found["hex"]).decode("cp1252", "replace"))
            else:
                out.append(found["text"] or _WORDS.get(word or "", "") or _SIGNS.get(found["sign"] or "", ""))
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
