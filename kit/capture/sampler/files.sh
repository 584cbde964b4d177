# The sampler for hosts without Python 3 and awk: prints files of /proc whole, under their names; kit.capture.sampler.sections reads them.
# Given by variables: roots, every (seconds), first, samples.
if head -v -n 1 /proc/version >/dev/null 2>&1; then
    show() { head -v -n 999 "$@" 2>/dev/null; echo; }
else
    show() { for file; do echo "==> $file <=="; cat "$file" 2>/dev/null; echo; done; }
fi
kids() { for kid in $(cat /proc/$1/task/*/children 2>/dev/null); do echo $kid; kids $kid; done; }
echo "==> head <=="
echo "page $(getconf PAGESIZE 2>/dev/null)"
echo "hz $(getconf CLK_TCK 2>/dev/null)"
echo "machine $(uname -m)"
echo "kernel $(uname -r)"
n=$first
while [ $n -lt $samples ]; do
    echo "==> sample $n <=="
    date +%s.%N
    show /proc/uptime /proc/meminfo /proc/loadavg /proc/pressure/*
    alive=
    for root in $roots; do
        for pid in $root $(kids $root); do
            [ -d /proc/$pid ] || continue
            alive=yes
            cd /proc/$pid 2>/dev/null && show /proc/$pid/cmdline /proc/$pid/stat /proc/$pid/status /proc/$pid/io /proc/$pid/wchan \
                /proc/$pid/task/*/schedstat /proc/$pid/task/*/stat /proc/$pid/task/*/wchan /proc/$pid/task/*/syscall
        done
    done
    cd /
    echo "==> done <=="
    n=$((n+1))
    [ "$alive" ] || { why="all processes have ended"; break; }
    [ $n -lt $samples ] && sleep $every
    kill -0 $g 2>/dev/null || { why=stopped; break; }
done
echo "==> end ${why:-all samples taken} <=="
