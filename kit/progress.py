"""How far reading has come, told to whoever shows it: the command line on a terminal. Elsewhere nobody listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[float], None]


class _State:
    """Bytes read of those expected, and who is told the share."""

    listener: Listener | None = None
    done = expected = 0


def expect(size: int) -> None:
    """Tell that so many bytes more will be read."""
    _State.expected += size


def read(size: int) -> None:
    """Tell that so many bytes were read."""
    if _State.listener is None:
        return
    _State.done += size
    if _State.expected:
        _State.listener(min(_State.done / _State.expected, 1.0))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Be told the share that is read.

    Examples
    --------
    >>> with listening(print):
    ...     expect(4)
    ...     read(1)
    0.25
    """
    _State.listener, _State.done, _State.expected = listener, 0, 0
    try:
        yield
    finally:
        _State.listener = None
