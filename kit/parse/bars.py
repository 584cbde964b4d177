"""Progress bars of tqdm and its kin, one frame at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass

MULTIPLIER = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""tqdm's unit_scale counts in powers of 1000 (its default unit_divisor)."""

_UNIT = r"(?:\s?(?:i?B|it|shards?|files?|tokens?))?"
_TAIL = (
    r"(?:\s*\[(?P<el>(?:\d+ days?, )?\d[\d:]*)?(?:<(?P<eta>[\d:?]*(?: days?, [\d:]*)?))?"
    r"(?:,\s*(?P<rate>[\d.]+|\?)\s?(?P<mult>[kKMGT]?)(?P<unit>[\w-]*/\w+)?)?[^\]\[(]*(?P<end>\])?)?"
)
BAR = re.compile(
    r"(?P<pct>\d{1,3})%(?: Completed)?(?: ?\|(?:[^|\[\]/]{0,300}\||[█▏▎▍▌▋▊▉#=][█▏▎▍▌▋▊▉#=.… >-]{0,300}(?=\d))?"
    r"|(?= \d[\d.]*[kKMGT]?/\d[\d.]*[kKMGT]? \[\d[\d:]*<))\s?"
    r"(?P<n>\d[\d.]*)(?P<nm>[kKMGT]?)" + _UNIT + r"/(?P<total>\d[\d.]*|\?)(?P<tm>[kKMGT]?)" + _UNIT + _TAIL
)
LONGEST_DESCRIPTION = 200
OPEN = re.compile(
    r"(?:(?P<desc>[^|\[]{0,200}?):\s*)?(?:\|[^|]{0,200}\|\s?)?(?<![\w.])(?P<n>\d[\d.]{0,20})(?P<nm>[kKMGT]?)"
    r"(?:(?:it|i?B|ex| examples)|/(?P<total>\?)) \[(?P<el>\d[\d:]*)(?:<(?P<eta>[\d:?]*))?,"
    r"\s*(?P<rate>[\d.]+|\?)\s?(?P<mult>[kKMGT]?)(?P<unit>[\w -]{0,40}/\w{1,40})?[^\]\[(]{0,80}(?P<end>\])?"
)
TGI = re.compile(r"(?P<desc>Download): \[(?P<n>\d+)/(?P<total>\d+)\] -- ETA: (?P<eta>[\d:]+)")
_SIZE = r"\d[\d.,]{0,15}"
TRANSFER = re.compile(
    rf"(?<![\w.])(?P<n>{_SIZE})\s?(?P<nm>[kKMGT]?i?)B?\s?(?:/|of)\s?(?P<total>{_SIZE})\s?(?P<tm>[kKMGT]?i?)B\b(?!/s)"
    r"[^\d]{0,12}(?:\d{1,3}%[^\d]{0,12})?(?:CN:\d{1,3} )?(?:DL:)?(?:(?P<rate>\d[\d.]{0,15}) ?(?P<mult>[kKMGT]?)i?B(?P<unit>/s)?)?"
)
"""Bytes of bytes, as downloaders print them: NIM, Ollama, docker, pip, aria2, rclone, s5cmd."""
WGET = re.compile(
    rf"(?P<pct>\d{{1,3}})%\s?\[[^\]]{{0,200}}\]\s+(?P<n>{_SIZE})(?P<nm>[KMGT]?)\s+"
    r"(?P<rate>\d[\d.]{0,15})(?P<mult>[KMGT]?)B(?P<unit>/s)"
)
_DRAWN = r"[█▓░▏▎▍▌▋▊▉#=>. -]{4,300}"
SHARE = re.compile(
    rf"(?P<pct>\d{{1,3}})(?:\.\d{{1,3}})?%\s?[|\[]{_DRAWN}|[|\[]{_DRAWN}[|\]]\s?(?P<right>\d{{1,3}})(?:\.\d{{1,3}})?%"
)
"""A share of a hundred beside its drawing, and no count."""
MOVING = re.compile(r"B/s|DL:|[█▏▕━▓]|[=#]>|\[[=#>. -]{4,200}\]|ownload|ulling")
"""What tells a transfer from a share of memory."""
CLOCK = re.compile(r"\[(\d{1,3}:\d\d(?::\d\d)?)\]")
DOTS = re.compile(r"\.{3,101}")


@dataclass(frozen=True, slots=True)
class Bar:
    """One frame of a progress bar."""

    description: str
    n: float
    total: float | None
    elapsed_s: float | None
    s_per_item: float | None
    start: int
    end: int
    closed: bool
    counts: str = ""
    """What it counts, by its rate: `B`, `it`, `shard`; empty where that is not told."""


def seconds(text: str | None) -> float | None:
    """``MM:SS``, ``H:MM:SS`` or ``1 day, H:MM:SS`` in seconds.

    Examples
    --------
    >>> seconds("18:07"), seconds("1:00:01"), seconds("?")
    (1087.0, 3601.0, None)
    """
    if not text:
        return None
    days, _, clock = text.rpartition(", ")
    total = 0.0
    whole = days.split()[0] if days else "0"
    if not all(part.isdecimal() for part in (whole, *clock.split(":"))):
        return None
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return total + 86_400 * int(whole)


def _float(text: str | None) -> float | None:
    try:
        return float(text.rstrip(".")) if text else None
    except ValueError:
        return None


def read(text: str, position: int = 0) -> Bar | None:
    """Read the first frame of a progress bar that stands in a text, also one that is cut.

    `text`: one frame, or a frame with another message glued to it. `position`: where to begin. `start` and `end` of
    the bar bound the frame in the text.

    Examples
    --------
    >>> bar = read("Loading safetensors checkpoint shards:  42% Completed | 36/85 [18:07<24:40, 30.21s/it]")
    >>> bar.description, bar.n, bar.total, bar.elapsed_s, bar.s_per_item
    ('Loading safetensors checkpoint shards', 36.0, 85.0, 1087.0, 30.21)
    >>> read("Running requests:   0% 17/56168 [00:35<29:52:43,  1.92s/it]").n  # as a notebook keeps it
    17.0
    >>> bar = read("model.safetensors:  38%|###   | 2.20G/5.74G [01:06<01:46, 33.1MB/s]")
    >>> bar.n, bar.total
    (2200000000.0, 5740000000.0)
    >>> bar = read("model-1.safetensors [00:14:04] [█████░░] 3.81 GiB/4.58 GiB 4.81 MiB/s (2m)")
    >>> bar.description, round(bar.n / 2**30, 2), round(bar.total / 2**30, 2), bar.elapsed_s
    ('model-1.safetensors', 3.81, 4.58, 844.0)
    """
    found = BAR.search(text, position) if "%" in text else None
    if found is None and "[" in text:
        found = OPEN.search(text, position) or TGI.search(text, position)
    if found is None:
        return _transfer(text, position)
    got = found.groupdict()
    n, total = _float(got["n"]), _float(got["total"])
    if n is None:
        return None
    rate = _float(got.get("rate"))
    s_per_item = None
    if rate:
        unit = got.get("unit") or ""
        rate *= MULTIPLIER[got.get("mult") or ""]
        s_per_item = rate if unit.startswith("s/") else 1.0 / rate if unit.endswith("/s") else None
    scale = MULTIPLIER[got.get("nm") or ""], MULTIPLIER[got.get("tm") or ""]
    begin = found.start() if "desc" in got else _description(text, position, found.start())
    description = (got["desc"] or "" if "desc" in got else text[begin : found.start()]).strip().rstrip(":").strip()
    return Bar(
        description,
        round(n * scale[0], 3),
        None if total is None else round(total * scale[1], 3),
        seconds(got.get("el")),
        s_per_item,
        begin,
        found.end(),
        bool(got.get("end")),
        _counts(got.get("unit")),
    )


def _counts(unit: str | None) -> str:
    """What a rate counts.

    Examples
    --------
    >>> _counts("B/s"), _counts("iB/s"), _counts("s/it"), _counts("shards/s"), _counts(None)
    ('B', 'B', 'it', 'shards', '')
    """
    over, _, under = (unit or "").partition("/")
    return (under if over == "s" else over).removeprefix("i" if "iB" in (over, under) else "")


def _description(text: str, position: int, end: int) -> int:
    """Where the words before a bar's percentage begin: they are looked for backwards, so that blanks are looked at once."""
    first = max(position, end - LONGEST_DESCRIPTION)
    return max(first, text.rfind("%", first, end) + 1, text.rfind("|", first, end) + 1)


def _transfer(text: str, position: int) -> Bar | None:
    """A downloader's own bar, which counts bytes and has no brackets of tqdm's."""
    found = TRANSFER.search(text, position) if "B" in text and MOVING.search(text, position) else None
    found = found or (WGET.search(text, position) if "%" in text else None)
    if found is None:
        return None
    got = found.groupdict()
    n, total = (_bytes(got.get(name), got.get(unit)) for name, unit in (("n", "nm"), ("total", "tm")))
    if n is None:
        return None
    if got.get("nm") == "" and got.get("tm") and found.re is TRANSFER and not text[found.end("n") :].lstrip().startswith("B"):
        n = _bytes(got["n"], got["tm"]) or n  # pip writes the unit once
    if total is None and got.get("pct", "0") != "0":
        total = round(n * 100 / int(got["pct"]), -3)
    rate, clock = _bytes(got.get("rate"), got.get("mult")), CLOCK.search(text, position)
    head = re.split(r"[\[▕█━|]|\d{1,3}%", text[position : found.start()], maxsplit=1)[0]
    return Bar(
        head.strip().rstrip(":").strip() or "download",
        round(n, 3),
        total,
        seconds(clock[1]) if clock else None,
        1.0 / rate if rate else None,
        position,
        len(text),
        closed=True,
        counts="B",
    )


def _bytes(text: str | None, unit: str | None) -> float | None:
    number = _float(text.replace(",", "")) if text else None
    unit = unit or ""
    power = " KMGTP".find(unit[:1].upper()) if unit else 0
    return None if number is None else number * (1024 if unit.endswith("i") else 1000) ** max(power, 0)


def share(text: str) -> Bar | None:
    """A bar that counts nothing but its share of a hundred, or was cut behind its drawing.

    Examples
    --------
    >>> bar = share("loading model [#####     ] 48%")
    >>> bar.description, bar.n, bar.total
    ('loading model', 48.0, 100.0)
    """
    found = SHARE.search(text) if "%" in text else None
    if found is None:
        return None
    n = min(float(found["pct"] or found["right"]), 100.0)
    words = text[_description(text, 0, found.start()) : found.start()].strip(" :|[")
    return Bar(words, n, 100.0, None, None, 0, len(text), closed=True)


def dots(text: str) -> Bar | None:
    """llama.cpp's loading bar: a dot for each percent.

    Examples
    --------
    >>> dots("." * 42).n
    42.0
    """
    if not DOTS.fullmatch(text):
        return None
    return Bar("load_tensors", float(min(len(text), 100)), 100.0, None, None, 0, len(text), closed=True)
