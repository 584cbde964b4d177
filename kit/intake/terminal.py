r"""Terminal control and its written-out forms, taken off line by line: colours, titles, backspaces, cursor moves.

Carriage returns stay, for progress bars are told apart by them; only those at a line's ends go.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from kit import compiled
from kit.intake.beginnings import may_hold

CONTROL = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[()*+#%][ -~]|[ -Z\\^-~])")
"""CSI, OSC and other strings up to their end, charsets, single functions (ECMA-48)."""
_SILENT = bytes(sign for sign in (*range(32), 127) if sign not in b"\t\n\r")
"""Control bytes that print nothing."""
_ENDS = re.compile(rb"\r+(?=\n|\Z)|(?<=\n)\r+|\A\r+")
_SGR_ONLY = re.compile(rb"\x1b(?!\[[\d;:]*m)")


def needs_cleaning(block: bytes) -> bool:
    """Whether a block holds more of a terminal's control than colours, which every parser takes off itself."""
    return (b"\x1b" in block and _SGR_ONLY.search(block) is not None) or b"\x08" in block


class Steered(Exception):
    """A large text steers a terminal, and has to be decoded anew."""


def steering(size: int) -> Callable[[bytes], bool]:
    """`needs_cleaning` of a text of some size, by a compiled pass where that pays."""
    if not compiled.pays("log", size):
        return needs_cleaning

    def steers(block: bytes) -> bool:
        if b"\x1b" not in block:
            return b"\x08" in block
        from kit.intake import colours_compiled

        return colours_compiled.steers(block)

    return steers


def clean(block: bytes) -> bytes:
    r"""Take terminal control off whole lines.

    Examples
    --------
    >>> clean(b"\x1b]0;user@host\x07\x1b[01;32muser@host\x1b[0m:~$ ca t\x08\x1b[K\x08\x1b[Kt a.log\r\n\x1b[?2004l\rone\r\n")
    b'user@host:~$ cat a.log\none\n'
    """
    if b"\x08" in block:
        block = b"\n".join(_edited(line) if b"\x08" in line else line for line in block.split(b"\n"))
    block = (CONTROL.sub(b"", block) if b"\x1b" in block else block).translate(None, _SILENT)
    return _ENDS.sub(b"", block) if b"\r" in block else block


def _edited(line: bytes) -> bytes:
    """A line as the terminal shows it after backspaces and erasures; frames between carriage returns stay apart."""
    return b"\r".join(_edited_piece(piece.decode("utf-8", "surrogateescape")) for piece in line.split(b"\r"))


def _edited_piece(piece: str) -> bytes:
    cells: list[str] = []
    at = before = 0
    data = re.sub(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", "", piece)
    for found in re.finditer(r"\x1b\[(\d*)([KCDPG@])|\x1b\[[0-?]*[ -/]*[@-~]|\x1b.|\x08", data):
        text = data[before : found.start()]
        cells[at : at + len(text)] = text
        at, before = at + len(text), found.end()
        count = int(found[1] or 1) if found[2] else 1
        if found[0] == "\b" or found[2] == "D":
            at = max(at - count, 0)
        elif found[2] == "C":
            at = min(at + count, len(cells))
        elif found[2] == "G":
            at = min(count - 1, len(cells))
        elif found[2] == "K":
            del cells[at:]
        elif found[2] == "P":
            del cells[at : at + count]
        elif found[2] == "@":
            cells[at:at] = " " * min(count, 1000)
    text = data[before:]
    cells[at : at + len(text)] = text
    return "".join(cells).encode("utf-8", "surrogateescape")


# --- written-out forms -----------------------------------------------------------------------------------------------------

_META = re.compile(rb"M-[B-t](?:M-\^[@-_]|M-[ -?])+")
_META_BYTE = re.compile(rb"M-(\^?)(.)", re.DOTALL)


def _meta(found: re.Match[bytes]) -> bytes:
    return bytes(ord(sign) + (64 if caret else 128) for caret, sign in _META_BYTE.findall(found[0]))


def _caret(block: bytes) -> bytes:
    """`cat -v`."""
    block = _META.sub(_meta, block) if b"M-" in block else block
    for shown, byte in ((b"^[", b"\x1b"), (b"^M", b"\r"), (b"^H", b"\b"), (b"^G", b"\x07")):
        block = block.replace(shown, byte)
    return block


def _octal(block: bytes) -> bytes:
    """rsyslog's `#033`."""
    return re.sub(rb"#(0[0-3][0-7])", lambda found: bytes([int(found[1], 8)]), block)


def _backslash(block: bytes) -> bytes:
    r"""`\u001b[`, `\x1b[`, `\033[`, `\e[`, and what else a terminal copy or a string literal shows for ESC."""
    return re.sub(rb"(?:\\u001[bB]|\\x1[bB]|\\033|\\e|\xe2\x90\x9b|\xe2\x86\x90|<0x1[bB]>|ESC)(?=[\[\]])", b"\x1b", block)


def _lost(block: bytes) -> bytes:
    """`[0;36m` whose ESC a copy through a browser has lost."""
    return re.sub(rb"(?<!\x1b)\[(?:\d{1,3};)*\d{1,3}m", b"", re.sub(rb"(?<!\x1b)\[m(?=\W|\Z)", b"", block))


def _ends(block: bytes) -> bytes:
    """`cat -A`: tabs, and the ends of lines."""
    return re.sub(rb"(?m)\$$", b"", block.replace(b"^I", b"\t"))


_TYPED = {
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2026": "...", "\u2013": "--", "\u00a0": " ",
}  # fmt: skip


def _typewritten(block: bytes) -> bytes:
    """Signs that a word processor put in the place of those that were pasted."""
    for sign, typed in _TYPED.items():
        block = block.replace(sign.encode(), typed.encode())
    return block


def _blanks(block: bytes) -> bytes:
    """Blanks that a page or a word processor puts in the place of a keyboard's, and signs without width."""
    block = block.replace(b"\xc2\xa0", b" ").replace(b"\xe2\x80\xaf", b" ")
    return block.replace(b"\xe2\x80\x8b", b"").replace(b"\xef\xbb\xbf", b"")


@cache
def _months() -> tuple[re.Pattern[bytes], dict[bytes, bytes]]:
    path = Path(__file__).parent.parent / "knowledge" / "wrappings.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8"))["months"]
    words = {word.encode(): month.encode() for month, known in table.items() for word in known}
    longest = sorted(words, key=len, reverse=True)
    return re.compile(rb"(?m)^(" + b"|".join(map(re.escape, longest)) + rb") +(\d{1,2}) (?=\d\d:\d\d:\d\d )"), words


def _in_english(block: bytes) -> bytes:
    """Stamps of a journal in another language, as the journal prints them in English."""
    pattern, words = _months()
    return pattern.sub(lambda found: words[found[1]] + b" " + found[2].rjust(2, b"0") + b" ", block)


_FULL = re.compile(
    rb"(?m)^[A-Z][a-z]{2} (20\d\d-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) (UTC|GMT|[+-]\d\d) (?=\S+ [^\[\]:\s]+\[\d+\]: )"
)


def _iso(block: bytes) -> bytes:
    """`journalctl -o short-full`, as `short-iso` prints it."""
    return _FULL.sub(
        lambda found: found[1] + b"T" + found[2] + (found[3] + b"00 " if found[3][:1] in b"+-" else b"+0000 "), block
    )


_FOLDED = re.compile(rb"section_(?:start|end):\d+:[\w.-]+(?:\[[^\]\n]*\])?\r?(?:\x1b\[0K)?")


def _unfolded(block: bytes) -> bytes:
    """Marks at which GitLab folds a job's log."""
    return _FOLDED.sub(b"", block)


_WRITTEN: tuple[tuple[re.Pattern[bytes], Callable[[bytes], bytes]], ...] = (
    (re.compile(rb"\^\[\[[\d;?]*[A-Za-z]|\^M(?:\n|\Z)|(?:\A|\n)\^M|" + _META.pattern), _caret),
    (re.compile(rb"\A(?:[^\n]*\$\n)+[^\n]*\Z"), _ends),
    (re.compile(rb"\A[^\"]*(?:\xe2\x80[\x9c\x9d]|=\xe2\x80\x98)[^\"]*\Z"), _typewritten),
    (re.compile(rb"\xc2\xa0|\xe2\x80\xaf|\xe2\x80\x8b|(?<!\A)\xef\xbb\xbf"), _blanks),
    (_FOLDED, _unfolded),
    (re.compile(rb"#033\[|#015(?:[^\d]|\Z)"), _octal),
    (re.compile(rb"(?:\\u001[bB]|\\x1[bB]|\\033|\\e|\xe2\x90\x9b|\xe2\x86\x90|<0x1[bB]>|ESC)\[[\d;]*m"), _backslash),
    (re.compile(rb"(?<!\x1b)\[(?:0|[39]\d|1;3\d)(?:;\d+)*m"), _lost),
)


STAMPED_BYTES = 1 << 16
"""Where stamps of a journal are looked for: they stand before all lines."""


def written_out(head: bytes) -> list[Callable[[bytes], bytes]]:
    """What turns the written-out control of a text back into control; empty where there is none."""
    stamps = [change for sign, change in ((_FULL, _iso), (_months()[0], _in_english)) if sign.search(head[:STAMPED_BYTES])]
    return [change for sign, change in _WRITTEN if may_hold(sign, head) and sign.search(head)] + stamps
