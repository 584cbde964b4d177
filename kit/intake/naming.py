"""What names of files say: moment, process, node, rank; which logs are one that was rotated, which is of the launch before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_MOMENT = re.compile(r"[._-]t?(\d{1,3})\.[^.]+$")
_NODE = re.compile(r"node[._-]?(\d+)", re.IGNORECASE)
_PID = re.compile(r"(?:pid|proc)[._-]?(\d+)", re.IGNORECASE)
_RANK = re.compile(
    r"(?<![a-z])(?:global_?)?rank[._-]?(?P<rank>\d+)|(?:^|/)attempt_\d+/(?P<torchrun>\d+)/std(?:out|err)\.log$"
    r"|slurm-\d+[._-](?P<task>\d+)\.(?:out|err|log)$|(?<![a-z])(?:task|tp)[._-]?(?P<other>\d{1,3})\.(?:out|err|log)$",
    re.IGNORECASE,
)
"""One log a rank: by name, torchrun's `--log-dir`, srun's `--output slurm-%j_%t.out`."""
_HEAD = re.compile(r"(?<![a-z])(?:head|master|leader|main[._-]?node)(?![a-z])", re.IGNORECASE)
_WORKER = re.compile(r"(?<![a-z])(?:worker|follower|slave)[._-]?(\d*)(?![a-z])", re.IGNORECASE)
_BEFORE = re.compile(r"(?:^|[._-])(?:previous|prev|last_run|old)(?:[._-]|$)", re.IGNORECASE)
_ROTATED = re.compile(r"^(?P<base>.+\.(?:log|out|err|txt))(?:[.-](?P<number>\d{1,3})|[.-](?P<day>20\d{6}(?:[-T]\d{4,6})?))$")


class Named(NamedTuple):
    """Numbers that a name holds."""

    moment: int | None = None
    pid: int | None = None
    node: int | None = None
    rank: int | None = None


def named(name: str) -> Named:
    """Read a path, or the name that an announcement gave.

    Examples
    --------
    >>> named("stat.t1.txt"), named("logs/none_x/attempt_0/2/stderr.log").rank, named("server.node1.log").node
    (Named(moment=1, pid=None, node=None, rank=None), 2, 1)
    """
    base = name.rsplit("/", 1)[-1]
    node, pid, moment = _NODE.search(name), _PID.search(base), _MOMENT.search(base)
    rank = _RANK.search(name)
    number = next((int(group) for group in rank.groups() if group), None) if rank else None
    return Named(
        int(moment[1]) if moment and not node and number is None else None,
        int(pid[1]) if pid else None,
        int(node[1]) if node else None,
        number,
    )


def nodes(names: Iterable[str]) -> dict[str, int]:
    """Nodes of files that are named by role: the head is the first, workers follow; nothing where not both are there.

    Examples
    --------
    >>> nodes(["head.log", "worker.log", "ps.txt"]), nodes(["worker.log"])
    ({'head.log': 0, 'worker.log': 1}, {})
    """
    bases = {name: name.rsplit("/", 1)[-1] for name in names}
    heads = {name: 0 for name, base in bases.items() if _HEAD.search(base)}
    workers = {name: int(found[1] or 1) for name, base in bases.items() if (found := _WORKER.search(base))}
    return heads | workers if heads and workers else {}


def is_node(name: str) -> bool:
    """Whether a name is that of one of several nodes of a launch.

    Examples
    --------
    >>> is_node("ray-head-0/ray"), is_node("vllm-worker-1"), is_node("redis-1")
    (True, True, False)
    """
    return any(sign.search(name) for sign in (_HEAD, _WORKER, _NODE, _RANK))


def of_the_launch_before(name: str) -> bool:
    """Whether a name says that a log is of the launch before.

    Examples
    --------
    >>> of_the_launch_before("previous.log"), of_the_launch_before("pod/server-prev.log"), of_the_launch_before("server.log")
    (True, True, False)
    >>> of_the_launch_before("old/server.log"), of_the_launch_before("threshold.log")
    (True, False)
    """
    return any(_BEFORE.search(part) for part in name.split("/"))


def rotated(names: Iterable[str]) -> list[list[str]]:
    """Files that are parts of one log, the oldest first: of logrotate's numbers the highest, of its dates the earliest.

    Examples
    --------
    >>> rotated(["server.log", "server.log.1", "server.log.10", "server.log.2", "ps.txt"])
    [['server.log.10', 'server.log.2', 'server.log.1', 'server.log']]
    """
    known = set(names)
    groups: dict[str, list[tuple[tuple[int, str], str]]] = {}
    for name in known:
        found = _ROTATED.match(name)
        if found and found["base"] in known:
            order = (-int(found["number"]), "") if found["number"] else (-1000, found["day"])
            groups.setdefault(found["base"], []).append((order, name))
    return [[name for _, name in sorted(parts)] + [base] for base, parts in sorted(groups.items())]
