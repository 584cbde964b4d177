"""Imports go one way, and `import kit` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "kit"
ALLOWED = {
    "capture": {"capture"},
    "intake": {"intake"},
    "parse": {"parse", "intake"},
    "analyse": {"analyse", "intake", "parse"},
    "plot": {"plot", "intake", "analyse", "parse"},
    "show": {"show", "intake", "plot", "analyse", "parse"},
    "render": {"render", "intake", "show", "plot", "analyse", "parse"},
    "live": {"live", "capture", "intake", "analyse", "parse", "plot", "show", "render"},
    "cli": {"cli", "live", "render", "show", "plot", "analyse", "parse", "intake", "capture"},
}
"""Packages that each may import. Modules beside them (schema, frames, clock, run, …) are the base and checked below."""
BASE = {
    "errors",
    "untrusted",
    "words",
    "schema",
    "frames",
    "clock",
    "store",
    "mapped",
    "redact",
    "tomlfile",
    "knowledge_paths",
    "tool_table",
}
BASE_PACKAGES = {"document", "knowledge"}
"""Packages that any other may import."""
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


def test_every_package_has_its_place() -> None:
    packages = {path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE}
    assert packages <= set(ALLOWED) | BASE_PACKAGES


def test_base_modules_know_no_package() -> None:
    files = [PACKAGE / f"{name}.py" for name in BASE]
    files += [path for name in BASE_PACKAGES for path in (PACKAGE / name).glob("*.py")]
    wrong = [(str(path), other) for path in files for other in imported(path) if other in ALLOWED]
    assert not wrong


def test_parsers_know_no_run() -> None:
    wrong = [str(path) for path in (PACKAGE / "parse").rglob("*.py") if imported(path) & {"run", "store", "samples", "cli"}]
    assert not wrong


CIRCLES = {"kit.document"}
"""Modules where a circle is known: a document renders itself (`str`, `_repr_html_`), and its renderers know its parts."""


def imports_of(name: str, modules: dict[str, Path]) -> set[str]:
    """Modules of kit that a module imports, late imports too; what only a type checker sees is none."""
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(modules[name].read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found |= {whole if whole in modules else node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        todo += ast.iter_child_nodes(node)
    return found & set(modules)


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    graph = {name: imports_of(name, modules) for name in modules}
    try:
        TopologicalSorter({name: others - CIRCLES for name, others in graph.items()}).prepare()
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def test_import_is_light() -> None:
    code = f"import sys, kit; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_verdict_needs_no_pandas(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n")
    code = f"import sys, kit; kit.verdict(sys.argv[1]); print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
