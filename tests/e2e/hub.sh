#!/bin/sh
# hub.sh - selfsame pull against a local server in the Hub's layout.
set -eu
cd "$(dirname "$0")/../.."
export SELFSAME_HOME=build/home  # what is cached stays in the tree
exec python3 tests/e2e/hub_server.py build/release/selfsame tests/data/family/llama
