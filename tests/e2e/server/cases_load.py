"""cases_load.py - many clients at once, and clients that read slowly."""

import concurrent.futures
import random
import threading
import time

from harness import case, check_stream, events, head, post_bytes, proof, read_all, wait_until

STREAMS = 50


def request_of(i):
    """Request i of a mix: prompts, seeds, temperatures, lengths, drafts and logprobs differ."""
    rng = random.Random(i)
    words = ["one", "two", "three", "the river", "carries", "a boat", "\n", "12", "naïve", "日本"]
    prompt = " ".join(rng.choice(words) for _ in range(rng.randint(1, 120)))
    return {"prompt": prompt, "max_tokens": rng.randint(1, 90), "seed": i, "ignore_eos": True,
            "temperature": rng.choice([0, 0.7, 1.3]), "top_p": rng.choice([1, 0.9]),
            "draft": rng.random() < 0.7, "stream": True}


def receipt_of(server, body):
    chunks, _ = check_stream(server.post("/v1/completions", body).body, is_clean=False)
    return proof(chunks[-1]["selfsame"])


@case
def DET_01_fifty_streams_at_once_equal_themselves_alone(real, start):
    with start("real", "--parallel", "1", "--threads", "1") as alone:
        wanted = [receipt_of(alone, {**request_of(i), "draft": False}) for i in range(STREAMS)]
    assert len(set(wanted)) == STREAMS, "the requests differ, so a mix-up would show"
    before = real.metrics()
    stop = threading.Event()

    def leave_again_and_again(i):
        rng = random.Random(i)
        while not stop.is_set():
            with real.connect() as s:
                s.sendall(post_bytes("/v1/completions", {**request_of(1000 + i), "max_tokens": 900}))
                time.sleep(rng.random() / 10)

    with concurrent.futures.ThreadPoolExecutor(STREAMS + 4) as pool:
        leavers = [pool.submit(leave_again_and_again, i) for i in range(4)]
        got = list(pool.map(lambda i: receipt_of(real, request_of(i)), range(STREAMS)))
        stop.set()
        concurrent.futures.wait(leavers)
    assert got == wanted
    assert wait_until(lambda: real.metric("requests_running") == 0), "no lane is stuck"
    after = real.metrics()
    assert after["requests_cancelled_total"] > before["requests_cancelled_total"]
    assert after["draft_accepted_total"] > before["draft_accepted_total"]
    assert after["rows_total"] - before["rows_total"] > after["passes_total"] - before["passes_total"]


@case
def STR_12_a_slow_reader_costs_little_memory_and_stops_nobody(start):
    with start("scripted", "--timeout", "5") as server:
        endless = {"prompt": "Z", "max_tokens": 32000, "stream": True, "draft": False}
        assert server.complete(prompt="Z", max_tokens=3000).status == 200
        memory = server.memory_kib()
        with server.connect(receive_buffer=4096) as slow:
            slow.sendall(post_bytes("/v1/completions", endless))
            assert slow.recv(100)
            assert wait_until(lambda: server.metric("requests_running") == 1)

            def rows_in_a_while():
                rows = server.metric("rows_total")
                time.sleep(0.3)
                return server.metric("rows_total") - rows

            assert wait_until(lambda: rows_in_a_while() == 0), "it pauses when nobody reads"
            assert server.metric("requests_running") == 1, "and waits"
            assert server.metric("completion_tokens_total") == 3000, "it is not at its end"
            reply = server.complete(prompt="B", max_tokens=20)
            assert reply.text == "alpha beta gamma delta", "another client is served meanwhile"
            assert server.memory_kib() - memory < 32 << 10, "what is not read stays bounded"
            assert wait_until(lambda: server.metric("requests_running") == 0), "then it is dropped"
            assert server.metric("requests_cancelled_total") == 1
            rest = read_all(slow)
        assert b"data: [DONE]" not in rest, "the reply was cut, and looks cut"


@case
def STR_12_a_reader_that_pauses_gets_the_whole_reply(start):
    body = {"prompt": "Z", "max_tokens": 8000, "stream": True}
    with start("scripted", "--timeout", "20") as server:
        wanted = receipt_of(server, body)
        with server.connect(60, receive_buffer=4096) as s:
            s.sendall(post_bytes("/v1/completions", body, "Connection: close"))
            time.sleep(1.0)
            data = read_all(s)
        assert b"data: [DONE]" in data[-100:]
        assert wanted[1].encode() in data[-3000:], "the receipt of the same tokens"
