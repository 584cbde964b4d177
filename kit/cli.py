"""Command line: the façade's verbs for a shell."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from kit import knowledge_paths
from kit.errors import DONE, TROUBLE, KitError, UsageError

GOOD_STATES = ("ready", "progressing")


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 trouble found (with --exit-code), 2 usage, 3 could not reach or read."""
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        with knowledge_paths.also(getattr(args, "knowledge", None)):
            return args.run(args)
    except KitError as error:
        print(f"kit: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away, as `| head` does
        return DONE
    except KeyboardInterrupt:
        print("kit: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    from kit import __version__
    from kit.analyse.knowledge.command import add_option

    parser = argparse.ArgumentParser(
        prog="kit",
        description="Work out why the launch of an LLM server stalled, and compare runs.",
        epilog="Exit codes: 0 done, 1 trouble found (with --exit-code), 2 usage, 3 could not reach or read.",
    )
    parser.add_argument("--version", action="version", version=f"stallkit {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for add in (
        _add_verdict,
        _add_triage,
        _add_watch,
        _add_guard,
        _add_compare,
        _add_bench,
        _add_ledger,
        _add_collect,
        _add_pull,
        _add_report,
        _add_export,
        _add_learn,
        _add_similar,
        _add_reference,
        _add_doctor,
    ):
        add(verbs)
    for name in ("verdict", "triage", "compare", "ledger", "report", "export", "similar"):
        add_option(verbs.choices[name])
    return parser


def _add_verdict(verbs) -> None:
    verb = verbs.add_parser("verdict", help="say what holds, how sure, and what to look at next")
    verb.add_argument("paths", nargs="+", metavar="PATH", help="a run, a folder of evidence, or one file")
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    verb.add_argument(
        "--captured-at", metavar="T", help="when the evidence was taken, local time of the host: '2026-02-18 02:11:52'"
    )
    verb.add_argument("--exit-code", action="store_true", help="exit with 1 where a launch is neither ready nor progressing")
    verb.set_defaults(run=_verdict)


def _verdict(args: argparse.Namespace) -> int:
    from kit.analyse.verdict.verdict import verdict

    code = DONE
    for number, path in enumerate(args.paths):
        try:
            found = verdict(path, args.captured_at)
        except UsageError:
            raise
        except KitError as error:  # the other folders are still worth judging
            code = error.code
            print(
                json.dumps({"path": str(path), "error": str(error)}, ensure_ascii=False) if args.json else f"kit: {error}",
                file=sys.stdout if args.json else sys.stderr,
            )
            continue
        if args.json:
            print(json.dumps({**found.to_dict(), "path": str(path)}, ensure_ascii=False, allow_nan=False))
        else:
            print(("\n" + "─" * 110 + "\n" if number else "") + str(found))
        if args.exit_code and code == DONE and found.state not in GOOD_STATES:
            code = TROUBLE
    return code


def _add_collect(verbs) -> None:
    from kit.capture import command

    verb = verbs.add_parser("collect", help="record the evidence of a running launch into a run")
    command.add_arguments(verb)
    verb.set_defaults(run=command.main)


def _add_pull(verbs) -> None:
    from kit.capture import command

    verb = verbs.add_parser("pull", help="fetch files of a host into a run, scrubbed; goes on after a break")
    command.add_pull_arguments(verb)
    verb.set_defaults(run=command.pull_main)


def _add_triage(verbs) -> None:
    from kit.live import command

    verb = verbs.add_parser("triage", help="look at a running launch, test one hypothesis after the other, say what holds")
    command.add_arguments(verb)
    verb.set_defaults(run=command.main)


def _add_watch(verbs) -> None:
    from kit.live import watch_command

    verb = verbs.add_parser("watch", help="show what a launch is doing, rank by rank, while it does it")
    watch_command.add_arguments(verb)
    verb.set_defaults(run=watch_command.main)


def _add_guard(verbs) -> None:
    from kit.live import guard_command

    verb = verbs.add_parser("guard", help="start a launch, and capture its stall by itself when it goes quiet")
    guard_command.add_arguments(verb)
    verb.set_defaults(run=guard_command.main)


def _add_report(verbs) -> None:
    verb = verbs.add_parser("report", help="write the post-mortem of a run as one HTML file")
    verb.add_argument("path", metavar="RUN", help="a run, a folder of evidence, or one file")
    verb.add_argument("-o", "--output", metavar="FILE", default="report.html")
    verb.add_argument("--captured-at", metavar="T")
    verb.add_argument(
        "--against", metavar="RUN", nargs="+", default=[], help="launches to compare it with, say one that worked: adds that part"
    )
    verb.set_defaults(run=_report)


def _report(args: argparse.Namespace) -> int:
    from kit.render.report import report

    written = report(args.path, args.output, captured_at=args.captured_at, against=args.against)
    print(f"{written}: {written.stat().st_size / 2**20:.1f} MiB, needs no network")
    return DONE


def _add_compare(verbs) -> None:
    verb = verbs.add_parser("compare", help="put launches side by side: settings, phases, log, memory, threads, stacks")
    verb.add_argument("a", metavar="A", help="the launch to compare with, say one that worked")
    verb.add_argument("others", metavar="B", nargs="+", help="the others")
    verb.add_argument(
        "--align", metavar="PHASE", default="launch", help="what is at second 0 of all: launch, or a phase: weights, …"
    )
    _add_times(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object")
    verb.set_defaults(run=_compare)


def _add_times(verb) -> None:
    verb.add_argument(
        "--captured-at",
        metavar="T",
        nargs="+",
        help="when the evidence of each was taken, local time of its host; - where the run knows",
    )


def _times(args: argparse.Namespace) -> list[str | None] | None:
    return args.captured_at and [None if when == "-" else when for when in args.captured_at]


def _compare(args: argparse.Namespace) -> int:
    from kit.analyse.launches.compare import compare

    found = compare(args.a, *args.others, captured_at=_times(args), align=args.align)
    print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if args.json else found)
    return DONE


def _add_ledger(verbs) -> None:
    verb = verbs.add_parser(
        "ledger", help="table launches, the settings in which they differ, how each ended, and what to try next"
    )
    verb.add_argument("runs", nargs="+", metavar="RUN", help="a run, a folder of evidence, or one file")
    _add_times(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object")
    verb.set_defaults(run=_ledger)


def _ledger(args: argparse.Namespace) -> int:
    from kit.analyse.launches.attempts import attempts

    found = attempts(args.runs, captured_at=_times(args))
    print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if args.json else found)
    return DONE


def _add_bench(verbs) -> None:
    from kit.analyse.bench import command as bench_command

    verb = verbs.add_parser("bench", help="compare benchmark results of two settings: interval, verdict, runs still needed")
    bench_command.add_arguments(verb)
    verb.set_defaults(run=bench_command.main)


def _add_export(verbs) -> None:
    verb = verbs.add_parser("export", help="write one frame of a run as csv, jsonl or parquet")
    verb.add_argument("path", metavar="PATH")
    verb.add_argument("frame", metavar="FRAME", help="name of a frame, see docs/columns.md")
    verb.add_argument("-o", "--output", metavar="FILE", required=True, help="ends in .csv, .jsonl or .parquet")
    verb.add_argument("--captured-at", metavar="T")
    verb.set_defaults(run=_export)


def _export(args: argparse.Namespace) -> int:
    from kit.frames import TABLES
    from kit.open import open_run

    ending = Path(args.output).suffix.lower()
    if ending not in (".csv", ".jsonl", ".parquet"):
        raise UsageError(
            f"cannot tell the format of {args.output}",
            "its name ends in none of .csv, .jsonl, .parquet",
            "name the file so: -o threads.parquet",
        )
    run = open_run(args.path, args.captured_at)
    if args.frame in TABLES:
        from kit.analyse.verdict import tables

        frame = getattr(tables, args.frame)(run)
    else:
        frame = run.frame(args.frame)
    try:
        if ending == ".csv":
            frame.to_csv(args.output, index=False)
        elif ending == ".jsonl":
            frame.to_json(args.output, orient="records", lines=True, date_format="iso", date_unit="ns", force_ascii=False)
        else:
            frame.to_parquet(args.output, index=False)
    except OSError as error:
        raise KitError(f"cannot write {args.output}", error.strerror or str(error), "choose another place with -o") from error
    print(f"{args.output}: {len(frame):,} rows of {args.frame}")
    return DONE


def _add_learn(verbs) -> None:
    from kit.analyse.knowledge.command import add_learn

    add_learn(verbs.add_parser("learn", help="write a signature with its remedy from a run whose cause is known"))


def _add_similar(verbs) -> None:
    from kit.analyse.knowledge.command import add_similar

    add_similar(verbs.add_parser("similar", help="rank earlier runs by likeness, and say what they turned out to be"))


def _add_reference(verbs) -> None:
    verb = verbs.add_parser("reference", help="print the column reference of all frames")
    verb.add_argument("-o", "--output", metavar="FILE", help="write it there")
    verb.set_defaults(run=_reference)


def _reference(args: argparse.Namespace) -> int:
    from kit.frames import FRAMES, TABLES
    from kit.schema import reference

    text = reference((*FRAMES.values(), *TABLES.values()))
    if args.output:
        Path(args.output).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return DONE


def _add_doctor(verbs) -> None:
    verb = verbs.add_parser("doctor", help="say what this machine lacks for the kit, and how to get it")
    verb.add_argument("--exit-code", action="store_true", help="exit with 1 where something needed is missing")
    verb.set_defaults(run=_doctor)


def _doctor(args: argparse.Namespace) -> int:
    from kit import doctor

    checks = doctor.checks()
    print(doctor.render(checks))
    return TROUBLE if args.exit_code and any(check.ok is False for check in checks) else DONE


if __name__ == "__main__":
    sys.exit(main())
