"""Files of the launch: locks with age and holder, downloads that are not whole, file systems. Any read may hang."""

import os
import re

from kit.capture.sampler.reading import text

LOCK_NAME = re.compile(r"(?:\.lock|\.lck|/lock|/lock_[^/]*|baton[^/]*)$")
MOST_FILES = 2000


def lock_rows(links, names):
    """Rows [path, pid, type, mode, waits, mtime_ns, holder's name] of the lock files that the launch has open.

    /proc/locks names holders by the inode of the file; holders in another pid namespace and on another host are not shown,
    so a lock without a holder there has a row without pid, which says nothing.
    """
    paths = {}
    for pid, rows in links.items():
        for fd, _, target in rows:
            if target.startswith("/") and LOCK_NAME.search(target.replace(" (deleted)", "")):
                try:
                    stat = os.stat(f"/proc/{pid}/fd/{fd}")
                except OSError:
                    continue
                key = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
                paths[key] = (target, int(stat.st_mtime * 1e9))
    found, held = [], set()
    for line in (text("/proc/locks") or "").split("\n") if paths else ():
        words = line.replace("-> ", "").split()
        if len(words) > 5 and words[5] in paths:
            waits, pid = "-> " in line, int(words[4])
            held.add(words[5])
            name = names.get(pid) or text(f"/proc/{pid}/comm")
            found.append([paths[words[5]][0], pid, words[1], words[3] + "*" * waits, waits, paths[words[5]][1], name])
    return found + [[path, None, None, None, None, mtime, None] for key, (path, mtime) in paths.items() if key not in held]


def hub_of(environ):
    """Folder of the Hugging Face cache, as its library finds it; None where the environment is not known."""
    home = environ.get("HF_HOME") or (
        (environ.get("XDG_CACHE_HOME") or environ.get("HOME", "") + "/.cache") + "/huggingface" if environ.get("HOME") else None
    )
    return environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or (home + "/hub" if home else None)


def download_rows(links, hub, since):
    """Rows [path, size] of downloads that are not whole: open ones, and those in the cache that changed since the launch."""
    found = {}
    for pid, rows in links.items():
        for fd, _, target in rows:
            if target.endswith(".incomplete"):
                try:
                    found[target] = os.stat(f"/proc/{pid}/fd/{fd}").st_size
                except OSError:
                    pass
    try:
        models = os.listdir(hub)[:MOST_FILES] if hub else ()
    except OSError:
        models = ()
    for model in models:
        try:
            blobs = hub + "/" + model + "/blobs"
            for name in os.listdir(blobs)[:MOST_FILES] if model.startswith(("models--", "datasets--")) else ():
                if name.endswith(".incomplete"):
                    stat = os.stat(blobs + "/" + name)
                    if stat.st_mtime >= since:
                        found.setdefault(blobs + "/" + name, stat.st_size)
        except OSError:
            pass
    return sorted(map(list, found.items()))


def filesystem_row(pid, path):
    """[device, mount point, type, options, size, used, available] of the file system that a path of a process is on."""
    root = f"/proc/{pid}/root"
    stat = os.statvfs(root + path if os.access(root, os.R_OK) else path)
    best = [None, path, None, None]
    for line in (text(f"/proc/{pid}/mounts") or "").split("\n"):
        words = line.replace("\\040", " ").split(" ")
        if (
            len(words) >= 4
            and (path + "/").startswith(words[1].rstrip("/") + "/")
            and (best[0] is None or len(words[1]) >= len(best[1]))
        ):
            best = words[:4]
    size = stat.f_blocks * stat.f_frsize
    return best + [size, size - stat.f_bfree * stat.f_frsize, stat.f_bavail * stat.f_frsize]
