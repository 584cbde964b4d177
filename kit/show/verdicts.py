"""Tables of a verdict: evidence, hypotheses, facts, next steps, each with where it stands."""
from __future__ import annotations

from typing import TYPE_CHECKING

from kit.show.tables import Table, records

if TYPE_CHECKING:
    from kit.analyse.verdict import Verdict


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
    rows = [{"class": found["class"], "share": f"{found['share']:.0%}", "meaning": found["meaning"],
             "for": [f"• {sign['claim']}" for sign in found["for"]],
             "against": [f"• {sign['claim']}" for sign in found["against"]]}
            for found in verdict.to_dict()["hypotheses"]]
    return records(rows, caption="Hypotheses, the likeliest first")


def facts(verdict: Verdict) -> Table:
    """Facts with where they stand.

    Examples
    --------
    >>> import kit
    >>> "port_listening" in [row[0] for row in facts(kit.verdict(kit.sample("sg01-capture-hang"))).rows]
    True
    """
    rows = [{"fact": name, "value": fact.value, "where": _where(fact.refs)} for name, fact in verdict.facts.items()]
    return records(rows, caption="Facts")


def next_steps(verdict: Verdict) -> Table:
    """What to collect next, the step that says most for its cost first.

    Examples
    --------
    >>> import kit
    >>> next_steps(kit.verdict(kit.sample("sg01-capture-hang"))).caption
    'To collect next'
    """
    return records(verdict.next, caption="To collect next", columns=["what", "why", "command", "cost_s", "consent", "separates"])
