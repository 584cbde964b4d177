"""The table of tools, `kit/knowledge/tools.toml`: the programs that are run where a launch is. Its head says what each key means.

Capture runs them from here and a dry run prints them from here, the verdict recommends them, and parsers know their output.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kit.knowledge_paths import entries, folders, load
from kit.tomlfile import Table, TomlFile

STEP_KEYS = frozenset("why cost_s consent have twice pause_s on first when unless urgent signs".split())
"""Keys of captures.toml that may stand in a row of a tool."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MARKED = ("accelerator", "system", "orchestrator")
_TUPLES = frozenset(("command", "fallback", "look", "devices", "servers"))


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One program and how it is called. The attributes are the keys of tools.toml."""

    name: str
    what: str
    command: tuple[str, ...]
    more: tuple[tuple[str, ...], ...] = ()
    fallback: tuple[str, ...] = ()
    typed: str = ""
    kind: str = ""
    module: str = ""
    program: str = ""
    system: str = "linux"
    accelerator: str | None = None
    devices: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    file: str = ""
    ending: str = "txt"
    limit_s: float = 5.0
    look: tuple[str, ...] = ()
    sample: bool = False
    each: bool = False
    keep: str | int = ""
    option: str = ""
    allow: str = ""
    needs: str = "any user"
    price: str = "milliseconds"
    joined: bool = False
    only: str = ""
    path: str = ""
    get: str = ""
    s_per_gb: float = 0.0
    cost_s: float = 0.01
    step: dict[str, Any] = field(default_factory=dict)

    @property
    def how_to_get(self) -> str:
        """What installs it."""
        return self.get or f"install it there: apt-get install {self.program}, dnf install {self.program}"

    def words(self, command: tuple[str, ...] = (), /, **values: object) -> list[str]:
        """The command with its placeholders filled in; a word that stands for a list becomes several.

        Examples
        --------
        >>> tool("du").words(folders=["/a", "/b"])
        ['du', '-sk', '/a', '/b']
        >>> tool("pyspy").words(pid=7)
        ['py-spy', 'dump', '--nonblocking', '--pid', '7']
        """
        filled: list[str] = []
        for word in command or self.command:
            whole = _PLACEHOLDER.fullmatch(word)
            value = values.get(whole[1]) if whole else None
            if isinstance(value, list):
                filled += map(str, value)
            else:
                filled.append(_PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[1].upper())), word))
        return filled

    def capture_file(self, number: int | None = None, pid: int | None = None) -> str:
        """Name of a capture: of its process, with the number of its moment.

        Examples
        --------
        >>> tool("gdb").capture_file(0, 7), tool("kernel").capture_file()
        ('gdb.pid7.t0.txt', 'dmesg.txt')
        """
        parts = [self.file, *([f"pid{pid}"] if pid is not None else []), *([f"t{number}"] if number is not None else [])]
        return ".".join([*parts, self.ending])

    def as_typed(self, pause_s: float = 0.0, **values: object) -> str:
        """The command as a person types it in a shell, with its output in a file; twice with a pause where one is given.

        Examples
        --------
        >>> tool("pyspy").as_typed(pids="7 8")
        'for p in 7 8; do py-spy dump --nonblocking --pid $p; done > pyspy.txt'
        >>> tool("pyspy").as_typed(pids="7")
        'py-spy dump --nonblocking --pid 7 > pyspy.txt'
        >>> tool("rocm_smi").as_typed(20)
        'rocm-smi > rocm-smi.t0.txt; sleep 20; rocm-smi > rocm-smi.t1.txt'
        """
        if self.typed:
            line = filled(self.typed, values)
            if not pause_s:
                return line
        elif self.each:
            command, pids = shlex.join(self.words(pid="PID")), str(values.get("pids", "PIDS"))
            one = pids.isdecimal()
            line = command.replace("PID", pids) if one else f"for p in {pids}; do {command.replace('PID', '$p')}; done"
        else:
            line = shlex.join(self.words(**values))
        files = [self.capture_file(0), self.capture_file(1)] if pause_s else [self.capture_file()]
        return f"; sleep {pause_s:g}; ".join(f"{line} > {name}" for name in files)

    @classmethod
    def read(cls, table: Table) -> Tool:
        """One row of the file."""
        known = {entry.name for entry in fields(cls)} - {"step"}
        table.known(known | STEP_KEYS)
        for key in ("name", "what"):
            table.text(key, needed=True)
        values = table.values
        if not isinstance(values.get("command"), list) or not values["command"]:
            raise table.error("command", "it is missing, or not a list of words")
        chosen = {key: tuple(value) if key in _TUPLES else value for key, value in values.items() if key in known}
        chosen["more"] = tuple(tuple(command) for command in values.get("more", ()))
        step = {key: values[key] for key in STEP_KEYS & values.keys()} if "signs" in values else {}
        name = values["name"]
        return cls(**{"kind": name, "file": name.replace("_", "-"), "program": values["command"][0], **chosen, "step": step})


@dataclass(frozen=True)
class Role:
    """What a process is for: what tells it, and what `ready` and `progress` mean for it."""

    name: str
    marks: re.Pattern[str]
    says: str
    generates: bool
    portless: bool

    @classmethod
    def read(cls, row: Table) -> Role:
        """One [[role]]."""
        row.known(("name", "marks", "says", "generates", "portless"))
        name, says = (row.text(key, needed=True) or "" for key in ("name", "says"))
        marks = row.expression("marks", row.values.get("marks"))
        return cls(name, marks, says, bool(row.values.get("generates", True)), row.flag("portless"))


@dataclass(frozen=True)
class ToolTable:
    """All rows: the packaged ones, then those of the user's folders, which replace rows of the same name."""

    tools: dict[str, Tool]
    helpers: tuple[str, ...]
    paths: tuple[str, ...]
    accelerators: dict[str, re.Pattern[str]]
    systems: dict[str, re.Pattern[str]]
    orchestrators: dict[str, re.Pattern[str]]
    native: tuple[str, ...]
    trainers: tuple[str, ...]
    roles: tuple[Role, ...]
    finders: dict[str, str]
    launches: dict[str, str]

    @property
    def programs(self) -> list[str]:
        """Programs that a host is asked for."""
        return sorted({*self.helpers, *(tool.program for tool in self.tools.values())})

    def looked_at(self, moment: str, system: str = "linux") -> list[Tool]:
        """Tools that a recording runs at its `begin` or `end`; those with an `option` only where it is given."""
        return [tool for tool in self.tools.values() if moment in tool.look and tool.system == system]

    def sampled(self) -> list[Tool]:
        """Tools that the sampler runs."""
        return [tool for tool in self.tools.values() if tool.sample]

    def kind_of(self, program: str) -> str | None:
        """Format of what a program of the sampler prints."""
        return next((tool.kind for tool in self.tools.values() if tool.program == program), None)

    def allowed(self) -> list[str]:
        """Words of `--allow`."""
        return sorted({tool.allow for tool in self.tools.values() if tool.allow})


def table(knowledge: Sequence[Path] | None = None) -> ToolTable:
    """The table with the rows of the user's folders, by default those of `KIT_KNOWLEDGE`."""
    return load("tools", _read, folders() if knowledge is None else knowledge)


def _read(files: list[TomlFile]) -> ToolTable:
    for file in files:
        file.top.known(("tool", *_MARKED, "helpers", "paths", "native", "trainers", "role", "finders", "launches"))
    rows = [Tool.read(row) for row in entries(files, "tool")]
    marks = {
        kind: {
            row.text("name", needed=True) or "": row.expression("marks", row.values.get("marks")) for row in entries(files, kind)
        }
        for kind in _MARKED
    }
    packaged = files[-1].top
    return ToolTable(
        tools={row.name: row for row in rows},
        helpers=tuple(word for file in files for word in file.top.strings("helpers")),
        paths=tuple(word for file in files for word in file.top.strings("paths")),
        accelerators=marks["accelerator"],
        systems=marks["system"],
        orchestrators=marks["orchestrator"],
        native=packaged.strings("native"),
        trainers=packaged.strings("trainers"),
        roles=tuple(map(Role.read, entries(files, "role"))),
        finders=packaged.names("finders"),
        launches=packaged.names("launches"),
    )


def tool(name: str) -> Tool:
    """One row by its name."""
    return table().tools[name]


def steps(knowledge: Sequence[Path] | None = None) -> list[dict[str, Any]]:
    """What can be collected next: the entries of captures.toml, and the tools that say what signs they give.

    Keys are as captures.toml explains them; `tools` are the rows that take it, of which the host's accelerator decides.
    """
    return _steps(table(knowledge), load("captures", _captures, folders() if knowledge is None else knowledge))


def _captures(files: list[TomlFile]) -> list[dict[str, Any]]:
    return [row.values for row in entries(files, "capture")]


def _steps(known: ToolTable, captures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for entry in [*captures, *({"name": row.what, "tool": row.name, **row.step} for row in known.tools.values() if row.step)]:
        names = entry.get("tool", [])
        rows = [known.tools[name] for name in ([names] if isinstance(names, str) else names)]
        from_tool = {"cost_s": rows[0].cost_s, "consent": bool(rows[0].allow)} if rows else {}
        found.append({"have": [], **from_tool, **entry, "tools": rows})
    return found


def filled(text: str, names: Mapping[str, object]) -> str:
    """A text with its placeholders filled in; what stands for one may hold others. One that nothing fills is written large.

    Examples
    --------
    >>> filled("kill -CONT {pid}", {"pid": "$(pgrep -of '{launch}')", "launch": "vllm"})
    "kill -CONT $(pgrep -of 'vllm')"
    """
    for _ in range(3):
        text = _PLACEHOLDER.sub(lambda match: str(names.get(match[1], match[0])), text)
    return _PLACEHOLDER.sub(lambda match: match[1].upper(), text)


def step_command(step: dict[str, Any], row: Tool | None, **values: object) -> str:
    """The command of a step as a person types it: its own, or that of the row of the table that takes it here.

    Examples
    --------
    >>> gpus = next(step for step in steps() if step["name"].startswith("GPU state"))
    >>> step_command(gpus, tool("amd_smi"))
    'amd-smi monitor > amd-smi.txt'
    """
    if "command" in step:
        return filled(step["command"], values)
    assert row is not None, "a step without a command of its own has a tool"
    return row.as_typed(step.get("pause_s", 0.0), limit=f"{row.limit_s:g}", path=row.path, **values)
