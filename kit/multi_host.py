"""Runs of several hosts: each host's recording is a run in a folder of its own, and together they open as one.

A run has one clock, that of its first host; the times of the others are moved by the offsets that were measured. Numbers that
each host counts for itself (processes, threads, GPUs) get the host's number in front, so that no two are taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import run_json
from kit.folder import tidy, why_not
from kit.frames import FRAMES
from kit.intake import Note
from kit.schema import Row

APART = {"pid": 10_000_000, "ppid": 10_000_000, "tid": 10_000_000, "tracer_pid": 10_000_000, "gpu": 1_000}
"""Columns that a host counts for itself, and what is added for each host before it: more than the largest pid (4,194,304) and
the largest number of GPUs."""


@dataclass(frozen=True)
class Place:
    """Where a capture of a run with several hosts was taken. The host's name is its folder in the run; numbers begin at 0."""

    host: str
    number: int
    utc_offset_s: int
    ahead_ns: int
    """What its clock is ahead of that of the first host."""
    boot_ns: int | None = None
    """When it was booted, by its own clock."""

    def put(self, frame: str, row: Row) -> None:
        """Enter the host into a row, in place; its times and numbers become those of the run.

        Examples
        --------
        >>> row = {"time": 5_000, "pid": 7, "state": "S", "ppid": None, "tracer_pid": 0}
        >>> Place("b", 1, 0, 2_000).put("processes", row)
        >>> row
        {'time': 3000, 'pid': 10000007, 'state': 'S', 'ppid': None, 'tracer_pid': 0, 'host_name': 'b'}
        """
        columns = FRAMES[frame].by_name
        if "host_name" in columns:
            row["host_name"] = self.host
        for name, value in row.items():
            if value and name in columns and columns[name].type == "time":
                row[name] = value - self.ahead_ns
            elif name in APART and value is not None and (value or name == "gpu"):
                row[name] = value + self.number * APART[name]


def join(path: Path, manifest: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    """The manifest of a run with several hosts, from its `run.json` that lists them, in the form of a run with one.

    Captures, gaps and what is missing bear the host's name; `hosts` know their clocks. What is wrong with the manifest of a
    host is added to the notes.
    """
    joined: dict[str, Any] = {**manifest, "captures": [], "missing": list(manifest.get("missing") or []), "gaps": [], "hosts": []}
    for entry in manifest["hosts"]:
        name = entry["name"]
        if name in {known["name"] for known in joined["hosts"]}:
            continue
        why = why_not(path / name / "run.json", path)
        own, wrong = (None, []) if why else run_json.read(path / name / "run.json", f"{name}/run.json")
        notes += wrong if own is not None else []
        if own is None:
            why = why or (f"run.json {wrong[0].reason}" if wrong else "its run.json is not that of a run")
            joined["missing"].append({"what": f"the evidence of {name}", "why": why, "do": "record again"})
            continue
        tidy(path / name)
        joined["hosts"].append({**entry, "clock": own.get("clock") or {}, "utc_offset_s": own.get("utc_offset_s") or 0})
        joined["captures"] += [{**one, "file": f"{name}/{one['file']}", "host": name} for one in own.get("captures") or []]
        joined["missing"] += [{**one, "what": f"{name}: {one['what']}"} for one in own.get("missing") or []]
        joined["gaps"] += [{**one, "host": name} for one in own.get("gaps") or []]
        joined["launch"] = joined.get("launch") or own.get("launch") or {}
    return joined


def places(manifest: dict[str, Any]) -> dict[str, Place]:
    """Place by host of a joined manifest; empty for a run with one host.

    Examples
    --------
    >>> hosts = [{"name": "a", "clock": {"offset_ns": 5}}, {"name": "b", "clock": {"offset_ns": 7}, "utc_offset_s": 3600}]
    >>> places({"hosts": hosts})["b"]
    Place(host='b', number=1, utc_offset_s=3600, ahead_ns=2, boot_ns=None)
    """
    hosts = manifest.get("hosts") or []
    clocks = [entry.get("clock") or {} for entry in hosts]
    ahead = [clock.get("offset_ns") or 0 for clock in clocks]
    return {
        entry["name"]: Place(entry["name"], n, entry.get("utc_offset_s") or 0, ahead[n] - ahead[0], clocks[n].get("boot_ns"))
        for n, entry in enumerate(hosts)
    }
