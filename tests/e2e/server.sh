#!/bin/sh
# server.sh - the server over loopback, case by case: streams, bad requests, keys, shutdown, load.
# An argument picks the cases whose name contains it.
set -eu
cd "$(dirname "$0")/../.."
export SELFSAME_HOME=build/home PYTHONDONTWRITEBYTECODE=1
exec python3 tests/e2e/server/run.py build/release/selfsame "$@"
