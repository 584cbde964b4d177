"""The compiled pass over a capture of strace: lines to tokens (`scan`), halves of calls to calls (`join`), calls to columns.

It reads what strace prints on a line of its own, in printable ASCII: whole calls, the halves of split calls, signals, ends,
stacks. Every other line it marks `ODD`, and the careful reader takes it (`kit.parse.strace_events`). So each rule here may be
narrower than the careful reader's, never wider; tests hold both equal. Nothing is allocated but the columns, and the
interpreter's lock is not held, so chunks run in threads.

Only `kit.parse.strace_table` imports this: it needs numba.
"""

from __future__ import annotations

import numpy as np

from kit.parse.strace_bytes import (
    NO_CLOCK,
    NONE,
    blanks,
    byte_at,
    compiled,
    decimals,
    digits,
    hash_at,
    hash_of,
    inner,
    is_at,
    is_word,
    line_end,
    number,
    prefix,
    text_of,
)
from kit.parse.text import LINE_LIMIT

ODD, BLANK, STACK, DUMP, DONE, UNFINISHED, RESUMED, SIGNAL, GONE = range(9)
"""Kinds of lines. GONE is `+++ exited` and `+++ killed`."""

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


RESUMED_END, UNFINISHED_MARK, DETACHED_MARK = text_of(" resumed>"), text_of("<unfinished ...>"), text_of("<detached ...>")
CHANGED_MARK, RESUMING, RESUMING_END, STRACE = (
    text_of("<pid changed to "),
    text_of("<... "),
    text_of(" ...>"),
    text_of("strace: "),
)
EXITED, KILLED, ENDED, CORE = text_of("+++ exited with "), text_of("+++ killed by "), text_of(" +++"), text_of(" (core dumped)")
SIGNALLED, SIGNAL_END = text_of("--- SIG"), text_of(" ---")
FD_LABELS = (text_of("fd="), text_of("sockfd="), text_of("epfd="), text_of("dfd="))
BUF, COUNT, MORE, NEXT = text_of("buf="), text_of("count="), text_of("..."), text_of(", ")
WRITE, EXECVE = np.uint64(hash_of("write")), np.uint64(hash_of("execve"))


# --- a line ----------------------------------------------------------------------------------------------------------


@compiled
def scan(data, words, begin, end, lines, first_arguments):
    """Read the lines of a stretch into tokens; returns how many there were. The stretch begins and ends with lines."""
    at, n = begin, 0
    while at < end:
        stop, plain = line_end(data, words, at, end)
        line = lines[n]
        line.at, line.size, line.kind = at, stop - at, ODD
        last = stop
        while last > at and byte_at(data, last - 1) == 13:
            last -= 1
        if plain and last - at <= LINE_LIMIT:
            _read(data, at, last, line, first_arguments)
        at, n = stop + 1, n + 1
    return n


@inner
def _read(data, begin, end, line, first_arguments):
    at = blanks(data, begin, end)
    if at == end:
        line.kind = BLANK
        return
    if at == begin + 1 and at + 2 < end and byte_at(data, at + 1) == 32:
        if byte_at(data, at) == 62 and byte_at(data, at + 2) != 32:  # " > library(function) [address]"
            line.kind = STACK
        elif byte_at(data, at) == 124:  # " | 00000  68 65 6c …"
            stop = at + 2
            while stop < end and (48 <= byte_at(data, stop) <= 57 or 97 <= byte_at(data, stop) <= 102):
                stop += 1
            if stop - at >= 7 and stop + 1 < end and byte_at(data, stop) == 32 and byte_at(data, stop + 1) == 32:
                line.kind = DUMP
        if line.kind != ODD:
            return
    line.pid, line.comm_size, line.clocked, line.fd, line.fd_ends_args, line.shows = NONE, NONE, NO_CLOCK, NONE, 0, 0
    at = prefix(data, begin, end, line)
    if at < 0 or at >= end:
        return
    char = byte_at(data, at)
    if 97 <= char <= 122 or char == 95:
        _call(data, begin, at, end, line, first_arguments)
    elif char == 60:
        _resumed(data, begin, at, end, line, first_arguments)
    elif char == 43:
        line.kind = GONE if _is_end(data, at, end) else ODD
    elif char == 45 and is_at(data, at, end, SIGNALLED):
        stop = at + SIGNALLED.size
        while stop < end and is_word(byte_at(data, stop)):
            stop += 1
        if stop > at + SIGNALLED.size and is_at(data, end - 4, end, SIGNAL_END) and byte_at(data, stop) == 32 and stop <= end - 4:
            line.kind = SIGNAL


@inner
def _is_end(data, at, end):
    """`+++ exited with 0 +++`, `+++ killed by SIGSEGV (core dumped) +++`."""
    if end - at < 8 or not is_at(data, end - 4, end, ENDED):
        return False
    if is_at(data, at, end, EXITED):
        begin = at + EXITED.size
        begin += byte_at(data, begin) == 45
        return begin < end - 4 <= begin + 10 and digits(data, begin, end - 4) == end - 4
    if is_at(data, at, end, KILLED):
        stop = at + KILLED.size
        while stop < end - 4 and is_word(byte_at(data, stop)):
            stop += 1
        return stop > at + KILLED.size and (stop == end - 4 or (is_at(data, stop, end, CORE) and stop + CORE.size == end - 4))
    return False


@inner
def _call(data, begin, at, end, line, first_arguments):
    """Read a whole call, or its first half."""
    stop = at
    while stop < end and is_word(byte_at(data, stop)):
        stop += 1
    if stop >= end or byte_at(data, stop) != 40:
        return
    name = hash_at(data, at, stop)
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
    if not is_at(data, at, end, RESUMING):
        return
    first = at + RESUMING.size
    stop = first
    while stop < end and is_word(byte_at(data, stop)):
        stop += 1
    if stop == first or not is_at(data, stop, end, RESUMED_END):
        return
    name = hash_at(data, first, stop)
    line.name, line.name_at, line.name_size = name, first - begin, stop - first
    first = stop + RESUMED_END.size
    if (
        first + 1 < end
        and byte_at(data, first) == 32
        and byte_at(data, first + 1) != 60
        and not (byte_at(data, first + 1) == 61 and byte_at(data, first + 2) == 62)
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
        char = byte_at(data, at)
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
        char = byte_at(data, at)
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
        elif char == 62 and not (squares and byte_at(data, at - 1) == 45):
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
        char = byte_at(data, at)
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
            before = byte_at(data, at - 1) if at > first else np.uint8(32)
            if is_at(data, at, end, UNFINISHED_MARK):
                stop, after = at - (at > first and before == 32), at + UNFINISHED_MARK.size
                if 48 <= before <= 57 or before == 68:
                    return ODD, at, at
                if after < end and byte_at(data, after) == 41:
                    return DONE, stop, after + 1
                return UNFINISHED if not depth else ODD, stop, after
            following = byte_at(data, at + 1) if at + 1 < end else np.uint8(32)
            if following == 46 and at == first and is_at(data, at, end, RESUMING):  # <... resuming interrupted read ...>
                at += RESUMING.size - 1
                while at < end and not is_at(data, at, end, RESUMING_END):
                    at += 1
                at += RESUMING_END.size
            elif following == 46 or is_at(data, at, end, DETACHED_MARK) or is_at(data, at, end, CHANGED_MARK):
                return ODD, at, at
            elif following == 60 or before == 60 or not (is_word(before) or before == 47 or before == 41):
                at += 1
            else:
                at = _angle(data, at, end)
                if at < 0:
                    return ODD, end, end
        elif char == 47:
            if at + 1 >= end or byte_at(data, at + 1) != 42:
                return ODD, at, at
            at += 2
            while at + 1 < end and not (byte_at(data, at) == 42 and byte_at(data, at + 1) == 47):
                at += 1
            at += 2
        elif char == 115 and is_at(data, at, end, STRACE):
            return ODD, at, at
        elif char == 94:
            return ODD, at, at
        else:
            at += 1
    return ODD, end, end


@inner
def _result(data, begin, at, end, line):
    """Read ` = value … <duration>`; False for anything else."""
    while end > at and byte_at(data, end - 1) == 32:
        end -= 1
    at = blanks(data, at, end)
    if at + 2 >= end or byte_at(data, at) != 61 or byte_at(data, at + 1) != 32:
        return False
    at += 2
    char = byte_at(data, at)
    if not (48 <= char <= 57 or char == 63 or (char == 45 and at + 1 < end and 48 <= byte_at(data, at + 1) <= 57)):
        return False
    line.duration = np.nan
    if byte_at(data, end - 1) == 62:
        stop = end - 2
        while stop > at and (48 <= byte_at(data, stop) <= 57 or byte_at(data, stop) == 46):
            stop -= 1
        if (
            byte_at(data, stop) == 60
            and byte_at(data, stop - 1) == 32
            and stop - 1 > at
            and decimals(data, stop + 1, end - 1) == end - 1
        ):
            if end - stop > 16 or digits(data, stop + 1, end) - stop > 11:
                return False
            value, scale, scales = 0, 1, False
            for n in range(stop + 1, end - 1):
                if byte_at(data, n) == 46:
                    scales = True
                else:
                    value = value * 10 + (byte_at(data, n) - 48)
                    scale = scale * 10 if scales else scale
            line.duration = np.float64(value) / np.float64(scale)
            end = stop - 1
    stop = at
    while stop < end and byte_at(data, stop) != 32 and byte_at(data, stop) != 60:
        stop += 1
    line.result_at, line.result_size, line.ret_size, line.errno_size = at - begin, end - at, stop - at, NONE
    unknown = char == 63 and stop == at + 1
    if (
        (unknown or (char == 45 and byte_at(data, at + 1) == 49 and stop == at + 2))
        and stop + 2 < end
        and byte_at(data, stop + 1) == 69
    ):
        last = stop + 2
        while last < end and (65 <= byte_at(data, last) <= 90 or 48 <= byte_at(data, last) <= 57 or byte_at(data, last) == 95):
            last += 1
        if last > stop + 2 and not (last < end and is_word(byte_at(data, last))):
            line.errno_size = last - stop - 1
    return True


@inner
def _descriptor(data, at, end, line):
    """Read the first argument as a descriptor, as `kit.parse.strace._FD` does."""
    if at < end and byte_at(data, at) > 57:
        for label in FD_LABELS:
            if is_at(data, at, end, label):
                at += label.size
                break
    value, stop = number(data, at, end)
    line.fd_ends_args = stop == end
    if at < stop < at + 10 and (
        stop == end or byte_at(data, stop) == 60 or byte_at(data, stop) == 44 or byte_at(data, stop) == 32
    ):
        line.fd = value


# --- what a write puts on a terminal -------------------------------------------------------------------------------------


@inner
def _unescaped(data, at, end):
    """Go past a string, and count its characters."""
    at, size = at + 1, 0
    while at < end and byte_at(data, at) != 34:
        if byte_at(data, at) == 92:
            at += 1
            if at < end and byte_at(data, at) == 120:
                most = at + 3
                at += 1
                while at < min(most, end) and (48 <= byte_at(data, at) <= 57 or 97 <= byte_at(data, at) <= 102):
                    at += 1
                size += 1
                continue
            most = at + 3
            if at < end and 48 <= byte_at(data, at) <= 55:
                while at < min(most, end) and 48 <= byte_at(data, at) <= 55:
                    at += 1
                size += 1
                continue
        at += 1
        size += 1
    return at + 1, size


@inner
def _is_plain_write(data, at, end):
    """Whether no output of the program stands among a write's arguments: it would come after the third."""
    if is_at(data, at, end, FD_LABELS[0]):
        at += 3
    if at + 1 < end and byte_at(data, at) == 48 and byte_at(data, at + 1) == 120:
        at += 2
    at = digits(data, at, end)
    if at < end and byte_at(data, at) == 60:
        while at < end and byte_at(data, at) != 62:
            at += 1
        at += 1
    if not is_at(data, at, end, NEXT):
        return True
    at += 2
    if is_at(data, at, end, BUF):
        at += BUF.size
    if at >= end or byte_at(data, at) != 34:
        return True
    at, size = _unescaped(data, at, end)
    more = is_at(data, at, end, MORE)
    at += MORE.size if more else 0
    if not is_at(data, at, end, NEXT):
        return True
    at += 2
    if is_at(data, at, end, COUNT):
        at += COUNT.size
    if at + 1 < end and byte_at(data, at) == 48 and byte_at(data, at + 1) == 120 and at + 2 < end:
        return digits(data, at + 2, end) == end
    value, stop = number(data, at, end)
    return stop == end and end - at < 10 and (at == end or more or value == size)


@inner
def _shown(data, begin, at, end, line):
    """Note what an unfinished write to descriptor 1 or 2 begins with: it may turn up within another thread's call."""
    if is_at(data, at, end, FD_LABELS[0]):
        at += 3
    if at + 1 < end and byte_at(data, at) == 48 and byte_at(data, at + 1) == 120:
        at += 2
    if at >= end or not 49 <= byte_at(data, at) <= 50 or (at + 1 < end and is_word(byte_at(data, at + 1))):
        return
    while at < end and byte_at(data, at) != 34:
        at += 1
    at += 1
    stop = at
    while stop < end and stop < at + 16 and byte_at(data, stop) != 34 and byte_at(data, stop) != 92:
        stop += 1
    if stop >= end or byte_at(data, stop) == 34 and stop == at:
        return
    line.shows, line.shown_at, line.shown_size = 1, at - begin, stop - at
