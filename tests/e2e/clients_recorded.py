"""clients_recorded.py - requests that clients really sent (tests/data/clients) are all served.

They were recorded on 1 December 2026 from Claude Code 2.1.197, Codex 0.171.0, OpenCode 1.18.33,
Continue CLI 1.5.47, Cline CLI 3.0.65, the JavaScript SDKs openai 6.49.0 and @anthropic-ai/sdk
1.14.0, AI SDK 6.0.326 and LangChain 1.5.14, while they talked to a scripted server; one request of
each shape, long texts cut.
"""

import collections
import json
import pathlib

from clients_check import check
from clients_messages import send

# What docs/api.md says is refused: (field in the request, status, words of the answer).
REFUSED = [
    (lambda r: "thread" in r["body"], 400, "thread_unsupported_request"),
    (lambda r: r["body"].get("response_format", {}).get("type", "text") != "text", 400, "response_format"),
    (lambda r: "format" in r["body"].get("output_config", {}), 400, "output_config.format"),
    (lambda r: r["path"].endswith("/embeddings"), 404, "no such route"),
]


def ends_well(request, text):
    path = request["path"].split("?")[0]
    if not request["body"].get("stream"):
        return "error" not in json.loads(text) or json.loads(text)["error"] is None
    last = {"chat/completions": "data: [DONE]", "completions": "data: [DONE]",
            "messages": '"type":"message_stop"', "responses": "event: response.completed"}
    want = next(w for end, w in last.items() if path.endswith("/" + end))
    return want in text.strip().split("\n\n")[-1]


def run(base, data):
    served = collections.Counter()
    for line in (data / "clients" / "requests.jsonl").read_text().splitlines():
        request = json.loads(line)
        headers = {k: v for k, v in request["headers"].items() if k.lower() != "content-type"}
        reply, text = send(base, request["path"], request["body"], **headers)
        name = f"recorded: {request['client']} {request['path']}"
        want = next((r for r in REFUSED if r[0](request)), None)
        if want is None:
            check(name, reply.status == 200 and ends_well(request, text), text[:300])
            served[request["client"]] += 1
        else:
            check(name + " is refused", reply.status == want[1] and want[2] in text, text[:300])
    check("every client was served", len(served) >= 10, served)
