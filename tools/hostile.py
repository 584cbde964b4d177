"""Open hostile folders, each in a process of its own: CPU time, memory, and what came of it.

    python tools/hostile.py                    # inputs of some 30 kinds, made here
    python tools/hostile.py FOLDER FOLDER …    # others

A folder is opened as a verdict in all forms, as all frames, and as benchmarks. Exit code 1 where anything but an error of the
kit's own came, a process died, or took more than a minute of CPU.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import random
import resource
import signal
import sqlite3
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kit
from kit.errors import KitError
from kit.frames import FRAMES

LINE = "[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n"
MIB = 1 << 20
LONGEST_S = 60
SCALE = 1.0
"""How large the inputs are: tests make small ones of the same kinds."""


def many(count: int) -> int:
    return max(2, int(count * SCALE))


class Calls:
    """What a pickle may call."""

    def __reduce__(self) -> tuple:
        return os._exit, (99,)


def packed(name: str, data: bytes | str = LINE) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as one:
        one.writestr(name, data)
    return file.getvalue()


def zip_names(folder: Path) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(folder / "a.zip", "w") as one:
        warnings.simplefilter("ignore")
        for name in ("/etc/passwd", "../../up.log", "C:\\x\\y.log", *["server.log"] * 50):
            one.writestr(name, LINE)


def zip_nested(folder: Path) -> None:
    data = packed("server.log")
    for number in range(30):
        data = packed(f"n{number}.zip", data)
    (folder / "nested.zip").write_bytes(data)


def zip_entries(folder: Path) -> None:
    with zipfile.ZipFile(folder / "many.zip", "w") as one:
        for number in range(many(60_000)):
            one.writestr(f"f{number}.log", "x")


def zip_lies(folder: Path) -> None:
    data = bytearray(packed("a.log"))
    at = data.find(b"PK\x01\x02")
    (folder / "encrypted.zip").write_bytes(bytes(data[:6]) + b"\1" + bytes(data[7 : at + 8]) + b"\1" + bytes(data[at + 9 :]))
    data[at + 24 : at + 28] = b"\xff\xff\xff\x7f"
    (folder / "size.zip").write_bytes(bytes(data))


def tar_members(folder: Path) -> None:
    members = (("l", tarfile.SYMTYPE, "/etc/passwd"), ("h", tarfile.LNKTYPE, "../../x"), ("dev", tarfile.CHRTYPE, ""))
    with tarfile.open(folder / "a.tar", "w") as one:
        for name, kind, link in (*members, ("fifo", tarfile.FIFOTYPE, ""), ("/abs.log", tarfile.REGTYPE, "")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            one.addfile(member, io.BytesIO())
    member = tarfile.TarInfo("s.log")
    member.size = 1 << 40
    (folder / "terabyte.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + b"x" * 1024)


def notebook(folder: Path) -> None:
    wrong = [1, None, {"outputs": {"a": 1}}, {"cell_type": 3, "source": {"x": [1]}, "outputs": [3, {"text": {"a": 1}}]}]
    (folder / "wrong.ipynb").write_text(json.dumps({"cells": wrong, "nbformat": "x", "metadata": []}))
    (folder / "deep.ipynb").write_text('{"cells":' + "[" * many(20_000) + "]" * many(20_000) + "}")
    html = [
        {
            "output_type": "display_data",
            "data": {"text/html": ["<script>" * many(20_000)], "image/svg+xml": "<svg onload=x>" * many(9999)},
        }
    ]
    cells = [{"cell_type": "code", "source": ["x"], "metadata": {}, "outputs": html}]
    (folder / "html.ipynb").write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))


def parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"c{number}": [1] for number in range(many(8000))}), folder / "wide.parquet")
    pq.write_table(pa.table({"text": pa.array(["x" * 1000] * many(2_000_000)).dictionary_encode()}), folder / "bomb.parquet")
    data = (folder / "bomb.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(data[:200] + data[-300:])


def names(folder: Path) -> None:
    odd = [
        b"a\nb.log",
        b"\xff\xfe.log",
        b"-rf",
        b"\x1b]0;x\x07.log",
        b"x" * 250,
        b" ",
        b"..log",
        b"a\\b.log",
        b"%00.log",
        b"$(id).log",
    ]
    for name in [*odd, "\u202egol.exe".encode()]:
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text(LINE)


def links(folder: Path) -> None:
    for name, target in (("loop", "."), ("a", "b"), ("b", "a"), ("up", ".."), ("root", "/"), ("kernel", "/proc/kmsg")):
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.log")
    os.mkfifo(folder / "run.json")


def folders(folder: Path) -> None:
    deep = folder
    for _ in range(200):
        deep = deep / "dd"
        deep.mkdir()
    (deep / "x.log").write_text(LINE)
    for number in range(many(5000)):
        (folder / f"f{number}.log").write_text("x\n")


def unreadable(folder: Path) -> None:
    (folder / "other.log").write_text(LINE)
    (folder / "other.log").chmod(0)
    (folder / "sub").mkdir()
    (folder / "sub").chmod(0)


def pickles(folder: Path) -> None:
    (folder / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [Calls()]}))
    (folder / "nccl_trace_rank_1").write_bytes(b"\x80\x02\x8b\xff\xff\xff\x7f" + b"1" * 100)
    (folder / "nccl_trace_rank_2").write_bytes(b"\x80\x04]q\x00" + b"(h\x00h\x00h\x00h\x00el" * many(20_000) + b".")


def database(folder: Path) -> None:
    with sqlite3.connect(folder / "profile.sqlite") as one:
        one.execute("create table t(a)")
        one.executemany("insert into t values(?)", [("x" * 1000,)] * many(2000))
    one.close()


def sparse(folder: Path) -> None:
    with open(folder / "big.log", "wb") as file:
        file.truncate(many(20 << 30))


def text(name: str, *parts: bytes | str | tuple[bytes | str, int]) -> Callable[[Path], object]:
    """Writes the parts one after the other, some of them many times."""

    def write(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            for part in parts:
                data, count = part if isinstance(part, tuple) else (part, 1)
                file.write((data.encode() if isinstance(data, str) else data) * (many(count) if count > 1 else 1))

    return write


KINDS: dict[str, Callable[[Path], object]] = {
    **{kind.__name__: kind for kind in (zip_names, zip_nested, zip_entries, zip_lies, tar_members, notebook, parquet, names)},
    **{kind.__name__: kind for kind in (links, folders, unreadable, pickles, database, sparse)},
    "zip_bomb": lambda folder: (folder / "a.zip").write_bytes(packed("big.log", b"a" * many(300 * MIB))),
    "xz_bomb": lambda folder: (folder / "a.log.xz").write_bytes(lzma.compress(b"0" * many(200 * MIB))),
    "bz2_bomb": lambda folder: (folder / "a.log.bz2").write_bytes(bz2.compress(b"0" * many(300 * MIB))),
    "gzip_members": lambda folder: (folder / "a.log.gz").write_bytes(gzip.compress(LINE.encode()) * many(20_000)),
    "run_json_keys": text(
        "run.json", '{"format":"stallkit-run","version":1,"captures":3,"captures":[{"file":"a","file":"../x"}]}'
    ),
    "run_json_long": lambda folder: (folder / "run.json").write_text(
        json.dumps({"format": "stallkit-run", "version": 1, "captures": [{"file": "raw/f", "kind": "log"}] * many(200_000)})
    ),
    "long_line": text("server.log", "[2026-02-18 00:28:26 TP0] ", ("ab ", 27 * MIB), "\n", LINE),
    "bars": text("server.log", ("\rLoading shards:  42% Completed | 36/85 [00:07<24:40, 30.21s/it]", 300_000)),
    "zeros": text("server.log", (b"\0", 50 * MIB), LINE),
    "deep_lines": text("server.log", ('{"a":' * 150 + "1" + "}" * 150 + "\n", 3000)),
    "many_keys": lambda folder: (folder / "r.json").write_text(
        json.dumps({f"k{number}": number for number in range(many(400_000))})
    ),
    "png": text("shot.log", b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(3_000_000)),
    "pdf": text("paper.log", b"%PDF-1.7\nstream\n" + random.Random(2).randbytes(MIB) + b"\nendstream\n" * 1000),
    "binary": lambda folder: (folder / "core.txt").write_bytes(Path(sys.executable).read_bytes()[: 2 * MIB]),
    "controls": text("server.log", (bytes(range(1, 32)), 50_000), LINE, (b"\x9b31m", 10_000)),
    "html": text("page.html", "<html><pre>", ("&lt;", 300_000), ("</pre>", 1000)),
    "mail": lambda folder: (folder / "m.eml").write_text(
        "".join(f'Content-Type: multipart/mixed; boundary="b{at}"\n\n--b{at}\n' for at in range(many(3000)))
    ),
    "colours": text("server.log", ("\x1b[31m", 400_000), "\n", LINE),
    "prompts": text("paste.txt", ("root@host:~# ls\n", 60_000)),
    "fences": text("paste.md", ("```\n", 120_000)),
    "accents": text("server.log", "e", ("\u0301", 500_000), "\n", LINE),
}


def opened(path: Path) -> list[str]:
    """What a user would: the verdict, the frames, the benchmarks; their errors."""
    said = []

    def verdict() -> None:
        judged = kit.verdict(path)
        assert str(judged).encode() and judged.to_markdown().encode() and judged._repr_html_().encode()
        json.dumps(judged.to_dict(), allow_nan=False)

    def frames() -> None:
        run = kit.open_run(path)
        for name in FRAMES:
            run.frame(name)

    for act in (verdict, frames, lambda: kit.benchmarks(path)):
        try:
            act()
        except KitError as error:
            said.append(str(error).splitlines()[0][:90])
        except Exception as error:
            said.append(f"FOREIGN {type(error).__name__}: {error}"[:200])
    return said


def trial(path: Path) -> tuple[float, float, list[str]]:
    """CPU seconds, MiB and what was said, in a process of its own."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        began = time.process_time()
        said = opened(path)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        os.write(send, json.dumps([time.process_time() - began, memory, said]).encode()[:60_000])
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(pid, 0)[1]
    return json.loads(data) if data else (float("inf"), 0.0, [f"FOREIGN it died: status {status}"])


def main() -> int:
    """The command."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("folders", nargs="*", type=Path)
    given = words.parse_args().folders
    for name in ("sg01-capture-hang", "sg02-one-snapshot"):  # loaded once, here
        opened(kit.sample_path(name))
    with tempfile.TemporaryDirectory(prefix="stallkit-hostile-", ignore_cleanup_errors=True) as scratch:
        for name, make in {} if given else KINDS.items():
            (folder := Path(scratch, name)).mkdir()
            (folder / "server.log").write_text(LINE * 3)
            make(folder)
            given.append(folder)
        found = []
        for path in given:
            cpu_s, memory, said = trial(path)
            found.append((path.name, cpu_s, memory, said))
            print(f"{path.name:<28} {cpu_s:6.2f} s {memory:6.0f} MiB  {said[0] if said else ''}", flush=True)
    wrong = [name for name, _, _, said in found if any(one.startswith("FOREIGN") for one in said)]
    print(
        f"inputs {len(found)}, foreign or died {len(wrong)}, above 1 s of CPU {sum(one[1] > 1 for one in found)}, "
        f"above 200 MiB {sum(one[2] > 200 for one in found)}, slowest {max(one[1] for one in found):.1f} s"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
