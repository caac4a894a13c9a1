#!/bin/sh
# openai.sh - the official OpenAI Python client against a served fixture model.  The client comes
# from a virtual environment under build/, made on the first run.
set -eu
cd "$(dirname "$0")/../.."
export SELFSAME_HOME=build/home  # what is cached stays in the tree
venv=build/venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import openai' 2>/dev/null ||
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'openai>=1.40,<7'
exec "$venv/bin/python" tests/e2e/openai_client.py build/release/selfsame tests/data/family/smollm2
