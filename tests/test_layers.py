"""Imports go one way, and `import kit` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "kit"
ALLOWED = {
    "capture": {"capture"},
    "parse": {"parse"},
    "analyse": {"analyse", "parse"},
    "plot": {"plot", "analyse", "parse"},
    "show": {"show", "plot", "analyse", "parse"},
    "render": {"render", "show", "plot", "analyse", "parse"},
    "live": {"live", "capture", "analyse", "parse", "plot", "show", "render"},
}
"""Packages that each may import. Modules beside them (schema, frames, clock, run, …) are the base and checked below."""
BASE = {"errors", "words", "schema", "frames", "clock", "store", "redact", "tomlfile", "knowledge_paths"}
HEAVY = ("pandas", "numpy", "matplotlib", "paramiko", "ipywidgets", "pyarrow")


def imported(path: Path) -> set[str]:
    """Modules of kit that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "kit":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("kit.")}
    return found


def test_packages_import_left_to_right_only() -> None:
    wrong = [
        (str(path.relative_to(PACKAGE)), name)
        for folder, allowed in ALLOWED.items()
        for path in (PACKAGE / folder).rglob("*.py")
        for name in imported(path)
        if name in ALLOWED and name not in allowed
    ]
    assert not wrong


def test_base_modules_know_no_package() -> None:
    files = [*(PACKAGE / f"{name}.py" for name in BASE), *(PACKAGE / "document").glob("*.py")]
    wrong = [(str(path), other) for path in files for other in imported(path) if other in ALLOWED]
    assert not wrong


def test_parsers_know_no_run() -> None:
    wrong = [str(path) for path in (PACKAGE / "parse").rglob("*.py") if imported(path) & {"run", "store", "samples", "cli"}]
    assert not wrong


def test_import_is_light() -> None:
    code = f"import sys, kit; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_verdict_needs_no_pandas(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n")
    code = f"import sys, kit; kit.verdict(sys.argv[1]); print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
