"""Verbs that look at a running launch: collect, pull, triage, watch, guard."""

from __future__ import annotations

import argparse
import signal
import time
from pathlib import Path
from typing import Any

from kit.capture.options import Connection, Options, add_options, duration, from_arguments
from kit.cli.parser import Verbs
from kit.cli.shared import add_exit_code, add_formats, add_knowledge, exit_code, put, say, show, working
from kit.clock import show_duration
from kit.errors import DONE, UsageError
from kit.live.options import GuardOptions, TriageOptions

TARGET = "where the launch runs: local (this machine), ssh://[user@]host[:port]"


def add(verbs: Verbs) -> None:
    """Add the verbs."""
    verb = verbs.add("collect", collect, "record diagnostics of a running launch")
    verb.add_argument("targets", nargs="*", metavar="TARGET", help=TARGET)
    verb.add_argument("--target", action="append", default=[], dest="more", metavar="TARGET", help="one more host")
    add_launch(verb, "append", "; for several hosts give it once, or once per host")
    add_options(verb, Options)
    verb.add_argument("--dry-run", action="store_true", help="print the commands it would run there; connect to nothing")
    add_out(verb, "folder to make")
    add_options(verb, Connection)

    verb = verbs.add("pull", pull, "copy files of a host into a run, scrubbed; run again to resume")
    verb.add_argument("target", metavar="TARGET", help="where the files are: local, ssh://[user@]host[:port]")
    verb.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, or patterns in quotes: '/var/log/vllm/*.log*'")
    add_out(verb, "folder to make, or to resume", required=True)
    add_options(verb, Connection)

    verb = verbs.add("triage", triage, "test hypotheses on a running launch, and say what is wrong")
    verb.add_argument("targets", nargs="+", metavar="TARGET", help=f"{TARGET}; several are looked at at once")
    add_launch(verb)
    add_options(verb, TriageOptions)
    add_out(verb, "keep the evidence in this folder")
    add_options(verb, Connection)
    add_formats(verb)
    add_exit_code(verb)
    add_knowledge(verb)

    verb = verbs.add("watch", watch, "show what each rank of a running launch is doing")
    verb.add_argument("targets", metavar="TARGET", nargs="*", default=["local"], help=f"{TARGET}; of several, a line a host")
    add_launch(verb)
    verb.add_argument("--for", dest="limit", metavar="TIME", help="longest time to watch; until Ctrl-C without it")
    add_out(verb, "keep the evidence in this folder")
    add_options(verb, Connection)

    verb = verbs.add("guard", guard, "start a launch and capture diagnostics if it stalls")
    add_out(verb, "folder to make; guard-DATE-TIME without it")
    add_options(verb, GuardOptions)
    verb.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the launch, as you would start it")


def add_out(verb: argparse.ArgumentParser, help: str, required: bool = False) -> None:
    """Add the run folder."""
    verb.add_argument("-o", "--out", type=Path, metavar="RUN", help=help, required=required)


def add_launch(verb: argparse.ArgumentParser, action: str = "store", also: str = "") -> None:
    """Add what names a launch; any one is enough."""
    verb.add_argument("--pid", type=int, action=action, help=f"process that was launched; its children belong to it{also}")
    verb.add_argument("--log", action=action, help=f"its log there; by default the file behind its standard output{also}")
    verb.add_argument("--port", type=int, action=action, help=f"port of its server; by default that of its command line{also}")
    verb.add_argument("--name", action=action, help=f"a word of its command line, to find it by{also}")


def _launch(args: argparse.Namespace) -> dict:
    return {"pid": args.pid, "log": args.log, "port": args.port, "name": args.name}


def end_in_order_on_signals() -> None:
    """Let SIGINT, SIGTERM and a closed terminal end a recording in order.

    A shell's background job starts with SIGINT ignored; a hang-up that is ignored stays so, for that is what nohup is for.
    """

    from kit.capture.logs import scrub

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    scrub.load()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


def collect(args: argparse.Namespace) -> int:
    """Record, or print what a recording would run."""
    from kit.capture.collect import collect as record
    from kit.capture.plan import document, plan
    from kit.document import text

    options, targets = from_arguments(Options, args), [*args.targets, *args.more] or ["local"]
    if args.dry_run:
        text.write(document(plan(options), f"on {', '.join(targets)}{' as root, by sudo' if args.sudo else ''}"))
        return DONE
    if args.out is None:
        raise UsageError("no output folder", "a recording needs one", "name it: kit collect … -o RUN")
    end_in_order_on_signals()
    connection = from_arguments(Connection, args)
    folder = record(*targets, out=args.out, **_launch(args), options=options, connection=connection, progress=say)
    put(f"recorded {folder}; look at it: kit verdict {folder}")
    return DONE


def pull(args: argparse.Namespace) -> int:
    """Copy files."""
    from kit.capture.logs.pull import pull as copy

    end_in_order_on_signals()
    with working(f"pulling from {args.target}") as progress:
        folder = copy(args.target, *args.paths, out=args.out, connection=from_arguments(Connection, args), progress=progress)
    put(f"pulled into {folder}; look at it: kit verdict {folder}")
    return DONE


def triage(args: argparse.Namespace) -> int:
    """Test hypotheses."""
    from kit.live.triage import triage as test

    end_in_order_on_signals()
    how: dict[str, Any] = {"options": from_arguments(TriageOptions, args), "connection": from_arguments(Connection, args)}
    if len(args.targets) > 1:
        from kit.live.several import triage_each

        together = triage_each(args.targets, launch=_launch(args), out=args.out, knowledge=args.knowledge, progress=say, **how)
        show(together, args)
        return exit_code(args, together.state)
    result = test(args.targets[0], **_launch(args), out=args.out, knowledge=args.knowledge, progress=say, **how)
    show(result, args)
    return exit_code(args, result.verdict.state)


def watch(args: argparse.Namespace) -> int:
    """Watch until the launch ends, the time is over, or Ctrl-C."""
    from kit.live.screen import Screen
    from kit.live.watch import Watch

    end_in_order_on_signals()
    limit_s = duration(args.limit) if args.limit else None
    connection = from_arguments(Connection, args)
    if len(args.targets) > 1:
        return _watch_each(args, limit_s, connection)
    live = Watch(args.targets[0], **_launch(args), out=args.out, limit_s=limit_s, say=say, connection=connection)
    began, boards = time.monotonic(), live.boards()
    with Screen(quit=live.stop) as screen:
        try:
            for board in boards:
                screen.show(board, f"watched for {show_duration(time.monotonic() - began)}, Ctrl-C ends")
        except KeyboardInterrupt:
            pass
        finally:
            boards.close()
    if args.out is not None:
        put(f"kept in {args.out}; look at it: kit verdict {args.out}")
    return DONE


def _watch_each(args: argparse.Namespace, limit_s: float | None, connection: Connection) -> int:
    """A line a host."""
    from dataclasses import replace
    from getpass import getpass

    from kit.live.screen import Screen
    from kit.live.several import WatchEach
    from kit.show.hosts import Hosts

    began, screen = time.monotonic(), Screen(quit=lambda: live.stop())

    def ask(prompt: str) -> str:
        """Hosts are reached while the screen is shown."""
        with screen.aside():
            return getpass(prompt)

    def tell(name: str, said: str) -> None:
        """Where there is a screen, what is said of a host without a board stands in its line."""
        if not screen.live:
            say(f"{name}: {said}")

    connection = replace(connection, ask=ask)
    live = WatchEach(args.targets, launch=_launch(args), out=args.out, limit_s=limit_s, say=tell, connection=connection)
    with screen:
        boards = live.boards()
        while True:
            screen.show(Hosts(live.shown), "connecting")
            try:
                for _ in boards:
                    screen.show(Hosts(live.shown), f"watched for {show_duration(time.monotonic() - began)}, Ctrl-C ends")
                break
            except KeyboardInterrupt:
                live.stop()
                boards = live.rest()
        screen.last = Hosts(live.shown)
    if args.out is not None:
        put(f"kept in {args.out}; look at it: kit verdict --hosts {args.out}")
    return DONE


def guard(args: argparse.Namespace) -> int:
    """Guard a launch, and return its exit code."""
    from kit.live.guard import guard as start

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("nothing to guard", "no command is given", "for example: kit guard -- vllm serve MODEL --port 8000")
    return start(command, out=args.out, options=from_arguments(GuardOptions, args), progress=_guard_says)


def _guard_says(text: str) -> None:
    """What the guard does, apart from what the launch prints; a verdict of many lines stands by itself."""
    say(text if "\n" in text else f"kit guard: {text}")
