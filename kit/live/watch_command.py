"""`kit watch`: options, and the loop that draws."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kit.capture.command import add_connection, add_launch, end_in_order_on_signals, say
from kit.capture.options import Connection, duration, from_arguments
from kit.clock import show_duration
from kit.errors import DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit watch`."""
    parser.add_argument(
        "target", nargs="?", default="local", help="where the launch runs: local (this machine), ssh://[user@]host[:port]"
    )
    add_connection(parser)
    add_launch(parser)
    parser.add_argument("--for", dest="limit", metavar="TIME", help="longest time to watch; until Ctrl-C without it")
    parser.add_argument("-o", "--out", type=Path, metavar="RUN", help="keep the evidence in this folder")


def main(args: argparse.Namespace) -> int:
    """Watch until the launch ends, the time is over, or Ctrl-C."""
    from kit.live.screen import Screen
    from kit.live.watch import Watch

    end_in_order_on_signals()
    limit_s = duration(args.limit) if args.limit else None
    launch = {"pid": args.pid, "log": args.log, "port": args.port, "name": args.name}
    connection = from_arguments(Connection, args)
    watch = Watch(args.target, **launch, out=args.out, limit_s=limit_s, say=say, connection=connection)
    began, boards = time.monotonic(), watch.boards()
    with Screen() as screen:
        try:
            for board in boards:
                screen.show(board, f"watched for {show_duration(time.monotonic() - began)}, Ctrl-C ends")
        except KeyboardInterrupt:
            pass
        finally:
            boards.close()
    if args.out is not None:
        print(f"kept in {args.out}; look at it: kit verdict {args.out}")
    return DONE
