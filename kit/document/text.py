"""A document as terminal text: by rich, at any width from 60 columns; colour and bold for a terminal only."""

from __future__ import annotations

import os
import re
import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from kit.document import Command, Document, Item, Section, Table, Values

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDTH = 110
"""Columns where no terminal says otherwise: the text of a pipe or a file is always the same."""
NARROWEST, WIDEST = 60, 120
"""Sentences longer than 120 columns are hard to read."""
LEAST_COLUMN = 10
"""A table whose columns would be narrower is shown as one record below the other."""
LONGEST_CELL = 160
COLOURS = {"ready": "green", "progressing": "cyan", "stalled": "red", "failed": "red", "ended": "cyan", "unknown": "yellow"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render(document: Document, width: int = WIDTH, colour: bool = False) -> str:
    """A document as text without a trailing newline.

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
    console = _console(width, colour)
    _wrapped(console, "", _text(document.title, f"bold {COLOURS.get(document.tone, '')}".strip()))
    if document.subtitle:
        _wrapped(console, "", _text(document.subtitle, "dim"))
    for section in document.shown:
        if section.heading:
            console.print()
            console.print(_text(section.heading, "bold"))
        _blocks(console, section)
    if document.last is not None:
        console.print()
        _command(console, document.last, "")
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


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
    >>> clean("a\\x1b[2Jb\\tc")
    'a?[2Jb c'
    """
    return _CONTROL.sub("?", text.replace("\t", " "))


def _console(width: int, colour: bool) -> Console:
    from rich.console import Console

    return Console(
        file=StringIO(),
        width=max(width, NARROWEST),
        color_system="standard" if colour else None,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(clean(text), style)


def _wrapped(console: Console, lead: str, text: Text) -> None:
    """A paragraph with its lines set in below its first."""
    from rich.text import Text

    for number, line in enumerate(text.wrap(console, console.width - len(lead), overflow="fold") or [Text()]):
        line.rstrip()
        console.print(Text.assemble(lead if number == 0 else " " * len(lead), line), soft_wrap=True)


def _blocks(console: Console, section: Section) -> None:
    lead = "  " if section.heading else ""
    for block in section.blocks:
        if isinstance(block, Item):
            _item(console, block, lead)
        elif isinstance(block, Command):
            _command(console, block, lead)
        elif isinstance(block, Values):
            size = max(map(len, block.pairs), default=0)
            for name, value in block.pairs.items():
                _wrapped(console, f"{lead}{name:{size}}  ", _text(value))
        elif block.rows:
            _table(console, block, lead)


def _item(console: Console, item: Item, lead: str) -> None:
    lead += "  " * item.level + (f"{item.mark} " if item.mark else "")
    _wrapped(console, lead, _text(item.text, "bold red" if item.mark == "!" else ""))
    below = "  ".join(filter(None, (item.where, " ".join(item.small.split()))))
    if below:
        _small(console, below, " " * (len(lead) + 2))


def _small(console: Console, text: str, lead: str) -> None:
    """Small print: one line, cut."""
    from rich.text import Text

    shown = _text(text, "dim")
    shown.truncate(console.width - len(lead), overflow="ellipsis")
    console.print(Text.assemble(lead, shown), soft_wrap=True)


def _command(console: Console, command: Command, lead: str) -> None:
    from rich.text import Text

    console.print(Text.assemble(lead, ("$ ", "dim"), _text(command.text, "cyan")), soft_wrap=True)
    if command.small:
        _wrapped(console, f"{lead}    ", _text(command.small, "dim"))


def _table(console: Console, table: Table, lead: str) -> None:
    from rich.padding import Padding
    from rich.table import Table as RichTable

    if table.heading:
        console.print(_text(f"{lead}{table.heading}", "bold"))
    headed = any(table.columns)
    rows = [[cell if len(cell) <= LONGEST_CELL else f"{cell[: LONGEST_CELL - 1]}…" for cell in row] for row in table.rows]
    widths = [max(map(_widest, column)) for column in zip(*([table.columns] if headed else []), *rows, strict=True)]
    room = console.width - len(lead)
    if sum(min(width, LEAST_COLUMN) + 2 for width in widths) - 2 > room:
        _records(console, table, rows, lead)
        return
    grid = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=headed, header_style="dim")
    fits = sum(widths) + 2 * len(widths) - 2 <= room
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
        grid.add_row(*(_text(cell) for cell in row), style="bold red" if number in table.odd else None)
    console.print(Padding(grid, (0, 0, 0, len(lead))))


def _records(console: Console, table: Table, rows: list[list[str]], lead: str) -> None:
    """A table too wide for the terminal: the first cell of each row, and the others with their heads below."""
    for number, row in enumerate(rows):
        _wrapped(console, lead, _text(row[0], "bold red" if number in table.odd else "bold"))
        pairs = {head: cell for head, cell in zip(table.columns[1:], row[1:], strict=True) if cell}
        _blocks(console, Section(lead, [Values(pairs)]))


def _widest(cell: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, cell.split("\n")))
