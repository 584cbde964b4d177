"""Orchestrators, launch scripts, shell transcripts."""

from __future__ import annotations

from kit.parse import recognise
from kit.parse.cluster import FORMATS
from kit.parse.log import looks_like
from kit.parse.script import is_launch


def test_events_of_kubernetes(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "events", "vl19-events.txt", captured_ns=10**15)
    assert [row["reason"] for row in rows["events"]] == ["Scheduled", "Started", "Unhealthy", "Killing", "BackOff"]
    third = rows["events"][2]
    assert (third["type"], third["age_s"], third["object"], third["time"]) == (
        "Warning",
        220,
        "pod/llama-8b-6f9d-hg5rw",
        10**15 - 220 * 10**9,
    )
    assert "connect: connection refused" in third["text"]


def test_describe_pod(snapshot) -> None:
    text = (
        "Name:         llama-8b\nNamespace:    default\n    Last State:     Terminated\n      Reason:       OOMKilled\n     "
        " Exit Code:    137\n"
        "    Restart Count:  3\nEvents:\n  Type     Reason     Age                   From     Message\n  ----     ------    "
        " ----                  ----     -------\n"
        "  Warning  Unhealthy  3m40s (x5 over 10m)   kubelet  Startup probe failed: HTTP probe failed with statuscode: 503\n"
    )
    rows, report = snapshot(FORMATS, "events", text)
    assert [row["reason"] for row in rows["events"] if row] == [
        *("Namespace", "LastState", "OOMKilled", "ExitCode", "RestartCount", "Unhealthy")
    ]
    assert rows["events"][-1]["age_s"] == 220 and rows["events"][1]["object"] == "llama-8b" and not report.reasons


def test_docker_and_slurm(snapshot) -> None:
    text = (
        "CONTAINER ID   IMAGE                    COMMAND       CREATED      STATUS                       PORTS     NAMES\n"
        '3f9a1c0b7de2   vllm/vllm-openai:latest  "vllm serve"  2 hours ago  Exited (137) 5 minutes ago             llm\n'
    )
    rows, _ = snapshot(FORMATS, "events", text)
    assert (rows["events"][0]["source"], rows["events"][0]["reason"], rows["events"][0]["object"]) == ("docker", "Exited", "llm")
    text = (
        "  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "  12345       gpu    llama      bob PD       0:00      4 (Resources)\n"
    )
    rows, _ = snapshot(FORMATS, "events", text)
    assert (rows["events"][0]["source"], rows["events"][0]["reason"], rows["events"][0]["object"]) == (
        "slurm",
        "Resources",
        "12345",
    )


def test_ray_status(snapshot) -> None:
    rows, report = snapshot(FORMATS, "ray_status", "vl10-ray-status.txt")
    values = {row["name"]: row["value"] for row in rows["counters"]}
    assert (values["gpu_used"], values["gpu_total"], values["nodes_active"], values["memory_total"]) == (
        0,
        1,
        2,
        int(121.40 * (1 << 30)),
    )
    assert [(row["reason"], row["text"]) for row in rows["events"]] == [
        ("PendingDemand", "{'GPU': 1.0} * 2 (PACK): 1+ pending placement groups")
    ]
    assert not report.reasons


def test_launch_script(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "launch", "ll01-launch.sh")
    assert (rows["commands"][0]["program"], "--port 8001" in rows["commands"][0]["text"]) == ("docker", True)
    rows, _ = snapshot(
        FORMATS,
        "launch",
        "#!/bin/bash\n# a comment\nNCCL_DEBUG=INFO nohup python3 -m sglang.launch_server \\\n  --tp 8 \\\n  --port 8000 &\n",
    )
    assert [(row["program"], row["line"]) for row in rows["commands"]] == [("sglang.launch_server", 3)]
    log = "[09:20:29] /opt/x.cc:46: no answer\n[09:20:34] /opt/x.cc:46: no answer\npython3 launch.py --n 4\n"
    assert not is_launch(log), "the stamp of a log is no test of a shell"
    log = "a-1  | 2026-03-01T12:00:08.1Z DEBUG sup: Starting vllm serve m --port 8000\n" * 9
    assert not is_launch(log) and looks_like(log) == 0.4, "a log that tells what it starts"


def test_a_kill_that_does_not_help(snapshot) -> None:
    text = (
        "$ kill -9 2310\n$ sleep 5\n$ ps -o pid,stat,wchan:20,cmd -p 2310\n    PID STAT WCHAN                CMD\n"
        "   2310 D    uvm_gpu_wait         python3\n$ kill -9 99\nbash: kill: (99) - No such process\n$ cat "
        "/proc/2310/wchan\nuvm_gpu_wait\n"
    )
    rows, _ = snapshot(FORMATS, "shell", text)
    assert [(row["reason"], row["line"]) for row in rows["events"]] == [("Kill", 1), ("Kill", 6), ("KillAnswer", 7)]
    assert [(row["pid"], row["state"], row["line"]) for row in rows["processes"]] == [(2310, "D", 5)]
    assert [(row["tid"], row["wchan"]) for row in rows["threads"]] == [(2310, "uvm_gpu_wait")]


def test_a_transcript_of_many_tools(snapshot) -> None:
    text = (
        "$ ss -tlnp\nState  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess\n$ curl -s localhost:8000/health\n"
        "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Connection refused\n$ free -g\n       total used "
        "free\nMem:    503   20  480\n"
    )
    assert next(entry for entry in FORMATS if entry.kind == "shell").looks_like(text) > 0.97
    rows, _ = snapshot(FORMATS, "shell", text)
    assert rows["probes"][0]["port"] == 8000 and rows["host_memory"][0]["value_bytes"] == 503 << 30


def test_a_state_cut_out_of_a_pods_description() -> None:
    text = "State:          Running\n  Started:      Tue, 29 Apr 2026 07:34:19 +0000\nReady:          False\nRestart Count:  1\n"
    assert recognise("pod.txt", text)[0] == "events"
    assert recognise("status.txt", "Name:\tpython3\nState:\tS (sleeping)\nPid:\t41\n")[0] != "events"


BARE = """\
  Warning  Unhealthy  25m (x3 over 2d3h)  kubelet  Liveness probe failed: HTTP probe failed with statuscode: 404
  Normal   Started    25m (x2 over 28m)   kubelet  Started container vllm
5m49s       Warning   Unhealthy       pod/vllm-0      Startup probe failed: 503
"""


def test_events_without_their_head(snapshot) -> None:
    rows, report = snapshot(FORMATS, "events", BARE)
    seen = [(row["reason"], row["age_s"], row["times"], row["text"][:8]) for row in rows["events"]]
    assert seen == [("Unhealthy", 1500, 3, "Liveness"), ("Started", 1500, 2, "Started "), ("Unhealthy", 349, None, "Startup ")]
    assert not report.reasons


def test_sentence_with_a_warning_is_no_event(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "events", "Warning Unhealthy things\nNormal Use of the server, that is fine\n")
    assert not rows
