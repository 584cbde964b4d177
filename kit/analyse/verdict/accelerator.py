"""Which make of accelerator a host has, by what the evidence shows of it: the marks are in kit/knowledge/tools.toml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kit.analyse.verdict.evidence import Evidence
from kit.tool_table import table


def accelerator_of(evidence: Evidence) -> str | None:
    """`nvidia`, `amd`, `ascend`, `gaudi`; None where nothing tells. The first source that tells it decides.

    Examples
    --------
    >>> import kit
    >>> from kit.analyse.verdict.evidence import gather
    >>> accelerator_of(gather(kit.open_run(kit.sample_path("sg01-capture-hang"))))
    'nvidia'
    """
    marks = table().accelerators
    for texts in _sources(evidence):
        votes = Counter(name for text in texts for name, pattern in marks.items() if pattern.search(text))
        if votes:
            return votes.most_common(1)[0][0]
    return None


def _sources(evidence: Evidence) -> Iterable[list[str]]:
    """Texts that name a device, the surest first."""
    kinds = {row.kind: row.accelerator for row in table().tools.values() if row.accelerator}
    shown = {capture.file: kinds[capture.kind] for capture in evidence.run.captures if capture.kind in kinds}
    yield [str(row["name"]) for row in evidence.gpus if row.get("name")]
    yield [_DEVICE[name] for row in evidence.gpus if (name := shown.get(str(row.get("capture")))) in _DEVICE]
    yield [str(row.get("target")) for row in evidence.fds]
    yield [str(row.get("key")) for row in evidence.host if row.get("source") == "environ"]
    yield [str(row.get("function")) for row in evidence.stacks]


_DEVICE = {"nvidia": "/dev/nvidia", "amd": "/dev/kfd", "ascend": "/dev/davinci", "gaudi": "/dev/accel/"}
