#!/bin/sh
# Writes requirements.lock: run, stacks and test packages and the build backend, pinned with the hashes of all files of each
# release, for every Python that pyproject.toml allows, on Linux and macOS. No index address is written.
#
# The user's pip and uv settings (mirrors, find-links, constraints) are left out on purpose: a lock made with them could
# name files that others cannot get. To keep the pins and add only what changed, leave requirements.lock in place;
# UPGRADE=1 takes the newest releases.
set -eu
cd "$(dirname "$0")/.."
python=.venv/bin/python
tool=out/lock
$python -m venv "$tool"
"$tool/bin/python" -m pip install --quiet --disable-pip-version-check uv
$python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' |
    env -u UV_INDEX -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
    "$tool/bin/uv" pip compile --quiet --no-config --system-certs --universal --python-version 3.11 \
    --fork-strategy fewest --generate-hashes --all-extras --strip-extras --no-annotate --no-header \
    --no-emit-index-url --no-emit-find-links ${UPGRADE:+--upgrade} --output-file requirements.lock pyproject.toml -
