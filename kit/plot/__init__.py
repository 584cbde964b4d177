"""Plots: frames in, Axes or Figure out. None shows itself, none changes its input, each says in words what it draws.

`plot_timeline(run)` puts everything on one time axis; the others draw one frame (`processes`, `threads`, `syscalls`, `log`, or
what their first parameter says) into `ax` where one is given, else into a new figure with its alternative text set, and return
the axes. Each has a `describe_…` that gives that text; `figure_alt(figure)` reads the text that a figure carries.
"""

from __future__ import annotations

from kit.lazy import lazily

_WHERE = {
    "figure_alt": "alt",
    "plot_memory": "memory",
    "describe_memory": "memory",
    "plot_cpu": "cpu",
    "describe_cpu": "cpu",
    "plot_thread_states": "threads",
    "describe_thread_states": "threads",
    "plot_thread_strip": "threads",
    "describe_thread_strip": "threads",
    "plot_syscall_rate": "syscalls",
    "describe_syscall_rate": "syscalls",
    "plot_syscall_time": "syscalls",
    "describe_syscall_time": "syscalls",
    **{
        f"{way}_{what}": "calls"
        for way in ("plot", "describe")
        for what in ("blocked_calls", "time_budget", "call_rates", "loops", "unread_bytes", "file_bytes", "call_errors")
    },
    **{
        f"{way}_{what}": "waits"
        for way in ("plot", "describe")
        for what in ("wait_graph", "process_tree", "descriptors", "partings")
    },
    **{f"{way}_{what}": "ranks" for way in ("plot", "describe") for what in ("stack_tree", "rank_waits")},
    "plot_log_rate": "logs",
    "describe_log_rate": "logs",
    "plot_phases": "phases",
    "describe_phases": "phases",
    "process_names": "samples",
    "plot_benchmarks": "benchmarks",
    "describe_benchmarks": "benchmarks",
    **{f"{way}_{what}": "bench_runs" for way in ("plot", "describe") for what in ("forest", "run_order", "sweep")},
    "plot_shift": "shift",
    "describe_shift": "shift",
    "plot_comparison": "compare",
    "describe_comparison": "compare",
    "plot_timeline": "timeline",
    "describe_timeline": "timeline",
}
"""Public name to the module of this package that defines it: matplotlib is loaded when the first plot is called for."""

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazily(__name__, _WHERE)
