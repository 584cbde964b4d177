"""`kit collect`, `kit pull`: options and what they do."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from kit.capture.options import Connection, Options, add_options, from_arguments
from kit.errors import DONE, UsageError


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add what names a host, and how it is reached."""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="where the launch runs: local (this machine), ssh://[user@]host[:port]"
    )
    add_connection(parser)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add how a host is reached."""
    add_options(parser, Connection)


def add_launch(parser: argparse.ArgumentParser, action: str = "store", also: str = "") -> None:
    """Add what names a launch."""
    parser.add_argument("--pid", type=int, action=action, help=f"process that was launched; its children belong to it{also}")
    parser.add_argument("--log", action=action, help=f"its log there; by default the file behind its standard output{also}")
    parser.add_argument("--port", type=int, action=action, help=f"port of its server; by default that of its command line{also}")
    parser.add_argument("--name", action=action, help=f"a word of its command line, to find it by{also}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit collect`."""
    add_target(parser)
    parser.add_argument("--target", action="append", default=[], dest="more", metavar="TARGET", help="one more host")
    add_launch(parser, "append", "; for several hosts give it once, or once per host")
    add_options(parser, Options)
    parser.add_argument("--dry-run", action="store_true", help="print the commands that would be run there; connect to nothing")
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
    from kit.capture.plan import document, plan
    from kit.document import text

    options, targets = from_arguments(Options, args), [*args.targets, *args.more] or ["local"]
    if args.dry_run:
        text.write(document(plan(options), f"on {', '.join(targets)}{' as root, by sudo' if args.sudo else ''}"))
        return DONE
    if args.out is None:
        raise UsageError("no output folder", "a recording needs one", "name it: kit collect … -o RUN")
    end_in_order_on_signals()
    launch = {"pid": args.pid, "log": args.log, "port": args.port, "name": args.name}
    connection = from_arguments(Connection, args)
    folder = collect(*targets, out=args.out, **launch, options=options, connection=connection, progress=say)
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
    folder = pull(args.target, *args.paths, out=args.out, connection=from_arguments(Connection, args), progress=say)
    print(f"pulled into {folder}; look at it: kit verdict {folder}")
    return DONE
