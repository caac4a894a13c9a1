"""agents.py SELFSAME FOLDER - Claude Code, Codex, OpenCode and Continue, unmodified, each
write one file; the JavaScript SDKs each run one tool.

The model plays a script (tests/e2e/script_model.py): asked to write, it calls the agent's own tool;
given the tool's result, it says so.  What is checked is the file, the final words and the exit.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
import script_model  # noqa: E402
from clients_check import check, report  # noqa: E402

TEXT = "written through a tool call\n"


def call(name, **arguments):
    return "On it.\n<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def clean(home, **more):
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", **more}


def run(name, command, work, env, final="It is written."):
    done = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=240)
    seen = (done.stdout[-600:], done.stderr[-600:])
    written = work / f"{name}.txt"
    check(f"{name} ends with 0", done.returncode == 0, seen)
    check(f"{name} wrote the file", written.exists() and written.read_text() == TEXT, seen)
    check(f"{name} shows the reply", final in done.stdout, seen)


def claude(binaries, base, work, home):
    env = clean(home, ANTHROPIC_BASE_URL=base, ANTHROPIC_API_KEY="sk-local", ANTHROPIC_MODEL="any",
                DISABLE_TELEMETRY="1", DISABLE_AUTOUPDATER="1", DISABLE_ERROR_REPORTING="1",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", IS_SANDBOX="1")
    run("claude", [binaries / "@anthropic-ai/claude-code-linux-x64/claude", "-p", "CLAUDEWRITE now",
                   "--output-format", "json", "--permission-mode", "acceptEdits"], work, env)


def codex(binaries, base, work, home):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(f"""
model = "any"
model_provider = "local"
check_for_update_on_startup = false
[model_providers.local]
name = "local"
base_url = "{base}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
[analytics]
enabled = false
[feedback]
enabled = false
""")
    binary = next(binaries.glob("@openai/codex-linux-x64/vendor/*/bin/codex"))
    run("codex", [binary, "exec", "--json", "--skip-git-repo-check",
                  "--dangerously-bypass-approvals-and-sandbox", "CODEXWRITE now"],
        work, clean(home, LOCAL_KEY="sk-local"))


def opencode(binaries, base, work, home):
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps({
        "autoupdate": False, "share": "disabled", "model": "local/any", "provider": {"local": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": base + "/v1", "apiKey": "sk-local"},
            "models": {"any": {"name": "any"}}}}}))
    env = clean(home, **{"OPENCODE_DISABLE_" + what: "1" for what in (
        "AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")})
    run("opencode", [binaries / "opencode-linux-x64/bin/opencode", "run", "--format", "json",
                     "OPENCODEWRITE now"], work, env)


def continued(binaries, base, work, home):
    config = home / "config.yaml"
    config.write_text(json.dumps({"name": "local", "version": "1.0.0", "schema": "v1", "models": [
        {"name": "any", "provider": "openai", "model": "any", "apiBase": base + "/v1",
         "apiKey": "any", "roles": ["chat"], "capabilities": ["tool_use"]}]}))
    run("continued", ["node", binaries / "@continuedev/cli/dist/cn.js", "-p", "--config", config,
                      "--auto", "CONTINUEWRITE now"],
        work, clean(home, CONTINUE_TELEMETRY_ENABLED="0"))


def sdks(base, folder):
    """sdks.mjs: one line a check."""
    script = pathlib.Path(__file__).parent / "sdks.mjs"
    done = subprocess.run(["node", script, base, folder], capture_output=True, text=True, timeout=240)
    lines = [line for line in done.stdout.splitlines() if line.split()[0] in ("ok", "FAILED")]
    check("every SDK was run", len(lines) == 6, done.stdout + done.stderr[-600:])
    for line in lines:
        check("SDK " + line, line.startswith("ok "))


@contextlib.contextmanager
def served(selfsame, folder, scripts):
    script_model.main(folder, scripts)
    server = subprocess.Popen([selfsame, "serve", folder, "--port", "0", "--device", "cpu"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield re.search(r"http://\S+", server.stdout.readline()).group(0)
    finally:
        server.terminate()
        server.wait(timeout=20)


def main(selfsame, folder):
    folder = pathlib.Path(folder).resolve()
    for name in ("home", "work", "model"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    work = folder / "work"
    command = f"printf '%s\\n' '{TEXT.strip()}' > codex.txt"
    scripts = {"marks": "<tool_call>", "scripts": {
        "plain": "A title.", "after": "It is written.",
        "CLAUDEWRITE": call("Write", file_path=str(work / "claude.txt"), content=TEXT),
        "CODEXWRITE": call("exec_command", cmd=command),
        "CONTINUEWRITE": call("Write", filepath=str(work / "continued.txt"), content=TEXT),
        "OPENCODEWRITE": call("write", filePath=str(work / "opencode.txt"), content=TEXT)}}
    (folder / "model" / "scripts.json").write_text(json.dumps(scripts))
    with served(selfsame, folder / "model", folder / "model" / "scripts.json") as base:
        for agent in (claude, codex, opencode, continued):
            home = folder / "home" / agent.__name__
            home.mkdir()
            agent(folder / "node_modules", base, work, home)
    data = pathlib.Path(__file__).parents[1] / "data" / "scripts" / "hermes.json"
    with served(selfsame, folder / "model", data) as base:
        sdks(base, folder)
    return report()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
