r"""Scrub a log on its way to the disk: line by line where a line may hold a secret, whole blocks where none can.

Most lines of a log hold nothing. `re` needs a second to say so for 6 MB, and a pull would wait for it. The regular expressions
of pyarrow (RE2) know no look-around, but say of a block within 1.5 ms a megabyte which of its lines may hold a secret; only
those are scrubbed by the rules of `kit.redact`.
"""

from __future__ import annotations

import codecs
import re

from kit.redact import scrub_text
from kit.secret_lines import SENDS, Lines, value_first
from kit.secret_programs import COMMANDS
from kit.secret_shapes import SHAPES

HEAD_BYTES = 1 << 12
"""Enough of a log to tell UTF-16."""
LONGEST_LINE = 1 << 20
"""A piece without a line end is written out when it grows beyond this."""
BLOCK_FROM_BYTES = 1 << 14
"""Smaller pieces are scrubbed line by line: loading pyarrow takes longer."""
_PIECES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")  # the last without an end, or each of its bytes would look for one
_GAP = r"[^!-~]"  # white space of every kind, for RE2 sees bytes, and `\s` of `re` knows that of Unicode too
_NAME = r"[a-z0-9_.-]*"
_QUOTE = r"(?:[\\\\'\"`\[\])0-9]|%(?:25)?2[27]|&quot;|&#3[49];|\\u002[27])*"
_SEP = r"(?:[:=>]|->|%(?:25)?3[AD])"
_SIGN = r"[0-9!#$%^&*+~?@]"
_COUNT = re.compile(r"\{(\d+)(,?)\d*\}")


def _fewer(count: re.Match) -> str:
    """A lower count: it fits the more, and RE2, which compiles the pattern for each block, is ready sooner."""
    least = int(count[1])
    return f"{{{min(least, 12)}{',' if least > 12 or count[2] else ''}}}"


_TOKEN = rf"(?:[a-z0-9]token{_NAME}|token(?:[a-z0-9.-]{_NAME}|_(?-i:[A-Z0-9_.-]){_NAME}|_)?)"
"""A name that goes on behind the word, as `prompt_token_ids`, is none of a secret unless it is in capitals."""
_ANY = (
    r"(?:hf_|[sr]k-|nk-|fw_|pul-|ico-|API-)[A-Za-z0-9]{12,}"
    r"|[A-Za-z]{2,12}[_.-](?:[a-z0-9]{0,12}[A-Z][A-Za-z0-9]{11,}|[a-z0-9]{13,}[A-Z])"
)
"""The last of the shapes, which is masked only where its letters are of both cases: ids of requests are not."""
_HINTS = rf"token|key|secret|pass|pwd|pw|psk|cred|auth|bear|login|\b(?:{COMMANDS})\b"
SUSPECT = "(?im)" + "|".join(
    (
        rf"(?:key|secret|pass|pwd|pw|psk|cred|sig|jwt|auth|cookie|bearer|pat|sas|dockerc|(?-i:TOKEN)){_NAME}{_QUOTE}{_GAP}*{_SEP}",
        # A plain number behind `token` is a count, and logs of a server are full of them.
        rf"{_TOKEN}{_QUOTE}{_GAP}*(?:[:=]>?{_GAP}*(?:[\\\\'\"`\[\r\n&|>!]|-?[0-9]*[^\s,;&)}}\]'\"0-9])|->|>|:=|==|%(?:25)?3[AD])",
        rf"(?:token|secret|passw|passphrase|pwd|key|cred|pass|jwt|auth|psk|bindpw){_NAME}{_QUOTE}(?:[:, \t]|b')"
        rf"(?:{_GAP}|[.|:]|is|was|of|provided|[bu]|[\\\\'\"`])*[^\s]*(?:[a-z][^\s]*{_SIGN}|{_SIGN}[^\s]*[a-z])",
        rf"(?:token|secret|passw|passphrase|pwd|key|cred|pass|jwt|auth|psk|bindpw){_NAME}(?:[ (\[<#:,]).*(?:[:=]| to) +['\"]?"
        rf"(?:[^\s]*[a-z][^\s]*{_SIGN}|[^\s]*{_SIGN}[^\s]*[a-z])",
        rf"-{_NAME}(?:token|key|secret|pass|pwd|pw|psk|cred|sig|auth|cookie|jwt|pat|bearer|sas){_NAME}[\\\\'\",]*{_GAP}",
        rf"-(?:u|-user|-proxy-user)(?:{_GAP}|=)",
        r"://[^\s'\"<>]*@",
        rf"bearer,?{_GAP}",
        r"[?&](?:sig|code)=",
        rf"\b(?:{COMMANDS})(?:{_GAP}|['\"(])",
        r"\[['\"].*['\"]-|iov_base=.*iov_base=|[_-]stdin\b|--with-token|chpasswd|rootpw|\blogin\(|websocket-protocol|response=|\+@|\bauth\s+[\w-]+\s|jdbc:oracle|auth\s*=?\s*\(|identified\s+by|password\s+'|sudo\s+-s|add-mask|snmp-server|<\(echo|variable\s|login\s.*password\s",
        r"^\s*['\"]?(?:[a-z][^:\s]*|\*):(?:[0-9]+|\*):[^:\s]+:[^:\s]+:",
        rf"(?:name|key)[\\\\'\"]*{_GAP}*[:=>].*(?:token|key|secret|pass|pwd|pw|psk|cred|sig|jwt|auth)",
        r"^\s*['\"]?\s*(?:- )?[\\'\"]*value[\\'\"]*\s*[:=]",
        rf"(?:\b|_)pin[_.-]*{_QUOTE}{_GAP}*{_SEP}",
        rf"expect.*(?:assword|passphrase|passcode|token|\bpin\b)|{SENDS}.*(?:assword|passphrase)",
        r"value[\\\\'\"]*[:= \t].*(?:name|key)",
        # What stands in the next line, or in the cells below.
        r"jsonpath=|\becho\s+.?\$|\bprintenv\s|print-(?:access|identity)-token|get-login-password|\bpass\s+show|create\s+token|auth\s+token"
        r"|token\s+(?:generate|new)|\bop\s+read|versions\s+access|-field[= ]|\bcat\s.*(?:token|passw|secret|key)",
        r"^[a-z0-9_.,-]*(?:token|key|secret|pass|pwd|auth)[a-z0-9_.-]*,[a-z0-9_.,-]*\s*$|^[a-z0-9_.-]+,[a-z0-9_.,-]*(?:token|key|secret|pass|pwd)\s*$",
        r"^[ \t]*[a-z0-9+/]{64}\s*$|-begin "
        r"|\bopen(?:at)?\(.*(?:token|secret|password|credentials|netrc|pgpass|id_(?:rsa|ed25519|ecdsa))\".*= [0-9]",
        r"(?-i:^\++ .*[A-Za-z0-9_+/=.-]{20})|(?:token|key|secret|passw|credential).*: +[a-z0-9_+/=.-]{20,}\s*$",
        r"/(?:p|pass|passwd|password|pwd|token):|\shttps?\s.*\s-a\s|=\{.*\}|://[^\s]+/t/|\tTRUE\t|\tFALSE\t|client_random|honeycomb|random_password|snmp\s+community|[a-z]_secret"
        r"|securestring|wpa_passphrase|net\s+use\s|\sas\s.*(?:passw|token|secret|key)|\bssh\s+[a-z0-9]{14,}@|authorization\s+['\"]",
        r"kind[^a-z]*secret|^\s*['\"]?(?:data|stringdata)['\"]?\s*:|private-lines|begin .*(?:private key|static key)",
        "(?-i:" + "|".join([*(_COUNT.sub(_fewer, shape) for shape in SHAPES[:-1]), _ANY]) + ")",
        rf"\\.*(?:{_HINTS})|(?:{_HINTS}).*\\",
        r"\x00",
    )
)
"""In RE2's syntax: fits every line that a rule of `kit.redact` may change, and each that holds a zero byte."""


def scrub_bytes(data: bytes) -> bytes:
    r"""Scrub a piece of a log; bytes that are no UTF-8 pass unchanged, zeros of a truncated log too.

    Examples
    --------
    >>> scrub_bytes(b"HF_TOKEN=abc\xff\n")
    b'HF_TOKEN=[redacted]\n'
    >>> scrub_bytes(b"\0\0a=1"), scrub_bytes(b"\0\0HF_TOKEN=a")
    (b'\x00\x00a=1', b'HF_TOKEN=[redacted]')
    """
    text = data.decode("utf-8", "surrogateescape")
    plain = text.replace("\0", "")
    scrubbed = scrub_text(plain)
    return data if scrubbed == plain else scrubbed.encode("utf-8", "surrogateescape")


def utf16(head: bytes) -> str | None:
    """Codec of UTF-16, by its mark or by the zero bytes at every other place; None for other text."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[::2].count(0), head[1::2].count(0)
    if min(even, odd) or max(even, odd) < max(1, len(head) // 4):
        return None
    return "utf-16-be" if even else "utf-16-le"


class Scrubber:
    r"""Scrubs a log that comes in pieces. Lines end at `\n` and at `\r`, the frames of a progress bar too.

    Examples
    --------
    >>> scrubber = Scrubber()
    >>> scrubber.take(b"one\nHF_TO"), scrubber.take(b"KEN=abc\ntw"), scrubber.rest()
    (b'one\n', b'HF_TOKEN=[redacted]\n', b'tw')
    """

    def __init__(self) -> None:
        self._pending, self._lines, self._begun = b"", Lines(), False
        self._value = b""  # a line that waits for the next, which may name what it is
        self._decoder: codecs.IncrementalDecoder | None = None

    @property
    def waiting(self) -> bool:
        """Whether the next line means something else than it would alone, as the body of a key does."""
        return bool(self._value) or self._lines.waiting

    def take(self, piece: bytes) -> bytes:
        """The whole lines that are there now, scrubbed. UTF-16 becomes UTF-8."""
        if piece and not self._begun:
            self._begun, codec = True, utf16(piece[:HEAD_BYTES])
            self._decoder = codecs.getincrementaldecoder(codec)("replace") if codec else None
        return self._take(self._decoder.decode(piece).encode("utf-8", "replace") if self._decoder else piece)

    def _take(self, piece: bytes) -> bytes:
        data = self._pending + piece if self._pending else piece
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        lines, self._pending = data[:end], data[end:]
        if len(self._pending) > LONGEST_LINE:
            lines, self._pending = data, b""
        if len(lines) < BLOCK_FROM_BYTES or self.waiting:
            return self._each_line(lines)
        return self._block(lines)

    def end_line(self) -> bytes:
        """What is there, and the end of a line that the log itself did not have; another stretch of it follows."""
        if self._decoder:
            self._decoder.reset()
            self._begun = False
        return self._take(b"\n")

    def rest(self) -> bytes:
        """The last line, which has no end."""
        rest, self._pending = self._pending, b""
        found = self._each_line(rest)
        value, self._value = self._value, b""
        return found + value

    @property
    def pending(self) -> int:
        """Bytes that were taken and not given out: the begin of a line, and the line before it that waits for it."""
        return len(self._value) + len(self._pending)

    def _each_line(self, lines: bytes) -> bytes:
        return b"".join(self._line(piece) for piece in _PIECES.findall(lines))

    def _line(self, line: bytes) -> bytes:
        value, self._value = self._value, b""
        line = value + line
        text = line.decode("utf-8", "surrogateescape")
        plain = text.replace("\0", "")  # UTF-16
        if not self._lines.named and value_first(plain):
            self._value = line
            return b""
        scrubbed = scrub_text(self._lines.text(plain))
        self._lines.named *= not value  # the name was that of the value before it
        return line if scrubbed == plain else scrubbed.encode("utf-8", "surrogateescape")

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
            while self.waiting and done < len(lines):  # what follows is no suspect by itself
                next_end = int(starts[numpy.searchsorted(starts, done, "right")])
                out.append(self._line(lines[done:next_end]))
                done = next_end
        out.append(lines[done:])
        return b"".join(out)


def load() -> None:
    """Import what looks for secrets, before an interrupt may come: one in the midst of it leaves modules that fail ever after."""
    import numpy  # noqa: F401
    import pyarrow.compute  # noqa: F401


def _suspects(lines: bytes, starts):
    """For each line, by where it starts (int32, one more for the end), whether it may hold a secret."""
    import pyarrow.compute

    buffers = [None, pyarrow.py_buffer(starts), pyarrow.py_buffer(lines)]
    array = pyarrow.Array.from_buffers(pyarrow.binary(), len(starts) - 1, buffers)
    return pyarrow.compute.match_substring_regex(array, SUSPECT)
