"""Peers that have not joined: sockets without an answer, lines of the store, ranks that never began."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.facts_log import PEER_LINES, SYN_STATES
from kit.analyse.verdict.failures import cause
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.phases import ORDER
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import all_stacks
from kit.clock import NS, show_duration
from kit.schema import Row
from kit.untrusted import whole_number
from kit.words import count_of, short

MEMORY = ("gpu_oom", "host_oom")
"""Ends of a rank that its peers then wait for in vain."""
UNREACHED = ("EINPROGRESS", "ETIMEDOUT", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH")
RECEIVE = ("recvfrom", "recvmsg", "read")
CONNECTING = frozenset(("connect", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"))
HUBS = ("HF_ENDPOINT", "MODELSCOPE_DOMAIN")
"""Variables that name another hub than the usual one."""


@rule("syn_sent", needs=("sockets",))
def syn_sent(scene: Scene) -> Signs:
    """Sockets that wait for the answer to their SYN."""
    rows = [row for row in scene.evidence.sockets if row.get("state") in SYN_STATES]
    if rows:
        peer = f"{rows[0].get('peer_address')}:{rows[0].get('peer_port')}"
        yield Sign("syn_sent", f"no answer from {peer} ({count_of(len(rows), 'socket')} in SYN-SENT)", [ref(rows[0])])


@rule("connect_fails", needs=("syscalls",))
def connect_fails(scene: Scene) -> Signs:
    """connect() to an address of a network does not succeed."""
    rows = [
        row
        for row in scene.evidence.syscalls.samples.values()
        if row["syscall"] == "connect" and row.get("errno") in UNREACHED and "AF_INET" in (row.get("args") or "")
    ]
    if rows and not any(syn_sent(scene)):
        yield Sign("connect_fails", f"connect() fails: {short(rows[0]['args'], 100)} {rows[0]['errno']}", [ref(rows[0])])


@rule("hub_silent", needs=("sockets",))
def silent_hub(scene: Scene) -> Signs:
    """The main thread of a launch that has not begun its work stays in a call on its connection to the model hub."""
    calls: dict[int | None, list] = {}
    for row in scene.evidence.threads if scene.phase in ("launch", "download") else ():
        if row.get("pid") == row.get("tid"):
            calls.setdefault(row["pid"], []).append((row.get("syscall"), (row.get("syscall_args") or "").split(" ")[0]))
    looks = Counter(_connection(socket) for socket in scene.evidence.sockets)
    for socket in scene.evidence.sockets:
        made, hub = calls.get(socket.get("pid"), []), _hub_of(scene, socket)
        # Where it did other things before, the connection must have stood between two looks, which are ten seconds apart.
        latest = int(scene.limits["hub_samples"])
        seen = set(made[-latest:] if looks[_connection(socket)] > 1 else made)
        if not seen or not hub:
            continue
        own = {(name, f"{socket.get('fd') or 0:#x}") for name in RECEIVE}
        joining = socket.get("state") in SYN_STATES and {name for name, _ in seen} <= CONNECTING
        if joining or socket.get("state") == "ESTAB" and seen <= own:
            what = f"{'a connection to' if joining else 'bytes from'} {hub} ({socket['peer_address']}:{socket['peer_port']})"
            claim = f"the main thread of pid {socket['pid']} waits for {what}, and does nothing else"
            yield Sign("hub_silent", claim, [ref(socket)])
            return


def _connection(socket: Row) -> tuple:
    return tuple(socket.get(name) for name in ("pid", "fd", "local_port", "peer_address", "peer_port"))


@rule("hub_retried", "hub_unreached", needs=("log",))
def unreached_hub(scene: Scene) -> Signs:
    """The log says that the model hub is asked again, or that it was given up, and the launch came no further."""
    told = scene.log.of("hub_retry", "hub_unreached")
    if told and scene.phase in ("launch", "download"):
        code = "hub_unreached" if scene.log.of("hub_unreached") else "hub_retried"
        yield Sign(code, f"the model hub cannot be reached: {short(told[-1].text, 160)}", [told[-1].ref])


def _hub_of(scene: Scene, socket: Row) -> str | None:
    """Name of the model hub that a socket leads to: as the environment names it, else by the port of the web."""
    address, port = str(socket.get("peer_address") or "").strip("[]"), socket.get("peer_port")
    for row in scene.evidence.host:
        if row.get("source") == "environ" and row.get("key") in HUBS:
            given = urlsplit(str(row["value"]))
            by_number = (given.hostname or "").replace(".", "").isdecimal()
            if port == (given.port or {"http": 80}.get(given.scheme, 443)) and (not by_number or given.hostname == address):
                return f"{row['key']} {row['value']}"
    return "a web server" if port == 443 and address not in ("127.0.0.1", "::1") else None


@rule("connect_lines", needs=("log",))
def peer_lines(scene: Scene) -> Signs:
    """The log says that a peer does not answer, or ends on somebody who asks for one; none where memory ran out before."""
    lines, began = _not_joined(scene.log.of(*PEER_LINES), scene) or _asks_on(scene), cause(scene.log)
    if lines and not (began is not None and began.code in MEMORY and began.order < lines[0].order):
        refs = [lines[0].ref, lines[-1].ref][: len(lines)]
        yield Sign("connect_lines", f"a peer does not answer: {short(lines[-1].text, 140)}", refs)


def _not_joined(lines: list[Mark], scene: Scene) -> list[Mark]:
    """Those after which their log tells of no work that needs all ranks: before it the peer had answered in the end."""
    worked: dict[object, int] = {}
    for mark in scene.log.marks:
        if mark.kind == "progress" and ORDER.get(mark.phase or "", -1) > ORDER["dist_init"]:
            worked[mark.log] = mark.order
    return [line for line in lines if line.order > worked.get(line.log, -1)]


def _asks_on(scene: Scene) -> list[Mark]:
    """Lines by which a log asks for a peer again and again, where nothing of its own comes after them."""
    asked = scene.log.of("peer_asked")
    went_on = {mark.log for mark in scene.log.marks if mark.kind == "progress" and mark.order > asked[-1].order} if asked else ()
    return asked if len(asked) >= scene.limits["heartbeats_alone"] and asked[-1].log not in went_on else []


@rule("store_barrier_short", needs=("log",))
def store_barrier(scene: Scene) -> Signs:
    """The store counts fewer workers than ranks."""
    if mark := scene.log.last("store_barrier"):
        count, world = mark.fields.get("worker_count"), mark.fields.get("world_size")
        if (whole_number(count) or 0) < (whole_number(world) or 0) and count is not None:
            yield Sign("store_barrier_short", f"{count} of {world} workers have joined: {short(mark.text, 100)}", [mark.ref])


@rule("joins_no_more", "connect_lines", needs=("log",))
def joining(scene: Scene) -> Signs:
    """The launch is at joining, and silent for longer than that may take."""
    if scene.phase == "dist_init" and (scene.silence_s or 0) > scene.limits["joining_s"]:
        claim = f"the ranks are at joining, and nothing was said for {show_duration(scene.silence_s)}"
        yield Sign("joins_no_more", claim, scene.facts.refs("silence_s"))
        if (scene.log.last_progress or {}).get("milestone") == "rendezvous_begin":
            claim = f"an agent has waited for the others for {show_duration(scene.silence_s)}"
            yield Sign("connect_lines", claim, scene.facts.refs("silence_s"))


@rule("ranks_not_begun", needs=("log",))
def not_begun(scene: Scene) -> Signs:
    """Ranks that never began to join."""
    world, begins = scene.processes.world_size, scene.log.of("dist_begin", "nccl_init_start")
    joined = scene.log.of("dist_end", "nccl_init_complete", "nccl_connected")
    if not world or scene.phase not in ("launch", "dist_init") or joined or _just_begun(scene, begins):
        return
    ranks = {mark.fields.get("rank", mark.rank) for mark in begins} - {None}
    if 0 < len(ranks) < world:
        yield Sign("ranks_not_begun", f"{len(ranks)} of {world} ranks began to join in these logs", [begins[0].ref])


def _just_begun(scene: Scene, begins: list[Mark]) -> bool:
    """Whether a log of which only its own stamps tell when it was taken ends too soon after the first rank for the last."""
    times = [mark.time for mark in begins if mark.time is not None]
    late = scene.log.last_time is not None and times and scene.log.last_time - times[0] > scene.limits["lag_s"] * NS
    return not scene.evidence.run.captured_known and bool(times) and not late


@rule("remote_engines_missing", needs=("log",))
def remote_engines(scene: Scene) -> Signs:
    """The front end waits for engines of other nodes."""
    mark = scene.log.last("engine_wait")
    missing = whole_number(mark.fields.get("remote")) or 0 if mark else 0
    if missing > 0 and not scene.log.of("http_start"):
        claim = f"the front end waits for {count_of(missing, 'engine')} on other nodes"
        yield Sign("remote_engines_missing", claim, [mark.ref])


@rule("rendezvous_frames", needs=("stacks",))
def rendezvous_stacks(scene: Scene) -> Signs:
    """Threads wait for peers; those of NCCL's init have met once it has connected them."""
    stacks = [stack for stack in all_stacks(scene.evidence) if stack.category == "rendezvous"]
    begun, met = scene.log.last("nccl_init_start"), scene.log.last("nccl_connected", "nccl_init_complete")
    if met is not None and (begun is None or begun.order < met.order):
        stacks = [stack for stack in stacks if not stack.place.startswith("ncclCommInit")]
    if stacks:
        claim = f"{count_of(len(stacks), 'thread')} waiting for peers in {stacks[0].place}"
        yield Sign("rendezvous_frames", claim, [stacks[0].ref])


@rule("hostname_loopback", needs=("log",))
def loopback(scene: Scene) -> Signs:
    """Ranks publish an address that others cannot reach."""
    if mark := scene.log.first("gloo_loopback"):
        claim = "the host name does not resolve to a local address; the loopback address is used"
        yield Sign("hostname_loopback", claim, [mark.ref])
