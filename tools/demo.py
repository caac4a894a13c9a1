"""demo.py SELFSAME MODEL - asks a served model the same question drafted and undrafted.

Needs Python 3.9 and nothing else.  Exits 1 when the two replies differ in a single byte.
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request

QUESTION = (
    "Repeat the following text word for word:\n\n"
    "The river carries the boat slowly past the old mill and the quiet town. On the bridge two "
    "children count the swans, and an old man mends his net in the shade of a chestnut tree. In the "
    "evening the lamps are lit along the quay, the last ferry comes home, and the bells of the church "
    "ring nine times over the water. Nobody is in a hurry here. The summer is long, the bread is good, "
    "and the letters from the city can wait until tomorrow.\n")


def start(selfsame, model, log):
    """Starts the server on a free port and returns (process, base URL)."""
    server = subprocess.Popen([selfsame, "serve", model, "--port", "0"], stdout=subprocess.PIPE,
                              stderr=log, text=True)
    for line in server.stdout:
        print("  " + line.rstrip())
        found = re.search(r"http://[0-9.]+:[0-9]+", line)
        if found:
            return server, found.group(0)
    log.seek(0)
    raise SystemExit("the server did not start:\n" + log.read())


def ask(base, draft):
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 200,
            "temperature": 0, "draft": draft}
    request = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def row(name, reply):
    receipt, timings, usage = reply["selfsame"], reply["timings"], reply["usage"]
    seconds = timings["decode_ms"] / 1000
    drafts = receipt["drafts"]
    accepted = f'{drafts["accepted"]} of {drafts["drafted"]}' if drafts["drafted"] else "-"
    print(f'{name:10} tokens {receipt["tokens_sha256"][:16]}  witness {receipt["witness"][:16]}  '
          f'{(usage["completion_tokens"] - 1) / seconds:7.1f} tok/s  drafts accepted {accepted}')


def main():
    log = tempfile.TemporaryFile("w+")  # a line a request: shown only when the server cannot start
    server, base = start(*sys.argv[1:3], log)
    try:
        ask(base, False)  # warm up: the first pass touches every page of the model's file
        plain, drafted = ask(base, False), ask(base, True)
    finally:
        server.terminate()
        server.wait(timeout=20)
    print("\n" + drafted["choices"][0]["message"]["content"] + "\n")
    row("undrafted", plain)
    row("drafted", drafted)
    same = all(plain["selfsame"][key] == drafted["selfsame"][key]
               for key in ("tokens_sha256", "witness", "prompt_sha256"))
    print("same bytes" if same else "THE BYTES DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
