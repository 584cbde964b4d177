"""Facts that processes, sockets, GPUs, locks and stacks tell."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from signal import SIGABRT, SIGTERM

from kit.analyse.verdict.evidence import Evidence, ref
from kit.analyse.verdict.facts_log import asked_port, exited
from kit.analyse.verdict.phases import Progression, rank_of
from kit.analyse.verdict.processes import Processes, frozen, titles_of
from kit.analyse.verdict.sense import internal_ports
from kit.analyse.verdict.stacks import main_stacks, places, worker_stacks
from kit.analyse.verdict.thresholds import thresholds
from kit.clock import NS
from kit.parse.curl import purpose
from kit.schema import Row
from kit.untrusted import whole_number
from kit.words import count_of

PROBED = re.compile(r"probe failed: Get \W*https?://[^/\s]*:(\d{2,5})/")
"""The address that a kubelet asks."""
ALL_READY = re.compile(r"(?:^| )([1-9]\d*)/\1 +Running(?: |$)|^Ready:\s+True$")
"""A pod whose containers have all passed their readiness probe."""
NO_ANSWER = ("connection refused", "empty reply", "reset")
LOCAL = re.compile(r"^(?:https?://)?(?:localhost|127\.|0\.0\.0\.0|\[?::1)")
DAEMONS = ("sshd", "systemd", "systemd-resolve", "cupsd", "dockerd", "containerd", "kubelet", "docker-proxy", "rpcbind")
"""Listeners of the host: a pid of a container may be theirs by chance."""
LOCK_NAME = re.compile(r"\block[^/]*$|\.lock$|/lock_[^/]*$|baton")
LOCK_ARGUMENT = re.compile(r'"([^"]*(?:\.lock|/lock|/lock_[^"/]*|\block))"')
STORE = re.compile(r"DistNetworkError|TCPStore|server socket|c10d|rdzv|master_port|HashStore")
"""Words of a record about the port of a store, which is not the server's."""
WRITES = ("write", "writev", "pwrite64", "sendto", "sendmsg")
DECODED = re.compile(r"\d+<([^>]*)>")
"""A descriptor as `strace -y` prints it."""
RUNNING_WCHAN = ("0", "-", "", "do_idle")


def endpoint(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`port`, `port_listening`, `port_owner_pid`, `health_http`, `generate_works`."""
    own = [row for row in _listeners(evidence) if row.get("pid") in processes.by_pid and row.get("process") not in DAEMONS]
    port, where = _port(evidence, own)
    given = {"port": (port, where), "health_http": _health(evidence), "generate_works": _generate(evidence, processes)}
    here = [row for row in _listeners(evidence) if port is not None and row.get("local_port") == port]
    if here:
        given["port_owner_pid"] = (here[0].get("pid"), [ref(here[0])])
        given["port_listening"] = (True, [ref(here[0], f"LISTEN {port} by {here[0].get('process')} pid {here[0].get('pid')}")])
    else:
        given["port_listening"] = _answers_on(evidence, port, bool(own) and asked_port(evidence)[0] is None)
    return given


def _listeners(evidence: Evidence) -> list[Row]:
    return [row for row in evidence.sockets if row.get("state") == "LISTEN"]


def _port(evidence: Evidence, own: list[Row]) -> tuple[int | None, list[dict]]:
    """The server's port: as asked for, as probed, as the log names it, as the launch's or a server's process listens on it."""
    port, where = asked_port(evidence)
    if port is None:
        probed = [row["port"] for row in evidence.probes if row.get("port")]
        probed += [int(found[1]) for row in evidence.events if (found := PROBED.search(row["text"]))]
        mentioned = [
            port
            for mark in evidence.log.marks
            if (port := whole_number(mark.fields.get("port"))) is not None
            and mark.phase != "dist_init"
            and not STORE.search(mark.text)
        ]
        listened = [row["local_port"] for row in own] or _server_like(evidence)
        internal = internal_ports(evidence)
        port = next((number for number in probed or mentioned or listened if number not in internal), None)
    return port, where


def _answers_on(evidence: Evidence, port: int | None, own_listener: bool) -> tuple[bool | None, list[dict]]:
    """Whether something answers on a port on which no listener was seen."""
    probes = [row for row in evidence.probes if row.get("port") in (None, port)]
    # Where sockets were listed, an answer of another host says nothing of this one.
    remote = bool(_listeners(evidence))
    answered = [row for row in probes if row.get("http_status") and (not remote or LOCAL.search(row.get("url") or "localhost"))]
    refused = [row for row in unanswered(evidence) if row in probes and row["error"] == "connection refused"]
    if answered:
        return True, [ref(answered[0], f"{answered[0].get('url')}: {answered[0]['http_status']}")]
    if evidence.sockets and not own_listener:
        listed = f"{count_of(len(evidence.sockets), 'socket')} listed; none listens on the server's port"
        return False, [
            ref(evidence.sockets[0], listed),
            *(ref(row, f"{row.get('url')}: connection refused") for row in refused[:1]),
        ]
    if refused:
        return False, [ref(refused[0], "connection refused")]
    return _refuses_its_probe(evidence)


def unanswered(evidence: Evidence) -> list[Row]:
    """Requests of an observer to which nothing came back; one that stands in a log before it says ready came too early."""
    up = {mark.capture: mark.line for mark in evidence.log.of("ready")}
    failed = [row for row in evidence.probes if row.get("error") in NO_ANSWER]
    return [row for row in failed if (row.get("line") or 0) >= up.get(row["capture"], 0)]


def _refuses_its_probe(evidence: Evidence) -> tuple[bool | None, list[dict]]:
    """Whether the last that a kubelet tells of a probe is that nobody listens; where it has come up since, that tells nothing."""
    asked = [row for row in evidence.events if PROBED.search(row["text"])]
    last = min(asked, key=lambda row: row.get("age_s") or 0.0, default=None)
    up = evidence.log.of("ready", "http_listening") or any(ALL_READY.search(row["text"]) for row in evidence.events)
    return (False, [ref(last, last["text"])]) if last and not up and "connection refused" in last["text"] else (None, [])


def _server_like(evidence: Evidence) -> list[int]:
    """Ports that something like a server listens on, for the want of a better sign."""
    titles = titles_of(evidence)
    return [
        row["local_port"]
        for row in evidence.sockets
        if row.get("state") == "LISTEN" and row.get("local_port") and titles.may_serve(row.get("process"))
    ]


def _health(evidence: Evidence) -> tuple:
    asked = [row for row in evidence.probes if _of_health(row.get("path") or "") and row.get("http_status")]
    if asked:
        return asked[-1]["http_status"], [ref(asked[-1], f"{asked[-1].get('path')}: {asked[-1]['http_status']}")]
    for mark in reversed(evidence.log.of("probe_request", "health_failed")):
        status = whole_number(mark.fields.get("status"))
        if status is not None and status >= 500 and mark.order < evidence.log.served:
            continue  # it was not up yet, or has answered a request since
        if _of_health(str(mark.fields.get("path", ""))) and status is not None:
            return status, [mark.ref]
    return None, []


def _of_health(path: str) -> bool:
    """Whether a path is one of a server's health, be it one that generates a token for it."""
    return purpose(path) == "health" or path.startswith("/health")


def _generate(evidence: Evidence, processes: Processes) -> tuple:
    """A real request was answered with at least one token; a client error (4xx) says nothing."""
    for row in reversed(evidence.probes):
        if row.get("purpose") != "generate":
            continue
        where = [
            ref(row, f"{row.get('command') or row.get('url')}: {row.get('error') or row.get('http_status') or row.get('body')}")
        ]
        if row.get("tokens"):
            return True, where
        if row.get("error") in ("timeout", "reset", "empty reply", "connection refused") or (row.get("http_status") or 0) >= 500:
            return False, where
        if row.get("http_status") == 200 and "health" in (row.get("path") or ""):
            return True, where
    return _served(evidence, processes)


def _served(evidence: Evidence, processes: Processes) -> tuple:
    """The server's own log shows an answered request that needs the model, and nothing after it that went wrong or stands."""
    row, order = evidence.log.last_answer or (None, 0)
    if row is None or purpose(str(json.loads(row["fields"]).get("path"))) != "generate" or exited(evidence, processes)[0]:
        return None, []
    since = [mark for mark in evidence.log.marks if mark.order > order and mark.capture == row["capture"]]
    counted = [mark for mark in evidence.log.of("engine_stats", "decode_batch") if mark.fields.get("running") is not None][-1:]
    stands = any(mark.kind in ("error", "symptom", "heartbeat") or mark.code == "request" for mark in since)
    if stands or any(mark.fields["running"] + (mark.fields.get("queued") or 0) > 0 for mark in counted):
        return None, []
    return True, [{"capture": row["capture"], "line": row.get("line"), "text": row["raw"][:200]}]


HUNG = ("d_state", "hung_task")
"""Kinds of kernel lines that show a process asleep in state D; where a process table is there, that is newer."""


def _first_status(evidence: Evidence) -> Row | None:
    rows = [row for row in evidence.processes if row.get("tool") == "status"]
    return rows[0] if rows else None


def process(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`state`, `threads`, `fds`, `rss_kb` of the process in status.txt; memory kept apart; `d_state_pids`; `log_deleted`."""
    given: dict = {}
    row = _first_status(evidence)
    if row:
        where = [ref(row, f"pid {row['pid']}: state {row.get('state')}, {row.get('threads')} threads")]
        given["state"], given["threads"] = (row.get("state"), where), (row.get("threads"), where)
        for name, column in (
            ("rss_kb", "rss_bytes"),
            ("rss_anon_kb", "rss_anon_bytes"),
            ("rss_file_kb", "rss_file_bytes"),
            ("rss_shmem_kb", "rss_shmem_bytes"),
        ):
            if row.get(column) is not None:
                given[name] = (row[column] // 1024, where)
    by_pid = {}
    for entry in evidence.fds:
        by_pid.setdefault(entry.get("pid"), []).append(entry)
    if by_pid:
        pid = row["pid"] if row and row["pid"] in by_pid else next(iter(by_pid))
        newest = max((entry.get("moment") or 0) for entry in by_pid[pid])
        kept = [entry for entry in by_pid[pid] if (entry.get("moment") or 0) == newest]
        given["fds"] = (len(kept), [ref(kept[0], f"{len(kept)} descriptors of pid {pid}")])
    elif row and row.get("fds") is not None:
        given["fds"] = (row["fds"], [ref(row)])
    held = frozen(evidence)
    asleep = [entry for entry in evidence.processes if entry.get("state") == "D" and entry["pid"] not in held]
    hung = [] if evidence.processes else [row for row in evidence.kernel_log if row.get("kind") in HUNG and row.get("pid")]
    stuck = sorted(
        {entry["pid"] for entry in [*asleep, *hung]}
        | {entry["pid"] for entry in evidence.threads if entry.get("state") == "D" and entry.get("pid")} - held
    )
    if evidence.processes or hung:
        given["d_state_pids"] = (stuck, [*map(ref, asleep), *(ref(row, row["text"]) for row in hung)][:3])
    given["log_deleted"] = _log_deleted(evidence)
    return given


def _log_deleted(evidence: Evidence) -> tuple:
    outputs = [row for row in evidence.fds if row["fd"] in (1, 2)]
    gone = [row for row in outputs if row.get("deleted")]
    if gone:
        return True, [ref(gone[0], f"fd {gone[0]['fd']} -> {gone[0].get('target')} (deleted)")]
    logs = [row for row in outputs if (row.get("target") or "").startswith("/") and not row["target"].startswith("/dev/")]
    shown = logs or outputs
    return (False, [ref(shown[0], f"fd {shown[0]['fd']} -> {shown[0].get('target')}")]) if shown else (None, [])


def dead(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`ranks_dead`, `killed_pids`."""
    ranks: dict[int, dict] = {}
    for process_ in processes.by_pid.values():
        if process_.dead and process_.rank is not None:
            last = process_.rows[-1]
            ranks[process_.rank] = ref(
                last, f"pid {process_.pid} {last.get('comm') or process_.title}: state {last.get('state')}"
            )
    for mark in evidence.log.of("worker_died", "killed"):
        number = whole_number(mark.fields.get("rank"))  # that the record is about; `mark.rank` is the one that wrote it
        if number is not None:
            ranks.setdefault(number, mark.ref)
    for rank, where in [*_listed(evidence), *_aborted(evidence, processes).items(), *_unanswered(evidence, processes).items()]:
        ranks.setdefault(rank, where)
    for rank in _absent(processes):
        listed = next(process.rows[-1] for process in processes.workers if process.rows)
        ranks.setdefault(rank, ref(listed, f"rank {rank} is not among the processes, {len(processes.workers)} other ranks are"))
    killed: list[int] = []
    refs = []
    for row in evidence.kernel_log:
        if row.get("kind") == "oom_kill" and row.get("pid") is not None:
            if row["pid"] not in killed:
                killed.append(row["pid"])
            refs.append(ref(row, row["text"]))
            rank = processes.rank_of(row["pid"])
            if rank is not None:
                ranks.setdefault(rank, ref(row, row["text"]))
    return {"ranks_dead": (sorted(ranks) or None, list(ranks.values())), "killed_pids": (sorted(killed) or None, refs)}


def _listed(evidence: Evidence) -> Iterator[tuple[int, dict]]:
    """Ranks of which torchrun says that a signal ended them: not its own SIGTERM, nor the SIGABRT of one that waited in vain."""
    marks = evidence.log.marks
    for place, mark in enumerate(marks):
        rank = whole_number(mark.fields.get("rank")) if mark.code == "failed_rank" else None
        code = whole_number(marks[place + 1].fields.get("exit_code")) if marks[place + 1 :] else None
        if rank is not None and code is not None and code < 0 and -code not in (SIGTERM, SIGABRT):
            yield rank, mark.ref


def _aborted(evidence: Evidence, processes: Processes) -> dict[int, dict]:
    """The one rank whose watchdog ends its process, where a worker dies after that."""
    marks = [mark for mark in evidence.log.of("watchdog_stuck") if rank_of(mark, processes) is not None]
    ranks = {rank_of(mark, processes) for mark in marks}
    died = [mark for mark in evidence.log.of("worker_died") if marks and mark.order > marks[0].order]
    return {rank: marks[-1].ref for rank in ranks if rank is not None} if len(ranks) == 1 and len(died) == 1 else {}


def _unanswered(evidence: Evidence, processes: Processes) -> dict[int, dict]:
    """Ranks that wrote, and did not answer when the launcher ended what was left after a death: they had died before."""
    answers = {rank_of(mark, processes): mark for mark in evidence.log.of("worker_exit")}
    answers.pop(None, None)
    silent = sorted(evidence.log.rank_pids.keys() - answers.keys())
    if not evidence.log.of("worker_died") or not answers or len(silent) > len(answers):
        return {}
    first = next(iter(answers.values()))
    return {rank: first.ref | {"text": f"rank {rank} did not answer the end of the launch as others did"} for rank in silent}


def _absent(processes: Processes) -> list[int]:
    """Ranks that a process table lacks while it shows most of the others of a launch on one node."""
    listed = {process.rank for process in processes.workers if any(row.get("tool") == "ps" for row in process.rows)}
    if not processes.world_size or processes.sizes.get("nnodes", 1) > 1 or len(listed) < 2:
        return []
    absent = sorted(set(range(processes.world_size)) - listed)
    return absent if len(absent) <= len(listed) / 2 else []


def standing_write(evidence: Evidence) -> Row | None:
    """A write that was open for long when its trace ended, or that is all that its thread did: others only happen to be open."""
    calls, held_ns = evidence.syscalls, thresholds(evidence.run.knowledge)["write_held_s"] * NS
    for row in calls.open.values():
        if row["syscall"] in WRITES and row.get("fd") is not None:
            when, only = row.get("time"), sum(calls.by_thread[row.get("pid")].values()) == 1
            if only or when is None or calls.last is None or calls.last - when >= held_ns:
                return row
    return None


def written_to(evidence: Evidence, write: Row) -> str | None:
    """What a write's descriptor leads to: as strace says it, else in the table of its own process."""
    if found := DECODED.match(write.get("args") or ""):
        return found[1]
    thread = write.get("pid")
    owners = {row["pid"] for row in evidence.threads if row.get("tid") == thread} or {thread}
    tables = {row.get("pid") for row in evidence.fds}
    own = owners & tables or (tables if len(tables) == 1 else set())
    return next((row.get("target") for row in evidence.fds if row["fd"] == write["fd"] and row.get("pid") in own), None)


def blocked(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`wchan` and `blocked_fd`: where a process sleeps, and the descriptor of its unfinished write."""
    given: dict = {}
    if row := standing_write(evidence):
        given["blocked_fd"] = (row["fd"], [ref(row, f"{row['syscall']}({row.get('args', '')[:80]} does not return")])
    main = _first_status(evidence)
    candidates = [
        row
        for row in evidence.threads
        if row.get("wchan")
        and row["wchan"] not in RUNNING_WCHAN
        and (row.get("tid") in (0, row.get("pid")) or row.get("tool") == "wchan")
    ]
    candidates += [row for row in evidence.processes if row.get("wchan") and row["wchan"] not in RUNNING_WCHAN]
    if main:
        candidates.sort(key=lambda row: row.get("pid") not in (main["pid"], None))
    own = {process.pid for process in processes.of_role("frontend", "engine", "worker")}
    candidates.sort(key=lambda row: (row["wchan"] != "pipe_write", row.get("state") != "D", row.get("pid") not in own))
    if candidates:
        given["wchan"] = (candidates[0]["wchan"], [ref(candidates[0], candidates[0]["wchan"])])
        outputs = [row for row in evidence.fds if row["fd"] in (1, 2) and (row.get("target") or "").startswith("pipe:")]
        if candidates[0]["wchan"] == "pipe_write" and len({row["target"] for row in outputs}) == 1:
            given.setdefault(
                "blocked_fd", (outputs[0]["fd"], [ref(outputs[0], f"fd {outputs[0]['fd']} -> {outputs[0]['target']}")])
            )
    return given


def locks(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`lock_path`, `lock_holder`, `compilers_running`."""
    given: dict = {}
    path, where = _waited_lock(evidence, processes)
    if path:
        full = [row["path"] for row in evidence.locks if row["path"].endswith("/" + path.lstrip("./"))]
        path = full[0] if full and not path.startswith("/") else path
        given["lock_path"] = (_at_home(path, evidence), where)
        holders = [row for row in evidence.locks if row.get("pid") and not row.get("waits") and same_file(row["path"], path)]
        if holders:
            given["lock_holder"] = (holders[0]["pid"], [ref(holders[0], f"{holders[0]['path']} held by {holders[0]['pid']}")])
    if any(row.get("cmdline") or row.get("comm") for row in evidence.processes):
        running = processes.of_role("compiler")
        # Compilers come and go: those that a later sample saw did not run beside those of an earlier one.
        by_moment: dict = defaultdict(set)
        for compiler in running:
            for row in compiler.rows:
                by_moment[row.get("moment")].add(compiler.pid)
        at_once = max(map(len, by_moment.values()), default=0)
        given["compilers_running"] = (at_once, [ref(p.rows[-1], p.title[:120]) for p in running if p.rows][:3])
    return given


def _at_home(path: str, evidence: Evidence) -> str:
    """A path that a shell would complete, by the log's own word of the folder that it leads through."""
    roots = [str(mark.fields["path"]).rstrip("/") for mark in evidence.log.of("extension_root") if mark.fields.get("path")]
    for root in roots if path.startswith("~/") else ():
        home, found, rest = root.partition("/" + path.split("/")[1] + "/")
        if home and found and f"{path}/".startswith(f"~{found}{rest}/"):
            return home + path[1:]
    return path


def _waited_lock(evidence: Evidence, processes: Processes) -> tuple[str | None, list[dict]]:
    """The lock that is waited for: as the log names it, as a system call asks for it, as the server's processes hold it."""
    for mark in reversed(evidence.log.of("lock_wait")):
        if mark.fields.get("path"):
            return mark.fields["path"], [mark.ref]
    for row in [*evidence.syscalls.open.values(), *evidence.syscalls.samples.values()]:
        asked = LOCK_ARGUMENT.search(row.get("args") or "")
        if asked:
            return asked.group(1), [ref(row, f"{row['syscall']}({row['args'][:100]}")]
    own = [row for row in evidence.locks if row.get("pid") in processes.by_pid]
    of_system = ("/run/", "/var/run/")
    listed = [*evidence.locks, *evidence.sizes]  # `ls` of one lock file is a list of sizes
    named = [row for row in listed if LOCK_NAME.search(row["path"]) and not row["path"].startswith(of_system)]
    for row in own + named:
        return row["path"], [ref(row, row["path"])]
    return None, []


def same_file(one: str, other: str) -> bool:
    """Whether two paths may be one file: equal, or with the same last two parts, as inside and outside of a container.

    Examples
    --------
    >>> same_file("/data/.locks/m/4f.lock", "/var/volumes/hf/.locks/m/4f.lock"), same_file("/a/lock", "/b/lock")
    (True, False)
    """
    return one == other or one.split("/")[-2:] == other.split("/")[-2:]


def gpus(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`gpu_util`, `gpu_mem_mib_max`, `xids`."""
    given: dict = {}
    moments = [row.get("moment") or 0 for row in evidence.gpus]
    latest = [row for row in evidence.gpus if (row.get("moment") or 0) == max(moments)]
    utils = [row["util_percent"] for row in latest if row.get("util_percent") is not None]
    used = [row["mem_used_mib"] for row in evidence.gpus if row.get("mem_used_mib") is not None]
    if utils:
        given["gpu_util"] = (
            _whole(max(utils)),
            [
                ref(row, f"GPU {row['gpu']}: {row.get('util_percent'):g} %")
                for row in latest
                if row.get("util_percent") is not None
            ][:8],
        )
    held: dict[object, float] = defaultdict(float)
    for row in evidence.gpu_processes:  # where the table of the GPUs themselves was left out
        held[row.get("gpu"), row.get("moment")] += row.get("mem_used_mib") or 0.0
    most = max(used, default=None) if used else max(held.values(), default=0.0) or None
    if most is not None:
        given["gpu_mem_mib_max"] = (_whole(most), [ref((evidence.gpus if used else evidence.gpu_processes)[0])])
    xids = [(row["xid"], ref(row, row["text"])) for row in evidence.kernel_log if row.get("xid") is not None]
    xids += [(int(mark.fields["xid"]), mark.ref) for mark in evidence.log.of("xid") if mark.fields.get("xid") is not None]
    if xids:
        given["xids"] = (list(dict.fromkeys(number for number, _ in xids)), [where for _, where in xids[:4]])
    return given


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def stacks(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`ranks_same_place`, `pyspy_failed`."""
    given: dict = {}
    failed = [row for row in evidence.tool_errors if row["tool"] in ("pyspy", "py-spy")]
    if failed:
        given["pyspy_failed"] = (True, [ref(failed[0], failed[0]["text"])])
    elif any(row.get("tool") == "pyspy" for row in evidence.stacks):
        given["pyspy_failed"] = (False, [])
    mains = main_stacks(evidence, processes)
    mains = mains if len(mains) >= 2 else worker_stacks(evidence, processes)
    if len(mains) >= 2:
        where = places(mains)
        given["ranks_same_place"] = (len(set(where.values())) == 1, [stack.ref for stack in mains.values()][:4])
    return given


def lagging(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`lagging_ranks` as far as milestones, desync reports and barrier time-outs tell; hypotheses may add the odd stack."""
    from kit.analyse.verdict.lagging_ranks import lagging_ranks

    ranks, refs = lagging_ranks(evidence, processes, found)
    return {"lagging_ranks": (ranks or None, refs)}
