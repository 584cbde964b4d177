"""The compiled pass over JSON lines tells what the careful reader tells: lines of the cases, as each shipper wraps them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import compiled
from kit.intake import shippers
from kit.intake.content import Numbers

LOGS = sorted((Path(__file__).parent.parent / "data" / "cases").glob("*/*/*.log"))[::12]
ODD = [
    '{"a": "inner"}',
    "",
    "  ",
    "\u00e9t\u00e9",
    'a\tb \\ " / \x1b[36mINFO\x1b[0m',
    "bar 1%\rbar 2%\r",
    "two\nlines",
    "\u2028 \U0001f600",
]


def _stamp(number: int) -> str:
    return f"2026-03-20T12:{number // 60 % 60:02}:{number % 60:02}.{number:09}Z"


FORMS: dict[str, Callable[[int, str], dict]] = {
    "docker": lambda n, text: {"log": text + "\n", "stream": "stderr" if n % 3 else "stdout", "time": _stamp(n)},
    "docker, cut": lambda n, text: {"log": text + "\n" * (n % 7 > 0), "stream": "stderr", "time": _stamp(n)},
    "elastic": lambda n, text: {"@timestamp": _stamp(n), "log": {"offset": n * 131}, "message": text, "input": {"type": "log"}},
    "level": lambda n, text: {"level": "error" if n % 5 == 0 else "INFO", "ts": _stamp(n), "msg": text, "line": n},
    "keys": lambda n, text: {"level": "INFO", "ts": _stamp(n), "msg": text, "step": n} | ({"addr": ":80"} if n % 6 == 0 else {}),
    "pods": lambda n, text: {
        "time": _stamp(n),
        "kubernetes": {"pod_name": f"vllm-{n % 3}", "container_name": "server"},
        "log": text,
    },
    "epoch": lambda n, text: {"ts": n if n % 2 else 1_770_000_000 + n, "time": _stamp(n), "message": text, "ok": None},
    "trace": lambda n, text: {"time": _stamp(n), "message": text, "exc_info": "a\nb" if n % 4 == 0 else "none", "id": f"{n:x}"},
    "no century": lambda n, text: {"time": _stamp(n) if n % 4 else "9" + _stamp(n)[1:], "log": text},
    "no time": lambda n, text: {"stream": "stdout", "log": text},
}


def told(data: bytes, fast: bool, patch: pytest.MonkeyPatch) -> tuple[bytes, list[int]]:
    """What lines hold, and the number of each in the file."""
    patch.setattr(compiled, "pays", lambda kind, size: fast)
    numbers = Numbers()
    lines = data.splitlines(keepends=True)
    blocks = [(at, b"".join(lines[at : at + 400])) for at in range(0, len(lines), 400)]
    text = b"".join(shippers.lines_of(iter(blocks), numbers))
    return text, [numbers.original(line) for line in range(1, text.count(b"\n") + 1)]


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_line_is_told_as_the_careful_reader_tells_it(form: str, compact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [line for log in LOGS for line in log.read_text(errors="replace").split("\n")[:60]]
    texts = [piece for at, text in enumerate(texts) for piece in ([text, ODD[at // 9 % len(ODD)]] if at % 9 == 8 else [text])]
    spaces = (",", ":") if compact else (", ", ": ")
    lines = [json.dumps(FORMS[form](n, text), ensure_ascii=n % 2 == 0, separators=spaces) for n, text in enumerate(texts)]
    for at in range(7, len(lines), 50):
        lines[at] = ("no record", '{"log": 01, "time": "x"}', '{"log": "cut off')[at // 50 % 3]
    data = "\n".join(lines).encode("utf-8", "surrogateescape")
    assert told(data, True, monkeypatch) == told(data, False, monkeypatch)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(FORMS)), st.integers(0, 50), st.text(max_size=30), st.booleans()), max_size=30),
    st.data(),
)
def test_any_text_is_told_as_the_careful_reader_tells_it(rows: list, more: st.DataObject) -> None:
    lines = [
        json.dumps(FORMS[form](n, text), ensure_ascii=plain).encode("utf-8", "surrogatepass") for form, n, text, plain in rows
    ]
    if lines and more.draw(st.booleans()):
        at = more.draw(st.integers(0, len(lines) - 1))
        place = more.draw(st.integers(0, len(lines[at])))
        lines[at] = lines[at][:place] + more.draw(st.binary(max_size=3)) + lines[at][place:]
    data = b"\n".join(line for line in lines for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        assert told(data, True, patch) == told(data, False, patch)


def test_lines_of_a_known_form_are_not_read_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    careful = shippers._loaded
    monkeypatch.setattr(shippers, "_loaded", lambda line: read.append(line) or careful(line))
    for form in ("elastic", "level", "no time"):
        read.clear()
        told("\n".join(json.dumps(FORMS[form](n, f"said {n}")) for n in range(2000)).encode(), True, monkeypatch)
        assert len(read) < 600, form
