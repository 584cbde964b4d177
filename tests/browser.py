"""Waiting in a page of the browser."""

from __future__ import annotations


def until(tab, holds: str) -> None:
    """Wait until an expression of JavaScript holds.

    Playwright's own `wait_for_function` evaluates a text at each look; a page whose policy allows its own scripts only refuses
    all but the first.
    """
    tab.evaluate(f"() => new Promise((go) => {{ const look = () => (({holds}) ? go() : setTimeout(look, 20)); look(); }})")
