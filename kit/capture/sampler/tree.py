"""Which processes belong to the launch."""

import os

from kit.capture.sampler.reading import Held, parse_stat, text

MOST_PROCESSES = 1024


class Tree:
    """Processes of the launch: the roots, their descendants, and what shares a session that a root leads.

    A process that does not belong is looked at once, and again when all are (`whole`): neither its parent nor its session
    can become one of the launch. A pid that was given anew is told by the start time, or by its held file, which ends.
    """

    def __init__(self, roots, exclude):
        self.roots, self.leaders, self.observers = roots, set(roots), set(exclude)
        self.started, self.stats, self.strangers, self.ever = {}, {}, set(), False

    def look(self, whole):
        """Return (present: pid -> (comm, stat fields), gone: list of pids, left out: number) of this moment."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        members, gone = {}, []
        for pid in list(self.started):
            found = self.again(pid)
            if found is None:
                gone.append(pid)
                self.forget(pid)
            else:
                members[pid] = found
        self.strangers = set() if whole else self.strangers.intersection(pids)
        others = {}
        for pid in pids:
            if pid not in members and pid not in self.strangers:
                line = text(f"/proc/{pid}/stat")
                if line:
                    others[pid] = parse_stat(line)
        self.leave_out_observers(others)
        joined = self.join(members, others)
        self.strangers.update(pid for pid in others if pid not in joined)
        left_out = len(members) + len(joined) - MOST_PROCESSES
        for pid in sorted(joined)[: MOST_PROCESSES - len(members)]:
            if self.hold(pid, others[pid]):
                members[pid] = others[pid]
        self.ever = self.ever or bool(members)
        return {pid: members[pid] for pid in sorted(members)}, gone, max(left_out, 0)

    def join(self, members, others):
        """Pids of `others` that belong to the launch."""
        joined = set()
        if self.ever:
            self.leaders.difference_update(others)  # a root that is no member has ended, and its pid was given anew
        else:
            joined.update(pid for pid in self.roots if pid in others)
        grown = True
        while grown:
            more = {
                pid
                for pid, (_, fields) in others.items()
                if pid not in joined and (int(fields[1]) in members or int(fields[1]) in joined or int(fields[3]) in self.leaders)
            }
            joined |= more
            grown = bool(more)
        return joined

    def hold(self, pid, found):
        """Keep a process that joined; False where it has ended since."""
        try:
            self.stats[pid] = Held(f"/proc/{pid}/stat")
        except OSError:
            return False
        self.started[pid] = found[1][19]
        return self.again(pid) is not None or self.forget(pid)

    def again(self, pid):
        """Its stat now, None where it has ended."""
        try:
            found = parse_stat(self.stats[pid].read().decode("utf-8", "replace"))
        except (OSError, ValueError):
            return None
        return found if found[1][19] == self.started[pid] else None

    def forget(self, pid):
        self.stats.pop(pid).close()
        del self.started[pid]
        return False

    def leave_out_observers(self, others):
        """Drop the collector, this script and the tools they start (a launch that the collector started stays)."""
        grown = True
        while grown:
            more = {
                pid
                for pid, (_, fields) in others.items()
                if int(fields[1]) in self.observers and pid not in self.observers and pid not in self.roots
            }
            self.observers |= more
            grown = bool(more)
        for pid in self.observers.intersection(others).difference(self.roots):
            del others[pid]
            self.strangers.add(pid)
