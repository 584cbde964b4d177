"""`kit.benchmarks`: many files, what may be divided by what, the chart and its words."""

from __future__ import annotations

import json
import math
import shutil

import pytest

import kit
from kit.analyse.bench.results import Benchmarks, benchmarks
from kit.errors import EvidenceError, UsageError
from kit.frames import FRAMES
from kit.plot.benchmarks import describe_benchmarks, plot_benchmarks
from kit.plot.style import figure_alt


@pytest.fixture
def bench(data):
    return kit.benchmarks(sorted((data / "bench").glob("vllm-*.json")))


def test_frames_have_their_columns(bench):
    assert list(bench.values.columns) == [column.name for column in FRAMES["bench_values"].columns]
    assert list(bench.runs["run"]) == ["vllm-base.json", "vllm-candidate.json"]
    assert len(bench.requests) == 80
    assert bench.warnings == []


def test_bad_files_are_warnings_beside_good_ones(data, tmp_path):
    shutil.copy(data / "bench" / "vllm-base.json", tmp_path / "a.json")
    shutil.copy(data / "bench" / "vllm-base.json", tmp_path / "again.json")
    (tmp_path / "empty.json").write_text("")
    bench = benchmarks([tmp_path, tmp_path / "a.json"])
    assert len(bench.runs) == 1
    assert any("same content as a.json" in text for text in bench.warnings)
    assert any("empty.json is empty" in text for text in bench.warnings)
    assert any("given twice" in text for text in bench.warnings)


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "a.json").write_text("")
    with pytest.raises(EvidenceError, match="is empty"):
        benchmarks(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(EvidenceError, match="no benchmark result was found"):
        benchmarks(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(EvidenceError, match="holds no benchmark result"):
        benchmarks(tmp_path / "folder")
    with pytest.raises(UsageError):
        benchmarks([])


def test_equal_names_are_told_apart_by_their_folders(data, tmp_path):
    for folder, source in (("x", "vllm-base.json"), ("y", "vllm-candidate.json")):
        (tmp_path / folder).mkdir()
        shutil.copy(data / "bench" / source, tmp_path / folder / "r.json")
    assert list(benchmarks(tmp_path).runs["run"]) == ["x/r.json", "y/r.json"]


def test_launch_files_join_their_runs(data, tmp_path):
    shutil.copy(data / "bench" / "vllm-base.json", tmp_path / "base-1.json")
    shutil.copy(data / "bench" / "vllm-candidate.json", tmp_path / "cand-1.json")
    for stem, level in (("base", "INFO"), ("cand", "DEBUG")):
        (tmp_path / f"{stem}.launch.json").write_text(
            json.dumps({"argv": ["vllm", "serve"], "env": {"VLLM_LOGGING_LEVEL": level, "HF_TOKEN": "hf_abc"}, "versions": {}})
        )
    bench = benchmarks(tmp_path)
    assert [json.loads(launch)["env"]["VLLM_LOGGING_LEVEL"] for launch in bench.runs["launch"]] == ["INFO", "DEBUG"]
    assert "hf_abc" not in bench.runs["launch"].str.cat()


def test_a_launch_file_beside_a_result_is_found(data, tmp_path):
    for name in ("s-1", "s-1-2", "s-10-1", "other"):
        shutil.copy(data / "bench" / "vllm-base.json", tmp_path / f"{name}.json")
    for stem in ("s-1", "s-10"):
        (tmp_path / f"{stem}.launch.json").write_text(json.dumps({"argv": ["vllm", "serve", stem], "env": {}, "versions": {}}))
    for name, stem in (("s-1", "s-1"), ("s-1-2", "s-1"), ("s-10-1", "s-10"), ("other", None)):
        launch = benchmarks(tmp_path / f"{name}.json").runs["launch"][0]
        assert (json.loads(launch)["argv"][-1] if isinstance(launch, str) else None) == stem


def test_page_is_escaped_and_says_failures_first(data, tmp_path):
    doc = json.loads((data / "bench" / "vllm-base.json").read_text())
    doc |= {"label": "<script>x</script>", "failed": 1, "completed": 39, "max_concurrency": None, "errors": ["boom", *[""] * 39]}
    (tmp_path / "a.json").write_text(json.dumps(doc))
    bench = benchmarks(tmp_path / "a.json")
    assert "<script>" not in bench._repr_html_()
    assert "1 of 40 requests failed" in bench.warnings[0]
    assert "1 of 40 requests failed" in str(bench)


@pytest.mark.parametrize("metric", ["ttft", "itl", "e2el"])
def test_chart_shows_each_run_and_its_extremes(bench, metric):
    before = bench.requests.copy()
    axes = plot_benchmarks(bench, metric)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [label.split(":")[0] for label in labels] == ["vllm-base.json", "vllm-candidate.json"]
    largest = bench.values.query("metric == @metric and stat == 'max'")["value"].max()
    assert math.isclose(max(line.get_xdata()[-1] for line in axes.lines if len(line.get_xdata()) > 2), largest)
    assert figure_alt(axes.figure) == describe_benchmarks(bench, metric)
    assert f"{largest:.4g} ms" in describe_benchmarks(bench, metric)
    assert bench.requests.equals(before)


def test_chart_counts_failures_and_draws_none(data, tmp_path):
    doc = json.loads((data / "bench" / "vllm-base.json").read_text())
    doc["ttfts"][0], doc["errors"][0] = 0.0, "boom"
    doc |= {"failed": 1, "completed": 39}
    (tmp_path / "a.json").write_text(json.dumps(doc))
    axes = plot_benchmarks(benchmarks(tmp_path / "a.json"), "ttft")
    assert axes.get_legend().get_texts()[0].get_text().endswith("n 39, 1 failed")
    assert min(axes.lines[0].get_xdata()) > 0


def test_chart_without_requests_uses_the_quantiles_of_the_tool(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps(
            {"model_id": "m", "request_throughput": 1.0, "completed": 9, "failed": 0, "median_ttft_ms": 30.0, "p99_ttft_ms": 60.0}
        )
    )
    bench = benchmarks(tmp_path / "a.json")
    assert list(plot_benchmarks(bench).lines[0].get_xdata()) == [30.0, 60.0]
    assert "quantiles of the tool from 30 to 60 ms" in describe_benchmarks(bench)


def test_chart_of_nothing_says_so():
    assert plot_benchmarks(Benchmarks([]), "ttft").texts[0].get_text() == "No run holds the distribution of ttft."


def test_micro_benchmarks_have_a_curve_a_name(test_data):
    bench = benchmarks(test_data / "bench" / "hyperfine.json")
    assert "job.py 400000" in describe_benchmarks(bench, "wall_time")
    assert plot_benchmarks(bench, "wall_time").get_xlabel() == "wall_time (ms)"


def test_launch_times_have_a_curve(test_data):
    bench = benchmarks(test_data / "bench" / "vllm_startup.json")
    assert "n 3, failures unknown" not in describe_benchmarks(bench, "warm_startup")
    assert "of 1 run, a cumulative curve each. vllm_startup.json: median 41.9 s, n 3" in describe_benchmarks(
        bench, "warm_startup"
    )
