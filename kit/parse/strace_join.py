"""Halves of calls to calls: what follows `kit.parse.strace_compiled.scan`, compiled too.

A thread has one call in flight, so a return belongs to the call that is open under its pid and has its name. Where that is not
so, or where strace or the program wrote into a call, `join` stops, and the careful reader goes on from that line.
"""

from __future__ import annotations

import numpy as np

from kit.compiled_vectors import byte_at, copy
from kit.parse.strace_bytes import EPOCH, NONE, OF_DAY, compiled, inner
from kit.parse.strace_compiled import BLANK, DONE, DUMP, EXECVE, GONE, ODD, RESUMED, STACK, UNFINISHED

KEPT = np.dtype([("line", "i8"), ("end_line", "i8"), ("state", "u1"), ("careful", "u1")], align=True)
"""What is known of the tokens behind those of a chunk's lines: calls of earlier chunks that are open, and those that the careful
reader made. Only the careful reader may go on with a `careful` one."""
OPEN_CALL = np.dtype([("index", "i4"), ("slot", "i4"), ("opened", "i8")], align=True)
"""A call that is open: its token, the slot of its pid, its place in the order in which they were opened."""
STATES = ("done", "merged", "open", "orphan", "detached", "moved", "cut")
IS_DONE, IS_MERGED, IS_OPEN, IS_ORPHAN = range(4)
NO_TIME = np.iinfo(np.int64).min
NO_PID = 10_000_000
"""Slot of lines without a pid: pids of up to seven digits are read (they end at 4,194,304)."""
DAY_NS = 86_400 * 10**9
NO_TOKEN = -1
AT_START, ELSEWHERE = -1, -2
"""What LATEST says where the line before is no call."""
(READY, OPEN, SAID, LATEST, OPENED, SHOWING, DAY, LAST, DAY_KNOWN, DATED, OFFSET, FIRST_LINE, COUNT) = range(13)
STATE_SIZE = 13
"""What `join` knows between two stretches, as numbers of one array: how many calls are ready, open, signals and ends, writes to
the terminal among the open; the token that a stack would belong to; the clock (`kit.parse.strace_rows.Clock`); the number of the
chunk's first line and how many lines it has."""


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
def _trim(base, line):
    """Take blanks and commas off the end of arguments that never came whole."""
    while line.args_size > 0:
        char = byte_at(base + line.args_at + line.args_size - 1)
        if char != 32 and char != 44:
            break
        line.args_size -= 1


@inner
def _is_shown(base, lines, opens, state, begin, size):
    """Whether a text may hold what a write to the terminal that has not returned is about to show."""
    for place in range(state[OPEN]):
        call = lines[opens[place].index]
        if not call.shows:
            continue
        for at in range(begin, begin + size - call.shown_size + 1):
            n = 0
            while n < call.shown_size and byte_at(base + at + n) == byte_at(base + call.shown_at + n):
                n += 1
            if n == call.shown_size:
                return True
    return False


@inner
def _close(lines, slots, opens, state, slot):
    """Take a call out of those that are open."""
    place = slots[slot] - 1
    index = opens[place].index
    state[OPEN] -= 1
    last = opens[state[OPEN]]
    opens[place].index, opens[place].slot, opens[place].opened = last.index, last.slot, last.opened
    slots[last.slot] = place + 1
    slots[slot] = 0
    state[SHOWING] -= lines[index].shows
    return index


@compiled
def put_open(lines, slots, opens, state, slot, index):
    """Put a call among those that are open."""
    call = opens[state[OPEN]]
    call.index, call.slot, call.opened = index, slot, state[OPENED]
    state[OPEN] += 1
    slots[slot] = state[OPEN]
    state[OPENED] += 1
    state[SHOWING] += lines[index].shows


@inner
def _needs_care(base, lines, kept, slots, opens, state, line, slot):
    """Whether a second half fits no open call in the plain way."""
    place = slots[slot] - 1
    if place < 0 or lines[opens[place].index].name != line.name:
        return state[OPEN] > 0 and (slot == NO_PID or slots[NO_PID] > 0 or line.name == EXECVE)
    own = opens[place].index
    call = lines[own]
    if call.stack_size or (own >= state[COUNT] and kept[own - state[COUNT]].careful):
        return True
    if call.fd_ends_args and call.args_size > 0 and line.args_size > 0:
        char = byte_at(base + line.args_at)
        return char != 44 and char != 60 and char != 32
    return False


@compiled
def join(base, lines, kept, at, ready, said, slots, opens, state):
    """Take lines into calls, from `at` on; returns the first line that the careful reader has to take, or their count.

    `ready` takes the first and second halves of calls, in the order in which they end, `said` the lines of signals and ends.
    """
    while at < state[COUNT]:
        line = lines[at]
        kind = line.kind
        if kind == ODD or (line.clocked == OF_DAY and kind >= DONE and state[DATED] and not state[DAY_KNOWN]):
            break
        if kind == STACK or kind == DUMP:
            latest = state[LATEST]
            if latest == AT_START:
                break
            if kind == STACK and latest >= 0:
                call = lines[latest]
                call.stack_at = call.stack_at if call.stack_size else line.at
                call.stack_size = line.at + line.size - call.stack_at
        elif kind != BLANK:
            slot = line.pid if line.pid >= 0 else NO_PID
            if kind == RESUMED and _needs_care(base, lines, kept, slots, opens, state, line, slot):
                break
            if kind == UNFINISHED and state[SHOWING] and _is_shown(base, lines, opens, state, line.args_at, line.args_size):
                break
            line.clock = _time(line, state)
            state[LATEST] = at if kind <= RESUMED else ELSEWHERE
            if kind == DONE:
                if line.unknown:
                    _trim(base, line)
                _finish(ready, state, at, at)
            elif kind == UNFINISHED:
                if slots[slot]:
                    _give_up(base, lines, ready, slots, opens, state, slot)
                put_open(lines, slots, opens, state, slot, at)
            elif kind == RESUMED:
                _resume(base, lines, ready, slots, opens, state, at, slot)
            else:
                said[state[SAID]] = at
                state[SAID] += 1
                if kind == GONE and slots[slot]:
                    _give_up(base, lines, ready, slots, opens, state, slot)
        at += 1
    return at


@inner
def _finish(ready, state, first, second):
    """Say that a call is complete."""
    ready[0, state[READY]], ready[1, state[READY]] = first, second
    state[READY] += 1


@inner
def _give_up(base, lines, ready, slots, opens, state, slot):
    """Say of an open call that it never returned."""
    index = _close(lines, slots, opens, state, slot)
    _trim(base, lines[index])
    _finish(ready, state, index, NO_TOKEN)


@inner
def _resume(base, lines, ready, slots, opens, state, at, slot):
    """Take a second half: to its call, or as a call whose begin is not in the file."""
    line, first = lines[at], NO_TOKEN
    if slots[slot] and lines[opens[slots[slot] - 1].index].name == line.name:
        first = _close(lines, slots, opens, state, slot)
    if line.unknown:
        _trim(base, line)
        if line.args_size == 0 and first != NO_TOKEN:
            _trim(base, lines[first])
    _finish(ready, state, first, at)


@compiled
def give_up_all(base, lines, ready, slots, opens, state, left):
    """At the end of the file: calls that never returned, in the order of their lines, which is that of the slots in `left`."""
    for slot in left:
        _give_up(base, lines, ready, slots, opens, state, slot)


@inner
def _copy(source, target, size):
    if size > 0:
        copy(source, target, np.int64(size))


@compiled
def carry(base, lines, kept, first_line, opens, state, count, to_base, to_lines, to_kept, to_count, to):
    """Copy the open calls of a chunk to another's tokens, their texts to its bytes from `to` on; returns where those end.

    Without `to_base` nothing is copied: it tells how much room the texts take.
    """
    for place in range(state[OPEN]):
        index = opens[place].index
        line = lines[index]
        if to_base:
            to_lines[to_count + place] = line
            call, known = to_lines[to_count + place], to_kept[place]
            call.result_size, call.ret_size, call.errno_size, call.duration = NONE, NONE, NONE, np.nan
            call.name_at, call.comm_at = to, to + line.name_size
            call.args_at = call.comm_at + max(line.comm_size, 0)
            call.shown_at = call.args_at + max(line.args_size, 0)
            call.stack_at = call.shown_at + (line.shown_size if line.shows else 0)
            _copy(base + line.name_at, to_base + call.name_at, line.name_size)
            _copy(base + line.comm_at, to_base + call.comm_at, line.comm_size)
            _copy(base + line.args_at, to_base + call.args_at, line.args_size)
            _copy(base + line.shown_at, to_base + call.shown_at, line.shown_size if line.shows else np.int32(0))
            _copy(base + line.stack_at, to_base + call.stack_at, line.stack_size)
            known.line, known.end_line, known.state, known.careful = first_line + index, 0, IS_OPEN, 0
            if index >= count:
                before = kept[index - count]
                known.line, known.end_line, known.careful = before.line, before.end_line, before.careful
            opens[place].index = to_count + place
        to += line.name_size + max(line.comm_size, 0) + max(line.args_size, 0) + line.stack_size
        to += line.shown_size if line.shows else 0
    return to
