"""Files and functions stay short, so that each can be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "kit"
FILE_LINES, FUNCTION_LINES = 500, 60


def long_parts() -> dict[str, int]:
    """Modules and functions over their limits, with their lines; a docstring counts."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if text.count("\n") > FILE_LINES:
            found[name] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    found[f"{name}.{node.name}"] = lines
    return found


def test_files_and_functions_are_short(record_property) -> None:
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in PACKAGE.rglob("*.py"))
    record_property("kit_lines", lines)
    print(f"kit/ has {lines} lines")
    assert long_parts() == {}, "cut these"
