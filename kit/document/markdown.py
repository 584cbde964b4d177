"""A document as Markdown, for a chat, an issue or a post-mortem page: text of the evidence is escaped."""

from __future__ import annotations

import re

from kit.document import Command, Document, Item, Section, Table, Values
from kit.untrusted import visible

_MARKER = re.compile(r"^(\d*)([-+.)])(?=\s|$)")
"""What would begin a list of its own where it stands first."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def render(document: Document) -> str:
    """A document as Markdown without a trailing newline.

    Examples
    --------
    >>> sections = [Section("evidence", [Item("rank_3 is behind", "+", "server.log:226", "25 %")]),
    ...             Section("n", [Table(("x", "y"), [("1", "a|b")], numeric={"x"})])]
    >>> print(render(Document("stalled", sections, last=Command("kit report RUN"))))  # doctest: +NORMALIZE_WHITESPACE
    **stalled**
    <BLANKLINE>
    **evidence**
    <BLANKLINE>
    - \\+ rank\\_3 is behind (`server.log:226`)
      `25 %`
    <BLANKLINE>
    **n**
    <BLANKLINE>
    | x | y |
    | ---: | --- |
    | 1 | a\\|b |
    <BLANKLINE>
    `kit report RUN`
    """
    parts = [f"**{escaped(document.title)}**"]
    if document.subtitle:
        parts.append(escaped(document.subtitle))
    for section in document.shown:
        parts += [f"**{escaped(section.heading)}**"] if section.heading else []
        parts += _section(section)
    if document.last is not None:
        parts.append(_line(document.last).removeprefix("- "))
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Text in which nothing is markup.

    Examples
    --------
    >>> print(escaped("a_b <i>"))
    a\\_b \\<i\\>
    """
    return _SPECIAL.sub(r"\\\1", " ".join(visible(text).split()))


def _code(text: str) -> str:
    """Text as code: with more backticks around it than it holds in a row."""
    text = " ".join(visible(text).split())
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    if not longest:
        return f"`{text}`"
    return f"{'`' * (longest + 1)} {text} {'`' * (longest + 1)}"


def _section(section: Section) -> list[str]:
    """Paragraphs of a section: lists in one piece, tables apart."""
    parts, lines = [], []
    for block in section.blocks:
        if isinstance(block, Table):
            parts += ["\n".join(lines)] if lines else []
            parts += _table(block) if block.rows else []
            lines = []
        elif isinstance(block, Values):
            lines += [f"- {escaped(name)}: {escaped(value)}" for name, value in block.pairs.items()]
        else:
            lines.append(_line(block))
    return parts + (["\n".join(lines)] if lines else [])


def _line(block: Item | Command) -> str:
    if isinstance(block, Command):
        return f"- {_code(block.text)}" + (f": {escaped(block.small)}" if block.small else "")
    mark = f"{block.mark} " if block.mark not in ("", "•") else ""
    indent = "  " * block.level
    where = f" ({_code(block.where)})" if block.where else ""
    small = (
        _code(block.small) if block.where and block.small else escaped(block.small)
    )  # a quote of the evidence, or a remark of ours
    below = f"  \n{indent}  {small}" if small else ""
    said = _MARKER.sub(r"\1\\\2", escaped(mark + block.text))
    return f"{indent}- {said}{where}{below}"


def _table(table: Table) -> list[str]:
    rules = ["---:" if name in table.numeric else "---" for name in table.columns]
    rows = [list(map(escaped, table.columns)), rules, *(list(map(escaped, row)) for row in table.rows)]
    shown = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return ([escaped(table.heading)] if table.heading else []) + [shown]
