"""make_spm_cases.py - write tests/data/spm: small SentencePiece models, and the ids and texts that
SentencePiece itself gives.

Needs: pip install sentencepiece protobuf.  Run from the repository's root.
"""
import json
import pathlib
import random
import tempfile

import sentencepiece

FOLDER = pathlib.Path("tests/data/spm")
TEXTS = [
    "the quick brown fox jumps over the lazy dog. the dog sleeps, the fox runs!", "", " ", "  ", " lead", "trail ", "a  b   c",
    "def f(x):\n    return x + 1\n", "I'LL pay 12345678.90", "ÀÉ é e\u0301 naïve café", "你好，世界。こんにちは", "q🦙w 👩\u200d👧",
    "\u2581the \u2581a  \u2581\u2581b", "tab\t\tend", "foo\r\n\r\n bar\r", "<0xEA>", "the" * 50, "\u0645\u0631\u062d\u0628\u0627 हिन्दी",
    "in the town on the ing er", "Hello World HELLO", "x=\n\n", "100% of 2,500", "user_defined <u> token", "a\u00a0b\u3000c\u2028d", "\u0000nul",
]
CORPUS = TEXTS[:1] * 20 + TEXTS[4:11] * 5 + ["hello world the town in the morning on the river er ing"] * 20


def main():
    rng = random.Random(3)
    alphabet = "abcdeht  ▁\n\té你🦙<>0"
    texts = TEXTS + ["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 30))) for _ in range(200)]
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        open(scratch + "/corpus.txt", "w").write("\n".join(CORPUS))
        for name, options in {"prefix": {}, "plain": {"add_dummy_prefix": False}}.items():
            sentencepiece.SentencePieceTrainer.train(
                input=scratch + "/corpus.txt", model_prefix=f"{scratch}/{name}", model_type="bpe", vocab_size=450,
                byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                hard_vocab_limit=False, minloglevel=2, character_coverage=1.0, **options)
            model = pathlib.Path(f"{scratch}/{name}.model").read_bytes()
            (FOLDER / f"{name}.model").write_bytes(model)
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            cases = [{"text": t, "ids": processor.encode(t), "decoded": processor.decode(processor.encode(t))} for t in texts]
            with open(FOLDER / f"{name}.json", "w", encoding="utf-8") as out:
                out.write("[" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases) + "]\n")
        # what is refused
        sentencepiece.SentencePieceTrainer.train(input=scratch + "/corpus.txt", model_prefix=scratch + "/u", vocab_size=80, normalization_rule_name="identity",
                                                 hard_vocab_limit=False, minloglevel=2)
        (FOLDER / "unigram.model").write_bytes(pathlib.Path(scratch + "/u.model").read_bytes())


main()
