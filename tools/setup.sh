#!/bin/sh
# Makes .venv from requirements.lock and puts the kit into it, editable. `make` calls this; it needs nothing but a Python.
#
# PYTHON=python3.12 tools/setup.sh    takes this interpreter; without PYTHON the first that serves of those listed below.
set -eu
cd "$(dirname "$0")/.."

least="3.11"
# The system's is built with profile-guided and link-time optimisation; what pyenv builds is not, and tests take a tenth to a quarter more CPU with it.
system=""
[ "$(uname)" = Linux ] && system=/usr/bin/python3
candidates="${PYTHON:-$system python3 python3.13 python3.12 python3.11 python3.14}"

runs() { "$1" -c 'import sys' >/dev/null 2>&1; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }
version() { "$1" -c 'import platform; print(platform.python_version())'; }
say() { echo "stallkit: $*" >&2; }

chosen="" bare="" old=""
for name in $candidates; do
    runs "$name" || continue
    if ! new_enough "$name"; then old="${old:-$name}"; continue; fi
    if ! has_venv "$name"; then bare="${bare:-$name}"; continue; fi
    chosen="$name"
    break
done

if [ -z "$chosen" ]; then
    if [ -n "$bare" ]; then
        series=$("$bare" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        say "$bare has no venv module; install it (Debian, Ubuntu: apt install python$series-venv) and run make again."
    elif [ -n "$old" ]; then
        say "Python $least or later is needed, $old is $(version "$old"); install a newer one and run make again" \
            "(with PYTHON=/path/to/python3 if it is not on the PATH)."
    else
        say "Python $least or later is needed, and none of these runs: $candidates; install python3 and run make again."
    fi
    exit 2
fi

say "setting up .venv with $chosen, Python $(version "$chosen"), from requirements.lock (once, two to three minutes, 1.4 GB; pip says nothing meanwhile)"
"$chosen" -m venv --clear .venv
# The lock holds the build backend too, so that nothing outside the lock is fetched.
if ! PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install -qq --no-compile --require-hashes -r requirements.lock; then
    say "the packages of requirements.lock could not be installed (pip's reason stands above);" \
        "check the network or your pip configuration and run make again."
    exit 2
fi
PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install -qq --no-deps --no-build-isolation --editable .
.venv/bin/python -m pytest --collect-only -qq >/dev/null 2>&1 & # else each worker of `make test` compiles all tests by itself
.venv/bin/python tools/warm.py & # else the first large trace compiles what reads it, a quarter of a minute
# pip compiles on one core, and with it what packages bring to test themselves, a quarter of all. Some files are for other Pythons.
.venv/bin/python -m compileall -qq -j 0 -x '/tests?/' .venv/lib kit || true
wait
touch .venv/.ready
