"""The compiled pass over a capture of strace: lines to tokens.

It reads what strace prints on a line of its own, in printable ASCII: whole calls, the halves of split calls, signals, ends,
stacks. Every other line it marks `ODD`, and the careful reader takes it (`kit.parse.strace_events`). So each rule here may be
narrower than the careful reader's, never wider; tests hold both equal. Nothing is allocated, and the interpreter's lock is not
held, so chunks run in threads.

Only `kit.parse.strace_table` imports this: it needs numba.
"""

from __future__ import annotations

import numpy as np

from kit.compiled_vectors import among, byte_at, lowest, word_at
from kit.parse.strace_bytes import (
    ENDS_VALUE,
    NO_CLOCK,
    NONE,
    blanks,
    compiled,
    decimals,
    digits,
    eight_digits,
    hash_at,
    hash_of,
    inner,
    is_at,
    is_digit,
    is_word,
    line_end,
    number,
    plain_prefix,
    prefix,
    table_of,
    text_of,
    word_end,
)
from kit.parse.strace_rows import FD_FIRST
from kit.parse.text import LINE_LIMIT

ODD, BLANK, STACK, DUMP, DONE, UNFINISHED, RESUMED, SIGNAL, GONE = range(9)
"""Kinds of lines. GONE is `+++ exited` and `+++ killed`."""

LINE = np.dtype(
    [("clock", "i8"), ("duration", "f8"), ("name", "u8")]
    + [
        (name, "i4")
        for name in "at size pid fd comm_at comm_size name_at name_size args_at args_size result_at result_size ret_size "
        "errno_size shown_at shown_size stack_at stack_size".split()
    ]
    + [(name, "u1") for name in "kind clocked fd_ends_args shows unknown".split()],
    align=True,
)
"""Tokens of a line: places count from the begin of the chunk, a size of -1 says that there is none. `name` is the hash of the
call's name; `shown` what an unfinished write to the terminal begins with; `stack` the lines of a stack that follow. `unknown`:
the result is a question mark; to look at the text again would take longer than all else that joins calls."""


RESUMED_END, UNFINISHED_MARK, DETACHED_MARK = text_of(" resumed>"), text_of("<unfinished ...>"), text_of("<detached ...>")
CHANGED_MARK, RESUMING, RESUMING_END = text_of("<pid changed to "), text_of("<... "), text_of(" ...>")
STRACE, STRACE_COLON = text_of("strace: "), 6
EXITED, KILLED, ENDED, CORE = text_of("+++ exited with "), text_of("+++ killed by "), text_of(" +++"), text_of(" (core dumped)")
SIGNALLED, SIGNAL_END = text_of("--- SIG"), text_of(" ---")
FD_LABELS = (text_of("fd="), text_of("sockfd="), text_of("epfd="), text_of("dfd="))
BUF, COUNT, MORE, NEXT = text_of("buf="), text_of("count="), text_of("..."), text_of(", ")
WRITE, EXECVE = np.uint64(hash_of("write")), np.uint64(hash_of("execve"))
HAS_DESCRIPTOR = table_of(FD_FIRST)
"""Hashes of the calls whose first argument is a descriptor."""
LOW_BITS = np.uint64(8 * HAS_DESCRIPTOR.size - 8)
QUOTES = among((34, 34))
OF_ARGUMENTS = among((34, 34), (40, 41), (47, 47), (58, 58), (60, 60), (94, 94))
"""What tells where arguments end: quotes, brackets, `/` of a comment, `:` of strace's own messages, `<`, `^`."""
OF_ANGLE = among((34, 34), (60, 60), (62, 62), (91, 93))


# --- a line ----------------------------------------------------------------------------------------------------------


@compiled
def scan(base, begin, end, lines, names):
    """Read the lines of a stretch into tokens; returns how many there were. The stretch begins and ends with lines.

    `names`: where `HAS_DESCRIPTOR` lies.
    """
    at, n, end = base + begin, 0, base + end
    while at < end:
        stop, plain = line_end(at, end)
        line = lines[n]
        line.at, line.size, line.kind = at - base, stop - at, ODD
        last = stop
        while last > at and byte_at(last - 1) == 13:
            last -= 1
        if plain and last - at <= LINE_LIMIT:
            _read(base, at, last, line, names)
        at, n = stop + 1, n + 1
    return n


@inner
def _read(base, begin, end, line, names):
    line.comm_size, line.fd, line.fd_ends_args, line.shows, line.stack_size = NONE, NONE, 0, 0, 0
    at = plain_prefix(begin, end, line)
    if not at:
        at = _other_prefix(base, begin, end, line)
        if at < 0 or at >= end:
            return
    char = byte_at(at)
    if 97 <= char <= 122 or char == 95:
        _call(base, at, end, line, names)
    elif char == 60:
        _resumed(base, at, end, line, names)
    elif char == 43:
        line.args_at, line.args_size = at - base, end - at
        line.kind = GONE if _is_end(at, end) else ODD
    elif char == 45 and is_at(at, end, SIGNALLED):
        line.args_at, line.args_size = at - base, end - at
        first = at + SIGNALLED[0]
        stop = word_end(first, end)
        if stop > first and is_at(end - 4, end, SIGNAL_END) and byte_at(stop) == 32 and stop <= end - 4:
            line.kind = SIGNAL


@inner
def _other_prefix(base, begin, end, line):
    """Read what stands before a call in any form; -1 for a line that is no call, or that the careful reader takes."""
    at = blanks(begin, end)
    if at == end:
        line.kind = BLANK
        return -1
    if at == begin + 1 and at + 2 < end and byte_at(at + 1) == 32:
        if byte_at(at) == 62 and byte_at(at + 2) != 32:  # " > library(function) [address]"
            line.kind = STACK
        elif byte_at(at) == 124:  # " | 00000  68 65 6c …"
            stop = at + 2
            while stop < end and (is_digit(stop) or 97 <= byte_at(stop) <= 102):
                stop += 1
            if stop - at >= 7 and stop + 1 < end and byte_at(stop) == 32 and byte_at(stop + 1) == 32:
                line.kind = DUMP
        if line.kind != ODD:
            return -1
    line.pid, line.clocked = NONE, NO_CLOCK
    return prefix(base, begin, end, line)


@inner
def _is_end(at, end):
    """`+++ exited with 0 +++`, `+++ killed by SIGSEGV (core dumped) +++`."""
    if end - at < 8 or not is_at(end - 4, end, ENDED):
        return False
    if is_at(at, end, EXITED):
        begin = at + EXITED[0]
        begin += byte_at(begin) == 45
        return begin < end - 4 <= begin + 10 and digits(begin, end - 4) == end - 4
    if is_at(at, end, KILLED):
        stop = word_end(at + KILLED[0], end - 4)
        return stop > at + KILLED[0] and (stop == end - 4 or (is_at(stop, end, CORE) and stop + CORE[0] == end - 4))
    return False


@inner
def _call(base, at, end, line, names):
    """Read a whole call, or its first half."""
    stop = word_end(at, end)
    if stop >= end or byte_at(stop) != 40:
        return
    name = hash_at(at, stop)
    line.name, line.name_at, line.name_size = name, at - base, stop - at
    first = stop + 1
    kind, stop, after = _arguments(first, end)
    if kind == ODD or (kind == UNFINISHED and after != end) or (name == WRITE and not _is_plain_write(first, stop)):
        return
    if kind == DONE and not _result(base, after, end, line):
        return
    if kind == UNFINISHED and name == WRITE:
        _shown(base, first, stop, line)
    line.args_at, line.args_size = first - base, stop - first
    if np.uint64(word_at(names + np.int64(name & LOW_BITS))) == name:
        _descriptor(first, stop, line)
    line.kind = kind


@inner
def _resumed(base, at, end, line, names):
    """Read `<... name resumed>` and what follows: the second half of a call."""
    if not is_at(at, end, RESUMING):
        return
    first = at + RESUMING[0]
    stop = word_end(first, end)
    if stop == first or not is_at(stop, end, RESUMED_END):
        return
    name = hash_at(first, stop)
    line.name, line.name_at, line.name_size = name, first - base, stop - first
    first = stop + RESUMED_END[0]
    if (
        first + 1 < end
        and byte_at(first) == 32
        and byte_at(first + 1) != 60
        and not (byte_at(first + 1) == 61 and byte_at(first + 2) == 62)
    ):
        first += 1  # before strace 5.0
    kind, stop, after = _arguments(first, end)
    if kind != DONE or not _result(base, after, end, line):
        return
    line.args_at, line.args_size = first - base, stop - first
    if np.uint64(word_at(names + np.int64(name & LOW_BITS))) == name:
        _descriptor(first, stop, line)
    line.kind = RESUMED


@inner
def _string(at, end):
    """Go past a string: to behind the next quote that has no odd number of backslashes before it."""
    first = place = at + 1
    while place < end:
        bits = QUOTES(place)
        at = place + lowest(bits)
        while bits and at < end:
            before = at - 1
            while before >= first and byte_at(before) == 92:
                before -= 1
            if (at - before) & 1:
                return at + 1
            bits &= bits - 1
            at = place + lowest(bits)
        place += 64
    return end


@inner
def _angle(at, end):
    """Go past `<…>` after a descriptor or pid; -1 where it does not end."""
    angles, squares, place = 1, 0, at + 1
    bits = OF_ANGLE(place)
    while True:
        while not bits:
            place += 64
            if place >= end:
                return -1
            bits = OF_ANGLE(place)
        at = place + lowest(bits)
        bits &= bits - 1
        if at >= end:
            return -1
        char = byte_at(at)
        if char == 62:
            if squares and byte_at(at - 1) == 45:
                continue
            angles -= 1
            if not angles:
                return at + 1
        elif char == 60:
            angles += 1
        elif char == 91:
            squares += 1
        elif char == 93:
            squares = max(0, squares - 1)
        else:
            place = at + 2 if char == 92 else _string(at, end)
            bits = OF_ANGLE(place)


@inner
def _arguments(first, end):
    """End of a call's arguments: the kind of the line, where they end, where the rest begins (`strace_scan.scan` in full)."""
    place, depth, bits = first, 0, OF_ARGUMENTS(first)
    while True:
        while not bits:
            place += 64
            if place >= end:
                return ODD, end, end
            bits = OF_ARGUMENTS(place)
        at = place + lowest(bits)
        if at >= end:
            return ODD, end, end
        bits &= bits - 1
        char, beyond = byte_at(at), at + 1
        if char == 34:
            beyond = _string(at, end)
        elif char == 40:
            depth += 1
        elif char == 41:
            if not depth:
                return DONE, at, at + 1
            depth -= 1
        elif char == 60:
            before = byte_at(at - 1) if at > first else 32
            if is_at(at, end, UNFINISHED_MARK):
                stop, after = at - (at > first and before == 32), at + UNFINISHED_MARK[0]
                if 48 <= before <= 57 or before == 68:
                    return ODD, at, at
                if after < end and byte_at(after) == 41:
                    return DONE, stop, after + 1
                return UNFINISHED if not depth else ODD, stop, after
            following = byte_at(at + 1) if at + 1 < end else 32
            if following == 46 and at == first and is_at(at, end, RESUMING):  # <... resuming interrupted read ...>
                beyond = at + RESUMING[0] - 1
                while beyond < end and not is_at(beyond, end, RESUMING_END):
                    beyond += 1
                beyond += RESUMING_END[0]
            elif following == 46 or is_at(at, end, DETACHED_MARK) or is_at(at, end, CHANGED_MARK):
                return ODD, at, at
            elif following != 60 and before != 60 and (is_word(before) or before == 47 or before == 41):
                beyond = _angle(at, end)
                if beyond < 0:
                    return ODD, end, end
        elif char == 47:
            if at + 1 >= end or byte_at(at + 1) != 42:
                return ODD, at, at
            beyond = at + 2
            while beyond + 1 < end and not (byte_at(beyond) == 42 and byte_at(beyond + 1) == 47):
                beyond += 1
            beyond += 2
        elif char == 94 or (at - STRACE_COLON >= first and is_at(at - STRACE_COLON, end, STRACE)):
            return ODD, at, at
        if beyond >= place + 64:
            place, bits = beyond, OF_ARGUMENTS(beyond)
        else:
            bits &= -1 << (beyond - place)


@inner
def _result(base, at, end, line):
    """Read ` = value … <duration>`; False for anything else."""
    while end > at and byte_at(end - 1) == 32:
        end -= 1
    at = blanks(at, end)
    if at + 2 >= end or byte_at(at) != 61 or byte_at(at + 1) != 32:
        return False
    at += 2
    char = byte_at(at)
    if not (48 <= char <= 57 or char == 63 or (char == 45 and at + 1 < end and 48 <= byte_at(at + 1) <= 57)):
        return False
    line.duration = np.nan
    if byte_at(end - 1) == 62:
        word = word_at(end - 9)
        micro = eight_digits((word & -0x10000) | ((word & 0xFF) << 8) | 48)  # without the point
        if micro >= 0 and byte_at(end - 8) == 46 and byte_at(end - 10) == 60 and byte_at(end - 11) == 32:
            if end - 11 <= at:
                return False
            line.duration = np.float64(micro) / 1e6
            end -= 11
        else:
            end = _long_duration(at, end, line)
            if end < 0:
                return False
    stop = min(end, at + lowest(ENDS_VALUE(at)))
    if stop == at + 64:
        return False
    line.result_at, line.result_size, line.ret_size, line.errno_size = at - base, end - at, stop - at, NONE
    line.unknown = unknown = char == 63 and stop == at + 1
    if (unknown or (char == 45 and byte_at(at + 1) == 49 and stop == at + 2)) and stop + 2 < end and byte_at(stop + 1) == 69:
        last = stop + 2
        while last < end and (65 <= byte_at(last) <= 90 or 48 <= byte_at(last) <= 57 or byte_at(last) == 95):
            last += 1
        if last > stop + 2 and not (last < end and is_word(byte_at(last))):
            line.errno_size = last - stop - 1
    return True


@inner
def _long_duration(at, end, line):
    """Read ` <duration>` in any form; returns where the result ends before it, -1 for what is left to the careful reader."""
    stop = end - 2
    while stop > at and (is_digit(stop) or byte_at(stop) == 46):
        stop -= 1
    if byte_at(stop) != 60 or byte_at(stop - 1) != 32 or stop - 1 <= at or decimals(stop + 1, end - 1) != end - 1:
        return end
    if end - stop > 16 or digits(stop + 1, end) - stop > 11:
        return -1
    value, scale, scales = 0, 1, False
    for n in range(stop + 1, end - 1):
        if byte_at(n) == 46:
            scales = True
        else:
            value = value * 10 + (byte_at(n) - 48)
            scale = scale * 10 if scales else scale
    line.duration = np.float64(value) / np.float64(scale)
    return stop - 1


@inner
def _descriptor(at, end, line):
    """Read the first argument as a descriptor, as `kit.parse.strace._FD` does."""
    if at < end and byte_at(at) > 57:
        for label in FD_LABELS:
            if is_at(at, end, label):
                at += label[0]
                break
    value, stop = number(at, end)
    line.fd_ends_args = stop == end
    if at < stop < at + 10 and (stop == end or byte_at(stop) == 60 or byte_at(stop) == 44 or byte_at(stop) == 32):
        line.fd = value


# --- what a write puts on a terminal -------------------------------------------------------------------------------------


@inner
def _unescaped(at, end):
    """Go past a string, and count its characters."""
    at, size = at + 1, 0
    while at < end and byte_at(at) != 34:
        if byte_at(at) == 92:
            at += 1
            if at < end and byte_at(at) == 120:
                most = at + 3
                at += 1
                while at < min(most, end) and (is_digit(at) or 97 <= byte_at(at) <= 102):
                    at += 1
                size += 1
                continue
            most = at + 3
            if at < end and 48 <= byte_at(at) <= 55:
                while at < min(most, end) and 48 <= byte_at(at) <= 55:
                    at += 1
                size += 1
                continue
        at += 1
        size += 1
    return at + 1, size


@inner
def _is_plain_write(at, end):
    """Whether no output of the program stands among a write's arguments: it would come after the third."""
    if is_at(at, end, FD_LABELS[0]):
        at += 3
    if at + 1 < end and byte_at(at) == 48 and byte_at(at + 1) == 120:
        at += 2
    at = digits(at, end)
    if at < end and byte_at(at) == 60:
        while at < end and byte_at(at) != 62:
            at += 1
        at += 1
    if not is_at(at, end, NEXT):
        return True
    at += 2
    if is_at(at, end, BUF):
        at += BUF[0]
    if at >= end or byte_at(at) != 34:
        return True
    at, size = _unescaped(at, end)
    more = is_at(at, end, MORE)
    at += MORE[0] if more else 0
    if not is_at(at, end, NEXT):
        return True
    at += 2
    if is_at(at, end, COUNT):
        at += COUNT[0]
    if at + 1 < end and byte_at(at) == 48 and byte_at(at + 1) == 120 and at + 2 < end:
        return digits(at + 2, end) == end
    value, stop = number(at, end)
    return stop == end and end - at < 10 and (at == end or more or value == size)


@inner
def _shown(base, at, end, line):
    """Note what an unfinished write to descriptor 1 or 2 begins with: it may turn up within another thread's call."""
    if is_at(at, end, FD_LABELS[0]):
        at += 3
    if at + 1 < end and byte_at(at) == 48 and byte_at(at + 1) == 120:
        at += 2
    if at >= end or not 49 <= byte_at(at) <= 50 or (at + 1 < end and is_word(byte_at(at + 1))):
        return
    while at < end and byte_at(at) != 34:
        at += 1
    at += 1
    stop = at
    while stop < end and stop < at + 16 and byte_at(stop) != 34 and byte_at(stop) != 92:
        stop += 1
    if stop >= end or byte_at(stop) == 34 and stop == at:
        return
    line.shows, line.shown_at, line.shown_size = 1, at - base, stop - at
