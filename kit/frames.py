"""Every frame of the kit, declared once. `kit reference` prints this as docs/columns.md.

Common columns: `capture` is the raw file that a row came from (relative to the run), `line` its 1-based line there,
`moment` numbers the samples of the same thing (0, 1, …; null where there is one only), `time` is UTC, `t_s` the seconds
since launch zero. A capture that has no clock leaves `time` null; it takes the time of its capture where the manifest
knows one.
"""

from __future__ import annotations

from kit.schema import Column as C
from kit.schema import Frame

TIME = (C("time", "time", "when, on the clock of the run"), C("t_s", "float", "time since launch zero", "s"))
WHERE = (
    C(
        "host_name",
        "text",
        "host it was taken from, in a run with several; each after the first has 10,000,000 added to its "
        "process and thread ids and 1,000 to its GPU numbers, so that no two hosts' are taken for one",
    ),
    C("capture", "text", "raw file the row came from", nullable=False),
    C("line", "int", "line in that file, from 1"),
)
MOMENT = (C("moment", "int", "number of the sample of the same thing, from 0"),)


def _frame(name: str, meaning: str, *columns: C, moment: bool = True) -> Frame:
    return Frame(name, meaning, TIME + (MOMENT if moment else ()) + columns + WHERE)


_ALL = (
    _frame(
        "log",
        "Records of server and launcher logs, after splitting frames, glued lines and continuations.",
        C("record", "int", "number of the record in its file, from 0", nullable=False),
        C(
            "time_source",
            "text",
            "own: the record's stamp; bar: last stamp before the bar plus its elapsed time; "
            "carried: stamp of the record before; start: counted from the log's own start; none",
        ),
        C("server", "text", "grammar that matched: sglang, vllm, tgi, trtllm, llamacpp, torchrun, nccl, ray, …"),
        C("process", "text", "process words of the prefix, as printed (Worker_TP0, EngineCore, shard-manager)"),
        C("pid", "int", "process id in the prefix"),
        C("rank_label", "text", "rank words of the prefix, as printed (TP0, DP0 TP3 EP3, rank1)"),
        C("rank", "int", "global rank"),
        C("node", "int", "node the log file came from (server.node1.log = 1)"),
        C("level", "text", "DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        C("source", "text", "logger or file:line that wrote it"),
        C("kind", "text", "progress, heartbeat, symptom, error, request, noise, other"),
        C("milestone", "text", "code of the milestone (weights_begin, graph_end, ready, …)"),
        C("phase", "text", "phase that the record shows begun"),
        C("bar", "text", "description of the progress bar"),
        C("bar_kind", "text", "weights, graph, download, jit, other"),
        C("bar_n", "float", "items done"),
        C("bar_total", "float", "items in all"),
        C("bar_elapsed_s", "float", "time since the bar began, as printed", "s"),
        C("bar_s_per_item", "float", "seconds an item, as printed or its reciprocal", "s"),
        C("fields", "text", "values that the milestone's pattern named, as JSON"),
        C("text", "text", "the record without prefixes", nullable=False),
        C("raw", "text", "the record as it stands, without colour codes", nullable=False),
        moment=False,
    ),
    _frame(
        "processes",
        "Processes at one or more moments: /proc/PID/status and stat, ps, sampler.",
        C("pid", "int", "process id", nullable=False),
        C("ppid", "int", "parent"),
        C("state", "text", "R, S, D, T, t, Z, X, I: state letter of the kernel"),
        C("comm", "text", "name of at most 15 characters"),
        C("cmdline", "text", "command line or process title"),
        C("user", "text", "owner"),
        C("threads", "int", "number of threads"),
        C("fds", "int", "number of open descriptors"),
        C("start_ticks", "int", "start time since boot; tells a reused pid", "ticks"),
        C("elapsed_s", "float", "age of the process (ps ELAPSED)", "s"),
        C("utime_s", "float", "user time", "s"),
        C("stime_s", "float", "system time", "s"),
        C("cpu_s", "float", "user and system time together (ps TIME)", "s"),
        C("cpu_percent", "float", "CPU share as ps prints it: over the life of the process", "%"),
        C("vsize_bytes", "int", "address space", "bytes"),
        C("rss_bytes", "int", "resident memory, shared pages included: never sum it over ranks", "bytes"),
        C("rss_anon_bytes", "int", "anonymous resident memory", "bytes"),
        C("rss_file_bytes", "int", "resident pages of mapped files", "bytes"),
        C("rss_shmem_bytes", "int", "resident shared memory (shared between ranks)", "bytes"),
        C("swap_bytes", "int", "swapped out", "bytes"),
        C("voluntary_switches", "int", "voluntary context switches"),
        C("nonvoluntary_switches", "int", "forced context switches"),
        C("wchan", "text", "kernel function it sleeps in"),
        C("tracer_pid", "int", "pid that traces it, 0 for none"),
        C("cgroup", "text", "control group path"),
        C("container_pid", "int", "its pid inside its container, where it has one of its own (innermost NSpid)"),
        C("tool", "text", "status, stat, ps, top, pgrep, pidstat, atop, sampler"),
    ),
    _frame(
        "threads",
        "Threads at one or more moments: task/*/stat, ps -L, sampler.",
        C("pid", "int", "process"),
        C("tid", "int", "thread", nullable=False),
        C("comm", "text", "thread name"),
        C("state", "text", "state letter"),
        C("wchan", "text", "kernel function it sleeps in"),
        C("syscall", "text", "system call it is in, by name or number"),
        C("syscall_args", "text", "arguments as /proc prints them"),
        C("utime_s", "float", "user time", "s"),
        C("stime_s", "float", "system time", "s"),
        C("cpu_s", "float", "user and system time together", "s"),
        C("cpu_percent", "float", "CPU share over the thread's life, as ps prints it", "%"),
        C("processor", "int", "CPU it ran on last"),
        C("run_s", "float", "time on a CPU as the scheduler counts it (schedstat): sees what ticks are too coarse for", "s"),
        C("wait_s", "float", "time ready to run without a CPU (schedstat)", "s"),
        C("slices", "int", "times that it was given a CPU (schedstat)"),
        C("tool", "text", "status, stat, wchan, ps, top, pidstat, atop, sampler"),
    ),
    _frame(
        "io",
        "/proc/PID/io.",
        C("pid", "int", "process"),
        C("rchar_bytes", "int", "bytes asked from read calls", "bytes"),
        C("wchar_bytes", "int", "bytes given to write calls", "bytes"),
        C("read_calls", "int", "read system calls"),
        C("write_calls", "int", "write system calls"),
        C("read_bytes", "int", "bytes read from storage", "bytes"),
        C("write_bytes", "int", "bytes sent to storage", "bytes"),
    ),
    _frame(
        "fds",
        "Open descriptors: ls -l /proc/PID/fd, sampler.",
        C("pid", "int", "process"),
        C("fd", "int", "descriptor", nullable=False),
        C("mode", "text", "permissions of the link (r, w, rw)"),
        C("target", "text", "what it points to"),
        C("deleted", "bool", "the target is deleted"),
    ),
    _frame(
        "sockets",
        "ss, netstat, /proc/net/tcp, sampler.",
        C("protocol", "text", "tcp, tcp6, udp, unix"),
        C("state", "text", "LISTEN, ESTAB, SYN-SENT, … as ss spells it"),
        C("recv_q", "int", "bytes not yet read by the process (or backlog of a listener)", "bytes"),
        C("send_q", "int", "bytes not yet acknowledged (or backlog limit of a listener)", "bytes"),
        C("local_address", "text", "address of this end"),
        C("local_port", "int", "port of this end"),
        C("peer_address", "text", "address of the other end"),
        C("peer_port", "int", "port of the other end"),
        C("pid", "int", "owner"),
        C("process", "text", "owner's name"),
        C("fd", "int", "owner's descriptor"),
    ),
    _frame(
        "probes",
        "HTTP requests that an observer made: curl output, the kit's own probes.",
        C("method", "text", "GET, POST"),
        C("url", "text", "address asked"),
        C("port", "int", "port asked"),
        C("path", "text", "path asked"),
        C("purpose", "text", "health, models, generate, metrics, info, other"),
        C("http_status", "int", "status of the answer"),
        C("error", "text", "connection refused, timeout, reset, empty reply, resolve, other"),
        C("error_code", "int", "curl's exit code"),
        C("duration_s", "float", "time taken", "s"),
        C("tokens", "int", "tokens or characters that a generate answer held (0 for none)"),
        C("body", "text", "first 2,000 characters of the answer"),
        C("command", "text", "the command as it stands"),
    ),
    _frame(
        "gpus",
        "nvidia-smi and rocm-smi, a row a device and moment.",
        C("gpu", "int", "index", nullable=False),
        C("name", "text", "product"),
        C("bus_id", "text", "PCI bus id"),
        C("util_percent", "float", "utilisation", "%"),
        C("mem_util_percent", "float", "memory controller utilisation", "%"),
        C("mem_used_mib", "float", "memory in use", "MiB"),
        C("mem_total_mib", "float", "memory in all", "MiB"),
        C("power_w", "float", "power drawn", "W"),
        C("power_limit_w", "float", "power limit", "W"),
        C("temperature_c", "float", "temperature", "°C"),
        C("sm_clock_mhz", "float", "SM clock", "MHz"),
        C("pstate", "text", "performance state"),
        C("error", "text", "ERR!, lost, fallen off the bus: what stood in place of values"),
        C("remapped_rows", "text", "row remapping as printed"),
    ),
    _frame(
        "gpu_processes",
        "Processes that hold a GPU (nvidia-smi table or --query-compute-apps).",
        C("gpu", "int", "index of the GPU"),
        C("pid", "int", "process"),
        C("process", "text", "its name"),
        C("mem_used_mib", "float", "memory in use", "MiB"),
    ),
    _frame(
        "kernel_log",
        "dmesg and journalctl -k.",
        C("uptime_s", "float", "seconds since boot, where that is the stamp", "s"),
        C(
            "kind",
            "text",
            "xid, oom_kill, oom_invoked, hung_task, lockup, io_page_fault, segfault, nfs, storage, gpu_lost, ecc, amdgpu, other",
        ),
        C("xid", "int", "Xid number"),
        C("bus_id", "text", "PCI bus id named"),
        C("pid", "int", "process named"),
        C("process", "text", "its name"),
        C("text", "text", "the message", nullable=False),
        moment=False,
    ),
    _frame(
        "stacks",
        "Stack dumps, a row a frame: py-spy, gdb, /proc/PID/stack, faulthandler, dumps inside logs.",
        C("tool", "text", "pyspy, pyspy-top, gdb, kernel, faulthandler"),
        C("pid", "int", "process"),
        C("process", "text", "its title or command line"),
        C("tid", "int", "thread id (gdb: LWP)"),
        C("thread", "text", "thread name"),
        C("thread_state", "text", "active, idle, active+gil, … as printed"),
        C("depth", "int", "0 is the innermost frame", nullable=False),
        C("function", "text", "function"),
        C("file", "text", "file or library"),
        C("file_line", "int", "line in it"),
        C("native", "bool", "a C or C++ frame"),
        C("share_percent", "float", "share of samples (pyspy-top)", "%"),
    ),
    _frame(
        "tool_errors",
        "A tool that ran and failed: py-spy without permission, nvidia-smi that hung, …",
        C("tool", "text", "which", nullable=False),
        C("pid", "int", "process it was aimed at"),
        C("error", "text", "permission, not_found, version, timeout, no_process, other"),
        C("text", "text", "its message", nullable=False),
        moment=False,
    ),
    _frame(
        "locks",
        "Lock files: lslocks, ls -l, fuser, lsof.",
        C("path", "text", "lock file", nullable=False),
        C("pid", "int", "holder"),
        C("process", "text", "holder's name"),
        C("type", "text", "FLOCK, POSIX, OFDLCK, baton (exists = locked)"),
        C("mode", "text", "READ, WRITE; with * where it waits"),
        C("waits", "bool", "the row is a waiter, not the holder"),
        C("checked", "bool", "somebody looked for a holder (lslocks, fuser, lsof)"),
        C("mtime", "time", "time the file was made or changed"),
    ),
    _frame(
        "syscalls",
        "strace, a row a call (split calls joined).",
        C("pid", "int", "thread (or process) that called"),
        C("comm", "text", "its name, where strace printed it"),
        C("syscall", "text", "name", nullable=False),
        C("args", "text", "text between the parentheses"),
        C("result", "text", "everything after the equals sign, but the duration"),
        C("ret", "text", "first word of the result"),
        C("errno", "text", "symbol of the error"),
        C("duration_s", "float", "time in the call", "s"),
        C("fd", "int", "first argument, where it is a descriptor"),
        C("state", "text", "done, merged, open, orphan, detached, moved, cut"),
        C("end_line", "int", "line of the return, where it is another"),
        moment=False,
    ),
    _frame(
        "sizes",
        "du, ls, stat of folders and files that ought to grow.",
        C("path", "text", "what", nullable=False),
        C("size_bytes", "int", "how large", "bytes", nullable=False),
    ),
    _frame(
        "filesystems",
        "df and mount.",
        C("device", "text", "device or export"),
        C("mount", "text", "mount point"),
        C("type", "text", "file system type"),
        C("size_bytes", "int", "size", "bytes"),
        C("used_bytes", "int", "used", "bytes"),
        C("available_bytes", "int", "available", "bytes"),
        C("used_percent", "float", "used", "%"),
        C("options", "text", "mount options"),
        moment=False,
    ),
    _frame(
        "host_memory",
        "free, /proc/meminfo.",
        C("name", "text", "total, used, free, shared, cache, available, swap_total, swap_used, …", nullable=False),
        C("value_bytes", "int", "how much", "bytes"),
    ),
    _frame(
        "counters",
        "Named numbers: cgroup files, memory.events, Prometheus metrics, pressure, ray resources.",
        C(
            "source",
            "text",
            "cgroup, metrics, pressure, ray, vmstat, loadavg, gpu, diskstats, process, sar, smaps (bytes)",
            nullable=False,
        ),
        C("name", "text", "name as printed", nullable=False),
        C("labels", "text", "labels as printed"),
        C("value", "float", "value"),
    ),
    _frame(
        "events",
        "What an orchestrator or operator said: kubectl events, docker, kill commands, ray status lines.",
        C("source", "text", "kubernetes, docker, slurm, shell, ray, atop", nullable=False),
        C("type", "text", "Normal, Warning"),
        C("reason", "text", "Unhealthy, Killing, BackOff, FailedScheduling, …"),
        C("object", "text", "pod or container"),
        C("age_s", "float", "age when it was printed", "s"),
        C("text", "text", "message", nullable=False),
        moment=False,
    ),
    _frame(
        "collectives",
        "Collective operations by rank: ncclras, flight recorder, desync reports.",
        C("source", "text", "ncclras, flight_recorder, desync, watchdog", nullable=False),
        C("communicator", "text", "communicator or process group"),
        C("rank", "int", "rank in it"),
        C("operation", "text", "ALLREDUCE, …, as printed"),
        C("count", "int", "sequence number or number of operations"),
        C("state", "text", "started, finished, missing, timed_out, running, unresponsive"),
        C("text", "text", "as printed"),
    ),
    _frame(
        "commands",
        "Command lines and scripts that started the launch.",
        C("text", "text", "the command", nullable=False),
        C("program", "text", "first word, or the module after python -m"),
        moment=False,
    ),
    _frame(
        "host",
        "Host facts line by line: /etc/hosts, ip addr, lspci, uname, versions.",
        C("source", "text", "hosts, ip, lspci, topo, uname, versions, limits, environ", nullable=False),
        C("pid", "int", "process that the line is about (environ)"),
        C("key", "text", "what the line is about"),
        C("value", "text", "the line", nullable=False),
        moment=False,
    ),
    _frame(
        "gaps",
        "Stretches of time without samples, as the manifest notes them: a row a gap, never silence.",
        C("end", "time", "end of the gap", nullable=False),
        C("duration_s", "float", "how long", "s"),
        C("why", "text", "why", nullable=False),
        moment=False,
    ),
    _frame(
        "notes",
        "What a parser could not understand, by file: nothing is dropped in silence.",
        C("reason", "text", "why", nullable=False),
        C("count", "int", "how many lines"),
        C("text", "text", "a sample"),
        moment=False,
    ),
    Frame(
        "bench_runs",
        "Benchmark results, a row a run of the client (a file may hold several). No launch clock.",
        (
            C("run", "text", "the run: its file, with line or index where the file holds several", nullable=False),
            C("file", "text", "result file", nullable=False),
            C("entry", "int", "line or index in the file"),
            C("tool", "text", "vllm bench, sglang bench, aiperf, genai-perf, guidellm, hyperfine, …", nullable=False),
            C("tool_version", "text", "version, where the file has it (SGLang: of the server)"),
            C("benchmark", "text", "kind: serve, latency, throughput, startup, serving, one_batch, …"),
            C("label", "text", "label or tag that the user gave"),
            C("model", "text", "model"),
            C("started", "time", "begin of the run; a time without a zone is taken as UTC"),
            C("duration_s", "float", "length of the run", "s"),
            C("dataset", "text", "data set"),
            C("request_rate", "float", "requests sent a second; inf: all at once", "1/s"),
            C("burstiness", "float", "shape of the arrivals; 1 is Poisson"),
            C("max_concurrency", "float", "most requests at a time; inf: no limit"),
            C("num_prompts", "int", "requests asked for"),
            C("input_tokens_mean", "float", "mean prompt length of successful requests", "tokens"),
            C("output_tokens_mean", "float", "mean answer length of successful requests", "tokens"),
            C("completed", "int", "successful requests"),
            C("failed", "int", "failed requests; null: not known"),
            C("complete", "bool", "the tool says that the run was neither cancelled nor cut short"),
            C("settings", "text", "all other fields of the file, as JSON; secrets masked"),
            C("launch", "text", "command line, environment and versions of the server, as JSON"),
            C("notes", "text", "what to know when reading this run"),
        ),
    ),
    Frame(
        "bench_values",
        "Figures of benchmark runs, long: a row a run, benchmark, metric and statistic.",
        (
            C("run", "text", "the run", nullable=False),
            C("file", "text", "result file", nullable=False),
            C("name", "text", "benchmark in the run (micro-benchmarks)"),
            C("metric", "text", "ttft, itl, tpot, e2el, output_throughput, wall_time, …", nullable=False),
            C(
                "stat",
                "text",
                "mean, median, stddev, cv, min, max, p90, p99, run (whole run), count, process_means",
                nullable=False,
            ),
            C("value", "float", "value, in `unit`; null: the tool wrote a number that is no measurement"),
            C("unit", "text", "ms, s, tok/s, req/s, 1, …"),
            C("direction", "text", "lower_is_better, higher_is_better, null"),
            C("n", "int", "raw values behind it"),
            C("definition", "text", "id of the definition where tools differ; never divide two with different ids"),
            C("source", "text", "tool: written by the tool; samples: computed from requests or repetitions"),
        ),
    ),
    Frame(
        "bench_requests",
        "Requests of serving benchmarks and repetitions of micro-benchmarks, failed ones marked.",
        (
            C("run", "text", "the run", nullable=False),
            C("file", "text", "result file", nullable=False),
            C("name", "text", "benchmark in the run (micro-benchmarks)"),
            C("number", "int", "number in the run, from 0", nullable=False),
            C("kind", "text", "request, warmup, repetition"),
            C("group", "int", "process that measured it (pyperf)"),
            C("ok", "bool", "it succeeded; null: not known. Statistics hold those that are true only"),
            C("error", "text", "message"),
            C("start_s", "float", "start since that of the first request", "s"),
            C("ttft_s", "float", "time to first token", "s"),
            C("latency_s", "float", "whole time", "s"),
            C("latency_from", "text", "file, or first_token_and_gaps: TTFT plus the sum of the gaps"),
            C("tpot_s", "float", "time per output token, as the tool defines it", "s"),
            C("queue_s", "float", "wait in the client before sending", "s"),
            C("gaps", "int", "gaps between tokens"),
            C("gap_mean_s", "float", "mean gap", "s"),
            C("gap_max_s", "float", "longest gap", "s"),
            C("gaps_s", "text", "all gaps in seconds, as JSON"),
            C("input_tokens", "int", "prompt length", "tokens"),
            C("output_tokens", "int", "answer length", "tokens"),
        ),
    ),
)

FRAMES: dict[str, Frame] = {frame.name: frame for frame in _ALL}
"""All frames by name."""

TABLES: dict[str, Frame] = {
    frame.name: frame
    for frame in (
        Frame(
            "facts",
            "Facts of a verdict, a row a piece of evidence (a fact without evidence has one row).",
            (
                C("fact", "text", "name, as in docs/facts.md", nullable=False),
                C("value", "text", "value as JSON", nullable=False),
                C("number", "float", "the value, where it is a number or true (1) or false (0)"),
                C("capture", "text", "raw file that it stands in"),
                C("line", "int", "line in that file, from 1"),
                C("text", "text", "what stands there"),
            ),
        ),
        Frame(
            "hypotheses",
            "Signs for and against each class, a row a sign; classes without any have one row.",
            (
                C("class", "text", "class", nullable=False),
                C("share", "float", "share of belief, 0 to 1", nullable=False),
                C("score", "float", "sum of the weights", nullable=False),
                C("sign", "text", "sign that holds"),
                C("weight", "float", "log-odds: positive speaks for the class, negative against it"),
                C("claim", "text", "the sign as a sentence"),
                C("reason", "text", "why it has this weight"),
            ),
        ),
    )
}
"""Tables that are made of a verdict, not of a capture: `kit.facts(run)`, `kit.analyse.verdict.tables.hypotheses(run)`."""


def _reference_row(column: C) -> str:
    meaning = column.meaning.replace("|", "\\|")
    return f"| `{column.name}` | {column.type} | {column.unit} | {'yes' if column.nullable else 'no'} | {meaning} |"


def reference() -> str:
    """Return the column reference as Markdown, made from the declarations.

    Returns
    -------
    str
        One section a frame, one table row a column; ends with a newline.

    Examples
    --------
    >>> reference().splitlines()[0]
    '# Columns'
    """
    lines = [
        "# Columns",
        "",
        "Every frame of the kit, from the declarations in `kit/frames.py`. Print it anew with "
        "`kit reference -o docs/columns.md`.",
        "",
        "Types: `time` is tz-aware UTC `datetime64[ns]`, `int` nullable `Int64`, `float` `float64`, `bool` nullable "
        "`boolean`, `text` `str`. Units stand in the names.",
    ]
    for frame in (*FRAMES.values(), *TABLES.values()):
        lines += ["", f"## {frame.name}", "", frame.meaning, ""]
        lines += ["| column | type | unit | null | meaning |", "|---|---|---|---|---|"]
        lines += [_reference_row(column) for column in frame.columns]
    return "\n".join(lines) + "\n"
