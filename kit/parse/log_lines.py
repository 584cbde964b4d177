"""Lines of a large log, those of known shapes counted, without numba: what `kit.parse.log_table` does a hundred times faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kit.parse.log_shapes import Head, Name, Shape, Told, fine_shape_of, shape_of

Key = tuple[str, Name]
"""Stage of the launch and name of a shape."""


@dataclass
class Lines:
    """Lines on their way through what is known of their shapes."""

    # `number`, `skipped`: lines so far, and those that were counted since it was told
    number: int = 0
    skipped: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # kinds of these
    # `moved`, `stamped`: the last counted line that is progress, and the last that begins with its time
    moved: Told | None = None
    stamped: Told | None = None
    _shapes: dict[Key, Shape | None] = field(default_factory=dict)
    _free: dict[str, list[tuple[bytes, list[bytes]]]] = field(default_factory=dict)
    _writers: dict[tuple[Head, tuple], tuple] = field(default_factory=dict)
    _firsts: dict[Head, tuple] = field(default_factory=dict)
    _latest: dict[Head, tuple[tuple, Told | None]] = field(default_factory=dict)
    _whose: dict[tuple[bytes, bytes], Told] = field(default_factory=dict)

    def __len__(self) -> int:
        return max(len(self._shapes), len(self._writers), len(self._whose))

    def begin(self, block: bytes) -> None:
        """Take a block of whole lines."""
        self._lines = iter(block.split(b"\n"))

    def end(self) -> None:
        """Be done with a block."""

    def next(self, stage: str, opened: dict | None, any_open: bool) -> tuple[bytes, Name | None] | None:
        """Count lines up to one that has to be read; `opened` is None where all have to be."""
        for line in self._lines:
            self.number += 1
            if line and not line.isspace():
                name = None if opened is None else self._name(stage, line)
                if name is None or not self._counts(self._shapes.get((stage, name)), line, opened, any_open):
                    return line, name
        return None

    def _name(self, stage: str, line: bytes) -> Name:
        shape = shape_of(line)
        if (stage, ("coarse", shape)) in self._shapes:
            return ("coarse", shape) if self._shapes[stage, ("coarse", shape)] else ("fine", fine_shape_of(line, shape))
        for begin, signs in self._free.get(stage, ()):
            if shape.startswith(begin):
                at = len(begin)
                while shape_of(line[:at]) != begin:
                    at += 1
                return ("coarse", shape) if any(sign in line[at:] for sign in signs) else ("begin", begin)
        return "coarse", shape

    def _counts(self, shape: Shape | None, line: bytes, opened: dict, any_open: bool) -> bool:
        if shape is None:
            return False
        told = self.number, line, shape
        if shape.head is not None:
            literal, stamps = shape.head.take(line)
            writer, first = self._writers.get((shape.head, literal)), self._firsts.get(shape.head)
            if writer is None or writer in opened or first is None or stamps < first:
                return False
            if stamps:
                self.stamped = told
                if stamps >= self._latest.get(shape.head, ((), None))[0]:
                    self._latest[shape.head] = stamps, told
        elif any_open or (opened and not shape.named):
            return False
        if shape.about is not None and self._whose.get(whose := _whose(line, shape.about)) is None:
            self._whose[whose] = told
            return True
        if shape.about is not None:
            self._whose[whose] = told
        self.count(shape)
        self.moved = told if shape.moving else self.moved
        return True

    def count(self, shape: Shape) -> None:
        """Count a line."""
        shape.count += 1
        self.kinds[shape.row["kind"]] += 1
        self.skipped += 1

    def knows(self, stage: str, name: Name) -> bool:
        return (stage, name) in self._shapes

    def learn(self, stage: str, name: Name, shape: Shape | None) -> None:
        """Count the lines of a shape, or always read them."""
        self._shapes[stage, name] = shape

    def learn_begin(self, stage: str, begin: bytes, signs: list[bytes], shape: Shape) -> None:
        """Count lines that begin so, unless one of the signs follows."""
        begin = shape_of(begin)
        if (stage, ("begin", begin)) not in self._shapes:
            self._shapes[stage, ("begin", begin)] = shape
            self._free.setdefault(stage, []).append((begin, signs))

    def learn_writer(self, stage: str, name: Name, line: bytes, writer: tuple) -> None:
        """Count lines with the head that a line has, as long as no traceback of its writer is open."""
        shape = self._shapes.get((stage, name))
        if shape is not None and shape.head is not None:
            literal, stamps = shape.head.take(line)
            self._writers[shape.head, literal] = writer
            self._firsts[shape.head] = min(stamps, self._firsts.get(shape.head, stamps))

    def drop_latest(self, line: bytes, about: bytes) -> None:
        """Count the line of an operation that was kept as its last: another was read."""
        before = self._whose.pop(_whose(line, about), None)
        if before is not None:
            self.count(before[2])

    def latest_lines(self) -> list[Told]:
        """The last line of each operation, which is read now."""
        told = sorted(self._whose.values(), key=lambda told: told[0])
        self._whose.clear()
        return told

    def tell(self) -> tuple[list[Told], Told | None]:
        """Lines that tell the time of those counted so far, and the last that is progress; counting begins anew."""
        latest = [told for _, told in self._latest.values() if told is not None]
        tell, moved = [self.stamped, *latest] if self.stamped else latest, self.moved
        self._latest = {head: (stamps, None) for head, (stamps, _) in self._latest.items()}
        self.skipped, self.kinds, self.moved, self.stamped = 0, Counter(), None, None
        return tell, moved

    def counted(self) -> Iterator[tuple[Shape, int]]:
        """Shapes and how many lines of each were counted."""
        return ((shape, shape.count) for shape in self._shapes.values() if shape is not None)


def _whose(line: bytes, about: bytes) -> tuple[bytes, bytes]:
    """Who wrote a line of `LATEST` (or more than that), and what it is about."""
    before, _, after = line.partition(about)
    return before[: before.find(b"NCCL")], after.partition(b" ")[0]
