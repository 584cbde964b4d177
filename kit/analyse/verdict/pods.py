"""Which pod is the launch's, where events name several."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.analyse.verdict.evidence import Evidence
from kit.schema import Row

_ROLLOUT = re.compile(r"^(?P<base>.+)-(?P<template>[a-z0-9]{6,10})-[a-z0-9]{5}$")
"""Pod of a Deployment: name, hash of the template, five letters of its own."""

_OF_CLUSTER = re.compile(r"(?:-n|--namespace)[ =](?:kube-\w+|gpu-operator|monitoring|\w+-system)\b")
"""A command that looks at what the cluster itself runs: no launch is there."""


@dataclass(frozen=True)
class Pods:
    """Why events of a pod are not the launch's, by the pod's name."""

    others: dict[str, str] = field(default_factory=dict)

    def foreign(self, row: Row) -> str | None:
        """Why an event is about another pod; None where it is about the launch's, or about none."""
        name = _pod(row)
        return self.others.get(name) if name else None


def _pod(row: Row) -> str | None:
    """Name of the pod that an event is about."""
    kind, _, name = (row.get("object") or "").rpartition("/")
    return name if row["source"] == "kubernetes" and name and kind.lower() in ("", "pod", "pods") else None


def pods(evidence: Evidence) -> Pods:
    """Part the pods: that which a file or command names is the launch's, else those of the last rollout are."""
    newest: dict[str, float] = {}
    for row in evidence.events:
        name = _pod(row)
        if name:
            newest[name] = min(row["age_s"] if row.get("age_s") is not None else float("inf"), newest.get(name, float("inf")))
    if len(newest) < 2:
        return Pods()
    run = evidence.run
    texts = [text for capture in run.captures for text in (capture.file, getattr(capture, "source", None)) if text]
    texts += [row["text"] for row in evidence.commands] + list((run.manifest.get("launch") or {}).get("command") or ())
    texts = [text for text in texts if not _OF_CLUSTER.search(text)]
    own = {name for name in newest if any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for text in texts)}
    if len(own) == 1:
        (pod,) = own
        return Pods({name: f"of pod {name}, the launch is {pod}" for name in newest if name != pod})
    rollouts = {name: found for name in newest if (found := _ROLLOUT.match(name))}
    if len({found["base"] for found in rollouts.values()}) != 1 or len(rollouts) != len(newest):
        return Pods()
    last = rollouts[min(newest, key=newest.__getitem__)]["template"]
    others = {name for name, found in rollouts.items() if found["template"] != last}
    return Pods({name: f"of pod {name}, of the rollout before" for name in others})
