"""Outputs of container, environment, monitoring and profiling tools, through the public way in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kit
from kit.schema import Row

SECOND = 1771378393  # 2026-02-18 01:33:13 UTC


def rows(tmp_path: Path, frame: str, text: str, name: str = "out.txt") -> list[Row]:
    (tmp_path / name).write_text(text)
    return kit.open_run(tmp_path, captured_at="2026-02-18 02:11:52").rows(frame)


def cells(found: list[Row], *columns: str) -> list[tuple]:
    return [tuple(row.get(column) for column in columns) for row in found]


def test_docker_events_of_all_kinds_and_in_json(tmp_path: Path) -> None:
    text = "2026-02-18T02:33:04.703631903+01:00 network connect e2e1 (container=0fdb...ff37, name=bridge, type=bridge)\n"
    text += "2026-02-18T02:33:09.830268747+01:00 container kill 0fdb...ff37 (image=vllm, name=llama, signal=15)\n"
    text += "2026-02-18T02:33:13.000000000+01:00 container die 0fdb...ff37 (exitCode=143, image=vllm, name=llama)\n"
    found = rows(tmp_path, "events", text)
    assert cells(found, "source", "reason", "object") == [
        ("docker", "connect", "bridge"),
        ("docker", "kill", "llama"),
        ("docker", "die", "llama"),
    ]
    assert found[2]["time"] == SECOND * 10**9
    event = {
        "Type": "container",
        "Action": "oom",
        "Actor": {"ID": "0f", "Attributes": {"name": "llama"}},
        "timeNano": SECOND * 10**9,
    }
    assert cells(rows(tmp_path, "events", json.dumps(event) + "\n"), "reason", "object", "time") == [
        ("oom", "llama", SECOND * 10**9)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "CONTAINER ID   NAME    CPU %   MEM USAGE / LIMIT   MEM %    BLOCK I/O     PIDS\n"
        "b95a83497c91   llama   99.10%  60GiB / 64GiB       93.75%   0B / 1.5GB    205\n",
        '{"BlockIO":"0B / 0B","CPUPerc":"99.10%","Container":"b95a83497c91","MemPerc":"93.75%","MemUsage":"60GiB / 64GiB",'
        '"Name":"llama","PIDs":"205"}\n',
        "➜ docker ps\nCONTAINER ID   IMAGE     COMMAND   CREATED       STATUS       NAMES\n"
        'b95a83497c91   vllm      "vllm"    2 hours ago   Up 2 hours   llama\n➜ docker stats llama\n'
        "CONTAINER ID   NAME    CPU %   MEM USAGE / LIMIT   MEM %    BLOCK I/O     PIDS\n"
        "b95a83497c91   llama   99.10%  60GiB / 64GiB       93.75%   0B / 1.5GB    205\n",
    ],
)
def test_docker_stats(tmp_path: Path, text: str) -> None:
    assert cells(rows(tmp_path, "counters", text), "name", "labels", "value") == [
        ("cpu_percent", 'container="llama"', 99.1),
        ("mem_used_bytes", 'container="llama"', 60.0 * 2**30),
        ("mem_limit_bytes", 'container="llama"', 64.0 * 2**30),
        ("mem_percent", 'container="llama"', 93.75),
        ("pids", 'container="llama"', 205.0),
    ]
    assert [row["object"] for row in rows(tmp_path, "events", text)] == ["llama"] * ("docker ps" in text)


def test_collect_env_in_both_widths(tmp_path: Path) -> None:
    text = "Collecting environment information...\nPyTorch version: 2.7.1+cu126\nIs CUDA available: True\n"
    text += "GPU models and configuration: \n"
    text += "GPU 0: NVIDIA H200\nGPU 1: NVIDIA H200\n\nVersions of relevant libraries:\n[pip3] torch==2.7.1\n"
    text += "[conda] numpy   2.1.3   pypi_0  pypi\n"
    text += "==============================\n     vLLM Info\n==============================\n"
    text += "vLLM Version                 : 0.10.1\nNCCL_DEBUG=INFO\n"
    found = {row["key"]: row["value"] for row in rows(tmp_path, "host", text)}
    assert found["PyTorch version"] == "2.7.1+cu126"
    assert (found["GPU 1"], found["torch"], found["numpy"]) == ("NVIDIA H200", "2.7.1", "2.1.3")
    assert (found["vLLM Version"], found["NCCL_DEBUG"]) == ("0.10.1", "INFO")


def test_ports_of_infiniband(tmp_path: Path) -> None:
    text = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
    text += "\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
    assert cells(rows(tmp_path, "host", text), "source", "key", "value") == [
        ("infiniband", "mlx5_0 port 1", "Active, LinkUp, 400, InfiniBand")
    ]
    text = "Infiniband device 'mlx5_1' port 1 status:\n\tstate:\t\t 1: DOWN\n\tphys state:\t 3: Disabled\n"
    text += "\trate:\t\t 40 Gb/sec (4X QDR)\n"
    assert cells(rows(tmp_path, "host", text), "key", "value") == [("mlx5_1 port 1", "DOWN, Disabled, 40 Gb/sec (4X QDR)")]


def test_prometheus_series_fill_the_frames_that_exist(tmp_path: Path) -> None:
    def series(name: str, values: list, **labels: str) -> dict:
        return {"metric": {"__name__": name, **labels}, "values": values}

    points = [[SECOND, "97"], [SECOND + 15, "100"]]
    result = [series("DCGM_FI_DEV_GPU_UTIL", points, gpu="3"), series("DCGM_FI_DEV_POWER_USAGE", [[SECOND, "121.5"]], gpu="3")]
    result += [
        series("node_memory_MemAvailable_bytes", [[SECOND, "1024"]]),
        series("vllm:num_requests_running", [[SECOND, "NaN"], [SECOND, "4"]]),
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    assert cells(rows(tmp_path, "gpus", text), "gpu", "moment", "util_percent", "power_w", "time") == [
        (3, 0, 97.0, 121.5, SECOND * 10**9),
        (3, 1, 100.0, None, (SECOND + 15) * 10**9),
    ]
    assert cells(rows(tmp_path, "host_memory", text), "name", "value_bytes") == [("available", 1024)]
    assert cells(rows(tmp_path, "counters", text), "source", "name", "value") == [("metrics", "vllm:num_requests_running", 4.0)]


def test_grafana_exports_times_as_text_or_milliseconds(tmp_path: Path) -> None:
    for stamp in ("2026-02-18 01:33:13", str(SECOND * 1000)):
        text = f'"Time","DCGM_FI_DEV_FB_USED{{gpu=""1"", instance=""a""}}","node_load1"\n{stamp},81000,5.5\n'
        assert cells(rows(tmp_path, "gpus", text, "panel.csv"), "gpu", "mem_used_mib", "time") == [(1, 81000.0, SECOND * 10**9)]
        assert cells(rows(tmp_path, "counters", text, "panel.csv"), "source", "name", "value") == [("loadavg", "load1", 5.5)]


def test_otlp_keeps_attributes_as_labels(tmp_path: Path) -> None:
    attribute = {"key": "model", "value": {"stringValue": "m"}}
    point = {"timeUnixNano": str(SECOND * 10**9), "asInt": "7", "attributes": [attribute]}
    metric = {"name": "vllm.requests", "sum": {"dataPoints": [point]}}
    text = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}) + "\n"
    assert cells(rows(tmp_path, "counters", text, "otlp.jsonl"), "name", "labels", "value") == [
        ("vllm.requests", 'model="m"', 7.0)
    ]


def test_profiles_carry_shares_and_say_nothing_of_now(tmp_path: Path) -> None:
    text = "main (a.py:3);wait (threading.py:355) 97\nmain (a.py:3);load (b.py:9) 3\n"
    found = rows(tmp_path, "stacks", text, "stacks.collapsed")
    assert cells(found, "tool", "depth", "function", "file_line", "share_percent")[0] == ("profile", 0, "wait", 355, 97.0)
    from kit.analyse.verdict.evidence import gather
    from kit.analyse.verdict.stacks import all_stacks

    assert all_stacks(gather(kit.open_run(tmp_path))) == []


def test_what_a_trace_began_and_did_not_end(tmp_path: Path) -> None:
    events = [{"ph": "B", "name": "outer", "ts": 1, "pid": 7, "tid": 9}, {"ph": "B", "name": "done", "ts": 2, "pid": 7, "tid": 9}]
    events += [{"ph": "E", "ts": 3, "pid": 7, "tid": 9}, {"ph": "B", "name": "inner", "ts": 4, "pid": 7, "tid": 9}]
    events += [{"ph": "X", "name": "gemm", "dur": 250_000, "ts": 4, "pid": 7, "tid": 9}] * 2
    text = json.dumps({"traceEvents": events})
    assert cells(rows(tmp_path, "stacks", text), "depth", "function", "tid") == [(0, "inner", 9), (1, "outer", 9)]
    assert cells(rows(tmp_path, "counters", text), "name", "value") == [("gemm seconds", 0.5), ("gemm count", 2.0)]


def test_iostat_with_stamps(tmp_path: Path) -> None:
    block = "{0}\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          1.00 0.00 0.50 {1} 0.00 1.50\n\n"
    block += "Device            r/s     rkB/s  %util\nnvme0n1         12.00    512.00  {1}\n\n"
    text = "Linux 6.8.0 (h) \t02/18/2026 \t_x86_64_\t(2 CPU)\n\n"
    text += block.format("02/18/2026 01:33:13 AM", "97.00") + block.format("02/18/2026 01:33:18 AM", "99.50")
    found = [row for row in rows(tmp_path, "counters", text) if row["name"] == "%util"]
    assert cells(found, "labels", "value", "moment", "time") == [
        ('disk="nvme0n1"', 97.0, 0, SECOND * 10**9),
        ('disk="nvme0n1"', 99.5, 1, (SECOND + 5) * 10**9),
    ]


def test_summary_of_strace(tmp_path: Path) -> None:
    text = "% time     seconds  usecs/call     calls    errors syscall\n"
    text += "------ ----------- ----------- --------- --------- ----------------\n"
    text += " 99.10    4.500000       45000       100           futex\n"
    text += "  0.90    0.040000          20      2000       922 openat\n"
    text += "------ ----------- ----------- --------- --------- ----------------\n"
    text += "100.00    4.540000        2161      2100       922 total\n"
    assert cells(rows(tmp_path, "syscall_totals", text, "strace.txt"), "syscall", "calls", "errors", "total_s") == [
        ("futex", 100, 0, 4.5),
        ("openat", 2000, 922, 0.04),
    ]


def test_summary_of_strace_with_chosen_columns(tmp_path: Path) -> None:
    text = "% time     seconds shortest  longest  usecs/call     calls    errors syscall\n"
    text += "------ ----------- -------- -------- ----------- --------- --------- ----------------\n"
    text += " 81.08    0.062088 0.000007 0.062062       15521         4         2 wait4\n"
    text += "  8.69    0.006651 0.003073 0.003578        3325         2           vfork\n"
    text += "------ ----------- -------- -------- ----------- --------- --------- ----------------\n"
    text += "100.00    0.076577 0.000007 0.062062         832        92        19 total\n"
    found = rows(tmp_path, "syscall_totals", text, "strace.txt")
    assert cells(found, "syscall", "total_s", "mean_us", "min_us", "max_us", "calls", "errors", "share_percent") == [
        ("wait4", 0.062088, 15521.0, 7.0, 62062.0, 4, 2, 81.08),
        ("vfork", 0.006651, 3325.0, 3073.0, 3578.0, 2, 0, 8.69),
    ]
    text = " usecs/call     calls syscall\n----------- --------- ----------------\n        205        40 openat\n"
    found = rows(tmp_path, "syscall_totals", text, "strace.txt")
    assert cells(found, "syscall", "mean_us", "calls", "errors") == [("openat", 205.0, 40, None)]


def test_lldb(tmp_path: Path) -> None:
    text = "Process 4412 stopped\n* thread #1, name = 'python3', stop reason = signal SIGSTOP\n"
    text += "  * frame #0: 0x00007fff2 libc.so.6`__futex_abstimed_wait + 12\n"
    text += "    frame #1: 0x00005555 python3`PyEval_Eval(f=0x1) at ceval.c:123:5\n"
    assert cells(rows(tmp_path, "stacks", text), "pid", "thread", "function", "file", "file_line") == [
        (4412, "python3", "__futex_abstimed_wait", "libc.so.6", None),
        (4412, "python3", "PyEval_Eval(f=0x1)", "ceval.c", 123),
    ]


RULE = "=" * 30 + " ROCm System Management Interface " + "=" * 30 + "\n"
PIDSTAT = "   UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n"
NVIDIA_SMI = "$ nvidia-smi --query-gpu=index,no.such --format=csv\n"
NO_FIELD = 'Field "no.such" is not a valid field to query.'


@pytest.mark.parametrize(
    ("frame", "text", "wanted"),
    [
        ("gpus", NVIDIA_SMI + NO_FIELD + "\n\n$ echo $?\nexit=2\n", []),
        ("tool_errors", NVIDIA_SMI + NO_FIELD + "\n", [{"tool": "nvidia-smi", "text": NO_FIELD}]),
        ("gpus", "[0] Tesla T4 | 48'C,   7 % |   213 / 15360 MB |\n", [{"mem_used_mib": 213.0, "util_percent": 7.0}]),
        ("gpus", "[0] Tesla T4 | 48'C,   7 % |   213 /  1995 MB |\n", [{"mem_total_mib": 1995.0}]),
        ("gpus", '{"card0": {"GPU use (%)": "9", "sclk clock speed:": "(800Mhz)"}}', [{"sm_clock_mhz": 800.0}]),
        (
            "gpus",
            '{"gpus": [{"index": 3, "name": "H200", "fan.speed": null, "utilization.gpu": 97, "power.draw": null, '
            '"memory.used": 130429, "memory.total": 143771, "processes": [{"command": "python3", "pid": 412}]}]}',
            [{"gpu": 3, "name": "H200", "util_percent": 97.0, "mem_used_mib": 130429.0, "power_w": None}],
        ),
        (
            "events",
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*         up 2-00:00:00      1 drain* gpu03\n",
            [{"source": "slurm", "reason": "drain*", "object": None}],
        ),
        (
            "gpus",
            RULE + "Device  Temp    Power   SCLK    MCLK    Fan  Perf  PwrCap  VRAM%  GPU%\n"
            "0       49.0°C  161.0W  132Mhz  900Mhz  0%   auto  750.0W  89%    100%\n"
            "1       N/A     N/A     None    None    0%   unkn  750.0W  0%     0%\n",
            [{"gpu": 0, "power_w": 161.0, "power_limit_w": 750.0}, {"gpu": 1, "power_w": None, "power_limit_w": 750.0}],
        ),
        (
            "counters",
            "ID            NAME   CPU %    MEM USAGE / LIMIT  MEM %    NET IO   BLOCK IO    PIDS  CPU TIME  AVG CPU %\n"
            "a9f8c1b2d3e4  vllm   99.10%   60.5GB / 64.2GB    94.24%   -- / --  0B / 1.5GB  205   1h2m3.4s  88.10%\n",
            [{"value": 99.1}, {"name": "mem_used_bytes", "value": 60.5e9}, {"value": 64.2e9}, {"value": 94.24}, {"value": 205.0}],
        ),
        (
            "host_memory",
            "              gesamt       benutzt     frei      gemns.  Puffer/Cache verfügbar\n"
            "Speicher:      2,0Gi       1,5Gi       512Mi        12Mi       1,0Gi       1,1Gi\nSwap:    0B    0B    0B\n",
            [{"name": "total", "value_bytes": 2**31}, *[{}] * 4, {"name": "available"}, *[{"value_bytes": 0}] * 3],
        ),
        (
            "host_memory",
            "               total        used        free      shared  buff/cache   available\n"
            "内存：          2048        1024         512           0          0        1000\n",
            [{"name": "total", "value_bytes": 2048 * 2**30}, *[{}] * 5],
        ),
        (
            "counters",
            "       tps    kB_read/s    kB_read Device\n   1203.00         1.5M       300.0M nvme0n1\n",
            [{"name": "tps"}, {"name": "kB_read/s", "labels": 'disk="nvme0n1"', "value": 1536.0}, {"name": "kB_read"}],
        ),
        (
            "threads",
            "Linux 6.8.0 (h) \t18/02/26 \t_x86_64_\t(8 CPU)\n\n10:15:02      UID      TGID       TID    %CPU  Command\n"
            "10:15:03        0      412         -   99,01  python3\n10:15:03    0   -    501   98,5  |__pt_main\n",
            [{"pid": 412, "tid": 501, "comm": "pt_main", "cpu_percent": 98.5}],
        ),
        (
            "gpus",
            "|   2  NVIDIA GeForce RTX 5090        Off |   00000000:41:00.0 Off |                  N/A |\n"
            "| 30%   35C    P8              N/A /  N/A |       Not Supported    |     N/A      Default |\n",
            [{"gpu": 2, "temperature_c": 35.0, "pstate": "P8", "mem_used_mib": None}],
        ),
        (
            "gpu_processes",
            "==============NVSMI LOG==============\n\nAttached GPUs   : 1\nGPU 00000000:17:00.0\n    Performance State   : P0\n"
            "    Processes\n        Process ID                        : 412\n            Type                          : C\n"
            "            Name                          : python3\n            Used GPU Memory               : 70114 MiB\n",
            [{"gpu": 0, "pid": 412, "process": "python3", "mem_used_mib": 70114.0}],
        ),
        (
            "gpus",
            '<nvidia_smi_log><gpu id="00000000:3D:00.0"><performance_state>ERR!</performance_state>'
            "<utilization><gpu_util>ERR!</gpu_util></utilization></gpu></nvidia_smi_log>\n",
            [{"gpu": 0, "pstate": None, "util_percent": None, "error": "ERR!"}],
        ),
        (
            "counters",
            "$ kubectl get pods\nNAME    READY   STATUS    RESTARTS   AGE\nllm-0   0/1     Running   0          48m\n"
            "$ kubectl top pod --containers\nPOD     NAME   CPU(cores)   MEMORY(bytes)\nllm-0   vllm   7998m        2048Mi\n",
            [{"name": "cpu_percent", "value": 799.8}, {"value": 2.0**31, "labels": 'container="vllm",pod="llm-0"'}],
        ),
        (
            "counters",
            "NAME     CPU(cores)   CPU%   MEMORY(bytes)   MEMORY%\nnode-1   1500m        5%     2048Mi          19%\n",
            [{"name": "cpu_percent", "value": 150.0}, {"value": 2.0**31, "labels": 'node="node-1"'}],
        ),
        (
            "counters",
            "CONTAINER       NAME   CPU %    MEM    DISK   INODES\n4c8f3d1a2b9e0   vllm   801.20   2.5GB   12kB   1023\n",
            [{"name": "cpu_percent", "value": 801.2}, {"value": 2.5e9, "labels": 'container="vllm"'}],
        ),
        (
            "events",
            "CONTAINER       IMAGE       CREATED         STATE     NAME   ATTEMPT   POD ID      POD\n"
            "4c8f3d1a2b9e0   9aa1fad94   2 minutes ago   Running   vllm   13        a1b2c3d4e   llm-0\n"
            "7d9e8f0a1b2c3   9aa1fad94   8 minutes ago   Exited    vllm   12        a1b2c3d4e   llm-0\n",
            [{"reason": "Running", "object": "vllm attempt 13"}, {"reason": "Exited", "object": "vllm attempt 12"}],
        ),
        (
            "stacks",
            "# Samples: 12K of event 'cycles'\n#\n# Overhead  Command          Shared Object  Symbol\n#\n"
            "    61.23%  VLLM::Worker_TP  libnccl.so.2   [.] ncclProxyProgress\n",
            [{"tool": "profile", "function": "ncclProxyProgress", "file": "libnccl.so.2", "share_percent": 61.23}],
        ),
        (
            "fds",
            "$ ls -l /proc/412/fd\ntotal 0\nlrwx------ 1 root root 64 Feb 18 02:10 13 -> 'anon_inode:[eventpoll]'\n",
            [{"pid": 412, "fd": 13, "target": "anon_inode:[eventpoll]"}],
        ),
        (
            "gpus",
            "| 0           MetaX C500             | 0000:0e:00.0        | 97%                  |\n"
            "| 35C         54W / 350W             | 61826/65536 MiB     |                      |\n",
            [{"gpu": 0, "name": "MetaX C500", "util_percent": 97.0, "mem_used_mib": 61826.0, "power_w": 54.0}],
        ),
        (
            "gpus",
            "| 3    Iluvatar BI-V150         | 00000000:8A:00.0     | 1500MHz   1600MHz    |\n"
            "| 31%  38C   P0    101W / 350W  | 31107MiB / 32768MiB  | 97%       Default    |\n",
            [{"gpu": 3, "util_percent": 97.0, "temperature_c": 38.0, "mem_total_mib": 32768.0, "power_limit_w": 350.0}],
        ),
        (
            "threads",
            "  TID USER  PR  NI VIRT  RES  SHR S[%CPU] %MEM     TIME+ THREAD          PROCESS\n"
            "  412 ops   20   0 7.4G 226M 145M S  258   3.0   0:00.40 Runtime worker  com.a\n",
            [{"tid": 412, "comm": "Runtime worker", "state": "S", "cpu_percent": 258.0, "cpu_s": 0.4}],
        ),
        (
            "events",
            "Events:\n  FirstSeen\t\tLastSeen\t\tCount\tFrom\t\tSubobjectPath\tReason\t\tMessage\n"
            "  09 Jul 2025 23:56:21\t10 Jul 2025 00:01:30\t21\t{scheduler }\t\t\tfailedScheduling\tno node fits\n",
            [{"reason": "failedScheduling", "times": 21, "text": "no node fits"}],
        ),
        (
            "events",
            "LASTSEEN   FIRSTSEEN   COUNT     NAME      KIND      SUBOBJECT   TYPE      REASON    SOURCE    MESSAGE\n"
            "2m         5m          4         llm-0     Pod                   Warning   BackOff   kubelet   Back-off\n",
            [{"reason": "BackOff", "times": 4, "age_s": 120.0, "object": "llm-0", "text": "Back-off"}],
        ),
        (
            "events",
            "$ scontrol show job 77\nJobId=77 JobName=train\n   UserId=ops(1) GroupId=ops(1)\n"
            "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)\n   Requeue=0 Restarts=0 ExitCode=0:9\n",
            [
                {"source": "slurm", "reason": "FAILED", "object": "77"},
                {"reason": "ExitCode", "text": "Requeue=0 Restarts=0 ExitCode=0:9"},
            ],
        ),
        (
            "events",
            "======== List: 2026-02-18 01:33:13 ========\nStats:\n-----\nTotal: 1\n\nTable:\n-----\n"
            "#    ACTOR_ID  CLASS_NAME  STATE  JOB_ID  NAME  NODE_ID  PID  RAY_NAMESPACE\n"
            "# 0  0212a14c  Worker      DEAD   01      w1    1ff788   77   n\n",
            [{"source": "ray", "reason": "DEAD", "object": "0212a14c"}],
        ),
        (
            "gpu_processes",
            RULE + "PID 77 is using 0 DRM device(s)\nPID 412 is using 2 DRM device(s):\n0 \n3 \n",
            [{"gpu": 0, "pid": 412}, {"gpu": 3, "pid": 412}],
        ),
        (
            "gpu_processes",
            RULE + "PID\tPROCESS NAME\tGPU(s)\tVRAM USED\tSDMA USED\tCU OCCUPANCY\n412\tpython3\t2\t1048576\t0\t9\t\n",
            [{"gpu": None, "pid": 412, "process": "python3", "mem_used_mib": 1.0}],
        ),
        (
            "gpus",
            "| Device ID | Device Information |\n| 0  | Device Name: Intel B60 |\n|    | SOC UUID: 0000-17 |\n",
            [{"gpu": 0, "name": "Intel B60", "uuid": "0000-17"}],
        ),
        (
            "processes",
            "Linux 5.14.0 (h) \t02/21/24 \t_x86_64_\t(8 CPU)\n\n# Time"
            + PIDSTAT
            + "16:55:49  0  22  1.5  0.00  13.5G  2.5M  23.5%  vllm\n",
            [{"pid": 22, "vsize_bytes": 27 * 2**29, "rss_bytes": 5 * 2**19, "comm": "vllm"}],
        ),
        (
            "processes",
            f"#      Time{PIDSTAT} {SECOND}     0        22    1.5      0.00    7948    1044   0.03  vllm\n",
            [{"pid": 22, "rss_bytes": 1044 * 1024, "time": SECOND * 10**9}],
        ),
        (
            "processes",
            f"13时32分48秒{PIDSTAT}13时33分38秒  0  22  1.5  0.00  7948  1044  0.03  vllm\n",
            [{"rss_bytes": 1044 * 1024}],
        ),
        (
            "host_memory",
            "Linux 6.11 (h) \t2026年02月18日 \t_x86_64_\t(16 CPU)\n\n下午 01时33分12秒 kbmemfree  %memused  kbdirty\n"
            "下午 01时33分13秒  1.5G  19.23  8\n平均时间:  1.5G  19.23  8\n",
            [{"name": "free", "value_bytes": 3 * 2**29, "time": (SECOND + 12 * 3600) * 10**9}],
        ),
        (
            "kernel_log",
            "kern:    info: [2026-02-18T01:33:13.5Z]: cni0: port 2 entered forwarding state\n"
            "kern:     err: [2026-02-18T01:33:14Z]: Memory cgroup out of memory: Killed process 412 (vllm) total-vm:7kB\n",
            [{"kind": "other"}, {"kind": "oom_kill", "pid": 412, "time": (SECOND + 1) * 10**9}],
        ),
        (
            "kernel_log",
            f"[ 1843.308145] NVRM: The GPU 0000:b3:00.0\n{' ' * 15}NVRM: in this system has\n{' ' * 15}fallen off the bus.\n"
            "[ 1843.439662] NVRM: The NVIDIA probe routine failed.\n",
            [{"kind": "gpu_lost", "uptime_s": 1843.308145, "bus_id": "0000:b3:00.0"}, {"kind": "other"}],
        ),
        (
            "host",
            "hca_id:\tmlx5_2\n\ttransport:\tIB (0)\n\t\tport:\t1\n\t\t\tstate:\tPORT_DOWN (1)\n\t\t\tlink_layer:\tEthernet\n",
            [{"source": "infiniband", "key": "mlx5_2 port 1", "value": "DOWN, Ethernet"}],
        ),
        (
            "processes",
            "$ docker exec c sh -c 'ps -o pid,etime,comm -p 7'\n    PID     ELAPSED COMMAND\n      7       08:48 python\n",
            [{"pid": 7, "elapsed_s": 528.0, "comm": "python", "cmdline": None}],
        ),
    ],
)
def test_forms_of_versions_locales_and_options(tmp_path: Path, frame: str, text: str, wanted: list[Row]) -> None:
    found = rows(tmp_path, frame, text)
    assert [{column: row.get(column) for column in want} for row, want in zip(found, wanted, strict=True)] == wanted
