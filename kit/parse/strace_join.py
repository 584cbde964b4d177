"""Halves of calls to calls, and calls to columns: what follows `kit.parse.strace_compiled.scan`, compiled too.

A thread has one call in flight, so a return belongs to the call that is open under its pid and has its name. Where that is not
so, or where strace or the program wrote into a call, `join` stops, and the careful reader goes on from that line.
"""

from __future__ import annotations

import numpy as np

from kit.parse.strace_bytes import EPOCH, NONE, OF_DAY, compiled, inner
from kit.parse.strace_compiled import BLANK, DONE, DUMP, EXECVE, GONE, ODD, RESUMED, STACK, UNFINISHED

CALL = np.dtype(
    [
        (name, "i8")
        for name in "begin end line end_line pid opened name_at comm_at args_at more_at result_at shown_at stack_at "
        "stack_size".split()
    ]
    + [("duration", "f8"), ("name", "u8")]
    + [
        (name, "i4")
        for name in "fd slot name_size comm_size args_size more_size result_size ret_size errno_size shown_size place".split()
    ]
    + [(name, "u1") for name in "state careful fd_ends_args shows".split()],
    align=True,
)
"""A call: offsets count from the begin of the data, those below 0 from the begin of `extra`, which holds the texts that the
careful reader made. Arguments of a split call are `args` and then `more`. Only the careful reader may go on with a `careful` one.
`place` is its place among the open calls, `opened` their order."""
STATES = ("done", "merged", "open", "orphan", "detached", "moved", "cut")
IS_DONE, IS_MERGED, IS_OPEN, IS_ORPHAN = range(4)
NO_TIME = np.iinfo(np.int64).min
NO_PID = 10_000_000
"""Slot of lines without a pid: pids of up to seven digits are read (they end at 4,194,304)."""
DAY_NS = 86_400 * 10**9
AT_START, ELSEWHERE = -1, -2
"""What LATEST says where the line before is no call."""
(CALLS, READY, OPEN, SAID, LATEST, OPENED, SHOWING, DAY, LAST, DAY_KNOWN, DATED, OFFSET, FIRST_LINE) = range(13)
STATE_SIZE = 13
"""What `join` knows between two stretches, as numbers of one array: how many calls there are, how many are ready, open, signals
and ends, writes to the terminal among the open; the call that a stack would belong to; the clock (`kit.parse.strace.Clock`)."""


@inner
def _byte(data, extra, at, n):
    return data[at + n] if at >= 0 else extra[n - at - 1]


@inner
def _time(line, state):
    """UTC nanoseconds of a line's clock; it moves the day on."""
    if line.clocked == EPOCH:
        return line.clock
    if line.clocked != OF_DAY or not state[DATED]:
        return NO_TIME
    since = line.clock
    if since < state[LAST] - DAY_NS // 2:
        state[DAY] += 1
    elif since > state[LAST] + DAY_NS // 2:  # printed late, from before midnight
        return (state[DAY] - 1) * DAY_NS + since - state[OFFSET]
    state[LAST] = since
    return state[DAY] * DAY_NS + since - state[OFFSET]


@inner
def _trim(data, extra, at, size):
    """Size of a text without blanks and commas at its end."""
    while size > 0:
        char = _byte(data, extra, at, size - 1)
        if char != 32 and char != 44:
            break
        size -= 1
    return size


@inner
def _trim_arguments(data, extra, call):
    """Take the loose end off arguments that never came whole."""
    if call.more_size > 0:
        call.more_size = _trim(data, extra, call.more_at, call.more_size)
    if call.more_size <= 0:
        call.args_size = _trim(data, extra, call.args_at, call.args_size)


@inner
def _is_shown(data, extra, calls, opens, state, begin, size):
    """Whether a text may hold what a write to the terminal that has not returned is about to show."""
    for place in range(state[OPEN]):
        call = calls[opens[place]]
        if not call.shows:
            continue
        for at in range(begin, begin + size - call.shown_size + 1):
            n = 0
            while n < call.shown_size and data[at + n] == _byte(data, extra, call.shown_at, n):
                n += 1
            if n == call.shown_size:
                return True
    return False


@inner
def close_open(calls, slots, opens, state, slot):
    """Take a call out of those that are open."""
    index = slots[slot] - 1
    call = calls[index]
    last = opens[state[OPEN] - 1]
    opens[call.place] = last
    calls[last].place = call.place
    state[OPEN] -= 1
    state[SHOWING] -= call.shows
    slots[slot] = 0
    return index


@compiled
def put_open(calls, slots, opens, state, slot, index):
    """Put a call among those that are open."""
    call = calls[index]
    call.slot, call.place, call.opened = slot, state[OPEN], state[OPENED]
    opens[state[OPEN]] = index
    slots[slot] = index + 1
    state[OPEN] += 1
    state[OPENED] += 1
    state[SHOWING] += call.shows


@inner
def _begin(calls, state, line, number, kind):
    """A new call of a line."""
    index = state[CALLS]
    state[CALLS] += 1
    call = calls[index]
    call.begin, call.end, call.line, call.end_line = NO_TIME, NO_TIME, number, 0
    call.pid, call.fd, call.name, call.careful = line.pid, line.fd, line.name, 0
    call.name_at, call.name_size = line.at + line.name_at, line.name_size
    call.comm_at, call.comm_size = line.at + line.comm_at, line.comm_size
    call.args_at, call.args_size = line.at + line.args_at, line.args_size
    call.more_at, call.more_size, call.stack_at, call.stack_size = 0, 0, 0, 0
    call.result_size, call.ret_size, call.errno_size, call.duration = NONE, NONE, NONE, np.nan
    call.fd_ends_args, call.shows = line.fd_ends_args, 0
    call.state = kind
    return index


@inner
def _return(data, extra, call, line):
    """Enter what a line says of how a call returned."""
    call.result_at, call.result_size = line.at + line.result_at, line.result_size
    call.ret_size, call.errno_size, call.duration = line.ret_size, line.errno_size, line.duration
    if line.ret_size == 1 and data[line.at + line.result_at] == 63:
        _trim_arguments(data, extra, call)


@inner
def _needs_care(data, calls, slots, state, line, slot):
    """Whether a second half fits no open call in the plain way."""
    own = slots[slot] - 1
    if own < 0 or calls[own].name != line.name:
        return state[OPEN] > 0 and (slot == NO_PID or slots[NO_PID] > 0 or line.name == EXECVE)
    call = calls[own]
    if call.careful or call.stack_size:
        return True
    if call.fd_ends_args and call.args_size > 0 and line.args_size > 0:
        char = data[line.at + line.args_at]
        return char != 44 and char != 60 and char != 32
    return False


@inner
def _merge(data, extra, call, line, number, end):
    """Join the second half of a call to the first."""
    if call.args_size == 0:
        call.fd = line.fd
    call.more_at, call.more_size = line.at + line.args_at, line.args_size
    call.end, call.end_line, call.state = end, number, IS_MERGED
    _return(data, extra, call, line)
    if np.isnan(call.duration) and call.begin != NO_TIME and end != NO_TIME and end >= call.begin:
        call.duration = np.float64(end - call.begin) / 1e9
    _begin_from_end(call)


@inner
def _begin_from_end(call):
    """A call whose begin has no time began its duration before its end."""
    if call.begin == NO_TIME and call.end != NO_TIME:
        call.begin = call.end - np.int64(np.rint((0.0 if np.isnan(call.duration) else call.duration) * 1e9))


@compiled
def join(data, extra, lines, at, count, calls, ready, said, slots, opens, state):
    """Take lines into calls, from `at` on; returns the first line that the careful reader has to take, or `count`.

    `ready` takes the calls in the order in which they end, `said` the lines of signals and ends.
    """
    while at < count:
        line = lines[at]
        kind = line.kind
        if kind == ODD or (line.clocked == OF_DAY and kind >= DONE and state[DATED] and not state[DAY_KNOWN]):
            break
        number = state[FIRST_LINE] + at
        if kind == STACK or kind == DUMP:
            latest = state[LATEST]
            if latest == AT_START:
                break
            if kind == STACK and latest >= 0:
                call = calls[latest]
                call.stack_at = call.stack_at if call.stack_size else line.at
                call.stack_size = line.at + line.size - call.stack_at
        elif kind != BLANK:
            slot = line.pid if line.pid >= 0 else NO_PID
            if kind == RESUMED and _needs_care(data, calls, slots, state, line, slot):
                break
            if (
                kind == UNFINISHED
                and state[SHOWING]
                and _is_shown(data, extra, calls, opens, state, line.at + line.args_at, line.args_size)
            ):
                break
            now = _time(line, state)
            state[LATEST] = ELSEWHERE
            if kind == DONE:
                index = _begin(calls, state, line, number, IS_DONE)
                calls[index].begin = now
                _return(data, extra, calls[index], line)
                _finish(ready, state, index)
            elif kind == UNFINISHED:
                index = _begin(calls, state, line, number, IS_OPEN)
                call = calls[index]
                call.begin, call.shows = now, line.shows
                call.shown_at, call.shown_size = line.at + line.shown_at, line.shown_size
                if slots[slot]:
                    _give_up(data, extra, calls, ready, slots, opens, state, slot)
                put_open(calls, slots, opens, state, slot, index)
                state[LATEST] = index
            elif kind == RESUMED:
                _resume(data, extra, calls, ready, slots, opens, state, line, number, slot, now)
            else:
                said[state[SAID]], line.clock = at, now
                state[SAID] += 1
                if kind == GONE and slots[slot]:
                    _give_up(data, extra, calls, ready, slots, opens, state, slot)
        at += 1
    return at


@inner
def _finish(ready, state, index):
    """Say that a call is complete; a stack may follow."""
    ready[state[READY]] = index
    state[READY] += 1
    state[LATEST] = index


@inner
def _give_up(data, extra, calls, ready, slots, opens, state, slot):
    """Say of an open call that it never returned."""
    index = close_open(calls, slots, opens, state, slot)
    _trim_arguments(data, extra, calls[index])
    ready[state[READY]] = index
    state[READY] += 1


@inner
def _resume(data, extra, calls, ready, slots, opens, state, line, number, slot, now):
    """Take a second half: to its call, or as a call whose begin is not in the file."""
    if slots[slot] and calls[slots[slot] - 1].name == line.name:
        index = close_open(calls, slots, opens, state, slot)
        _merge(data, extra, calls[index], line, number, now)
    else:
        index = _begin(calls, state, line, number, IS_ORPHAN)
        call = calls[index]
        _return(data, extra, call, line)
        call.end = now
        _begin_from_end(call)
    _finish(ready, state, index)


@compiled
def give_up_all(data, extra, calls, ready, slots, opens, state, left):
    """At the end of the file: calls that never returned, in the order of their lines, which is that of `left`."""
    for index in left:
        _give_up(data, extra, calls, ready, slots, opens, state, calls[index].slot)


# --- columns ---------------------------------------------------------------------------------------------------------

NUMBERS = ("time", "pid", "fd", "line", "end_line")
TEXTS = ("syscall", "comm", "args", "result", "ret", "errno", "stack")
NAME_TEXT, COMM_TEXT, ARGS_TEXT, RESULT_TEXT, RET_TEXT, ERRNO_TEXT, STACK_TEXT = range(7)


@inner
def _span(call, column):
    """Where a text of a call stands: begin and size of its first part; the size is -1 where there is none."""
    if column == ARGS_TEXT:
        return call.args_at, call.args_size
    if column == NAME_TEXT:
        return call.name_at, call.name_size
    if column == COMM_TEXT:
        return call.comm_at, call.comm_size
    if column == STACK_TEXT:
        return call.stack_at, np.int32(call.stack_size if call.stack_size > 0 else NONE)
    if column == ERRNO_TEXT:
        skip = call.ret_size + 1
        return (call.result_at + skip if call.result_at >= 0 else call.result_at - skip), call.errno_size
    return call.result_at, call.result_size if column == RESULT_TEXT else call.ret_size


@compiled
def measure(calls, chosen, texts, offsets, known, numbers, durations, states):
    """The columns that are no texts, and of each of `texts` where its values will lie and which there are."""
    offsets[:, 0] = 0
    for n in range(chosen.size):
        call = calls[chosen[n]]
        numbers[0, n], numbers[1, n], numbers[2, n], numbers[3, n] = call.begin, call.pid, call.fd, call.line
        numbers[4, n], durations[n], states[n] = call.end_line, call.duration, call.state
        for place in range(texts.size):
            size = np.int64(_span(call, texts[place])[1])
            if size >= 0:
                known[place, n >> 3] |= np.uint8(1 << (n & 7))
                size += call.more_size if texts[place] == ARGS_TEXT else 0
            offsets[place, n + 1] = offsets[place, n] + max(size, 0)


@inner
def _copy(source, at, size, out, place):
    for n in range(size):
        out[np.uintp(place + n)] = source[np.uintp(at + n)]


@compiled
def gather(data, extra, calls, chosen, texts, offsets, bases, out):
    """The bytes of the text columns, one column's behind the other's."""
    for n in range(chosen.size):
        call = calls[chosen[n]]
        for column in range(texts.size):
            at, size = _span(call, texts[column])
            place = bases[column] + offsets[column, n]
            if size > 0:
                if at >= 0:
                    _copy(data, at, size, out, place)
                else:
                    _copy(extra, -at - 1, size, out, place)
            if texts[column] == ARGS_TEXT and call.more_size > 0:
                _copy(data, call.more_at, call.more_size, out, place + size)
