"""The data path between GPUs: IOMMU, ACS, shared memory, NCCL's network and init."""

from __future__ import annotations

import re

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.signs.peers import rendezvous_stacks, syn_sent
from kit.words import count_of, named, short

ACS_ON = re.compile(r"ACSCtl:.*(?:SrcValid\+|ReqRedir\+)")
"""Bits of `lspci -vvv` that send a transfer between two devices up to the root complex."""


def peers_wait(scene: Scene) -> bool:
    """Whether a connection or a stack shows that a peer is still waited for."""
    return (scene.has("sockets") and any(syn_sent(scene))) or (scene.has("stacks") and any(rendezvous_stacks(scene)))


@rule("iommu_faults", needs=("kernel_log",))
def iommu(scene: Scene) -> Signs:
    """The IOMMU refuses transfers."""
    faults = [row for row in scene.evidence.kernel_log if row.get("kind") == "io_page_fault"]
    if faults:
        number = count_of(len(faults), "IO_PAGE_FAULT")
        claim = f"the kernel logged {number}: the IOMMU refuses transfers between devices"
        yield Sign("iommu_faults", claim, [ref(row, row["text"]) for row in faults[:2]])


@rule("acs_on", needs=("host",))
def access_control(scene: Scene) -> Signs:
    """PCIe access control redirects transfers."""
    for row in scene.evidence.host:
        if row["source"] == "lspci" and ACS_ON.search(row["value"]):
            claim = "PCIe access control (ACS) is on at a bridge: transfers between GPUs go through the root complex"
            yield Sign("acs_on", claim, [ref(row, row["value"])])


@rule("shm_full", needs=("filesystems",))
def shared_memory(scene: Scene) -> Signs:
    """Shared memory has no room."""
    for row in scene.evidence.filesystems:
        if row.get("mount") == "/dev/shm" and row.get("used_percent") is not None:
            if row["used_percent"] >= scene.limits["shm_full_percent"]:
                yield Sign("shm_full", f"/dev/shm is {row['used_percent']:.0f} % full", [ref(row)])
            return


@rule("nccl_socket_only", needs=("log",))
def sockets_only(scene: Scene) -> Signs:
    """NCCL found no InfiniBand and uses sockets."""
    lines = scene.log.of("nccl_network")
    uses_sockets = any("Socket" in mark.text for mark in lines)
    if uses_sockets and any("IB" in mark.text and "No device" in mark.text for mark in lines):
        yield Sign("nccl_socket_only", "NCCL found no InfiniBand and uses sockets", [lines[-1].ref])


@rule("nccl_complete", "silent_after_nccl", "nccl_init_stands", needs=("log",))
def nccl_init(scene: Scene) -> Signs:
    """All ranks finished NCCL's init, and nothing followed, where that is the log's last progress; or they only connected."""
    lines, connected = scene.log.of("nccl_init_complete"), scene.log.of("nccl_connected")
    starts = scene.log.of("nccl_init_start")
    complete, begun = ({mark.fields["rank"] for mark in marks if "rank" in mark.fields} for marks in (lines, starts))
    left = named("rank", sorted(begun - complete)) if complete else "its ranks"
    if connected and (begun - complete or not lines) and scene.phase in ("launch", "dist_init"):
        yield Sign("nccl_init_stands", f"NCCL connected, and its init was not completed by {left}", [connected[-1].ref])
    world = scene.processes.world_size
    if not complete or not world or len(complete) < world:
        return
    if peers_wait(scene):
        return  # control channels (ZeroMQ, gloo, a store) are joined on their own
    yield Sign("nccl_complete", f"all {world} ranks finished NCCL init (Init COMPLETE)", [lines[-1].ref])
    last = scene.log.last_progress
    if last is not None and last.get("milestone") in ("nccl_init_complete", "nccl_timings"):
        claim = "no progress after NCCL init: the first operation that moves data does not end"
        yield Sign("silent_after_nccl", claim, [lines[-1].ref])


@rule("nccl_warns", needs=("log",))
def nccl_trouble(scene: Scene) -> Signs:
    """NCCL's own warnings."""
    if lines := scene.log.of("nccl_error", "nccl_warn"):
        yield Sign("nccl_warns", f"NCCL warns: {short(lines[0].text, 120)}", [lines[0].ref])
