"""What the launches of several hosts are doing at one moment: a line a host, the one to look at first on top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kit.analyse.verdict.live_status import Status
from kit.clock import show_duration
from kit.document import Command, Document, Section, Table, items
from kit.show.status import QUIET, rate, spark, title
from kit.words import count_of, named

HEADS = ("host", "state", "phase", "what", "last progress", "last log line", "log until now", "reads", "last line")
NUMERIC = frozenset(("last progress", "last log line", "reads"))
SPARED = ("last line", "reads", "log until now", "last progress", "last log line", "phase")
"""Columns that a narrow terminal does without, in this order."""
RECORDS = "records_per_min"
CONNECTING = "connecting …"
MOST_UNREACHED = 4
"""Hosts whose reason is said in full; each stands in the table too."""
URGENT = ("failed", "stalled", "", "unknown", "progressing", "ended", "ready")
"""States in the order in which they are looked at; of a host without a board it is not known."""
BAD = URGENT[:2]


@dataclass(frozen=True)
class Hosts:
    """The board of each host, or what is said where there is none: that it is not reached."""

    boards: Mapping[str, Status | str]

    def ordered(self, column: str = "", turned: bool = False) -> Hosts:
        """The same hosts, the most urgent state first, or by a value of the boards, the largest first; unknown last."""

        def place(name: str) -> tuple:
            board = self.boards[name]
            if not column:
                return (URGENT.index("" if isinstance(board, str) else board.state),)
            value = None if isinstance(board, str) else getattr(board, column)
            return (value is None, -(value or 0.0))

        names = sorted(self.boards, key=place)
        return Hosts({name: self.boards[name] for name in (names[::-1] if turned else names)})


def document(hosts: Hosts, note: str = "", most: int | None = None, less: int = 0) -> Document:
    """A line a host; below it the evidence and the next step of the one that is in trouble.

    `note`: what there is to say of the view itself. `most`: rows of the table. `less`: with 1 nothing stands below it.

    Examples
    --------
    >>> board = Status("b", "12:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.96, [0], log_silence_s=61)
    >>> print(document(Hosts({"b": board})).sections[0].blocks[0])
    host | state | phase | what | last log line
    ▶ b | stalled | weights | one rank is behind, rank 0 | 61 s ago
    """
    boards = hosts.boards.values()
    states = Counter("no answer" if isinstance(board, str) else board.state for board in boards)
    count = f"{count_of(len(hosts.boards), 'host')}: {', '.join(f'{many} {state}' for state, many in states.most_common())}"
    bad = [(name, board) for name, board in hosts.ordered().boards.items() if not isinstance(board, str) and board.state in BAD]
    rows = [_cells(name, board) for name, board in hosts.boards.items()]
    shown = [n for n in range(len(HEADS)) if any(row[n] for row in rows)]
    table = Table(
        [HEADS[n] for n in shown],
        [[row[n] for n in shown] for row in rows[:most]],
        total=None if most is None else len(rows),
        numeric=NUMERIC,
        odd={n for n, board in enumerate(boards) if not isinstance(board, str) and board.state in BAD},
        spare=SPARED,
    )
    sections = [Section("", [table])]
    for name, board in [] if less else bad[:1]:
        sections.append(Section(f"evidence of {name}", items(board.evidence)))
        sections.append(Section("next", [Command(step["command"], step["what"]) for step in board.next[:1]]))
    unreached = [f"{name}: {board}" for name, board in hosts.boards.items() if isinstance(board, str) and board != CONNECTING]
    if unreached and not less:
        sections.append(Section("no answer", items(unreached[:MOST_UNREACHED])))
    at = max((board.at for board in boards if not isinstance(board, str)), default="")
    said = f"{bad[0][0]}: {title(bad[0][1])}" if bad else count
    below = " · ".join(filter(None, (count if bad else "", at, note)))
    return Document(said, sections, below, tone=bad[0][1].state if bad else "")


def _cells(name: str, board: Status | str) -> tuple[str, ...]:
    """One host under `HEADS`."""
    if isinstance(board, str):
        return (name, "no answer", "", board.partition(":")[0], *[""] * (len(HEADS) - 4))

    def ago(seconds: float | None) -> str:
        return "" if seconds is None else f"{show_duration(seconds)} ago"

    return (
        f"▶ {name}" if board.state in BAD else name,
        "too early" if board.early else board.state,
        board.phase or "",
        board.plain + (f", {named('rank', board.ranks)}" if board.ranks else ""),
        ago(board.silence_s),
        ago(board.log_silence_s),
        spark(board.history.get(RECORDS) or (), QUIET[RECORDS]),
        "" if board.read_bytes_per_s is None else rate(board.read_bytes_per_s),
        board.last_line or "",
    )
