"""What a line announces for the next: the body of a key, a value below its name, the rest of a write.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import json
import re

from kit.secret_names import harmless, secret_name
from kit.secret_shapes import MARK, is_random

NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,100}"
QUOTE = r"(?:\\{0,4}['\"`]|%(?:25)?2[27]|&quot;|&#3[49];|\\{1,4}u002[27])"
KEY_BEGIN = re.compile(
    r"(-{4,5} ?BEGIN [A-Z0-9 ]*(?:PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1) ?-{4,5})"
    r"(?:[^\r\n]*?(-{4,5} ?END [A-Za-z0-9 ]* ?-{4,5})|[^\r\n]*)"
)
_KEY_BODY = re.compile(
    r"(?:[A-Za-z0-9+/=:,. \t-]*|[^\r\n]*[ |:\]>](?:[A-Za-z0-9+/=]{40,}|(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/=]{4}))\Z"
)
"""A line of a key, which a log may have put a prefix before."""
_NAMED = re.compile(
    r"(?:^|[\s\"'{,<-])(?:name|key)(?:['\"]?\s{0,40}[:=]\s{0,40}['\"]?|>)(" + NAME + r")(?:['\"]?,?|</name>)\s*$", re.IGNORECASE
)
"""A line that ends in the name of a variable, as YAML and `kubectl` put it before the line with its value."""
_VALUED = re.compile(r"^(\s*(?:-\s*)?(?:['\"]?value['\"]?\s*[:=]\s*|<value>))(\S(?:.*\S)?)(\s*)$", re.IGNORECASE)
_BLOCK = re.compile(r"[|>][+-]?\d?\Z")
_FLAG_ALONE = re.compile(r"[ \t]*(?:- )?['\"]?--?(" + NAME + r")['\"]?,?(?:[ \t]\\)?[\r\n]*\Z")
_BEHIND = re.compile(r"([ \t]*(?:- )?['\"]?)([^\s'\"-][^\s'\"]*)(['\"]?,?(?:[ \t]\\)?)\Z")
"""A command line of one word a line, as a manifest has it: a flag, and what stands below it."""
_OPENS = re.compile(r"^([ \t]*(?:- )?)['\"]?(" + NAME + r")['\"]?[ \t]*:[ \t]*(?:([|>][+-]?\d?|\[)[ \t]*)?[\r\n]*$")
"""A key of YAML or JSON whose value stands in the lines below it."""
_PAIR = re.compile(r"^(\s*['\"]?[\w.-]+['\"]?:[ \t]+)(\S+)([ \t]*[\r\n]*)$")
_KIND = re.compile(r"[ \t]*['\"]?kind['\"]?[ \t]*:[ \t]*['\"]?(\w+)")
_FIRST = re.compile(
    r"\s*['\"]?\s{0,40}(?:- )?\\?['\"]?value\\?['\"]?\s{0,40}[:=]\s{0,40}\\?['\"]?"
    r"(?=[^\s'\",{}\\]{4})(?!true|false|null|none|\d+\b)[^\s'\",{}\\]+(?:\\?['\"])?(?:\\n['\"])?,?\s*\Z",
    re.IGNORECASE,
)
SENDS = r"\bsend(?:line)?(?:\s+--)?[\s(]{1,4}\\?['\"{]"
_ASKS = re.compile(r"(?i)\bexpect(?:_\w+)?\b[^\r\n]{0,200}?(?:assword|passphrase|passcode|token|\bpin\b)")
_ANSWERS = re.compile(r"(?i)([^\r\n]{0,200}?" + SENDS + r")([^'\"\\\r\n}]+)")
_PRINTS = re.compile(
    r"jsonpath=['\"]?\{\.data\.[\w\\.-]{0,60}|\becho\s+['\"]?\$\{?\w{0,40}(?:PW|PASS|TOKEN|KEY|SECRET)\w{0,40}|"
    r"\bprintenv\s+\w{0,40}(?:PASS|TOKEN|KEY|SECRET)|\bprint-(?:access|identity)-token\b|\bget-login-password\b|\bpass\s+show\b|"
    r"\bcreate\s+token\b|\b(?:auth|token)\s+(?:token|generate|new)\b|\bop\s+read\b|\bversions\s+access\b|"
    r"\b(?:vault|bao)\s.{0,60}-field[= ]|\bcat\s+\S{0,100}(?:token|passw\w{0,6}|secret|key)\s*$"
)
"""Commands that print a secret: it stands alone in the next line."""
_PRINTERS = ("jsonpath=", "echo", "printenv", "print-", "get-login", " show", " token ", "op read", " access", "-field", "cat ")
"""Words of these, for a first look."""
_ALONE = re.compile(r"(?=[^A-Z0-9]*[A-Z0-9])[A-Za-z0-9_+/=.!#%&*@^~-]{8,4000}\Z")
_HEADER_ROW = re.compile(r"[\w.-]{1,60}(?:,[\w.-]{1,60}){1,40}\Z")
_KEY_LINE = re.compile(r"[ \t]*[A-Za-z0-9+/]{64}\Z")
"""A line of a key whose begin is cut off."""
_OPENED = re.compile(
    r"\bopen(?:at)?\([^\"\r\n]{0,40}\"[^\"\r\n]{0,300}/(?:[\w.-]{0,60}(?:token|secret|password|credentials)|\.netrc|\.pgpass|\.git-credentials|"
    r"id_(?:rsa|ed25519|ecdsa))\"[^=\r\n]{0,100}= (\d+)"
)
"""A file that holds a secret, as strace shows it."""
_CALL = re.compile(
    r'(\b(?:write|send|sendto|pwrite64|read|recv|recvfrom|pread64)\((\d+)[^"\r\n]{0,40}"|resumed>")((?:[^"\\]|\\.)*)'
)
_OPEN = re.compile(r"(?i)(" + NAME + r")(?:" + QUOTE + r"?[ ]?[:=][ ]?" + QUOTE + r"?)(bear\w{0,2}|bas\w{0,2}|[a-z]{5,6}[ ])?\Z")


def value_first(line):
    """Whether a line is a value whose name may stand in the next, as in YAML that is sorted."""
    return _FIRST.match(line) is not None


def quoted(value):
    """Put the mark in place of a value and keep its quotes, so that JSON and Python literals stay readable."""
    found = re.match(QUOTE, value)
    quote = found.group(0) if found and len(value) > len(found.group(0)) else ""
    return quote + MARK + (quote if quote and value.endswith(quote) else "")


_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_JSON_LINE = re.compile(r"(\s+)(\"(?:[^\"\\]|\\.)*\")(,?)\Z")


_NEXT_CALLS = 50
"""Lines of a trace within which the rest of a write is looked for."""


class Lines:
    """Remembers what a line announces for the next: the body of a key, a value below its name, the rest of a write."""

    def __init__(self, flat=False):
        self.flat = flat  # the lines lost their indentation, as records of a log do
        self.in_key = self.sure = self.flag = False
        self.named = self.left = self.asked = 0
        self.block = self.data = self.tail = self.file = self.columns = None
        self.printed = self.public = False

    @property
    def waiting(self):
        """Whether the next line means something else than it would alone."""
        return (
            self.in_key
            or self.flag
            or self.printed
            or self.public
            or self.columns is not None
            or self.file is not None
            or self.named > 0
            or self.asked > 0
            or self.block is not None
            or self.data is not None
            or self.tail is not None
        )

    def text(self, text):
        """The same for text of one or more lines."""
        return "".join(self.carried(line) for line in _LINES.findall(text))

    def carried(self, line):
        """The line without what those before it made a secret."""
        body = line.rstrip("\r\n")
        item = _JSON_LINE.match(body)
        if item:
            return item.group(1) + self._item(item.group(2)) + item.group(3) + line[len(body) :]
        end = line[len(body) :]
        if self.in_key:
            self.in_key = "-END" not in body.replace(" ", "") and "Private-MAC" not in body and _KEY_BODY.match(body) is not None
            if self.in_key:
                return MARK + end if body else line
        line = self._value(body) + end if body else line
        self._look(line)
        return line

    def _item(self, text):
        """A line of text as notebooks keep it: a string in a list."""
        try:
            inner = json.loads(text)
        except ValueError:
            return text
        carried = self.carried(inner)
        return text if carried == inner else json.dumps(carried)

    def _alone(self, body):
        """The line where all of it, or a cell, is a secret by what stood before; None where it is not."""
        if self.printed:
            self.printed = False
            if _ALONE.match(body) and not harmless(body):
                return MARK
        if self.public:
            self.public = "-END" not in body and _KEY_BODY.match(body) is not None
        elif _KEY_LINE.match(body) and is_random(body):
            return MARK
        if self.columns is not None:
            cells = body.split(",")
            if len(cells) == len(self.columns):
                return ",".join(
                    MARK if secret and cell and not harmless(cell) else cell
                    for cell, secret in zip(cells, self.columns)  # noqa: B905 Python 3.6 knows no strict
                )
            self.columns = None
        return None

    def _value(self, body):
        alone = self._alone(body)
        if alone is not None:
            return alone
        if self.named:
            self.named -= 1
            value = _VALUED.match(body)
            if value:
                self.named = 0
                if _BLOCK.match(value.group(2)):
                    self.block = (-1 if self.flat else len(body) - len(body.lstrip(" \t-")), False)
                    return body
                return value.group(1) + MARK + value.group(3)
        if self.flag:
            self.flag = False
            value = _BEHIND.match(body)
            if value:
                return value.group(1) + MARK + value.group(3)
        if self.asked:
            self.asked -= 1
            answer = _ANSWERS.match(body)
            if answer:
                self.asked = 0
                return answer.group(1) + MARK + body[answer.end() :]
        indent = len(body) - len(body.lstrip(" \t"))
        if self.block is not None:
            depth, many = self.block
            item = re.match(r"\s*(?:- +)?", body).group(0)
            deeper = indent > depth or indent == depth and "- " in item
            pair = not many and re.search(r":(?:\s|\Z)|^\s*[{\[]", body)
            if not deeper or pair or self.flat and not re.search(r"^\S*\d\S*$", body[len(item) :]):
                self.block = None
            else:
                self.block = self.block if many or "- " in item else None
                quote = body[len(item) :][:1]
                closing = re.search(r"['\"]?,?\Z", body).group(0) if quote in "'\"" else ""
                return body if body.strip() in ("]", "],") else item + (quote if closing else "") + MARK + closing
        if self.data is not None:
            pair = _PAIR.match(body)
            if indent <= self.data or self.flat and not pair:
                self.data = None
            elif pair and pair.group(2)[0] not in "|>" and (self.sure or _base64(pair.group(2))):
                return pair.group(1) + quoted(pair.group(2)) + pair.group(3)
        if self.file is not None:
            call = _CALL.search(body)
            if call and call.group(2) == self.file:
                self.file = None
                return body[: call.start(3)] + MARK + body[call.end(3) :] if call.group(3) else body
        if self.tail is not None:
            call = _CALL.search(body)
            if call and (call.group(2) in (None, self.tail)):
                rest = re.match(r"[^\\\"&,;]*", call.group(3)).end() + call.start(3)
                self.tail = None
                return body[: call.start(3)] + MARK + body[rest:] if rest > call.start(3) else body
        return body

    def _look(self, line):
        if KEY_BEGIN.search(line) and "-END" not in line.replace(" ", "") or line.startswith("Private-Lines:"):
            self.in_key = True
        self.asked = 3 if "xpect" in line and _ASKS.search(line) and not _ANSWERS.match(line) else self.asked
        flag = _FLAG_ALONE.match(line)
        self.flag = flag is not None and secret_name(flag.group(1).replace("-", "_"), True)
        name = _NAMED.search(line)
        if name:
            self.named = 3 if secret_name(name.group(1)) else 0
        kind = _KIND.match(line)
        self.sure = kind.group(1) == "Secret" if kind else self.sure
        opens = _OPENS.match(line)
        if opens and opens.group(2) in ("data", "stringData"):
            self.data, self.sure = -1 if self.flat else len(opens.group(1)), self.sure or opens.group(2) == "stringData"
        elif (
            opens
            and secret_name(opens.group(2))
            and (opens.group(3) or not opens.group(2).lower().endswith(("secrets", "credentials", "auth")))
        ):
            many = opens.group(3) is not None
            self.block = (-1, False) if self.flat else (len(opens.group(1).replace("- ", "")), many)
        self.printed = any(word in line for word in _PRINTERS) and _PRINTS.search(line) is not None
        self.public = self.public or "-BEGIN " in line and "PRIVATE" not in line and "-END" not in line
        if "," in line and _HEADER_ROW.match(line.rstrip()):
            columns = [secret_name(name, True) for name in line.rstrip().split(",")]
            self.columns = self.columns or (columns if any(columns) else None)
        opened = _OPENED.search(line) if "open" in line else None
        if opened:
            self.file, self.left = opened.group(1), _NEXT_CALLS
        call = _CALL.search(line) if '"' in line else None
        if call:
            begun = _OPEN.search(call.group(3)[-120:])
            secret = begun and secret_name(begun.group(1).replace("Authorization", "auth_token"), True)
            self.tail, self.left = (call.group(2), _NEXT_CALLS) if secret else (None, 0)
        elif self.tail is not None or self.file is not None:
            self.left -= 1
            self.tail, self.file = (self.tail, self.file) if self.left > 0 else (None, None)


def _base64(value):
    return (
        len(value) >= 8
        and len(value) % 4 == 0
        and re.match(r"[A-Za-z0-9+/]+={0,2}\Z", value)
        and (value[-1] == "=" or is_random(value))
    )
