"""Verbs that keep house: learn, reference, doctor, completion."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kit.cli.parser import Verbs
from kit.cli.shared import add_exit_code, add_path, put
from kit.errors import DONE, TROUBLE, KitError

SHELLS = ("bash", "zsh", "tcsh")


def add(verbs: Verbs) -> None:
    """Add the verbs."""
    verb = verbs.add("learn", learn, "write a signature with its remedy from a run whose cause is known")
    add_path(verb)
    verb.add_argument("--class", dest="klass", metavar="CLASS", required=True, help="what it turned out to be")
    verb.add_argument("--remedy", metavar="TEXT", required=True, help="what helped")
    verb.add_argument("--what", metavar="TEXT", help="what it is, in a sentence (default: the meaning of the class)")
    verb.add_argument("--source", metavar="TEXT", help="who says so: a link, or words")
    verb.add_argument("--name", metavar="NAME", help="name of the signature")
    place = verb.add_mutually_exclusive_group()
    place.add_argument("--knowledge", dest="into", metavar="FOLDER", help="add it to signatures.toml of this folder")
    place.add_argument("-o", "--output", metavar="FILE", help="add it to this file")

    verb = verbs.add("reference", reference, "print the columns of all frames")
    verb.add_argument("-o", "--output", metavar="FILE", help="write it to a file")

    verb = verbs.add("doctor", doctor, "check this machine's prerequisites")
    verb.add_argument("--security", action="store_true", help="show what a collection would read, and with which rights")
    add_exit_code(verb, "something needed is missing")

    verb = verbs.add("completion", completion, "print the completion script of a shell")
    verb.add_argument(
        "shell", choices=SHELLS, help="for bash: kit completion bash > ~/.local/share/bash-completion/completions/kit"
    )


def learn(args: argparse.Namespace) -> int:
    """Write a signature."""
    from kit.analyse.knowledge.learn import learn as write

    more = {"name": args.name, "what": args.what, "source": args.source, "captured_at": args.captured_at}
    put(str(write(args.path, args.klass, args.remedy, knowledge=args.into, out=args.output, **more)))
    return DONE


def reference(args: argparse.Namespace) -> int:
    """Print the column reference."""
    from kit.frames import FRAMES, TABLES
    from kit.schema import reference as columns

    printed = columns((*FRAMES.values(), *TABLES.values()))
    if args.output:
        try:
            Path(args.output).write_text(printed, encoding="utf-8")
        except OSError as error:
            raise KitError(f"cannot write {args.output}", error.strerror or str(error), "choose another place with -o") from error
    else:
        sys.stdout.write(printed)
    return DONE


def doctor(args: argparse.Namespace) -> int:
    """Check this machine."""
    from kit import doctor as machine
    from kit.capture import plan
    from kit.document import text

    if args.security:
        text.write(plan.security())
        return DONE
    checks = machine.checks()
    print(machine.render(checks))
    return TROUBLE if args.exit_code and any(check.ok is False for check in checks) else DONE


def completion(args: argparse.Namespace) -> int:
    """Print a completion script."""
    import shtab

    from kit.cli import parser

    print(shtab.complete(parser(), args.shell))
    return DONE
