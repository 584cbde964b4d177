"""Whole files of /proc, as kit/capture/sampler/files.sh prints them, made into the sampler's lines on this side."""

from __future__ import annotations

import json
import re
from typing import Any

from kit.capture.sampler.machine import host_entries
from kit.capture.sampler.process import STATUS_KEYS, stat_entries
from kit.capture.sampler.reading import pairs, parse_stat
from kit.capture.sampler.threads import row_of
from kit.redact import scrub_argv

_TITLE = re.compile(rb"^==> (.+) <==$")
_TASK = re.compile(r"^/proc/(\d+)/task/(\d+)/stat$")
_PROCESS = re.compile(r"^/proc/(\d+)/stat$")


class Sections:
    """Reads the sections as they come and gives lines, sample by sample; a sample that was cut gives none.

    Parameters
    ----------
    parameters : dict
        Of the sampler: `roots`, `interval_s`, `samples` stand in the head.

    Examples
    --------
    >>> sections = Sections({"roots": [7], "interval_s": 5.0, "samples": 2})
    >>> text = b"==> head <==\\nhz 100\\n==> sample 0 <==\\n12.5\\n==> done <==\\n==> end stopped <==\\n"
    >>> [json.loads(line)["k"] for line in sections.take(text).splitlines()]
    ['head', 'sample', 'host', 'done', 'end']
    """

    def __init__(self, parameters: dict[str, Any]):
        self._given = {name: parameters[name] for name in ("roots", "interval_s", "samples")}
        self._rest, self._title, self._body = b"", "", []
        self._files: dict[str, str] = {}
        self._page, self._moment, self._uptime_ns, self._present = 4096, 0, 0, set()

    def take(self, data: bytes) -> bytes:
        """Take some output; give the lines of what is whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        entries: list[dict[str, Any]] = []
        for line in lines:
            title = _TITLE.match(line)
            if title:
                entries += self._section()
                self._title, self._body = title[1].decode("utf-8", "replace"), []
                entries += self._mark()
            else:
                self._body.append(line.decode("utf-8", "replace"))
        return b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries)

    def _section(self) -> list[dict[str, Any]]:
        """The section that has ended."""
        if self._title == "head":
            about = dict(line.partition(" ")[::2] for line in self._body if " " in line)
            self._page = int(about.get("page") or 4096)
            head = {"k": "head", "format": "stallkit-sampler", "version": 2, "by": "files", **self._given}
            return [{**head, "hz": int(about.get("hz") or 100), "machine": about.get("machine"), "kernel": about.get("kernel")}]
        if self._title.startswith("sample "):
            self._moment, self._files = int(self._title[7:]), {"wall": self._body[0] if self._body else "0"}
        elif self._title.startswith("/"):
            self._files[self._title] = "\n".join(self._body).rstrip("\n")
        return []

    def _mark(self) -> list[dict[str, Any]]:
        if self._title == "done":
            return self._sample()
        if self._title.startswith("end "):
            return [{"k": "end", "n": self._moment + 1, "why": self._title[4:], "wall_ns": self._wall_ns()}]
        return []

    def _wall_ns(self) -> int:
        whole, _, part = self._files.get("wall", "0").partition(".")
        return int(whole) * 10**9 + (int((part + "0" * 9)[:9]) if part.isdigit() else 0)

    def _sample(self) -> list[dict[str, Any]]:
        n, files = self._moment, self._files
        mono_ns = int(float((files.get("/proc/uptime") or "0").split()[0]) * 1e9)
        lines: list[dict[str, Any]] = [{"k": "sample", "n": n, "wall_ns": self._wall_ns(), "mono_ns": mono_ns}]
        present: dict[int, list] = {}
        for path, text in files.items():
            process, task = _PROCESS.match(path), _TASK.match(path)
            if process and text:
                present[int(process[1])] = []
            elif task and text and int(task[1]) in present:
                present[int(task[1])].append(self._thread(int(task[2]), path.removesuffix("stat"), text))
        lines += [{"k": "gone", "n": n, "pid": pid} for pid in sorted(self._present - set(present))]
        for pid, rows in sorted(present.items()):
            lines.append(self._process(pid))
            lines.append({"k": "threads", "n": n, "pid": pid, "all": True, "rows": rows})
        self._present = set(present)
        return [*lines, {"k": "host", "n": n, "all": True, **host_entries(files.get)}, {"k": "done", "n": n}]

    def _thread(self, tid: int, base: str, stat: str) -> list:
        wchan = self._files.get(base + "wchan")
        schedstat = (self._files.get(base + "schedstat") or "").encode() + b"\n"
        return row_of(tid, stat, self._files.get(base + "syscall"), wchan if wchan not in ("", "0") else None, schedstat)

    def _process(self, pid: int) -> dict[str, Any]:
        base, files = f"/proc/{pid}/", self._files
        comm, fields = parse_stat(files[base + "stat"])
        line = {"k": "proc", "n": self._moment, "pid": pid, "all": True, **stat_entries(comm, fields, self._page)}
        wchan = files.get(base + "wchan")
        line |= {"wchan": wchan if wchan not in ("", "0") else None, "status": pairs(files.get(base + "status"), STATUS_KEYS)}
        line["io"] = pairs(files.get(base + "io"), None)
        argv = (files.get(base + "cmdline") or "").rstrip("\0 ").split("\0")
        if argv != [""]:
            line["cmd"] = scrub_argv(argv)
        secret = {"io": base + "io", "syscall": f"{base}task/{pid}/syscall"}
        denied = [name for name, path in secret.items() if not files.get(path)]
        if denied and fields[0] != "Z":
            line["denied"] = denied
        if fields[0] == "Z" and len(fields) > 49:
            line["exit"] = int(fields[49])
        return line
