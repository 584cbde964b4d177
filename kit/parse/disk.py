"""Files, folders, file systems and memory of the host: du, ls, /proc/PID/fd, lsof, df, free, mount."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from kit.parse.base import Format, Report, Rows, Source, pid_of_path
from kit.parse.net import LSOF_HEADER, is_lsof_of_sockets
from kit.parse.snapshot import (
    Line,
    Samples,
    body_lines,
    command_words,
    failure,
    integer,
    number,
    only_failures,
    share,
    size_bytes,
    titled,
)
from kit.schema import Row

# --- du, ls --------------------------------------------------------------------------------------------------------------

_DU = re.compile(r"^\s*(?P<size>\d+(?:[.,]\d+)?[KMGTP]?i?B?)(?:\t\s*|\s+(?=[/.~]|models--|total$))(?P<path>\S.*)$")
_LS = re.compile(
    r"^(?P<type>[-dlcbps])(?P<perm>[rwxsStT-]{9})[.+@]?\s+\d+\s+\S+\s+\S+\s+(?P<size>\d+(?:[.,]\d+)?[KMGTP]?)\s+"
    r"(?:\w{3}\s+\d+\s+[\d:]+|\d{4}-\d\d-\d\d\s+[\d:.]+(?:\s+[+-]\d{4})?|\d\d-\d\d\s+[\d:]+)\s+(?P<name>.+)$"
)
BYTES = ("find", "stat", "wc")
"""Commands that print sizes in bytes where du prints KiB."""


def _du_unit(title: str | None) -> int:
    words = command_words(title, "du", *BYTES)
    options = " ".join(word for word in words[1:] if word.startswith("-"))
    if words[:1] and words[0] in BYTES or re.search(r"(?:^|\s)-[a-zA-Z]*b|--bytes", options):
        return 1
    block = re.search(r"(?:-B|--block-size=)(\d*[KMG]?)|(?:^|\s)-[a-zA-Z]*(m)\b", options)
    if block and (block.group(1) or block.group(2)):
        return _unit(block.group(1) or "M")
    return 1024


def _unit(text: str) -> int:
    """Bytes of a block: `M`, `4K`, `512`."""
    return size_bytes(text if text[:1].isdecimal() else "1" + text) or 1024


def parse_du(lines: Iterable[str], source: Source, report: Report) -> Rows:
    r"""Read du (KiB, or human sizes), and `size path` lists of find, stat and wc (bytes, known by their command line).

    Examples
    --------
    >>> [(row["path"], row["size_bytes"]) for _, row in parse_du(["1113240\t/data"], Source("du.t0.txt"), Report())]
    [('/data', 1139957760)]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        found = _DU.match(line.text)
        if found:
            samples.add("sizes", _du_row(found, line), found["path"])
        else:
            samples.misread(line, report, "du", "no line of du")
    yield from samples.settle(report)


def _du_row(found: re.Match[str], line: Line) -> Row:
    return {"path": found["path"], "size_bytes": size_bytes(found["size"], _du_unit(line.title)), **line.at}


def _is_du(head: str) -> float:
    return 0.9 if share(body_lines(head), _DU) > 0.6 else only_failures(head, "du")


def _folder(title: str | None) -> str | None:
    if title and title.startswith("/"):
        return title.rstrip(":")
    words = [word.strip("'\"") for word in command_words(title, "ls", "ll")]
    return next((word for word in reversed(words) if word.startswith(("/", "~", "."))), None)


def parse_ls(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `ls -l` of ordinary folders: the sizes of the plain files, under the folder that a title or `path:` line names.

    Lines of a du beside it, in one command, are read as such.

    Examples
    --------
    >>> sample = ["/models:", "total 8", "-rw-r--r-- 1 root root 4096 Feb 20 14:15 a.safetensors"]
    >>> [(row["path"], row["size_bytes"]) for _, row in parse_ls(sample, Source("ls.txt"), Report())]
    [('/models/a.safetensors', 4096)]
    """
    samples, folder, title = Samples(source), None, None
    for line in titled(lines, source, report):
        if line.title != title:
            title, folder = line.title, _folder(line.title)
            samples.table()
        named = re.match(r"^(?P<path>[/.~]\S*):$", line.text)
        found = _LS.match(line.text)
        if named:
            folder = named["path"]
        elif found:
            if found["type"] == "-":
                name = found["name"]
                path = name if name.startswith("/") or not folder or folder == name else f"{folder.rstrip('/')}/{name}"
                samples.add("sizes", {"path": path, "size_bytes": size_bytes(found["size"]), **line.at}, path)
        elif beside := _DU.match(line.text) if "du" in (line.title or "") else None:
            samples.add("sizes", _du_row(beside, line), beside["path"])
        else:
            samples.misread(line, report, "ls", "no line of ls -l", line.text.startswith("total "))
    yield from samples.settle(report)


def _is_ls(head: str) -> float:
    lines = [line for line in body_lines(head) if not re.match(r"^total \S+$", line)]
    return 0.6 if share(lines, _LS) > 0.5 and share(lines, _FD_LS) < 0.5 else only_failures(head)


# --- descriptors ---------------------------------------------------------------------------------------------------------

_FD_LS = re.compile(r"^l(?P<read>[r-])(?P<write>[w-])[-x]\S*\s.*?\s(?P<fd>\d+) -> (?P<target>.*)$")
_FD_PAIR = re.compile(
    r"^\s*(?:/proc/(?P<pid>\d+)/fd/)?(?P<fd>\d+)(?: -> |: symbolic link to |\s+(?=/|pipe:|socket:|anon_inode:|"
    r"/memfd|inotify))(?P<target>.+)$"
)

_LSOF = re.compile(
    r"^(?P<process>\S+)\s+(?P<pid>\d{1,20})\s+(?:(?P<tid>\d{1,20})\s+\S+\s+)?\S+\s+(?P<fd>\d{1,20}|cwd|rtd|txt|mem|DEL|"
    r"NOFD)(?P<mode>[rwu]?)\S*\s+(?P<type>\w+)\s+(?P<rest>.*)$"
)
_BRIEF = {"r": "r", "w": "w", "u": "rw"}


def parse_fd(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the descriptors of processes: ls -l /proc/PID/fd, readlink and find lists, lsof -p, or a count by `wc -l`.

    `report.facts["fds"]` holds the number of descriptors of the first process, `fds_by_pid` those of all: the lines
    `total 0`, `.` and `..` are none of them.

    Examples
    --------
    >>> report = Report()
    >>> sample = ["total 0", "dr-x------ 2 root root 0 Jan 1 00:00 .",
    ...     "l-wx------ 1 root root 64 Jan 23 09:31 1 -> /logs/a.log (deleted)"]
    >>> [(row["fd"], row["mode"], row["target"], row["deleted"]) for _, row in parse_fd(sample, Source("fd.txt"), report)]
    [(1, 'w', '/logs/a.log', True)]
    >>> report.facts["fds"]
    1
    """
    samples = Samples(source)
    counts: dict[int | None, int] = {}
    for line in titled(lines, source, report):
        pid = pid_of_path(line.title) or _pid_of_command(line.title) or source.pid
        row = _descriptor(line, pid)
        counted = _counted(line)
        failed = None if row else failure(line, "lsof" if "lsof" in (line.title or "") else "ls", source)
        if failed:
            yield "tool_errors", failed | {"pid": pid_of_path(line.text) or pid}
        elif counted is not None:
            counts[pid] = counted
        elif row is not None:
            if row:
                samples.add("fds", row | line.at, (row["pid"], row["fd"]))
        elif line.text.strip() and not re.match(r"^total \d+$|^d[rwx-]{9}\S* .*\s\.{1,2}$", line.text.strip()):
            report.odd("no descriptor", line.text)
    last = samples.number
    for (_, row), sample in zip(samples.rows, samples.numbers, strict=True):
        if sample == last:
            counts[row["pid"]] = counts.get(row["pid"], 0) + 1
    if counts:
        report.facts["fds"] = next(iter(counts.values()))
        report.facts["fds_by_pid"] = counts
    elif report.lines and not report.reasons:
        report.facts["fds"] = 0
    yield from samples.settle(report)


def _pid_of_command(title: str | None) -> int | None:
    found = re.search(r"\blsof\b.*-p ?(\d+)", title or "")
    return int(found.group(1)) if found else None


def _descriptor(line: Line, pid: int | None) -> Row | None:
    """Row of a descriptor; empty for a line that lsof prints of what is no descriptor; None for any other line."""
    found = _FD_LS.match(line.text)
    if found:
        return {"pid": pid, "fd": int(found["fd"]), "mode": (found["read"] + found["write"]).replace("-", "") or None} | _target(
            found["target"]
        )
    found = _LSOF.match(line.text)
    if found and found["fd"].isdecimal():
        place = found["rest"].split()
        target = place[-1] if place else ""
        if "(deleted)" in found["rest"]:
            target = f"{place[-2]} (deleted)"
        elif found["type"] == "FIFO" and target == "pipe":
            target = f"pipe:[{place[-2]}]"
        elif found["type"].startswith(("IPv", "sock", "unix")):
            target = found["rest"].split(None, 2)[-1]
        return {"pid": int(found["pid"]), "fd": int(found["fd"]), "mode": _BRIEF.get(found["mode"])} | _target(target)
    if found or LSOF_HEADER.match(line.text):
        return {}
    found = _FD_PAIR.match(line.text)
    if found:
        return {"pid": int(found["pid"]) if found["pid"] else pid, "fd": int(found["fd"])} | _target(found["target"])
    return None


def _target(text: str) -> Row:
    text = re.sub(r"^'(.*)'$", r"\1", text.strip())  # ls quotes what a shell would take apart, on a terminal
    return {"target": text.removesuffix(" (deleted)"), "deleted": text.endswith("(deleted)")}


def _counted(line: Line) -> int | None:
    """Number of descriptors that `ls /proc/PID/fd | wc -l` printed, less the lines of ls that are none."""
    found = re.search(r"\bls\b(?P<options>(?: -\w+)*) .*fd/?\s*\|\s*wc -l", line.title or "")
    count = integer(line.text.strip())
    if not found or count is None:
        return None
    options = found["options"]
    return max(0, count - ("l" in options) - 2 * ("a" in options))


def _is_fd(head: str) -> float:
    lines = [line for line in body_lines(head) if not re.match(r"^total \d+$|^d[rwx-]{9}\S* .*\s\.{1,2}$", line.strip())]
    if is_lsof_of_sockets(lines):
        return 0.0
    if share(lines, _FD_LS) > 0.5 or any(LSOF_HEADER.match(line) for line in lines[:3]):
        return 0.97
    if share(lines, _FD_PAIR) > 0.6 and re.search(r" -> |pipe:\[|socket:\[|anon_inode:|/dev/null|symbolic link", head):
        return 0.85
    if re.search(r"/fd/?\s*\|\s*wc -l", head[:400]):
        return 0.8
    return 0.1 if not lines and re.match(r"^total 0\s*$", head.strip().split("\n")[0]) else only_failures(head)


# --- df, mount -----------------------------------------------------------------------------------------------------------

_DF_HEADER = re.compile(r"^(?:Filesystem|Sys\. ?de fichiers|Dateisystem)\s+")
_DF = re.compile(
    r"^(?P<device>\S(?:.*?\S)??)?\s++(?:(?P<type>[a-z][\w.-]*+)\s++)?(?P<size>[\d.,]+[KMGTPE]?i?|"
    r"-)\s++(?P<used>[\d.,]+[KMGTPE]?i?|-)\s++"
    r"(?P<available>-?[\d.,]+[KMGTPE]?i?|-)\s++(?P<percent>\d+(?:\.\d+)?%|-)\s++(?P<mount>/.*)$"
)


def parse_df(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read df in any unit; a device whose long name takes a line of its own is joined with the next.

    Examples
    --------
    >>> sample = ["Filesystem      Size  Used Avail Use% Mounted on", "shm              64M   58M  6.1M  91% /dev/shm"]
    >>> [(row["mount"], row["size_bytes"], row["used_percent"]) for _, row in parse_df(sample, Source("df.txt"), Report())]
    [('/dev/shm', 67108864, 91.0)]
    """
    unit, pending, inodes = 1024, None, False
    for line in titled(lines, source, report):
        if _DF_HEADER.match(line.text):
            block = re.search(r"\s(\d*[KMGTB]{0,2})-blocks", line.text)
            unit = _unit(block.group(1)) if block else 1024
            inodes = "Inodes" in line.text
            continue
        found = _DF.match(f"{pending} {line.text.strip()}" if pending else line.text)
        failed = None if found else failure(line, "df", source)
        if failed:
            yield "tool_errors", failed
        elif found and not inodes:
            pending = None
            report.records += 1
            yield (
                "filesystems",
                {
                    "device": found["device"],
                    "type": found["type"],
                    "mount": found["mount"],
                    "used_percent": number(found["percent"]),
                    "size_bytes": size_bytes(found["size"], unit),
                    "used_bytes": size_bytes(found["used"], unit),
                    "available_bytes": size_bytes(found["available"], unit),
                    **line.at,
                },
            )
        elif len(line.text.split()) == 1:
            pending = line.text.strip()
        elif line.text.strip():
            report.odd("counts of inodes, not of bytes" if inodes else "no line of df", line.text)


def _is_df(head: str) -> float:
    lines = body_lines(head)
    if any(_DF_HEADER.match(line) and re.search(r"Use%|Capacity|Mounted|Avail", line) for line in lines[:5]):
        return 0.97
    return 0.85 if share(lines, _DF) > 0.6 else only_failures(head, "df")


_MOUNT = re.compile(r"^(?P<device>\S.{0,400}?) on (?P<mount>/.{0,400}?) type (?P<type>[\w.-]+) \((?P<options>[^)]*)\)?")
_MOUNTS = re.compile(r"^(?P<device>\S+) (?P<mount>/\S*) (?P<type>[\w.-]+) (?P<options>\S+) \d+ \d+$")
_FINDMNT = re.compile(r"^[\s|`├└│─-]*(?P<mount>/\S*)\s+(?P<device>\S+)\s+(?P<type>[\w.-]+)\s+(?P<options>[\w=:,./@~-]+)\s*$")


def parse_mount(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read mount, findmnt or /proc/mounts.

    Examples
    --------
    >>> [(row["mount"], row["type"])
    ...     for _, row in parse_mount(["nas1:/m on /nfs type nfs4 (rw,hard)"], Source("mount.txt"), Report())]
    [('/nfs', 'nfs4')]
    """
    for line in titled(lines, source, report):
        found = _MOUNT.match(line.text) or _MOUNTS.match(line.text) or _FINDMNT.match(line.text)
        failed = None if found else failure(line, "mount", source)
        if failed:
            yield "tool_errors", failed
        elif found:
            report.records += 1
            yield "filesystems", found.groupdict() | line.at
        elif line.text.strip() and not line.text.startswith("TARGET"):
            report.odd("no line of mount", line.text)


def _is_mount(head: str) -> float:
    lines = body_lines(head)
    if lines and re.match(r"^TARGET\s+SOURCE\s+FSTYPE", lines[0]):
        return 0.97
    hits = max(share(lines, _MOUNT), share(lines, _MOUNTS))
    return 0.96 if hits > 0.6 else only_failures(head, "mount|findmnt")


# --- free ----------------------------------------------------------------------------------------------------------------

FREE_NAMES = {"buff/cache": "cache", "cached": "cache"}
GUESSES = ((10_000, "G"), (10_000_000, "M"), (10_000_000_000, "K"))
"""Upper bounds of the total that `free` prints, by unit. A host that loads models has 10 GiB to 10 TiB: `free -g` prints at
most 10,000, `free -m` 10,000 to 10 million, plain `free` more, `free -b` more than 10 thousand million."""
PAGED = 5
"""So many figures that are all multiples of 4 are KiB, which the kernel counts in pages; of MiB that is one case in 4^5."""


_FREE = re.compile(
    r"^(?:(?P<mem>Mem|Mem\.|Speicher|内存|記憶體|メモリ|메모리|Память|Памʼять)|(?P<swap>Swap|交换|交換|スワップ|스왑|Подкачка|Intercambio|"
    r"Partition d'échange))\s?[:：]\s+(?=\d)"
)
"""Rows of free in the languages that procps speaks, whose columns stand in one order."""
_FREE_COLUMNS = ["total", "used", "free", "shared", "buff/cache", "available"]


def parse_free(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read free. The unit is the suffix, else the option in the command line, else a guess by size that the report names.

    Examples
    --------
    >>> report = Report()
    >>> sample = ["       total  used  free  shared  buff/cache  available",
    ...     "Mem:   3019    58  2388      12         534       2929"]
    >>> [(row["name"], row["value_bytes"] >> 30) for _, row in parse_free(sample, Source("free.txt"), report)][:2]
    [('total', 3019), ('used', 58)]
    >>> report.reasons
    {'unit of free is not shown, taken as GiB': 1}
    """
    samples, names, guess = Samples(source), [], None
    for line in titled(lines, source, report):
        words, row = line.text.split(), _FREE.match(line.text)
        if words[:2] == ["total", "used"] or len(words) == 6 and line.text[0] == " " and not re.search(r"\d", line.text):
            names = words if words[:2] == ["total", "used"] else _FREE_COLUMNS
            samples.table()
        elif names and row:
            cells = line.text[row.end() :].split()
            if row["mem"]:
                guess = _free_unit(cells, line, report)
            for name, cell in zip(names, cells, strict=False):
                name = f"swap_{name}" if row["swap"] else FREE_NAMES.get(name, name)
                samples.add("host_memory", {"name": name, "value_bytes": size_bytes(cell, guess or 1024), **line.at}, name)
        elif words and words[0] not in ("-/+", "Total:", "Low:", "High:", "Comm:"):
            samples.misread(line, report, "free", "no line of free")
    yield from samples.settle(report)


def _free_unit(cells: list[str], line: Line, report: Report) -> int | None:
    if not cells or not cells[0].isdecimal():
        return None
    words = command_words(line.title, "free")
    options = "".join(word[1:] for word in words[1:] if re.match(r"^-[a-z]+$", word)) if words[:1] == ["free"] else None
    if options is not None:
        return 1 << {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[next((letter for letter in options if letter in "bkmgt"), "k")]
    unit = next((unit for most, unit in GUESSES if int(cells[0]) < most), "")
    figures = [int(cell) for cell in cells if cell.isdecimal() and cell != "0"]
    if unit == "M" and len(figures) >= PAGED and all(figure % 4 == 0 for figure in figures):
        unit = "K"
    report.odd(f"unit of free is not shown, taken as {unit + 'iB' if unit else 'bytes'}", line.text)
    return size_bytes("1" + unit)


def _is_free(head: str) -> float:
    if re.search(r"^\s+total\s+used\s+free\b", head, re.MULTILINE) and re.search(r"^(?:Mem|Swap):", head, re.MULTILINE):
        return 0.97
    lines = body_lines(head)[:9]
    if any(len(above.split()) == 6 and above[0] == " " and _FREE.match(below) for above, below in pairwise(lines)):
        return 0.97
    return only_failures(head, "free")


FORMATS = (
    Format("du", r"(?<![a-z])du(?![a-z])|sizes?", _is_du, parse_du, frames=("sizes", "tool_errors")),
    Format("ls", r"(?<![a-z])ls(?![a-z])", _is_ls, parse_ls, frames=("sizes", "tool_errors")),
    Format("fd", r"(?<![a-z])fds?(?![a-z])|lsof", _is_fd, parse_fd, frames=("fds", "tool_errors")),
    Format("df", r"(?<![a-z])df(?![a-z])", _is_df, parse_df, frames=("filesystems", "tool_errors")),
    Format("mount", r"mount|findmnt", _is_mount, parse_mount, frames=("filesystems", "tool_errors")),
    Format("free", r"(?<![a-z])free(?![a-z])", _is_free, parse_free, frames=("host_memory", "tool_errors")),
)
