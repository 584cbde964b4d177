"""Command line: the façade's verbs for a shell. A module here for each group of verbs; all options are defined in them."""

from __future__ import annotations

import argparse
import gc
import sys

from kit.cli import keep, lab, live, look
from kit.cli.parser import Parser, Verbs
from kit.cli.shared import say
from kit.errors import DONE, KitError, denied

GROUPS = (("look at evidence", look.add), ("look at a launch that runs", live.add), ("notebooks", lab.add), ("keep", keep.add))
INTERRUPTED = 130
"""128 and the number of SIGINT: what shells give."""
COLLECT_EVERY = (100_000, 50, 50)
"""Reading makes millions of rows, none of them a cycle: at Python's own 700, looking for some took a sixth of a verdict."""


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 trouble found (with --exit-code), 2 usage, 3 could not read or write."""
    gc.set_threshold(*COLLECT_EVERY)
    command_line = parser()
    args = command_line.parse_args(arguments)
    if args.verb is None:
        command_line.print_help()
        return DONE
    try:
        return args.run(args)
    except (KitError, PermissionError) as error:
        said = denied(error) if isinstance(error, PermissionError) else error
        say(f"kit: {said}")
        return said.code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away, as `| head` does
        return DONE
    except KeyboardInterrupt:
        print("kit: interrupted", file=sys.stderr)
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """All verbs with their options."""
    from kit import __version__

    command_line = Parser(
        prog="kit",
        description="Find out why the launch of an LLM server stalled, and compare launches and benchmarks. "
        "Begin with: kit verdict FOLDER, then: kit report FOLDER",
        epilog="Exit codes: 0 done, 1 trouble found (with --exit-code), 2 usage, 3 could not reach, read or write.",
    )
    command_line.add_argument("--version", action="version", version=f"stallkit {__version__}")
    verbs = Verbs(command_line)
    for heading, add in GROUPS:
        verbs.group(heading)
        add(verbs)
    return command_line
