"""Names of variables, keys and flags that hold a secret, and words that only look like them.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import re
from functools import lru_cache

from kit.secret_shapes import is_random

STRICT = frozenset("secret secrets password passwords passwd passphrase pwd".split())
"""Words whose values are secret even where they are plain numbers or plain words."""
_WORDS = STRICT | frozenset(
    """
    token pass apikey apikeys apitoken credential credentials creds authtoken accesstoken secretkey accesskey privatekey
    hftoken signature jwt psk pw passcode otp bindpw rootpw requirepass masterauth keypass storepass passin
    dockerconfigjson dockercfg
    """.split()
)
_FLAG_WORDS = frozenset("key auth cookie cookies pat bearer cred sas".split())
"""Words that a command-line flag hides where a variable of that name would not."""
WEAK = frozenset(("auth", "pin"))
"""Names that hold a secret as often as the name of a method, or the number of a contact; the value decides."""
_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey", "token", "credentials")
"""Ends of words that are written without a gap: `PGPASSWORD`, `dbpassword`, `HFTOKEN`."""
_BEFORE_KEY = frozenset(
    """
    api access secret private signing encryption auth ssh account master service shared admin client license deploy host
    session storage ssl tls webhook hf app application subscription preshared decryption consumer functions management fernet
    munge cookie
    """.split()
)
_NOT_TOKEN = frozenset(
    """
    bos eos pad unk sep cls mask image video audio special next last first stop per each draft cache new prompt output input
    sampled max min num total think start end
    """.split()
)
"""Words that make a `…_token` one of a vocabulary."""
ABOUT = frozenset(
    """
    file files path paths dir type name names id ids len length size count counts limit rate url uri endpoint expires expiry ttl
    policy mode manager config server version usage per budget format provider prefix ring bytes seconds error errors field
    prediction probability probs embedding embeddings latency throughput class fn func function parser head heads cache shape
    dim index indices position positions logprobs mask group rotation refresh required enabled timeout validity ref refs reference
    selector algorithm algorithms alg exchange encryption header issuer audience expire minutes hours days realm project package
    version address addr host hostname sha commit branch region zone colors stream job user tag image platform device devices
    """.split()
)
"""Words behind a secret's that make the name one about a secret: `password_file`, `token_ids`, `secretName`."""
_OTHER_KEYS = frozenset("monkey turkey hotkey donkey jockey keyboard passkey pkey pubkey".split())
_PUBLIC_KEYS = frozenset(
    """
    cache public pub websocket partition primary foreign sort index block prefix idempotency object group routing map dict
    host fingerprint translation message accept state column row sha hash etag ssh
    """.split()
)
"""Words before `key` that make it no secret, however random it looks."""
_PASSES = frozenset("compass encompass bypass trespass surpass underpass overpass pass-through".split())
REFERENCE = re.compile(
    r"(?:\$\{?[A-Z_][A-Z0-9_]*(?::?[-?+])?\}?|\$\{\{[^{}]*\}\}|\{\{[^{}]*\}\}|<[^<>]+>|%[A-Z_]+%|"
    r"id=[\w-]+,(?:src|source|env|type)=[^,]+|[Tt]rue|[Ff]alse|None|null|"
    r"(?:[a-z]{2,8}[_-]){0,3}(?:x{4,}|X{4,}|\.{3}|\*{2,})|your[-_ ][a-z_ -]{3,60}|\[(?:masked|MASKED|hidden|redacted)\]|EMPTY)\Z"
)
"""Values that are none, under whatever name: a variable, a template, what stands in the place of a secret."""
_PATH = re.compile(r"(?:[\w.-]{1,60}:)?(?:(?:~|\.{1,2}|/[\w.@+-]{1,100})(?:/[\w.@+:=-]{1,100})+/?)\Z")
HARMLESS = re.compile(
    r"(?:(?:!!)?none|(?:!!)?null|[a-z]+\.\*|[a-z_]+(?:\.[a-z_0-9]+){3,}|nil|true|false|auto|unset|yes|no|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\$\{?\w+(?::?[-?+])?\}?|\$\(.*|%\w+%|\{\{.*|<.*|"
    r"(?:[\w.-]+:)?/(?:run|etc|var|home|root|tmp|srv|opt|mnt)/[\w./-]+|empty|required|optional|disabled|enabled|missing|expired|unknown|[a-z_]+\[\d*|\(.*|\{.*|\*{2,}|-|x{4,}|\.{2,}|redacted|hidden|masked|files|str|int|bool|optional.*|secretstr|"
    r"(?:os\.|process\.)?(?:get)?env(?:iron)?\b.*|[a-z_]{1,40}(?:\.[a-z_]{1,40}){0,3}\.[a-z_]{0,40}(?:key|token|secret|password))\Z",
    re.IGNORECASE,
)
"""Values that hold no secret: plain numbers and words, references, stars that somebody put in its place."""
PROSE = frozenset(
    """
    a an the is are was be to of in on for from with and or not no if as it this that flag flags option options argument
    arguments parameter value values must may can will should needs required requires instead here there set given missing invalid
    """.split()
)
"""Words behind a flag that a sentence speaks of: `the --token flag`."""


def words_of(name):
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


@lru_cache(maxsize=4096)
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
    words = words_of(name)
    capitals = name.isupper()
    if ABOUT.intersection(words[-1:]) or name in ("PWD", "OLDPWD"):
        return words[-1:] == ["id"] and words[-3:-1] == ["access", "key"]
    for place, word in enumerate(words):
        before, after = words[:place], words[place + 1 :]
        if ABOUT.intersection(after[:1]) or word in _OTHER_KEYS:
            continue
        if "existing" in before or len(after) > 2 and name[:1].isupper() and not capitals:
            continue  # `existingSecret`, `SecretsUsedInArgOrEnv`
        if word in ("token", "pass") and not capitals and after and not after[0].isdecimal():
            continue  # `multi_token_prediction`, `pass_config`
        if word.endswith("token") and _NOT_TOKEN.intersection(before):
            continue
        if (
            word in _WORDS
            or word in WEAK
            and not after
            and (word != "pin" or not before)  # `cpu_pin` says where
            or len(word) > 6
            and word.endswith(_ENDINGS)
            or len(word) > 5
            and word.endswith("pass")
            and word not in _PASSES
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


def strict_name(name):
    """Names whose values are secret even where they are plain numbers."""
    return name.isupper() and "TOKEN" not in name or bool(STRICT.intersection(words_of(name)))


def harmless(value):
    """Whether a value is no secret by its form: a reference, a placeholder, a path, a number or a plain word."""
    return REFERENCE.match(value) is not None or HARMLESS.match(value) is not None or is_path(value)


def is_path(value):
    """Whether a value is a path, none of whose parts looks like chance."""
    return "/" in value and _PATH.match(value) is not None and not any(map(is_random, value.split("/")))


def weak_key(name, before):
    """Whether a name ends in `key` and says no more: there the value decides. `before`: the text in front of it."""
    words = words_of(name)
    if words[-1:] and words[-1].isdecimal():
        words.pop()
    last = re.split("[^A-Za-z]", before[-30:].rstrip(" _-"))[-1].lower()
    return words[-1:] == ["key"] and not _PUBLIC_KEYS.intersection(words[:-1] + [last])


_STRONG = re.compile(r"[A-Za-z0-9_+/=.-]{20,}\Z")
_HEX = re.compile(r"(?=[a-f-]{0,30}\d)(?=[\d-]{0,30}[a-f])[0-9a-f-]{32,}\Z")


def strong(value):
    """Whether a value looks as nothing but a secret, an identifier or a digest does: long, and signs by chance."""
    return _HEX.match(value) is not None or mixed(value)


def mixed(value):
    """The same for letters of both cases and digits: identifiers and digests have one case."""
    parts = value.rstrip("=").split("/") if _STRONG.match(value) else ()
    return any(len(part) >= 16 and is_random(part) and part.count(".") < 2 for part in parts)


def hides_word(words):
    """Whether one of the words is that of a secret: `VAULT_SECRET_ID` is one."""
    return not _WORDS.isdisjoint(words)
