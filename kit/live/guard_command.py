"""`kit guard`: options, and what is printed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from kit.capture.command import duration
from kit.errors import EvidenceError, UsageError

ALLOWED = ("gdb",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit guard`."""
    parser.add_argument("-o", "--out", type=Path, metavar="RUN", help="folder to make; guard-DATE-TIME without it")
    parser.add_argument(
        "--quiet-after",
        metavar="TIME",
        help="time without progress after which to capture (default 60s; 2m after the weights and in warm-up, 3m in compilation)",
    )
    parser.add_argument(
        "--then", choices=["go-on", "end"], default="go-on", help="what to do with a launch that is found stalled (default go-on)"
    )
    parser.add_argument("--for", dest="limit", default="24h", metavar="TIME", help="longest time to record (default 24h)")
    parser.add_argument("--no-stacks", action="store_true", help="take no Python stacks of a quiet launch")
    parser.add_argument("--no-strace", action="store_true", help="take no strace (4 s) of a quiet launch")
    parser.add_argument("--allow", default="", metavar="LIST", help="gdb: C stacks where py-spy is missing; stops it for seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the launch, as you would start it")


def say(text: str) -> None:
    """Tell what the guard does, apart from what the launch prints; a verdict of many lines stands by itself."""
    print(text if "\n" in text else f"kit guard: {text}", file=sys.stderr, flush=True)


def main(args: argparse.Namespace) -> int:
    """Guard a launch, and return its exit code."""
    if not sys.platform.startswith("linux"):
        raise EvidenceError("cannot guard here", "it needs /proc, which only Linux has", "run it on the host of the server")
    from kit.live.guard import Guard, GuardOptions

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("nothing to guard", "no command is given", "write it as: kit guard -- vllm serve MODEL --port 8000")
    allow = [word for word in args.allow.replace(" ", "").split(",") if word]
    if unknown := sorted(set(allow) - set(ALLOWED)):
        choose = f"choose from: --allow {','.join(ALLOWED)}"
        raise UsageError(f"{', '.join(unknown)} cannot be allowed", "no capture uses it", choose)
    options = GuardOptions(
        duration(args.quiet_after) if args.quiet_after else None,
        args.then == "end",
        duration(args.limit),
        not args.no_stacks,
        not args.no_strace,
        "gdb" in allow,
    )
    folder = args.out or Path(time.strftime("guard-%Y%m%d-%H%M%S"))
    return Guard(command, folder, options, say).run()
