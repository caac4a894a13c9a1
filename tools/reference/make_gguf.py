"""make_gguf.py FOLDER OUT.gguf - a llama-type checkpoint in Hugging Face layout as llama.cpp's converter
writes it: BF16 matrices, F32 norms, the rows of q and k permuted for rotary pairs (2i, 2i + 1).

Needs PyPI gguf and numpy.  Made tests/data/family/smollm2.gguf from tests/data/family/smollm2.
"""

import json
import pathlib
import struct
import sys

import gguf
import numpy as np


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            assert entry["dtype"] == "BF16"
            yield name, np.frombuffer(raw[8 + size + begin:8 + size + end], np.uint16).reshape(entry["shape"])


def permute(rows, n_heads):
    shape = rows.shape
    return (rows.reshape(n_heads, 2, shape[0] // n_heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape))


NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def main():
    folder = pathlib.Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    out = gguf.GGUFWriter(sys.argv[2], "llama")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    out.add_block_count(config["num_hidden_layers"])
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(heads)
    out.add_head_count_kv(kv_heads)
    out.add_rope_freq_base(config["rope_theta"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    tokens += [f"<pad{i}>" for i in range(len(tokens), config["vocab_size"])]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(tokens)
    out.add_token_types([1] * len(tokens))
    out.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    for name, data in read_safetensors(folder / "model.safetensors"):
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            layer, part = stem.split(".", 3)[2:]
            target = f"blk.{layer}.{NAMES[part]}.weight"
            if part == "self_attn.q_proj":
                data = permute(data, heads)
            elif part == "self_attn.k_proj":
                data = permute(data, kv_heads)
        else:
            target = NAMES[stem] + ".weight"
        if data.ndim == 1:
            out.add_tensor(target, (data.astype(np.uint32) << 16).view(np.float32))
        else:
            out.add_tensor(target, np.ascontiguousarray(data).view(np.uint8).reshape(data.shape[0], -1),
                           raw_dtype=gguf.GGMLQuantizationType.BF16)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
