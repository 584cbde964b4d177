"""Streams of several services in one text (compose, pods, a log service): the lines of each become a text of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from kit.intake import wrapping
from kit.intake.content import Numbers, Spool, Text

HEAD_BYTES = 65_536
WINDOWS = 16
"""Places of a large text at which its services are looked for."""
MOST_STREAMS = 64
"""Services of a text that are told apart; a text with more names something else before its lines."""
STREAM_BYTES = 1 << 20
"""What stays in memory of each stream."""
_ENDED = re.compile(rb"(?<![\w.-])(?P<who>[A-Za-z][\w.-]*+) exited with code \d+")
"""What compose says of a service behind no bar: it belongs to that service."""


def apart(text: Text) -> list[Text]:
    """A text for each service whose name stands before its lines; the text itself where there is one, or none.

    Lines that no name stands before belong to the service of the line before.
    """
    around = wrapping.of(text.head(HEAD_BYTES))
    if around is None or around.who is None:
        return [text]
    whose = around.who.match
    services = _services(text, whose)
    if not 2 <= len(services) <= MOST_STREAMS:
        return [text]
    spools: dict[bytes, tuple[Spool, Numbers]] = {}
    number, last = 0, next(iter(services))
    for _, block in text.blocks():
        lines = block.split(b"\n")
        kept: dict[bytes, list[bytes]] = {}
        for line in lines[: -1 if not lines[-1] else None]:
            number += 1
            found = whose(line) or _ENDED.match(line)
            name = found["who"] if found and (found.re is not _ENDED or found["who"] in spools) else last
            if name not in spools:
                if len(spools) >= MOST_STREAMS:
                    name = last
                else:
                    spools[name] = Spool(memory=STREAM_BYTES), Numbers()
            last = name
            spools[name][1].add(1, text.original(number))
            kept.setdefault(name, []).append(line[found.end() :] if around.files and found else line)
        for name, part in kept.items():
            spools[name][0].write(b"\n".join(part) + b"\n")
    for spool, _ in spools.values():
        spool.close()
    return [_stream(text, name.decode("utf-8", "replace"), around.files, *kept) for name, kept in spools.items()]


def _stream(text: Text, name: str, is_file: bool, spool: Spool, numbers: Numbers) -> Text:
    """The lines of a service, or of a file that grep printed."""
    own = replace(text, name=f"{text.name}/{name}") if is_file else replace(text, stream=name)
    return replace(own, data=spool, size=spool.size, numbers=numbers, form="stream")


def _services(text: Text, whose: Callable[[bytes], re.Match[bytes] | None]) -> dict[bytes, None]:
    """Names before lines, in all of a small text, at some places of a large one."""
    found: dict[bytes, None] = {}
    with text.data.open("rb") as file:
        for at in range(0, text.size, max(text.size // WINDOWS, HEAD_BYTES)):
            file.seek(at)
            for line in file.read(HEAD_BYTES).split(b"\n")[at > 0 :]:
                if mark := whose(line):
                    found[mark["who"]] = None
    return found
