"""`kit collect local`: options and what they do."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from pathlib import Path

from kit.errors import DONE, UsageError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|m|min|h)?\Z")
_UNITS_S = {"ms": 0.001, None: 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Read a duration: `30s`, `2m`, `1.5`.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    UsageError
        Where the text is none.

    Examples
    --------
    >>> [duration(text) for text in ("30s", "2m", "1.5")]
    [30.0, 120.0, 1.5]
    """
    found = _DURATION.match(text.strip())
    if not found:
        raise UsageError(f"{text!r} is no duration", "it must be a number with s, m or h behind it", "write it as: --for 30s")
    return float(found.group(1)) * _UNITS_S[found.group(2)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit collect`."""
    parser.add_argument("target", choices=["local"], help="where the launch runs: this machine")
    parser.add_argument("--pid", type=int, help="process that was launched; its children are recorded with it")
    parser.add_argument("--log", type=Path, help="its log; without it, the file behind its standard output")
    parser.add_argument("--port", type=int, help="port of its server; without it, the one of its command line")
    parser.add_argument("--for", dest="duration", default="30s", metavar="TIME", help="how long to record (30s, 2m; default 30s)")
    parser.add_argument("--interval", default="1s", metavar="TIME", help="time between samples (default 1s)")
    parser.add_argument("--strace", metavar="TIME", help="trace system calls for so long; slows the launch while it lasts")
    parser.add_argument("--py-spy", action="store_true", help="dump the Python stacks at the beginning and at the end")
    parser.add_argument("--probe-generate", action="store_true", help="ask the server for one token at the end")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="RUN", help="folder to make")


def say(text: str) -> None:
    """Tell how a recording goes on, beside the answer on standard output."""
    print(text, file=sys.stderr, flush=True)


def heed_signals() -> None:
    """Let SIGINT and SIGTERM end a recording in order: a shell's background job starts with SIGINT ignored."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def main(args: argparse.Namespace) -> int:
    """Record, and return the exit code."""
    from kit.capture.collect import collect

    heed_signals()
    folder = collect(
        args.target,
        out=args.out,
        pid=args.pid,
        log=args.log,
        port=args.port,
        duration_s=duration(args.duration),
        interval_s=duration(args.interval),
        strace_s=duration(args.strace) if args.strace else None,
        py_spy=args.py_spy,
        probe_generate=args.probe_generate,
        progress=say,
    )
    print(f"recorded {folder}; look at it: kit verdict {folder}")
    return DONE
