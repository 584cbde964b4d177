"""The status of a launch as a document, the same in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kit.analyse.verdict.live_status import Status
from kit.analyse.verdict.verdict_text import answer
from kit.clock import show_duration
from kit.document import Command, Document, Section, Table, Values, items
from kit.plot.style import human_bytes
from kit.words import named, short

HEADS = ("rank", "host", "pid", "role", "state", "CPU", "CPU until now", "RSS", "reads", "threads", "last progress", "waits in")
HISTORY, BARS, SPARK = HEADS[6], "▁▂▃▄▅▆▇█", 13
"""A column of a watch, and the steps and the length of its bars."""
QUIET = {"read_bytes_per_s": 2.0**20, "records_per_min": 10.0}
"""A history that stays below this is drawn low: its ups and downs mean nothing."""
NUMERIC = frozenset(("rank", "pid", "CPU", "RSS", "reads", "threads", "last progress"))
SPARED = ("threads", "reads", "host", "role", "RSS", HISTORY)
"""Columns that a narrow terminal does without, in this order."""
LONGEST = 40
"""Characters of the place where a process waits."""
ODD = "▶"
LEAST_ROWS, MOST_LINES, MOST_NAMED = 3, 8, 4


def document(status: Status, note: str = "", most: int | None = None, less: int = 0) -> Document:
    """All of a status.

    `note`: what there is to say of the view itself. `most`: rows of the table of processes. `less`: what stands below it, 0 all,
    1 the first piece of evidence and the first step, 2 neither.
    """
    moves = [" · ".join(words) for words in (progress(status), rates(status)) if words]
    below = (None, 1, 0)[less]
    return Document(
        title=title(status),
        subtitle=" · ".join(filter(None, (status.name, status.at, note))),
        sections=[
            Section("", items(moves, "")),
            Section("processes", [process_table(status, most)]),
            Section("last log lines", [Values(lines)] if (lines := last_lines(status)) else []),
            Section("evidence", items(status.evidence[:below])),
            Section("next", [Command(step["command"], step["what"]) for step in status.next[:below]]),
        ],
        tone=status.state,
    )


def last_lines(status: Status) -> dict[str, str]:
    """What each rank, or else the log, said last; the odd ranks first, ranks that said the same together.

    Examples
    --------
    >>> rows = [dict(rank=rank, role="worker", odd=rank == 2, last_line="loaded" if rank < 2 else "loading") for rank in range(3)]
    >>> last_lines(Status("run", "12:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.9, [2], rows=rows))
    {'rank 2': 'loading', 'ranks 0, 1': 'loaded'}
    """
    said: dict[str, list[dict]] = {}
    for row in sorted(status.rows, key=lambda row: not row["odd"]):
        if row.get("last_line"):
            said.setdefault(row["last_line"], []).append(row)
    lines = {_who(rows): text for text, rows in said.items()}
    if not lines and status.last_line:
        lines = {"log": status.last_line}
    return dict(list(lines.items())[:MOST_LINES])


def _who(rows: list[dict]) -> str:
    ranks = sorted(row["rank"] for row in rows if row["rank"] is not None)
    who = [f"{len(ranks)} ranks" if len(ranks) > MOST_NAMED else named("rank", ranks)] if ranks else []
    return ", ".join([*who, *dict.fromkeys(row["role"] for row in rows if row["rank"] is None)])


def spark(values: Sequence[float | None], top: float = 0.0) -> str:
    """A history in bars from zero to the largest value, or to `top` where that is more; a peak is never thinned away.

    Examples
    --------
    >>> spark([0, 50, None, 100]), spark([1, 1], top=100), spark([None])
    ('▁▄ █', '▁▁', '')
    >>> spark([0] * 100 + [9] + [0] * 139)
    '▁▁▁▁▁█▁▁▁▁▁▁▁'
    """
    known = [value for value in values if value is not None]
    if not known:
        return ""
    top, size = max(top, *known), -(-len(values) // SPARK)
    parts = [[v for v in values[at : at + size] if v is not None] for at in range(0, len(values), size)]
    return "".join(BARS[int(7 * max(part) / top) if top > 0 else 0] if part else " " for part in parts)


def process_table(status: Status, most: int | None = None) -> Table:
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
    watched = any(row.get("cpu_history") for row in status.rows)
    shown = [n for n, head in enumerate(HEADS) if (several or head != "host") and (watched or head != HISTORY)]
    return Table(
        columns=[HEADS[number] for number in shown],
        rows=[[row[number] for number in shown] for row in rows[:most]],
        total=None if most is None else len(rows),
        numeric=NUMERIC,
        odd={number for number, row in enumerate(status.rows) if row["odd"]},
        spare=SPARED,
    )


def fitted(page: Callable[[int | None, int], Document], rows: int, steps: int, width: int, height: int) -> Document:
    """A document that fits a terminal: less below its table, in so many steps, then fewer rows; it counts those left out."""
    from kit.document.text import render

    for less in range(steps):
        found = page(None, less)
        too_many = render(found, width, cut=True).count("\n") + 1 - height
        if too_many <= 0 or not rows:
            return found
    return page(max(LEAST_ROWS, rows - too_many - 1), less)


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
        said.append(f"reads {rate(status.read_bytes_per_s)}{_until_now(status, 'read_bytes_per_s')}")
    if status.rss_bytes_per_s is not None:
        said.append(f"memory {'−' if status.rss_bytes_per_s < 0 else '+'}{rate(abs(status.rss_bytes_per_s))}")
    if status.records_per_min is not None:
        said.append(f"{status.records_per_min} log records in the last minute{_until_now(status, 'records_per_min')}")
    return said


def _until_now(status: Status, name: str) -> str:
    values = status.history.get(name) or ()
    return f" {spark(values, QUIET[name])}" if len(values) > 1 else ""


def cells(row: dict) -> tuple[str, ...]:
    """One process under `HEADS`; an odd rank is marked.

    Examples
    --------
    >>> cells(dict(rank=0, host=None, pid=7, role="worker", state="S", cpu_percent=0.1, rss_bytes=2**30, threads=50,
    ...            read_bytes_per_s=0.0, waits_in="futex", progress_s=61.0, odd=True))
    ('▶ 0', '', '7', 'worker', 'S', '0.1 %', '', '1.0 GiB', '0 B/s', '50', '61 s ago', 'futex')
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
        spark(row.get("cpu_history") or (), top=100.0),
        of("rss_bytes", human_bytes),
        of("read_bytes_per_s", rate),
        of("threads", str),
        of("progress_s", lambda value: f"{show_duration(value)} ago"),
        short(row["waits_in"] or "", LONGEST),
    )


def rate(value: float) -> str:
    """Bytes a second.

    Examples
    --------
    >>> rate(2.0**30), rate(-1.0)
    ('1.0 GiB/s', '0 B/s')
    """
    return f"{human_bytes(value)}/s" if value >= 1024 else f"{max(0.0, value):.0f} B/s"
