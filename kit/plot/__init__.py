"""Plots: frames in, Axes or Figure out. None shows itself, none changes its input, each says in words what it draws.

`plot_timeline(run)` puts everything on one time axis; the others draw one frame (`processes`, `threads`, `syscalls`, `log`, or
what their first parameter says) into `ax` where one is given, else into a new figure with its alternative text set, and return
the axes. Each has a `describe_…` that gives that text; `figure_alt(figure)` reads the text that a figure carries.
"""

from __future__ import annotations

from kit.lazy import lazily

FIGURES = {
    "memory": "memory",
    "cpu": "cpu",
    "threads": "thread_states thread_strip",
    "syscalls": "syscall_rate syscall_time",
    "calls": "blocked_calls time_budget call_rates loops unread_bytes file_bytes call_errors",
    "waits": "wait_graph process_tree descriptors partings",
    "ranks": "stack_tree rank_waits",
    "logs": "log_rate",
    "phases": "phases",
    "benchmarks": "benchmarks",
    "bench_runs": "forest run_order sweep",
    "shift": "shift",
    "compare": "comparison",
    "timeline": "timeline",
}
"""Module to its figures, each with a `plot_` and a `describe_`: matplotlib is loaded when the first is called for."""

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {"style": "figure_alt", "samples": "process_names"}
    | {module: " ".join(f"plot_{name} describe_{name}" for name in names.split()) for module, names in FIGURES.items()},
)
