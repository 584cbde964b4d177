"""Lines of a large log, those of known shapes counted by a compiled pass: the tables of `kit.parse.log_compiled`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from kit.compiled_bytes import UNKNOWN, number_of, put, table
from kit.compiled_vectors import PAD
from kit.parse import log_compiled as c
from kit.parse.log_shapes import DROPPED, LATEST, MOST_STAMPS, Head, Name, Shape, Told, shape_of

MOST = 1 << 16
"""Shapes, heads' writers and the like that there is room for."""
MOST_HEADS, MOST_WHOSE, MOST_SIGNS, MOST_BEGINS = 4096, 16_384, 1024, 256
LONGEST_WHOSE, LONGEST_SIGN, LONGEST_BEFORE = 1024, 64, 192
FAR = 1 << 30
LONGEST_LINE = 1 << 20
"""Room for a line; a block with a longer one gets its own."""
END = b"\n" + bytes(PAD)
_HOW = ("coarse", "fine", "begin")


class Lines:
    """As `kit.parse.log_lines.Lines`."""

    def __init__(self, number: int = 0):
        parts = np.zeros((len(LATEST), LONGEST_SIGN), np.uint8)
        for row, about in zip(parts, LATEST.values(), strict=True):
            row[: len(about) + 1] = [len(about), *about]
        self._stages: dict[str, c.Tables] = {}
        self._all = c.Tables(
            keep=np.isin(np.arange(256), list(DROPPED), invert=True).astype(np.uint8),
            keys=np.empty(0, np.uint64),
            shapes=np.empty(0, np.int32),
            classes=np.zeros(MOST, c.CLASS),
            heads=np.zeros(MOST_HEADS, c.HEAD),
            spans=np.full((MOST_HEADS, 2 * MOST_STAMPS + 3), FAR, np.int32),
            stamps=np.zeros((MOST_HEADS + 1, c.LONGEST_STAMP), np.uint8),
            firsts=np.full((MOST_HEADS, c.LONGEST_STAMP), 255, np.uint8),
            befores=np.zeros((MOST_HEADS, LONGEST_BEFORE), np.uint8),
            stamped=np.zeros((MOST_HEADS, LONGEST_BEFORE), np.uint8),
            writer_keys=np.zeros(4 * MOST, np.uint64),
            writer_numbers=np.full(4 * MOST, UNKNOWN, np.int32),
            blocked=np.zeros(2 * MOST, np.uint8),
            begin_sizes=np.empty(0, np.int64),
            begin_lasts=np.empty(0, np.uint64),
            begin_keys=np.empty(0, np.uint64),
            begin_numbers=np.empty(0, np.int32),
            begins=np.zeros(MOST, np.int32),
            sign_firsts=np.zeros(256, np.uint8),
            sign_seconds=np.zeros(256, np.uint8),
            pairs=np.zeros(1 << 16, np.int16),
            signs=np.zeros((MOST_SIGNS, LONGEST_SIGN), np.uint8),
            sign_sizes=np.zeros(MOST_SIGNS, np.int32),
            sign_next=np.zeros(MOST_SIGNS, np.int16),
            telling=np.zeros((MOST_BEGINS, MOST_SIGNS), np.bool_),
            whose_keys=np.zeros(4 * MOST_WHOSE, np.uint64),
            whose_numbers=np.full(4 * MOST_WHOSE, UNKNOWN, np.int32),
            whose_lines=np.zeros((MOST_WHOSE, 3), np.int64),
            whose_texts=np.empty((MOST_WHOSE, LONGEST_WHOSE), np.uint8),
            parts=parts,
            kinds=np.zeros(64, np.int64),
            state=np.zeros(c.STATE, np.int64),
        )
        self._state = self._all.state
        self._state[c.NUMBER] = number
        self._shapes: list[Shape] = []
        self._heads: dict[Head, int] = {}
        self._kinds: dict[str, int] = {}
        self._writers: list[tuple] = []
        self._signs: dict[bytes, int] = {}
        self._begins: list[tuple[str, Name]] = []
        self._known: set[tuple[str, Name]] = set()
        self._open: frozenset = frozenset()
        self._saved: dict[str | int, Told] = {}
        self._data, self._at, self._first = np.empty(0, np.uint8), 0, 0
        self._make_room(LONGEST_LINE)

    def __len__(self) -> int:
        return max(len(self._known), len(self._shapes), len(self._writers), len(self._heads) * (MOST // MOST_HEADS))

    @property
    def number(self) -> int:
        return int(self._state[c.NUMBER])

    @property
    def skipped(self) -> int:
        return int(self._state[c.SKIPPED])

    @property
    def kinds(self) -> Counter[str]:
        return Counter({kind: int(self._all.kinds[at]) for kind, at in self._kinds.items()})

    # --- lines ---

    def begin(self, block: bytes) -> None:
        size = len(block) + 1
        self._data, self._at, self._first = np.frombuffer(block + END, np.uint8)[:size], 0, self.number
        if size > self._words.nbytes - PAD:
            self._make_room(size)
        self._places = (self._data.ctypes.data, *self._rooms)

    def _make_room(self, size: int) -> None:
        """Have room for the shape of a line of a size."""
        self._words = np.empty((size + PAD) // 8 + 1, np.uint64)
        self._rooms = [room.ctypes.data for room in (self._words, self._all.befores, self._all.stamped)]

    def end(self) -> None:
        """Keep the lines of the block that may be told later."""
        for at, name in ((c.MOVED, "moved"), (c.STAMPED, "stamped")):
            self._save(name, *self._state[at : at + 4])
        for head in np.flatnonzero(self._all.heads["number"][: len(self._heads)] > self._first):
            self._save(int(head), *(self._all.heads[head][name] for name in ("number", "at", "end", "shape")))
        self._first = self.number

    def _save(self, name: str | int, number: int, at: int, end: int, shape: int) -> None:
        if number > self._first:
            self._saved[name] = int(number), self._data[at:end].tobytes(), self._shapes[shape]

    def next(self, stage: str, opened: dict | None, any_open: bool) -> tuple[bytes, Name | None] | None:
        name: Name | None = None
        if opened is None:
            at = self._at
            stop = at + int(np.argmax(self._data[at:] == 10)) if at < self._data.size else at
            while at < self._data.size and not self._data[at:stop].tobytes().strip():
                self._state[c.NUMBER] += 1
                at = stop + 1
                stop = at + int(np.argmax(self._data[at:] == 10)) if at < self._data.size else at
        else:
            if opened and self._open != opened.keys():
                self._open = frozenset(opened)
                self._all.blocked[: len(self._writers)] = [writer in opened for writer in self._writers]
            how = c.ANY if any_open else c.SOME if opened else c.NONE
            tables = self._tables(stage)
            at = c.count(self._data, self._at, how, tables, self._words.view(np.uint8), self._words, self._places)
            stop = int(self._state[c.STOP])
            name = _HOW[self._state[c.HOW]], int(self._state[c.KEY])
        if at >= self._data.size:
            return None
        self._state[c.NUMBER] += 1
        self._at = stop + 1
        return self._data[at:stop].tobytes(), name

    def _tables(self, stage: str) -> c.Tables:
        if stage not in self._stages:
            keys, shapes = table(4 * MOST)
            begin_keys, begin_numbers = table(4 * MOST_BEGINS)
            self._stages[stage] = self._all._replace(
                keys=keys,
                shapes=shapes,
                begin_sizes=np.full(MOST_BEGINS + 1, FAR, np.int64),
                begin_lasts=np.zeros(MOST_BEGINS + 1, np.uint64),
                begin_keys=begin_keys,
                begin_numbers=begin_numbers,
            )
        return self._stages[stage]

    # --- learning ---

    def knows(self, stage: str, name: Name) -> bool:
        return name[0] == "begin" or (stage, name) in self._known

    def learn(self, stage: str, name: Name, shape: Shape | None) -> None:
        t = self._tables(stage)
        self._known.add((stage, name))
        put(t.keys, t.shapes, np.uint64(int(name[1]) % (1 << 64)), c.READ if shape is None else self._number(shape))

    def _number(self, shape: Shape) -> int:
        """Number of a shape in the tables."""
        kind = self._kinds.setdefault(shape.row["kind"], len(self._kinds))
        head = -1 if shape.head is None else self._head(shape.head)
        about = -1 if shape.about is None else list(LATEST.values()).index(shape.about)
        self._all.classes[len(self._shapes)] = 0, kind, head, about, shape.named, shape.moving
        self._shapes.append(shape)
        return len(self._shapes) - 1

    def _head(self, head: Head) -> int:
        if head not in self._heads:
            number = self._heads[head] = len(self._heads)
            known = self._all.heads[number]
            known["stamps"], known["first_size"], self._all.spans[number, -1] = len(head.spans), c.LONGEST_STAMP, head.kept
            self._all.spans[number, : 2 * len(head.spans)] = [place for span in head.spans for place in span]
        return self._heads[head]

    def learn_begin(self, stage: str, begin: bytes, signs: list[bytes], shape: Shape) -> None:
        name = stage, ("begin", shape_of(begin))
        if name in self._known or not name[1][1] or max(len(self._begins), len(self._signs)) >= MOST_BEGINS:
            return
        self._known.add(name)
        number = len(self._begins)
        self._begins.append(name)
        self._all.begins[number] = self._number(shape)
        self._end_at(shape_of(begin), number, self._tables(stage))
        for sign in signs:
            self._all.telling[number, self._sign(sign)] = True

    def _end_at(self, begin: bytes, number: int, t: c.Tables) -> None:
        """Note where lines that begin so are looked up."""
        size, words = len(begin), np.frombuffer(begin + bytes(-len(begin) % 8), np.uint64)
        at = int(np.searchsorted(t.begin_sizes, size))
        if t.begin_sizes[at] != size:
            for known, value in ((t.begin_sizes, size), (t.begin_lasts, 0)):
                known[at + 1 :] = known[at:-1].copy()
                known[at] = value
        t.begin_lasts[at] |= np.uint64(1 << (begin[-1] & 63))
        put(t.begin_keys, t.begin_numbers, np.uint64(c.key_of(words, size)), number)

    def _sign(self, text: bytes) -> int:
        text = text[:LONGEST_SIGN]
        if text not in self._signs:
            t, number = self._all, len(self._signs) + 1
            self._signs[text] = number
            t.signs[number, : len(text)], t.sign_sizes[number] = list(text), len(text)
            seconds = text[1:2] or range(256)
            group = 1 << (number % 7 if len(text) > 1 else 7)
            t.sign_firsts[text[0]] |= group
            for second in seconds:
                t.sign_seconds[second] |= group
                t.sign_next[number], t.pairs[text[0] << 8 | second] = t.pairs[text[0] << 8 | second], number
        return self._signs[text]

    def learn_writer(self, stage: str, name: Name, line: bytes, writer: tuple) -> None:
        t = self._tables(stage)
        key = int(name[1])
        shape = t.begins[key] if name[0] == "begin" else number_of(t.keys, t.shapes, np.uint64(key % (1 << 64)))
        if shape >= 0 and t.classes[shape]["head"] >= 0:
            head = t.classes[shape]["head"]
            stamp, first, known = t.stamps[-1], t.firsts[head], t.heads[head]
            unused = np.empty((2, 0), np.uint8)
            data = np.frombuffer(line + b"\n", np.uint8)
            writer_key, size, _ = c.writer_key(data, 0, head, t.keep, t.spans[head], stamp, *unused)
            if c.is_before(stamp, size, first, known["first_size"]):
                first[:size], known["first_size"] = stamp[:size], size
            put(t.writer_keys, t.writer_numbers, np.uint64(writer_key), len(self._writers))
            self._all.blocked[len(self._writers)] = writer in self._open
            self._writers.append(writer)

    # --- telling ---

    def drop_latest(self, line: bytes, about: bytes) -> None:
        t, part = self._all, np.frombuffer(about, np.uint8)
        data = np.frombuffer(line + bytes(PAD), np.uint8)
        key = c.whose_key(data, data.ctypes.data, 0, len(line), part)
        number = number_of(t.whose_keys, t.whose_numbers, np.uint64(key))
        if number >= 0 and t.whose_lines[number, 2]:
            self._count(int(t.whose_lines[number, 1]))
            t.whose_lines[number, 2] = 0

    def _count(self, shape: int) -> None:
        self._all.classes[shape]["count"] += 1
        self._all.kinds[self._all.classes[shape]["kind"]] += 1
        self._state[c.SKIPPED] += 1

    def latest_lines(self) -> list[Told]:
        t = self._all
        told = [
            (int(number), t.whose_texts[at, :size].tobytes(), self._shapes[shape])
            for at, (number, shape, size) in enumerate(t.whose_lines[: self._state[c.LATEST]].tolist())
            if size
        ]
        t.whose_lines[:, 2] = 0
        return sorted(told, key=lambda told: told[0])

    def tell(self) -> tuple[list[Told], Told | None]:
        first = self._first
        self.end()
        self._first = first
        moved, saved = self._saved.pop("moved", None), self._saved
        self._saved = {}
        for at in (c.MOVED, c.STAMPED):
            self._state[at] = 0
        self._all.heads["number"] = 0
        self._all.kinds[:] = self._state[c.SKIPPED] = 0
        return list(saved.values()), moved

    def counted(self) -> Iterator[tuple[Shape, int]]:
        return zip(self._shapes, self._all.classes["count"].tolist(), strict=False)
