"""Lines that are there twice count once: pasted twice, copied twice, taken out by grep; and what makes them hard to see."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit

RECORDS = [
    f"(EngineCore_DP0 pid=31) INFO 03-01 12:0{at // 2}:1{at} [runner.py:{at}] {word}"
    for at, word in enumerate("one two three four five six seven eight".split())
]
LOG = "".join(f"{line}\n" for line in RECORDS)


def texts(folder: Path) -> list[str]:
    """Messages of the logs in a folder, in the order in which they are read."""
    return [row["text"] for row in kit.open_run(folder, "2026-03-01 12:10:00").rows("log")]


WORDS = [line.rsplit(" ", 1)[1] for line in RECORDS]


@pytest.mark.parametrize("numbered", ["{0:5}  {1}", "[{2}] {1}", "{0}\t{1}", "{1}"])
def test_a_log_pasted_twice_from_an_editor_is_read_once(tmp_path: Path, numbered: str) -> None:
    copy = "".join(numbered.format(at, line, 80720 + at) + "\n" for at, line in enumerate(RECORDS, 1))
    (tmp_path / "paste.txt").write_text(f"{copy}\n{copy}")
    assert texts(tmp_path) == WORDS
    (note,) = kit.open_run(tmp_path).rows("notes")
    assert "twice" in note["reason"] and note["line"] == 1


def test_ends_of_a_log_that_overlap_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "tail-1.txt").write_text("".join(line + "\n" for line in RECORDS[3:]))
    (tmp_path / "tail-2.txt").write_text("".join(line + "\n" for line in RECORDS[:6]))
    run = kit.open_run(tmp_path, "2026-03-01 12:10:00")
    rows = run.rows("log")
    assert [row["text"] for row in rows] == WORDS and len(run.captures) == 1
    assert [(row["capture"], row["line"]) for row in rows][5:7] == [("tail-2.txt", 6), ("tail-1.txt", 4)]
    assert "goes on where tail-2.txt ends: 3 lines are in both" in run.unread()[0]


def test_what_grep_took_out_of_a_log_is_no_log_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(LOG)
    (tmp_path / "found.txt").write_text("".join(f"server.log:{at}:{RECORDS[at - 1]}\n" for at in (2, 4, 5, 7)))
    assert texts(tmp_path) == WORDS


def test_ranks_that_print_the_same_are_not_one(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_text(LOG)
    (tmp_path / "spam.log").write_text("INFO 03-01 12:00:01 [a.py:1] waiting\n" * 40)
    assert len(texts(tmp_path)) == 2 * len(RECORDS) + 40


def test_numbers_that_belong_to_their_lines_stay(tmp_path: Path) -> None:
    labels = "".join(f"{rank}: INFO 03-01 12:00:01 [a.py:1] on rank\n" for rank in range(8))
    (tmp_path / "slurm.out").write_text("srun: job 7 queued\n" + labels)
    assert [row["raw"][:2] for row in kit.open_run(tmp_path).rows("log")][1:] == [f"{rank}:" for rank in range(8)]


def wrapped(text: str, width: int) -> str:
    """A text as a terminal of that width copies it."""
    return "".join(line[at : at + width] + "\n" for line in text.splitlines() for at in range(0, max(len(line), 1), width))


def test_pages_of_a_pdf_are_one_text_with_its_lines_whole(tmp_path: Path) -> None:
    long = [f"{line} {'and more words that go on and on ' * 3}end" for line in RECORDS]
    lines = wrapped("\n".join(long), 80).splitlines()
    pages = [
        f"Case 418   Page {n} of 3\n\n" + "\n".join(lines[at : at + 7]) + "\n\nConfidential\n"
        for n, at in enumerate((0, 7, 14), 1)
    ]
    (tmp_path / "case.txt").write_text("\f".join(pages))
    run = kit.open_run(tmp_path, "2026-03-01 12:10:00")
    rows = run.rows("log")
    assert [row["text"] for row in rows] == [line.split("] ")[1] for line in long][: len(rows)] and len(rows) >= 7
    assert rows[-1]["line"] > rows[0]["line"] + 15


def test_bars_that_a_narrow_terminal_broke_are_whole(tmp_path: Path) -> None:
    bars = [
        f"Loading safetensors checkpoint shards:  18% Completed | {at}/163 [16:30<1:13:09, 33.0{at % 10}s/it]"
        for at in range(30, 36)
    ]
    (tmp_path / "pane.txt").write_text("[2026-03-01 12:00:00 TP0] Load weight begin.\n" + wrapped("\n".join(bars), 80))
    got = [row for row in kit.open_run(tmp_path, "2026-03-01 12:30:00").rows("log") if row.get("bar_kind")]
    assert [(row["bar_n"], row["bar_s_per_item"]) for row in got] == [(at, 33 + at % 10 / 100) for at in range(30, 36)]
