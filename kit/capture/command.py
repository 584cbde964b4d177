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
        raise UsageError(f"invalid duration {text!r}", "expected a number followed by s, m or h", "for example: --for 30s")
    return float(found.group(1)) * _UNITS_S[found.group(2)]


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add what names a host, and how it is reached."""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="where the launch runs: local (this machine), ssh://[user@]host[:port]"
    )
    add_connection(parser)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add how a host is reached."""
    parser.add_argument(
        "--transport", choices=["paramiko", "openssh"], default="paramiko", help="openssh: by the ssh program, with all its means"
    )
    parser.add_argument("--accept-new", action="store_true", help="accept the key of an unknown host and show its fingerprint")
    parser.add_argument("--sudo", action="store_true", help="run everything there as root, by sudo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit collect`."""
    add_target(parser)
    parser.add_argument("--target", action="append", default=[], dest="more", metavar="TARGET", help="one more host")
    each = "; of several hosts one for all, or once for each"
    parser.add_argument("--pid", type=int, action="append", help=f"process that was launched, with its children{each}")
    parser.add_argument("--log", action="append", help="its log on that host; without it, the file behind its standard output")
    parser.add_argument("--port", type=int, action="append", help="port of its server; without it, the one of its command line")
    parser.add_argument("--for", dest="duration", default="30s", metavar="TIME", help="how long to record (30s, 2m; default 30s)")
    parser.add_argument("--interval", default="1s", metavar="TIME", help="time between samples (default 1s)")
    parser.add_argument("--strace", metavar="TIME", help="trace system calls for so long; slows the launch while it lasts")
    parser.add_argument("--strace-pid", type=int, metavar="PID", help="trace this process only")
    parser.add_argument("--py-spy", action="store_true", help="dump the Python stacks at the beginning and at the end")
    parser.add_argument("--gdb", action="store_true", help="dump the C stacks at the beginning and at the end; stops the launch")
    parser.add_argument("--smaps-rollup", action="store_true", help="read whose the memory is; slow where it is large")
    parser.add_argument("--probe-generate", action="store_true", help="ask the server for one token at the end")
    parser.add_argument("--dry-run", action="store_true", help="print what would be run there, connect to nothing")
    parser.add_argument("-o", "--out", type=Path, metavar="RUN", help="folder to make")


def say(text: str) -> None:
    """Tell how a recording goes on, beside the answer on standard output."""
    print(text, file=sys.stderr, flush=True)


def end_in_order_on_signals() -> None:
    """Let SIGINT, SIGTERM and a closed terminal end a recording in order.

    A shell's background job starts with SIGINT ignored; a hang-up that is ignored stays so, for that is what nohup is for.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


def main(args: argparse.Namespace) -> int:
    """Record, and return the exit code."""
    from kit.capture.collect import collect
    from kit.capture.plan import as_text, plan
    from kit.capture.recording import Options

    wishes = {
        "duration_s": duration(args.duration),
        "interval_s": duration(args.interval),
        "strace_s": duration(args.strace) if args.strace else None,
        "strace_pid": args.strace_pid,
        "py_spy": args.py_spy,
        "gdb": args.gdb,
        "smaps_rollup": args.smaps_rollup,
        "probe_generate": args.probe_generate,
    }
    targets = [*args.targets, *args.more] or ["local"]
    if args.dry_run:
        print(f"on {', '.join(targets)}{' as root, by sudo' if args.sudo else ''}:\n{as_text(plan(Options(**wishes)))}")
        return DONE
    if args.out is None:
        raise UsageError("no output folder", "a recording needs one", "name it: kit collect … -o RUN")
    end_in_order_on_signals()
    folder = collect(
        *targets,
        out=args.out,
        pid=args.pid,
        log=args.log,
        port=args.port,
        **wishes,
        transport=args.transport,
        accept_new=args.accept_new,
        sudo=args.sudo,
        progress=say,
    )
    print(f"recorded {folder}; look at it: kit verdict {folder}")
    return DONE


def add_pull_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit pull`."""
    parser.add_argument("target", metavar="TARGET", help="where the files are: local, ssh://[user@]host[:port]")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, or patterns in quotes: '/var/log/vllm/*.log*'")
    add_connection(parser)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="RUN", help="folder to make, or to resume")


def pull_main(args: argparse.Namespace) -> int:
    """Pull, and return the exit code."""
    from kit.capture.logs.pull import pull

    end_in_order_on_signals()
    how = {"transport": args.transport, "accept_new": args.accept_new, "sudo": args.sudo}
    folder = pull(args.target, *args.paths, out=args.out, **how, progress=say)
    print(f"pulled into {folder}; look at it: kit verdict {folder}")
    return DONE
