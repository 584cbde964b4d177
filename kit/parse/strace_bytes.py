"""Bytes of a capture of strace to ends of lines, numbers and prefixes: what `kit.parse.strace_compiled` is made of.

Places are addresses in memory (`kit.compiled_vectors`).
"""

from __future__ import annotations

import numpy as np

from kit.compiled import inner, keeping, sources_of
from kit.compiled_vectors import among, byte_at, count_bits, lowest, word_at

compiled = keeping(*sources_of("strace"))
NO_CLOCK, EPOCH, OF_DAY = range(3)
NONE = -1
NEWLINES, NOT_PLAIN = among((10, 10)), among((0, 31), (127, 255))
NOT_WORD, ENDS_VALUE = among((0, 47), (58, 64), (91, 94), (96, 96), (123, 255)), among((32, 32), (60, 60))


def text_of(text: str) -> tuple[int, int, int, int, int]:
    """A text of up to sixteen bytes as two words, with the bits of them that count, for `is_at`."""
    raw, size = text.encode().ljust(16, b"\0"), len(text)
    words = [int.from_bytes(raw[at : at + 8], "little") for at in (0, 8)]
    masks = [-1 if most >= 8 else (1 << 8 * max(0, most)) - 1 for most in (size, size - 8)]
    return size, words[0], masks[0], words[1], masks[1]


@inner
def is_at(at, end, text):
    """Whether a text stands at a place."""
    return at + text[0] <= end and ((word_at(at) ^ text[1]) & text[2]) | ((word_at(at + 8) ^ text[3]) & text[4]) == 0


M1, M2 = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def hash_of(name: str) -> int:
    """Hash of a name, as `hash_at` makes it."""
    raw, value = name.encode(), len(name.encode())
    for at in range(0, len(raw), 8):
        value = (value ^ int.from_bytes(raw[at : at + 8], "little")) * M1 % 2**64
        value = (value ^ value >> 32) * M2 % 2**64
    return value


def table_of(names: frozenset[str]) -> np.ndarray:
    """A table that holds the hash of each name at the place that its bits from the fourth tell."""
    hashes, size = [hash_of(name) for name in names], 64
    while len({value // 8 % size for value in hashes}) < len(hashes):
        size *= 2
    table = np.zeros(size, np.uint64)
    for value in hashes:
        table[value // 8 % size] = value
    return table


_M1, _M2, _HALF = np.uint64(M1), np.uint64(M2), np.uint64(32)


@inner
def hash_at(at, end):
    """Hash of the text between two places."""
    value = np.uint64(end - at)
    while at < end:
        word = word_at(at)
        if end - at < 8:
            word &= (1 << (8 * (end - at))) - 1
        value = (value ^ np.uint64(word)) * _M1
        value = (value ^ (value >> _HALF)) * _M2
        at += 8
    return value


POWERS = 10 ** np.arange(10)
PID, PROCESS = text_of("[pid"), text_of("[Process")


@inner
def is_digit(at):
    return 48 <= byte_at(at) <= 57


@inner
def is_word(char):
    return 48 <= char <= 57 or 97 <= char <= 122 or 65 <= char <= 90 or char == 95


@inner
def word_end(at, end):
    """End of the letters, digits and underscores that begin at a place; there are fewer than 64 of them in any name."""
    return min(end, at + lowest(NOT_WORD(at)))


@inner
def digits(at, end):
    """End of the digits that begin at a place."""
    while at < end and is_digit(at):
        at += 1
    return at


@inner
def blanks(at, end):
    while at < end and byte_at(at) == 32:
        at += 1
    return at


@inner
def number(at, end):
    """Value and end of the digits that begin at a place."""
    value = 0
    while at < end and is_digit(at):
        value = value * 10 + (byte_at(at) - 48)
        at += 1
    return value, at


@inner
def _value(word):
    """Value of eight digits, from those less the character 0."""
    word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FF
    word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFF
    return (word * 10000 + (word >> 32)) & 0xFFFFFFFF


@inner
def short_number(at):
    """Value and count of the up to eight digits that begin at a place, in a line of printable ASCII."""
    word = word_at(at) ^ 0x3030303030303030
    count = lowest((word | (word + 0x0606060606060606)) & -0x0F0F0F0F0F0F0F10) >> 3
    return (_value(word << (64 - 8 * count)), count) if count else (0, 0)


@inner
def eight_digits(word):
    """Value of eight characters that are digits; -1 for any others."""
    word ^= 0x3030303030303030
    return -1 if (word | (word + 0x7676767676767676)) & -0x7F7F7F7F7F7F7F80 else _value(word)


@inner
def decimals(at, end):
    """End of digits with an optional fraction, or -1."""
    stop = digits(at, end)
    if stop == at:
        return -1
    if stop < end and byte_at(stop) == 46:
        last = digits(stop + 1, end)
        return last if last > stop + 1 else -1
    return stop


@inner
def line_end(at, end):
    """End of a line, and whether it holds nothing but printable ASCII and carriage returns at its end."""
    plain = True
    while at < end:
        bits = NOT_PLAIN(at)
        at += lowest(bits)
        if bits == 0 or at >= end:
            continue
        if byte_at(at) == 10:
            return at, plain
        if byte_at(at) != 13 or (at + 1 < end and byte_at(at + 1) != 10 and byte_at(at + 1) != 13):
            plain = False
        at += 1
    return end, plain


@compiled
def count_lines(at, end):
    """Lines of a stretch, the last one without an end too."""
    lines, last = 0, end - 1
    while at + 64 <= end:
        lines += count_bits(NEWLINES(at))
        at += 64
    while at < end:
        lines += byte_at(at) == 10
        at += 1
    return lines + (byte_at(last) != 10)


@inner
def _comm(base, at, end, line):
    """Take `<name>` of -Y; returns the place behind it, or -1."""
    stop = at + 1
    while stop < end and byte_at(stop) != 60 and byte_at(stop) != 62:
        stop += 1
    if stop >= end or byte_at(stop) != 62:
        return -1
    line.comm_at, line.comm_size = at + 1 - base, stop - at - 1
    return stop + 1


@inner
def plain_prefix(at, end, line):
    """Read `PID  SECONDS.MICROSECONDS `, the prefix of most captures; returns the place behind it, or 0 for any other."""
    pid, count = short_number(at)
    stop = at + count
    if not 0 < count < 8 or byte_at(stop) != 32:
        return 0
    while byte_at(stop) == 32:
        stop += 1
    first = byte_at(stop)
    if first == 57 or first == 48 or byte_at(stop + 10) != 46 or byte_at(stop + 17) != 32:
        return 0
    begin, rest = eight_digits(word_at(stop)), eight_digits((word_at(stop + 8) & 0xFFFF) | (word_at(stop + 11) << 16))
    if begin < 0 or rest < 0 or byte_at(stop + 18) <= 57 or byte_at(stop + 18) == 91 or stop + 18 >= end:
        return 0
    line.pid, line.clocked = pid, EPOCH
    line.clock = begin * 100_000_000_000 + rest * 1000
    return stop + 18


@inner
def prefix(base, begin, end, line):
    """Read what stands before the call, in strace's order; returns where that begins, -1 for what is not known."""
    at = begin
    if byte_at(at) == 91 and is_at(at, end, PID):
        at = blanks(at + 4, end)
        pid, stop = number(at, end)
        if at == begin + 4 or stop == at or stop - at > 7 or stop >= end:
            return -1
        line.pid = pid
        if byte_at(stop) == 60:
            stop = _comm(base, stop, end, line)
        if stop < 0 or stop + 1 >= end or byte_at(stop) != 93 or byte_at(stop + 1) != 32:
            return -1
        at = blanks(stop + 1, end)
    else:
        pid, stop = number(at, end)
        if at < stop < end and stop - at <= 7 and (byte_at(stop) == 32 or byte_at(stop) == 60):
            line.pid = pid
            if byte_at(stop) == 60:
                stop = _comm(base, stop, end, line)
                if stop < 0 or stop >= end or byte_at(stop) != 32:
                    return -1
            at = blanks(stop, end)
    if at < end and byte_at(at) == 91:
        at = _context(at, end)
    if 0 <= at < end and is_digit(at):
        at = _clock(at, end, line)
    if 0 <= at < end - 2 and byte_at(at) == 40 and byte_at(at + 1) == 43:  # (+     0.000041)
        stop = decimals(blanks(at + 2, end), end)
        if stop < 0 or stop + 1 >= end or byte_at(stop) != 41 or byte_at(stop + 1) != 32:
            return -1
        at = blanks(stop + 1, end)
    if at == begin:
        at = blanks(at, end)
    if 0 <= at < end and (is_digit(at) or (byte_at(begin) == 32 and at < end)):  # a relative time
        stop = decimals(at, end)
        if stop < 0 or stop >= end or byte_at(stop) != 32 or digits(at, end) - at > 8:
            return -1
        at = blanks(stop, end)
    return _bracket(_bracket(at, end, False), end, True)


@inner
def _context(at, end):
    """Go past `[context]` of --secontext; a number of a call or an address is none."""
    if at + 1 >= end or is_at(at, end, PROCESS):
        return -1
    char = byte_at(at + 1)
    if not (97 <= char <= 122 or 65 <= char <= 90 or char == 95):
        return -1 if char == 33 else at
    stop, is_hex = at + 1, True
    while stop < end and byte_at(stop) != 93 and byte_at(stop) != 32:
        is_hex = is_hex and (is_digit(stop) or 97 <= byte_at(stop) <= 102)
        stop += 1
    if stop + 1 >= end or byte_at(stop) != 93 or byte_at(stop + 1) != 32:
        return -1
    if is_hex and 8 <= stop - at - 1 <= 16:
        return at if stop - at - 1 == 8 or stop - at - 1 == 16 else -1
    return blanks(stop + 1, end)


@inner
def _bracket(at, end, address):
    """Go past `[   3]`, or past `[00007f1f89024e67]`; both have question marks where strace does not know. Else stay."""
    if at < 0 or at + 1 >= end or byte_at(at) != 91:
        return at
    first = at + 1 if address else blanks(at + 1, end)
    stop, marks = first, first < end and byte_at(first) == 63
    while stop < end and (byte_at(stop) == 63 if marks else is_digit(stop) or (address and 97 <= byte_at(stop) <= 102)):
        stop += 1
    fits = 8 <= stop - first <= 16 if address else 1 <= stop - first <= 4
    return blanks(stop + 1, end) if fits and stop + 1 < end and byte_at(stop) == 93 and byte_at(stop + 1) == 32 else at


@inner
def _clock(at, end, line):
    """Read a time of day or of the epoch; a shorter number is a relative time and stays."""
    seconds, stop = number(at, end)
    if stop - at == 2 and stop < end and byte_at(stop) == 58:
        if at + 8 > end or byte_at(at + 5) != 58:
            return -1
        for n in (3, 4, 6, 7):
            if not is_digit(at + n):
                return -1
        seconds = seconds * 3600 + number(at + 3, at + 5)[0] * 60 + number(at + 6, at + 8)[0]
        line.clocked, stop = OF_DAY, at + 8
    elif stop - at >= 9:
        if stop - at > 10 or (stop - at == 10 and not 49 <= byte_at(at) <= 56):
            return -1
        line.clocked = EPOCH
    else:
        return at
    part = 0
    if stop < end and byte_at(stop) == 46:
        first = stop + 1
        part, stop = number(first, min(end, first + 9))
        if stop == first:
            return -1
        part *= POWERS[9 - stop + first]
        stop = digits(stop, end)
    if stop >= end or byte_at(stop) != 32:
        return -1
    line.clock = seconds * 1_000_000_000 + part
    return blanks(stop, end)
