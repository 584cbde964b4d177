"""Stacks of all ranks as one tree, and what their main threads wait in: the odd rank is seen, whatever their number."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from kit import plot
from kit.frames import FRAMES
from kit.plot.ranks import NO_SAMPLES, NO_STACKS, blocks_of, waits_of

BASE = ("main (run.py)", "load (loader.py)")
WAITING, READING = (*BASE, "barrier (dist.py)", "wait (work.py)"), (*BASE, "read (io.py)")


def threads(places: dict[int, list[str]]):
    """Samples of the main threads of some ranks, whose pids are 100 more."""
    rows = [
        {"pid": 100 + rank, "tid": 100 + rank, "state": "S", "wchan": place, "t_s": float(at), "capture": "a"}
        for rank, own in places.items()
        for at, place in enumerate(own)
    ]
    return FRAMES["threads"].build(rows), {100 + rank: rank for rank in places}


def test_the_odd_rank_of_512_has_a_branch_that_is_seen():
    stacks = {rank: READING if rank == 77 else WAITING for rank in range(512)}
    trunk, most, odd = blocks_of(stacks)
    assert (trunk.frames, most.frames, odd.frames) == (BASE, WAITING[2:], READING[2:])
    assert odd.ranks == (77,) and odd.left == most.left + most.width and odd.width == pytest.approx(0.02 * 512)
    assert trunk.width == pytest.approx(most.width + odd.width)
    assert "rank 77: read (io.py). " not in plot.describe_stack_tree(stacks)  # the largest group comes first
    assert plot.describe_stack_tree(stacks).endswith("ranks 0-76, 78-511: wait (work.py). rank 77: read (io.py).")
    assert plot.plot_stack_tree(stacks).get_title(loc="left") == "Stacks of 512 ranks, merged: they stand in 2 places"


def test_a_stack_may_end_within_another_and_deep_ones_are_told_short():
    deep = [f"f{number} (a.py)" for number in range(40)]
    axes = plot.plot_stack_tree({0: deep[:20], 1: deep})
    assert [text.get_text() for text in axes.texts][:4] == ["f0 (a.py)", "… 17 more frames", "f18 (a.py)", "f19 (a.py)"]
    many = plot.plot_stack_tree({rank: [f"only{rank}"] for rank in range(300)})
    assert "292 more places" in [text.get_text() for text in many.get_legend().get_texts()]


def test_frames_are_text(rgb):
    axes = plot.plot_stack_tree({0: ["<b>$x$ (a$.py)"], 1: []})
    assert rgb(axes.figure).std() > 0 and axes.texts[0].get_text() == "<b>\\$x\\$ (a\\$.py)"
    assert plot.describe_stack_tree({0: []}) == NO_STACKS == plot.plot_stack_tree({}).texts[0].get_text().replace("\n", " ")


def test_the_rank_that_waits_elsewhere_is_drawn_and_told(rgb):
    frame, ranks = threads({rank: ["futex"] * 9 + ["pipe_read" if rank == 40 else "futex"] for rank in range(512)})
    axes = plot.plot_rank_waits(frame, ranks=ranks)
    assert plot.figure_alt(axes.figure).endswith("Last seen: S futex (ranks 0-39, 41-511); S pipe_read (rank 40).")
    blue = np.round(np.array(to_rgb("#0072B2")) * 255)
    axes.get_legend().remove()
    assert (np.abs(rgb(axes.figure).astype(int) - blue).max(axis=-1) <= 40).any()


def test_one_moment_no_rank_and_unknown_places():
    frame, ranks = threads({0: ["futex"], 1: ["futex"]})
    assert plot.plot_rank_waits(frame, ranks=ranks).texts[0].get_text().startswith("Main threads of 2 ranks at 1 moment.")
    assert plot.describe_rank_waits(frame) == NO_SAMPLES
    bare = frame.assign(wchan=None, state="R")
    assert waits_of(bare, ranks).places == ["R running"]


def test_a_recorded_stall_is_merged(opened):
    told = plot.describe_stack_tree(opened("stopped-rank"))
    assert "rank 0: MessageQueue.wait_until_ready …, rendezvous." in told and "rank 1: " in told
    assert "T do_signal_stop (rank 1)" in plot.describe_rank_waits(opened("stopped-rank"))
