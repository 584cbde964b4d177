"""Which failure line is the cause: roles of the log's errors (`kit.parse.grammar_file`), in the order of time."""

from __future__ import annotations

from collections.abc import Callable

from kit.analyse.verdict.log_digest import LogDigest, Mark

ANNOUNCED_WITHIN = 3
"""Records within which a traceback follows the error line that announces it."""
DEATH_WITHIN = 100
"""Records between an error and the line that reports the death of who wrote it: its stack dumps stand between."""
LEAST_QUOTED = 20
"""Letters that a message must have to be known again within another."""
ENDING = ("ending", "finished")
"""Roles of lines that tell an end which is no failure."""
NOT_BY_ITSELF = ("tree_gone", "exit_failed")
"""Codes of lines that close a log and do not tell that the work was done."""
OWN_WORDS = ("done", "results")
"""Codes of a program's own last words: no server's, for that ends only when it is told to; "done" only of what has worked."""
SERVERS = ("ready", "http_listening", "port_open")
LAST_WORDS = 5
"""Records that may follow what closes a log: a blank, a farewell, the prompt of a shell."""


def errors(log: LogDigest) -> list[Mark]:
    """All errors, the first by time first."""
    marks = [mark for mark in log.marks if mark.kind == "error" and not _echoes(log, mark)]
    return sorted(marks, key=moment(marks))


def final_end(log: LogDigest, of: str) -> list[Mark]:
    """Lines of a log that tell the end, in order or by somebody's word, after the last sign of life in it."""
    alive_until = log.last_life.get(of, -1)
    ends = (mark for mark in log.marks if mark.log == of and mark.order > alive_until)
    told = [mark for mark in ends if mark.role in ENDING or mark.code not in NOT_BY_ITSELF and closes(log, mark)]
    return sorted(told, key=lambda mark: mark.role == "closing")  # who told it to end says more than what follows


def closes(log: LogDigest, mark: Mark) -> bool:
    """Whether its log ends with a line that is an end only there."""
    if mark.role != "closing" or log.records_after(mark) > LAST_WORDS or log.last_life.get(mark.log, -1) > mark.order:
        return False
    worked = log.last_work.get(mark.log, -1) >= 0
    return mark.code not in OWN_WORDS or not log.of(*SERVERS) and (worked or mark.code != "done")


def _echoes(log: LogDigest, mark: Mark) -> bool:
    """Whether an error only follows from an end before it; a collective that timed out is no echo of a finish."""
    end = next(iter(final_end(log, mark.log)), None)
    waited = mark.code == "collective_timeout" and end is not None and end.role == "finished"
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
    marks = [mark for mark in every if mark.role not in ("teardown", "closing", *ENDING) and not survived(log, mark)]
    own = [mark for mark in marks if mark.role != "header"]
    told = any(mark.role in ENDING for mark in every)  # the header of an interrupt is no error either, nor how what is left died
    return next(iter(own or ([] if told else marks or _deaths(log, every))), None)


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
    return lived.get(mark.log, -1) > mark.order or _asked_again(log, mark)


def worked_after(log: LogDigest, mark: Mark) -> bool:
    """Whether its own log shows work after it: that it was only started again says nothing."""
    return log.last_work.get(mark.log, -1) > mark.order


def _asked_again(log: LogDigest, mark: Mark) -> bool:
    """Whether an error is that of a check that is repeated: its writer says between two of the same that it still waits."""
    of_writer = [other for other in log.marks if (other.log, other.pid, other.label) == (mark.log, mark.pid, mark.label)]
    same = [other.order for other in of_writer if (other.code, other.text) == (mark.code, mark.text)]
    return len(same) > 1 and any(same[0] < other.order < same[-1] for other in of_writer if other.kind == "heartbeat")


def _announces(mark: Mark, marks: list[Mark]) -> bool:
    """Whether an error line without a code only announces the traceback of its writer."""
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
