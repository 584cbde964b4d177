"""Knowledge of the user's own: folders named by --knowledge or KIT_KNOWLEDGE, and what is said of mistakes in them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import kit
from kit import knowledge_paths, store
from kit.cli import main
from kit.errors import UsageError
from kit.tomlfile import TomlFile

GRAMMAR = """
name = "acme"
role = "server"
detect = ['^ACME/\\d']

[[milestone]]
code = "args"
phase = "launch"
start = true
find = "ACME/"

[[milestone]]
code = "weights_begin"
phase = "weights"
find = "pulling tensors"

[[milestone]]
code = "lock_wait"
kind = "symptom"
find = "tensor cache is taken"
"""
SIGNATURE = """
[[signature]]
name = "acme-cache"
what = "another launch holds the tensor cache"
do = "give each launch a cache of its own"
[signature.when]
server = '^acme$'
log = 'tensor cache is taken'
"""
LOG = "ACME/2 begins\npulling tensors from disk\ntensor cache is taken, trying again\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "knowledge"
    (found / "logs").mkdir(parents=True)
    (found / "logs" / "acme.toml").write_text(GRAMMAR)
    (found / "signatures.toml").write_text(SIGNATURE)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "output.txt").write_text(LOG)
    return tmp_path / "run"


def test_a_server_and_a_signature_need_no_python(folder: Path, run: Path) -> None:
    found = kit.verdict(run, knowledge=folder)
    assert found.phase == "weights"
    assert found.remedy["name"] == "acme-cache"
    assert found.remedy["matched"] == {"server": "acme", "log": "tensor cache is taken, trying again"}
    assert set(kit.open_run(run, knowledge=[folder]).frame("log")["server"]) == {"acme"}
    assert kit.verdict(run).klass == "undetermined", "without the grammar nothing tells what its lines mean"


def test_the_command_line_takes_the_folder_and_leaves_no_trace(
    folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(knowledge_paths.VARIABLE, raising=False)
    (tmp_path / "empty").mkdir()
    assert main(["verdict", "--json", str(run), "--knowledge", str(tmp_path / "empty"), "--knowledge", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["remedy"]["name"] == "acme-cache"
    assert knowledge_paths.VARIABLE not in os.environ
    assert main(["export", str(run), "log", "-o", str(tmp_path / "log.csv"), "--knowledge", str(folder)]) == 0
    assert "weights_begin" in (tmp_path / "log.csv").read_text()


def test_the_environment_names_several_folders(folder: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "ours.toml").write_text(SIGNATURE.replace("acme-cache", "goes-before"))
    monkeypatch.setenv(knowledge_paths.VARIABLE, os.pathsep.join([str(first), str(folder)]))
    found = kit.verdict(run)
    assert [known["name"] for known in found.remedies][:2] == ["goes-before", "acme-cache"]
    given = kit.verdict(run, knowledge=folder)  # what is given goes before the environment, each folder once
    assert [known["name"] for known in given.remedies][:2] == ["acme-cache", "goes-before"]


def test_grammars_may_lie_beside_signatures(folder: Path, run: Path) -> None:
    (folder / "logs" / "acme.toml").rename(folder / "acme.toml")
    assert kit.verdict(run, knowledge=folder).remedy["name"] == "acme-cache"


def test_a_known_server_is_extended_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text(
        'name = "sglang"\nrole = "server"\n[[milestone]]\ncode = "kv_cache"\nphase = "post_load"\nfind = "our own pool is up"\n'
    )
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n[2026-02-18 00:29:26 TP0] our own pool is up\n"
    )
    assert kit.verdict(log).phase == "weights"
    assert kit.verdict(log, knowledge=tmp_path).phase == "post_load"


@pytest.mark.parametrize(
    ("file", "text", "line", "key"),
    [
        ("signatures.toml", '[[signature]]\nname = "a"\nwhat = "b"\n', 1, "do"),
        ("signatures.toml", SIGNATURE + "phse = 'x'\n", 9, "phse"),
        ("signatures.toml", SIGNATURE + SIGNATURE.replace("server = '^acme$'", "class = '^devicehang$'"), 15, "class"),
        ("signatures.toml", SIGNATURE + "version = 'five'\n", 9, "version"),
        ("signatures.toml", SIGNATURE + "frame = '('\n", 9, "frame"),
        ("signatures.toml", SIGNATURE.replace("do =", 'fixd = "1"\ndo ='), 5, "fixd"),
        ("signatures.toml", SIGNATURE + "frame = \n", 9, "frame"),
        ("logs/acme.toml", GRAMMAR.replace('"weights"', '"wheights"'), 14, "phase"),
        ("logs/acme.toml", GRAMMAR.replace('role = "server"', 'role = "boss"'), 3, "role"),
    ],
)
def test_a_mistake_is_shown_with_file_line_and_key(
    folder: Path, run: Path, capsys: pytest.CaptureFixture, file: str, text: str, line: int, key: str
) -> None:
    (folder / file).write_text(text)
    assert main(["verdict", str(run), str(run), "--knowledge", str(folder)]) == 2
    said = capsys.readouterr().err
    assert f"{folder / file}, line {line}, key {key!r}" in said
    assert said.count("line") >= 1 and "Traceback" not in said


def test_a_folder_that_is_not_there(run: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["verdict", str(run), "--knowledge", "nowhere"]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_a_changed_file_is_read_anew(folder: Path, run: Path) -> None:
    assert kit.verdict(run, knowledge=folder).phase == "weights"
    file = folder / "logs" / "acme.toml"
    file.write_text(GRAMMAR.replace('phase = "weights"', 'phase = "post_load"'))
    assert kit.verdict(run, knowledge=folder).phase == "post_load"


def test_cached_frames_follow_the_knowledge(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 1)
    log = tmp_path / "server.log"
    log.write_text(LOG)
    assert "weights_begin" not in set(kit.open_run(log).frame("log")["milestone"])
    assert "weights_begin" in set(kit.open_run(log, knowledge=folder).frame("log")["milestone"])
    file = folder / "logs" / "acme.toml"
    file.write_text(GRAMMAR.replace('"weights_begin"', '"weights_end"'))
    assert "weights_end" in set(kit.open_run(log, knowledge=folder).frame("log")["milestone"])


def test_a_file_that_is_no_text(folder: Path, run: Path) -> None:
    (folder / "signatures.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        kit.verdict(run, knowledge=folder)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("logs/acme.toml", GRAMMAR.replace('phase = "weights"', 'phase = "wieghts"'), "did you mean 'weights'?"),
        ("logs/acme.toml", GRAMMAR.replace("find =", "fnd =", 1), "did you mean 'find'?"),
        ("signatures.toml", SIGNATURE.replace("what =", "waht ="), "did you mean 'what'?"),
    ],
)
def test_a_mistake_names_the_nearest_right_word(
    folder: Path, run: Path, capsys: pytest.CaptureFixture, file: str, text: str, said: str
) -> None:
    (folder / file).write_text(text)
    assert main(["verdict", str(run), "--knowledge", str(folder)]) == 2
    assert said in capsys.readouterr().err


def test_every_kind_of_knowledge_is_told_by_name_or_by_table(tmp_path: Path) -> None:
    (tmp_path / "classes.toml").write_text("# none yet\n")
    (tmp_path / "mine.toml").write_text('role = "server"\n[[milestone]]\n[[category]]\nname = "ours"\n')
    (tmp_path / "odd.toml").write_text('nmae = "x"\n')
    assert [path.name for path in knowledge_paths.files("classes", [tmp_path])] == ["classes.toml"] * 2
    assert [path.name for path in knowledge_paths.files("stacks", [tmp_path])] == ["mine.toml", "stacks.toml"]
    assert [path.name for path in knowledge_paths.files("logs", [tmp_path])][:2] == ["mine.toml", "odd.toml"]


def test_a_user_entry_stands_for_the_packaged_one_of_its_name(tmp_path: Path) -> None:
    packaged, own = tmp_path / "packaged.toml", tmp_path / "own.toml"
    packaged.write_text('[[class]]\nname = "a"\n[[class]]\nname = "b"\n[[class]]\nname = "c"\n')
    own.write_text('[[class]]\nname = "b"\nmeaning = "ours"\n[[class]]\nname = "new"\n')
    found = knowledge_paths.entries([TomlFile(own, "classes"), TomlFile(packaged, "classes")], "class")
    assert [(table.text("name"), table.text("meaning")) for table in found] == [
        ("new", None),
        ("a", None),
        ("b", "ours"),
        ("c", None),
    ]
