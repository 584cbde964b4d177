"""Lists, streams and tables of nvidia-smi, amd-smi, rocm-smi, gpustat, npu-smi, hl-smi and xpu-smi."""

from __future__ import annotations

import json
from pathlib import Path

import kit
from kit.schema import Row


def frames(tmp_path: Path, text: str, name: str = "out.txt") -> dict[str, list[Row]]:
    (tmp_path / name).write_text(text)
    run = kit.open_run(tmp_path, captured_at="2026-02-18 02:11:52")
    return {frame: run.rows(frame) for frame in ("gpus", "gpu_processes", "counters", "host", "notes")}


def cells(rows: list[Row], *columns: str) -> list[tuple]:
    return [tuple(row.get(column) for column in columns) for row in rows]


def test_dmon_with_stamps_gives_moments(tmp_path: Path) -> None:
    text = (
        "#Date       Time        gpu   pwr  gtemp    sm   mem    fb\n#YYYYMMDD   HH:MM:SS    Idx     W      C     %     %    MB\n"
    )
    text += "".join(
        f" 20260218   01:00:0{second}      {gpu}   121     30   {90 + gpu}     -  1043\n" for second in (1, 2) for gpu in (0, 1)
    )
    found = frames(tmp_path, text)["gpus"]
    assert cells(found, "gpu", "moment", "power_w", "util_percent", "mem_util_percent", "mem_used_mib") == [
        (0, 0, 121.0, 90.0, None, 1043.0),
        (1, 0, 121.0, 91.0, None, 1043.0),
        (0, 1, 121.0, 90.0, None, 1043.0),
        (1, 1, 121.0, 91.0, None, 1043.0),
    ]
    assert found[2]["time"] - found[0]["time"] == 10**9


def test_pmon_leaves_out_devices_without_a_process(tmp_path: Path) -> None:
    text = "# gpu         pid   type     sm    mem    fb   command\n# Idx           #    C/G      %      %    MB   name\n"
    text += "    0       4412     C     97     15   81000   VLLM::EngineCore\n    1          -     -      -      -       -   -\n"
    assert cells(frames(tmp_path, text)["gpu_processes"], "gpu", "pid", "process", "mem_used_mib") == [
        (0, 4412, "VLLM::EngineCore", 81000.0)
    ]


def test_xml_reads_power_of_old_and_new_drivers(tmp_path: Path) -> None:
    gpu = "<gpu id='0000{0}:00.0'><product_name>NVIDIA H200</product_name><fb_memory_usage><total>143771 MiB</total>"
    gpu += "<used>130429 MiB</used></fb_memory_usage><utilization><gpu_util>100 "
    gpu += "%</gpu_util></utilization>{1}<processes><process_info>"
    gpu += (
        "<pid>4412</pid><process_name>VLLM</process_name><used_memory>130416 MiB</used_memory></process_info></processes></gpu>"
    )
    new = "<gpu_power_readings><instant_power_draw>121.5 W</instant_power_draw><current_power_limit>700 "
    new += "W</current_power_limit></gpu_power_readings>"
    old = "<power_readings><power_draw>99.0 W</power_draw><power_limit>300 W</power_limit></power_readings>"
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    head += "<nvidia_smi_log><driver_version>570.1</driver_version>"
    found = frames(tmp_path, head + gpu.format("0A", new) + gpu.format("0B", old) + "</nvidia_smi_log>")
    assert cells(found["gpus"], "gpu", "util_percent", "mem_used_mib", "power_w", "power_limit_w") == [
        (0, 100.0, 130429.0, 121.5, 700.0),
        (1, 100.0, 130429.0, 99.0, 300.0),
    ]
    assert cells(found["gpu_processes"], "gpu", "pid", "mem_used_mib") == [(0, 4412, 130416.0), (1, 4412, 130416.0)]
    assert cells(found["host"], "key", "value") == [("driver", "570.1")]


def test_memory_that_nvidia_smi_cuts_is_unknown_not_lost(tmp_path: Path) -> None:
    text = "| NVIDIA-SMI 570.1     Driver Version: 570.1     CUDA Version: 12.8     |\n"
    text += "|    0   N/A  N/A         4412      C   VLLM::Worker_TP0                         13042... |\n"
    text += "|    1   N/A  N/A         4413      C   VLLM::Worker_TP1                        99801MiB |\n"
    assert cells(frames(tmp_path, text)["gpu_processes"], "gpu", "pid", "mem_used_mib") == [(0, 4412, None), (1, 4413, 99801.0)]


def test_mig_devices_keep_their_memory(tmp_path: Path) -> None:
    text = "| NVIDIA-SMI 570.1     Driver Version: 570.1     CUDA Version: 12.8     |\n| MIG devices:          |\n"
    text += "|  2    9   0   1  |   8011MiB /  9728MiB | 14      0 |  1   0    0    0    0 |\n"
    assert cells(frames(tmp_path, text)["counters"], "name", "labels", "value") == [
        ("mig_mem_used_mib", 'gpu="2",gi="9",ci="0"', 8011.0),
        ("mig_mem_total_mib", 'gpu="2",gi="9",ci="0"', 9728.0),
    ]


def test_csv_without_header_says_what_it_cannot_tell(tmp_path: Path) -> None:
    assert (
        cells(frames(tmp_path, "0, NVIDIA L4, 23034 MiB\n1, NVIDIA L4, 23034 MiB\n", "a.csv")["gpus"], "mem_used_mib")
        == [(None,)] * 2
    )
    found = frames(tmp_path, "0, 23034 MiB, 511 MiB, 35 %\n", "a.csv")["gpus"]
    assert cells(found, "mem_used_mib", "mem_total_mib", "util_percent") == [(511.0, 23034.0, 35.0)]


def test_lines_that_a_person_left_out_are_no_device(tmp_path: Path) -> None:
    text = "name, pci.bus_id, vbios_version\nNVIDIA H100, 00000000:04:00.0, 96.00.89.00.01\n[...]\n"
    text += "NVIDIA H100, 00000000:8B:00.0, 96.00.89.00.01\n"
    found = frames(tmp_path, text, "gpus.csv")
    assert cells(found["gpus"], "gpu", "bus_id", "moment") == [(0, "00000000:04:00.0", None), (1, "00000000:8B:00.0", None)]
    assert found["counters"] == []


def test_amd_smi_metric_in_text_and_json(tmp_path: Path) -> None:
    text = "GPU: 1\n    USAGE:\n        GFX_ACTIVITY: 97 %\n        UMC_ACTIVITY: 3 %\n    POWER:\n        SOCKET_POWER: 640 W\n"
    text += "    TEMPERATURE:\n        EDGE: N/A\n        HOTSPOT: 71 °C\n    MEM_USAGE:\n"
    text += "        TOTAL_VRAM: 196592 MB\n        USED_VRAM: 180011 MB\n"
    expected = [(1, 97.0, 3.0, 640.0, 71.0, 180011.0)]
    columns = ("gpu", "util_percent", "mem_util_percent", "power_w", "temperature_c", "mem_used_mib")
    assert cells(frames(tmp_path, text)["gpus"], *columns) == expected

    def value(figure: object, unit: str) -> dict:
        return {"value": figure, "unit": unit}

    usage = {"gfx_activity": value(97, "%"), "umc_activity": value(3, "%")}
    document = {
        "gpu": 1,
        "usage": usage,
        "power": {"socket_power": value(640, "W")},
        "mem_usage": {"used_vram": value(180011, "MB")},
    }
    document["temperature"] = {"edge": "N/A", "hotspot": value(71, "C")}
    assert cells(frames(tmp_path, json.dumps([document]))["gpus"], *columns) == expected


def test_amd_smi_monitor_and_table(tmp_path: Path) -> None:
    text = "GPU  POWER  GPU_TEMP  MEM_TEMP  GFX_UTIL  GFX_CLOCK  MEM_UTIL  VRAM_USED  VRAM_TOTAL\n"
    text += "  3  640 W     71 °C     60 °C      97 %   2100 MHz      12 %  180011 MB   196592 MB\n\nPROCESS INFO:\n"
    text += "GPU                  NAME      PID  GTT_MEM  CPU_MEM  VRAM_MEM  MEM_USAGE     GFX     ENC\n"
    text += "  3               python3     4412    0.0 B    0.0 B    2.0 GB      0.0 B    0 ns    0 ns\n"
    columns = ("gpu", "power_w", "temperature_c", "util_percent", "mem_util_percent", "mem_used_mib")
    found = frames(tmp_path, text)
    assert cells(found["gpus"], *columns, "sm_clock_mhz") == [(3, 640.0, 71.0, 97.0, 12.0, 180011.0, 2100.0)]
    assert cells(found["gpu_processes"], "gpu", "pid", "process", "mem_used_mib") == [(3, 4412, "python3", 2048.0)]
    rule = f"+{'-' * 78}+\n"
    text = rule + "| AMD-SMI 26.0.0+37d1          amdgpu version: 6.12.12  ROCm version: 7.0.0    |\n"
    text += "| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |\n"
    text += "| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |\n"
    text += "| 0001:00:05.0    AMD Instinct MI325X | 12 %     71 °C   0          640/1000 W |\n"
    text += "|   3       3       1        SPX/NPS1 | 97 %       N/A        180011/262144 MB |\n" + rule
    (gpu,) = found = frames(tmp_path, text)["gpus"]
    assert cells(found, *columns) == [(3, 640.0, 71.0, 97.0, 12.0, 180011.0)]
    assert (gpu["name"], gpu["bus_id"], gpu["power_limit_w"]) == ("AMD Instinct MI325X", "0001:00:05.0", 1000.0)


def test_rocm_smi_json_reads_the_edge_temperature(tmp_path: Path) -> None:
    card = {"Temperature (Sensor edge) (C)": "51.0", "Temperature (Sensor junction) (C)": "66.0", "GPU use (%)": "97"}
    card |= {"Average Graphics Package Power (W)": "121.0", "PCI Bus": "0000:83:00.0"}
    card |= {"VRAM Total Memory (B)": str(32 * 2**30), "VRAM Total Used Memory (B)": str(30 * 2**30)}
    found = frames(tmp_path, json.dumps({"card2": card, "system": {"Driver version": "6.7"}}, indent=4), "out.json")["gpus"]
    assert cells(found, "gpu", "temperature_c", "util_percent", "power_w", "mem_used_mib", "mem_total_mib", "bus_id") == [
        (2, 51.0, 97.0, 121.0, 30720.0, 32768.0, "0000:83:00.0")
    ]


def test_amd_smi_processes(tmp_path: Path) -> None:
    text = (
        "GPU: 0\n    PROCESS_INFO:\n        NAME: python3\n        PID: 4412\n        MEMORY_USAGE:\n            GTT_MEM: 0.0 B\n"
    )
    text += "            VRAM_MEM: 2.0 GB\nGPU: 1\n    PROCESS_INFO: No running processes detected\n"
    assert cells(frames(tmp_path, text)["gpu_processes"], "gpu", "pid", "process", "mem_used_mib") == [
        (0, 4412, "python3", 2048.0)
    ]


def test_gpustat_with_power_and_processes(tmp_path: Path) -> None:
    text = "node                     Wed Feb 18 02:10:38 2026  570.1\n"
    text += (
        "[0] NVIDIA H200      | 61'C, 100 %, 121 / 700 W | 130429 / 143771 MB | ops:python/4412(130416M) ops:python/4413(?M)\n"
    )
    found = frames(tmp_path, text)
    assert cells(found["gpus"], "name", "power_w", "power_limit_w", "mem_used_mib") == [("NVIDIA H200", 121.0, 700.0, 130429.0)]
    assert cells(found["gpu_processes"], "pid", "mem_used_mib") == [(4412, 130416.0), (4413, None)]


def test_npu_smi_with_two_chips_a_card_and_one_unwell(tmp_path: Path) -> None:
    text = "| npu-smi 24.1     Version: 24.1     |\n| NPU   Name    | Health  | Power(W)  Temp(C)  Hugepages-Usage(page)|\n"
    for npu, health in ((0, "OK"), (1, "Alarm")):
        for chip in (0, 1):
            text += f"| {npu}     Ascend910   | {health}   | 170.1   45    0 / 0  |\n"
            text += f"| {chip}     {npu * 2 + chip}   | 0000:9{npu}:0{chip}.0  | 88     0    / 0    61000/ 65536 |\n"
    text += "| NPU     Chip              | Process id    | Process name  | Process memory(MB) |\n"
    text += "| 1       1     | 4412   | VLLMWorker_TP  | 60111  |\n"
    found = frames(tmp_path, text)
    assert cells(found["gpus"], "gpu", "util_percent", "mem_total_mib", "error") == [
        (0, 88.0, 65536.0, None),
        (1, 88.0, 65536.0, None),
        (2, 88.0, 65536.0, "health: Alarm"),
        (3, 88.0, 65536.0, "health: Alarm"),
    ]
    assert cells(found["gpu_processes"], "gpu", "pid", "mem_used_mib") == [(3, 4412, 60111.0)]


def test_hl_smi_reads_as_a_table_of_devices(tmp_path: Path) -> None:
    text = "| HL-SMI Version:           hl-1.20.0-fw-58.0          |\n"
    text += "| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
    text += "|   0  HL-325              N/A  | 0000:21:00.0     N/A |                   0  |\n"
    text += "| N/A   43C   N/A   264W / 900W | 120672MiB / 131072MiB |    97%           N/A|\n"
    found = frames(tmp_path, text)["gpus"]
    assert cells(found, "gpu", "name", "power_w", "util_percent", "mem_used_mib") == [(0, "HL-325", 264.0, 97.0, 120672.0)]


def test_xpu_smi_table_discovery_and_tiles(tmp_path: Path) -> None:
    text = "|            Intel XPU-SMI v2.0    Driver: 9FF    Level Zero: 1.27.0             |\n"
    text += "|   0  Intel(R) Arc(TM) B580   Off             | 0000:03:00.0      Off      |               Disabled |\n"
    text += "| N/A    25C  66W / 380W                       | 239MiB / 12216MiB          |      3%        Default |\n"
    text += "|     0     4412      C      python3                                                       206 MiB |\n"
    found = frames(tmp_path, text)
    assert cells(found["gpus"], "name", "power_w", "util_percent", "mem_total_mib") == [
        ("Intel(R) Arc(TM) B580", 66.0, 3.0, 12216.0)
    ]
    assert cells(found["gpu_processes"], "pid", "mem_used_mib") == [(4412, 206.0)]
    text = "| Device ID                   | 1                          |\n"
    text += "| GPU Utilization (%)         | Tile 0: 12, Tile 1: 90     |\n"
    text += "| GPU Memory Used (MiB)       | Tile 0: 10, Tile 1: 30     |\n"
    assert cells(frames(tmp_path, text)["gpus"], "gpu", "util_percent", "mem_used_mib") == [(1, 90.0, 40.0)]
