"""make_packed_models.py OUT_FOLDER - one tiny qwen3 in every way of packing its matrices, and its logits.

Each OUT_FOLDER/NAME is a checkpoint whose linear layers are packed by the encoders of make_packed_cases.py; beside it
lies reference.bin: twelve i32 ids, and the f32 logits of every position by a numpy forward in binary64 over the decoded
weights.  Wrote tests/data/packed_model.  Needs PyPI numpy.
"""

import json
import pathlib
import sys

import numpy as np
from make_packed_cases import bf16, e4m3, pack_bits, random_e4m3, save, spread

DIM, HEADS, KV, HEAD, FFN, VOCAB, EPS, THETA = 128, 4, 2, 32, 128, 32, 1e-6, 10000.0
SHAPES = {"self_attn.q_proj": (HEADS * HEAD, DIM), "self_attn.k_proj": (KV * HEAD, DIM),
          "self_attn.v_proj": (KV * HEAD, DIM), "self_attn.o_proj": (DIM, HEADS * HEAD),
          "mlp.gate_proj": (FFN, DIM), "mlp.up_proj": (FFN, DIM), "mlp.down_proj": (DIM, FFN)}
LAYER = "model.layers.0."


def mlx(rng, rows, cols):
    q = rng.integers(0, 16, (rows, cols))
    s, s_bits = bf16(np.abs(rng.normal(size=(rows, cols // 64))) * 0.02)
    b, b_bits = bf16(spread(s, 64, 1)[:, ::64] * -7.5)
    return ({"weight": pack_bits(q, 4, 1), "scales": s_bits.view(np.int16), "biases": b_bits.view(np.int16)},
            spread(s, 64, 1) * q + spread(b, 64, 1), {"scales": "BF16", "biases": "BF16"})


def gptq(rng, rows, cols, ordered=False):
    q, z = rng.integers(0, 16, (cols, rows)), rng.integers(5, 11, (cols // 32, rows))
    s = (np.abs(rng.normal(size=(cols // 32, rows))) * 0.02).astype(np.float16)
    index = np.arange(cols) // 32
    index = rng.permutation(index) if ordered else index
    return ({"qweight": pack_bits(q, 4, 0).view(np.int32), "qzeros": pack_bits(z - 1, 4, 1).view(np.int32),
             "scales": s, "g_idx": index.astype(np.int32)}, (s.astype(np.float64)[index] * (q - z[index])).T, {})


def ordered(rng, rows, cols):
    return gptq(rng, rows, cols, True)


def awq(rng, rows, cols):
    q, z = rng.integers(0, 16, (cols, rows)), rng.integers(5, 11, (1, rows))
    s = (np.abs(rng.normal(size=(1, rows))) * 0.02).astype(np.float16)

    def pack(codes):
        runs = codes.reshape(codes.shape[0], -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]].astype(np.uint32)
        return (runs << (4 * np.arange(8, dtype=np.uint32))).sum(-1).astype(np.uint32).view(np.int32)

    return {"qweight": pack(q), "qzeros": pack(z), "scales": s}, (s.astype(np.float64) * (q - z)).T, {}


def compressed(rng, rows, cols):
    q = rng.integers(0, 16, (rows, cols))
    s, s_bits = bf16(np.abs(rng.normal(size=(rows, 1))) * 0.02)
    return ({"weight_packed": pack_bits(q, 4, 1).view(np.int32), "weight_scale": s_bits.view(np.int16),
             "weight_shape": np.array([rows, cols])}, s.astype(np.float64) * (q - 8), {"weight_scale": "BF16"})


def fp8(rng, rows, cols):
    codes = random_e4m3(rng, (rows, cols)) & 0xBF  # below 2
    s = (np.abs(rng.normal(size=(-(-rows // 128), -(-cols // 128)))) * 0.1).astype(np.float32)
    wide = np.repeat(np.repeat(s, 128, 0), 128, 1)[:rows, :cols]
    return {"weight": codes, "weight_scale_inv": s}, e4m3(codes) * wide, {"weight": "F8_E4M3"}


def nvfp4(rng, rows, cols):
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    q = rng.integers(0, 16, (rows, cols))
    s = random_e4m3(rng, (rows, cols // 16)) & 0x3F
    whole = np.array(0.05, np.float32)
    return ({"weight": (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8), "weight_scale": s, "weight_scale_2": whole},
            e2m1[q] * spread(e4m3(s) * whole, 16, 1), {"weight_scale": "F8_E4M3"})


FORMATS = {
    "mlx": (mlx, {"quantization": {"group_size": 64, "bits": 4}}),
    "gptq_order": (ordered, {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32,
                                                     "desc_act": True}}),
    "awq": (awq, {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}}),
    "compressed": (compressed, {"quantization_config": {"quant_method": "compressed-tensors",
                                                        "format": "pack-quantized"}}),
    "fp8": (fp8, {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}),
    "nvfp4": (nvfp4, {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}),
}


def norm(x, gain):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * gain


def rope(x):
    angle = np.arange(len(x))[:, None] * THETA ** (-np.arange(0, HEAD, 2) / HEAD)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :HEAD // 2], x[..., HEAD // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def forward(w, embed, head, ids):
    n, x = len(ids), embed[ids]
    h = norm(x, 1)
    q, k, v = ((h @ w["self_attn." + p].T).reshape(n, -1, HEAD) for p in ("q_proj", "k_proj", "v_proj"))
    q, k = rope(norm(q, 1)), rope(norm(k, 1))
    k, v = np.repeat(k, HEADS // KV, 1), np.repeat(v, HEADS // KV, 1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(HEAD)
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    x = x + np.einsum("hij,jhd->ihd", p, v).reshape(n, -1) @ w["self_attn.o_proj"].T
    h = norm(x, 1)
    gate = h @ w["mlp.gate_proj"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w["mlp.up_proj"].T)) @ w["mlp.down_proj"].T
    return norm(x, 1) @ head.T


def main():
    out = pathlib.Path(sys.argv[1])
    config = {"model_type": "qwen3", "vocab_size": VOCAB, "hidden_size": DIM, "intermediate_size": FFN,
              "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV, "head_dim": HEAD,
              "hidden_act": "silu", "rms_norm_eps": EPS, "max_position_embeddings": 256, "rope_theta": THETA,
              "tie_word_embeddings": False}
    vocab = {chr(ord("A") + i) if i < 26 else f"t{i}": i for i in range(VOCAB)}
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}
    ones = bf16(np.ones(DIM))[1].view(np.int16)
    for name, (make, packing) in FORMATS.items():
        rng = np.random.default_rng(11)
        embed, embed_bits = bf16(rng.normal(size=(VOCAB, DIM)))
        head, head_bits = bf16(rng.normal(size=(VOCAB, DIM)) * 0.1)
        tensors = {"model.embed_tokens.weight": embed_bits.view(np.int16), "lm_head.weight": head_bits.view(np.int16),
                   "model.norm.weight": ones, LAYER + "input_layernorm.weight": ones,
                   LAYER + "post_attention_layernorm.weight": ones, LAYER + "self_attn.q_norm.weight": ones[:HEAD],
                   LAYER + "self_attn.k_norm.weight": ones[:HEAD]}
        kinds = {key: "BF16" for key in tensors}
        weights = {}
        for part, shape in SHAPES.items():
            stored, weights[part], types = make(rng, *shape)
            tensors.update({f"{LAYER}{part}.{key}": value for key, value in stored.items()})
            kinds.update({f"{LAYER}{part}.{key}": value for key, value in types.items()})
        ids = rng.integers(0, VOCAB, 12)
        logits = forward({k: v.astype(np.float64) for k, v in weights.items()}, embed.astype(np.float64),
                         head.astype(np.float64), ids)
        save(out, name, {**config, **packing}, tensors, kinds)
        (out / name / "tokenizer.json").write_text(json.dumps(tokenizer))
        raw = ids.astype("<i4").tobytes() + logits.astype("<f4").tobytes()
        (out / name / "reference.bin").write_bytes(raw)


main()
