"""The explorer in a real browser: from packed frames to what is drawn, clicked, typed and read back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import kit
from kit.frames import FRAMES
from kit.show.explorer.pack import pack
from kit.show.explorer.page import explorer_html, page, script
from tests.browser import until

NS = 1_000_000_000
ZERO = 1_700_000_000 * NS
HOSTILE = "</script><img src=x onerror=alert(1)> \u202egnp.exe \x1b[31mred <b>bold</b>"
THREADS, MOMENTS, SPIKE = 40, 900, 617
"""A spike at one moment of one thread: narrower than a pixel."""


def frames() -> dict[str, pd.DataFrame]:
    """Two ranks over 900 s: rank 1 stays behind; one thread waits on a disk once; one sample of memory is high."""
    at = [ZERO + n * NS for n in range(MOMENTS)]
    record = {"kind": "progress", "level": "INFO", "raw": "", "capture": "raw/server.log"}
    log = [
        {**record, "record": n, "line": n + 1, "time": ZERO + 3 * n * NS, "rank": n % 2, "text": f"shard {n}"} for n in range(200)
    ]
    log += [{**log[-1], "record": 200, "line": 201, "kind": "error", "level": "ERROR", "rank": 1, "text": HOSTILE}]
    sample = {"tool": "sampler", "capture": "raw/sampler.jsonl"}
    processes = [
        {**sample, "pid": pid, "time": time, "moment": n, "cpu_s": float(n), "cmdline": f"sglang::scheduler_TP{pid - 10}"}
        | {"rss_bytes": 2**30 * (9 if pid == 11 and n == SPIKE else 1)}
        for n, time in enumerate(at)
        for pid in (10, 11)
    ]
    threads = [
        {**sample, "pid": 10 + tid % 2, "tid": 1000 + tid, "comm": "worker", "time": time, "moment": n}
        | {"state": "D" if tid == 7 and n == SPIKE else "S"}
        for n, time in enumerate(at)
        for tid in range(THREADS)
    ]
    call = {"args": "3", "duration_s": 0.001, "state": "done", "capture": "raw/strace.txt"}
    calls = [
        {**call, "pid": 1000 + n % 4, "syscall": ("futex", "read", "write")[n % 3], "time": ZERO + 700 * NS + n * NS // 100}
        for n in range(500)
    ]
    rows = {"log": log, "processes": processes, "threads": threads, "syscalls": calls}
    phases = {"rank": [0, 0, 1], "phase": ["launch", "weights", "launch"]}
    phases |= {"begin_t_s": [0.0, 300.0, 0.0], "end_t_s": [300.0, 899.0, 899.0]}
    return {**{name: FRAMES[name].build(some) for name, some in rows.items()}, "phases": pd.DataFrame(phases)}


def judged() -> dict:
    """A verdict as the pack holds it."""
    return {
        "state": "stalled",
        "class": "rank_straggler",
        "answer": "stalled in weights: one rank is behind",
        "at": "",
        "ranks": [1],
        "evidence": [{"claim": "rank 1 is behind", "file": "raw/server.log", "line": 101, "t": 300.0}],
        "next": [{"what": "stacks", "command": "py-spy dump -p 11"}],
        "hypotheses": [],
        "board": {"columns": ["rank", "RSS"], "rows": [["0", "1 GiB"], ["▶ 1", "1 GiB"]], "odd": [1], "numeric": ["RSS"]},
    }


@pytest.fixture(scope="module")
def packed() -> bytes:
    """The frames as one pack, with an earlier verdict."""
    earlier = {**judged(), "t": 100.0, "state": "progressing", "answer": "progressing in launch: it loads"}
    given = {"name": "two <ranks>", "zero_ns": ZERO, "ranks": {10: 0, 11: 1}}
    return pack(frames(), judge=judged, moments=lambda events, span: [earlier], **given)


def drag(tab, name: str, begin: float, end: float) -> None:
    """Drag over a track, from one share of its width to another."""
    box = track(tab, name)
    tab.mouse.move(box["x"] + box["width"] * begin, box["y"] + 20)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * end, box["y"] + 20, steps=3)
    tab.mouse.up()


@pytest.fixture(scope="module")
def opened(browser, packed: bytes, tmp_path_factory) -> Iterator:
    """The page of a file, without a network: a request would be noted."""
    file = tmp_path_factory.mktemp("explorer") / "page.html"
    file.write_text(page(explorer_html(packed), "explorer"), encoding="utf-8")
    tab = browser.new_page(viewport={"width": 1100, "height": 900})
    tab.asked, tab.failed = [], []
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.on("pageerror", lambda error: tab.failed.append(str(error)))
    tab.on("console", lambda message: tab.failed.append(message.text) if message.type == "error" else None)
    tab.goto(file.as_uri())
    until(tab, "document.querySelector('.sk')?.explorer?.drawn !== undefined")
    yield tab
    assert tab.failed == []
    assert tab.asked == [file.as_uri()]
    tab.close()


@pytest.fixture
def tab(opened):
    """The page as it was opened."""
    opened.evaluate(
        "() => { const v = document.querySelector('.sk').explorer, p = v.panels[0]; v.filter = {}; v.asOf = v.cursor = null;"
        "v.setWindow(v.span); p.list.search.value = p.list.level.value = ''; p.story.follow(); v.draw(); p.plots.focus(); }"
    )
    return opened


def view(tab, expression: str):
    """A value of the explorer, after what is to be drawn was drawn."""
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return tab.evaluate(f"() => {{ const v = document.querySelector('.sk').explorer, p = v.panels[0]; return {expression}; }}")


def track(tab, name: str) -> dict:
    """Where a track stands on the screen."""
    place = tab.locator(f'[data-track="{name}"] canvas')
    place.scroll_into_view_if_needed()
    return place.bounding_box()


def listed(tab) -> int:
    """Records that the list holds."""
    return view(tab, "p.list.rows.length")


def test_a_brush_sets_the_window_of_all_views(tab) -> None:
    drag(tab, "memory", 0.25, 0.5)
    begin, end = view(tab, "v.window")
    assert [round(begin / 899, 2), round(end / 899, 2)] == [0.25, 0.5]
    assert listed(tab) == sum(begin <= 3 * n <= end for n in range(200))
    tab.keyboard.press("Backspace")
    assert view(tab, "v.isWhole")


def test_wheel_and_keys_zoom_and_step(tab) -> None:
    tab.keyboard.press("+")
    assert view(tab, "v.window") == [899 / 4, 899 * 3 / 4]
    tab.keyboard.press("ArrowRight")
    assert view(tab, "v.window[0]") == pytest.approx(899 / 4 + 0.16 * 899 / 2)
    box = track(tab, "cpu")
    tab.mouse.move(box["x"] + 10, box["y"] + 10)
    tab.mouse.wheel(0, -300)
    assert view(tab, "v.window[1] - v.window[0]") < 899 / 2
    tab.keyboard.press("Home")
    view(tab, "v.setCursor(-1, null)")
    tab.keyboard.press("n")
    first = view(tab, "v.cursor")
    tab.keyboard.press("n")
    assert [first, view(tab, "v.cursor")] == [0.0, 300.0]
    tab.keyboard.press("?")
    assert tab.get_by_role("dialog").get_by_text("next and previous event").is_visible()
    tab.keyboard.press("Escape")


def test_clicks_filter_all_views(tab) -> None:
    tab.get_by_role("button", name="TP1[11]").click()
    assert view(tab, "v.filter") == {"rank": 1}
    assert listed(tab) == 101
    assert view(tab, "p.tracks.find((one) => one.name === 'threads').bands.groups.map((one) => one.pid)") == [11]
    assert view(tab, "p.tracks.find((one) => one.name === 'memory').shownLines.map((one) => one.pid)") == [11]
    tab.keyboard.press("Escape")
    box = track(tab, "calls")
    tab.mouse.click(box["x"] + box["width"] * 0.78, box["y"] + 8)
    assert list(view(tab, "v.filter")) == ["call"]
    tab.keyboard.press("Escape")
    box = track(tab, "threads")
    tab.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 8)
    assert set(view(tab, "v.filter")) == {"pid", "tid", "of"}


def test_keys_filter_as_clicks_do(tab) -> None:
    for key, wanted in (("c", {"call": "futex"}), ("c", {"call": "read"}), ("C", {"call": "futex"}), ("C", {})):
        tab.keyboard.press(key)
        assert view(tab, "v.filter") == wanted
    tab.keyboard.press("k")
    assert view(tab, "v.filter") == {"kind": "progress"} and listed(tab) == 200
    tab.keyboard.press("Escape")
    tab.keyboard.press("2")
    tab.keyboard.press("T")
    assert view(tab, "v.filter") == {"rank": 1, "pid": 11, "tid": 1039, "of": 0}
    assert view(tab, "v.spoken.textContent") == "thread 1039"
    tab.keyboard.press("t")
    assert view(tab, "v.filter") == {"rank": 1}, "past the last one all are shown"


def test_search_level_and_line(tab) -> None:
    tab.keyboard.press("/")
    tab.keyboard.type("shard 19")
    assert listed(tab) == 11  # 19, 190 … 199
    tab.keyboard.press("Escape")
    tab.get_by_label("Level").select_option("ERROR")
    assert listed(tab) == 1
    tab.keyboard.press("Escape")
    tab.get_by_label("Go to line").fill("151")
    tab.keyboard.press("Enter")
    assert "shard 150" in tab.get_by_label("Selected record").inner_text()
    assert view(tab, "v.cursor") == 450.0
    assert tab.locator(".sk-row[aria-selected=true]").inner_text().endswith("shard 150")


def test_an_empty_window_leads_to_the_last_record_before(tab) -> None:
    view(tab, "v.setWindow([700, 800])")
    assert listed(tab) == 0
    tab.get_by_role("button", name="The last before: 9:57, line 201").click()
    assert view(tab, "v.window") == [547, 647] and view(tab, "v.cursor") == 597
    assert "</script><img" in tab.get_by_label("Selected record").inner_text()


def test_evidence_leads_to_its_line(tab) -> None:
    tab.get_by_role("button", name="raw/server.log:101").click()
    assert "shard 100" in tab.get_by_label("Selected record").inner_text()
    assert view(tab, "v.cursor") == 300.0


def test_text_is_drawn_as_text(tab) -> None:
    tab.get_by_label("Search the log").fill("onerror")
    assert listed(tab) == 1
    row = tab.locator(".sk-row").first
    assert row.locator("img, b, script").count() == 0
    assert "</script><img src=x" in row.inner_text()
    assert "‹202E›" in row.inner_text() and "\u202e" not in row.inner_text() and "␛[31m" in row.inner_text()


def test_no_spike_is_hidden(tab) -> None:
    box = track(tab, "threads")
    assert box["width"] < MOMENTS + 150
    codes = "p.tracks[{}].levels.map((level) => p.head.tracks.threads.states[Math.max(...p.tracks[{}].rowsOf(level)) - 1])"
    number = view(tab, "p.tracks.findIndex((one) => one.name === 'threads')")
    states = view(tab, codes.format(number, number))
    assert states == ["D"] * len(states) and len(states) > 1
    high = view(tab, "p.tracks.find((one) => one.name === 'memory').lines[1].levels.map((level) => Math.max(...level.high))")
    assert high == [9 * 2**30] * len(high) and len(high) > 1
    reddish = tab.evaluate(
        "() => { const c = document.querySelector('[data-track=threads] canvas'), d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0;"
        "for (let i = 0; i < d.length; i += 4) if (d[i] > 200 && d[i + 1] < 120 && d[i + 2] < 40) n++; return n; }"
    )
    assert reddish >= 1


def test_as_of_shows_what_was_known(tab) -> None:
    view(tab, "v.setCursor(150, null)")
    tab.keyboard.press("a")
    assert tab.locator(".sk-answer").inner_text().endswith("it loads")
    assert listed(tab) == 51
    tab.keyboard.press("Escape")
    assert tab.locator(".sk-answer").inner_text().endswith("one rank is behind")


def test_rows_without_a_source_say_how_to_get_it(tab) -> None:
    assert "nvidia-smi --query-gpu" in tab.locator(".sk-plots").inner_text()


def test_an_error_is_shown_in_place(browser) -> None:
    tab = browser.new_page()
    broken = '<div class="stallkit-explorer"><script type="application/x-stallkit">H4sI</script></div>'
    tab.set_content(f'{broken}<script type="module">{script()}</script>')
    tab.get_by_role("alert").wait_for()
    assert "The explorer failed" in tab.get_by_role("alert").inner_text()
    tab.close()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_nothing_for_axe_to_find(tab, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab.emulate_media(color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": 900})
    view(tab, "0")
    found = axe.run(tab)
    assert [(one["id"], [node["html"][:90] for node in one["nodes"][:3]]) for one in found.response["violations"]] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.set_viewport_size({"width": 1100, "height": 900})


def test_the_choice_comes_back_as_frames() -> None:
    explorer = kit.explore(kit.sample_path("sg01-capture-hang"))
    explorer.window, explorer.filters = (40.0, 60.0), {"rank": 1}
    assert explorer.selected.log["t_s"].between(40, 60).all() and set(explorer.selected.log["rank"]) <= {1}
    assert len(explorer.selected.processes) == 0
    explorer.window = ()
    assert set(explorer.selected.processes["pid"]) == {2311} and set(explorer.selected.log["rank"]) == {1}
    explorer.filters = {"pid": 2311, "of": 1}
    assert len(explorer.selected.processes) == 33, "it is a process of the other run"
    explorer.filters = {"call": "futex"}
    assert set(explorer.selected.syscalls["syscall"]) == {"futex"} and len(explorer.selected.log) == 226
    explorer.as_of = 30.0
    assert explorer._judged[0]["state"] == explorer.verdict.state != "stalled"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """What `kit lab` prints: JupyterLab on the post-mortem of a launch, for somebody with an empty home."""
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")} | {"IPYTHONDIR": str(tmp_path)}
    given = ["lab", str(kit.sample_path("stopped-rank")), "--no-browser", "-o", str(tmp_path)]
    code = "import sys; from kit import workspace; from kit.cli import main\n"
    code += "serve, more = workspace.serve, ['--LabApp.expose_app_in_browser=True']\n"
    code += "workspace.serve = lambda *a, **k: serve(*a, more=more, **k)\n"
    code += "sys.exit(main(sys.argv[1:]))"
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, *given], env={**os.environ, **own}, **pipes) as running:
        found = next(filter(None, (re.search(r"http://127\.0\.0\.1:\S+", line) for line in running.stderr)))
        yield found[0]
        running.send_signal(signal.SIGINT)
        running.stderr.read()
    assert running.returncode == 0


def run_cell(tab, code: str) -> None:
    """Run code in a new cell of the notebook that is open."""
    ask = "(code) => window.jupyterapp.commands.execute('notebook:insert-cell-below').then(() => {"
    ask += "window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.setSource(code);"
    ask += "return window.jupyterapp.commands.execute('notebook:run-cell'); })"
    tab.evaluate(ask, code)


def follows_a_live_watch(tab) -> None:
    """The explorer of a process that runs grows with what is recorded of it."""
    run_cell(tab, "import time\nfrom kit import stand_in\ntried = stand_in.start()\nlive = kit.watch(**tried.where)")
    run_cell(tab, "while live.board is None and live.running: time.sleep(0.05)\nlive.explore()")
    end = "[...document.querySelectorAll('.sk')].map((one) => one.explorer).find((one) => one?.panels[0].head.name === 'watch')"
    until = f"{end}?.span[1]"
    first = tab.wait_for_function(until).json_value()
    tab.wait_for_function(f"{until} > {first} + 1")
    run_cell(tab, "live.stop(30)\ntried.end()\nprint('stopped', live.running, live.error)")
    tab.locator(".jp-OutputArea-output pre", has_text="stopped False None").wait_for()


def test_in_jupyterlab_the_post_mortem_runs_and_is_played_with(browser, lab) -> None:
    tab = browser.new_page(viewport={"width": 1300, "height": 1000})
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(lab)
    tab.wait_for_selector(".jp-Notebook .jp-CodeCell")
    run_all = "window.jupyterapp.commands.execute('notebook:run-all-cells');"
    tab.evaluate(f"async () => {{ await window.jupyterapp.shell.currentWidget.sessionContext.ready; {run_all} }}")
    tab.wait_for_selector('.sk [data-track="threads"]')
    tab.wait_for_selector(".kit-folded details")
    assert any("$p/fd/1 /proc/$p" in one for one in tab.locator("td").all_inner_texts()), "it is no formula"
    drag(tab, "threads", 0.6, 0.8)
    tab.wait_for_function("document.querySelector('.sk').explorer.host.saving === null")
    begin, end = view(tab, "v.window")
    assert (round(begin / 75.885, 2), round(end / 75.885, 2)) == (0.6, 0.8)
    run_cell(tab, "print('chosen', *explorer.window, *explorer.selected.threads['t_s'].agg(['min', 'max']))")
    told = tab.locator(".jp-OutputArea-output pre", has_text="chosen ")
    told.wait_for()
    window = list(map(float, told.inner_text().split()[1:]))
    assert window[:2] == pytest.approx([begin, end]) and begin <= window[2] < begin + 3 and end - 3 < window[3] <= end
    plots = tab.locator(".sk-plots").first
    plots.focus()
    tab.keyboard.press("Home")
    assert view(tab, "v.isWhole"), "a key goes to the explorer, not to the notebook"
    tab.keyboard.press("/")
    tab.keyboard.type("Starting to load model")
    assert 0 < listed(tab) < view(tab, "p.log.line.length")
    follows_a_live_watch(tab)
    address = lab.partition("/lab")[0]
    assert [one for one in asked if not one.startswith((address, "data:", "blob:"))] == []
    tab.close()
