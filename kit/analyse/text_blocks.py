"""Headings with sentences or tables, shown as terminal text or as HTML: what comparisons and ledgers of launches share."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from html import escape

from kit.document.text import WIDTH

Block = tuple[str, list[str], list[list[str]]]
"""(heading, column heads, rows); without heads the rows are sentences; a row that begins with `$` is a command."""
NARROWEST = 12
"""Columns are not cut below this width."""
SHORT = 24
"""Columns whose cells have at most so many characters are not wrapped in HTML, so that long ones get the room."""


def as_text(title: str, blocks: list[Block]) -> str:
    """Blocks as terminal text, at most `WIDTH` columns wide; commands are not wrapped, so that they can be copied.

    Examples
    --------
    >>> print(as_text("two", [("findings", [], [["a is ready"], ["$", "kit verdict a"]]), ("n", ["x", "y"], [["1", "2"]])]))
    two
    <BLANKLINE>
    findings
      • a is ready
      $ kit verdict a
    <BLANKLINE>
    n
      x  y
      1  2
    """
    lines = [title]
    for heading, heads, rows in blocks:
        lines += ["", heading]
        if heads:
            lines += _columns([heads, *rows] if any(heads) else rows)
            continue
        for row in rows:
            if row[0] == "$":
                lines.append(f"  $ {row[1]}")
            else:
                lines += textwrap.wrap(row[0], WIDTH, initial_indent="  • ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def _columns(rows: list[list[str]]) -> list[str]:
    """Rows in columns; long cells are cut so that the line fits."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    while sum(widths) + 2 * len(widths) > WIDTH and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    cut = [[_fit(row[0], widths[0], widths[0] // 2), *map(_fit, row[1:], widths[1:])] for row in rows]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()[:WIDTH] for row in cut
    ]


def _fit(cell: str, width: int, tail: int = 0) -> str:
    """A cell cut to a width; with `tail` so many characters of its end are kept: names that begin alike differ there.

    Examples
    --------
    >>> _fit("compilation_config.custom_ops", 20, 10), _fit("compilation", 8), _fit("8", 8)
    ('compilati…custom_ops', 'compila…', '8')
    """
    return cell if len(cell) <= width else f"{cell[: width - 1 - tail]}…{cell[len(cell) - tail :]}"


def as_html(title: str, blocks: list[Block], css_class: str, closed: Collection[str] = ()) -> str:
    """The same as HTML; all text of the evidence is escaped. Blocks whose heading begins with one of `closed` are folded."""
    parts = [
        f"<div class='{css_class}' style='border-left:6px solid #0072b2;padding:.2em 1em;max-width:72em'>",
        f"<p style='font-size:1.15em;margin:.3em 0'><b>{escape(title)}</b></p>",
    ]
    for heading, heads, rows in blocks:
        opened = not heading.startswith(tuple(closed))
        body = _table(heads, rows) if heads else _list(rows)
        parts.append(f"<details{' open' if opened else ''}><summary><b>{escape(heading)}</b></summary>{body}</details>")
    return "".join([*parts, "</div>"])


def _list(rows: list[list[str]]) -> str:
    items = (f"<code>{escape(row[1])}</code>" if row[0] == "$" else escape(row[0]) for row in rows)
    listed = "".join(f"<li style='margin:.15em 0;overflow-wrap:anywhere'>{item}</li>" for item in items)
    return f"<ul style='padding-left:1.4em;margin:.2em 0'>{listed}</ul>"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    style = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0;"
    short = [all(len(row[at]) <= SHORT for row in rows) for at in range(len(heads))]
    styles = [style + ("white-space:nowrap" if one else "overflow-wrap:anywhere;min-width:9em") for one in short]
    head = "".join(f"<th scope='col' style='{own}'>{escape(name)}</th>" for name, own in zip(heads, styles, strict=True))
    cells = ("".join(f"<td style='{own}'>{escape(cell)}</td>" for cell, own in zip(row, styles, strict=True)) for row in rows)
    body = "".join(f"<tr>{own}</tr>" for own in cells)
    return (
        f"<div style='overflow-x:auto'><table class='kit-table' style='margin:.2em 0 .6em 0'><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def records(frame) -> list[dict]:
    """Rows of a frame as plain types, missing values as None."""
    names = [str(name) for name in frame.columns]
    return [
        {name: plain(value) for name, value in zip(names, values, strict=True)}
        for values in frame.itertuples(index=False, name=None)
    ]


def plain(value: object) -> object:
    """A cell of a frame as a plain type."""
    import pandas as pd

    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    return value.item() if hasattr(value, "item") else value


def named(rows: list[str], most: int = 6) -> str:
    """The first of a list in words, and how many more there are.

    Examples
    --------
    >>> named(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(rows[:most]) + (f" and {len(rows) - most} more" if len(rows) > most else "")
