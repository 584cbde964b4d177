"""Which pod is the launch's, where events name several, and which container is another service's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.analyse.verdict.evidence import Evidence
from kit.schema import Row

_ROLLOUT = re.compile(r"^(?P<base>.+)-(?P<template>[a-z0-9]{6,10})-[a-z0-9]{5}$")
"""Pod of a Deployment: name, hash of the template, five letters of its own."""
_OF_THE_CLUSTER = re.compile(
    r"(?:kube-|coredns|etcd-|calico|cilium|weave-net|metrics-server|local-path-provisioner|csi-|ingress-|cert-manager|istio"
    r"|prometheus|node-exporter|alertmanager|grafana|gpu-operator|nvidia-(?!nim|triton)|dcgm-exporter|amd-gpu-|node-feature-)"
)
"""Begins of names of pods that a cluster runs for itself: network, storage, metrics, plugins of its devices."""
_SERVICES = re.compile(
    r"(?:.*[-_/])?(?:redis|postgres\w*|mysql|mariadb|mongo\w*|nginx|traefik|envoy|haproxy|caddy|minio|kafka|zookeeper|rabbitmq|etcd"
    r"|elasticsearch|qdrant|milvus|weaviate|chroma|neo4j|grafana|prometheus|loki|cadvisor|portainer|open-webui)(?:[-_].*)?$"
)
"""Names of containers of what stands beside a server: stores, proxies, dashboards."""
_WAITS = frozenset(("Pending", "ContainerCreating", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "Error", "OOMKilled"))
"""What `kubectl get pods` says of one that does not run."""


@dataclass(frozen=True)
class Pods:
    """Why events of a pod are not the launch's, by the pod's name; of containers those say so by their own names."""

    others: dict[str, str] = field(default_factory=dict)

    def foreign(self, row: Row) -> str | None:
        """Why an event is about another pod or container; None where it is about the launch's, or about none."""
        name = row.get("object") or ""
        if row["source"] == "docker" and _SERVICES.match(name):
            return f"of container {name}, which is no server of models"
        return self.others.get(_pod(row) or "")


def _pod(row: Row) -> str | None:
    """Name of the pod that an event is about."""
    kind, _, name = (row.get("object") or "").rpartition("/")
    return name if row["source"] == "kubernetes" and name and kind.lower() in ("", "pod", "pods") else None


def names(pod: str, text: str) -> bool:
    """Whether a text names a pod."""
    return re.search(rf"(?<![\w-]){re.escape(pod)}(?![\w-])", text) is not None


def pods(evidence: Evidence) -> Pods:
    """Part the pods: the one that a file or command names is the launch's, of several the one that waits, or the only one that is
    none of the cluster's own; else those of the last rollout are."""
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
    described = {_pod(row) for row in evidence.events if row.get("reason") == "Namespace"}
    named = {name for name in newest if name in described or any(names(name, text) for text in texts)}
    alone = {name for name in newest if not _OF_THE_CLUSTER.match(name)}
    waits = {_pod(row) for row in evidence.events if row.get("type") == "Warning" or row.get("reason") in _WAITS}
    own = next((some for some in (named & alone, named & alone & waits, alone, named) if len(some) == 1), ())
    if own:
        (pod,) = own
        return Pods({name: f"of pod {name}, the launch is {pod}" for name in newest if name != pod})
    rollouts = {name: found for name in newest if (found := _ROLLOUT.match(name))}
    if len({found["base"] for found in rollouts.values()}) != 1 or len(rollouts) != len(newest):
        return Pods()
    last = rollouts[min(newest, key=newest.__getitem__)]["template"]
    others = {name for name, found in rollouts.items() if found["template"] != last}
    return Pods({name: f"of pod {name}, of the rollout before" for name in others})
