"""What announces a segment, and what that says about it: a command, a file, a tool."""

from __future__ import annotations

import re
from typing import BinaryIO, NamedTuple

TOOLS = (
    "cat|curl|date|df|dmesg|docker|du|env|export|find|findmnt|for|free|fuser|gdb|grep|head|hostname|ip|journalctl|kill|"
    "killall|kubectl|"
    "ls|lsblk|lslocks|lsof|lspci|mount|netstat|nproc|nvidia-smi|pgrep|pkill|ps|pstree|py-spy|python3?|ray|readlink|rocm-smi|"
    "sinfo|squeue|ss|stat|strace|sudo|sysctl|tail|time|timeout|top|ulimit|uname|uptime|vmstat|watch|wc|while|wget"
)
_TOOLS = frozenset(TOOLS.replace("python3?", "python3").split("|"))
PROMPT = (
    r"[ \t]*(?:(?:\[[\d:]{5,8}\] )?(?:\([\w.-]+\) )?"
    r"(?:\[?[\w.-]+@[\w.-]+(?:[: ][^\s$#%>]*)?\]? ?(?:[$#%]|> )|(?:bash|sh)-[\d.]+[$#]|[\w.-]+:[~/][\w./~-]* [\w.-]+\$"
    r"|(?:╰|└)(?:─)+(?:❯|➜|➤|λ|\$|#)? ?|(?:~|/)[\w./ -]{0,60} ❯ "
    r"|(?:PS )?[A-Z]:\\[^>\n]*>|(?:➜ {1,2}(?:~|[\w./-]+)|❯ {1,2}[~/][\w./-]*)(?: git:\(\S+\))?(?: ✗)?"
    r"|❯(?= (?:\w+=\S+ )*[\w./-]+ )|[\w.-]*/[\w./-]*[$#]|/[\w./-]* #) ?|\$ "
    rf"|(?:[#>+]|[\w-]*%|❯|λ) (?=(?:{TOOLS})\b))(?P<command>[\w./\[({{\"'~#-].*)$"
)
"""A shell's prompt and the command after it."""
STEP, STEP_LISTED = "##[group]Run ", "##[endgroup]"
"""A step of GitHub Actions, and the end of what it runs, which is listed below it."""
EXIT_CODE = re.compile(r"(?:^|[$#%>❯] ?)echo\b[^;|&]*\$(?:\?|\{\?\})['\"]?\s*$")
"""A command that prints how the one before it ended."""
EMPTY_PROMPT = (
    r"(?:[ \t]*(?:\([\w.-]+\) )?\[?[\w.-]+@[\w.-]+[: ][^\s$#%>]*\]? ?[$#%>] ?|(?:~|/)[\w./-]* (?:on|via) \W.*|(?:╭|┌)─.*)$"
)
"""One without a command, and the first line of one of two lines (starship)."""
SPEAKER = (
    r"[A-Z][\w.'-]{0,20}(?: [A-Z][\w.'-]{0,20}){0,2}"
    r"(?: {1,3}\[?\d{1,2}:\d\d(?: ?[AP]M)?\]?|  ?— (?:Today|Yesterday|\d\d/\d\d).{0,20})$"
    r"|\[\d{1,2}[./]\d{1,2}[./]\d{2,4},? \d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?\] [A-Z][\w'-]{0,20}(?: [A-Z][\w.'-]{0,20}){0,2}:? ?$"
    r"|[\w.'-]{1,30} {2}\[\d{1,2}:\d\d(?: ?[AP]M)?\]$|\[\d{1,2}:\d\d(?: ?[AP]M)?\] [\w.' -]{1,30}$"
)
"""Who speaks next in a copy of a chat (Slack, Discord, Teams)."""
ASSISTANT = (
    r"(?:ChatGPT|Claude|Gemini|Copilot|DeepSeek|Kimi|Grok|Assistant|AI|豆包|文心一言|通义千问)"
    r"(?: said| says| ?说| ?の回答| hat gesagt)? ?(?::|：)$"
)
USER = r"(?:You|User|Human|您|你|あなた|用户)(?: said| ?说| hat gesagt)? ?(?::|：)$"
"""Whose turn it is in a copy of a talk with an assistant: what that says is no evidence."""
FENCE_ENDS = ("```", "~~~", "</pre", "{code", "{noformat", "[/code", "#+end")
_CLOCKED = re.compile(rb"20\d\d-\d\d-\d\dT(\d\d):(\d\d):(\d\d)")
_STAMP_BYTES = 19
_COMPARED = re.compile(
    r"\b(?:for|as a|in|by way of) comparison\b|\blast (?:week|month|year)\b|\bother (?:model|machine|host)\b"
    r"|\b(?:incident|ticket|case|log|run|launch|attempt)s? (?:of|from) (?:last|another|an older)\b"
    r"|\b(?:on|from) another (?:machine|node|host|cluster|box)\b|\bzum Vergleich\b"
    r"|\b(?:working|good|healthy) (?:run|launch|log|node|machine|host)\b",
    re.IGNORECASE,
)
"""What is said before an output of another machine, launch or time."""
_SHORT_TOOLS = re.compile(
    r"\b(?:py-?spy(?: dump| top)?|nvidia-smi|rocm-smi|amd-smi|npu-smi|dmesg|strace|lslocks|lsof|ss|netstat|ps|top|free|df|du|"
    r"gdb|pstack|curl|kubectl \w+|docker \w+|journalctl|lspci|ip|mount|ray status|wchan|smaps|meminfo|vmstat|iostat|"
    r"/proc/\S+|ncclras|faulthandler|env|ulimit|squeue|sinfo|events?|metrics)\b",
    re.IGNORECASE,
)
FILE = re.compile(
    r"(?<![\w/.-])(?:[\w~./-]*/)?([\w-][\w.+-]*\.(?:txt|log|out|err|csv|json|jsonl|sh|prom|tsv)(?:\.\d+)?)(?![\w/-])"
)
_OF_RANK = re.compile(r"(?:^\W*|\b(?:of|for|from|on)\s+(?:the )?)(?:global )?rank ?#?(\d{1,5})\b", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!`)`++([^`\n]+)`+|\*\*([^*\n]+)\*\*|<code>([^<\n]+)</code>")
_PROC = re.compile(r"/(?:proc|sys)/\S{0,200}?([\w.]{1,100})(?=[\s;|)\"']|$)")
_CLOCK = re.compile(r"(?<! ) {3,}\d\d:\d\d(?::\d\d)?(?: [AP]M)?$")
"""What a prompt shows at the right edge of its line."""
_WRAPPERS = frozenset("sudo time watch timeout nice nohup exec env stdbuf ssh docker kubectl -i -it".split())
_FAR = frozenset(("ssh", "docker"))
"""What names a host or a container, with options before it, ahead of the command that is run there."""
_LOG_VALUES = frozenset(
    """
    -c --container -n --namespace --tail --since --since-time --until -l --selector -o --output -u --unit --lines --context
    --limit-bytes
    """.split()
)
"""Options of `kubectl logs`, `docker logs` and journalctl that take a value."""
_SHOWS = {"cat", "tail", "head", "less", "more", "bat", "zcat", "type", "Get-Content"}


class Said(NamedTuple):
    """What an announcement says: a name as a file would bear it, the command if there is one."""

    name: str
    command: str


def read(text: str) -> Said:
    """Take an announcement apart.

    Examples
    --------
    >>> read("$ cat /proc/7/wchan")
    Said(name='wchan', command='cat /proc/7/wchan')
    >>> read("30 s later, output of `ls -l /proc/86/fd`:").name, read("## nvidia-smi while it hangs").name
    ('fd', 'nvidia-smi')
    >>> read("py-spy of rank 3:").name, read("The stacks for rank 0 and for rank 3:").name
    ('py-spy-rank3', 'stack')
    >>> read("stat.t1.txt:"), read("Thanks for reading")
    (Said(name='stat.t1.txt', command=''), Said(name='', command=''))
    """
    text = _CLOCK.sub("", text.strip())
    if text.startswith("$ "):
        return Said(name_of(text[2:]), text[2:].strip())
    quoted = _QUOTED.search(text)
    inner = next((part for part in quoted.groups() if part), "") if quoted else ""
    if inner and (re.match(rf"(?:{TOOLS})\b", inner) or " " in inner and _SHORT_TOOLS.match(inner)):
        return Said(name_of(inner), inner.strip())
    plain = re.sub(r"^(?:[#>*=\s-]|\d+[.)] )+|(?<![:*=\s-])[:*=\s-]+$", "", text)
    if not quoted and re.match(rf"(?:sudo )?(?:{TOOLS})(?: +[-/\w.]|$)", plain) and len(plain.split()) <= 12:
        looks_typed = re.search(r" -|/|\|", plain) or plain in TOOLS.split("|")
        if looks_typed:
            return Said(name_of(plain), plain)
    file = FILE.search(inner or text)
    if file:
        return Said(file[1], "")
    tool = _SHORT_TOOLS.search(inner or text)
    name = tool[0].rsplit("/", 1)[-1].replace(" ", "-") if tool else ""
    name = name or (found[0] if (found := re.search(r"\b(?:log|stack)", text, re.IGNORECASE)) else "")
    return Said("-".join([name.lower() if name else "", *_rank(text)]).strip("-"), "")


def _rank(text: str) -> list[str]:
    """The one rank whose output is announced."""
    ranks = set(_OF_RANK.findall(text))
    return [f"rank{rank}" for rank in ranks] if len(ranks) == 1 else []


def shows(command: str) -> bool:
    """Whether a command prints what was written before: its lines are older than the time at which they were printed.

    Examples
    --------
    >>> shows("sudo tail -n 50 /var/log/server.log"), shows("vllm serve m"), shows("kubectl logs -p llm-0")
    (True, False, True)
    """
    words = [word.rsplit("/", 1)[-1] for word in re.split("[|;]", command)[0].split()]
    return bool({"logs", "journalctl", "dmesg", "grep", *_SHOWS} & set(words))


def typed(line: str) -> Said | None:
    """What a line says that is a whole command of a tool, as somebody typed it.

    Examples
    --------
    >>> typed("ps aux | grep serve"), typed("top - 10:22:05 up 17:41,  1 user"), typed("ps: no such thing")
    (Said(name='ps', command='ps aux | grep serve'), None, None)
    """
    found = re.fullmatch(rf"(?:sudo )?(?!python|for|while|docker|ray|time|date)(?:{TOOLS})(?: [^\n:\\]{{1,90}})?\s*", line)
    said = read(line) if found else None
    return said if said and said.command else None


def closes(line: str, fence: str) -> bool:
    """Whether a line closes a fence: as long at least, of the same sign, and nothing behind it.

    Examples
    --------
    >>> closes("```", "```console"), closes("```", "````")
    (True, False)
    """
    text = line.strip(" >")
    if fence[0] in "`~":
        run = len(fence) - len(fence.lstrip(fence[0]))
        return text.startswith(fence[0] * run) and not text.strip(fence[0]).strip()
    if fence.startswith(("<", "[", "#")):
        return text.startswith(("</pre", "[/code", "#+end"))
    return re.split("[}:]", text)[0] == re.split("[}:]", fence)[0]


def name_of(command: str) -> str:
    """Name that a file with a command's output would bear.

    Examples
    --------
    >>> name_of("sudo timeout 5 strace -f -p 7"), name_of("tail -n 50 /var/log/server.log"), name_of("docker logs -t vllm-1")
    ('strace', 'server.log', 'vllm-1.log')
    >>> name_of("kubectl -n x logs pod-7 -c main --tail 20"), name_of("journalctl -u serve -n 50 --no-pager")
    ('pod-7-main.log', 'serve.log')
    >>> name_of("kubectl logs -p llm-0")
    'llm-0-previous.log'
    >>> name_of("ssh -p 22 gpu7 cat a.log"), name_of("kubectl exec -it llm-0 -- ps aux"), name_of("docker exec llm nvidia-smi")
    ('a.log', 'ps', 'nvidia-smi')
    >>> name_of("for p in 7 8; do cat /proc/$p/io; done"), name_of("kubectl get events -n x"), name_of("ps aux | grep vllm")
    ('io', 'events', 'ps')
    """
    words = command.replace("'", " ").replace('"', " ").split("|")[0].split()
    logs = next((at for at, word in enumerate(words) if word == "logs"), None)
    if logs is not None or words[:1] == ["journalctl"]:
        given = words[(logs or 0) + 1 :]
        pairs = list(zip(["", *given], given, strict=False))
        plain = [word for before, word in pairs if not word.startswith("-") and before not in _LOG_VALUES]
        part = [word for before, word in pairs if before in ("-c", "--container", "-u", "--unit")]
        part += ["previous"] if {"-p", "--previous"} & {*given} and words[0] in ("kubectl", "oc") else []
        return "-".join([word.rsplit("/", 1)[-1] for word in plain[:1] + part] or ["journal"]) + ".log"
    if "get" in words[:4] and words[0] == "kubectl" or "describe" in words[:4]:
        return next(
            (word for word in words[words.index("get" if "get" in words else "describe") + 1 :] if word[0] != "-"), "kubectl"
        )
    words = words[words.index("--") + 1 :] if "--" in words[2:-1] else words  # kubectl exec POD -- cat FILE
    proc = _PROC.search(command)
    if proc:
        return proc[1]
    while words and (words[0] in _WRAPPERS or "=" in words[0] or words[0].isdecimal()):
        far = words.pop(0) in _FAR
        words = words[next((at for at, word in enumerate(words) if word in _TOOLS), 0) if far else 0 :]
    if not words:
        return ""
    program = words[0].rsplit("/", 1)[-1]
    files = [word for word in words[1:] if not word.startswith("-") and not word.isdecimal()]
    if program in _SHOWS and files:
        return files[-1].rsplit("/", 1)[-1]
    return program


def at_once(file: BinaryIO, *lines: int) -> bool:
    """Whether lines of a job's log, by their offsets, have stamps of one moment: what stands between was listed, not printed.

    Examples
    --------
    >>> import io
    >>> log = io.BytesIO(b"2026-11-11T11:11:59.9Z ##[group]Run x\\n2026-11-11T11:12:01.0Z ##[endgroup]\\n")
    >>> at_once(log, 0, 0), at_once(log, 0, 38)
    (True, False)
    """
    seconds = set()
    for begin in lines:
        file.seek(begin)
        if stamp := _CLOCKED.match(file.read(_STAMP_BYTES)):
            seconds.add(3600 * int(stamp[1]) + 60 * int(stamp[2]) + int(stamp[3]))
    return not seconds or max(seconds) - min(seconds) <= 1


def compares(before: str) -> bool:
    """Whether the last paragraph of what stands before the inside of a fence says that this is there for comparison.

    Examples
    --------
    >>> compares("The log of last week, for comparison:" + chr(10) + "```" + chr(10)), compares("It hangs since last Monday:")
    (True, False)
    """
    paragraphs = [text for text in re.split(r"(?m)^[ >]*(?:```|~~~).*$|\n\s*\n", before) if text.strip()]
    return bool(paragraphs) and _COMPARED.search(paragraphs[-1]) is not None
