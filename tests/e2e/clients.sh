#!/bin/sh
# clients.sh - the official OpenAI and Anthropic Python clients against a server whose model plays
# scripts (script_model.py): tool calls, reasoning, errors, event by event.
set -eu
cd "$(dirname "$0")/../.."
export SELFSAME_HOME=build/home  # what is cached stays in the tree
venv=build/venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import openai, anthropic' 2>/dev/null ||
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'openai>=1.40,<7' 'anthropic>=0.40,<2'
exec "$venv/bin/python" tests/e2e/clients_test.py build/release/selfsame
