"""`kit triage`: options, and what is printed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kit.capture.command import add_connection, add_launch, end_in_order_on_signals, say
from kit.capture.options import Connection, add_options, from_arguments
from kit.errors import DONE, TROUBLE
from kit.live.options import TriageOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kit triage`."""
    parser.add_argument("target", help="where the launch runs: local (this machine), ssh://[user@]host[:port]")
    add_connection(parser)
    add_launch(parser)
    add_options(parser, TriageOptions)
    parser.add_argument("-o", "--out", type=Path, metavar="RUN", help="keep the evidence in this folder")
    parser.add_argument("--json", action="store_true", help="one JSON object: the verdict with the ledger")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 where the launch is neither ready nor progressing")


def main(args: argparse.Namespace) -> int:
    """Search, print, and return the exit code."""
    from kit.document import text
    from kit.live.triage import triage

    end_in_order_on_signals()
    result = triage(
        args.target,
        pid=args.pid,
        log=args.log,
        port=args.port,
        name=args.name,
        out=args.out,
        options=from_arguments(TriageOptions, args),
        connection=from_arguments(Connection, args),
        progress=say,
    )
    if args.json:
        print(json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        text.write(result.document())
    return TROUBLE if args.exit_code and result.verdict.state not in ("ready", "progressing") else DONE
