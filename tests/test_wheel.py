"""The wheel, installed in a clean environment: its samples, notebooks and knowledge open from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import kit
from kit.parse import grammar
from kit.samples import sample_names

ASK = """
import json, sys, kit
from kit.parse import grammar
from kit.render.notebook import notebook_path
from kit.samples import sample_names
print(json.dumps({
    "package": kit.__file__,
    "samples": sample_names(),
    "sample": str(kit.sample_path("sg01-capture-hang")),
    "classes": [kit.verdict(kit.sample(name)).klass for name in ("sg01-capture-hang", "port-taken")],
    "notebooks": [str(notebook_path(name)) for name in sys.argv[1:]],
    "grammars": sorted(entry.name for entry in grammar.load().all),
}))
"""


@pytest.fixture(scope="module")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an environment that holds the wheel; dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    check = {"check": True, "capture_output": True, "text": True}
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=root, **check)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], **check)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment / "bin" / "python"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--no-compile", "--quiet", wheel], **check)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment


def run(environment: Path, home: Path, *command: object) -> str:
    """Output of a program of the environment, started elsewhere by somebody with an empty home."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KIT_", "XDG_"))}
    done = subprocess.run(
        [environment / "bin" / str(command[0]), *command[1:]],
        cwd=home,
        env={**environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_samples_notebooks_and_knowledge_open(installed: Path, root: Path, tmp_path: Path) -> None:
    notebooks = sorted(path.name for path in (root / "notebooks").glob("*.ipynb"))
    found = json.loads(run(installed, tmp_path, "python", "-c", ASK, *notebooks))
    assert all(Path(path).is_relative_to(installed) for path in (found["package"], found["sample"], *found["notebooks"]))
    assert found["samples"] == sample_names()
    assert found["classes"] == ["device_hang", "port_in_use"]
    assert found["grammars"] == sorted(entry.name for entry in grammar.load().all)
    shipped = {path.relative_to(Path(found["package"]).parent) for path in Path(found["package"]).parent.rglob("*.toml")}
    assert {path.relative_to(root / "kit") for path in (root / "kit").rglob("*.toml")} <= shipped


def test_commands_run(installed: Path, tmp_path: Path) -> None:
    sample = next(installed.glob("lib/python*/site-packages/kit/data/sg01-capture-hang"))
    assert "device_hang" in run(installed, tmp_path, "kit", "verdict", sample)
    assert kit.__version__ in run(installed, tmp_path, "kit", "--version")
    assert "The kit works here" in run(installed, tmp_path, "kit", "doctor")
