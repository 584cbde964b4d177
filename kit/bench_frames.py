"""Frames of benchmark results: they have no launch clock."""

from __future__ import annotations

from kit.schema import Column as C
from kit.schema import Frame

BENCH = (
    Frame(
        "bench_runs",
        "Benchmark results, a row a run of the client (a file may hold several). No launch clock.",
        (
            C("run", "text", "the run: its file, with line or index where the file holds several", nullable=False),
            C("file", "text", "result file", nullable=False),
            C("entry", "int", "line or index in the file"),
            C("tool", "text", "vllm bench, sglang bench, aiperf, genai-perf, guidellm, hyperfine, …", nullable=False),
            C("tool_version", "text", "version, where the file has it (SGLang: of the server)"),
            C("benchmark", "text", "kind: serve, latency, throughput, startup, serving, one_batch, …"),
            C("label", "text", "label or tag that the user gave"),
            C("model", "text", "model"),
            C("started", "time", "begin of the run; a time without a zone is taken as UTC"),
            C("duration_s", "float", "length of the run", "s"),
            C("dataset", "text", "data set"),
            C("request_rate", "float", "requests sent a second; inf: all at once", "1/s"),
            C("burstiness", "float", "shape of the arrivals; 1 is Poisson"),
            C("max_concurrency", "float", "most requests at a time; inf: no limit"),
            C("num_prompts", "int", "requests asked for"),
            C("input_tokens_mean", "float", "mean prompt length of successful requests", "tokens"),
            C("output_tokens_mean", "float", "mean answer length of successful requests", "tokens"),
            C("completed", "int", "successful requests"),
            C("failed", "int", "failed requests; null: not known"),
            C("complete", "bool", "the tool says that the run was neither cancelled nor cut short"),
            C("settings", "text", "all other fields of the file, as JSON; secrets masked"),
            C("launch", "text", "command line, environment and versions of the server, as JSON"),
            C("notes", "text", "what to know when reading this run"),
        ),
    ),
    Frame(
        "bench_values",
        "Figures of benchmark runs, long: a row a run, benchmark, metric and statistic.",
        (
            C("run", "text", "the run", nullable=False),
            C("file", "text", "result file", nullable=False),
            C("name", "text", "benchmark in the run (micro-benchmarks)"),
            C("metric", "text", "ttft, itl, tpot, e2el, output_throughput, wall_time, …", nullable=False),
            C(
                "stat",
                "text",
                "mean, median, stddev, cv, min, max, p90, p99, run (whole run), count, process_means",
                nullable=False,
            ),
            C("value", "float", "value, in `unit`; null: the tool wrote a number that is not a measurement"),
            C("unit", "text", "ms, s, tok/s, req/s, 1, …"),
            C("direction", "text", "lower_is_better, higher_is_better, null"),
            C("n", "int", "raw values behind it"),
            C("definition", "text", "id of the definition where tools differ; never divide two with different ids"),
            C("source", "text", "tool: written by the tool; samples: computed from requests or repetitions"),
        ),
    ),
    Frame(
        "bench_requests",
        "Requests of serving benchmarks and repetitions of micro-benchmarks, failed ones marked.",
        (
            C("run", "text", "the run", nullable=False),
            C("file", "text", "result file", nullable=False),
            C("name", "text", "benchmark in the run (micro-benchmarks)"),
            C("number", "int", "number in the run, from 0", nullable=False),
            C("kind", "text", "request, warmup, repetition"),
            C("group", "int", "process that measured it (pyperf)"),
            C("ok", "bool", "it succeeded; null: not known. Statistics hold those that are true only"),
            C("error", "text", "message"),
            C("start_s", "float", "start since that of the first request", "s"),
            C("ttft_s", "float", "time to first token", "s"),
            C("latency_s", "float", "whole time", "s"),
            C("latency_from", "text", "file, or first_token_and_gaps: TTFT plus the sum of the gaps"),
            C("tpot_s", "float", "time per output token, as the tool defines it", "s"),
            C("queue_s", "float", "wait in the client before sending", "s"),
            C("gaps", "int", "gaps between tokens"),
            C("gap_mean_s", "float", "mean gap", "s"),
            C("gap_max_s", "float", "longest gap", "s"),
            C("gaps_s", "text", "all gaps in seconds, as JSON"),
            C("input_tokens", "int", "prompt length", "tokens"),
            C("output_tokens", "int", "answer length", "tokens"),
        ),
    ),
)
"""Frames of benchmark results, as `kit.frames` declares the others."""
