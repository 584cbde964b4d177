"""Errors in the log: the first that names a cause, those that only report a death, and their absence."""

from __future__ import annotations

from kit.analyse.verdict import failures
from kit.analyse.verdict.attribution import kernel_rows
from kit.analyse.verdict.failures import first_error
from kit.analyse.verdict.gpu_generation import xids
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.refused_arguments import refused
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.parse.grammar import codes
from kit.words import count_of, short

PROGRAM_MISSING = "the launch never began, the program or a file of its command line is not there"
TERMINATED = 143
"""Exit code of what SIGTERM ended, as systemd does to stop a unit."""
BY_SIGNAL = 128
"""Exit codes from here on are a shell's word for a signal."""
CRASH_SIGNALS = (4, 7, 8, 11)
"""SIGILL, SIGBUS, SIGFPE, SIGSEGV: what a process does to itself (signal(7)). SIGABRT follows an error that tells more."""


def _explained(scene: Scene) -> frozenset[str]:
    """Errors that have a class of their own; what follows them is their consequence."""
    return codes("explained", scene.log.server, scene.evidence.run.knowledge)


@rule("arguments_refused", needs=("log",))
def wrong_arguments(scene: Scene) -> Signs:
    """The program refused its command line."""
    if found := refused(scene):
        yield Sign("arguments_refused", found.claim, [found.mark.ref])


@rule("client_unanswered", needs=("log",))
def clients(scene: Scene) -> Signs:
    """A client's error at the end of the server's log tells that it got no answer, or none that is the request's fault."""
    theirs = [mark for mark in scene.log.marks if mark.kind == "error" and failures.of_a_client(scene.log, mark)]
    mark = max(theirs, key=lambda mark: mark.order, default=None)
    asks = mark is not None and failures.CLIENTS.match(str(mark.fields.get("type")))
    if asks and not failures.ANSWERED.search(mark.text) and scene.log.last_life.get(mark.log, -1) < mark.order:
        yield Sign("client_unanswered", f"a client in the same log got no answer: {short(mark.text, 140)}", [mark.ref])


@rule("unexplained_error", needs=("log",))
def cause(scene: Scene) -> Signs:
    """The first error that names a cause."""
    if (mark := _unexplained(scene)) and mark.code != "usage_error":
        ranks = [mark.rank] if mark.rank is not None else []
        words = PROGRAM_MISSING if mark.code == "program_missing" else "the first error that names a cause"
        yield Sign("unexplained_error", f"{words}: {short(mark.text, 160)}", [mark.ref], ranks)


def _unexplained(scene: Scene) -> Mark | None:
    """The cause; None where it is the mark of a class of its own, or where the launch was ended, or its GPU failed."""
    first = failures.cause(scene.log)
    if first is None or first.role == "ending" or first.code in _explained(scene) or _gpu_failed(scene, first):
        return None
    return first


def _gpu_failed(scene: Scene, mark: Mark | None) -> bool:
    """Whether an error is that of a call to a GPU which failed itself, as the kernel says: a program can only report that."""
    hardware = xids("hardware", scene.evidence.run.knowledge)
    rows = kernel_rows(scene, "xid", "gpu_lost", "ecc", "gpu_reset") if mark is not None and mark.code == "device_error" else []
    return any(row["kind"] != "xid" or row.get("xid") in hardware for row in rows)


def ended_by_watchdog(scene: Scene) -> bool:
    """Whether NCCL's watchdog ended the ranks, as it does after a time-out: what died then died of that.

    Its abort names the watchdog, or stands below the time-out in the log of the same rank.
    """
    timeouts = scene.log.of("collective_timeout")
    deaths = [mark for mark in scene.log.marks if mark.code in ("abort", "segfault", "worker_died")]
    waited = {mark.capture: mark.order for mark in reversed(timeouts)}
    own = [mark for mark in deaths if mark.code != "worker_died"]
    return bool(timeouts) and all(waited.get(mark.capture, mark.order) < mark.order for mark in own)


@rule("worker_died_line", "silent_death", "closing_error", "exit_code_line", needs=("log",))
def dead_worker(scene: Scene) -> Signs:
    """The log reports a dead worker; it died in silence where no error tells why."""
    worker = scene.log.first("worker_died") or failed_exit(scene)
    if worker is None or ended_by_watchdog(scene) or failures.echoes(scene.log, worker):
        return
    if worker.code == "program_error":
        yield Sign("closing_error", f"the log closes on an error: {short(worker.text, 140)}", [worker.ref])
        return
    yield Sign("worker_died_line", f"the log reports a dead worker: {short(worker.text, 140)}", [worker.ref])
    last, looked = scene.log.last("worker_died"), scene.has("processes|probes|sockets|stacks")  # which tell what lives on
    if (
        last
        and scene.fact("ready")
        and not looked
        and not _gpu_failed(scene, failures.cause(scene.log))
        and scene.log.records_after(last) <= 1
        and not failures.survived(scene.log, last)
    ):
        yield Sign("closing_error", f"it was ready, and the log ends where a worker died: {short(last.text, 120)}", [last.ref])
    if 0 < (worker.fields.get("exit_code") or 0) < BY_SIGNAL:
        yield Sign("exit_code_line", f"what ran it says how it ended: {short(worker.text, 120)}", [worker.ref])
    if died_in_silence(scene):
        yield Sign("silent_death", "a worker died without an error message", [worker.ref])


def failed_exit(scene: Scene) -> Mark | None:
    """The exit code on which a log closes, of a launch that nobody had told to end."""
    units = [mark for mark in scene.log.of("unit_exited") if mark.fields.get("exit_code") not in (None, 0, TERMINATED)]
    marks = [mark for mark in scene.log.of(*failures.FAILED_EXITS) if failures.closes(scene.log, mark)] or units
    return marks[-1] if marks and not failures.final_end(scene.log, marks[-1].log) else None


def died_in_silence(scene: Scene) -> bool:
    """Whether the log reports a dead worker, and no error that tells why."""
    first = failures.cause(scene.log)
    explained = first is not None and first.role != "ending" or scene.log.of("segfault", "abort", *_explained(scene))
    return bool(scene.log.of("worker_died") or failed_exit(scene)) and not explained and scene.fact("signal") not in CRASH_SIGNALS


def _follows(mark: Mark, other: Mark) -> bool:
    """Whether a mark comes after another: streams of one file are read one by one, and some logs have no stamps."""
    if mark.log != other.log and mark.capture == other.capture:
        return mark.line > other.line
    return mark.order > other.order and (mark.log == other.log or (mark.time is None) == (other.time is None))


@rule("error_after_ready", "fails_since_error", needs=("log",))
def late_error(scene: Scene) -> Signs:
    """An error after the ready line, and whether a request was answered since."""
    first = first_error(scene.log)
    ready = [mark for mark in scene.log.marks if mark.phase in ("ready", "serving")]
    if scene.fact("ready") and first is not None and ready and _follows(first, ready[0]):
        yield Sign("error_after_ready", f"an error after it was ready: {short(first.text, 140)}", [first.ref])
        if scene.fact("generate_works") is False and first.role == "initiating":
            claim = "it was ready, an error of its own came, and since then a request gets no answer"
            yield Sign("fails_since_error", claim, [first.ref, *scene.facts.refs("generate_works")])


@rule("no_error_in_log", needs=("log",))
def no_error(scene: Scene) -> Signs:
    """The log holds no error, as far as a grammar that would know has read it."""
    if first_error(scene.log) is None and scene.log.known:
        yield Sign("no_error_in_log", "the log has no errors")


@rule("log_unknown", needs=("log",))
def by_form(scene: Scene) -> Signs:
    """A log that no grammar knows was read by form: levels, tracebacks, exit codes, signals, bars."""
    log = scene.log
    if log.known or not log.records:
        return
    errors = [mark for mark in log.marks if mark.kind == "error"]
    seen = f"{count_of(len(errors), 'line')} look like errors" if errors else "nothing in it looks like an error"
    last = short(log.tail[-1].get("text") or log.tail[-1]["raw"], 120)
    claim = f"no grammar knows this log, it was read by its form alone; {seen}; its last line: {last}"
    yield Sign("log_unknown", claim, scene.facts.refs("last_line"))
