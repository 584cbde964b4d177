"""The report: one file, no network, no script, everything escaped and described, verdict first."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import kit
from kit.errors import TROUBLE, EvidenceError, KitError
from kit.render.notebook import notebook_path, scrub, with_parameters
from kit.render.report import report

DATA = Path(__file__).resolve().parents[2] / "data"
RUNS = sorted(path.name for path in DATA.iterdir() if (path / "run.json").is_file())
MOST_BYTES = 3_000_000
LOADING = {
    "img": "src",
    "script": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
    "embed": "src",
    "image": "href",
    "use": "href",
    "input": "src",
}
"""Tags that load something, and the attribute that names it."""
SECRET = "hf_" + "AbCdEfGh12345678" * 2


class Page(HTMLParser):
    """Tags, images and text of a page."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.style = ""
        self._in = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        if self._in == "style":
            self.style += data
        else:
            self.text += data


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`made(name)` is the report of a bundled run; each is made once."""
    folder = tmp_path_factory.mktemp("reports")
    return cache(lambda name: report(DATA / name, folder / f"{name}.html"))


@pytest.mark.parametrize("name", RUNS)
def test_every_bundled_run_has_a_report(made, name):
    html = made(name).read_text(encoding="utf-8")
    page = Page(html)
    assert len(html) < MOST_BYTES
    assert "This cell failed" not in page.text
    klass = kit.verdict(DATA / name).klass
    body = Page(html.partition("<main>")[2]).text
    assert body.index(f"({klass})") < body.index("What was captured")
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) >= 4
    assert any(image["alt"].startswith(f"Timeline of {name}") for image in images)
    assert all(len(image["alt"]) > 40 and "No description" not in image["alt"] for image in images)


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_loaded_and_no_script_runs(made, name):
    page = Page(made(name).read_text(encoding="utf-8"))
    loaded = [attributes[LOADING[tag]] for tag, attributes in page.tags if tag in LOADING and attributes.get(LOADING[tag])]
    assert loaded and all(source.startswith("data:") for source in loaded)
    assert "script" not in {tag for tag, _ in page.tags}
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert not re.search(r"url\(|@import", page.style)


@pytest.mark.parametrize("name", RUNS)
def test_code_is_folded_away_and_the_machine_is_not_named(made, name):
    html = made(name).read_text(encoding="utf-8")
    outside = re.sub(r"<details.*?</details>", "", html, flags=re.DOTALL)
    for source in ("import kit", "plot.plot_timeline("):
        assert source in html and source not in outside
    assert str(DATA) not in html


@pytest.mark.needs_tool("chromium")
def test_chromium_shows_it_without_a_network(made, tool, tmp_path):
    picture = tmp_path / "report.png"
    subprocess.run(
        [
            tool("chromium"),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--screenshot={picture}",
            "--window-size=1200,3000",
            made("pipe-ticker" if "pipe-ticker" in RUNS else RUNS[0]).as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    pixels = matplotlib.image.imread(picture)[..., :3]
    assert pixels.shape[:2] == (3000, 1200)
    rows_with_content = (pixels.min(axis=(1, 2)) < 0.5).mean()
    assert rows_with_content > 0.3, "most of the page is empty"
    vivid = (pixels.max(axis=2) - pixels.min(axis=2) > 0.4).mean()
    assert vivid > 0.005, "no figure is seen"


@pytest.fixture
def loose(tmp_path):
    """A folder of loose files whose log holds mark-up and a secret."""
    folder = tmp_path / "a launch"
    folder.mkdir()
    (folder / "server.log").write_text(
        "[2026-02-18 00:28:04] server_args=ServerArgs(model_path='/models/x', tp_size=1)\n"
        f"[2026-02-18 00:28:15] <script>alert(1)</script> <img src=x onerror=alert(1)> HF_TOKEN={SECRET}\n"
        "[2026-02-18 00:28:20] Load weight begin. avail mem=78.10 GB\n"
    )
    return folder


def test_log_text_is_escaped_and_secrets_are_scrubbed(loose, tmp_path):
    html = report(loose, tmp_path / "deep" / "er" / "report.html", captured_at="2026-02-18 00:40:00").read_text(encoding="utf-8")
    page = Page(html)
    assert "<script>alert(1)</script>" in page.text
    assert "script" not in {tag for tag, _ in page.tags}
    assert not [attributes for tag, attributes in page.tags if tag == "img" and attributes.get("src") == "x"]
    assert SECRET not in html
    assert [tag for tag, _ in page.tags].count("title") == 1 and "a launch" in html


def notebook_of(path: Path, *sources: str) -> Path:
    cells = [new_code_cell("run_path = ''\ncaptured_at = None", metadata={"tags": ["parameters"]}), *map(new_code_cell, sources)]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_a_failing_cell_is_shown_and_told(loose, tmp_path):
    failing = notebook_of(tmp_path / "failing.ipynb", "raise ValueError('<b>broken</b>')", "print('went on')")
    with pytest.raises(KitError) as raised:
        report(loose, tmp_path / "report.html", notebook=failing)
    assert raised.value.code == TROUBLE
    assert "1 cell of the report failed" in str(raised.value) and "broken" in str(raised.value)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "ValueError: <b>broken</b>" in page.text and "went on" in page.text
    assert "1 of the cells failed" in page.text
    assert str(tmp_path) not in page.text


def test_a_run_that_does_not_open_writes_nothing(tmp_path):
    with pytest.raises(EvidenceError, match="no such file"):
        report(tmp_path / "nothing", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_file_that_cannot_be_written_is_told(loose, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    quick = notebook_of(tmp_path / "quick.ipynb", "1")
    with pytest.raises(EvidenceError, match="cannot write"):
        report(loose, tmp_path / "taken" / "report.html", notebook=quick)


def test_widgets_are_static_and_their_states_are_gone(loose, tmp_path):
    live = notebook_of(tmp_path / "live.ipynb", "from kit import show\nshow.choose_run('..')")
    html = report(loose, tmp_path / "report.html", notebook=live).read_text(encoding="utf-8")
    assert "widget-view" not in html and "widget-state" not in html
    assert "record one: kit collect" in html or "Runs:" in html


def test_scrubbing_leaves_pictures_and_markup_whole():
    pixels = 'src="data:image/png;base64,abcABC+/abc==">'
    shown = f'<p class="abc">key=abc &lt;abc&gt;</p><img alt="&quot;abc&quot;" {pixels}'
    notebook = new_notebook(cells=[new_code_cell("abc", outputs=[new_output("display_data", {"text/html": shown})])])
    notebook.metadata["widgets"] = {"state": "abc"}
    scrub(notebook, lambda text: text.replace("abc", "<*>"))
    scrubbed = notebook.cells[0].outputs[0].data["text/html"]
    assert scrubbed == f'<p class="abc">key=&lt;*&gt; &lt;&lt;*&gt;&gt;</p><img alt="&quot;&lt;*&gt;&quot;" {pixels}'
    assert "widgets" not in notebook.metadata


def test_parameters_follow_their_cell_and_the_notebook_stays():
    given = nbformat.read(notebook_path("01_postmortem.ipynb"), as_version=4)
    before = len(given.cells)
    changed = with_parameters(given, {"run_path": "it's", "captured_at": None})
    assert len(given.cells) == before
    assert changed.cells[2].source == 'run_path = "it\'s"\ncaptured_at = None'


def test_a_missing_notebook_is_told():
    with pytest.raises(KitError, match="pip install"):
        notebook_path("99_nothing.ipynb")


def test_a_run_against_another_one(tmp_path):
    """The comparison follows the post-mortem in one file; neither place on this machine is named."""
    out = report(DATA / "pipe-ticker", tmp_path / "report.html", against=[DATA / "healthy-tp2"])
    html = out.read_text(encoding="utf-8")
    page = Page(html)
    assert "This cell failed" not in page.text and str(DATA) not in html
    assert page.text.index("What was captured") < page.text.index("a = healthy-tp2, b = pipe-ticker")
    ids = [attributes["id"] for tag, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert any(attributes["alt"].startswith("Phases of a (healthy-tp2)") for tag, attributes in page.tags if tag == "img")
