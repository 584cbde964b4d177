"""Whether a text is a log of a server or launcher (`kit.parse.log`)."""

from __future__ import annotations

import re
from functools import cache

from kit.parse import grammar
from kit.parse.records import ANSI

_BEFORE = r"^(?:\[pod/[^\]]+\] )?(?:[\w./-]+\s*\| )?"
"""What kubectl and docker compose write before each line."""


@cache
def _certain(own: bool = False) -> re.Pattern[str]:
    """What a line of a log begins with for certain, behind the prefixes of docker compose, kubectl, journald, Ray.

    With `own` only what no other program of the kind prints: any service in Python may run under Uvicorn.
    """
    starts = "|".join(text for found in grammar.load().all if not own or found.name != "common" for text in found.certain)
    return re.compile(
        _BEFORE + r"(?:20\d\d-\S+Z? |\S+ \d+ [\d:]+ (?:\S+ )?\S+: )?"
        r"(?:\(\w[\w.]* (?:rank=\d+ )?pid=\d+(?:, ip=[\w.:]+)?\) ?)?(?:\[\w+\]: ?)?(?:" + starts + ")",
        re.MULTILINE,
    )


_STAMPED = re.compile(
    _BEFORE + r"\[?20\d\d[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?=[^\n]*[A-Za-z]{2})"
    r"|\d{1,3}%\|.{0,400}\d[kKMGT]?(?:i?B)?/\d[\d.]*[kKMGT]?(?:i?B)? \[\d\d:\d\d"
    r"|^(?:INFO|WARNING|ERROR)[: ]|^\[\d\d:\d\d:\d\d\] [\w./-]+:\d+: "
    r"|^.{0,60}\b(?:step|iter|iteration|epoch|batch)\b[ :=#]{0,3}\d.{0,80}\bloss\b|^\[rank:? ?\d+\]:? "
    r"|^Traceback \(most recent|\biteration\s+\d+/|^\{'loss':|\bstep[: ]\d+/\d+",
    re.MULTILINE,
)
_BAR = re.compile(r"\d{1,3}%\|.{0,400}\d/\d{1,20} \[\d\d:\d\d")
_OTHER = re.compile(
    r"^(?:\[pid\s+\d+\] |\d+\s+)?(?:[\d:.]+ )?\w+\(.*(?:\) += |<unfinished \.\.\.>)"  # strace
    r"|^Process \d+: |^Thread (?:0x)?[\da-f]+ \(|^total \d+\n|^(?: {0,9}(?:F S )?(?:UID|USER))? {0,14}PID\s|^Name:\t"
    r"|^(?:State|Netid)\s+Recv-Q|^rchar: |^(?:NAME|LAST SEEN|COMMAND)\s|^ {1,20}total\s+used\s+free|^# (?:HELP|TYPE) "
    r"|^Filesystem\s|^==> \S.* <==",
    re.MULTILINE,
)


def of_a_launch(head: str, own: bool = True) -> bool:
    """Whether a service is a server, a launcher or a training, by how its lines begin; a download's bar counts too.

    Without `own` any web server is one.

    Examples
    --------
    >>> of_a_launch("web-1 | INFO:     Application startup complete."), of_a_launch("vllm-1 | INFO 02-11 08:00:04 [a.py:1] hm")
    (False, True)
    """
    sample = ANSI.sub("", head).replace("\r", "\n")
    return _certain(own).search(sample) is not None or _BAR.search(sample) is not None


RARE = 20
"""Among so many lines one that looks like another tool's output may be any program's own."""


def looks_like(head: str) -> float:
    """How sure a text is a server's or launcher's log.

    Examples
    --------
    >>> looks_like("(Worker_TP0 pid=201) INFO 04-05 12:01:00 [runner.py:47] Starting to load model"), looks_like("strace: hm")
    (0.95, 0.1)
    """
    sample = ANSI.sub("", head).replace("\r", "\n")
    first = next((line for line in sample.split("\n") if line.strip()), "")
    if _OTHER.match(first):
        return 0.0
    if _certain().search(sample):
        return 0.2 if len(_OTHER.findall(sample)) > len(_certain().findall(sample)) else 0.95
    if others := len(_OTHER.findall(sample)):
        return 0.0 if RARE * others > sample.count("\n") else 0.05
    if _STAMPED.search(sample):
        return 0.4
    return 0.1
