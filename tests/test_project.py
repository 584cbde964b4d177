"""The project's own files agree: pyproject.toml, environment.yml, requirements.lock, CONTRIBUTING.md, README.md."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EVIDENCE = ("data/", "tests/data/")
"""Folders whose files are what a server or the kernel printed: these may hold a path of their machine."""
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:" + "|".join(("work/", "root/")) + r")[\w.]")
"""Where work is done on machines that nobody else has; /home/… stays free for examples."""


def declared(extras: bool = True) -> dict[str, Requirement]:
    lines = list(PROJECT["project"]["dependencies"])
    if extras:
        lines += [line for group in PROJECT["project"]["optional-dependencies"].values() for line in group]
    return {canonicalize_name(entry.name): entry for entry in map(Requirement, lines)}


def build_backend() -> dict[str, Requirement]:
    return {canonicalize_name(entry.name): entry for entry in map(Requirement, PROJECT["build-system"]["requires"])}


def locked() -> dict[str, tuple[str, list[str]]]:
    """Version and hashes by package."""
    found = {}
    for block in re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip()):
        name, version = re.match(r"([\w.-]+)==([^\s;\\]+)", block).groups()
        found[canonicalize_name(name)] = version, re.findall(r"--hash=sha256:([0-9a-f]{64})\b", block)
    return found


def project_files() -> list[Path]:
    """Files in git, and those that could be added; without git (an unpacked archive) there is nothing to look at."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_environment_equals_pyproject():
    lines = (ROOT / "environment.yml").read_text().splitlines()
    packages = [line.strip()[2:] for line in lines if re.match(r"  (    )?- \S", line) and not line.strip().endswith(":")]
    assert "conda-forge" in packages
    assert "python=3.12" in packages
    assert "      - -e ." in lines
    entries = [Requirement(line) for line in packages if line not in ("conda-forge", "python=3.12", "pip", "-e .")]
    assert {canonicalize_name(entry.name): entry.specifier for entry in entries} == {
        name: entry.specifier for name, entry in declared().items()
    }
    assert "3.12" in Requirement(f"python{PROJECT['project']['requires-python']}").specifier


def test_every_dependency_has_bounds():
    for name, entry in (declared() | build_backend()).items():
        assert any(part.operator == ">=" for part in entry.specifier), f"{name} has no lower bound"


def test_lock_pins_all_dependencies_with_hashes():
    pins = locked()
    for name, entry in (declared() | build_backend()).items():
        assert name in pins, f"{name} is not in requirements.lock: make lock"
        assert entry.specifier.contains(pins[name][0]), f"{name} {pins[name][0]} is outside {entry.specifier}: make lock"
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []


def test_lock_is_closed():
    """All that the locked packages need on this Python is locked too (pip would refuse it, but only on a new machine)."""
    pins = locked()
    missing = set()
    for name in pins:
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # of another platform or Python
        for entry in map(Requirement, needed):
            if (entry.marker is None or entry.marker.evaluate({"extra": ""})) and canonicalize_name(entry.name) not in pins:
                missing.add(f"{entry.name}, for {name}")
    assert missing == set()


def test_lock_holds_no_address():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    allowed = re.compile(r"[a-z0-9._-]+==\S+(?: ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}(?: \\)?")
    assert [line for line in lines if not allowed.fullmatch(line)] == []
    assert not re.search(r"https?:|file:|--index|--extra-index|--find-links|@ ", "\n".join(lines))


def test_every_dependency_is_explained():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("## Dependencies") : text.index("## Rules of the house")]
    for name in [*declared(), *build_backend()]:
        row = re.search(rf"^\|[^\n]*`{re.escape(name)}` \| (\S[^|\n]+)\|", section, re.MULTILINE)
        assert row, f"CONTRIBUTING.md gives no reason for {name}"
    words = set(re.findall(r"[a-z0-9][a-z0-9.-]*", section))
    assert sorted(set(locked()) - words) == [], "CONTRIBUTING.md does not say what brings these"


def test_imports_are_declared():
    """What kit imports is declared, and what is declared for running is used or is a program (JupyterLab, its kernel)."""
    modules = {name: canonicalize_name(owner[0]) for name, owner in metadata.packages_distributions().items()}
    used = set()
    for path in (ROOT / "kit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                used |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                used.add(node.module.split(".")[0])
    foreign = used - set(sys.stdlib_module_names) - {"kit"}
    undeclared = {name for name in foreign if modules.get(name, name) not in declared()}
    assert undeclared == set()


def test_no_file_names_a_machine_path():
    found = []
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(EVIDENCE) or (content := path.read_bytes()).find(b"\0") >= 0:
            continue
        found += [
            f"{name}:{number}: {line.strip()[:100]}"
            for number, line in enumerate(content.decode(errors="replace").splitlines(), 1)
            if MACHINE_PATHS.search(line)
        ]
    assert found == []


def test_machine_paths_are_told():
    assert MACHINE_PATHS.search("see /" + "work/models")
    assert MACHINE_PATHS.search("/" + "root/.cache")
    assert not MACHINE_PATHS.search("kit/work/x, /proc/7/root/etc, ~/work/x")


def test_nothing_names_the_folder_of_this_checkout():
    if len(ROOT.parts) < 3:
        pytest.skip("the checkout lies at the top of the file system: its path is too short to look for")
    needle = os.fsencode(ROOT)
    assert [path.name for path in project_files() if needle in path.read_bytes()] == []


def test_set_up_says_in_one_sentence_what_is_missing(tmp_path, root):
    """No Python at all, an old one, one without venv: each a stand-in that answers as such an interpreter does."""
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\ncase "$2" in *version_info*) exit 1;; *platform*) echo 3.9.2;; esac\n')
    bare = tmp_path / "python3.12"
    bare.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac\n')
    for path in (old, bare):
        path.chmod(0o755)
    for python, words in (
        (tmp_path / "none", ["none of these runs", "install python3"]),
        (old, ["Python 3.11 or later is needed", "is 3.9.2"]),
        (bare, ["has no venv module", "apt install python3.12-venv"]),
    ):
        done = subprocess.run(
            ["sh", root / "tools/setup.sh"],
            env={**os.environ, "PYTHON": str(python)},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert all(word in done.stderr for word in words), done.stderr


def test_readme_shows_the_two_commands_first():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:24])
    assert "make demo" in first_screen
    assert "make test" in first_screen
    assert "<!-- verdict -->" in first_screen


def test_make_targets_exist():
    text = (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "lab", "lint", "lock", "clean"):
        assert re.search(rf"^{target}:", text, re.MULTILINE), target


@pytest.mark.parametrize(
    "command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=["lint", "format", "types"]
)
def test_checker(command):
    """`make lint` mends what it can."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
