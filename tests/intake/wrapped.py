"""Forms in which people hand evidence over: each makes files of the files of a case. `TIMES` says when lines were written."""

from __future__ import annotations

import base64
import html
import io
import json
import quopri
import re
import textwrap
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Files = dict[str, str]
Wrapped = dict[str, str | bytes]
COMMANDS = {
    "du.t0.txt": "du -s /models", "du.t1.txt": "du -s /models", "fd.txt": "ls -l /proc/77/fd", "wchan.txt": "cat /proc/77/wchan",
    "dmesg.txt": "dmesg -T | tail", "lspci.txt": "lspci -vv", "pyspy.txt": "py-spy dump --pid 77",
    "strace.txt": "strace -f -p 77",
    "nvidia-smi.csv": "nvidia-smi --query-gpu=index --format=csv", "status.txt": "cat /proc/77/status",
    "ray-status.txt": "ray status",
}  # fmt: skip
TIMES: list[datetime] = []
RULE = "=" * 20


def when(n: int) -> datetime:
    return TIMES[min(n, len(TIMES) - 1)]


def iso(n: int, digits: int = 9) -> str:
    return f"{when(n):%Y-%m-%dT%H:%M:%S}.{0:0{digits}}Z"


def epoch(n: int, unit: int) -> int:
    return int(when(n).timestamp()) * unit


def lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def indent(text: str, by: str) -> str:
    return "".join(f"{by}{line}\n" for line in lines(text))


def said(name: str) -> str:
    return COMMANDS.get(name, f"cat {name}")


def each_line(change: Callable[[int, str], str]) -> Callable[[Files], Files]:
    """The lines of the log changed."""
    return of_log(lambda text: "".join(change(n, line) + "\n" for n, line in enumerate(lines(text))))


def of_log(change: Callable[[str], str], suffix: str = ".log") -> Callable[[Files], Files]:
    return lambda files: {
        name.replace(".log", suffix): change(text) if name.endswith(".log") else text for name, text in files.items()
    }


def each(change: Callable[[str], str]) -> Callable[[Files], Files]:
    return lambda files: {name: change(text) for name, text in files.items()}


def records(make: Callable[[int, str], dict], whole: Callable[[list], object]) -> Callable[[Files], Files]:
    return of_log(lambda text: json.dumps(whole([make(n, line) for n, line in enumerate(lines(text))])))


def table(head: str, row: Callable[[int, str], str]) -> Callable[[Files], Files]:
    return of_log(lambda text: head + "".join(row(n, line.replace('"', '""')) for n, line in enumerate(lines(text))), ".csv")


def blocks(
    name: str, block: Callable[[str, str], str], before: str = "It hangs.\n\n", after: str = ""
) -> Callable[[Files], Files]:
    """All files in one text, each in a block."""
    return lambda files: {name: before + "".join(block(name, text) for name, text in files.items()) + after}


def prompts(files: Files) -> str:
    return "".join(f"u@gpu:~$ {said(name)}\n" + indent(text, "") for name, text in files.items())


def terminal(name: str, change: Callable[[str], str]) -> Callable[[Files], Files]:
    return lambda files: {name: change(prompts(files))}


def fenced(mark: str, language: str = "") -> Callable[[str, str], str]:
    return lambda name, text: f"`{name}`:\n\n{mark}{language}\n{indent(text, '')}{mark}\n\n"


def cut(width: int) -> Callable[[str], str]:
    return lambda text: "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(len(line), 1), width))


def mailed(width: int) -> Callable[[int, str], str]:
    return lambda _, line: "\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)) or line


def typed(text: str) -> str:
    return re.sub(r"'([^'\n]*)'", "\u2018\\1\u2019", re.sub(r'"([^"\n]*)"', "\u201c\\1\u201d", text)).replace("...", "\u2026")


def mail(encoding: str, encode: Callable[[bytes], bytes]) -> Callable[[Files], Files]:
    head = 'From: a@example.org\nSubject: hang\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="=_7"\n\n'
    return blocks(
        "mail.eml",
        lambda name, text: (
            f'--=_7\nContent-Type: text/plain; charset=utf-8\nContent-Disposition: attachment; filename="{name}"\n'
            f"Content-Transfer-Encoding: {encoding}\n\n{encode(text.encode()).decode()}\n"
        ),
        f"{head}--=_7\nContent-Type: text/plain\n\nIt hangs.\n\n",
        "--=_7--\n",
    )


def cast(head: str) -> Callable[[str], str]:
    def shown(text: str) -> str:
        text = text.replace("\n", "\r\n")
        return head + "".join(json.dumps([0.1, "o", text[at : at + 700]]) + "\n" for at in range(0, len(text), 700))

    return shown


def typescript(text: str) -> str:
    prompt = "\x1b[?2004h\x1b]0;u@gpu: ~\x07\x1b[01;32mu@gpu\x1b[00m:\x1b[01;34m~\x1b[00m$ "
    return "Script started on 2026-03-01\n" + text.replace("u@gpu:~$ ", prompt).replace("\n", "\r\n")


def pages(text: str) -> str:
    rows = text.split("\n")
    parts = ["\n".join(rows[at : at + 50]) for at in range(0, len(rows), 50)]
    return "\f".join(f"Incident report\n\n{part}\n\nPage {number} of {len(parts)}\n" for number, part in enumerate(parts, 1))


def exported(n: int, line: str) -> str:
    return f"__REALTIME_TIMESTAMP={epoch(n, 10**6)}\n_HOSTNAME=gpu1\nSYSLOG_IDENTIFIER=serve\n_PID=77\nMESSAGE={line}\n"


def captured(files: Files) -> Files:
    """What pytest shows of a test that failed."""
    out = "".join(f"{'-' * 29} Captured {name} {'-' * 29}\n{indent(text, '')}" for name, text in files.items())
    return {
        "ci.log": f"{RULE} FAILURES {RULE}\n__ test_serve __\n\nE       assert False\n{out}{RULE} short test summary {RULE}\n"
    }


def loki(rows: list) -> dict:
    values = [[str(epoch(n, 10**9) + n), row["line"]] for n, row in enumerate(rows)]
    return {
        "status": "success",
        "data": {"resultType": "streams", "result": [{"stream": {"job": "serve"}, "values": values[::-1]}]},
    }


def job(command: Callable[[str], list[str]], line: str = "{}") -> Callable[[Files], Files]:
    """A job's log: what it ran, what came back, each line behind the time at which it came."""
    return lambda files: {
        "job.txt": "".join(
            line.format(row) + "\n" for name, text in files.items() for row in [*command(said(name)), *lines(text)]
        )
    }


def actions(command: str) -> list[str]:
    return [f"##[group]Run {command}", f"\x1b[36;1m{command}\x1b[0m", "shell: /usr/bin/bash -e {0}", "##[endgroup]"]


LATER = "2026-11-11T11:11:11.0000000Z"


def zipped(files: Wrapped) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def escaped(text: str) -> str:
    return html.escape(re.sub(r"[\x00-\x08\x0b-\x1f]", " ", text), quote=False)


def paragraphs(files: Files) -> list[str]:
    return [line for name, text in files.items() for line in [f"{name}:", *lines(text), ""]]


def word(files: Files) -> Wrapped:
    body = "".join(f'<w:p><w:r><w:t xml:space="preserve">{escaped(row)}</w:t></w:r></w:p>' for row in paragraphs(files))
    return {"a.docx": zipped({"word/document.xml": f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>'})}


def writer(files: Files) -> Wrapped:
    rows = [re.sub(" {2,}", lambda run: f' <t:s t:c="{len(run[0]) - 1}"/>', escaped(row)) for row in paragraphs(files)]
    body = "".join(f"<t:p>{row.replace(chr(9), '<t:tab/>')}</t:p>" for row in rows)
    return {"a.odt": zipped({"mimetype": "application/vnd.oasis", "content.xml": f'<o:x xmlns:o="o" xmlns:t="t">{body}</o:x>'})}


def rich_text(files: Files) -> Files:
    rows = [re.sub(r"([\\{}])", r"\\\1", row).replace("\t", "\\tab ") for row in paragraphs(files)]
    shown = "\\par\n".join("".join(sign if sign < "\x80" else f"\\u{ord(sign)}?" for sign in row) for row in rows)
    return {"a.rtf": "{\\rtf1\\ansi{\\fonttbl\\f0 Menlo;}\\f0 " + shown + "}"}


def sheet(files: Files) -> Wrapped:
    """An export to Excel: strings in a table of their own."""
    out: Wrapped = {}
    for name, text in files.items():
        if not name.endswith(".log"):
            out[name] = text
            continue
        cells = ["Date", "Message", *(cell for n, line in enumerate(lines(text)) for cell in (iso(n, 3), line))]
        strings = "".join(f"<si><t>{escaped(cell)}</t></si>" for cell in cells)
        rows = "".join(f'<row><c t="s"><v>{at}</v></c><c t="s"><v>{at + 1}</v></c></row>' for at in range(0, len(cells), 2))
        parts = {"workbook": "<w/>", "sharedStrings": f"<sst>{strings}</sst>", "worksheets/sheet1": f"<s>{rows}</s>"}
        out["export.xlsx"] = zipped({f"xl/{part}.xml": data for part, data in parts.items()})
    return out


def mailed_zip(files: Files) -> Files:
    data = base64.encodebytes(zipped(dict(files))).decode()
    return {
        "a.eml": "From: a@example.org\nSubject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
        f"Content-Type: text/plain\n\nIt hangs.\n\n--b\nContent-Type: application/zip\nContent-Transfer-Encoding: base64\n"
        f'Content-Disposition: attachment; filename="a.zip"\n\n{data}\n--b--\n'
    }


def otlp(rows: list) -> dict:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": rows}]}]}


POD = {"container": {"name": "server"}, "pod": {"name": "llm-0"}}
FORMS: dict[str, Callable[[Files], Wrapped]] = {
    "details": blocks("issue.md", lambda n, t: f"<details>\n<summary>{n}</summary>\n\n```text\n{t}\n```\n\n</details>\n\n"),
    "details, tabs": blocks(
        "a.md", lambda n, t: f"<details><summary>{n}</summary>\n\n\t```\n{indent(t, chr(9))}\t```\n\n</details>\n"
    ),
    "details, no fence": blocks("a.md", lambda n, t: f"<details>\n<summary>{n}</summary>\n\n{t}\n</details>\n\n", ""),
    "details, pre": blocks(
        "a.md", lambda n, t: f"<details>\n<summary>{n}</summary>\n<pre>\n{html.escape(t)}\n</pre></details>\n"
    ),
    "four backticks": blocks("issue.md", fenced("````")),
    "tildes": blocks("issue.md", fenced("~~~", "console")),
    "indented": blocks("issue.md", lambda n, t: f"`{n}`:\n\n{indent(t, '    ')}\n"),
    "quoted": blocks("mail.txt", lambda n, t: indent(fenced("```")(n, t), "> "), ""),
    "quoted twice": blocks("mail.txt", lambda n, t: indent(fenced("```")(n, t), "> > "), ""),
    "quoted in part": blocks("issue.md", lambda n, t: "As I said:\n\n" + indent(fenced("```")(n, t), "> ") + "\n"),
    "restructured text": blocks("a.rst", lambda n, t: f"{n}\n{'=' * len(n)}\n\n::\n\n{indent(t, '    ')}\n"),
    "org": blocks("report.org", lambda n, t: f"* {n}\n#+begin_example\n{indent(t, '')}#+end_example\n"),
    "BB code": blocks("post.txt", lambda n, t: f"{n}\n[code]\n{indent(t, '')}[/code]\n"),
    "page of GitHub": blocks(
        "a.html",
        lambda n, t: f"<p><code>{n}</code>:</p>\n<div class='highlight'><pre><code>{html.escape(t)}</code></pre></div>\n",
        "<!DOCTYPE html>\n<html><head><title>hang</title><script>var a=1;</script></head><body><p>It hangs.</p>\n",
        "</body></html>",
    ),
    "page of Discourse": blocks(
        "a.html",
        lambda n, t: f"<p>Output of <code>{said(n)}</code></p><pre><code class='lang-auto'>{html.escape(t)}</code></pre>",
        "<html><body><div class='cooked'>",
        "</div></body></html>",
    ),
    "page of Confluence": blocks(
        "a.html",
        lambda n, t: (
            f"<h2>{n}</h2><ac:structured-macro ac:name='code'><ac:plain-text-body><![CDATA[{t}]]>"
            "</ac:plain-text-body></ac:structured-macro>"
        ),
        "<p>It hangs</p>",
    ),
    "Slack": lambda files: {
        "channel.json": json.dumps(
            [
                {
                    "type": "message",
                    "user": "U1",
                    "ts": f"17724{k:05}.000100",
                    "text": f"{said(n)}\n```{html.escape(t, quote=False)}```",
                }
                for k, (n, t) in enumerate(files.items())
            ]
        )
    },
    "Teams": blocks("chat.txt", lambda n, t: f"[01.03.2026 12:07] Ann Lee: \n{said(n)}\n{t}\n"),
    "ticket": lambda files: {
        "ticket.json": json.dumps(
            {
                "ticket": {
                    "id": 35436,
                    "subject": "hang",
                    "comments": [
                        {"id": k, "body": fenced("```")(n, t), "html_body": "<p>x</p>"} for k, (n, t) in enumerate(files.items())
                    ],
                }
            }
        )
    },
    "Jira": blocks("ticket.txt", lambda n, t: f"h3. {n}\n{{code:title=x}}\n{indent(t, '')}{{code}}\n\n"),
    "Jira, noformat": blocks("ticket.txt", lambda n, t: f"h3. {n}\n{{noformat}}\n{indent(t, '')}{{noformat}}\n\n"),
    "headings": blocks("all.txt", lambda n, t: f"===== {n} =====\n{t}\n", ""),
    "tail of several": blocks("all.txt", lambda n, t: f"==> {n} <==\n{t}\n", ""),
    "diff": blocks(
        "new.diff",
        lambda n, t: f"diff --git a/{n} b/{n}\nnew file mode 100644\n--- /dev/null\n+++ b/{n}\n@@ -0,0 +1 @@\n" + indent(t, "+"),
        "",
    ),
    "quoted-printable": mail("quoted-printable", quopri.encodestring),
    "base64": mail("base64", base64.encodebytes),
    "prompts": terminal("term.txt", str),
    "root's prompt": terminal("term.txt", lambda text: text.replace("u@gpu:~$", "root@5f2a1b3c4d5e:/workspace#")),
    "PowerShell's prompt": terminal(
        "term.txt", lambda text: text.replace("u@gpu:~$", "PS C:\\Users\\Ann>").replace("\n", "\r\n")
    ),
    "word processor": terminal("doc.txt", lambda text: typed(text).replace(" ", "\u00a0")),
    **{f"terminal of {width}": terminal("term.txt", cut(width)) for width in (72, 80, 120, 132)},
    "tmux": terminal("pane.txt", lambda text: "".join(f"{row:200}\n" for row in cut(200)(text).split("\n"))),
    "typescript": terminal("typescript", typescript),
    "asciinema 2": terminal("a.cast", cast('{"version": 2, "width": 200, "height": 50}\n')),
    "asciinema 3": terminal("a.cast", cast('{"version":3,"term":{"cols":200,"rows":50}}\n')),
    "pages": terminal("incident.txt", pages),
    "pytest": captured,
    "log, cut at 80": each_line(lambda n, line: cut(80)(line)),
    "log, cut at 120": each_line(lambda n, line: cut(120)(line)),
    "log, mailed": each_line(mailed(72)),
    "CR LF": each(lambda text: text.replace("\n", "\r\n")),
    "cat -A": each(lambda t: "".join(f"{s}$\n" for s in lines(t.replace("\t", "^I").replace("\r", "^M")))),
    "kubectl --prefix": each_line(lambda n, line: f"[pod/llm-0/server] {line}"),
    "kubectl --timestamps": each_line(lambda n, line: f"{iso(n)} {line}"),
    "kubectl, both": each_line(lambda n, line: f"[pod/llm-0/server] {iso(n)} {line}"),
    "stern": each_line(lambda n, line: f"llm-6c9f7d9c4b-x2x7k server {line}"),
    "stern, JSON": each_line(lambda n, line: json.dumps({"message": line, "podName": "llm-0", "containerName": "server"})),
    "kail": each_line(lambda n, line: f"default/llm-6c9f7d9c4b-x2x7k[server]: {line}"),
    "compose": each_line(lambda n, line: f"llm-1  | {line}"),
    "compose -t": each_line(lambda n, line: f"llm-1  | {iso(n)} {line}"),
    "journal": each_line(lambda n, line: f"{when(n):%b %d %H:%M:%S} gpu1 serve[77]: {line}"),
    "journal, iso": each_line(lambda n, line: f"{iso(n)[:19]}+0000 gpu1 serve[77]: {line}"),
    "journal, export": each_line(exported),
    "Loki": records(lambda n, line: {"line": line}, loki),
    "logcli": each_line(lambda n, line: f'{iso(n)[:19]}Z {{container="server", pod="llm-0"}} {line}'),
    "Elasticsearch": records(
        lambda n, line: {"_source": {"@timestamp": iso(n, 3), "message": line, "kubernetes": POD}},
        lambda rows: {"took": 3, "hits": {"total": {"value": 9}, "hits": rows}},
    ),
    "Stackdriver": records(lambda n, line: {"textPayload": line, "timestamp": iso(n), "severity": "INFO"}, list),
    "CloudWatch": each_line(lambda n, line: json.dumps({"timestamp": epoch(n, 1000), "message": line, "logStreamName": "x"})),
    "CloudWatch, CSV": table("timestamp,message\n", lambda n, line: f'{epoch(n, 1000)},"{line}"\n'),
    "Datadog, CSV": table("Date,Host,Service,Message\n", lambda n, line: f'"{iso(n, 3)}",gpu1,llm,"{line}"\n'),
    "Kibana, CSV": table('"@timestamp",message\n', lambda n, line: f'"{when(n):%b %-d, %Y @ %H:%M:%S}.000","{line}"\n'),
    "NDJSON": of_log(lambda t: "".join(json.dumps({"time": iso(n), "msg": s}) + "\n" for n, s in enumerate(lines(t))), ".txt"),
    "GitHub Actions": each_line(lambda n, line: f"{iso(n, 7)} {line}"),
    "srun --label": each_line(lambda n, line: f"0: {line}"),
    "pdsh": each_line(lambda n, line: f"gpu-node-01: {line}"),
    "mpirun --tag-output": each_line(lambda n, line: f"[1,0]<stderr>:{line}"),
    "torchrun --tee": each_line(lambda n, line: f"[default0]:{line}"),
    "Ray": each_line(lambda n, line: f"\x1b[36m(ServeReplica:default:Llm pid=77, ip=10.0.0.7)\x1b[0m {line}"),
    "nl": each_line(lambda n, line: f"{n + 1:6}\t{line}"),
    "less -N": each_line(lambda n, line: f"{n + 1:7} {line}"),
    "grep -n": each_line(lambda n, line: f"{n + 1}:{line}"),
    "grep -Hn": each_line(lambda n, line: f"server.log:{n + 1}:{line}"),
    "AsciiDoc": blocks("a.adoc", lambda n, t: f".{n}\n[source,console]\n----\n{indent(t, '')}----\n\n"),
    "MediaWiki": blocks("a.wiki", lambda n, t: f'== {n} ==\n<syntaxhighlight lang="text">\n{indent(t, "")}</syntaxhighlight>\n'),
    "more": blocks("all.txt", lambda n, t: f"{':' * 14}\n{n}\n{':' * 14}\n{indent(t, '')}", ""),
    "YAML": blocks("a.yaml", lambda n, t: f"{n}: |\n{indent(t, '  ')}", ""),
    "gist": lambda files: {"gist.json": json.dumps({"files": {n: {"filename": n, "content": t} for n, t in files.items()}})},
    "Ansible": blocks(
        "play.txt",
        lambda n, t: (
            f'TASK [{said(n)}] *****\nok: [gpu1] => {{\n    "out.stdout_lines": [\n'
            + ",\n".join(f"        {json.dumps(line)}" for line in lines(t))
            + "\n    ]\n}\n\n"
        ),
        "",
    ),
    "grep of files": lambda files: {"all.txt": "".join(f"{n}:{line}\n" for n, t in files.items() for line in lines(t))},
    "cmd.exe": terminal("term.txt", lambda text: text.replace("u@gpu:~$", "C:\\Users\\Ann>ssh gpu1")),
    "job of GitHub": job(actions, LATER + " {}"),
    "job of GitLab": job(lambda command: [f"section_start:1772366400:s\r\x1b[0K\x1b[32;1m$ {command}\x1b[0;m"]),
    "job of GitLab, stamped": job(lambda command: [f"\x1b[32;1m$ {command}\x1b[0;m"], LATER + " 01O {}"),
    "job of Jenkins": job(lambda command: [f"+ {command}"], "[2026-11-11T11:11:11.000Z] {}"),
    "JUnit": blocks("j.xml", lambda n, t: f"--- {n} ---\n{escaped(indent(t, ''))}", "<x><system-out>", "</system-out></x>\n"),
    "Jira, XML": blocks(
        "j.xml", lambda n, t: html.escape(f"<p>{n}</p><pre>{escaped(t)}</pre>"), "<rss><description>", "</description></rss>\n"
    ),
    "Teams, JSON": lambda files: {
        "a.json": json.dumps(
            {
                "value": [
                    {
                        "messageType": "message",
                        "body": {"contentType": "html", "content": f"<p>{n}</p><pre>{html.escape(t)}</pre>"},
                    }
                    for n, t in files.items()
                ]
            }
        )
    },
    "Word": word,
    "Writer": writer,
    "RTF": rich_text,
    "Excel": sheet,
    "mail with an archive": mailed_zip,
    "semicolons": table("timestamp;message\n", lambda n, line: f'{iso(n, 3)};"{line}"\n'),
    "Azure's portal": table(
        "TimeGenerated [UTC],LogMessage\n", lambda n, line: f'"{when(n):%-m/%-d/%Y, %I:%M:%S}.000 {when(n):%p}","{line}"\n'
    ),
    "OTLP": records(lambda n, line: {"timeUnixNano": str(epoch(n, 10**9)), "body": {"stringValue": line}}, otlp),
    "GELF": each_line(lambda n, line: json.dumps({"version": "1.1", "short_message": line, "timestamp": epoch(n, 1) + 0.5})),
    "Stackdriver, stderr": records(lambda n, line: {"textPayload": line, "timestamp": iso(n), "severity": "ERROR"}, list),
    "aws logs tail": each_line(lambda n, line: f"{iso(n, 6)[:-1]}+00:00 llm/server/0a1b {line}"),
    "Google Cloud's console": each_line(lambda n, line: f"{iso(n, 3)[:-1].replace('T', ' ')} UTC  {line}"),
    "Grafana": of_log(
        lambda t: "Common labels: {}\n\n" + "".join(f"{iso(n, 3)}\t{s}\n" for n, s in [*enumerate(lines(t))][::-1])
    ),
    "bat": each_line(lambda n, line: f"{n + 1:4} │ {line}"),
}


def times_of(rows: list[dict]) -> None:
    """Take the times of a log's lines from its rows."""
    known = {row["line"]: row["time"] for row in rows if row.get("time") is not None}
    TIMES[:], now = [], min(known.values())
    for line in range(1, max(known) + 1):
        now = max(now, known.get(line, now))
        TIMES.append(datetime.fromtimestamp(0, UTC) + timedelta(seconds=now // 10**9))
