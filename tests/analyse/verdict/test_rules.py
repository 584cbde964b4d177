"""Each rule by itself: evidence that shows its sign, and evidence that looks like it and does not."""

from __future__ import annotations

from collections import Counter

import pytest

from kit.analyse.verdict.classes import classes
from kit.analyse.verdict.rules import RULES, all_signs
from kit.analyse.verdict.verdict import weigh
from kit.tool_table import steps
from tests.analyse.verdict import rules_endings, rules_good_run, rules_ranks, rules_serving, rules_waits
from tests.analyse.verdict.scenes import Shown, kernel, scene

TABLE = [entry for table in (rules_endings, rules_serving, rules_waits, rules_ranks, rules_good_run) for entry in table.TABLE]
EMITTED = {code for entry in RULES for code in entry.codes}
WEIGHED = {code for known in classes().values() for code in known.signs}
ASKED = {code for capture in steps() for key in ("when", "unless", "urgent") for code in capture.get(key, ())}
"""Signs that decide which capture is wanted next."""


def names() -> list[str]:
    """Names of the entries: the code, numbered where it comes again."""
    seen: Counter[str] = Counter()
    found = []
    for entry in TABLE:
        seen[entry.code] += 1
        found.append(f"{entry.code}-{seen[entry.code]}")
    return found


@pytest.mark.parametrize("entry", TABLE, ids=names())
def test_evidence_shows_the_sign(entry: Shown) -> None:
    signs = all_signs(scene(*entry.by, deleted=entry.deleted, good=entry.good))
    assert entry.code in signs
    sign = signs[entry.code]
    assert sign.claim[0] not in "’, " and "(s)" not in sign.claim and "(es)" not in sign.claim and "None" not in sign.claim
    assert all({"capture", "line", "text"} <= where.keys() for where in sign.refs)


@pytest.mark.parametrize("entry", TABLE, ids=names())
def test_what_looks_like_it_does_not(entry: Shown) -> None:
    if entry.unlike is not None:
        assert entry.code not in all_signs(scene(*entry.unlike, good=entry.good))


def test_every_sign_is_weighed_and_every_weight_has_a_rule() -> None:
    assert not WEIGHED - EMITTED, "no rule gives these signs"
    assert not EMITTED - WEIGHED - ASKED, "nothing weighs these signs"


def test_every_sign_has_evidence_that_shows_it_and_nearly_every_one_a_lookalike() -> None:
    assert {entry.code for entry in TABLE} == EMITTED
    assert {entry.code for entry in TABLE if entry.unlike is not None} == EMITTED


def test_captures_ask_for_signs_that_exist() -> None:
    assert {code for capture in steps() for code in capture["signs"]} | ASKED <= EMITTED


def test_nothing_holds_without_evidence() -> None:
    assert set(all_signs(scene())) == {"phase_launch", "phase_unknown", "one_sample"}


def test_a_rule_without_what_it_needs_is_silent_and_says_so() -> None:
    for entry in RULES:
        for frame in (name for need in entry.needs for name in need.split("|")):
            assert frame in ("log", "syscalls") or scene().evidence.rows[frame] == []
        assert not entry.needs or not list(entry.signs(scene()))


def test_the_codes_that_show_movement_are_codes_of_their_rule() -> None:
    assert all(entry.moving <= set(entry.codes) for entry in RULES)
    assert {"reads_move", "tokens_grow", "compilers_run"} <= {code for entry in RULES for code in entry.moving}


def test_what_is_missing_is_told_from_what_the_rules_need() -> None:
    verdict = weigh(scene(*rules_serving.SERVER))
    assert any(said.startswith("no kernel log: ") and "dmesg" in said for said in verdict.missing)
    assert not any(said.startswith(("no process table", "no log")) for said in verdict.missing)
    assert any(said.startswith("no log of the server") for said in weigh(scene(kernel("hung_task"))).missing)
