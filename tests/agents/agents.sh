#!/bin/sh
# agents.sh - command-line agents as their makers publish them, each doing one edit through a tool
# call against a served model that plays scripts, and the JavaScript SDKs (sdks.mjs).  They are
# fetched once into build/agents (about 1 GB) and run in a network of their own when this is root's.
set -eu
cd "$(dirname "$0")/../.."
export SELFSAME_HOME=build/home PYTHONDONTWRITEBYTECODE=1
agents=build/agents
if [ ! -e "$agents/.fetched" ]; then
    mkdir -p "$agents"
    npm install --prefix "$agents" --ignore-scripts --no-audit --no-fund --silent \
        @anthropic-ai/claude-code@2.1.197 @openai/codex@0.171.0 opencode-ai@1.18.33 \
        openai@6.49.0 @anthropic-ai/sdk@1.14.0 ai@6.0.326 @ai-sdk/openai-compatible@2.0.92 \
        @ai-sdk/anthropic@3.0.140 @continuedev/cli@1.5.47 @langchain/openai@1.5.8 @langchain/core
    touch "$agents/.fetched"
fi
run="python3 tests/agents/agents.py build/release/selfsame $agents"
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null; then
    # shellcheck disable=SC2086
    exec unshare -n sh -c 'ip link set lo up && exec "$@"' lo $run
fi
# shellcheck disable=SC2086
exec $run
