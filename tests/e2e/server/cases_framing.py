"""cases_framing.py - bytes on the wire: framing, pipelining, limits of heads and bodies."""

import json
import time

from harness import case, head, post_bytes, read_reply

TEXT = "/v1/completions"
BODY = {"prompt": "one two", "max_tokens": 2, "temperature": 0}


def chunked(data, size, extension=b"", trailer=b""):
    out = b""
    for at in range(0, len(data), size):
        part = data[at:at + size]
        out += b"%x%s\r\n%s\r\n" % (len(part), extension, part)
    return out + b"0\r\n" + trailer + b"\r\n"


def statuses(data):
    """The status of each response in what came back."""
    return [int(part[:3]) for part in data.split(b"HTTP/1.1 ")[1:]]


@case
def VAL_11_chunked_bodies_are_the_same_as_counted_ones(real):
    wanted = real.post(TEXT, BODY).receipt["tokens_sha256"]
    data = json.dumps(BODY).encode()
    start = head("POST", TEXT, "Transfer-Encoding: chunked")
    with real.connect() as s, s.makefile("rb") as reader:
        for body in (chunked(data, 1000), chunked(data, 1), chunked(data, 7, b";ext=1"),
                     chunked(data, 9, trailer=b"X-Trailer: 1\r\n")):
            s.sendall(start + body)
            assert read_reply(reader).receipt["tokens_sha256"] == wanted
        s.sendall(head("POST", TEXT, "Expect: 100-continue", length=len(data)))
        assert read_reply(reader).status == 100
        s.sendall(data)
        assert read_reply(reader).receipt["tokens_sha256"] == wanted


@case
def API_11_pipelined_requests_are_answered_in_order(real):
    one = [post_bytes(TEXT, {**BODY, "max_tokens": n, "ignore_eos": True}) for n in (3, 1, 2)]
    with real.connect() as s, s.makefile("rb") as reader:
        s.sendall(b"".join(one) + head("GET", "/health") + post_bytes("/tokenize", {"content": "a"}))
        used = [read_reply(reader).json["usage"]["completion_tokens"] for _ in one]
        assert used == [3, 1, 2]
        assert read_reply(reader).json == {"status": "ok"}
        assert "tokens" in read_reply(reader).json
        for byte in post_bytes(TEXT, {**BODY, "stream": True}):  # a byte a packet
            s.send(bytes([byte]))
        assert read_reply(reader).body.endswith(b"data: [DONE]\n\n")


@case
def SEC_06_bodies_and_heads_have_limits(real):
    memory = real.memory_kib()
    for length, status in (("1000000000000", 413), ("99999999999999999999999", 413), ("-5", 400),
                           ("+5", 400), ("5, 5", 400), ("5x", 400), ("0x5", 400), ("", 400)):
        got = statuses(real.raw(head("POST", TEXT, f"Content-Length: {length}", "Connection: close"), 3))
        assert got and set(got) <= {status, 400}, (length, got)
    twice = head("POST", TEXT, "Content-Length: 5", "Content-Length: 6")
    assert statuses(real.raw(twice + b"{\"a\":1}", 3)) == [400]
    long_line = real.raw(head("GET", "/health", "X-Long: " + "x" * (64 << 10)), 3)
    assert statuses(long_line) in ([431], [413])
    many = real.raw(head("GET", "/health", *[f"X-{i}: y" for i in range(10000)]), 3)
    assert statuses(many) in ([431], [413])
    long_path = real.raw(head("GET", "/" + "p" * (64 << 10)), 3)
    assert statuses(long_path) in ([414], [431], [413])
    assert real.memory_kib() - memory < 4096, "what is only announced is not allocated"


@case
def SEC_06_a_body_that_never_ends_is_cut_at_the_limit(real):
    with real.connect() as s, s.makefile("rb") as reader:
        s.sendall(head("POST", TEXT, "Transfer-Encoding: chunked"))
        part = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        try:
            for _ in range(66):
                s.sendall(part)
            s.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # cut: as good as an answer
        else:
            reply = read_reply(reader)
            assert reply.status == 413 and reply.error["code"] == "request_too_large"


@case
def SEC_06_a_refusal_reaches_a_client_that_is_still_sending(real):
    body = b"x" * 200000
    with real.connect() as s, s.makefile("rb") as reader:
        for route, status in (("/nope", 404), ("/v1/models", 405), ("/nope", 404)):
            for framed in (head("POST", route, length=len(body)) + body,
                           head("POST", route, "Transfer-Encoding: chunked") + chunked(body, 50000)):
                s.sendall(framed[:1000])
                time.sleep(0.05)
                s.sendall(framed[1000:])
                assert read_reply(reader).status == status
        s.sendall(head("GET", "/health"))
        assert read_reply(reader).status == 200, "and the connection serves on"
    with real.connect() as s, s.makefile("rb") as reader:
        s.sendall(head("POST", "/nope", "Expect: 100-continue", length=100))
        assert read_reply(reader).status == 404, "no word to go on with what is refused"
    with real.connect() as s, s.makefile("rb") as reader:
        s.sendall(head("POST", "/nope", length=1 << 40))
        assert read_reply(reader).status == 404, "nor is much waited for"


@case
def SEC_12_a_head_that_trickles_in_is_not_waited_for(start):
    with start("real", "--timeout", "2") as server, server.connect() as slow, server.connect() as s:
        s.sendall(post_bytes(TEXT, {**BODY, "max_tokens": 2000, "ignore_eos": True, "stream": True}))
        is_shut, begun = False, time.monotonic()
        while not is_shut and time.monotonic() - begun < 20:
            time.sleep(0.2)
            try:
                slow.send(b"G")  # never silent for long, never done
            except (BrokenPipeError, ConnectionResetError):
                is_shut = True
        assert is_shut
        with s.makefile("rb") as reader:
            assert read_reply(reader).body.endswith(b"data: [DONE]\n\n"), "a busy one is left alone"
        assert server.get("/health").status == 200


@case
def SEC_10_ambiguous_framing_is_refused_and_closed(real):
    hidden = head("GET", "/v1/models")
    for lines, body in (
            (("Content-Length: 4", "Transfer-Encoding: chunked"), b"0\r\n\r\n" + hidden),
            (("Transfer-Encoding: chunked, identity",), b"0\r\n\r\n" + hidden),
            (("Transfer-Encoding: identity, chunked",), b"0\r\n\r\n" + hidden),
            (("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), b"0\r\n\r\n" + hidden),
            (("Transfer-Encoding: gzip",), b"0\r\n\r\n" + hidden),
            (("Transfer-Encoding: chunked",), b"0x5\r\nhello\r\n0\r\n\r\n" + hidden),
            (("Transfer-Encoding: chunked",), b"-1\r\n\r\n0\r\n\r\n" + hidden),
            (("Transfer-Encoding: chunked",), b"FFFFFFFFFFFFFFFF\r\nhello" + hidden),
            (("Transfer-Encoding: chunked",), b"5\r\nhelloXX\r\n0\r\n\r\n" + hidden),
            (("Content-Length : 4",), b"0123" + hidden),
            (("X Spaced: 4",), b"0123" + hidden)):
        data = real.raw(head("POST", TEXT, *lines) + body, 1)
        got = statuses(data)
        assert got in ([], [400], [411], [413], [501]), (lines, got, data[:300])
        assert b'"object":"list"' not in data, "no answer to the hidden request"


@case
def SEC_11_a_header_that_may_come_once_comes_once(real):
    for name, value in (("Host", "localhost"), ("Authorization", "Bearer a"), ("x-api-key", "a"),
                        ("Content-Type", "application/json"), ("Origin", "http://localhost")):
        data = real.raw(head("GET", "/v1/models", f"{name}: {value}", f"{name}: {value}"), 3)
        assert statuses(data) == [400], (name, data[:200])
