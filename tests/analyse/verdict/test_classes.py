"""Classes and thresholds: traits, folders of the user's, and a new class in one table and one rule."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.classes import classes
from kit.analyse.verdict.gpu_generation import generation
from kit.analyse.verdict.rules import RULES, rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import all_stacks
from kit.analyse.verdict.thresholds import thresholds
from kit.errors import UsageError
from tests.analyse.verdict.scenes import scene, stack

CLASS = """
[[class]]
name = "tokenizer_stall"
plain = "the tokenizer is waiting for the network"
meaning = "the tokenizer asks a hub that does not answer"
state = "failed"
names_ranks = "signs"
signs = [
    ["tokenizer_asks_hub", 8.0, "the log says so"],
    ["ready_line", -5.0, "it has its tokenizer"],
]
"""
SIGNATURE = """
[[signature]]
name = "no-hub-for-the-tokenizer"
when = { class = '^tokenizer_stall$' }
what = "there is no way to the hub from here"
do = "set HF_HUB_OFFLINE=1"
"""
LOG = """[2026-02-18 00:29:00 TP0] server_args=ServerArgs(model_path='m', tp_size=2)
[2026-02-18 00:29:07 TP0] Init torch distributed begin.
[2026-02-18 00:29:07 TP1] Init torch distributed begin.
[2026-02-18 00:29:09 TP1] tokenizer: HEAD https://hub/tokenizer.json
"""


@pytest.fixture
def tokenizer_rule() -> Iterator[None]:
    """A rule of a test's own."""

    @rule("tokenizer_asks_hub", needs=("log",))
    def tokenizer(scene: Scene) -> Signs:
        for record in scene.log.tail:
            if "tokenizer.json" in record["text"]:
                yield Sign("tokenizer_asks_hub", "the tokenizer asks a hub", [], [record["rank"]])

    yield
    RULES.pop()


def folder_with(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "knowledge"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def test_a_new_class_is_one_table_and_one_rule(tokenizer_rule: None, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(LOG)
    knowledge = folder_with(tmp_path, classes=CLASS, signatures=SIGNATURE)
    verdict = kit.verdict(tmp_path / "server.log", captured_at="2026-02-18 02:00:00", knowledge=knowledge)
    assert (verdict.klass, verdict.state, verdict.ranks) == ("tokenizer_stall", "failed", [1])
    assert verdict.remedy is not None and verdict.remedy["name"] == "no-hub-for-the-tokenizer"
    assert "the tokenizer is waiting for the network (tokenizer_stall)" in str(verdict)
    assert [entry["claim"] for entry in verdict.evidence] == ["the tokenizer asks a hub"]


def test_without_the_folder_nobody_knows_the_class(tokenizer_rule: None) -> None:
    assert "tokenizer_stall" not in classes()


@pytest.mark.parametrize(
    ("wrong", "right", "line", "hint"),
    [
        ('"ready_line"', '"ready_lin"', 10, "did you mean 'ready_line'?"),
        ('state = "failed"', 'state = "faild"', 6, "did you mean 'failed'?"),
        ("names_ranks", "names_rank", 7, "did you mean 'names_ranks'?"),
        ('plain = "the', 'plan = "the', 4, "did you mean 'plain'?"),
        ("8.0", '"8"', 8, 'is not ["sign", weight, "reason"]'),
    ],
)
def test_a_mistake_in_a_class_names_line_and_word(
    tokenizer_rule: None, tmp_path: Path, wrong: str, right: str, line: int, hint: str
) -> None:
    folder = folder_with(tmp_path, classes=CLASS.replace(wrong, right, 1))
    with pytest.raises(UsageError) as caught:
        classes([folder])
    assert f"line {line}" in str(caught.value) or "'signs'" in str(caught.value)
    assert hint in str(caught.value) and "classes.toml" in str(caught.value)


def test_a_class_of_the_users_stands_for_the_packaged_one(tokenizer_rule: None, tmp_path: Path) -> None:
    changed = CLASS.replace("tokenizer_stall", "device_hang")
    assert classes([folder_with(tmp_path, classes=changed)])["device_hang"].state == "failed"
    assert classes()["device_hang"].state == "stalled"


def test_thresholds_of_the_users_stand_for_the_packaged_ones(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, thresholds='[[threshold]]\nname = "long_silence_s"\nvalue = 30000.0\n')
    run = kit.sample_path("sg01-capture-hang")
    assert "long_silence" in kit.verdict(run).signs and "long_silence" not in kit.verdict(run, knowledge=folder).signs


@pytest.mark.parametrize(
    ("text", "hint"), [('name = "recent"\nvalue = 1', "did you mean 'recent_s'?"), ('name = "recent_s"\nvalue = "1"', "'value'")]
)
def test_a_mistake_in_a_threshold_names_it(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match="thresholds.toml") as caught:
        thresholds([folder_with(tmp_path, thresholds=f"[[threshold]]\n{text}\n")])
    assert hint in str(caught.value)


def test_what_a_class_means_says_more_than_its_name() -> None:
    again = {
        known.name: sorted(told)
        for known in classes().values()
        if 2 * len(told := words(known.plain) & words(known.meaning)) >= min(len(words(known.plain)), len(words(known.meaning)))
    }
    assert again == {}


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w{3,}", text.lower()) if word not in ("the", "and", "that", "was", "for", "its")}


def test_every_threshold_is_used() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(kit.__file__).parent.rglob("*.py"))
    assert not [name for name in thresholds() if f'"{name}"' not in source]


def test_a_folder_may_hold_stack_categories_and_gpus(tmp_path: Path) -> None:
    category = '[[category]]\nname = "tokenizer"\nmeaning = "works on text"\npatterns = [\'acme_words\']\n'
    gpus = "[[generation]]\nname = \"Acme\"\nproducts = ['Acme \\d']\n"
    folder = folder_with(tmp_path, stacks=category, gpus=gpus)
    stacks = scene(*stack(10, "split (acme_words/core.py)"))
    assert all_stacks(stacks.evidence)[0].category is None
    stacks.evidence.run.knowledge = (folder,)
    assert all_stacks(stacks.evidence)[0].category == "tokenizer"
    assert generation("Acme 9000", [folder]) == "Acme" and generation("NVIDIA H100", [folder]) == "Hopper"


@pytest.mark.parametrize(
    "text",
    [
        "(EngineCore_DP0 pid=31) INFO 03-01 12:00:15 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m'\n"
        "(EngineCore_DP0 pid=31) ERROR 03-01 12:00:19 [core.py:708] EngineCore failed to start.\n"
        "(EngineCore_DP0 pid=31) ERROR 03-01 12:00:19 [core.py:708] ValueError: Free memory on device (2.5/79.1 GiB) on startup "
        "is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n",
        "[2026-03-01 12:00:15 TP0] Load weight begin. avail mem=23.10 GB\n"
        "[2026-03-01 12:00:45 TP0] Load weight end. type=Llama, avail mem=1.10 GB, mem usage=22.00 GB.\n"
        "[2026-03-01 12:00:46 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "scheduler.py", line 9, in run\n'
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. server_args.mem_fraction_static=0.3\n",
        "2026-03-01T12:00:15.113344Z  INFO text_generation_router: router/src/main.rs:299:: Warming up model\n"
        "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n",
    ],
    ids=["vllm", "sglang", "tgi"],
)
def test_a_server_that_reckons_its_memory_short_is_out_of_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.log").write_text(text)
    assert kit.verdict(tmp_path / "server.log").klass == "gpu_oom"
