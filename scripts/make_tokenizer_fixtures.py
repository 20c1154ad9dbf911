#!/usr/bin/env python3
"""Makes tests/data/tokenizers: tiny vocabularies of each kind, and what the official libraries make of texts with them.

Needs: pip install tokenizers==0.23.3 sentencepiece==0.2.3 gguf. Run: scripts/make_tokenizer_fixtures.py [DIRECTORY]

NAME.gguf   the vocabulary
NAME.txt    one case a line: text in hex, ids, text decoded from the ids in hex; separated by tabs
pretok.txt  one case a line: pre-tokenizer, text in hex, byte lengths of its words
"""
import json
import os
import sys
import tempfile

import gguf
import sentencepiece as spm
import sentencepiece.sentencepiece_model_pb2 as spm_pb
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

# Lewis Carroll, Alice's Adventures in Wonderland (1865), and lines written for this file.
CORPUS = """
Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or twice she had
peeped into the book her sister was reading, but it had no pictures or conversations in it, "and what is the use of a book,"
thought Alice, "without pictures or conversations?" So she was considering in her own mind (as well as she could, for the hot day
made her feel very sleepy and stupid), whether the pleasure of making a daisy-chain would be worth the trouble of getting up and
picking the daisies, when suddenly a White Rabbit with pink eyes ran close by her. There was nothing so very remarkable in that;
nor did Alice think it so very much out of the way to hear the Rabbit say to itself, "Oh dear! Oh dear! I shall be late!"
It's 12 o'clock; we'll meet at 3:45. They've 1,024 books. You're here, aren't you? I'd say so.
for (int i = 0; i < 10; i++) { printf("%d\\n", i); }
Die Straße führt über die Brücke. L'été est déjà fini. Привет, мир! Γειά σου κόσμε. 東京は日本の首都です。你好，世界。안녕하세요.
नमस्ते दुनिया। مرحبا بالعالم 🙂🙃
"""
TEXTS = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n \n  x", "Hello world", " Hello world", "Hello  world ", "  Hello", "ied 4 ½ months",
    "Führer", "the Rabbit's book", "IT'S WE'LL you'Re", "12345 1234567,89", "it\u2019s déjà-vu", "e\u0301tat de\u0301ja\u0300",
    "\u1e9b\u0323 \ufb01ne \u2460 \uff21", "東京は日本の首都", "你好，世界", "안녕하세요 여러분", "नमस्ते", "مرحبا", "🙂🙃 🦙.cpp", "a\u0000b",
    "x\u00a0y\u3000z", "don't 'quote' ''", "!!!??...", "(a+b)*c == d/e\n\n  return", "▁under ▁score", "<s>not special</s>", "<|end|>x<|end|>",
    "\u200b\u200d\ufeff", "ﾊﾝｶｸ", "AaBbCCccDd", "i\u0307 \u0130stanbul", "zzzzzzzzzzzzzzzzzzzz", "аbсd", "\U0001f9d9\u200d\u2642\ufe0f",
    "supercalifragilistic", "\ud7ff\ue000\uffff\U0010ffff", " a  b   c    d", "[MASK] [UNK]", "don\u02bct", "1\u0660\u0966\u2168",
    "the quick brown fox jumps over the lazy dog 0123456789 the quick", "ſ'ſ It'ſ", "\v\f\x1c x", "Ⅷ ⅷ ㎏", "\u0301start", "=====-----=====",
]
SPECIALS = ["<|begin|>", "<|end|>"]


def hexed(s):
    return (s if isinstance(s, bytes) else s.encode()).hex()


def write_cases(path, encode, decode):
    with open(path, "w") as f:
        for text in TEXTS:
            ids = encode(text)
            f.write("%s\t%s\t%s\n" % (hexed(text), " ".join(map(str, ids)), hexed(decode(ids))))


def writer(path, model, tokens, types):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    return w


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def byte_level(out):
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=460, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                                        show_progress=False, special_tokens=SPECIALS))
    t.add_tokens([AddedToken("<tool>", normalized=False)])
    model = json.loads(t.to_str())["model"]
    tokens = [t.id_to_token(i) for i in range(t.get_vocab_size())]
    types = [3 if x in SPECIALS else 4 if x == "<tool>" else 1 for x in tokens]
    w = writer(out + "/bpe.gguf", "gpt2", tokens, types)
    w.add_tokenizer_pre("gpt-2")
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    w.add_bos_token_id(0)
    w.add_eos_token_id(1)
    w.add_add_bos_token(True)
    finish(w)
    write_cases(out + "/bpe.txt", lambda s: plain(t, s), lambda ids: t.decode(ids))


def plain(t, s):
    """Encodes with control tokens taken as text."""
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["special"]]
    return tokenizers.Tokenizer.from_str(json.dumps(j)).encode(s, add_special_tokens=False).ids


def sentence_piece(out, name, kind, **options):
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/corpus", "w") as f:
            f.write(CORPUS)
        spm.SentencePieceTrainer.train(input=d + "/corpus", model_prefix=d + "/m", model_type=kind, minloglevel=2, num_threads=1,
                                       **options)
        data = open(d + "/m.model", "rb").read()
    m = spm_pb.ModelProto.FromString(data)
    sp = spm.SentencePieceProcessor(model_proto=data)
    charsmap = m.normalizer_spec.precompiled_charsmap
    w = writer(f"{out}/{name}.gguf", "llama" if kind == "bpe" else "t5", [p.piece for p in m.pieces], [p.type for p in m.pieces])
    w.add_token_scores([p.score for p in m.pieces])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_pad_token_id(2**32 - 1)
    w.add_add_space_prefix(m.normalizer_spec.add_dummy_prefix)
    w.add_remove_extra_whitespaces(m.normalizer_spec.remove_extra_whitespaces)
    if charsmap:
        w.add_precompiled_charsmap(charsmap)
    finish(w)
    # Bytes that are not UTF-8 give U+FFFD each in the official decoder and themselves here: the cases hold none.
    write_cases(f"{out}/{name}.txt", sp.encode, lambda ids: sp.decode([i for i in ids if m.pieces[i].type != 2]))
    return charsmap


def word_piece(out):
    t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator([CORPUS], trainers.WordPieceTrainer(vocab_size=520, special_tokens=names, show_progress=False))
    tokens = [t.id_to_token(i) for i in range(t.get_vocab_size())]
    w = writer(out + "/wordpiece.gguf", "bert", [x if x in names else x[2:] if x.startswith("##") else "\u2581" + x for x in tokens],
               [3 if x in names else 1 for x in tokens])
    for i, name in enumerate(["padding", "unknown", "cls", "seperator", "mask"]):
        w.add_uint32(f"tokenizer.ggml.{name}_token_id", i)
    finish(w)
    write_cases(out + "/wordpiece.txt", lambda s: plain(t, s), lambda ids: t.decode(ids))


SPACES = r"\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + SPACES
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|" + SPACES
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|" + SPACES)
NO_HAN = r"&&[^\p{Han}]]"
KIMI = (r"[\p{Han}]+|" + GPT4O.replace("\\p{M}]", "\\p{M}" + NO_HAN)).replace(r"[\r\n/]*", r"[\r\n]*")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|"
             + SPACES)
PATTERNS = {
    "gpt-2": [GPT2],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN2],
    "qwen35": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|" + SPACES],
    "smollm": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK3],
    "gpt-4o": [GPT4O],
    "tekken": [GPT4O.replace(CONTRACTIONS + "?", "").replace(r"\p{N}{1,3}", r"\p{N}")],
    "kimi-k2": [KIMI],
    "bloom": [r" ?[^(\s|.,!?…。，、।۔،)]+"],
    "viking": [r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|" + SPACES],
    "seed-coder": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|" + SPACES],
    "ufakzeka": [QWEN2.replace(CONTRACTIONS + "|", "")],
    "exaone-moe": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|" + SPACES],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "jais-2": [LLAMA3.replace(SPACES, "|".join(r"\s{%d}(?!\S)" % (1 << i) for i in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s{1}")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "laguna": [r"[^\n]+|[\n]+", QWEN2],
    "spark2_5": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                 DEEPSEEK3.replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]"), r"\p{N}"],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+", GPT4O.replace(r"\p{N}{1,3}", r"\p{N}")],
}
SPLIT_TEXTS = TEXTS + [
    " " * 37, "\n" * 5 + " " * 6 + "a", "1234567890abc 1234567 12 1", "१२३४५६७ ½¼123", "ABCdefGHI'll XYZ'S éÀÉ",
    "漢字かなカナHanLatin々〇", "  漢", "a b c  d", "क्षि क्", "x\u0301\u0302y \u0301 \u0301A", "\x01\x02a\x03", "//\n/\n//", "!\r\n\r\n?\n x",
    ".Hello #define $x_1 @me", "ǅungla ʰa ªbc", "…。，、", "‘q’ “r” —：；", "ㄅㄆㄇ ㅏㅑ",
]


def pretok(out):
    with open(out + "/pretok.txt", "w") as f:
        for name, patterns in PATTERNS.items():
            p = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(x), "isolated") for x in patterns])
            for text in SPLIT_TEXTS + ([" " * 700 + "x"] if name == "jais-2" else []):
                words = [w for w, _ in p.pre_tokenize_str(text)]
                assert "".join(words) == text
                f.write("%s\t%s\t%s\n" % (name, hexed(text), " ".join(str(len(w.encode())) for w in words if w)))


def fuzz_corpus(out, unigram):
    """Tiny vocabularies made by hand, for tests/fuzz/corpus/tokenizer."""
    os.makedirs(out, exist_ok=True)
    base = ["<unk>", "<s>", "</s>", "<t>", "<0x41>", "<0xF0>"]
    kinds = [2, 3, 3, 4, 6, 6]
    words = ["a", "b", "ab", "abab", "\u2581", "\u2581a", "\u2581\u2581", "c", "\u00e9", "1"]
    scores = [-float(i) for i in range(len(base) + len(words))]
    for name, model in [("spm", "llama"), ("unigram", "t5"), ("wordpiece", "bert")]:
        w = writer(f"{out}/{name}.gguf", model, base + words, kinds + [1] * len(words))
        w.add_token_scores(scores)
        for i, key in enumerate(["unknown", "bos", "eos"]):
            w.add_uint32(f"tokenizer.ggml.{key}_token_id", i)
        if model == "bert":
            w.add_uint32("tokenizer.ggml.seperator_token_id", 2)
            w.add_uint32("tokenizer.ggml.mask_token_id", 2**32 - 1)
        if model == "t5":
            w.add_add_space_prefix(True)
            w.add_remove_extra_whitespaces(True)
            w.add_precompiled_charsmap(unigram)
        finish(w)
    for pre in ["gpt-2", "llama-bpe", "deepseek-v3", "gpt-4o", "qwen2", "gemma4", "superbpe", "jais-2"]:
        raw = pre == "gemma4"
        letters = ["a", "b", "A", "B", "c", "f", "1", "2", "3", "4", "5", "\u0120", "\u010a", "\u00c3", "\u00a9"]
        letters += ["\u2581", "\n"] if raw else []
        joined = ["ab", "abab", "12", "\u0120a", "\u0120ab", "\u00c3\u00a9"]
        w = writer(f"{out}/bpe-{pre}.gguf", "gpt2", base[:4] + letters + joined, kinds[:4] + [1] * (len(letters) + len(joined)))
        w.add_tokenizer_pre(pre)
        w.add_token_merges(["a b", "ab ab", "1 2", "\u0120 a", "\u0120a b", "\u0120 ab", "\u00c3 \u00a9"])
        w.add_eos_token_id(2)
        finish(w)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)) + "/../tests/data/tokenizers"
    os.makedirs(out, exist_ok=True)
    byte_level(out)
    sentence_piece(out, "spm", "bpe", vocab_size=640, byte_fallback=True, normalization_rule_name="identity",
                   remove_extra_whitespaces=False, character_coverage=0.98, user_defined_symbols=["<tool>"])
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for a, b in [("FB01", "66 69"), ("3000", "20"), ("A0", "20"), ("9", "20"), ("A", "20"), ("FF21", "41"), ("65 301", "E9"),
                     ("200B", ""), ("2460", "31"), ("E9 301", "E9")]:
            rules.write(a + "\t" + b + "\n")
        rules.flush()
        charsmap = sentence_piece(out, "unigram", "unigram", vocab_size=300, normalization_rule_tsv=rules.name, character_coverage=0.98,
                                  hard_vocab_limit=False)
    word_piece(out)
    pretok(out)
    fuzz_corpus(out + "/../../fuzz/corpus/tokenizer", charsmap)


if __name__ == "__main__":
    main()
