"""When the compiled passes are taken: never where compiling takes longer than what it saves."""

from __future__ import annotations

import pytest

from kit import compiled

MIB = 1 << 20


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
