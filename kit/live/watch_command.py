"""`kit watch`: options, and the loop that draws."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kit.capture.command import add_connection, duration, end_in_order_on_signals, say
from kit.clock import show_duration
from kit.errors import DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit watch`."""
    parser.add_argument(
        "target", nargs="?", default="local", help="where the launch runs: local (this machine), ssh://[user@]host[:port]"
    )
    add_connection(parser)
    parser.add_argument("--pid", type=int, help="process that was launched; its children belong to it")
    parser.add_argument("--log", help="its log on that host; without it, the file behind its standard output")
    parser.add_argument("--port", type=int, help="port of its server; without it, the one of its command line")
    parser.add_argument("--for", dest="limit", metavar="TIME", help="longest time to watch; until Ctrl-C without it")
    parser.add_argument("-o", "--out", type=Path, metavar="RUN", help="keep the evidence in this folder")


def main(args: argparse.Namespace) -> int:
    """Watch until the launch ends, the time is over, or Ctrl-C."""
    from kit.live.screen import Screen
    from kit.live.watch import Watch

    end_in_order_on_signals()
    limit_s = duration(args.limit) if args.limit else None
    watch = Watch(
        args.target,
        pid=args.pid,
        log=args.log,
        port=args.port,
        out=args.out,
        limit_s=limit_s,
        say=say,
        transport=args.transport,
        accept_new=args.accept_new,
        sudo=args.sudo,
    )
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
