"""make_tokenizer_cases.py - write tests/data/tokenizer/toy_*: small tokenizers, one per feature, and
what Hugging Face's tokenizers makes of a list of texts with each.

Needs: pip install tokenizers.

    make_tokenizer_cases.py tests/data/tokenizer

Vocabularies are trained without pre-tokenisation, so that merges reach over every boundary and a
cut in the wrong place shows in the ids.
"""
import json
import os
import random
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, trainers

CORPUS = [
    "the quick brown fox jumps over the lazy dog. the dog sleeps, the fox runs!",
    "I'LL pay 12345678.90 and 1234 more; it's 100% of 2,500.",
    "def f(x):\n    return x + 1\n\n\nclass A:\n\tpass\n", "a-b_c d--e  f   g", "ÀÉ é e\u0301 naïve café",
    "你好，世界。こんにちは", "the the the in in on on ing ing er er", "Hello World HELLO world hello",
    "\u2581the \u2581a  \u2581\u2581b", "x=\n\n", "tab\t\tend  ", "foo\r\n\r\n bar\r", "<t> a <t>b x<t>y <u> <s> </s>",
]
TEXTS = CORPUS + [
    "", " ", "   ", "a   <t>  \n b", "x<t>y", "<t><t> <t>", "  <u>  ", " lead", "trail ", "<s>a</s> b", "[INST] x",
    "a</s> b", "<s> b", "</s>", "<pad>text</s>", "q🦙w", "<0xEA>", "\u00e9\u1112\u1161\u11ab\u212b\u0344\ufb01",
    "<T> É Ｔ", "½ ²³ ٠١٢1² Ⅷ", "  two  spaces\n\n\n  x ", "don't DON'T 'S 'ſ it’s", "a\u3000b\u00a0c\u2028d\u0085e",
    "HTTPServer camelCase", "100<u>200", "éé<é>é", "!!?? ..., --", "the\nquick\n\nbrown", "<a><ab><abc><abcd>",
]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BYTE_DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(content, special=True, normalized=False, **flags):
    return {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special} | flags


def trained(byte_level, size, fallback=False):
    """A BPE model of `size` tokens over the corpus, as JSON."""
    tokenizer = Tokenizer(models.BPE())
    if byte_level:
        from tokenizers import pre_tokenizers
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        corpus = CORPUS
    else:
        alphabet = []
        corpus = CORPUS + [text.replace(" ", "\u2581") for text in CORPUS]
    special = ["<unk>", "<s>", "</s>"] if not byte_level else []
    if fallback:
        special += ["<0x%02X>" % byte for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=special,
                                  show_progress=False, min_frequency=1)
    tokenizer.train_from_iterator(corpus * 3, trainer)
    return json.loads(tokenizer.to_str())["model"]


BYTES = trained(True, 700)
CHARS = trained(False, 500)
FALLBACK = trained(False, 700, fallback=True)
for token in "你好世界こんちは":  # not in this vocabulary: they fall back, or are unknown
    for model in (CHARS, FALLBACK):
        model["vocab"] = {k: v for k, v in model["vocab"].items() if token not in k}
        model["merges"] = [m for m in model["merges"] if token not in "".join(m)]


def build(name, model, pre=None, normalizer=None, post=None, decoder=None, tokens=(), **options):
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens),
                "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post,
                "decoder": decoder, "model": model | options}
    # Ids of added tokens: as the reference assigns them on reading.
    size = len(model["vocab"])
    for token in document["added_tokens"]:
        if token["content"] in model["vocab"]:
            token["id"] = model["vocab"][token["content"]]
        else:
            token["id"] = size
            size += 1
    return name, document


def byte(name, pre, **more):
    steps = pre["pretokenizers"] if pre["type"] == "Sequence" else [pre]
    last = [] if steps[-1]["type"] == "ByteLevel" else [BYTE_LEVEL]
    return build("toy_" + name, BYTES, sequence(*steps, *last), decoder=BYTE_DECODER, **more)


GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 1], "tokens": ["<s>", "<s>"]},
                               "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
SPM_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
SPM_NORMALIZER = {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
SPM_TOKENS = [added("<unk>"), added("<s>"), added("</s>")]
BPE_OPTIONS = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}


def metaspace(scheme, cuts):
    step = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cuts}
    return build(f"toy_metaspace_{scheme}_{'cut' if cuts else 'whole'}", FALLBACK, step, decoder=step,
                 tokens=SPM_TOKENS, **BPE_OPTIONS)


FLAGS = [(left, right, word, normal) for left in (0, 1) for right in (0, 1) for word in (0, 1)
         for normal in (0, 1)]
CASES = [
    byte("gpt2", GPT2), byte("digits", sequence({"type": "Digits", "individual_digits": False})),
    byte("digits_one", sequence({"type": "Digits", "individual_digits": True}, GPT2)),
    byte("punctuation", {"type": "Punctuation", "behavior": "Contiguous"}),
    byte("whitespace", {"type": "Whitespace"}), byte("whitespace_split", {"type": "WhitespaceSplit"}),
    byte("delimiter", {"type": "CharDelimiterSplit", "delimiter": "e"}),
    byte("prefix_space", GPT2 | {"add_prefix_space": True}, tokens=[added("<t>"), added("<u>", special=False)]),
    byte("multiline", split(r"^ *|[a-z]{2,3}+|(?:o+|\h)$|\w+?\d*+")),
    byte("falcon", sequence({"type": "Punctuation", "behavior": "Contiguous"}, GPT2,
                            {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))),
    byte("ignore_merges", GPT2, ignore_merges=True),
    byte("lowercase", GPT2, normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
         tokens=[added("<T>", normalized=True), added("<É>", normalized=True, special=False)]),
    byte("strip", GPT2, normalizer={"type": "Sequence", "normalizers": [
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": " "}, {"type": "NFD"}]}),
    byte("longest", GPT2, tokens=[added("<a>"), added("<ab>"), added("<a"), added("<abc>", special=False),
                                  added("<abcd>", special=False), added("b>")]),
    build("toy_legacy_merges", BYTES | {"merges": ["#version: 0.2"] + [" ".join(m) for m in BYTES["merges"]]},
          sequence(GPT2), decoder=BYTE_DECODER),
    build("toy_no_decoder", BYTES, GPT2),
    build("toy_byte_normalizer", BYTES, None, normalizer={"type": "ByteLevel"}, decoder=BYTE_DECODER),
    build("toy_spm", FALLBACK, None, SPM_NORMALIZER, TEMPLATE, SPM_DECODER, SPM_TOKENS, **BPE_OPTIONS),
    build("toy_unknown", CHARS, {"type": "Metaspace", "replacement": "\u2581"}, None,
          {"type": "Sequence", "processors": [BYTE_DECODER, {"type": "BertProcessing", "sep": ["</s>", 2],
                                                                     "cls": ["<s>", 1]}, TEMPLATE]},
          {"type": "Metaspace", "replacement": "\u2581"}, SPM_TOKENS, unk_token="<unk>", fuse_unk=False),
    build("toy_unknown_fused", CHARS, None, post={"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1],
                                                   "trim_offsets": True, "add_prefix_space": False},
          decoder={"type": "Fuse"}, unk_token="<unk>", fuse_unk=True),
    build("toy_unknown_dropped", CHARS, None,
          decoder={"type": "Sequence", "decoders": [{"type": "Strip", "content": "e", "start": 1, "stop": 0}]}),
]
CASES += [byte(f"split_{behavior.lower()}{'_inverted' if invert else ''}", split(r"[aeiou ]", behavior, invert))
          for behavior in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext")
          for invert in (False, True)]
CASES += [byte("split_string", split("e", "MergedWithNext", kind="String"))]
CASES += [metaspace(scheme, cuts) for scheme in ("always", "first", "never") for cuts in (True, False)]
CASES += [byte("added_%d%d%d%d" % flags, GPT2, normalizer={"type": "NFC"},
               tokens=[added("<t>", lstrip=bool(flags[0]), rstrip=bool(flags[1]), single_word=bool(flags[2]),
                             normalized=bool(flags[3])),
                       added("<u>", special=False, lstrip=bool(flags[1]), rstrip=bool(flags[0]))])
          for flags in FLAGS]




# ---- Unigram and WordPiece

def unigram(fallback, size=300):
    tokenizer = Tokenizer(models.Unigram())
    corpus = [text.replace(" ", "\u2581") for text in CORPUS[:9]] * 3
    special = ["<unk>", "<s>", "</s>"] + (["<0x%02X>" % b for b in range(256)] if fallback else [])
    tokenizer.train_from_iterator(corpus, trainers.UnigramTrainer(
        vocab_size=size + len(special), special_tokens=special, unk_token="<unk>", show_progress=False))
    return json.loads(tokenizer.to_str())["model"] | {"byte_fallback": fallback}


def charsmap():
    """SentencePiece's own compilation of a few rules, as base64."""
    import base64
    import tempfile
    import sentencepiece
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/rules.tsv", "w") as out:
            for source, target in [("\uff21", "A"), ("\u00e9", "e"), ("e\u0301", "\u00e9"), ("\ufb01", "fi"),
                                   ("\u00bd", "1/2"), ("\t", " "), ("\u3000", " "), ("\u2028", ""), ("\u1112\u1161\u11ab", "\ud55c"),
                                   ("\u0301", ""), ("\uff34", "T"), ("\u1112", "h")]:
                out.write(" ".join("%X" % ord(c) for c in source) + "\t" + " ".join("%X" % ord(c) for c in target) + "\n")
        with open(folder + "/corpus.txt", "w") as out:
            out.write("\n".join(CORPUS))
        sentencepiece.SentencePieceTrainer.train(
            input=folder + "/corpus.txt", model_prefix=folder + "/m", vocab_size=120, hard_vocab_limit=False,
            normalization_rule_tsv=folder + "/rules.tsv", minloglevel=2)
        from sentencepiece import sentencepiece_model_pb2
        proto = sentencepiece_model_pb2.ModelProto.FromString(open(folder + "/m.model", "rb").read())
        return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def wordpiece(size=220):
    from tokenizers import normalizers, pre_tokenizers
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(CORPUS * 3, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


def seq(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


META = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
SCORED, SCORED_BYTES, WORDS = unigram(False), unigram(True), wordpiece()
BERT_POST = {"type": "TemplateProcessing", "pair": TEMPLATE["pair"],
             "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
             "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                                "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}}


def bert(name, cleanup, decoder_prefix="##", model=WORDS, **flags):
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                  "lowercase": True} | flags
    return build("toy_" + name, model, {"type": "BertPreTokenizer"}, normalizer, BERT_POST,
                 {"type": "WordPiece", "prefix": decoder_prefix, "cleanup": cleanup},
                 [added("[UNK]"), added("[CLS]"), added("[SEP]")])


CASES += [
    build("toy_unigram", SCORED, META, None, TEMPLATE, META, SPM_TOKENS),
    build("toy_unigram_bytes", SCORED_BYTES, META, seq({"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}),
          TEMPLATE, SPM_DECODER, SPM_TOKENS),
    build("toy_unigram_whole", SCORED, None, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, None, META,
          ),
    build("toy_unigram_precompiled", SCORED, {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, META]},
          seq({"type": "Precompiled", "precompiled_charsmap": charsmap()}, {"type": "Strip", "strip_left": True, "strip_right": True}),
          TEMPLATE, META, SPM_TOKENS),
    build("toy_unigram_nmt", SCORED, META, seq({"type": "Nmt"}, {"type": "NFD"}, {"type": "StripAccents"}), None, META),
    bert("bert", True), bert("bert_cased", False, lowercase=False, strip_accents=False, handle_chinese_chars=False),
    bert("bert_accents", False, lowercase=False, strip_accents=True, clean_text=False),
    bert("bert_short", True, model=WORDS | {"max_input_chars_per_word": 6}),
]


def main():
    rng = random.Random(5)
    for name, document in CASES:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        tokenizer = Tokenizer.from_str(text)
        cases = []
        for one in TEXTS:
            tokenizer.encode_special_tokens = False
            ids = tokenizer.encode(one, add_special_tokens=False).ids
            case = {"text": one, "ids": ids, "ids_with_special": tokenizer.encode(one).ids,
                    "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
            tokenizer.encode_special_tokens = True
            case["ids_user"] = tokenizer.encode(one, add_special_tokens=False).ids
            cases.append(case)
        size = tokenizer.get_vocab_size()
        for _ in range(10):
            ids = [rng.randrange(size) for _ in range(12)]
            if name == "toy_lowercase":  # here the reference fails to skip normalised special tokens
                ids = [i for i in ids if i < len(document["model"]["vocab"])]
            cases.append({"decode": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                          "decoded_plain": tokenizer.decode(ids, skip_special_tokens=True)})
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
            out.write(text + "\n")
        with open(os.path.join(folder, "tokenizer_cases.json"), "w", encoding="utf-8") as out:
            out.write("[" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases) + "]\n")


main()
