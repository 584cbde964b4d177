"""Reports of an environment that open most bug reports: collect_env of vLLM, PyTorch and SGLang; ibstat and ibstatus."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.snapshot import body_lines, failure, only_failures, titled

_PAIR = re.compile(r"^(?P<key>[A-Za-z][\w ./()+-]{1,60}?)\s*:\s+(?P<value>\S.*)$")
_PACKAGE = re.compile(r"^\[(?:pip3?|conda)\]\s+(?P<key>[\w.+-]+)(?:==|\s+)(?P<value>[\w.+!-]+)")
_GPU = re.compile(r"^(?P<key>GPU \d+|GPU(?: \d+,)+ ?\d+): (?P<value>\S.*)$")
_ENVIRONMENT = re.compile(r"^(?P<key>[A-Z][A-Z0-9_]{2,60})=(?P<value>.*)$")
_TELLING = re.compile(
    r"^(?:Collecting environment information|PyTorch version\s*:|Is CUDA available\s*:|CUDA used to build PyTorch\s*:|"
    r"vLLM Version\s*:|\[pip3\] torch==|sglang: \d)",
    re.MULTILINE,
)
_SECTION = re.compile(r"^(?:=+|-+|\s*(?=\S)[\w /&]+)$")


def parse_collect_env(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read collect_env: a row a line, its words before the colon the key; packages under their names.

    Examples
    --------
    >>> sample = ["PyTorch version              : 2.7.1+cu126", "[pip3] torch==2.7.1", "GPU 0: NVIDIA H100 PCIe"]
    >>> [(row["key"], row["value"]) for _, row in parse_collect_env(sample, Source("env.txt"), Report())]
    [('PyTorch version', '2.7.1+cu126'), ('torch', '2.7.1'), ('GPU 0', 'NVIDIA H100 PCIe')]
    """
    for line in titled(lines, source, report):
        found = next(
            (hit for hit in (pattern.match(line.text) for pattern in (_PACKAGE, _GPU, _ENVIRONMENT, _PAIR)) if hit), None
        )
        if found:
            report.records += 1
            key, value = found["key"].strip(), found["value"].strip()
            yield "host", {"source": "versions", "key": key, "value": value, **line.at}
        elif line.text.strip() and not _SECTION.match(line.text) and not line.text.startswith(("Collecting", " ", "\t", "/")):
            report.odd("not a line of collect_env", line.text)


def _is_collect_env(head: str) -> float:
    return 0.98 if len(set(found[0] for found in _TELLING.finditer(head))) >= 2 else 0.0


_ADAPTER = re.compile(
    r"^(?:CA '(?P<ca>[\w-]+)'|hca_id:\s+(?P<hca>[\w-]+)|Infiniband device '(?P<device>[\w-]+)' port (?P<number>\d+) status:)$"
)
_PORT = re.compile(r"^\s+(?:Port|port:)\s+(?P<port>\d+):?$")
_STATE = re.compile(
    r"^\s+(?:State|state|Physical state|phys state|phys_state|Rate|rate|active_width|active_speed|Link layer|link_layer):\s+"
    r"(?P<value>\S.*)$"
)


def parse_ibstat(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read ibstat, ibstatus or ibv_devinfo: a row a port of an InfiniBand or RoCE adapter, its state, link and rate the value.

    Examples
    --------
    >>> sample = ["CA 'mlx5_0'", "\\tPort 1:", "\\t\\tState: Down", "\\t\\tPhysical state: Disabled", "\\t\\tRate: 40"]
    >>> [(row["key"], row["value"]) for _, row in parse_ibstat(sample, Source("ibstat.txt"), Report())]
    [('mlx5_0 port 1', 'Down, Disabled, 40')]
    """
    ports: dict[str, tuple[int, list[str]]] = {}
    adapter = port = None
    for line in titled(lines, source, report):
        begins, numbered, state = _ADAPTER.match(line.text), _PORT.match(line.text), _STATE.match(line.text)
        failed = failure(line, "ibstat", source)
        if failed:
            yield "tool_errors", failed
        elif begins:
            adapter = begins["ca"] or begins["hca"] or begins["device"]
            port = f"{adapter} port {begins['number']}" if begins["number"] else None
        elif numbered and adapter:
            port = f"{adapter} port {numbered['port']}"
        elif state and port:
            value = re.sub(r"^\d+: |^PORT_(?=[A-Z])| \(\d+\)$", "", state["value"]).strip()
            ports.setdefault(port, (line.number, []))[1].append(value)
        elif line.text.strip() and not line.text.startswith(("\t", " ")):
            report.odd("not a line of ibstat", line.text)
    for key, (first, values) in ports.items():
        report.records += 1
        yield "host", {"source": "infiniband", "key": key, "value": ", ".join(values), "line": first}


def _is_ibstat(head: str) -> float:
    return (
        0.97 if any(_ADAPTER.match(line) for line in body_lines(head)[:4]) else only_failures(head, "ibstat|ibstatus|ibv_devinfo")
    )


FORMATS = (
    Format("collect_env", r"collect.?env|environment|env", _is_collect_env, parse_collect_env, frames=("host",)),
    Format("ibstat", r"ibstat|ibv_devinfo", _is_ibstat, parse_ibstat, frames=("host", "tool_errors")),
)
