"""A document as terminal text: by rich, at any width from 60 columns; colour and bold for a terminal only."""

from __future__ import annotations

import os
import re
import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from kit.document import Block, Command, Document, Item, Section, Table, Values
from kit.untrusted import visible
from kit.words import short

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.text import Text

WIDTH = 110
"""Columns where no terminal says otherwise: the text of a pipe or a file is always the same."""
NARROWEST, WIDEST, UNTOLD = 60, 120, 80
"""Sentences longer than 120 columns are hard to read; tables take what there is."""
LONGEST_WORD = 30
"""A longer word of a cell may be broken; a table that would break a shorter one is shown as one record below the other."""
LONGEST_CELL, GAP = 160, 2
ROOMY, CUT = 20, 13
"""Text of a table that may leave out columns is wrapped into no fewer columns than that, cut to no fewer than that."""
COLOURS = {"ready": "green", "progressing": "cyan", "stalled": "red", "failed": "red", "ended": "cyan", "unknown": "yellow"}
MARKS = {"!": "bold red", "→": "bold", "+": "green", "−": "red", "×": "red", "?": "yellow"}
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[µm]?s|min|h|days?|[kMGT]?i?B(?:/s)?|W|of \d)(?!\w))")
"""Between a number and its unit no line ends."""
_BOUND = "\ue000"
_SHELL_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")


def render(document: Document, width: int = WIDTH, colour: bool = False, cut: bool = False, fold: bool = False) -> str:
    """A document as text without a trailing newline.

    Commands are as long as they are; with `cut` they end at the edge, with `fold` they go on below, as a shell reads them.

    Examples
    --------
    >>> table = Table(("x", "y"), [("1", "two")], numeric={"x"})
    >>> sections = [Section("evidence", [Item("rank 3 is behind", where="server.log:226", small="25 %")]),
    ...             Section("next", [Command("kit watch", "what it does now")]), Section("n", [table])]
    >>> print(render(Document("stalled", sections, last=Command("kit report RUN"))))
    stalled
    <BLANKLINE>
    evidence
      • rank 3 is behind
          server.log:226  25 %
    <BLANKLINE>
    next
      $ kit watch
          what it does now
    <BLANKLINE>
    n
      x  y
      1  two
    <BLANKLINE>
    $ kit report RUN
    """
    page = _Page(width, colour, cut, fold)
    page.paragraph("", _text(document.title, f"bold {COLOURS.get(document.tone, '')}".strip()))
    if document.subtitle:
        page.paragraph("", _text(document.subtitle, "dim"))
    for section in document.shown:
        page.section(section)
    if document.last is not None:
        page.line()
        page.fold = False
        page.block(document.last, "")
    return str(page)


def write(document: Document, stream: TextIO | None = None) -> None:
    """Print a document: in the width and with the colours of the terminal, as plain text of 110 columns elsewhere."""
    stream = sys.stdout if stream is None else stream
    width = terminal_width(stream)
    print(render(document, width or WIDTH, coloured(stream), fold=width is not None), file=stream)


def terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal that a stream is, None where it is none.

    Examples
    --------
    >>> terminal_width(StringIO()) is None
    True
    """
    if not stream.isatty():
        return None
    try:  # the terminal itself: variables of the environment may be another's
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = shutil.get_terminal_size().columns
    return max(columns or UNTOLD, NARROWEST)


def coloured(stream: TextIO) -> bool:
    """Whether to write colours: to a terminal that knows them; NO_COLOR forbids it, FORCE_COLOR wants it anywhere."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty() and os.environ.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Text of logs and processes is data: none of it may steer the terminal.

    Examples
    --------
    >>> print(clean("a\\x1b[2Jb\\tc"))
    a\\x1b[2Jb c
    """
    return visible(text.replace("\t", " "))


def folded(command: str, room: int) -> list[str]:
    """A command line in lines of so many columns, each but the last with a backslash at its end: it is copied as one.

    A word is never broken, nor what stands in quotes.

    Examples
    --------
    >>> folded("py-spy dump --pid 7 > 'a b.txt'", 22)
    ['py-spy dump --pid 7 \\\\', "> 'a b.txt'"]
    """
    words = _SHELL_WORD.findall(command)
    if len(command) <= room or " ".join(words) != command or "#" in command:
        return [command]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 > room:
            lines[-1] += " \\"
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(clean(text), style)


class _Page:
    """Where a document is written: rich's console on a string."""

    def __init__(self, width: int, colour: bool, cut: bool, fold: bool):
        from rich.console import Console

        self.width, self.cut, self.fold, self.page = max(width, NARROWEST), cut, fold, StringIO()
        self.console = Console(
            file=self.page,
            width=self.width,
            color_system="standard" if colour else None,
            force_terminal=colour,
            force_jupyter=False,  # in a notebook rich would show the text by itself, as HTML, and write none
            no_color=not colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self.page.getvalue().replace(_BOUND, " ").splitlines())

    def line(self, *parts: str | Text) -> None:
        """One line, as long as it is."""
        from rich.text import Text

        self.console.print(Text.assemble(*parts), soft_wrap=True)

    def paragraph(self, lead: str | Text, text: Text) -> None:
        """Lines set in below the first."""
        text.plain = _UNIT.sub(_BOUND, text.plain)
        for number, line in enumerate(
            text.wrap(self.console, min(self.width, WIDEST) - len(lead), overflow="fold") or [_text("")]
        ):
            line.rstrip()
            self.line(lead if number == 0 else " " * len(lead), line)

    def one_line(self, lead: str | Text, text: Text) -> None:
        """A line that is cut after the last word that fits."""
        room = (self.width if self.cut else min(self.width, WIDEST)) - len(lead)
        if text.cell_len > room:
            text.plain = short(text.plain, room)
            text.truncate(room, overflow="ellipsis")  # letters of two columns
        self.line(lead, text)

    def section(self, section: Section) -> None:
        """A heading, and its blocks set in."""
        if section.heading:
            self.line()
            self.paragraph("", _text(section.heading, "bold"))
        for block in section.blocks:
            self.block(block, "  " if section.heading else "")

    def block(self, block: Block, lead: str) -> None:
        """One block, set in."""
        if isinstance(block, Item):
            lead += "  " * block.level
            mark = _text(lead + (f"{block.mark} " if block.mark else ""), MARKS.get(block.mark, ""))
            self.paragraph(mark, _text(block.text, "bold red" if block.mark == "!" else ""))
            if below := "  ".join(filter(None, (block.where, " ".join(block.small.split())))):
                write = self.one_line if block.where or self.cut else self.paragraph
                write(" " * (len(mark) + 2), _text(below, "dim"))
        elif isinstance(block, Command):
            self.command(f"{lead}$ ", block.text)
            if block.small:
                (self.one_line if self.cut else self.paragraph)(f"{lead}    ", _text(block.small, "dim"))
        elif isinstance(block, Values):
            size = max(map(len, block.pairs), default=0)
            for name, value in block.pairs.items():
                (self.one_line if self.cut else self.paragraph)(f"{lead}{clean(name):{size}}  ", _text(value))
        elif block.rows:
            self.table(block, lead)

    def command(self, lead: str, command: str) -> None:
        """A command line: cut, folded, or as long as it is."""
        if self.cut:
            self.one_line(lead, _text(command, "cyan"))
            return
        room = min(self.width, WIDEST) - len(lead)
        for number, line in enumerate(folded(clean(command), room) if self.fold else [command]):
            self.line(lead if number == 0 else " " * len(lead), _text(line, "cyan"))

    def table(self, table: Table, lead: str) -> None:
        """Columns that fit the width: cells are wrapped; as records where the columns would be too narrow."""
        from rich.padding import Padding
        from rich.table import Table as Grid

        if table.heading:
            self.paragraph(lead, _text(table.heading, "bold"))
        headed = any(table.columns)
        rows = [
            [_UNIT.sub(_BOUND, cell if len(cell) <= LONGEST_CELL else short(cell, LONGEST_CELL)) for cell in row]
            for row in table.rows
        ]
        columns = list(zip(*([table.columns] if headed else []), *rows, strict=True))
        widths = [max(_text(line).cell_len for cell in column for line in cell.split("\n")) for column in columns]
        words = [max((_text(word).cell_len for cell in column for word in cell.split()), default=0) for column in columns]
        cut, roomy = self.cut and bool(table.spare), ROOMY if table.spare else 0
        least = [
            width if name in table.numeric else min(width, CUT if cut else max(min(word, LONGEST_WORD), roomy))
            for name, width, word in zip(table.columns, widths, words, strict=True)
        ]
        room = self.width - len(lead)
        kept = list(range(len(widths)))
        fair = [  # what is never left out gets more before what may be
            max(size, min(width, ROOMY)) if cut and name not in table.spare else size
            for name, size, width in zip(table.columns, least, widths, strict=True)
        ]
        for name in table.spare:
            if name in table.columns and sum(fair[n] + GAP for n in kept) - GAP > room:
                kept.remove(list(table.columns).index(name))
        room -= GAP * (len(kept) - 1)
        if sum(least[n] for n in kept) > room:
            self.records(table, rows, lead)
            return
        while sum(widths[n] for n in kept) > room:  # the widest gives, as far as its words allow
            widths[max(kept, key=lambda n: (widths[n] > fair[n], widths[n] > least[n], widths[n]))] -= 1
        grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=headed, header_style="dim")
        for name, width in ((table.columns[n], widths[n]) for n in kept):
            justify: JustifyMethod = "right" if name in table.numeric else "left"
            grid.add_column(_text(name), justify=justify, overflow="ellipsis" if cut else "fold", width=width, no_wrap=cut)
        for number, row in enumerate(rows):
            grid.add_row(*(_text(row[n]) for n in kept), style="bold red" if number in table.odd else None)
        self.console.print(Padding(grid, (0, 0, 0, len(lead))))
        if not cut and (left := [name for n, name in enumerate(table.columns) if n not in kept]):
            self.paragraph(lead, _text(f"left out at {self.width} columns: {', '.join(left)}", "dim"))

    def records(self, table: Table, rows: list[list[str]], lead: str) -> None:
        """The first cell of each row, and below it the others with their heads."""
        for number, row in enumerate(rows):
            self.paragraph(lead, _text(row[0], "bold red" if number in table.odd else "bold"))
            self.block(Values({head: cell for head, cell in zip(table.columns[1:], row[1:], strict=True) if cell}), f"{lead}  ")
