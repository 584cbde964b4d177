"""Names of variables, keys and flags that hold a secret, and words that only look like them.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import re
from functools import lru_cache

STRICT = frozenset("secret secrets password passwords passwd passphrase pwd".split())
"""Words whose values are secret even where they are plain numbers or plain words."""
_WORDS = STRICT | frozenset(
    """
    token pass apikey apikeys apitoken credential credentials creds authtoken accesstoken secretkey accesskey privatekey
    hftoken signature jwt psk pw bindpw rootpw requirepass masterauth keypass storepass passin dockerconfigjson dockercfg
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
_ABOUT = frozenset(
    """
    file files path paths dir type name names id ids len length size count counts limit rate url uri endpoint expires expiry ttl
    policy mode manager config server version usage per budget format provider prefix ring bytes seconds error errors field
    prediction probability probs embedding embeddings latency throughput class fn func function parser head heads cache shape
    dim index indices position positions logprobs mask group rotation refresh required enabled timeout validity ref refs reference
    selector algorithm algorithms alg exchange encryption
    """.split()
)
"""Words behind a secret's that make the name one about a secret: `password_file`, `token_ids`, `secretName`."""
_OTHER_KEYS = frozenset("monkey turkey hotkey donkey jockey keyboard passkey pkey".split())
HARMLESS = re.compile(
    r"(?:none|null|nil|true|false|auto|unset|yes|no|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\$\{?\w+(?::?[-?+])?\}?|\$\(.*|%\w+%|\{\{.*|<.*|"
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
    if _ABOUT.intersection(words[-1:]) or name in ("PWD", "OLDPWD"):
        return words[-1:] == ["id"] and words[-3:-1] == ["access", "key"]
    for place, word in enumerate(words):
        before, after = words[:place], words[place + 1 :]
        if _ABOUT.intersection(after[:1]) or word in _OTHER_KEYS:
            continue
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
