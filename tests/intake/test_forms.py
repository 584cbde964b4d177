"""Forms in which screens, viewers, shells and journals show a log: what is read of it is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit

RECORDS = [
    f"[2026-03-01 12:00:{10 + at} TP0] {word}"
    for at, word in enumerate("Load weight begin.|Capture cuda graph begin.|x|y".split("|"))
]
LOG = "".join(line + "\n" for line in RECORDS)
PS = "  PID STAT %CPU COMMAND\n   77 Sl  100.0 python3 -m sglang.launch_server\n"
WORDS = [line.split("] ")[1] for line in RECORDS]


def box(text: str, side: str, corner: str, edge: str) -> str:
    width = max(map(len, text.splitlines()))
    border = corner + edge * (width + 2) + corner + "\n"
    return border + "".join(f"{side} {line:<{width}} {side}\n" for line in text.splitlines()) + border


FORMS = {
    "box": box(LOG, "│", "┌", "─"),
    "box of ASCII": box(LOG, "|", "+", "-"),
    "box in prose": "The panel shows\n" + box(LOG, "║", "╔", "═"),
    "grep -n": "$ grep -n TP0 a.log\n" + "".join(f"{at * 7}:{line}\n" for at, line in enumerate(RECORDS, 3)) + f"$ ps ax\n{PS}",
    "newest first": "".join(line + "\n" for line in reversed(RECORDS)),
    "newest first behind stamps": "".join(f"2026-03-01T12:00:{30 + at}Z {RECORDS[at]}\n" for at in (3, 2, 1, 0)),
    "blanks of a page": LOG.replace(" ", "\u00a0"),
    "p10k": f"╭─ ~/srv ✔  12:01:00\n╰─ tail a.log\n{LOG}╭─ ~/srv ✔  12:02:00\n╰─❯ ps -eo pid,stat,pcpu,args\n{PS}",
    "one line": f"~/srv main ❯ tail a.log                 12:01:00\n{LOG}~/srv main ❯ ps -eo pid,stat,pcpu,args\n{PS}",
    **{f"journal {word}": "".join(f"{word} 01 12:01:0{at} gpu a[7]: {line}\n" for at, line in enumerate(RECORDS))
       for word in ("Mär", "mars", "3月", "мар")},
    "short-full": "".join(f"Sun 2026-03-01 12:01:0{at} UTC gpu a[7]: {line}\n" for at, line in enumerate(RECORDS)),
    "no host": "".join(f"Mar 01 12:01:0{at} a[7]: {line}\n" for at, line in enumerate(RECORDS)),
    "short-monotonic": "".join(f"[ 1234.00000{at}] gpu a[7]: {line}\n" for at, line in enumerate(RECORDS)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_whatever_shows_it(tmp_path: Path, form: str) -> None:
    (tmp_path / "seen.txt").write_text(FORMS[form])
    run = kit.open_run(tmp_path, "2026-03-01 12:10:00")
    rows = [row for row in run.rows("log") if "TP0]" in row["raw"]]
    assert [row["text"] for row in rows] == WORDS
    lines = FORMS[form].splitlines()
    assert all(row["text"] in lines[row["line"] - 1].replace("\u00a0", " ") for row in rows)
    if PS in FORMS[form]:
        assert [row["pid"] for row in run.rows("processes")] == [77]


def test_a_table_in_bars_is_no_boxed_log(tmp_path: Path) -> None:
    table = "+----+\n| GPU  Name      |\n|   0  NVIDIA H100 |\n|   1  NVIDIA H100 |\n+----+\n"
    (tmp_path / "a.log").write_text(LOG + table)
    assert [row["raw"] for row in kit.open_run(tmp_path).rows("log")][-2:] != ["0  NVIDIA H100", "1  NVIDIA H100"]
