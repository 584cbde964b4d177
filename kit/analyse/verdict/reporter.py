"""What the reporter says, where nothing recorded tells it: claims of frame `statements` as a phase and facts."""

from __future__ import annotations

import json
import re
from signal import Signals

from kit.analyse.verdict.endings import ending
from kit.analyse.verdict.evidence import Evidence, ref
from kit.analyse.verdict.processes import Processes
from kit.schema import Row
from kit.untrusted import signal_of, whole_number

ENDS = ("exits", "no_answer", "hang")
"""Claims that say where a launch stands now, those first that say more."""
OF_WORK = ("ready", "serving", "train_step")


BEFORE_IT_CAME_UP = frozenset(
    ("hang", "slow", "gpu_idle", "gpu_busy", "gpu_low_power", "cpu_busy", "cpu_idle", "compiling", "weights_slow")
)
"""Claims of what was before it came up in the end."""
CAUSES = frozenset(("gpu_oom", "host_oom", "port_used", "gpu_fault", "peer_missing", "probe_kill", "resources"))
MOST_CAUSES = 2
"""A text that tells of more of the causes, none of which comes with another, lists what can happen: a FAQ, a runbook."""
QUESTION = re.compile(r"Q\d*[:.)] ")
"""How a question with its answer begins: who asks about a launch does not answer."""
OF_ENDING = frozenset(("told_to_end", "exits", "finished", "restarts", "ranks"))
"""Claims that tell of an end, and of no trouble before it."""


LEAST_STATS = 2
"""Statistics in a row that show work: one covers seconds that may lie before the request that hangs."""


def claims(evidence: Evidence) -> dict[str, Row]:
    """The last claim of each kind."""
    said = {row["claim"]: row for row in evidence.statements}
    if "gpu_uneven" in said:  # then "100 %" and "0 %" are each of some
        said = {code: row for code, row in said.items() if code not in ("gpu_busy", "gpu_idle")}
    if "hang" in said and said["hang"].get("phase") == "serving":  # what hangs once it is up answers nobody
        said.setdefault("no_answer", said["hang"])
    if generates(evidence):  # it answers, however long that takes
        said.pop("no_answer", None)
    return {code: row for code, row in said.items() if "starts" not in said or code not in BEFORE_IT_CAME_UP}


def generates(evidence: Evidence) -> bool:
    """Whether the last statistics of an engine, and those before, show tokens of a request that runs, and no error follows."""
    last = sorted(evidence.log.of("engine_stats", "decode_batch"), key=lambda mark: mark.order)[-LEAST_STATS:]
    fine = all(float(mark.fields.get("tokens_per_s") or 0) > 0 and whole_number(mark.fields.get("running")) for mark in last)
    return fine and len(last) == LEAST_STATS and not any(m.order > last[0].order for m in evidence.log.marks if m.kind == "error")


def lists(evidence: Evidence) -> set[str]:
    """Captures in which somebody lists known errors."""
    told: dict[str, set[str]] = {}
    for row in evidence.statements:
        told.setdefault(row["capture"], set()).add(row["claim"])
    asked = {row["capture"] for row in evidence.statements if QUESTION.match(row["text"])}
    return {capture for capture, codes in told.items() if len(codes & CAUSES) > MOST_CAUSES} | asked


def others_from(evidence: Evidence) -> dict[str, int]:
    """By file, the line from which somebody else tells of a launch of theirs."""
    return {row["capture"]: row["line"] for row in reversed(evidence.statements) if row["claim"] == "me_too"}


def ended_it(evidence: Evidence) -> bool:
    """Whether who sent the evidence says that they ended it, and of nothing that they ended it for."""
    said = claims(evidence).keys()
    return "told_to_end" in said and said <= OF_ENDING


def fields(row: Row) -> dict:
    """Values that a claim names."""
    return json.loads(row.get("fields") or "{}")


def place(evidence: Evidence) -> Row | None:
    """The claim that says where the launch stands: of its end before that of a wait, of that before that it is slow."""
    told = [row for row in evidence.statements if row.get("phase")]
    order = {code: number for number, code in enumerate(ENDS)}
    return min(told, key=lambda row: order.get(row["claim"], len(order)), default=None)


def facts(evidence: Evidence, processes: Processes, found: object) -> dict:
    """`signal`, `exited`, `generate_works`, `ready`, `restarts`, `port`, `world_size`, as somebody says, where nothing tells."""
    said = claims(evidence)
    given: dict = {}
    if row := said.get("exits"):
        given["exited"] = True, [_ref(row)]
        # What a log tells of its end in order stands: then the number is of another process, or of a rule.
        ends = [] if ending(evidence.log) else [other for other in evidence.statements if other["claim"] == "exits"]
        told = ((_signal(fields(other)), other) for other in ends)
        given |= next(({"signal": (number, [_ref(other)])} for number, other in told if number is not None), {})
    if (row := said.get("no_answer")) and "starts" not in said:
        given["generate_works"] = False, [_ref(row)]
    if (row := place(evidence)) and row["phase"] in OF_WORK and not evidence.log.records:
        given["ready"] = True, [_ref(row)]
    if (row := said.get("restarts")) and (times := whole_number(fields(row).get("restarts"))):
        given["restarts"] = times, [_ref(row)]
    if (row := said.get("port_open")) and fields(row).get("port"):
        given["port"], given["port_listening"] = (whole_number(fields(row)["port"]), [_ref(row)]), (True, [_ref(row)])
    if row := said.get("ranks"):
        named = fields(row)
        size = whole_number(named.get("ranks")) or (whole_number(named.get("nodes")) or 0) * (
            whole_number(named.get("gpus")) or 0
        )
        given["world_size"] = size or None, [_ref(row)]
    return given


def _ref(row: Row) -> dict:
    return ref(row, f"the reporter says: {row['text'][:200]}")


def _signal(named: dict) -> int | None:
    """The signal that an exit code or a name tells."""
    code = whole_number(named.get("exit_code"))
    if code is not None:
        return signal_of(code)
    word = str(named.get("signal") or "").upper()
    if word == "KILLED":
        return None  # by whom and how is not said
    if word.startswith("SIG"):
        return next((int(one) for one in Signals if one.name == word), None)
    return whole_number(named.get("signal"))
