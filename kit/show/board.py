"""The words of a board, the same in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable

from kit.analyse.verdict.live_status import Board
from kit.analyse.verdict.verdict_text import sureness
from kit.clock import show_duration
from kit.plot.style import human_bytes

HEADS = ("rank", "host", "pid", "role", "state", "CPU", "RSS", "reads", "threads", "last progress", "waits in")
NUMERIC = frozenset(("rank", "pid", "CPU", "RSS", "reads", "threads", "last progress"))
ODD = "▶"


def headline(board: Board) -> str:
    """State, class, odd ranks, how sure.

    Examples
    --------
    >>> headline(Board("run", "12:00:00", "stalled", "rank_straggler", "weights", 0.96, [0]))
    'STALLED: rank_straggler, rank 0 (nearly certain, 96%)'
    """
    if board.klass == "undetermined":
        return "UNDETERMINED: the evidence does not decide yet"
    ranks = f", rank {', '.join(map(str, board.ranks))}" if board.ranks else ""
    state = "TOO EARLY TO SAY" if board.early else board.state.upper()
    return f"{state}: {board.klass}{ranks} ({sureness(board.confidence)}, {board.confidence:.0%})"


def progress(board: Board) -> list[str]:
    """Phase, bars, silence.

    Examples
    --------
    >>> progress(Board("run", "12:00:00", "stalled", "device_hang", "weights", 0.9, [], phase_s=70, log_silence_s=61))
    ['phase weights for 70 s', 'log silent for 61 s']
    """
    said = [f"phase {board.phase or 'unknown'}" + (f" for {show_duration(board.phase_s)}" if board.phase_s is not None else "")]
    said += board.bars
    if board.log_silence_s is not None:
        said.append(f"log silent for {show_duration(board.log_silence_s)}")
    if board.silence_s is not None:
        said.append(f"last progress {show_duration(board.silence_s)} ago")
    return said


def rates(board: Board) -> list[str]:
    """What moves, and how fast.

    Examples
    --------
    >>> rates(Board("run", "12:00:00", "progressing", "slow_weights", "weights", 0.9, [], read_bytes_per_s=2.0**30))
    ['reads 1.0 GiB/s']
    """
    said = []
    if board.read_bytes_per_s is not None:
        said.append(f"reads {_rate(board.read_bytes_per_s)}")
    if board.rss_bytes_per_s is not None:
        said.append(f"memory {'−' if board.rss_bytes_per_s < 0 else '+'}{_rate(abs(board.rss_bytes_per_s))}")
    if board.records_per_min is not None:
        said.append(f"{board.records_per_min} log records in the last minute")
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
        row["role"],
        row["state"] or "?",
        of("cpu_percent", lambda value: f"{value:.1f} %"),
        of("rss_bytes", human_bytes),
        of("read_bytes_per_s", _rate),
        of("threads", str),
        of("progress_s", lambda value: f"{show_duration(value)} ago"),
        row["waits_in"] or "",
    )


def columns(board: Board) -> list[int]:
    """Numbers of the columns that say something: hosts only where there are several."""
    several = len({row["host"] for row in board.rows}) > 1
    return [number for number, head in enumerate(HEADS) if several or head != "host"]


def _rate(value: float) -> str:
    return f"{human_bytes(value)}/s" if value >= 1024 else f"{max(0.0, value):.0f} B/s"
