"""peer.py SELFSAME MODEL.gguf - prefill and decode of Selfsame and of llama.cpp on the same weights, in
interleaved rounds of one run; prints medians as a table.

llama.cpp comes prebuilt in the Python package xllamacpp (pip install xllamacpp); both use two threads.
"""

import json
import statistics
import subprocess
import sys

import xllamacpp as peer

THREADS, PROMPT, GENERATE, ROUNDS = 2, 512, 64, 5


def open_peer(model):
    params = peer.CommonParams()
    params.model.path = model
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_ctx, params.n_parallel, params.warmup = 2048, 1, True
    params.n_gpu_layers = 0
    return peer.Server(params)


def peer_round(server, start):
    prompt = [(start + i) * 7919 % 40000 + 100 for i in range(PROMPT)]
    reply = server.handle_completions({"prompt": prompt, "n_predict": GENERATE, "ignore_eos": True,
                                       "temperature": 0, "cache_prompt": False})
    reply = json.loads(reply) if isinstance(reply, (str, bytes)) else reply
    return reply["timings"]["prompt_per_second"], reply["timings"]["predicted_per_second"]


def own_round(selfsame, model):
    out = subprocess.run([selfsame, "bench", model, "--json", "--repeat", "1", "--threads", str(THREADS),
                          "--n-prompt", str(PROMPT), "--n-generate", str(GENERATE), "--device", "cpu"],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def main():
    selfsame, model = sys.argv[1:3]
    server = open_peer(model)
    peer_round(server, 1)
    own, other = [], []
    for i in range(ROUNDS):
        own.append(own_round(selfsame, model))
        other.append(peer_round(server, 1000 * i))
    median = lambda key: statistics.median(r[key] for r in own)
    rows = [("prefill 512, tokens/s", median("prefill_tokens_per_s"), statistics.median(r[0] for r in other)),
            ("decode, tokens/s", median("decode_tokens_per_s"), statistics.median(r[1] for r in other))]
    print(f"| {own[0]['execution']} | selfsame | llama.cpp | ratio |\n|-|-|-|-|")
    for name, a, b in rows:
        print(f"| {name} | {a:.1f} | {b:.1f} | {a / b:.2f} |")
    print(f"| decode, fraction of the read ceiling ({median('read_gb_per_s'):.1f} GB/s) | "
          f"{median('decode_of_read'):.2f} | | |")
    for width in ("2", "4", "8", "16"):
        ratio = statistics.median(r["rows_ms"][width] / r["rows_ms"]["1"] for r in own)
        print(f"| a pass of {width} rows, times one row | {ratio:.2f} | | |")


if __name__ == "__main__":
    main()
