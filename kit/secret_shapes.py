"""Shapes of issued tokens, which tell a secret where no name does.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import re

MARK = "[redacted]"
"""What stands in place of a secret."""

SHAPES = (
    r"hf_[A-Za-z0-9]{8,}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{20,}",
    r"[sr]k-[A-Za-z0-9_-]{8,}",  # OpenAI, Anthropic and those who copy them
    r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|shippo_(?:live|test)_[a-f0-9]{40}|duffel_(?:live|test)_[A-Za-z0-9_=-]{40,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}|ABSK[A-Za-z0-9+/=]{30,}|bedrock-api-key-[A-Za-z0-9+/=]{30,}",  # AWS
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|gl[a-z]{2,5}-[A-Za-z0-9_.-]{16,}|GR1348941[A-Za-z0-9_-]{20}",
    r"xox[a-z][.-][A-Za-z0-9.-]{10,}|xapp-[A-Za-z0-9-]{16,}|hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/+-]{16,}",
    r"nvapi-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}|1//0[A-Za-z0-9_-]{30,}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|rubygems_[a-f0-9]{48}|CLOJARS_[A-Za-z0-9]{60}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}|eyJrIjoi[A-Za-z0-9]{60,}",  # JSON web token, Grafana
    r"(?:gsk|r8|fw|jina|ntn|figd|whsec|sbp|pcsk|rdme|pnu|tfp|sq[upa]|sgp|glsa|glc|sm_[aps]at|fo1|rnd|rpa|fm[12][ar]?|vercel_\w{4,8})_"
    r"[A-Za-z0-9+/=_-]{16,}|(?:xai|pplx|tvly|nk|p8e|ico|pul|tk-us|fio-u|xkeysib|sq0[a-z]{3})-[A-Za-z0-9_-]{20,}",
    r"tgp_v1_[A-Za-z0-9_-]{20,}|pscale_[a-z]{2,5}_[A-Za-z0-9_=.-]{32,}|CCIPAT_\w{40,}|HRKU-[A-Za-z0-9_-]{30,}|NRAK-[A-Z0-9]{27}",
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}|A3(?:-[A-Z0-9]{5,11}){5,6}|ops_eyJ[A-Za-z0-9+/]{100,}|AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{59}",
    r"dapi[a-f0-9]{32}|hv[sbr]\.[A-Za-z0-9_-]{16,}|do[opr]_v1_[a-f0-9]{32,}|lsv2_(?:pt|sk)_[A-Za-z0-9_]{24,}|wandb_v1_\w{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,}|lin_api_[A-Za-z0-9]{20,}|EZ[AT]K[A-Za-z0-9]{54}",
    r"key-[0-9a-f]{32}|tskey-[a-z]+-[A-Za-z0-9-]{10,}|sntry[su]_[A-Za-z0-9_=+/]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}|SK[0-9a-f]{32}",
    r"(?:bot)?[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}|discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{16,}|LTAI[A-Za-z0-9]{16,}",
    r"(?:pat|sat)\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|dp\.[a-z]{2}\.[A-Za-z0-9]{40,}",
    r"ATATT3[A-Za-z0-9_=-]{50,}|API-[A-Z0-9]{26}|sha256~[A-Za-z0-9_-]{43}|dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}|EAA[A-Z][A-Za-z0-9_-]{56,}",
    r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}|AQVN[A-Za-z0-9_-]{35,}|[0-9a-f]{32}-us[0-9]{1,2}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
    r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk|[A-Za-z0-9]{40,76}AZDO[A-Za-z0-9]{4}",
    r"webhook\.office\.com/webhookb2/[a-z0-9@-]{36,}/IncomingWebhook/[a-z0-9]{32}|amzn\.mws\.[0-9a-f-]{36}|APA91b[A-Za-z0-9_-]{90,}",
    r"oy2[a-z0-9]{43}|ATBB[A-Za-z0-9]{28,}|[01]/[0-9]{16}:[0-9a-f]{32}|[0-9a-f]{36}NRAL|secret_[a-z0-9-]+_[0-9a-f]{32}\.[A-Za-z0-9]{32}",
    r"\$(?:2[abxy]?|1|5|6|7|y|gy|apr1|argon2[id]{1,2}|scrypt)\$[A-Za-z0-9./$=,+_-]{20,}",  # a password, hashed
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",  # Discord
    r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{20,}",  # a key in base64
    r"[A-Za-z]{2,12}[_.-][A-Za-z0-9]{24,}",  # any prefix, where what follows is random: see token_mark
)
"""Shapes of issued tokens, as their issuers and gitleaks' rules describe them; without look-around, as RE2 wants them."""
TOKENS = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))(?:" + "|".join(SHAPES[:-1]) + "|(?P<any>" + SHAPES[-1] + "))"
)
CERTAIN = re.compile(
    r"(?:hf_|gh[pousr]_|sk-(?:ant|proj)-|nvapi-|glpat-|gsk_|npm_|r8_|xox[a-z]-|dckr_pat_|hvs\.)[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}(?![0-9A-Z])"
)
"""Shapes so telling that a letter before them changes nothing."""
PHRASE = re.compile(
    r"(?:(?:[A-Z][a-z]+(?![a-z])|[a-z]{2,}(?![a-z])|[A-Z]{1,5}(?![A-Za-z])|[A-Z]{1,4}(?=[A-Z][a-z])|[0-9]{1,3}(?![0-9]))[_-]?)+\Z"
)
"""Words and numbers written together, as in `hf_Qwen3MoeForCausalLM` and `sk-container-id-1`."""
_LOOSE = ("hf_", "sk-", "rk-", "nk-", "fw_", "pul-", "ico-", "API-")
_IDS = frozenset("cmpl chatcmpl req request msg resp run call id trace span".split())
"""Prefixes of names that a server gives to requests: random, and no secret."""
_CERTIFICATE = ("LS0tLS1CRUdJTiBDRVJU", "LS0tLS1CRUdJTiBQVUJM")


def _turns(text):
    kinds = ["a" if one.islower() else "A" if one.isupper() else "0" for one in text]
    return kinds, sum(one != other for one, other in zip(kinds, kinds[1:]))  # noqa: B905 Python 3.6 knows no strict


def is_random(text):
    """Whether letters of both cases and digits take turns as chance has them, not as words do."""
    kinds, turns = _turns(text)
    return len(set(kinds)) == 3 and kinds.count("0") > 1 and 2 * turns > len(kinds)


def token_mark(found):
    text = found.group(0)
    if re.search(r"xxxxxx|XXXXXX", text) or not re.search("[0-9A-Z]", text) and re.search("[_-][a-z]{3,}[_-]", text):
        return text  # `sk-xxxxxx`, `xoxb-token-parser-tests`
    if found.re is TOKENS and found.group("any"):
        prefix, body = re.split("[_.-]", text)[:2]
        if not text.startswith(_LOOSE):
            return text if prefix.lower() in _IDS or not is_random(body) else MARK
    if text.startswith(_LOOSE):
        body = text[3:] if text[2] in "_-" else text.partition("-")[2]
        mixed = re.search(r"[A-Z]", body) or len(re.findall(r"\d", body)) > 3
        if not mixed or PHRASE.match(body) and (len(body) < 30 or 5 * _turns(body)[1] < 2 * len(body)):
            return text
    return text if text.startswith(_CERTIFICATE) else MARK
