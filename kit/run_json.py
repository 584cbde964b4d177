"""`run.json`, the manifest of a run folder: one schema says what may stand in it.

A manifest comes from anybody. A value that does not fit is left out, and a note names its key and says why; the rest of the
run opens. Keys that the schema does not know are kept and mean nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.clock import NS, parse_time
from kit.errors import UsageError
from kit.folder import why_not
from kit.intake import Note

FORMAT, VERSION = "stallkit-run", 1
MOST_BYTES = 16 << 20
"""Of run.json; the largest seen has 20 kB."""
MOST_ENTRIES = 20_000
"""Of one list: ten times the files that a folder is read of."""
MOST_NOTES = 20
LONGEST_TEXT = 1 << 16
LARGEST_ID = 1 << 31
"""Above every pid, port and moment."""
MOST_OFFSET_S, MOST_CLOCK_NS = 86_400, 100 * 365 * 86_400 * NS
"""No zone is a day away; the clock of a host without a battery says 1970."""
LAST_YEAR_NS = 230 * 365 * 86_400 * NS
"""2199: nanoseconds in 64 bits end in 2262."""

Shape = Any
"""A function that returns the value or raises `Unfit`, a dict of shapes by key, or a list of one shape."""


class Unfit(Exception):
    """A value is not what its key wants: says what that is."""


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise Unfit("a text")
    return value.encode("utf-8", "backslashreplace").decode()


def _number(least: float, most: float, what: str) -> Callable[[object], int | float]:
    def check(value: object) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise Unfit(what)
        return value

    return check


def _whole(least: int, most: int, what: str) -> Callable[[object], int]:
    check = _number(least, most, what)

    def whole(value: object) -> int:
        if not isinstance(value, int) and not (isinstance(value, float) and value.is_integer()):
            raise Unfit(what)
        return int(check(value))

    return whole


def _time(value: object) -> str:
    try:
        if 0 <= parse_time(_text(value))[0] <= LAST_YEAR_NS:
            return _text(value)
    except (UsageError, OverflowError):
        pass
    raise Unfit("a time such as 2026-02-18T02:11:52Z")


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit("true or false")
    return value


def _inside(value: object) -> str:
    """A path of a file in the run."""
    parts = _text(value).split("/")
    if not all(parts) or not {".", ".."}.isdisjoint(parts) or "\0" in parts[-1] or len(_text(value)) > 4096:
        raise Unfit("the path of a file inside the run")
    return _text(value)


def _folder(value: object) -> str:
    """Name of a host's folder in the run."""
    name = _text(value)
    if not name or "/" in name or "\0" in name or name in (".", "..") or len(name) > 255:
        raise Unfit("the name of a folder inside the run")
    return name


def _command(value: object) -> list[str]:
    if isinstance(value, str):
        return [_text(value)]
    if not isinstance(value, list) or len(value) > MOST_ENTRIES:
        raise Unfit("a list of words")
    return [_text(word) if isinstance(word, str) else _text(str(word)[:LONGEST_TEXT]) for word in value]


def _environ(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, (str, int, float)) for one in value.values()):
        raise Unfit("variables with a text each")
    return {_text(name): _text(str(one)) for name, one in value.items()}


def _leading(value: object) -> list[list]:
    if not isinstance(value, list) or not all(
        isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) and isinstance(one[1], (int, float)) for one in value
    ):
        raise Unfit("classes with their belief")
    return [[_text(name), float(share)] for name, share in value if math.isfinite(share)]


_ID = _whole(0, LARGEST_ID, "a number from 0 to 2147483648")
_SIZE = _whole(0, 1 << 62, "a number of bytes")
_ZONE = _number(-MOST_OFFSET_S, MOST_OFFSET_S, "the seconds of a time zone")
_CLOCK = _whole(-MOST_CLOCK_NS, MOST_CLOCK_NS, "nanoseconds of at most a century")
_CLOCKS = {key: _CLOCK for key in ("wall_ns", "offset_ns", "offset_error_ns", "boot_ns")}
_SECONDS = _number(0, 1e10, "a number of seconds")
_LACK = {"what": _text, "why": _text, "do": _text}
_GAP = {"from": _time, "to": _time, "why": _text, "host": _text}
_CAPTURE = {
    **{key: _text for key in ("kind", "source", "sha256", "note", "host")},
    **{key: _ID for key in ("moment", "pid", "node")},
    **{key: _flag for key in ("whole", "deleted", "at_path")},
    **{"file": _inside, "started_at": _time, "captured_at": _time, "grew_at": _time, "size": _SIZE},
    "pulled": {"offset": _SIZE, "size": _SIZE, "tail_sha256": _text},
}
_LAUNCH = {
    **{key: _ID for key in ("pid", "port", "exit_code", "exit_signal")},
    **{"log": _text, "started_at": _time, "ended_at": _time, "start_ticks": _SIZE, "command": _command, "environ": _environ},
    "parents": [{"pid": _ID, "command": _text}],
    "found_by": [_text],
}
_STEP = {
    "t_s": _SECONDS,
    "test": _text,
    "outcome": [_text],
    "changed": _flag,
    "leading": _leading,
    "state": _text,
    "because": _text,
    **{"why": _text, "command": _text, "cost": _SECONDS, "for": [_text], "against": [_text]},
}
SCHEMA: dict[str, Shape] = {
    **{key: _text for key in ("format", "kit", "name", "target", "note")},
    **{key: _time for key in ("created_at", "ended_at", "judged_from")},
    **{"version": _ID, "utc_offset_s": _ZONE, "pulled": _flag, "launch": _LAUNCH},
    "clock": _CLOCKS,
    "captures": [_CAPTURE],
    "missing": [_LACK],
    "gaps": [_GAP],
    "hosts": [{"name": _folder, "target": _text, "clock": _CLOCKS, "utc_offset_s": _ZONE}],
    "ledger": [_STEP],
    "solved": {"class": _text, "remedy": _text, "signature": _text},
}
NEEDED = {
    "captures": {"file"},
    "missing": {"what", "why"},
    "gaps": {"from", "to", "why"},
    "hosts": {"name"},
    "ledger": {"t_s", "test", "outcome", "leading", "state", "because"},
}
"""Keys without which an entry of a list means nothing and is left out."""


def read(path: Path, name: str = "run.json") -> tuple[dict[str, Any] | None, list[Note]]:
    """The manifest in a file, with what did not fit left out; notes on that.

    None where the file is no manifest of a run; with a note where it was meant to be one and cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "run.json")
    ...     _ = file.write_text('{"format": "stallkit-run", "captures": [{"file": "../x"}], "utc_offset_s": "x"}')
    ...     manifest, notes = read(file)
    >>> manifest
    {'format': 'stallkit-run', 'captures': []}
    >>> notes[0].reason
    'captures[0].file is not the path of a file inside the run, and was left out'
    """
    why = why_not(path, path.parent)
    if why:
        return None, [Note(name, why)] if path.exists() or path.is_symlink() else []
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            return None, [Note(name, f"is larger than {MOST_BYTES:,} bytes, and was not read")]
        manifest = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        return None, [Note(name, f"is no readable JSON: {getattr(error, 'strerror', None) or _short(error)}")]
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return None, []
    return checked(manifest, name)


def _short(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]


def checked(manifest: dict[str, Any], name: str = "run.json") -> tuple[dict[str, Any], list[Note]]:
    """A manifest with what does not fit the schema left out, and a note on each such key."""
    wrong: list[str] = []
    found = _record(manifest, SCHEMA, "", wrong)
    if (found.get("version") or VERSION) > VERSION:
        wrong.append(f"version {found['version']} is newer than this kit knows ({VERSION}): what is new in it was not read")
    notes = [Note(name, why) for why in wrong[:MOST_NOTES]]
    if len(wrong) > MOST_NOTES:
        notes.append(Note(name, f"{len(wrong) - MOST_NOTES} more of its values do not fit, and were left out"))
    return found, notes


def _record(value: dict, shape: dict[str, Shape], at: str, wrong: list[str]) -> dict[str, Any]:
    """The keys of a record that fit."""
    found = {}
    for key, one in value.items():
        key = _text(key) if isinstance(key, str) else str(key)
        if key not in shape:
            found[key] = one
        elif one is not None:
            try:
                found[key] = _fit(one, shape[key], f"{at}{key}", wrong)
            except Unfit as wanted:
                wrong.append(f"{at}{key} is not {wanted}, and was left out")
        elif not isinstance(shape[key], (dict, list)):
            found[key] = None  # not known, or not yet
    return found


def _fit(value: Any, shape: Shape, at: str, wrong: list[str]) -> Any:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise Unfit("a record")
        return _record(value, shape, f"{at}.", wrong)
    if not isinstance(shape, list):
        return shape(value)
    if not isinstance(value, list):
        raise Unfit("a list")
    if len(value) > MOST_ENTRIES:
        wrong.append(f"{at} has {len(value):,} entries; those after the first {MOST_ENTRIES:,} were left out")
    found = []
    for number, one in enumerate(value[:MOST_ENTRIES]):
        place = f"{at}[{number}]"
        try:
            entry = _fit(one, shape[0], place, wrong)
        except Unfit as wanted:
            wrong.append(f"{place} is not {wanted}, and was left out")
            continue
        lacking = sorted(key for key in NEEDED.get(at, ()) if entry.get(key) is None)
        if lacking:
            wrong.append(f"{place} has no {' and no '.join(lacking)}, and was left out")
        else:
            found.append(entry)
    return found
