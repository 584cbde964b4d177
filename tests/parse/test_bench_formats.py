"""What benchmark tools print and export, as people paste it: metric, statistic, unit and better direction of each."""

from __future__ import annotations

import json

import pytest

import kit
from kit.errors import EvidenceError

LOWER, HIGHER = "lower_is_better", "higher_is_better"

VLLM = """INFO 11-29 12:00:00 starting
============ Serving Benchmark Result ============
Successful requests:                     38
Failed requests:                         2
Maximum request concurrency:             16
Request rate configured (RPS):           4.00
Benchmark duration (s):                  12.50
Total input tokens:                      3800
Total generated tokens:                  1,900
Request throughput (req/s):              3.04
Request goodput (req/s):                 2.50
Output token throughput (tok/s):         152.00
Peak output token throughput (tok/s):    310.00
Total Token throughput (tok/s):          456.00
---------------Time to First Token----------------
Mean TTFT (ms):                          45.50
Median TTFT (ms):                        41.25
P99 TTFT (ms):                           98.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          7.50
---------------Inter-token Latency----------------
Median ITL (ms):                         7.25
P99.9 ITL (ms):                          21.00
==================================================
"""
SGLANG = """============ Serving Benchmark Result ============
Backend:                                 sglang-oai
Traffic request rate:                    inf
Max reqeuest concurrency:                not set
Successful requests:                     64
Benchmark duration (s):                  8.00
Total input tokens:                      640
Total generated tokens:                  1280
Request throughput (req/s):              8.00
Input token throughput (tok/s):          80.00
Output token throughput (tok/s):         160.00
Total token throughput (tok/s):          240.00
Concurrency:                             31.50
Accept length:                           2.50
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   950.00
Median E2E Latency (ms):                 940.00
---------------Time to First Token----------------
Mean TTFT (ms):                          120.00
---------------Inter-Token Latency----------------
P95 ITL (ms):                            9.75
==================================================
"""
SGLANG_OFFLINE = """====== Offline Throughput Benchmark Result =======
Backend:                                 engine
Successful requests:                     16
Benchmark duration (s):                  4.00
Last generation throughput (tok/s):      40.00
Request throughput (req/s):              4.00
Input token throughput (tok/s):          400.00
Output token throughput (tok/s):         100.00
Total token throughput (tok/s):          500.00
"""
VLLM_THROUGHPUT = """Throughput: 17.25 requests/s, 8832.00 total tokens/s, 4416.00 output tokens/s
Total num prompt tokens:  256000
"""
VLLM_LATENCY = "Avg latency: 1.25 seconds\n10% percentile latency: 1.1 seconds\n50% percentile latency: 1.2 seconds\n"
TRTLLM = """[11/29/2026-12:00:00] [TRT-LLM] [I]
===========================================================
= PYTORCH BACKEND
===========================================================
Model:                  acme/tiny-7b
TensorRT LLM Version:   1.2.0
===========================================================
= REQUEST DETAILS
===========================================================
Number of requests:             100
Number of concurrent requests:  94.6050
Average Input Length (tokens):  128.0000
Average Output Length (tokens): 64.0000
===========================================================
= PERFORMANCE OVERVIEW
===========================================================
Request Throughput (req/sec):                     86.5
Total Output Throughput (tokens/sec):             5536.0
Total Token Throughput (tokens/sec):              16608.0
Total Latency (ms):                               1156.0
Average request latency (ms):                     1093.5
Per User Output Throughput [w/ ctx] (tps/user):   117.25
Per GPU Output Throughput (tps/gpu):              2768.0
Average time-to-first-token [TTFT] (ms):          162.5
Average time-per-output-token [TPOT] (ms):        7.25

-- Per-Request Time-to-First-Token [TTFT] Breakdown (ms)

[TTFT] MINIMUM: 93.5
[TTFT] AVERAGE: 162.5
[TTFT] P50    : 159.5
[TTFT] P99    : 232.0

[Latency] P90    : 1100.5
"""
TRTLLM_JSON = {
    "engine": {"model": "acme/tiny-7b", "version": "1.2.0"},
    "request_info": {"num_requests": 100, "avg_input_length": 128.0, "avg_output_length": 64.0},
    "performance": {
        "total_latency_ms": 1156.0,
        "avg_request_latency_ms": 1093.5,
        "request_throughput_req_s": 86.5,
        "system_output_throughput_tok_s": 5536.0,
        "request_latency_percentiles_ms": {"p50": 1090.0, "minimum": 900.0},
    },
    "streaming_metrics": {"avg_ttft_ms": 162.5, "ttft_percentiles": {"p99": 232.0}},
}
MLPERF = """================================================
MLPerf Results Summary
================================================
SUT name : acme-sut
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 9.75
Completed tokens per second: 3200.50
Result is : INVALID
  Performance constraints satisfied : NO

================================================
Additional Stats
================================================
Scheduled samples per second : 10.00
Min latency (ns)                : 2500000
Mean latency (ns)               : 4000000
50.00 percentile latency (ns)   : 3500000
99.90 percentile latency (ns)   : 9000000
99.00 percentile first token latency (ns) : 850000000
99.00 percentile time to output token (ns) : 25000000

================================================
Test Parameters Used
================================================
target_qps : 10
"""
LLMPERF = {
    "model": "acme/tiny-7b",
    "num_concurrent_requests": 4,
    "results_num_requests_started": 20,
    "results_num_completed_requests": 18,
    "results_number_errors": 2,
    "results_ttft_s_mean": 0.25,
    "results_ttft_s_quantiles_p50": 0.2,
    "results_end_to_end_latency_s_quantiles_p99": 1.5,
    "results_inter_token_latency_s_mean": 0.005,
    "results_mean_output_throughput_token_per_s": 440.0,
    "results_num_completed_requests_per_min": 120.0,
    "results_error_code_frequency": "{'503': 2}",
}
RESPONSES = [
    {"error_code": None, "error_msg": "", "ttft_s": ttft, "end_to_end_latency_s": 1.0, "inter_token_latency_s": 0.005}
    for ttft in (0.2, 0.3)
] + [{"error_code": 503, "error_msg": "busy", "ttft_s": 0, "end_to_end_latency_s": 0, "inter_token_latency_s": 0}]
K6_METRICS = {
    "http_reqs": {"count": 200, "rate": 20.0},
    "http_req_failed": {"passes": 10, "fails": 190, "value": 0.05},
    "http_req_duration": {"avg": 40.0, "min": 10.0, "med": 35.0, "max": 150.0, "p(90)": 80.0, "p(95)": 90.5},
    "iterations": {"count": 100, "rate": 10.0},
    "vus_max": {"value": 8, "min": 8, "max": 8},
}
K6_VALUES = {"metrics": {name: {"type": "x", "values": values} for name, values in K6_METRICS.items()}}
K6 = """
     data_received..................: 1.3 MB 31 kB/s
     http_req_duration..............: avg=144.5ms  min=104.1ms med=110.4ms  max=1.14s   p(90)=203.5ms  p(95)=1m2.5s
       { expected_response:true }...: avg=1ms min=1ms med=1ms max=1ms p(90)=1ms p(95)=1ms
     http_req_failed................: 5.00%  ✓ 10       ✗ 190
     http_req_waiting...............: avg=663.96µs min=128.4µs med=759.8µs max=1.66ms p(90)=1.3ms p(95)=1.46ms
     http_reqs......................: 200    20.5/s
     iterations.....................: 100    10.25/s
     vus_max........................: 8      min=8      max=8
"""
K6_NEW = """
  █ TOTAL RESULTS

    HTTP
    http_req_duration..................: avg=140.36ms min=119.08ms med=140.96ms max=154.63ms p(90)=146.88ms p(95)=148.21ms
    http_req_failed....................: 2.50%  5 out of 200
    http_reqs..........................: 200    20.5/s

    EXECUTION
    iteration_duration.................: avg=1.2s min=1s med=1.1s max=2s p(90)=1.5s p(95)=1.8s
    iterations.........................: 100    10.25/s
"""
WRK = """Running 30s test @ http://127.0.0.1:8000/v1/models
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.71ms  302.00us    1.20s    93.69%
    Req/Sec    56.20k     8.07k   62.00k    86.54%
  Latency Distribution
     50%    1.50ms
     99%    5.80ms
  1200 requests in 30.00s, 1.20MB read
  Socket errors: connect 0, read 1, write 0, timeout 2
  Non-2xx or 3xx responses: 12
Requests/sec:     40.00
Transfer/sec:     40.96KB
"""
LOCUST = (
    "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,Max Response Time,"
    "Average Content Size,Requests/s,Failures/s,50%,95%,99.9%,100%\n"
    "GET,/a,100,0,12,15.5,5,120,450,50.0,0.0,12,40,110,120\n"
    "GET,/b,40,4,30,33,5,99,450,20.0,2.0,30,60,99,99\n"
    "POST,/b,10,1,31,33,5,99,450,5.0,0.5,N/A,61,99,99\n"
    ",Aggregated,150,5,20,22,5,120,450,75.0,2.5,20,55,115,120\n"
)
NCCL = """$ ./build/all_reduce_perf -b 1M -e 2M -f 2 -g 8
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1   339.50    3.09    5.41       0   335.80    3.12    5.46       3
     2097152        524288     float     sum      -1   355.50    5.90   10.33       0   361.70    5.80   10.15     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 7.8375
#
# nThread 1 nGpus 8 minBytes 1000 maxBytes 1000 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1000           250     float    none       0    12.50    0.08    0.08       0    12.75    0.08    0.08       0
# Avg bus bandwidth    : 0.08
# Collective test concluded: broadcast_perf
"""
LLAMA_TABLE = """ggml_cuda_init: found 1 CUDA devices
| model             |     size |  params | backend | ngl |         test |            t/s |
| ----------------- | -------: | ------: | ------- | --: | -----------: | -------------: |
| tiny 7B Q4_K - M  | 4.36 GiB |  7.62 B | CUDA    |  99 |        pp512 | 7340.25 ± 23.50 |
| tiny 7B Q4_K - M  | 4.36 GiB |  7.62 B | CUDA    |  99 |  tg128 @ d4096 | 120.50 ± 0.50 |
| tiny 7B Q4_K - M  | 4.36 GiB |  7.62 B | CUDA    |  10 |        tg128 | 20.50 ± 0.50 |

build: 0123abcd (6000)
"""
LLAMA_ROW = {"build_number": 6000, "model_type": "tiny 7B", "n_gpu_layers": 99, "n_depth": 0, "test_time": "2026-11-29T12:00:00Z"}
LLAMA_ROWS = [
    LLAMA_ROW | {"n_prompt": 512, "n_gen": 0, "avg_ts": 7100.5, "stddev_ts": 1.5, "samples_ts": [7099.0, 7102.0]},
    LLAMA_ROW | {"n_prompt": 64, "n_gen": 32, "avg_ts": 300.5, "stddev_ts": 1.5, "samples_ns": [1e9, 2e9]},
]
LLAMA_CSV = (
    "build_number,model_type,n_gpu_layers,n_prompt,n_gen,n_depth,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts\n"
    '"6000","tiny 7B","99","512","0","0","2026-11-29T12:00:00Z","70285660","982040","7285.5","100.25"\n'
    '"6000","tiny 7B","99","0","128","4096","2026-11-29T12:00:01Z","1067431600","3834831","119.5","0.5"\n'
)
GENAI = """Metric,avg,min,max,p99,p50
Time To First Token (ms),8.00,7.00,9.00,8.98,8.10
Request Latency (ms),"1,005.00",4.00,6.00,5.98,5.00
Inter Token Latency (ms),11.00,10.00,12.00,11.98,11.00
Output Sequence Length (tokens),2.00,1.00,3.00,2.98,2.00

Metric,Value
Output Token Throughput (tokens/sec),456.00
Request Throughput (per sec),123.00
Request Count (count),3.00
"""
GO = """goos: linux
note: before
BenchmarkSub-4   20000000   120 ns/op
BenchmarkSub-4   20000000   110 ns/op
note: after
BenchmarkSub-4   20000000   80 ns/op
"""

GENAI_PRINTED = """             NVIDIA GenAI-Perf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━┓
┃                        Statistic ┃      avg ┃   p99 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━┩
│         Time To First Token (ms) │    39.25 │ 41.50 │
│             Request Latency (ms) │ 1,799.50 │  1802 │
│ Output Token Throughput Per User │    55.50 │ 55.70 │
│                (tokens/sec/user) │          │       │
└──────────────────────────────────┴──────────┴───────┘
"""
BATCHED = """|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   512 |     32 |    2 |   1088 |    0.639 |  1603.50 |    0.469 |   136.50 |    1.108 |   982.25 |
"""
BEFORE = "Traffic request rate: 2.5\nBurstiness factor: 1.0\nMaximum request concurrency: 128\n100%|██| 5/5 [04:43]\n"
VLLM_SHORT = """============ Serving Benchmark Result ============
Successful requests:                     5
Total input tokens:                      50
Mean TTFT (ms):                          75.50
==================================================
"""
CASES = {
    "vllm.log": (
        VLLM,
        [
            (None, "ttft", "mean", 45.5, "ms", LOWER),
            (None, "ttft", "median", 41.25, "ms", LOWER),
            (None, "itl", "p99.9", 21.0, "ms", LOWER),
            (None, "tpot", "mean", 7.5, "ms", LOWER),
            (None, "request_throughput", "run", 3.04, "req/s", HIGHER),
            (None, "request_goodput", "run", 2.5, "req/s", HIGHER),
            (None, "output_throughput", "run", 152.0, "tok/s", HIGHER),
            (None, "total_token_throughput", "run", 456.0, "tok/s", HIGHER),
            (None, "failed", "count", 2.0, "1", LOWER),
        ],
    ),
    "sglang.txt": (
        SGLANG,
        [
            (None, "e2el", "median", 940.0, "ms", LOWER),
            (None, "itl", "p95", 9.75, "ms", LOWER),
            (None, "input_throughput", "run", 80.0, "tok/s", HIGHER),
            (None, "total_token_throughput", "run", 240.0, "tok/s", HIGHER),
            (None, "acceptance_length", "run", 2.5, "tok", HIGHER),
        ],
    ),
    "offline.txt": (SGLANG_OFFLINE, [(None, "output_throughput", "run", 100.0, "tok/s", HIGHER)]),
    "throughput.txt": (
        VLLM_THROUGHPUT,
        [
            (None, "request_throughput", "run", 17.25, "req/s", HIGHER),
            (None, "total_token_throughput", "run", 8832.0, "tok/s", HIGHER),
            (None, "output_throughput", "run", 4416.0, "tok/s", HIGHER),
        ],
    ),
    "latency.txt": (
        VLLM_LATENCY,
        [
            (None, "e2el", "mean", 1250.0, "ms", LOWER),
            (None, "e2el", "median", 1200.0, "ms", LOWER),
            (None, "e2el", "p10", 1100.0, "ms", LOWER),
        ],
    ),
    "trtllm.log": (
        TRTLLM,
        [
            (None, "ttft", "mean", 162.5, "ms", LOWER),
            (None, "ttft", "min", 93.5, "ms", LOWER),
            (None, "ttft", "p99", 232.0, "ms", LOWER),
            (None, "e2el", "p90", 1100.5, "ms", LOWER),
            (None, "tpot", "mean", 7.25, "ms", LOWER),
            (None, "output_throughput", "run", 5536.0, "tok/s", HIGHER),
            (None, "output_throughput_per_gpu", "run", 2768.0, "tok/s", HIGHER),
            (None, "duration", "run", 1.156, "s", None),
        ],
    ),
    "trtllm.json": (
        json.dumps(TRTLLM_JSON),
        [
            (None, "e2el", "median", 1090.0, "ms", LOWER),
            (None, "e2el", "mean", 1093.5, "ms", LOWER),
            (None, "ttft", "p99", 232.0, "ms", LOWER),
            (None, "request_throughput", "run", 86.5, "req/s", HIGHER),
        ],
    ),
    "mlperf_log_summary.txt": (
        MLPERF,
        [
            (None, "samples_per_second", "run", 9.75, "samples/s", HIGHER),
            (None, "output_throughput", "run", 3200.5, "tok/s", HIGHER),
            (None, "e2el", "min", 2.5, "ms", LOWER),
            (None, "e2el", "p99.9", 9.0, "ms", LOWER),
            (None, "ttft", "p99", 850.0, "ms", LOWER),
            (None, "tpot", "p99", 25.0, "ms", LOWER),
        ],
    ),
    "llmperf.json": (
        json.dumps(LLMPERF),
        [
            (None, "ttft", "mean", 250.0, "ms", LOWER),
            (None, "ttft", "median", 200.0, "ms", LOWER),
            (None, "e2el", "p99", 1500.0, "ms", LOWER),
            (None, "itl", "mean", 5.0, "ms", LOWER),
            (None, "request_throughput", "run", 2.0, "req/s", HIGHER),
            (None, "failed", "count", 2.0, "1", LOWER),
        ],
    ),
    "responses.json": (
        json.dumps(RESPONSES),
        [(None, "ttft", "mean", 250.0, "ms", LOWER), (None, "failed", "count", 1.0, "1", LOWER)],
    ),
    "k6.json": (
        json.dumps({"metrics": K6_METRICS, "root_group": {"name": ""}}),
        [
            (None, "e2el", "median", 35.0, "ms", LOWER),
            (None, "e2el", "p95", 90.5, "ms", LOWER),
            (None, "request_throughput", "run", 20.0, "req/s", HIGHER),
            (None, "failure_rate", "run", 0.05, "ratio", LOWER),
            (None, "failed", "count", 10.0, "1", LOWER),
            (None, "completed", "count", 190.0, "1", HIGHER),
        ],
    ),
    "k6-values.json": (json.dumps(K6_VALUES), [(None, "e2el", "p90", 80.0, "ms", LOWER)]),
    "k6.txt": (
        K6,
        [
            (None, "e2el", "mean", 144.5, "ms", LOWER),
            (None, "e2el", "max", 1140.0, "ms", LOWER),
            (None, "e2el", "p95", 62500.0, "ms", LOWER),
            (None, "time_to_first_byte", "mean", 0.66396, "ms", LOWER),
            (None, "request_throughput", "run", 20.5, "req/s", HIGHER),
            (None, "failed", "count", 10.0, "1", LOWER),
        ],
    ),
    "k6-1.txt": (
        K6_NEW,
        [
            (None, "e2el", "p95", 148.21, "ms", LOWER),
            (None, "iteration_duration", "median", 1100.0, "ms", LOWER),
            (None, "failed", "count", 5.0, "1", LOWER),
            (None, "completed", "count", 195.0, "1", HIGHER),
            (None, "failure_rate", "run", 0.025, "ratio", LOWER),
        ],
    ),
    "wrk.txt": (
        WRK,
        [
            (None, "e2el", "mean", 1.71, "ms", LOWER),
            (None, "e2el", "stddev", 0.302, "ms", None),
            (None, "e2el", "max", 1200.0, "ms", LOWER),
            (None, "e2el", "p99", 5.8, "ms", LOWER),
            (None, "request_throughput", "run", 40.0, "req/s", HIGHER),
            (None, "bytes_per_second", "run", 40.96 * 1024, "B/s", HIGHER),
            (None, "completed", "count", 1188.0, "1", HIGHER),
            (None, "failed", "count", 15.0, "1", LOWER),
        ],
    ),
    "stats.csv": (
        LOCUST,
        [
            ("/a", "e2el", "p95", 40.0, "ms", LOWER),
            ("/a", "e2el", "mean", 15.5, "ms", LOWER),
            ("GET /b", "failures_per_s", "run", 2.0, "1/s", LOWER),
            ("POST /b", "e2el", "median", 31.0, "ms", LOWER),
            ("POST /b", "failed", "count", 1.0, "1", LOWER),
            ("Aggregated", "completed", "count", 145.0, "1", HIGHER),
        ],
    ),
    "nccl.txt": (
        NCCL,
        [
            ("all_reduce 1 MiB", "collective_time", "mean", 339.5e-6, "s", LOWER),
            ("all_reduce 2 MiB in place", "bus_bandwidth", "mean", 10.15, "GB/s", HIGHER),
            ("all_reduce 2 MiB", "algorithm_bandwidth", "mean", 5.9, "GB/s", HIGHER),
            ("broadcast 1000 B", "bus_bandwidth", "mean", 0.08, "GB/s", HIGHER),
        ],
    ),
    "llama.md": (
        LLAMA_TABLE,
        [
            ("pp512", "input_throughput", "mean", 7340.25, "tok/s", HIGHER),
            ("pp512", "input_throughput", "stddev", 23.5, "tok/s", None),
            ("tg128 @ d4096", "output_throughput", "mean", 120.5, "tok/s", HIGHER),
        ],
    ),
    "llama.json": (
        json.dumps(LLAMA_ROWS),
        [
            ("pp512", "input_throughput", "median", 7100.5, "tok/s", HIGHER),
            ("pp64+tg32", "total_token_throughput", "mean", 300.5, "tok/s", HIGHER),
        ],
    ),
    "batched.md": (
        BATCHED,
        [
            ("pp512 b2", "input_throughput", "mean", 1603.5, "tok/s", HIGHER),
            ("tg32 @ d512 b2", "output_throughput", "mean", 136.5, "tok/s", HIGHER),
            ("pp512+tg32 b2", "total_token_throughput", "mean", 982.25, "tok/s", HIGHER),
        ],
    ),
    "printed.txt": (
        GENAI_PRINTED,
        [
            (None, "ttft", "p99", 41.5, "ms", LOWER),
            (None, "e2el", "mean", 1799.5, "ms", LOWER),
            (None, "output_throughput_per_user", "mean", 55.5, "tok/s", HIGHER),
        ],
    ),
    "before.log": (BEFORE + VLLM_SHORT, [(None, "ttft", "mean", 75.5, "ms", LOWER)]),
    "llama.jsonl": ("\n".join(map(json.dumps, LLAMA_ROWS)), [("pp512", "input_throughput", "mean", 7100.5, "tok/s", HIGHER)]),
    "llama.csv": (LLAMA_CSV, [("tg128 @ d4096", "output_throughput", "mean", 119.5, "tok/s", HIGHER)]),
    "genai.csv": (
        GENAI,
        [
            (None, "ttft", "median", 8.1, "ms", LOWER),
            (None, "e2el", "mean", 1005.0, "ms", LOWER),
            (None, "output_throughput", "run", 456.0, "tok/s", HIGHER),
            (None, "completed", "count", 3.0, "1", HIGHER),
        ],
    ),
}


@pytest.fixture
def read(tmp_path):
    def benchmarks(name, text):
        (tmp_path / name).write_text(text)
        return kit.benchmarks([tmp_path / name])

    return benchmarks


@pytest.mark.parametrize("name", CASES)
def test_values_units_and_directions(name, read):
    text, wanted = CASES[name]
    rows = read(name, text).values.astype(object)
    rows = rows.where(rows.notna(), None)
    for benchmark, metric, stat, value, unit, direction in wanted:
        hits = [
            row
            for row in rows.to_dict("records")
            if row["metric"] == metric and row["stat"] == stat and row["name"] == benchmark and row["value"] is not None
        ]
        assert [(row["unit"], row["direction"]) for row in hits] == [(unit, direction)], (metric, stat)
        assert hits[0]["value"] == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("vllm.log", "max_concurrency", 16),
        ("vllm.log", "request_rate", 4.0),
        ("vllm.log", "input_tokens_mean", 100.0),
        ("sglang.txt", "max_concurrency", float("inf")),
        ("sglang.txt", "request_rate", float("inf")),
        ("before.log", "max_concurrency", 128),
        ("before.log", "request_rate", 2.5),
        ("trtllm.log", "model", "acme/tiny-7b"),
        ("trtllm.log", "tool_version", "1.2.0"),
        ("trtllm.log", "completed", 100),
        ("mlperf_log_summary.txt", "label", "acme-sut"),
        ("llmperf.json", "max_concurrency", 4),
        ("wrk.txt", "max_concurrency", 64),
        ("wrk.txt", "duration_s", 30.0),
        ("k6.txt", "max_concurrency", 8),
        ("stats.csv", "failed", 5),
        ("llama.csv", "model", "tiny 7B"),
        ("genai.csv", "output_tokens_mean", 2.0),
    ],
)
def test_what_the_run_was(name, column, value, read):
    assert read(name, CASES[name][0]).runs[column].tolist() == [value]


def test_lines_without_a_rule_are_settings(read):
    settings = json.loads(read("m.txt", MLPERF).runs["settings"][0])
    assert settings["target_qps"] == "10" and settings["Scenario"] == "Server"


def test_trouble_is_said(read):
    assert (
        "38" in CASES["vllm.log"][0]
        and "v.log: 2 of 40 requests failed; they are in no statistic here" in read("v.log", VLLM).warnings
    )
    assert read("m.txt", MLPERF).warnings == ["m.txt: MLPerf calls the result INVALID: a constraint was not met"]
    assert read("w.txt", WRK).warnings == ["w.txt: 15 of 1203 requests failed"]
    assert "all_reduce 1 MiB in place: 3 wrong values" in "".join(read("n.txt", NCCL).warnings)
    assert read(
        "w.txt", WRK.replace("  Non-2xx or 3xx responses: 12\n", "").replace("read 1", "read 0").replace("out 2", "out 0")
    ).runs["failed"].tolist() == [0]


def test_several_results_in_one_text_are_several_runs(read):
    bench = read("all.log", VLLM + VLLM.replace("45.50", "50.00") + SGLANG)
    assert bench.runs[["run", "tool"]].to_numpy().tolist() == [
        ["all.log", "sglang bench"],
        ["all.log:2", "vllm bench"],
        ["all.log:26", "vllm bench"],
    ]
    ttft = bench.values.query("metric == 'ttft' and stat == 'mean'").set_index("run")["value"]
    assert ttft.to_dict() == {"all.log": 120.0, "all.log:2": 45.5, "all.log:26": 50.0}


def test_another_configuration_in_one_file_is_another_run(read):
    go = read("go.txt", GO)
    means = go.values.query("stat == 'mean'").set_index("run")["value"]
    assert means.round(12).to_dict() == {"go.txt:before": 1.15e-07, "go.txt:after": 8e-08}
    assert json.loads(go.runs["settings"][0]) == {"goos": "linux", "note": "before"}
    assert read("llama.md", LLAMA_TABLE).runs["label"].tolist() == ["ngl 99", "ngl 10"]
    assert read("nccl.txt", NCCL).runs["label"].tolist() == ["all_reduce_perf", "broadcast_perf"]


@pytest.mark.parametrize("indent", [None, 1])
def test_entries_of_an_array_are_runs(indent, read):
    entries = [
        {"model_id": "m", "request_throughput": rate, "completed": 8, "failed": 0, "max_num_seqs": 4, "run_number": n}
        for n, rate in enumerate((5.5, 12.25))
    ]
    bench = read("summary.json", json.dumps(entries, indent=indent))
    names = ["summary.json:2", "summary.json:10"] if indent else ["summary.json#1", "summary.json#2"]
    assert bench.runs["run"].tolist() == names
    rates = bench.values.query("metric == 'request_throughput'")
    assert list(zip(rates["run"], rates["value"], strict=True)) == list(zip(names, (5.5, 12.25), strict=True))


def test_two_arrays_can_be_compared(tmp_path):
    for name, rates in (("base", (5.5, 6.5)), ("cand", (9.5, 9.75))):
        entries = [
            {"model_id": "m", "request_throughput": rate, "output_throughput": rate * 16, "completed": 8, "failed": 0}
            for rate in rates
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps(entries))
    found = kit.compare_benchmarks(tmp_path / "base.json", tmp_path / "cand.json")
    assert found["output_throughput.run"].metric.base == [88.0, 104.0]


def test_a_cut_array_keeps_its_whole_entries(read):
    entry = {"model_id": "m", "request_throughput": 5.5, "completed": 8, "failed": 0}
    bench = read("cut.json", json.dumps([entry, entry], indent=1)[:-20])
    assert len(bench.runs) == 1 and any("is cut or not JSON" in text for text in bench.warnings)


def test_a_log_without_a_result_is_none(read):
    with pytest.raises(EvidenceError, match="is not a benchmark result"):
        read("x.log", "INFO starting\nBackend: nothing\nTotal input tokens: 7\n")


def test_llmperf_responses_join_their_summary(tmp_path):
    (tmp_path / "a_summary.json").write_text(json.dumps(LLMPERF))
    (tmp_path / "a_individual_responses.json").write_text(json.dumps(RESPONSES))
    bench = kit.benchmarks(tmp_path)
    assert bench.runs["run"].tolist() == ["a_summary.json"]
    assert bench.requests["ok"].tolist() == [True, True, False]


def test_a_second_export_of_the_same_run_is_not_a_second_run(tmp_path):
    (tmp_path / "profile_export_genai_perf.csv").write_text(GENAI)
    doc = {"request_throughput": {"unit": "requests/sec", "avg": 123.0}, "request_latency": {"unit": "ms", "avg": 1005.0}}
    (tmp_path / "profile_export_genai_perf.json").write_text(json.dumps(doc))
    (tmp_path / "load_stats_history.csv").write_text("Timestamp,User Count,Type,Name,Requests/s\n1,2,,Aggregated,5\n")
    assert kit.benchmarks(tmp_path).runs["run"].tolist() == ["profile_export_genai_perf.json"]


@pytest.mark.parametrize("column", ["Failures/s", "errors_per_s", "timeouts_per_second"])
def test_a_rate_of_trouble_is_better_when_lower(column, read):
    directions = read("t.csv", f"{column},mean_ttft_ms\n0.5,30\n").values.set_index("metric")["direction"]
    assert directions.drop("ttft").tolist() == [LOWER]
