"""`kit guard`: options, and what is printed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kit.capture.options import add_options, from_arguments
from kit.errors import UsageError
from kit.live.options import GuardOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit guard`."""
    parser.add_argument("-o", "--out", type=Path, metavar="RUN", help="folder to make; guard-DATE-TIME without it")
    add_options(parser, GuardOptions)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the launch, as you would start it")


def say(text: str) -> None:
    """Tell what the guard does, apart from what the launch prints; a verdict of many lines stands by itself."""
    print(text if "\n" in text else f"kit guard: {text}", file=sys.stderr, flush=True)


def main(args: argparse.Namespace) -> int:
    """Guard a launch, and return its exit code."""
    from kit.live.guard import guard

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("nothing to guard", "no command is given", "write it as: kit guard -- vllm serve MODEL --port 8000")
    return guard(command, out=args.out, options=from_arguments(GuardOptions, args), progress=say)
