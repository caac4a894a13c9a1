"""cases_harness.py - the readers of streams themselves: each fault that they must see, they see."""

import json

from harness import case, check_stream

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"


def joined(chunks):
    return b"".join(b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n" for c in chunks)


def faults(good):
    """(what is wrong, bytes) for one good transcript as a list of chunks and b"[DONE]"."""
    def changed(at, **fields):
        out = json.loads(json.dumps(good[:-1]))
        out[at]["choices"][0].update(fields)
        return joined([*out, b"[DONE]"])
    yield "no [DONE]", joined(good[:-1])
    yield "two [DONE]", joined([*good, b"[DONE]"])
    yield "cut in an event", joined(good)[:-1]
    yield "no finish reason", joined([*good[:-2], b"[DONE]"])
    yield "two finish reasons", joined([*good[:-1], good[-2], b"[DONE]"])
    yield "text after the finish", joined([*good[:-1], good[1], b"[DONE]"])
    yield "an unknown finish reason", changed(-1, finish_reason="eos_token")
    yield "an empty finish reason", changed(-1, finish_reason="")
    yield "half a character", changed(1, delta={"content": "\ufffd"})
    yield "the role twice", changed(1, delta={"role": "assistant", "content": "x"})
    yield "text in the finish chunk", changed(-1, delta={"content": "x"})
    yield "another id", joined([good[0], {**good[1], "id": "other"}, *good[2:]])
    yield "no JSON", joined([good[0], b"{", *good[1:]])
    yield "no UTF-8", joined(good).replace(b"alpha", b"alph\xff")
    yield "an event over two lines", joined(good).replace(b"data: ", b"data: \n", 1)


@case
def HARNESS_the_reader_of_streams_sees_each_fault(scripted):
    body = scripted.chat("B", stream=True).body
    check_stream(body)
    good = [json.loads(part[6:]) for part in body.split(b"\n\n")[:-2]] + [b"[DONE]"]
    check_stream(joined(good))
    for name, bad in faults(good):
        try:
            check_stream(bad)
        except (AssertionError, ValueError):
            continue
        raise AssertionError(f"not seen: {name}")
