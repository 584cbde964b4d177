"""Registry of the rules. A rule is a small function that gives one sign, or a few that exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kit.analyse.verdict.scene import Scene, Sign


@dataclass(frozen=True)
class Rule:
    """One rule."""

    look: Callable[[Scene], Iterable[Sign] | None]  # takes a `Scene`, yields `Sign` objects
    codes: tuple[str, ...]  # codes of the signs that it may give; each has a weight in `kit/knowledge/classes.toml`
    needs: tuple[str, ...]  # frames without which it has nothing to say; `sockets|probes` where either is enough
    moving: frozenset[str]  # those of its codes that show that something advances, which a silent log does not refute

    def signs(self, scene: Scene) -> Iterable[Sign]:
        """The signs that hold; none where what it needs is missing."""
        if not all(scene.has(frame) for frame in self.needs):
            return
        for sign in self.look(scene) or ():
            if sign.code not in self.codes:
                raise ValueError(f"rule {self.look.__name__} gave the sign {sign.code!r}, which it does not declare")
            yield sign


RULES: list[Rule] = []
"""All rules, in the order in which they look."""


def rule(*codes: str, needs: tuple[str, ...] = (), moving: bool | tuple[str, ...] = False) -> Callable:
    """Register a function as the rule for some signs; `moving` names those that show movement, True all of them."""

    def register(look: Callable[[Scene], Iterable[Sign] | None]) -> Callable:
        shows_movement = codes if moving is True else moving or ()
        RULES.append(Rule(look=look, codes=codes, needs=needs, moving=frozenset(shows_movement)))
        return look

    return register


def moving_codes() -> frozenset[str]:
    """Codes of the signs that show that something advances."""
    return frozenset(code for entry in RULES for code in entry.moving)


def all_signs(scene: Scene) -> dict[str, Sign]:
    """All signs that hold, by code; of two rules for one sign the first decides."""
    signs: dict[str, Sign] = {}
    for entry in RULES:
        for sign in entry.signs(scene):
            signs.setdefault(sign.code, sign)
    return signs
