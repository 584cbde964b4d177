"""Numbers with their nouns, and texts cut to a length, as sentences need them."""

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


def short(text: str, most: int = 120) -> str:
    """A text of at most so many characters: a longer one ends after a whole word, or within one that is long, and says so.

    Examples
    --------
    >>> short("NCCL WARN Call to connect failed", 20), short("/models/meta-llama/config.json", 20), short("ok")
    ('NCCL WARN Call to …', '/models/meta-llama/…', 'ok')
    """
    text = text.strip()
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    at = kept.rfind(" ", most // 2)
    return f"{kept[:at].rstrip(' ,;:')} …" if at > 0 else f"{kept}…"


TOLD = ("addr", "address", "url", "port", "method", "path", "status", "err", "error", "step", "epoch", "loss", "tokens")
"""Keys of a structured line of a log that are part of what it says, whoever wrote it."""


def keys_told(record: dict) -> str:
    """What the keys of a structured line of a log say beside its message.

    Examples
    --------
    >>> keys_told({"msg": "listening", "addr": "0.0.0.0:8080", "ts": "2026-01-01T00:00:00Z", "ok": True})
    ' addr=0.0.0.0:8080'
    """
    return "".join(f" {key}={record[key]}" for key in TOLD if type(record.get(key)) in (str, int, float))
