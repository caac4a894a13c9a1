"""cases_security.py - who may ask, and what errors and logs show."""

import json
import os

from harness import case, head, post_bytes, read_reply, wait_until

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
OPEN = ("/health", "/livez", "/readyz")
CLOSED = (("GET", "/v1/models"), ("GET", "/v1/models/smollm2"), ("GET", "/metrics"), ("GET", "/version"),
          ("GET", "/props"), ("POST", TEXT), ("POST", CHAT), ("POST", "/tokenize"),
          ("POST", "/detokenize"), ("POST", "/apply-template"), ("GET", "/nope"), ("POST", "/v1/nope"))


def status_of(server, *lines, path="/v1/models"):
    data = server.raw(head("GET", path, *lines, "Connection: close"), 5)
    return int(data.split()[1])


@case
def SEC_01_the_host_header_is_a_name_of_this_machine(real, start):
    for host, status in (("evil.example:8080", 403), ("localhost:1", 200), ("127.0.0.1", 200),
                         ("[::1]:8080", 200), ("127.0.0.1.evil.example", 403), ("", 403),
                         ("LOCALHOST", 200), ("localhost.evil.example", 403), ("localhost:8080:1", 403),
                         ("127.9.9.9:5", 200), ("localhost:evil", 403), ("[::1", 403), ("10.0.0.1", 403),
                         ("user@localhost", 403), ("0.0.0.0", 403), ("2130706433", 403)):
        assert status_of(real, f"Host: {host}") == status, host
    none = real.raw(b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n", 5)
    assert none.split()[1] in (b"400", b"403")
    old = real.raw(b"GET /v1/models HTTP/1.0\r\n\r\n", 5)
    assert old.split()[1] in (b"400", b"403")
    assert status_of(real, "Host: evil.example", path="/health") == 403, "probes, too"
    with start("real", "--allow-host", "model.lan") as server:
        assert status_of(server, "Host: model.lan:443") == 200
        assert status_of(server, "Host: evil.example") == 403


@case
def SEC_02_web_pages_are_shut_out_unless_their_origin_is_allowed(real, start):
    cors = "Access-Control-Allow-Origin"
    port = real.port
    for origin in ("https://evil.example", "null", "http://localhost:3000", f"http://127.0.0.1:{port + 1}"):
        reply = real.post(TEXT, {"prompt": "x", "max_tokens": 1}, Origin=origin)
        assert reply.status == 403 and cors not in reply.headers, origin
        before = real.request("OPTIONS", TEXT, headers={
            "Origin": origin, "Access-Control-Request-Method": "POST"})
        assert before.status == 403 and cors not in before.headers
    own = real.post(TEXT, {"prompt": "x", "max_tokens": 1},
                    Origin=f"http://127.0.0.1:{port}", Host=f"127.0.0.1:{port}")
    assert own.status == 200 and cors not in own.headers
    with start("real", "--allow-origin", "https://app.example") as server:
        reply = server.post(TEXT, {"prompt": "x", "max_tokens": 1}, Origin="https://app.example")
        assert reply.status == 200 and reply.headers[cors] == "https://app.example"
        assert reply.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in reply.headers
        stream = server.post(TEXT, {"prompt": "x", "max_tokens": 1, "stream": True},
                             Origin="https://app.example")
        assert stream.headers[cors] == "https://app.example"
        before = server.request("OPTIONS", CHAT, headers={
            "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
            "Access-Control-Request-Private-Network": "true"})
        assert before.headers["Access-Control-Allow-Private-Network"] == "true"
        assert before.status == 204 and before.headers[cors] == "https://app.example"
        assert "authorization" in before.headers["Access-Control-Allow-Headers"]
        for origin in ("https://app.example.evil.example", "http://app.example", "https://app.example:444"):
            assert server.post(TEXT, {"prompt": "x"}, Origin=origin).status == 403


def key_file(folder, text):
    path = os.path.join(folder, "keys")
    with open(path, "w") as out:
        out.write(text)
    return path


@case
def SEC_03_keys_are_found_whole_or_not_at_all(start, folder):
    keys = key_file(folder, "# who may ask\n\nsk-0123456789abcdef alice\nsk-fedcba9876543210\tbob \n"
                            "sk-third\n")
    log = os.path.join(folder, "keys.log")
    with start("real", "--api-keys", keys, "--log", log, log=log + ".plain") as server:
        good = "sk-0123456789abcdef"
        for headers in ({"Authorization": "Bearer " + good}, {"Authorization": "bearer " + good},
                        {"Authorization": "BEARER  " + good}, {"x-api-key": good},
                        {"X-API-Key": "sk-fedcba9876543210"}, {"Authorization": "Bearer sk-third"},
                        {"Authorization": "Bearer wrong", "x-api-key": good}):
            assert server.get("/v1/models", **headers).status == 200, headers
        for key in ("", "sk-", "xk-0123456789abcdef", "sk-0123456789abcdeX", "sk-0123456789abcde",
                    "sk-0123456789abcdef0", "sk-0123456789abcdef alice", "alice", "# who may ask",
                    "sk-0123456789ABCDEF"):
            for headers in ({"Authorization": "Bearer " + key}, {"x-api-key": key}):
                reply = server.get("/v1/models", **headers)
                assert reply.status == 401 and reply.error["code"] == "invalid_api_key", headers
                assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert server.get("/v1/models", Authorization="Basic " + good).status == 401
        assert server.get("/v1/models?key=" + good + "&api_key=" + good).status == 401
        huge = server.raw(head("GET", "/v1/models", "x-api-key: " + "k" * (1 << 20)), 3)
        assert huge == b"" or huge.split()[1] in (b"413", b"431"), huge[:100]
        assert server.complete_with_key(good).status == 200
    with open(log) as lines, open(log + ".plain") as plain:
        text = lines.read() + plain.read()
    for secret in (good, "sk-fedcba9876543210", "sk-third", "secret words"):
        assert secret not in text, "no log holds a key or a prompt"
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    keys = {r["key"] for r in rows if r["event"] == "request" and r["status"] == 200}
    assert keys == {"alice", "bob", "key-3"}, keys
    assert " key=alice prompt=" in text


@case
def SEC_03_a_key_file_without_keys_is_refused(start, folder):
    for text in ("", "# nothing\n\n"):
        server = start("real", "--api-keys", key_file(folder, text), log=os.path.join(folder, "refused"))
        assert server.process.wait(20) == 3 and server.banner == ""
    server = start("real", "--api-keys", os.path.join(folder, "no-such-file"))
    assert server.process.wait(20) == 3


@case
def SEC_04_all_but_the_probes_need_the_key(start, folder):
    with start("real", "--api-keys", key_file(folder, "k\n")) as server:
        for path in OPEN:
            reply = server.get(path)
            assert reply.status == 200 and b"smollm2" not in reply.body
        for method, path in CLOSED:
            assert server.request(method, path, body="{}" if method == "POST" else None).status == 401, path
            assert server.request(method, path, headers={"x-api-key": "k"},
                                  body="{}" if method == "POST" else None).status != 401, path


@case
def SEC_05_urls_in_requests_are_never_fetched(real):
    for url in ("http://169.254.169.254/", f"http://127.0.0.1:{real.port}/health", "file:///etc/passwd",
                "ftp://x/", "gopher://x/", "data:image/png;base64," + "A" * 100000):
        part = {"type": "image_url", "image_url": {"url": url}}
        reply = real.post(CHAT, {"messages": [{"role": "user", "content": [part]}]})
        assert reply.status == 400 and "image_url" in reply.error["message"]
        assert reply.error["param"] == "messages[0].content[0]"


@case
def SEC_08_templates_do_not_come_from_requests(real):
    loop = "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}"
    user = [{"role": "user", "content": "hi"}]
    assert real.post(CHAT, {"messages": user, "chat_template": loop}).error["param"] == "chat_template"
    for name in ("messages", "tools", "documents", "bos_token", "eos_token", "chat_template"):
        reply = real.post(CHAT, {"messages": user, "chat_template_kwargs": {name: loop}})
        assert reply.status == 400 and reply.error["param"] == "chat_template_kwargs", name
    fine = {"messages": user, "chat_template_kwargs": {"enable_thinking": False}, "max_tokens": 1}
    assert real.post(CHAT, fine).status == 200


@case
def SEC_09_errors_and_logs_show_little_and_are_clean(start, folder):
    log, secret = os.path.join(folder, "clean.log"), "my secret words"
    with start("real", "--log", log, log=log + ".plain") as server:
        bad = b"\xff\xfe\x01 \xe2\x82"
        for data in (head("GET", "/%ff%fe%01%0a{}\"\\"), head("GET", "/v1/models/%ff%00x"),
                     head("GET", "/v1/models", "X-Odd: " + bad.decode("latin-1")),
                     post_bytes(TEXT, b'{"prompt": "%s", "\xc3\xa9\\n\\u0001%s": 1}' % (secret.encode(), b"k" * 5000)),
                     post_bytes(TEXT, b'{"prompt": "%s %s"}' % (secret.encode(), bad)),
                     post_bytes(TEXT, {"prompt": secret, "model": "\u0001\n", "max_tokens": 1}),
                     post_bytes(TEXT, {"prompt": secret * 4000}),
                     post_bytes(TEXT, {"prompt": secret, "stop": [""]})):
            with server.connect() as s, s.makefile("rb") as reader:
                s.sendall(data)
                reply = read_reply(reader)
                text = reply.body.decode("utf-8")
                assert len(text) < 4000, "an error is not long"
                assert os.getcwd() not in text and "/root" not in text
                assert reply.status == 200 or json.loads(text)["error"]["message"]
    with open(log, encoding="utf-8") as lines, open(log + ".plain", encoding="utf-8") as plain:
        rows, plain = [json.loads(line) for line in lines], plain.read()
    assert {r["event"] for r in rows} >= {"load", "ready", "request", "drain"}
    assert secret not in json.dumps(rows) + plain
    assert all(c == "\n" or c >= " " for c in plain), "no control characters"
    assert len(plain.splitlines()) == len([r for r in rows if r["event"] == "request"])
