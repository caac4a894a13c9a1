"""clients_idle.py - in long silence each client sees the kind of life that it counts."""

import json
import socket
import threading
import time

from clients_check import check
from clients_messages import send

FLAGS = ("--parallel", "1", "--keep-alive", "1", "--threads", "1", "--isa", "scalar")
CHAT = {"model": "m", "stream": True, "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
ASKED = [  # path, body, User-Agent, what fills the silence, what must not come
    ("/v1/messages", CHAT, "claude-cli/2.1.197 (external, cli)", 'data: {"type":"keep_alive"}', ": keep-alive"),
    ("/v1/messages", CHAT, "Anthropic/Python 1.17.0", 'event: ping\ndata: {"type":"ping"}', "keep_alive"),
    ("/v1/responses", {"model": "m", "stream": True, "input": "hi"}, "codex_cli_rs/0.171.0",
     "event: response.in_progress", "keep-alive"),
    ("/v1/chat/completions", CHAT, "OpenAI/Python 3.57.0", "\n: keep-alive\n", "ping"),
]


def hold(base):
    """A request that takes the only lane; closing the connection frees it."""
    host, port = base.split("//")[1].split(":")
    body = json.dumps({"prompt": "x", "max_tokens": 3500, "ignore_eos": True, "draft": False,
                       "n": 8, "stream": True}).encode()
    lane = socket.create_connection((host, int(port)))
    lane.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" %
                 len(body) + body)
    text = b""
    while b'"text":"' not in text:
        text += lane.recv(4096)
    return lane


def run(base):
    answers = {}

    def ask(i, path, body, agent):
        answers[i] = send(base, path, body, **{"User-Agent": agent})[1]

    lane = hold(base)
    threads = [threading.Thread(target=ask, args=(i, *row[:3])) for i, row in enumerate(ASKED)]
    for thread in threads:
        thread.start()
    time.sleep(3.5)
    lane.close()
    for thread in threads:
        thread.join()
    for i, (path, _, agent, wanted, unwanted) in enumerate(ASKED):
        text = answers[i]
        at_least = 3 if path == "/v1/responses" else 2  # it begins with one
        check(f"idle: {agent}", text.count(wanted) >= at_least and unwanted not in text, text[:600])
        check(f"idle: {agent} is answered", "script" in text and "error" not in text.replace('"error":null', ""), text)
