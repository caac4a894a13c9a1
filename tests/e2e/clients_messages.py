"""clients_messages.py - the messages API, seen by the official Anthropic client and as bytes."""

import http.client
import json

import anthropic

from clients_check import check, refused

TOOL = {"name": "get_weather", "description": "The weather of a city.", "input_schema": {
    "type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}}}}
WEATHER = [("thinking", "The user wants the weather."), ("text", "I will look it up."),
           ("tool_use", "get_weather", {"city": "Paris", "days": 3})]


def run(base):
    client = anthropic.Anthropic(base_url=base, api_key="unused", max_retries=0)

    def body(text, **more):
        return {"model": "claude-any", "max_tokens": 200, "tools": [TOOL],
                "messages": [{"role": "user", "content": text}], **more}

    ask = lambda text, **more: client.messages.create(**body(text, **more))
    whole(ask)
    streamed(client, ask, body)
    wire(base, body)
    history(client, ask)
    runner(client)
    counts(client, ask, body)
    errors(client, ask, body, base)


def blocks(message):
    return [(b.type, b.name, b.input) if b.type == "tool_use" else (b.type, getattr(b, b.type))
            for b in message.content]


def whole(ask):
    reply = ask("WEATHER")
    check("messages: blocks", blocks(reply) == WEATHER, reply.content)
    check("messages: stop", reply.stop_reason == "tool_use" and reply.stop_sequence is None)
    check("messages: ids", reply.id.startswith("msg_") and reply.content[2].id.startswith("toolu_"))
    check("messages: usage", reply.usage.input_tokens + reply.usage.cache_read_input_tokens > 0 and
          reply.usage.output_tokens == reply.selfsame["n_tokens"], reply.usage)
    plain = ask("hi")
    check("messages: text", blocks(plain) == [("text", "Hello from the script.")] and
          plain.stop_reason == "end_turn", plain)
    cut = ask("hi", max_tokens=3)
    check("messages: max_tokens", cut.stop_reason == "max_tokens" and cut.usage.output_tokens == 3)
    stop = ask("hi", stop_sequences=["the"])
    check("messages: stop sequence", blocks(stop) == [("text", "Hello from ")] and
          stop.stop_reason == "stop_sequence" and stop.stop_sequence == "the", stop)
    check("messages: broken call", blocks(ask("BROKEN"))[0][0] == "text")
    two = ask("TWICE")
    check("messages: two calls", [b[2]["city"] for b in blocks(two)] == ["Rome", "Oslo"], two)
    one = ask("TWICE", tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    check("messages: not parallel", [b[2]["city"] for b in blocks(one)] == ["Rome"] and
          one.stop_reason == "tool_use", one)
    check("messages: any", blocks(ask("hi", tool_choice={"type": "any"})) ==
          [("tool_use", "get_weather", {"city": "Bern"})])
    check("messages: tool", blocks(ask("hi", tool_choice={"type": "tool", "name": "get_weather"})) ==
          [("tool_use", "get_weather", {"city": "Lima", "days": 1})])
    check("messages: none", [b[0] for b in blocks(ask("TWICE", tool_choice={"type": "none"}))] == ["text"])


def streamed(client, ask, body):
    for text in ("WEATHER", "TWICE", "hi", "THINK"):
        want = ask(text)
        with client.messages.stream(**body(text)) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_message()
        check("messages: streamed " + text, blocks(final) == blocks(want), final)
        check("messages: streamed stop " + text, final.stop_reason == want.stop_reason)
        check("messages: streamed usage " + text,
              final.usage.output_tokens == want.usage.output_tokens, final.usage)
        check("messages: ends once", kinds.count("message_stop") == 1)
    thinking = ask("THINK", thinking={"type": "enabled", "budget_tokens": 1024})
    check("messages: thinking", blocks(thinking) == [("thinking", "Hm, let me think."), ("text", "Forty-two.")])


def send(base, path, body, **headers):
    host = base.split("//")[1]
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
    reply = connection.getresponse()
    return reply, reply.read().decode()


def wire(base, body):
    """Event by event: numbers, order, one block at a time."""
    reply, text = send(base, "/v1/messages?beta=true", body("WEATHER", stream=True))
    events = [e.split("\n") for e in text.strip().split("\n\n")]
    check("wire: form", all(len(e) == 2 and e[0].startswith("event: ") and e[1].startswith("data: ")
                            for e in events), text[:300])
    names = [e[0][7:] for e in events]
    data = [json.loads(e[1][6:]) for e in events]
    check("wire: names", all(d["type"] == n for d, n in zip(data, names)))
    check("wire: first and last", names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"])
    start = data[0]["message"]
    check("wire: start", start["content"] == [] and start["usage"]["input_tokens"] +
          start["usage"]["cache_read_input_tokens"] > 0 and start["stop_reason"] is None, start)
    open_at, seen = None, []
    for d in data[1:-2]:
        if d["type"] == "content_block_start":
            check("wire: one block at a time", open_at is None and d["index"] == len(seen))
            open_at, kind = d["index"], d["content_block"]["type"]
            seen.append(kind)
        elif d["type"] == "content_block_stop":
            check("wire: stop of the open block", d["index"] == open_at)
            open_at = None
        else:
            wanted = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
            check("wire: delta", d["index"] == open_at and d["delta"]["type"] == wanted[kind], d)
    check("wire: blocks", seen == ["thinking", "text", "tool_use"] and open_at is None, seen)
    check("wire: request-id", reply.getheader("request-id", "").startswith("req_"))
    check("wire: no [DONE]", "[DONE]" not in text)


def history(client, ask):
    """Turns as Claude Code replays them: thinking, results, system messages in the middle."""
    reply = client.messages.create(
        model="m", max_tokens=100, tools=[TOOL],
        system=[{"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"},
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        thinking={"type": "adaptive"}, metadata={"user_id": "u"}, extra_body={
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"}},
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "WEATHER"}]},
            {"role": "system", "content": "A reminder."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "P"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sun"}]}]},
            {"role": "system", "content": [{"type": "text", "text": "Another."}]}])
    check("messages: after a result", blocks(reply) == [("text", "It is sunny in Paris.")], reply)
    prefill = ask("hi", messages=[{"role": "user", "content": "WEATHER"},
                                  {"role": "assistant", "content": "<tool_call>\n{\"name\": \""}])
    check("messages: prefill goes on", "Bern" in str(prefill.content), prefill)


def strict(base):
    """A template that raises when a system message is not the first."""
    late = {"model": "m", "max_tokens": 20, "messages": [
        {"role": "user", "content": "hi"}, {"role": "system", "content": "Be kind."}]}
    reply, text = send(base, "/v1/messages", late)
    check("strict: late system messages are served", reply.status == 200 and
          json.loads(text)["content"][0]["text"] == "Strict.", text)
    _, text = send(base, "/apply-template", {"messages": late["messages"]})
    check("strict: as a reminder", "hi\n\n<system-reminder>\nBe kind.\n</system-reminder>" in
          json.loads(text)["prompt"], text)
    _, text = send(base, "/v1/messages", {**late, "messages": [{"role": "user", "content": "THINK"}]})
    check("marks that are special tokens", [b["type"] for b in json.loads(text)["content"]] ==
          ["thinking", "text"], text)
    _, text = send(base, "/apply-template", {"messages": [
        {"role": "system", "content": "a"}, {"role": "user", "content": "hi"}]})
    check("strict: others are left alone", json.loads(text)["prompt"].startswith("user: hi"), text)


def runner(client):
    """The client's own loop: asks, calls the function, sends the result."""
    called = []

    @anthropic.beta_tool
    def get_weather(city: str, days: int = 1) -> str:
        """The weather of a city."""
        called.append((city, days))
        return "sunny"

    turns = list(client.beta.messages.tool_runner(
        model="m", max_tokens=200, tools=[get_weather],
        messages=[{"role": "user", "content": "WEATHER"}]))
    check("messages: tool runner", called == [("Paris", 3)] and
          [t.stop_reason for t in turns] == ["tool_use", "end_turn"], turns)


def counts(client, ask, body):
    for text in ("WEATHER", "hi there"):
        usage = ask(text).usage
        want = body(text)
        want.pop("max_tokens")
        count = client.messages.count_tokens(**want).input_tokens
        check("count_tokens", count == usage.input_tokens + usage.cache_read_input_tokens, (count, usage))
    check("count_tokens alone", client.messages.count_tokens(
        model="m", messages=[{"role": "user", "content": "foo"}]).input_tokens > 0)


def errors(client, ask, body, base):
    bad = anthropic.BadRequestError
    refused("messages: unknown field", bad, "colour", lambda: ask("hi", extra_body={"colour": 1}))
    refused("messages: too long", bad, "prompt is too long: ",
            lambda: ask("hi", messages=[{"role": "user", "content": "a"},
                                        {"role": "assistant", "content": "b" * 5000}]))
    refused("messages: image", bad, "image", lambda: ask("hi", messages=[{"role": "user", "content": [
        {"type": "image", "source": {"type": "url", "url": "http://x"}}]}]))
    refused("messages: server tool", bad, "tools.0",
            lambda: ask("hi", tools=[{"type": "web_search_20250305", "name": "web_search"}]))
    refused("messages: format", bad, "output_config.format", lambda: ask("hi", extra_body={
        "output_config": {"format": {"type": "json_schema", "schema": {}}}}))
    refused("messages: unknown tool", bad, "nope",
            lambda: ask("hi", tool_choice={"type": "tool", "name": "nope"}))
    want = body("hi")
    want.pop("max_tokens")
    reply, text = send(base, "/v1/messages", want)
    error = json.loads(text)
    check("messages: max_tokens is required", reply.status == 400 and error["type"] == "error" and
          error["error"]["type"] == "invalid_request_error" and "max_tokens" in error["error"]["message"], text)
    for thread in ({"type": "create"}, {"type": "continue", "previous_message_id": "m"}):
        reply, text = send(base, "/v1/messages", body("hi", thread=thread))
        check("messages: threads are refused as the SDK expects", reply.status == 400 and
              json.loads(text)["error"]["details"]["error_code"] == "thread_unsupported_request", text)
    reply, text = send(base, "/v1/messages", [])
    check("messages: no object", reply.status == 400 and json.loads(text)["type"] == "error", text)
    reply, text = send(base, "/v1/messages/nope", {})
    check("messages: no route", reply.status == 404 and
          json.loads(text)["error"]["type"] == "not_found_error", text)
