"""Sockets, probes and host facts."""

from __future__ import annotations

import pytest

from kit.parse.net import FORMATS


def test_ss_with_owner(snapshot) -> None:
    rows, report = snapshot(FORMATS, "ss", "ll01-ss.txt")
    row = rows["sockets"][0]
    assert (row["state"], row["local_port"], row["process"], row["pid"], row["peer_port"]) == (
        "LISTEN",
        8001,
        "VLLM::APIServer",
        41120,
        None,
    )
    assert not report.reasons


def test_peers_that_do_not_answer(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "ss", "sg17-ss.txt")
    assert {(row["state"], row["peer_address"], row["peer_port"]) for row in rows["sockets"]} == {
        ("SYN-SENT", "203.0.113.10", 20000)
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('tcp LISTEN 0 128 [::]:8000 [::]:* users:(("a",pid=1,fd=3),("b",pid=2,fd=3))', [("::", 8000, 1), ("::", 8000, 2)]),
        ("0      2048   *:30000   *:*", [("*", 30000, None)]),
        ("LISTEN 0 5 127.0.0.1%lo:http-alt 0.0.0.0:*", [("127.0.0.1%lo", 8080, None)]),
    ],
)
def test_ss_lines(snapshot, line: str, expected: list) -> None:
    rows, _ = snapshot(FORMATS, "ss", line + "\n")
    assert [(row["local_address"], row["local_port"], row.get("pid")) for row in rows["sockets"]] == expected
    assert {row["state"] for row in rows["sockets"]} == {"LISTEN"}


def test_a_header_alone_is_a_complete_list(snapshot) -> None:
    header = "State  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess\n"
    assert next(entry for entry in FORMATS if entry.kind == "ss").looks_like(header) > 0.9
    rows, report = snapshot(FORMATS, "ss", header)
    assert rows == {} and not report.reasons


def test_netstat_lsof_and_proc_net(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "netstat", "tcp        0      0 10.0.0.2:42000 10.0.0.3:443 ESTABLISHED 1881/python3 -m x\n")
    assert (rows["sockets"][0]["state"], rows["sockets"][0]["pid"]) == ("ESTAB", 1881)
    rows, _ = snapshot(FORMATS, "ss", "python3 1881 root   41u  IPv4  12345      0t0  TCP *:30000 (LISTEN)\n")
    assert (rows["sockets"][0]["local_port"], rows["sockets"][0]["state"], rows["sockets"][0]["fd"]) == (30000, "LISTEN", 41)
    rows, _ = snapshot(FORMATS, "proc_net", "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0\n")
    assert (rows["sockets"][0]["local_address"], rows["sockets"][0]["local_port"], rows["sockets"][0]["state"]) == (
        "127.0.0.1",
        8080,
        "LISTEN",
    )


def test_a_server_that_answers_health_but_no_request(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "curl", "sg13-curl.txt")
    assert [(row["purpose"], row["http_status"], row.get("error")) for row in rows["probes"]] == [
        ("health", 200, None),
        ("models", 200, None),
        ("generate", None, "timeout"),
    ]
    assert rows["probes"][2]["duration_s"] == 30.001 and rows["probes"][2]["method"] == "POST"


def test_a_refused_connection(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "curl", "sg01-curl.txt")
    assert [(row["port"], row["path"], row["purpose"], row["error"], row["error_code"]) for row in rows["probes"]] == [
        (8000, "/v1/models", "models", "connection refused", 7),
        (8000, "/get_model_info", "info", "connection refused", 7),
    ]


def test_a_real_token(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "curl", "ll01-curl.txt")
    assert [(row["purpose"], row.get("tokens")) for row in rows["probes"]] == [("models", None), ("generate", 1)]


def test_a_reset_in_verbose_output(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "curl", "vl13-curl.txt")
    assert [(row["url"], row["error"], row["http_status"], row["body"]) for row in rows["probes"]] == [
        ("localhost:8000/v1/models", "reset", None, None)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'curl -i localhost:8080/health\nHTTP/1.1 503 Service Unavailable\ndate: x\n\n{"error":{"message":"Loading model"}}\n',
            ("health", 503, None),
        ),
        (
            '$ curl -s localhost:8080/health\n{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}\n',
            ("health", 503, None),
        ),
        (
            "$ curl -s -o /dev/null -w '%{http_code} %{time_total}\\n' localhost:8000/health_generate\n200 0.034\n",
            ("generate", 200, None),
        ),
        (
            "$ curl -sw '%{http_code}' localhost:8000/v1/completions -d "
            '\'{}\'\n{"choices":[{"text":""}],"usage":{"completion_tokens":0}}200\n',
            ("generate", 200, 0),
        ),
        (
            '$ curl -sN localhost:8000/v1/chat/completions -d \'{}\'\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n'
            'data: {"choices":[{"delta":{"content":"b"}}]}\n\ndata: [DONE]\n',
            ("generate", 200, 2),
        ),
        ('root@node1:~# curl -s http://127.0.0.1/generate \\\n  -d \'{}\'\n{"generated_text":"x"}\n', ("generate", 200, 1)),
        ("$ curl -s localhost:8000/health\n", ("health", None, None)),
        ("$ curl -s localhost:8000/generate -d '{}'\n$ echo $?\n28\n\nwhat can I do?\n", ("generate", None, None)),
        ("$ curl -s -o /dev/null -w '%{http_code}' localhost:8000/health\n000", ("health", None, None)),
        ("$ curl -so /dev/null -w '%{http_code}\\n' a.b:8000/health\n500\n  Who did that?\n", ("health", 500, None)),
        (
            "* Connected to localhost (127.0.0.1) port 30000\n> GET /health HTTP/1.1\n> Host: "
            "localhost:30000\n>\n< HTTP/1.1 200 OK\n< "
            "date: x\n<\n",
            ("health", 200, None),
        ),
    ],
)
def test_what_an_answer_means(snapshot, text: str, expected: tuple) -> None:
    rows, _ = snapshot(FORMATS, "curl", text)
    assert [(row["purpose"], row["http_status"], row.get("tokens")) for row in rows["probes"]] == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ time curl -s -m 60 localhost:8000/generate -d '{}'\n\nreal\t1m0.013s\n", "timeout"),
        ("$ time curl -s -m 60 localhost:8000/generate -d '{}'\n\nreal\t0m4.013s\n", None),
        ("$ kubectl -n x exec -it deploy/llm -- curl -s -m 9 localhost:8000/generate -d '{}'; echo rc=$?\nrc=28\n", "timeout"),
        ("$ docker exec llm curl -s localhost:8000/generate -d '{}'; echo rc=$?\nrc=7\n", "connection refused"),
    ],
)
def test_a_silent_curl_gave_up(snapshot, text: str, expected: str | None) -> None:
    rows, _ = snapshot(FORMATS, "curl", text)
    assert [row.get("error") for row in rows["probes"]] == [expected]


def test_a_failure_without_its_command(snapshot) -> None:
    rows, _ = snapshot(
        FORMATS, "curl", "curl: (7) Failed to connect to localhost port 30000 after 0 ms: Couldn't connect to server\n"
    )
    assert [(row["port"], row["error"]) for row in rows["probes"]] == [(30000, "connection refused")]


def test_host_facts(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "hosts", "tr03-hosts.txt")
    assert rows["host"][1]["value"] == "10.145.9.77 train-0.train.svc"
    rows, _ = snapshot(FORMATS, "lspci", "vl01-lspci.txt")
    assert "ReqRedir+" in rows["host"][1]["value"] and rows["host"][1]["key"] == "40:01.1"


TIMED = "$ time curl -s -m 60 -w '%{http_code}\\n' localhost:30000/health\nCODE\n\nreal\tTOOK\nuser\t0m0.006s\nsys\t0m0.003s\n"


@pytest.mark.parametrize(
    ("answer", "took", "status", "error", "seconds"),
    [
        ("000", "1m0.008s", None, "timeout", 60.008),
        ("000", "0m0.011s", None, "other", 0.011),
        ("200", "0m0.020s", 200, None, 0.02),
    ],
)
def test_what_the_shells_time_says_of_a_probe(snapshot, answer, took, status, error, seconds) -> None:
    rows, _ = snapshot(FORMATS, "curl", TIMED.replace("CODE", answer).replace("TOOK", took))
    row = rows["probes"][0]
    assert (row.get("http_status"), row.get("error"), row.get("duration_s")) == (status, error, seconds)


def test_an_exit_code_asked_for_afterwards_is_that_of_the_curl_before(snapshot) -> None:
    asked = "u@h:~$ curl -s -m 60 localhost:8000/generate -d '{}'\nu@h:~$ echo $?\n28\n\nIt hangs, what now?\n"
    fine = '$ curl -s localhost:8000/health/ready\n$ echo "exit $?"\n0\n'
    rows, _ = snapshot(FORMATS, "curl", asked + fine)
    assert [(row["purpose"], row.get("error"), row.get("body")) for row in rows["probes"]] == [
        ("generate", "timeout", None),
        ("health", None, None),
    ]
