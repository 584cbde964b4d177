"""Readers of benchmark results: names, units and figures of each tool, failed requests, broken files."""

from __future__ import annotations

import copy
import gzip
import json
import math

import pytest

from kit.errors import EvidenceError
from kit.frames import FRAMES
from kit.parse.bench import METRICS, documents, parse_text, read
from kit.parse.bench.aiperf import merge
from kit.parse.bench.table import read_column

SAMPLES = (
    "aiperf/profile_export_aiperf.json",
    "aiperf/profile_export.jsonl",
    "guidellm.json",
    "google_benchmark.json",
    "go_bench.txt",
    "hyperfine.json",
    "pyperf.json",
    "pytest_benchmark.json",
    "vllm_startup.json",
)
BUNDLED = ("vllm-base.json", "vllm-candidate.json", "sglang-base.jsonl")


def pick(result, metric, stat, run=None, name=None):
    found = [
        row
        for row in result.values
        if row["metric"] == metric and row["stat"] == stat and run in (None, row["run"]) and name in (None, row["name"])
    ]
    assert len(found) == 1, f"{metric} {stat}: {found}"
    return found[0]


@pytest.fixture
def vllm(data):
    return json.loads((data / "bench" / "vllm-base.json").read_text())


@pytest.fixture
def half_failed(vllm):
    """Every second request failed: zeros in the lists, as vLLM writes them; the tool's own figures are gone."""
    doc = {key: value for key, value in copy.deepcopy(vllm).items() if not key.endswith("_ms")}
    for i in range(0, 40, 2):
        doc["ttfts"][i] = doc["latencies"][i] = doc["queue_times"][i] = 0.0
        doc["itls"][i], doc["output_lens"][i], doc["errors"][i] = [], 0, "Server disconnected"
    return doc | {"completed": 20, "failed": 20}


def parse(doc, name="a.json"):
    return parse_text(json.dumps(doc), name)


@pytest.mark.parametrize("name", [*SAMPLES, *BUNDLED])
def test_rows_fit_the_frames(name, data, test_data):
    folder = data if name in BUNDLED else test_data
    result = read(folder / "bench" / name, name)
    assert result.runs and result.values
    for frame, rows in (("bench_runs", result.runs), ("bench_values", result.values), ("bench_requests", result.requests)):
        for row in rows:
            FRAMES[frame].check(row)
    runs = {row["run"] for row in result.runs}
    assert {row["run"] for row in [*result.values, *result.requests]} <= runs
    for row in result.values:
        assert row["unit"] in (METRICS[row["metric"]][0], "ratio"), row


@pytest.mark.parametrize(
    ("name", "metric", "stat", "value", "unit", "n"),
    [
        ("aiperf/profile_export_aiperf.json", "ttft", "median", 38.3828895, "ms", 40),
        ("aiperf/profile_export_aiperf.json", "output_throughput", "run", 468.50274642744733, "tok/s", None),
        ("vllm_startup.json", "warm_startup", "mean", 41.96666666666667, "s", 3),
        ("vllm_startup.json", "warm_compilation", "median", 20.0, "s", 3),
        ("pyperf.json", "time_per_call", "process_means", 0.0002951710753579621, "s", 6),
        ("pyperf.json", "time_per_call", "mean", 0.0002951710753579621, "s", 24),
        ("google_benchmark.json", "real_time", "median", 1.3650599133736753e-05, "s", 10),
        ("google_benchmark.json", "items_per_second", "median", 587494654.1018339, "items/s", 10),
        ("pytest_benchmark.json", "time_per_call", "median", 1.2588699974003248e-05, "s", 30),
    ],
)
def test_figures(name, metric, stat, value, unit, n, test_data):
    row = pick(read(test_data / "bench" / name, name), metric, stat)
    assert math.isclose(row["value"], value, rel_tol=1e-3 if "pytest" in name else 1e-6)
    assert (row["unit"], row["n"]) == (unit, n)


def test_guidellm_has_a_run_a_load_and_reads_successful_requests_in_ms(test_data):
    result = read(test_data / "bench" / "guidellm.json", "g.json")
    assert [(row["run"], row["max_concurrency"], row["label"]) for row in result.runs] == [
        ("g.json#0", 2.0, "concurrent 2"),
        ("g.json#1", 4.0, "concurrent 4"),
    ]
    assert math.isclose(pick(result, "e2el", "mean", run="g.json#0")["value"], 145.55070797602335)
    assert pick(result, "tpot", "mean", run="g.json#0")["definition"] == "whole_latency"


def test_hyperfine_names_the_commands(test_data):
    result = read(test_data / "bench" / "hyperfine.json", "h.json")
    row = pick(result, "wall_time", "stddev", name="python3 -S -I job.py 200000")
    assert math.isclose(row["value"], 0.018590703671972606)
    assert (row["direction"], row["n"]) == (None, 20)
    assert json.loads(result.runs[0]["settings"])["commands"][0]["parameters"] == {"n": "200000"}


def test_sglang_lines_are_runs_and_infinity_is_read(data):
    result = read(data / "bench" / "sglang-base.jsonl", "s.jsonl")
    assert [row["run"] for row in result.runs] == ["s.jsonl:1", "s.jsonl:2"]
    first = result.runs[0]
    assert (first["request_rate"], first["model"], first["failed"], first["tool_version"]) == (math.inf, "mock-7b", 0, "0.5.23")
    assert json.loads(first["settings"])["server_info"]["attention_backend"] == "fa3"
    assert "Infinity" not in first["settings"]
    assert math.isclose(pick(result, "total_token_throughput", "run", run="s.jsonl:1")["value"], 2199.1273744374416)


def test_failed_requests_are_not_fast_ones(vllm, half_failed):
    good = sorted(vllm["ttfts"][1::2])
    result = parse(half_failed)
    row = pick(result, "ttft", "median")
    assert math.isclose(row["value"], (good[9] + good[10]) / 2 * 1e3)
    assert (row["n"], row["source"]) == (20, "samples")
    assert pick(result, "ttft", "min")["value"] > 0
    assert [r["ok"] for r in result.requests] == [False, True] * 20
    assert result.requests[0]["error"] == "Server disconnected"
    assert "a.json: 20 of 40 requests failed; they are in no statistic here" in result.warnings


def test_failed_requests_without_a_list_of_errors_are_known_by_zeros_and_said(half_failed):
    del half_failed["errors"]
    result = parse(half_failed)
    assert pick(result, "ttft", "min")["value"] > 0
    assert any("no list of errors" in text for text in result.warnings)


def test_failures_that_no_zero_shows_leave_the_outcome_open(vllm):
    del vllm["errors"]
    result = parse(vllm | {"completed": 30, "failed": 10})
    assert {row["ok"] for row in result.requests} == {None}
    assert pick(result, "ttft", "mean")["source"] == "tool"


def test_figures_over_failed_requests_are_replaced(half_failed):
    result = parse(half_failed | {"median_ttft_ms": 0.0, "mean_ttft_ms": 18.0})
    assert pick(result, "ttft", "median")["value"] > 30
    assert any("not those of its successful requests" in text for text in result.warnings)


def test_nothing_completed_gives_missing_times(half_failed):
    doc = half_failed | {"completed": 0, "failed": 40, "errors": ["x"] * 40, "mean_ttft_ms": 0.0, "median_itl_ms": 0.0}
    result = parse(doc)
    assert pick(result, "ttft", "mean")["value"] is None
    assert pick(result, "itl", "median")["value"] is None
    assert pick(result, "failed", "count")["value"] == 40


def test_zero_gap_is_no_measurement():
    result = parse(
        {
            "backend": "sglang",
            "completed": 3,
            "total_throughput": 1.0,
            "request_throughput": 1.0,
            "total_output_tokens": 300,
            "mean_ttft_ms": 2000.0,
            "mean_itl_ms": 0.0,
            "median_itl_ms": 0.0,
            "server_info": {},
        }
    )
    assert pick(result, "itl", "mean")["value"] is None
    assert any("did not stream" in text for text in result.warnings)
    assert any("does not say how many requests failed" in text for text in result.warnings)


def test_without_details_latencies_and_queue_times_remain(vllm):
    kept = {
        key: value
        for key, value in vllm.items()
        if not key.endswith("e2el_ms")
        and key not in ("ttfts", "itls", "errors", "generated_texts", "input_lens", "output_lens", "start_times")
    }
    result = parse(kept)
    assert math.isclose(pick(result, "e2el", "p90")["value"], vllm["p90_e2el_ms"])
    assert pick(result, "client_queue_time", "median")["n"] == 40


def test_metadata_and_unknown_fields_are_kept(vllm):
    settings = json.loads(parse(vllm | {"my_field": [1, 2], "api_key": "s3cret"}).runs[0]["settings"])
    assert settings["tp"] == "1"
    assert settings["my_field"] == [1, 2]
    assert settings["api_key"] == "***"
    assert settings["extra"]["max_concurrent_requests"] == 32


def test_appended_results_are_runs_and_a_cut_last_line_is_said(vllm):
    line = json.dumps(vllm)
    result = parse_text(f"{line}\n{line}\n{line[:400]}", "a.json")
    assert [row["run"] for row in result.runs] == ["a.json:1", "a.json:2"]
    assert result.warnings == ["a.json: line 3 is cut or not JSON; it was left out"]


def test_documents_in_a_row_over_several_lines():
    found, wrong = documents('{\n "a": 1\n}\n{"a": NaN}')
    assert [line for line, _ in found] == [1, 4]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"model_id": "m", "ttfts": [0.1, ', "is cut or not JSON"),
        ('{"a": 1}', "of no known benchmark tool"),
        ("hello\nworld\n", "is not a benchmark result"),
        ("a,b\n1,2\n", "is not a benchmark result"),
        ("[[1, 2]]", "of no known benchmark tool"),
    ],
)
def test_broken_or_foreign_files_are_explained(text, says):
    with pytest.raises(EvidenceError, match=says):
        parse_text(text, "x")


def test_empty_and_missing_files(tmp_path):
    (tmp_path / "e.json").write_bytes(b"\n")
    with pytest.raises(EvidenceError, match="is empty"):
        read(tmp_path / "e.json", "e.json")
    with pytest.raises(EvidenceError, match="cannot read"):
        read(tmp_path / "no.json", "no.json")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b'{"version": "1.0"}' * 50)[:30])
    with pytest.raises(EvidenceError, match="cannot read"):
        read(tmp_path / "cut.json.gz", "cut.json.gz")


def test_no_finite_number_is_missing_and_warned_of(vllm):
    result = parse_text(json.dumps(vllm | {"output_throughput": math.inf}), "a.json")
    assert pick(result, "output_throughput", "run")["value"] is None
    assert any("no finite number" in text for text in result.warnings)


def test_vllm_latency_throughput_and_acceptance():
    latency = parse({"avg_latency": 1.5, "latencies": [1.0, 2.0], "percentiles": {"50": 1.5, "99": 1.99}})
    assert pick(latency, "e2el", "mean")["value"] == 1500.0
    assert pick(latency, "e2el", "p99")["value"] == 1990.0
    throughput = parse({"elapsed_time": 10.0, "num_requests": 100, "requests_per_second": 10.0, "tokens_per_second": 5000.0})
    assert pick(throughput, "total_token_throughput", "run")["value"] == 5000.0
    spec = parse(
        {
            "model_id": "m",
            "request_throughput": 1.0,
            "completed": 1,
            "failed": 0,
            "spec_decode_acceptance_rate": 61.2,
            "spec_decode_acceptance_length": 2.8,
        }
    )
    assert (pick(spec, "acceptance_rate", "run")["unit"], pick(spec, "acceptance_length", "run")["value"]) == ("%", 2.8)


def test_sglang_one_batch():
    result = parse(
        {
            "run_name": "r",
            "batch_size": 16,
            "input_len": 1024,
            "output_len": 8,
            "latency": 0.5,
            "input_throughput": 4000.0,
            "output_throughput": 160.0,
            "overall_throughput": 900.0,
            "last_ttft": 0.4,
            "acc_length": -1,
        }
    )
    assert pick(result, "ttft", "run")["value"] == 400.0
    assert not [row for row in result.values if row["metric"] == "acceptance_length"]
    assert result.runs[0]["max_concurrency"] == 16.0


def test_aiperf_requests_join_their_export(test_data):
    folder = test_data / "bench" / "aiperf"
    merged = merge([read(path, f"a/{path.name}") for path in sorted(folder.iterdir())])
    assert len(merged) == 1
    assert {row["run"] for row in merged[0].requests} == {"a/profile_export_aiperf.json"}
    assert pick(merged[0], "itl", "mean")["definition"] == "request_means_client_tokens"


def test_aiperf_records_leave_out_warmup_and_failures(test_data):
    records = [json.loads(line) for line in (test_data / "bench" / "aiperf" / "profile_export.jsonl").read_text().splitlines()]
    records[0]["error"] = {"code": 500, "message": "oops"}
    records[1]["metadata"]["benchmark_phase"] = "warmup"
    result = parse_text("\n".join(map(json.dumps, records)), "r.jsonl")
    assert pick(result, "ttft", "mean")["n"] == len(records) - 2
    assert result.requests[0]["error"] == "oops"
    assert result.requests[1]["kind"] == "warmup"


def test_cancelled_aiperf_and_genai_perf_units():
    export = {
        "request_throughput": {"unit": "requests/sec", "avg": 17.2},
        "request_latency": {"unit": "ns", "avg": 5.7e9, "p50": 5e9},
    }
    genai = parse(export | {"input_config": {"model": ["m"], "concurrency": 100, "streaming": False}})
    assert genai.runs[0]["tool"] == "genai-perf"
    assert pick(genai, "e2el", "median")["value"] == 5000.0
    assert any("did not stream" in text for text in genai.warnings)
    cut = parse(export | {"schema_version": "1.4", "was_cancelled": True, "is_complete": False})
    assert cut.runs[0]["complete"] is False
    assert any("do not compare" in text for text in cut.warnings)


def test_hyperfine_signals_and_single_runs():
    one = {"mean": 0.1, "stddev": None, "median": 0.1, "min": 0.1, "max": 0.1}
    result = parse(
        {
            "results": [
                {"command": "a", **one, "times": [0.1, 5.0], "exit_codes": [None, 0]},
                {"command": "b", **one, "times": [0.1], "exit_codes": [2]},
            ]
        }
    )
    assert pick(result, "wall_time", "mean", name="a")["value"] == 5.0
    assert pick(result, "wall_time", "mean", name="b")["value"] == 0.1
    assert pick(result, "wall_time", "stddev", name="b")["value"] is None
    assert any("every repetition of 'b' ended with exit code 2" in text for text in result.warnings)


def test_pyperf_single_benchmark_has_its_name_at_the_top():
    doc = {
        "version": "1.0",
        "metadata": {"name": "x"},
        "benchmarks": [{"runs": [{"warmups": [[1, 9.0]]}, {"values": [1.0, 3.0]}]}],
    }
    assert pick(parse(doc), "time_per_call", "mean")["name"] == "x"


def test_google_benchmark_errors_aggregates_and_debug(test_data):
    result = read(test_data / "bench" / "google_benchmark.json", "g.json")
    assert {row["name"] for row in result.values} == {"BM_Sum/8000"}
    assert pick(result, "real_time", "cv")["unit"] == "ratio"
    assert any("debugging" in text for text in result.warnings)
    only = parse(
        {
            "context": {},
            "benchmarks": [
                {
                    "name": "BM_A_mean",
                    "run_name": "BM_A",
                    "run_type": "aggregate",
                    "aggregate_name": "mean",
                    "repetitions": 5,
                    "real_time": 2.0,
                    "time_unit": "ms",
                },
                {
                    "name": "BM_A_cv",
                    "run_name": "BM_A",
                    "run_type": "aggregate",
                    "aggregate_name": "cv",
                    "aggregate_unit": "percentage",
                    "repetitions": 5,
                    "real_time": 0.02,
                    "time_unit": "ms",
                },
            ],
        }
    )
    assert (pick(only, "real_time", "mean")["value"], pick(only, "real_time", "cv")["value"]) == (0.002, 0.02)


def test_go_benchmarks(test_data):
    result = read(test_data / "bench" / "go_bench.txt", "g.txt")
    row = pick(result, "time_per_op", "mean", name="BenchmarkSum/1000-8")
    assert (round(row["value"], 12), row["n"]) == (1.238e-06, 2)
    assert pick(result, "bytes_per_second", "mean")["value"] == 16432.11e6
    assert json.loads(result.runs[0]["settings"])["pkg"] == "example.com/sum"


def test_tables():
    long = parse_text("run,metric,stat,value,unit\na,ttft,median,0.0371,s\na,speed,run,82.5,tok/s\n", "l.csv")
    assert (pick(long, "ttft", "median")["value"], pick(long, "speed", "run")["unit"]) == (37.1, "tok/s")
    figures = parse_text("label;request_rate;mean_ttft_ms;output_throughput;failed\nx;inf;36.1;450;1\n", "f.csv")
    assert pick(figures, "ttft", "mean")["value"] == 36.1
    assert (figures.runs[0]["request_rate"], figures.runs[0]["failed"]) == (math.inf, 1)
    samples = parse_text("benchmark,time_ms,exit_code\na,500,0\na,700,0\na,1,1\n", "s.csv")
    assert math.isclose(pick(samples, "wall_time", "mean")["value"], 0.6)
    hyperfine = parse_text('command,mean,stddev,median,user,system,min,max\n"a, b",0.1,,0.1,0.01,0.02,0.1,0.1\n', "h.csv")
    assert pick(hyperfine, "wall_time", "mean", name="a, b")["value"] == 0.1
    assert read_column("note") is None


def test_the_same_figure_again_is_another_run():
    result = parse_text("metric,value,unit\nspeed,82.5,tok/s\nspeed,81,tok/s\n", "l.csv")
    assert [(row["run"], row["value"]) for row in result.values] == [("l.csv", 82.5), ("l.csv:2", 81.0)]


def test_two_tools_in_one_file_stay_two_runs(vllm):
    hyperfine = {"results": [{"command": "true", "mean": 0.1, "median": 0.1}]}
    result = parse_text(f"{json.dumps(vllm)}\n{json.dumps(hyperfine)}", "m.jsonl")
    assert {(row["run"], row["file"], row["tool"]) for row in result.runs} == {
        ("m.jsonl:1", "m.jsonl", "vllm bench"),
        ("m.jsonl:2", "m.jsonl", "hyperfine"),
    }
    assert any("several tools" in text for text in result.warnings)


def test_fields_of_another_type_are_explained():
    with pytest.raises(EvidenceError, match="another form than the tool writes"):
        parse({"machine_info": {}, "benchmarks": [3]})


def test_numbers_that_fit_no_column_are_missing(vllm):
    result = parse(vllm | {"num_prompts": 10**30, "duration": 10**400, "completed": "many"})
    assert (result.runs[0]["num_prompts"], result.runs[0]["duration_s"], result.runs[0]["completed"]) == (None, None, None)


def test_a_rate_in_a_table_is_no_time():
    assert read_column("throughput_tok_s")[2:] == ("1/s", 1.0, "higher_is_better")
    assert read_column("output_throughput_tok_s")[0] == "output_throughput"


def test_google_benchmark_errors_are_no_times():
    rows = [
        {"name": "BM_A", "run_type": "iteration", "real_time": 2.0, "cpu_time": 2.0, "time_unit": "us"},
        {"name": "BM_B", "run_type": "iteration", "real_time": 0.0, "error_occurred": True, "error_message": "no GPU"},
    ]
    result = parse({"context": {}, "benchmarks": rows})
    assert {row["name"] for row in result.values} == {"BM_A"}
    assert result.warnings == ["a.json: BM_B failed (no GPU): its time of 0 is not a measurement"]
