"""Options that are written once, as fields with their help: command lines and the façade's keywords follow from them."""

from __future__ import annotations

import argparse
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from textwrap import wrap
from typing import Any, TypeVar

from kit.errors import UsageError

T = TypeVar("T")
STRACE_AT_S = 2.0
"""Some samples come first: strace changes states (t) and rates, and what was before it must be known."""
LONGEST_S = 7 * 86400.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|m|min|h)?\Z")
_UNITS_S = {"ms": 0.001, None: 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Read a duration: `30s`, `2m`, `1.5`.

    Examples
    --------
    >>> [duration(text) for text in ("30s", "2m", "1.5")]
    [30.0, 120.0, 1.5]
    """
    match = _DURATION.match(text.strip())
    if not match:
        raise UsageError(f"invalid duration {text!r}", "expected a number followed by s, m or h", "for example: --for 30s")
    return float(match.group(1)) * _UNITS_S[match.group(2)]


def option(default: Any, help: str, flag: str = "", choices: Sequence[str] = (), **more: Any) -> Any:
    """A field that is an option too.

    `default`: a flag without a value where it is False. `help`: its meaning, for `--help` and for the docs of every function that
    takes it. `flag`: name on the command line, where it is not the field's. `**more`: `metavar`, `type`, as argparse takes them.
    """
    return field(default=default, metadata={"help": help, "flag": flag, "choices": choices, **more})


def add_options(parser: argparse.ArgumentParser, kind: type) -> None:
    """Add the options of a class to a command line."""
    for entry in _options(kind):
        about = {key: value for key, value in entry.metadata.items() if key not in ("flag", "choices") and value}
        if entry.default is False:
            parser.add_argument(_flag(entry), dest=entry.name, action="store_true", help=entry.metadata["help"])
        else:
            parser.add_argument(
                _flag(entry), dest=entry.name, default=entry.default, choices=entry.metadata["choices"] or None, **about
            )


def from_arguments(kind: type[T], args: argparse.Namespace) -> T:
    """The object that a command line describes; times may be written as `30s`, `2m`."""
    return kind(**{entry.name: getattr(args, entry.name) for entry in _options(kind)})


def _options(kind: type) -> list[Field]:
    return [entry for entry in fields(kind) if entry.metadata]


def _flag(entry: Field) -> str:
    return "--" + (entry.metadata["flag"] or entry.name.replace("_", "-"))


def takes(**kinds: type) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Let a function take the fields of option classes as keywords: they are made into one object each at the door.

    The function itself has a parameter for each object (`options`, `connection`), which may be given whole too. Signature and
    docstring name the keywords: the line `{fields}` stands for their help.

    Examples
    --------
    >>> @takes(connection=Connection)
    ... def reach(host: str, *, connection: Connection):
    ...     return connection
    >>> reach("a", sudo=True).sudo, str(inspect.signature(reach))
    (True, "(host: 'str', *, transport: 'str' = 'paramiko', accept_new: 'bool' = False, sudo: 'bool' = False)")
    """

    def wrap_function(function: Callable[..., T]) -> Callable[..., T]:
        signature = inspect.signature(function)
        shown = {name: [entry for entry in fields(kind) if entry.metadata] for name, kind in kinds.items()}

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> T:
            for name, kind in kinds.items():
                chosen = {entry.name: given.pop(entry.name) for entry in fields(kind) if entry.name in given}
                whole = given.get(name)
                given[name] = replace(whole, **chosen) if whole is not None else kind(**chosen)
            return function(*args, **given)

        keywords = [
            inspect.Parameter(entry.name, inspect.Parameter.KEYWORD_ONLY, default=entry.default, annotation=entry.type)
            for entries in shown.values()
            for entry in entries
            if entry.default is not MISSING
        ]
        kept = [parameter for name, parameter in signature.parameters.items() if name not in kinds]
        at = next((n for n, p in enumerate(kept) if p.kind == inspect.Parameter.VAR_KEYWORD), len(kept))
        call.__signature__ = signature.replace(parameters=[*kept[:at], *keywords, *kept[at:]])  # type: ignore[attr-defined]
        call.__doc__ = (function.__doc__ or "").replace(
            "    {fields}\n", "".join(_documented(e) for s in shown.values() for e in s)
        )
        return call

    return wrap_function


def _documented(entry: Field) -> str:
    """Lines about one keyword in a NumPy docstring."""
    lines = wrap(entry.metadata["help"][:1].upper() + entry.metadata["help"][1:] + ".", 116)
    return f"    {entry.name} : {str(entry.type).replace(' | None', ', optional')}\n" + "".join(
        f"        {line}\n" for line in lines
    )


@dataclass(frozen=True)
class Connection:
    """How a host is reached.

    Examples
    --------
    >>> Connection(transport="telnet")
    Traceback (most recent call last):
    kit.errors.UsageError: unknown transport 'telnet': choose paramiko or openssh. Leave it out for the default, paramiko
    """

    transport: str = option(
        "paramiko",
        "paramiko, or openssh for what only the ssh program does: keys on tokens, GSSAPI, Match exec",
        choices=("paramiko", "openssh"),
    )
    accept_new: bool = option(False, "accept the key of an unknown host and show its fingerprint")
    sudo: bool = option(False, "run everything there as root, by sudo")
    ask: Callable[[str], str] | None = None
    """Asks for a password or passphrase with its argument as the prompt; getpass by default. Never taken from an option."""
    say: Callable[[str], None] | None = None
    """Shows a line to the user; standard error by default."""
    config: Any = None
    """Path of an ssh configuration, instead of the user's and the system's; `known_hosts` alike."""
    known_hosts: Any = None

    def __post_init__(self) -> None:
        if self.transport not in ("paramiko", "openssh"):
            what, why = f"unknown transport {self.transport!r}", "choose paramiko or openssh"
            raise UsageError(what, why, "leave it out for the default, paramiko")


@dataclass(frozen=True)
class Options:
    """What a recording takes, and for how long. Times are seconds, or text as `30s`, `2m`.

    Raises
    ------
    UsageError
        Where a time is out of range.

    Examples
    --------
    >>> Options(duration_s=1, strace_s=2).whole_s, Options(duration_s="2m").duration_s
    (5.0, 120.0)
    """

    duration_s: float = option(30.0, "how long to record, in seconds or as 30s, 2m (default 30s)", "for", metavar="TIME")
    interval_s: float = option(1.0, "time between samples (default 1s)", "interval", metavar="TIME")
    strace_s: float | None = option(
        None, "trace system calls for so long; slows the launch while it lasts", "strace", metavar="TIME"
    )
    strace_pid: int | None = option(None, "trace this process only, with all its threads", metavar="PID", type=int)
    py_spy: bool = option(False, "dump the Python stacks at the beginning and at the end")
    gdb: bool = option(False, "dump the C stacks at the beginning and at the end; stops the launch for some seconds")
    smaps_rollup: bool = option(False, "read memory by mapping at the beginning; slow where memory is large")
    probe_generate: bool = option(False, "ask the server for one token at the end")

    def __post_init__(self) -> None:
        for name in ("duration_s", "interval_s", "strace_s"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = duration(value)
                object.__setattr__(self, name, value)
            if value is not None and not 0 < value < LONGEST_S:
                why = "it must be above 0 s and below 7 days"
                raise UsageError(f"invalid {name.removesuffix('_s')} {value:g} s", why, "for example: --for 30s")

    @property
    def whole_s(self) -> float:
        """Duration in seconds, the time for strace included."""
        return max(self.duration_s, self.strace_s + STRACE_AT_S + 1.0 if self.strace_s else 0.0)
