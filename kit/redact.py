"""Secrets in command lines, environments and text: found by name or by shape, and replaced.

The functions are pure. The module imports nothing of the kit and keeps to the syntax of Python 3.6, because its text
goes in front of the sampler (`kit.capture.sampler_program`), which may run on an old host.

Names decide first (`HF_TOKEN=…`, `--api-key …`, `"password": …`), then shapes (`hf_…`, `sk-…`, `AKIA…`, bearer headers,
URLs with a password). Words that only look like it are kept, for analysis needs them: `max_tokens=512`,
`tokenizer='…'`, `eos_token_id=2`, `api_key=None`. Every pattern is linear in the length of a line.
"""

import json
import re

from kit.secret_lines import KEY_BEGIN, NAME, QUOTE, Lines, quoted
from kit.secret_names import (
    PROSE,
    REFERENCE,
    STRICT,
    WEAK,
    harmless,
    is_path,
    mixed,
    secret_name,
    strict_name,
    strong,
    weak_key,
    words_of,
)
from kit.secret_places import FIXED
from kit.secret_programs import COMMAND, hidden_words
from kit.secret_shapes import CERTAIN, MARK, PHRASE, TOKENS, is_random, token_mark

# --- text ----------------------------------------------------------------------------------------------------------------

_HINTS = """
token key secret pass pwd pw psk cred auth bearer :// cookie sig jwt -u login docker private-lines data mysql mariadb
redis-cli zip 7z ldap ipmitool sqlcmd bcp mongo snmp smbclient iov_base code= begin identified jdbc curl lftp sudo add-mask
wandb openssl usermod useradd racadm honeycomb +@ assword pin: pin= pin" pin'
/p: jsonpath client_random securestring /user: proxy_set ssh
""".split()
"""Text without any of these, and without a shape, holds nothing to scrub: one cheap search for most log lines."""
_URL = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{0,30}://)[^\s/@'\"<>]*:([^\s'\"<>/]*)@(?=[^\s@])")
_HTTP_USER = re.compile(r"(?i)(\bhttps?://)(?![a-z]{1,6}@)[^\s/:@'\"<>]+@(?=[^\s@])")
_HEADER = re.compile(
    r"(?i)((?:proxy-)?authorization|(?:set-)?cookie)(\\?['\"]?\s*(?:[:=]|%3A|\s(?=['\"](?:basic|bearer)\s))\s*(?:\[(?!redacted))?\\?['\"]?)(?!\[redacted\])"
    r"((?:bearer|basic|token|digest|apikey|negotiate)\s+)?(?!\[redacted\])([^\r\n'\"\\]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer,?\s+)(?!\[redacted\]|realm=)(?=[^\s'\",;]*(?-i:[0-9A-Z._-]))([A-Za-z0-9._~+/=-]{6,})")
_PGPASS = re.compile(
    r"(?m)(^[ \t]{0,40}[\"']?(?:[A-Za-z][\w.-]*|\*):(?:\d{2,5}|\*):(?!\d+:)[\w*-]+:[\w*-]+:)(?=\S*[\d!#$%&+?@^])"
    r"(?!\[redacted\])[^\s\"\\]+"
)
_VALUE = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|\[[^\]\r\n]*\]?|\\{1,4}[\"'][^\"'\\]*|&quot;[^&]*|\\{1,4}u002[27][^\\]*|"
    r"(?:%(?:25)?2[27])?[^\s,;&)}\]'\"<>%\\]+(?:%(?!22|27|26|2C|7D)[^\s,;&)}\]'\"<>%\\]*)*"
)
_KEY = re.compile(
    r"(?:(?<![A-Za-z0-9_.-])|(?<=%22)|(?<=%27)|(?<=%26)|(?<=%3F)|(?<=%20)|(?<=%7B)|(?<=%2C)|(?<=u0022)|(?<=u0027)|(?<=\\0))\.?(-{0,2})("
    + NAME + r")((?:\[\d*\])?" + QUOTE + r"?[\])]?[ \t]{0,40}(?::=|={1,3}>?|:(?!:[a-z])|->|%(?:25)?3[AD]|\\0(?![0-7]))[ \t]{0,40}"
    r"(?:!{1,2}[A-Za-z]{1,20}[ \t]{1,9})?(?:\w{1,20}\((?=['\"])|(?:[bfru]{1,2}|\$)(?=['\"]))?)"
)  # fmt: skip
_XML = re.compile(
    r"(<)(?:\w{1,40}:|name>|\w{1,40}\s[^<>]{0,100}?\b(?:key|name)=['\"])?(" + NAME + r")"
    r"((?:['\"\s][^<>]{0,200})?>(?:<!\[CDATA\[)?|</name>\s{0,40}<value>)(?=[^<>]{1,4000}(?:</|>))"
)
_WORD = r"[A-Za-z0-9_.-]{0,60}?(?:token|secret|passw|passphrase|pwd|key|cred|pass\b|jwt|auth|psk|bindpw)[A-Za-z0-9_]{0,40}"
_TWO = r"(?:api|access|secret|private|license|account|munge|fernet)[ ]"
_GAPPED = re.compile(
    rf"(?i)(?<![A-Za-z0-9_.-])()({_TWO}(?:key|token)|{_WORD})("
    + QUOTE
    + r"?(?:[ ]\d{1,2}:[ ]|[ \t]{1,40}(?:[|\u2502\u2503]|\.{3,40}|is|was|of|provided)?:?[ \t]{0,40}|:[ ]|,[ ]?[bu]?(?=['\"]))"
    + QUOTE
    + r"?)(?=\S)(?!\w{1,40}[ ]?\}\})"
)
_FLAG = re.compile(r"(?<![\w-])(--?)(" + NAME + r")((?:['\"]?,)?[ \t]+)(?=\S)")
_SPOKEN = re.compile(
    rf"(?i)(?<![A-Za-z0-9_.-])()((?:{_TWO})?(?:key|token)|{_WORD})("
    r"(?:[ ]?(?:\([^()\r\n]{1,60}\)|\[[^\[\]\r\n]{1,60}\]|<[^<>\r\n]{1,60}>|#\d{1,3}|no\.[ ]\d{1,3})"
    r"|[ ](?:header|value|variable)|[ ](?:was[ ])?(?:re)?set(?=[ ]to[ ])"
    r"|,?[ ](?:for|from|in|of|to|is|was|read|changed)(?:[ ]['\"]?[\w@./:'%-]{1,60}['\"]?){1,5}?"
    r"|:[ ]?[A-Za-z][\w.]{0,40}(?:\[[^\]\r\n]{1,60}\])?(?:[ ]\|[ ]\w{1,20})?)"
    r"(?:[ ]?[:=]|[ ]to)[ ]{1,4}['\"]?|[ ]to[ ]['\"]?)(?=\S)"
)
"""A secret that words or brackets part from its name: `token (from a file): …`, `password of user ada: …`,
`key: str = …`."""
_ANSWERED = re.compile(r"(?m)(:[ ]{1,4})([A-Za-z0-9_+/=.-]{20,})(?=[ \t\r]*$)")
_ASKED = re.compile(r"(?i)(?:token|key|secret|passw\w{0,6}|credential)s?[ ,]")
_PUBLIC = re.compile(r"(?i)(?:id|sha|256|hash|digest|commit|revision|print|tag)\Z")
"""A prompt that asks for a secret; the answer stands at the end of its line."""
_TRACED = re.compile(r"(?m)^\++[ ][^\r\n]+")
"""A command as `set -x` of a shell prints it."""
_GAP = r"\s{0,40}"
_FIELD = r"\\?['\"]?" + _GAP + r"[:=]" + _GAP + r"\\?['\"]?"
_APART = re.compile(
    r"(?i)((?:name|key)"
    + _FIELD
    + ")("
    + NAME
    + r")(\\?['\"]?"
    + _GAP
    + r"[,;]?[^{}\r\n]{0,200}?\s{0,40}\\?['\"]?\bvalue\\?['\"]?"
    + _GAP
    + "[:=]"
    + _GAP
    + r")(?=\S)"
)
_BEFORE = re.compile(
    r"(?i)(\bvalue"
    + _FIELD
    + r")([^'\"\s,{}\\]{1,4000})(\\?['\"]?(?:\\n['\"])?"
    + _GAP
    + ",?"
    + _GAP
    + r"\\?['\"]?"
    + _GAP
    + r"\\?['\"]?(?:name|key)"
    + _FIELD
    + ")("
    + NAME
    + ")"
)
_PARTS = re.compile(r'(iov_base=)"((?:[^"\\]|\\.)*)"')
_LIST = re.compile(r"\[\"(?:[^\"\\]|\\.)*\"(?:, ?\"(?:[^\"\\]|\\.)*\")+|\['(?:[^'\\]|\\.)*'(?:, ?'(?:[^'\\]|\\.)*')+")
_LISTED = re.compile("(" + NAME + ")" + QUOTE + r"?[ ]?[:=][ ]?\Z")
_ESCAPED = re.compile(r"(?<!\\)\"[^\"\\]*\\.(?:[^\"\\]|\\.)*\"")
_ITEM = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")
_FLAG_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\[[^\]\r\n]*\]?|\\?[\"'][^\"'\\]*|[^\s;&)}\]'\"]+")
_LONG_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9-]*(?:=|\Z)|-[A-Za-z]\Z")


def _is_secret(name, between, value, flag):
    """Whether the value behind a secret's name is one."""
    bare = re.sub(QUOTE, "", value).strip("\\[] ")
    if (
        not bare
        or bare == "redacted"
        or between[-1:] == " "
        and bare.lower() in PROSE
        or MARK in value
        or bare.isupper()
        and words_of(bare) == words_of(name)
    ):
        return False
    if flag and between[:1] == ":" and bare.islower() and not re.search(r"\d", bare):
        return False  # `argument --api-key: expected one`
    if REFERENCE.match(bare) or REFERENCE.match(value) or is_path(bare):
        return False
    if harmless(bare):
        return strict_name(name) and bare[:1].isdecimal() and not flag and not name.lower().endswith("s")  # `secrets: 3 mounted`
    quoted = re.match(QUOTE + r"|\[", value) is not None
    prose = between.endswith((" ", "\t")) and not quoted  # `next token: Hello`; what is no word is a secret
    if re.match(QUOTE, between) and prose:  # `"vol": secret not found`: a text in JSON has quotes
        return re.search(r"\d", bare) is not None
    if not flag and (name.lower() in WEAK or prose and len(words_of(name)) == 1 and not strict_name(name)):
        return len(bare) >= 16 or len(bare) >= 6 and re.search(r"\d", bare) is not None
    return True


def _is_secret_behind_a_gap(name, between, value, flag):
    """Whether what follows a secret's name after mere blanks, a bar or dots is a secret: such words are often prose."""
    bare = re.sub(QUOTE, "", value).strip("\\[](){}.,:;<> ")
    if (
        MARK in value
        or len(bare) < 6
        or value[:1] in "[{"
        or bare[:1] in "/-#("
        or re.search(r"[=(/]|://", bare[:-2])
        and not (len(bare) > 30 and is_random(bare))
        or harmless(bare)
    ):
        return False
    if not re.search(r"[A-Za-z]", bare) or not re.search(r"[\d!#$%^&*+~?@]", bare):
        return False
    words = words_of(name)
    if (
        re.search("[|\u2502\u2503:,=]|\\.\\.|b['\"]|is ['\"]|\\w to ", between)
        or (name.isupper() or name[:2] in ("X-", "x-"))
        and len(words) > 1
        or STRICT.intersection(words) - {"secret", "secrets"}
        or words[-1] not in ("secret", "key", "token", "pass")
        or words[-2:] == ["auth", "pass"]
    ):
        return True
    mixed = re.search(r"[a-z]", bare) and re.search(r"[A-Z]", bare) and not PHRASE.match(bare)
    long = re.search(r"[a-z0-9]{20}", bare) is not None and len(re.findall(r"\d", bare)) > 3
    return bool(mixed) and len(bare) >= 8 or long or len(bare) >= 16 and is_random(bare)


def _masked(text, pattern, is_flag=False, is_secret=_is_secret):
    """Mask the value behind each name of a secret. A name that is none takes nothing along, so `INFO: HF_TOKEN=…` is seen."""
    out, done = [], 0
    for found in pattern.finditer(text):
        if found.start() < done:
            continue
        name, between = found.group(2), found.group(3)
        flag = is_flag or found.group(1) in ("-", "--")
        named = secret_name(name.replace(" ", "_"), flag)
        if not named and not name.lower().rstrip("0123456789").endswith("key"):
            continue
        value = (_FLAG_VALUE if is_flag else _TEXT if pattern is _XML else _VALUE).match(text, found.end())
        if not named and not (value and strong(value.group(0).strip("'\".,:")) and weak_key(name, text[: found.start()])):
            continue
        word = value.group(0).strip(".,:") if value is not None else ""
        told = word.isdecimal() and text.startswith(" bytes", value.end())  # by `kubectl describe`
        if not word or told or is_flag and (_LONG_FLAG.match(word) or word.lower() in PROSE):
            continue
        if is_flag and between[:1] == "," and not _is_secret_behind_a_gap(name, between, word, flag):
            continue  # `--api-key, --port and so on`
        if is_secret(name, between, value.group(0), flag):
            out += (text[done : found.end()], quoted(value.group(0)))
            done = value.end()
    return "".join(out) + text[done:] if out else text


_DATA = re.compile(r'("(?:data|stringData)":[ ]?)(\{[^{}]*\})')
_PAIRED = re.compile(r'(:[ ]?")(?:[^"\\]|\\.)+"')
"""What a secret of Kubernetes holds, on one line."""
_CHANGED = re.compile(r"(\[redacted\]['\"]?[ ]{0,4}[=-]>[ ]{0,4}['\"]?)(?!\[redacted\])[^\s'\"(\[]+")
"""What a secret becomes, as Terraform prints it."""
_TEXT = re.compile(r"[^<>\]]+|[^<>]+")


def _parts(text):
    """Buffers of one writev: a secret may begin in one and end in the next."""
    buffers = [found.group(2) for found in _PARTS.finditer(text)]
    joined = "".join(buffers)
    if len(buffers) < 2 or scrub_text(joined) == joined:
        return text
    return _PARTS.sub(lambda found: found.group(1) + '"' + MARK + '"', text)


def _list(found):
    """A command line as strace, Docker and Python print it, word by word."""
    name = _LISTED.search(found.string[max(0, found.start() - 110) : found.start()])
    if name and secret_name(name.group(1)):
        return found.group(0)  # all of it goes
    words = [one.group(1) or one.group(2) or "" for one in _ITEM.finditer(found.group(0))]
    left = iter(list(zip(words, scrub_argv(words))))  # noqa: B905 Python 3.6 knows no strict

    def item(one):
        word, clean = next(left)
        return one.group(0) if word == clean else one.group(0)[0] + clean + one.group(0)[0]

    return _ITEM.sub(item, found.group(0))


def _strings(text):
    """Text within JSON, and within the strings of strace: it has escapes, and is text all the same."""
    lines = Lines()

    def clean(found):
        try:
            inner = json.loads(found.group(0))
        except ValueError:
            return found.group(0)
        scrubbed = scrub_text(lines.text(inner))
        return (
            found.group(0)
            if scrubbed == inner
            else json.dumps(scrubbed, ensure_ascii=all(one < "\x7f" for one in found.group(0)))
        )

    return _ESCAPED.sub(clean, text)


def _command(found):
    """A program whose options hold secrets, in a line of a shell."""
    spans = [(one.start(), one.end()) for one in re.finditer(r"\"[^\"]*\"?|'[^']*'?|\S+", found.group(0))]
    words = [found.group(0)[start:end] for start, end in spans]
    text = found.group(0)
    for place, kept in reversed(hidden_words([word.strip("'\"") for word in words])):
        start, end = spans[place]
        start += kept + (text[start] in "'\"")
        end -= text[end - 1] in "'\""
        if MARK not in text[start:end]:
            text = text[:start] + MARK + text[end:]
    return text


def scrub_text(text):
    """Replace the secrets in text: log lines, command lines joined by spaces, answers of a server.

    `text`: one or more lines. Returns the same with `[redacted]` in place of each secret; scrubbing it again changes nothing.

    Examples
    --------
    >>> scrub_text("vllm serve m --api-key abc --max-num-batched-tokens 2048")
    'vllm serve m --api-key [redacted] --max-num-batched-tokens 2048'
    >>> scrub_text("ServerArgs(api_key=None, hf_token='hf_aBcDeFgH1234', tokenizer='m')")
    "ServerArgs(api_key=None, hf_token='[redacted]', tokenizer='m')"
    >>> scrub_text("GET http://ada:hunter2@proxy:3128/ Authorization: Bearer abc.def")
    'GET http://[redacted]@proxy:3128/ Authorization: Bearer [redacted]'
    >>> scrub_text("token: |\\n  hunter2\\nport: 8000")
    'token: |\\n  [redacted]\\nport: 8000'
    """
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS) and not _PGPASS.match(text):
        return _tokens(text)
    text = KEY_BEGIN.sub(lambda found: found.group(1) + MARK + (found.group(2) or ""), text)
    if "\n" in text or "\r" in text:
        text = Lines().text(text)
    if "iov_base" in text:
        text = _parts(text)
    if "\\" in text and '"' in text:
        text = _strings(text)
    if '["' in text or "['" in text:
        text = _LIST.sub(_list, text)
    if "://" in text:
        text = _URL.sub(_user, text)
        text = _HTTP_USER.sub(lambda found: found.group(0) if MARK in found.group(0) else found.group(1) + MARK + "@", text)
    if "auth" in lower or "cookie" in lower:
        text = _HEADER.sub(_header, text)
    text = _BEARER.sub(r"\1" + MARK, text) if "bearer" in lower else text
    for hint, pattern in FIXED:
        text = pattern.sub(r"\1" + MARK, text) if hint in lower else text
    text = _PGPASS.sub(r"\1" + MARK, text)
    text = COMMAND.sub(_command, text)
    text = _masked(text, _FLAG, True)
    if "value" in lower:
        text = _BEFORE.sub(_before, _masked(text, _APART))
    text = _masked(text, _KEY)
    text = _masked(text, _XML) if "</" in text else text
    text = _masked(text, _GAPPED, False, _is_secret_behind_a_gap)
    text = _masked(text, _SPOKEN, False, _is_secret_behind_a_gap) if ": " in text or "= " in text or " to " in text else text
    text = _CHANGED.sub(r"\1" + MARK, text) if MARK in text and ">" in text else text
    if ": " in text:
        text = _ANSWERED.sub(_answer, text)
    if '"secret"' in lower and '"kind"' in lower:
        text = _DATA.sub(lambda found: found.group(1) + _PAIRED.sub(r"\1" + MARK + '"', found.group(2)), text)
    return _tokens(text)


def _tokens(text):
    """What needs no name: issued tokens, and a word by chance in a command."""
    if "+ " in text:
        text = _TRACED.sub(lambda found: re.sub(r"[^\s'\"()]+", lambda word: _by_chance(word.group(0)), found.group(0)), text)
    return TOKENS.sub(token_mark, CERTAIN.sub(token_mark, text))


def _by_chance(word):
    """A word of a command without what looks as nothing but a secret does, whatever option it belongs to."""
    front = re.match(r"(?:--?[\w-]{1,60}=)?", word).end()
    return word[:front] + MARK if mixed(word[front:]) else word


def _answer(found):
    before = found.string[max(0, found.start() - 160) : found.start()]
    return (
        found.group(1) + MARK
        if strong(found.group(2)) and _ASKED.search(before) and not _PUBLIC.search(before[-12:])
        else found.group(0)
    )


def _user(found):
    """A user and a password in a URL; a variable or stars are none."""
    return found.group(0) if REFERENCE.match(found.group(2)) else found.group(1) + MARK + "@"


def _before(found):
    """A value before its name."""
    value, name = found.group(2), found.group(4)
    return found.group(1) + MARK + found.group(3) + name if secret_name(name) and not harmless(value) else found.group(0)


def _header(found):
    """The rest of a header's line goes, for a cookie has several parts; a word that is none stays."""
    name, between, scheme, value = found.groups()
    first = value.strip().partition(" ")[0].strip(".,:").lower()
    return (
        found.group(0) if harmless(value.strip()) or first in PROSE or MARK in value else name + between + (scheme or "") + MARK
    )


# --- command lines -------------------------------------------------------------------------------------------------------

_SINGLE = frozenset("token jwt cookie password passwd passphrase secret auth creds".split())
"""Flags with exactly one word behind them, whatever it begins with."""


def scrub_argv(argv):
    """Replace the secrets in a command line.

    `argv`: words of the command. Returns as many words. After `--api-key` every word up to the next flag goes, for vLLM takes
    several keys there.

    Examples
    --------
    >>> scrub_argv(["vllm", "serve", "m", "--api-key", "k1", "k2", "--port", "8000", "--hf-token=x"])
    ['vllm', 'serve', 'm', '--api-key', '[redacted]', '[redacted]', '--port', '8000', '--hf-token=[redacted]']
    >>> scrub_argv(["docker", "login", "-u", "ada", "-p", "x"]), scrub_argv(["curl", "-u", "ada:x"])
    (['docker', 'login', '-u', 'ada', '-p', '[redacted]'], ['curl', '-u', 'ada:[redacted]'])
    """
    scrubbed, hiding = [], None
    hidden = dict(hidden_words(argv))
    for place, word in enumerate(argv):
        is_flag = word.startswith("-") and len(word) > 1
        if place in hidden:
            scrubbed.append(word[: hidden[place]] + MARK)
            continue
        if hiding is not None and REFERENCE.match(word) or is_path(word):
            hiding = None
        if hiding is not None and (not is_flag or hiding in _SINGLE and not _LONG_FLAG.match(word)):
            scrubbed.append(_behind_user(word) if hiding in _USERS else MARK)
            hiding = hiding if hiding.lower().replace("_", "-").endswith(("api-key", "api-keys")) else None
            continue
        name, hiding = word.lstrip("-"), None
        if is_flag and "=" not in name and (secret_name(name, flag=True) or name in _SINGLE or name in _USERS):
            hiding = name
        scrubbed.append(_whole_word(word))
    return scrubbed


_USERS = frozenset("u user proxy-user".split())


def _behind_user(word):
    """`name:password` keeps the name; a pair of numbers is a user and a group."""
    name, colon, password = word.partition(":")
    return word if not colon or password.isdecimal() or REFERENCE.match(password) else name + colon + MARK


def _whole_word(word):
    """Scrub one word: an assignment goes to the word's end, blanks included."""
    name, equals, value = word.partition("=")
    bare = name.lstrip("-")
    if equals and value and re.match(NAME + r"\Z", bare) and secret_name(bare, flag=name != bare):
        value = value.strip("'\"")
        if value and not REFERENCE.match(value) and not is_path(value) and (not harmless(value) or strict_name(bare)):
            return name + equals + MARK
    return scrub_text(_by_chance(word))
