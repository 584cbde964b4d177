"""From files to segments: unpacked, decoded, cut. It stands between what people hand over and the parsers, and knows no format.

A file may be an archive, a terminal copy, an issue's text, a shipper's JSON, one log a rank. `segments` gives the stretches of
it that hold one kind of thing each, as texts with the line numbers of the file that they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from kit.intake import prose
from kit.intake.content import Chain, Content, Text, whole
from kit.intake.cutting import Recognise, Segment, as_it_lies, cut
from kit.intake.decoding import decode, encoding_of, is_binary
from kit.intake.terminal import Steered
from kit.intake.unpacking import Note, unpack


def segments(
    path: Path, recognise: Recognise, name: str | None = None, says: Callable[[str], bool] | None = None
) -> Iterator[Segment | Note]:
    """Segments of a file, and notes on what could not be read.

    `recognise`: takes a file name and its first 64 KiB as text, returns a kind or None. `name`: its name in the evidence; the
    file's own where it is not given. `says`: whether a text that a person wrote says anything of the launch; without it no such
    text is a segment.

    Examples
    --------
    >>> import tempfile
    >>> tell = lambda name, head: name if head.startswith("ep_") else None
    >>> path = Path(tempfile.mkdtemp()) / "paste.txt"
    >>> _ = path.write_text("It hangs.\\n\\n```\\n$ cat /proc/7/wchan\\nep_poll\\n```\\n")
    >>> [(one.kind, one.command, one.line) for one in segments(path, tell) if one.kind]
    [('wchan', 'cat /proc/7/wchan', 5)]
    """
    for item in unpack(path, name or path.name):
        if isinstance(item, Note):
            yield item
        elif is_binary(item):
            yield as_it_lies(item, recognise)
        elif item.size:
            try:
                found = [(text, cut(text, recognise)) for text in decode(item)]
            except Steered:
                found = [(text, cut(text, recognise)) for text in decode(item, steered=True)]
            for text, cuts in found:
                yield from cuts
                if says is not None:
                    yield from (words for words in prose.of(text, cuts) if says(words.head()))


__all__ = [
    "Chain",
    "Content",
    "Note",
    "Recognise",
    "Segment",
    "Text",
    "cut",
    "decode",
    "encoding_of",
    "segments",
    "unpack",
    "whole",
]
