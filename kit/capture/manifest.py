"""The run folder while it is recorded: `run.json`, always readable, and raw files that are only ever appended to.

The manifest is written to a temporary file and renamed, at the start and after each capture. A capture in progress stands
there with `whole` false and no checksum, so a recording that ends anywhere opens. A reserve file keeps room for the last
manifest on a full disk.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kit.capture.hosts.host import Abilities
from kit.capture.hosts.this_machine import utc_offset_s
from kit.clock import NS
from kit.errors import EvidenceError, UsageError
from kit.folder import RESERVE, hold, private, write_whole
from kit.run_json import FORMAT, VERSION

RESERVE_BYTES = 1 << 18
"""Room kept for the manifest on a full disk; the largest seen is 20 kB."""
LONGEST_NAME = 200
"""Bytes of a copy's name; file systems take 255."""
FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""No space, quota used up, file size limit: to a recording they are the same."""


def utc_text(ns: int | None) -> str | None:
    """Write a UTC time as the manifest holds it.

    Examples
    --------
    >>> utc_text(1_500_000_000)
    '1970-01-01T00:00:01.500000Z'
    """
    if ns is None:
        return None
    moment = datetime.fromtimestamp(ns // NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % NS // 1000:06d}Z"


def readable(name: str) -> str:
    r"""A name on a host as text: bytes that are no UTF-8 are written as escapes.

    Examples
    --------
    >>> readable(b"/srv/\xff.log".decode("utf-8", "surrogateescape"))
    '/srv/\\xff.log'
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def safe_name(name: str) -> str:
    r"""A name of a copy that every file system and terminal takes: no folder, no control character, not hidden.

    Examples
    --------
    >>> safe_name("a\nb/../c.log"), safe_name(".profile"), safe_name("Läufe 1.log")
    ('a_b_.._c.log', '_.profile', 'Läufe 1.log')
    """
    name = re.sub(r"[\x00-\x1f\x7f-\x9f/\\]|[^\S ]|[\u202a-\u202e\u2066-\u2069]", "_", readable(name))
    name = f"_{name}" if name.startswith(".") or not name else name
    return name if len(name.encode()) <= LONGEST_NAME else f"{name[:60]}…{name[-20:]}"


def clocks(abilities: Abilities) -> dict[str, int | None]:
    """The host's wall clock now, how far it is ahead of the clock of whoever records, and when the host was booted."""
    wall, error = time.time_ns() + abilities.offset_ns, abilities.offset_error_ns
    return {"wall_ns": wall, "offset_ns": abilities.offset_ns, "offset_error_ns": error, "boot_ns": abilities.boot_ns}


def make_folder(out: Path) -> None:
    """Make the folder of a run; only its owner may read it."""
    try:
        if out.exists() and (not out.is_dir() or _holds_something(out)):
            raise UsageError(f"{out} exists", "a recording never writes over another", f"choose another folder: -o {out}-2")
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        (out / "raw").mkdir(mode=0o700, exist_ok=True)
        out.chmod(0o700)
    except OSError as error:
        raise EvidenceError(
            f"cannot make the folder {out}", error.strerror or str(error), "choose another folder with -o"
        ) from error


def _holds_something(out: Path) -> bool:
    """Whether a folder holds more than what a recorder leaves that was killed before it wrote its first manifest."""
    left = [path for path in out.iterdir() if path.name != RESERVE and path.suffix != ".new"]
    return left != [out / "raw"] and bool(left) or any((out / "raw").iterdir() if left else ())


class Manifest:
    """The manifest of a recording in progress. Safe to use from several threads.

    `data`: what `run.json` holds. `full`: set once the disk is full or takes no more for another reason: nothing more is recorded
    then. `why` says which.
    """

    def __init__(
        self,
        folder: Path,
        kit_version: str,
        target: str = "local",
        abilities: Abilities | None = None,
        before: dict[str, Any] | None = None,
        **about: Any,
    ):
        self.folder, self.full = folder, threading.Event()
        self._held = hold(folder)
        if self._held is None:
            raise UsageError(
                f"{folder} is in use", "another kit writes to it", "wait for its end, or choose another folder with -o"
            )
        self._lock = threading.RLock()
        abilities = abilities or Abilities(utc_offset_s=utc_offset_s())
        self.offset_ns = abilities.offset_ns
        self.data: dict[str, Any] = before or {
            "format": FORMAT,
            "version": VERSION,
            "kit": kit_version,
            "name": folder.name,
            "target": target,
            "created_at": utc_text(self.now_ns()),
            "ended_at": None,
            "utc_offset_s": abilities.utc_offset_s,
            "clock": clocks(abilities),
            "launch": {},
            "captures": [],
            "missing": [],
            "gaps": [],
        }
        self.data.update(about)
        self._reserve = folder / RESERVE
        self.why = ""
        self._hold_reserve()
        self.write()
        if self.full.is_set():
            self.let_go()
            raise EvidenceError(f"nothing can be recorded in {folder}", self.why, "make room, or choose another folder with -o")

    def now_ns(self) -> int:
        """The present on the host's wall clock, UTC nanoseconds."""
        return time.time_ns() + self.offset_ns

    def _hold_reserve(self) -> None:
        try:
            with open(self._reserve, "wb", opener=private) as file:
                file.write(os.urandom(RESERVE_BYTES))  # not zeros: a file system that compresses would keep no room for them
        except OSError:
            self._give_up_reserve()

    def _give_up_reserve(self) -> None:
        with suppress(OSError):
            self._reserve.unlink(missing_ok=True)

    def stop(self, error: OSError) -> None:
        """Nothing more can be written."""
        self.why = self.why or ("the disk is full" if error.errno in FULL else f"it cannot be written to: {error.strerror}")
        self.full.set()

    def write(self) -> None:
        """Write the manifest; on a full disk from the reserve, and where even that fails the one before stays."""
        with self._lock:
            text = json.dumps(self.data, indent=1, ensure_ascii=False) + "\n"
            for _ in range(2):
                try:
                    write_whole(self.folder / "run.json", text)
                    return
                except OSError as error:
                    self.stop(error)
                    self._give_up_reserve()

    def update(self, **values: Any) -> None:
        """Set top-level values and write."""
        with self._lock:
            self.data.update(values)
            self.write()

    def lacks(self, what: str, why: str, do: str) -> None:
        """Say once what the recording lacks, why, and what gets it."""
        with self._lock:
            entry = {"what": what, "why": why, "do": do}
            if entry not in self.data["missing"]:
                self.data["missing"].append(entry)
                self.write()

    def gap(self, from_ns: int, to_ns: int, why: str) -> None:
        """Note a stretch of time without samples."""
        with self._lock:
            self.data["gaps"].append({"from": utc_text(from_ns), "to": utc_text(to_ns), "why": why})
            self.write()

    def open(
        self,
        file: str,
        kind: str | None,
        source: str,
        *,
        moment: int | None = None,
        pid: int | None = None,
        note: str | None = None,
    ) -> RawFile:
        """Begin a capture: it stands in the manifest at once, as not whole."""
        with self._lock:
            entry = {
                "file": self._unused(f"raw/{safe_name(file)}", readable(source)),
                "kind": kind,
                "source": readable(source),
                "started_at": utc_text(self.now_ns()),
                "captured_at": None,
                "moment": moment,
                "pid": pid,
                "sha256": None,
                "size": None,
                "whole": False,
                "note": note,
            }
            self.data["captures"].append(entry)
            self.write()
        return RawFile(self, entry)

    def _unused(self, file: str, source: str) -> str:
        """A file that no other source is copied to; what the same source gave before under that name is replaced."""
        stem, dot, ending = file.rpartition(".")
        for number in range(2, 10_000):
            before = next((entry for entry in self.data["captures"] if entry["file"] == file), None)
            if before is None or before["source"] == source:
                break
            file = f"{stem}.{number}{dot}{ending}" if dot and "/" in stem else f"raw/{ending}.{number}"
        self.data["captures"] = [entry for entry in self.data["captures"] if entry["file"] != file]
        return file

    def reopen(self, entry: dict[str, Any], size: int) -> RawFile:
        """Go on with a capture after so many bytes; what stands behind them is cut off."""
        with self._lock:
            entry.update(whole=False, sha256=None)
            self.write()
        return RawFile(self, entry, size)

    def drop(self, entry: dict[str, Any]) -> None:
        """Take a capture out, to make it anew."""
        with self._lock:
            self.data["captures"].remove(entry)
            self.write()
        with suppress(OSError):
            (self.folder / entry["file"]).unlink(missing_ok=True)

    def save(self, file: str, kind: str, source: str, text: str, whole: bool = True, **about: Any) -> None:
        """Record a capture that is there in one piece."""
        raw = self.open(file, kind, source, **about)
        raw.write(text.encode("utf-8", "surrogateescape"))
        raw.close(whole)

    def finish(self, ended_ns: int) -> None:
        """End the recording."""
        self._give_up_reserve()
        self.update(ended_at=utc_text(ended_ns))

    def let_go(self) -> None:
        """Let others write to the folder."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)


class RawFile:
    """A raw file that is appended to, unbuffered, with its checksum taken on the way."""

    def __init__(self, manifest: Manifest, entry: dict[str, Any], size: int = 0):
        self.entry, self._manifest = entry, manifest
        self._digest, self.size, self._failed = hashlib.sha256(), size, False
        path = manifest.folder / entry["file"]
        try:
            if size:
                os.truncate(path, size)
                with open(path, "rb") as file:
                    self._digest = hashlib.file_digest(file, "sha256")
            self._file = open(path, "ab" if size else "wb", buffering=0, opener=private)
        except OSError as error:
            self._file = None
            self._out_of_room(error)

    def write(self, data: bytes) -> bool:
        """Append; False where the disk is full, now or before."""
        while data and not self._failed:
            try:
                count = self._file.write(data) or 0
            except OSError as error:
                self._out_of_room(error)
                break
            self._digest.update(data[:count])
            self.size += count
            data = data[count:]
        return not self._failed

    def _out_of_room(self, error: OSError) -> None:
        self._failed = True
        self._manifest.stop(error)
        self._manifest.lacks(
            f"the rest of {self.entry['file']}",
            f"no room to write: {error.strerror}" if error.errno in FULL else self._manifest.why,
            f"make room (df {self._manifest.folder}) and record again",
        )

    def note(self, text: str) -> None:
        """Add a remark to the manifest's entry."""
        self.entry["note"] = f"{self.entry['note']}; {text}" if self.entry["note"] else text
        self._manifest.write()

    def grew(self) -> None:
        """Keep when lines came last: a log may bear no time of its own."""
        self.entry["grew_at"] = utc_text(self._manifest.now_ns())

    def close(self, whole: bool = True) -> None:
        """End the capture: checksum, size, time."""
        if self._file is not None:
            self._file.close()
        self.entry.update(
            captured_at=utc_text(self._manifest.now_ns()),
            sha256=self._digest.hexdigest(),
            size=self.size,
            whole=whole and not self._failed,
        )
        self._manifest.write()
