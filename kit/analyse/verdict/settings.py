"""Settings of a launch: options, what the server printed, environment, versions and devices; and where two launches differ."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.options import Launch, canonical, command_line, exported, printed_arguments, unlikely
from kit.parse.sampler_rows import NOT_RECORDED
from kit.redact import scrub_text, secret_name

KERNEL = ("kernel", "release", None)
"""What uname's rows call the version of the kernel; the others are the machine, its CPUs, a name space."""
COMMAND, PRINTED, ENVIRONMENT, VERSIONS = "command line", "printed arguments", "environment", "versions"
SECRET, ONLY_SET = "[secret]", "set, its value was not recorded"
IN_USE = "attention backend in use"
_PRINTING = ("args", "args_end", "banner", "engine_config")
"""Milestones that hold launch arguments; their code is the same in every grammar."""
_NOT_ARGUMENTS = frozenset(("start", "version", "version_2", "version_3"))


@dataclass
class Settings:
    """Settings of one launch, by source."""

    server: str | None  # what was launched: as its log shows, else as its command does
    values: dict[str, dict[str, Any]] = field(default_factory=dict)  # by source: values by canonical name
    launch: Launch | None = field(default=None, repr=False)  # the command that started it, as typed

    def of(self, source: str) -> dict[str, Any]:
        """Values of one source; empty where nothing was recorded."""
        return self.values.get(source) or {}

    @property
    def options(self) -> dict[str, Any]:
        """Options as given, filled up with what the server printed."""
        return {**self.of(PRINTED), **self.of(COMMAND)}


@dataclass
class Setting:
    """One setting in several launches."""

    name: str
    values: list[str | None]  # a value a launch; None: not given and not printed, so the default of that version
    known: list[bool]  # whether the value, default or not, is known well enough to be held against another
    source: str
    unlikely: str | None  # why it hardly explains a stalled launch

    @property
    def same(self) -> bool | None:
        """Whether all launches have the same value; None where too few are known."""
        found = {value for value, known in zip(self.values, self.known, strict=True) if known}
        return False if len(found) > 1 else True if all(self.known) else None


def settings_of(evidence: Evidence) -> Settings:
    """Gather the settings of a launch.

    Values of options and variables whose names are those of secrets are not kept.

    Examples
    --------
    >>> import kit
    >>> from kit.analyse.verdict.evidence import gather
    >>> found = settings_of(gather(kit.sample("sg01-capture-hang")))
    >>> found.server, found.of("command line")["attention_backend"], found.of("versions")["GPU"]
    ('sglang', 'flashinfer', '8 × NVIDIA RTX PRO 6000 Blackwell Server Edition')
    """
    launch = _launch(evidence)
    server = evidence.log.server or (launch.server if launch else None)
    found = Settings(server, launch=launch)
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
        for key, name in (("nccl_version", "NCCL"), ("attention_backend", IN_USE)):
            if mark.fields.get(key) and mark.code == key:
                found[name] = str(mark.fields[key])
    names = {row["gpu"]: row["name"] for row in evidence.gpus if row.get("name")}
    counted = sorted(Counter(names.values()).items())
    if counted:
        found["GPU"] = ", ".join(f"{count} × {name}" for name, count in counted)
    for row in evidence.host:
        if row.get("value") and (row["source"] == "versions" or row["source"] == "uname" and row.get("key") in KERNEL):
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


def direct(source: str, name: str) -> bool:
    """Whether a setting is one that somebody chose or a host has; what a server printed may follow from those.

    Examples
    --------
    >>> direct("command line", "enforce_eager"), direct("printed arguments", "compilation_config.mode")
    (True, False)
    """
    return source != PRINTED and name != IN_USE


def differences(*launches: Settings) -> list[Setting]:
    """Hold the settings of launches against each other.

    Those that differ come first: chosen ones, then what only the server printed, then unlikely causes; after them those of
    which too few are known, then equal ones.

    Examples
    --------
    >>> a = Settings("vllm", {"command line": {"tp_size": 8, "port": 8000}, "printed arguments": {"load_format": "auto"}})
    >>> b = Settings("vllm", {"command line": {"tp_size": 4, "port": 8001, "load_format": "dummy"}})
    >>> [(found.name, *found.values, found.unlikely) for found in differences(a, b)]
    [('load_format', 'auto', 'dummy', None), ('tp_size', '8', '4', None), ('port', '8000', '8001', 'an address')]
    """
    found = _options(launches)
    for source in (ENVIRONMENT, VERSIONS):
        for name in sorted(set().union(*(one.of(source) for one in launches))):
            values = [one.of(source).get(name) for one in launches]
            if all(value == NOT_RECORDED for value in values):
                continue
            known = [
                value is not None or source == ENVIRONMENT and bool(one.of(source))
                for value, one in zip(values, launches, strict=True)
            ]
            why = unlikely(name, "environment") if source == ENVIRONMENT else None
            found.append(_setting(name, values, known, source, why))
    order = {False: 0, None: 3, True: 4}

    def rank(one: Setting) -> tuple[int, str]:
        first = 2 if one.same is False and one.unlikely else 1 if one.same is False and not direct(one.source, one.name) else 0
        return order[one.same] + first, one.name.lower()

    return sorted(found, key=rank)


def _options(launches: tuple[Settings, ...]) -> list[Setting]:
    found = []
    comparable = len({one.server for one in launches}) == len({one.of(VERSIONS).get("server version") for one in launches}) == 1
    for name in set().union(*(one.options for one in launches)):
        given = any(name in one.of(COMMAND) for one in launches)
        asked = any(one.options.get(name) is not None for one in launches)
        known = [
            name in one.options
            or asked
            and bool(one.of(COMMAND) or one.of(PRINTED))
            and (given or bool(one.of(PRINTED)) and comparable)
            for one in launches
        ]  # what one launch alone printed is no default of the other's: versions print other names
        values = [
            (one.options[name] if one.options[name] is not None else "None") if name in one.options else None for one in launches
        ]
        found.append(_setting(name, values, known, COMMAND if given else PRINTED, unlikely(name, "option")))
    return found


def _setting(name: str, values: list, known: list[bool], source: str, why: str | None) -> Setting:
    """A setting as text; one whose value is hidden is known only beside launches that do not have it."""
    several = sum(value is not None for value in values) > 1
    known = [
        is_known and not (several and value in (SECRET, NOT_RECORDED)) for value, is_known in zip(values, known, strict=True)
    ]
    return Setting(name, [_text(value) for value in values], known, source, why)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return ONLY_SET if value == NOT_RECORDED else scrub_text(str(value))
