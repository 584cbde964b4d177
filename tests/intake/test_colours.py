"""Colours are taken off by a compiled pass as `re` takes them off."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.intake import colours_compiled, terminal
from kit.parse.log_fast import _COLOUR

SIGNS = st.text(st.sampled_from("\x1b\x1b[[0;3?mKa\n\x08:9z@{`A "), max_size=40).map(str.encode)


@settings(deadline=None)  # the first call compiles
@given(SIGNS)
def test_colours_go_and_all_else_stays(block: bytes) -> None:
    assert colours_compiled.bare(block) == _COLOUR.sub(b"", block)


@settings(deadline=None)  # the first call compiles
@given(SIGNS)
def test_more_than_colours_is_seen(block: bytes) -> None:
    assert colours_compiled.steers(block) == terminal.needs_cleaning(block)
