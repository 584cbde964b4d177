"""Bytes: through pipes, sockets and eventfds, what was written and never read; files by bytes and time."""

from __future__ import annotations

import re

import pandas as pd

from kit.analyse.calls.arguments import LOOKS, OPENS, READS, WRITES, split, string
from kit.analyse.calls.descriptors import Descriptors, kind_of
from kit.schema import table_of

_FOLDER = re.compile(r"AT_FDCWD<(?P<path>[^<>]*)>")


def transfers(found: Descriptors) -> pd.DataFrame:
    """Bytes that threads read and wrote, by thing.

    Columns: `thing`, `kind`, `pid`, `read_bytes`, `written_bytes`, `reads`, `writes` (calls that moved any), `first_s`, `last_s`,
    `took_s` (none where no duration was recorded).
    """
    rows = found.trace.rows
    moved = rows.assign(thing=found.things)
    moved = moved[
        moved["thing"].notna() & moved["syscall"].isin([*READS, *WRITES]) & moved["ret"].str.fullmatch(r"\d{1,15}", na=False)
    ]
    size = moved["ret"].astype("int64")
    read = moved["syscall"].isin(READS)
    moved = moved.assign(
        read_bytes=size.where(read, 0), written_bytes=size.where(~read, 0), reads=read & (size > 0), writes=~read
    )
    groups = moved.groupby(["thing", "pid"], sort=False)
    table = groups.agg(
        read_bytes=("read_bytes", "sum"),
        written_bytes=("written_bytes", "sum"),
        reads=("reads", "sum"),
        writes=("writes", "sum"),
        first_s=("begin_s", "min"),
        last_s=("end_s", "max"),
    )
    table = table.assign(took_s=groups["took_s"].sum(min_count=1)).reset_index()
    table.insert(1, "kind", [kind_of(name) for name in table["thing"]])
    return table


def unread(found: Descriptors, moved: pd.DataFrame | None = None) -> pd.DataFrame:
    """Pipes, sockets and eventfds into which more was written than was read.

    Of a pipe or a pair of sockets the bytes that are left are known where the trace saw it made; else more may lie in it from
    before. An eventfd is read as a whole: what was added since its last read is left.

    Columns: `thing` (of a socket: the end at which the bytes wait), `kind`, `written_bytes`, `read_bytes`, `left_bytes` (an
    eventfd: its count), `writers`, `readers` (labels of threads), `last_write_s`, `made_in_trace`. Most bytes first.
    """
    moved = transfers(found) if moved is None else moved
    trace, made = (found.trace, {one.thing for one in found.held if one.how not in ("seen", "inherited")})
    rows = []
    for name, own in moved[moved["kind"].isin(["pipe", "socket"])].groupby("thing", sort=False):
        at = found.peers.get(name) if kind_of(name) == "socket" else name
        if at is None:
            continue
        readers = moved[(moved["thing"] == at) & (moved["read_bytes"] > 0)]
        written, read = (int(own["written_bytes"].sum()), int(readers["read_bytes"].sum()))
        ends_seen = kind_of(name) != "socket" or found.holders(at) or len(readers)
        if written > read and ends_seen:
            rows.append((at, written, read, written - read, own[own["written_bytes"] > 0], readers, name in made or at in made))
    for name, own in moved[moved["kind"] == "eventfd"].groupby("thing", sort=False):
        left = _count(found, name)
        if left:
            rows.append(
                (
                    name,
                    int(own["written_bytes"].sum()),
                    int(own["read_bytes"].sum()),
                    left,
                    own[own["writes"] > 0],
                    own[own["reads"] > 0],
                    name in made,
                )
            )
    names = "thing kind written_bytes read_bytes left_bytes writers readers last_write_s made_in_trace".split()
    made_rows = [
        (
            at,
            kind_of(at),
            written,
            read,
            left,
            ", ".join(map(trace.label, w["pid"])),
            ", ".join(map(trace.label, r["pid"])),
            w["last_s"].max(),
            known,
        )
        for at, written, read, left, w, r, known in rows
    ]
    return table_of(made_rows, names).sort_values("left_bytes", ascending=False, kind="stable", ignore_index=True)


def _count(found: Descriptors, name: str) -> int:
    """Count of an eventfd since its last read: strace prints the eight bytes that are added."""
    rows = found.trace.rows
    things = found.things
    own = rows.loc[things.index[things == name]]
    left = 0
    for call, args, ret in zip(own["syscall"], own["args"], own["ret"], strict=True):
        if call in READS and ret == "8":
            left = 0
        elif call in WRITES and ret == "8":
            words = split(args or "")
            text = string(words[1]) if len(words) > 1 else None
            left += int.from_bytes(text.encode("latin-1", "replace")[:8], "little") if text else 1
    return left


def files(found: Descriptors) -> pd.DataFrame:
    """Files by what was read, written and looked for.

    Columns: `path`, `read_bytes`, `written_bytes`, `mapped_bytes` (mmap: what was asked for; pages that arrive by faults make no
    calls), `opens`, `failed` (looks at the path that failed), `calls`, `first_s`, `last_s`, `threads` (how many), `took_s` (none
    where no duration was recorded). Most bytes first, then the longest time.
    """
    rows = found.trace.rows
    named = rows.assign(thing=found.things)
    mapped = named["syscall"].eq("mmap") & named["args"].str.contains(r", \d+<?/?", na=False)
    looked = named["syscall"].isin(LOOKS) & ~named["args"].str.contains(', "",', regex=False)
    paths = named.loc[looked, "args"].str.extract(r'"((?:[^"\\]|\\.)*)"', expand=False)
    folders = named.loc[looked, "args"].str.extract(_FOLDER, expand=False)
    opened = named.loc[looked & named["syscall"].isin(OPENS), "result"].str.extract(r"^\d+<(/[^<>]*)>", expand=False)
    joined = (folders + "/" + paths).where(folders.notna() & ~paths.str.startswith("/", na=False), paths)
    named.loc[looked, "thing"] = opened.reindex(joined.index).fillna(joined)
    if mapped.any():
        parts = named.loc[mapped, "args"].str.extract(
            r"^\w+, (?P<size>\d{1,15}), .*, (?P<fd>\d+)(?:<(?P<path>/[^<>]*)>)?[^,]*, \w+$"
        )
        known = [
            path if path == path and path is not None else _path_of(found, pid, fd, row)
            for row, pid, fd, path in zip(parts.index, named.loc[mapped, "pid"], parts["fd"], parts["path"], strict=True)
        ]
        named.loc[mapped, "thing"] = known
        named.loc[mapped, "mapped"] = parts["size"].astype("float")
    if "mapped" not in named:
        named["mapped"] = 0.0
    named = named[named["thing"].notna()]
    named = named[named["thing"].map(kind_of).eq("file")]
    size = named["ret"].where(named["ret"].str.fullmatch(r"\d{1,15}", na=False), "0").astype("int64")
    named = named.assign(
        read_bytes=size.where(named["syscall"].isin(READS), 0),
        written_bytes=size.where(named["syscall"].isin(WRITES), 0),
        opened=named["syscall"].isin(OPENS) & named["errno"].isna(),
        miss=named["syscall"].isin(LOOKS) & named["errno"].notna(),
    )
    groups = named.groupby("thing", sort=False)
    table = groups.agg(
        read_bytes=("read_bytes", "sum"),
        written_bytes=("written_bytes", "sum"),
        mapped_bytes=("mapped", "sum"),
        opens=("opened", "sum"),
        failed=("miss", "sum"),
        calls=("syscall", "size"),
        first_s=("begin_s", "min"),
        last_s=("end_s", "max"),
        threads=("pid", "nunique"),
    )
    table["mapped_bytes"] = table["mapped_bytes"].astype("int64")
    table = table.assign(took_s=groups["took_s"].sum(min_count=1), moved=table["read_bytes"] + table["written_bytes"])
    table = table.sort_values(["moved", "mapped_bytes", "took_s"], ascending=False, kind="stable").drop(columns="moved")
    return table.rename_axis("path").reset_index()


def _path_of(found: Descriptors, pid: int, fd: str, row: int) -> str | None:
    held = found.find(found.trace.threads[pid].process, int(fd), row) if isinstance(fd, str) else None
    return held.thing if held else None
