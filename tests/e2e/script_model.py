"""script_model.py FOLDER SCRIPTS.json - writes a model that plays scripts, for tests of clients.

Its attention and feed-forward weights are zero, so the next token depends on the last token alone:
embeddings are one-hot and the output matrix says which token follows.  Every script is cut into
pieces that are used once, each an added token of its own; the chat template ends the prompt with
the token that begins the script chosen, behind a character that is in no piece (or a piece could
take that token's first one).  SCRIPTS.json holds

  "marks":   what the template shall hold, so that the format of tool calls is found
  "scripts": reply texts by a word that the last user message contains; "after" answers results of
             tools, "plain" everything else
  "forced":  beginnings that the server forces, and what follows them
  "special": (optional) pieces that are special tokens, which text leaves out
  "prelude": (optional) what the template begins with
"""

import json
import pathlib
import struct
import sys

DIM, HEADS, VOCAB_ROOM = 768, 12, 1280


def byte_alphabet():
    """The characters that stand for bytes in byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(other)}


WHOLE = ["<think>", "</think>"]  # one token each where they come first: reasoning is counted by it


def cut(text, used):
    """Pieces of the text that were never used before."""
    for whole in WHOLE:
        if whole in text and whole not in used:
            before, after = text.split(whole, 1)
            used.add(whole)
            return [*cut(before, used), whole, *cut(after, used)]
    pieces, at = [], 0
    while at < len(text):
        size = 1
        while text[at:at + size] in used and at + size < len(text):
            size += 1
        while text[at:] in used and pieces:  # the end repeats: the last piece takes it in
            used.discard(pieces[-1])
            at -= len(pieces.pop())
            size = len(text) - at
        assert text[at:at + size] not in used, text
        used.add(text[at:at + size])
        pieces.append(text[at:at + size])
        at += size
    return pieces


TEMPLATE = """{# %s tools #}%s
{%%- set ns = namespace(last=messages[0]) %%}
{%%- for m in messages %%}{%% if m.role in ['user', 'tool'] %%}{%% set ns.last = m %%}{%% endif %%}{%% endfor %%}
{%%- set text = (ns.last.content or '') | string %%}
{{- ns.last.role + ': ' + text[-200:] + '␞' }}
{%%- if add_generation_prompt %%}
{%%- if ns.last.role == 'tool' %%}<|run:after|>%s{%% else %%}<|run:plain|>{%% endif %%}
{%%- endif %%}"""


def main(folder, script_path):
    spec = json.loads(pathlib.Path(script_path).read_text())
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = byte_alphabet()
    words = [alphabet[b] for b in range(256)]
    special = ["<|end|>"] + [f"<|run:{name}|>" for name in spec["scripts"]]
    used, chains = set(words) | set(special), []
    hidden = spec.get("special", [])
    for name, text in spec["scripts"].items():
        chains.append([f"<|run:{name}|>", *cut(text, used), "<|end|>"])
    for begin, text in spec.get("forced", {}).items():
        used.add(begin)
        chains.append([begin, *cut(text, used), "<|end|>"])
    added = special + [t for chain in chains for t in chain if t not in special]
    ids = {word: i for i, word in enumerate(words)} | {t: 256 + i for i, t in enumerate(added)}
    slots = {t: i for i, t in enumerate(t for t in added if t != "<|end|>")}
    assert len(slots) <= DIM and len(ids) <= VOCAB_ROOM, (len(slots), len(ids))
    write_text(folder, spec, words, added, special + hidden, ids)
    embed, head = [bytearray(2 * VOCAB_ROOM * DIM) for _ in range(2)]
    one = struct.pack("<H", 0x3F80)  # bf16
    for chain in chains:
        for this, after in zip(chain, chain[1:]):
            for matrix, row in ((embed, ids[this]), (head, ids[after])):
                at = 2 * (row * DIM + slots[this])
                matrix[at:at + 2] = one
    write_weights(folder, embed, head)


def write_text(folder, spec, words, added, special, ids):
    token = lambda t: {"id": ids[t], "content": t, "single_word": False, "lstrip": False,
                       "rstrip": False, "normalized": False, "special": t in special}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [token(t) for t in added], "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {w: i for i, w in enumerate(words)}, "merges": []}}))
    choose = "".join(f"{{% elif {json.dumps(name)} in text %}}<|run:{name}|>"
                     for name in spec["scripts"] if name not in ("after", "plain"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "eos_token": "<|end|>", "chat_template": TEMPLATE % (spec["marks"], spec.get("prelude", ""), choose)}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB_ROOM,
        "hidden_size": DIM, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": HEADS, "num_key_value_heads": 1, "hidden_act": "silu",
        "rms_norm_eps": 1e-05, "max_position_embeddings": 4096, "rope_theta": 10000,
        "tie_word_embeddings": False, "eos_token_id": ids["<|end|>"]}))


def write_weights(folder, embed, head):
    layer = "model.layers.0."
    side = DIM // HEADS
    zeros = {layer + "self_attn.q_proj.weight": (DIM, DIM),
             layer + "self_attn.k_proj.weight": (side, DIM),
             layer + "self_attn.v_proj.weight": (side, DIM),
             layer + "self_attn.o_proj.weight": (DIM, DIM),
             layer + "mlp.gate_proj.weight": (64, DIM), layer + "mlp.up_proj.weight": (64, DIM),
             layer + "mlp.down_proj.weight": (DIM, 64)}
    tensors = {name: (shape, bytes(2 * shape[0] * shape[1])) for name, shape in zeros.items()}
    ones = struct.pack("<H", 0x3F80) * DIM
    for name in (layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight",
                 "model.norm.weight"):
        tensors[name] = ((DIM,), ones)
    tensors["model.embed_tokens.weight"] = ((VOCAB_ROOM, DIM), bytes(embed))
    tensors["lm_head.weight"] = ((VOCAB_ROOM, DIM), bytes(head))
    header, at = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            out.write(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
