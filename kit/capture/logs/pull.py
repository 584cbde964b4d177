"""`kit.capture.logs.pull.pull`: fetch files of a host into a run, scrubbed on the way, and go on after a break where it was."""

from __future__ import annotations

import errno
import hashlib
import re
import shlex
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath

from kit import __version__, run_json
from kit.capture.hosts.host import Host, HostFile, HostLost
from kit.capture.hosts.targets import open_host
from kit.capture.logs.follow import CHUNK_BYTES, TAIL_BYTES, blocks, opened_or_none, rotated_copies
from kit.capture.logs.scrub import Scrubber, utf16
from kit.capture.manifest import Manifest, RawFile, make_folder, readable, safe_name
from kit.capture.options import Connection, takes
from kit.errors import EvidenceError, UsageError
from kit.folder import why_not
from kit.progress import expect, read

MOST_FILES = 500
SAVED_EVERY_S = 2.0
"""What is done is written to the manifest so often: a break costs no more."""
PAUSES_S = (0.5, 2.0, 5.0)
"""Before each attempt to connect again; a file that brought something on the way gets them anew."""
SEARCH_S = 60.0
MOST_LIST_BYTES = 1 << 21
"""Of a list of files: `MOST_FILES` of the longest names that Linux knows."""
MOST_UNPACKED_BYTES = 16 << 30
"""Of one gzip file: 1 MB of it may unpack to 1 GB."""
LIST = """trusted() {{ # root follows a link only where root made it, or the owner of what it leads to
q=$1; while [ -n "$q" ]; do
if [ -L "$q" ]; then set -f; set -- $(ls -ldn "$q" | head -n 1) ; a=$3; set -- $(ls -ldnL "$q" | head -n 1); b=$3; set +f
[ "$a" = 0 ] || [ -n "$a" ] && [ "$a" = "$b" ] || return 1; fi
q=${{q%/*}}; done; }}
root=$(id -u)
for p in {pattern}; do case $p in /*) ;; *) p=$PWD/$p ;; esac; p=${{p%/}}
[ "$root" != 0 ] || trusted "$p" || continue
if [ -d "$p" ]; then find "$p/" -type f -exec printf '%s\\0' {{}} +; elif [ -f "$p" ]; then printf '%s\\0' "$p"; fi
done | head -c {most}"""
"""Shell text that lists files, each with a zero byte after it: a name may hold a line end."""
GZIP = b"\x1f\x8b"
NOTES = {
    "gzip": "unpacked; its text was scrubbed",
    "utf-16": "was UTF-16, is UTF-8; scrubbed",
    "binary": "binary: copied as it is, not scrubbed",
}
_WILD = re.compile(r"(\[[^\]/]{1,200}\]|[*?])")


@takes(connection=Connection)
def pull(target: str, *paths: str, out: str | Path, connection: Connection, progress: Callable[[str], None] = print) -> Path:
    """Fetch files of a host into a run folder, without looking at processes; returns the run.

    Text is scrubbed line by line. A gzip file is unpacked and its text scrubbed. Other binary files (pickles of PyTorch's
    flight recorder) are copied as they are, and the manifest says so. Run again with the same folder, it resumes: a file whose
    last bytes before that place are still the same is continued, one that was rotated is finished first.

    Parameters
    ----------
    target : str
        Where the files are: `local`, `ssh://[user@]host[:port]`.
    *paths : str
        Files, folders with all that is below them, or patterns with `*`, `?` and `[…]`, on that host.
    out : str or path
        Folder to make, or one that an earlier pull from the same target made.
    {fields}
    progress : callable
        Receives progress messages.

    Raises
    ------
    UsageError
        Where no path is given, or the folder holds something else.
    EvidenceError
        Where none of the files is there, one did not come whole, or the host cannot be reached (HostLost).

    Examples
    --------
    >>> import tempfile, kit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder, "server.log")
    ...     _ = log.write_text("INFO 02-18 02:11:52 [core.py:58] HF_TOKEN=abc\\n")
    ...     run = pull("local", str(log), out=Path(folder, "run"), progress=lambda text: None)
    ...     (run / "raw" / "server.log").read_text()
    'INFO 02-18 02:11:52 [core.py:58] HF_TOKEN=[redacted]\\n'
    """
    if not paths:
        raise UsageError("nothing to pull", "no path is given", f"name files: kit pull {target} '/var/log/vllm/*.log' -o RUN")
    folder, before = Path(out), _before(Path(out), target)
    with open_host(target, connection=connection) as host:
        found, missing = find_files(host, paths)
        if not found:
            why = f"no file at {', '.join(missing) or ', '.join(paths)}"
            raise EvidenceError(f"nothing to pull from {target}", why, "look what is there: ls -l")
        if before is None:
            make_folder(folder)
        about = {"pulled": True, "ended_at": None, "missing": []}  # from its first write on: a pull is known again by it
        manifest = Manifest(folder, __version__, target, host.abilities, before, **about)
        for path in missing:
            manifest.lacks(path, f"no such file on {target}", "look what is there: ls -l")
        _expect(host, found)
        try:
            incomplete = _pull_all(host, manifest, found, progress)
        finally:
            manifest.finish(manifest.now_ns())
            manifest.let_go()
    if incomplete:
        raise _incomplete(manifest, incomplete, missing)
    return folder


def _incomplete(manifest: Manifest, incomplete: list[str], missing: list[str]) -> EvidenceError:
    """The error for files of which not all came."""
    more = f" and {len(incomplete) - 1} more" if len(incomplete) > 1 else ""
    why = next((one["why"] for one in manifest.data["missing"] if one["what"] not in missing), "it is damaged")
    return EvidenceError(
        f"{readable(incomplete[0])}{more} did not come whole",
        manifest.why or why,
        f"{manifest.folder} holds what came; mend that, then run the same command again to resume",
    )


def _before(folder: Path, target: str) -> dict | None:
    """The manifest of an earlier pull into the folder, None where it is new."""
    if not (folder / "run.json").exists():
        return None
    data, notes = run_json.read(folder / "run.json")
    if data is None or not data.get("pulled") or data.get("target") != target:
        data = data or {}
        why = f"it is a pull from {data.get('target')}" if data.get("pulled") else "it is a recording, to which nothing is added"
        why = f"its run.json {notes[0].reason}" if notes else why
        raise UsageError(f"{folder} exists", why, f"choose another folder: -o {folder}-2")
    # What was not saved once, or whose copy is gone or is none, is fetched anew.
    begun = [one for one in data.get("captures", []) if one.get("pulled") and not why_not(folder / one["file"], folder)]
    return {"missing": [], "gaps": [], **data, "captures": begun}


def find_files(host: Host, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Files on a host by paths, folders and patterns; and the paths that lead to none.

    What the host lists is checked: a name that does not fit what was asked is none of the files.

    Examples
    --------
    >>> from kit.capture.hosts.this_machine import LocalHost
    >>> with LocalHost() as host:
    ...     find_files(host, ["/proc/version", "/no/such/*"])
    (['/proc/version'], ['/no/such/*'])
    """
    found: dict[str, None] = {}
    missing = []
    for path in paths:
        start, home = (path[2:], "~/") if path.startswith("~/") else (path, "")
        words = _WILD.split(start)
        pattern = home + "".join(word if number % 2 else shlex.quote(word) if word else "" for number, word in enumerate(words))
        names = host.ask(LIST.format(pattern=pattern, most=MOST_LIST_BYTES), SEARCH_S)[1].split(b"\0")[:-1]
        fits = _fits(start)
        asked = [name for name in (name.decode("utf-8", "surrogateescape") for name in names) if fits(name)]
        found |= dict.fromkeys(sorted(asked))
        missing += [] if asked else [path]
        if len(found) > MOST_FILES:
            raise UsageError(f"more than {MOST_FILES} files", f"{path} leads to so many", "name a narrower pattern")
    return list(found), missing


def _fits(asked: str) -> Callable[[str], bool]:
    """Whether a name is what a path, folder or pattern asks for: the same, or below it.

    Examples
    --------
    >>> fits = _fits("/srv/*.log")
    >>> [fits(name) for name in ("/srv/a.log", "/srv/b.log/c", "/srv/x/a.log", "/etc/hostname", "/srv/a.log/../../etc/hostname")]
    [True, True, False, False, False]
    """
    parts = [part for part in asked.split("/") if part not in ("", ".")]
    any_of = {"*": "[^/]*", "?": "[^/]"}
    one = "/".join(
        "".join(any_of.get(word, "[^/]") if number % 2 else re.escape(word) for number, word in enumerate(_WILD.split(part)))
        for part in parts
    )
    shape = re.compile(f"{'/' if asked.startswith('/') else '/(?:.*/)?'}{one}(?:/.*)?", re.DOTALL)
    may_climb = ".." in parts

    def fits(name: str) -> bool:
        words = [word for word in name.split("/") if word not in ("", ".")]
        return name.startswith("/") and (may_climb or ".." not in words) and bool(shape.fullmatch("/" + "/".join(words)))

    return fits


def _expect(host: Host, paths: list[str]) -> None:
    """Tell how many bytes are to come, where the host has `stat`."""
    sizes = host.ask(f"stat -c %s -- {' '.join(map(shlex.quote, paths))}", SEARCH_S)[1]
    expect(sum(int(size) for size in sizes.split() if size.isdigit()))


def _pull_all(host: Host, manifest: Manifest, paths: list[str], progress: Callable[[str], None]) -> list[str]:
    """Fetch file by file; those of which not all came."""
    left, incomplete = list(paths), []
    try:
        while left and not manifest.full.is_set():
            if not _pull_one(host, manifest, left[0], progress):
                incomplete.append(left[0])
            left.pop(0)
    finally:
        for path in left:
            do = "run the same command again to resume"
            manifest.lacks(readable(path), "the pull ended before this file was complete", do)
    return [*incomplete, *left]


def _pull_one(host: Host, manifest: Manifest, path: str, progress: Callable[[str], None]) -> bool:
    pauses, furthest = list(PAUSES_S), 0
    while True:
        one = PulledFile(host, manifest, path)
        try:
            whole = one.fetch()
            progress(f"{readable(path)}: {one.said}")
            return whole
        except HostLost as error:
            progress(f"{error.what}: {error.why}; connecting again")
            if one.offset > furthest:
                pauses, furthest = list(PAUSES_S), one.offset
            _connect_again(host, error, pauses)
        except OSError as error:
            why, do = f"it cannot be read: {error.strerror}", f"look at it: ls -l {shlex.quote(readable(path))}; as root: --sudo"
            manifest.lacks(readable(path), why, do)
            return False


def _connect_again(host: Host, error: HostLost, pauses: list[float]) -> None:
    """Try until it answers; where it does not, the same command goes on later."""
    while pauses:
        time.sleep(pauses.pop(0))
        try:
            host.connect()
            return
        except HostLost as again:
            error = again
    raise HostLost(error.what, error.why, "once it can be reached, run the same command again to resume")


class _Plain:
    """In place of a scrubber, for a file that is copied as it is."""

    pending, waiting = 0, False

    def take(self, piece: bytes) -> bytes:
        return piece

    def rest(self) -> bytes:
        return b""


class Unpacker:
    """Unpacks gzip that comes in pieces, several members one after the other too.

    Examples
    --------
    >>> import gzip
    >>> unpacker = Unpacker()
    >>> b"".join(unpacker.take(gzip.compress(b"one ") + gzip.compress(b"two"))), unpacker.whole
    (b'one two', True)
    """

    def __init__(self) -> None:
        self._member, self.whole = zlib.decompressobj(31), False

    def take(self, block: bytes) -> Iterator[bytes]:
        """What the block unpacks to, in pieces that fit into memory. OSError where it is no gzip."""
        piece = b""
        try:
            while block or len(piece) == CHUNK_BYTES:
                piece = self._member.decompress(block, CHUNK_BYTES)
                yield piece
                block, self.whole = self._member.unconsumed_tail, self._member.eof
                if self._member.eof:
                    block, self._member, piece = self._member.unused_data, zlib.decompressobj(31), b""
        except zlib.error as error:
            raise OSError(errno.EILSEQ, f"truncated or invalid gzip file ({error})") from error


class PulledFile:
    """One file on its way into a run. What was fetched stands in its manifest entry under `pulled`: the offset in the file
    up to which whole lines were written, the SHA-256 of the `TAIL_BYTES` before it, and the size of the copy then.
    """

    def __init__(self, host: Host, manifest: Manifest, path: str):
        self.path, self.offset, self.said = path, 0, ""
        self._host, self._manifest = host, manifest

    def fetch(self) -> bool:
        """Bring the copy to the present end of the file; whether all of it came."""
        began = time.monotonic()
        with closing(self._host.open_file(self.path)) as file:
            size = file.stat().size
            mine = [
                one for one in self._manifest.data["captures"] if one.get("source") == readable(self.path) and "pulled" in one
            ]
            entry = mine[-1] if mine else None
            if entry is not None and not _goes_on(file, entry["pulled"]):
                self._finish_rotated(entry)
                entry = None
            if entry is not None and entry["whole"] and entry["pulled"]["offset"] == size:
                self.said = "nothing new"
                read(size)
                return True
            begun, whole = self._copy(file, size, entry)
        seconds = max(time.monotonic() - began, 1e-6)
        self.said = f"{self.offset - begun:,} bytes in {seconds:.1f} s"
        return whole

    def _finish_rotated(self, entry: dict) -> None:
        """The file at the path is another now: the rest of the one before is in a copy beside it, or is said to be missing."""
        for path in rotated_copies(self._host, self.path):
            copy = opened_or_none(self._host, path)
            if copy is None:
                continue
            with closing(copy):
                if _goes_on(copy, entry["pulled"]):
                    self._copy(copy, copy.stat().size, entry, f"rotated to {path}, and finished from there")
                    return
        where = "what was written to it after that is missing, unless a file beside it holds it"
        entry["whole"] = False
        entry["note"] = f"the path now holds another file: {where} (ls -lt {self.path}*)"

    def _copy(self, file: HostFile, size: int, entry: dict | None, note: str | None = None) -> tuple[int, bool]:
        """Copy from where it was to the end; returns where that began, and whether all came."""
        head = file.read(0, TAIL_BYTES)
        rule = rule_of(head)
        if rule in ("gzip", "utf-16") and entry is not None:  # it cannot be entered in its middle
            self._manifest.drop(entry)
            entry = None
        raw = self._manifest.reopen(entry, entry["pulled"]["size"]) if entry is not None else self._begin(rule)
        begun = self.offset = entry["pulled"]["offset"] if entry is not None else 0
        read(begun)
        if note:
            raw.note(note)
        whole = False
        try:
            whole = self._write_all(raw, file, size, rule)
        finally:
            raw.close(whole)
        return begun, raw.entry["whole"]

    def _write_all(self, raw: RawFile, file: HostFile, size: int, rule: str) -> bool:
        scrubber = _Plain() if rule == "binary" else Scrubber()
        unpacker, saves = Unpacker() if rule == "gzip" else None, rule in ("text", "binary")
        saved = time.monotonic()
        for block in blocks(file, self.offset, size):
            for piece in unpacker.take(block) if unpacker else (block,):
                if not raw.write(scrubber.take(piece)):
                    return False
                if unpacker and raw.size > MOST_UNPACKED_BYTES:
                    raise OSError(errno.EFBIG, f"it unpacks to more than {MOST_UNPACKED_BYTES:,} bytes")
            self.offset += len(block)
            read(len(block))
            if self._manifest.full.is_set():
                return False
            if saves and time.monotonic() - saved > SAVED_EVERY_S and not scrubber.waiting:
                self._save(raw, file, self.offset - scrubber.pending)
                self._manifest.write()
                saved = time.monotonic()
        if not scrubber.waiting or not saves:
            self._save(raw, file, self.offset - (scrubber.pending if saves else 0))
        raw.write(scrubber.rest())
        return unpacker is None or unpacker.whole

    def _begin(self, rule: str) -> RawFile:
        raw = self._manifest.open(self._name(rule), None, self.path, note=NOTES.get(rule))
        raw.entry["pulled"] = {"offset": 0, "tail_sha256": _sha(b""), "size": 0}
        return raw

    def _name(self, rule: str) -> str:
        """Name of the copy: the file's own, with as much of its folder as tells it from the others."""
        path = PurePosixPath(self.path)
        name = path.name.removesuffix(".gz") if rule == "gzip" else path.name
        name = safe_name(name)
        taken = {one["file"].removeprefix("raw/") for one in self._manifest.data["captures"]}
        for parent in [path.parent, *path.parent.parents]:
            if name not in taken:
                return name
            name = safe_name(f"{parent.name}_{name}") if parent.name else name
        return next(numbered for number in range(2, 10_000) if (numbered := f"{safe_name(path.name)}.{number}.log") not in taken)

    def _save(self, raw: RawFile, file: HostFile, offset: int) -> None:
        """Note how far it is."""
        start = max(offset - TAIL_BYTES, 0)
        raw.entry["pulled"] = {"offset": offset, "tail_sha256": _sha(file.read(start, offset - start)), "size": raw.size}


def _goes_on(file: HostFile, done: dict) -> bool:
    """Whether a file is the one that was pulled, grown or as it was."""
    start = max(done["offset"] - TAIL_BYTES, 0)
    tail = file.read(start, done["offset"] - start) if done["offset"] > start else b""
    return len(tail) == done["offset"] - start and _sha(tail) == done["tail_sha256"]


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def rule_of(head: bytes) -> str:
    """What is done with a file that begins so: `text` is scrubbed, `utf-16` made UTF-8 first, `gzip` unpacked first, `binary`
    copied as it is.

    Examples
    --------
    >>> import gzip
    >>> [rule_of(head) for head in (b"text", b"\\x80\\x04\\x95\\x10\\x00\\x00", gzip.compress(b"text"))]
    ['text', 'binary', 'gzip']
    """
    if head.startswith(GZIP):
        try:
            return "binary" if is_binary(zlib.decompressobj(31).decompress(head, TAIL_BYTES)) else "gzip"
        except zlib.error:
            return "binary"
    return "binary" if is_binary(head) else "utf-16" if utf16(head) else "text"


def is_binary(head: bytes) -> bool:
    """Whether the begin of a file is neither text nor UTF-16. Text may hold zero bytes: of a log truncated under its writer.

    Examples
    --------
    >>> is_binary(b"text"), is_binary("text".encode("utf-16")), is_binary(b"\\x80\\x04\\x95\\x10\\x00\\x00")
    (False, False, True)
    """
    if b"\0" not in head or utf16(head):
        return False
    rest = head.replace(b"\0", b"")
    odd = rest.translate(None, bytes(range(32, 256)) + b"\t\n\r\x0b\x0c\x1b\x08")
    return bool(odd) or rest.decode("utf-8", "replace").count("\ufffd") * 100 > len(rest)
