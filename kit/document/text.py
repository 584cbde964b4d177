"""A document as terminal text: by rich, at any width from 60 columns; colour and bold for a terminal only."""

from __future__ import annotations

import os
import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from kit.document import Block, Command, Document, Item, Section, Table, Values
from kit.untrusted import visible

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 110
"""Columns where no terminal says otherwise: the text of a pipe or a file is always the same."""
NARROWEST, WIDEST = 60, 120
"""Sentences longer than 120 columns are hard to read."""
LEAST_COLUMN = 10
"""A table whose columns would be narrower is shown as one record below the other."""
LONGEST_CELL, GAP = 160, 2
COLOURS = {"ready": "green", "progressing": "cyan", "stalled": "red", "failed": "red", "ended": "cyan", "unknown": "yellow"}


def render(document: Document, width: int = WIDTH, colour: bool = False, cut: bool = False) -> str:
    """A document as text without a trailing newline; with `cut` commands, too, end at the edge.

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
    page = _Page(width, colour, cut)
    page.paragraph("", _text(document.title, f"bold {COLOURS.get(document.tone, '')}".strip()))
    if document.subtitle:
        page.paragraph("", _text(document.subtitle, "dim"))
    for section in document.shown:
        page.section(section)
    if document.last is not None:
        page.line()
        page.block(document.last, "")
    return str(page)


def write(document: Document, stream: TextIO | None = None) -> None:
    """Print a document: in the width and with the colours of the terminal, as plain text of 110 columns elsewhere."""
    stream = sys.stdout if stream is None else stream
    width = terminal_width(stream)
    print(render(document, width or WIDTH, width is not None and coloured(stream)), file=stream)


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
    return min(max(columns, NARROWEST), WIDEST)


def coloured(stream: TextIO) -> bool:
    """Whether to write colours: a terminal that knows them, and no NO_COLOR."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def clean(text: str) -> str:
    """Text of logs and processes is data: none of it may steer the terminal.

    Examples
    --------
    >>> print(clean("a\\x1b[2Jb\\tc"))
    a\\x1b[2Jb c
    """
    return visible(text.replace("\t", " "))


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(clean(text), style)


class _Page:
    """Where a document is written: rich's console on a string."""

    def __init__(self, width: int, colour: bool, cut: bool):
        from rich.console import Console

        self.width, self.cut, self.page = max(width, NARROWEST), cut, StringIO()
        self.console = Console(
            file=self.page,
            width=self.width,
            color_system="standard" if colour else None,
            force_terminal=colour,
            no_color=not colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self.page.getvalue().splitlines())

    def line(self, *parts: str | Text) -> None:
        """One line, as long as it is."""
        from rich.text import Text

        self.console.print(Text.assemble(*parts), soft_wrap=True)

    def paragraph(self, lead: str, text: Text) -> None:
        """Lines set in below the first."""
        for number, line in enumerate(text.wrap(self.console, self.width - len(lead), overflow="fold") or [_text("")]):
            line.rstrip()
            self.line(lead if number == 0 else " " * len(lead), line)

    def one_line(self, lead: str, text: Text) -> None:
        """A line that is cut at the edge."""
        text.truncate(self.width - len(lead), overflow="ellipsis")
        self.line(lead, text)

    def section(self, section: Section) -> None:
        """A heading, and its blocks set in."""
        if section.heading:
            self.line()
            self.line(_text(section.heading, "bold"))
        for block in section.blocks:
            self.block(block, "  " if section.heading else "")

    def block(self, block: Block, lead: str) -> None:
        """One block, set in."""
        if isinstance(block, Item):
            lead += "  " * block.level + (f"{block.mark} " if block.mark else "")
            self.paragraph(lead, _text(block.text, "bold red" if block.mark == "!" else ""))
            if below := "  ".join(filter(None, (block.where, " ".join(block.small.split())))):
                self.one_line(" " * (len(lead) + 2), _text(below, "dim"))
        elif isinstance(block, Command):
            write = self.one_line if self.cut else self.line
            write(f"{lead}$ ", _text(block.text, "cyan"))
            if block.small:
                (self.one_line if self.cut else self.paragraph)(f"{lead}    ", _text(block.small, "dim"))
        elif isinstance(block, Values):
            size = max(map(len, block.pairs), default=0)
            for name, value in block.pairs.items():
                self.paragraph(f"{lead}{clean(name):{size}}  ", _text(value))
        elif block.rows:
            self.table(block, lead)

    def table(self, table: Table, lead: str) -> None:
        """Columns that fit the width: cells are wrapped; as records where the columns would be too narrow."""
        from rich.padding import Padding
        from rich.table import Table as Grid

        if table.heading:
            self.line(lead, _text(table.heading, "bold"))
        headed = any(table.columns)
        rows = [[cell if len(cell) <= LONGEST_CELL else f"{cell[: LONGEST_CELL - 1]}…" for cell in row] for row in table.rows]
        columns = zip(*([table.columns] if headed else []), *rows, strict=True)
        widths = [max(_text(line).cell_len for cell in column for line in cell.split("\n")) for column in columns]
        room = self.width - len(lead)
        if sum(min(width, LEAST_COLUMN) + GAP for width in widths) - GAP > room:
            self.records(table, rows, lead)
            return
        fits = sum(width + GAP for width in widths) - GAP <= room
        grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=headed, header_style="dim")
        for name, width in zip(table.columns, widths, strict=True):
            numeric = name in table.numeric
            grid.add_column(
                _text(name),
                justify="right" if numeric else "left",
                overflow="fold",
                no_wrap=fits or numeric,
                min_width=min(width, LEAST_COLUMN),
            )
        for number, row in enumerate(rows):
            grid.add_row(*map(_text, row), style="bold red" if number in table.odd else None)
        self.console.print(Padding(grid, (0, 0, 0, len(lead))))

    def records(self, table: Table, rows: list[list[str]], lead: str) -> None:
        """The first cell of each row, and below it the others with their heads."""
        for number, row in enumerate(rows):
            self.paragraph(lead, _text(row[0], "bold red" if number in table.odd else "bold"))
            self.block(Values({head: cell for head, cell in zip(table.columns[1:], row[1:], strict=True) if cell}), f"{lead}  ")
