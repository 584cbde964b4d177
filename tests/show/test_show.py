"""What notebooks show: escaped, counted, with alternative text, and with a static form of each widget."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from matplotlib.figure import Figure

import kit
from kit import show
from kit.frames import FRAMES
from kit.plot import figure_alt
from kit.plot.style import dress
from kit.show import opening, svg


class Tags(HTMLParser):
    """All tags with their attributes, and the text."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


HOSTILE = "<script>alert(\"1\")</script> & 'quoted'"


def test_figure_keeps_its_alternative_text_and_follows_a_dark_theme():
    figure = Figure(facecolor="white")
    dress(figure.add_subplot(title=HOSTILE), x_label="s").plot([1, 2])
    figure_alt(figure, HOSTILE)
    html = show.figure(figure, caption=HOSTILE)._repr_html_()
    page = Tags(html)
    (image,) = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert image["role"] == "img" and image["aria-label"] == HOSTILE
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.tags) and page.text.count(HOSTILE) == 2
    style = page.tags[0][1]["style"]
    assert "--ink:var(--jp-content-font-color1" in style and "--paper:var(--jp-layout-color0" in style and "--stall:" in style
    assert image["style"].startswith("min-width:var(--least,") and "--least:" in style, "it fits a cell beside a sidebar"
    # neither paper nor ink is a colour of its own: what is not themed would be white on a dark page, or not be seen
    assert not re.findall(r"(?:fill|stroke): ?#(?:fff(?:fff)?|222(?:222)?|000(?:000)?)\b", html)


def test_figure_without_alternative_text_is_refused():
    with pytest.raises(ValueError, match="figure_alt"):
        show.figure(Figure())


def test_a_pyplot_figure_is_closed():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    show.figure(pyplot.figure(), alt="nothing")
    assert pyplot.get_fignums() == []


def test_table_escapes_cells_heads_and_caption():
    page = Tags(show.table(pd.DataFrame({HOSTILE: [HOSTILE]}), caption=HOSTILE)._repr_html_())
    assert {tag for tag, _ in page.tags} == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert not [key for _, about in page.tags for key in about if key.startswith("on")]
    assert page.text.count(HOSTILE) == 3


def test_table_says_how_many_of_how_many():
    frame = pd.DataFrame({"pid": range(50)})
    assert "20 of 50 rows" in show.table(frame)._repr_html_()
    assert "50 rows" in show.table(frame, 50)._repr_html_()
    assert "no rows" in show.table(frame.head(0))._repr_html_()


def test_table_writes_values_for_people_and_leaves_the_frame_alone():
    frame = FRAMES["processes"].build(
        [{"pid": 7, "rss_bytes": 3 * 2**30, "time": 1_771_374_484_000_000_000, "capture": "a"}, {"pid": 8, "capture": "a"}]
    )
    before = frame.copy(deep=True)
    shown = show.table(frame, columns=["time", "pid", "rss_bytes", "comm"])
    assert f"data-v='{3 * 2**30}' title='{3 * 2**30}'" in shown._repr_html_()
    assert shown.columns == ("time", "pid", "rss_bytes")  # comm holds nothing
    assert shown.rows == (("2026-02-18 00:28:04", "7", "3.0 GiB"), ("", "8", ""))
    assert frame.equals(before)


def test_long_cells_are_cut_and_counted():
    ((text,),) = show.table(pd.DataFrame({"text": ["x" * 10_000]})).rows
    assert len(text) < 500 and "10,000 characters" in text


def test_log_around_shows_both_sides_of_the_last_progress():
    kinds = ["progress"] * 30 + ["heartbeat"] * 30
    log = FRAMES["log"].build(
        [
            {"record": n, "kind": kind, "text": f"line {n}", "raw": "", "line": n + 1, "capture": "server.log"}
            for n, kind in enumerate(kinds)
        ]
    )
    shown = show.log_around(log, 2, 3)
    assert [row[-1] for row in shown.rows] == ["line 27", "line 28", "line 29", "line 30", "line 31", "line 32"]
    assert show.log_around(FRAMES["log"].empty()).rows == ()


@pytest.fixture
def chooser(tmp_path, monkeypatch):
    """A folder with a run of a hostile name; nothing was chosen before."""
    monkeypatch.setattr(opening, "_LAST", {})
    folder = tmp_path / HOSTILE.replace("/", "")
    folder.mkdir()
    (folder / "server.log").write_text("[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n")
    return lambda **about: show.choose(tmp_path, **about)


def test_a_choice_is_kept_and_redrawn(chooser, tmp_path):
    first = chooser(default="port-taken")
    assert first.verdict.klass == "port_in_use" and HOSTILE.replace("/", "") in first.listed
    first.path.value = str(tmp_path / HOSTILE.replace("/", ""))  # as somebody who types a path
    assert first.verdict.phase == "weights"
    shown = [output["data"]["text/html"] for output in first.output.outputs]
    assert len(shown) == 2 and "weights" in shown[0] and "<script>" not in shown[0]
    assert chooser(default="port-taken").chosen == first.chosen, "the cell ran again"


def test_a_wrong_choice_is_told_where_it_was_made(chooser):
    choice = chooser(default="port-taken")
    choice.path.value = "no-such-folder"
    (shown,) = choice.output.outputs
    assert "there is no such file or folder" in shown["data"]["text/html"], "that alone, and no longer what was shown before"
    assert "no such file" in choice._repr_mimebundle_()["text/html"]


def test_a_paste_is_judged_and_kept_without_its_secrets(chooser):
    choice = chooser()
    choice.area.value = "It hangs.\n\n```\n$ tail -1 server.log\n"
    choice.area.value += "[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n```\nHF_TOKEN=hunter2\n"
    choice.button.click()
    assert choice.verdict.phase == "weights"
    assert "hunter2" not in (choice.run.path / "paste.txt").read_text()
    bundle = choice._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle and "weights" in bundle["text/html"]
    assert chooser().text == choice.area.value


def test_the_appendix_is_folded_and_its_tables_sort():
    shown = Tags(show.appendix(kit.verdict(kit.sample("port-taken")))._repr_html_())
    tags = [tag for tag, _ in shown.tags]
    assert tags.count("details") == 8 and not [about for tag, about in shown.tags if tag == "details" and "open" in about]
    assert tags.count("script") == 1 and tags.count("table") >= 5


def test_a_large_drawing_is_a_picture_under_text_in_the_colours_of_the_page(monkeypatch):
    drawn = Figure()
    drawn.add_subplot(title="above").plot(range(9))
    figure_alt(drawn, "nine")
    marks = drawn.axes[0].lines
    assert "<image" not in svg.figure(drawn)
    monkeypatch.setattr(svg, "MOST_BYTES", 100)
    shown = svg.figure(drawn)
    assert shown.count("<image") == 1 and ">above</text>" in shown and not marks[0].get_rasterized()
