"""Options of a launch under their canonical names: from command lines, and from the arguments that servers print.

`-tp 8`, `--tp-size 8` and `--tensor-parallel-size=8` are one setting. Which spellings mean the same stands in
the grammars ([launch]); names and values are brought to one form, so that what differs differs.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kit.parse import grammar
from kit.untrusted import load_json

FILE = Path(__file__).parents[2] / "knowledge" / "options.toml"
POWERS = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}
"""Number endings that vLLM reads (human_readable_int in its argument parser): decimal small, binary capital."""
_ENDS = re.compile(r"(?:^|\s)(?:[12&]?>{1,2}|<|\|{1,2}|&{1,2}|;)\s*|\s&&\s|;\s")
_REDIRECTS = re.compile(r"[12&]?>{1,2}.*|\|{1,2}|&+|;")
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_CONTAINER = re.compile(r"\b(?:docker|podman|nerdctl)\s+run\s+")
_CONTAINER_FLAG = re.compile(r"-[dit]+|--(?:detach|interactive|tty|rm|init|privileged|read-only|no-healthcheck|quiet)|-q|-P")
_FLAG_NAME = re.compile(r"(?:enable|disable|skip|no|use)_\w+")
_ATTACHED = re.compile(r"^(-[A-Z])(\d+)$")
_PRINTED = re.compile(r"(?:server_args=)?ServerArgs\(|server_args=\{?|Namespace\(|args:\s*\{|Args \{|with config: ")
_ITEM = re.compile(r"\s*(['\"]?)([A-Za-z_][\w.-]{0,100})\1\s*[=:]\s*(.*?)\s*$", re.DOTALL)
_NESTED = re.compile(r"(?:[A-Za-z_]\w*)?[({](.*)[)}]?$", re.DOTALL)


@dataclass
class Launch:
    """A command line, taken apart."""

    server: str  # server or launcher that it starts, by the name of its grammar
    options: dict[str, Any] = field(default_factory=dict)  # values by canonical name
    environment: dict[str, str] = field(default_factory=dict)  # variables that the command sets
    image: str | None = None  # container image
    # what stands before the options: interpreter, wrappers, container; without variables
    program: str = field(default="", repr=False)
    words: list[str] = field(default_factory=list, repr=False)  # the options as typed

    def spans(self, name: str) -> list[tuple[int, int]]:
        """Where an option stands among the words: begin and end of each time that it is given."""
        known = knowledge()["server"].get(self.server, {})
        return [
            (begin, end)
            for begin, end, own, values in _spans(self.words, self.server)
            if name in dict(_named(own, values, self.server, known))
        ]


@cache
def knowledge() -> dict:
    """What grammars say of launches, and `kit/knowledge/options.toml` of unlikely settings."""
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    data["server"] = {g.name: {**vars(g.launch)} for g in grammar.load().all if g.launch}
    for entry in [*data["unlikely"]["option"], *data["unlikely"]["environment"]]:
        entry["name"] = re.compile(entry["name"])
    return data


@cache
def aliases(server: str | None) -> dict[str, str]:
    """Canonical name by spelling, for one server."""
    printed = next((g.args for g in grammar.load().all if g.name == server), {})
    return {**printed, **knowledge()["server"].get(server, {}).get("alias", {})}


def unlikely(name: str, kind: str) -> str | None:
    """Why a setting is an unlikely cause of a stall; None where it may well be one.

    `name`: canonical name, or name of a variable. `kind`: `option` or `environment`.

    Examples
    --------
    >>> unlikely("port", "option"), unlikely("attention_backend", "option"), unlikely("HF_HOME", "environment")
    ('an address', None, 'a path')
    """
    return next((entry["why"] for entry in knowledge()["unlikely"][kind] if entry["name"].fullmatch(name)), None)


def canonical(name: str, server: str | None) -> str:
    """Canonical name of an option; of `a.b` the first part is brought to its name.

    Examples
    --------
    >>> canonical("--tensor-parallel-size", "vllm"), canonical("-tp", "vllm"), canonical("--tp", "sglang")
    ('tp_size', 'tp_size', 'tp_size')
    """
    first, dot, rest = name.lstrip("-").replace("-", "_").partition(".")
    return aliases(server).get(first, first) + dot + rest


def value_of(text: str) -> Any:
    """Bring a value to one form.

    Examples
    --------
    >>> [value_of(text) for text in ("8", "'x'", "None", "true", "0.90", "torch.bfloat16", "Some(4)", "/models/m/")]
    [8, 'x', None, True, 0.9, 'bfloat16', 4, '/models/m']
    """
    text = text.strip().rstrip(",")
    wrapped = re.fullmatch(r"Some\((.*)\)", text, re.DOTALL)
    if wrapped:
        return value_of(wrapped.group(1))
    member = re.fullmatch(r"<\w+\.(\w+): .*>", text)
    if member:
        return member.group(1)
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return _path(text[1:-1])  # a number in quotes is a text
    if text in ("None", "null"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?", text):
        return float(text)
    return _path(text.removeprefix("torch."))


def _path(text: str) -> str:
    return text.rstrip("/") if len(text) > 1 and text.startswith("/") else text


def command_line(text: str) -> Launch | None:
    """Take a command line apart.

    `text`: the command as typed, or its words joined; environment, wrappers, container, redirections may stand around it. Returns
    None where it starts no server and no launcher that a grammar knows.

    Examples
    --------
    >>> command_line("NCCL_DEBUG=INFO vllm serve org/m -tp 8 --max-model-len=32k --no-enable-prefix-caching > a.log")
    ... # doctest: +NORMALIZE_WHITESPACE
    Launch(server='vllm', options={'model': 'org/m', 'tp_size': 8, 'max_model_len': 32000, 'enable_prefix_caching': False},
           environment={'NCCL_DEBUG': 'INFO'}, image=None)
    """
    container = _CONTAINER.search(text)
    if container:
        return _container(words_of(text[container.end() :]))
    for server, known in knowledge()["server"].items():
        found = known["command"].search(text)
        if found:
            before = _ENDS.split(text[: found.start()])[-1]
            words = words_of(_ENDS.split(text[found.end() :])[0])
            program = shlex.join(word for word in words_of(before + found.group()) if not _ASSIGNS.fullmatch(word))
            return Launch(server, dict(_options(words, server)), _assignments(words_of(before)), None, program, words)
    return None


def words_of(text: str) -> list[str]:
    """Words of a command line; one whose quotes do not match is split at blanks."""
    try:
        return shlex.split(text, comments=False)
    except ValueError:
        return text.split()


def _assignments(words: list[str]) -> dict[str, str]:
    return {found.group(1): found.group(2) for word in words if (found := _ASSIGNS.fullmatch(word))}


def exported(text: str) -> dict[str, str]:
    """Variables that an `export` line sets.

    Examples
    --------
    >>> exported("export NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1")
    {'NCCL_DEBUG': 'INFO', 'NCCL_P2P_DISABLE': '1'}
    """
    words = words_of(_ENDS.split(text)[0])
    return _assignments(words[1:]) if words[:1] == ["export"] else {}


def _container(words: list[str]) -> Launch | None:
    """Options of the container's own, its image, and the server within."""
    given = words[:]
    own: dict[str, Any] = {}
    environment: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if _CONTAINER_FLAG.fullmatch(word):
            continue
        name, equals, value = word.partition("=")
        value = value if equals or not words else words.pop(0)
        if name in ("-e", "--env"):
            environment |= _assignments([value])
        elif name in (
            "--gpus",
            "--shm-size",
            "--ipc",
            "--network",
            "--net",
            "--ulimit",
            "--cpus",
            "--memory",
            "-m",
            "--runtime",
            "--cap-add",
        ):
            own["container." + name.lstrip("-").replace("-", "_").replace("network", "net")] = value
    if not words:
        return None
    until = next((at for at, word in enumerate(words) if _REDIRECTS.fullmatch(word)), len(words))
    image, words, until = words[0], words[1:until], len(given) - len(words)
    program = shlex.join(["docker", "run", *given[: until + 1]])
    inner = command_line(shlex.join(words))
    if inner is None:
        server = next((name for name, known in knowledge()["server"].items() if known["image"].search(image)), None)
        if server is None:
            return None
        inner = Launch(server, dict(_options(words, server)), words=words)
    program = f"{program} {inner.program}".rstrip()
    return Launch(inner.server, inner.options | own, environment | inner.environment, image, program, inner.words)


def with_option_of(base: Launch, donor: Launch, name: str) -> str | None:
    """The command of one launch with one option, or one variable, as another launch has it.

    `base`, `donor`: launches of the same server. `name`: canonical name of an option, or name of a variable that either command
    sets. Returns None where neither command names it.

    Examples
    --------
    >>> stuck = command_line("NCCL_DEBUG=INFO vllm serve org/m -tp 8 --enforce-eager --port 8000")
    >>> fine = command_line("vllm serve org/m --tensor-parallel-size=4 --port 8001")
    >>> with_option_of(stuck, fine, "tp_size")
    'NCCL_DEBUG=INFO vllm serve org/m --tensor-parallel-size=4 --enforce-eager --port 8000'
    >>> with_option_of(stuck, fine, "enforce_eager")
    'NCCL_DEBUG=INFO vllm serve org/m -tp 8 --port 8000'
    """
    words, environment = base.words[:], dict(base.environment)
    own, wanted = base.spans(name), donor.spans(name)
    if own or wanted:
        at = own[0][0] if own else len(words)
        for begin, end in reversed(own):
            del words[begin:end]
        words[at:at] = donor.words[slice(*wanted[-1])] if wanted else []
    elif base.image is None and name in environment.keys() | donor.environment.keys():
        environment.pop(name, None)
        environment |= {name: donor.environment[name]} if name in donor.environment else {}
    else:
        return None
    assigned = [f"{key}={shlex.quote(value)}" for key, value in environment.items()] if base.image is None else []
    return " ".join([*assigned, base.program, shlex.join(words)]).rstrip()


def _options(words: list[str], server: str) -> Iterator[tuple[str, Any]]:
    """Canonical names and values of the options among the words after a program."""
    known = knowledge()["server"].get(server, {})
    for _, _, name, values in _spans(words, server):
        yield from _named(name, values, server, known)


def _spans(words: list[str], server: str) -> Iterator[tuple[int, int, str, list[str]]]:
    """Options among the words after a program: begin, end, name, values as typed."""
    known = knowledge()["server"].get(server, {})
    positional = known.get("positional")
    at = 0
    while at < len(words):
        begin, word = at, words[at]
        at += 1
        if not _is_option(word):
            if positional and not word.startswith("-"):
                yield begin, at, positional, [word]
                positional = None
            continue
        spelled, equals, given = (_ATTACHED.sub(r"\1=\2", word)).partition("=")
        name = canonical(spelled, server)
        values = [given] if equals else []
        if not equals:
            flag = name in known.get("flags", ()) or _FLAG_NAME.match(name.partition(".")[0])
            most = 1 if positional else len(words)  # the word after the value may be the model or the script
            while at < len(words) and len(values) < most and not _is_option(words[at]):
                if flag and words[at].lower() not in ("true", "false"):
                    break
                values.append(words[at])
                at += 1
        yield begin, at, name, values


def _named(name: str, values: list[str], server: str, known: dict) -> Iterator[tuple[str, Any]]:
    """One option with its values; objects in JSON become one option a key."""
    if not values and name.startswith("no_"):
        yield canonical(name.removeprefix("no_"), server), False
    elif len(values) == 1 and values[0].startswith("{"):
        try:
            yield from _flat(name, load_json(values[0]))
        except ValueError:
            yield name, values[0]
    elif len(values) == 1 and name in known.get("human", ()) and re.fullmatch(r"\d+(?:\.\d+)?[kmgKMG]", values[0]):
        yield name, int(float(values[0][:-1]) * POWERS[values[0][-1]])
    else:
        read = [value_of(value) for value in values]
        yield name, True if not read else read[0] if len(read) == 1 else ", ".join(map(str, read))


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not re.fullmatch(r"-\d+(?:\.\d+)?", word)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Keys of nested objects, joined by dots."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value)) or None
    else:
        yield name, value_of(value) if isinstance(value, str) else value


def printed_arguments(text: str, server: str | None) -> dict[str, Any]:
    """All arguments of a record in which a server prints them, defaults included.

    `text`: `server_args=ServerArgs(…)`, `non-default args: {…}`, `… with config: …`, `args: Namespace(…)`, `Args { … }`. One that
    is cut, or whose brackets do not match, gives what can be read. `server`: whose names hold. Returns values by canonical name;
    nested objects as `compilation_config.mode`.

    Examples
    --------
    >>> printed_arguments("server_args=ServerArgs(model_path='/m/x', tp_size=8, quantization=None)", "sglang")
    {'model': '/m/x', 'tp_size': 8, 'quantization': None}
    >>> printed_arguments("Args { model_id: \\"org/m\\", num_shard: Some(4), quantize: None }", "tgi")
    {'model': 'org/m', 'tp_size': 4, 'quantization': None}
    """
    begin = _PRINTED.search(text)
    found: dict[str, Any] = {}
    for name, value in _items(text[begin.end() :]) if begin else ():
        found.setdefault(canonical(name, server), value)
    return found


def _items(text: str) -> Iterator[tuple[str, Any]]:
    for part in _split(text):
        item = _ITEM.match(part)
        if not item:
            continue
        name, value = item.group(2), item.group(3)
        nested = None if value.startswith("Some(") else _NESTED.match(value)
        if nested:
            for inner, deep in _items(nested.group(1)):
                yield f"{name}.{inner}", deep
        elif value.startswith("["):
            yield name, ", ".join(str(value_of(part)) for part in _split(value[1:]) if part.strip()) or None
        else:
            yield name, value_of(value)


def _split(text: str) -> Iterator[str]:
    """Parts between the commas of the outermost level, up to the bracket that closes it."""
    depth, begin, quote, at = 0, 0, "", 0
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and text[at - 1] != "\\" else quote
        elif sign in "'\"" and (at == 0 or not text[at - 1].isalnum()):
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if depth < 0:
                yield text[begin:at]
                return
        elif sign == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]
