"""The pass over a large log: each line to its shape, those of a known one counted. `kit.parse.log_table` holds the tables.

It decides nothing: what a shape means, and that its lines move nothing, `kit.parse.log_shapes` says. It stops at every line that
has to be read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kit.compiled import inner, keeping, sources_of
from kit.compiled_bytes import HALF, MIX, ONE, SEED, STEP, UNKNOWN, byte_at, find, is_at, mixed, plus, put
from kit.compiled_vectors import PAD, among, below, count_bits, differ, equal, lowest, nth, press, word_at
from kit.compiled_vectors import byte_at as byte_of

compiled = keeping(*sources_of("log"))

READ = -2
"""In the place of a shape's number: the line has to be read, or told by its finer shape."""
COARSE, FINE, BEGIN = range(3)
"""What a line was looked up by: its shape, that with what zeros and statuses are, how it begins."""
NONE, SOME, ANY = range(3)
"""Open tracebacks that go on in lines of their own writer only, or in lines that name no process too."""
LONGEST_STAMP = 64

CLASS = np.dtype(
    [("count", "i8"), ("kind", "i4"), ("head", "i4"), ("about", "i4"), ("named", "u1"), ("moving", "u1")], align=True
)
HEAD = np.dtype(
    [(name, "i8") for name in ("number", "at", "end", "shape")]
    + [(name, "i4") for name in ("stamps", "size", "first_size", "writer", "before", "last")],
    align=True,
)
"""Of a head's latest line the number (0: none since it was told), where it lies, its shape; sizes of its stamps; who wrote its
last line, how many bytes stand before the message there, and whether that is the latest line, too."""
STATE = 14
"""How many numbers go from call to call: lines so far, lines counted, of the last that is progress its number, where it lies and
its shape, of the last with a stamp the same, of the line to be read how it was looked up, its key and its end, and operations
whose last line is kept."""
NUMBER, SKIPPED, MOVED, _, _, _, STAMPED, _, _, _, HOW, KEY, STOP, LATEST = range(STATE)


class Tables(NamedTuple):
    """What is known of a log's shapes; places in the tables of keys are the lowest bits of a key, and those after it."""

    keep: np.ndarray
    """By byte: 1 where it is in a shape, else 0."""
    keys: np.ndarray
    shapes: np.ndarray
    classes: np.ndarray
    heads: np.ndarray
    spans: np.ndarray
    """By head: kept bytes before each stamp, and before what follows it; last, how many it has."""
    stamps: np.ndarray
    firsts: np.ndarray
    """By head: its latest and its earliest stamps; last in `stamps`, those of the line that is looked at."""
    befores: np.ndarray
    stamped: np.ndarray
    """By head: what stands before the message of its last line, and which bytes of that are of stamps."""
    writer_keys: np.ndarray
    writer_numbers: np.ndarray
    blocked: np.ndarray
    """By writer: a traceback of it is open."""
    begin_sizes: np.ndarray
    begin_lasts: np.ndarray
    """Sizes that begins have in a shape, ascending; by size, which lowest 6 bits their last bytes have."""
    begin_keys: np.ndarray
    begin_numbers: np.ndarray
    begins: np.ndarray
    """By begin: its shape."""
    sign_firsts: np.ndarray
    sign_seconds: np.ndarray
    """By byte: in which groups of signs one has it as its first byte, as its second."""
    pairs: np.ndarray
    """By the first two bytes of a sign: the first such, from 1."""
    signs: np.ndarray
    sign_sizes: np.ndarray
    sign_next: np.ndarray
    telling: np.ndarray
    """By begin and sign: whether the sign behind the begin says that the line has to be read."""
    whose_keys: np.ndarray
    whose_numbers: np.ndarray
    whose_lines: np.ndarray
    """Number, shape and size of the last line of each operation."""
    whose_texts: np.ndarray
    parts: np.ndarray
    """Texts that an operation stands behind, with their sizes first."""
    kinds: np.ndarray
    state: np.ndarray


FINE_SEED, LOW, BYTE = (np.uint64(value) for value in (0x13198A2E03707344, 63, 8))
ZERO = 2
"""What stands in a fine shape for a number that is zero, as in `log_shapes.fine_shape_of`."""
NEWLINES, DROPPED_ONES, ONES = among((10, 10)), among((48, 57), (97, 102)), among((1, 1))
ZEROS, OF_WORDS = among((48, 48)), among((46, 46), (48, 57), (65, 90), (95, 95), (97, 122))
"""Of sixty-four bytes: newlines, what is in no shape (`log_shapes.DROPPED`), ones; zeros, and what no zero of its own stands
behind."""
HTTP, NCCL = np.frombuffer(b"HTTP/1.", np.uint8), np.frombuffer(b"NCCL", np.uint8)


@inner
def place_of(data, base, at, end, text):
    """Where a text of two bytes or more stands first; -1 where it does not."""
    while at + text.size <= end:
        found = equal(base + at, text[0]) & equal(base + at + 1, text[1])
        while found:
            place = at + lowest(found)
            if is_at(data, place, end, text):
                return place
            found &= found - 1
        at += PAD
    return -1


@inner
def is_word(char):
    return 48 <= char <= 57 or 97 <= char <= 122 or 65 <= char <= 90 or char == 95


@compiled
def key_of(words, size):
    """Key of a shape that lies in words of eight bytes."""
    value = SEED ^ (np.uint64(size) * MIX)
    for n in range(size >> 3):
        value = (value ^ words[np.uintp(n)]) * MIX
        value ^= value >> HALF
    rest = np.uint64(size & 7) * BYTE
    if rest:
        value = (value ^ (words[np.uintp(size >> 3)] & ((ONE << rest) - ONE))) * MIX
        value ^= value >> HALF
    return value


@inner
def _zero_end(data, at, begin, end):
    """End of a number that is zero and stands alone; `at` where there is none."""
    if at > begin and (is_word(byte_at(data, at - 1)) or byte_at(data, at - 1) == 46):
        return at
    stop = at + 1
    if stop + 1 < end and byte_at(data, stop) == 46 and byte_at(data, stop + 1) == 48:
        stop += 2
        while stop < end and byte_at(data, stop) == 48:
            stop += 1
    if stop < end and (is_word(byte_at(data, stop)) or byte_at(data, stop) == 46):
        return at
    return stop


@inner
def _zeros_key(data, base, at, end, kept, room, words):
    """Key of a line that tells which of its numbers are zero (`log_shapes.fine_shape_of`)."""
    size, begin = 0, at
    while at < end:
        behind = OF_WORDS(base + at - 1) & ~np.int64(at == begin)
        left = min(lowest(ZEROS(base + at) & ~behind), end - at)
        keeps = ~DROPPED_ONES(base + at) & below(left)
        press(base + at, keeps, room + size)
        size, at = size + count_bits(keeps), at + left
        if left < PAD and at < end:
            stop = _zero_end(data, at, begin, end)
            if stop > at:
                kept[np.uintp(size)] = ZERO
                size += 1
            at = max(stop, at + 1)
    return key_of(words, size) ^ FINE_SEED


@inner
def _free_end(data, base, at, begin, t):
    """End of a line from behind its begin; -1 where a text stands there that tells."""
    stop, left = at, PAD
    while left == PAD:
        left = lowest(NEWLINES(base + stop))
        stop += left
    while at < stop:
        found = np.uint8(0)
        for n in range(STEP):  # looked at in one go; most hold none
            found |= t.sign_firsts[byte_of(base + at + n)] & t.sign_seconds[byte_of(base + at + n + 1)]
        for n in range(STEP if found else 0):
            sign = np.int64(t.pairs[byte_of(base + at + n) << 8 | byte_of(base + at + n + 1)])
            while sign:
                if t.telling[begin, sign] and is_at(data, at + n, stop, t.signs[sign, : t.sign_sizes[sign]]):
                    return -1
                sign = np.int64(t.sign_next[sign])
        at += STEP
    return stop


@compiled
def writer_key(data, at, head, keep, spans, stamp, before, stamped):
    """Key of what stands before a message, its stamps left out; the stamps go into `stamp`, all of it into `before`.

    Gives their sizes, too: 0 for one that `before` has no room for.
    """
    kept, size, most, begin, room = 0, 0, spans[-1], at, before.size
    value = np.uint64(head) * MIX
    for span in range(0, spans.size - 1, 2):
        first, last = min(spans[span], most), min(spans[span + 1], most)
        while kept < first:
            char = byte_at(data, at)
            value = plus(value, np.uint64(char) + MIX)
            if at - begin < room:
                before[at - begin], stamped[at - begin] = char, 0
            kept += keep[char]
            at += 1
        if kept == most:
            break
        char = byte_at(data, at)
        while kept < last or not keep[char]:
            if size < LONGEST_STAMP:
                stamp[size] = char
                size += 1
            if at - begin < room:
                before[at - begin], stamped[at - begin] = char, 1
            kept += keep[char]
            at += 1
            char = byte_at(data, at)
    return mixed(value), size, at - begin if at - begin <= room else 0


@inner
def _text_key(value, at, end):
    """Key of a text at an address, which goes on from another."""
    while at < end:
        value = (value ^ (np.uint64(word_at(at)) & np.uint64(below(8 * (end - at))))) * MIX
        value ^= value >> HALF
        at += 8
    return value


@compiled
def whose_key(data, base, at, end, part):
    """Key of who wrote a line, and of what it is about, which stands behind a text; 0 where it does not (`log_shapes.LATEST`)."""
    stop = place_of(data, base, at, end, part)
    last = place_of(data, base, at, stop, NCCL) if stop >= 0 else -1
    if last < 0:
        return np.uint64(0)
    begin = stop + part.size
    stop = begin
    while stop < end and byte_at(data, stop) != 32:
        stop += 1
    about = SEED ^ (np.uint64(last - at) << HALF) ^ np.uint64(stop - begin)
    return mixed(_text_key(_text_key(about, base + at, base + last), base + begin, base + stop)) | ONE


@compiled
def is_before(stamp, size, other, other_size):
    """Whether a stamp sorts before another of its form, as text."""
    n = 0
    while n < size and n < other_size and stamp[n] == other[n]:
        n += 1
    return size < other_size if n == size or n == other_size else stamp[n] < other[n]


@inner
def _remember(state, what, at, end, shape):
    """Note the line as the last of something."""
    state[what], state[what + 1], state[what + 2], state[what + 3] = state[NUMBER] + 1, at, end, shape


@inner
def _is_latest(data, base, at, end, shape, t):
    """Keep the last line of an operation; 1 where one was there before, 0 where it is the first, -1 where it cannot be kept."""
    state, part = t.state, t.parts[t.classes[shape].about]
    key = whose_key(data, base, at, end, part[1 : 1 + part[0]])
    if not key or end - at > t.whose_texts.shape[1]:
        return -1
    number = find(t.whose_keys, t.whose_numbers, key)
    if number == UNKNOWN:
        number = state[LATEST]
        if number >= t.whose_texts.shape[0]:
            return -1
        state[LATEST] += 1
        put(t.whose_keys, t.whose_numbers, key, number)
    line, text = t.whose_lines[number], t.whose_texts[number]
    first = line[2] == 0
    line[0], line[1], line[2] = state[NUMBER] + 1, shape, end - at
    for n in range(end - at):
        text[n] = byte_at(data, at + n)
    return 0 if first else 1


@inner
def _is_blank(data, at, end):
    while at < end and (byte_at(data, at) == 32 or 9 <= byte_at(data, at) <= 13):
        at += 1
    return at == end


@inner
def _status(data, base, begin, end):
    """First digit of the status behind the last protocol of a line; 0 where there is none."""
    status, end = np.int64(0), end - 10
    while begin < end and not status:
        at = max(begin, end - PAD)
        found = equal(base + at, HTTP[0]) & equal(base + at + 1, HTTP[1]) & below(end - at)
        while found:
            if is_at(data, at + lowest(found), end + 6, HTTP):
                status = byte_of(base + at + lowest(found) + 10)
            found &= found - 1
        end = at
    return status


@inner
def _order(at, size, before, stamped):
    """How a line stands to the last of its head: 0 begins in the same way, 1 with later stamps, -1 earlier, or in another way."""
    order, end = 0 if size else -1, at + size
    while at < end and order >= 0:
        others = differ(at, before) & below(end - at)
        if others & ~(ONES(stamped) & DROPPED_ONES(at) & DROPPED_ONES(before)):
            order = -1
        elif others and not order:
            first = lowest(others)
            order = 1 if byte_of(at + first) > byte_of(before + first) else -1
        at, before, stamped = at + PAD, before + PAD, stamped + PAD
    return order


@inner
def _begin(data, at, head, number, keep, spans, stamp, befores, stamped, stamps):
    """Take a line as the last of its head, whose latest stamps are kept before; gives the size of its stamps, and its writer."""
    if head.last:
        head.size = head.last = 0
        for n in range(head.before):
            if stamped[number, n] and head.size < LONGEST_STAMP:
                stamps[number, head.size] = befores[number, n]
                head.size += 1
    writer, size, head.before = writer_key(data, at, number, keep, spans[number], stamp, befores[number], stamped[number])
    return size, writer


@inner
def _note_time(data, at, end, shape, order, head, number, state, stamp, size, befores, stamps):
    """Remember a line as the last that begins with its time, and as the latest of its head if it is that."""
    if head.stamps:
        _remember(state, STAMPED, at, end, shape)
    if order > 0:
        for n in range(head.before):
            befores[number, n] = byte_at(data, at + n)
    elif order < 0:
        if is_before(stamp, size, stamps[number], head.size):
            return
        for n in range(size):  # an assignment of slices makes a message of their shapes, a second to compile
            stamps[number, n] = stamp[n]
        head.size, head.last = size, 1 if head.before else 0
    if head.stamps:
        head.number, head.at, head.end, head.shape = state[NUMBER] + 1, at, end, shape


@inner
def _fine_key(data, base, at, end, key, kept, room, words):
    """Key of a line that tells its status by the first digit, or which of its numbers are zero."""
    status = _status(data, base, at, end)
    return mixed(plus(key, np.uint64(status) * MIX)) if status else _zeros_key(data, base, at, end, kept, room, words)


@inner
def _look_up(data, at, t, kept, words, base, room):
    """Where a line ends, by what it was looked up, its key, its shape's number."""
    stop, size, tried, left = at, 0, 0, PAD
    while left == PAD:
        left, before = lowest(NEWLINES(base + stop)), size
        keeps = ~DROPPED_ONES(base + stop) & below(left)
        press(base + stop, keeps, room + size)
        size += count_bits(keeps)
        while t.begin_sizes[tried] <= size:
            most, begin = t.begin_sizes[tried], UNKNOWN
            if (t.begin_lasts[tried] >> (np.uint64(byte_at(kept, most - 1)) & LOW)) & ONE:
                begin = find(t.begin_keys, t.begin_numbers, key_of(words, most))
            if begin != UNKNOWN:
                end = _free_end(data, base, stop + nth(keeps, most - before) + 1, begin, t)
                if end >= 0:
                    return end, BEGIN, np.uint64(begin), t.begins[begin]
            tried += 1
        stop += left
    key = key_of(words, size)
    shape = find(t.keys, t.shapes, key)
    if shape != READ:
        return stop, COARSE, key, shape
    key = _fine_key(data, base, at, stop, key, kept, room, words)
    return stop, FINE, key, find(t.keys, t.shapes, key)


@compiled
def count(data, at, opened, t, kept, words, places):
    """Count lines from a place on, each ending with a newline; gives where one begins that has to be read. `kept`: for shapes.

    `places`: addresses of the data, of `kept`, of `befores` and of `stamped`.
    """
    state, keep, stamp = t.state, t.keep, t.stamps[t.stamps.shape[0] - 1]
    base, room, befores, stamped = places
    while at < data.size:
        size = 0
        stop, how, key, shape = _look_up(data, at, t, kept, words, base, room)
        counted = told = shape >= 0
        if counted:
            known = t.classes[shape]
            if known.head >= 0:
                head, number = t.heads[known.head], known.head
                row = number * t.befores.shape[1]
                order = _order(base + at, head.before, befores + row, stamped + row) if head.last else -1
                if order < 0:
                    size, writer = _begin(data, at, head, number, keep, t.spans, stamp, t.befores, t.stamped, t.stamps)
                    head.writer = find(t.writer_keys, t.writer_numbers, writer)
                counted = head.writer != UNKNOWN and not (opened != NONE and t.blocked[head.writer])
                early = order < 0 and head.stamps and is_before(stamp, size, t.firsts[number], head.first_size)
                counted = counted and not early
                if counted:
                    _note_time(data, at, stop, shape, order, head, number, state, stamp, size, t.befores, t.stamps)
            else:
                counted = opened == NONE or (opened == SOME and known.named)
            if counted and known.about >= 0:
                found = _is_latest(data, base, at, stop, shape, t)
                counted, told = found >= 0, found > 0
            if counted and told:
                known.count += 1
                t.kinds[known.kind] += 1
                state[SKIPPED] += 1
                if known.moving:
                    _remember(state, MOVED, at, stop, shape)
        if not counted and not _is_blank(data, at, stop):
            state[HOW], state[KEY], state[STOP] = how, np.int64(key), stop
            return at
        state[NUMBER] += 1
        at = stop + 1
    return at
