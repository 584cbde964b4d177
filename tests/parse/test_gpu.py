"""nvidia-smi and rocm-smi."""

from __future__ import annotations

import pytest

from kit.parse import amd, gpu

FORMATS = gpu.FORMATS + amd.FORMATS


def test_query_with_units(snapshot) -> None:
    rows, report = snapshot(FORMATS, "nvidia_smi", "sg01-nvidia-smi.csv")
    first = rows["gpus"][0]
    assert len(rows["gpus"]) == 8 and not report.reasons
    assert (
        first["util_percent"],
        first["mem_used_mib"],
        first["power_w"],
        first["power_limit_w"],
        first["sm_clock_mhz"],
        first["pstate"],
    ) == (100, 76188, 88.2, 600, 2617, "P1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory.used [MiB], utilization.gpu [%], index\n480, 0, 3\n", (3, 480, 0, None)),
        ("index, memory.used [MiB], utilization.gpu [%]\n2, [GPU is lost], [GPU is lost]\n", (2, None, None, "GPU is lost")),
        ("0, NVIDIA H100 80GB HBM3, 97 %, 75010 MiB, 81559 MiB\n", (0, 75010, 97, None)),
        (
            "$ nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv,noheader,nounits\n1, 5, 480\n",
            (1, 480, 5, None),
        ),
        ("index, utilization.gpu [%], memory.used [MiB]\n0, [N/A], [Not Supported]\n", (0, None, None, None)),
    ],
)
def test_query_in_other_shapes(snapshot, text: str, expected: tuple) -> None:
    rows, _ = snapshot(FORMATS, "nvidia_smi", text)
    assert [(row["gpu"], row.get("mem_used_mib"), row.get("util_percent"), row.get("error")) for row in rows["gpus"]] == [
        expected
    ]


def test_a_loop_is_numbered_and_timed(snapshot) -> None:
    text = "timestamp, index, utilization.gpu [%]\n" + "".join(
        f"2026/02/20 14:15:0{n}.000, {gpu}, 9{n} %\n" for n in (1, 2) for gpu in (0, 1)
    )
    rows, _ = snapshot(FORMATS, "nvidia_smi", text)
    assert [(row["moment"], row["gpu"], row["util_percent"]) for row in rows["gpus"]] == [
        (0, 0, 91),
        (0, 1, 91),
        (1, 0, 92),
        (1, 1, 92),
    ]
    assert rows["gpus"][2]["time"] - rows["gpus"][0]["time"] == 1_000_000_000


def test_the_table_with_its_processes(snapshot) -> None:
    text = """Fri Feb 20 14:15:01 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   34C    P0            121W /  700W |   75010MiB /  81559MiB |    100%      Default |
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:3B:00.0 Off |                 ERR! |
|ERR!  ERR!  ERR!             N/A /  N/A  |   ERR!MiB /  81559MiB  |     N/A      Default |
| Processes:                                                                              |
|    0   N/A  N/A           12345      C   VLLM::Worker_TP0                      75000MiB |
+-----------------------------------------------------------------------------------------+
"""
    rows, _ = snapshot(FORMATS, "nvidia_smi", text)
    assert [(row["gpu"], row.get("util_percent"), row.get("mem_used_mib"), row.get("error")) for row in rows["gpus"]] == [
        (0, 100, 75010, None),
        (1, None, None, "ERR!"),
    ]
    assert [(row["gpu"], row["pid"], row["process"], row["mem_used_mib"]) for row in rows["gpu_processes"]] == [
        (0, 12345, "VLLM::Worker_TP0", 75000)
    ]
    assert {row["key"]: row["value"] for row in rows["host"]}["driver"] == "580.95.05"


def test_compute_apps(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "nvidia_smi", "pid, process_name, used_gpu_memory [MiB]\n88, /usr/bin/python3, 472 MiB\n")
    assert [(row["pid"], row["process"], row["mem_used_mib"]) for row in rows["gpu_processes"]] == [(88, "/usr/bin/python3", 472)]


def test_remapped_rows_in_both_forms(snapshot) -> None:
    text = (
        "GPU 00000000:47:00.0\n    Remapped Rows\n        Correctable Error                 : 0\n        Uncorrectable "
        "Error               : 2\n"
        "        Pending                           : Yes\n        Remapping Failure Occurred        : No\n"
    )
    rows, _ = snapshot(FORMATS, "nvidia_smi", text)
    assert "Uncorrectable Error: 2" in rows["gpus"][0]["remapped_rows"] and rows["gpus"][0]["bus_id"] == "00000000:47:00.0"
    assert {row["name"]: row["value"] for row in rows["counters"]}["Remapped Rows / Pending"] == 1
    text = (
        "gpu_bus_id, remapped_rows.correctable, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure\n"
        "00000000:47:00.0, 0, 2, 1, 0\n"
    )
    rows, _ = snapshot(FORMATS, "nvidia_smi", text)
    assert {row["name"]: row["value"] for row in rows["counters"]}["remapped_rows.uncorrectable"] == 2
    assert "uncorrectable: 2" in rows["gpus"][0]["remapped_rows"]


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
        "latest NVIDIA driver is "
        "installed and running.",
        "Unable to determine the device handle for GPU 0000:47:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "No devices were found",
        "Failed to initialize NVML: Driver/library version mismatch",
        "bash: nvidia-smi: command not found",
    ],
)
def test_a_failure_is_a_result(snapshot, text: str) -> None:
    assert next(entry for entry in FORMATS if entry.kind == "nvidia_smi").looks_like(text + "\n") >= 0.5
    rows, _ = snapshot(FORMATS, "nvidia_smi", text + "\n")
    assert [(row["tool"], row["text"]) for row in rows["tool_errors"]] == [("nvidia-smi", text)]


def test_rocm_forms(snapshot) -> None:
    text = "GPU[0]\t\t: GPU use (%): 99\nGPU[0]\t\t: VRAM Total Used Memory (B): 1048576\n"
    rows, _ = snapshot(FORMATS, "rocm_smi", text)
    assert (rows["gpus"][0]["util_percent"], rows["gpus"][0]["mem_used_mib"]) == (99, 1)
    rows, _ = snapshot(FORMATS, "rocm_smi", "device,GPU use (%),VRAM Total Memory (B)\ncard1,5,2097152\n")
    assert (rows["gpus"][0]["gpu"], rows["gpus"][0]["mem_total_mib"]) == (1, 2)
