"""Numbers with their nouns, as sentences need them."""

from __future__ import annotations

from collections.abc import Iterable


def count_of(number: int, noun: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> count_of(1, "process"), count_of(2, "process"), count_of(0, "GPU"), count_of(2, "reply", "replies")
    ('1 process', '2 processes', '0 GPUs', '2 replies')
    """
    return f"{number:,} {noun if number == 1 else many or noun + ('es' if noun.endswith('s') else 's')}"


def named(noun: str, numbers: Iterable[object], many: str | None = None) -> str:
    """A noun with the numbers that it names.

    Examples
    --------
    >>> named("rank", [3]), named("rank", [1, 3]), named("pid", range(3))
    ('rank 3', 'ranks 1, 3', 'pids 0, 1, 2')
    """
    items = [str(number) for number in numbers]
    return f"{noun if len(items) == 1 else many or noun + 's'} {', '.join(items)}"
