"""Calls to columns: what follows `kit.parse.strace_join.join`, compiled too.

A call is two tokens: of its first and its second half, the same one twice where it is whole; -1 stands for one that is not there.
"""

from __future__ import annotations

import numpy as np

from kit.compiled_vectors import copy
from kit.parse.strace_bytes import NONE, compiled, inner
from kit.parse.strace_join import IS_DONE, IS_MERGED, IS_OPEN, IS_ORPHAN, NO_TIME, NO_TOKEN

NUMBERS = ("time", "pid", "fd", "end_line", "line", "duration_s")
MISSING = ("pid", "fd", "end_line")
"""Columns of numbers that have a mark for each value that is not there; a time and a duration say so themselves."""
PIECES = ("syscall", "args", "result", "comm", "stack")
"""The texts of a call, one behind the other, as `gather` writes them."""
SIZES = (*PIECES, "ret", "errno")
"""`ret` is the begin of a result, `errno` follows it after a blank."""
SLACK = 32
"""Bytes behind texts that are written too: thirty-two are copied in one go."""


@compiled
def describe(
    lines,
    kept,
    ready,
    count,
    first_line,
    first_pid,
    begins,
    pids,
    fds,
    ends,
    numbers,
    durations,
    no_pid,
    no_fd,
    no_end,
    states,
    sizes,
):
    """The columns that are no texts, and the sizes of those that are: a row for each of `SIZES`, -1 where there is none.

    `count`, `first_line`: lines of the chunk, and the number of the first. `first_pid`: pid of calls that have none.
    The marks of values that are missing are set, never unset.
    """
    for n in range(ready.shape[1]):
        first, second = ready[0, n], ready[1, n]
        index = first if first != NO_TOKEN else second
        head, tail = lines[index], lines[second if second != NO_TOKEN else first]
        begin, fd, end_line, duration, state = head.clock, head.fd, 0, tail.duration, IS_DONE
        is_known, more = True, np.int32(0)
        if second == NO_TOKEN:
            if first >= count:
                state, end_line = kept[first - count].state, kept[first - count].end_line
            else:
                duration, state, is_known = np.nan, IS_OPEN, False
        elif first != second:
            if first == NO_TOKEN:
                state, begin = IS_ORPHAN, NO_TIME
            else:
                state, end_line, more = IS_MERGED, first_line + second, tail.args_size
                fd = fd if head.args_size else tail.fd
                if np.isnan(duration) and begin != NO_TIME and tail.clock != NO_TIME and tail.clock >= begin:
                    duration = np.float64(tail.clock - begin) / 1e9
            if begin == NO_TIME and tail.clock != NO_TIME:
                begin = tail.clock - np.int64(np.rint((0.0 if np.isnan(duration) else duration) * 1e9))
        pid = head.pid if head.pid >= 0 else first_pid
        begins[n], durations[n], states[n] = begin, duration, state
        numbers[n] = first_line + index if index < count else kept[index - count].line
        _put(pids, no_pid, n, pid, pid >= 0)
        _put(fds, no_fd, n, fd, fd >= 0)
        _put(ends, no_end, n, end_line, end_line > 0)
        sizes[0, n], sizes[1, n], sizes[3, n] = head.name_size, head.args_size + more, head.comm_size
        sizes[2, n] = tail.result_size if is_known else NONE
        sizes[4, n] = tail.stack_size if tail.stack_size else NONE
        sizes[5, n] = tail.ret_size if is_known else NONE
        sizes[6, n] = tail.errno_size if is_known else NONE


@inner
def _put(values, missing, n, value, is_known):
    values[n] = value
    if not is_known:
        missing[n] = True


@compiled
def gather(base, lines, ready, sizes, wanted, to):
    """The texts of calls, one behind the other: `PIECES` that are wanted; of split calls the arguments of both halves."""
    for n in range(ready.shape[1]):
        first, second = ready[0, n], ready[1, n]
        head, tail = lines[first if first != NO_TOKEN else second], lines[second if second != NO_TOKEN else first]
        to = _copy(wanted[0], base + head.name_at, to, sizes[0, n])
        if wanted[1]:
            to = _copy(True, base + head.args_at, to, head.args_size)
            if first != second and first != NO_TOKEN and second != NO_TOKEN:
                to = _copy(True, base + tail.args_at, to, tail.args_size)
        to = _copy(wanted[2], base + tail.result_at, to, sizes[2, n])
        to = _copy(wanted[3], base + head.comm_at, to, sizes[3, n])
        to = _copy(wanted[4], base + tail.stack_at, to, sizes[4, n])


@inner
def _copy(is_wanted, source, to, size):
    """Copy a text that is wanted, and there; returns where the next one goes."""
    if not is_wanted or size <= 0:
        return to
    copy(source, to, np.int64(size))
    return to + size


@compiled
def column(base, begins, ends, to):
    """Copy texts to where they stand one behind the other, as the ends of all say."""
    for n in range(begins.size):
        size = ends[n + 1] - ends[n]
        if size:
            copy(base + begins[n], to + ends[n], size)
