"""Notebooks: short, without outputs and definitions, and they run."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kit.render.notebook import execute

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_CELLS, MOST_LINES = 25, 15


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def notebook(request):
    found = nbformat.read(request.param, as_version=4)
    nbformat.validate(found)
    return found


def code(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_first_two_are_there():
    assert [path.name for path in NOTEBOOKS][:2] == ["00_start_here.ipynb", "01_postmortem.ipynb"]


def test_nothing_of_a_run_is_kept(notebook):
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code(notebook))
    assert "widgets" not in notebook.metadata


def test_cells_are_few_and_short(notebook):
    assert len(notebook.cells) <= MOST_CELLS
    assert max(len(cell.source.splitlines()) for cell in code(notebook)) <= MOST_LINES


def test_nothing_is_defined(notebook):
    tree = ast.parse("\n".join(cell.source for cell in code(notebook)))
    assert not [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.AsyncFunctionDef))
    ]


def test_paths_are_relative(notebook):
    tree = ast.parse("\n".join(cell.source for cell in code(notebook)))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert not [text for text in texts if text.startswith(("/", "~", "C:"))]


def test_postmortem_takes_parameters():
    cell = nbformat.read(FOLDER / "01_postmortem.ipynb", as_version=4).cells[1]
    assert cell.metadata["tags"] == ["parameters"]
    assert {target.id for node in ast.parse(cell.source).body if isinstance(node, ast.Assign) for target in node.targets} == {
        "run_path",
        "captured_at",
        "knowledge",
        "at",
        "against",
    }


def test_all_run_from_any_folder(tmp_path):
    """One kernel runs them, emptied before each: seven kernels that load the kit would take half of the time."""
    notebooks = {path.name: nbformat.read(path, as_version=4) for path in NOTEBOOKS}
    cells = [cell for notebook in notebooks.values() for cell in (new_code_cell("%reset -f"), *notebook.cells)]
    for number, cell in enumerate(cells):
        cell.id = str(number)  # those of two notebooks are alike
    assert execute(new_notebook(cells=cells), tmp_path) == []
    shown = [(name, output) for name, notebook in notebooks.items() for cell in code(notebook) for output in cell.outputs]
    assert {name for name, _ in shown} == set(notebooks)
    assert [(name, out.text) for name, out in shown if out.output_type == "stream" and out.name == "stderr"] == []
    live = [(name, out.data) for name, out in shown if "application/vnd.jupyter.widget-view+json" in out.get("data", {})]
    assert live and [name for name, data in live if "text/html" not in data] == [], "a widget has no static form"
