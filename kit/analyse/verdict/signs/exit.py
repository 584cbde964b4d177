"""Deaths and endings: processes that were killed or crashed, and what shows that nobody died."""

from __future__ import annotations

import re
import signal

from kit.analyse.verdict import orchestrator_ends, reporter
from kit.analyse.verdict.attribution import GROUP_FILE, death_told, deaths_known, kernel_rows, killed_silently, launch_pids
from kit.analyse.verdict.endings import ending, outliving
from kit.analyse.verdict.evidence import Evidence, ref
from kit.analyse.verdict.failures import LAST_WORDS, LAUNCHING, cause, echoes, survived, worked_after
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.processes import Titles, titles_of
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.signs.errors import CRASH_SIGNALS, died_in_silence, ended_by_watchdog
from kit.analyse.verdict.stacks import stopped_in_a_wait
from kit.clock import NS, show_duration
from kit.parse.grammar import libraries
from kit.schema import Row
from kit.words import count_of, named, short

BEFORE_WORK = ("download", *LAUNCHING)
TIME_OVER = re.compile(r"TIME LIMIT|\bwalltime\b|TERM_RUNLIMIT|\btime limit\b")
"""What Slurm, PBS and LSF say of a job that had no more time."""
ZONES_NS = 900 * NS
"""Offsets of all time zones are multiples of a quarter of an hour."""
DEATH_MARKS = ("backend_lost", "loop_died", "worker_died", "segfault", "abort", "killed", "sigquit", "watchdog_exit")


@rule("kernel_oom_kill", "oom_kill_alike", "oom_kill_untied", needs=("kernel_log",))
def kernel_kill(scene: Scene) -> Signs:
    """The kernel's OOM killer ended a process of the launch, or one that may have been its own."""
    killed, own, titles = kernel_rows(scene, "oom_kill"), launch_pids(scene), titles_of(scene.evidence)
    # Nothing but the log is known where no pid is: a program of another name, or a kill that the log outlived, is not its end.
    in_order, known = ending(scene.log) is not None, scene.log.records or scene.evidence.statements or scene.evidence.events
    open_end = known and not own and not _seen_otherwise(scene, titles) and not scene.log.of("usage_error") and not in_order
    alike = _alike(killed, titles)
    in_time = [row for row in alike if _fits_in_time(scene, row)]
    tied = [row for row in killed if row.get("pid") in own]
    began = cause(scene.log)  # a launch that failed by an error of its own was not killed
    failed = began is not None and began.role == "initiating" and began.code != "host_oom"
    explained = deaths_known(scene) or failed or in_order or scene.fact("signal") not in (None, signal.SIGKILL)
    rows = tied or (in_time if death_told(scene) and not explained else [])
    if told := rows or alike or ([] if known else killed):
        pids = list(dict.fromkeys(row.get("pid") for row in told))
        where = [ref(row, row["text"]) for row in told[:3]]
        claim = f"the kernel's OOM killer ended {named('pid', pids)}"
        if rows:
            yield Sign("kernel_oom_kill", claim, where, scene.ranks_of(pids))
        elif (
            in_time
            and (open_end or not known and _of_an_engine(in_time, titles))
            and not explained
            and not _outlived(scene, alike)
        ):
            yield Sign("oom_kill_alike", f"{claim}, of a name that the launch's processes have", where)
        else:
            yield Sign("oom_kill_untied", f"{claim}, which nothing ties to this launch", where)


def _alike(killed: list[Row], titles: Titles) -> list[Row]:
    """Kills of processes that may be a server's by their names, or whose name is not told."""
    return [row for row in killed if titles.may_serve(row.get("process") or "python")]


def _of_an_engine(killed: list[Row], titles: Titles) -> bool:
    """Whether the kernel's log names an engine or a worker: where it is all that there is, it tells of a server."""
    return any(titles.role(row.get("process") or "") in ("engine", "worker") for row in killed)


def _seen_otherwise(scene: Scene, titles: Titles) -> bool:
    """Whether a server was seen at work without a list of processes: it listens, or a trace holds its calls."""
    listens = (row for row in scene.evidence.sockets if row.get("state") == "LISTEN" and row.get("process"))
    return bool(scene.evidence.syscalls.by_thread) or any(titles.may_serve(row["process"]) for row in listens)


def _another_time(scene: Scene, killed: Row) -> bool:
    """Whether a kill is no death of this launch by its moment: the dead wrote since, or their death had been told before.

    The dead are the ranks that are known to be, or else all; stamps of logs are whole seconds.
    """
    when, dead = killed.get("time"), scene.fact("ranks_dead") or scene.log.ranks
    if when is None or not scene.evidence.run.offset_known:
        return False
    words = [[rows[rank].get("time") or 0 for rows in scene.log.of_ranks.values() if rank in rows] for rank in dead]
    told = _deaths_told(scene)
    spoke = bool(words) and min(max(times, default=0) for times in words) > when + NS
    return spoke or bool(told) and min(told) < when - NS


def _fits_in_time(scene: Scene, killed: Row) -> bool:
    """Whether a kill may be a death of this launch by its moment.

    Where the host's zone is not known its clock and the log's differ by quarters of an hour, and by nothing else.
    """
    told = _deaths_told(scene)
    if scene.evidence.run.offset_known or killed.get("time") is None or not told:
        return not _another_time(scene, killed)
    apart = (min(told) - killed["time"] + ZONES_NS // 2) % ZONES_NS - ZONES_NS // 2
    return abs(apart) <= scene.limits["recent_s"] * NS


def _deaths_told(scene: Scene) -> list[int]:
    """When the log tells of deaths, by stamps of those lines themselves."""
    return [mark.time for mark in scene.log.of(*DEATH_MARKS) if mark.stamped and mark.time is not None]


def _outlived(scene: Scene, killed: list[Row]) -> bool:
    """Whether the log goes on for long after all these kills, with no word of a death."""
    last, times = scene.log.last_time, [row["time"] for row in killed if row.get("time")]
    return last is not None and len(times) == len(killed) and last - max(times) > scene.limits["recent_s"] * NS


def _killed(scene: Scene) -> bool:
    return any(sign.code == "kernel_oom_kill" for sign in kernel_kill(scene))


@rule("memory_available", needs=("host_memory",))
def memory(scene: Scene) -> Signs:
    """Host memory is available, so nothing had to be killed for the want of it; once all have ended, it always is."""
    rows = [] if scene.fact("exited") is True else scene.evidence.host_memory
    size = {row["name"]: row["value_bytes"] for row in rows}
    available, total = size.get("available"), size.get("total")
    if (
        available
        and total
        and available > scene.limits["memory_available_share"] * total
        and "kernel_oom_kill" not in {sign.code for sign in kernel_kill(scene)}
    ):
        claim = f"{available / 2**30:,.0f} of {total / 2**30:,.0f} GiB of host memory are available"
        yield Sign("memory_available", claim, [ref(rows[0])])


@rule("cgroup_oom_kill", "cgroup_oom_untied", needs=("counters",))
def cgroup_kills(scene: Scene) -> Signs:
    """The container's own count of OOM kills; whose it is tells the file's path, the recording, or a death in the launch."""
    for row in scene.evidence.counters:
        if row["name"] == "oom_kill" and row["source"] == "cgroup" and row["value"] > 0:
            claim, where = (
                f"the cgroup counts {count_of(int(row['value']), 'OOM kill')}",
                [ref(row, f"oom_kill {row['value']:g}")],
            )
            if GROUP_FILE.search(row.get("labels") or "") or scene.evidence.run.manifest or killed_silently(scene):
                yield Sign("cgroup_oom_kill", claim, where)
            else:
                yield Sign("cgroup_oom_untied", f"{claim}, of which nothing shows that it is the launch's", where)


@rule("cgroup_oom_kill", needs=("events",))
def orchestrator_kills(scene: Scene) -> Signs:
    """The orchestrator reports that a container was killed for memory."""
    for row in scene.evidence.events:
        if row.get("reason") in ("OOMKilled", "OOMKilling", "OUT_OF_MEMORY", "OUT_OF_ME"):
            yield Sign("cgroup_oom_kill", f"the orchestrator reports {row['reason']}", [ref(row, row["text"])])


def closes_on(scene: Scene, mark: Mark) -> bool:
    """Whether a log ends with a mark of a death, of a launch that nobody had told to end."""
    return scene.log.records_after(mark) <= LAST_WORDS and ending(scene.log) is None


@rule("signal_9", "killed_line")
def sigkill(scene: Scene) -> Signs:
    """The launch or a rank was ended by SIGKILL."""
    if scene.fact("signal") == 9:
        claim = "a rank or the launch was ended by SIGKILL (9): the OOM killer sends it, so do orchestrators and people"
        yield Sign("signal_9", claim, scene.facts.refs("signal"))
        killed = scene.log.last("killed")
        if killed and closes_on(scene, killed) and (scene.log.server is None or scene.log.server in libraries()):
            yield Sign("killed_line", f"its shell says that it was killed: {short(killed.text, 120)}", [killed.ref])


@rule("killed_from_outside", "died_unkilled", needs=("kernel_log|counters",))
def killed_from_outside(scene: Scene) -> Signs:
    """A rank was ended by SIGKILL, or died without a word, and the kernel, asked afterwards, tells of no kill for memory."""
    evidence, dead, number = scene.evidence, _died_first(scene), scene.fact("signal")
    where = scene.facts.refs("signal") if number else [mark.ref for mark in scene.log.of("worker_died")[:1]]
    counted = {sign.code for sign in (*cgroup_kills(scene), *orchestrator_kills(scene))}
    titles = titles_of(evidence)
    kills = [row for row in _alike(kernel_rows(scene, "oom_kill"), titles) if not _another_time(scene, row)]
    told = _killed(scene) or kills or "cgroup_oom_kill" in counted or _ordered(scene)
    if told or scene.log.of("host_oom") or not (number == signal.SIGKILL or not number and died_in_silence(scene)):
        return
    told_at = [mark.time for mark in evidence.log.marks if mark.ref in where]
    seen = [process.died_ns for process in scene.processes.first_dead]
    by = _denies(evidence, min((time for time in [*told_at, *seen] if time), default=0))
    launch = "the launch" if scene.fact("exited") else "a process of the launch"
    who = named("rank", dead) if dead else "a worker" if not number else launch
    if by and number:
        yield Sign("killed_from_outside", f"SIGKILL ended {who}, and {by}", where, dead)
    elif by:
        yield Sign("died_unkilled", f"{who} died without a word, and {by}", where, dead)


def _ordered(scene: Scene) -> bool:
    """Whether somebody ended it in order before anything failed: what was killed then was told to go."""
    began = cause(scene.log)
    return began is not None and began.role == "ending"


def _denies(evidence: Evidence, died_ns: int) -> str | None:
    """What the kernel's own account, taken after a death, says of kills for memory: its log, or its count of them."""
    lines = [*evidence.kernel_log, *(item.row for item in evidence.foreign if item.frame == "kernel_log")]
    taken = {capture.file: capture.captured_ns for capture in evidence.run.captures}
    if any((taken.get(row["capture"]) or died_ns) >= died_ns for row in lines):
        others = list(dict.fromkeys(row.get("pid") for row in lines if row.get("kind") == "oom_kill"))
        return "the kernel's log tells of no kill for memory" + (f" but that of {named('pid', others)}" if others else "")
    counts = {row["time"]: row["value"] for row in evidence.counters if (row["source"], row["name"]) == ("vmstat", "oom_kill")}
    before, after = ([n for at, n in counts.items() if at and (at < died_ns) is early] for early in (True, False))
    return "the kernel counts no kill for memory" if after and max(after) == min(before, default=0) else None


@rule("host_oom_line", "gpu_oom_error", needs=("log",))
def memory_lines(scene: Scene) -> Signs:
    """The log tells of memory that ran out, on the host or on the GPU."""
    if mark := scene.log.first("host_oom"):
        yield Sign("host_oom_line", f"the log reports a kill for memory: {short(mark.text, 120)}", [mark.ref])
    gone = [mark for mark in scene.log.of("gpu_oom") if not worked_after(scene.log, mark) and mark.role != "recovered"]
    if mark := next((mark for mark in gone if not echoes(scene.log, mark)), None):
        yield Sign("gpu_oom_error", f"the GPU ran out of memory: {short(mark.text, 120)}", [mark.ref])


@rule("ranks_dead")
def dead_ranks(scene: Scene) -> Signs:
    """Ranks whose process is gone."""
    if dead := scene.fact("ranks_dead"):
        verb = "is" if len(dead) == 1 else "are"
        first = _died_first(scene)
        order = f", {named('rank', first)} first" if len(first) < len(dead) else ""
        yield Sign("ranks_dead", f"{named('rank', dead)} {verb} dead{order}", scene.facts.refs("ranks_dead"), first)


@rule("child_killed", needs=("processes",))
def killed_child(scene: Scene) -> Signs:
    """A child of no rank that a signal ended, whose parent waits on as if it lived."""
    by_pid = scene.processes.by_pid
    for process in by_pid.values():
        parent = by_pid.get(process.ppid) if process.ppid is not None else None
        if process.killed_by and process.rank is None and parent is not None and not parent.dead:
            name = signal.Signals(process.killed_by).name
            claim = f"{name} ended pid {process.pid}, and its parent, pid {parent.pid}, has taken no note of it"
            yield Sign("child_killed", claim, [ref(process.rows[-1])])
            return


@rule("engine_gone", needs=("log", "processes"))
def engine_gone(scene: Scene) -> Signs:
    """The engine is dead or not among the processes, where its front end is: one that wrote the log, which tells that death."""
    alive = [process for process in scene.processes.of_role("frontend") if process.states and not process.dead]
    engines = [process for process in scene.processes.of_role("engine", "worker") if process.states]
    dead = [process for process in engines if process.dead]
    if alive and dead and len(dead) == len(engines):
        claim = f"the front end (pid {alive[0].pid}) lives, and the engine (pid {dead[0].pid}) is dead"
        yield Sign("engine_gone", claim, [ref(dead[0].rows[-1]), ref(alive[0].rows[-1])])
        return
    listed = {process.pid for process in scene.processes.by_pid.values() if any(row.get("tool") == "ps" for row in process.rows)}
    titles, died = titles_of(scene.evidence), scene.log.last("worker_died")
    own: dict[str, set[int]] = {"frontend": set(), "engine": set()}
    for name, pids in scene.log.writers.items():
        own.get(titles.role(name), set()).update(pids)
    gone = sorted(own["engine"] - listed)
    if died and gone and own["frontend"] & listed and not own["engine"] & listed:
        claim = f"the front end (pid {min(own['frontend'] & listed)}) is among the processes, the engine (pid {gone[0]}) is not"
        yield Sign("engine_gone", claim, [died.ref])


@rule("outlives_abort", needs=("log",))
def outlives_abort(scene: Scene) -> Signs:
    """A front end that answers on after a worker aborted, in whose log both stand."""
    died, answered = scene.log.first("watchdog_exit", "abort"), scene.log.last("probe_request", "health_failed")
    if died and answered and answered.log == died.log and answered.order > died.order:
        yield Sign("outlives_abort", f"the front end answers on after a worker aborted: {short(died.text, 100)}", [answered.ref])


@rule("outlives_worker", needs=("log",))
def outlives_worker(scene: Scene) -> Signs:
    """A front end that lives says that its worker is gone, and no other has come."""
    died = ["loop_died"] if scene.fact("ready") else []
    lost, joined = scene.log.last("backend_lost", *died), scene.log.last("backend_joined")
    if lost is not None and (joined is None or joined.order < lost.order):
        yield Sign("outlives_worker", f"the front end goes on without its worker: {short(lost.text, 120)}", [lost.ref])


def _died_first(scene: Scene) -> list[int]:
    """Of the dead ranks those that were seen to die first: the others were ended with what was left; else all of them."""
    dead = scene.fact("ranks_dead") or []
    first = {process.rank for process in scene.processes.first_dead}
    return [rank for rank in dead if rank in first] or dead


@rule("workers_alive", needs=("processes",))
def live_ranks(scene: Scene) -> Signs:
    """All ranks that were looked at live."""
    seen = [process for process in scene.processes.workers if process.states]
    if seen and not any(process.dead for process in seen) and not scene.fact("ranks_dead"):
        claim = "the rank that was checked is alive" if len(seen) == 1 else f"all {len(seen)} ranks that were checked are alive"
        yield Sign("workers_alive", claim)


@rule("exited")
def ended(scene: Scene) -> Signs:
    """The launch has ended, and not by hand while it waited."""
    if scene.fact("exited") and not stopped_in_a_wait(scene.evidence):
        yield Sign("exited", "the launch has ended", scene.facts.refs("exited"))


@rule("ended_badly", needs=("events",))
def exit_code(scene: Scene) -> Signs:
    """The orchestrator says that it failed, or gives the exit code of a failure."""
    if scene.fact("exited") and (where := orchestrator_ends.failure(scene.evidence)):
        yield Sign("ended_badly", f"the orchestrator says that it failed: {short(where['text'], 120)}", [where])


def _stood(scene: Scene, ended: int | None) -> bool:
    """Whether a training had not stepped for long when it was ended, by its own pace too."""
    steps = [mark.time for mark in scene.log.of("train_step", "train_log") if mark.time is not None]
    if len(steps) < 2 or ended is None:
        return False
    pace = (steps[-1] - steps[0]) / (len(steps) - 1)
    return ended - steps[-1] > max(scene.limits["long_silence_s"] * NS, scene.limits["stood_steps"] * pace)


def _own_work(scene: Scene) -> bool:
    """Whether a program's own bar moved: one of no phase of a launch."""
    return any(bar.kind == "other" and bar.n > 0 and bar.phase not in ("data_prep", *BEFORE_WORK) for bar in scene.log.bars)


def _moved_until(scene: Scene, end: Mark) -> tuple[Mark, float] | None:
    """The last milestone before Ctrl-C and the seconds between, where they are few: nobody gave it up as stuck."""
    moved = [mark for mark in scene.log.marks if mark.kind == "progress" and mark.order < end.order and mark.time is not None]
    last, ended = max(moved, key=lambda mark: mark.order, default=None), end.time or scene.log.last_time
    if end.code != "interrupted" or last is None or last.time is None or ended is None:
        return None
    quiet_s = (ended - last.time) / NS
    return (last, quiet_s) if quiet_s <= scene.limits["recent_s"] else None


@rule("ended_in_order", "told_before_ready", "interrupted_at_work", "time_ran_out", "tree_gone", needs=("log",))
def orderly_end(scene: Scene) -> Signs:
    """It finished, or was told to end before any error of its own; or only the tree is gone."""
    found = ending(scene.log) if scene.fact("exited") else None
    if found is not None and not stopped_in_a_wait(scene.evidence):
        # Who ended it before it worked, or when it had stopped working, is not told by the log, nor why.
        worked = scene.fact("ready") or scene.fact("step") or _own_work(scene)
        # Nor is it by a file of a job's errors alone, which shows nothing of the launch, that it had not worked.
        begun = scene.log.bars or scene.log.interrupted or any(mark.phase for mark in scene.log.marks)
        early = (
            found.how == "told"
            and (not worked and begun or _stood(scene, found.mark.time))
            and not reporter.ended_it(scene.evidence)
        )
        code = "tree_gone" if found.how == "gone" else "told_before_ready" if early else "ended_in_order"
        yield Sign(code, found.claim, [found.mark.ref])
        if early and (moved := _moved_until(scene, found.mark)):
            claim = f"somebody interrupted it {show_duration(moved[1])} after it had got on: {short(moved[0].text, 100)}"
            yield Sign("interrupted_at_work", claim, [moved[0].ref, found.mark.ref])
        if early and TIME_OVER.search(found.mark.text):
            yield Sign("time_ran_out", f"its time was over before it worked: {short(found.mark.text, 120)}", [found.mark.ref])


@rule("load_given_up", needs=("log",))
def given_up(scene: Scene) -> Signs:
    """Who started it waited for it no longer, before it was ready."""
    if (mark := scene.log.last("load_timeout")) and not scene.fact("ready"):
        yield Sign("load_given_up", f"who started it gave up waiting for it: {short(mark.text, 120)}", [mark.ref])


@rule("outlives_end", needs=("log", "processes|gpu_processes"))
def outlives(scene: Scene) -> Signs:
    """The log tells an end in order, and an engine or a worker lives on long after it."""
    found = outliving(scene.evidence, scene.processes)
    if found and (end := ending(scene.log)) and scene.fact("exited") is False:
        row, who = found
        yield Sign("outlives_end", f"the log tells the end, and {who} lives on after it", [end.mark.ref, ref(row)])


@rule("crash_signal", needs=("log",))
def crash_lines(scene: Scene) -> Signs:
    """The log shows that a process crashed by a signal."""
    if ended_by_watchdog(scene):
        return
    crashes = [
        mark for mark in scene.log.of("segfault", "abort") if not survived(scene.log, mark) and not echoes(scene.log, mark)
    ]
    if mark := min(crashes, key=lambda mark: (mark.code == "abort", mark.order), default=None):
        yield Sign("crash_signal", f"a process crashed: {short(mark.text, 120)}", [mark.ref])
    elif (number := scene.fact("signal")) in CRASH_SIGNALS:
        name = signal.Signals(number).name
        yield Sign("crash_signal", f"a process crashed by signal {number} ({name})", scene.facts.refs("signal"))


@rule("crash_signal", needs=("kernel_log",))
def kernel_crash(scene: Scene) -> Signs:
    """The kernel saw a segmentation fault; that of a process that nothing ties to a launch that logs says nothing."""
    own, number = launch_pids(scene), scene.fact("signal")
    dated = scene.log.first_time is not None or not scene.log.records or death_told(scene)
    for row in kernel_rows(scene, "segfault"):
        if row.get("pid") not in own and (number not in (None, *CRASH_SIGNALS) or not dated and row.get("time")):
            continue
        yield Sign("crash_signal", f"the kernel logged a crash: {short(row['text'], 120)}", [ref(row, row["text"])])


@rule("no_death_seen", needs=("log|processes",))
def no_death(scene: Scene) -> Signs:
    """Nothing speaks of a death, for classes that need one."""
    killed = kernel_rows(scene, "oom_kill", "segfault")
    if scene.has("log") and not scene.log.known and not scene.has("processes"):
        return  # nobody who would know has looked
    engines = [process for process in scene.processes.of_role("engine", "worker") if process.dead]
    seen = killed or engines or any(process.killed_by for process in scene.processes.by_pid.values())
    if not scene.fact("ranks_dead") and not scene.log.of(*DEATH_MARKS) and not seen:
        yield Sign("no_death_seen", "no process is reported dead")
