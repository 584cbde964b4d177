"""What the reporter says: each claim a sign of its own, weighed little, and said as a claim."""

from __future__ import annotations

from kit.analyse.verdict import reporter
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.phases import says_it_works
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.parse.prose import words
from kit.words import short

SIZES = ("ranks", "me_too")
"""Claims that are facts, or tell whose evidence follows, and speak for no class."""
CODES = tuple(f"said_{code}" for code in dict.fromkeys(claim.code for claim in words().claims) if code not in SIZES)


@rule("works_unlogged", needs=("statements", "log"))
def works_unlogged(scene: Scene) -> Signs:
    """Who sent the evidence says that it works, and the log that they sent never says so; without a log none was lost."""
    if (row := says_it_works(scene.evidence, "works")) and scene.fact("ready") is False:
        yield Sign("works_unlogged", f"the reporter says: {short(row['text'], 140)}", [ref(row, row["text"])])


@rule("said_training_stands", needs=("statements", "log"))
def training_stands(scene: Scene) -> Signs:
    """Who sent a training's log says that it hangs, and not that it is slow: its last step is not of now."""
    told = reporter.claims(scene.evidence)
    if scene.phase == "train_step" and (row := told.get("hang")) and "slow" not in told:
        yield Sign("said_training_stands", f"the reporter says: {short(row['text'], 140)}", [ref(row, row["text"])])


@rule(*CODES, needs=("statements",))
def claims(scene: Scene) -> Signs:
    """Who sent the evidence says what they saw; that it works counts where nothing recorded stands against it."""
    for code, row in reporter.claims(scene.evidence).items():
        if f"said_{code}" in CODES and (code not in ("starts", "works") or says_it_works(scene.evidence, code)):
            yield Sign(f"said_{code}", f"the reporter says: {short(row['text'], 140)}", [ref(row, row["text"])])
