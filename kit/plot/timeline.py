"""Everything that is known of a run on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

import pandas as pd

from kit.clock import show_duration
from kit.frames import FRAMES
from kit.plot import cpu, logs, memory, phases, syscalls, threads
from kit.plot.cpu import describe_cpu, plot_cpu
from kit.plot.logs import BINS, describe_log_rate, plot_log_rate
from kit.plot.memory import describe_memory, plot_memory
from kit.plot.phases import describe_phases, plot_phases
from kit.plot.samples import process_colours, process_names
from kit.plot.style import FONT_PT, INK, STALL_COLOUR, VERMILION, figure_alt, new_figure, say_empty
from kit.plot.syscalls import describe_syscall_rate, plot_syscall_rate
from kit.plot.threads import describe_thread_states, describe_thread_strip, plot_thread_states, plot_thread_strip
from kit.plot.timeaxis import TimeAxis, tick_text, zero_of, zone_text
from kit.thread_history import ThreadHistory, of_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kit.analyse.verdict.verdict import Verdict
    from kit.run import Run

ROWS = ("phases", "log", "memory", "cpu", "states", "strip", "syscalls")
FRAME_OF = {
    "log": "log",
    "memory": "processes",
    "cpu": "processes",
    "states": "threads",
    "strip": "threads",
    "syscalls": "syscalls",
}
NO_TIME = "Timeline: nothing here carries a time. A server log with stamps, or a recording with `kit collect`, would."
NOTHING = {module.NOTHING for module in (cpu, logs, memory, phases, syscalls, threads)}
"""What the descriptions say where there is nothing to draw."""
COLUMNS = {"syscalls": syscalls.COLUMNS}
"""Columns that are loaded of large frames."""
HEIGHT_IN = {"memory": 1.5, "cpu": 1.2, "states": 1.2, "strip": 2.3, "syscalls": 1.2}
LEAST_SILENCE_S = 10.0
"""A shorter silence is not shaded: an ordinary launch prints less often than that."""
LEAST_SHARE = 0.004
"""Narrowest that a lone moment or a short trace is drawn, as a share of the width: four pixels."""
MOMENT_SHARE = 0.01
"""Rows that all lie in a smaller share of the width are told in a line instead of a panel: eight pixels show nothing."""
WORDS = 165
"""Characters of a line below the panels."""
QUIET_STATES = ("ready",)
"""Verdict states in which a long silence means nothing: a server that nobody asks says nothing."""


@dataclass
class Timed:
    """Frames of a run on one clock."""

    frames: dict  # rows with a time, `t_s` filled in everywhere; `phases`; and of `threads` their history
    zero: pd.Timestamp | None  # second 0 of the axis
    from_launch: bool  # whether second 0 is launch zero, or the first row of all
    names: dict[int, str]  # name of each pid
    colours: dict[int, str]  # colour of each pid, the same in all rows
    untimed: dict[str, int]  # rows without a time, by frame, where no row of the frame has one
    offset_s: int  # UTC offset of the host's clock


def _timed(frames: Mapping[str, pd.DataFrame], ranks: Mapping[int, int], offset_s: int) -> Timed:
    raw = {name: frames[name] if name in frames else FRAMES[name].empty() for name in ("log", "processes", "syscalls")}
    given = frames.get("threads", FRAMES["threads"].empty())
    history = given if isinstance(given, ThreadHistory) else of_rows(given)
    raw["threads"] = history.samples
    zeros = [zero for frame in raw.values() if (zero := zero_of(frame)) is not None]
    zero = min(zeros or [frame["time"].min() for frame in raw.values() if frame["time"].notna().any()], default=None)
    timed, untimed = {}, {}
    for name, frame in raw.items():
        if zero is not None:
            frame = frame.assign(t_s=_filled(frame, zero))
        with_time = frame[frame["t_s"].notna()]
        if len(frame) and not len(with_time):
            untimed[name] = len(history) if name == "threads" else len(frame)
        timed[name] = with_time
    if "threads" not in untimed:
        history = ThreadHistory(history.changes, raw["threads"].assign(t_s=_filled(raw["threads"], zero)))
    timed["threads"] = history
    bands = frames.get("phases", pd.DataFrame({name: [] for name in ("rank", "phase", "begin_t_s", "end_t_s")}))
    if zero is not None and "begin" in bands and not bands["begin_t_s"].notna().any():
        bands = bands.assign(
            begin_t_s=(bands["begin"] - zero).dt.total_seconds(), end_t_s=(bands["end"] - zero).dt.total_seconds()
        )
    timed["phases"] = bands
    sizes = (
        raw["processes"]
        .groupby("pid")[["rss_bytes", "cpu_s"]]
        .max()
        .sort_values(["rss_bytes", "cpu_s"], ascending=False, kind="stable")
    )
    colours = process_colours([int(pid) for pid in sizes.index])
    return Timed(timed, zero, bool(zeros), process_names(raw["processes"], ranks), colours, untimed, offset_s)


def _filled(frame: pd.DataFrame, zero: pd.Timestamp | None) -> pd.Series:
    """Seconds on the axis of each row that has a time."""
    return frame["t_s"] if zero is None else frame["t_s"].fillna((frame["time"] - zero).dt.total_seconds())


def _frames_of(
    run: Run | Mapping[str, pd.DataFrame],
) -> tuple[Mapping[str, pd.DataFrame], str, dict[int, int], pd.Timestamp | None, int]:
    """Return frames, name, rank of each pid, end of the evidence and UTC offset, of a run or of frames as they are given."""
    if isinstance(run, Mapping):
        return run, "", {}, None, 0
    from kit.analyse.verdict.scene import scene_of_run

    frames: dict = {"processes": run.frame("processes"), "log": run.condensed_log()}
    frames["syscalls"] = run.condensed_calls(syscalls.COLUMNS)
    frames["threads"] = run.thread_history()
    frames["phases"] = run.phases()
    ranks = {pid: rank for rank, pid in scene_of_run(run).processes.rank_pid.items()}
    captured = pd.to_datetime(run.captured_ns, unit="ns", utc=True) if run.captured_known else None
    return frames, run.name, ranks, captured, run.offset_s


def _axis(timed: Timed, captured: pd.Timestamp | None, silence_s: float | None) -> TimeAxis | None:
    """Span of all that has a time, and the last progress in it; phases end with it."""
    spans = [frame["t_s"] for name, frame in timed.frames.items() if name not in ("phases", "threads")]
    spans.append(timed.frames["threads"].samples["t_s"])
    seconds = pd.concat([*spans, timed.frames["phases"]["begin_t_s"].astype(float)]).dropna()
    if not len(seconds):
        return None
    begin, end = min(0.0, float(seconds.min())), float(seconds.max())
    if captured is not None and timed.zero is not None:
        end = max(end, (captured - timed.zero).total_seconds())
    end = end if end > begin else begin + 1.0
    log = timed.frames["log"]
    progress = log.loc[log["kind"] == "progress", "t_s"]
    knee = float(progress.max()) if len(progress) else None
    bands = timed.frames["phases"]
    timed.frames["phases"] = bands.assign(end_t_s=bands["end_t_s"].astype(float).clip(upper=end))
    if silence_s is not None and captured is not None and timed.zero is not None:
        knee = (captured - timed.zero).total_seconds() - silence_s
    return TimeAxis(begin, end, knee)


def _missing(row: str, sentence: str, timed: Timed) -> str:
    """Why a row cannot be drawn; empty where it can."""
    name = FRAME_OF.get(row)
    if name in timed.untimed:
        return f"{name.capitalize()}: none of the {timed.untimed[name]:,} rows of the frame `{name}` carries a time."
    return sentence if sentence in NOTHING else ""


def _moment(row: str, timed: Timed, axis: TimeAxis) -> str:
    """When the rows of a panel were taken, where that is hardly more than a moment of the axis; else nothing."""
    if row not in HEIGHT_IN:
        return ""
    frame = timed.frames[FRAME_OF[row]]
    seconds = (frame.samples if isinstance(frame, ThreadHistory) else frame)["t_s"].dropna()
    first, last = float(seconds.min()), float(seconds.max())
    if axis.share(last) - axis.share(first) >= MOMENT_SHARE:
        return ""
    return "At " + tick_text(round(last), timed.zero, timed.offset_s).replace("\n", " s, ") + " s" * (timed.zero is None)


def _describe(row: str, timed: Timed) -> str:
    frames, names = timed.frames, timed.names
    return {
        "phases": lambda: describe_phases(frames["phases"]),
        "log": lambda: describe_log_rate(frames["log"]),
        "memory": lambda: describe_memory(frames["processes"], names=names),
        "cpu": lambda: describe_cpu(frames["processes"], names=names),
        "states": lambda: describe_thread_states(frames["threads"]),
        "strip": lambda: describe_thread_strip(frames["threads"], names=names),
        "syscalls": lambda: describe_syscall_rate(frames["syscalls"]),
    }[row]()


def _draw(row: str, timed: Timed, axis: TimeAxis, ax: Axes) -> None:
    frames, names = timed.frames, timed.names
    late = axis.knee if axis.knee is not None else axis.begin
    least_s = LEAST_SHARE * (axis.end - late) / (1 - float(axis.share(late)) or 1.0)
    {
        "phases": lambda: plot_phases(frames["phases"], ax, to_share=axis.share),
        "log": lambda: plot_log_rate(frames["log"], ax, edges=axis.edges(BINS)),
        "memory": lambda: plot_memory(frames["processes"], ax, names=names, colours=timed.colours, over_time=True),
        "cpu": lambda: plot_cpu(frames["processes"], ax, names=names, colours=timed.colours),
        "states": lambda: plot_thread_states(frames["threads"], ax, least_s=least_s),
        "strip": lambda: plot_thread_strip(frames["threads"], ax, names=names, least_s=least_s),
        "syscalls": lambda: plot_syscall_rate(frames["syscalls"], ax, least_s=least_s),
    }[row]()


def _height(row: str, timed: Timed) -> float:
    if row == "phases":
        bands = timed.frames["phases"]
        return 0.35 + 0.155 * max(min(bands["rank"].nunique(dropna=False), 16), bands["phase"].nunique())
    if row == "log":
        return 0.35 + 0.2 * max(timed.frames["log"]["kind"].nunique(), 2)
    return HEIGHT_IN[row]


def plot_timeline(run: Run | Mapping[str, pd.DataFrame], show: Sequence[str] = ROWS, *, verdict: Verdict | None = None) -> Figure:
    """Draw what is known of a run on one time axis.

    Phases of each rank on top, then log records, memory, CPU, thread states, the thread strip, system calls. A line
    marks the last progress; from there to the end of the evidence the silence is shaded. Where the silence takes more
    than three quarters of the span, its part of the axis is compressed, and the figure says so. What was seen at one moment is
    told in a line below; so is why a row could not be drawn.

    Parameters
    ----------
    run : Run or mapping of str to pandas.DataFrame
        A run, or its frames by name (`log`, `processes`, `threads`, `syscalls`, `phases`), which are not changed.
    show : sequence of str
        Rows to draw, of `phases log memory cpu states strip syscalls`.
    verdict : Verdict, optional
        Judgement of the run: its `silence_s` places the last progress; a ready server's silence is not shaded.

    Returns
    -------
    matplotlib.figure.Figure
        With its alternative text set (`kit.plot.figure_alt`). No global registry holds it.

    Raises
    ------
    ValueError
        Where `show` names an unknown row.

    Examples
    --------
    >>> from kit.plot import figure_alt
    >>> figure_alt(plot_timeline({}))[:37]
    'Timeline: nothing here carries a time'
    """
    unknown = [row for row in show if row not in ROWS]
    if unknown:
        raise ValueError(f"there is no row {unknown[0]!r}; those there are: {', '.join(ROWS)}")
    frames, name, ranks, captured, offset_s = _frames_of(run)
    timed = _timed(frames, ranks, offset_s)
    axis = _axis(timed, captured, verdict.facts.value("silence_s") if verdict is not None else None)
    said = {row: _describe(row, timed) for row in show} if axis else {}
    sentences = {row: _missing(row, said[row], timed) for row in said}
    moments = {row: f"{at}: {said[row]}" for row in said if not sentences[row] and (at := _moment(row, timed, axis))}
    drawn = [row for row in said if not sentences[row] and row not in moments]
    below = _below(moments, sentences)
    if not drawn:
        return _in_words(name, below if moments else [NO_TIME])
    lines = [line for text in below for line in wrap(text, WORDS, subsequent_indent="    ")]
    heights = [_height(row, timed) for row in drawn]
    figure = new_figure(sum(heights) + 0.27 * len(heights) + 0.85 + 0.145 * len(lines))
    axes = list(figure.subplots(len(drawn), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0])
    for row, ax in zip(drawn, axes, strict=True):
        _draw(row, timed, axis, ax)
    axis.apply(axes[-1], timed.zero, timed.offset_s)
    marked = _mark(axes, axis, quiet=verdict is not None and verdict.state in QUIET_STATES)
    _title(figure, axes, timed, name, axis, marked, lines)
    span = f"Timeline of {name or 'a run'} over {axis.end - axis.begin:,.0f} s."
    figure_alt(figure, " ".join([span, f"{marked[0].upper()}{marked[1:]}.", *(said[row] for row in drawn), *below]))
    return figure


def _below(moments: Mapping[str, str], missing: Mapping[str, str]) -> list[str]:
    """What is told below the panels: what was seen at one moment, and what could not be drawn."""
    why = list(dict.fromkeys(filter(None, missing.values())))
    return [*dict.fromkeys(moments.values()), *["Not drawn:"] * bool(why), *why]


def _in_words(name: str, sentences: list[str]) -> Figure:
    """A timeline of nothing that fills an axis."""
    figure = new_figure(0.2 + 0.16 * sum(len(wrap(text, 130)) for text in sentences))
    say_empty(figure.add_subplot(), *sentences)
    figure_alt(figure, " ".join([*sentences, f"({name})"] if name else sentences))
    return figure


def _mark(axes: Sequence[Axes], axis: TimeAxis, *, quiet: bool) -> str:
    """Draw the mark of the last progress and the shading; say in words what they show."""
    if axis.knee is None:
        return "no record of progress has a time"
    silence = axis.end - axis.knee
    shade = silence >= LEAST_SILENCE_S and not quiet
    for ax in axes:
        ax.axvline(axis.knee, color=VERMILION, linestyle="--", linewidth=1.0, zorder=4)
        if shade:
            ax.axvspan(axis.knee, axis.right, color=STALL_COLOUR, zorder=0, linewidth=0)
    text = f"last progress at {axis.knee:,.0f} s (dashed line)"
    return text + (f", then none for {show_duration(silence)} (shaded)" if shade else "")


def _title(figure: Figure, axes: Sequence[Axes], timed: Timed, name: str, axis: TimeAxis, marked: str, below: list[str]) -> None:
    since = "launch" if timed.from_launch else "the first row with a time"
    clock = zone_text(timed.offset_s)
    at = f" at {timed.zero + pd.Timedelta(seconds=timed.offset_s):%Y-%m-%d %H:%M:%S} {clock}" if timed.zero is not None else ""
    figure.suptitle(
        f"{name}{': ' * bool(name)}seconds since {since}{at}\n{marked}",
        x=0.005,
        ha="left",
        fontsize=FONT_PT + 1.5,
        parse_math=False,
    )
    label = ("seconds since launch" if timed.from_launch else "seconds") + f", and the clock ({clock})" * bool(at)
    axes[-1].set_xlabel(label + ("; the axis is compressed after the dashed line" if axis.compressed else ""), fontsize=FONT_PT)
    if below:
        figure.supxlabel("\n".join(below), x=0.005, ha="left", fontsize=FONT_PT - 1, color=INK, parse_math=False)


def describe_timeline(run: Run | Mapping[str, pd.DataFrame], *, verdict: Verdict | None = None) -> str:
    """Say in words what `plot_timeline` draws.

    Examples
    --------
    >>> describe_timeline({})[:37]
    'Timeline: nothing here carries a time'
    """
    return figure_alt(plot_timeline(run, verdict=verdict))
