"""The explorer in a notebook: a widget whose window and filters come back to Python as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from kit.errors import KitError, UsageError
from kit.open import open_run
from kit.run import Run
from kit.show.explorer import tracks
from kit.show.explorer.pack import pack_run
from kit.show.explorer.page import module
from kit.show.watch import kernel_loop, on_loop

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from kit.analyse.verdict.verdict import Verdict

RANKED = {"log": "rank"}
"""Frames whose rows name their rank; in the others a process stands for it."""


class Selection:
    """Frames of a run cut to the explorer's window and filters: `selected.log`, `selected.threads`, any frame with a time.

    Rows without a time are left out, unless the window is the whole run.
    """

    def __init__(self, explorer: Explorer, number: int):
        self._explorer, self._number = explorer, number

    @property
    def run(self) -> Run:
        """The run that is cut."""
        return self._explorer.runs[self._number]

    def frame(self, name: str) -> pandas.DataFrame:
        """One frame, cut.

        Raises
        ------
        UsageError
            Where there is no such frame.
        """
        frame = self.run.condensed_log() if name == "log" else self.run.frame(name)
        kept = self._in_window(frame)
        for condition in self._filters(name, frame):
            kept &= condition.fillna(False).astype(bool)
        return frame[kept].reset_index(drop=True)

    def __getattr__(self, name: str) -> pandas.DataFrame:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.frame(name)

    def __dir__(self) -> list[str]:
        from kit.frames import FRAMES

        return sorted([*super().__dir__(), *(name for name, frame in FRAMES.items() if "time" in frame.by_name)])

    def _in_window(self, frame: pandas.DataFrame) -> pandas.Series:
        clock = tracks.clocked({}, self.run.launch_zero_ns)
        zero = clock.zero if clock.zero is not None else self._explorer._zero(self._number)
        seconds = frame["t_s"].astype(float)
        if zero is not None:
            seconds = seconds.fillna((frame["time"] - zero).dt.total_seconds())
        begin, end = self._explorer.window or (float("-inf"), float("inf"))
        shift = self._explorer.shift(self._number)
        begin, end = begin + shift, end + shift
        inside = (seconds >= begin - 1e-6) & (seconds <= end + 1e-6)
        return inside | seconds.isna() if not self._explorer.window else inside

    def _filters(self, name: str, frame: pandas.DataFrame) -> list[pandas.Series]:
        chosen, found = self._explorer.filters, []
        pids = self._explorer._pids(self._number)
        own = chosen.get("of", self._number) == self._number  # a process was clicked in one of two runs
        rank, pid, tid = (chosen.get(one) if own or one == "rank" else None for one in ("rank", "pid", "tid"))
        if rank is not None and name in RANKED:
            found.append(frame[RANKED[name]] == rank)
        elif rank is not None and "pid" in frame:
            found.append(self._owners(name, frame).isin([own for own, owned in pids.items() if owned == rank]))
        if pid is not None and "pid" in frame and name != "log":
            found.append(self._owners(name, frame) == pid)
        if tid is not None and name in ("threads", "syscalls", "stacks"):
            found.append(frame["tid" if "tid" in frame else "pid"] == tid)
        for key, column in (("call", "syscall"), ("kind", "kind")):
            if chosen.get(key) is not None and (name, column) in (("syscalls", "syscall"), ("log", "kind")):
                found.append(frame[column] == chosen[key])
        return found

    def _owners(self, name: str, frame: pandas.DataFrame) -> pandas.Series:
        """Process of each row: strace names threads."""
        if name != "syscalls":
            return frame["pid"]
        threads = self.run.frame("threads", ["pid", "tid"]).dropna().drop_duplicates("tid").set_index("tid")["pid"]
        return frame["pid"].map(threads).fillna(frame["pid"])

    def __repr__(self) -> str:
        return f"<what the explorer shows of {self.run.name}>"


class Explorer(anywidget.AnyWidget):
    """All that is known of one launch, or of two, on one time axis. Make it with `kit.explore`.

    Attributes
    ----------
    window : tuple of float
        Begin and end of what is shown, in seconds since launch; empty: all. Set it to move the view.
    filters : dict
        What the views are cut to: `rank`, `pid`, `tid`, `call`, `kind`. Set it to filter.
    as_of : float or None
        Second of which the verdict is shown, None: all of the evidence.
    selected : Selection
        Frames cut to window and filters: `explorer.selected.log`.
    runs : list of Run
        What is shown.
    """

    _esm = module()
    _packs = traitlets.List(traitlets.Bytes()).tag(sync=True)
    _judged = traitlets.List(traitlets.Dict(allow_none=True)).tag(sync=True)
    window = traitlets.Tuple().tag(sync=True)
    filters = traitlets.Dict().tag(sync=True)
    _shifts = traitlets.List(traitlets.Float()).tag(sync=True)
    as_of = traitlets.Float(None, allow_none=True).tag(sync=True)

    def __init__(self, *runs: Run):
        self.runs = list(runs)
        super().__init__(_packs=[pack_run(run) for run in runs])
        self._loop = kernel_loop()
        self.observe(self._judge, "as_of")

    @property
    def selected(self) -> Selection:
        """Frames of the first run, cut to window and filters."""
        return Selection(self, 0)

    @property
    def selections(self) -> list[Selection]:
        """The same of each run."""
        return [Selection(self, number) for number in range(len(self.runs))]

    @property
    def verdict(self) -> Verdict:
        """Verdict of the first run, as of the cursor where one is set.

        Raises
        ------
        KitError
            Where nothing was known at that moment.
        """
        from kit.analyse.verdict.verdict import verdict
        from kit.show.explorer.story import earlier_text

        run = self.runs[0]
        return verdict(run, at=earlier_text(run, self.as_of) if self.as_of is not None else None)

    def shift(self, number: int) -> float:
        """Second of a run that stands at 0 of the shared axis: where two are aligned at a phase, its begin."""
        return self._shifts[number] if number < len(self._shifts) else 0.0

    def update(self, *runs: Run) -> None:
        """Show other runs, or the same with what was captured since; window and filters stay. From any thread."""
        self.runs = list(runs) or self.runs
        packs = [pack_run(run) for run in self.runs]
        on_loop(self._loop, lambda: setattr(self, "_packs", packs))

    def _judge(self, change: dict) -> None:
        """Judge what could be known at the as-of cursor; an error is shown where the verdict would be."""
        from kit.show.explorer.story import judged

        found: list[dict] = []
        for number, run in enumerate(self.runs if change["new"] is not None else ()):
            try:
                found.append(judged(run, change["new"] + self.shift(number)))
            except KitError as error:
                found.append({"error": str(error)})
        self._judged = found

    def _zero(self, number: int) -> pandas.Timestamp | None:
        frames = {name: self.runs[number].frame(name, ["time", "t_s"]) for name in tracks.FRAMES_SHOWN}
        return tracks.clocked(frames).zero

    def _pids(self, number: int) -> dict[int, int]:
        from kit.analyse.verdict.scene import scene_of_run

        return {pid: rank for rank, pid in scene_of_run(self.runs[number]).processes.rank_pid.items()}

    def __repr__(self) -> str:
        return f"explorer of {' and '.join(run.name for run in self.runs)}"

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict, dict]:
        data, about = super()._repr_mimebundle_(**options) or ({}, {})
        return {**data, "text/plain": repr(self), "text/html": self._still()}, about

    def _still(self) -> str:
        """What stands in an export: answer, phases and log of each run."""
        from kit.show.explorer.still import still

        return "".join(map(still, self.runs))


def explore(*runs: Run | str | Path, captured_at: str | None = None) -> Explorer:
    """Look at a launch, or at two side by side: phases, log, memory, CPU, GPU, threads, system calls, sockets on one axis.

    Wheel and keys zoom, a drag chooses a window, a click on a rank, thread, call or kind of record filters all views; `?` lists
    the keys. What is chosen comes back: `window`, `filters`, `selected`.

    Parameters
    ----------
    *runs : Run, str or path
        One or two launches, as for `kit.open_run`.
    captured_at : str, optional
        When the evidence was taken, for paths.

    Returns
    -------
    Explorer
        Last value of a cell. Without a kernel (an export, a printed page) a still figure stands in its place.

    Raises
    ------
    UsageError
        Where no run or more than two are given.
    EvidenceError
        Where nothing can be read.

    Examples
    --------
    >>> import kit
    >>> explorer = kit.explore(kit.sample_path("sg01-capture-hang"))
    >>> explorer.window = (30.0, 60.0)
    >>> explorer.filters = {"kind": "progress"}
    >>> len(explorer.selected.log), explorer
    (50, explorer of sg01-capture-hang)
    """
    if not 1 <= len(runs) <= 2:
        raise UsageError(
            f"{len(runs)} runs to explore" if runs else "no run to explore",
            "one is shown alone, two side by side",
            "kit.explore(run), kit.explore(bad, good); many runs: kit.attempts(*runs)",
        )
    return Explorer(*(run if isinstance(run, Run) else open_run(run, captured_at) for run in runs))
