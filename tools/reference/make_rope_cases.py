"""make_rope_cases.py - rotary frequencies as transformers computes them, for tests/rope_test.c.

Needs the Python packages transformers and torch.  Writes tests/data/rope/cases.jsonl: one line a
configuration, its inverse frequencies and its attention factor.
"""

import json

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES = [
    ("linear", {"factor": 4.0}, 64, 10000.0, 8192),
    ("linear", {"factor": 8.0}, 128, 1000000.0, 131072),
    ("llama3", {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}, 128, 500000.0, 131072),
    ("llama3", {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}, 64, 500000.0, 131072),
    ("yarn", {"factor": 4.0, "original_max_position_embeddings": 32768}, 128, 1000000.0, 131072),
    ("yarn", {"factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0,
              "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.707}, 64, 10000.0, 163840),
    ("yarn", {"factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}, 64,
     150000.0, 131072),
    ("yarn", {"factor": 16.0, "original_max_position_embeddings": 4096,
              "attention_factor": 1.25}, 96, 10000.0, 65536),
]


def main():
    with open("tests/data/rope/cases.jsonl", "w", encoding="utf-8") as out:
        for kind, scaling, dims, theta, context in CASES:
            parameters = dict(scaling, rope_type=kind, rope_theta=theta)
            config = LlamaConfig(hidden_size=dims * 2, num_attention_heads=2, head_dim=dims,
                                 max_position_embeddings=context, rope_parameters=parameters)
            freqs, factor = ROPE_INIT_FUNCTIONS[kind](config, device="cpu")
            line = {"kind": kind, "dims": dims, "theta": theta, "context": context,
                    "scaling": scaling, "freqs": [float(f) for f in freqs], "factor": float(factor)}
            out.write(json.dumps(line) + "\n")


main()
