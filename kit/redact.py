"""Secrets in command lines, environments and text: found by name or by shape, and replaced.

The functions are pure. The module imports nothing of the kit and keeps to the syntax of Python 3.6, because its text
goes in front of the sampler (`kit.capture.sampler_program`), which may run on an old host.

Names decide first (`HF_TOKEN=…`, `--api-key …`, `"password": …`), then shapes (`hf_…`, `sk-…`, `AKIA…`, bearer headers,
URLs with a password). Words that only look like it are kept, for analysis needs them: `max_tokens=512`,
`tokenizer='…'`, `eos_token_id=2`, `api_key=None`. Every pattern is linear in the length of a line.
"""

import re

MARK = "[redacted]"
"""What stands in place of a secret."""

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

# --- names ---------------------------------------------------------------------------------------------------------------

_STRICT = frozenset("secret secrets password passwords passwd passphrase pwd".split())
"""Words whose values are secret even where they are plain numbers or plain words."""
_WORDS = _STRICT | frozenset(
    """
    token pass apikey apikeys apitoken credential credentials creds authtoken accesstoken secretkey accesskey privatekey
    hftoken signature jwt
    """.split()
)
_FLAG_WORDS = frozenset("key auth cookie cookies pat bearer cred sas".split())
"""Words that a command-line flag hides where a variable of that name would not."""
_WEAK = frozenset(("auth",))
"""Names that hold a secret as often as the name of a method; the value decides."""
_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey", "token", "credentials")
"""Ends of words that are written without a gap: `PGPASSWORD`, `dbpassword`, `HFTOKEN`."""
_BEFORE_KEY = frozenset(
    """
    api access secret private signing encryption auth ssh account master service shared admin client license deploy host
    session storage ssl tls webhook hf
    """.split()
)
_NOT_TOKEN = frozenset(
    """
    bos eos pad unk sep cls mask image video audio special next last first stop per each draft cache new prompt output input
    sampled max min num total think start end
    """.split()
)
"""Words that make a `…_token` one of a vocabulary."""
_ABOUT = frozenset(
    """
    file files path paths dir type name names id ids len length size count counts limit rate url uri endpoint expires expiry ttl
    policy mode manager config server version usage per budget format provider prefix ring bytes seconds error errors field
    prediction probability probs embedding embeddings latency throughput class fn func function parser head heads cache shape
    dim index indices position positions logprobs mask group rotation refresh required enabled timeout validity
    """.split()
)
"""Words behind a secret's that make the name one about a secret: `password_file`, `token_ids`, `secretName`."""
_OTHER_KEYS = frozenset("monkey turkey hotkey donkey jockey keyboard passkey".split())
_HARMLESS = re.compile(
    r"(?:none|null|nil|true|false|auto|unset|yes|no|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\$\{?\w+\}?|\$\(.*|%\w+%|\{\{.*|<.*|"
    r"\*{2,}|x{4,}|\.{2,}|redacted|os\.environ.*|str|int|bool|optional.*)\Z",
    re.IGNORECASE,
)
"""Values that hold no secret: plain numbers and words, references, stars that somebody put in its place."""
_PROSE = frozenset(
    """
    a an the is are was be to of in on for from with and or not no if as it this that flag flags option options argument
    arguments parameter value values must may can will should needs requires instead here there set given missing invalid
    """.split()
)
"""Words behind a flag that a sentence speaks of: `the --token flag`."""


def _words_of(name):
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def secret_name(name, flag=False):
    """Tell whether a variable, key or flag of this name holds a secret.

    `name`: name without leading dashes. `flag`: it is a command-line flag: there a plain `key` counts too.

    Examples
    --------
    >>> [secret_name(n) for n in ("HF_TOKEN", "api_key", "dbPassword", "MY_KEY", "PGPASSWORD", "api_keys")]
    [True, True, True, True, True, True]
    >>> [secret_name(n) for n in ("max_tokens", "tokenizer", "eos_token_id", "VLLM_MAX_TOKENS_PER_STEP", "password_file")]
    [False, False, False, False, False]
    """
    words = _words_of(name)
    capitals = name.isupper()
    for place, word in enumerate(words):
        before, after = words[:place], words[place + 1 :]
        if word == "key" and before[-1:] == ["access"] and after == ["id"]:
            return True
        if _ABOUT.intersection(after[:1]) or word in _OTHER_KEYS:
            continue
        if word in ("token", "pass") and not capitals and after and not after[0].isdecimal():
            continue  # `multi_token_prediction`, `pass_config`
        if word.endswith("token") and _NOT_TOKEN.intersection(before):
            continue
        if (
            word in _WORDS
            or word in _WEAK
            and not after
            or len(word) > 6
            and word.endswith(_ENDINGS)
            or flag
            and word in _FLAG_WORDS
            and not after
        ):
            return True
        if word in ("key", "keys", "tokens") and _BEFORE_KEY.intersection(before[-1:]):
            return True
        if capitals and (word.endswith("key") or word == "sig" and before):
            return True
    return False


def _strict(name):
    """Names whose values are secret even where they are plain numbers."""
    return name.isupper() and "TOKEN" not in name or bool(_STRICT.intersection(_words_of(name)))


# --- shapes --------------------------------------------------------------------------------------------------------------

SHAPES = (
    r"hf_[A-Za-z0-9]{8,}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{20,}",
    r"[sr]k-[A-Za-z0-9_-]{8,}",  # OpenAI, Anthropic and those who copy them
    r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}|ABSK[A-Za-z0-9+/=]{30,}",  # AWS
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|gl(?:pat|dt|rt|ptt|cbt|soat|ft|agent)-[A-Za-z0-9_-]{16,}",
    r"xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{16,}|hooks\.slack\.com/services/[A-Za-z0-9_/-]{16,}",
    r"nvapi-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}",  # JSON web token
    r"(?:gsk|r8|fw|jina|ntn|figd|whsec)_[A-Za-z0-9+/=]{20,}|(?:xai|pplx|tvly)-[A-Za-z0-9-]{20,}|tgp_v1_[A-Za-z0-9_-]{20,}",
    r"dapi[a-f0-9]{32}|hv[sbr]\.[A-Za-z0-9_-]{16,}|do[opr]_v1_[a-f0-9]{32,}|lsv2_(?:pt|sk)_[A-Za-z0-9_]{24,}|wandb_v1_\w{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,}|lin_api_[A-Za-z0-9]{20,}",
    r"key-[0-9a-f]{32}|tskey-[a-z]+-[A-Za-z0-9-]{10,}|sntry[su]_[A-Za-z0-9_=+/]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}|discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{16,}",
)
"""Shapes of issued tokens, as their issuers and gitleaks' rules describe them; without look-around, as RE2 wants them."""
_SHAPES = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))(?:" + "|".join(SHAPES) + ")")
_CERTAIN = re.compile(
    r"(?:hf_|gh[pousr]_|sk-(?:ant|proj)-|nvapi-|glpat-|gsk_|npm_|r8_|xox[a-z]-|dckr_pat_|hvs\.)[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}(?![0-9A-Z])"
)
"""Shapes so telling that a letter before them changes nothing."""
_PHRASE = re.compile(
    r"(?:(?:[A-Z][a-z]+(?![a-z])|[a-z]{2,}(?![a-z])|[A-Z]{1,5}(?![A-Za-z])|[A-Z]{1,4}(?=[A-Z][a-z])|[0-9]{1,3}(?![0-9]))[_-]?)+\Z"
)
"""Words and numbers written together, as in `hf_Qwen3MoeForCausalLM` and `sk-container-id-1`."""
_LOOSE = ("hf_", "sk-", "rk-")


def _shape(found):
    text = found.group(0)
    if text.startswith(_LOOSE):
        body = text[3:]
        mixed = re.search(r"[A-Z]", body) or len(re.findall(r"\d", body)) > 3
        if not mixed or _PHRASE.match(body):
            return text
    return MARK


# --- text ----------------------------------------------------------------------------------------------------------------

_QUICK = re.compile(
    r"token|key|secret|pass|pwd|credential|cred|auth|bearer|://|cookie|sig|jwt|\s-u|--user|hf_|sk[-_]|rk[-_]|AKIA|ASIA|ABIA|ACCA|"
    r"ABSK|gh[pousr]_|github_pat|gl\w+-|xox|xapp|nvapi-|AIza|ya29|GOCSPX|eyJ|dckr_|npm_|pypi-|gsk_|r8_|fw_|jina_|ntn_|figd_|whsec_|xai-|"
    r"pplx-|tvly-|tgp_|dapi|hv[sbr]\.|do[opr]_v1_|lsv2_|wandb_|SG\.|shp\w\w_|lin_api_|tskey|sntry|:AA|webhooks|services/|"
    r"PRIVATE KEY|mysql|mariadb|sshpass|redis-cli|iov_base|code=",
    re.IGNORECASE,
)
"""Text without any of these holds nothing to scrub: one cheap search for most log lines."""
_PEM = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----)(?:.*?(-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----)|.*)", re.DOTALL
)
_URL = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{0,30}://)[^\s/@'\"<>]*:[^\s'\"<>/]*@(?=[^\s@])")
_HTTP_USER = re.compile(r"(?i)(\bhttps?://)[^\s/:@'\"<>]+@(?=[^\s@])")
_HEADER = re.compile(
    r"(?i)((?:proxy-)?authorization|(?:set-)?cookie)(\\?['\"]?\s*(?:[:=]|%3A)\s*\\?['\"]?)(?!\[redacted\])"
    r"((?:bearer|basic|token|digest|apikey|negotiate)\s+)?(?!\[redacted\])([^\r\n'\"\\]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)(?!\[redacted\])(?=[^\s'\",;]*[0-9A-Z._-])([A-Za-z0-9._~+/=-]{6,})")
_SIGNED = re.compile(r"([?&](?:sig|code)=)(?!\[redacted\])[^&\s'\"]{6,}")
_USER = re.compile(r"(?<!\S)(-u|--user|--proxy-user)([\s=]+['\"]?[^\s:'\"/=]+:)(?!\[redacted\])(?!\d+(?:\s|\Z))([^\s'\"/]+)")
_PROGRAM = re.compile(
    r"\b((?:mysql|mariadb)\w*\s(?:[^|;&\r\n]{0,300}?\s)?-p|sshpass\s+-p\s?|redis-cli\s(?:[^|;&\r\n]{0,300}?\s)?-a\s+)"
    r"(?!\[redacted\])(['\"]?[^\s'\"|;&]+['\"]?)"
)
_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,100}"
_VALUE = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\[[^\]\r\n]*\]?|\\?[\"'][^\"'\\]*|(?:%22|%27)?[^\s,;&)}\]'\"<>%\\]+(?:%(?!22|27|26|2C|7D)[^\s,;&)}\]'\"<>%\\]*)*"
)
_KEY = re.compile(
    r"(?:(?<![A-Za-z0-9_.-])|(?<=%22)|(?<=%27)|(?<=%26)|(?<=%3F)|(?<=%20)|(?<=%7B)|(?<=%2C))(-{0,2})("
    + _NAME
    + r")((?:\\?['\"]|%22|%27)?[ \t]{0,40}(?:[:=]|%3A|%3D|=>)[ \t]{0,40})"
)
_FLAG = re.compile(r"(?<![\w-])(--?)(" + _NAME + r")((?:['\"],)?[ \t]+)(?=\S)")
_GAP = r"\s{0,40}"
_APART = re.compile(
    r"(?i)((?:name|key)\\?['\"]?"
    + _GAP
    + r"[:=]"
    + _GAP
    + r"\\?['\"]?)("
    + _NAME
    + r")(\\?['\"]?"
    + _GAP
    + "[,;]?"
    + _GAP
    + r"\\?['\"]?value\\?['\"]?"
    + _GAP
    + r"[:=]"
    + _GAP
    + r")(?=\S)"
)
NAMED = re.compile(r"(?:^|[\s\"'{,-])(?:name|key)['\"]?\s*[:=]\s*['\"]?(" + _NAME + r")['\"]?,?\s*$", re.IGNORECASE)
"""A line that ends in the name of a variable, as YAML and `kubectl` put it before the line with its value."""
VALUED = re.compile(r"^(\s*(?:-\s*)?['\"]?value['\"]?\s*[:=]\s*)(\S.*?)(\s*)$", re.IGNORECASE)
_PARTS = re.compile(r'(iov_base=)"((?:[^"\\]|\\.)*)"')


_FLAG_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\[[^\]\r\n]*\]?|\\?[\"'][^\"'\\]*|[^\s;&)}\]'\"]+")
_LONG_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9-]*(?:=|\Z)|-[A-Za-z]\Z")


def _quoted(value):
    """Put the mark in place of a value and keep its quotes, so that JSON and Python literals stay readable."""
    escaped = value[:1] == "\\"
    quote = value[escaped : escaped + 1]
    if quote in ("'", '"') and len(value) > escaped + 1:
        closed = value.endswith(quote)
        return ("\\" if escaped else "") + quote + MARK + (quote if closed else "")
    return MARK


def _is_secret(name, between, value, flag):
    """Whether the value behind a secret's name is one."""
    bare = value.strip("\\'\"[] ")
    if not bare or bare == "redacted" or MARK in value:
        return False
    if _HARMLESS.match(bare):
        return _strict(name) and bare[:1].isdecimal() and not flag
    prose = between.endswith((" ", "\t")) and value[:1] not in "'\"\\["  # `next token: Hello`; what is no word is a secret
    if not flag and (name.lower() in _WEAK or prose and len(_words_of(name)) == 1 and not _strict(name)):
        return len(bare) >= 16 or len(bare) >= 6 and re.search(r"\d", bare) is not None
    return True


def _masked(text, pattern, is_flag):
    """Mask the value behind each name of a secret. A name that is none takes nothing along, so `INFO: HF_TOKEN=…` is seen."""
    out, done = [], 0
    for found in pattern.finditer(text):
        if found.start() < done:
            continue
        name, between = found.group(2), found.group(3)
        flag = is_flag or bool(found.group(1)) and found.re is not _APART
        if not secret_name(name, flag):
            continue
        value = (_FLAG_VALUE if is_flag else _VALUE).match(text, found.end())
        if value is None or is_flag and (_LONG_FLAG.match(value.group(0)) or value.group(0).strip(".,:").lower() in _PROSE):
            continue
        if _is_secret(name, between, value.group(0), flag):
            out += (text[done : found.end()], _quoted(value.group(0)))
            done = value.end()
    return "".join(out) + text[done:] if out else text


def _parts(text):
    """Buffers of one writev: a secret may begin in one and end in the next."""
    buffers = [found.group(2) for found in _PARTS.finditer(text)]
    joined = "".join(buffers)
    if len(buffers) < 2 or scrub_text(joined) == joined:
        return text
    return _PARTS.sub(lambda found: found.group(1) + '"' + MARK + '"', text)


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
    >>> scrub_text("INFO: HF_TOKEN=abc")
    'INFO: HF_TOKEN=[redacted]'
    """
    if not _QUICK.search(text):
        return text
    text = _PEM.sub(lambda found: found.group(1) + MARK + (found.group(2) or ""), text)
    if "iov_base" in text:
        text = _parts(text)
    text = _URL.sub(r"\1" + MARK + "@", text)
    text = _HTTP_USER.sub(lambda found: found.group(0) if MARK in found.group(0) else found.group(1) + MARK + "@", text)
    text = _HEADER.sub(_header, text)
    text = _BEARER.sub(r"\1" + MARK, text)
    text = _SIGNED.sub(r"\1" + MARK, text)
    text = _USER.sub(r"\1\2" + MARK, text)
    text = _PROGRAM.sub(r"\1" + MARK, text)
    text = _masked(text, _FLAG, True)
    text = _masked(text, _APART, False) if "value" in text.lower() else text
    text = _masked(text, _KEY, False)
    text = _CERTAIN.sub(_shape, text)
    return _SHAPES.sub(_shape, text)


def _header(found):
    """The rest of a header's line goes, for a cookie has several parts; a word that is none stays."""
    name, between, scheme, value = found.groups()
    return found.group(0) if _HARMLESS.match(value.strip()) or MARK in value else name + between + (scheme or "") + MARK


def scrub_argv(argv):
    """Replace the secrets in a command line.

    `argv`: words of the command. Returns as many words. After `--api-key` every word up to the next flag goes, for vLLM takes
    several keys there.

    Examples
    --------
    >>> scrub_argv(["vllm", "serve", "m", "--api-key", "k1", "k2", "--port", "8000", "--hf-token=x"])
    ['vllm', 'serve', 'm', '--api-key', '[redacted]', '[redacted]', '--port', '8000', '--hf-token=[redacted]']
    """
    scrubbed, hiding = [], None
    program = re.sub(r".*/", "", argv[0]) if argv else ""
    for word in argv:
        is_flag = word.startswith("-") and len(word) > 1
        if hiding is not None and (not is_flag or hiding in _SINGLE and not _LONG_FLAG.match(word)):
            scrubbed.append(_behind_user(word) if hiding in ("u", "user", "proxy-user") else MARK)
            hiding = hiding if hiding.lower().replace("_", "-").endswith(("api-key", "api-keys")) else None
            continue
        hiding = None
        if is_flag:
            name = word.lstrip("-")
            if "=" not in name and (secret_name(name, flag=True) or name in _SINGLE or name in _OF_PROGRAM.get(program, ())):
                hiding = name
            attached = next(
                (flag for flag in _OF_PROGRAM.get(program, ()) if word.startswith("-" + flag) and len(word) > 2), None
            )
            scrubbed.append("-" + attached + MARK if attached and word[1] != "-" else _whole_word(word))
        else:
            scrubbed.append(_whole_word(word))
    return scrubbed


_SINGLE = frozenset("u user proxy-user token jwt cookie password passwd passphrase secret auth creds".split())
"""Flags with exactly one word behind them, whatever it begins with."""
_OF_PROGRAM = dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass"), ("p",))
_OF_PROGRAM["redis-cli"] = ("a",)
_OF_PROGRAM["curl"] = ("b",)


def _behind_user(word):
    """`name:password` keeps the name; a pair of numbers is a user and a group."""
    name, colon, password = word.partition(":")
    return word if not colon or password.isdecimal() else name + colon + MARK


def _whole_word(word):
    """Scrub one word: an assignment goes to the word's end, blanks included."""
    name, equals, value = word.partition("=")
    bare = name.lstrip("-")
    if equals and value and re.match(_NAME + r"\Z", bare) and secret_name(bare, flag=name != bare):
        if not _HARMLESS.match(value) or _strict(bare):
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
        kept[name] = scrub_text(environ[name]) if allowed and not secret_name(name) else None
    return kept
