"""clients_chat.py - tool calls and reasoning in chat completions, seen by the official client."""

import json
import urllib.request

import openai

from clients_check import check, refused

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}}}}}


def run(base):
    client = openai.OpenAI(base_url=base + "/v1", api_key="unused", max_retries=0)

    def ask(text, **more):
        return client.chat.completions.create(**{
            "model": "m", "messages": [{"role": "user", "content": text}], "tools": [TOOL], **more})

    whole(ask)
    streamed(client, ask)
    choices(ask)
    turns(client)
    shapes(base, ask)


def calls_of(message):
    return [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []]


def whole(ask):
    reply = ask("WEATHER")
    message = reply.choices[0].message
    check("call", calls_of(message) == [("get_weather", {"city": "Paris", "days": 3})], message)
    check("content before it", message.content == "I will look it up.", message)
    check("reasoning", message.reasoning_content == "The user wants the weather.", message)
    check("finish", reply.choices[0].finish_reason == "tool_calls")
    details = reply.usage.completion_tokens_details
    check("reasoning tokens", 2 < details.reasoning_tokens < reply.usage.completion_tokens, details)
    raw = ask("WEATHER", tool_choice="none")
    check("none leaves text", "<tool_call>" in raw.choices[0].message.content and
          raw.choices[0].message.tool_calls is None and raw.choices[0].finish_reason == "stop", raw)
    for key in ("tokens_sha256", "witness", "n_tokens", "prompt_sha256"):
        check("parsing leaves the receipt: " + key, raw.selfsame[key] == reply.selfsame[key])
    two = ask("TWICE").choices[0]
    check("two calls", calls_of(two.message) == [("get_weather", {"city": "Rome"}),
                                                 ("get_weather", {"city": "Oslo", "days": 2})], two)
    check("ids differ", len({c.id for c in two.message.tool_calls}) == 2)
    check("only calls: content is null", two.message.content is None, two)
    one = ask("TWICE", parallel_tool_calls=False).choices[0]
    check("not parallel", calls_of(one.message) == [("get_weather", {"city": "Rome"})] and
          one.finish_reason == "tool_calls", one)
    broken = ask("BROKEN").choices[0]
    check("a broken call is text", "Paris}}" in broken.message.content and
          "<tool_call>" in broken.message.content and broken.message.tool_calls is None and
          broken.finish_reason == "stop", broken)
    cut = ask("WEATHER", max_tokens=reply.usage.completion_tokens - 8).choices[0]
    check("a cut call is text", cut.finish_reason == "length" and
          "<tool_call>" in cut.message.content and cut.message.tool_calls is None, cut)
    stopped = ask("WEATHER", stop=["look"]).choices[0]
    check("stop", stopped.message.content == "I will " and stopped.finish_reason == "stop", stopped)


def streamed(client, ask):
    for text in ("WEATHER", "TWICE", "THINK", "BROKEN", "hi"):
        want = ask(text).choices[0]
        reasoning, content, calls, order, reasons = "", "", {}, [], []
        for chunk in ask(text, stream=True, stream_options={"include_usage": True}):
            for choice in chunk.choices:
                delta = choice.delta
                reasoning += getattr(delta, "reasoning_content", None) or ""
                content += delta.content or ""
                for call in delta.tool_calls or []:
                    if call.index not in calls:
                        check("first piece", call.id and call.type == "function" and
                              call.function.name and call.function.arguments == "", call)
                        calls[call.index] = [call.id, call.function.name, ""]
                    else:
                        check("next piece", call.id is None and call.function.name is None, call)
                    calls[call.index][2] += call.function.arguments
                    order.append(call.index)
                if choice.finish_reason:
                    reasons.append(choice.finish_reason)
            usage = chunk.usage
        message = want.message
        check("streamed content " + text, content == (message.content or "") or text == "BROKEN", content)
        check("streamed reasoning " + text, reasoning == (getattr(message, "reasoning_content", "") or ""))
        check("streamed reason " + text, reasons == [want.finish_reason], reasons)
        if text != "BROKEN":
            got = [(name, json.loads(arguments)) for _, name, arguments in calls.values()]
            check("streamed calls " + text, got == calls_of(message), got)
        check("one call after the other", order == sorted(order))
        check("streamed usage", usage is not None and usage.total_tokens > 0)
    with client.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "TWICE"}], tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    check("the client's helper", kinds.count("tool_calls.function.arguments.done") == 2 and
          len(final.choices[0].message.tool_calls) == 2, kinds)
    probs = [p for chunk in ask("WEATHER", stream=True, logprobs=True, top_logprobs=1)
             for choice in chunk.choices for p in (choice.logprobs and choice.logprobs.content or [])]
    whole_probs = ask("WEATHER", logprobs=True, top_logprobs=1).choices[0].logprobs.content
    check("logprobs of every token", [p.token for p in probs] == [p.token for p in whole_probs] and
          len(probs) > 20, len(probs))


def choices(ask):
    forced = ask("hi", tool_choice="required").choices[0]
    check("required", calls_of(forced.message) == [("get_weather", {"city": "Bern"})] and
          forced.finish_reason == "tool_calls", forced)
    named = {"type": "function", "function": {"name": "get_weather"}}
    one = ask("hi", tool_choice=named).choices[0]
    check("named", calls_of(one.message) == [("get_weather", {"city": "Lima", "days": 1})], one)
    pieces = [c for chunk in ask("hi", tool_choice=named, stream=True) for choice in chunk.choices
              for c in choice.delta.tool_calls or []]
    check("named, streamed", pieces[0].function.name == "get_weather" and
          json.loads("".join(p.function.arguments for p in pieces)) == {"city": "Lima", "days": 1})
    bad = openai.BadRequestError
    refused("unknown name", bad, "tool_choice",
            lambda: ask("hi", tool_choice={"type": "function", "function": {"name": "nope"}}))
    refused("odd choice", bad, "tool_choice", lambda: ask("hi", tool_choice="sometimes"))
    refused("no tools", bad, "tool_choice", lambda: ask("hi", tool_choice="required", tools=[]))
    refused("tool type", bad, "tools[0]", lambda: ask("hi", tools=[{"type": "custom", "custom": {"name": "x"}}]))
    refused("tool without a name", bad, "tools[0]", lambda: ask("hi", tools=[{"type": "function", "function": {}}]))
    refused("kwargs", bad, "chat_template_kwargs",
            lambda: ask("hi", extra_body={"chat_template_kwargs": {"messages": []}}))


def turns(client):
    first = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "WEATHER"}], tools=[TOOL])
    message = first.choices[0].message
    for content in (message.content, None, ""):
        second = client.chat.completions.create(model="m", tools=[TOOL], messages=[
            {"role": "user", "content": "WEATHER"},
            {"role": "assistant", "content": content, "tool_calls": [c.model_dump() for c in message.tool_calls]},
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}])
        check("the next turn", second.choices[0].message.content == "It is sunny in Paris.")


def shapes(base, ask):
    """Arguments that clients wrote anew give the same prompt."""
    def prompt(arguments):
        body = {"tools": [TOOL], "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}]},
            {"role": "user", "content": "y"}]}
        request = urllib.request.Request(base + "/apply-template", json.dumps(body).encode())
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)["prompt"]
    check("canonical arguments", prompt('{"a": 1,  "b":[ 2 ]}') == prompt('{"a":1,"b":[2]}'))
