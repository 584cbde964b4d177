"""Kill every writer at each of its writes, fill its disk there, step its clock; open what is left and count what was lost.

    python tools/faults.py                 # every place of every writer: some minutes
    python tools/faults.py --most 4        # at most so many places of each
    python tools/faults.py --only pull

A place is an operation on a file of the run (open, write, fsync, rename, remove, mkdir, truncate) and the lines of the kit that
it is called from. One that is met many times, as in a loop, fails once: at its first time, or in the midst of them where it is
killed. There the writer, a process of its own, is killed before the operation (`kill`), or after half of the bytes of a write
(`half`); or the operation and all writes after it fail as on a full, read-only or broken disk, by turns; or the host answers no
request from there on (`drop`). Then the run is opened again: it must open, every whole line that is in a raw file must be a row,
and no byte that the kernel had taken may be gone. A pull is run again and must be whole. Exit code 1 where anything was lost or a
foreign exception came.
"""

from __future__ import annotations

import argparse
import builtins
import errno
import gzip
import io
import mmap
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow.compute
import pyarrow.parquet  # noqa: F401

import kit
from kit import store
from kit.analyse.knowledge.judged_run import note_solved
from kit.analyse.verdict.tables import export
from kit.capture.collect import collect_from
from kit.capture.hosts.host import HostLost
from kit.capture.hosts.this_machine import LocalFile, LocalHost, LocalStream
from kit.capture.logs import pull as pulling
from kit.capture.logs.pull import pull
from kit.capture.options import Options
from kit.capture.waiting import Clock
from kit.errors import KitError
from kit.folder import LEFT_AFTER_S
from kit.live.guard import guard
from kit.live.options import GuardOptions, TriageOptions
from kit.live.triage import triage
from kit.render.report import write as write_report

LINES = 200
LINE = "INFO 02-18 02:11:52 [core.py:58] line {:06d} HF_TOKEN=planted{:06d}\n"
FAILS = {"full": errno.ENOSPC, "read-only": errno.EROFS, "broken": errno.EIO}
KILL, HALF, DROP, WRITE = "kill", "half", "drop", "write"
PACKAGE = str(Path(kit.__file__).parent) + os.sep
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""A disk that is quick to take what is synced: the places are the same."""
QUIET: dict[str, Any] = {"progress": lambda text: None}


class Faults:
    """Counts operations on files below a folder by their places, and lets one fail. Installed in a process that is to end."""

    def __init__(self, folder: Path, fault: Fault, shared: mmap.mmap, met: int):
        self.folder, self.fault, self.shared, self.met = str(folder), fault, shared, met
        self.failing, self.taken, self.times = False, 0, Counter()

    def install(self) -> None:
        """Replace what writes, or what asks the host."""
        if self.fault.how == DROP:
            asks = ((LocalHost, ("ask", "run", "open_file", "read_file", "start_shell")), (LocalFile, ("read", "stream", "stat")))
            for kind, names in (*asks, (LocalStream, ("read",))):
                for name in names:
                    setattr(kind, name, self._dropped(getattr(kind, name)))
            pulling.PAUSES_S = ()  # type: ignore[assignment]
            return
        for name in ("replace", "rename", "unlink", "mkdir", "rmdir", "truncate", "fsync", "chmod"):
            setattr(os, name, self._counted(getattr(os, name)))
        self._open = builtins.open
        builtins.open = io.open = self.open  # type: ignore[assignment]

    def here(self, what: str) -> bool:
        """Whether the fault is to be now: a place is told by what is done and by the lines of the kit that ask for it."""
        frame, lines = sys._getframe(2), []
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(PACKAGE):
                lines.append(f"{name[len(PACKAGE) :]}:{frame.f_lineno}")
            frame = frame.f_back
        place = " ".join((what, *lines[:4]))
        self.times[place] += 1
        os.write(self.met, f"{place}\n".encode())
        return place == self.fault.place and self.times[place] == self.fault.time

    def point(self, what: str, path: object, data: Any = None, file: Any = None) -> None:
        """One operation."""
        name = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
        if not name.startswith(self.folder):
            return
        how = self.fault.how
        self.shared[:8] = struct.pack("q", self.taken)
        if self.here(what):
            if how == HALF:
                file.write(bytes(data)[: len(data) // 2])
                file.flush()
            if how in (KILL, HALF):
                os.kill(os.getpid(), signal.SIGKILL)
            self.failing = how in FAILS
        if self.failing:
            raise OSError(FAILS[how], os.strerror(FAILS[how]), name)

    def _dropped(self, act: Callable) -> Callable:
        """The connection is gone from the point on, for good."""

        def dropped(*args: Any, **more: Any) -> Any:
            self.failing = self.here(act.__qualname__) or self.failing
            if self.failing:
                raise HostLost("local", "the connection was dropped", "run it again")
            return act(*args, **more)

        return dropped

    def _counted(self, act: Callable) -> Callable:
        def counted(path: Any, *args: Any, **more: Any) -> Any:
            if act.__name__ not in ("unlink", "rmdir") or not self.failing:
                self.point(act.__name__, path)
            return act(path, *args, **more)

        return counted

    def open(self, path: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        if isinstance(path, int) or not set(mode) & set("wax+"):
            return self._open(path, mode, *args, **more)
        self.point("open", path)
        return Written(self._open(path, mode, *args, **more), str(path), self)


class Written:
    """A file whose writes are counted."""

    def __init__(self, file: Any, path: str, faults: Faults):
        self._file, self._path, self._faults = file, path, faults

    def write(self, data: Any) -> int:
        raw = data.encode() if isinstance(data, str) else data
        self._faults.point(WRITE, self._path, raw, getattr(self._file, "buffer", self._file))
        count = self._file.write(data)
        if f"{os.sep}raw{os.sep}" in self._path:
            self._faults.taken += count or 0
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *about: object) -> None:
        self._file.close()


def apart(act: Callable[[], object]) -> tuple[int, str]:
    """Do something in a process of its own: its exit code (negative for a signal), and what it said at its end."""
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                null = os.open(os.devnull, os.O_RDWR)
                for number in (0, 1):
                    os.dup2(null, number)
                os.dup2(said.fileno(), 2)
                code = int(act() or 0)
            except KitError:
                code = 3
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        return code, said.read().decode("utf-8", "replace")[-2000:]


@dataclass
class Writer:
    """One that writes: what it needs, what it does, and how many rows are lost where it was cut short."""

    name: str
    prepare: Callable[[Path], None]
    act: Callable[[Path], object]
    lost: Callable[[Path], int]


def source(folder: Path) -> None:
    """A log, and the same packed."""
    text = "".join(LINE.format(number, number) for number in range(LINES))
    (folder / "server.log").write_text(text)
    (folder / "packed.log.gz").write_bytes(gzip.compress(text.encode()))


def lost_of(run: Path, whole: bool = False) -> int:
    """Whole lines in the raw logs of a run that are no rows of it; where all should be there, also lines that did not come."""
    raw = sorted((run / "raw").glob("*.log")) if (run / "raw").is_dir() else []
    lines = sum(path.read_bytes().count(b"\n") for path in raw)
    if any(b"planted" in path.read_bytes() for path in run.rglob("*") if path.is_file() and path.suffix != ".parquet"):
        raise AssertionError("a secret reached the disk")
    rows = len(kit.open_run(run).frame("log")) if lines else 0
    return max(0, lines - rows) + (max(0, len(raw) * LINES - lines) if whole else 0)


def collects(folder: Path) -> None:
    source(folder)
    (folder / "launch").write_text("")


def collect(folder: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as launch:
        try:
            options = Options(duration_s=0.6, interval_s=0.3)
            collect_from([LocalHost()], folder / "run", options, launch.pid, str(folder / "server.log"), clock=Clock(3))
        finally:
            launch.kill()


def triages(folder: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as launch:
        try:
            options = TriageOptions(limit_s=5.0, sure=0.0)
            triage("local", pid=launch.pid, log=folder / "server.log", out=folder / "run", options=options, **QUIET)
        finally:
            launch.kill()


def guards(folder: Path) -> int:
    command = ["/bin/sh", "-c", f"cat {folder}/server.log; exit 7"]
    code = guard(command, out=folder / "run", options=GuardOptions(no_strace=True, no_stacks=True), **QUIET)
    return 0 if code == 7 else code


def pulls(folder: Path) -> None:
    pull("local", str(folder / "server.log"), str(folder / "packed.log.gz"), out=folder / "run", **QUIET)


def lost_of_pull(folder: Path) -> int:
    """After the same command was run again."""
    lost = lost_of(folder / "run")
    pulls(folder)
    return lost + lost_of(folder / "run", whole=True)


def recorded(folder: Path) -> None:
    source(folder)
    pulls(folder)


def caches(folder: Path) -> None:
    store.CACHE_FROM_BYTES, store.CHUNK_ROWS = 0, 150
    kit.open_run(folder / "run").frame("log")


def lost_of_cache(folder: Path) -> int:
    store.CACHE_FROM_BYTES = 0
    for path in folder.glob("run/frames/.scratch-*"):
        os.utime(path, (1, 1))  # its maker is gone for long
    lost = lost_of(folder / "run", whole=True)
    if list(folder.glob("run/frames/.scratch-*")):
        raise AssertionError("a temporary folder was left")
    return lost


OLD, NEW = "<p>the report before</p>" * 2000, "<p>the report now</p>" * 3000


def reports(folder: Path) -> None:
    write_report(folder / "report.html", NEW)


def lost_of_report(folder: Path) -> int:
    return int((folder / "report.html").read_text() not in (OLD, NEW))


def exports(folder: Path) -> None:
    export(folder / "run", "log", folder / "run" / "log.csv")


def lost_of_export(folder: Path) -> int:
    """An export that was there before is there, or the new one is; nothing is left of one that failed."""
    text = (folder / "run/log.csv").read_text()
    kept = text == OLD or text.count("\n") == 2 * LINES + 1
    return int(not kept) + lost_of(folder / "run")


def exported(folder: Path) -> None:
    recorded(folder)
    (folder / "run/log.csv").write_text(OLD)


def learns(folder: Path) -> None:
    note_solved(kit.open_run(folder / "run"), {"class": "device_hang", "remedy": "another backend"}, folder)


def lost_of_learning(folder: Path) -> int:
    for path in folder.glob("run/.*.new"):
        os.utime(path, (time.time() - 2 * LEFT_AFTER_S,) * 2)
    lost = lost_of(folder / "run", whole=True)
    if list(folder.glob("run/.*.new")):
        raise AssertionError("a temporary file was left")
    return lost


WRITERS = (
    Writer("collect", collects, collect, lambda folder: lost_of(folder / "run")),
    Writer("guard", source, guards, lambda folder: lost_of(folder / "run")),
    Writer("pull", source, pulls, lost_of_pull),
    Writer("cache", recorded, caches, lost_of_cache),
    Writer("report", lambda folder: (folder / "report.html").write_text(OLD) and None, reports, lost_of_report),
    Writer("triage", source, triages, lambda folder: lost_of(folder / "run")),
    Writer("export", exported, exports, lost_of_export),
    Writer("learn", recorded, learns, lost_of_learning),
)


@dataclass(frozen=True)
class Fault:
    """What goes wrong, at the how many-th time at which a place is met; nothing where there is no place."""

    how: str = KILL
    place: str = ""
    time: int = 1
    step_s: int = 0


@dataclass
class Trial:
    """What came of a run of a writer with a fault: places met, and how often; rows lost; what else failed."""

    met: dict[str, int]
    lost: int
    failures: list[str]


def trial(name: str, fault: Fault) -> Trial:
    """One run of a writer with a fault."""
    writer = next(one for one in WRITERS if one.name == name)
    shared, failures = mmap.mmap(-1, 8), []
    with tempfile.TemporaryDirectory(prefix="stallkit-faults-", dir=SCRATCH) as scratch, tempfile.TemporaryFile() as met:
        folder = Path(scratch).resolve()
        apart(lambda: writer.prepare(folder))

        def act() -> object:
            if fault.step_s:
                real, began = time.time_ns, time.monotonic()
                time.time_ns = lambda: real() + fault.step_s * 10**9 * (time.monotonic() - began > 0.3)
            Faults(folder / "run" if name != "report" else folder, fault, shared, met.fileno()).install()
            return writer.act(folder)

        code, said = apart(act)
        taken = struct.unpack("q", shared[:8])[0]
        there = sum(path.stat().st_size for path in folder.glob("run/raw/*"))
        found, told = apart(lambda: min(writer.lost(folder), 60))
        met.seek(0)
        places = Counter(met.read().decode().splitlines())
    where = f"{name}, {fault}"
    if code not in (0, 3, -signal.SIGKILL):
        failures.append(f"{where}: exit code {code}\n{said}")
    if found > 60 or found < 0 or found == 3:
        failures.append(f"{where}: what is left does not open ({found})\n{told}")
    if fault.how in (KILL, HALF) and name in ("collect", "guard") and there < taken:
        failures.append(f"{where}: {taken - there} bytes that were written are gone")
    return Trial(places, found, failures)


def faults_of(writer: Writer, most: int) -> tuple[list[Fault], list[Trial]]:
    """The faults to try with a writer, and the runs without one that told its places."""
    plain, faults = [trial(writer.name, Fault())], []
    times = some(plain[0].met, most)
    for number, (place, count) in enumerate(times):
        middle = (count + 1) // 2
        faults += [Fault(KILL, place, middle), Fault([*FAILS][number % len(FAILS)], place)]
        faults += [Fault(HALF, place, middle)] if place.startswith(WRITE) else []
    if writer.name in ("collect", "pull", "triage"):
        plain.append(trial(writer.name, Fault(DROP)))
        faults += [Fault(DROP, place) for place, _ in some(plain[1].met, most)]
    faults += [Fault(step_s=step_s) for step_s in (-3600, 3600) if writer.name == "collect"]
    return faults, plain


def some(met: dict[str, int], most: int) -> list[tuple[str, int]]:
    """At most so many of the places, evenly."""
    return [*met.items()][:: max(1, -(-len(met) // most))]


def two_at_once(failures: list[str]) -> int:
    """Two pulls into one folder, two readers that make one cache, a reader of a run that is being recorded; rows lost."""
    lost = 0
    with tempfile.TemporaryDirectory(prefix="stallkit-faults-", dir=SCRATCH) as name:
        folder = Path(name).resolve()
        source(folder)
        for act in (pulls, caches):
            pids = []
            for _ in range(2):
                pid = os.fork()
                if pid == 0:
                    code = 0
                    try:
                        act(folder)
                    except KitError:
                        code = 3  # the other one has the folder
                    except BaseException:
                        traceback.print_exc()
                        code = 70
                    os._exit(code)
                pids.append(pid)
            codes = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
            if codes not in ([0, 0], [0, 3]):
                failures.append(f"two at once, {act.__name__}: exit codes {codes}")
            found, told = apart(lambda: lost_of(folder / "run", whole=True))
            lost += found
            if found:
                failures.append(f"two at once, {act.__name__}: {found} rows lost\n{told}")
    return lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=10**6, help="places of each writer")
    parser.add_argument("--only", choices=[writer.name for writer in WRITERS])
    parser.add_argument("--jobs", type=int, default=2, help="trials side by side")
    args = parser.parse_args()
    for path in (kit.sample_path("sg01-capture-hang"), kit.sample_path("sg02-one-snapshot")):  # loaded once, here
        kit.open_run(path).frame("log")
    failures: list[str] = []
    total, lost, missed = Counter(), 0, 0
    print(f"{'writer':<8} {'points':>6} {'places':>6} {'kills':>6} {'failed writes':>14} {'drops':>6} {'rows lost':>10}")
    with multiprocessing.get_context("fork").Pool(args.jobs) as pool:
        for writer in WRITERS:
            if args.only not in (None, writer.name):
                continue
            faults, trials = faults_of(writer, args.most)
            plain = trials[0].met
            came = pool.starmap(trial, [(writer.name, fault) for fault in faults], 1)
            missed += sum(bool(fault.place) and fault.place not in one.met for fault, one in zip(faults, came, strict=True))
            failures += [failure for one in (*trials, *came) for failure in one.failures]
            tried = Counter(FAILS.get(fault.how) and "failed" or fault.how for fault in faults if fault.place)
            total += tried + Counter(steps=sum(bool(fault.step_s) for fault in faults))
            gone = sum(one.lost for one in (*trials, *came))
            lost += gone
            counts = f"{tried[KILL] + tried[HALF]:>6} {tried['failed']:>14} {tried[DROP]:>6} {gone:>10}"
            print(f"{writer.name:<8} {sum(plain.values()):>6} {len(plain):>6} {counts}", flush=True)
    both = args.only in (None, "pull")
    lost += two_at_once(failures) if both else 0
    print(f"clock steps: {total['steps']}; two processes on one run: {2 * both} pairs; places not met again: {missed}")
    counts = f"kills: {total[KILL] + total[HALF]}, failed writes: {total['failed']}, drops: {total[DROP]}"
    print(f"{counts}, rows lost: {lost}, failures: {len(failures)}")
    for failure in failures[:10]:
        print(failure)
    return int(bool(failures) or lost > 0)


if __name__ == "__main__":
    sys.exit(main())
