"""cases_stream.py - streams: what each event holds, when it is sent, and what ends them."""

import contextlib
import json
import time

import scripts
from harness import case, check_stream, events, head, post_bytes, read_reply, wait_until

ROUTES = ("/v1/chat/completions", "/v1/completions")


def body_of(route, letter, **fields):
    prompt = {"messages": [{"role": "user", "content": letter}]} if "chat" in route else {"prompt": letter}
    return {**prompt, "temperature": 0, **fields}


def both_ways(server, route, letter, **fields):
    """The same request whole and streamed: (whole reply, chunks, streamed text of choice 0)."""
    body = body_of(route, letter, max_tokens=fields.pop("max_tokens", 100), **fields)
    whole = server.post(route, body)
    assert whole.status == 200, whole.body
    streamed = server.post(route, {**body, "stream": True})
    assert streamed.headers["Content-Type"] == "text/event-stream"
    chunks, texts = check_stream(streamed.body)
    return whole, chunks, texts[0]


@case
def STR_01_no_character_is_split_over_events(scripted):
    for route in ROUTES:
        for letter, wanted in (("A", "😀!"), ("E", scripts.CUT_TEXT)):
            whole, _, text = both_ways(scripted, route, letter)
            assert text == wanted and whole.text == wanted, (text, whole.text)


@case
def STR_02_a_stop_string_over_token_boundaries_ends_the_reply(scripted):
    for route in ROUTES:
        whole, chunks, text = both_ways(scripted, route, "B", stop=["beta gamma"])
        assert whole.text == text == "alpha "
        assert whole.json["choices"][0]["finish_reason"] == "stop"
        assert whole.receipt["n_tokens"] == 3, "generation ends with the token that completes it"
        assert chunks[-1]["selfsame"]["n_tokens"] == 3


@case
def STR_03_only_what_may_become_a_stop_string_is_held_back(scripted):
    _, chunks, text = both_ways(scripted, ROUTES[1], "C", stop=["\nUser:"])
    pieces = [c["choices"][0]["text"] for c in chunks]
    assert text == "a\nUseful"
    assert [p for p in pieces if p] == ["a", "\nUseful"], pieces


@case
def STR_04_the_usage_chunk_comes_only_when_asked_for(scripted):
    for route in ROUTES:
        usage = scripted.post(route, body_of(route, "B", max_tokens=9)).json["usage"]
        for options, is_wanted in ((None, False), ({"include_usage": False}, False),
                                   ({"include_usage": True}, True)):
            body = body_of(route, "B", max_tokens=9, stream=True, stream_options=options)
            chunks, _ = check_stream(scripted.post(route, body).body)
            with_usage = [c for c in chunks if c.get("usage")]
            assert (len(with_usage) == 1) == is_wanted
            assert [c for c in chunks if c["choices"] == []] == with_usage
            if is_wanted:
                assert chunks[-1] is with_usage[0] and chunks[-1]["usage"] == usage
        refused = scripted.post(route, body_of(route, "B", stream_options={"include_usage": True}))
        assert refused.status == 400 and refused.error["param"] == "stream_options"


@case
def STR_05_a_stream_ends_with_done_and_its_connection_is_used_again(scripted):
    with scripted.connect() as s, s.makefile("rb") as reader:
        for route in ROUTES:
            for fields in ({}, {"max_tokens": 2}, {"stop": "gam"}):
                s.sendall(post_bytes(route, body_of(route, "B", stream=True, **fields)))
                reply = read_reply(reader)
                assert reply.status == 200 and reply.body.endswith(b"data: [DONE]\n\n")
                check_stream(reply.body)
        s.sendall(head("GET", "/health"))
        assert read_reply(reader).status == 200


@case
def STR_06_finish_reasons_are_the_ones_that_typed_clients_know(scripted):
    for fields, wanted in (({}, "stop"), ({"max_tokens": 2}, "length"), ({"stop": "gam"}, "stop")):
        for route in ROUTES:
            whole, chunks, _ = both_ways(scripted, route, "B", **fields)
            last = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
            assert last[:-1] == [None] * (len(last) - 1) and last[-1] == wanted
            assert whole.json["choices"][0]["finish_reason"] == wanted


@case
def STR_10_stop_strings_mean_the_same_on_every_route(scripted):
    texts = {both_ways(scripted, route, "B", stop=stop)[2] for route in ROUTES
             for stop in ("beta gamma", ["zzz", "beta gamma"])}
    assert texts == {"alpha "}


@case
def STR_11_the_first_chunk_has_the_role_and_the_last_an_empty_delta(scripted):
    _, chunks, _ = both_ways(scripted, ROUTES[0], "B")
    other, _ = check_stream(scripted.post(ROUTES[0], body_of(ROUTES[0], "B", stream=True)).body)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert chunks[0]["id"] != other[0]["id"]


@case
def STR_13_the_end_marker_is_no_text(scripted):
    for route in ROUTES:
        whole, chunks, text = both_ways(scripted, route, "D")
        assert whole.text == text == "4."
        assert whole.json["choices"][0]["finish_reason"] == "stop"


@case
def STR_14_the_index_is_the_choice(real):
    for route in ROUTES:
        body = body_of(route, "one two", n=2, max_tokens=5, temperature=1, seed=3, stream=True,
                       ignore_eos=True, stream_options={"include_usage": True})
        chunks, texts = check_stream(real.post(route, body).body, is_clean=False)
        assert texts.keys() == {0, 1}
        assert chunks[-1]["usage"]["completion_tokens"] == 10
        assert len([c for c in chunks if c.get("usage")]) == 1


# ---- clients that leave ------------------------------------------------------------------------


def check_leaving(server, body, reads, route="/v1/completions"):
    """Send, read some bytes, leave: the session ends, and nothing more is computed."""
    before = server.metrics()
    with server.connect() as s:
        s.sendall(post_bytes(route, body))
        for _ in range(reads):
            assert s.recv(200)
        assert wait_until(lambda: server.metric("requests_running") >= 1), "it runs before we leave"
    assert wait_until(lambda: server.metric("requests_cancelled_total")
                      == before["requests_cancelled_total"] + 1), "the cancel is counted"
    after = server.metrics()
    assert after["requests_running"] == 0 and after["requests_waiting"] == 0
    assert after["requests_finished_total"] == before["requests_finished_total"]
    rows = server.metric("rows_total")
    time.sleep(0.1)
    assert server.metric("rows_total") == rows, "nothing more is computed"


@case
def STR_09_a_client_that_leaves_while_decoding_ends_its_session(start):
    endless = {"prompt": "Z", "max_tokens": 32000, "draft": False}
    with start("scripted", "--isa", "scalar", "--threads", "1") as server:
        check_leaving(server, {**endless, "stream": True}, reads=3)
        check_leaving(server, endless, reads=0)
        chat = body_of(ROUTES[0], "Z", max_tokens=32000, draft=False)
        check_leaving(server, {**chat, "stream": True}, reads=3, route=ROUTES[0])
        check_leaving(server, chat, reads=0, route=ROUTES[0])
        messages = {"messages": [{"role": "user", "content": "Z"}], "max_tokens": 32000}
        check_leaving(server, {**messages, "stream": True}, reads=3, route="/v1/messages")
        check_leaving(server, messages, reads=0, route="/v1/messages")
        responses = {"input": "Z", "max_output_tokens": 32000}
        check_leaving(server, {**responses, "stream": True}, reads=3, route="/v1/responses")
        check_leaving(server, responses, reads=0, route="/v1/responses")


@case
def STR_09_a_client_that_leaves_in_prefill_ends_its_session(start):
    with start("scripted", "--isa", "scalar", "--threads", "1", "--chunk", "1") as server:
        for is_stream in (False, True):
            check_leaving(server, {"prompt": "x" * 32000 + "B", "stream": is_stream}, reads=0)
        assert server.metric("completion_tokens_total") == 0, "they left before the first token"


@case
def STR_09_a_client_that_leaves_the_queue_never_runs(start):
    with start("scripted", "--isa", "scalar", "--threads", "1", "--parallel", "1") as server:
        endless = {"prompt": "Z", "max_tokens": 32000, "draft": False, "stream": True}
        with server.connect() as first:
            first.sendall(post_bytes(ROUTES[1], endless))
            assert wait_until(lambda: server.metric("requests_running") == 1)
            with server.connect() as second:
                second.sendall(post_bytes(ROUTES[1], {**endless, "prompt": "xxxxxB"}))
                assert wait_until(lambda: server.metric("requests_waiting") == 1)
            assert wait_until(lambda: server.metric("requests_waiting") == 0), "it left the queue"
            assert server.metric("requests_running") == 1 and first.recv(100)
        assert wait_until(lambda: server.metric("requests_cancelled_total") == 2)
        assert server.metric("prompt_tokens_total") == 1, "only the first prompt was computed"
