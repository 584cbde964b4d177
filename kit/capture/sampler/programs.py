"""Programs that are asked now and then (GPU tools, dmesg): at the side, within a time limit, one at a time."""

import os
import signal
import threading
import time

PLACES = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", "/opt/rocm/bin")
MOST_OUTPUT = 1 << 20


def which(name):
    """Path of a program, None where it is not there."""
    for folder in os.environ.get("PATH", "").split(":") + list(PLACES):
        if folder and os.access(folder + "/" + name, os.X_OK):
            return folder + "/" + name
    return None


class Programs:
    """Runs programs, each in a process group of its own; what hangs is killed, and not started again before it is gone."""

    def __init__(self, limit_s):
        self.limit_s, self.running, self.leaving, self.starting = limit_s, None, False, threading.Lock()

    def run(self, command):
        """(text, exit code, None where it hung); None where the one before it still is there."""
        import subprocess

        if self.running is not None and self.running.poll() is None:
            return None
        with self.starting, open(os.devnull, "rb") as nothing:
            if self.leaving:
                return None
            self.running = process = subprocess.Popen(
                command,
                stdin=nothing,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(os.environ, LC_ALL="C"),
            )
        code = None
        try:
            out, code = process.communicate(timeout=self.limit_s)[0], process.returncode
        except subprocess.TimeoutExpired:
            self.end()
            try:
                out = process.communicate(timeout=1)[0]
            except subprocess.TimeoutExpired:  # it sits in the kernel
                out = b""
                process.stdout.close()
        return out[-MOST_OUTPUT:].decode("utf-8", "replace"), code

    def leave(self):
        """Kill what runs, and start nothing more."""
        self.leaving = True
        self.starting.acquire(timeout=1.0)
        self.end()

    def end(self):
        """Kill what runs."""
        if self.running is not None and self.running.poll() is None:
            try:
                os.killpg(self.running.pid, signal.SIGKILL)
            except OSError:
                pass

    def gpus(self, tool, commands):
        """One GPU tool: {tool, text, code, took_s}, `hung` where it did not answer."""
        began, texts, code = time.monotonic(), [], 0
        for command in commands:
            got = self.run([which(tool)] + command[1:])
            if got is None:
                return None
            texts.append(got[0])
            code = got[1]
            if code != 0:
                break
        line = {"tool": tool, "text": "\n".join(texts), "code": code, "took_s": round(time.monotonic() - began, 2)}
        if code is None:
            line["hung"] = True
        return line

    def kernel_log(self, most, before):
        """The last lines of the kernel log that were not there before."""
        got = self.run([which("dmesg") or "dmesg"])
        if got is None:
            return None
        lines = got[0].rstrip("\n").split("\n")
        if before and before in lines:
            lines = lines[len(lines) - lines[::-1].index(before) :]
        return {"tool": "dmesg", "text": "\n".join(lines[-most:]), "code": got[1]}
