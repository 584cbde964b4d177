"""Prometheus text."""

from __future__ import annotations

from kit.parse.metrics import FORMATS

TEXT = """# HELP sglang:token_usage The token usage
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="a b, }c",tp_rank="0"} 0.25
vllm:generation_tokens_total 1.2e+06 1771593301000
llamacpp:requests_processing NaN
tgi_queue_size 3
http_bucket{le="+Inf"} +Inf
"""


def test_names_labels_values_and_stamps(snapshot) -> None:
    rows, report = snapshot(FORMATS, "metrics", TEXT)
    got = {row["name"]: row for row in rows["counters"]}
    assert got["sglang:token_usage"]["labels"] == 'model_name="a b, }c",tp_rank="0"'
    assert got["sglang:token_usage"]["value"] == 0.25
    assert (got["vllm:generation_tokens_total"]["value"], got["vllm:generation_tokens_total"]["time"]) == (
        1.2e6,
        1771593301 * 10**9,
    )
    assert (got["tgi_queue_size"]["value"], got["http_bucket"]["value"]) == (3, float("inf")) and not report.reasons


def test_two_scrapes_in_one_file(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "metrics", "vllm:tokens_total 1\nvllm:tokens_total 5\n")
    assert [(row["moment"], row["value"]) for row in rows["counters"]] == [(0, 1), (1, 5)]


def test_a_cut_last_line_is_reported(snapshot) -> None:
    _, report = snapshot(FORMATS, "metrics", TEXT + "vllm:num_requests{mod")
    assert report.reasons == {"no line of metrics": 1}
