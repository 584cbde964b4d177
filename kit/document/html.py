"""A document as HTML for a notebook cell: everything escaped, sections that fold."""

from __future__ import annotations

import html
import re
from functools import cache
from importlib.resources import files

from kit.document import Block, Command, Document, Item, Section, Table, Values
from kit.untrusted import visible

COLOURS = {"ready": "#117733", "progressing": "#0072b2", "stalled": "#b3520a", "failed": "#a01c2c", "unknown": "#555"}
"""Text colours with a contrast of at least 4.5 on white; mixed with the ink around them they have it on a dark page, too."""
OTHER = "#0072b2"
AS_IT_IS = "mathjax_ignore"
"""Class of what a notebook must not set as a formula: a shell's `$p/fd/1 $p` is none."""
SHORT = 28
"""Columns whose lines have at most so many characters are not wrapped, so that long ones get the room."""
HYPHENATED = re.compile(r"\S*-\S+")
LONG = "white-space:pre-line;overflow-wrap:anywhere;min-width:11em"


def render(document: Document) -> str:
    """A document as one `div`.

    Examples
    --------
    >>> "<script>" in render(Document("<script>", [Section("a", [Item("<script>", small="<script>")])]))
    False
    """
    colour = COLOURS.get(document.tone, OTHER)
    readable = f"color-mix(in srgb,{colour} 65%,currentColor)"
    parts = [
        f"<div class='kit-document {AS_IT_IS}' style='border-left:6px solid {colour};padding:.2em 1em;max-width:72em'>",
        f"<p style='font-size:1.2em;margin:.3em 0'><b style='color:{readable}'>{escape(document.title)}</b></p>",
    ]
    if document.subtitle:
        parts.append(f"<p style='margin:.2em 0;opacity:.75'>{escape(document.subtitle)}</p>")
    parts += map(section, document.shown)
    if document.last is not None:
        parts.append(f"<p class='kit-last' style='margin:.3em 0'>{_line(document.last)}</p>")
    return "".join([*parts, "</div>"])


def escape(text: str) -> str:
    """Text of the evidence in HTML: no markup, and nothing that turns what stands beside it."""
    return html.escape(visible(text))


def whole_words(text: str) -> str:
    """Text for HTML whose lines break at spaces alone: a browser would break `--tp-size` after each hyphen.

    Examples
    --------
    >>> whole_words("set <a> --b").startswith("set &lt;a&gt; <span")
    True
    """
    return HYPHENATED.sub(r"<span style='display:inline-block;max-width:100%'>\g<0></span>", escape(text))


def table(shown: Table) -> str:
    """A table with its caption; each cell names its column, so that a narrow page can show rows as cards.

    Examples
    --------
    >>> table(Table(("<b>",), []))
    '<p>no rows</p>'
    """
    if not shown.rows:
        return f"<p><b>{escape(shown.caption)}</b> (no rows)</p>" if shown.caption else "<p>no rows</p>"
    styles = [_style(shown, number) for number in range(len(shown.columns))]
    names = [escape(name) for name in shown.columns]
    head = "".join(
        f"<th scope='col' style='{style}'>{name}</th>" if name else "<td></td>" for name, style in zip(names, styles, strict=True)
    )
    body = "".join(
        f"<tr{' style=font-weight:bold' if number in shown.odd else ''}>"
        + "".join(
            f"<td{_label(name)}{_raw(shown, number, column)} style='{style}'>{_cell(row[column])}</td>"
            for column, (name, style) in enumerate(zip(names, styles, strict=True))
        )
        + "</tr>"
        for number, row in enumerate(shown.rows)
    )
    caption = f"<caption style='text-align:left;caption-side:top'>{escape(shown.heading)}</caption>" if shown.heading else ""
    region = f"tabindex='0' role='group' aria-label='{escape(shown.heading or 'table')}'"
    return (
        f"<div class='kit-scroll {AS_IT_IS}' {region} style='overflow-x:auto'>"
        f"<table class='kit-table' style='border-spacing:.8em .2em'>{caption}"
        f"{f'<thead><tr>{head}</tr></thead>' if any(shown.columns) else ''}<tbody>{body}</tbody></table></div>"
    )


@cache
def table_script() -> str:
    """The script by which tables of a page sort, filter and fold: the same for all, so that a policy can name its hash."""
    return (files("kit.document") / "table.js").read_text(encoding="utf-8")


def script_for(*shown: Table) -> str:
    """The script for a notebook's cell, where some table has rows to sort."""
    return f"<script>{table_script()}</script>" if any(len(one.rows) > 1 and any(one.columns) for one in shown) else ""


def _cell(text: str) -> str:
    return whole_words(text) if " --" in text else escape(text)


def _label(name: str) -> str:
    return f" data-label='{name}'" if name else ""


def _raw(shown: Table, row: int, column: int) -> str:
    """The value behind a cell that is written for people: to sort by, and to see on hover."""
    value = shown.raw[row][column] if shown.raw else None
    if value is None or str(value) == shown.rows[row][column]:
        return ""
    return f" data-v='{escape(str(value))}' title='{escape(str(value))}'"


def _style(shown: Table, column: int) -> str:
    align = "right" if shown.columns[column] in shown.numeric else "left"
    short = all(len(line) <= SHORT for row in shown.rows for line in row[column].splitlines())
    return f"text-align:{align};vertical-align:top;{'white-space:pre' if short else LONG}"


def section(shown: Section) -> str:
    """A section under a heading that folds it."""
    parts, lines = [], []
    for block in [*shown.blocks, None]:
        if isinstance(block, (Item, Command)):
            lines.append(f"<li style='{'padding-left:1.4em;' * getattr(block, 'level', 0)}margin:.15em 0'>{_line(block)}</li>")
            continue
        if lines:
            parts.append(
                f"<ul style='list-style:none;padding-left:1em;margin:.2em 0;overflow-wrap:anywhere'>{''.join(lines)}</ul>"
            )
            lines = []
        if block is not None:
            parts.append(_block(block))
    if not shown.heading:
        return "".join(parts)
    opened = "" if shown.folded else " open"
    return f"<details{opened}><summary><b>{escape(shown.heading)}</b></summary>{''.join(parts)}</details>"


def _block(block: Block) -> str:
    if isinstance(block, Values):
        return table(Table(("", ""), list(block.pairs.items())))
    assert isinstance(block, Table)
    return table(block)


def _line(block: Item | Command) -> str:
    if isinstance(block, Command):
        text, below = f"<code style='unicode-bidi:isolate'>{whole_words(block.text)}</code>", block.small
    else:
        text = f"{escape(block.mark)} {whole_words(block.text)}" if block.mark else whole_words(block.text)
        below = " · ".join(filter(None, (block.where, block.small)))
    return text + (f"<br><small style='opacity:.75;unicode-bidi:isolate'>{escape(below)}</small>" if below else "")
