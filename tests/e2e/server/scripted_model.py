"""scripted_model.py - model folders whose replies are written down beforehand.

A llama checkpoint with one layer that adds nothing: the next token depends on the last one alone.
Every scripted token has a dimension of its own, and the head's row of its successor reads that
dimension, so the greedy reply walks the script.  Tokens may hold any bytes, halves of characters
too; what no script names is followed by the end-of-turn token.
"""

import json
import os
import struct

DIM, HEADS, HEAD_DIM = 256, 4, 16
END, START = "<|end|>", "<|start|>"
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def byte_letters():
    """The printable letter that byte-level vocabularies write for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in letters):
        letters[b] = chr(256 + n)
    return letters


class Script:
    """Chains of tokens: add() says which pieces follow when a prompt ends with a letter."""

    def __init__(self):
        letters = byte_letters()
        self.vocab = {letters[b]: b for b in range(256)} | {END: 256, START: 257}
        self.letters = letters
        self.successor = {}

    def token(self, piece):
        name = "".join(self.letters[b] for b in piece)
        return self.vocab.setdefault(name, len(self.vocab))

    def link(self, before, after):
        assert self.successor.setdefault(before, after) == after, "a token has one successor"

    def add(self, letter, pieces, cycles=False):
        """Behind a prompt that ends with `letter`: the pieces, then the end, or the pieces again."""
        ids = [self.token(p if isinstance(p, bytes) else p.encode()) for p in pieces]
        self.link(ord(letter), ids[0])
        for before, after in zip(ids, ids[1:]):
            self.link(before, after)
        self.link(ids[-1], ids[0] if cycles else self.vocab[END])
        return ids


def matrix(rows, columns, ones):
    values = bytearray(4 * rows * columns)
    for row, column in ones:
        struct.pack_into("<f", values, 4 * (row * columns + column), 1.0)
    return [rows, columns], bytes(values)


def tensors_of(script, ffn):
    n = len(script.vocab)
    own = {token: 1 + i for i, token in enumerate(script.successor)}
    assert len(own) < DIM, "a dimension for each scripted token"
    end = script.vocab[END]
    embed = [(token, own.get(token, 0)) for token in range(n)]
    head = [(script.successor[token], own[token]) for token in own] + [(end, 0)]
    layer, gain = "model.layers.0.", ([DIM], struct.pack("<f", 1.0) * DIM)
    return {
        "model.embed_tokens.weight": matrix(n, DIM, embed),
        "lm_head.weight": matrix(n, DIM, head),
        "model.norm.weight": gain,
        layer + "input_layernorm.weight": gain,
        layer + "post_attention_layernorm.weight": gain,
        layer + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, DIM, []),
        layer + "self_attn.k_proj.weight": matrix(HEAD_DIM, DIM, []),
        layer + "self_attn.v_proj.weight": matrix(HEAD_DIM, DIM, []),
        layer + "self_attn.o_proj.weight": matrix(DIM, HEADS * HEAD_DIM, []),
        layer + "mlp.gate_proj.weight": matrix(ffn, DIM, []),
        layer + "mlp.up_proj.weight": matrix(ffn, DIM, []),
        layer + "mlp.down_proj.weight": matrix(DIM, ffn, []),
    }


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w") as out:
        json.dump(value, out)


def write(folder, script, context=32768, ffn=32):
    """A wide `ffn` changes nothing but the time that loading takes."""
    os.makedirs(folder, exist_ok=True)
    end, start = script.vocab[END], script.vocab[START]
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors_of(script, ffn))
    write_json(folder, "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": len(script.vocab), "hidden_size": DIM, "intermediate_size": ffn,
        "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": 1,
        "head_dim": HEAD_DIM, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": context, "tie_word_embeddings": False, "torch_dtype": "float32",
        "bos_token_id": start, "eos_token_id": end})
    write_json(folder, "generation_config.json", {"do_sample": False, "eos_token_id": end})
    special = [{"id": script.vocab[name], "content": name, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True} for name in (END, START)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    write_json(folder, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": script.vocab,
                  "merges": []}})
    write_json(folder, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": START, "eos_token": END,
        "add_bos_token": False, "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE})
