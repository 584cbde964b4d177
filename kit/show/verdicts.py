"""Tables of a verdict: evidence, hypotheses, facts, next steps, each with where it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kit.analyse.verdict.verdict_text import fact_text
from kit.document import percent
from kit.show.tables import Table, records

if TYPE_CHECKING:
    from kit.analyse.verdict.verdict import Verdict
    from kit.run import Run


def _where(refs: list[dict]) -> list[str]:
    """Files and lines of some evidence, each once."""
    said = (f"{ref['capture']}:{ref['line']}" if ref.get("line") else ref.get("capture") for ref in refs)
    return [place for place in dict.fromkeys(said) if place]


def evidence(verdict: Verdict) -> Table:
    """Claims that carry the verdict, with file, line and the text that stands there.

    Examples
    --------
    >>> import kit
    >>> evidence(kit.verdict(kit.sample("sg01-capture-hang"))).columns[:2]
    ('claim', 'capture')
    """
    return records(verdict.evidence, caption="Evidence", columns=["claim", "capture", "line", "text"])


def hypotheses(verdict: Verdict) -> Table:
    """Hypotheses with what speaks for and against each, the likeliest first.

    Examples
    --------
    >>> import kit
    >>> hypotheses(kit.verdict(kit.sample("sg01-capture-hang"))).rows[0][0]
    'device_hang'
    """
    rows = [
        {
            "class": found["class"],
            "share": percent(found["share"]),
            "meaning": found["meaning"],
            "for": [f"• {sign['claim']}" for sign in found["for"]],
            "against": [f"• {sign['claim']}" for sign in found["against"]],
        }
        for found in verdict.to_dict()["hypotheses"]
    ]
    return records(rows, caption="Hypotheses, the likeliest first")


def facts(verdict: Verdict) -> Table:
    """Facts with where they stand.

    Examples
    --------
    >>> import kit
    >>> "port_listening" in [row[0] for row in facts(kit.verdict(kit.sample("sg01-capture-hang"))).rows]
    True
    """
    known = verdict.facts.items()
    said = [fact_text(name, fact.value) if isinstance(fact.value, int | float | list) else fact.value for name, fact in known]
    rows = [{"fact": name, "value": text, "where": _where(fact.refs)} for (name, fact), text in zip(known, said, strict=True)]
    raw = [(None, fact.value if isinstance(fact.value, int | float) else None, None) for _, fact in known]
    return replace(records(rows, caption="Facts"), raw=raw)


def next_steps(verdict: Verdict) -> Table:
    """What to collect next, the step that says most for its cost first.

    Examples
    --------
    >>> import kit
    >>> next_steps(kit.verdict(kit.sample("sg01-capture-hang"))).caption
    'To collect next'
    """
    return records(verdict.next, caption="To collect next", columns=["what", "why", "command", "cost_s", "consent", "separates"])


def ledger(run: Run) -> Table:
    """What was believed when, which test came next, and why the belief changed: as recorded by a triage, else derived.

    Parameters
    ----------
    run : Run
        A run with a ledger, or any other: its evidence is then judged with one more source at a time, the cheapest first.

    Returns
    -------
    Table
        Shares are those after the test.

    Examples
    --------
    >>> import kit
    >>> shown = ledger(kit.open_run(kit.sample_path("sg01-capture-hang")))
    >>> shown.columns[:3]
    ('test', 'outcome', 'hypotheses')
    """
    from kit.analyse.verdict.belief_log import ledger_of

    steps = ledger_of(run)
    rows = [
        {
            **({"t_s": step["t_s"]} if any(other["t_s"] for other in steps) else {}),
            "test": step["test"],
            "outcome": [f"• {said}" for said in step["outcome"]],
            "hypotheses": [f"{name} {percent(share)}" for name, share in step["leading"]],
            "for the first": [f"• {said}" for said in step.get("for") or ()],
            "against it": [f"• {said}" for said in step.get("against") or ()],
            "why it changed": step["because"],
        }
        for step in steps
    ]
    return records(rows, caption="Ledger")
