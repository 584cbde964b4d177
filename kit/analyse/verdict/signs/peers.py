"""Peers that have not joined: sockets without an answer, lines of the store, ranks that never began."""

from __future__ import annotations

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import all_stacks
from kit.words import count_of

UNREACHED = ("EINPROGRESS", "ETIMEDOUT", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH")
PEER_LINES = ("gcs_wait", "socket_timeout", "socket_retry", "gloo_failed", "rendezvous_timeout", "store_barrier_timeout")


@rule("syn_sent", needs=("sockets",))
def syn_sent(scene: Scene) -> Signs:
    """Sockets that wait for the answer to their SYN."""
    rows = [row for row in scene.evidence.sockets if row.get("state") in ("SYN-SENT", "SYN_SENT")]
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
        yield Sign("connect_fails", f"connect() fails: {rows[0]['args'][:100]} {rows[0]['errno']}", [ref(rows[0])])


@rule("connect_lines", needs=("log",))
def peer_lines(scene: Scene) -> Signs:
    """The log says that a peer does not answer."""
    if lines := scene.log.of(*PEER_LINES):
        refs = [lines[0].ref, lines[-1].ref][: len(lines)]
        yield Sign("connect_lines", f"a peer does not answer: {lines[-1].text[:140]}", refs)


@rule("store_barrier_short", needs=("log",))
def store_barrier(scene: Scene) -> Signs:
    """The store counts fewer workers than ranks."""
    if mark := scene.log.last("store_barrier"):
        count, world = mark.fields.get("worker_count"), mark.fields.get("world_size")
        if count is not None and world is not None and int(count) < int(world):
            yield Sign("store_barrier_short", f"{count} of {world} workers arrived at the store barrier", [mark.ref])


@rule("ranks_not_begun", needs=("log",))
def not_begun(scene: Scene) -> Signs:
    """Ranks that never began to join."""
    world, begins = scene.processes.world_size, scene.log.of("dist_begin", "nccl_init_start")
    if not world or scene.phase not in ("launch", "dist_init") or scene.log.of("dist_end", "nccl_init_complete"):
        return
    ranks = {mark.rank if mark.rank is not None else mark.fields.get("rank") for mark in begins} - {None}
    if 0 < len(ranks) < world:
        yield Sign("ranks_not_begun", f"{len(ranks)} of {world} ranks began to join in these logs", [begins[0].ref])


@rule("remote_engines_missing", needs=("log",))
def remote_engines(scene: Scene) -> Signs:
    """The front end waits for engines of other nodes."""
    mark = scene.log.last("engine_wait")
    missing = int(mark.fields.get("remote") or 0) if mark else 0
    if missing > 0 and not scene.log.of("http_start"):
        claim = f"the front end waits for {count_of(missing, 'engine')} on other nodes"
        yield Sign("remote_engines_missing", claim, [mark.ref])


@rule("rendezvous_frames", needs=("stacks",))
def rendezvous_stacks(scene: Scene) -> Signs:
    """Threads wait for peers."""
    stacks = [stack for stack in all_stacks(scene.evidence) if stack.category == "rendezvous"]
    if stacks:
        claim = f"{count_of(len(stacks), 'thread')} waiting for peers in {stacks[0].place}"
        yield Sign("rendezvous_frames", claim, [stacks[0].ref])


@rule("hostname_loopback", needs=("log",))
def loopback(scene: Scene) -> Signs:
    """Ranks publish an address that others cannot reach."""
    if mark := scene.log.first("gloo_loopback"):
        claim = "the host name does not resolve to a local address; the loopback address is used"
        yield Sign("hostname_loopback", claim, [mark.ref])
