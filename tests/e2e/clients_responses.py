"""clients_responses.py - the responses API, seen by the official client and as bytes."""

import json

import openai

from clients_check import check, refused
from clients_messages import send

TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a city.",
        "strict": False, "parameters": {"type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}}}}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}


def run(base):
    client = openai.OpenAI(base_url=base + "/v1", api_key="unused", max_retries=0)
    ask = lambda asked, **more: client.responses.create(
        **{"model": "m", "input": asked, "tools": [TOOL], **more})
    whole(ask)
    streamed(client, ask)
    wire(base)
    history(client, ask)
    codex(base)
    errors(client, ask, base)


def items(response):
    out = []
    for item in response.output:
        if item.type == "function_call":
            out.append((item.name, json.loads(item.arguments)))
        elif item.type == "custom_tool_call":
            out.append((item.name, item.input))
        elif item.type == "reasoning":
            out.append(("reasoning", item.summary[0].text))
        else:
            out.append(("message", item.content[0].text))
    return out


WEATHER = [("reasoning", "The user wants the weather."), ("message", "I will look it up."),
           ("get_weather", {"city": "Paris", "days": 3})]


def whole(ask):
    reply = ask("WEATHER")
    check("responses: items", items(reply) == WEATHER, reply.output)
    check("responses: status", reply.status == "completed" and reply.error is None and
          reply.incomplete_details is None)
    check("responses: usage", reply.usage.total_tokens == reply.usage.input_tokens +
          reply.usage.output_tokens and reply.usage.output_tokens == reply.selfsame["n_tokens"] and
          reply.usage.output_tokens_details.reasoning_tokens > 2, reply.usage)
    plain = ask("hi", metadata={"a": "b"}, instructions="Be brief.")
    check("responses: output_text", plain.output_text == "Hello from the script.", plain)
    check("responses: given back", plain.metadata == {"a": "b"} and plain.instructions == "Be brief.")
    cut = ask("hi", max_output_tokens=3)
    check("responses: incomplete", cut.status == "incomplete" and
          cut.incomplete_details.reason == "max_output_tokens", cut)
    check("responses: parallel", [i[1]["city"] for i in items(ask("TWICE"))] == ["Rome", "Oslo"])
    check("responses: not parallel", [i[1]["city"] for i in items(ask("TWICE", parallel_tool_calls=False))] == ["Rome"])
    check("responses: required", items(ask("hi", tool_choice="required")) == [("get_weather", {"city": "Bern"})])
    named = {"type": "function", "name": "get_weather"}
    check("responses: named", items(ask("hi", tool_choice=named)) == [("get_weather", {"city": "Lima", "days": 1})])
    patch = ask("PATCH", tools=[TOOL, PATCH])
    check("responses: custom tool", items(patch) == [("apply_patch", "*** Begin Patch\n-a\n+b")], patch)
    check("responses: broken call", items(ask("BROKEN"))[0][0] == "message")


def streamed(client, ask):
    for text in ("WEATHER", "TWICE", "hi", "PATCH"):
        want = ask(text, tools=[TOOL, PATCH])
        with client.responses.stream(model="m", input=text, tools=[TOOL, PATCH]) as stream:
            events = list(stream)
            final = stream.get_final_response()
        check("responses: streamed " + text, items(final) == items(want), final.output)
        check("responses: ends " + text, events[-1].type == "response.completed")


def events_of(text):
    out = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        data = json.loads(data[len("data: "):])
        check("wire: name and type", name == "event: " + data["type"])
        out.append(data)
    return out


def wire(base):
    reply, text = send(base, "/v1/responses", {"model": "m", "input": "WEATHER", "tools": [TOOL], "stream": True})
    events = events_of(text)
    check("wire: numbers", [e["sequence_number"] for e in events] == list(range(len(events))))
    types = [e["type"].removeprefix("response.") for e in events]
    merged = [t for i, t in enumerate(types) if i == 0 or t != types[i - 1] or not t.endswith("delta")]
    check("wire: order", merged == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
        "output_item.done", "completed"], merged)
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    check("wire: done items are the output", done == events[-1]["response"]["output"], done)
    added = [(e["output_index"], e["item"]["id"]) for e in events if e["type"] == "response.output_item.added"]
    check("wire: ids", [i for i, _ in added] == [0, 1, 2] and [d["id"] for d in done] == [i for _, i in added])
    text = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    check("wire: text", text == "I will look it up.")
    check("wire: no [DONE]", "[DONE]" not in text)
    reply, text = send(base, "/v1/responses", {"model": "m", "input": "BROKEN", "tools": [TOOL], "stream": True})
    events = events_of(text)
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    check("wire: a lost call is never done", [d["type"] for d in done] == ["message"] and
          done == events[-1]["response"]["output"], done)


def history(client, ask):
    first = ask("WEATHER")
    call = first.output[2]
    second = ask([{"role": "user", "content": "WEATHER"}, *first.output,
                  {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
    check("responses: the next turn", second.output_text == "It is sunny in Paris.", second)
    count = client.post("/responses/input_tokens", cast_to=object, body={
        "model": "m", "input": "WEATHER", "tools": [TOOL]})
    check("responses: input_tokens", count["input_tokens"] == first.usage.input_tokens, count)


def codex(base):
    """A request as Codex sends it: developer messages, tools of every type, its own fields."""
    body = {"model": "m", "stream": True, "store": False, "tool_choice": "auto",
            "parallel_tool_calls": True, "reasoning": {"summary": "auto"},
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
            "client_metadata": {"thread_id": "t"}, "text": {"verbosity": "low"},
            "tools": [TOOL, PATCH, {"type": "namespace", "name": "n", "tools": []},
                      {"type": "web_search", "external_web_access": True}],
            "input": [
                {"type": "message", "id": "a", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
                {"type": "message", "id": "b", "role": "user", "content": [{"type": "input_text", "text": "PATCH"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}],
                 "content": None, "encrypted_content": None},
                {"type": "custom_tool_call", "id": "c", "status": "completed", "call_id": "call_1",
                 "name": "apply_patch", "input": "*** Begin Patch"},
                {"type": "custom_tool_call_output", "id": "d", "call_id": "call_1", "output": "done"}]}
    reply, text = send(base, "/v1/responses", body)
    events = events_of(text)
    check("codex: reply", reply.status == 200 and events[-1]["type"] == "response.completed" and
          events[-1]["response"]["id"] and
          events[-2]["item"]["content"][0]["text"] == "It is sunny in Paris.", text[-400:])


def run_kept(base):
    """With --responses: conversations that the server holds, each for its key."""
    one, two = (openai.OpenAI(base_url=base + "/v1", api_key=key, max_retries=0)
                for key in ("key-one", "key-two"))
    first = one.responses.create(model="m", input="WEATHER", tools=[TOOL])
    check("kept: says so", first.store is True, first)
    with one.responses.stream(model="m", previous_response_id=first.id, tools=[TOOL], input=[
            {"type": "function_call_output", "call_id": first.output[2].call_id, "output": "sunny"}]) as stream:
        list(stream)
        second = stream.get_final_response()
    check("kept: goes on", second.output_text == "It is sunny in Paris." and
          second.previous_response_id == first.id, second)
    whole = one.responses.input_tokens.count(model="m", tools=[TOOL], input=[
        {"role": "user", "content": "WEATHER"}, *[i.model_dump() for i in first.output],
        {"type": "function_call_output", "call_id": first.output[2].call_id, "output": "sunny"}])
    check("kept: the same prompt as all items", whole.input_tokens == second.usage.input_tokens, whole)
    got = one.responses.retrieve(second.id)
    check("kept: retrieved", got.output_text == second.output_text and got.usage == second.usage, got)
    listed = one.responses.input_items.list(second.id).data
    check("kept: input items", [i.type for i in listed] == [
        "function_call_output", "function_call", "message", "reasoning", "message"], listed)
    for act in (two.responses.retrieve, two.responses.delete):
        refused("kept: not for other keys", openai.NotFoundError, "not kept", lambda: act(first.id))
    refused("kept: nor to go on", openai.BadRequestError, "previous_response_id", lambda: two.responses.create(
        model="m", input="hi", previous_response_id=first.id))
    loose = one.responses.create(model="m", input="hi", store=False)
    check("kept: store false", loose.store is False)
    refused("kept: not without store", openai.NotFoundError, "not kept",
            lambda: one.responses.retrieve(loose.id))
    gone = one.responses.create(model="m", input="hi")
    one.responses.delete(gone.id)
    refused("kept: deleted", openai.NotFoundError, "not kept", lambda: one.responses.retrieve(gone.id))
    return first.id, second.id


def run_kept_again(base, ids):
    """After a restart."""
    client = openai.OpenAI(base_url=base + "/v1", api_key="key-one", max_retries=0)
    check("kept: after a restart", [client.responses.retrieve(i).id for i in ids] == list(ids))
    third = client.responses.create(model="m", input="hi", previous_response_id=ids[1])
    check("kept: goes on after a restart", third.output_text == "Hello from the script." and
          len(client.responses.input_items.list(third.id).data) == 7, third)


def errors(client, ask, base):
    bad = openai.BadRequestError
    refused("responses: unknown field", bad, "colour", lambda: ask("hi", extra_body={"colour": 1}))
    refused("responses: format", bad, "text.format", lambda: ask("hi", text={
        "format": {"type": "json_schema", "name": "x", "schema": {}}}))
    refused("responses: background", bad, "background", lambda: ask("hi", background=True))
    refused("responses: image", bad, "input_image", lambda: ask([{"role": "user", "content": [
        {"type": "input_image", "image_url": "data:"}]}]))
    refused("responses: item", bad, "item_reference", lambda: ask([{"type": "item_reference", "id": "x"}]))
    refused("responses: empty", bad, "input", lambda: ask([]))
    refused("responses: max_output_tokens", bad, "max_output_tokens", lambda: ask("hi", max_output_tokens=0))
    refused("responses: previous", bad, "previous_response_id",
            lambda: ask("hi", previous_response_id="resp_nope"))
