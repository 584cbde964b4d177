"""Run folders on the disk: private files, written whole or not at all, held by one writer, leading nowhere else."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LEFT_AFTER_S = 60.0
"""A temporary file as old as this that nobody holds was left by a writer that was killed."""
RESERVE = ".reserve"
"""Holds room for the last manifest on a full disk; a recording that ends takes it away."""


def private(path: str, flags: int) -> int:
    """Opener of files that only their owner may read: `open(path, "wb", opener=private)`."""
    return os.open(path, flags, 0o600)


@contextmanager
def whole(path: Path, shared: bool = False) -> Iterator[Path]:
    """A temporary file beside a path, which takes its place once it is written; OSError where that cannot be.

    `shared`: others may read it as umask says, as a report; a device is written to as it is. Without this only the owner may.
    A link to a file gives way to what is written: a folder that somebody sent may hold one to a file of the reader's.
    """
    if shared and path.exists() and not path.is_file():  # /dev/stdout
        yield path
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield temporary
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str, shared: bool = False) -> None:
    """Write a text file whole or not at all, see `whole`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder, "a.json"), "{}")
    ...     oct(Path(folder, "a.json").stat().st_mode & 0o777), os.listdir(folder)
    ('0o600', ['a.json'])
    """
    with whole(path, shared) as temporary, open(temporary, "wb", opener=None if shared else private) as file:
        file.write(text.encode("utf-8", "backslashreplace"))  # a name that is no UTF-8 stands as JSON's own escape


def hold(folder: Path) -> int | None:
    """Hold a folder as its one writer until the process ends or the descriptor is closed; None where another holds it.

    On a file system without locks every writer gets a descriptor.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(held)
            return None
    return held


@contextmanager
def unheld(folder: Path) -> Iterator[bool]:
    """Whether nobody writes to a folder, which is held meanwhile."""
    try:
        held = hold(folder)
    except OSError:
        held = None
    try:
        yield held is not None
    finally:
        if held is not None:
            os.close(held)


def tidy(folder: Path) -> None:
    """Take away what a writer that was killed left in a folder: temporary files and the reserve."""
    try:
        left = [path for path in folder.iterdir() if path.name == RESERVE or path.name.startswith(".") and path.suffix == ".new"]
    except OSError:
        return
    if not left:
        return
    with unheld(folder) as ours:
        for path in left if ours else ():
            try:
                if path.name == RESERVE or time.time() - path.lstat().st_mtime > LEFT_AFTER_S or not _lives(path):
                    path.unlink()
            except OSError:
                continue  # gone meanwhile, or a folder that may not be written


def _lives(path: Path) -> bool:
    """Whether the process whose number is in the name of a temporary file still runs."""
    pid = path.name.split(".")[-2]
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except OSError:
        pass
    return True


def why_not(file: Path, folder: Path | None = None) -> str | None:
    """Why a file is not read as evidence; None where it is a regular file, inside the folder where one is given.

    Examples
    --------
    >>> why_not(Path("/dev/null")), why_not(Path("/etc/hosts"), Path("/tmp"))
    ('is a device', 'leads out of the folder, to /etc/hosts')
    """
    try:
        there = file.resolve()
        found = there.stat()
    except (OSError, RuntimeError, ValueError) as error:
        return f"cannot be opened: {getattr(error, 'strerror', None) or error}"
    if folder is not None and folder.resolve() not in there.parents:
        return f"leads out of the folder, to {there}"
    kinds = {stat.S_IFIFO: "is a pipe", stat.S_IFSOCK: "is a socket", stat.S_IFCHR: "is a device", stat.S_IFBLK: "is a device"}
    kinds[stat.S_IFDIR] = "is a folder"
    if not stat.S_ISREG(found.st_mode):
        return kinds.get(stat.S_IFMT(found.st_mode), "is no file")
    return "is a file of the kernel, which may never end: copy it first, with cat" if found.st_dev == _proc() else None


def _proc() -> int | None:
    """Device of /proc."""
    try:
        return os.stat("/proc").st_dev if os.path.ismount("/proc") else None
    except OSError:
        return None
