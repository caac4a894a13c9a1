"""harness.py - a served model on loopback, raw sockets to it, and readers of what comes back."""

import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time

ANY_FINISH = {"stop", "length", "tool_calls", "content_filter"}


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def receipt(self):
        return self.json["selfsame"]

    @property
    def text(self):
        choice = self.json["choices"][0]
        return choice["text"] if "text" in choice else choice["message"]["content"]


class Server:
    """A process that serves `model`; `flags` are added to its command line."""

    def __init__(self, program, model, *flags, log=None, env=None, files=None):
        self.log = open(log, "w+") if log else subprocess.DEVNULL
        command = [program, "serve", model, "--device", "cpu"]
        where = [] if "--socket" in flags else ["--port", "0"]
        self.process = subprocess.Popen([*command, *where, *flags], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, env={**os.environ, **(env or {})},
                                        preexec_fn=files and (lambda: resource.setrlimit(
                                            resource.RLIMIT_NOFILE, (files, files))))
        self.banner = self.process.stdout.readline()
        found = re.search(r"http://([^:/]+|\[[^]]+\]):(\d+)", self.banner)
        self.port = int(found.group(2)) if found else None
        self.unix = flags[flags.index("--socket") + 1] if "--socket" in flags else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.stdout.close()
        return self.process.wait()

    def connect(self, timeout=20, receive_buffer=None):
        s = socket.socket(socket.AF_UNIX if self.unix else socket.AF_INET)
        if receive_buffer:  # a small one shows soon that nobody reads
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(timeout)
        s.connect(self.unix or ("127.0.0.1", self.port))
        return s

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = self.connect(60)
        with contextlib.closing(connection):
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            fields = {"Host": "localhost", **(headers or {})}
            connection.request(method, path, data, fields)
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, **headers):
        return self.request("POST", path, body, headers)

    def complete(self, **body):
        return self.post("/v1/completions", body)

    def chat(self, content, **body):
        return self.post("/v1/chat/completions",
                         {"messages": [{"role": "user", "content": content}], **body})

    def complete_with_key(self, key):
        return self.post("/v1/completions", {"prompt": "secret words", "max_tokens": 1},
                         Authorization="Bearer " + key)

    def raw(self, data, seconds=20):
        """What comes back for these bytes until the server closes the connection or is silent."""
        with self.connect(seconds) as s:
            s.sendall(data)
            return read_all(s)

    def metrics(self, **headers):
        rows = re.findall(r"^(\w+(?:\{[^}]*\})?) (\S+)$", self.get("/metrics", **headers).body.decode(), re.M)
        return {name.removeprefix("selfsame_"): float(value) for name, value in rows}

    def metric(self, name):
        return self.metrics()[name]

    def is_alive(self):
        return self.process.poll() is None and self.get("/health").status == 200

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def read_all(s):
    out = b""
    with contextlib.suppress(TimeoutError, ConnectionResetError):
        while block := s.recv(1 << 16):
            out += block
    return out


def head(method, path, *lines, length=None):
    """The bytes of a request's head; Host is localhost unless a line says otherwise."""
    lines = list(lines)
    if not any(line.lower().startswith("host:") for line in lines):
        lines.insert(0, "Host: localhost")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")


def post_bytes(path, body, *lines):
    data = json.dumps(body).encode() if not isinstance(body, bytes) else body
    return head("POST", path, *lines, length=len(data)) + data


def read_reply(reader):
    """One whole response from a buffered socket file: status, headers, body."""
    line = reader.readline().decode()
    headers = {}
    while (field := reader.readline().strip()) != b"":
        name, _, value = field.decode().partition(":")
        headers[name.lower()] = value.strip()
    status, body = int(line.split()[1]), b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(reader.readline(), 16):
            body += reader.read(size)
            reader.readline()
        reader.readline()
    elif status != 100:
        body = reader.read(int(headers.get("content-length", 0)))
    return Reply(status, headers, body)


def events(body):
    """The data of each event of a stream; every event is whole, valid UTF-8 and valid JSON."""
    assert body.endswith(b"\n\n"), "a stream ends with a whole event"
    out = []
    for block in body[:-2].split(b"\n\n"):
        if block.startswith(b":"):
            continue
        assert block.startswith(b"data: ") and b"\n" not in block, block
        data = block[6:].decode("utf-8")
        out.append("[DONE]" if data == "[DONE]" else json.loads(data))
    return out


def check_stream(body, is_clean=True):
    """An OpenAI stream as typed clients want it; gives (chunks, text of each index).

    A model that draws at random may really say half a character: then is_clean is false."""
    chunks = events(body)
    assert chunks[-1] == "[DONE]" and chunks.count("[DONE]") == 1
    chunks = chunks[:-1]
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) == 1
    texts, finished = {}, {}
    for chunk in chunks:
        assert len(chunk["choices"]) <= 1
        for choice in chunk["choices"]:
            i, is_chat = choice["index"], "delta" in choice
            assert i not in finished, "nothing follows a finish reason"
            if is_chat:
                assert ("role" in choice["delta"]) == (i not in texts), "the role comes once, first"
            text = choice["delta"].get("content", "") if is_chat else choice["text"]
            assert not is_clean or "\ufffd" not in text
            texts[i] = texts.get(i, "") + text
            if choice["finish_reason"] is not None:
                assert choice["finish_reason"] in ANY_FINISH
                assert not is_chat or choice["delta"] == {}
                finished[i] = choice["finish_reason"]
    assert finished.keys() == texts.keys(), "every index ends with its own finish reason"
    return chunks, texts


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def proof(receipt):
    """What must be equal for equal requests, whatever ran beside them."""
    keys = ("prompt_sha256", "tokens_sha256", "witness", "n_tokens", "finish_reason", "seed")
    return tuple(receipt[key] for key in keys)


def case(function):
    """Marks a case; its name begins with the id of what it shows where there is one."""
    function.is_case = True
    return function
