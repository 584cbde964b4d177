"""Verbs that read evidence: verdict, report, export, compare, attempts, bench, calls, similar, runs."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kit.cli.parser import Verbs
from kit.cli.shared import (
    EVIDENCE,
    add_captured_at,
    add_exit_code,
    add_formats,
    add_knowledge,
    add_path,
    exit_code,
    print_json,
    put,
    say,
    show,
    times,
    working,
)
from kit.errors import DONE, KitError, UsageError

_QUOTE = re.compile(r"(?P<name>[^=]+)=\s*(?P<value>[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?)\s*(?P<unit>\S*)")


def add(verbs: Verbs) -> None:
    """Add the verbs."""
    verb = verbs.add("verdict", verdict, "say what is wrong with a launch, how sure that is, and what to look at next")
    verb.add_argument("paths", nargs="+", metavar="PATH", help=f"{EVIDENCE}; - is the standard input")
    verb.add_argument("--as-one", action="store_true", help="all paths are the evidence of one launch")
    verb.add_argument("--pid", type=int, metavar="N", help="judge the launch of this process, where there are several")
    verb.add_argument("--port", type=int, metavar="N", help="judge the launch of this port, where there are several")
    verb.add_argument("--against", metavar="GOOD", help="a launch that worked; `library`: the likest of your earlier ones")
    add_captured_at(verb)
    verb.add_argument("--at", metavar="TIME", help="judge what could be known at this moment, local time of the host")
    add_formats(verb)
    verb.add_argument("--hosts", action="store_true", help="a launch of many hosts: judge each by itself, name the odd one")
    verb.add_argument(
        "--scheduler", metavar="ADDRESS", help="judge the hosts on the workers of this Dask scheduler, tcp://HOST:PORT"
    )
    add_exit_code(verb)
    add_knowledge(verb)

    verb = verbs.add("report", report, "write the post-mortem of a launch as one HTML file")
    add_path(verb)
    verb.add_argument("-o", "--output", metavar="FILE", help="default report.html; with --markdown and --brief standard output")
    verb.add_argument("--against", metavar="PATH", nargs="+", default=[], help="launches to compare it with, say one that worked")
    forms = verb.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="as Markdown, for a ticket")
    forms.add_argument("--brief", action="store_true", help="the answer and the next step as Markdown, for a chat")
    forms.add_argument("--notebook", action="store_true", help="also write it as an executed notebook, to go on working in")
    verb.add_argument("--at", metavar="TIME", help="as it was known at this moment, local time of the host")
    add_knowledge(verb)

    verb = verbs.add("export", export, "write one frame of a run as csv, jsonl or parquet; or all of it as a trace for Perfetto")
    verb.add_argument("path", metavar="PATH", help=EVIDENCE)
    verb.add_argument("frame", metavar="FRAME", nargs="?", help="name of a frame, see docs/columns.md")
    verb.add_argument("-o", "--output", metavar="FILE", help="of a frame: ends in .csv, .jsonl or .parquet")
    verb.add_argument("--perfetto", metavar="FILE", help="a trace that ui.perfetto.dev opens: ends in .json or .json.gz")
    add_captured_at(verb)
    add_knowledge(verb)

    verb = verbs.add("compare", compare, "compare launches: settings, phases, log, memory, threads, stacks")
    verb.add_argument("a", metavar="A", help="the launch to compare with, say one that worked")
    verb.add_argument("others", metavar="B", nargs="+", help="the others")
    verb.add_argument("--align", metavar="PHASE", default="launch", help="second 0 of all: launch, or a phase such as weights")
    add_captured_at(verb, several=True)
    add_formats(verb)
    add_knowledge(verb)

    verb = verbs.add("attempts", attempts, "list launches with the settings that differ, and what to try next", alias="ledger")
    verb.add_argument("paths", nargs="+", metavar="PATH", help=EVIDENCE)
    add_captured_at(verb, several=True)
    add_formats(verb)
    add_knowledge(verb)

    _add_bench(verbs)

    _add_calls(verbs)

    _add_runs(verbs)


def _add_runs(verbs: Verbs) -> None:
    verb = verbs.add("runs", runs, "list the launches of a folder: when, what, how each ended, what repeats")
    verb.add_argument("path", nargs="?", default=".", metavar="FOLDER", help="a folder of runs, at any depth; default: this one")
    verb.add_argument("--text", default="", metavar="WORD", help="those with this word in name, server, model or outcome")
    verb.add_argument(
        "--class", dest="klass", default="", metavar="CLASS", help="those of this class or state: stalled, device_hang"
    )
    verb.add_argument("--since", metavar="TIME", help="those since then: 2026-02-18; or since so long ago: 7d, 12h")
    add_formats(verb)
    add_knowledge(verb)


def _add_calls(verbs: Verbs) -> None:
    verb = verbs.add("calls", calls, "say what the system calls tell: who waits for whom, what goes round, what nobody reads")
    verb.add_argument("path", metavar="PATH", help="a capture of strace, or a run or folder that holds one")
    verb.add_argument("--against", metavar="GOOD", help="a trace of a launch that worked: find where threads part from it")
    verb.add_argument("--at", metavar="TIME", help="take the trace to end here: seconds since its first line, or a time of day")
    verb.add_argument("--html", metavar="FILE", help="write it with its figures as one page, too")
    add_formats(verb)

    verb = verbs.add("similar", similar, "rank earlier runs by likeness, with what they turned out to be")
    verb.add_argument("path", metavar="PATH", help=EVIDENCE)
    verb.add_argument("among", metavar="RUN", nargs="*", help="earlier runs; else the bundled ones and those of data/runs")
    verb.add_argument("--most", type=int, default=5, metavar="N", help="number to print (default 5)")
    add_captured_at(verb)
    add_formats(verb)
    add_knowledge(verb)


def _add_bench(verbs: Verbs) -> None:
    verb = verbs.add("bench", bench, "compare benchmark results of two settings: interval, verdict, runs still needed")
    verb.add_argument("base", nargs="+", metavar="BASE", help="results of one setting, five files or more; or runs of launches")
    verb.add_argument("--vs", nargs="+", metavar="CAND", help="results of the other setting; interleave both")
    verb.add_argument("--primary", nargs="+", metavar="METRIC", help="metrics of the question: ttft, e2el.p99, …; up to six")
    verb.add_argument("--aa", nargs="+", metavar="RUN", help="runs of one unchanged setting: their spread is the noise of a run")
    verb.add_argument(
        "--quoted", nargs="+", metavar="METRIC=VALUE", help="compare your result with a quoted number: output_throughput=82.5"
    )
    verb.add_argument("--force", action="store_true", help="give ratios even if load or definitions differ")
    verb.add_argument("--margin", type=float, default=0.05, metavar="SHARE", help="relative change that counts as none (0.05)")
    verb.add_argument("--confidence", type=float, default=0.95, metavar="SHARE", help="of the intervals (0.95)")
    add_formats(verb)


def verdict(args: argparse.Namespace) -> int:
    """Judge each launch; one that cannot be read does not hide the others."""
    from kit.analyse.fleet import fleet
    from kit.analyse.knowledge.similar import likest_good
    from kit.analyse.verdict.verdict import verdict as judge

    code = DONE
    for number, path in enumerate([args.paths] if args.as_one else args.paths):
        name = " ".join(path) if args.as_one else path
        try:
            with working(f"reading {name}"):
                if args.hosts or args.scheduler:
                    together = fleet(path, args.scheduler, knowledge=args.knowledge or ()).verdict()
                    show(together, args, path=name)
                    code = code or exit_code(args, together.state)
                    continue
                good = likest_good(path, args.captured_at, args.knowledge) if args.against == "library" else args.against
                more = {"pid": args.pid, "port": args.port, "against": good}
                judged = judge(path, args.captured_at, args.knowledge, args.at, **more)
        except UsageError:
            raise
        except KitError as error:
            code = error.code
            if args.json:
                print_json({"path": name, "error": str(error)})
            else:
                say(f"kit: {error}")
            continue
        if number and not args.json:
            print()
        show(judged, args, path=name)
        code = code or exit_code(args, judged.state)
    return code


def report(args: argparse.Namespace) -> int:
    """Write a post-mortem."""
    from kit.render import report as render

    more = {"captured_at": args.captured_at, "against": args.against, "knowledge": args.knowledge, "at": args.at}
    if args.markdown or args.brief:
        out = render.checked(Path(args.output), render.TEXT, "Markdown with --markdown") if args.output else None
        with working(f"reading {args.path}"):
            text = render.markdown(args.path, brief=args.brief, **more)
        put(f"{render.write(out, text)}: Markdown" if out else text)
        return DONE
    with working("report") as work:
        written = render.report(args.path, args.output, notebook=args.notebook, step=work.step, **more)
    put(f"{written}: {written.stat().st_size / 2**20:.1f} MiB, needs no network")
    if args.notebook:
        put(f"{written.with_suffix('.ipynb')}: open it with kit lab, or any JupyterLab")
    return DONE


def export(args: argparse.Namespace) -> int:
    """Write a frame, or a trace."""
    from kit.analyse.verdict.tables import export as write

    if args.perfetto is not None and args.frame is None and args.output is None:
        from kit.render.perfetto import perfetto

        with working(f"reading {args.path}"):
            events = perfetto(args.path, args.perfetto, captured_at=args.captured_at, knowledge=args.knowledge)
        put(f"{args.perfetto}: {events:,} events; open it at https://ui.perfetto.dev, which reads it in the browser")
        return DONE
    if args.perfetto is not None or args.frame is None or args.output is None:
        why = "a frame needs its name and a file, a trace a file alone"
        raise UsageError("nothing to export", why, "kit export RUN log -o log.csv, or kit export RUN --perfetto trace.json.gz")
    with working(f"reading {args.path}"):
        rows = write(args.path, args.frame, args.output, captured_at=args.captured_at, knowledge=args.knowledge)
    put(f"{args.output}: {rows:,} rows of {args.frame}")
    return DONE


def compare(args: argparse.Namespace) -> int:
    """Compare launches."""
    from kit.analyse.launches.compare import compare as compared

    with working("comparing"):
        answer = compared(args.a, *args.others, captured_at=times(args), align=args.align, knowledge=args.knowledge)
    show(answer, args)
    return DONE


def attempts(args: argparse.Namespace) -> int:
    """List launches."""
    from kit.analyse.launches.attempts import attempts as listed

    with working("reading the launches"):
        answer = listed(args.paths, captured_at=times(args), knowledge=args.knowledge)
    show(answer, args)
    return DONE


def runs(args: argparse.Namespace) -> int:
    """List the launches of a folder."""
    from kit.analyse.launches.library import runs as listed

    with working(f"reading {args.path}") as work:
        answer = listed(args.path, text=args.text, klass=args.klass, since=args.since, knowledge=args.knowledge, step=work.step)
    show(answer, args)
    return DONE


def bench(args: argparse.Namespace) -> int:
    """Compare benchmark results."""
    from kit.analyse.bench.compare import compare_benchmarks

    with working("comparing"):
        answer = compare_benchmarks(
            args.base,
            args.vs,
            primary=args.primary,
            force=args.force,
            aa=args.aa,
            quoted=dict(map(quote, args.quoted)) if args.quoted else None,
            margin=args.margin,
            confidence=args.confidence,
        )
    show(answer, args)
    return DONE


def calls(args: argparse.Namespace) -> int:
    """Say what system calls tell."""
    from kit.analyse.calls.study import calls as studied

    with working(f"reading {args.path}"):
        answer = studied(args.path, args.against, args.at)
    if args.html:
        from kit.render.calls import write

        put(f"{write(answer, args.html)}: needs no network")
        return DONE
    show(answer, args)
    return DONE


def quote(text: str) -> tuple[str, float]:
    """Metric and value of a quoted number; its unit is not read: it must be that of the metric.

    Examples
    --------
    >>> quote("output_throughput=82.5"), quote("ttft.median = 36.1 ms")
    (('output_throughput', 82.5), ('ttft.median', 36.1))
    """
    match = _QUOTE.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"invalid quoted number {text!r}", "expected METRIC=VALUE", "for example: --quoted output_throughput=82.5"
        )
    return match["name"].strip(), float(match["value"].replace(",", "."))


def similar(args: argparse.Namespace) -> int:
    """Rank earlier runs."""
    from kit.analyse.knowledge.similar import similar as ranked

    with working("reading earlier runs"):
        answer = ranked(args.path, args.among or None, captured_at=args.captured_at, most=args.most, knowledge=args.knowledge)
    show(answer, args)
    return DONE
