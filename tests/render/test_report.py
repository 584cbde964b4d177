"""The report: one file, no network, everything escaped and described, the answer on the first screen; looked at in Chromium."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import kit
from kit.cli import main
from kit.errors import EvidenceError, KitError, UsageError
from kit.render.notebook import notebook_path, scrub, with_parameters
from kit.render.page import _whole
from kit.render.report import markdown, report
from tests.browser import until

DATA = Path(__file__).resolve().parents[2] / "data"
RUNS = ("sg01-capture-hang", "port-taken", "log-lost")
"""One that stalled, one that failed, one that is ready; all others are judged elsewhere."""
MOST_BYTES = 1_500_000
SECRET = "hf_" + "AbCdEfGh12345678" * 2
LOADING = ("src", "href", "data", "xlink:href", "srcset", "poster")
"""Attributes that name something to load."""


class Page(HTMLParser):
    """Tags and text of a page, without its scripts."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self._in = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        if self._in not in ("style", "script"):
            self.text += data

    def all(self, name: str) -> list[dict]:
        """Attributes of each tag of a name."""
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    """The report of a stalled launch against one that worked: all that a report can hold."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    return report(DATA / "pipe-ticker", out, against=[DATA / "healthy-tp2"])


@pytest.fixture(scope="module")
def loose(tmp_path_factory) -> Path:
    """A folder of loose files whose log holds mark-up and a secret."""
    folder = tmp_path_factory.mktemp("loose") / "a launch"
    folder.mkdir()
    (folder / "server.log").write_text(
        "[2026-02-18 00:28:04] server_args=ServerArgs(model_path='/models/x', tp_size=1)\n"
        f"[2026-02-18 00:28:15] </script><script>alert(1)</script> <img src=x onerror=alert(1)> HF_TOKEN={SECRET}\n"
        "[2026-02-18 00:28:20] Load weight begin. avail mem=78.10 GB\n"
    )
    return folder


@pytest.fixture(scope="module")
def hostile(loose, tmp_path_factory) -> Path:
    """The report of the loose files."""
    out = tmp_path_factory.mktemp("hostile") / "deep" / "er" / "report.html"
    return report(loose, out, captured_at="2026-02-18 00:40:00")


def test_it_loads_nothing_and_only_its_own_scripts_run(compared) -> None:
    html = compared.read_text(encoding="utf-8")
    page = Page(html)
    assert len(html) < MOST_BYTES
    loaded = [attributes[name] for _, attributes in page.tags for name in LOADING if attributes.get(name)]
    assert [one for one in loaded if not one.startswith(("data:image/", "#"))] == []
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    (policy,) = [one["content"] for one in page.all("meta") if one.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and policy.count("'sha256-") == 2
    assert str(DATA) not in html and "tutorial" not in page.text
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))


def test_it_says_what_why_what_next_and_compares_those_two(compared) -> None:
    page = Page(compared.read_text(encoding="utf-8"))
    verdict = kit.verdict(kit.sample("pipe-ticker"), against=kit.sample("healthy-tp2"))
    order = (verdict.plain, "Run first", verdict.next[0]["command"], verdict.evidence[0]["claim"], f"({verdict.klass})")
    order += ("a = healthy-tp2, b = pipe-ticker", "all other classes", "--tensor-parallel-size 2", "What was captured and read")
    places = [page.text.index(one) for one in order]
    assert places == sorted(places)
    assert "eager-1" not in page.text, "the launches of the notebook's lesson"
    figures = [one["aria-label"] for one in page.all("svg")] + [one["alt"] for one in page.all("img")]
    assert len(figures) >= 5 and all(len(one) > 40 for one in figures)
    assert any(one.startswith("Timeline of pipe-ticker") for one in figures)


def test_log_text_is_escaped_and_secrets_are_masked(hostile) -> None:
    html = hostile.read_text(encoding="utf-8")
    page = Page(html)
    assert "<script>alert(1)</script>" in page.text
    assert [one.get("type") for one in page.all("script")] == ["application/x-stallkit", "module", None]
    assert not [one for one in page.all("img") if one.get("src") == "x"]
    assert SECRET not in html and [tag for tag, _ in page.tags].count("title") == 1


SMI = """\
index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], power.limit [W]
0, NVIDIA H100 80GB HBM3, 100 %, 71234 MiB, 121.00 W, 700.00 W
1, NVIDIA H100 80GB HBM3, 100 %, 71234 MiB, 121.00 W, 700.00 W
"""


def test_a_table_of_gpus_alone_makes_a_report_without_empty_sections(tmp_path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "gpus.csv").write_text(SMI)
    page = Page(report(tmp_path / "run", tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "unknown the evidence is inconclusive" in " ".join(page.text.split()), "nothing tells where it stands"
    for empty in ("Environment and flags", "Phases of each rank", "The log around its last progress"):
        assert empty not in page.text
    for said in ("no log of the server", "What was captured and read"):
        assert said in page.text


@pytest.mark.parametrize("name", RUNS)
def test_markdown_of_a_bundled_run(name: str) -> None:
    found = kit.verdict(kit.sample(name))
    whole, brief = markdown(DATA / name), markdown(DATA / name, brief=True)
    assert whole.startswith(f"**{found.state}") and "**environment and flags**" in whole
    assert brief.startswith(f"**{found.state}") and len(brief) < len(whole) / 2


def test_belief_adds_up() -> None:
    assert _whole([0.496, 0.496, 0.006]) == [50, 50, 0]
    assert _whole([0.3333, 0.3333, 0.3333]) == [34, 33, 33]
    assert _whole([0.9999, 0.0001]) == [99, 0]


# ---- where it is written


def test_what_cannot_be_written_is_told_before_anything_is_read(tmp_path) -> None:
    nowhere = tmp_path / "no such run"
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(UsageError, match="HTML, not PDF.*print-to-pdf"):
        report(nowhere, tmp_path / "report.pdf")
    with pytest.raises(EvidenceError, match="cannot write"):
        report(nowhere, tmp_path / "taken" / "report.html")
    with pytest.raises(EvidenceError, match="it is a folder"):
        report(nowhere, tmp_path)
    with pytest.raises(EvidenceError, match="no such file"):
        report(nowhere, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_command_line_prints_or_writes(loose, tmp_path, capsys) -> None:
    given = ["report", str(loose), "--captured-at", "2026-02-18 00:40:00"]
    assert main([*given, "--brief"]) == 0
    assert capsys.readouterr().out.startswith("**")
    assert main([*given, "--markdown", "-o", str(tmp_path / "a.html")]) == 2
    assert "Markdown" in capsys.readouterr().err
    assert main([*given, "--markdown", "-o", str(tmp_path / "a.md")]) == 0
    assert (tmp_path / "a.md").read_text().startswith("**")


def test_an_interrupt_leaves_nothing_behind(tmp_path) -> None:
    """Ctrl-C while it works: one line, the code of shells, no file."""
    code = "import sys; from kit.render import postmortem; from kit.cli import main\n"
    code += "postmortem.told = lambda verdict: (print('here', flush=True), sys.stdin.read())\n"
    code += f"sys.exit(main(['report', {str(DATA / 'sg01-capture-hang')!r}, '-o', {str(tmp_path / 'report.html')!r}]))"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as running:
        assert running.stdout.readline() == "here\n"
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()  # its input stays open: an end of it would let the work go on
    assert (running.returncode, said) == (130, "kit: interrupted\n")
    assert list(tmp_path.iterdir()) == []


# ---- in a browser


@pytest.fixture(scope="module")
def opened(browser, compared) -> Iterator:
    """The page in Chromium; a request would be noted."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    tab.asked, tab.failed = [], []
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.on("pageerror", lambda error: tab.failed.append(str(error)))
    tab.on("console", lambda message: tab.failed.append(message.text) if message.type == "error" else None)
    tab.goto(compared.as_uri())
    until(tab, "document.querySelector('.sk')?.explorer?.drawn !== undefined")
    yield tab
    assert tab.failed == []
    assert tab.asked == [compared.as_uri()]
    context.close()


@pytest.mark.needs_tool("chromium")
@pytest.mark.parametrize(("width", "height"), [(1200, 800), (390, 844)])
def test_the_first_screen_answers(opened, width: int, height: int) -> None:
    opened.set_viewport_size({"width": width, "height": height})
    for place in ("h1", ".vitals", ".first .command", ".first button", ".glance svg", ".about"):
        box = opened.locator(place).first.bounding_box()
        assert box["y"] + box["height"] <= height and box["x"] + box["width"] <= width, place
    assert opened.locator("h1").inner_text().split() == "stalled in weights: one rank is behind".split()
    assert "62 s" in opened.locator(".vitals").inner_text() and "vllm 0.32.0" in opened.locator(".about").inner_text()
    flag = opened.locator(".first code span", has_text="--nonblocking").bounding_box()
    assert flag["height"] < 30, "a flag stands on one line"
    assert opened.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.needs_tool("chromium")
def test_a_command_is_copied_and_a_claim_leads_to_its_line(opened) -> None:
    opened.set_viewport_size({"width": 1200, "height": 800})
    opened.locator(".first button").click()
    until(opened, "document.querySelector('.first button').textContent === 'Copied'")
    assert opened.evaluate("navigator.clipboard.readText()") == opened.locator(".first code").inner_text()
    opened.locator("#why a.place", has_text="raw/server.log:55").first.click()
    assert "Using LBHNC KV cache layout" in opened.get_by_label("Selected record").first.inner_text()
    assert opened.locator(".sk-name").all_inner_texts() == ["pipe-ticker", "healthy-tp2"], "no letter: a is the one that worked"


@pytest.mark.needs_tool("chromium")
def test_a_table_sorts_filters_and_folds(opened) -> None:
    opened.evaluate("document.querySelectorAll('#launch details').forEach((one) => (one.open = true))")
    table = opened.locator("#launch details table")
    rows = table.locator("tbody tr")
    assert (rows.count(), rows.locator("visible=true").count()) == (96, 15)
    box = opened.get_by_label("filter As the server printed them (96 rows)")
    box.fill("seed")
    assert [one.split("\t")[0] for one in rows.locator("visible=true").all_inner_texts()] == ["seed"]
    assert opened.locator("#launch").get_by_role("status").locator("visible=true").inner_text() == "1 of 96 rows"
    box.fill("")
    opened.locator("#launch").get_by_role("button", name="all 96 rows").click()
    table.get_by_role("button", name="argument").click()
    table.get_by_role("button", name="argument").click()
    names = [one.split("\t")[0] for one in rows.all_inner_texts()]
    assert len(names) == 96 and names[0] > names[-1]
    assert table.locator("th").first.get_attribute("aria-sort") == "descending"


@pytest.mark.needs_tool("chromium")
@pytest.mark.parametrize(
    "view", [(1200, "light", "screen"), (390, "dark", "screen"), (320, "light", "screen"), (1200, "light", "print")], ids=str
)
def test_nothing_for_axe_to_find(opened, view) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    width, scheme, medium = view
    opened.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    opened.set_viewport_size({"width": width, "height": 800})
    opened.emulate_media(color_scheme=scheme, media=medium)
    found = axe.run(opened)
    assert [(one["id"], [node["html"][:90] for node in one["nodes"][:3]]) for one in found.response["violations"]] == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= max(width, 320), (
        "at 200 % and 400 % zoom nothing is cut off"
    )
    if medium == "print":
        assert opened.locator(".stallkit-still svg").first.is_visible() and not opened.locator(".sk").first.is_visible()
        opened.evaluate("document.querySelectorAll('#appendix details').forEach((one) => (one.open = false))")
        assert not opened.locator("#appendix").is_visible(), "no headings of what is folded"
    opened.emulate_media(color_scheme="light", media="screen")


@pytest.mark.needs_tool("chromium")
def test_figures_are_read_and_scroll_by_keys_on_a_phone_and_fit_on_paper(opened) -> None:
    opened.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    opened.set_viewport_size({"width": 390, "height": 844})
    smallest = opened.evaluate(
        "Math.min(...[...document.querySelectorAll('main figure > .kit-figure text')].filter((one) => one.checkVisibility())"
        ".map((one) => parseFloat(getComputedStyle(one).fontSize) * Math.hypot(one.getScreenCTM().a, one.getScreenCTM().b)))"
    )
    assert smallest >= 10.99
    figure = opened.locator("#against .kit-figure")
    figure.focus()
    opened.keyboard.press("ArrowRight")
    figure.evaluate("(one) => new Promise((on) => { const look = () => one.scrollLeft ? on() : setTimeout(look, 9); look(); })")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    opened.emulate_media(media="print")
    assert figure.locator("svg").bounding_box()["width"] <= 390
    opened.emulate_media(media="screen")


@pytest.mark.needs_tool("chromium")
def test_without_scripts_figures_stand_in_their_place(browser, hostile) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(hostile.as_uri())
    assert tab.locator(".stallkit-still svg").is_visible() and tab.get_by_role("button").count() == 0
    assert tab.locator(".first code").is_visible()
    context.close()


# ---- the notebook of it


def test_the_notebook_is_kept_beside_it(loose, tmp_path) -> None:
    out = report(loose, tmp_path / "report.html", captured_at="2026-02-18 00:40:00", notebook=True)
    kept = nbformat.read(out.with_suffix(".ipynb"), as_version=4)
    shown = [output for cell in kept.cells for output in cell.get("outputs", [])]
    assert shown and not [output for output in shown if output.output_type == "error"]
    assert str(loose) in kept.cells[2].source, "it can be run again"
    assert SECRET not in json.dumps(kept)


def test_scrubbing_leaves_pictures_and_markup_whole() -> None:
    pixels = 'src="data:image/png;base64,abcABC+/abc==">'
    shown = f'<p class="abc">key=abc &lt;abc&gt;</p><img alt="&quot;abc&quot;" {pixels}'
    notebook = new_notebook(cells=[new_code_cell("abc", outputs=[new_output("display_data", {"text/html": shown})])])
    notebook.metadata["widgets"] = {"state": "abc"}
    scrub(notebook, lambda text: text.replace("abc", "<*>"))
    scrubbed = notebook.cells[0].outputs[0].data["text/html"]
    assert scrubbed == f'<p class="abc">key=&lt;*&gt; &lt;&lt;*&gt;&gt;</p><img alt="&quot;&lt;*&gt;&quot;" {pixels}'
    assert "widgets" not in notebook.metadata


def test_parameters_follow_their_cell_and_the_notebook_stays() -> None:
    given = nbformat.read(notebook_path("01_postmortem.ipynb"), as_version=4)
    before = len(given.cells)
    changed = with_parameters(given, {"run_path": "it's", "captured_at": None})
    assert len(given.cells) == before
    assert 'run_path = "it\'s"\ncaptured_at = None' in [cell.source for cell in changed.cells]


def test_a_missing_notebook_is_told() -> None:
    with pytest.raises(KitError, match="pip install"):
        notebook_path("99_nothing.ipynb")
