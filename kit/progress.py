"""How far reading or copying has come, told to whoever shows it: the command line on a terminal. Elsewhere nobody listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[float], None]


class _State:
    """Bytes read of those expected, the number of the thing that they are of, and who is told the share of all."""

    listener: Listener | None = None
    done = expected = number = 0
    total = 1


def expect(size: int) -> None:
    """Tell that so many bytes more will be read."""
    _State.expected += size


def read(size: int) -> None:
    """Tell that so many bytes were read."""
    if _State.listener is None:
        return
    _State.done += size
    if _State.expected:
        _State.listener((_State.number + min(_State.done / _State.expected, 1.0)) / _State.total)


def each(things: Sequence[T]) -> Iterator[T]:
    """Hand out things that are read one after the other: the share that is told is that of all."""
    try:
        for number, thing in enumerate(things):
            _State.number, _State.total, _State.done, _State.expected = number, len(things), 0, 0
            if _State.listener is not None and number:
                _State.listener(number / len(things))
            yield thing
    finally:
        _State.number, _State.total = 0, 1


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Be told the share that is read.

    Examples
    --------
    >>> with listening(print):
    ...     expect(4)
    ...     read(1)
    0.25
    >>> with listening(print):
    ...     for size in each([4, 4]):
    ...         expect(size)
    ...         read(2)
    0.25
    0.5
    0.75
    """
    _State.listener, _State.done, _State.expected = listener, 0, 0
    try:
        yield
    finally:
        _State.listener = None
