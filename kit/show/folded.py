"""What a careful reader looks up after the verdict, each below a line that opens it: in a notebook and in the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit import plot
from kit.document import Item, Section, Table, items
from kit.document.html import AS_IT_IS, escape, section, table, table_script
from kit.plot import ranks as plot_ranks
from kit.plot import syscalls as plot_syscalls
from kit.show import svg, tables, verdicts

if TYPE_CHECKING:
    from kit.analyse.verdict.verdict import Verdict
    from kit.run import Run

MOST_RANKS, MOST_PLACES, MOST_CAPTURES = 64, 200, 1000


@dataclass(frozen=True)
class Folded:
    """Titles, each with what stands below it once it is opened."""

    parts: Sequence[tuple[str, str]]

    @property
    def html(self) -> str:
        """All of it, closed."""
        return "".join(f"<details><summary>{escape(title)}</summary>{html}</details>" for title, html in self.parts)

    def _repr_html_(self) -> str:
        script = f"<script>{table_script()}</script>"
        return f"<div class='kit-folded {AS_IT_IS}' style='{svg.NOTEBOOK_COLOURS}'>{self.html}{script}</div>"

    def __repr__(self) -> str:
        return "\n".join(title for title, _ in self.parts)


def appendix(verdict: Verdict, step: Callable[[str], None] = lambda what: None) -> Folded:
    """Phases, log, facts, how the answer came about, memory, threads, system calls, and what was read; all folded.

    Parameters
    ----------
    verdict : Verdict
    step : callable
        Is told what is done next.

    Examples
    --------
    >>> import kit
    >>> appendix(kit.verdict(kit.sample("port-taken")))
    Phases of each rank
    The log around its last progress
    Facts
    How the answer came about
    Memory
    Where the ranks wait
    Threads
    What was captured and read
    """
    run = verdict.scene.evidence.run
    step("going through the evidence source by source")
    told = [
        ("Phases of each rank", phases(run)),
        ("The log around its last progress", tables.log_around(run.condensed_log())),
        ("Facts", verdicts.facts(verdict)),
        ("How the answer came about", verdicts.ledger(run)),
    ]
    parts = [(title, table(rows)) for title, rows in told if rows.rows]
    step("drawing memory, threads and calls")
    processes, threads, calls = run.frame("processes"), run.thread_history(), run.condensed_calls(plot_syscalls.COLUMNS)
    if len(processes):
        shown = "Shared and file pages are counted in each process that maps them: never add ranks up."
        parts.append(("Memory", svg.figure(plot.plot_memory(processes), shown)))
    waits, merged = plot.describe_rank_waits(run), plot.describe_stack_tree(run)
    if waits != plot_ranks.NO_SAMPLES:
        shown = "A row a rank, a column a sample; where most wait is pale."
        parts.append(("Where the ranks wait", svg.figure(plot.plot_rank_waits(run), shown)))
    if merged != plot_ranks.NO_STACKS:
        shown = (
            "From the outermost frame down; as wide as the ranks that are in it. Ranks part where they stand in different places."
        )
        parts.append(("Stacks of the ranks, merged", svg.figure(plot.plot_stack_tree(run), shown)))
    if len(threads):
        drawn = plot.plot_thread_strip(threads, names=plot.process_names(processes))
        seen = tables.table(threads.places(), MOST_PLACES, caption="Where threads were seen")
        parts.append(("Threads", svg.figure(drawn, "A row a thread, a column a sample.") + table(seen)))
    if len(calls):
        shown = "Summed over threads; waiting calls (futex, epoll_wait) are long by nature."
        parts.append(("System calls", svg.figure(plot.plot_syscall_time(calls), shown)))
    return Folded([*parts, ("What was captured and read", _captures(run))])


def phases(run: Run) -> Table:
    """Seconds in each phase, a row a rank."""
    bands = run.phases()
    if not len(bands):
        return Table((), ())
    seconds = bands.groupby(["rank", "phase"], dropna=False, sort=False)["duration_s"].sum().unstack()
    seconds = seconds.add_suffix("_s").reset_index()
    return tables.table(seconds, MOST_RANKS, caption="Time in each phase; the last one lasts to the end of the evidence")


def _captures(run: Run) -> str:
    captures = run.captures_table()
    columns = ["file", "kind", "moment", "whole", "source", "lines", "records", "not_understood", "note"]
    remarks = Section("", [*items(run.unread()), *([] if run.unread() else [Item("Every file was read.", "")])])
    return table(tables.table(captures, MOST_CAPTURES, caption="Captures", columns=columns)) + section(remarks)
