#!/bin/sh
# test.sh - the whole test command: style, unit and conformance tests, end-to-end scripts.
set -eu
jobs=$(nproc)
make -j"$jobs" all build/release/run-tests build/release/run-tidy
build/release/run-tidy .
build/release/run-tests
