"""Settings of a launch: options, what the server printed, environment, versions and devices; and where two launches differ."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kit.analyse.evidence import Evidence
from kit.analyse.options import Launch, canonical, command_line, exported, printed_arguments, unlikely
from kit.parse.sampler import NOT_RECORDED
from kit.redact import scrub_text, secret_name

COMMAND, PRINTED, ENVIRONMENT, VERSIONS = "command line", "printed arguments", "environment", "versions"
SECRET, ONLY_SET = "[secret]", "set, its value was not recorded"
_PRINTING = ("args", "args_end", "banner", "engine_config")
"""Milestones that hold launch arguments; their code is the same in every grammar."""
_NOT_ARGUMENTS = frozenset(("start", "version", "version_2", "version_3"))


@dataclass
class Settings:
    """Settings of one launch, by source.

    Attributes
    ----------
    server : str or None
        What was launched: as its log shows, else as its command does.
    values : dict of str to dict
        By source: values by canonical name.
    """

    server: str | None
    values: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, source: str) -> dict[str, Any]:
        """Values of one source; empty where nothing was recorded."""
        return self.values.get(source) or {}

    @property
    def options(self) -> dict[str, Any]:
        """Options as given, filled up with what the server printed."""
        return {**self.of(PRINTED), **self.of(COMMAND)}


@dataclass
class Difference:
    """One setting in two launches.

    Attributes
    ----------
    name, source : str
    a, b : str or None
        None: not given and not printed, so the default of that version.
    same : bool or None
        None: one of the two is not known.
    unlikely : str or None
        Why it hardly explains a stalled launch.
    """

    name: str
    a: str | None
    b: str | None
    source: str
    same: bool | None
    unlikely: str | None


def settings_of(evidence: Evidence) -> Settings:
    """Gather the settings of a launch.

    Parameters
    ----------
    evidence : Evidence

    Returns
    -------
    Settings
        Values of options and variables whose names are those of secrets are not kept.

    Examples
    --------
    >>> import kit
    >>> from kit.analyse.evidence import gather
    >>> found = settings_of(gather(kit.sample("sg01-capture-hang")))
    >>> found.server, found.of("command line")["attention_backend"], found.of("versions")["GPU"]
    ('sglang', 'flashinfer', '8 × NVIDIA RTX PRO 6000 Blackwell Server Edition')
    """
    launch = _launch(evidence)
    server = evidence.log.server or (launch.server if launch else None)
    found = Settings(server)
    found.values[COMMAND] = launch.options if launch else {}
    found.values[PRINTED] = _printed(evidence, server)
    found.values[ENVIRONMENT] = _environment(evidence, launch)
    found.values[VERSIONS] = _versions(evidence, launch)
    for values in found.values.values():
        for name in values:
            if secret_name(name) and values[name] is not None:
                values[name] = SECRET
    return found


def _launch(evidence: Evidence) -> Launch | None:
    """The command that started the server: as the manifest has it, else of a script, else of a process."""
    typed = (evidence.run.manifest.get("launch") or {}).get("command") or []
    texts = [shlex.join(typed) if isinstance(typed, list) else str(typed)]
    texts += [row["text"] for row in evidence.commands]
    texts += [
        row["cmdline"] for row in sorted(evidence.processes, key=lambda row: row["pid"]) if " -" in (row.get("cmdline") or "")
    ]
    launches = [launch for text in texts if (launch := command_line(text))]
    own = [launch for launch in launches if launch.server == evidence.log.server]
    return next(iter(own or launches), None)


def _printed(evidence: Evidence, server: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for mark in evidence.log.of(*_PRINTING):
        found |= printed_arguments(mark.text, server)
        for name, value in mark.fields.items():
            if name not in _NOT_ARGUMENTS:
                found.setdefault(canonical(name, server), value)
    return found


def _environment(evidence: Evidence, launch: Launch | None) -> dict[str, str]:
    """Variables of the launched process where they were recorded, and those that scripts and commands set."""
    rows = [row for row in evidence.host if row["source"] == "environ" and row.get("key")]
    root = (evidence.run.manifest.get("launch") or {}).get("pid")
    pids = [row["pid"] for row in rows]
    root = root if root in pids else next(iter(pids), None)
    found = {str(name): str(value) for name, value in _manifest_environment(evidence).items()}
    for row in evidence.commands:
        found |= exported(row["text"])
    found |= launch.environment if launch else {}
    return {**found, **{row["key"]: row["value"] for row in rows if row["pid"] == root}}


def _manifest_environment(evidence: Evidence) -> dict:
    given = (evidence.run.manifest.get("launch") or {}).get("environ")
    return given if isinstance(given, dict) else {}


def _versions(evidence: Evidence, launch: Launch | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for mark in evidence.log.marks:
        version = next((mark.fields[key] for key in ("version", "version_2", "version_3") if mark.fields.get(key)), None)
        if mark.code in _PRINTING and version:
            found["server version"] = str(version)
        for key, name in (("nccl_version", "NCCL"), ("attention_backend", "attention backend in use")):
            if mark.fields.get(key) and mark.code == key:
                found[name] = str(mark.fields[key])
    names = {row["gpu"]: row["name"] for row in evidence.gpus if row.get("name")}
    counted = sorted(Counter(names.values()).items())
    if counted:
        found["GPU"] = ", ".join(f"{count} × {name}" for name, count in counted)
    for row in evidence.host:
        if row["source"] in ("versions", "uname") and row.get("value"):
            found[_version_name(row)] = row["value"]
    if launch and launch.image:
        found["container image"] = launch.image
    return found


def _version_name(row: dict) -> str:
    return (
        "kernel"
        if row["source"] == "uname"
        else {"driver": "GPU driver", "cuda": "CUDA"}.get(row.get("key") or "", row.get("key") or "version")
    )


def differences(a: Settings, b: Settings) -> list[Difference]:
    """Hold the settings of two launches against each other.

    Returns
    -------
    list of Difference
        Those that differ first, unlikely causes after likely ones, then those of which one side is not known, then equal ones.

    Examples
    --------
    >>> a = Settings("vllm", {"command line": {"tp_size": 8, "port": 8000}, "printed arguments": {"load_format": "auto"}})
    >>> b = Settings("vllm", {"command line": {"tp_size": 4, "port": 8001, "load_format": "dummy"}})
    >>> [(found.name, found.a, found.b, found.unlikely) for found in differences(a, b)]
    [('load_format', 'auto', 'dummy', None), ('tp_size', '8', '4', None), ('port', '8000', '8001', 'an address')]
    """
    found = _options(a, b)
    for source in (ENVIRONMENT, VERSIONS):
        for name in sorted(a.of(source).keys() | b.of(source).keys()):
            sides = [side.of(source).get(name) for side in (a, b)]
            if sides == [NOT_RECORDED, NOT_RECORDED]:
                continue
            known = source == ENVIRONMENT and bool(a.of(source)) and bool(b.of(source)) or None not in sides
            same = None if not known or SECRET in sides and None not in sides else sides[0] == sides[1]
            why = unlikely(name, "environment") if source == ENVIRONMENT else None
            found.append(Difference(name, _text(sides[0]), _text(sides[1]), source, same, why))
    order = {False: 0, None: 2, True: 3}
    return sorted(found, key=lambda one: (order[one.same] + (one.same is False and one.unlikely is not None), one.name.lower()))


def _options(a: Settings, b: Settings) -> list[Difference]:
    found = []
    for name in a.options.keys() | b.options.keys():
        given = name in a.of(COMMAND) or name in b.of(COMMAND)
        present = [name in side.options for side in (a, b)]
        sides = [side.options.get(name) for side in (a, b)]
        same = sides[0] == sides[1] if all(present) else _alone(a, b, name, given)
        if SECRET in sides and all(present):
            same = None
        texts = [(_text(value) or "None") if there else None for value, there in zip(sides, present, strict=True)]
        found.append(Difference(name, texts[0], texts[1], COMMAND if given else PRINTED, same, unlikely(name, "option")))
    return found


def _alone(a: Settings, b: Settings, name: str, given: bool) -> bool | None:
    """Whether a setting that one side alone names is the same: False, or None where the other side's value is not known."""
    has, lacks = (a, b) if name in a.options else (b, a)
    if has.options[name] is None or not (lacks.of(COMMAND) or lacks.of(PRINTED)):
        return None  # nothing was asked for; or nothing is known of the other launch
    if given:
        return False
    versions = {side.of(VERSIONS).get("server version") for side in (a, b)}
    return False if lacks.of(PRINTED) and a.server == b.server and len(versions) == 1 else None  # versions print other names


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return ONLY_SET if value == NOT_RECORDED else scrub_text(str(value))
