"""The status of a launch as a document, the same in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable

from kit.analyse.verdict.live_status import Status
from kit.analyse.verdict.verdict_text import answer
from kit.clock import show_duration
from kit.document import Command, Document, Section, Table, items
from kit.plot.style import human_bytes

HEADS = ("rank", "host", "pid", "role", "state", "CPU", "RSS", "reads", "threads", "last progress", "waits in")
NUMERIC = frozenset(("rank", "pid", "CPU", "RSS", "reads", "threads", "last progress"))
SPARED = ("threads", "reads", "host", "role", "RSS")
"""Columns that a narrow terminal does without, in this order."""
LONGEST = 24
"""Characters of the place where a process waits."""
ODD = "▶"
LEAST_ROWS = 3


def document(status: Status, note: str = "", room: int | None = None, most: int | None = None) -> Document:
    """All of a status.

    `note`: what there is to say of the view itself. `room`: columns for the table of processes; all it has without it. `most`:
    rows of that table.
    """
    moves = [" · ".join(words) for words in (progress(status), rates(status)) if words]
    return Document(
        title=title(status),
        subtitle=" · ".join(filter(None, (status.name, status.at, note))),
        sections=[
            Section("", items(moves, "")),
            Section("processes", [process_table(status, room, most)]),
            Section("evidence", items(status.evidence)),
            Section("next", [Command(step["command"], step["what"]) for step in status.next]),
        ],
        tone=status.state,
    )


def process_table(status: Status, room: int | None = None, most: int | None = None) -> Table:
    """Processes, ranks first; the odd ones are marked. Hosts are named where there are several.

    Examples
    --------
    >>> row = dict(rank=0, host=None, pid=7, role="worker", state="S", cpu_percent=0.1, rss_bytes=2**30, rss_bytes_per_s=0.0,
    ...            read_bytes_per_s=0.0, threads=50, waits_in="futex", progress_s=61.0, record_s=61.0, odd=True)
    >>> process_table(Status("run", "12:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.9, [0], rows=[row]))
    rank | pid | role | state | CPU | RSS | reads | threads | last progress | waits in
    ▶ 0 | 7 | worker | S | 0.1 % | 1.0 GiB | 0 B/s | 50 | 61 s ago | futex
    """
    rows = [cells(row) for row in status.rows]
    several = len({row["host"] for row in status.rows}) > 1
    shown = [number for number, head in enumerate(HEADS) if several or head != "host"]
    widths = [max(len(line[number]) for line in [HEADS, *rows]) + 2 for number in range(len(HEADS))]
    for head in SPARED:
        if room is not None and sum(widths[number] for number in shown) - 2 > room:
            shown = [number for number in shown if HEADS[number] != head]
    return Table(
        columns=[HEADS[number] for number in shown],
        rows=[[row[number] for number in shown] for row in rows[:most]],
        total=None if most is None else len(rows),
        numeric=NUMERIC,
        odd={number for number, row in enumerate(status.rows) if row["odd"]},
    )


def fitted(status: Status, width: int, height: int, note: str = "") -> Document:
    """A status that fits a terminal: fewer columns, then fewer rows; the table counts those that are left out."""
    from kit.document.text import render

    whole = document(status, note, width - 2)
    too_many = render(whole, width, cut=True).count("\n") + 1 - height
    if too_many <= 0 or not status.rows:
        return whole
    return document(status, note, width - 2, max(LEAST_ROWS, len(status.rows) - too_many - 1))


def title(status: Status) -> str:
    """State, class, odd ranks, how sure.

    Examples
    --------
    >>> title(Status("run", "12:00:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.96, [0]))
    'stalled in weights: one rank is behind (rank_straggler), rank 0, 96 %'
    """
    return answer(status, state="too early to say" if status.early else "", silence_s=None)


def progress(status: Status) -> list[str]:
    """Phase, bars, silence.

    Examples
    --------
    >>> progress(Status("run", "12:00:00", "stalled", "device_hang", "a hang", "weights", 0.9, [], phase_s=70, log_silence_s=61))
    ['phase weights for 70 s', 'log silent for 61 s']
    """
    said = [
        f"phase {status.phase or 'unknown'}" + (f" for {show_duration(status.phase_s)}" if status.phase_s is not None else "")
    ]
    said += status.bars
    if status.log_silence_s is not None:
        said.append(f"log silent for {show_duration(status.log_silence_s)}")
    if status.silence_s is not None:
        said.append(f"last progress {show_duration(status.silence_s)} ago")
    return said


def rates(status: Status) -> list[str]:
    """What moves, and how fast.

    Examples
    --------
    >>> rates(Status("run", "12:00:00", "progressing", "slow_weights", "it loads", "weights", 0.9, [], read_bytes_per_s=2.0**30))
    ['reads 1.0 GiB/s']
    """
    said = []
    if status.read_bytes_per_s is not None:
        said.append(f"reads {_rate(status.read_bytes_per_s)}")
    if status.rss_bytes_per_s is not None:
        said.append(f"memory {'−' if status.rss_bytes_per_s < 0 else '+'}{_rate(abs(status.rss_bytes_per_s))}")
    if status.records_per_min is not None:
        said.append(f"{status.records_per_min} log records in the last minute")
    return said


def cells(row: dict) -> tuple[str, ...]:
    """One process under `HEADS`; an odd rank is marked.

    Examples
    --------
    >>> cells(dict(rank=0, host=None, pid=7, role="worker", state="S", cpu_percent=0.1, rss_bytes=2**30, threads=50,
    ...            read_bytes_per_s=0.0, waits_in="futex", progress_s=61.0, odd=True))
    ('▶ 0', '', '7', 'worker', 'S', '0.1 %', '1.0 GiB', '0 B/s', '50', '61 s ago', 'futex')
    """

    def of(name: str, show: Callable) -> str:
        return "" if row[name] is None else show(row[name])

    return (
        "–" if row["rank"] is None else f"{ODD} {row['rank']}" if row["odd"] else str(row["rank"]),
        row["host"] or "",
        str(row["pid"]),
        " ".join(row["role"].split()),
        row["state"] or "?",
        of("cpu_percent", lambda value: f"{value:.1f} %"),
        of("rss_bytes", human_bytes),
        of("read_bytes_per_s", _rate),
        of("threads", str),
        of("progress_s", lambda value: f"{show_duration(value)} ago"),
        (row["waits_in"] or "")[:LONGEST],
    )


def _rate(value: float) -> str:
    return f"{human_bytes(value)}/s" if value >= 1024 else f"{max(0.0, value):.0f} B/s"
