"""The explorer's container: one gzip stream with a JSON head and typed arrays, small to mail and quick to open.

Integers are delta-coded, folded to be positive (zigzag) and written as variable-length bytes: a series that moves little takes
a byte a value before gzip sees it. Tables of codes stand as they are, a byte a cell: gzip takes runs of sleepers to nothing.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

MAGIC = b"SKX1"
LEVEL = 6
"""gzip's own default: level 9 takes three times as long and saves 2 %."""


def varint(values: np.ndarray) -> bytes:
    """Write signed integers as zigzag variable-length bytes.

    Examples
    --------
    >>> varint(np.array([0, -1, 1, 300])).hex()
    '000102d804'
    """
    signed = np.asarray(values, dtype=np.int64)
    folded = ((signed << 1) ^ (signed >> 63)).astype(np.uint64)
    sizes = np.ones(len(folded), dtype=np.int64)
    for bits in range(7, 64, 7):
        sizes += folded >= np.uint64(1 << bits)
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for group in range(int(sizes.max()) if len(sizes) else 0):
        has = sizes > group
        byte = (folded[has] >> np.uint64(7 * group)) & np.uint64(0x7F)
        out[(ends - sizes)[has] + group] = byte | np.where(sizes[has] > group + 1, 0x80, 0).astype(np.uint64)
    return out.tobytes()


class Packer:
    """Collects arrays; the head refers to each by its number. What was packed before is not packed twice."""

    def __init__(self) -> None:
        self._table: list[list] = []
        self._parts: list[bytes] = []
        self._known: dict[tuple[str, float, bytes], int] = {}

    def ints(self, values: Sequence[int] | np.ndarray, scale: float = 1.0) -> int:
        """Pack integers by their differences; whoever reads them multiplies by `scale`."""
        array = np.asarray(values, dtype=np.int64)
        return self._add("delta", scale, len(array), varint(np.diff(array, prepend=np.int64(0))))

    def seconds(self, values: np.ndarray) -> int:
        """Pack seconds to the microsecond, as strace prints them."""
        return self.ints(np.rint(np.asarray(values, dtype=float) * 1e6), 1e-6)

    def codes(self, values: np.ndarray) -> int:
        """Pack bytes as they are, a row of a table after the other."""
        array = np.ascontiguousarray(values, dtype=np.uint8)
        return self._add("bytes", 1.0, array.size, array.tobytes())

    def texts(self, values: Sequence[str]) -> int:
        """Pack texts."""
        data = json.dumps(list(values), ensure_ascii=False).encode("utf-8", "replace")
        return self._add("texts", 1.0, len(values), data)

    def _add(self, codec: str, scale: float, count: int, data: bytes) -> int:
        key = (codec, scale, data)
        if key not in self._known:
            self._known[key] = len(self._table)
            self._table.append([codec, count, len(data), scale])
            self._parts.append(data)
        return self._known[key]

    def bytes(self, head: dict[str, Any]) -> bytes:
        """The whole container."""
        text = json.dumps({**head, "arrays": self._table}, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        return gzip.compress(b"".join([MAGIC, struct.pack("<I", len(text)), text, *self._parts]), LEVEL, mtime=0)
