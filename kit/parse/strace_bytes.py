"""Bytes of a capture of strace to ends of lines, numbers and prefixes: what `kit.parse.strace_compiled` is made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kit.compiled import inner, keeping
from kit.compiled_bytes import byte_at, is_at

compiled = keeping(*(str(Path(__file__).parent / f"strace_{name}.py") for name in ("bytes", "compiled", "join")))
NO_CLOCK, EPOCH, OF_DAY = range(3)
NONE = -1


def hash_of(name: str) -> int:
    """FNV-1a of a name, 64 bits, as `hash_at` makes it."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def text_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


_HIGH, _ONES, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (0x80, 0x01, 0x20))
_ONE, _SEVEN, _TOP = np.uint64(1), np.uint64(7), np.uint64(56)
POWERS = 10 ** np.arange(10)
PID, PROCESS = text_of("[pid"), text_of("[Process")


@inner
def is_word(char):
    return 48 <= char <= 57 or 97 <= char <= 122 or 65 <= char <= 90 or char == 95


@inner
def digits(data, at, end):
    """End of the digits that begin at a place."""
    while at < end and 48 <= byte_at(data, at) <= 57:
        at += 1
    return at


@inner
def blanks(data, at, end):
    while at < end and byte_at(data, at) == 32:
        at += 1
    return at


@inner
def number(data, at, end):
    """Value and end of the digits that begin at a place."""
    value = 0
    while at < end and 48 <= byte_at(data, at) <= 57:
        value = value * 10 + (byte_at(data, at) - 48)
        at += 1
    return value, at


@inner
def decimals(data, at, end):
    """End of digits with an optional fraction, or -1."""
    stop = digits(data, at, end)
    if stop == at:
        return -1
    if stop < end and byte_at(data, stop) == 46:
        last = digits(data, stop + 1, end)
        return last if last > stop + 1 else -1
    return stop


@inner
def hash_at(data, at, end):
    value = np.uint64(0xCBF29CE484222325)
    for n in range(at, end):
        value = (value ^ np.uint64(byte_at(data, n))) * np.uint64(0x100000001B3)
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
    while at < end and 32 <= byte_at(data, at) <= 126:
        at += 1
    return at


@inner
def line_end(data, words, at, end):
    """End of a line, and whether it holds nothing but printable ASCII and carriage returns at its end."""
    plain = True
    while True:
        at = _special(data, words, at, end)
        if at >= end:
            return end, plain
        if byte_at(data, at) == 10:
            return at, plain
        if byte_at(data, at) != 13 or (at + 1 < end and byte_at(data, at + 1) != 10 and byte_at(data, at + 1) != 13):
            plain = False
        at += 1


@compiled
def count_lines(data, begin, end):
    """Lines of a stretch, the last one without an end too."""
    lines = 0
    for at in range(begin, end):
        lines += byte_at(data, at) == 10
    return lines + (end > begin and byte_at(data, end - 1) != 10)


@inner
def _comm(data, begin, at, end, line):
    """Take `<name>` of -Y; returns the place behind it, or -1."""
    stop = at + 1
    while stop < end and byte_at(data, stop) != 60 and byte_at(data, stop) != 62:
        stop += 1
    if stop >= end or byte_at(data, stop) != 62:
        return -1
    line.comm_at, line.comm_size = at + 1 - begin, stop - at - 1
    return stop + 1


@inner
def prefix(data, begin, end, line):
    """Read what stands before the call, in strace's order; returns where that begins, -1 for what is not known."""
    at = begin
    if byte_at(data, at) == 91 and is_at(data, at, end, PID):
        at = blanks(data, at + 4, end)
        pid, stop = number(data, at, end)
        if at == begin + 4 or stop == at or stop - at > 7 or stop >= end:
            return -1
        line.pid = pid
        if byte_at(data, stop) == 60:
            stop = _comm(data, begin, stop, end, line)
        if stop < 0 or stop + 1 >= end or byte_at(data, stop) != 93 or byte_at(data, stop + 1) != 32:
            return -1
        at = blanks(data, stop + 1, end)
    else:
        pid, stop = number(data, at, end)
        if at < stop < end and stop - at <= 7 and (byte_at(data, stop) == 32 or byte_at(data, stop) == 60):
            line.pid = pid
            if byte_at(data, stop) == 60:
                stop = _comm(data, begin, stop, end, line)
                if stop < 0 or stop >= end or byte_at(data, stop) != 32:
                    return -1
            at = blanks(data, stop, end)
    if at < end and byte_at(data, at) == 91:
        at = _context(data, at, end)
    if 0 <= at < end and 48 <= byte_at(data, at) <= 57:
        at = _clock(data, at, end, line)
    if 0 <= at < end - 2 and byte_at(data, at) == 40 and byte_at(data, at + 1) == 43:  # (+     0.000041)
        stop = decimals(data, blanks(data, at + 2, end), end)
        if stop < 0 or stop + 1 >= end or byte_at(data, stop) != 41 or byte_at(data, stop + 1) != 32:
            return -1
        at = blanks(data, stop + 1, end)
    if at == begin:
        at = blanks(data, at, end)
    if 0 <= at < end and (48 <= byte_at(data, at) <= 57 or (byte_at(data, begin) == 32 and at < end)):  # a relative time
        stop = decimals(data, at, end)
        if stop < 0 or stop >= end or byte_at(data, stop) != 32 or digits(data, at, end) - at > 8:
            return -1
        at = blanks(data, stop, end)
    return _bracket(data, _bracket(data, at, end, False), end, True)


@inner
def _context(data, at, end):
    """Go past `[context]` of --secontext; a number of a call or an address is none."""
    if at + 1 >= end or is_at(data, at, end, PROCESS):
        return -1
    char = byte_at(data, at + 1)
    if not (97 <= char <= 122 or 65 <= char <= 90 or char == 95):
        return -1 if char == 33 else at
    stop, is_hex = at + 1, True
    while stop < end and byte_at(data, stop) != 93 and byte_at(data, stop) != 32:
        is_hex = is_hex and (48 <= byte_at(data, stop) <= 57 or 97 <= byte_at(data, stop) <= 102)
        stop += 1
    if stop + 1 >= end or byte_at(data, stop) != 93 or byte_at(data, stop + 1) != 32:
        return -1
    if is_hex and 8 <= stop - at - 1 <= 16:
        return at if stop - at - 1 == 8 or stop - at - 1 == 16 else -1
    return blanks(data, stop + 1, end)


@inner
def _bracket(data, at, end, address):
    """Go past `[   3]`, or past `[00007f1f89024e67]`; both have question marks where strace does not know. Else stay."""
    if at < 0 or at + 1 >= end or byte_at(data, at) != 91:
        return at
    first = at + 1 if address else blanks(data, at + 1, end)
    stop, marks = first, first < end and byte_at(data, first) == 63
    while stop < end and (
        byte_at(data, stop) == 63 if marks else 48 <= byte_at(data, stop) <= 57 or (address and 97 <= byte_at(data, stop) <= 102)
    ):
        stop += 1
    fits = 8 <= stop - first <= 16 if address else 1 <= stop - first <= 4
    return (
        blanks(data, stop + 1, end)
        if fits and stop + 1 < end and byte_at(data, stop) == 93 and byte_at(data, stop + 1) == 32
        else at
    )


@inner
def _clock(data, at, end, line):
    """Read a time of day or of the epoch; a shorter number is a relative time and stays."""
    seconds, stop = number(data, at, end)
    if stop - at == 2 and stop < end and byte_at(data, stop) == 58:
        if at + 8 > end or byte_at(data, at + 5) != 58:
            return -1
        for n in (3, 4, 6, 7):
            if not 48 <= byte_at(data, at + n) <= 57:
                return -1
        seconds = seconds * 3600 + number(data, at + 3, at + 5)[0] * 60 + number(data, at + 6, at + 8)[0]
        line.clocked, stop = OF_DAY, at + 8
    elif stop - at >= 9:
        if stop - at > 10 or (stop - at == 10 and not 49 <= byte_at(data, at) <= 56):
            return -1
        line.clocked = EPOCH
    else:
        return at
    part = 0
    if stop < end and byte_at(data, stop) == 46:
        first = stop + 1
        part, stop = number(data, first, min(end, first + 9))
        if stop == first:
            return -1
        part *= POWERS[9 - stop + first]
        stop = digits(data, stop, end)
    if stop >= end or byte_at(data, stop) != 32:
        return -1
    line.clock = seconds * 1_000_000_000 + part
    return blanks(data, stop, end)
