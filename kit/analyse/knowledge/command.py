"""`kit learn` and `kit similar`: options, and what is printed; and the option `--knowledge` of all verbs that read evidence."""

from __future__ import annotations

import argparse
import json

from kit.errors import DONE


def add_option(verb: argparse.ArgumentParser) -> None:
    """Add `--knowledge`, which may be given several times."""
    verb.add_argument(
        "--knowledge",
        metavar="FOLDER",
        action="append",
        help="folder with log grammars and signatures of your own (also: KIT_KNOWLEDGE, a list of folders)",
    )


def add_learn(verb: argparse.ArgumentParser) -> None:
    """Add the options of `kit learn`."""
    verb.add_argument("path", metavar="RUN", help="the solved run: a run, a folder of evidence, or one file")
    verb.add_argument("--class", dest="klass", metavar="CLASS", required=True, help="what it turned out to be")
    verb.add_argument("--remedy", metavar="TEXT", required=True, help="what helped")
    verb.add_argument("--what", metavar="TEXT", help="what it is, in a sentence; else the meaning of the class")
    verb.add_argument("--source", metavar="TEXT", help="who says so: a link, or words")
    verb.add_argument("--name", metavar="NAME", help="name of the signature")
    place = verb.add_mutually_exclusive_group()
    place.add_argument("--knowledge", dest="into", metavar="FOLDER", help="folder whose signatures.toml it is added to")
    place.add_argument("-o", "--output", metavar="FILE", help="file that it is added to")
    verb.add_argument("--captured-at", metavar="T")
    verb.set_defaults(run=_learn)


def _learn(args: argparse.Namespace) -> int:
    from kit.analyse.knowledge.learn import learn

    print(
        learn(
            args.path,
            args.klass,
            args.remedy,
            name=args.name,
            what=args.what,
            source=args.source,
            knowledge=args.into,
            out=args.output,
            captured_at=args.captured_at,
        )
    )
    return DONE


def add_similar(verb: argparse.ArgumentParser) -> None:
    """Add the options of `kit similar`."""
    verb.add_argument("path", metavar="RUN", help="a run, a folder of evidence, or one file")
    verb.add_argument("runs", metavar="RUNS", nargs="*", help="earlier runs; else the bundled ones and those of data/runs")
    verb.add_argument("--most", type=int, default=5, metavar="N", help="print so many of them (default 5)")
    verb.add_argument("--captured-at", metavar="T")
    verb.add_argument("--json", action="store_true", help="one JSON object")
    verb.set_defaults(run=_similar)


def _similar(args: argparse.Namespace) -> int:
    from kit.analyse.knowledge.similar import similar

    found = similar(args.path, args.runs or None, captured_at=args.captured_at, most=args.most)
    print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if args.json else found)
    return DONE
