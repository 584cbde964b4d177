"""Calls to columns: what follows `kit.parse.strace_join.join`, compiled too.

A call is two tokens: of its first and its second half, the same one twice where it is whole; -1 stands for one that is not there.
"""

from __future__ import annotations

import numpy as np

from kit.parse.strace_bytes import compiled, copy, inner
from kit.parse.strace_join import IS_DONE, IS_MERGED, IS_OPEN, IS_ORPHAN, NO_TIME, NO_TOKEN

NUMBERS = ("time", "pid", "fd", "end_line", "line")
DURATION = len(NUMBERS)
TEXTS = ("syscall", "comm", "args", "result", "ret", "errno", "stack", "state", "capture")
NAME_TEXT, COMM_TEXT, ARGS_TEXT, RESULT_TEXT, RET_TEXT, ERRNO_TEXT, STACK_TEXT, STATE_TEXT, CAPTURE_TEXT = range(9)
STATE_ROOM = 16
"""A chunk begins with the names of the states, so far from each other."""
SLACK = 32
"""Bytes behind a column that are written too: thirty-two are copied in one go."""


@compiled
def numbers(lines, kept, ready, count, first_line, first_pid, values, durations, states, known):
    """The columns that are no texts, and which of their values are known: `known` has a bit a call; returns nothing.

    `count`, `first_line`: lines of the chunk, and the number of the first. `first_pid`: pid of calls that have none.
    """
    for n in range(ready.shape[1]):
        first, second = ready[0, n], ready[1, n]
        head = lines[first if first != NO_TOKEN else second]
        begin, fd, end_line, duration, state = head.clock, head.fd, 0, np.nan, IS_DONE
        if second == NO_TOKEN:
            state = IS_OPEN
            if first >= count:
                duration, state, end_line = head.duration, kept[first - count].state, kept[first - count].end_line
        elif first == second:
            duration = head.duration
        else:
            tail = lines[second]
            duration = tail.duration
            if first == NO_TOKEN:
                state, begin = IS_ORPHAN, NO_TIME
            else:
                state, end_line = IS_MERGED, first_line + second
                fd = fd if head.args_size else tail.fd
                if np.isnan(duration) and begin != NO_TIME and tail.clock != NO_TIME and tail.clock >= begin:
                    duration = np.float64(tail.clock - begin) / 1e9
            if begin == NO_TIME and tail.clock != NO_TIME:
                begin = tail.clock - np.int64(np.rint((0.0 if np.isnan(duration) else duration) * 1e9))
        pid = head.pid if head.pid >= 0 else first_pid
        index = first if first != NO_TOKEN else second
        values[0, n], values[1, n], values[2, n], values[3, n] = begin, pid, fd, end_line
        values[4, n] = first_line + index if index < count else kept[index - count].line
        durations[n], states[n] = duration, state
        place, bit = n >> 3, n & 7
        known[0, place] |= np.uint8((begin != NO_TIME) << bit)
        known[1, place] |= np.uint8((pid >= 0) << bit)
        known[2, place] |= np.uint8((fd >= 0) << bit)
        known[3, place] |= np.uint8((end_line > 0) << bit)
        known[DURATION, place] |= np.uint8((duration == duration) << bit)


@inner
def _span(lines, first, second, count, column):
    """Where a text of a call begins, and its size: -1 where there is none."""
    if column <= ARGS_TEXT:
        head = lines[first if first != NO_TOKEN else second]
        if column == NAME_TEXT:
            return head.name_at, head.name_size
        if column == COMM_TEXT:
            return head.comm_at, head.comm_size
        return head.args_at, head.args_size
    last = lines[second if second != NO_TOKEN else first]
    if column == STACK_TEXT:
        return last.stack_at, last.stack_size if last.stack_size > 0 else np.int32(-1)
    if second == NO_TOKEN and first < count:
        return np.int32(0), np.int32(-1)
    if column == RESULT_TEXT:
        return last.result_at, last.result_size
    if column == RET_TEXT:
        return last.result_at, last.ret_size
    return last.result_at + last.ret_size + np.int32(1), last.errno_size


@compiled
def measure(lines, ready, count, column, at, states, sizes, places, offsets, known):
    """Where the values of a text column lie, and where they will lie; returns how many are missing.

    `at`, `sizes`: place of the name of the capture or of the first state, and the sizes of these names, for those columns.
    """
    missing, total = 0, 0
    offsets[0] = 0
    for n in range(ready.shape[1]):
        first, second, more = ready[0, n], ready[1, n], 0
        if column == STATE_TEXT:
            place, size = np.int32(at + STATE_ROOM * states[n]), np.int32(sizes[states[n]])
        elif column == CAPTURE_TEXT:
            place, size = np.int32(at), np.int32(sizes[0])
        else:
            place, size = _span(lines, first, second, count, column)
            if column == ARGS_TEXT and first != second and first != NO_TOKEN and second != NO_TOKEN:
                more = lines[second].args_size
        known[n >> 3] |= np.uint8((size >= 0) << (n & 7))
        missing += size < 0
        total += max(size, 0) + more
        places[n], offsets[n + 1] = place, total
    return missing


@compiled
def gather(base, lines, ready, is_arguments, places, offsets, target):
    """The bytes of a text column: of arguments both halves, one behind the other."""
    for n in range(ready.shape[1]):
        to, size = target + offsets[n], offsets[n + 1] - offsets[n]
        if is_arguments and ready[0, n] != ready[1, n] and ready[0, n] != NO_TOKEN and ready[1, n] != NO_TOKEN:
            tail, own = lines[ready[1, n]], np.int64(lines[ready[0, n]].args_size)
            copy(base + places[n], to, own)
            copy(base + tail.args_at, to + own, np.int64(tail.args_size))
        elif size:
            copy(base + places[n], to, size)
