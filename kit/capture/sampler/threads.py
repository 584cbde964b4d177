"""Threads: those whose schedstat changed are read again, for a thread that did not run has not changed."""

import os

from kit.capture.sampler.reading import Held, parse_stat, text

NO_SCHEDSTAT = b"0 0 0\n"
"""What a kernel prints that does not count; a thread that never ran prints it too."""


class Thread:
    """One thread as it was last printed.

    It is read again where its schedstat changed, and always where it is new (whoever made it names it while it sleeps), runs
    or waits for a CPU (R), sleeps in the kernel without interruption (D), or where the kernel keeps no schedstat. A thread
    that has gone to sleep may be left in the run queue for a while (delayed dequeue, Linux 6.12): its system call reads
    "running" then, its wchan "0", and both become true without its running again.
    """

    __slots__ = ("tid", "base", "schedstat", "last", "row", "always")

    def __init__(self, pid, tid):
        self.tid, self.base = tid, f"/proc/{pid}/task/{tid}/"
        self.last, self.row, self.always, self.schedstat = None, None, True, None
        try:
            self.schedstat = Held(self.base + "schedstat")
        except OSError:
            os.stat(self.base)  # the thread is there: the kernel has no such file

    def look(self, whole):
        """Whether it has a row to be printed; raises OSError where it has ended."""
        now = self.schedstat.read() if self.schedstat is not None else NO_SCHEDSTAT
        if now == self.last and not self.always and not whole:
            return False
        row = thread_row(self.tid, self.base, now)
        again = self.schedstat.read() if self.schedstat is not None else now
        if again != now:  # it ran between two reads, and its row may be of neither moment: once more
            now, row = again, thread_row(self.tid, self.base, again)
        self.always = self.row is None or row[1] in "RD" or row[6] == "running" or now == NO_SCHEDSTAT
        changed = whole or row != self.row
        self.last, self.row = now, row
        return changed

    def close(self):
        if self.schedstat is not None:
            self.schedstat.close()


class Threads:
    """Threads of one process."""

    def __init__(self, pid):
        self.pid, self.known = pid, {}

    def look(self, count, whole, room):
        """Return (rows to print, tids that ended, number of threads left out); `count` is the kernel's own number."""
        ended, left_out = [], 0
        if whole or count != len(self.known):
            left_out = self.list(ended, room)
        rows = self.read(whole, ended)
        if ended and not whole:  # where one has ended another may have begun, and the count be the same
            left_out = self.list(ended, room)
            rows += [thread.row for thread in self.known.values() if thread.row is None and self.try_look(thread)]
        return rows, ended, left_out

    def list(self, ended, room):
        """Take up threads that are new, drop those that are gone."""
        try:
            tids = sorted(int(name) for name in os.listdir(f"/proc/{self.pid}/task"))
        except OSError:
            return 0
        for tid in set(self.known).difference(tids):
            self.drop(tid, ended)
        for tid in tids[:room]:
            if tid not in self.known:
                try:
                    self.known[tid] = Thread(self.pid, tid)
                except OSError:
                    pass
        return max(0, len(tids) - room)

    def read(self, whole, ended):
        rows, pread = [], os.pread
        for thread in list(self.known.values()):
            try:
                held = thread.schedstat
                if not whole and not thread.always and held.handle is not None and pread(held.handle, 96, 0) == thread.last:
                    continue  # nearly all of them, each second: this line is what a sample costs
                if thread.look(whole):
                    rows.append(thread.row)
            except (OSError, ValueError):
                self.drop(thread.tid, ended)
        return rows

    @staticmethod
    def try_look(thread):
        try:
            return thread.look(False)
        except (OSError, ValueError):
            return False

    def drop(self, tid, ended):
        thread = self.known.pop(tid)
        thread.close()
        if thread.row is not None:
            ended.append(tid)

    def close(self):
        for thread in self.known.values():
            thread.close()
        self.known = {}


def thread_row(tid, base, schedstat):
    """[tid, state, utime, stime, processor, wchan, syscall, arguments, comm, run_ns, wait_ns, slices]; OSError where it ended."""
    stat = text(base + "stat")
    if not stat:
        raise ProcessLookupError(base)
    return row_of(tid, stat, text(base + "syscall"), wchan(base), schedstat)


def row_of(tid, stat, syscall, sleeps_in, schedstat):
    """The row of a thread from the texts of its files."""
    comm, fields = parse_stat(stat)
    call = (syscall or "").split()
    counts = schedstat.split() if schedstat != NO_SCHEDSTAT else ()
    return [
        tid,
        fields[0],
        int(fields[11]),
        int(fields[12]),
        int(fields[36]),
        sleeps_in,
        call[0] if call else None,
        " ".join(call[1:7]) if len(call) > 3 else None,
        comm,
    ] + ([int(word) for word in counts[:3]] if len(counts) >= 3 else [None] * 3)


def wchan(base, denied=None):
    """Kernel function it sleeps in; None for "0", which says only that it runs or that reading is refused."""
    name = text(base + "wchan", denied)
    return name if name and name != "0" else None


def kernel_stacks(n, threads, most):
    """Lines with the kernel stacks of threads in D or R; only root may read them."""
    lines = []
    for pid, of_process in threads.items():
        for thread in of_process.known.values():
            if thread.row is not None and thread.row[1] in "DR" and len(lines) < most:
                stack = text(thread.base + "stack")
                if stack:
                    lines.append({"k": "stack", "n": n, "pid": pid, "tid": thread.tid, "text": stack})
    return lines
