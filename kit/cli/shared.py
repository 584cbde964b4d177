"""What verbs share: options that mean the same everywhere, how an answer is printed, and a sign of life while it takes long."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Timer
from typing import Any

from kit import progress
from kit.clock import show_duration
from kit.document import Shown, percent, scrubbed, text
from kit.errors import DONE, TROUBLE
from kit.untrusted import visible, visible_json

GOOD_STATES = ("ready", "progressing")
SLOW_S, PACE_S = 1.0, 10.0
"""What takes longer shows that it works; the time that is left is told by the pace of the last seconds."""
EVIDENCE = "a run, a folder of evidence, or one file"


def add_path(verb: argparse.ArgumentParser) -> None:
    """Add one launch and when its evidence was taken."""
    verb.add_argument("path", metavar="PATH", help=EVIDENCE)
    add_captured_at(verb)


def add_captured_at(verb: argparse.ArgumentParser, several: bool = False) -> None:
    """Add `--captured-at`, of one launch or of each."""
    if several:
        text = "capture times in the order of the launches, local time of their hosts; - where the run knows"
        verb.add_argument("--captured-at", metavar="TIME", nargs="+", help=text)
    else:
        text = "capture time, if it differs from the files' timestamps; local time of the host: '2026-02-18 02:11:52'"
        verb.add_argument("--captured-at", metavar="TIME", help=text)


def times(args: argparse.Namespace) -> list[str | None] | None:
    """Capture times of several launches."""
    return args.captured_at and [None if when == "-" else when for when in args.captured_at]


def add_knowledge(verb: argparse.ArgumentParser) -> None:
    """Add `--knowledge`, which may be given several times."""
    verb.add_argument(
        "--knowledge",
        metavar="FOLDER",
        action="append",
        help="folder with knowledge of your own: log grammars, signatures (also: KIT_KNOWLEDGE, a list of folders)",
    )


def add_formats(verb: argparse.ArgumentParser) -> None:
    """Add the forms in which an answer is printed."""
    forms = verb.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON: one object a line")
    forms.add_argument("--markdown", action="store_true", help="print Markdown, for a page or an issue")
    forms.add_argument("--brief", action="store_true", help="print the answer and the next step as Markdown, for a chat")


def show(answer: Shown, args: argparse.Namespace, **more: Any) -> None:
    """Print an answer in the form that was asked for; `more` goes into the JSON object."""
    if args.json:
        print_json({**answer.to_dict(), **more})  # type: ignore[attr-defined]
    elif args.markdown or args.brief:
        put(answer.to_markdown(args.brief))
    else:
        text.write(scrubbed(answer.document()))


def print_json(value: dict) -> None:
    """Print one JSON object on one line."""
    print(visible_json(json.dumps(scrubbed(value), ensure_ascii=False, allow_nan=False)))


def add_exit_code(verb: argparse.ArgumentParser, when: str = "a launch is neither ready nor progressing") -> None:
    """Add `--exit-code`."""
    verb.add_argument("--exit-code", action="store_true", help=f"exit with 1 if {when}")


def exit_code(args: argparse.Namespace, state: str) -> int:
    """Exit code for the state of a launch."""
    return TROUBLE if args.exit_code and state not in GOOD_STATES else DONE


def say(text: str) -> None:
    """Tell how a recording goes on, or what went wrong, beside the answer on standard output."""
    print(visible(text), file=sys.stderr, flush=True)


def put(text: str) -> None:
    """Print a line of an answer that is no document: nothing in it steers the terminal."""
    print(visible(text))


@dataclass(frozen=True)
class Work:
    """What the terminal shows of work that takes a while: called, a line of progress; `step` says what is done now."""

    line: Callable[[str], None]
    step: Callable[[str], None] = field(default=lambda what: None)

    def __call__(self, line: str) -> None:
        self.line(line)


@contextmanager
def working(what: str) -> Iterator[Work]:
    """Show on the terminal that something takes a while, from one second on; nothing elsewhere.

    A spinner with the time; while evidence is read or copied, the share of it and how long the rest will take at that pace.
    """
    if not sys.stderr.isatty():
        yield Work(say)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr, highlight=False, markup=False)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}{task.fields[read]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(text.clean(what), read="")
    told: deque[tuple[float, float]] = deque()  # when how much was done: the pace is that of the last seconds
    timer = Timer(SLOW_S, bar.start)
    timer.daemon = True
    timer.start()

    def read(share: float) -> None:
        told.append((now := time.monotonic(), share))
        while len(told) > 2 and told[0][0] < now - PACE_S:
            told.popleft()
        began, at = told[0]
        left = (now - began) * (1 - share) / (share - at) if share > at and now - began >= SLOW_S else None
        about = f", about {show_duration(left)} left" if left is not None else ""
        bar.update(task, read=f", {percent(share)}{about}" if share < 1 else "")

    try:
        with progress.listening(read):
            yield Work(
                lambda line: console.print(text.clean(line), soft_wrap=True),
                lambda now: bar.update(task, description=text.clean(f"{what}: {now}"), read=""),
            )
    finally:
        timer.cancel()
        bar.stop()
