"""Names of system calls by number, for /proc/PID/syscall: it prints numbers, which differ by machine."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

FILE = Path(__file__).parents[1] / "knowledge" / "syscalls.toml"


@cache
def _names(table: str) -> dict[int, str]:
    runs = tomllib.loads(FILE.read_text(encoding="utf-8"))[table]
    return {number: name for run in runs for number, name in enumerate(run["names"].split(), run["first"])}


@cache
def all_names() -> frozenset[str]:
    """Every name that any machine has."""
    return frozenset(name for table in ("x86_64", "generic") for name in _names(table).values())


def syscall_name(number: int, machine: str = "x86_64") -> str:
    """Return the name of a system call; `syscall_N` where it is not known.

    `number`: as /proc/PID/syscall prints it. `machine`: as `uname -m` prints it.

    Examples
    --------
    >>> syscall_name(202), syscall_name(98, "aarch64"), syscall_name(9999)
    ('futex', 'futex', 'syscall_9999')
    """
    tables = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "generic", "arm64": "generic", "riscv64": "generic"}
    names = _names(tables[machine]) if machine in tables else {}
    return names.get(number, f"syscall_{number}")
