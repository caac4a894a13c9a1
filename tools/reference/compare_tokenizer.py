"""compare_tokenizer.py - encode many texts with bench-tokenizer and with Hugging Face's tokenizers.

Needs: pip install tokenizers numpy; make build/release/bench-tokenizer.

    compare_tokenizer.py BENCH MODEL TOKENIZER_JSON [TEXT_FILE...] [--random N] [--seed N]

MODEL is what our program opens (a tokenizer.json or a GGUF file), TOKENIZER_JSON what the reference
opens.  Compares ids with and without special tokens, with special tokens of the text left as plain
characters, and the decoded text, over the lines and blocks of the text files, a list of awkward
texts and N random strings.  Prints the first differences; exit status 1 when there was one.
"""
import argparse
import random
import struct
import subprocess
import sys

import numpy
from tokenizers import Tokenizer

AWKWARD = [
    "", " ", "  ", "\n", "\r\n", "\t", "a", " a", "a ", "  a  b  ", "I'LL pay 12345678.90",
    "\u0660\u0661\u06621\u00b2", "\u00bd cup, \u2167 o'clock", "  two  spaces\n\n\n  x ",
    "tab\t\tend  ", "foo\r\n\r\n bar\r", "x=\n\n", "e\u0301 \u1112\u1161\u11ab \u212b \u0344 \ufb01",
    "\U0001f999\U0001f468\u200d\U0001f469\u200d\U0001f467 q\U0001f999w", "<0xEA><0xB9> <0x0A>",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f", "\u0645\u0631\u062d\u0628\u0627",
    "\u0939\u093f\u0928\u094d\u0926\u0940", "\u2581\u2581x \u2581", "don't DON'T it\u2019s '\u017f 'S",
    "a\u0000b\u0001", "\u180e\u0085\u00a0\u2028\u3000x", "\ufeffbom", "CamelCaseWordHTTPServer's",
    "http://a.b/c?d=e&f[]=g#h", "0123456789" * 8, "=" * 100, " " * 200, "\n" * 50, "ab" * 300,
    "\u00e9" * 300, "<|im_start|>user\nhi<|im_end|>", "<s>[INST] x [/INST] y </s> z",
    "<bos><start_of_turn>user", "<|begin_of_text|>x<|eot_id|>", "\U00031350\U0002ebf0\u1e9e\u0130",
]


def random_texts(count, seed, specials):
    rng = random.Random(seed)
    alphabets = [
        "abcdefghij ABC", " \n\t\r", "0123456789.,", "'\"!?-_/\\()[]{}<>|", "éüßñçÅ", "你好世界中文字",
        "\u0301\u0300\u0327\u0344", "абвгд", "😀🦙👩\u200d", "▁ ", "한국어\u1112\u1161\u11ab", "ｆｕｌｌ①½²",
        "\u2028\u00a0\u3000\u200b", "'s't're've'm'll'd'S'LL",
    ]
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 8)):
            kind = rng.random()
            if kind < 0.05 and specials:
                parts.append(rng.choice(specials))
            elif kind < 0.15:
                point = rng.randrange(0x110000)
                parts.append(chr(point) if not 0xD800 <= point < 0xE000 else "?")
            else:
                alphabet = rng.choice(alphabets)
                parts.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 12))))
        yield "".join(parts)


def file_texts(path):
    text = open(path, encoding="utf-8", errors="replace", newline="").read()
    yield from text.splitlines(keepends=True)[:2000]
    yield from (text[i:i + 3000] for i in range(0, min(len(text), 300000), 3000))


def run(bench, model, mode, blob):
    return subprocess.run([bench, model, mode], input=blob, stdout=subprocess.PIPE, check=True).stdout


def read_blocks(blob, unit):
    blocks, at = [], 0
    while at < len(blob):
        (count,) = struct.unpack_from("<I", blob, at)
        blocks.append(blob[at + 4:at + 4 + count * unit])
        at += 4 + count * unit
    return blocks


def report(what, text, ours, theirs, n_bad):
    if n_bad < 5:
        print(f"{what}: {text[:200]!r}\n  ours   {ours}\n  theirs {theirs}")
    return n_bad + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("model")
    parser.add_argument("reference")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--random", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(args.reference)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    specials = [t.content for t in tokenizer.get_added_tokens_decoder().values()][:40]
    texts = AWKWARD + [t for path in args.files for t in file_texts(path)]
    texts += list(random_texts(args.random, args.seed, specials))
    raw = [t.encode() for t in texts]
    blob = b"".join(struct.pack("<I", len(r)) + r for r in raw)
    n_bad = 0
    for mode, special, user in (("encode", False, False), ("encode-special", True, False),
                                ("encode-user", False, True)):
        tokenizer.encode_special_tokens = user
        ours = [numpy.frombuffer(b, "<i4").tolist() for b in read_blocks(run(args.bench, args.model, mode, blob), 4)]
        theirs = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=special)]
        for text, a, b in zip(texts, ours, theirs, strict=True):
            if a != b:
                n_bad = report(mode, text, a, b, n_bad)
        if mode == "encode":
            decoded_ids = theirs
    rng = random.Random(args.seed)
    size = tokenizer.get_vocab_size()
    decoded_ids = decoded_ids + [[rng.randrange(size) for _ in range(20)] for _ in range(2000)]
    blob = b"".join(struct.pack("<I", len(i)) + numpy.array(i, "<i4").tobytes() for i in decoded_ids)
    ours = [b.decode() for b in read_blocks(run(args.bench, args.model, "decode", blob), 1)]
    theirs = tokenizer.decode_batch(decoded_ids, skip_special_tokens=False)
    for ids, a, b in zip(decoded_ids, ours, theirs, strict=True):
        if a != b:
            n_bad = report("decode", str(ids), a, b, n_bad)
    print(f"{args.reference}: {len(texts)} texts, {sum(map(len, raw))} bytes, {n_bad} differences")
    sys.exit(n_bad > 0)


main()
