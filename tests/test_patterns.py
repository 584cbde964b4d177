"""No regular expression of the kit goes back and forth: each is parsed, and repetitions that may take the same text are found.

Two kinds are looked for, as static checkers of regular expressions do. A repetition within a repetition, where the outer one may
go round by what the inner one takes, takes exponential time. Two repetitions one after the other that take the same character,
with nothing between them that must be there and is another, take quadratic time, of three cubic. None may take exponential time;
the others are counted here, and what they cost is measured by whole readers (`tests/parse/test_linear.py`, on lines of 8 kB).
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import pkgutil
import re
import re._constants as code
import re._parser as parser
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import kit
from tests.pattern_attacks import LINEAR, nodes_of, used_with, worst

PACKAGE = Path(kit.__file__).parent
MEASURED = Path(__file__).parent / "data" / "measured_patterns.txt"
"""Files of the kit, each with a digest of its patterns, all of which `python -m tools.measure_patterns` found to be linear."""

BOUNDED = {"kit.intake.prose._PRINTED": "used on the first 400 characters of a line"}
"""Patterns that are worse than linear, and why none gets a long text."""
USED = {"benchmarks.toml": {"fullmatch"}, "options.toml": {"fullmatch"}, "wrappings.toml": {"match"}, "sections.toml": {"match"}}
"""What the patterns of a file of knowledge are used by: on names, on rows, at the begin of a line."""
AT_BEGIN = frozenset(("prefix", "certain"))
"""Keys of grammars of logs whose patterns are used at the begin of a line alone."""
MANY = 64
"""A repetition of fewer is bounded: lines are, and so is what it may cost."""
OTHER_WORD, OTHER_SIGN = 1 << 128, 1 << 129
OTHERS = OTHER_WORD | OTHER_SIGN
EVERY = (1 << 130) - 1
"""A set of characters: a bit for each of ASCII, one for all other letters and digits, one for all other signs."""
CATEGORIES = {
    code.CATEGORY_DIGIT: "0123456789",
    code.CATEGORY_SPACE: " \t\n\r\f\v\x1c\x1d\x1e\x1f",
    code.CATEGORY_WORD: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
}
NEGATED = {
    code.CATEGORY_NOT_DIGIT: code.CATEGORY_DIGIT,
    code.CATEGORY_NOT_SPACE: code.CATEGORY_SPACE,
    code.CATEGORY_NOT_WORD: code.CATEGORY_WORD,
}


def bit(number: int, flags: int) -> int:
    if number > 127:
        return OTHER_WORD if chr(number).isalnum() else OTHER_SIGN
    both = {number, ord(chr(number).swapcase())} if flags & re.IGNORECASE and chr(number).isalpha() else {number}
    return sum(1 << one for one in both)


def of_class(items: list, flags: int) -> int:
    found, negate = 0, False
    for op, value in items:
        if op is code.NEGATE:
            negate = True
        elif op is code.LITERAL:
            found |= bit(value, flags)
        elif op is code.RANGE:
            for number in range(value[0], min(value[1], 128) + 1):
                found |= bit(number, flags)
            found |= OTHERS if value[1] > 127 else 0
        elif op is code.CATEGORY and value in NEGATED:
            found |= EVERY & ~of_category(NEGATED[value])
        elif op is code.CATEGORY:
            found |= of_category(value)
    return EVERY & ~found if negate else found


def of_category(value: Any) -> int:
    found = sum(1 << ord(one) for one in CATEGORIES[value])
    return found | (OTHER_WORD if value is code.CATEGORY_WORD else 0)


REPEATS = (code.MAX_REPEAT, code.MIN_REPEAT)


def one(op: Any, value: Any, flags: int) -> int | None:
    """The characters that an item of one character takes; None for others."""
    if op is code.LITERAL:
        return bit(value, flags)
    if op is code.NOT_LITERAL:
        return EVERY & ~bit(value, flags)
    if op is code.ANY:
        return EVERY if flags & re.DOTALL else EVERY & ~(1 << 10)
    return of_class(value, flags) if op is code.IN else None


NESTED = "one in another"
Live = tuple[tuple[int, int], ...]
"""Repetitions that may still take back what they took: what they take, and how many stand in a row."""


class Check:
    """Walks a pattern from the left."""

    def __init__(self, flags: int):
        self.flags, self.found = flags, []

    def sequence(self, items: Any, live: Live) -> Live:
        """The repetitions that stand directly behind a sequence, of those `live` before it and its own."""
        for op, value in items:
            live = self.item(op, value, live)
        return live

    def item(self, op: Any, value: Any, live: Live) -> Live:
        taken = one(op, value, self.flags)
        if taken is not None:  # a character that must be there: only repetitions that take it, too, stay
            return tuple(before for before in live if taken & before[0])
        if op in REPEATS:
            least, most, body = value
            return self.repeat(least, most is code.MAXREPEAT or most > MANY, body, live)
        if op is code.SUBPATTERN:
            before, self.flags = self.flags, (self.flags | value[1]) & ~value[2]
            after = self.sequence(value[3], live)
            self.flags = before
            return after
        if op is code.BRANCH:
            return tuple({kept for branch in value[1] for kept in self.sequence(branch, live)})
        if op in (code.ATOMIC_GROUP, code.POSSESSIVE_REPEAT):
            self.sequence(value if op is code.ATOMIC_GROUP else value[2], ())
            return ()
        if op in (code.ASSERT, code.ASSERT_NOT):
            self.sequence(value[1], ())
            barred = one(*value[1][0], self.flags) if len(value[1]) == 1 and value[0] > 0 else None
            if op is code.ASSERT_NOT and barred is not None:  # `[a-z]+(?![a-z])` gives nothing back
                return tuple(before for before in live if before[0] & ~barred)
        return live

    def repeat(self, least: int, many: bool, body: Any, live: Live) -> Live:
        single = one(*body[0], self.flags) if len(body) == 1 else None
        if single is not None:
            stays = live if least == 0 else tuple(before for before in live if before[0] & single)
            if not many:
                return stays
            row = 1 + max((before[1] for before in live if before[0] & single), default=0)
            if row > 1:
                self.found.append(f"{row} in a row")
            return (*stays, (single, row))
        inner = self.sequence(body, live)
        if many and not self.fixed(body):
            first = self.first(body)
            if any(within[0] & first for within in self.sequence(body, ())):
                self.found.append(NESTED)
        return tuple({*inner, *(live if least == 0 else ())})

    def first(self, items: Any) -> int:
        """Characters that a sequence may begin with."""
        found = 0
        for op, value in items:
            taken = one(op, value, self.flags)
            if taken is not None:
                return found | taken
            if op in REPEATS or op is code.POSSESSIVE_REPEAT:
                found |= self.first(value[2])
                if value[0]:
                    return found
            elif op is code.SUBPATTERN:
                return found | self.first(value[3])
            elif op is code.ATOMIC_GROUP:
                return found | self.first(value)
            elif op is code.BRANCH:
                return found | self._any(value[1])
        return found

    def _any(self, branches: Any) -> int:
        found = 0
        for branch in branches:
            found |= self.first(branch)
        return found

    def fixed(self, items: Any) -> bool:
        """Whether each round has one length, as in `(?:ab)+`."""
        low, high = items.getwidth()
        return low == high


def faults(pattern: str, flags: int = 0) -> list[str]:
    tree = parser.parse(pattern, flags)
    check = Check(tree.state.flags | flags)
    check.sequence(tree, ())
    return check.found


@cache
def patterns() -> dict[tuple[str, int], str]:
    """All regular expressions of the kit, and where each is: those that are compiled as it is imported, read from TOML, or
    stand in its functions."""
    found: dict[tuple[str, int], str] = {}
    for module in pkgutil.walk_packages(kit.__path__, "kit."):
        if not module.name.endswith("__main__"):
            loaded = importlib.import_module(module.name)
            for name, value in vars(loaded).items():
                for compiled in compiled_in(value, 4):
                    found.setdefault((text(compiled.pattern), compiled.flags), f"{module.name}.{name}")
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and node.args and of_re(node.func):
                given = node.args[0]
                if isinstance(given, ast.Constant) and isinstance(given.value, str | bytes):
                    call = f"re.{node.func.attr}"
                    if call != "re.compile" or not any(text(given.value) == known for known, _ in found):
                        found.setdefault((text(given.value), 0), f"{path.name}:{node.lineno} {call}")
    for path in sorted(PACKAGE.glob("knowledge/**/*.toml")):
        for where, value in strings(tomllib.loads(path.read_text(encoding="utf-8")), path.name):
            if re.search(r"[\\*+?\[(|]", value):
                try:
                    re.compile(value)
                except re.error:
                    continue  # a sentence, not a pattern
                found.setdefault((value, 0), where)
    return found


def of_re(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"


def text(pattern: str | bytes) -> str:
    return pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern


def compiled_in(value: Any, depth: int) -> list[re.Pattern]:
    if isinstance(value, re.Pattern):
        return [value]
    if depth and isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [one for item in value for one in compiled_in(item, depth - 1)]
    if depth and type(value).__module__.startswith("kit.") and hasattr(value, "__dict__"):
        return compiled_in(list(vars(value).values()), depth - 1)
    return []


def strings(value: Any, where: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(where, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in strings(item, f"{where} {key}")]


def test_the_check_finds_what_it_looks_for() -> None:
    nested = [r"(?:a+)+b", r"(?:a|a+)*$", r"(\w+\s?)*;", r"(?:.*,)*x", r"(?:\d+-?)+x", r"[a-z]\w*(?:[._][a-z]\w*)+$"]
    in_a_row = {r"a.*\s+b": 2, r"\s*\s*\s*x": 3, r"x\w*a?\w*a?\w*b": 3, r"\d+\w*:": 2}
    good = [r"(?:a+b)+", r"\s*x\s*y", r"\d+ \w*:", r'"(?:[^"\\]|\\.)*"', r"(?:\w+,)*x", r"[^:]*:[^:]*:", r"\d{1,3}\d{1,3}"]
    good += [r"(?:ab)*", r"(?:[a-z]+(?![a-z])-?)+$", r"(?:ab|cd)*e"]
    assert [one for one in nested if NESTED not in faults(one)] == []
    assert {one: max(faults(one)) for one in in_a_row} == {one: f"{count} in a row" for one, count in in_a_row.items()}
    assert [one for one in good if faults(one)] == []


def test_no_pattern_takes_exponential_time() -> None:
    every = patterns()
    found = {f"{where}: {pattern}": set(faults(pattern, flags)) for (pattern, flags), where in every.items()}
    wrong = [where for where, kinds in found.items() if NESTED in kinds]
    print(f"patterns {len(every)}, exponential {len(wrong)}, with repetitions in a row {sum(map(bool, found.values()))}")
    assert len(every) > 1000 and not wrong, "\n".join(wrong)


def methods(where: str, of_names: dict[str, set[str]]) -> set[str]:
    """How a pattern is used, as far as its name or the call that it stands in tells."""
    if where.startswith("kit."):
        return of_names.get(where) or {"other"}
    name, _, method = where.partition(" re.")
    if AT_BEGIN.intersection(where.split()[1:2]):
        return {"match"}
    return {method} if method and name else USED.get(where.split()[0], {"other"})


Used = tuple[str, int, tuple[str, ...], str]
"""A pattern, its flags, the methods that it is used by, where it stands."""


def by_file() -> dict[str, list[Used]]:
    """The patterns of each file."""
    of_names = used_with(PACKAGE)
    found = defaultdict(list)
    for (pattern, flags), where in patterns().items():
        first = where.split()[0]
        if where not in BOUNDED:
            name = first.rpartition(".")[0] if where.startswith("kit.") else first.partition(":")[0]
            found[name].append((pattern, flags, tuple(sorted(methods(where, of_names))), where))
    return found


def digest(used: list[Used]) -> str:
    return hashlib.sha256(repr(sorted(one[:3] for one in used)).encode()).hexdigest()[:16]


def measured() -> dict[str, str]:
    return dict(line.split() for line in MEASURED.read_text(encoding="utf-8").splitlines())


def worse_than_linear(used: list[Used]) -> list[str]:
    """Each on texts made of its own parts: four times the text takes about four times as long."""
    found = []
    for pattern, flags, by, where in used:
        growth, head, unit = worst(pattern, flags, set(by))
        if growth > LINEAR:
            found.append(f"{where}: {growth:.0f} times on {head[:40]!r} + {unit[:20]!r} * n: {pattern[:200]}")
    return found


def test_the_measuring_finds_what_it_looks_for() -> None:
    slow = r"(?:[a-z](?!;))+\d"  # long enough at a place that no interpreter is done soon
    both = [(slow, 0, ("search",), "at each place"), (slow, 0, ("match",), "at the begin")]
    assert [one.split(":")[0] for one in worse_than_linear(both)] == ["at each place"]


def test_patterns_of_files_that_were_changed_are_linear() -> None:
    """Those of the other files were measured as they are: `python -m tools.measure_patterns` measures all, and writes which."""
    files, known = by_file(), measured()
    changed = [name for name, used in files.items() if digest(used) != known.get(name)]
    assert len(files) > 100 and len(known) > 100
    wrong = [one for name in changed for one in worse_than_linear(files[name])]
    assert not wrong, "\n".join(wrong)
