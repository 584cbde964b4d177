"""The compiled pass over JSON lines of log shippers: what `kit.intake.shippers` makes of a line, where that is known of its form.

A record's form is its keys, brackets and literals, and what its strings hold but for the message and the time. Of each form
`kit.intake.shippers` reads a line with care; where the outcome is the time, what always stands behind it, and the message, the
other lines of the form are copied. Lines with anything odd (an escape that is not a sign, a carriage return, several lines in
one, numbers as JSON has none) are handed back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kit.compiled import inner, keeping
from kit.compiled_bytes import HALF, MIX, NEWLINE, ONE, SEED, UNKNOWN, byte_at, find, is_at, number_of, put, table
from kit.compiled_vectors import PAD, among, below, copy, differ, is_ascii, lowest
from kit.compiled_vectors import byte_at as byte_of

compiled = keeping(__file__)

SIZE, MOST, MOST_STRINGS, MOST_DIGITS = 1 << 15, 1 << 13, 64, 18
LONGEST_ADDED, LEVEL_WITHIN, LONGEST_LEARNT, LONGEST_AROUND = 128, 60, 8192, 1024
MESSAGE, TIME, BEFORE, ADDED, EXACT, WIDTH = range(6)
"""Of a form: which of its strings are message and time (-1: none), sizes of what stands before the time and before the message,
and whether numbers in other strings tell forms apart."""
NONE, ODD = UNKNOWN, -2
"""In the place of a form: none is known; its lines are read with care."""
_FIVE, _REST = np.uint64(5), np.uint64(59)
QUOTE, BACKSLASH, ZERO = 34, 92, 48
STOPS, BACKSLASHES, HIGH = (
    among((0, 31), (QUOTE, QUOTE), (BACKSLASH, BACKSLASH)),
    among((BACKSLASH, BACKSLASH)),
    among((127, 255)),
)
FREE, DIGITS = among((1, 1)), among((48, 57))
"""Of sixty-four bytes: what may end a string, backslashes, what is not ASCII; which may be other digits, digits."""
ISO = np.frombuffer(b"2000-00-00T00:00:00", np.uint8)
STATE = 5
LINES, ENDS, TEXT_OK, KEY, FULL = range(STATE)
"""How many lines were written out, whether messages end with their newlines, whether bytes above 127 are UTF-8; of the line to be
read the key (0: it is odd); whether there is no room for another line."""


class Forms(NamedTuple):
    """What is known of the forms of a text's records; the place of a form is the lowest bits of its key, or one after it."""

    keys: np.ndarray
    numbers: np.ndarray
    about: np.ndarray
    texts: np.ndarray
    """By form: what stands before the time, and what stands before the message."""


@inner
def _plus(value, char):
    """The key of a form with one more byte: records that are not of it are written out wrong, so that it is a dearer one."""
    return (((value << _FIVE) | (value >> _REST)) ^ np.uint64(char)) * MIX


@inner
def _hex(char):
    if 48 <= char <= 57:
        return char - 48
    char |= 32
    return char - 87 if 97 <= char <= 102 else -1


@inner
def _is_digit(char):
    return 48 <= char <= 57


@inner
def _escaped(data, at):
    """The sign that an escape stands for, and how long the escape is; -1 where that is no sign of one line."""
    char = np.int64(byte_at(data, at + 1))
    if char == QUOTE or char == BACKSLASH or char == 47:
        return char, 2
    if char == 116:
        return np.int64(9), 2
    if char != 117 or at + 6 > data.size:
        return np.int64(-1), 0
    value = np.int64(0)
    for n in range(at + 2, at + 6):
        digit = _hex(np.int64(byte_at(data, n)))
        if digit < 0:
            return np.int64(-1), 0
        value = value * 16 + digit
    shown = value == 27 or 32 <= value < 127 or 160 <= value < 0xD800 or 0xE000 <= value < 0xFFFE
    return (value if shown and not 0x2028 <= value <= 0x2029 else np.int64(-1)), 6


@inner
def _quote(base, at):
    """Where the quote stands that ends a string; where a control character does, that."""
    while True:
        stops = STOPS(base + at)
        at += lowest(stops)
        if stops:
            char = byte_of(base + at)
            if char != BACKSLASH or byte_of(base + at + 1) < 32:
                return at + (char == BACKSLASH)
            at += 2


@compiled
def scan(data, base, at, strings, exact):
    """Key of the form of a line, and its end; where its values that are strings begin and end goes into `strings`.

    What values hold is not in the key, but whether the first digits, and all with `exact`, of those is. 0 of a line that is odd.
    """
    value, count = SEED, 0
    while byte_at(data, at) != NEWLINE:
        char = byte_at(data, at)
        if char == QUOTE:
            begin, at = at + 1, _quote(base, at + 1)
            if byte_at(data, at) < 32:
                return np.uint64(0), at
            at += 1
            if byte_at(data, at) == 58:  # a colon: it is a key
                for n in range(begin - 1, at):
                    value = _plus(value, byte_at(data, n))
                continue
            if count == MOST_STRINGS:
                return np.uint64(0), at
            strings[count, 0], strings[count, 1] = begin, at - 1
            count += 1
            value = _plus(value, QUOTE)
        elif 48 <= char <= 57:
            begin = at
            while 48 <= byte_at(data, at) <= 57:
                at += 1
            if at - begin > MOST_DIGITS or (char == ZERO and at - begin > 1 and byte_at(data, begin - 1) != 46):
                return np.uint64(0), at
            value = _plus(value, ZERO)
            for n in range(begin, at if exact else begin):
                value = _plus(value, byte_at(data, n))
        elif char < 32 or char > 126:
            return np.uint64(0), at
        else:
            value = _plus(value, char)
            at += 1
    strings[count, 0] = -1
    return (value ^ (value >> HALF)) | ONE, at


@compiled
def values_key(data, strings, message, time, value, exact):
    """Key of a form with what its other strings hold (digits alike unless `exact`), and how its time is written; 0: it is odd."""
    for number in range(MOST_STRINGS):
        begin, end = strings[number]
        if begin < 0:
            break
        if number == message:
            continue
        if number == time and not (byte_at(data, begin) == 50 and byte_at(data, begin + 1) == ZERO):
            return np.uint64(0)
        value = _plus(value, QUOTE)
        for n in range(begin, end):
            char = byte_at(data, n)
            if char > 126 or (char == BACKSLASH and (number == time or byte_at(data, n + 1) == 117)):
                return np.uint64(0)
            value = _plus(value, ZERO if 48 <= char <= 57 and not (exact and number != time) else char)
    return (value ^ (value >> HALF)) | ONE


@inner
def _copied(data, base, at, end, out, room, to, text_ok):
    """Where a message ends that is written out, and whether its newline ends it; -1 where it has several lines."""
    if not (text_ok or is_ascii(base, at, end)):
        return -1, False
    while at < end:
        left = min(lowest(BACKSLASHES(base + at)), end - at)
        copy(base + at, room + to, left)
        at, to = at + left, to + left
        if left == PAD or at >= end:
            continue
        if byte_of(base + at + 1) == 110 and at + 2 == end:
            return to, True
        sign, size = _escaped(data, at)
        if sign < 0:
            return -1, False
        at += size
        if sign < 128:
            out[np.uintp(to)] = sign
        elif sign < 2048:
            out[np.uintp(to)], out[np.uintp(to + 1)] = 192 | sign >> 6, 128 | sign & 63
            to += 1
        else:
            out[np.uintp(to)], out[np.uintp(to + 1)] = 224 | sign >> 12, 128 | sign >> 6 & 63
            out[np.uintp(to + 2)] = 128 | sign & 63
            to += 2
        to += 1
    return to, False


@inner
def _says_level(out, at, end, level):
    """Whether a message says its level itself, or begins with a time; -1 where a sign that is not ASCII is among the first."""
    stamped = end - at >= ISO.size
    for n in range(ISO.size if stamped else 0):
        char, form = byte_at(out, at + n), ISO[n]
        stamped &= 48 <= char <= 57 if form == ZERO and n > 1 else char == form or (n == 10 and char == 32)
    if stamped:
        return 1
    end = min(end, at + LEVEL_WITHIN)
    for n in range(at, end):
        if byte_at(out, n) > 126:
            return -1
        if is_at(out, n, end, level):
            return 1
    return 0


@inner
def _opens_record(out, at, end):
    """Whether a message may be a record itself, or begins with what only Python knows to be a blank."""
    while at < end and (byte_at(out, at) == 32 or 9 <= byte_at(out, at) <= 13):
        at += 1
    return at < end and (byte_at(out, at) == 123 or byte_at(out, at) > 126)


@inner
def _put(out, to, data, begin, end):
    for n in range(begin, end):
        out[np.uintp(to + n - begin)] = byte_at(data, n)
    return to + end - begin


@inner
def _note_digits(data, at, end, strings, message, time, exact, free):
    """Note which bytes around the message of a record may be other digits in a record of its form; False where that is not known.

    Those of other strings may, but for the century of the time, and of numbers all but the first.
    """
    number, quoted, (begin, stop) = 0, False, strings[message]
    if begin - at + end - stop > LONGEST_AROUND:
        return False
    for n in range(at, end):
        place = n - at if n < begin else n - stop + begin - at
        if 0 <= strings[number, 0] <= n < strings[number, 1]:
            if number != message:
                same = n < strings[number, 0] + 2 if number == time else exact
                free[place] = _is_digit(byte_at(data, n)) and not same
            continue
        number += strings[number, 1] == n and strings[number, 0] >= 0
        char = byte_at(data, n)
        if char == BACKSLASH:
            return False
        quoted ^= char == QUOTE
        free[place] = _is_digit(char) and _is_digit(byte_at(data, n - 1)) and not quoted and not exact if n > at else False
    return True


@inner
def _is_like(at, other, size, free):
    """Whether bytes are those of another place, but for digits that may differ."""
    while size > 0:
        if differ(at, other) & below(size) & ~(FREE(free) & DIGITS(at)):
            return False
        at, other, free, size = at + PAD, other + PAD, free + PAD, size - PAD
    return True


@inner
def _form_of(data, base, at, key, state, strings, shapes, forms):
    """Form of a line, and whether numbers in its strings matter; NONE or less where it is to be read with care."""
    state[KEY] = np.int64(key)
    shape = find(shapes.keys, shapes.numbers, key)
    if shape < 0:
        return NONE, False
    about = shapes.about[shape]
    exact = about[EXACT] != 0
    full = scan(data, base, at, strings, np.int64(1))[0] if exact else key
    key = values_key(data, strings, about[MESSAGE], about[TIME], full, exact)
    state[KEY] = np.int64(key)
    return (find(forms.keys, forms.numbers, key) if key else NONE), exact


@compiled
def unwrap(data, at, out, state, strings, free, shapes, forms, places):
    """Write out what lines say, from a place on; gives the begin of the line that is to be read with care, and the end.

    A record that is the one before but for message and digits is of its form. `free`: room for what is known of its bytes;
    `places`: addresses of `data`, `out` and `free`.
    """
    state[FULL], to, (base, room, may_differ) = 0, 0, places
    form, last, head, stop, tail, when, until = NONE, -1, 0, 0, 0, 0, 0  # of the last record that was looked at byte by byte
    while at < data.size:
        state[KEY] = 0
        begin = at + head
        like = last >= 0 and begin < data.size and _is_like(base + at, base + last, head, may_differ)
        end = _quote(base, begin) if like else -1
        if end >= 0 and end + tail <= data.size and _is_like(base + end, base + stop, tail, may_differ + head):
            shift = at - last if when < stop else end - stop
            first, second = when + shift, until + shift
            end += tail - 1
        else:
            key, end = scan(
                data, base, at, strings, np.int64(0)
            )  # a plain 0 is a type of its own, for which it is compiled again
            if byte_at(data, at) != 123 or key == 0:
                break
            form, exact = _form_of(data, base, at, key, state, strings, shapes, forms)
            if form < 0:
                break
            message, time = forms.about[form, MESSAGE], forms.about[form, TIME]
            (begin, stop), (first, second) = strings[message], strings[max(time, 0)]
            known = _note_digits(data, at, end, strings, message, time, exact, free)
            last, head, tail, when, until = at if known else -1, begin - at, end + 1 - stop, first, second
        if to + 2 * LONGEST_ADDED + end - at > out.size:
            state[FULL] = 1
            break
        about, text, line = forms.about[form], forms.texts[form], to
        before, added = about[BEFORE], about[ADDED]
        to = _put(out, to, text, 0, before)
        if about[TIME] >= 0:
            copy(base + first, room + to, second - first)
            to += second - first + 1
            out[np.uintp(to - 1)] = 32
        said = _put(out, to, text, before, before + added)
        close, ends = _copied(data, base, begin, end + 1 - tail, out, room, said, state[TEXT_OK])
        says = _says_level(out, said, close, text[before : before + added - 1]) if added and close >= 0 else 0
        if close < 0 or says < 0 or (state[ENDS] and not ends) or _opens_record(out, said, close):
            state[KEY] = 0
            return at, line
        if says:
            close = _put(out, to, out, said, close)
        state[ENDS] |= ends
        out[np.uintp(close)] = NEWLINE
        to, at = close + 1, end + 1
        state[LINES] += 1
    return at, to


# --- learning --------------------------------------------------------------------------------------------------------------

Read = Callable[[bytes], tuple[str, str, str] | None]
"""Service, time and message of a line; None of one that is no record."""
_PROBE = b"what it says"
_LEVEL = re.compile(r"(?:[A-Z]{4,8} )?")
_NUMBER = re.compile(rb"\d+")
_RUNS = (b"1", b"9" * 10, b"17" * 6, b"17" * 8, b"1" * MOST_DIGITS)
"""Numbers of lengths that tell times: none, seconds, milliseconds, microseconds, nanoseconds of the epoch, and more."""


class _Table:
    """Forms by their keys."""

    def __init__(self) -> None:
        self.used = 0
        self.arrays = Forms(*table(SIZE), np.zeros((MOST, WIDTH), np.int32), np.zeros((MOST, 2 * LONGEST_ADDED), np.uint8))

    def number(self, key: np.uint64) -> int:
        """Number of a form; NONE where it is not known."""
        return int(number_of(self.arrays.keys, self.arrays.numbers, key))

    def put(self, key: np.uint64, form: _Form | None) -> None:
        """Remember a form; None of one whose lines are read with care."""
        put(self.arrays.keys, self.arrays.numbers, key, ODD if form is None else self.used)
        if form is not None:
            before, added = form.before.encode(), form.added.encode()
            text = before + added
            self.arrays.about[self.used] = form.message, form.time, len(before), len(added), form.exact
            self.arrays.texts[self.used, : len(text)] = list(text)
        self.used += form is not None


class _Form(NamedTuple):
    """Which strings of a record are message and time (-1: none), what stands before both, whether numbers elsewhere matter."""

    message: int
    time: int
    before: str
    added: str
    exact: bool


def _form(read: Read, line: bytes, strings: list[tuple[int, int]]) -> _Form | None:
    """What is made of a line, told by lines that differ in one place; None where it is not the time and the message."""

    def changed(number: int, by: bytes) -> bytes:
        begin, end = strings[number]
        return line[:begin] + by + line[end:]

    for message in range(len(strings)):
        got = read(changed(message, _PROBE))
        if got is None or not got[2].endswith(_PROBE.decode()):
            continue
        before, when, said = got
        added = said.removesuffix(_PROBE.decode())
        time = next((at for at, (begin, end) in enumerate(strings) if when and line[begin:end] == when.encode()), NONE)
        longest = max(len(before.encode()) + 3, len(added))
        if not _LEVEL.fullmatch(added) or bool(when) != (time != NONE) or longest > LONGEST_ADDED:
            return None
        if time != NONE:
            other = line[slice(*strings[time])].translate(bytes.maketrans(b"3456789", b"4567893"))
            if (got := read(changed(time, other))) is None or got[1] != other.decode():
                return None
        exact = any(read(one) != (before, when, said) for one in _variants(line, strings, message, time))
        return _Form(message, time, f"{before} | " if before else "", added, exact)
    return None


def _variants(line: bytes, strings: list[tuple[int, int]], message: int, time: int) -> Iterator[bytes]:
    """A line with a probe for its message, and other numbers outside message and time."""
    for digits in (b"0", b"1", b"5", b"9", b"20"):  # the last makes a time of what begins with another century
        for run in _RUNS:
            parts, at = [], 0
            for number, (begin, end) in enumerate(strings):
                parts.append(_NUMBER.sub(run, line[at:begin]))
                other = re.sub(rb"\d" * len(digits), digits, line[begin:end])
                parts.append(_PROBE if number == message else line[begin:end] if number == time else other)
                at = end
            yield b"".join([*parts, _NUMBER.sub(run, line[at:])])


def _padded(lines: bytes) -> np.ndarray:
    """Lines with the end of the last, and behind it bytes that may be looked at."""
    end = b"" if lines.endswith(b"\n") else b"\n"
    return np.frombuffer(b"".join((lines, end, bytes(PAD))), np.uint8)[: len(lines) + len(end)]


class Records:
    """Messages of records by the compiled pass; `read` is how a line is read with care."""

    def __init__(self, read: Read):
        self._read = read
        self._shapes, self._forms = _Table(), _Table()
        self._strings, self._out = np.zeros((MOST_STRINGS + 1, 2), np.int64), np.empty(0, np.uint8)
        self._state, self._free = np.zeros(STATE, np.int64), np.zeros(LONGEST_AROUND + PAD, np.uint8)

    @property
    def ends(self) -> bool:
        """Whether messages end with their newlines: one without goes on in the next."""
        return bool(self._state[ENDS])

    @ends.setter
    def ends(self, value: bool) -> None:
        self._state[ENDS] = value

    def begin(self, block: bytes) -> None:
        """Take a block of whole lines."""
        self._data, self._at = _padded(block), 0
        if self._out.size < self._data.size + (1 << 16):
            self._out = np.empty(self._data.size + (1 << 16), np.uint8)
            self._rooms = self._out.ctypes.data, self._free.ctypes.data
        try:
            self._state[TEXT_OK] = block.isascii() or bool(block.decode())
        except ValueError:
            self._state[TEXT_OK] = 0

    def next(self) -> tuple[bytes, int, bytes | None]:
        """What the next lines say, how many they are, and the line behind them that is to be read with care (None at the end)."""
        self._state[LINES], told, full = 0, [], True
        while full:
            tables = self._strings, self._free, self._shapes.arrays, self._forms.arrays, (self._data.ctypes.data, *self._rooms)
            self._at, to = unwrap(self._data, self._at, self._out, self._state, *tables)
            told.append(self._out[:to].tobytes())
            full = bool(self._state[FULL])
        return b"".join(told), int(self._state[LINES]), self.line()

    def line(self) -> bytes | None:
        """The next line as it is; None at the end of the block."""
        if self._at >= self._data.size:
            return None
        end = self._at + int(np.argmax(self._data[self._at :] == NEWLINE))
        line = self._data[self._at : end].tobytes()
        self._at = end + 1
        return line

    def learn(self, line: bytes) -> None:
        """Learn the form of a line that `next` gave, where it is not odd."""
        data = _padded(line)
        place = data.ctypes.data
        shape = np.uint64(scan(data, place, 0, self._strings, 0)[0] if self._state[KEY] else 0)
        if not shape or max(self._shapes.used, self._forms.used) >= MOST:
            return
        count = int(np.argmax(self._strings[:, 0] < 0))
        kept, known = self._shapes.number(shape), self._strings[:count].tolist()
        if kept == ODD or len(line) > LONGEST_LEARNT:
            return
        form = _form(self._read, line, [(begin, end) for begin, end in known])
        if kept == NONE:
            self._shapes.put(shape, form)
        about = self._shapes.arrays.about[self._shapes.number(shape)]
        if form is None and kept == NONE:
            return
        exact = bool(about[EXACT])
        scanned = np.uint64(scan(data, place, 0, self._strings, int(exact))[0])
        key = np.uint64(values_key(data, self._strings, about[MESSAGE], about[TIME], scanned, exact))
        if key and self._forms.number(key) == NONE:
            same = form is not None and (form.message, form.time) == tuple(about[:BEFORE].tolist()) and form.exact <= exact
            self._forms.put(key, form if same else None)
