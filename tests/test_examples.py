"""Examples of docstrings: each shows what it says. `pytest --doctest-modules kit/run.py` runs those of one module."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "kit").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
"""They are imported by their test, not when tests are collected: each worker would import the whole kit, and look through it."""


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    """They stand under their heading, as numpydoc wants it, wherever a function is public."""
    wrong: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for example in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module)):
        if example.examples and "Examples\n" not in example.docstring and not example.name.rpartition(".")[2].startswith("_"):
            wrong.append(f"{example.name}: no heading above its example\n")
        runner.run(example, out=wrong.append)
    assert runner.tries and not wrong, "".join(wrong)
