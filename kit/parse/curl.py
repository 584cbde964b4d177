"""curl transcripts: what an observer asked of the server and what came back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from kit.intake.announce import EXIT_CODE
from kit.parse.base import Report, Rows, Source
from kit.parse.records import ANSI
from kit.parse.snapshot import PROMPT, only_failures
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row
from kit.untrusted import load_json

BODY_CHARS = 2000
KILLED_BY_TIMEOUT = (124, 137, 143)
"""Exit codes of timeout(1), which ended curl: 124, or the signal that it sent."""
GAVE_UP = 130
"""What a shell gives for Ctrl-C."""
ERRORS = {5: "resolve", 6: "resolve", 7: "connection refused", 28: "timeout", 52: "empty reply", 55: "reset", 56: "reset"}
"""curl's exit codes (man curl) by the error names of the frame; all others are `other`."""
TAKES_VALUE = set("XdmwoHubAeFTxEKCcrQyYzt")
"""Short options of curl that take a value, as far as probes use them."""
LONG_WITH_VALUE = frozenset(TOOL_WORDS["curl"]["takes_value"])
PURPOSES = [(purpose, re.compile(pattern)) for purpose, pattern in TOOL_WORDS["curl"]["purposes"].items()]
_BEFORE = r"(?:(?:sudo|time|timeout \S+)\s+)*"
_INSIDE = r"(?:(?:kubectl|oc|docker|podman|nerdctl|crictl)\b[^|;&]{0,99}? exec [^|;&]{0,99}?\s)?"
_COMMAND = re.compile(rf"^\s*(?:\S*[$#%>] ?)?{_BEFORE}{_INSIDE}{_BEFORE}(?P<command>curl\s+(?!: ).*)$")
_TIME = re.compile(r"(?:^|\n)[ \t\r]*real\s+(?P<minutes>\d+)m(?P<seconds>[\d.,]+)s(?:\s+user\s+\S+)?(?:\s+sys\s+\S+)?\s{0,40}$")
_LIMIT = re.compile(r"\s(?:-m|--max-time)[ =]?(\d+(?:\.\d+)?)\b")
_ECHO = re.compile(r"(?:;|&&|\|\|)\s*echo ['\"]?(?P<before>[^'\"$;|&]*)\$(?:\?|\{\?\})['\"]?\s*$")
_FAILED = re.compile(r"^\s*curl: \((?P<code>\d+)\) (?P<text>.*)$")
_STATUS = re.compile(r"^(?:< )?HTTP/[\d.]+ (?P<status>\d{3})\b")
_METER = re.compile(r"^[\s\r]*(?:% Total\s+%|Dload\s+Upload|(?:\d{1,20}\s+[\d.]{1,20}[kMG]?\s+){2}\d{1,20}\s+\d.*?(?:--|\d):)")
_HEADER = re.compile(
    r"^(?:date|server|content-\w+|transfer-encoding|connection|access-control-[\w-]+|x-[\w-]+|vary|allow|"
    r"keep-alive): ",
    re.IGNORECASE,
)
_REQUEST = re.compile(r"^> (?P<method>GET|POST|HEAD|PUT|OPTIONS) (?P<path>\S+) HTTP/")
_TEXT_KEYS = {"text", "content", "generated_text", "reasoning_content", "output_text", "response"}


@dataclass
class Probe:
    """One command and its output, as it is gathered."""

    line: int
    command: str | None = None
    method: str | None = None
    url: str | None = None
    template: str | None = None
    status: int | None = None
    code: int | None = None
    message: str = ""
    body: list[str] = field(default_factory=list)
    to_file: bool = False
    asked: bool = False  # a command after it asks for its exit code

    @property
    def empty(self) -> bool:
        return (
            self.command is None
            and self.status is None
            and self.code is None
            and self.url is None
            and not any(map(str.strip, self.body))
        )


def parse_curl(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read a transcript of curl commands: a row a request.

    The status comes from a status line, from `%{http_code}`, from an error body that names it, and is 200 where a body
    came back that says no error. An empty answer to a silent curl proves nothing: its status stays missing.

    Examples
    --------
    >>> sample = ["$ curl -s -m 9 http://localhost:8000/health",
    ...     "curl: (7) Failed to connect to localhost port 8000: Connection refused"]
    >>> [(row["port"], row["purpose"], row["error"]) for _, row in parse_curl(sample, Source("curl.txt"), Report())]
    [(8000, 'health', 'connection refused')]
    """
    probe, foreign, open_command = Probe(1), False, None
    for number, line in enumerate(lines, 1):
        report.lines += 1
        text = ANSI.sub("", line).rstrip("\r\n")
        if open_command is not None:
            open_command = f"{open_command[:-1]} {text.lstrip('> ').strip()}"
            text = open_command
        command, prompt = _COMMAND.match(text), PROMPT.match(text)
        if (command or open_command is not None) and text.endswith("\\"):
            open_command = text
            continue
        open_command = None
        if prompt and probe.command and not foreign and EXIT_CODE.match(prompt["command"]):
            probe.asked = True
        elif probe.asked and text.strip().isdecimal():
            probe.code, foreign = int(text) or None, True  # and what follows is somebody's word
        elif command or prompt:
            yield from _give(probe, report)
            probe, foreign = Probe(number), command is None and "curl" not in text
            if command or not foreign:
                read_command(command["command"] if command else text[text.index("curl") :], probe)
        elif foreign:
            if text.strip():
                report.odd("output of a command that is not curl", text)
        else:
            if probe.empty:
                probe.line = number
            if probe.code is not None and probe.command is None and (_FAILED.match(text) or _STATUS.match(text)):
                yield from _give(probe, report)
                probe = Probe(number)
            _take(text, probe)
    yield from _give(probe, report)


def read_command(text: str, probe: Probe) -> None:
    """Take method, address and output template from a curl command.

    Examples
    --------
    >>> probe = Probe(1)
    >>> read_command("curl -sw '%{http_code}' -X POST localhost:30000/generate -d '{}' | jq .", probe)
    >>> probe.method, probe.url, probe.template
    ('POST', 'localhost:30000/generate', '%{http_code}')
    """
    probe.command = text.strip()
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    method, has_data, at = None, False, 1
    while at < len(words):
        word = words[at]
        at += 1
        if word in ("|", "||", "&&", ";", ">", ">>", "2>", "2>&1", "&") or re.match(r"^\d?>", word):
            break
        option = value = None
        if word.startswith("--"):
            option, given, value = word.partition("=")
            if not given and option in LONG_WITH_VALUE and at < len(words):
                value, at = words[at], at + 1
        elif word.startswith("-") and len(word) > 1:
            place = next((place for place, letter in enumerate(word[1:], 1) if letter in TAKES_VALUE), None)
            option = "-" + (word[place] if place else word[1:])
            if place is not None:
                value = word[place + 1 :]
                if not value and at < len(words):
                    value, at = words[at], at + 1
        if option is None or option == "--url":
            probe.url = probe.url or (value or word).rstrip(";")
            continue
        method = (
            value
            if option in ("-X", "--request")
            else "HEAD"
            if option in ("-I", "--head") or "I" in word[1:3] and not value
            else method
        )
        has_data = has_data or option in ("-d", "-F", "--json", "--form") or option.startswith("--data")
        probe.template = value if option in ("-w", "--write-out") else probe.template
        probe.to_file = probe.to_file or option in ("-o", "--output")
    probe.method = method or ("POST" if has_data else "GET")


def _take(text: str, probe: Probe) -> None:
    """Take one line of output."""
    failed, status, request = _FAILED.match(text), _STATUS.match(text), _REQUEST.match(text)
    if failed:
        probe.code, probe.message = int(failed["code"]), failed["text"]
        port = re.search(r"(?:to|connect to) (?P<host>[\w.:\[\]-]+?),? port (?P<port>\d+)", failed["text"])
        if port and probe.url is None:
            probe.url = f"http://{port['host']}:{port['port']}"
    elif status:
        probe.status = int(status["status"])
    elif request:
        probe.method = probe.method or request["method"]
        if probe.command is None:
            base = re.match(r"^(https?://[^/]+)", probe.url or "")
            probe.url = (base.group(1) if base else "http://localhost") + request["path"]
    elif re.match(r"^[*<>{}] ", text) or text in ("<", ">", "*") or re.match(r"^[{}] \[\d+ bytes", text):
        port = re.match(
            r"^\* (?:Connected to|connect to) (?P<host>\S+) .*?port (?P<port>\d+)|"
            r"^\*\s+Trying \[?(?P<h2>[^\]\s]+?)\]?:(?P<p2>\d+)\.\.\.",
            text,
        )
        if port and probe.command is None:
            path = re.sub(r"^https?://[^/]+", "", probe.url or "")
            probe.url = f"http://{port['host'] or port['h2']}:{port['port'] or port['p2']}{path}"
        if text.endswith("onnection refused"):  # at one address; at another of the same host it may be taken
            probe.code, probe.message = 7, text
        elif re.match(r"\* (?:Connected to|Established connection)", text):
            probe.code, probe.message = None, ""
    elif not _METER.match(text) and not (probe.status is not None and _HEADER.match(text)):
        probe.body.append(text)


def _give(probe: Probe, report: Report) -> Rows:
    if probe.empty:
        return
    body = "\n".join(probe.body).strip()
    row: Row = {
        "line": probe.line,
        "command": probe.command,
        "method": probe.method,
        "url": probe.url,
        "http_status": probe.status,
        "error_code": probe.code,
    }
    row |= _address(probe.url)
    body = _timed(body, row)
    body = _template(probe, body, row)
    body = _exit_code(probe, body)
    row["error_code"] = probe.code
    if probe.code is not None:
        row["error"] = _error(probe.code, probe.message)
        took = re.search(r"after (\d+) (?:ms|milliseconds)", probe.message)
        row["duration_s"] = row.get("duration_s") or (int(took.group(1)) / 1000 if took else None)
    elif row["http_status"] is None and body:
        row["http_status"] = status_of_body(body)
    elif row["http_status"] is None and _waited(probe, row):
        row["error"] = "timeout"
    good = row["http_status"] is not None and row["http_status"] < 400
    if row["purpose"] == "generate" and body and good and not probe.to_file:
        row["tokens"] = tokens_of(body)
    row["body"] = body[:BODY_CHARS] or None
    report.records += 1
    yield "probes", row


def _timed(body: str, row: Row) -> str:
    """Take what the shell's `time` printed off the end of the body."""
    found = _TIME.search(body)
    if not found:
        return body
    row["duration_s"] = int(found["minutes"]) * 60 + float(found["seconds"].replace(",", "."))
    return body[: found.start()].strip()


def _waited(probe: Probe, row: Row) -> bool:
    """Whether a curl took as long as its limit allowed: with `-s` nothing else says that it gave up."""
    limit = _LIMIT.search(probe.command or "")
    return limit is not None and (row.get("duration_s") or 0) >= float(limit[1])


def _exit_code(probe: Probe, body: str) -> str:
    """Take what `; echo $?` printed off the end of the body: a silent curl tells its failure by nothing else."""
    head, _, last = body.rpartition("\n")
    asked = _ECHO.search(probe.command or "") if probe.code is None else None
    code = last.strip().removeprefix(asked["before"].strip()).strip() if asked else ""
    if code.isdecimal():
        probe.code = int(code) or None
        return head.strip()
    if last.strip() == "^C":
        probe.code, probe.message = probe.code or GAVE_UP, probe.message or "no answer until somebody gave up: timeout"
        return head.strip()
    return body


def _template(probe: Probe, body: str, row: Row) -> str:
    """Take what `-w` printed off the end of the body."""
    pattern = r"(?P<http_code>\d{3})"
    if probe.template and "%{" in probe.template:
        pieces = re.split(r"(%\{\w+\})", probe.template.replace("\\n", "\n").replace("\\t", "\t"))
        seen: set[str] = set()
        pattern = ""
        for piece in pieces:
            name = piece[2:-1].replace("response_code", "http_code")
            if piece.startswith("%{"):
                known = name in ("http_code", "time_total") and name not in seen
                pattern += f"(?P<{name}>{'[0-9]{3}' if name == 'http_code' else '[0-9.]+'})" if known else r"[^\s]*?"
                seen.add(name)
            else:
                pattern += r"\s*".join(re.escape(part) for part in re.split(r"\s+", piece))
    elif probe.command is not None and probe.template is None:
        return body
    found = re.search(rf"(?:^|(?<=\D)|(?<=\n)){pattern}\s*$", body)
    if found is None and probe.to_file:  # nothing else is printed: what follows is somebody's word
        found = re.match(rf"{pattern}\s*(?:\n|$)", body)
    if not found or (probe.template is None and found.start() and body[found.start() - 1] != "\n"):
        return body
    got = found.groupdict()
    code = int(got.get("http_code") or 0)
    if 100 <= code < 600:
        row["http_status"] = code
    elif got.get("http_code") == "000" and probe.code is None:
        row["error"] = "timeout" if _waited(probe, row) else "other"
    if got.get("time_total"):
        row["duration_s"] = float(got["time_total"])
    return body[: found.start()].strip()


def _address(url: str | None) -> Row:
    if not url:
        return {"purpose": "other"}
    found = re.match(
        r"^(?:(?P<scheme>https?)://)?(?:[^@/]*@)?(?P<host>\[[^\]]*\]|[^:/?#]*)(?::(?P<port>\d+))?(?P<path>/[^?#]*)?", url
    )
    path = (found["path"] or "/") if found else "/"
    port = int(found["port"]) if found and found["port"] else 443 if found and found["scheme"] == "https" else 80
    return {"port": port, "path": path, "purpose": purpose(path)}


def purpose(path: str) -> str:
    """What a request to a path asks for: `generate`, `health`, `models`, `metrics`, `info`, `other`.

    Examples
    --------
    >>> purpose("/v1/chat/completions"), purpose("/health/"), purpose("/docs")
    ('generate', 'health', 'other')
    """
    trimmed = path.rstrip("/") or "/"
    return next((name for name, pattern in PURPOSES if pattern.search(trimmed)), "other")


def _error(code: int, message: str) -> str:
    if code in KILLED_BY_TIMEOUT or re.search(r"timed out|timeout", message, re.IGNORECASE):
        return "timeout"
    if re.search(r"reset by peer", message, re.IGNORECASE):
        return "reset"
    if code == 7 and re.search(r"No route|unreachable", message):
        return "other"
    return ERRORS.get(code, "other")


def status_of_body(body: str) -> int | None:
    """Guess the status that a body without a status line came with; None where it could be any.

    Examples
    --------
    >>> status_of_body('{"object":"list","data":[]}'), status_of_body('{"error":{"message":"Loading model","code":503}}')
    (200, 503)
    >>> status_of_body('{"detail":"Not Found"}'), status_of_body("Internal Server Error"), status_of_body('{"error":"overloaded"}'
    ...     )
    (404, 500, None)
    """
    names = {
        "not found": 404,
        "method not allowed": 405,
        "unauthorized": 401,
        "forbidden": 403,
        "service unavailable": 503,
        "internal server error": 500,
        "bad gateway": 502,
        "gateway timeout": 504,
        "loading model": 503,
    }
    plain = body.strip().strip('"').lower()
    page = re.search(r"<title>\s*(\d{3})\b", body)
    if page:
        return int(page.group(1))
    if plain in names:
        return names[plain]
    data = _json(body)
    if isinstance(data, dict):
        error = data.get("error") if isinstance(data.get("error"), dict) else data
        code = error.get("code", error.get("status_code"))
        if isinstance(code, int) and 400 <= code < 600:
            return code
        told = next(
            (
                value
                for value in (
                    data.get("detail"),
                    data.get("error"),
                    data.get("message"),
                    error.get("message"),
                    data.get("status"),
                )
                if isinstance(value, str)
            ),
            "",
        )
        if told.lower() in names:
            return names[told.lower()]
        wrong = "error" in data and data["error"] or "detail" in data or data.get("object") == "error"
        return None if wrong else 200
    if isinstance(data, (dict, list)) or re.match(r"^data: |^[{\[]|^# (?:HELP|TYPE) |^[a-z_]+:\w+", body):
        return None if re.match(r'^\{"(?:error|detail)"', body) else 200
    return 200 if plain in ("ok", "healthy", "pong", "alive") else None


def tokens_of(body: str) -> int | None:
    """Count what a generate answer held: completion tokens, else pieces of a stream, else 1 for any text and 0 for none.

    Examples
    --------
    >>> tokens_of('{"choices":[{"text":"!"}]}'), tokens_of('{"text":"","meta_info":{"completion_tokens":0}}'), tokens_of("{}")
    (1, 0, None)
    """
    streamed = [part for part in (_json(line[6:]) for line in body.splitlines() if line.startswith("data: ")) if part is not None]
    answers = streamed or [data for data in [_json(body)] if data is not None]
    counts = [
        found
        for data in answers
        for found in _find(data, {"completion_tokens", "generated_tokens", "tokens_predicted"})
        if isinstance(found, int)
    ]
    if counts:
        return max(counts)
    texts = [found for data in answers for found in _find(data, _TEXT_KEYS) if isinstance(found, str)]
    if not answers:
        texts = re.findall(r'"(?:text|content|generated_text)":\s*"([^"]*)', body)
    if not texts:
        return None
    return sum(1 for text in texts if text) if streamed else int(any(texts))


def _find(data: object, keys: set[str]) -> list[object]:
    """All values under the keys, at any depth."""
    if isinstance(data, dict):
        return [value for key, value in data.items() if key in keys] + [
            found for value in data.values() for found in _find(value, keys)
        ]
    return [found for value in data for found in _find(value, keys)] if isinstance(data, list) else []


def _json(text: str) -> object | None:
    try:
        return load_json(text)
    except ValueError:
        return None


def is_curl(head: str) -> float:
    """Score of a head as a transcript of curl."""
    lines = [line for line in head.splitlines()[:200] if line.strip() and not _METER.match(line)]
    for place, line in enumerate(lines):
        if (_COMMAND.match(line) and re.search(r"curl\s+(?:-|'|\"|http|localhost|[\w.-]+:\d+|\$)", line)) or _FAILED.match(line):
            return 0.96 if place < 3 else 0.5
    if lines and (_STATUS.match(lines[0]) or any(_REQUEST.match(line) or re.match(r"^\*\s+Trying \S", line) for line in lines)):
        return 0.9
    first = lines[0].strip() if lines else ""
    answer = re.search(r'^(?:\{|data: ).*"(?:object|text|choices|detail|error|status)"', first)
    if answer or re.fullmatch(r"[1-5]\d\d|000", first):
        return 0.1
    return only_failures(head, "curl")
