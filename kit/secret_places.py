"""Places of a secret that no name tells: in the commands, protocols and files of certain programs.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import re

from kit.secret_lines import SENDS

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
    ("auth", r"(\bAUTH\s+[\w-]{1,60}\s+)(?!\[redacted\])(?=\S*\d)[^\s:=]+"),
    (  # Redis: as its monitor prints it, and on the wire
        "auth",
        r"(?i)((?:\b|\\n)auth(?:\"[ ]\"(?:[^\"\s]{1,60}\"[ ]\")?|"
        r"\\r\\n(?:\$\d{1,4}\\r\\n[^\\\s]{1,100}\\r\\n(?=\$))?\$\d{1,4}\\r\\n))"
        r"(?!\[redacted\])[^\"\\\s]+",
    ),
    ("/p", r"(?i)((?<!\S)/(?:p|pass|passw(?:or)?d|pwd|token):)(?!\[redacted\])[^\s:]+"),  # as programs of Windows have it
    (" -a ", r"(\bhttps?\s+(?:-\S{1,40}\s+){0,4}-a\s+[^\s:]{1,60}:)(?!\[redacted\])[^\s'\"]+"),  # HTTPie
    ("securestring", r"(?i)(\bConvertTo-SecureString\s+(?:-String\s+)?['\"])(?!\[redacted\])[^'\"]+"),
    ("wpa_passphrase", r"(\bwpa_passphrase\s+\S{1,60}\s+)(?!\[redacted\])\S+"),
    ("net use", r"(?i)(\bnet\s+use\s+(?:\S{1,4}\s+)?\\\\\S{1,200}\s+)(?!/|\[redacted\])\S+"),
    (
        " as ",
        r"(?i)(\b(?:typed|using|used|sent|gave|entered)\s+['\"]?)(?!\[redacted\])[^\s'\"]{6,}"
        r"(?=['\"]?\s+as\s+(?:the\s+|a\s+)?(?:password|passphrase|token|secret|api[ _-]?key)\b)",
    ),
    ("ssh ", r"(\bssh\s+)(?=[a-z0-9]{0,40}[A-Z])(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{14,}(?=@)"),  # a shared session
    (
        "_secret",
        r"(\b(?:CLIENT|SERVER|EARLY|EXPORTER)_(?:[A-Z]+_)*SECRET(?:_\d)?\s+[0-9a-f]{64}\s+)[0-9a-f]+",
    ),  # a log of TLS keys
    ("client_random", r"(\bCLIENT_RANDOM\s+[0-9a-f]{64}\s+)[0-9a-f]+"),
    ("={", r"(?i)(\b(?:password|pwd)=\{)(?!\w*\}|\[redacted\])[^{}'\"\r\n]+(?=\})"),  # ODBC and ADO quote so
    ("/t/", r"(://[^\s/]{1,100}/t/)(?=[a-z-]{0,20}\d)[\w-]{12,}(?=/)"),  # conda
    ("\t", r"(\t(?:TRUE|FALSE)\t/\S{0,100}\t(?:TRUE|FALSE)\t\d{1,15}\t[^\t\r\n]{1,100}\t)(?!\[redacted\])[^\t\r\n]+"),  # curl
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
FIXED = tuple((hint, re.compile(pattern)) for hint, pattern in _BY_PLACE)
"""Places of a secret that no name tells, and a text that each has: what stands before the secret is kept."""
