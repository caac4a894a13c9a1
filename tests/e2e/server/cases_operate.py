"""cases_operate.py - what operators rely on: probes, metrics, shutdown, queues, sockets, ids."""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import scripted_model
from harness import case, check_stream, events, head, post_bytes, read_all, read_reply, wait_until

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
ENDLESS = {"prompt": "Z", "max_tokens": 32000, "stream": True, "draft": False}
SLOW = ("--isa", "scalar", "--threads", "1")


# ---- probes and metrics ------------------------------------------------------------------------


@case
def API_07_probes_answer_while_every_slot_is_busy(start):
    with start("scripted", *SLOW, "--parallel", "1") as server, contextlib.ExitStack() as stack:
        for _ in range(3):
            s = stack.enter_context(server.connect())
            s.sendall(post_bytes(TEXT, ENDLESS))
        assert wait_until(lambda: server.metric("requests_running") == 1)
        assert wait_until(lambda: server.metric("requests_waiting") == 2)
        for path in ("/health", "/readyz", "/livez"):
            reply = server.get(path)
            assert reply.status == 200 and reply.json == {"status": "ok"}
        for s in stack.pop_all()._exit_callbacks:  # all leave
            s[1](None, None, None)
        assert wait_until(lambda: server.metric("requests_running") == 0)


def histogram(text, name):
    """(counts by bound, sum, count), checked for shape."""
    rows = re.findall(rf'^{name}_bucket{{(?:[^}}]*,)?le="([^"]+)"}} (\d+)$', text, re.M)
    bounds = [float(bound) for bound, _ in rows]
    counts = [int(n) for _, n in rows]
    assert bounds == sorted(bounds) and bounds[-1] == float("inf") and len(bounds) > 5, name
    assert counts == sorted(counts), "buckets count what is below them"
    total = float(re.search(rf"^{name}_sum(?:{{[^}}]*}})? (\S+)$", text, re.M).group(1))
    count = int(re.search(rf"^{name}_count(?:{{[^}}]*}})? (\d+)$", text, re.M).group(1))
    assert count == counts[-1]
    return dict(zip(bounds, counts)), total, count


@case
def OPS_01_metrics_count_what_happened(start):
    names = ("queue_seconds", "prefill_seconds", "time_to_first_token_seconds",
             "time_per_token_seconds", "decode_seconds", "request_seconds")
    with start("scripted") as server:
        text = server.get("/metrics").body.decode()
        assert "nan" not in text.lower().replace("nanosleep", ""), "no rate before the first request"
        for name in names:
            assert histogram(text, "selfsame_" + name)[1:] == (0, 0)
        for _ in range(4):
            assert server.complete(prompt="B").text == "alpha beta gamma delta"  # 3 tokens and the end
        assert server.complete(prompt="Z", max_tokens=200, draft=True).status == 200
        assert server.complete(prompt="Z", temperature=-1).status == 400
        assert server.get("/nope").status == 404
        assert wait_until(lambda: server.metrics().get('http_answers_total{route="",status="404"}') == 1)
        reply = server.get("/metrics")
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text, m = reply.body.decode(), server.metrics()
        vllm = server.get("/metrics/vllm").body.decode()
    assert m["requests_total"] == m["requests_finished_total"] == 5 and m["requests_cut_total"] == 1
    assert m["completion_tokens_total"] == 4 * 4 + 200
    assert m["prompt_tokens_total"] + m["cached_tokens_total"] == 5
    assert 0 < m["draft_accepted_total"] <= m["draft_tokens_total"] and m["draft_rounds_total"] > 0
    assert m["pages_max"] > 0 and m["requests_running"] == m["requests_waiting"] == 0
    assert m['http_answers_total{route="/completions",status="200"}'] == 5
    assert m['http_answers_total{route="/completions",status="400"}'] == 1
    assert m['http_answers_total{route="",status="404"}'] == 1
    counts = {name: histogram(text, "selfsame_" + name)[2] for name in names}
    assert counts.pop("time_per_token_seconds") == 4 * 3 + 199
    assert set(counts.values()) == {5}
    for lines in (text, vllm):
        for line in lines.splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) [a-z0-9_:]+ .+|[a-z0-9_:]+(\{([a-z_]+="[^"]*",?)*\})? [0-9.e+-]+', line), line
        families = re.findall(r"^# TYPE (\S+)", lines, re.M)
        assert len(families) == len(set(families)), "each family stands once"
    label = '{model_name="scripted"}'
    assert f"vllm:num_requests_running{label} 0" in vllm
    assert f"vllm:generation_tokens_total{label} 216" in vllm
    assert 'vllm:request_success_total{model_name="scripted",finished_reason="length"} 1' in vllm
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds",
                 "e2e_request_latency_seconds", "request_queue_time_seconds"):
        assert histogram(vllm, "vllm:" + name)[2] >= 5


@case
def OPS_02_version_and_props_describe_the_build_and_the_model(real):
    version, props = real.get("/version").json, real.get("/props").json
    receipt = real.complete(prompt="x", max_tokens=1).receipt
    assert version["contract"] == receipt["contract"] and version["model"] == receipt["model"]
    assert (props["digest"], props["tokenizer_digest"], props["template_digest"]) \
        == (receipt["model"], receipt["tokenizer"], receipt["template"])
    assert props["context_length"] == 2048 and props["vocab"] == 480 and props["has_chat_template"]
    assert "tests/" not in json.dumps(props), "no paths"


@case
def OPS_03_each_request_leaves_one_line(start, folder):
    log = os.path.join(folder, "lines.log")
    with start("scripted", "--log", log, log=log + ".plain") as server:
        def lines():
            with open(log) as rows:
                return rows.read().count('"event":"request"')

        assert server.complete(prompt="B").status == 200
        assert wait_until(lambda: lines() == 1)  # a line is written when all is sent
        assert server.chat("Z", max_tokens=50, n=2, stream=True).status == 200
        assert wait_until(lambda: lines() == 2)
        assert server.complete(prompt="B", top_p=7).status == 400
        assert wait_until(lambda: lines() == 3)
        assert server.get("/health").status == 200 and server.get("/metrics").status == 200
        with server.connect() as s:
            s.sendall(post_bytes(TEXT, ENDLESS))
            assert s.recv(100)
        assert wait_until(lambda: server.metric("requests_cancelled_total") == 1 and lines() == 4)
        with server.connect() as s:  # leaves in the middle of its body
            s.sendall(head("POST", TEXT, length=100) + b"{")
            time.sleep(0.2)
        assert wait_until(lambda: lines() == 5)
    with open(log) as lines:
        rows = [json.loads(line) for line in lines]
    with open(log + ".plain") as plain:
        plain = plain.read().splitlines()
    assert [r["event"] for r in rows if r["event"] != "request"] == ["load", "ready", "drain"]
    asked = [r for r in rows if r["event"] == "request"]
    seen = [(r["path"], r["status"], r["client_left"]) for r in asked]
    assert seen == [(TEXT, 200, False), (CHAT, 200, False), (TEXT, 400, False), (TEXT, 200, True),
                    (TEXT, 499, True)], seen
    assert (asked[0]["prompt_tokens"], asked[0]["completion_tokens"], asked[0]["finish_reason"]) == (1, 4, "stop")
    assert (asked[1]["replies"], asked[1]["completion_tokens"], asked[1]["finish_reason"]) == (2, 100, "length")
    assert asked[1]["accepted"] > 0 and "completion_tokens" not in asked[2]
    assert len(plain) == len(asked)
    for line, row in zip(plain, asked):
        assert re.match(rf"\d{{4}}-\d\d-\d\dT[\d:.]+Z {row['id']} POST {row['path']} {row['status']} ", line), line


# ---- shutdown ----------------------------------------------------------------------------------


def start_streams(server, stack, n, body):
    readers = []
    for _ in range(n):
        s = stack.enter_context(server.connect())
        s.sendall(post_bytes(TEXT, body))
        readers.append(stack.enter_context(s.makefile("rb")))
    assert wait_until(lambda: server.metric("requests_running") == n)
    return readers


def tokens_for(server, seconds):
    """How many tokens of an endless reply take about so long here and now."""
    begun = time.monotonic()
    assert server.post(TEXT, {**ENDLESS, "stream": False, "max_tokens": 300}).status == 200
    return max(1500, min(int(300 * seconds / (time.monotonic() - begun)), 30000))


@case
def OPS_04_a_signal_lets_running_replies_finish_and_refuses_new_ones(start):
    with start("scripted", *SLOW) as server, contextlib.ExitStack() as stack:
        body = {**ENDLESS, "max_tokens": tokens_for(server, 0.4)}
        wanted = server.post(TEXT, {**body, "stream": False}).receipt["tokens_sha256"]
        kept = stack.enter_context(server.connect())
        kept_reader = stack.enter_context(kept.makefile("rb"))
        kept.sendall(head("GET", "/livez"))
        assert read_reply(kept_reader).status == 200
        readers = start_streams(server, stack, 3, body)
        whole = stack.enter_context(server.connect(60))
        whole.sendall(post_bytes(TEXT, {**body, "stream": False}))
        assert wait_until(lambda: server.metric("requests_running") == 4)
        server.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: server.get("/readyz").status == 503)
        assert server.get("/livez").status == 200 and server.get("/health").status == 503
        refused = server.complete(prompt="B")
        assert refused.status == 503 and refused.headers["Retry-After"]
        kept.sendall(post_bytes(TEXT, {"prompt": "B"}))
        assert read_reply(kept_reader).status == 503
        assert server.metric("requests_running") == 4, "they still run"
        for reader in readers:
            chunks, _ = check_stream(read_reply(reader).body)
            assert chunks[-1]["selfsame"]["tokens_sha256"] == wanted
        with whole.makefile("rb") as reader:
            assert read_reply(reader).receipt["tokens_sha256"] == wanted
        assert server.process.wait(10) == 0


def check_cut(server, readers, whole):
    """Streams end with an error event, whole replies with a 5xx, none as if it were complete."""
    for reader in readers:
        chunks = events(read_reply(reader).body)
        assert chunks[-1] == "[DONE]" and "error" in chunks[-2]
        assert "stopped" in chunks[-2]["error"]["message"]
        assert all(c["choices"][0]["finish_reason"] is None for c in chunks[:-2])
    with whole.makefile("rb") as reader:
        reply = read_reply(reader)
        assert reply.status == 500 and "stopped" in reply.error["message"]
    assert server.process.wait(10) == 0


@case
def OPS_05_a_second_signal_ends_at_once(start):
    with start("scripted", *SLOW) as server, contextlib.ExitStack() as stack:
        readers = start_streams(server, stack, 2, ENDLESS)
        whole = stack.enter_context(server.connect())
        whole.sendall(post_bytes(TEXT, {**ENDLESS, "stream": False}))
        assert wait_until(lambda: server.metric("requests_running") == 3)
        server.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: server.get("/readyz").status == 503)
        server.process.send_signal(signal.SIGINT)
        check_cut(server, readers, whole)


@case
def OPS_05_the_drain_has_an_end(start):
    with start("scripted", *SLOW, "--drain", "1") as server, contextlib.ExitStack() as stack:
        readers = start_streams(server, stack, 2, ENDLESS)
        whole = stack.enter_context(server.connect())
        whole.sendall(post_bytes(TEXT, {**ENDLESS, "stream": False}))
        assert wait_until(lambda: server.metric("requests_running") == 3)
        idle = stack.enter_context(server.connect())
        idle.sendall(b"GET /hea")  # an unfinished request holds nothing up
        server.process.send_signal(signal.SIGTERM)
        check_cut(server, readers, whole)


@case
def OPS_06_an_idle_server_stops_at_once(start):
    with start("scripted") as server, server.connect() as idle, server.connect() as half:
        half.sendall(head("POST", TEXT, length=100) + b"{")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        assert read_all(idle) == b""


# ---- queues, silence, sockets, ids -------------------------------------------------------------


@case
def API_10_more_requests_than_slots_wait_in_order_or_are_told_to_come_back(start):
    with start("scripted", *SLOW, "--parallel", "1", "--queue", "16") as server, \
            contextlib.ExitStack() as stack:
        first = stack.enter_context(server.connect())
        first.sendall(post_bytes(TEXT, ENDLESS))
        assert wait_until(lambda: server.metric("requests_running") == 1)
        waiting = []
        for i in range(16):
            s = stack.enter_context(server.connect())
            s.sendall(post_bytes(TEXT, {"prompt": "B", "max_tokens": 2}))
            assert wait_until(lambda: server.metric("requests_waiting") == i + 1)
            waiting.append(s)
        for _ in range(3):
            reply = server.complete(prompt="B")
            assert reply.status == 429 and reply.headers["Retry-After"]
            assert reply.error["code"] == "queue_full" and reply.error["type"] == "rate_limit_error"
        first.close()
        order = []
        for s in waiting:
            with s.makefile("rb") as reader:
                order.append(read_reply(reader).json["timings"]["queue_ms"])
        assert len(order) == 16
        assert wait_until(lambda: server.metric("requests_waiting") == 0)


def silence(server, seconds):
    """A stream that waits so long behind another: (its bytes, longest gap, time to the first)."""
    with server.connect() as busy, server.connect() as s:
        busy.sendall(post_bytes(TEXT, ENDLESS))
        assert wait_until(lambda: server.metric("requests_running") == 1)
        s.sendall(post_bytes(TEXT, {"prompt": "x" * 2000 + "B", "max_tokens": 9, "stream": True}))
        begun = last = time.monotonic()
        data, longest, first = b"", 0, None
        while b"[DONE]" not in data:
            block = s.recv(1 << 16)
            assert block, data
            data, now = data + block, time.monotonic()
            longest, last, first = max(longest, now - last), now, first or now
            if now - begun > seconds:
                busy.close()
            else:
                s.settimeout(seconds - (now - begun) + 20)
        return data, longest, first - begun


@case
def STR_08_silence_is_filled_with_comments(start):
    with start("scripted", *SLOW, "--chunk", "1", "--parallel", "1", "--keep-alive", "1") as server:
        data, longest, first = silence(server, 3.2)
    assert first < 3.2, "headers and the role come before the first token"
    assert longest < 3.2, longest
    assert data.count(b"\r\n: keep-alive\n\n\r\n") >= 2, "whole, in a piece of their own"
    assert b'"text":"alpha be"' in data and b'"finish_reason":"stop"' in data


@case
def STR_08_the_interval_may_be_none(start):
    with start("scripted", "--chunk", "1", "--keep-alive", "0", "--timeout", "1") as server:
        begun = time.monotonic()
        reply = server.complete(prompt="x" * 16000 + "B", max_tokens=9, stream=True)
        assert b": keep-alive" not in reply.body
        assert check_stream(reply.body)[1] == {0: "alpha beta gamma delta"}, \
            f"a reply that is {time.monotonic() - begun} s in the making is no client that does not read"


@case
def OPS_06_a_signal_while_the_model_loads_ends_it_there(start, folder):
    slow, path = os.path.join(folder, "slow"), os.path.join(folder, "loading.sock")
    scripted_model.write(slow, scripted_model.Script(), ffn=40000)  # 120 MB to read and convert
    process = subprocess.Popen([start.program, "serve", slow, "--device", "cpu", "--socket", path],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert wait_until(lambda: os.path.exists(path) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    banner, _ = process.communicate(timeout=20)
    shutil.rmtree(slow)
    assert process.returncode == 0 and banner == "", "it ended before it was ready"
    assert not os.path.exists(path)


@case
def OPS_07_a_unix_socket_serves_its_owner(start, folder):
    path = os.path.join(folder, "serve.sock")
    with start("real", "--socket", path) as server:
        assert f"unix:{path}" in server.banner
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        reply = server.complete(prompt="one two", max_tokens=3)
        assert reply.status == 200 and reply.receipt["n_tokens"] == 3
        check_stream(server.chat("one", max_tokens=3, stream=True).body, is_clean=False)
        assert server.get("/v1/models", Host="any.name").status == 200, "no page reaches it"
        before = server.metric("requests_cancelled_total")
        with server.connect() as s:
            s.sendall(post_bytes(TEXT, {"prompt": "one", "max_tokens": 2000, "ignore_eos": True}))
            assert wait_until(lambda: server.metric("requests_running") == 1)
        assert wait_until(lambda: server.metric("requests_cancelled_total") == before + 1)
        second = start("real", "--socket", path)
        assert second.process.wait(20) == 4, "a socket in use is not taken over"
        assert server.get("/health").status == 200
    assert not os.path.exists(path), "it is gone with the server"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    with start("real", "--socket", path) as server:
        assert server.get("/health").status == 200, "what a dead server left behind is replaced"


@case
def OPS_08_the_service_manager_hears_when_it_is_ready_and_when_it_stops(start, folder):
    path = os.path.join(folder, "notify")
    for name, address in ((path, path), ("@selfsame-test-%d" % os.getpid(), "\0selfsame-test-%d" % os.getpid())):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(10)
            with start("real", env={"NOTIFY_SOCKET": name}) as server:
                assert manager.recv(100) == b"READY=1" and server.get("/readyz").status == 200
                server.process.send_signal(signal.SIGTERM)
                assert manager.recv(100) == b"STOPPING=1" and server.process.wait(10) == 0
    with start("real", env={"NOTIFY_SOCKET": "/no/such/socket"}) as server:
        assert server.get("/readyz").status == 200, "a manager that is gone is no failure"


@case
def OPS_08_the_unit_file_is_what_systemd_reads(folder):
    tool = shutil.which("systemd-analyze")
    with open("packaging/selfsame.service") as unit:
        text = unit.read()
    for line in ("Type=notify", "ExecStart=/usr/local/bin/selfsame serve ${MODEL} $FLAGS", "DynamicUser=yes"):
        assert line in text.splitlines()
    stop, drain = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M).group(1)), 60
    assert stop > drain, "the drain is over before systemd kills"
    if tool:
        copy = os.path.join(folder, "selfsame.service")
        with open(copy, "w") as out:
            out.write(text.replace("/usr/local/bin/selfsame", "/bin/true"))
        checked = subprocess.run([tool, "verify", copy], capture_output=True, text=True, timeout=20)
        assert checked.returncode == 0 and "selfsame.service" not in checked.stderr, checked.stderr


@case
def OPS_09_more_connections_than_there_is_room_for_wait_and_cost_nothing(start):
    with start("real", files=200) as server, contextlib.ExitStack() as stack:
        first = stack.enter_context(server.connect())
        held = [stack.enter_context(server.connect()) for _ in range(300)]
        time.sleep(0.3)

        def ticks():
            with open(f"/proc/{server.process.pid}/stat") as stat_file:
                fields = stat_file.read().rsplit(")", 1)[1].split()
                return int(fields[11]) + int(fields[12])

        before = ticks()
        time.sleep(1)
        assert ticks() - before < 10, "nobody turns in circles"
        first.sendall(head("GET", "/health"))
        assert first.recv(100).startswith(b"HTTP/1.1 200"), "those who are in are served"
        for s in held[:250]:
            s.close()
        assert server.get("/health").status == 200, "and others when there is room again"
        assert server.complete(prompt="x", max_tokens=1).status == 200


@case
def API_08_ids_are_unique_and_stay(real):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: real.complete(prompt=[5], max_tokens=1), range(300)))
    ids = [r.json["id"] for r in replies] + [real.chat("x", max_tokens=1).json["id"] for _ in range(50)]
    headers = [r.headers["x-request-id"] for r in replies]
    assert len(set(ids)) == 350 and len(set(headers)) == 300
    assert all(re.fullmatch(r"cmpl-[0-9a-f]{24,}", i) for i in ids[:300])
    assert all(re.fullmatch(r"chatcmpl-[0-9a-f]{24,}", i) for i in ids[300:])


@case
def API_09_usage_adds_up_streamed_or_not(real):
    for call, extra in ((real.complete, {"prompt": "one two three"}), (lambda **b: real.chat("one two", **b), {})):
        body = {**extra, "max_tokens": 7, "temperature": 0, "ignore_eos": True}
        whole = call(**body).json["usage"]
        streamed = check_stream(call(**body, stream=True, stream_options={"include_usage": True}).body,
                                is_clean=False)[0][-1]["usage"]
        assert whole["total_tokens"] == whole["prompt_tokens"] + whole["completion_tokens"]
        assert whole["completion_tokens"] == 7
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert whole[key] == streamed[key]
        for usage in (whole, streamed):
            assert 0 <= usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]
            assert usage["completion_tokens_details"]["reasoning_tokens"] == 0
