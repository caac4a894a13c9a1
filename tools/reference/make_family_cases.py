"""make_family_cases.py OUT [NAME...] - tiny random checkpoints with the references that tests/family_test.c reads,
computed by Hugging Face transformers (fp32, eager, CPU).

Made tests/data/family/{qwen3_moe,qwen3_next,mistral,phi3} (transformers 5.17); the tokenizers there are those of
tests/data/tokenizer.  Needs PyPI torch, transformers and safetensors.  Per sequence: input_ids, the 16 largest
logits of each position, logsumexp, four whole rows, and 32 greedily continued tokens through the model's cache; of
the first sequence, the residual stream after each layer.  Random streams may differ between versions of torch:
a new run gives other weights, and its own references.
"""

import copy
import json
import math
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

COMMON = dict(hidden_act="silu", attention_bias=False, tie_word_embeddings=False, bos_token_id=1, eos_token_id=0,
              torch_dtype="bfloat16", rope_scaling=None)
CONFIGS = {
    "qwen3_moe": dict(COMMON, architectures=["Qwen3MoeForCausalLM"], vocab_size=472, hidden_size=64,
                      intermediate_size=96, moe_intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
                      num_key_value_heads=2, head_dim=32, rms_norm_eps=1e-6, max_position_embeddings=4096,
                      rope_theta=1e6, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, num_experts=10,
                      num_experts_per_tok=3),
    "qwen3_next": dict(COMMON, architectures=["Qwen3NextForCausalLM"], vocab_size=472, hidden_size=64,
                       intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                       head_dim=32, rms_norm_eps=1e-6, max_position_embeddings=4096, rope_theta=1e7,
                       partial_rotary_factor=0.25, full_attention_interval=2, linear_conv_kernel_dim=4,
                       linear_key_head_dim=16, linear_value_head_dim=24, linear_num_key_heads=2,
                       linear_num_value_heads=4, decoder_sparse_step=1, mlp_only_layers=[], moe_intermediate_size=24,
                       shared_expert_intermediate_size=40, num_experts=10, num_experts_per_tok=3,
                       norm_topk_prob=True),
    "mistral": dict(COMMON, architectures=["MistralForCausalLM"], vocab_size=480, hidden_size=64,
                    intermediate_size=144, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                    head_dim=24, rms_norm_eps=1e-5, max_position_embeddings=2048, rope_theta=1e4, sliding_window=24),
    "phi3": dict(COMMON, architectures=["Phi3ForCausalLM"], vocab_size=480, hidden_size=96, intermediate_size=144,
                 num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, rms_norm_eps=1e-5,
                 max_position_embeddings=4096, original_max_position_embeddings=4096, rope_theta=1e4,
                 partial_rotary_factor=0.75, sliding_window=24, pad_token_id=0),
}
LENGTHS, GREEDY, TOP = (7, 65, 200), 32, 16


def fill(model, g, offset):
    """Random values of bf16: nothing is 0 or 1, norms least of all."""
    for name, p in sorted(model.named_parameters()):
        if name.endswith("A_log"):
            value = torch.log(torch.rand(p.shape, generator=g) * 6 + 0.3)
        elif p.dim() == 1:  # some norms keep their distance from 1
            mean = 0.0 if offset and "linear_attn.norm" not in name else 1.0
            value = torch.randn(p.shape, generator=g) * 0.2 + mean
        elif "embed" in name:
            value = torch.randn(p.shape, generator=g)
        else:
            gain = 2.5 if name.startswith("lm_head") else 1.1
            value = torch.randn(p.shape, generator=g) * gain / math.sqrt(p.shape[-1])
        p.data.copy_(value.to(torch.bfloat16).float())


def continue_greedily(model, ids):
    cache, step, out = None, ids[None], []
    for _ in range(GREEDY):
        y = model(step, past_key_values=cache, use_cache=True)
        cache, step = y.past_key_values, y.logits[:, -1].argmax(-1)[None]
        out.append(int(step))
    return torch.tensor(out, dtype=torch.int32)


def reference(model, k, ids):
    """The residual stream before the final norm is seen where it enters that norm."""
    last = []
    hook = model.model.norm.register_forward_pre_hook(lambda module, args: last.append(args[0][0]))
    y = model(ids[None], output_hidden_states=True)
    hook.remove()
    logits, n = y.logits[0], len(ids)
    top = logits.topk(TOP, -1)
    full = torch.tensor(sorted({0, n // 3, n // 2, n - 1}), dtype=torch.int32)
    out = {"input_ids": ids.to(torch.int32), "top_ids": top.indices.to(torch.int32), "top_logits": top.values,
           "logsumexp": logits.logsumexp(-1), "full_positions": full, "full_logits": logits[full.long()],
           "greedy_ids": continue_greedily(model, ids)}
    if k == 0:
        hidden = y.hidden_states
        out["hidden.layer_in_0"], out["hidden.final"] = hidden[0][0], model.model.norm(last[0])
        for i, state in enumerate([h[0] for h in hidden[1:-1]] + [last[0]]):
            out[f"hidden.layer_out_{i}"] = state
    return {f"seq{k}.{name}": value.contiguous() for name, value in out.items()}


def make(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(CONFIGS[name], model_type=name)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(
        {"do_sample": False, "bos_token_id": 1, "eos_token_id": 0, "transformers_version": transformers.__version__},
        indent=1))
    built = transformers.AutoConfig.from_pretrained(folder)
    built._attn_implementation = "eager"
    model = getattr(transformers, config["architectures"][0])(built).float().eval()
    g = torch.Generator().manual_seed(921)
    fill(model, g, name == "qwen3_next")
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)  # its rope would not come back from bf16
    (folder / "config.json").write_text(json.dumps(config, indent=1))  # as releases spell it
    tensors = {}
    for k, n in enumerate(LENGTHS):
        tensors |= reference(model, k, torch.randint(8, config["vocab_size"] - 8, (n,), generator=g))
    save_file(tensors, folder / "reference.safetensors")
    print(f"{name}: {sum(t.numel() for t in model.parameters())} parameters")


if __name__ == "__main__":
    with torch.no_grad():
        for name in sys.argv[2:] or CONFIGS:
            make(name, pathlib.Path(sys.argv[1]) / name)
