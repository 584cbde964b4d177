"""`kit triage`: options, and what is printed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kit.capture.command import add_connection, duration, end_in_order_on_signals, say
from kit.errors import DONE, TROUBLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit triage`."""
    parser.add_argument("target", help="where the launch runs: local (this machine), ssh://[user@]host[:port]")
    add_connection(parser)
    parser.add_argument("--pid", type=int, help="process that was launched; its children belong to it")
    parser.add_argument("--log", help="its log on that host; without it, the file behind its standard output")
    parser.add_argument("--port", type=int, help="port of its server; without it, the one of its command line")
    parser.add_argument("--for", dest="duration", default="60s", metavar="TIME", help="time limit (default 60s)")
    parser.add_argument(
        "--allow", default="", metavar="LIST", help="tests that slow the launch: py-spy,gdb,strace; request: ask a port of others"
    )
    parser.add_argument("-o", "--out", type=Path, metavar="RUN", help="keep the evidence in this folder")
    parser.add_argument("--json", action="store_true", help="one JSON object: the verdict with the ledger")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 where the launch is neither ready nor progressing")


def main(args: argparse.Namespace) -> int:
    """Search, print, and return the exit code."""
    from kit.analyse.verdict import belief_log
    from kit.document import text
    from kit.live.triage import triage

    end_in_order_on_signals()
    allow = [word for word in args.allow.replace(" ", "").split(",") if word]
    found, ledger = triage(
        args.target,
        pid=args.pid,
        log=args.log,
        port=args.port,
        out=args.out,
        limit_s=duration(args.duration),
        allow=allow,
        transport=args.transport,
        accept_new=args.accept_new,
        sudo=args.sudo,
        progress=say,
    )
    if args.json:
        path = {"path": str(args.out)} if args.out else {}
        print(json.dumps({**found.to_dict(), **path, "ledger": ledger}, ensure_ascii=False, allow_nan=False))
    else:
        text.write(found.document())
        print()
        text.write(belief_log.document(ledger))
    return TROUBLE if args.exit_code and found.state not in ("ready", "progressing") else DONE
