"""Findings beside the verdict: what is wrong with a launch whatever its class is, ready ones too."""

from __future__ import annotations

from kit.analyse.verdict.attribution import finding as not_of_this_launch
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.processes import argument_fields
from kit.analyse.verdict.scene import Scene
from kit.words import short

NAMED = 3
"""Records that stand as evidence."""
_HARMLESS = ("not used when initializing", "Unexpected key(s)", "UNEXPECTED")
"""Words of records that tell of weights in the checkpoint which the model has no use for: nothing is missing then."""
_DRAFT = ("speculative_draft_model_path", "speculative_draft_model", "speculative_algorithm", "speculative_config", "model_draft")


def findings(scene: Scene) -> list[dict]:
    """Weights that do not fit the model, and evidence that is not of this launch.

    Returns `code`, `severity` (error, warning), `claim` (a sentence with the numbers in it), `evidence` (list of `capture`,
    `line`, `text`), `next` (what to do about it).
    """
    return [*_weights(scene), *not_of_this_launch(scene)]


def _weights(scene: Scene) -> list[dict]:
    """Weights that do not fit the model: missing, unexpected, of another shape."""
    marks = scene.evidence.log.of("weights_mismatch")
    if not marks:
        return []
    telling = [mark for mark in marks if mark.fields.get("in_checkpoint")] or marks
    lost = [mark for mark in marks if not any(words in mark.text for words in _HARMLESS)]
    count = scene.evidence.log.counts["weights_mismatch"]
    claim = f"weights do not fit the model ({count} record{'' if count == 1 else 's'}): {_said(telling[0])}"
    if scene.facts.value("ready") and lost:
        claim += "; the server came up all the same, and what was not loaded holds no trained values"
    advice = (
        "compare hidden_size, vocab_size and the number of layers in config.json with the weights, and the revision of both; ask "
        "one question whose answer you know"
    )
    if any(fields.get(name) for fields in argument_fields(scene.evidence) for name in _DRAFT):
        advice += "; a draft model must be made for this target: start once without it, and look at its accept rate"
    return [
        {
            "code": "weights_mismatch",
            "severity": "error" if lost else "warning",
            "claim": claim,
            "evidence": [mark.ref for mark in telling[:NAMED]],
            "next": advice,
        }
    ]


def _said(mark: Mark) -> str:
    """What a record says, in a few words."""
    fields = mark.fields
    if fields.get("in_checkpoint"):
        name = fields.get("weight") or "a weight"
        return f"{name} is [{fields['in_checkpoint']}] in the checkpoint and [{fields.get('in_model', '?')}] in the model"
    return short(mark.text, 200)
