r"""Scrub a log on its way to the disk: line by line where a line may hold a secret, whole blocks where none can.

Most lines of a log hold nothing. `re` needs a second to say so for 6 MB, and a pull would wait for it. The regular expressions
of pyarrow (RE2) know no look-around, but say of a block within 1.5 ms a megabyte which of its lines may hold a secret; only
those are scrubbed by the rules of `kit.redact`.
"""

from __future__ import annotations

import re

from kit.redact import MARK, NAMED, SHAPES, VALUED, scrub_text, secret_name

LONGEST_LINE = 1 << 20
"""A piece without a line end is written out when it grows beyond this."""
BLOCK_FROM_BYTES = 1 << 14
"""Smaller pieces are scrubbed line by line: loading pyarrow takes longer."""
_PIECES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")  # the last without an end, or each of its bytes would look for one
_GAP = r"[^!-~]"  # white space of every kind, for RE2 sees bytes, and `\s` of `re` knows that of Unicode too
_NAME = r"[a-z0-9_.-]*"
SUSPECT = "(?i)" + "|".join(
    (
        rf"(?:key|secret|pass|pwd|cred|sig|jwt|auth|cookie|bearer|pat|sas|(?-i:TOKEN)){_NAME}(?:[\\\\'\"]|%2[27])*{_GAP}*(?:[:=]|%3A|%3D)",
        # A plain number behind `token` is a count, and logs of a server are full of them.
        rf"token{_NAME}(?:[\\\\'\"]|%2[27])*{_GAP}*(?:[:=]>?{_GAP}*(?:[\\\\'\"\[]|-?[0-9]*[^\s,;&)}}\]'\"0-9])|%3A|%3D)",
        rf"-{_NAME}(?:token|key|secret|pass|pwd|cred|sig|auth|cookie|jwt|pat|bearer|sas){_NAME}[\\\\'\",]*{_GAP}",
        rf"-(?:u|-user|-proxy-user)(?:{_GAP}|=)",
        r"://[^\s'\"<>]*@",
        rf"bearer{_GAP}",
        r"[?&](?:sig|code)=",
        r"mysql|mariadb|sshpass|redis-cli|iov_base=.*iov_base=",
        rf"(?:name|key)[\\\\'\"]*{_GAP}*[:=].*(?:token|key|secret|pass|pwd|cred|sig|jwt|auth)",
        "(?-i:" + "|".join(SHAPES) + ")",
        r"PRIVATE KEY",
        r"\x00",
    )
)
"""In RE2's syntax: fits every line that a rule of `kit.redact` may change, and each that holds a zero byte (UTF-16)."""
_KEY_BODY = re.compile(
    rb"(?:[A-Za-z0-9+/=:,. \t-]*|[^\r\n]*[ |:\]](?:[A-Za-z0-9+/=]{40,}|(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/=]{4}))[\r\n]*\Z"
)
"""A line of a key, which a log may have put a prefix before."""
_KEY_BEGIN, _KEY_END = re.compile(rb"PRIVATE KEY(?: BLOCK)?-----" + re.escape(MARK.encode())), b"-----END"


def scrub_bytes(data: bytes) -> bytes:
    r"""Scrub a piece of a log; bytes that are no UTF-8 pass unchanged, UTF-16 is looked into.

    Examples
    --------
    >>> scrub_bytes(b"HF_TOKEN=abc\xff\n")
    b'HF_TOKEN=[redacted]\n'
    >>> scrub_bytes("a=1".encode("utf-16-le"))
    b'a\x00=\x001\x00'
    """
    text = data.decode("utf-8", "surrogateescape")
    if "\0" in text:
        plain = text.replace("\0", "")
        scrubbed = scrub_text(plain)
        return data if scrubbed == plain else scrubbed.encode("utf-8", "surrogateescape")
    return scrub_text(text).encode("utf-8", "surrogateescape")


class Scrubber:
    r"""Scrubs a log that comes in pieces. Lines end at `\n` and at `\r`, the frames of a progress bar too.

    Examples
    --------
    >>> scrubber = Scrubber()
    >>> scrubber.take(b"one\nHF_TO"), scrubber.take(b"KEN=abc\ntw"), scrubber.rest()
    (b'one\n', b'HF_TOKEN=[redacted]\n', b'tw')
    """

    def __init__(self) -> None:
        self._pending, self.in_key, self.named = b"", False, False

    def take(self, piece: bytes) -> bytes:
        """The whole lines that are there now, scrubbed."""
        data = self._pending + piece if self._pending else piece
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        lines, self._pending = data[:end], data[end:]
        if len(self._pending) > LONGEST_LINE:
            lines, self._pending = data, b""
        if len(lines) < BLOCK_FROM_BYTES or self.in_key or self.named:
            return self._each_line(lines)
        return self._block(lines)

    def rest(self) -> bytes:
        """The last line, which has no end."""
        rest, self._pending = self._pending, b""
        return self._each_line(rest)

    @property
    def pending(self) -> int:
        """Bytes that were taken and not given out: the begin of a line."""
        return len(self._pending)

    def _each_line(self, lines: bytes) -> bytes:
        return b"".join(self._line(piece) for piece in _PIECES.findall(lines))

    def _line(self, line: bytes) -> bytes:
        if self.in_key:
            self.in_key = _KEY_END not in line and _KEY_BODY.match(line) is not None
            if self.in_key:
                body = line.rstrip(b"\r\n")
                return MARK.encode() + line[len(body) :] if body else line
        if self.named:
            self.named, value = False, VALUED.match(line.decode("utf-8", "surrogateescape"))
            if value:
                return (value[1] + MARK + value[3]).encode("utf-8", "surrogateescape")
        scrubbed = scrub_bytes(line)
        name = NAMED.search(scrubbed.decode("utf-8", "surrogateescape")) if b"ame" in scrubbed or b"key" in scrubbed else None
        self.named = name is not None and secret_name(name[1])
        self.in_key = _KEY_BEGIN.search(scrubbed) is not None and _KEY_END not in scrubbed
        return scrubbed + line[len(line.rstrip(b"\r\n")) :] if self.in_key else scrubbed

    def _block(self, lines: bytes) -> bytes:
        import numpy

        whole = numpy.array([0, len(lines)], numpy.int32)
        if not _suspects(lines, whole)[0].as_py():
            return lines
        letters = numpy.frombuffer(lines, numpy.uint8)
        ends = numpy.flatnonzero((letters == 10) | (letters == 13)) + 1
        starts = numpy.unique(numpy.concatenate(([0], ends, [len(lines)]))).astype(numpy.int32)
        done = 0
        out: list[bytes] = []
        for number in numpy.flatnonzero(_suspects(lines, starts).to_numpy(zero_copy_only=False)).tolist():
            start, end = int(starts[number]), int(starts[number + 1])
            if start < done:
                continue
            out += (lines[done:start], self._line(lines[start:end]))
            done = end
            while (self.in_key or self.named) and done < len(lines):  # what follows is no suspect by itself
                next_end = int(starts[numpy.searchsorted(starts, done, "right")])
                out.append(self._line(lines[done:next_end]))
                done = next_end
        out.append(lines[done:])
        return b"".join(out)


def _suspects(lines: bytes, starts):
    """For each line, by where it starts (int32, one more for the end), whether it may hold a secret."""
    import pyarrow.compute

    buffers = [None, pyarrow.py_buffer(starts), pyarrow.py_buffer(lines)]
    array = pyarrow.Array.from_buffers(pyarrow.binary(), len(starts) - 1, buffers)
    return pyarrow.compute.match_substring_regex(array, SUSPECT)
