"""What a verdict prints under `next` runs where the launch is: over all cases and bundled runs of the repository.

`python -m tests.analyse.verdict.test_next_commands FOLDER ...` checks other folders of cases in the same way, and prints figures.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.verdict import Verdict
from kit.errors import KitError
from kit.run import Run
from kit.samples import sample_names

PLACEHOLDER = re.compile(r"\{[a-z_]+\}|<[\w -]+>|\b(?:PIDS?|PORT|MODEL|POD|LOCK|LOG|NAME|FOLDERS|CONTAINER|JOB)\b")
MAKES = {"nvidia": r"nvidia-smi|ncclras", "amd": r"(?:amd|rocm)-smi", "ascend": r"npu-smi", "gaudi": r"hl-smi", "xpu": r"xpu-smi"}
ORCHESTRATORS = {
    "kubernetes": r"\bkubectl\b",
    "docker": r"\bdocker\b",
    "slurm": r"\b(?:sacct|scontrol|squeue)\b",
    "ray": r"\bray status\b",
}
LINUX_ONLY = r"\bss -|/proc/|\bstrace\b|\bgdb\b|\bdmesg\b|journalctl|lslocks|wchan:"
ON_A_PROCESS = r"/proc/\$|strace|py-spy|\bgdb\b|ps -L|curl|ncclras|\bsample \d"
"""What looks at a process that lives."""


FINDS = {"pid": "pgrep -of", "container": "docker ps -lq", "model": "/v1/models", "job": "sacct -Xno JobID"}
"""What looks for a name, where the evidence may fill it."""


def _told(verdict: Verdict, name: str) -> bool:
    """Whether the evidence fills a name: it stands in a command as it is."""
    return "$(" not in verdict.where.names.get(name, "$(")


def misfits(verdict: Verdict) -> list[str]:
    """What is wrong with the commands of a verdict, one line each."""
    place, found = verdict.where, []
    traits = place.traits
    for step in verdict.next:
        command = step["command"]
        wrong = [f"placeholder {word}" for word in PLACEHOLDER.findall(re.sub(r"\{\{.*?\}\}|%[A-Z]", "", command))]
        wrong += [f"prose: {command[:60]}"] if re.match(r"[A-Z][a-z]+ |.*; run again", command) else []
        others = {make: tool for make, tool in MAKES.items() if place.accelerator and make != place.accelerator}
        wrong += [f"{make} on {place.accelerator}" for make, tool in others.items() if re.search(tool, command)]
        wrong += [f"no {name} here" for name, tool in ORCHESTRATORS.items() if name not in traits and re.search(tool, command)]
        if place.system != "linux" and re.search(LINUX_ONLY, command):
            wrong.append(f"{place.system} has no such program")
        if "over" in traits and re.search(ON_A_PROCESS, command):
            wrong.append("the process is gone")
        if "/completions" in command and not {"port", "generates"} <= traits:
            wrong.append("nothing completes text there")
        if "trainer" in traits and re.search("curl|ss -", command) and not re.search("connections|port", step["what"]):
            wrong.append("a training has no port to ask")
        wrong += [
            f"{finder} though {name} is known" for name, finder in FINDS.items() if _told(verdict, name) and finder in command
        ]
        if "ready" in traits and "strace" in command:
            wrong.append("strace of a server that serves")
        found += [f"{verdict.name}: {step['what']}: {text}" for text in wrong]
    return found


PARSED: set[str] = set()


def unparsed(commands: list[str]) -> list[str]:
    """Commands that are no shell, by one process for all: the first that bash refuses, with its word.

    Those that differ in their numbers only are looked at once.
    """
    forms = {re.sub(r"\d+", "1", command) for command in commands} - PARSED
    text = "\n".join(f"check() {{\n{command}\n}}" for command in sorted(forms))
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False) if forms else None
    if done and not done.stderr:
        PARSED.update(forms)
    return done.stderr.splitlines() if done else []


def judged(folder: Path, into: Path) -> Verdict:
    """A case as a user has it: without its label."""
    label = folder / "case.json"
    at = json.loads(label.read_text()).get("captured_at") if label.exists() else None
    evidence = shutil.copytree(folder, into / "evidence", ignore=shutil.ignore_patterns("case.json"))
    return kit.verdict(evidence, captured_at=at)


def cases(root: Path) -> list[Path]:
    """Folders of evidence: those with a label, else the folders of bundled runs."""
    labelled = {path.parent for path in root.rglob("case.json")}
    return sorted(labelled or {path.parent for path in root.rglob("run.json")})


def test_every_command_under_next_runs_there(opened: Callable[[str], Run]) -> None:
    """Of the bundled runs; those of the cases are looked at where each is judged, in tests/analyse/test_cases.py."""
    verdicts = [kit.verdict(opened(name)) for name in sample_names()]
    commands = [step["command"] for verdict in verdicts for step in verdict.next]
    assert len(commands) > len(verdicts)
    assert [text for verdict in verdicts for text in misfits(verdict)] == []
    assert unparsed(commands) == []


def test_the_check_finds_what_is_no_shell() -> None:
    assert unparsed(["ls", "for p in 1; do echo $p; done"]) == []
    assert unparsed(["ls", "for p in 1; do echo $p"]) != []


VLLM = "INFO 04-05 12:01:00 [api_server.py:100] vLLM API server version 0.11.0\n"
STARTED = "INFO 04-05 12:01:01 [core.py:50] Starting to load model org/m on {device}...\n"


def steps_of(folder: Path, text: str, **files: str) -> dict[str, str]:
    """Commands by name, of a log and other files."""
    (folder / "server.log").write_text(text)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return {step["what"]: step["command"] for step in kit.verdict(folder).next}


@pytest.mark.parametrize(("version", "asked"), [("2.18.3", False), ("2.24.3", True)])
def test_ras_is_asked_only_of_an_nccl_that_may_have_it(tmp_path: Path, version: str, asked: bool) -> None:
    began = "n1:101:101 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 busId 1 commId 0x2 - Init START\n"
    (tmp_path / "server.log").write_text(f"{began}NCCL version {version}+cuda12.1\n")
    assert ("ncclras" in str(kit.verdict(tmp_path, captured_at="2026-03-01 13:00:00"))) is asked


def test_a_mac_is_asked_in_its_own_words(tmp_path: Path) -> None:
    log = "ggml_metal_init: allocating\nggml_metal_init: found device: Apple M2\nmain: loading model\n"
    given = steps_of(tmp_path, log)
    assert given and not any(re.search(LINUX_ONLY + "|-smi", command) for command in given.values())


def test_a_process_that_is_not_named_is_looked_for(tmp_path: Path) -> None:
    given = steps_of(tmp_path, VLLM + STARTED.format(device="cuda"))
    assert "pgrep -of 'vllm|VLLM'" in given["second sample"]
    assert "PID" not in "".join(given.values())
    unknown = steps_of(tmp_path, "$ python3 -u -m my_server.chat --model m\nloading\n")
    assert "pgrep -of 'my_server.chat'" in unknown["second sample"]


def test_what_was_looked_at_is_not_asked_for_again(tmp_path: Path) -> None:
    log = "INFO:root:building kernels\n"
    assert {"listeners", "stacks of all ranks"} <= steps_of(tmp_path, log).keys()
    seen = "State     Recv-Q Send-Q Local Address:Port  Peer Address:Port Process\n"
    table = "PID PPID STAT NLWP WCHAN ELAPSED TIME RSS COMMAND\n220 1 Sl 9 hrtimer_nanosleep 99 0 0 python3 go.py\n"
    given = steps_of(tmp_path, log, ss__txt=seen, ps__txt=table)
    assert "listeners" not in given and list(given)[1] == "stacks of all ranks", "nothing of the launch listens, and it sleeps"
    refused = "$ dmesg | tail\ndmesg: read kernel buffer failed: Operation not permitted\n"
    died = "E0301 12:00:09 api.py:833] failed (exitcode: -9) local_rank: 2 (pid: 297) of binary: /usr/bin/python3\n"
    given = steps_of(tmp_path, died, dmesg__txt=refused)
    assert any(name.startswith("kernel log") for name in given), "who may not look has seen nothing"


def test_names_of_the_cluster_come_from_its_events(tmp_path: Path) -> None:
    events = (
        "LAST SEEN   TYPE      REASON      OBJECT            MESSAGE\n"
        "2m          Warning   Unhealthy   pod/serve-5-abc   Startup probe failed: connection refused\n"
        "1m          Normal    Killing     pod/serve-5-abc   Container vllm failed startup probe, will be restarted\n"
    )
    given = steps_of(tmp_path, VLLM + STARTED.format(device="cuda"), events__txt=events)
    assert given["log of the container before"] == "kubectl logs -p --tail=200 pod/serve-5-abc"
    assert not any("docker" in command or "sacct" in command for command in given.values())


@pytest.mark.parametrize(
    ("name", "text", "prefix"),
    [
        (
            "describe.txt",
            "Name:         llm-0\nNamespace:    prod\nContainers:\n  vllm:\n    State:          Running\n    Restart Count:  0\n",
            "kubectl exec -n prod pod/llm-0 --",
        ),
        ("run.sh", "docker run -d --name llm --gpus all vllm/vllm-openai --model org/m\n", "docker exec llm"),
    ],
    ids=["kubernetes", "docker"],
)
def test_what_looks_at_processes_runs_in_their_container(tmp_path: Path, name: str, text: str, prefix: str) -> None:
    given = steps_of(tmp_path, VLLM + "(Worker_TP0 pid=220) " + STARTED.format(device="cuda"), **{name.replace(".", "__"): text})
    assert f"do {prefix} head -v /proc/$p/stat" in given["second sample"]
    host = "1 0 Ss 1 - 99 0 0 /sbin/init\n220 1 Sl 9 - 99 0 0 VLLM::Worker_TP0\n"
    given = steps_of(
        tmp_path,
        VLLM + "(Worker_TP0 pid=220) " + STARTED.format(device="cuda"),
        ps__txt="PID PPID STAT NLWP WCHAN ELAPSED TIME RSS COMMAND\n" + host,
    )
    assert not any(prefix in command for command in given.values())  # pids of the host are looked at there


def test_a_row_of_pods_is_no_description(tmp_path: Path) -> None:
    pods = "NAME      READY   STATUS             RESTARTS      AGE\nserve-0   0/1     CrashLoopBackOff   6 (2m ago)    27m\n"
    given = steps_of(tmp_path, VLLM + STARTED.format(device="cuda"), pods__txt=pods)
    assert given["events and state of the pod"].endswith("kubectl describe pod/serve-0")
    assert given["log of the container before"].endswith("pod/serve-0")


def test_names_of_operators_of_another_make_are_no_mark(tmp_path: Path) -> None:
    config = "splitting_ops=['vllm::attention', 'vllm::rocm_aiter_indexer'], device_config=cuda"
    log = f"{VLLM}INFO 04-05 12:01:00 [core.py:58] Initializing a V1 LLM engine (v0.11.0) with config: {config}\n"
    (tmp_path / "server.log").write_text(log)
    assert kit.verdict(tmp_path).where.accelerator == "nvidia"


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [("model='org/m', port=9000", True), ("model='org/m', port=9000, task='embed'", False)],
    ids=["completes", "embeds"],
)
def test_an_embedder_is_asked_for_no_text(tmp_path: Path, arguments: str, asked: bool) -> None:
    ready = "INFO 04-05 12:01:09 [api_server.py:200] Starting vLLM API server on http://0.0.0.0:9000\n"
    ready += "INFO:     Application startup complete.\n"
    log = f"{VLLM}INFO 04-05 12:01:00 [api_server.py:101] args: Namespace({arguments})\n{ready}"
    given = steps_of(tmp_path, log)
    assert ("one real request" in given) == asked
    assert not asked or '"model": "org/m"' in given["one real request"] and ":9000/" in given["one real request"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("non-default args: {'model': 'm', 'task': 'embed'}", "an embedder or scorer"),
        ("non-default args: {'model': 'm', 'kv_transfer_config': {'kv_role': 'kv_producer'}}", "a prefill server"),
        ("Processed prompts: 4", "a batch job"),
        ("Loading weights took 3.10 seconds", ""),
    ],
)
def test_the_role_is_said(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "server.log").write_text(VLLM + f"INFO 04-05 12:01:02 [utils.py:3] {line}\n")
    roles = kit.verdict(tmp_path).where.roles
    assert [role.partition(":")[0] for role in roles] == ([said] if said else [])


def main(folders: list[str]) -> None:
    """Print figures over folders of cases."""
    for folder in map(Path, folders):
        figures: Counter[str] = Counter()
        wrong: list[str] = []
        commands: list[str] = []
        for case in cases(folder) or sorted(path for path in folder.iterdir() if path.is_dir()):
            with tempfile.TemporaryDirectory() as into:
                try:
                    verdict = judged(case, Path(into))
                except KitError as error:
                    print(f"{case.name}: {error}")
                    continue
            figures["verdicts"] += 1
            commands += [step["command"] for step in verdict.next]
            wrong += misfits(verdict)
        print(*wrong, *unparsed(commands), sep="\n")
        print(f"{folder.name}: {figures['verdicts']} verdicts, {len(commands)} commands, {len(wrong)} that do not fit")


if __name__ == "__main__":
    main(sys.argv[1:])
