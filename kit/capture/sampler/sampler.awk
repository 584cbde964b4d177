# The sampler for hosts without Python 3: prints the lines of script.py, less of them, in any POSIX awk (mawk, gawk, busybox).
# Threads are read again where their schedstat changed, as there. Command lines and environments go out raw, as `argv` and
# `environ`: whoever reads them scrubs them before anything is written.
# Given by -v: roots, exclude, interval_s, samples, first, guard (pid whose end ends this), own (the shell that started it).

function first_line(path,  line) {
    line = ""
    if ((getline line < path) < 0) line = ""
    close(path)
    return line
}

function quoted(text,  at, one, out) {
    if (text !~ /[\\"\001-\037\177]/) return "\"" text "\""
    out = ""
    for (at = 1; at <= length(text); at++) {
        one = substr(text, at, 1)
        out = out (one == "\\" || one == "\"" ? "\\" one : one ~ /[\001-\037\177]/ ? "?" : one)
    }
    return "\"" out "\""
}

function or_null(text) { return text == "" || text == "0" ? "null" : quoted(text) }

function uptime(  words) { split(first_line("/proc/uptime"), words, " "); return words[1] + 0 }

function from_command(command,  line) { line = ""; command | getline line; close(command); return line }

# comm, and f[1] state, f[2] parent, f[4] session, f[12] utime, f[13] stime, f[18] threads, f[20] start, f[37] processor
function parse_stat(line, f,  parts, count, rest) {
    count = split(line, parts, ")")
    rest = parts[count]
    split(rest, f, " ")
    return substr(line, index(line, "(") + 1, length(line) - length(rest) - index(line, "(") - 1)
}

# Chosen `Key: value` lines as a JSON object; kB become bytes.
function pairs(path, wanted,  line, colon, key, words, count, value, out, got) {
    out = ""; got = 0
    while ((getline line < path) > 0) {
        got = 1
        colon = index(line, ":")
        key = substr(line, 1, colon - 1)
        if (wanted != "" && index(wanted, " " key " ") == 0) continue
        count = split(substr(line, colon + 1), words, " ")
        if (count == 2 && words[2] == "kB") value = sprintf("%.0f", words[1] * 1024)
        else if (count == 1 && words[1] ~ /^-?[0-9]+$/) value = words[1]
        else if (count) { sub(/^[ \t]+/, "", line); value = substr(line, colon + 1); gsub(/[ \t]+/, " ", value); sub(/^ /, "", value); value = quoted(value) }
        else continue
        out = out (out == "" ? "" : ",") quoted(key) ":" value
    }
    close(path)
    return got ? "{" out "}" : ""
}

# processes

function tick_command(pause_s,  command, pid) {
    command = pause_s > 0 ? "sleep " sprintf("%.2f", pause_s) " 2>/dev/null || sleep 1; " : ""
    command = command "cd /proc; echo [0-9]*; echo -"
    for (pid in member) command = command " " pid "/task/[0-9]*"
    return command
}

function list(command,  line, words, count, at, parts) {
    pids = ""
    split("", tids)
    if ((command | getline line) > 0) pids = line
    while ((command | getline line) > 0) {
        count = split(line, words, " ")
        for (at = 2; at <= count; at++) if (split(words[at], parts, "/") == 3) tids[parts[1]] = tids[parts[1]] " " parts[3]
    }
    close(command)
}

function belongs(pid) {
    if (pid in observer) return 0
    if (!ever && pid in root) return 1
    return (parent[pid] in member) || (parent[pid] in joined) || (session[pid] in root && !(session[pid] in reused))
}

function look(whole,  count, at, pid, line, f, grown, command) {
    count = split(pids, every, " ")
    split("", here); split("", joined); split("", fresh)
    for (at = 1; at <= count; at++) here[every[at]] = 1
    for (pid in member) {
        line = pid in here ? first_line("/proc/" pid "/stat") : ""
        if (line != "") comm[pid] = parse_stat(line, f)
        if (line == "" || f[20] != start[pid]) forget(pid)
        else stat[pid] = line
    }
    for (at = 1; at <= count; at++) {
        pid = every[at]
        if (pid in member || (pid in stranger && !whole)) continue
        line = first_line("/proc/" pid "/stat")
        if (line == "") continue
        comm[pid] = parse_stat(line, f); stat[pid] = line; start[pid] = f[20]; parent[pid] = f[2]; session[pid] = f[4]
        fresh[pid] = 1
        if (ever && pid in root) reused[pid] = 1
    }
    do {
        grown = 0
        for (pid in fresh) if (!(pid in observer) && !(pid in root) && parent[pid] in observer) { observer[pid] = 1; grown = 1 }
    } while (grown)
    do {
        grown = 0
        for (pid in fresh) if (!(pid in joined) && belongs(pid)) { joined[pid] = 1; grown = 1 }
    } while (grown)
    command = ""
    for (pid in fresh) {
        if (pid in joined) { member[pid] = 1; ever = 1; delete stranger[pid]; command = command " " pid "/task/[0-9]*" }
        else { stranger[pid] = 1; delete stat[pid]; delete comm[pid] }
    }
    if (command != "") { line = pids; list("cd /proc; echo " quoted(pids) "; echo -" command all_tasks()); pids = line }
}

function all_tasks(  pid, out) { out = ""; for (pid in member) if (!(pid in fresh)) out = out " " pid "/task/[0-9]*"; return out }

function forget(pid) {
    print "{\"k\":\"gone\",\"n\":" n ",\"pid\":" pid ",\"comm\":" quoted(comm[pid]) ",\"was\":" or_null(last_state[pid]) "}"
    delete member[pid]; delete printed[pid]; delete arguments[pid]; delete known[pid]; delete stat[pid]; delete environ_printed[pid]
}

function process_line(pid, whole,  f, line, io, base, denied, wchan, argv, head) {
    base = "/proc/" pid "/"
    parse_stat(stat[pid], f)
    last_state[pid] = f[1]
    wchan = first_line(base "wchan")
    io = pairs(base "io", "")
    denied = io == "" && f[1] != "Z" ? "\"io\"" : ""
    if (first_line(base "syscall") == "" && f[1] != "Z") denied = denied (denied == "" ? "" : ",") "\"syscall\"" (wchan == "0" ? ",\"wchan\"" : "")
    line = "\"all\":true,\"ppid\":" f[2] ",\"sid\":" f[4] ",\"state\":" quoted(f[1]) ",\"comm\":" quoted(comm[pid]) \
        ",\"utime\":" f[12] ",\"stime\":" f[13] ",\"threads\":" f[18] ",\"start\":" f[20] ",\"vsize\":" f[21] \
        ",\"rss\":" sprintf("%.0f", f[22] * page) ",\"wchan\":" or_null(wchan) \
        ",\"status\":" object(pairs(base "status", status_keys)) ",\"io\":" object(io) \
        (f[1] == "Z" && f[50] != "" ? ",\"exit\":" f[50] : "") (denied == "" ? "" : ",\"denied\":[" denied "]")
    if (!(pid in arguments) || whole || arguments[pid] != comm[pid]) { argv = words_of(base "cmdline", none); arguments[pid] = comm[pid] }
    head = "{\"k\":\"proc\",\"n\":" n ",\"pid\":" pid
    if (argv != "") print head "," line ",\"argv\":[" argv "]}"
    else if (whole || line != printed[pid]) print head "," line "}"
    else print head "}"
    printed[pid] = line
    return f[1] != "Z" && f[1] != "X"
}

function object(text) { return text == "" ? "{}" : text }

# Words of the command line or the environment, less those in `known`; where a thread holds the lock of the memory map a read
# would let us wait for ever.
function words_of(path, known,  command, line, out) {
    command = boxed "tr \"\\n\\000\" \" \\n\" <" path " 2>/dev/null"
    out = ""
    while ((command | getline line) > 0) if (!(line in known)) out = out (out == "" ? "" : ",") quoted(line)
    close(command)
    return out
}

# The environment of each process once: the first one's whole, of the others what differs.
function environment(pid,  words, command, line) {
    words = words_of("/proc/" pid "/environ", usual)
    environ_printed[pid] = 1
    print "{\"k\":\"env\",\"n\":" n ",\"pid\":" pid ",\"root\":" (has_usual ? "false" : "true") ",\"environ\":[" words "]}"
    if (has_usual || words == "") return
    has_usual = 1
    command = boxed "tr \"\\n\\000\" \" \\n\" </proc/" pid "/environ 2>/dev/null"
    while ((command | getline line) > 0) usual[line] = 1
    close(command)
}

# threads

function thread_row(base, tid, schedstat,  f, name, call, count, c, args, s, at) {
    s = first_line(base "stat")
    if (s == "") return ""
    name = parse_stat(s, f)
    count = split(first_line(base "syscall"), c, " ")
    args = "null"
    if (count > 3) { args = c[2]; for (at = 3; at <= 7 && at <= count; at++) args = args " " c[at]; args = quoted(args) }
    thread_state = f[1]; thread_call = c[1]
    return "[" tid "," quoted(f[1]) "," f[12] "," f[13] "," f[37] "," or_null(first_line(base "wchan")) "," \
        (count ? quoted(c[1]) : "null") "," args "," quoted(name) "," \
        (split(schedstat, s3, " ") >= 3 && schedstat != "0 0 0" ? s3[1] "," s3[2] "," s3[3] : "null,null,null") "]"
}

function threads(pid, whole,  words, count, at, tid, key, base, s, row, rows, lines, ended, new, after) {
    new = !(pid in known)
    whole = whole || new
    count = split(tids[pid], words, " ")
    rows = ""; lines = 0; ended = ""
    for (at = 1; at <= count; at++) {
        tid = words[at]; key = pid "/" tid; base = "/proc/" pid "/task/" tid "/"
        seen[key] = n
        s = first_line(base "schedstat")
        if (s == sched[key] && !(key in always) && !whole) continue
        row = thread_row(base, tid, s)
        after = first_line(base "schedstat")
        if (after != s) { s = after; row = thread_row(base, tid, s) }
        if (row == "") { seen[key] = -1; continue }
        if (!(key in rowof) || thread_state == "R" || thread_state == "D" || thread_call == "running" || s == "" || s == "0 0 0") always[key] = 1
        else delete always[key]
        sched[key] = s
        if (whole || rowof[key] != row) {
            rows = rows (rows == "" ? "" : ",") row
            if (++lines % 400 == 0) { thread_line(pid, whole && lines == 400, rows, ""); rows = "" }
        }
        rowof[key] = row
    }
    split(known[pid], words, " ")
    for (at in words) {
        key = pid "/" words[at]
        if (seen[key] != n) {
            if (!new) ended = ended (ended == "" ? "" : ",") words[at]
            delete sched[key]; delete rowof[key]; delete always[key]; delete seen[key]
        }
    }
    known[pid] = tids[pid]
    if (rows != "" || ended != "" || (whole && lines < 400)) thread_line(pid, whole && lines < 400, rows, ended)
}

function thread_line(pid, whole, rows, ended) {
    print "{\"k\":\"threads\",\"n\":" n ",\"pid\":" pid ",\"all\":" (whole ? "true" : "false") ",\"rows\":[" rows "]" \
        (ended != "" && !whole ? ",\"ended\":[" ended "]" : "") "}"
}

# descriptors and host

function descriptors(pid,  command, line, count, words, at, target, rows) {
    command = "ls -l /proc/" pid "/fd 2>/dev/null"
    rows = ""
    while ((command | getline line) > 0) {
        at = index(line, " -> ")
        if (!at) continue
        count = split(substr(line, 1, at - 1), words, " ")
        target = substr(line, at + 4)
        rows = rows (rows == "" ? "" : ",") "[" words[count] ",\"" (substr(line, 2, 1) == "r" ? "r" : "") \
            (substr(line, 3, 1) == "w" ? "w" : "") "\"," quoted(target) "]"
    }
    close(command)
    if (rows != "") print "{\"k\":\"fds\",\"n\":" n ",\"pid\":" pid ",\"all\":true,\"rows\":[" rows "]}"
}

function pressure(  kind, kinds, at, path, line, words, count, i, pair, out, values) {
    split("cpu io memory", kinds, " ")
    out = ""
    for (at = 1; at <= 3; at++) {
        path = "/proc/pressure/" kinds[at]
        while ((getline line < path) > 0) {
            count = split(line, words, " ")
            values = ""
            for (i = 2; i <= count; i++) { split(words[i], pair, "="); values = values (i > 2 ? "," : "") quoted(pair[1]) ":" pair[2] }
            out = out (out == "" ? "" : ",") quoted(kinds[at] " " words[1]) ":{" values "}"
        }
        close(path)
    }
    return "{" out "}"
}

function host(  line, words, count) {
    line = first_line("/proc/loadavg")
    sub("/", " ", line)
    split(line, words, " ")
    line = "\"all\":true,\"memory\":" object(pairs("/proc/meminfo", memory_keys)) ",\"load\":[" words[1] "," words[2] "," words[3] \
        "," words[4] "," words[5] "],\"pressure\":" pressure() ",\"cgroup\":{}"
    print "{\"k\":\"host\",\"n\":" n (line == host_printed ? "" : "," line) "}"
    host_printed = line
}

# the loop

function due(every) { return previous < 0 || int(n / every) != int(previous / every) }

function sample(now,  pid, whole, alive) {
    print "{\"k\":\"sample\",\"n\":" n ",\"wall_ns\":" sprintf("%.0f", (wall0 + now) * 1e9) ",\"mono_ns\":" sprintf("%.0f", now * 1e9) "}"
    whole = due(30) || n - previous > 3
    look(whole)
    alive = 0
    for (pid in member) { if (process_line(pid, whole)) alive = 1; threads(pid, whole) }
    if (due(10)) for (pid in member) descriptors(pid)
    host()
    for (pid in member) if (!(pid in environ_printed)) environment(pid)
    print "{\"k\":\"done\",\"n\":" n ",\"took_s\":" sprintf("%.2f", uptime() - now) "}"
    fflush()
    return alive
}

function ends(pid,  f, line) {
    if (pid == "") return 0
    line = first_line("/proc/" pid "/stat")
    if (line == "") return 1
    parse_stat(line, f)
    return f[1] == "Z" || f[1] == "X"
}

BEGIN {
    status_keys = " Uid NSpid TracerPid VmPeak VmHWM VmLck VmPin RssAnon RssFile RssShmem VmSwap voluntary_ctxt_switches nonvoluntary_ctxt_switches "
    memory_keys = " MemTotal MemFree MemAvailable Buffers Cached SReclaimable Shmem AnonPages Dirty Writeback SwapTotal SwapFree "
    count = split(roots, words, " ")
    for (i = 1; i <= count; i++) root[words[i]] = 1
    count = split(exclude " " own, words, " ")
    for (i = 1; i <= count; i++) observer[words[i]] = 1
    page = from_command("getconf PAGESIZE 2>/dev/null || echo 4096") + 0
    hz = from_command("getconf CLK_TCK 2>/dev/null || echo 100") + 0
    boxed = from_command("timeout -k 1 1 true 2>/dev/null && echo yes") == "yes" ? "timeout -s KILL 2 " : ""
    date = from_command("date +%s.%N 2>/dev/null")
    if (date !~ /^[0-9]+\.[0-9]+$/) date = from_command("date +%s")
    began = uptime()
    wall0 = date - began
    gsub(" ", ",", roots)
    print "{\"k\":\"head\",\"format\":\"stallkit-sampler\",\"version\":2,\"by\":\"awk\",\"wall_ns\":" sprintf("%.0f", date * 1e9) \
        ",\"mono_ns\":" sprintf("%.0f", began * 1e9) ",\"hz\":" hz ",\"page\":" page ",\"machine\":" quoted(from_command("uname -m")) \
        ",\"kernel\":" quoted(from_command("uname -r")) ",\"pid_ns\":" quoted(from_command("readlink /proc/self/ns/pid 2>/dev/null")) \
        ",\"uid\":" from_command("id -u") ",\"roots\":[" roots "],\"interval_s\":" interval_s \
        ",\"samples\":" samples "}"
    fflush()
    split("", none); split("", usual)
    n = first; previous = -1; ever = 0; seen_alive = 0; why = "all samples taken"
    list(tick_command(0))
    while (n < samples) {
        now = uptime()
        alive = sample(now)
        previous = n
        seen_alive = seen_alive || alive
        if (seen_alive && !alive) { why = "all processes have ended"; break }
        now = uptime()
        n++
        late = first + int((now - began) / interval_s)
        if (late > n) n = late
        if (n >= samples) break
        list(tick_command(began + (n - first) * interval_s - now))
        if (ends(guard) || ends(own)) { why = "stopped"; break }
    }
    print "{\"k\":\"end\",\"n\":" n ",\"why\":" quoted(why) ",\"wall_ns\":" sprintf("%.0f", (wall0 + uptime()) * 1e9) "}"
    fflush()
}
