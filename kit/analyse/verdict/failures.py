"""Which failure line is the cause: roles of the log's errors (`kit.parse.grammar_file`), in the order of time."""

from __future__ import annotations

import re
from collections.abc import Callable

from kit.analyse.verdict.log_digest import BY_FORM, STEPS, LogDigest, Mark, log_of
from kit.clock import NS
from kit.parse.grammar import NO_DIGITS, load

ANNOUNCED_WITHIN = 3
"""Records within which a traceback follows the error line that announces it."""
DEATH_WITHIN = 100
"""Records between an error and the line that reports the death of who wrote it: its stack dumps stand between."""
LIVES_ON_S = 60
"""How long a server's log goes on after an error line by which it did not die: what flushes at an end takes seconds."""
ANSWERS, STACK = 2, ("at ", "File ")
"""Lines, none of a stack, that an unknown server which was ready prints after the error of a request."""
HANDLER = re.compile(
    r"\b(?:gradio/(?:queueing|routes|blocks)|starlette/(?:routing|middleware/\w+)|uvicorn/protocols/\w+/\w+|flask/app|tornado/web"
    r"|aiohttp/web_protocol|django/core/handlers/\w+|grpc/_server|http/server|socketserver|streamlit/runtime/\S+)\.py$"
)
"""Files of web frameworks by which a request is answered: what is raised there is told to the client."""
REFUSALS = (400, 413, 422)
"""What a server answers where the request is at fault: the error that it printed before that is the request's."""
CLIENTS = re.compile(r"(?:requests|httpx|httpcore|aiohttp|urllib3?|openai|http\.client)\b")
"""Libraries that ask servers: what they raise tells of a server that somebody asked."""
SERVES = re.compile(r"\b(?:uvicorn|starlette|fastapi|gunicorn|hypercorn|grpc|ray|torch|multiprocessing|threading\.py)\b")
"""Parts of the path of a frame that is of a server's own process."""
ANSWERED = re.compile(r"\b4\d\d\b|BadRequest|NotFound|Unprocessable|Authentication|PermissionDenied|RateLimit")
"""Words of a client's error by which the server answered that the request is wrong."""
LEAST_QUOTED = 20
"""Letters that a message must have to be known again within another."""
ENDING = ("ending", "finished")
"""Roles of lines that tell an end which is no failure."""
NO_ERRORS = ("teardown", "closing", "client", "noise", "recovered")
"""Roles of errors that are nobody's failure."""
NO_SERVERS = ("program_error", "tests_failed")
"""Codes of lines that fail the program whose log closes on them, which is no server that was up: errors by their form, tests."""
FAILED_EXITS = ("exit_failed", *NO_SERVERS)
"""Codes of lines that fail a launch whose log closes on them."""
NOT_BY_ITSELF = ("tree_gone", *FAILED_EXITS)
"""Codes of lines that close a log and do not tell that the work was done."""
OWN_WORDS = ("done", "results", "saved", "bar_full")
"""Codes of a program's own last words: no server's, for that ends only when it is told to."""
AFTER_WORK = ("done", "saved")
"""Those that tell an end only of what has worked."""
WITH_WORDS = (*STEPS, "bar_full")
"""Those that tell an end only where a word follows."""
EXITS = {"exit_code", "signal"}
"""Fields of a death that say how it came."""
LAUNCHING = ("launch", "dist_init", "weights", "post_load", "compile", "graph_capture", "warmup")
"""Phases of a launch that goes on; a download may be a job's whole work."""
SERVERS = ("ready", "http_listening", "port_open")
FAREWELL_S = 600
"""How long after a program's last words others may follow: what is said later tells that it went on."""
LAST_WORDS, SUMMARY_WORDS = 5, 12
"""Records that may follow what closes a log: a blank, a farewell, the prompt of a shell; and the other lines of a summary."""


def errors(log: LogDigest) -> list[Mark]:
    """All errors, the first by time first."""
    marks = [mark for mark in log.marks if mark.kind == "error" and not echoes(log, mark)]
    return sorted(marks, key=moment(marks))


def final_end(log: LogDigest, of: str) -> list[Mark]:
    """Lines of a log that tell the end, in order or by somebody's word, after the last sign of life in it."""
    alive_until = log.last_life.get(of, -1)
    ends = [mark for mark in log.marks if mark.log == of and mark.order >= alive_until]
    told = [mark for mark in ends if mark.role in ENDING and mark.order > alive_until]
    told += [mark for mark in ends if mark.role not in ENDING and mark.code not in NOT_BY_ITSELF and closes(log, mark)]
    return sorted(told, key=lambda mark: mark.role not in ENDING)  # who told it to end says more than what follows


def closes(log: LogDigest, mark: Mark) -> bool:
    """Whether its log ends with a line that is an end only there."""
    after, most = log.records_after(mark), SUMMARY_WORDS if mark.code in OWN_WORDS + STEPS else LAST_WORDS
    if mark.role != "closing" and mark.code not in STEPS or after > most or log.last_life.get(mark.log, -1) > mark.order:
        return False
    if mark.code in OWN_WORDS + STEPS + NO_SERVERS and (log.of(*SERVERS) or _again_and_again(log, mark)):
        return False
    if mark.code in OWN_WORDS + STEPS and log.seconds_after(mark) > FAREWELL_S:
        return False
    if mark.kind != "error" and any(_against_end(log, mark, other) for other in log.marks):
        return False
    if mark.code in STEPS and any(other.phase in LAUNCHING and other.order > mark.order for other in log.marks):
        return False  # what is through was no work: the launch goes on
    drawn = any(bar.kind == "other" and bar.done and bar.phase in (None, "serving") for bar in log.bars)
    worked, counted = log.last_work.get(mark.log, -1) >= 0 or drawn or bool(log.of("work_item")), log.share_done(mark)
    if mark.code in WITH_WORDS:  # the work is through; that more was said after it tells that this was not only drawn last
        said = after > 1 or any(other.code == "worker_died" and other.order > mark.order for other in log.marks)
        return said and counted in ((1,) if mark.code in STEPS else (None, 1)) and not _within(log, mark)
    return mark.code not in AFTER_WORK or worked and (mark.code != "saved" or counted in (None, 1))


def _within(log: LogDigest, mark: Mark) -> bool:
    """Whether a full bar is one of many within another bar, which stands before its total and was drawn after it."""
    return any(bar.order > mark.order and 0 < bar.n < (bar.total or 0) for bar in log.bars)


def _against_end(log: LogDigest, mark: Mark, other: Mark) -> bool:
    """Whether an error tells that a closing line was not the end: one after it, or a death that stands before own words.

    Ray ends its workers when all is done and reports each as a death.
    """
    if other.log != mark.log or other.kind != "error":
        return False
    died = mark.code in OWN_WORDS + STEPS and other.code == "worker_died" and other.order > log.last_life.get(mark.log, -1)
    done = log.share_done(mark) == 1 or mark.code == "bar_full" and len(log.of("bar_full")) == 1
    through = other.order > mark.order and done and not EXITS & other.fields.keys()
    died = died and not through
    return died or other.order > mark.order and (other.role in ("initiating", "header") or other.code == "killed")


def _again_and_again(log: LogDigest, mark: Mark) -> bool:
    """Whether a program said the same twice before, and then worked on: a training of two parts says it once for each."""
    if mark.code in STEPS:
        return False
    said = mark.text.translate(NO_DIGITS)
    before = (other for other in log.of(mark.code) if other.log == mark.log and other.order < mark.order)
    same = [other.order for other in before if other.text.translate(NO_DIGITS) == said]
    return len(same) > 1 and any(same[1] < step.order < mark.order for step in log.of(*STEPS) if step.log == mark.log)


def echoes(log: LogDigest, mark: Mark) -> bool:
    """Whether an error only follows from an end before it; a collective that timed out is no echo of work that is done."""
    end = next(iter(final_end(log, mark.log)), None)
    waited = mark.code == "collective_timeout" and end is not None and end.role != "ending"
    return mark.role not in ENDING and end is not None and end.order < mark.order and not waited


def cause(log: LogDigest) -> Mark | None:
    """The first error that began something and was not survived, or the end that was ordered before any."""
    marks = errors(log)
    began = (mark for mark in marks if mark.role in ("initiating", "ending") and not _announces(mark, marks))
    first = next((mark for mark in began if mark.role == "ending" or not survived(log, mark)), None)
    return _quoted(first, marks) if first is not None and first.role == "initiating" else first


def _quoted(mark: Mark, marks: list[Mark]) -> Mark:
    """The error that an error repeats at its end, as a client's that wraps the server's; the same where it repeats none."""
    text = says(mark)
    inner = (other for other in marks if other.role == "initiating" and LEAST_QUOTED <= len(says(other)) < len(text))
    return next((other for other in inner if text.endswith(says(other))), mark)


def says(mark: Mark) -> str:
    """What an error says, without the name of its class."""
    return str(mark.fields.get("message") or mark.text).strip()


def first_error(log: LogDigest) -> Mark | None:
    """The cause; without one, the first error that is no mere teardown and was not survived either."""
    began = cause(log)
    if began is not None and began.role == "initiating":
        return began
    every = errors(log)
    marks = [mark for mark in every if mark.role not in (*NO_ERRORS, *ENDING) and not survived(log, mark)]
    own = [mark for mark in marks if mark.role != "header"]
    last = max((mark.order for mark in every if mark.role not in (*NO_ERRORS, *ENDING, "header")), default=-1)
    marks = [mark for mark in marks if mark.order > last]  # a header before an error is that error's, which was survived
    told = any(mark.role in ENDING for mark in every)  # the header of an interrupt is no error either, nor how what is left died
    return next(iter(own or ([] if told else marks or _deaths(log, every))), None)


def over_time(log: LogDigest) -> Mark | None:
    """The word of a batch system that a job was not through when its time was: no error of its own, and what it fails by."""
    began = cause(log)
    limits = [mark for mark in log.marks if mark.role == "ending" and mark.fields.get("limit")]
    return limits[0] if limits and (began is None or began.role == "ending") else None


def _deaths(log: LogDigest, marks: list[Mark]) -> list[Mark]:
    """What only says that a process was killed, or how it exited, where nothing says why and nothing lived on."""
    return [mark for mark in marks if mark.code == "killed" and not survived(log, mark) or closes(log, mark)]


def survived(log: LogDigest, mark: Mark) -> bool:
    """Whether its own log shows later that the launch lived on: it became ready, served, stepped, was started or asked again."""
    died = any(
        other.code == "worker_died" and other.log == mark.log and abs(other.order - mark.order) <= DEATH_WITHIN
        for other in log.marks
    )
    if mark.code == "program_missing" and any(other.phase and other.order > mark.order for other in log.marks):
        return True  # a start script's line; what it starts began after it
    lived = log.last_token if died else log.last_life
    went_on = not died and _went_on(log, mark)
    theirs = _asked_again(log, mark) or _refused(log, mark) or of_a_client(log, mark)
    return lived.get(mark.log, -1) > mark.order or went_on or theirs


def of_a_client(log: LogDigest, mark: Mark) -> bool:
    """Whether an error is of another program that asks the server, once that had said ready: a script in the same terminal.

    It bears nobody's prefix, and is one of a library that asks, or its traceback begins in a script and goes through no server,
    or it counts tests that failed.
    """
    if mark.code == "traceback":
        mark = next((other for other in log.of("exception") if other.log == mark.log and other.order > mark.order), mark)
    up = any(other.phase == "ready" and other.log == mark.log and other.order < mark.order for other in log.marks)
    if up and mark.code == "tests_failed":
        return True
    if not up or mark.code != "exception" or mark.pid is not None or mark.label:
        return False
    frames = [str(frame["file"]) for frame in log.traces.get(mark.order, ())]
    script = bool(frames) and log.traces[mark.order][0]["function"] == "<module>" and not any(map(SERVES.search, frames))
    asks = mark.role == "client" or CLIENTS.match(str(mark.fields.get("type"))) is not None
    return asks or script and not load().programs(frames, frames)


def worked_after(log: LogDigest, mark: Mark) -> bool:
    """Whether its own log shows work after it: that it was only started again says nothing."""
    return log.last_work.get(mark.log, -1) > mark.order


def _asked_again(log: LogDigest, mark: Mark) -> bool:
    """Whether an error is that of a check that is repeated: its writer says between two of the same that it still waits."""
    of_writer = [other for other in log.marks if (other.log, other.pid, other.label) == (mark.log, mark.pid, mark.label)]
    same = [other.order for other in of_writer if (other.code, other.text) == (mark.code, mark.text)]
    return len(same) > 1 and any(same[0] < other.order < same[-1] for other in of_writer if other.kind == "heartbeat")


def _went_on(log: LogDigest, mark: Mark) -> bool:
    """Whether an error is one by its form alone, and who wrote it went on: with its start, or ready as it was."""
    if mark.code in BY_FORM and (_writes_on(log, mark) or _of_a_request(log, mark)):
        return True
    if mark.code != "error_line":
        return False
    if any(other.role == "finished" and other.log == mark.log and other.order > mark.order for other in log.marks):
        return True  # it came to its end, and says so
    of_writer = (mark.log, mark.pid, mark.label)
    later = (other for other in log.marks if other.kind == "progress" and other.order > mark.order)
    if mark.pid is not None and any((other.log, other.pid, other.label) == of_writer for other in later):
        return True
    last, ready = log.last_progress or {}, log.last("ready")
    stamped = ready is not None and ready.order < mark.order and mark.time is not None and last.get("time") is not None
    return stamped and log_of(last) == mark.log and last["time"] - mark.time >= LIVES_ON_S * NS


def _of_a_request(log: LogDigest, mark: Mark) -> bool:
    """Whether an error came out of the code by which a framework answers a request, of a program that was ready: it goes on."""
    ready, frames = log.first("ready"), log.traces.get(mark.order, ())
    return ready is not None and ready.order < mark.order and any(HANDLER.search(frame["file"]) for frame in frames)


def _writes_on(log: LogDigest, mark: Mark) -> bool:
    """Whether a program of one process, which no grammar knows, has gone on with its log for long."""
    own = log.server in (None, "services", "web") and not log.ranks and not log.labels
    last, ready = (log.last_progress or {}).get("time"), log.first("ready")
    since = list(log.tail)[max(0, len(log.tail) - log.records + mark.order + 1) :]
    calm = [row for row in since if row.get("kind") in ("progress", "request") and not row["text"].startswith(STACK)]
    answers = ready is not None and ready.order < mark.order and len(calm) >= ANSWERS
    late = last is not None and mark.time is not None and last - mark.time >= LIVES_ON_S * NS
    return own and (late or answers)


def _refused(log: LogDigest, mark: Mark) -> bool:
    """Whether an error is a request's: by its form alone it is one, and the next answer in its log refuses a request as wrong."""
    answers = (other for other in log.of("request", "request_refused") if other.log == mark.log and other.order > mark.order)
    answer = min(answers, key=lambda other: other.order, default=None) if mark.code in BY_FORM else None
    return answer is not None and answer.order - mark.order <= DEATH_WITHIN and answer.fields.get("status") in REFUSALS


def _announces(mark: Mark, marks: list[Mark]) -> bool:
    """Whether an error line without a code only announces the traceback of its writer, or a panic the line that says of what."""
    if mark.code == "panic":
        return any(other.code != "panic" and other.role == "initiating" and other.order == mark.order + 1 for other in marks)
    return mark.code == "error_line" and any(
        other.code == "traceback"
        and 0 < other.order - mark.order <= ANNOUNCED_WITHIN
        and (other.pid, other.label) == (mark.pid, mark.label)
        for other in marks
    )


def moment(marks: list[Mark]) -> Callable[[Mark], tuple[int, int]]:
    """Order of marks by time; one without a stamp has that of the mark before it in its file, for a log is appended to."""
    carried: dict[str, int] = {}
    times: dict[int, int] = {}
    for mark in marks:
        times[mark.order] = carried[mark.log] = mark.time if mark.time is not None else carried.get(mark.log, 0)
    return lambda mark: (times[mark.order], mark.order)
