"""When the compiled passes are taken: never where compiling takes longer than what it saves."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from kit import compiled

MIB = 1 << 20
ROOT = Path(compiled.__file__).parent.parent


@pytest.mark.parametrize("kind", ["log", "strace"])
def test_nobody_waits_for_the_compiler_over_a_small_file(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "find_spec", lambda name: name)
    monkeypatch.setattr(compiled, "_kept", lambda *sources: False)
    assert [compiled.pays(kind, size * MIB) for size in (1, 20, 200)] == [False, False, True]
    monkeypatch.setattr(compiled, "_kept", lambda *sources: True)
    assert [compiled.pays(kind, size * MIB) for size in (1, 20, 200)] == [False, True, True]
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    assert not compiled.pays(kind, 200 * MIB)


def test_what_was_compiled_is_found_again_until_a_source_changes(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    source = tmp_path / "adds_compiled.py"
    source.write_text("from kit.compiled import keeping\n\n\n@keeping(__file__)\ndef add(a, b):\n    return a + b\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert not compiled._kept(str(source))
    from adds_compiled import add

    assert add(2, 3) == 5 and compiled._kept(str(source))
    compiled._version.cache_clear()
    source.write_text(source.read_text().replace("a + b", "b + a"))
    assert not compiled._kept(str(source))


def test_setup_compiles_every_function_that_is_kept() -> None:
    """Else somebody's first large capture waits for the compiler: seconds for each."""
    pytest.importorskip("numba")
    kept = [
        (".".join(path.relative_to(ROOT).with_suffix("").parts), function.name)
        for path in (ROOT / "kit").rglob("*.py")
        if "@compiled" in (text := path.read_text())
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef) and any(ast.unparse(one) == "compiled" for one in function.decorator_list)
    ]
    code = f"from tools import warm; warm.main(); from importlib import import_module; found = {kept}\n"
    code += "print([name for module, name in found if not getattr(import_module(module), name).signatures])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert len(kept) > 20 and (done.stdout, done.stderr) == ("[]\n", "")
