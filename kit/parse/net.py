"""Sockets (ss, netstat, lsof -i, /proc/net/tcp) and what the host says of its network and its PCI bus."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.curl import is_curl, parse_curl
from kit.parse.snapshot import Line, body_lines, failure, integer, only_failures, share, titled
from kit.parse.tool_words import TOOL_WORDS

STATES = TOOL_WORDS["sockets"]["states"]
HEX_STATES = TOOL_WORDS["sockets"]["numbers"]["states"]
SERVICES = TOOL_WORDS["sockets"]["services"]
_STATE = r"LISTEN|ESTAB|SYN-SENT|SYN-RECV|FIN-WAIT-[12]|TIME-WAIT|CLOSE-WAIT|LAST-ACK|CLOSING|CLOSED?|UNCONN|NEW"
_END = r"(?P<{0}>(?:\[[0-9a-fA-F:.*]*\](?:%\w+)?|[\w.*%:-]{{0,80}}?)):(?P<{0}_port>[\w*-]{{1,40}})"
_SS = re.compile(
    rf"^\s*(?:(?P<net>tcp|udp|mptcp|sctp|raw|tcp6|"
    rf"udp6)\s+)?(?:(?P<state>{_STATE})\s+)?(?P<recv>\d+)\s+(?P<send>\d+)\s+"
    + _END.format("local")
    + r"\s+"
    + _END.format("peer")
    + r"(?:\s+(?P<rest>.*))?$"
)
_SS_UNIX = re.compile(
    rf"^(?P<net>u_str|u_dgr|u_seq|nl|v_str|p_raw|"
    rf"p_dgr)\s+(?P<state>{_STATE})\s+(?P<recv>\d+)\s+(?P<send>\d+)\s+(?P<local>\S+)\s(?P<rest>.*)$"
)
_SS_HEADER = re.compile(r"^\s*(?:Netid\s+)?(?:State\s+)?Recv-Q\s+Send-Q\s+Local Address")
_OWNER = re.compile(r"\(\"(?P<process>[^\"]*)\",pid=(?P<pid>\d+),fd=(?P<fd>\d+)\)")
_NETSTAT = re.compile(
    r"^(?P<net>tcp6?|udp6?)\s+(?P<recv>\d+)\s+(?P<send>\d+)\s+"
    + _END.format("local")
    + r"\s+"
    + _END.format("peer")
    + r"(?:\s+(?P<state>[A-Z_12]+))?(?:\s{1,80}[\w.+-]{1,64}\s{1,80}\d{1,20})?"
    r"(?:\s{1,80}(?:(?P<pid>\d{1,20})/(?P<process>.{0,80}?)|-))?"
    r"(?:\s+(?:off|on|keepalive|timewait|probe|unkn-\d+)\s+\([\d./]+\))?\s*$"
)
_NETSTAT_HEADER = re.compile(r"^(?:Active Internet connections|Proto\s+Recv-Q\s+Send-Q)")
_HEX = re.compile(
    r"^\s*\d+: (?P<local>[0-9A-F]{8}(?:[0-9A-F]{24})?):(?P<local_port>[0-9A-F]{4}) "
    r"(?P<peer>[0-9A-F]{8}(?:[0-9A-F]{24})?):(?P<peer_port>[0-9A-F]{4}) (?P<state>[0-9A-F]{2}) "
    r"(?P<send>[0-9A-F]{8}):(?P<recv>[0-9A-F]{8})"
)
LSOF_HEADER = re.compile(r"^COMMAND\s+PID\s+(?:TID\s+\S+\s+)?USER\s+FD\s+TYPE\b")
_LSOF = re.compile(
    r"^(?P<process>\S+)\s+(?P<pid>\d+)\s+(?:\d+\s+)?\S+\s+(?P<fd>\d+)[urw "
    r"]\w?\s+IPv[46]\s+\S+\s+\S+\s+(?P<net>TCP|UDP)\s+"
    r"(?P<ends>\S+)(?:\s+\((?P<state>\w+)\))?$"
)


def parse_sockets(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read ss, netstat, lsof -i or /proc/net/tcp: a row a socket and owner, one without owner where none is shown.

    A list that holds its header alone is complete: nothing listens.

    Examples
    --------
    >>> sample = ['LISTEN 0 2048 0.0.0.0:8001 0.0.0.0:* users:(("VLLM::APIServer",pid=41120,fd=19))']
    >>> [(row["state"], row["local_port"], row["pid"]) for _, row in parse_sockets(sample, Source("ss.txt"), Report())]
    [('LISTEN', 8001, 41120)]
    """
    rows: list[tuple[str, dict]] = []
    for line in titled(lines, source, report):
        found = _one_socket(line, source.name)
        failed = None if found else failure(line, "ss", source)
        if failed:
            yield "tool_errors", failed
        elif found:
            rows += [("sockets", row) for row in found]
        elif line.text.strip().startswith("users:((") and rows:
            last = rows.pop()[1]
            rows += [("sockets", last | owner) for owner in _owners(line.text)]
        elif line.text.strip() and not _is_aside(line.text):
            report.odd("no socket", line.text)
    for frame, row in rows:
        report.records += 1
        yield frame, row | {"moment": source.moment}


def _is_aside(text: str) -> bool:
    """Headers, and the lines of details that `ss -i` puts under a socket."""
    return bool(
        _SS_HEADER.match(text)
        or _NETSTAT_HEADER.match(text)
        or re.match(r"^\s*sl\s+local_address", text)
        or text[:1] in "\t "
        or re.match(r"^COMMAND\s+PID|^\(Not all processes|^ ?will not be shown|^Proto|^Active ", text)
    )


def _one_socket(line: Line, file: str) -> list[dict]:
    """Rows of one line, none where it is no socket."""
    base = line.at
    if found := _HEX.match(line.text):
        return [base | _of_proc(found, datagrams="udp" in (line.title or file))]  # both files have one form
    if found := _LSOF.match(line.text):
        return [base | _of_lsof(found)]
    if found := _SS_UNIX.match(line.text):
        row = {"protocol": "unix", "state": found["state"], "local_address": found["local"]}
        row |= {"recv_q": int(found["recv"]), "send_q": int(found["send"])}
        return [base | row | owner for owner in _owners(found["rest"])]
    if found := _NETSTAT.match(line.text) or _SS.match(line.text):
        return [base | row for row in _of_ss(found.groupdict(), line.title)]
    return []


def _of_proc(found: re.Match[str], datagrams: bool) -> dict:
    """Row of a line of /proc/net/tcp, tcp6, udp, udp6."""
    state = int(found["state"], 16)
    return {
        "protocol": ("udp" if datagrams else "tcp") + ("6" if len(found["local"]) > 8 else ""),
        "state": "UNCONN" if datagrams and state == 7 else HEX_STATES[state] if state < len(HEX_STATES) else None,
        "recv_q": int(found["recv"], 16),
        "send_q": int(found["send"], 16),
        "local_address": _hex_address(found["local"]),
        "local_port": int(found["local_port"], 16),
        "peer_address": _hex_address(found["peer"]),
        "peer_port": int(found["peer_port"], 16) or None,
    }


def _of_lsof(found: re.Match[str]) -> dict:
    """Row of a line of `lsof -i`."""
    local, _, peer = found["ends"].partition("->")
    return {
        "protocol": found["net"].lower(),
        "state": STATES.get(found["state"], found["state"]),
        "process": found["process"],
        "pid": int(found["pid"]),
        "fd": int(found["fd"]),
        "local_address": local.rpartition(":")[0],
        "local_port": _port(local.rpartition(":")[2]),
        "peer_address": peer.rpartition(":")[0] or None,
        "peer_port": _port(peer.rpartition(":")[2]),
    }


def _of_ss(got: dict[str, str], title: str | None) -> list[dict]:
    """Rows of a line of ss or netstat, one for each owner."""
    row = {
        "protocol": got["net"] or "tcp",
        "state": STATES.get(got["state"], got["state"]) or _state_of_filter(title, got["peer_port"]),
        "recv_q": int(got["recv"]),
        "send_q": int(got["send"]),
        "local_address": _address(got["local"]),
        "local_port": _port(got["local_port"]),
        "peer_address": _address(got["peer"]),
        "peer_port": _port(got["peer_port"]),
    }
    if got.get("pid"):
        return [row | {"pid": int(got["pid"]), "process": got["process"]}]
    return [row | owner for owner in _owners(got.get("rest") or "")]


def _state_of_filter(title: str | None, peer_port: str) -> str | None:
    """State where ss left its column out since the command asked for one state only."""
    if peer_port == "*":
        return "LISTEN"
    asked = re.search(r"state\s+([\w-]+)", title or "")
    names = {"established": "ESTAB", "listening": "LISTEN"}
    return names.get(asked.group(1), asked.group(1).upper()) if asked else None


def _owners(text: str) -> list[dict]:
    owners = [{"process": found["process"], "pid": int(found["pid"]), "fd": int(found["fd"])} for found in _OWNER.finditer(text)]
    return owners or [{}]


def _port(text: str | None) -> int | None:
    return integer(text) if text and text.isdecimal() else SERVICES.get(text or "")


def _address(text: str) -> str:
    return text.strip("[]").replace("]%", "%") or "*"


def _hex_address(text: str) -> str:
    """Address of /proc/net/tcp: each group of four bytes is in the order of the host (little-endian).

    Examples
    --------
    >>> _hex_address("0100007F"), _hex_address("00000000000000000000000000000000")
    ('127.0.0.1', '::')
    """
    from ipaddress import ip_address

    raw = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    return str(ip_address(raw))


def is_lsof_of_sockets(lines: list[str]) -> bool:
    """Whether lines are those of `lsof -i`: with its header, and sockets alone under it."""
    listed = [line for line in lines if not LSOF_HEADER.match(line) and not line.startswith("#")]
    return len(listed) < len(lines) and share(listed, _LSOF) > 0.5


def _is_ss(head: str) -> float:
    lines = body_lines(head)
    if any(_SS_HEADER.match(line) for line in lines[:10]):
        return 0.97
    if is_lsof_of_sockets(lines):
        return 0.98
    hits = share(lines, _SS) + share(lines, _SS_UNIX) + share(lines, _LSOF)
    return 0.95 if hits > 0.5 and share(lines, _NETSTAT) < 0.5 else only_failures(head, "ss")


def _is_netstat(head: str) -> float:
    lines = body_lines(head)
    if any(_NETSTAT_HEADER.match(line) for line in lines[:5]) or share(lines, _NETSTAT) > 0.6:
        return 0.97
    return only_failures(head, "netstat")


def _is_proc_net(head: str) -> float:
    lines = body_lines(head)
    return 0.97 if share(lines, _HEX) > 0.5 or (lines and re.match(r"^\s*sl\s+local_address\s+rem\w*_address", lines[0])) else 0.0


# --- host ----------------------------------------------------------------------------------------------------------------

_HOSTS = re.compile(
    r"^\s*(?P<key>\d{1,3}(?:\.\d{1,3}){3}|"
    r"[0-9a-fA-F]*:[0-9a-fA-F:]+(?:%\w+)?)\s+(?P<names>[A-Za-z0-9][\w.-]*(?:\s+[\w.-]+)*)\s*(?:#.*)?$"
)
_LINK = re.compile(
    r"^(?:\d+: (?P<key>[\w.@:-]+?)(?:@\S+)?: <|(?P<old>[\w.-]+): flags=\d+<|(?P<brief>[\w.@-]+)\s+(?:UP|DOWN|"
    r"UNKNOWN)\s+(?:[0-9a-f.:]+|$))"
)
_ROUTE = re.compile(
    r"^(?:(?:default|unreachable|blackhole|[0-9a-f.:]+(?:/\d+)?)\s+(?:via|dev|proto)\s.*|\S+ dev \S+ (?:src|"
    r"proto|scope) .*)$"
)
_PCI = re.compile(r"^(?P<key>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \S")
_ACS = re.compile(r"^\s+(?:ACS(?:Ctl|Cap)|LnkSta|LnkCap|Capabilities|Kernel driver|Region|Control):?\s")


def _host_rows(lines: Iterable[str], source: Source, report: Report, name: str, key: re.Pattern[str]) -> Rows:
    about = None
    for line in titled(lines, source, report):
        text = line.text.strip()
        if not text or text.startswith("#"):
            continue
        failed = failure(line, name, source)
        if failed:
            yield "tool_errors", failed
            continue
        found = key.match(line.text)
        if found:
            about = next((value for value in found.groupdict().values() if value), None)
        elif name == "hosts":
            report.odd("no line of /etc/hosts", line.text)
            continue
        route = name == "ip" and _ROUTE.match(line.text)
        report.records += 1
        yield "host", {"source": name, "key": "route" if route else about, "value": text, **line.at}


def parse_hosts(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /etc/hosts; the key is the address.

    Examples
    --------
    >>> [(row["key"], row["value"]) for _, row in parse_hosts(["10.145.9.77 train-0.train.svc"], Source("hosts.txt"), Report())]
    [('10.145.9.77', '10.145.9.77 train-0.train.svc')]
    """
    named = re.compile(r"^\s*+(?P<key>[0-9a-fA-F%]*+[.:]\S*+)\s++\S")
    yield from _host_rows(lines, source, report, "hosts", named)


def _is_hosts(head: str) -> float:
    lines = [line for line in body_lines(head) if not line.lstrip().startswith("#")]
    return 0.9 if lines and share(lines, _HOSTS) == 1 else 0.8 if "localhost" in head and share(lines, _HOSTS) > 0.7 else 0.0


def parse_ip(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `ip addr`, `ip route`, `ip -br addr`, `ifconfig`; the key is the interface, or `route`.

    Examples
    --------
    >>> sample = ["2: eth0: <BROADCAST,UP> mtu 1500", "    inet 10.0.0.2/24 scope global eth0", "default via 10.0.0.1 dev eth0"]
    >>> [row["key"] for _, row in parse_ip(sample, Source("ip.txt"), Report())]
    ['eth0', 'eth0', 'route']
    """
    yield from _host_rows(lines, source, report, "ip", _LINK)


def _is_ip(head: str) -> float:
    lines = body_lines(head)
    if any(_LINK.match(line) for line in lines) and re.search(r"\binet6? |<[A-Z,_]+>|/\d+", head):
        return 0.95
    return 0.9 if share(lines, _ROUTE) > 0.6 else 0.0


def parse_lspci(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read lspci, plain or verbose; the key is the bus id of the device that the line belongs to.

    Examples
    --------
    >>> sample = ["40:01.1 PCI bridge: AMD Device 14ab", "\\t\\tACSCtl:\\tSrcValid+ TransBlk- ReqRedir+"]
    >>> [row["key"] for _, row in parse_lspci(sample, Source("lspci.txt"), Report())]
    ['40:01.1', '40:01.1']
    """
    yield from _host_rows(lines, source, report, "lspci", _PCI)


def _is_lspci(head: str) -> float:
    lines = body_lines(head)
    hits = sum(1 for line in lines if _PCI.match(line))
    acs = sum(1 for line in lines if _ACS.match(line) and "ACSCtl" in line)
    if hits and (hits + acs > len(lines) / 3 or _PCI.match(lines[0])):
        return 0.95
    return 0.9 if acs else only_failures(head, "lspci")


FORMATS = (
    Format("ss", r"(?<![a-z])ss(?![a-z])|socket|lsof-?i", _is_ss, parse_sockets, frames=("sockets", "tool_errors")),
    Format("netstat", r"netstat", _is_netstat, parse_sockets, frames=("sockets", "tool_errors")),
    Format("proc_net", r"(?<![a-z])tcp6?(?![a-z])", _is_proc_net, parse_sockets, frames=("sockets", "tool_errors")),
    Format("curl", r"curl|health|probe", is_curl, parse_curl, frames=("probes",)),
    Format("hosts", r"hosts", _is_hosts, parse_hosts, frames=("host", "tool_errors")),
    Format("ip", r"(?<![a-z])ip(?![a-z])|ifconfig|route", _is_ip, parse_ip, frames=("host", "tool_errors")),
    Format("lspci", r"lspci", _is_lspci, parse_lspci, frames=("host", "tool_errors")),
)
