"""Tables that are made of a verdict, declared like the frames of a run."""

from __future__ import annotations

from kit.schema import Column as C
from kit.schema import Frame

TABLES: dict[str, Frame] = {
    frame.name: frame
    for frame in (
        Frame(
            "facts",
            "Facts of a verdict, a row a piece of evidence (a fact without evidence has one row).",
            (
                C("fact", "text", "name, as in docs/facts.md", nullable=False),
                C("value", "text", "value as JSON", nullable=False),
                C("number", "float", "the value, where it is a number or true (1) or false (0)"),
                C("capture", "text", "raw file it is in"),
                C("line", "int", "line in that file, from 1"),
                C("text", "text", "what stands there"),
            ),
        ),
        Frame(
            "hypotheses",
            "Signs for and against each class, a row a sign; classes without any have one row.",
            (
                C("class", "text", "class", nullable=False),
                C("share", "float", "share of belief, 0 to 1", nullable=False),
                C("score", "float", "sum of the weights", nullable=False),
                C("sign", "text", "sign that holds"),
                C("weight", "float", "log-odds: positive speaks for the class, negative against it"),
                C("claim", "text", "the sign as a sentence"),
                C("reason", "text", "why it has this weight"),
            ),
        ),
    )
}
"""Tables that are made of a verdict, not of a capture: `kit.facts(run)`, `kit.analyse.verdict.tables.hypotheses(run)`."""
