"""cases_validate.py - what a request may hold: each refusal is a 4xx that names the field."""

import json
import random

from harness import case, head, post_bytes, read_reply

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def refused(server, param, status=400, route=TEXT, **fields):
    """The request is refused with this status, and the error names `param`."""
    body = {"prompt": "one two", "max_tokens": 2} if route == TEXT else \
        {"messages": [{"role": "user", "content": "one two"}], "max_tokens": 2}
    reply = server.post(route, {**body, **fields})
    assert reply.status == status, (fields, reply.status, reply.body[:300])
    error = reply.error
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    assert error["param"] == param, (param, error)
    return error


def served(server, route=TEXT, **fields):
    body = {"prompt": "one two", "max_tokens": 3, "temperature": 0}
    reply = server.post(route, {**body, **fields})
    assert reply.status == 200, (fields, reply.body[:300])
    return reply


def tokens(reply):
    return reply.receipt["tokens_sha256"]


@case
def VAL_01_a_turn_without_content_is_accepted(real):
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
    prompts = set()
    for content in ({"content": None}, {}, {"content": ""}):
        messages = [{"role": "user", "content": "hi"},
                    {"role": "assistant", "tool_calls": [call], **content},
                    {"role": "tool", "tool_call_id": "call_1", "content": "42"}]
        assert real.post(CHAT, {"messages": messages, "max_tokens": 1}).status == 200
        prompts.add(real.post("/apply-template", {"messages": messages}).json["prompt"])
    assert len(prompts) == 1, prompts


@case
def VAL_02_logit_bias_takes_token_ids_and_numbers(real, scripted):
    for bias in ({"AI": -100}, {"999999999": 5}, {"-1": 5}, {"5": "x"}, {"5": 1e9}, [5], "x", {"": 1}):
        refused(real, "logit_bias", logit_bias=bias)
    assert served(scripted, prompt="D", max_tokens=1).text == "4"
    banned = served(scripted, prompt="D", max_tokens=1, logit_bias={str(ord("4")): -100})
    assert banned.text != "4"


@case
def VAL_03_top_k_at_its_ends(real):
    for value in (-2, 0.01, "40", [], True):
        refused(real, "top_k", top_k=value)
    seeded = {"temperature": 1, "seed": 4, "max_tokens": 8}
    assert len({tokens(served(real, top_k=k, **seeded)) for k in (9999999, 0, -1)}) == 1


@case
def VAL_04_floats_out_of_range(real):
    for field, value in (("temperature", 999999.0), ("temperature", -0.1), ("temperature", "1"),
                         ("top_p", -1.0), ("top_p", 0), ("top_p", 1.1), ("repeat_penalty", 0.0),
                         ("min_p", 2), ("presence_penalty", 1e9), ("frequency_penalty", -1e9)):
        error = refused(real, "repetition_penalty" if field == "repeat_penalty" else field,
                        **{field: value})
        assert field.split("_")[-1] in error["message"]
    for number in (b"1e999", b"NaN", b"Infinity", b"-Infinity"):
        body = b'{"prompt": "x", "max_tokens": 1, "temperature": %s}' % number
        assert real.post(TEXT, body).status == 400


@case
def VAL_05_a_huge_n_costs_nothing(real):
    memory = real.memory_kib()
    for value in (5000000, 0, -1, 1.5, "2", 1 << 70):
        if value == 1 << 70:
            assert real.post(TEXT, {"prompt": "x", "n": value}).status == 400
        else:
            refused(real, "n", n=value)
    assert real.memory_kib() - memory < 1024
    two = real.complete(prompt="one two", n=2, max_tokens=4, ignore_eos=True).json
    assert [c["index"] for c in two["choices"]] == [0, 1]
    assert two["usage"]["completion_tokens"] == 8


@case
def VAL_06_a_large_max_tokens_means_as_many_as_fit(real):
    for route, field in ((TEXT, "max_tokens"), (CHAT, "max_tokens"), (CHAT, "max_completion_tokens")):
        body = {"prompt": "one two"} if route == TEXT else {"messages": [{"role": "user", "content": "one two"}]}
        reply = real.post(route, {**body, field: 32000, "ignore_eos": True, "temperature": 0}).json
        usage = reply["usage"]
        small = real.post(route, {**body, field: 1}).json["usage"]
        assert usage["prompt_tokens"] == small["prompt_tokens"], "the prompt is never shortened"
        assert usage["total_tokens"] == 2048 and reply["choices"][0]["finish_reason"] == "length"
    for value in (0, -5, "9", 1.5):
        refused(real, "max_tokens", max_tokens=value)


@case
def VAL_07_null_is_the_same_as_absent(real):
    fields = ("stop", "temperature", "top_p", "n", "logit_bias", "user", "stream_options", "seed",
              "stream", "logprobs", "presence_penalty", "stop_token_ids", "draft", "not_a_field")
    one = served(real, temperature=None)
    assert proof_of(real.post(TEXT, {"prompt": "one two", "max_tokens": 3, **{f: None for f in fields}})) \
        == proof_of(one)
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 3}
    nulls = {f: None for f in (*fields, "tools", "tool_choice", "response_format", "max_tokens")}
    assert proof_of(real.post(CHAT, {**chat, **nulls})) == proof_of(real.post(CHAT, chat))


def proof_of(reply):
    assert reply.status == 200, reply.body
    return reply.receipt["prompt_sha256"], reply.receipt["tokens_sha256"]


@case
def VAL_08_deep_nesting_is_refused(real):
    for levels in (70, 1000, 10000, 1000000):
        deep = b"[" * levels + b"]" * levels
        for body in (b'{"prompt": "x", "x": %s}' % deep,
                     b'{"messages": [{"role": "user", "content": "x"}], "tools": %s}' % deep,
                     b'{"messages": [{"role": "user", "content": %s}]}' % deep,
                     b'{"x":' * levels, b"[" * levels):
            route = CHAT if b"messages" in body else TEXT
            assert real.post(route, body).status == 400
    ten = b"[" * 10 + b"]" * 10
    assert real.post(TEXT, b'{"prompt": "x", "x": %s}' % ten).error["param"] == "x"


@case
def VAL_09_lone_surrogates_become_the_replacement_character(real):
    def ids(escaped):
        reply = real.post("/tokenize", b'{"content": "%s"}' % escaped)
        assert reply.status == 200, reply.body
        return reply.json["tokens"]
    same = {rb"a \ud83d": "a \ufffd", rb"x \ude00 y": "x \ufffd y", rb"\ud83d\ude00": "😀",
            rb"\ud83d\u0041": "\ufffdA", rb"\\ud83d": r"\ud83d", rb"\ud83d\ud83d\ude00": "\ufffd😀",
            rb"\uDE00\uD83D": "\ufffd\ufffd", rb"\ud83d\\ude00": "\ufffd\\ude00"}
    for escaped, text in same.items():
        assert ids(escaped) == real.post("/tokenize", {"content": text}).json["tokens"], escaped


@case
def VAL_10_a_prompt_that_cannot_fit_is_refused_before_the_stream(real):
    long = "word " * 3000
    for stream in (False, True):
        for reply in (real.complete(prompt=long, stream=stream), real.chat(long, stream=stream)):
            assert reply.status == 400 and reply.headers["Content-Type"] == "application/json"
            assert reply.error["code"] == "context_length_exceeded"
            assert "2048" in reply.error["message"]


@case
def VAL_12_odd_json(real):
    for body in (b"", b"[]", b'"x"', b"null", b'{"prompt": "x",}', b'{"prompt": "a"}{"prompt": "b"}',
                 b"\xef\xbb\xbf{\"prompt\": \"x\"}", b"{prompt: 1}", b"{'prompt': 'x'}",
                 b'{"prompt": "\xff"}', b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "a\nb"}',
                 b'{"prompt": 01}', b'{"a\\u0000b": 1, "prompt": "x"}', b"\0", b'{"prompt": "x"'):
        reply = real.post(TEXT, body)
        assert reply.status == 400 and reply.error["message"], body
    twice = real.post(TEXT, b'{"prompt": "x", "max_tokens": 1, "max_tokens": 5, "ignore_eos": true}')
    assert twice.json["usage"]["completion_tokens"] == 5, "the last of two equal keys counts"
    nul = real.post("/tokenize", b'{"content": "one\\u0000two"}').json["tokens"]
    cut = real.post("/tokenize", b'{"content": "one"}').json["tokens"]
    assert nul[:len(cut)] == cut and len(nul) > len(cut), "NUL does not cut a text"
    big = real.complete(prompt="one " * (5 << 20))
    assert big.status == 400 and big.error["code"] == "context_length_exceeded"


@case
def VAL_12_a_nul_in_a_reply_does_not_cut_it(scripted):
    assert scripted.complete(prompt="N").text == "nul\0byte"
    assert scripted.chat("N").text == "nul\0byte"


@case
def VAL_13_the_shape_of_messages(real):
    def param(messages):
        return refused(real, refused_param(messages), route=CHAT, messages=messages)

    def refused_param(messages):
        if not isinstance(messages, list) or not messages:
            return "messages"
        message = messages[0]
        if not isinstance(message, dict):
            return "messages[0]"
        known = ("system", "developer", "user", "assistant", "tool", "function")
        if message.get("role") not in known:
            return "messages[0].role"
        return "messages[0].content" if not isinstance(message.get("content"), list) \
            else "messages[0].content[0]"

    for messages in ([], None, "hi", 5, [{}], ["x"], [{"role": "wizard", "content": "x"}],
                     [{"content": "x"}], [{"role": 5, "content": "x"}],
                     [{"role": "user", "content": 5}], [{"role": "user", "content": {"a": 1}}],
                     [{"role": "user", "content": [{"type": "text"}]}],
                     [{"role": "user", "content": ["x"]}]):
        param(messages)
    assert real.post(CHAT, {"max_tokens": 1}).error["param"] == "messages"
    prompts = [real.post("/apply-template", {"messages": [{"role": "user", "content": c}]}).json
               for c in ([], "")]
    assert prompts[0] == prompts[1]
    many = real.post(CHAT, {"messages": [{"role": "user", "content": "x"}] * 100000})
    assert many.status == 400 and many.error["code"] == "context_length_exceeded"


@case
def VAL_14_unknown_names_are_answered_in_json(real):
    assert real.complete(prompt="x", model="nope", max_tokens=1).json["model"] == "smollm2"
    assert "foo" in refused(real, "foo", foo=1)["message"]
    for method, path, status in (("POST", "/v1/nope", 404), ("GET", CHAT, 405), ("PUT", "/v1/models", 405),
                                 ("OPTIONS", TEXT, 405), ("DELETE", "/nope", 404), ("GET", "/", 404),
                                 ("BREW", "/health", 405), ("GET", "/v1/models/nope", 404)):
        reply = real.request(method, path)
        assert reply.status == status and reply.error["type"] == "invalid_request_error", (path, reply.status)
        assert status != 405 or reply.headers["Allow"] in ("POST", "GET")
    top = real.raw(head("HEAD", "/health", "Connection: close"))
    assert top.startswith(b"HTTP/1.1 200") and top.endswith(b"\r\n\r\n")
    assert real.request("GET", "/health?probe=1").status == 200, "a query string changes nothing"
    for prefix in ("", "/v1"):
        assert real.post(prefix + "/completions", {"prompt": "x", "max_tokens": 1}).status == 200


@case
def VAL_16_lists_have_limits(real):
    refused(real, "stop", stop=["x%d" % i for i in range(1000)])
    refused(real, "stop", stop="x" * (1 << 20))
    for stop in ("", [""], [5], {"a": 1}, ["a\0b"]):
        refused(real, "stop", stop=stop)
    refused(real, "logit_bias", logit_bias={str(i): 1 for i in range(5000)})
    refused(real, "stop_token_ids", stop_token_ids=list(range(20)))
    refused(real, "stop_token_ids", stop_token_ids=[100000])
    assert served(real, logit_bias={str(i): 1 for i in range(400)}).status == 200


@case
def VAL_17_every_wrong_type_is_refused_by_the_name_of_its_field(real):
    wrong = {"max_tokens": "a", "temperature": [], "top_p": {}, "top_k": "b", "min_p": True, "n": {},
             "stop": 5, "stream": "yes", "presence_penalty": "c", "frequency_penalty": [],
             "repetition_penalty": "d", "logit_bias": [1], "logprobs": "many", "seed": 1.5,
             "draft": "on", "ignore_eos": 1, "min_tokens": -1, "stop_token_ids": 7, "echo": "x",
             "suffix": 3, "best_of": 7, "stream_options": 5}
    for field, value in wrong.items():
        refused(real, field, **{field: value})
    for prompt in ({}, 5, True, [], [5, "x"], [[]], [-1], [100000], ["a", 5], [[5.5]]):
        refused(real, "prompt", prompt=prompt)
    wrong = {"tools": 5, "tool_choice": 5, "response_format": 5, "chat_template_kwargs": 5,
             "top_logprobs": 50, "logprobs": 3, "max_completion_tokens": [], "modalities": ["audio"]}
    for field, value in wrong.items():
        refused(real, field, route=CHAT, **{field: value})
    for route, body, param in (("/tokenize", {"content": 5}, "content"), ("/tokenize", {}, "content"),
                               ("/detokenize", {"tokens": "x"}, "tokens"),
                               ("/detokenize", {"tokens": [1 << 40]}, "tokens"),
                               ("/detokenize", {"tokens": [-1]}, "tokens"),
                               ("/apply-template", {}, "messages")):
        reply = real.post(route, body)
        assert reply.status == 400 and reply.error["param"] == param, (route, body, reply.body)


NASTY = [None, True, False, 0, -1, 1, 2, 5, 1.5, -0.0, 1e308, -1e308, 1 << 31, -(1 << 31), 1 << 62, "", "x", "\0",
         "\ufffd", "é" * 300, "{}", [], [[]], [None], [1], ["a"], [1, "a"], [{}], {}, {"a": 1}, {"type": "x"},
         {"type": "text", "text": "hi"}, [{"type": "text", "text": 5}], {"type": "function", "function": {}},
         [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
         [{"role": "user", "content": "hi"}], [{"role": "assistant", "tool_calls": [{}]}], [{"role": "tool"}],
         {"type": "json_schema", "json_schema": {}}, {"include_usage": True}, {"5": -100}, {"5": {}}, "auto", "required"]
FIELDS = ["messages", "prompt", "content", "tokens", "input", "system", "model", "max_tokens", "temperature", "top_p",
          "top_k", "min_p", "n", "stop", "stop_sequences", "stream", "stream_options", "logprobs", "top_logprobs",
          "logit_bias", "seed", "tools", "tool_choice", "response_format", "chat_template_kwargs", "echo", "suffix",
          "best_of", "thinking", "metadata", "min_tokens", "stop_token_ids", "ignore_eos", "draft", "cache_salt",
          "presence_penalty", "repetition_penalty", "parallel_tool_calls", "reasoning_effort", "add_generation_prompt",
          "continue_final_message", "parse_special", "add_special", "max_completion_tokens", "modalities", "thread"]
ROUTES = [CHAT, TEXT, "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/tokenize", "/detokenize",
          "/apply-template"]


def spoiled(rng):
    """A request that is right in most of its fields, or in few."""
    body = {"max_tokens": 3, "messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "content": "hi",
            "tokens": [5], "input": "hi"}
    for _ in range(rng.randint(0, 3)):
        body[rng.choice(FIELDS)] = rng.choice(NASTY)
    if rng.random() < 0.4:
        message = {"role": "user", "content": "hi"}
        message[rng.choice(["role", "content", "tool_calls", "name", "tool_call_id", "reasoning"])] = rng.choice(NASTY)
        body["messages"] = [message, {"role": "user", "content": "hi"}]
    return body


@case
def VAL_18_no_spoiled_request_ends_the_server_or_counts_as_its_fault(real):
    rng, statuses = random.Random(18), {}
    for i in range(3000):
        route, body = rng.choice(ROUTES), spoiled(rng)
        if route in (CHAT, TEXT):
            own = {CHAT: ("prompt", "content", "tokens", "input"), TEXT: ("messages", "content", "tokens", "input")}
            body = {k: v for k, v in body.items() if k not in own[route]}
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] > 50:
            body["max_tokens"] = 3 if rng.random() < 0.9 else body.get("max_tokens")
        data = json.dumps(body).encode()
        if rng.random() < 0.2:  # a byte is lost, doubled or another
            at = rng.randrange(len(data))
            data = data[:at] + rng.choice([b"", data[at:at + 1] * 2, bytes([rng.randrange(256)])]) + data[at + 1:]
        reply = real.post(route, data)
        statuses[reply.status] = statuses.get(reply.status, 0) + 1
        assert reply.status in (200, 400, 404), (route, data, reply.status, reply.body[:500])
        if reply.headers["Content-Type"] != "text/event-stream":
            assert reply.status == 200 or reply.error["message"], (route, data)
            json.loads(reply.body.decode("utf-8"))
        else:
            assert b'"error"' not in reply.body
    assert statuses[200] > 200 and statuses[400] > 200, statuses
