"""The compiled pass over a capture of strace: lines to tokens (`scan`), halves of calls to calls (`join`), calls to columns.

It reads what strace prints on a line of its own, in printable ASCII: whole calls, the halves of split calls, signals, ends,
stacks. Every other line it marks `ODD`, and the careful reader takes it (`kit.parse.strace_events`). So each rule here may be
narrower than the careful reader's, never wider; tests hold both equal. Nothing is allocated but the columns, and the
interpreter's lock is not held, so chunks run in threads.

Only `kit.parse.strace_table` imports this: it needs numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from kit.parse.text import LINE_LIMIT

inner = njit(nogil=True, error_model="numpy")


def compiled(function: Callable) -> Any:
    """Compile a function; what was compiled is kept beside the source or in the user's cache, where one of them is writable."""
    try:
        return njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # "no locator available": neither folder is writable
        return inner(function)


ODD, BLANK, STACK, DUMP, DONE, UNFINISHED, RESUMED, SIGNAL, GONE = range(9)
"""Kinds of lines. GONE is `+++ exited` and `+++ killed`."""
NO_CLOCK, EPOCH, OF_DAY = range(3)
NONE = -1

LINE = np.dtype(
    [("at", "i8"), ("clock", "i8"), ("duration", "f8"), ("name", "u8")]
    + [
        (name, "i4")
        for name in "size pid fd comm_at comm_size name_at name_size args_at args_size result_at result_size ret_size "
        "errno_size shown_at shown_size".split()
    ]
    + [("kind", "u1"), ("clocked", "u1"), ("fd_ends_args", "u1"), ("shows", "u1")],
    align=True,
)
"""Tokens of a line: offsets count from its begin, a size of -1 says that there is none. `name` is the hash of the call's name;
`shown` what an unfinished write to the terminal begins with."""


def hash_of(name: str) -> int:
    """FNV-1a of a name, 64 bits, as `_hash` makes it."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def _text(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


RESUMED_END, UNFINISHED_MARK, DETACHED_MARK = _text(" resumed>"), _text("<unfinished ...>"), _text("<detached ...>")
CHANGED_MARK, RESUMING, RESUMING_END, STRACE = _text("<pid changed to "), _text("<... "), _text(" ...>"), _text("strace: ")
EXITED, KILLED, ENDED, CORE = _text("+++ exited with "), _text("+++ killed by "), _text(" +++"), _text(" (core dumped)")
SIGNALLED, SIGNAL_END, PID, PROCESS = _text("--- SIG"), _text(" ---"), _text("[pid"), _text("[Process")
FD_LABELS = (_text("fd="), _text("sockfd="), _text("epfd="), _text("dfd="))
BUF, COUNT, MORE, NEXT = _text("buf="), _text("count="), _text("..."), _text(", ")
WRITE, EXECVE = np.uint64(hash_of("write")), np.uint64(hash_of("execve"))
_HIGH, _ONES, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (0x80, 0x01, 0x20))
_ONE, _SEVEN, _TOP = np.uint64(1), np.uint64(7), np.uint64(56)
POWERS = 10 ** np.arange(10)


# --- bytes -----------------------------------------------------------------------------------------------------------


@inner
def _at(data, at):
    """A byte; the place is never below 0, which the compiler has to be told."""
    return data[np.uintp(at)]


@inner
def _is(data, at, end, text):
    """Whether a text stands at a place."""
    if at + text.size > end:
        return False
    for n in range(text.size):
        if _at(data, at + n) != text[n]:
            return False
    return True


@inner
def _word(char):
    return 48 <= char <= 57 or 97 <= char <= 122 or 65 <= char <= 90 or char == 95


@inner
def _digits(data, at, end):
    """End of the digits that begin at a place."""
    while at < end and 48 <= _at(data, at) <= 57:
        at += 1
    return at


@inner
def _blanks(data, at, end):
    while at < end and _at(data, at) == 32:
        at += 1
    return at


@inner
def _number(data, at, end):
    """Value and end of the digits that begin at a place."""
    value = 0
    while at < end and 48 <= _at(data, at) <= 57:
        value = value * 10 + (_at(data, at) - 48)
        at += 1
    return value, at


@inner
def _decimals(data, at, end):
    """End of digits with an optional fraction, or -1."""
    stop = _digits(data, at, end)
    if stop == at:
        return -1
    if stop < end and _at(data, stop) == 46:
        last = _digits(data, stop + 1, end)
        return last if last > stop + 1 else -1
    return stop


@inner
def _hash(data, at, end):
    value = np.uint64(0xCBF29CE484222325)
    for n in range(at, end):
        value = (value ^ np.uint64(_at(data, n))) * np.uint64(0x100000001B3)
    return value


@inner
def _special(data, words, at, end):
    """First byte that is no printable ASCII, eight at a time; the lowest byte that is marked is exact."""
    word, last = at >> 3, end >> 3
    if word < last:
        keep = (_ONE << np.uint64(8 * (at & 7))) - _ONE
        found = (words[word] & ~keep) | (_BLANKS & keep)
        while True:
            marked = ((found - _BLANKS) | found | (found + _ONES)) & _HIGH
            if marked:
                below = ((marked & (~marked + _ONE)) >> _SEVEN) - _ONE  # ones below the lowest mark
                return (word << 3) + np.int64(((below & _ONES) * _ONES) >> _TOP)
            word += 1
            at = word << 3
            if word >= last:
                break
            found = words[word]
    while at < end and 32 <= _at(data, at) <= 126:
        at += 1
    return at


@inner
def _line_end(data, words, at, end):
    """End of a line, and whether it holds nothing but printable ASCII and carriage returns at its end."""
    plain = True
    while True:
        at = _special(data, words, at, end)
        if at >= end:
            return end, plain
        if _at(data, at) == 10:
            return at, plain
        if _at(data, at) != 13 or (at + 1 < end and _at(data, at + 1) != 10 and _at(data, at + 1) != 13):
            plain = False
        at += 1


@compiled
def count_lines(data, begin, end):
    """Lines of a stretch, the last one without an end too."""
    lines = 0
    for at in range(begin, end):
        lines += _at(data, at) == 10
    return lines + (end > begin and _at(data, end - 1) != 10)


# --- a line ----------------------------------------------------------------------------------------------------------


@compiled
def scan(data, words, begin, end, lines, first_arguments):
    """Read the lines of a stretch into tokens; returns how many there were. The stretch begins and ends with lines."""
    at, n = begin, 0
    while at < end:
        stop, plain = _line_end(data, words, at, end)
        line = lines[n]
        line.at, line.size, line.kind = at, stop - at, ODD
        last = stop
        while last > at and _at(data, last - 1) == 13:
            last -= 1
        if plain and last - at <= LINE_LIMIT:
            _read(data, at, last, line, first_arguments)
        at, n = stop + 1, n + 1
    return n


@inner
def _read(data, begin, end, line, first_arguments):
    at = _blanks(data, begin, end)
    if at == end:
        line.kind = BLANK
        return
    if at == begin + 1 and at + 2 < end and _at(data, at + 1) == 32:
        if _at(data, at) == 62 and _at(data, at + 2) != 32:  # " > library(function) [address]"
            line.kind = STACK
        elif _at(data, at) == 124:  # " | 00000  68 65 6c …"
            stop = at + 2
            while stop < end and (48 <= _at(data, stop) <= 57 or 97 <= _at(data, stop) <= 102):
                stop += 1
            if stop - at >= 7 and stop + 1 < end and _at(data, stop) == 32 and _at(data, stop + 1) == 32:
                line.kind = DUMP
        if line.kind != ODD:
            return
    line.pid, line.comm_size, line.clocked, line.fd, line.fd_ends_args, line.shows = NONE, NONE, NO_CLOCK, NONE, 0, 0
    at = _prefix(data, begin, end, line)
    if at < 0 or at >= end:
        return
    char = _at(data, at)
    if 97 <= char <= 122 or char == 95:
        _call(data, begin, at, end, line, first_arguments)
    elif char == 60:
        _resumed(data, begin, at, end, line, first_arguments)
    elif char == 43:
        line.kind = GONE if _is_end(data, at, end) else ODD
    elif char == 45 and _is(data, at, end, SIGNALLED):
        stop = at + SIGNALLED.size
        while stop < end and _word(_at(data, stop)):
            stop += 1
        if stop > at + SIGNALLED.size and _is(data, end - 4, end, SIGNAL_END) and _at(data, stop) == 32 and stop <= end - 4:
            line.kind = SIGNAL


@inner
def _is_end(data, at, end):
    """`+++ exited with 0 +++`, `+++ killed by SIGSEGV (core dumped) +++`."""
    if end - at < 8 or not _is(data, end - 4, end, ENDED):
        return False
    if _is(data, at, end, EXITED):
        begin = at + EXITED.size
        begin += _at(data, begin) == 45
        return begin < end - 4 and _digits(data, begin, end - 4) == end - 4
    if _is(data, at, end, KILLED):
        stop = at + KILLED.size
        while stop < end - 4 and _word(_at(data, stop)):
            stop += 1
        return stop > at + KILLED.size and (stop == end - 4 or (_is(data, stop, end, CORE) and stop + CORE.size == end - 4))
    return False


@inner
def _comm(data, begin, at, end, line):
    """Take `<name>` of -Y; returns the place behind it, or -1."""
    stop = at + 1
    while stop < end and _at(data, stop) != 60 and _at(data, stop) != 62:
        stop += 1
    if stop >= end or _at(data, stop) != 62:
        return -1
    line.comm_at, line.comm_size = at + 1 - begin, stop - at - 1
    return stop + 1


@inner
def _prefix(data, begin, end, line):
    """Read what stands before the call, in strace's order; returns where that begins, -1 for what is not known."""
    at = begin
    if _at(data, at) == 91 and _is(data, at, end, PID):
        at = _blanks(data, at + 4, end)
        pid, stop = _number(data, at, end)
        if at == begin + 4 or stop == at or stop - at > 7 or stop >= end:
            return -1
        line.pid = pid
        if _at(data, stop) == 60:
            stop = _comm(data, begin, stop, end, line)
        if stop < 0 or stop + 1 >= end or _at(data, stop) != 93 or _at(data, stop + 1) != 32:
            return -1
        at = _blanks(data, stop + 1, end)
    else:
        pid, stop = _number(data, at, end)
        if at < stop < end and stop - at <= 7 and (_at(data, stop) == 32 or _at(data, stop) == 60):
            line.pid = pid
            if _at(data, stop) == 60:
                stop = _comm(data, begin, stop, end, line)
                if stop < 0 or stop >= end or _at(data, stop) != 32:
                    return -1
            at = _blanks(data, stop, end)
    if at < end and _at(data, at) == 91:
        at = _context(data, at, end)
    if 0 <= at < end and 48 <= _at(data, at) <= 57:
        at = _clock(data, at, end, line)
    if 0 <= at < end - 2 and _at(data, at) == 40 and _at(data, at + 1) == 43:  # (+     0.000041)
        stop = _decimals(data, _blanks(data, at + 2, end), end)
        if stop < 0 or stop + 1 >= end or _at(data, stop) != 41 or _at(data, stop + 1) != 32:
            return -1
        at = _blanks(data, stop + 1, end)
    if at == begin:
        at = _blanks(data, at, end)
    if 0 <= at < end and (48 <= _at(data, at) <= 57 or (_at(data, begin) == 32 and at < end)):  # a relative time
        stop = _decimals(data, at, end)
        if stop < 0 or stop >= end or _at(data, stop) != 32 or _digits(data, at, end) - at > 8:
            return -1
        at = _blanks(data, stop, end)
    return _bracket(data, _bracket(data, at, end, False), end, True)


@inner
def _context(data, at, end):
    """Go past `[context]` of --secontext; a number of a call or an address is none."""
    if at + 1 >= end or _is(data, at, end, PROCESS):
        return -1
    char = _at(data, at + 1)
    if not (97 <= char <= 122 or 65 <= char <= 90 or char == 95):
        return -1 if char == 33 else at
    stop, is_hex = at + 1, True
    while stop < end and _at(data, stop) != 93 and _at(data, stop) != 32:
        is_hex = is_hex and (48 <= _at(data, stop) <= 57 or 97 <= _at(data, stop) <= 102)
        stop += 1
    if stop + 1 >= end or _at(data, stop) != 93 or _at(data, stop + 1) != 32:
        return -1
    if is_hex and 8 <= stop - at - 1 <= 16:
        return at if stop - at - 1 == 8 or stop - at - 1 == 16 else -1
    return _blanks(data, stop + 1, end)


@inner
def _bracket(data, at, end, address):
    """Go past `[   3]`, or past `[00007f1f89024e67]`; both have question marks where strace does not know. Else stay."""
    if at < 0 or at + 1 >= end or _at(data, at) != 91:
        return at
    first = at + 1 if address else _blanks(data, at + 1, end)
    stop, marks = first, first < end and _at(data, first) == 63
    while stop < end and (
        _at(data, stop) == 63 if marks else 48 <= _at(data, stop) <= 57 or (address and 97 <= _at(data, stop) <= 102)
    ):
        stop += 1
    fits = 8 <= stop - first <= 16 if address else 1 <= stop - first <= 4
    return _blanks(data, stop + 1, end) if fits and stop + 1 < end and _at(data, stop) == 93 and _at(data, stop + 1) == 32 else at


@inner
def _clock(data, at, end, line):
    """Read a time of day or of the epoch; a shorter number is a relative time and stays."""
    seconds, stop = _number(data, at, end)
    if stop - at == 2 and stop < end and _at(data, stop) == 58:
        if at + 8 > end or _at(data, at + 5) != 58:
            return -1
        for n in (3, 4, 6, 7):
            if not 48 <= _at(data, at + n) <= 57:
                return -1
        seconds = seconds * 3600 + _number(data, at + 3, at + 5)[0] * 60 + _number(data, at + 6, at + 8)[0]
        line.clocked, stop = OF_DAY, at + 8
    elif stop - at >= 9:
        if stop - at > 10 or (stop - at == 10 and not 49 <= _at(data, at) <= 56):
            return -1
        line.clocked = EPOCH
    else:
        return at
    part = 0
    if stop < end and _at(data, stop) == 46:
        first = stop + 1
        part, stop = _number(data, first, min(end, first + 9))
        if stop == first:
            return -1
        part *= POWERS[9 - stop + first]
        stop = _digits(data, stop, end)
    if stop >= end or _at(data, stop) != 32:
        return -1
    line.clock = seconds * 1_000_000_000 + part
    return _blanks(data, stop, end)


@inner
def _call(data, begin, at, end, line, first_arguments):
    """Read a whole call, or its first half."""
    stop = at
    while stop < end and _word(_at(data, stop)):
        stop += 1
    if stop >= end or _at(data, stop) != 40:
        return
    name = _hash(data, at, stop)
    line.name, line.name_at, line.name_size = name, at - begin, stop - at
    first = stop + 1
    kind, stop, after = _arguments(data, first, end)
    if kind == ODD or (kind == UNFINISHED and after != end) or (name == WRITE and not _is_plain_write(data, first, stop)):
        return
    if kind == DONE and not _result(data, begin, after, end, line):
        return
    if kind == UNFINISHED and name == WRITE:
        _shown(data, begin, first, stop, line)
    line.args_at, line.args_size = first - begin, stop - first
    if first_arguments[name & np.uint64(first_arguments.size - 1)] == name:
        _descriptor(data, first, stop, line)
    line.kind = kind


@inner
def _resumed(data, begin, at, end, line, first_arguments):
    """Read `<... name resumed>` and what follows: the second half of a call."""
    if not _is(data, at, end, RESUMING):
        return
    first = at + RESUMING.size
    stop = first
    while stop < end and _word(_at(data, stop)):
        stop += 1
    if stop == first or not _is(data, stop, end, RESUMED_END):
        return
    name = _hash(data, first, stop)
    line.name, line.name_at, line.name_size = name, first - begin, stop - first
    first = stop + RESUMED_END.size
    if (
        first + 1 < end
        and _at(data, first) == 32
        and _at(data, first + 1) != 60
        and not (_at(data, first + 1) == 61 and _at(data, first + 2) == 62)
    ):
        first += 1  # before strace 5.0
    kind, stop, after = _arguments(data, first, end)
    if kind != DONE or not _result(data, begin, after, end, line):
        return
    line.args_at, line.args_size = first - begin, stop - first
    if first_arguments[name & np.uint64(first_arguments.size - 1)] == name:
        _descriptor(data, first, stop, line)
    line.kind = RESUMED


@inner
def _string(data, at, end):
    """Go past a string."""
    at += 1
    while at < end:
        char = _at(data, at)
        if char == 92:
            at += 2
        elif char == 34:
            return at + 1
        else:
            at += 1
    return end


@inner
def _angle(data, at, end):
    """Go past `<…>` after a descriptor or pid; -1 where it does not end."""
    angles, squares, at = 1, 0, at + 1
    while at < end:
        char = _at(data, at)
        if char == 92:
            at += 1
        elif char == 34:
            at = _string(data, at, end) - 1
        elif char == 91:
            squares += 1
        elif char == 93:
            squares = max(0, squares - 1)
        elif char == 60:
            angles += 1
        elif char == 62 and not (squares and _at(data, at - 1) == 45):
            angles -= 1
            if not angles:
                return at + 1
        at += 1
    return -1


@inner
def _arguments(data, first, end):
    """End of a call's arguments: the kind of the line, where they end, where the rest begins (`strace_scan.scan` in full)."""
    at, depth = first, 0
    while at < end:
        char = _at(data, at)
        if char == 34:
            at = _string(data, at, end)
        elif char == 40:
            depth += 1
            at += 1
        elif char == 41:
            if not depth:
                return DONE, at, at + 1
            depth -= 1
            at += 1
        elif char == 60:
            before = _at(data, at - 1) if at > first else np.uint8(32)
            if _is(data, at, end, UNFINISHED_MARK):
                stop, after = at - (at > first and before == 32), at + UNFINISHED_MARK.size
                if 48 <= before <= 57 or before == 68:
                    return ODD, at, at
                if after < end and _at(data, after) == 41:
                    return DONE, stop, after + 1
                return UNFINISHED if not depth else ODD, stop, after
            following = _at(data, at + 1) if at + 1 < end else np.uint8(32)
            if following == 46 and at == first and _is(data, at, end, RESUMING):  # <... resuming interrupted read ...>
                at += RESUMING.size - 1
                while at < end and not _is(data, at, end, RESUMING_END):
                    at += 1
                at += RESUMING_END.size
            elif following == 46 or _is(data, at, end, DETACHED_MARK) or _is(data, at, end, CHANGED_MARK):
                return ODD, at, at
            elif following == 60 or before == 60 or not (_word(before) or before == 47 or before == 41):
                at += 1
            else:
                at = _angle(data, at, end)
                if at < 0:
                    return ODD, end, end
        elif char == 47:
            if at + 1 >= end or _at(data, at + 1) != 42:
                return ODD, at, at
            at += 2
            while at + 1 < end and not (_at(data, at) == 42 and _at(data, at + 1) == 47):
                at += 1
            at += 2
        elif char == 115 and _is(data, at, end, STRACE):
            return ODD, at, at
        elif char == 94:
            return ODD, at, at
        else:
            at += 1
    return ODD, end, end


@inner
def _result(data, begin, at, end, line):
    """Read ` = value … <duration>`; False for anything else."""
    while end > at and _at(data, end - 1) == 32:
        end -= 1
    at = _blanks(data, at, end)
    if at + 2 >= end or _at(data, at) != 61 or _at(data, at + 1) != 32:
        return False
    at += 2
    char = _at(data, at)
    if not (48 <= char <= 57 or char == 63 or (char == 45 and at + 1 < end and 48 <= _at(data, at + 1) <= 57)):
        return False
    line.duration = np.nan
    if _at(data, end - 1) == 62:
        stop = end - 2
        while stop > at and (48 <= _at(data, stop) <= 57 or _at(data, stop) == 46):
            stop -= 1
        if (
            _at(data, stop) == 60
            and _at(data, stop - 1) == 32
            and stop - 1 > at
            and _decimals(data, stop + 1, end - 1) == end - 1
        ):
            if end - stop > 16 or _digits(data, stop + 1, end) - stop > 11:
                return False
            value, scale, scales = 0, 1, False
            for n in range(stop + 1, end - 1):
                if _at(data, n) == 46:
                    scales = True
                else:
                    value = value * 10 + (_at(data, n) - 48)
                    scale = scale * 10 if scales else scale
            line.duration = np.float64(value) / np.float64(scale)
            end = stop - 1
    stop = at
    while stop < end and _at(data, stop) != 32 and _at(data, stop) != 60:
        stop += 1
    line.result_at, line.result_size, line.ret_size, line.errno_size = at - begin, end - at, stop - at, NONE
    unknown = char == 63 and stop == at + 1
    if (unknown or (char == 45 and _at(data, at + 1) == 49 and stop == at + 2)) and stop + 2 < end and _at(data, stop + 1) == 69:
        last = stop + 2
        while last < end and (65 <= _at(data, last) <= 90 or 48 <= _at(data, last) <= 57 or _at(data, last) == 95):
            last += 1
        if last > stop + 2 and not (last < end and _word(_at(data, last))):
            line.errno_size = last - stop - 1
    return True


@inner
def _descriptor(data, at, end, line):
    """Read the first argument as a descriptor, as `kit.parse.strace._FD` does."""
    if at < end and _at(data, at) > 57:
        for label in FD_LABELS:
            if _is(data, at, end, label):
                at += label.size
                break
    value, stop = _number(data, at, end)
    line.fd_ends_args = stop == end
    if at < stop < at + 10 and (stop == end or _at(data, stop) == 60 or _at(data, stop) == 44 or _at(data, stop) == 32):
        line.fd = value


# --- what a write puts on a terminal -------------------------------------------------------------------------------------


@inner
def _unescaped(data, at, end):
    """Go past a string, and count its characters."""
    at, size = at + 1, 0
    while at < end and _at(data, at) != 34:
        if _at(data, at) == 92:
            at += 1
            if at < end and _at(data, at) == 120:
                most = at + 3
                at += 1
                while at < min(most, end) and (48 <= _at(data, at) <= 57 or 97 <= _at(data, at) <= 102):
                    at += 1
                size += 1
                continue
            most = at + 3
            if at < end and 48 <= _at(data, at) <= 55:
                while at < min(most, end) and 48 <= _at(data, at) <= 55:
                    at += 1
                size += 1
                continue
        at += 1
        size += 1
    return at + 1, size


@inner
def _is_plain_write(data, at, end):
    """Whether no output of the program stands among a write's arguments: it would come after the third."""
    if _is(data, at, end, FD_LABELS[0]):
        at += 3
    if at + 1 < end and _at(data, at) == 48 and _at(data, at + 1) == 120:
        at += 2
    at = _digits(data, at, end)
    if at < end and _at(data, at) == 60:
        while at < end and _at(data, at) != 62:
            at += 1
        at += 1
    if not _is(data, at, end, NEXT):
        return True
    at += 2
    if _is(data, at, end, BUF):
        at += BUF.size
    if at >= end or _at(data, at) != 34:
        return True
    at, size = _unescaped(data, at, end)
    more = _is(data, at, end, MORE)
    at += MORE.size if more else 0
    if not _is(data, at, end, NEXT):
        return True
    at += 2
    if _is(data, at, end, COUNT):
        at += COUNT.size
    if at + 1 < end and _at(data, at) == 48 and _at(data, at + 1) == 120 and at + 2 < end:
        return _digits(data, at + 2, end) == end
    value, stop = _number(data, at, end)
    return stop == end and end - at < 10 and (at == end or more or value == size)


@inner
def _shown(data, begin, at, end, line):
    """Note what an unfinished write to descriptor 1 or 2 begins with: it may turn up within another thread's call."""
    if _is(data, at, end, FD_LABELS[0]):
        at += 3
    if at + 1 < end and _at(data, at) == 48 and _at(data, at + 1) == 120:
        at += 2
    if at >= end or not 49 <= _at(data, at) <= 50 or (at + 1 < end and _word(_at(data, at + 1))):
        return
    while at < end and _at(data, at) != 34:
        at += 1
    at += 1
    stop = at
    while stop < end and stop < at + 16 and _at(data, stop) != 34 and _at(data, stop) != 92:
        stop += 1
    if stop >= end or _at(data, stop) == 34 and stop == at:
        return
    line.shows, line.shown_at, line.shown_size = 1, at - begin, stop - at
