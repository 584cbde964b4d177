"""Texts made for a regular expression of its own parts: what goes round, many times, behind what must stand before it."""

from __future__ import annotations

import ast
import re
import re._constants as code
import re._parser as parser
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PALETTE = " a0A_-.:/,\"\\#=x\t([|'e1<&;@%{~\u00e9\u2588\n"
"""Characters to repeat: what logs have in rows, one of each class that patterns name."""
SINGLE = (code.LITERAL, code.NOT_LITERAL, code.ANY, code.IN)
MANY = 64
SCREENED, SOON_S = 1000, 0.004
"""A text of so many characters that is done within so much is not looked at: noise is more than a quadratic one takes then."""
LINEAR = 8
"""Four times the text takes four times as long where a pattern is linear, and 16 times where it is quadratic."""


def example(items: Any, groups: dict[int, str] | None = None) -> str:
    """A short text that a sequence may take."""
    groups = {} if groups is None else groups
    return "".join(_example(op, value, groups) for op, value in items)


def _example(op: Any, value: Any, groups: dict[int, str]) -> str:
    if op in SINGLE:
        return _sign(op, value)
    if op in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
        return example(value[2], groups) * value[0]
    if op is code.SUBPATTERN:
        groups[value[0]] = example(value[3], groups)
        return groups[value[0]]
    if op is code.ATOMIC_GROUP:
        return example(value, groups)
    if op is code.BRANCH:
        return example(value[1][0], groups)
    return groups.get(value, "") if op is code.GROUPREF else ""


def _sign(op: Any, value: Any) -> str:
    if op is code.LITERAL:
        return chr(value)
    takes = _takes(op, value)
    return next((one for one in "a0 -" + PALETTE if takes(one)), "") or next(
        (chr(number) for number in range(0x3000) if takes(chr(number))), ""
    )


def _takes(op: Any, value: Any) -> Any:
    """Whether a character is one that an item takes."""
    if op is code.LITERAL:
        return lambda one: ord(one) == value
    if op is code.NOT_LITERAL:
        return lambda one: ord(one) != value
    if op is code.ANY:
        return lambda one: one != "\n"
    parts = [part for part in value if part[0] is not code.NEGATE]
    negate = len(parts) < len(value)

    def takes(one: str) -> bool:
        return negate != any(_part(part, one) for part in parts)

    return takes


CLASSES = {
    code.CATEGORY_DIGIT: re.compile(r"\d"),
    code.CATEGORY_SPACE: re.compile(r"\s"),
    code.CATEGORY_WORD: re.compile(r"\w"),
    code.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    code.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    code.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


def _part(part: tuple, one: str) -> bool:
    op, value = part
    if op is code.LITERAL:
        return ord(one) == value
    if op is code.RANGE:
        return value[0] <= ord(one) <= value[1]
    return op is code.CATEGORY and CLASSES[value].match(one) is not None


def rounds(items: Any, before: str = "") -> Iterator[tuple[str, str, Any]]:
    """Each repetition that may go on: a text that stands before it, one round of it, and what it takes where that is one sign."""
    for op, value in items:
        if op in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
            least, most, body = value
            if most is code.MAXREPEAT or most > MANY:
                single = _takes(*body[0]) if len(body) == 1 and body[0][0] in SINGLE else None
                yield before, example(body), single
            yield from rounds(body, before)
        elif op is code.SUBPATTERN:
            yield from rounds(value[3], before)
        elif op is code.ATOMIC_GROUP:
            yield from rounds(value, before)
        elif op is code.BRANCH:
            for branch in value[1]:
                yield from rounds(branch, before)
        elif op in (code.ASSERT, code.ASSERT_NOT):
            yield from rounds(value[1], before)
        before += _example(op, value, {})


def units(pattern: str, flags: int) -> set[tuple[str, str]]:
    """Beginnings and what is repeated behind them."""
    tree = parser.parse(pattern, flags)
    found = list(rounds(tree))
    singles = [takes for _, _, takes in found if takes]
    whole = example(tree)
    made: set[tuple[str, str]] = set()
    for before, unit, takes in found:
        signs = [one for one in PALETTE if takes(one)] if takes else []
        signs = sorted(signs, key=lambda one: -sum(other(one) for other in singles))[:3]
        for one in dict.fromkeys([*signs, unit]):
            if one:
                made |= {("", one), (before, one), ("", before + one)}
    if whole and found:
        made |= {("", whole), ("", whole[:-1] or whole)}
    return made


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of the syntax tree of a file."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


METHODS = frozenset("match fullmatch search finditer findall sub subn split".split())


def used_with(package: Path) -> dict[str, set[str]]:
    """Methods by which each name of a pattern is called, as `kit.clock._TEXT: {match}`; `other` where it is handed on."""
    found: dict[str, set[str]] = defaultdict(set)
    same: dict[str, str] = {}
    for path in package.rglob("*.py"):
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        nodes = nodes_of(path)
        imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        same |= {f"{module}.{name}": target for name, target in imported.items()}
        attributes = {node.value: node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                name = imported.get(node.id, f"{module}.{node.id}")
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
                name = f"{imported[node.value.id]}.{node.attr}"
            else:
                continue
            method = attributes.get(node, "other")
            found[name].add(method if method in METHODS else "other")
    for name, target in same.items():
        found[name] |= found.get(target, set())
    return found


def grows(used: Callable[[str], object], head: str, unit: str) -> float:
    """By how much longer a text of four times the length takes; 0 where that is soon done. Endless where 20 rounds take long."""

    def cpu_s(count: int, times: int = 1) -> float:
        text = head + unit * max(count // len(unit), 1)
        taken = []
        for tail in ("\x01", "\n"):
            for _ in range(times):
                began = time.process_time()
                used(text + tail)
                taken.append(time.process_time() - began)
        return max(min(taken[:times]), min(taken[times:]))

    for rounds in (4, 6, 8, 11, 14):  # one that doubles with each round is told before it takes for ever
        if cpu_s(rounds * len(unit)) > 0.1:
            return float("inf")
    if cpu_s(14 * len(unit)) > 0.01 and cpu_s(20 * len(unit), 2) > 0.01:
        return float("inf")
    for count, soon_s in ((150, 3 * SOON_S), (SCREENED, SOON_S)):
        if cpu_s(count) < soon_s or cpu_s(count, 3) < soon_s:
            if count == SCREENED:
                return 0.0
        elif count < SCREENED:
            return float("inf")
    growth = 0.0
    for short in (SCREENED // 2, SCREENED):  # a repetition of some hundreds is bounded by the second
        growth = cpu_s(4 * short, 2) / cpu_s(short, 3)
        if growth < LINEAR:
            break
    return growth


def worst(pattern: str, flags: int, methods: set[str]) -> tuple[float, str, str]:
    """The greatest growth of a pattern, and what it is on; `match` begins at the begin, all others anywhere."""
    compiled, found = re.compile(pattern, flags), (0.0, "", "")
    for method in ("match", "search"):
        if methods - {"match", "fullmatch"} if method == "search" else methods & {"match", "fullmatch"}:
            for head, unit in sorted(units(pattern, flags)):
                found = max(found, (grows(getattr(compiled, method), head, unit), head, unit))
                if found[0] > LINEAR:
                    return found
    return found
