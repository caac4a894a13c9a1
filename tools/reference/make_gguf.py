"""make_gguf.py FOLDER OUT.gguf - a llama or qwen3_moe checkpoint in Hugging Face layout as llama.cpp's
converter writes it: BF16 matrices, F32 norms, experts stacked; llama's rows of q and k permuted for rotary
pairs (2i, 2i + 1).

Needs PyPI gguf and numpy.  Made tests/data/family/smollm2.gguf and qwen3_moe.gguf from the folders beside them.
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


def add(out, target, data):
    if data.ndim == 1 or "ffn_gate_inp" in target:
        out.add_tensor(target, (data.astype(np.uint32) << 16).view(np.float32))
    else:
        out.add_tensor(target, np.ascontiguousarray(data).view(np.uint8).reshape(*data.shape[:-1], -1),
                       raw_dtype=gguf.GGMLQuantizationType.BF16)


NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate": "ffn_gate_inp"}
EXPERTS = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
ARCHITECTURES = {"llama": ("llama", "smollm"), "qwen3_moe": ("qwen3moe", "qwen2")}  # and the pre-tokenizer


def main():
    folder = pathlib.Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    arch, pre = ARCHITECTURES[config["model_type"]]
    out = gguf.GGUFWriter(sys.argv[2], arch)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    out.add_block_count(config["num_hidden_layers"])
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(heads)
    out.add_head_count_kv(kv_heads)
    out.add_rope_freq_base(config["rope_theta"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if "head_dim" in config:
        out.add_key_length(config["head_dim"])
        out.add_value_length(config["head_dim"])
    if "num_experts" in config:
        out.add_expert_count(config["num_experts"])
        out.add_expert_used_count(config["num_experts_per_tok"])
        out.add_expert_feed_forward_length(config["moe_intermediate_size"])
    tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    tokens += [f"<pad{i}>" for i in range(len(tokens), config["vocab_size"])]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre(pre)
    out.add_token_list(tokens)
    out.add_token_types([1] * len(tokens))
    out.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    experts = {}
    for name, data in read_safetensors(folder / "model.safetensors"):
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            layer, part = stem.split(".", 3)[2:]
            if part.startswith("mlp.experts."):
                expert, which = part.split(".")[2:]
                experts.setdefault(f"blk.{layer}.{EXPERTS[which]}.weight", {})[int(expert)] = data
                continue
            target = f"blk.{layer}.{NAMES[part]}.weight"
            if part == "self_attn.q_proj" and arch == "llama":
                data = permute(data, heads)
            elif part == "self_attn.k_proj" and arch == "llama":
                data = permute(data, kv_heads)
        else:
            target = NAMES[stem] + ".weight"
        add(out, target, data)
    for target, by_id in experts.items():
        add(out, target, np.stack([by_id[e] for e in sorted(by_id)]))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
