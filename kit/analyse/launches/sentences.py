"""Findings of comparisons are data: a code, values, where it stands. Their sentences are here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from string import Formatter
from typing import Any

from kit.analyse.text_blocks import named
from kit.clock import show_duration
from kit.document import percent

SENTENCES = {
    # compare
    "same_launch": "{launches:and} are the same launch: they differ only in what was captured",
    "outcome": "{text}",
    "same_phase": "{every} came as far as {phase}",
    "last_common": "the last phase that {every} reached is {phase}; {ahead:and} went on to {next}{rest}",
    "phase_longer": "{phase} takes {took}",
    "other_server": "{text}: their phases are compared, their log lines are not",
    "lacks_milestone": "the first {kind} that {lacks:and} {lacks:lacks|lack} is {milestone} ({at})",
    "parts_at_line": "they part at a log line that {lacks:and} {lacks:lacks|lack}: “{line}” ({at}{more})",
    "ranks_lack_milestone": "{milestone} is there for {many} ranks in {has}, for {few} in {lacks}: "
    "{ranks:rank|ranks} {ranks:list} {ranks:lacks|lack} it",
    "other_place": "the main thread of {process} is at {places}",
    "other_call": "{process} spends most of its traced time {calls}",
    "thread_missing": "{process} has {number} {number:thread|threads} {thread} in {has} and none in {lacks} "
    "(second {second:,.0f})",
    "memory": "{process} has {sizes[0]:size} of anonymous memory in {launches[0]} (second {times[0]:,.0f}) and "
    "{sizes[1]:size} in {launches[1]} (second {times[1]:,.0f})",
    "settings_differ": "settings that differ: {settings:named}",
    "unlikely_settings": "unlikely causes, which differ too: {settings:named}",
    "settings_of_some": "{number} {number:setting is|settings are} known of {some} only, and not counted as differing",
    "no_settings": "no setting is known of both launches: nothing can be said of what was changed",
    "nothing_differs": "no setting that may be a cause differs among those known of both: {rest}",
    "one_setting": "the different outcome is consistent with {setting}, the one such setting that differs{beside}; repeat both "
    "launches before you rely on it",
    "several_settings": "the different outcome is consistent with each of these {number} settings: they are confounded until "
    "launches differ in one of them only{beside}",
    # attempts
    "counts": "{number} {number:launch|launches}: {counts}{split}",
    "servers": "these are launches of {servers:and}: settings of one server have other names in another",
    "late": "counted as not ready, after {times:g} times as long as the slowest that is: {launches:named}",
    "undecided": "not counted, as the evidence does not tell how it ends: {launches:named}",
    "ended": "counted as ready, though it crashed after that, which may be how it was stopped: {launches:named}",
    "one_outcome": "nothing can be told apart: no launch is {lacking}{advice}",
    "alike": "{good} is {words[0]} and {bad} is {words[1]}, though no setting is known to differ between them{more}: what was "
    "captured of the settings does not decide the outcome alone",
    "none_separates": "no single setting separates the launches that are {word} from the others",
    "separates_classes": "no single setting separates all launches that are ready from the others; single classes it does:",
    "separates": "{outcome} is consistent with {setting}: {groups} ({strength}){rivals}{follows}",
    "more_separate": "{number} more {number:setting separates|settings separate} them as well",
    "ruled_out": "not the one deciding setting, as a value of it has both outcomes: {settings:named}",
    "closest": "the closest launches with another outcome, {good} ({word}) and {bad}, differ in {what}",
    "confounded": "{settings:list} always changed together: they are confounded",
}
"""Format specifications are those of `_Words`."""


class Finding(str):
    """What a comparison shows: reads as its sentence."""

    code: str  # key of `SENTENCES`
    values: dict[str, Any]  # what the sentence is made of, as plain types
    where: list[str]  # `file:line` of the evidence

    def to_dict(self) -> dict[str, Any]:
        """Code, sentence, values, where."""
        return {"code": self.code, "text": str(self), "values": self.values, "where": self.where}


def finding(code: str, where: Sequence[str] = (), **values: Any) -> Finding:
    """Make a finding.

    Examples
    --------
    >>> finding("late", times=3.0, launches=["run1", "run2"])
    'counted as not ready, after 3 times as long as the slowest that is: run1, run2'
    >>> finding("more_separate", number=1)
    '1 more setting separates them as well'
    """
    made = Finding(_Words().vformat(SENTENCES[code], (), values))
    made.code, made.values, made.where = code, values, list(where)
    return made


def joined(words: Sequence[str]) -> str:
    """Words with `and` before the last.

    Examples
    --------
    >>> joined(["a", "b", "c"]), joined(["a"]), joined([])
    ('a, b and c', 'a', '')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def is_number(value: object) -> bool:
    """Whether a cell holds a whole number."""
    return isinstance(value, Integral)


def size(value: Any) -> str:
    """Bytes with their unit."""
    if not is_number(value):
        return "–"
    return f"{value / 2**30:,.2f} GiB" if value >= 2**30 else f"{value / 2**20:,.0f} MiB"


class _Words(Formatter):
    """Formats as `str.format`, and: `and`, `list`, `named` for lists; `duration`, `percent`, `size` for numbers; `one|many`."""

    def format_field(self, value: Any, spec: str) -> str:
        shown = {"and": joined, "list": _listed, "named": named, "duration": show_duration, "percent": percent, "size": size}
        if spec in shown:
            return shown[spec](value)  # type: ignore[operator]
        if "|" in spec:
            one, many = spec.split("|")
            return one if (value if isinstance(value, int) else len(value)) == 1 else many
        return super().format_field(value, spec)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
