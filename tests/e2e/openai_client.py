"""openai_client.py SELFSAME MODEL - what the official client sees of the server."""

import concurrent.futures
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request

import openai

PROMPT = [{"role": "user", "content": "one two three one two three one two"}]
passed = failed = 0


def check(name, condition):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print("FAILED:", name)


def refused(name, kind, part, call):
    try:
        call()
        check(name + ": was not refused", False)
    except kind as error:
        check(name, part in f"{error} {error.body}")


def raw(port, text):
    """Sends bytes, returns everything that comes back until the server closes or a second passes."""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as s:
        s.sendall(text)
        s.settimeout(1)
        out = b""
        try:
            while block := s.recv(65536):
                out += block
        except TimeoutError:
            pass
        return out


def metric(base, name):
    with urllib.request.urlopen(base + "/metrics") as reply:
        return int(re.search(rf"^selfsame_{name} (\d+)", reply.read().decode(), re.M).group(1))


def chat_checks(client):
    ask = lambda **kw: client.chat.completions.create(
        **{"model": "any", "messages": PROMPT, "max_tokens": 24, "temperature": 0, **kw})
    check("models", [m.id for m in client.models.list()] == ["smollm2"])
    plain, drafted = ask(extra_body={"draft": False}), ask(extra_body={"draft": True})
    for key in ("prompt_sha256", "tokens_sha256", "witness", "model", "contract"):
        check("drafted equals plain: " + key, plain.selfsame[key] == drafted.selfsame[key])
    check("plain means one row", plain.selfsame["drafts"]["rows_max"] == 1)
    check("usage", plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens)
    check("finish", plain.choices[0].finish_reason in ("stop", "length"))
    text, usage, proof = "", None, None
    for chunk in ask(stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            proof = getattr(chunk, "selfsame", None) or proof
    check("stream text", text == plain.choices[0].message.content)
    check("stream usage", usage.total_tokens == plain.usage.total_tokens)
    check("stream receipt", proof["witness"] == plain.selfsame["witness"])
    seeded = [ask(temperature=1.2, seed=5).selfsame["tokens_sha256"] for _ in range(2)]
    check("seeds repeat", seeded[0] == seeded[1])
    check("seeds differ", ask(temperature=1.2, seed=6).selfsame["tokens_sha256"] != seeded[0])
    many = ask(n=3, temperature=1, seed=9)
    check("n", len({c.selfsame["tokens_sha256"] for c in many.choices}) == 3)
    probs = ask(logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
    check("logprobs", len(probs) == 4 and all(len(p.top_logprobs) == 3 for p in probs))
    check("greedy is the top", all(p.token == p.top_logprobs[0].token for p in probs))
    stop = plain.choices[0].message.content[3:5]
    cut = ask(stop=[stop]).choices[0]
    check("stop", stop not in cut.message.content and cut.finish_reason == "stop")
    banned = ask(max_tokens=1, logit_bias={str(plain_first(client)): -100})
    check("logit_bias", banned.selfsame["tokens_sha256"] != ask(max_tokens=1).selfsame["tokens_sha256"])


def plain_first(client):
    text = client.chat.completions.create(model="m", messages=PROMPT, max_tokens=1, temperature=0,
                                          logprobs=True).choices[0].logprobs.content[0]
    url = str(client.base_url).replace("/v1/", "/tokenize")
    body = json.dumps({"content": text.token}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body)) as reply:
        return json.load(reply)["tokens"][0]


def error_checks(client):
    ask = lambda **kw: client.chat.completions.create(
        **{"model": "any", "messages": PROMPT, "max_tokens": 4, **kw})
    bad = openai.BadRequestError
    refused("temperature", bad, "temperature", lambda: ask(temperature=-1))
    refused("unknown field", bad, "colour", lambda: ask(extra_body={"colour": 1}))
    refused("response_format", bad, "response_format", lambda: ask(response_format={"type": "json_object"}))
    refused("tool_choice without tools", bad, "tool_choice", lambda: ask(tool_choice="required"))
    refused("no messages", bad, "messages", lambda: ask(messages=[]))
    refused("no role", bad, "role", lambda: ask(messages=[{"content": "x"}]))
    refused("image", bad, "image_url", lambda: ask(messages=[{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:"}}]}]))
    refused("too long", bad, "context_length_exceeded",
            lambda: ask(messages=[{"role": "user", "content": "word " * 4000}]))
    refused("unknown model", openai.NotFoundError, "nope", lambda: client.models.retrieve("nope"))


def completion_checks(client):
    one = client.completions.create(model="m", prompt="one two", max_tokens=6, temperature=0, echo=True)
    check("echo", one.choices[0].text.startswith("one two"))
    two = client.completions.create(model="m", prompt=["one", [5, 6, 7]], max_tokens=3, logprobs=2)
    check("prompts", len(two.choices) == 2 and len(two.choices[0].logprobs.tokens) == 3)


def load_checks(client):
    def one(seed):
        return client.chat.completions.create(model="m", messages=PROMPT, max_tokens=16, seed=seed,
                                              temperature=1).selfsame["witness"]
    alone = [one(i) for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        check("together equals alone", list(pool.map(one, range(16))) == alone)


def wire_checks(base, port):
    check("bad JSON", b" 400 " in raw(port, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                                            b"Connection: close\r\nContent-Length: 4\r\n\r\n{bad"))
    check("bad UTF-8", b" 400 " in raw(port, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                             b"Connection: close\r\nContent-Length: 14\r\n\r\n"
                                             b'{"prompt":"\xff"}'))
    check("no route", b" 404 " in raw(port, b"GET /nope HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    check("wrong method", b" 405 " in raw(port, b"GET /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    check("too large", b" 413 " in raw(port, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                             b"Connection: close\r\nContent-Length: 99999999999\r\n\r\n"))
    before = metric(base, "requests_cancelled_total")
    body = json.dumps({"prompt": "one two", "max_tokens": 1900, "stream": True, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        s.recv(100)
    deadline = time.time() + 10
    while time.time() < deadline and metric(base, "requests_cancelled_total") == before:
        time.sleep(0.05)
    check("a client that leaves is noticed", metric(base, "requests_cancelled_total") == before + 1)
    check("alive after all that", urllib.request.urlopen(base + "/health").status == 200)


def main():
    server = subprocess.Popen([sys.argv[1], "serve", sys.argv[2], "--port", "0", "--device", "cpu"],
                              stdout=subprocess.PIPE, stderr=open("build/openai.log", "w"), text=True)
    try:
        base = re.search(r"http://\S+", server.stdout.readline()).group(0)
        client = openai.OpenAI(base_url=base + "/v1", api_key="unused", max_retries=0)
        chat_checks(client)
        error_checks(client)
        completion_checks(client)
        load_checks(client)
        wire_checks(base, int(base.rsplit(":", 1)[1]))
    finally:
        server.terminate()
        check("a signal ends it with 0", server.wait(timeout=20) == 0)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
