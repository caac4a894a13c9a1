"""cases_cache.py - kept states seen from outside: what is reused, by whom, and that it changes nothing."""

import random
import threading

from harness import case


def ids(seed, n):
    return [random.Random(seed).randrange(3, 400) for _ in range(n)]


def ask(server, prompt, salt=None, **fields):
    body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 1, **fields}
    reply = server.post("/v1/completions", {**body, **({"cache_salt": salt} if salt else {})})
    assert reply.status == 200, reply.body
    return reply.json


def cached(reply):
    n = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    cache = reply["selfsame"]["cache"]
    assert n == cache["memory"] + cache["disk"] and n + cache["recomputed"] == reply["selfsame"]["n_prompt"]
    return n


def proof(reply):
    return reply["selfsame"]["tokens_sha256"], reply["selfsame"]["witness"], \
        reply["choices"][0]["logprobs"]["token_logprobs"]


@case
def CCH_01_no_text_from_another_conversation(start):
    prompts = [ids(900 + i, 300) for i in range(40)]
    with start("real", "--parallel", "4", "--context", "400") as server:  # less room than prompts
        alone = [proof(ask(server, p, salt=f"alone {i}")) for i, p in enumerate(prompts)]
        for _ in range(2):
            replies = {}

            def send(i):
                replies[i] = ask(server, prompts[i])

            for i in range(0, len(prompts), 2):
                pair = [threading.Thread(target=send, args=(k,)) for k in (i, i + 1)]
                for thread in pair:
                    thread.start()
                for thread in pair:
                    thread.join()
            assert all(proof(replies[i]) == alone[i] for i in replies) and len(replies) == 40


@case
def CCH_02_fifty_equal_requests_get_fifty_equal_replies(real):
    replies = [ask(real, "a single line, again and again") for _ in range(50)]
    assert len({str(proof(r)) for r in replies}) == 1
    assert len({r["usage"]["prompt_tokens"] for r in replies}) == 1
    assert cached(replies[-1]) == replies[0]["usage"]["prompt_tokens"] - 1


@case
def CCH_03_reuse_equals_recompute(real):
    prompt = ids(3, 1502)
    replies = [ask(real, prompt) for _ in range(4)] + [ask(real, prompt, salt="never seen")]
    assert len({str(proof(r)) for r in replies}) == 1
    assert [cached(r) for r in replies] == [0, 1501, 1501, 1501, 0]


@case
def CCH_09_a_resend_costs_one_row_also_for_several_choices(real):
    prompt = ids(9, 1300)
    first = ask(real, prompt)
    again = ask(real, prompt)
    assert cached(again) == 1299 and proof(again) == proof(first)
    assert again["selfsame"]["cache"] == {"memory": 1299, "disk": 0, "recomputed": 1, "reason": None}
    more = ask(real, prompt, n=3)
    assert more["usage"]["prompt_tokens_details"]["cached_tokens"] == 3 * 1299
    assert more["choices"][2]["selfsame"]["witness"] == proof(first)[1]


@case
def CCH_10_an_edit_reuses_what_is_before_it(real):
    prompt = ids(10, 1200)
    ask(real, prompt)
    for at in (1199, 1100, 900, 300, 1):
        edited = prompt[:at] + [prompt[at] % 400 + 3] + prompt[at + 1:]
        warm, cold = ask(real, edited), ask(real, edited, salt=f"cold {at}")
        assert cached(warm) == at and cached(cold) == 0 and proof(warm) == proof(cold)
        reason = warm["selfsame"]["cache"]["reason"]
        assert (reason is None) if at == 1199 else reason.endswith(f"token {at}")
    shorter, cold = ask(real, prompt[:700]), ask(real, prompt[:700], salt="cold")
    assert cached(shorter) == 699 and proof(shorter) == proof(cold)


@case
def a_salt_and_a_key_keep_states_apart(real, start, folder):
    prompt = ids(11, 600)
    assert [cached(ask(real, prompt, salt=s)) for s in ("a", "b", "a", "b")] == [0, 0, 599, 599]
    refused = real.complete(prompt="x", cache_salt="")
    assert refused.status == 400 and "cache_salt" in refused.error["message"]
    with open(f"{folder}/keys", "w") as out:
        out.write("one\ntwo\n")
    with start("real", "--api-keys", f"{folder}/keys") as server:
        def count(key):
            reply = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 2},
                                Authorization=f"Bearer {key}")
            return cached(reply.json)
        assert [count(k) for k in ("one", "two", "one", "two")] == [0, 0, 599, 599]
        assert server.metrics(Authorization="Bearer one")["cached_tokens_total"] == 1198
