"""Loose files were not scrubbed when they were captured: what is exported or said of them is."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.cli import main
from kit.errors import KitError

SECRETS = {
    "hf": "hf_PlantedTokenAbCdEf0123456789",
    "openai": "sk-planted0123456789ABCDEFGHIJ",
    "url": "plantedurlpass77",
    "flag": "plantedflagvalue77",
    "environ": "plantedvalueinenviron",
}


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    folder = tmp_path / "loose"
    folder.mkdir()
    line = "INFO 02-18 02:11:52 [core.py:58] "
    (folder / "server.log").write_text(
        f"{line}vllm serve m --api-key {SECRETS['flag']} HF_TOKEN={SECRETS['hf']}\n"
        f"ERROR 02-18 02:11:53 [core.py:59] RuntimeError: http://ada:{SECRETS['url']}@h/ refused "
        f"OPENAI_API_KEY={SECRETS['openai']}\n"
    )
    (folder / "cmdline").write_bytes(f"vllm\0serve\0m\0--api-key\0{SECRETS['flag']}\0".encode())
    (folder / "environ").write_bytes(f"HF_TOKEN={SECRETS['environ']}\0NCCL_DEBUG=INFO\0".encode())
    return folder


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_no_secret_is_exported(loose: Path, tmp_path: Path, ending: str) -> None:
    import pandas as pd

    out = tmp_path / f"out.{ending}"
    for frame in kit.open_run(loose).frames()["frame"]:
        assert main(["export", str(loose), frame, "-o", str(out)]) == 0
        written = pd.read_parquet(out).to_csv() if ending == "parquet" else out.read_text()
        assert not [name for name, secret in SECRETS.items() if secret in written], frame
    assert main(["export", str(loose), "log", "-o", str(out)]) == 0
    kept = pd.read_parquet(out).to_csv() if ending == "parquet" else out.read_text()
    assert "--api-key" in kept and "[redacted]" in kept and "refused" in kept


def test_no_secret_is_said(loose: Path, capsys: pytest.CaptureFixture) -> None:
    for more in ([], ["--json"], ["--markdown"], ["--brief"]):
        assert main(["verdict", str(loose), *more]) == 0
        said = capsys.readouterr()
        assert not [name for name, secret in SECRETS.items() if secret in said.out + said.err], more


def test_no_secret_is_in_an_error(tmp_path: Path) -> None:
    with pytest.raises(KitError) as raised:
        kit.collect("local", out=tmp_path / "run", pid=1, log=f"/srv/x?token={SECRETS['hf']}/none", name=None, duration_s=-1)
    assert SECRETS["hf"] not in str(raised.value)
