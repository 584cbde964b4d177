"""Signatures: which hold for which evidence, and weights that do not fit."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import kit
from kit.analyse.verdict.gpu_generation import generation
from kit.analyse.verdict.rules import RULES
from kit.analyse.verdict.settings import Settings
from kit.analyse.verdict.signatures import FILE, Signature, server_version, signatures
from kit.parse import grammar

STAMP = "[2026-02-18 00:28:26 TP0] "


def judged(folder: Path, **files: str):
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return kit.verdict(folder, "2026-02-18 03:00:00")


def names(found) -> list[str]:
    return [known["name"] for known in found.remedies]


def test_packaged_signatures_are_whole() -> None:
    found = signatures()
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert one.when and one.what and one.do and one.source, one.name
        for wanted in (*one.when.get("version", ()), *(f"<{text}" for text in (one.since, one.fixed) if text)):
            SpecifierSet(wanted)


def test_signs_that_signatures_ask_for_exist() -> None:
    known = {code for entry in RULES for code in entry.codes}
    for one in signatures():
        for wanted in one.when.get("signs", ()):
            assert any(wanted.search(code) for code in known), (one.name, wanted.pattern)


def test_servers_that_signatures_ask_for_exist() -> None:
    known = {found.name for found in grammar.load().all}
    assert all(any(wanted.search(name) for name in known) for one in signatures() for wanted in one.when.get("server", ()))


def test_all_that_fit_are_given_and_the_specific_one_is_first() -> None:
    found = kit.verdict(kit.sample("sg01-capture-hang"))
    assert names(found)[:2] == ["attention-backend-hangs-in-capture-on-blackwell", "hang-in-capture"]
    assert found.to_dict()["remedy"] == found.remedies[0] == found.remedy
    assert found.remedy["matched"]["gpu_generation"] == "Blackwell"


def test_another_generation_or_backend_is_another_case() -> None:
    one = signatures()[0]
    known = {
        "class": ["device_hang"],
        "phase": ["post_load"],
        "server": ["sglang"],
        "gpu_generation": ["Blackwell"],
        "arg.attention_backend": ["flashinfer"],
    }
    assert one.matched(known) is not None
    assert one.matched(known | {"gpu_generation": ["Hopper"]}) is None
    assert one.matched(known | {"arg.attention_backend": ["triton"]}) is None


@pytest.mark.parametrize(
    ("wanted", "version", "holds"),
    [
        (">=0.5.0,<0.5.10", "0.5.9", True),
        (">=0.5.0,<0.5.10", "0.5.9.post1", True),
        (">=0.5.0,<0.5.10", "0.5.10", False),
        (">=0.5.0,<0.5.10", None, False),
        ("~=0.11.0", "0.11.2", True),
    ],
)
def test_a_range_of_versions_needs_a_known_version(wanted: str, version: str | None, holds: bool) -> None:
    one = Signature("x", "x", "x", when={"version": (wanted,)})
    assert (one.matched({"version": [version] if version else []}) is not None) == holds


@pytest.mark.parametrize(("version", "holds"), [(None, True), ("0.5.9", True), ("0.5.10", False), ("0.3.0", False)])
def test_since_and_fixed_bound_a_known_version(version: str | None, holds: bool) -> None:
    one = Signature("x", "x", "x", since="0.4", fixed="0.5.10", when={"server": (re.compile("sglang"),)})
    assert (one.matched({"server": ["sglang"], "version": [version] if version else []}) is not None) == holds


def test_every_expression_of_a_list_must_be_found_and_none_of_unless() -> None:
    both = (re.compile("^shm_full$"), re.compile("^acs_on$"))
    one = Signature("x", "x", "x", when={"signs": both}, unless={"arg.eager": (re.compile("^(?:True)?$"),)})
    assert one.matched({"signs": ["acs_on", "shm_full"]}) == {"signs": "shm_full; acs_on"}
    assert one.matched({"signs": ["shm_full"]}) is None
    assert one.matched({"signs": ["acs_on", "shm_full"], "arg.eager": [""]}) is None
    assert one.matched({"signs": ["acs_on", "shm_full"], "arg.eager": ["False"]}) is not None


@pytest.mark.parametrize(
    ("versions", "wanted"),
    [
        ({"server version": "0.11.0rc2.dev5+gabc"}, "0.11.0rc2.dev5"),
        ({"sglang": "0.5.9"}, "0.5.9"),
        ({"container image": "registry:5000/sglang:latest"}, None),
        ({"container image": "lmsysorg/sglang:v0.5.9.post1-cu126"}, "0.5.9.post1"),
    ],
)
def test_version_of_the_server(versions: dict, wanted: str | None) -> None:
    assert server_version(Settings("sglang", {"versions": versions})) == wanted


@pytest.mark.parametrize(
    ("product", "wanted"),
    [
        ("NVIDIA GB10", "Blackwell"),
        ("NVIDIA B200", "Blackwell"),
        ("NVIDIA GeForce RTX 5090", "Blackwell"),
        ("NVIDIA GH200 480GB", "Hopper"),
        ("NVIDIA H20", "Hopper"),
        ("NVIDIA L40S", "Ada"),
        ("NVIDIA RTX 6000 Ada Generation", "Ada"),
        ("NVIDIA A100-SXM4-80GB", "Ampere"),
        ("NVIDIA GeForce RTX 3090", "Ampere"),
        ("NVIDIA A10G", "Ampere"),
        ("Tesla T4", "Turing"),
        ("Tesla V100-SXM2-32GB", "Volta"),
        ("AMD Instinct MI300X", "CDNA3"),
        ("AMD Instinct MI355X", "CDNA4"),
        ("llvmpipe", None),
    ],
)
def test_generations(product: str, wanted: str | None) -> None:
    assert generation(product) == wanted


def test_mpi_bring_up(tmp_path: Path) -> None:
    log = "[TensorRT-LLM] TensorRT-LLM version: 1.1.0rc3\n[TensorRT-LLM][INFO] Initializing MPI with thread mode 3\n"
    assert "trtllm-mpi-bring-up" in names(judged(tmp_path, server_log=log))


def test_aiter_baton(tmp_path: Path) -> None:
    log = f"{STAMP}Init torch distributed begin.\n[aiter] waiting for baton release at /c/jit/build/lock_module_quant\n"
    found = judged(tmp_path, server_log=log, ps_txt="PID STAT COMMAND\n  71 S sglang::scheduler_TP0\n")
    assert found.klass == "lock_wait"
    assert "aiter-baton" in names(found)


FIT = (
    "0.00.078.322 I common_params_print_info: build 9803 (5c7c22c3e) with GNU 11.4.0 for Linux x86_64\n"
    "0.00.301.001 I common_init_result: fitting params to device memory ...\n"
    "0.00.301.020 I common_params_fit_impl: getting device memory data for initial parameters:\n"
)


def test_llamacpp_fit(tmp_path: Path) -> None:
    assert "llamacpp-hangs-fitting-parameters" in names(judged(tmp_path, server_log=FIT))


def test_a_flag_that_is_given_already_is_no_remedy(tmp_path: Path) -> None:
    ps = "PID STAT COMMAND\n  71 S llama-server -m m.gguf -fit off --port 8080\n"
    assert "llamacpp-hangs-fitting-parameters" not in names(judged(tmp_path, server_log=FIT, ps_txt=ps))


def test_a_server_that_loads_well_has_no_remedy() -> None:
    assert kit.verdict(kit.sample("healthy-tp2")).remedies == []


READY = (
    "[2026-02-18 00:31:00] INFO:     Application startup complete.\n"
    "[2026-02-18 00:31:02] The server is fired up and ready to roll!\n"
)
MISMATCHES = {
    "pytorch shape": (
        "RuntimeError: Error(s) in loading state_dict for EagleModel:\n"
        "\tsize mismatch for lm_head.weight: copying a param with shape torch.Size([32000, 4096]) from checkpoint, "
        "the shape in current model is torch.Size([128256, 4096]).\n",
        "error",
        "lm_head.weight is [32000, 4096] in the checkpoint and [128256, 4096] in the model",
    ),
    "pytorch missing": ('\tMissing key(s) in state_dict: "model.norm.weight". \n', "error", "model.norm.weight"),
    "pytorch unexpected": ('\tUnexpected key(s) in state_dict: "extra.bias". \n', "warning", "extra.bias"),
    "transformers": (
        "Some weights of LlamaForCausalLM were not initialized from the model checkpoint at m and are newly initialized: "
        "['lm_head.weight']\n",
        "error",
        "lm_head.weight",
    ),
    "transformers unused": (
        "Some weights of the model checkpoint at m were not used when initializing BertModel: ['cls.bias']\n",
        "warning",
        "cls.bias",
    ),
    "transformers table": (
        "model.layers.0.self_attn.k_proj.weight | MISMATCH   | Reinit due to size mismatch - ckpt: torch.Size([1024, 5120]) vs "
        "model:torch.Size([1024, 2560])\n",
        "error",
        "a weight is [1024, 5120] in the checkpoint and [1024, 2560] in the model",
    ),
    "transformers shapes": (
        "- lm_head.weight: found shape torch.Size([2, 8]) in the checkpoint and torch.Size([3, 8]) in the model instantiated\n",
        "error",
        "lm_head.weight is [2, 8] in the checkpoint and [3, 8] in the model",
    ),
    "sglang": (f"{STAMP}Parameter model.embed_tokens.weight not found in params_dict\n", "error", "model.embed_tokens.weight"),
    "vllm": ("ValueError: Following weights were not initialized from checkpoint: {'visual.merger'}\n", "error", "visual.merger"),
    "vllm module": ("ValueError: There is no module or parameter named 'lm_head' in Qwen2Model\n", "error", "lm_head"),
    "vllm assertion": (
        "AssertionError: Attempted to load weight (torch.Size([7168])) into parameter (torch.Size([5120]))\n",
        "error",
        "[7168] in the checkpoint and [5120] in the model",
    ),
    "llama.cpp tensor": ("llama_model_load: error loading model: missing tensor 'output_norm.weight'\n", "error", "output_norm"),
    "llama.cpp number": (
        "llama_model_load: error loading model: done_getting_tensors: wrong number of tensors; expected 292, got 291\n",
        "error",
        "292",
    ),
    "llama.cpp shape": (
        "llama_model_load: error loading model: check_tensor_dims: tensor 'token_embd.weight' has wrong shape; expected  4096, "
        "32000, got  4096, 32001,     1,     1\n",
        "error",
        "token_embd.weight is [4096, 32001,     1,     1] in the checkpoint",
    ),
    "draft": ("ValueError: draft hidden_size 4096 does not match target hidden_size 7168\n", "error", "7168"),
}


@pytest.mark.parametrize(("text", "severity", "said"), MISMATCHES.values(), ids=MISMATCHES)
def test_weights_that_do_not_fit_are_found_in_a_ready_server(tmp_path: Path, text: str, severity: str, said: str) -> None:
    found = judged(tmp_path, server_log=f"{STAMP}Load weight begin. avail mem=93.42 GB\n{text}{READY}")
    (finding,) = found.to_dict()["findings"]
    assert (finding["code"], finding["severity"]) == ("weights_mismatch", severity)
    assert said in finding["claim"]
    assert finding["evidence"][0]["line"] in (2, 3)
    assert "also found" in str(found) and "also found" in found._repr_html_()
    assert ("no trained values" in finding["claim"]) == (severity == "error")


def test_a_warning_about_weights_is_no_crash(tmp_path: Path) -> None:
    found = judged(tmp_path, server_log=f"{STAMP}Load weight begin.\n{MISMATCHES['sglang'][0]}{READY}")
    assert found.state == "ready"
    assert found.facts.value("first_error") is None


def test_a_draft_model_is_named_as_a_suspect(tmp_path: Path) -> None:
    args = f"{STAMP}server_args=ServerArgs(model_path='/m', speculative_algorithm='EAGLE3', tp_size=1)\n"
    found = judged(tmp_path, server_log=f"{args}{MISMATCHES['sglang'][0]}{READY}")
    assert "draft model" in found.findings[0]["next"]


def test_no_finding_without_such_a_line() -> None:
    assert kit.verdict(kit.sample("sg01-capture-hang")).findings == []


def test_text_of_the_evidence_is_escaped(tmp_path: Path) -> None:
    found = judged(tmp_path, server_log=f'{STAMP}x\n\tMissing key(s) in state_dict: "<script>". \n{READY}')
    assert "<script>" not in found._repr_html_()


def test_head_of_the_file_names_every_key() -> None:
    head = FILE.read_text().split("[[signature]]")[0]
    keys = {key for entry in tomllib.loads(FILE.read_text())["signature"] for key in entry}
    assert all(re.search(rf"\b{key}\b", head) for key in keys)
