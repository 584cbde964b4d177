"""Calls to columns: what follows `kit.parse.strace_join.join`, compiled too.

A call is two tokens: of its first and its second half, the same one twice where it is whole; -1 stands for one that is not there.
"""

from __future__ import annotations

import numpy as np

from kit.compiled_vectors import copy
from kit.parse.strace_bytes import compiled, inner
from kit.parse.strace_join import IS_DONE, IS_MERGED, IS_OPEN, IS_ORPHAN, NO_TIME, NO_TOKEN

NUMBERS = ("time", "pid", "fd", "end_line", "line")
DURATION = len(NUMBERS)
TEXTS = ("syscall", "comm", "args", "result", "ret", "errno", "stack", "state")
KNOWN = (*NUMBERS[:-1], "duration_s", *TEXTS[:-1])
"""Columns whose values may be missing: rows of bits."""
STATE_ROOM = 16
"""A chunk begins with the names of the states, so far from each other."""
SLACK = 32
"""Bytes behind a column that are written too: thirty-two are copied in one go."""


@compiled
def describe(lines, kept, ready, count, first_line, first_pid, sizes, values, durations, states, known, ends):
    """The columns that are no texts, which values are known (a bit each), and where texts will end in their columns.

    `count`, `first_line`: lines of the chunk, and the number of the first. `first_pid`: pid of calls that have none. `sizes`:
    of the names of the states. `ends`: a row for each of `TEXTS`, with a 0 before the first; none where no texts are wanted.
    """
    for row in range(ends.shape[0]):
        ends[row, 0] = 0
    for n in range(ready.shape[1]):
        first, second = ready[0, n], ready[1, n]
        index = first if first != NO_TOKEN else second
        head, tail = lines[index], lines[second if second != NO_TOKEN else first]
        begin, fd, end_line, duration, state = head.clock, head.fd, 0, tail.duration, IS_DONE
        is_known, more = True, np.int64(0)
        if second == NO_TOKEN:
            if first >= count:
                state, end_line = kept[first - count].state, kept[first - count].end_line
            else:
                duration, state, is_known = np.nan, IS_OPEN, False
        elif first != second:
            if first == NO_TOKEN:
                state, begin = IS_ORPHAN, NO_TIME
            else:
                state, end_line, more = IS_MERGED, first_line + second, np.int64(tail.args_size)
                fd = fd if head.args_size else tail.fd
                if np.isnan(duration) and begin != NO_TIME and tail.clock != NO_TIME and tail.clock >= begin:
                    duration = np.float64(tail.clock - begin) / 1e9
            if begin == NO_TIME and tail.clock != NO_TIME:
                begin = tail.clock - np.int64(np.rint((0.0 if np.isnan(duration) else duration) * 1e9))
        pid = head.pid if head.pid >= 0 else first_pid
        values[0, n], values[1, n], values[2, n], values[3, n] = begin, pid, fd, end_line
        values[4, n] = first_line + index if index < count else kept[index - count].line
        durations[n], states[n] = duration, state
        _mark(known, 0, n, begin != NO_TIME)
        _mark(known, 1, n, pid >= 0)
        _mark(known, 2, n, fd >= 0)
        _mark(known, 3, n, end_line > 0)
        _mark(known, 4, n, duration == duration)
        if ends.shape[0]:
            _end(known, ends, 0, n, np.int64(head.name_size))
            _end(known, ends, 1, n, np.int64(head.comm_size))
            _end(known, ends, 2, n, head.args_size + more)
            _end(known, ends, 3, n, np.int64(tail.result_size) if is_known else -1)
            _end(known, ends, 4, n, np.int64(tail.ret_size) if is_known else -1)
            _end(known, ends, 5, n, np.int64(tail.errno_size) if is_known else -1)
            _end(known, ends, 6, n, np.int64(tail.stack_size) if tail.stack_size else -1)
            ends[7, n + 1] = ends[7, n] + sizes[state]


@inner
def _mark(known, row, n, is_known):
    """Say of a value whether it is known."""
    known[row, n >> 3] |= np.uint8(is_known << (n & 7))


@inner
def _end(known, ends, text, n, size):
    """Say where a text ends; a size below 0 says that there is none."""
    _mark(known, DURATION + text, n, size >= 0)
    ends[text, n + 1] = ends[text, n] + max(size, 0)


@compiled
def gather(base, lines, ready, states, ends, targets):
    """The bytes of the text columns; of split calls the arguments of both halves, one behind the other.

    `targets`: where the columns of `TEXTS` lie, 0 for those that are not wanted.
    """
    for n in range(ready.shape[1]):
        first, second = ready[0, n], ready[1, n]
        head, tail = lines[first if first != NO_TOKEN else second], lines[second if second != NO_TOKEN else first]
        _put(base + head.name_at, targets, ends, 0, n)
        _put(base + head.comm_at, targets, ends, 1, n)
        _put(base + tail.result_at, targets, ends, 3, n)
        _put(base + tail.result_at, targets, ends, 4, n)
        _put(base + tail.result_at + tail.ret_size + 1, targets, ends, 5, n)
        _put(base + tail.stack_at, targets, ends, 6, n)
        _put(base + STATE_ROOM * states[n], targets, ends, 7, n)
        if targets[2]:
            to = targets[2] + ends[2, n]
            copy(base + head.args_at, to, np.int64(head.args_size))
            if first != second and first != NO_TOKEN and second != NO_TOKEN:
                copy(base + tail.args_at, to + head.args_size, np.int64(tail.args_size))


@inner
def _put(source, targets, ends, text, n):
    """Copy a text to its place."""
    size = ends[text, n + 1] - ends[text, n]
    if size and targets[text]:
        copy(source, targets[text] + ends[text, n], size)
