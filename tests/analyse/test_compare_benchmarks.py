"""`kit.compare_benchmarks`: what may be compared, what the runs say, and how often it is wrong."""

from __future__ import annotations

import itertools
import json
import math
import random
from fractions import Fraction

import pytest

import kit
from kit.analyse.bench import stats
from kit.analyse.bench.drift import first_share, trend
from kit.analyse.bench.findings import finding
from kit.analyse.bench.inputs import LoadGroup
from kit.analyse.bench.judge import Rules, judge
from kit.analyse.bench.metrics import Metric
from kit.cli import main
from kit.cli.look import quote
from kit.errors import EvidenceError, UsageError
from kit.plot.shift import describe_shift, plot_shift
from kit.plot.style import figure_alt


def codes(findings):
    """Codes of findings, in their order."""
    return [entry.code for entry in findings]


def of(findings, code):
    """Values of the first finding of a code."""
    return next(entry.values for entry in findings if entry.code == code)


@pytest.fixture
def write(data, tmp_path):
    """`write("base", changes, …)` writes results of `vllm bench serve`, a file a dict of changes, and gives their paths.

    Times of all requests are multiplied by `scale`; runs begin a minute apart in the order of `minutes`.
    """
    doc = json.loads((data / "bench" / "vllm-base.json").read_text())
    figures = [key for key in doc if key.endswith("_ms")]

    def paths(name, *changes):
        found = []
        for number, given in enumerate(changes):
            given = dict(given)
            scale, minute = given.pop("scale", 1.0), given.pop("minute", number)
            one = doc | {"date": f"20261129-12{minute:02d}00"} | {key: doc[key] * scale for key in figures}
            one |= {key: [value * scale for value in doc[key]] for key in ("ttfts", "latencies")}
            one |= {"itls": [[gap * scale for gap in gaps] for gaps in doc["itls"]]}
            one |= {key: doc[key] / scale for key in ("request_throughput", "output_throughput", "total_token_throughput")}
            path = tmp_path / f"{name}-{number + 1}.json"
            path.write_text(json.dumps(one | given))
            found.append(path)
        return found

    return paths


NOISE = (1.0, 1.012, 0.991, 1.004, 0.996)


def runs(write, name, change=1.0, **settings):
    start = {"base": 0, "cand": 1}.get(name, 30)
    return write(name, *({"scale": change * noise, "minute": start + 2 * i, **settings} for i, noise in enumerate(NOISE)))


def test_a_slower_candidate_is_worse_with_interval_first(write):
    found = kit.compare_benchmarks(runs(write, "base"), runs(write, "cand", 1.1))
    ttft = found["ttft.median"]
    assert ttft.verdict == "worse" and ttft.metric.primary
    assert math.isclose(ttft.effect, 0.1, abs_tol=1e-9)
    assert ttft.interval[0] < 0.1 < ttft.interval[1]
    assert found["output_throughput.run"].verdict == "worse"
    assert found.warnings == []
    assert ttft.p_permutation == pytest.approx(stats.least_p(5, 5))


def test_no_change_is_equivalent_and_a_small_noisy_one_needs_more_runs(write):
    assert kit.compare_benchmarks(runs(write, "base"), runs(write, "cand", 1.001))["ttft.median"].verdict == "equivalent"
    wild = [{"scale": scale} for scale in (1.0, 1.2, 0.85)]
    found = kit.compare_benchmarks(write("base", *wild), write("cand", *({"scale": one["scale"] * 1.05} for one in wild)))
    assert found["ttft.median"].verdict == "inconclusive"
    assert found["ttft.median"].runs_needed > 3
    assert f"{found['ttft.median'].runs_needed} per side" in str(found)


def test_one_run_a_side_is_an_effect_with_noise_unknown(write):
    found = kit.compare_benchmarks(write("base", {}), write("cand", {"scale": 1.2}))["ttft.median"]
    assert (found.verdict, found.interval, found.noise) == ("inconclusive", None, "unknown")
    assert math.isclose(found.effect, 0.2)
    floor = kit.compare_benchmarks(write("base", {}), write("cand", {"scale": 1.2}), aa=runs(write, "aa"))["ttft.median"]
    assert (floor.verdict, floor.noise) == ("worse", "A/A runs")
    assert of(floor.notes, "noise_of_aa")["freedom"] == 4


def test_two_a_side_are_too_few_for_a_verdict(write):
    found = kit.compare_benchmarks(write("base", {}, {"scale": 1.01}), write("cand", {"scale": 1.5}, {"scale": 1.51}))
    assert found["ttft.median"].verdict == "inconclusive"
    assert of(found["ttft.median"].notes, "too_few_runs") == {"base": 2, "cand": 2}


def test_another_load_is_named_and_withholds_the_ratio(write):
    sides = runs(write, "base"), runs(write, "cand", 1.1, max_concurrency=8, random_input_len=512)
    found = kit.compare_benchmarks(*sides)
    assert found.gate["differs"] == ["max_concurrency: 4, 8"]
    assert {one.verdict for one in found.judged} == {"withheld"}
    assert all(one.effect is None for one in found.judged)
    assert of(found.warnings, "not_same_experiment") == {"differs": ["max_concurrency: 4, 8"]}
    assert found.where == [] and len(found.shift("ttft")) == 0
    assert "worse" not in str(found).replace("worse than", "")
    forced = kit.compare_benchmarks(*sides, force=True)
    assert forced["ttft.median"].effect is not None and forced.gate["forced"]


def test_loads_are_paired_and_the_odd_one_is_left_out(write):
    base = [*write("base", {}, {"max_concurrency": 8, "scale": 2.0})]
    cand = [*write("cand", {"max_concurrency": 8, "scale": 2.2}, {"scale": 1.1}, {"max_concurrency": 16, "scale": 3.0})]
    found = kit.compare_benchmarks(base, cand)
    assert [round(found[f"max_concurrency {load} ttft.median"].effect, 6) for load in (4, 8)] == [0.1, 0.1]
    assert of(found.warnings, "other_load")["run"] == "cand-3.json"


def test_failed_requests_are_no_fast_ones(write, data):
    doc = json.loads((data / "bench" / "vllm-base.json").read_text())
    lost = {
        "errors": ["boom"] * 20 + [""] * 20,
        "failed": 20,
        "completed": 20,
        "ttfts": [0.0] * 20 + [value * 0.5 for value in doc["ttfts"][20:]],
        "latencies": [0.0] * 20 + [value * 0.5 for value in doc["latencies"][20:]],
        "itls": [[]] * 20 + doc["itls"][20:],
        "output_lens": [0] * 20 + doc["output_lens"][20:],
    }
    cand = write(
        "cand", *({**lost, "minute": 1 + 2 * i, "ttfts": [v * noise for v in lost["ttfts"]]} for i, noise in enumerate(NOISE))
    )
    found = kit.compare_benchmarks(runs(write, "base"), cand)
    ttft = found["ttft.median"]
    assert ttft.effect < -0.3 and ttft.p < 0.01
    assert ttft.verdict == "inconclusive" and of(ttft.notes, "survivors") == {"share": 0.5, "side": "cand"}
    failed = [entry.values for entry in found.warnings if entry.code == "failed_requests"]
    assert [(values["share"], values["side"]) for values in failed] == [(0.0, "base"), (0.5, "cand")]
    assert found.warnings[0].code == "failed_requests"


def test_tools_that_define_gaps_differently_give_no_ratio_of_them(data):
    found = kit.compare_benchmarks(data / "bench" / "vllm-base.json", data / "bench" / "sglang-base.jsonl")
    assert found["itl.median"].verdict == found["tpot.median"].verdict == "withheld"
    assert found.gate["refused"]["itl.median"].values == {"definitions": ["gaps_per_token", "single_gaps"]}
    assert found["ttft.median"].effect is not None
    assert describe_shift(found, "itl") == "No change of itl is drawn: its ratio is withheld."


def test_the_same_run_twice_is_no_second_measurement(write):
    base = write("base", {}, {"scale": 1.01})
    found = kit.compare_benchmarks(base, [base[0], *write("cand", {"scale": 1.1})])
    assert found.inputs.of("cand") == ["cand-1.json"]
    assert of(found.warnings, "same_run_twice") == {"run": "cand: base-1.json", "other": "base: base-1.json"}
    with pytest.raises(EvidenceError, match="no run of cand is left"):
        kit.compare_benchmarks(base, base)


def test_values_that_are_no_measurement_are_named(write):
    base, cand = runs(write, "base"), runs(write, "cand", 1.1)
    doc = json.loads(cand[0].read_text()) | {"output_throughput": 0.0}
    cand[0].write_text(json.dumps(doc).replace(f'"request_throughput": {doc["request_throughput"]}', '"request_throughput": NaN'))
    found = kit.compare_benchmarks(base, cand)
    assert len(found["output_throughput.run"].metric.cand) == 4
    assert found["output_throughput.run"].verdict == "withheld"
    assert of(found["output_throughput.run"].notes, "zero_value") == {"runs": ["cand-1.json"]}
    assert of(found["request_throughput.run"].metric.notes, "missing_value") == {"run": "cand-1.json"}
    json.dumps(found.to_dict(), allow_nan=False)


def test_tokens_that_arrived_in_batches_are_no_times_of_a_token(write):
    """A client on a busy machine reads several tokens at once: the gaps are nothing, and the first came late."""
    cand = runs(write, "cand", 1.1)
    doc = json.loads(cand[2].read_text())
    doc["itls"] = [[sum(gaps) - 1e-6 * (len(gaps) - 1), *[1e-6] * (len(gaps) - 1)] for gaps in doc["itls"]]
    cand[2].write_text(json.dumps(doc))
    found = kit.compare_benchmarks(runs(write, "base"), cand)
    assert {found[key].verdict for key in ("itl.median", "itl.mean", "ttft.median")} == {"withheld"}
    assert of(found.warnings, "ratio_withheld")["reason"].values == {"runs": ["cand-3.json"]}
    assert found["output_throughput.run"].verdict == "worse"
    assert kit.compare_benchmarks(runs(write, "base"), cand, force=True)["ttft.median"].verdict == "worse"


def test_blocks_after_one_another_and_a_trend_are_warned_of(write):
    base = write("base", *({"scale": noise, "minute": i} for i, noise in enumerate(NOISE)))
    cand = write("cand", *({"scale": noise * 1.001, "minute": 10 + i} for i, noise in enumerate(NOISE)))
    order = of(kit.compare_benchmarks(base, cand).warnings, "not_interleaved")
    assert order == {"share": "all", "first": "base", "second": "cand"}
    drifting = [
        write(name, *({"scale": 1 + 0.02 * (2 * i + odd) + 0.001 * (i % 2), "minute": 2 * i + odd} for i in range(5)))
        for odd, name in enumerate(("base", "cand"))
    ]
    told = kit.compare_benchmarks(*drifting).warnings
    slopes = {entry.values["metric"]: entry.values["slope"] for entry in told if entry.code == "drift"}
    assert slopes["ttft.median"] == pytest.approx(0.0185, abs=0.001)
    assert "not_interleaved" not in codes(told)
    assert first_share([1, 3], [2, 4]) == 0.75 and trend([([0, 1], [0.0, 0.1]), ([2, 3], [0.0, 0.1])]) is None


def test_a_quoted_number_has_unknown_noise(write):
    one = write("base", {})
    found = kit.compare_benchmarks(one, quoted={"output_throughput": 500.0})
    (quoted,) = found.quotes
    assert (quoted.verdict, quoted.noise, quoted.metric.base) == ("inconclusive", "unknown", [500.0])
    assert "noise unknown" in str(found)
    several = kit.compare_benchmarks(runs(write, "base"), quoted={"output_throughput": 1000.0}).quotes[0]
    assert (several.verdict, several.noise) == ("worse", "one side")
    assert of(several.notes, "noise_of_one_side") == {"runs": 5, "side": "cand"}
    with pytest.raises(UsageError, match="nothing to compare"):
        kit.compare_benchmarks(one)


def test_settings_stand_beside_the_numbers_and_are_no_cause(write, tmp_path):
    base, cand = runs(write, "base"), runs(write, "cand", 1.2)
    argv = ["vllm", "serve", "mock-7b", "--tensor-parallel-size", "1", "--gpu-memory-utilization", "0.90"]
    (tmp_path / "base.launch.json").write_text(json.dumps({"argv": argv, "env": {"A": "1"}}))
    same = ["vllm", "serve", "mock-7b", "-tp", "1", "--gpu-memory-utilization=0.9", "--enforce-eager"]
    launch = tmp_path / "cand.launch.json"
    launch.write_text(json.dumps({"argv": same, "env": {"A": "1"}}))
    sides = [*base, tmp_path / "base.launch.json"], [*cand, launch]
    found = kit.compare_benchmarks(*sides)
    assert found.settings["setting"].tolist() == ["enforce_eager"]
    assert (found.why[0].code, found.why[0].values["settings"]) == ("consistent_with", ["enforce_eager (not given → True)"])
    launch.write_text(json.dumps({"argv": same, "env": {"A": "2"}}))
    confounded = of(kit.compare_benchmarks(*sides).why, "confounded")
    assert confounded["settings"] == ["A (1 → 2)", "enforce_eager (not given → True)"]
    launch.write_text(json.dumps({"argv": argv, "env": {"A": "1"}}))
    assert kit.compare_benchmarks(*sides).why[0].code == "nothing_separates"
    assert "caused" not in str(found)


def test_runs_that_differ_in_one_setting_only_are_named(write):
    """Two settings changed between the sides, but one run of cand changed only one of them."""
    both = {"tp": "2", "backend_flag": "b"}
    base = runs(write, "base", tp="1", backend_flag="a")
    cand = [*runs(write, "cand", 1.2, **both)[:4], *write("one", {"minute": 9, "scale": 1.21, "tp": "2", "backend_flag": "a"})]
    said = [entry.values for entry in kit.compare_benchmarks(base, cand).why if entry.code.startswith("one_setting_only")]
    assert said == [
        {"setting": "tp", "first": "base-1.json", "second": "one-1.json", "more": 4},
        {"setting": "backend_flag", "first": "cand-1.json", "second": "one-1.json", "more": 3},
    ]
    assert not any(code.startswith("one_setting") for code in codes(kit.compare_benchmarks(base, cand[:4]).why))


def test_where_the_difference_sits(write, data):
    doc = json.loads((data / "bench" / "vllm-base.json").read_text())
    slow = [value * (1.5 if i % 40 >= 30 else 1.0) for i, value in enumerate(sorted(doc["ttfts"]))]
    gaps = [list(one) for one in doc["itls"]]
    gaps[3][2] = 0.12
    changed = [{"minute": 1 + 2 * i, "ttfts": [v * n for v in slow], "itls": gaps} for i, n in enumerate(NOISE)]
    found = kit.compare_benchmarks(runs(write, "base"), write("cand", *changed))
    table = found.shift("ttft").set_index("quantile")
    assert abs(table.loc[0.5, "effect"]) < 0.02 < 0.4 < table.loc[0.9, "effect"]
    assert table.loc[0.5, "low"] < 0 < table.loc[0.5, "high"]
    (span,) = of(found.where, "shift_partly")["spans"]
    assert span.startswith("longer in cand at p80")
    assert of(found.where, "stalls_apart") == {"more": "cand", "less": "base"}
    assert found.stalls.groupby("side")["stalls"].sum().to_dict() == {"base": 0, "cand": 5}


def test_lengths_tell_apart_what_the_median_mixes(write, data):
    doc = json.loads((data / "bench" / "vllm-base.json").read_text())
    lens = [64 if i % 2 else 1024 for i in range(len(doc["ttfts"]))]
    base = runs(write, "base", input_lens=lens)
    slow = [value * (1.3 if length > 64 else 1.0) for value, length in zip(doc["ttfts"], lens, strict=True)]
    cand = write(
        "cand", *({"minute": 1 + 2 * i, "input_lens": lens, "ttfts": [v * n for v in slow]} for i, n in enumerate(NOISE))
    )
    found = kit.compare_benchmarks(base, cand)
    effects = found.by_length.query("metric == 'ttft'")["effect"].round(2).tolist()
    assert effects[0] == 0.0 and effects[-1] == 0.3 and effects == sorted(effects)
    assert (of(found.where, "part_differs")["by"], of(found.where, "part_differs")["metric"]) == ("by prompt length", "ttft")


def test_starts_of_one_file_are_replicates_and_parts_are_named(tmp_path):
    def write(name, cold, warm, compiled):
        doc = {}
        for metric, times in (("cold_startup", cold), ("warm_startup", warm), ("warm_compilation", compiled)):
            doc |= {f"avg_{metric}_time": sum(times) / 3, f"{metric}_times": times}
        (tmp_path / name).write_text(json.dumps(doc))
        return tmp_path / name

    found = kit.compare_benchmarks(
        write("a.json", [61.2, 60.4, 62.0], [24.1, 23.8, 24.4], [2.2, 2.1, 2.2]),
        write("b.json", [60.9, 61.8, 61.1], [41.7, 42.3, 41.9], [19.9, 20.3, 20.0]),
    )
    assert found["warm_startup.mean"].verdict == "worse" and found["cold_startup.mean"].verdict == "equivalent"
    assert found["warm_startup.mean"].metric.replicate == "process start"
    part = of(found.where, "largest_part")
    assert (part["part"], part["part_change"]) == ("warm_compilation", pytest.approx(17.9, abs=0.05))


def test_repetitions_of_one_session_never_decide(tmp_path):
    for name, times in (("a", [1.0, 1.01, 0.99, 1.0, 1.02]), ("b", [1.4, 1.41, 1.39, 1.4, 1.42])):
        doc = {"results": [{"command": name, "mean": sum(times) / 5, "median": sorted(times)[2], "times": times}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(doc))
    found = kit.compare_benchmarks(tmp_path / "a.json", tmp_path / "b.json")
    one = found["a | b wall_time.mean"]
    assert (one.verdict, one.metric.replicate) == ("inconclusive", "repetition")
    assert one.interval[0] > 0.3 and "one_session" in codes(one.notes)
    assert of(found.warnings, "paired_by_position") == {"pairs": "a with b"}


def test_launches_go_through_the_same_comparison():
    found = kit.compare_launches([kit.sample("healthy-tp2"), kit.sample("log-lost")], [kit.sample_path("sg01-capture-hang")])
    weights = found["phase_weights_s.run"]
    assert weights.metric.unit == "s" and weights.metric.replicate == "launch"
    assert "sg01-capture-hang never became ready" in of(found.warnings, "reported")["text"]
    assert "time_to_ready_s.run" not in {one.metric.key for one in found.judged}
    with pytest.raises(UsageError, match="mixed"):
        kit.compare_benchmarks([kit.sample("healthy-tp2"), "x.json"], kit.sample("log-lost"))


def test_recorded_launches_that_compile_take_longer_and_the_part_is_named(data):
    """Whole seconds of a log give no ratio where they are 0, and no equivalence where they are 1."""
    found = kit.compare_launches(*(sorted((data / "launches").glob(f"{name}-*")) for name in ("eager", "compiled")))
    ready = found["time_to_ready_s.run"]
    assert ready.verdict == "worse" and 0.5 < ready.interval[0] < ready.interval[1] < 1.0 and found.warnings
    assert found["phase_weights_s.run"].verdict == "withheld" and not found["phase_weights_s.run"].metric.primary
    assert found["phase_launch_s.run"].verdict == "inconclusive"
    part = of(found.where, "largest_part_new")
    assert (part["part"], part["side"], round(part["part_change"]), round(part["share"], 2)) == (
        "phase_compile_s",
        "cand",
        18,
        0.98,
    )
    assert (found.why[0].code, found.why[0].values["settings"]) == ("consistent_with", ["enforce_eager (True → False)"])
    assert found.why[1].code == "printed_accordingly"


@pytest.mark.parametrize("seconds, verdict", [(2.0, "inconclusive"), (30.0, "equivalent")])
def test_a_clock_of_whole_seconds_shows_no_equality_of_short_times(seconds, verdict):
    times = [seconds] * 5
    figure = Metric(
        "x.run", LoadGroup(None, [], []), None, "x", "run", "s", "lower_is_better", times, times, primary=True, step=1.0
    )
    assert judge([figure], Rules())[0].verdict == verdict


def test_primary_figures_can_be_chosen_and_unknown_ones_are_listed(write):
    sides = write("base", {}), write("cand", {"scale": 1.1})
    found = kit.compare_benchmarks(*sides, primary=["e2el.p99", "ttft"])
    assert {one.metric.key for one in found.judged if one.metric.primary} == {"e2el.p99", "ttft.median"}
    with pytest.raises(UsageError, match=r"ttft\.median"):
        kit.compare_benchmarks(*sides, primary="speed")


def test_page_holds_the_text_and_is_escaped(write):
    found = kit.compare_benchmarks(
        runs(write, "base", model_id="<script>x</script>", tp="<b>"),
        runs(write, "cand", 1.1, model_id="<script>x</script>", tp="<i>"),
    )
    assert "<script>x" not in found._repr_html_() and "<i>" not in found._repr_html_()
    assert "consistent with tp" in found._repr_html_() and "consistent with tp" in str(found)


def test_chart_draws_the_band_and_says_it_in_words(write):
    found = kit.compare_benchmarks(runs(write, "base"), runs(write, "cand", 1.1))
    axes = plot_shift(found, "ttft")
    line = next(line for line in axes.lines if len(line.get_xdata()) > 2)
    assert [round(value, 3) for value in line.get_ydata()] == [10.0] * len(found.shift("ttft"))
    assert len(axes.collections) == 1
    assert figure_alt(axes.figure) == describe_shift(found, "ttft")
    assert "longer in cand at every quantile" in describe_shift(found, "ttft")


SHARE = {"share": 0.125, "side": "cand", "load": None}
SETTING = {"metrics": ["ttft.median"], "settings": ["tp (1 → 2)"]}
PAIR = {"setting": "tp", "first": "a.json", "second": "b.json", "more": 1}


@pytest.mark.parametrize(
    ("code", "values", "sentence"),
    [
        ("failed_requests", SHARE, "12.5 % of the requests of cand failed; they are in no value, and failing is not fast"),
        ("failed_requests", SHARE | {"load": "rate 4"}, "12.5 % of the requests of cand failed (rate 4); they are in no value"),
        ("tokens_batched", {"runs": ["a", "b", "c"]}, "tokens arrived in batches in a, b and 1 more, as on a busy machine"),
        ("drift", {"metric": "ttft", "slope": 0.018, "p": 0.012}, "ttft drifts by +1.8 % from run to run within the sides"),
        ("below_margin", {"margin": 0.05}, "a change, but smaller than the margin of 5 %"),
        ("too_few_runs", {"base": 2, "cand": 3}, "2 v 3 runs are too few for a test"),
        ("aa_without_noise", {"runs": 1}, "no noise from 1 A/A run: three or more of the same load are needed"),
        ("consistent_with", SETTING, "ttft.median: consistent with tp (1 → 2), the only setting known to separate the sides"),
        ("one_setting_only_many", PAIR, "runs that differ in tp only: a.json and b.json, and 1 more pair"),
        (
            "not_interleaved",
            {"share": "all", "first": "base", "second": "cand"},
            "base and candidate runs were not interleaved: all of base came before cand",
        ),
    ],
)
def test_sentences_of_findings(code, values, sentence):
    assert str(finding(code, **values)).startswith(sentence)


def test_command_prints_text_and_json(write, capsys):
    base, cand = (list(map(str, runs(write, name, change))) for name, change in (("base", 1.0), ("cand", 1.1)))
    assert main(["bench", *base, "--vs", *cand]) == 0
    assert "ttft.median worse" in capsys.readouterr().out
    assert main(["bench", *base, "--vs", *cand, "--primary", "ttft", "--json", "--quoted", "ttft=30 ms"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["ttft.median"]["verdict"] == "worse" and found["metrics"]["ttft.median"]["n"] == {
        "base": 5,
        "cand": 5,
    }
    assert found["quoted"]["ttft.median against the quoted 30"]["verdict"] == "worse"
    assert main(["bench", *base]) == 2
    with pytest.raises(UsageError):
        quote("ttft")


def test_student_t_against_tables():
    # Quantiles at 0.975 as printed in tables of Student's t (Fisher and Yates).
    for freedom, value in ((1, 12.7062), (2, 4.3027), (5, 2.5706), (10, 2.2281), (30, 2.0423), (120, 1.9799)):
        assert stats.t_quantile(0.975, freedom) == pytest.approx(value, abs=5e-5)
        assert stats.t_cdf(value, freedom) == pytest.approx(0.975, abs=1e-5)


def test_a_permutation_is_counted_as_far_apart_though_its_sum_was_rounded_otherwise():
    """Values of a few digits tie often; here each regrouping is counted by fractions."""
    for seed in range(30):
        rng = random.Random(seed)
        values = [Fraction(rng.randrange(300, 304), 100) for _ in range(9)]
        base, cand = values[:4], values[4:]
        apart = [
            abs(sum(values[i] for i in group) / 4 - sum(values[i] for i in range(9) if i not in group) / 5)
            for group in itertools.combinations(range(9), 4)
        ]
        wanted = sum(one >= apart[0] for one in apart) / len(apart)
        assert stats.permutation_p(list(map(float, base)), list(map(float, cand))) == pytest.approx(wanted)


def test_error_rates_hold_in_simulation():
    """400 families of three figures whose runs share a factor: false alarms, coverage, power."""
    rng = random.Random(3)
    cell, level = LoadGroup(None, [], []), {0.0: [0, 0], 0.08: [0, 0]}
    for change, count in level.items():
        for _ in range(400):
            base, cand = ([rng.gauss(math.log1p(shift), 0.024) for _ in range(5)] for shift in (0.0, change))
            figures = [
                Metric(
                    f"m{i}",
                    cell,
                    None,
                    f"m{i}",
                    "median",
                    "ms",
                    "lower_is_better",
                    *([math.exp(run + rng.gauss(0, 0.02)) for run in side] for side in (base, cand)),
                    primary=True,
                )
                for i in range(3)
            ]
            judged = judge(figures, Rules())
            count[0] += any(one.confirmed for one in judged)
            count[1] += judged[0].interval[0] <= change <= judged[0].interval[1]
    assert level[0.0][0] / 400 <= 0.06
    assert level[0.08][0] / 400 >= 0.85
    assert all(0.92 <= covered / 400 <= 0.98 for _, covered in level.values())
