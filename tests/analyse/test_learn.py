"""Learning a signature from a solved run, and finding earlier runs like one."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import kit
from kit.analyse.knowledge.judged_run import evidence_id, generalised, open_case
from kit.analyse.knowledge.similar import features, likeness
from kit.cli import main
from kit.errors import EvidenceError, UsageError
from kit.run import Run

LOG = """[2026-02-18 00:28:26 TP0] server_args=ServerArgs(model_path='/home/ann/secret-model', attention_backend='fa3', tp_size=1)
[2026-02-18 00:28:27 TP0] Load weight begin. avail mem=93.42 GB
[2026-02-18 00:28:40 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/home/ann/sglang/loader.py", line 17, in load
    raise ValueError(1)
ValueError: cannot map tensor 17 of /home/ann/secret-model/a.safetensors at 0x7f12: quota 33 is 'full'
"""


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    return Path(shutil.copytree(kit.sample_path("sg01-capture-hang"), tmp_path / "solved"))


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose" / "server.log").write_text(LOG)
    return tmp_path / "loose"


@pytest.mark.parametrize("name", ["sg01-capture-hang", "stopped-rank", "port-taken", "no-weights", "compile"])
def test_what_was_learnt_fits_the_run_it_was_learnt_from(tmp_path: Path, name: str) -> None:
    run = shutil.copytree(kit.sample_path(name), tmp_path / "run")
    opened = kit.open_run(run)
    klass = kit.verdict(opened).klass
    learnt = kit.learn(opened, klass, "what helped", name="ours", knowledge=tmp_path / "k")
    found = kit.verdict(run, knowledge=tmp_path / "k")
    assert found.remedy["name"] == "ours"
    assert found.remedy["matched"] == learnt.matched


def test_it_does_not_fit_other_runs(solved: Path, tmp_path: Path) -> None:
    kit.learn(solved, "device_hang", "another backend", name="ours", knowledge=tmp_path / "k")
    for name in ("stopped-rank", "compile", "healthy-tp2", "sg02-one-snapshot"):
        found = kit.verdict(kit.sample_path(name), knowledge=tmp_path / "k")
        assert "ours" not in [known["name"] for known in found.remedies], name


def test_the_same_trouble_elsewhere_is_known(loose: Path, tmp_path: Path) -> None:
    kit.learn(loose, "worker_crashed", "raise the quota", name="quota", knowledge=tmp_path / "k")
    again = tmp_path / "again"
    again.mkdir()
    (again / "server.log").write_text(
        LOG.replace("/home/ann/secret-model", "/srv/other").replace("tensor 17", "tensor 4").replace("00:28", "11:05")
    )
    assert kit.verdict(again, knowledge=tmp_path / "k").remedy["name"] == "quota"
    (again / "server.log").write_text(LOG.replace("quota 33 is 'full'", "no such key"))
    assert (kit.verdict(again, knowledge=tmp_path / "k").remedy or {}).get("name") != "quota"


def test_nothing_private_is_written(loose: Path, tmp_path: Path) -> None:
    learnt = kit.learn(loose, "worker_crashed", "raise the quota with password=hunter2", knowledge=tmp_path / "k")
    written = learnt.path.read_text()
    tomllib.loads(written)
    assert not re.search(r"\bann\b|secret-model|/home|hunter2|0x7f12|\b17\b", written)
    assert "loose" in written  # the run by its name


def test_facts_that_show_another_class_are_kept_without_it(solved: Path, tmp_path: Path) -> None:
    text = kit.learn(solved, "transport_hang", "P2P off", knowledge=tmp_path / "k").text
    entry = tomllib.loads(text)["signature"][0]
    assert entry["class"] == "transport_hang"
    assert "class" not in entry["when"]
    assert kit.verdict(solved, knowledge=tmp_path / "k").remedy["class"] == "transport_hang"


def test_a_class_that_does_not_exist_is_refused(solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["learn", str(solved), "--class", "devicehang", "--remedy", "x", "--knowledge", str(tmp_path / "k")]) == 2
    assert "the nearest is 'device_hang'" in capsys.readouterr().err
    assert not (tmp_path / "k").exists()
    with pytest.raises(UsageError):
        kit.learn(solved, "undetermined", "x", knowledge=tmp_path / "k")


def test_a_run_that_shows_nothing_teaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2026-02-18 00:28:27 TP0] Load weight begin. avail mem=93.42 GB\n")
    with pytest.raises(EvidenceError, match="tells it from other runs"):
        kit.learn(tmp_path / "server.log", "lock_wait", "x", out=tmp_path / "own.toml")
    assert not (tmp_path / "own.toml").exists()


def test_signatures_are_added_not_overwritten(solved: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("# ours\n")
    names = [kit.learn(solved, "device_hang", "x", out=file).name for _ in range(2)]
    assert len(set(names)) == 2
    assert file.read_text().startswith("# ours\n") and file.read_text().count("[[signature]]") == 2
    with pytest.raises(UsageError, match="already"):
        kit.learn(solved, "device_hang", "x", out=file, name=names[0])


def test_a_broken_file_is_left_as_it_is(solved: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[[signature]]\nname = \n")
    with pytest.raises(UsageError, match="line 2"):
        kit.learn(solved, "device_hang", "x", out=file)
    assert file.read_text() == "[[signature]]\nname = \n"


def test_no_place_is_named(solved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIT_KNOWLEDGE", raising=False)
    with pytest.raises(UsageError, match="--knowledge"):
        kit.learn(solved, "device_hang", "x")


def test_remedies_with_quotes_are_valid_toml(solved: Path, tmp_path: Path) -> None:
    remedy = 'don\'t use "flashinfer" on C:\\gpu\nuse triton'
    text = kit.learn(solved, "device_hang", remedy, out=tmp_path / "own.toml").text
    assert tomllib.loads(text)["signature"][0]["do"] == " ".join(remedy.split())


def test_similar_says_what_a_recorded_run_turned_out_to_be(solved: Path, tmp_path: Path) -> None:
    kit.learn(solved, "transport_hang", "NCCL_P2P_DISABLE=1", knowledge=tmp_path / "k")
    assert json.loads((solved / "run.json").read_text())["solved"]["class"] == "transport_hang"
    found = kit.similar(kit.sample_path("sg02-one-snapshot"), [kit.sample_path("port-taken"), solved])
    assert [one.name for one in found.found] == ["sg01-capture-hang", "port-taken"]
    assert found.found[0].solved and found.found[0].klass == "transport_hang"
    assert "(transport_hang): NCCL_P2P_DISABLE=1" in str(found)
    assert "(port_in_use), by its verdict" in str(found) and "no death seen" in str(found)


def test_loose_evidence_is_known_again_in_another_place(loose: Path, tmp_path: Path) -> None:
    kit.learn(loose, "gpu_fault", "another node", knowledge=tmp_path / "k")
    assert sorted(path.name for path in loose.iterdir()) == ["server.log"]
    moved = loose.rename(tmp_path / "moved")
    found = kit.similar(kit.sample_path("no-weights"), [moved], knowledge=tmp_path / "k").found[0]
    assert (found.klass, found.solved, found.remedy) == ("gpu_fault", True, "another node")
    (moved / "server.log").write_text(LOG + "one line more\n")
    assert not kit.similar(kit.sample_path("no-weights"), [moved], knowledge=tmp_path / "k").found[0].solved


def test_likeness_is_a_weighted_jaccard_index() -> None:
    one = {("phase", "weights"): 2.0, ("sign", "d_state"): 1.0, ("option", "eager"): 0.5}
    assert likeness(one, one) == 1.0
    assert likeness(one, {("phase", "ready"): 2.0}) == 0.0
    assert likeness(one, {("phase", "weights"): 2.0}) == pytest.approx(2 / 3.5)
    assert likeness({}, {}) == 0.0


def test_a_run_is_like_itself_and_less_like_others(opened: Callable[[str], Run]) -> None:
    case, other = open_case(opened("stopped-rank")), open_case(opened("healthy-tp2"))
    assert likeness(features(case), features(case)) == 1.0
    assert likeness(features(case), features(other)) < 0.6
    assert likeness(features(case), features(other)) == likeness(features(other), features(case))


def test_similar_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "empty").mkdir()
    paths = [str(kit.sample_path(name)) for name in ("no-weights", "sg01-capture-hang", "port-taken")]
    assert main(["similar", *paths, str(tmp_path / "empty"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in said["similar"]] == ["port-taken", "sg01-capture-hang"]
    assert "empty" in said["skipped"][0]
    assert main(["similar", *paths, "--most", "1"]) == 0
    printed = capsys.readouterr().out
    assert "port-taken" in printed and "sg01-capture-hang" not in printed and "only there" in printed


def test_similar_as_a_table(opened: Callable[[str], Run]) -> None:
    found = kit.similar(opened("pipe-ticker"), [opened("stopped-rank")])
    assert found.frame()["class"].tolist() == ["rank_straggler"]
    assert "(rank_straggler), by its verdict" in found._repr_html_()


def test_evidence_is_known_by_its_content(loose: Path) -> None:
    before = evidence_id(kit.open_run(loose))
    (loose / "server.log").rename(loose / "other.log")
    assert evidence_id(kit.open_run(loose)) == before


@pytest.mark.parametrize(
    ("text", "other", "fits"),
    [
        ("port 8000 in use", "port 30000 in use", True),
        ("cannot open /a/b.bin", "cannot open /c.bin", True),
        ("tcp://10.0.0.1:29500 (timeout 600.5 s)", "tcp://10.9.9.9:1 (timeout 3.25 s)", True),
        ("rank 3: bad (x+y) [z]", "rank 4: bad (x+y) [z]", True),
        ("port 8000 in use", "address in use", False),
        ("first line 1\nsecond", "first line 2\nthird", True),
    ],
)
def test_errors_are_made_general(text: str, other: str, fits: bool) -> None:
    assert bool(re.search(generalised(text), other)) == fits
