#!/bin/sh
# demo.sh - the main job, end to end: build, fetch the default model, serve it on a free loopback
# port, ask the same question drafted and undrafted, show that the bytes are the same, stop.
set -eu
cd "$(dirname "$0")/.."
make -s -j"$(nproc)" all
model=$(tools/default_model.sh)
exec python3 tools/demo.py build/release/selfsame "$model"
