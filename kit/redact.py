"""Secrets in command lines, environments and text: found by name or by shape, and replaced.

The functions are pure. The module imports nothing of the kit and keeps to the syntax of Python 3.6, because its text
goes in front of the sampler (`kit.capture.sampler_program`), which may run on an old host.

Names decide first (`HF_TOKEN=…`, `--api-key …`, `"password": …`), then shapes (`hf_…`, `sk-…`, `AKIA…`, bearer headers,
URLs with a password). Words that only look like it are kept, for analysis needs them: `max_tokens=512`,
`tokenizer='…'`, `eos_token_id=2`, `api_key=None`. Every pattern is linear in the length of a line.
"""

import json
import re

from kit.secret_lines import KEY_BEGIN, NAME, QUOTE, SENDS, Lines, quoted
from kit.secret_names import HARMLESS, PROSE, STRICT, WEAK, secret_name, strict_name, words_of
from kit.secret_programs import COMMAND, hidden_words
from kit.secret_shapes import CERTAIN, MARK, PHRASE, TOKENS, is_random, token_mark

ENVIRON_PREFIXES = tuple(
    """
    CUDA_ CUBLAS_ CUDNN_ DG_ FI_ FLASHINFER_ GGML_ GLOO_ GPU_ HF_HUB_ HF_DATASETS_ HIP_ HSA_ KMP_ LLAMA_ LMCACHE_ MKL_
    MOONCAKE_ NCCL_ NUMEXPR_ NVIDIA_ NVSHMEM_ OMP_ OPENBLAS_ PYTHON PYTORCH_ RCCL_ ROCM_ ROCR_ SGL_ SGLANG_ TLLM_ TOKENIZERS_
    TORCH_ TORCHINDUCTOR_ TORCHELASTIC_ TRANSFORMERS_ TRITON_ TRTLLM_ UCX_ VLLM_ XLA_
    """.split()
)
"""Environment variables whose values explain a launch. Of all others only the name is recorded."""
ENVIRON_NAMES = frozenset(
    """
    ASCEND_RT_VISIBLE_DEVICES ASCEND_VISIBLE_DEVICES HABANA_VISIBLE_DEVICES ZE_AFFINITY_MASK
    GROUP_RANK HF_ENDPOINT HF_HOME LANG LC_ALL LD_LIBRARY_PATH LD_PRELOAD LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
    MAX_JOBS NODE_RANK NO_PROXY RANK ROLE_RANK SLURM_JOB_NUM_NODES SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_PROCID TZ
    WORLD_SIZE no_proxy
    """.split()
)

# --- text ----------------------------------------------------------------------------------------------------------------

_HINTS = """
token key secret pass pwd pw psk cred auth bearer :// cookie sig jwt -u login docker private-lines data mysql mariadb
redis-cli zip 7z ldap ipmitool sqlcmd bcp mongo snmp smbclient iov_base code= begin identified jdbc curl lftp sudo add-mask
wandb openssl usermod useradd racadm honeycomb +@ assword pin: pin= pin" pin'
""".split()
"""Text without any of these, and without a shape, holds nothing to scrub: one cheap search for most log lines."""
_URL = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{0,30}://)[^\s/@'\"<>]*:[^\s'\"<>/]*@(?=[^\s@])")
_HTTP_USER = re.compile(r"(?i)(\bhttps?://)(?![a-z]{1,6}@)[^\s/:@'\"<>]+@(?=[^\s@])")
_HEADER = re.compile(
    r"(?i)((?:proxy-)?authorization|(?:set-)?cookie)(\\?['\"]?\s*(?:[:=]|%3A)\s*(?:\[(?!redacted))?\\?['\"]?)(?!\[redacted\])"
    r"((?:bearer|basic|token|digest|apikey|negotiate)\s+)?(?!\[redacted\])([^\r\n'\"\\]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer,?\s+)(?!\[redacted\]|realm=)(?=[^\s'\",;]*(?-i:[0-9A-Z._-]))([A-Za-z0-9._~+/=-]{6,})")
_PGPASS = re.compile(
    r"(?m)(^[ \t]{0,40}[\"']?(?:[A-Za-z][\w.-]*|\*):(?:\d{2,5}|\*):(?!\d+:)[\w*-]+:[\w*-]+:)(?=\S*[\d!#$%&+?@^])"
    r"(?!\[redacted\])[^\s\"\\]+"
)
_PRINTS = r"\b(?:echo|printf)\s+(?:-\w\s+|['\"]?%s(?:\\n)?['\"]?\s+)?"
_READS = r"(?:\bsudo\s+-S\b|\bchpasswd\b|(?:password|passphrase|token|secret)[_-]stdin\b|--with-token\b)"
"""Commands that print a secret, and those that read one from their input."""
_PROTOCOL = (
    r"(?i)(websocket-protocol\\?['\"]?\s{0,4}[:=]\s{0,4}\\?['\"]?"
    r"[^'\"\r\n]{0,60}?(?:bearer|token|jwt|api-?key)[.,]\s{0,4})"
)
_BY_PLACE = (
    ("=", r"([?&](?:sig|code)=)(?!\[redacted\])[^&\s'\"]{6,}"),
    ("-", r"(?<!\S)((?:-u|--user|--proxy-user)[\s=]+['\"]?[^\s:'\"/=]+:)(?!\[redacted\])(?!\d+(?:\s|\Z))[^\s'\"/]+"),
    ("login", r"(\blogin\s+\S{1,100}\s+password\s+)(?!\[redacted\])[^\s\"\\]+"),  # ~/.netrc
    (" '", r"(?i)(\bidentified\s+by\s+'|\bpassword\s+')(?!\[redacted\])[^'\s]+"),  # SQL
    ("rootpw", r"(\brootpw\s+(?:--\w+\s+)?)(?!\[redacted\])[^\s=:-]\S*"),
    ("jdbc:", r"(\bjdbc:oracle:\w+:[^\s/@]{1,100}/)(?!\[redacted\])[^\s@]+(?=@)"),
    ("(", r"(?i)((?:basic_?auth|\bauth)\s{0,4}=?\s{0,4}\(\s{0,4}['\"][^'\"\s]{0,100}['\"],\s{0,4}['\"])(?!\[redacted\])[^'\"]+"),
    ("|", r"(?i)(" + _PRINTS + r"['\"]?)(?!\[redacted\])[^\s'\"|]+(?=['\"]?\s*\|[^|\r\n]{0,200}" + _READS + ")"),
    ("<<<", "(?i)(" + _READS + r"[^<\r\n]{0,200}<<<\s*['\"]?)(?!\[redacted\])[^\s'\"]+"),
    ("login(", r"(\blogin\((?:token=|key=)?['\"])(?!\[redacted\])[^'\"]{6,}"),
    ("response=", r"(?i)(\bdigest\s[^\r\n]{0,400}?\bresponse=\\?['\"])[0-9a-z][^'\"\\\r\n]+"),
    ("websocket-protocol", _PROTOCOL + r"(?!\s*\[redacted\])[^'\"\r\n]+"),
    ("+@", r"(\buser\s+\S{1,100}\s+(?:on|off)\s[^>\r\n]{0,100}>)(?!\[redacted\])\S+"),  # Redis
    ("auth ", r"(\bAUTH\s+[\w-]{1,60}\s+)(?!\[redacted\])(?=\S*\d)[^\s:=]+"),
    (
        "variable",
        r"(\bvariable\s+\"?[^\"\s]{0,60}(?:token|key|secret|pass\w*)\"?\s*\{[^}\r\n]{0,200}\bdefault\s*=\s*\")(?!\[redacted\])[^\"]+",
    ),
    ("snmp", r"(\bsnmp(?:-server)?\s+community(?:\s+string)?[\s:=]+)(?!\[redacted\])\S+"),
    ("<(echo", r"(<\(echo\s+['\"]?)(?!\[redacted\])[^\s'\")]+"),
    (
        "send",  # a script of expect, pexpect or chat
        r"(?i)(\bexpect(?:_\w+)?\b[^\r\n]{0,200}(?:assword|passphrase|passcode|token|\bpin\b)[^\r\n]{0,200}"
        + SENDS
        + r")(?!\[redacted\])[^'\"\\\r\n]+",
    ),
    ("send", r"(?i)(" + SENDS + r")(?!\[redacted\])[^'\"\\\r\n]+(?=\\{1,2}[rn]['\"][^\r\n]{0,100}(?:assword|passphrase))"),
    ("username", r"(['\"]username['\"]:\s*['\"][^'\"]{1,100}['\"],\s*['\"]key['\"]:\s*['\"])(?!\[redacted\])[^'\"]+"),  # Kaggle
    ("random_password", r"(\"result\":\s*\")(?!\[redacted\])[^\"]+"),  # Terraform's state
    ("x-honeycomb", r"(?i)(x-honeycomb-team['\"]?:\s*['\"]?)(?!\[redacted\])[^\s'\"]+"),
    ("add-mask", r"(::add-mask::)(?!\[redacted\])\S+"),
)
_FIXED = tuple((hint, re.compile(pattern)) for hint, pattern in _BY_PLACE)
"""Places of a secret that no name tells, and a text that each has: what stands before the secret is kept."""
_VALUE = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|\[[^\]\r\n]*\]?|\\{1,4}[\"'][^\"'\\]*|&quot;[^&]*|\\{1,4}u002[27][^\\]*|"
    r"(?:%(?:25)?2[27])?[^\s,;&)}\]'\"<>%\\]+(?:%(?!22|27|26|2C|7D)[^\s,;&)}\]'\"<>%\\]*)*"
)
_KEY = re.compile(
    r"(?:(?<![A-Za-z0-9_.-])|(?<=%22)|(?<=%27)|(?<=%26)|(?<=%3F)|(?<=%20)|(?<=%7B)|(?<=%2C)|(?<=u0022)|(?<=u0027))\.?(-{0,2})("
    + NAME + r")((?:\[\d*\])?" + QUOTE + r"?[\])]?[ \t]{0,40}(?::=|={1,3}>?|:|->|%(?:25)?3[AD])[ \t]{0,40}"
    r"(?:![A-Za-z]{1,20}[ \t])?(?:\w{1,20}\((?=['\"])|[bfru]{1,2}(?=['\"]))?)"
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
    + r"?(?:[ \t]{1,40}(?:[|\u2502\u2503]|\.{3,40}|is|was|of|provided)?:?[ \t]{0,40}|:[ ]|,[ ]?[bu]?(?=['\"]))"
    + QUOTE
    + r"?)(?=\S)"
)
_FLAG = re.compile(r"(?<![\w-])(--?)(" + NAME + r")((?:['\"]?,)?[ \t]+)(?=\S)")
_SPOKEN = re.compile(
    rf"(?i)(?<![A-Za-z0-9_.-])()((?:{_TWO})?(?:key|token)|{_WORD})("
    r"(?:[ ]?(?:\([^()\r\n]{1,60}\)|\[[^\[\]\r\n]{1,60}\]|<[^<>\r\n]{1,60}>|#\d{1,3}|no\.[ ]\d{1,3})"
    r"|[ ](?:header|value|variable)|[ ](?:was[ ])?(?:re)?set(?=[ ]to[ ])"
    r"|,?[ ](?:for|from|in|of|to|is|was|read|changed)(?:[ ]['\"]?[\w@./:-]{1,60}['\"]?){1,5}?"
    r"|:[ ]?[A-Za-z][\w.]{0,40}(?:\[[^\]\r\n]{1,60}\])?(?:[ ]\|[ ]\w{1,20})?)"
    r"(?:[ ]?[:=]|[ ]to)[ ]{1,4}['\"]?|[ ]to[ ]['\"]?)(?=\S)"
)
"""A secret that words or brackets part from its name: `token (from a file): …`, `password of user ada: …`,
`key: str = …`."""
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
_ESCAPED = re.compile(r"(?<!\\)\"[^\"\\]*\\.(?:[^\"\\]|\\.)*\"")
_ITEM = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")
_FLAG_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\[[^\]\r\n]*\]?|\\?[\"'][^\"'\\]*|[^\s;&)}\]'\"]+")
_LONG_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9-]*(?:=|\Z)|-[A-Za-z]\Z")


def _is_secret(name, between, value, flag):
    """Whether the value behind a secret's name is one."""
    bare = re.sub(QUOTE, "", value).strip("\\[] ")
    if not bare or bare == "redacted" or MARK in value or bare.isupper() and words_of(bare) == words_of(name):
        return False
    if HARMLESS.match(bare):
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
        or HARMLESS.match(bare)
    ):
        return False
    if not re.search(r"[A-Za-z]", bare) or not re.search(r"[\d!#$%^&*+~?@]", bare):
        return False
    words = words_of(name)
    if (
        re.search("[|\u2502\u2503:,=]|\\.\\.|b['\"]|is ['\"]|\\w to ", between)
        or name.isupper()
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
        if not secret_name(name.replace(" ", "_"), flag):
            continue
        value = (_FLAG_VALUE if is_flag else _TEXT if pattern is _XML else _VALUE).match(text, found.end())
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
        return TOKENS.sub(token_mark, text)
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
        text = _URL.sub(r"\1" + MARK + "@", text)
        text = _HTTP_USER.sub(lambda found: found.group(0) if MARK in found.group(0) else found.group(1) + MARK + "@", text)
    if "auth" in lower or "cookie" in lower:
        text = _HEADER.sub(_header, text)
    text = _BEARER.sub(r"\1" + MARK, text) if "bearer" in lower else text
    for hint, pattern in _FIXED:
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
    text = CERTAIN.sub(token_mark, text)
    return TOKENS.sub(token_mark, text)


def _before(found):
    """A value before its name."""
    value, name = found.group(2), found.group(4)
    return found.group(1) + MARK + found.group(3) + name if secret_name(name) and not HARMLESS.match(value) else found.group(0)


def _header(found):
    """The rest of a header's line goes, for a cookie has several parts; a word that is none stays."""
    name, between, scheme, value = found.groups()
    first = value.strip().partition(" ")[0].strip(".,:").lower()
    return (
        found.group(0)
        if HARMLESS.match(value.strip()) or first in PROSE or MARK in value
        else name + between + (scheme or "") + MARK
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
    return word if not colon or password.isdecimal() else name + colon + MARK


def _whole_word(word):
    """Scrub one word: an assignment goes to the word's end, blanks included."""
    name, equals, value = word.partition("=")
    bare = name.lstrip("-")
    if equals and value and re.match(NAME + r"\Z", bare) and secret_name(bare, flag=name != bare):
        if not HARMLESS.match(value) or strict_name(bare):
            return name + equals + MARK
    return scrub_text(word)


def scrub_environ(environ):
    """Keep the names of all environment variables and the values of those that explain a launch.

    Sorted by name; None where the value is not recorded.

    Examples
    --------
    >>> scrub_environ({"NCCL_DEBUG": "INFO", "VLLM_API_KEY": "abc", "HOME": "/home/ada"})
    {'HOME': None, 'NCCL_DEBUG': 'INFO', 'VLLM_API_KEY': None}
    """
    kept = {}
    for name in sorted(environ):
        allowed = name in ENVIRON_NAMES or name.startswith(ENVIRON_PREFIXES)
        allowed = allowed and not secret_name(name, flag=True) and not name.endswith("_ACCESS")
        kept[name] = scrub_text(environ[name]) if allowed else None
    return kept
