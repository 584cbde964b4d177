"""What the kit says, as plain data: a title, sections, and in them sentences, commands, names with values, tables.

Whoever has something to say builds a `Document`; `kit.document.text`, `.html` and `.markdown` are the only places that know
what it looks like. Everything in it is text of the evidence or of the kit, never markup: the renderers escape it.

    Document(
        title="stalled: one rank is behind (rank_straggler), 96 %",     # the answer, first line
        subtitle="run, as of 2026-02-18 02:11:52",
        sections=[
            Section("evidence", [Item("rank 3 has loaded 1 of 4 shards", where="server.log:226", small="Loading 25 %")]),
            Section("next", [Command("kit triage ssh://HOST", small="stacks of all ranks; about 2 s of CPU")]),
            Section("facts", [Values({"silence_s": "12 min"})], folded=True),
            Section("phases", [Table(("phase", "a", "b"), [("weights", "39 s", "12 min")], numeric={"a", "b"})]),
        ],
        last=Command("kit report RUN", small="the whole post-mortem"),
        tone="stalled",
    )

A result that users hold (a verdict, a comparison) inherits from `Shown` and defines `document()`: that gives it `str()`, HTML
in a notebook and `to_markdown()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from typing import TypeVar

from kit.redact import scrub_text

T = TypeVar("T")

TONES = ("ready", "progressing", "stalled", "failed", "ended", "unknown", "")
"""States of a launch: what colour a title has."""


@dataclass(frozen=True)
class Item:
    """A sentence."""

    text: str
    # one character before it: `•` a statement, `→` what to do, `+` and `−` for and against, `×` refuted, `?` open, `!` alarm;
    # empty for a paragraph
    mark: str = "•"
    where: str = ""  # `file:line` of its evidence
    small: str = ""  # small print below it: the line that stands there, or a remark. Cut where it is longer than a line.
    level: int = 0  # 0 or 1: how far it is set in


@dataclass(frozen=True)
class Command:
    """A command line to copy: never wrapped, never cut. `small` says what it is for."""

    text: str
    small: str = ""


@dataclass(frozen=True)
class Values:
    """Names with their values, one a line."""

    pairs: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """Rows of text."""

    columns: Sequence[str]  # heads; all empty for a table without a head
    rows: Sequence[Sequence[str]]  # cells
    total: int | None = None  # rows there were, where not all are shown; None for a table that does not count its rows
    caption: str = ""  # what it is, shown above it
    numeric: AbstractSet[str] = frozenset()  # columns to align right
    odd: AbstractSet[int] = frozenset()  # rows to stress
    # the values that the cells were written from, where a cell says less: HTML sorts by them and shows them on hover
    raw: Sequence[Sequence[object]] = ()
    spare: Sequence[str] = ()  # columns that a narrow terminal leaves out, the first first

    @property
    def count(self) -> str:
        """`N rows`, or `N of M rows`.

        Examples
        --------
        >>> Table(("pid",), [("1",)], 7).count, Table(("pid",), [("1",)], 1).count
        ('1 of 7 rows', '1 row')
        """
        total = len(self.rows) if self.total is None else self.total
        if len(self.rows) < total:
            return f"{len(self.rows):,} of {total:,} rows"
        return f"{total:,} row{'' if total == 1 else 's'}"

    @property
    def heading(self) -> str:
        """Caption with the number of rows, each where it is there."""
        if self.total is None:
            return self.caption
        return f"{self.caption} ({self.count})" if self.caption else self.count

    def _repr_html_(self) -> str:
        from kit.document import html

        return html.table(self) + html.script_for(self)

    def __repr__(self) -> str:
        lines = [self.heading, " | ".join(self.columns), *(" | ".join(row) for row in self.rows)]
        return "\n".join(filter(None, lines))


Block = Item | Command | Values | Table


@dataclass(frozen=True)
class Section:
    """Blocks under a heading (which may be empty); `folded` where HTML shows the heading alone at first."""

    heading: str
    blocks: Sequence[Block]
    folded: bool = False


@dataclass(frozen=True)
class Document:
    """All that is said of one thing. Sections without blocks are left out."""

    title: str  # the answer, in one sentence
    sections: Sequence[Section] = field(default_factory=list)
    subtitle: str = ""  # of what and when
    last: Command | None = None  # last line: where to read on
    tone: str = ""  # one of `TONES`

    @property
    def shown(self) -> list[Section]:
        """Sections that hold something: a table without rows does not."""
        return [section for section in self.sections if any(not isinstance(b, Table) or b.rows for b in section.blocks)]


class Shown:
    """A result that shows itself in a terminal, in a notebook and in a chat, by one document."""

    told_in = ""
    """Module whose `document` makes it of the result; empty where the class does."""

    def document(self, brief: bool = False) -> Document:
        """What it says; `brief` for a chat, where there is less to say than all."""
        return import_module(self.told_in).document(self, brief)

    def __str__(self) -> str:
        from kit.document import text

        return text.render(scrubbed(self.document()))

    def _repr_html_(self) -> str:
        from kit.document import html

        document = scrubbed(self.document())
        tables = [block for section in document.shown for block in section.blocks if isinstance(block, Table)]
        return html.render(document) + html.script_for(*tables)

    def to_markdown(self, brief: bool = False) -> str:
        """What it says, as Markdown; `brief` for a chat."""
        from kit.document import markdown

        return markdown.render(scrubbed(self.document(brief)))


def scrubbed(value: T) -> T:
    """The same without secrets: files that somebody sent were not scrubbed when they were captured.

    Examples
    --------
    >>> scrubbed(Item("the log ends", small="HF_TOKEN=abc")).small, scrubbed({"a": ["--token x"]})
    ('HF_TOKEN=[redacted]', {'a': ['--token [redacted]']})
    """
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, Mapping):
        return {key: scrubbed(one) for key, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, (list, tuple)):
        return type(value)(scrubbed(one) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: scrubbed(getattr(value, one.name)) for one in fields(value)})
    return value


def items(texts: Sequence[str], mark: str = "•") -> list[Item]:
    """Sentences with one mark.

    Examples
    --------
    >>> items(["a is ready"])
    [Item(text='a is ready', mark='•', where='', small='', level=0)]
    """
    return [Item(text, mark) for text in texts]


def percent(share: float) -> str:
    """A share as text.

    Examples
    --------
    >>> percent(0.964), percent(0.0)
    ('96 %', '0 %')
    """
    if 0.995 <= share < 1:
        return "> 99 %"  # nothing that is believed is certain
    return f"{share:.0%}".replace("%", " %")
