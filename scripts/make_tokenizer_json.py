#!/usr/bin/env python3
"""Trains small tokenizer.json files, one of each family, with the `tokenizers` library.

Needs: pip install tokenizers==0.23.3 sentencepiece==0.2.3 gguf
usage: make_tokenizer_json.py                      writes tests/data/tokenizers/json: NAME.json, and NAME.txt, which holds one case a line:
                                                   text in hex, ids, text decoded from the ids in hex ("-": not compared); by tabs.
                                                   Ids are with special tokens parsed and added; decoding leaves special tokens out. Writes also the seeds of
                                                   the fuzz target.
       make_tokenizer_json.py DIRECTORY SIZE       larger vocabularies, for check_tokenizers.py
       make_tokenizer_json.py gguf VOCAB.gguf OUT  a GGUF vocabulary of GPT-2's or BERT's kind as tokenizer.json
"""
import base64
import json
import os
import sys
import tempfile

import sentencepiece as spm
import sentencepiece.sentencepiece_model_pb2 as spm_pb
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_tokenizer_fixtures import CORPUS, GPT2, LLAMA3, QWEN2, TEXTS, hexed

HERE = os.path.dirname(os.path.abspath(__file__))
MORE_TEXTS = TEXTS + [
    "<s>a<tool>b</s>", " <mask> x", "a <mask>  b", "<|end|>", "x<|im_end|>y", "wordword word", "the word", "``quotes''", "a-b_c", "1,234.5",
    "Tokenization — naïve café", "HTTP/1.1 200 OK", "\u00adsoft", "\ufb01\u0301", "a\r\nb", "e\u0301\u0301", "\u0915\u094d\u0937", "½ ⅓", "①②",
    "x <tool>  y", "Ünïcödé", "don't don 't", "[CLS] a [SEP]", "Hello, y'all! How are you 😁 ?", "<0x41><0xE2>", "\u0958", "\u1e9b\u0323",
    "aaaa  \t bbbb", "\u2581\u2581x", "日本語テキスト", "A" * 120,
]


def ws_regex(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def template(before, after, ids):
    single = [*before, "$A", *after]
    return processors.TemplateProcessing(single=" ".join(single), special_tokens=[(x, ids[x]) for x in {*before, *after}])


class Maker:
    def __init__(self, size, corpus, charsmap):
        self.size, self.corpus, self.charsmap = size, corpus, charsmap

    def bpe(self, t, special, size=None, alphabet=True, **options):
        letters = sorted(pre_tokenizers.ByteLevel.alphabet()) if alphabet else options.pop("letters", [])
        t.train_from_iterator(self.corpus, trainers.BpeTrainer(vocab_size=size or self.size, initial_alphabet=letters, special_tokens=special,
                                                               show_progress=False, **options))
        return t

    def gpt2(self):
        t = tokenizers.Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.decoder = decoders.ByteLevel()
        t.post_processor = processors.ByteLevel(trim_offsets=False)
        return self.bpe(t, ["<|endoftext|>"])

    def roberta(self):
        t = tokenizers.Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        t.decoder = decoders.ByteLevel()
        self.bpe(t, ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
        t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        t.add_tokens([AddedToken("<tool>", rstrip=True, normalized=False), AddedToken("word", single_word=True)])
        return t

    def llama3(self):
        t = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
        t.pre_tokenizer = pre_tokenizers.Sequence([ws_regex(LLAMA3), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.ByteLevel()
        self.bpe(t, ["<|begin|>", "<|end|>"])
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template(["<|begin|>"], [], {"<|begin|>": 0})])
        return t

    def qwen2(self):
        t = tokenizers.Tokenizer(models.BPE())
        t.normalizer = normalizers.NFC()
        t.pre_tokenizer = pre_tokenizers.Sequence([ws_regex(QWEN2), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.ByteLevel()
        self.bpe(t, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
        t.add_tokens([AddedToken("<tool>", normalized=False)])
        return t

    def llama2(self, metaspace=False):
        byte_tokens = ["<0x%02X>" % b for b in range(256)]
        t = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        if metaspace:
            t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        else:
            t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        special = [AddedToken(x, normalized=False, special=True) for x in ["<unk>", "<s>", "</s>"]]
        # Trained on words: a whole line would be one. Bytes come in front of the rest, as in the real ones.
        words = tokenizers.Tokenizer(models.BPE())
        words.pre_tokenizer = pre_tokenizers.Metaspace()
        words.train_from_iterator(self.corpus, trainers.BpeTrainer(vocab_size=self.size, show_progress=False, max_token_length=16))
        m = json.loads(words.to_str())["model"]
        order = ["<unk>", "<s>", "</s>"] + byte_tokens + [x for x, _ in sorted(m["vocab"].items(), key=lambda kv: kv[1])]
        j = json.loads(t.to_str())
        j["model"]["vocab"] = {x: i for i, x in enumerate(dict.fromkeys(order))}
        j["model"]["merges"] = m["merges"]
        t = tokenizers.Tokenizer.from_str(json.dumps(j))
        t.add_special_tokens(special)
        t.post_processor = template(["<s>"], [], {"<s>": 1})
        return t

    def mistral(self):
        return self.llama2(metaspace=True)

    def gemma3(self):
        j = json.loads(self.llama2().to_str())
        j["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
        j["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
        j["decoder"]["decoders"].pop()
        return tokenizers.Tokenizer.from_str(json.dumps(j))

    def clip(self):
        t = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>", continuing_subword_prefix="", unk_token="<|endoftext|>"))
        t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
        t.pre_tokenizer = pre_tokenizers.Sequence([
            ws_regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.BPEDecoder(suffix="</w>")
        self.bpe(t, ["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>")
        t.post_processor = template(["<|startoftext|>"], ["<|endoftext|>"], {"<|startoftext|>": 0, "<|endoftext|>": 1})
        return t

    def prefixed(self):
        """Characters with a prefix inside words, unknown ones not fused."""
        t = tokenizers.Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="@@"))
        t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(False), pre_tokenizers.Punctuation("contiguous")])
        t.decoder = decoders.Sequence([decoders.Replace("@@", ""), decoders.Strip("a", 0, 1)])
        return self.bpe(t, ["[UNK]"], alphabet=False, continuing_subword_prefix="@@", limit_alphabet=60)

    def bert(self):
        t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
        t.normalizer = normalizers.BertNormalizer()
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.decoder = decoders.WordPiece()
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        t.train_from_iterator(self.corpus, trainers.WordPieceTrainer(vocab_size=self.size, special_tokens=names, show_progress=False))
        t.post_processor = template(["[CLS]"], ["[SEP]"], {"[CLS]": 2, "[SEP]": 3})
        return t

    def bert_cased(self):
        t = self.bert()
        t.normalizer = normalizers.BertNormalizer(lowercase=False, clean_text=False, handle_chinese_chars=False)
        t.decoder = decoders.WordPiece(cleanup=False)
        t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        return t

    def unigram(self, t, special, unk, **options):
        t.train_from_iterator(self.corpus, trainers.UnigramTrainer(vocab_size=self.size, special_tokens=special, unk_token=unk,
                                                                   show_progress=False, **options))
        return t

    def t5(self):
        t = tokenizers.Tokenizer(models.Unigram())
        t.normalizer = normalizers.Precompiled(self.charsmap)
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
        t.decoder = decoders.Metaspace(prepend_scheme="always")
        self.unigram(t, ["<pad>", "</s>", "<unk>"], "<unk>")
        t.post_processor = template([], ["</s>"], {"</s>": 1})
        return t

    def albert(self):
        t = tokenizers.Tokenizer(models.Unigram())
        t.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
                                             normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(self.charsmap),
                                             normalizers.Replace(Regex(" {2,}"), " ")])
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        t.decoder = decoders.Metaspace(prepend_scheme="always")
        self.unigram(t, ["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, special=True)], "<unk>")
        t.post_processor = template(["[CLS]"], ["[SEP]"], {"[CLS]": 2, "[SEP]": 3})
        return t

    def unigram_bytes(self):
        t = tokenizers.Tokenizer(models.Unigram())
        t.normalizer = normalizers.Nmt()
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
        self.unigram(t, ["<unk>"], "<unk>")
        j = json.loads(t.to_str())
        j["model"]["vocab"] += [["<0x%02X>" % b, -30.0] for b in range(256)]
        j["model"]["byte_fallback"] = True
        return tokenizers.Tokenizer.from_str(json.dumps(j))

    def wordlevel(self):
        t = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
        t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
        t.train_from_iterator(self.corpus, trainers.WordLevelTrainer(vocab_size=self.size, special_tokens=["[UNK]", "[PAD]"], show_progress=False))
        t.add_tokens([AddedToken("ÉTAT", normalized=True), AddedToken("Hello", normalized=False, single_word=True)])
        return t

    def chars(self):
        """Steps that the others do not have."""
        t = tokenizers.Tokenizer(models.WordLevel(unk_token="?"))
        t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(left=True, right=False)])
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.Split("a", "merged_with_next"), pre_tokenizers.Split("o", "merged_with_previous"),
            ws_regex(r"[^aeiou]+", "contiguous"), pre_tokenizers.FixedLength(3)])
        t.train_from_iterator(self.corpus, trainers.WordLevelTrainer(vocab_size=self.size, special_tokens=["?"], show_progress=False))
        t.decoder = decoders.Fuse()
        return t


FAMILIES = ["gpt2", "roberta", "llama3", "qwen2", "llama2", "mistral", "gemma3", "clip", "prefixed", "bert", "bert_cased", "t5", "albert",
            "unigram_bytes", "wordlevel", "chars"]


def charsmap(rules):
    """A character map of SentencePiece: of a few rules, or its own nmt_nfkc."""
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/corpus", "w") as f:
            f.write(CORPUS)
        with open(d + "/rules.tsv", "w") as f:
            f.writelines(a + "\t" + b + "\n" for a, b in rules)
        options = {"normalization_rule_tsv": d + "/rules.tsv"} if rules else {"normalization_rule_name": "nmt_nfkc"}
        spm.SentencePieceTrainer.train(input=d + "/corpus", model_prefix=d + "/m", model_type="unigram", vocab_size=200, minloglevel=2, num_threads=1,
                                       hard_vocab_limit=False, **options)
        return spm_pb.ModelProto.FromString(open(d + "/m.model", "rb").read()).normalizer_spec.precompiled_charsmap


RULES = [("FB01", "66 69"), ("3000", "20"), ("A0", "20"), ("9", "20"), ("A", "20"), ("D", "20"), ("FF21", "41"), ("65 301", "E9"), ("200B", ""),
         ("2460", "31"), ("E9 301", "E9"), ("61 308", "E4"), ("D A", "20"), ("41 30A", "C5")]


def write_cases(path, t):
    with open(path, "w") as f:
        for text in MORE_TEXTS:
            ids = t.encode(text, add_special_tokens=True).ids
            decoded = t.decode(ids)
            compare = "\ufffd" not in decoded or "\ufffd" in text
            f.write("%s\t%s\t%s\n" % (hexed(text), " ".join(map(str, ids)), hexed(decoded) if compare else "-"))


def fixtures():
    out = HERE + "/../tests/data/tokenizers/json"
    os.makedirs(out, exist_ok=True)
    maker = Maker(330, [CORPUS], charsmap(RULES))
    for name in FAMILIES:
        t = getattr(maker, name)()
        text = json.dumps(json.loads(t.to_str()), ensure_ascii=name == "gpt2", separators=(",", ":"))
        with open(f"{out}/{name}.json", "w") as f:
            f.write(text + "\n")
        write_cases(f"{out}/{name}.txt", tokenizers.Tokenizer.from_str(text))


def seeds():
    """Tiny files made by hand, for tests/fuzz/corpus/tokenizer: every kind of part is in one of them."""
    out = HERE + "/../tests/fuzz/corpus/tokenizer"
    os.makedirs(out, exist_ok=True)
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    regex = {"type": "Split", "pattern": {"Regex": r"[^\W\d]+|(?i:'s)|\p{N}{1,2}+|a*?b(?!c)"}, "behavior": "MergedWithNext", "invert": False}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    added = [{"id": 1, "content": "<s>", "special": True}, {"id": 9, "content": "<t>", "lstrip": True, "rstrip": True, "single_word": True, "normalized": True}]
    letters = {"<unk>": 0, "<s>": 1, "a": 2, "b": 3, "ab": 4, "abab": 5, "\u2581": 6, "\u2581a": 7, "<0xC3>": 8}
    charmap = base64.b64encode(charsmap([("E9", "65"), ("D A", "20")])).decode()
    bpe = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": letters, "merges": ["a b", ["ab", "ab"], "\u2581 a"]}
    files = {
        "bpe": {"added_tokens": added, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [regex, {"type": "ByteLevel", "use_regex": True}]},
                "decoder": {"type": "ByteLevel"}, "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}, "model": bpe},
        "spaced": {"added_tokens": added, "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, {"type": "NFKC"}]},
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                         {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}, "model": bpe},
        "word": {"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece"},
                 "post_processor": {"type": "BertProcessing", "sep": ["a", 2], "cls": ["<s>", 1]},
                 "model": {"type": "WordPiece", "unk_token": "<unk>", "vocab": {**letters, "##b": 9, "##ab": 10}}},
        "unigram": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "Precompiled", "precompiled_charsmap": charmap}]},
                    "pre_tokenizer": space, "decoder": space,
                    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [[x, -float(i)] for x, i in letters.items()]}},
        "level": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip"}]},
                  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                      {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"},
                      {"type": "CharDelimiterSplit", "delimiter": "x"}, {"type": "FixedLength", "length": 2}, {"type": "Whitespace"}]},
                  "decoder": {"type": "BPEDecoder", "suffix": "b"}, "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": letters}},
        "affixes": {"decoder": None, "model": {**bpe, "byte_fallback": False, "continuing_subword_prefix": "#", "end_of_word_suffix": "$", "ignore_merges": True,
                                               "vocab": {"<unk>": 0, "a": 1, "#b": 2, "ab": 3, "#b$": 4, "ab$": 5}, "merges": ["a #b", "a #b$"]}},
    }
    for name, parts in files.items():
        with open(f"{out}/{name}.json", "w") as f:
            json.dump(parts, f, ensure_ascii=name == "spaced")


def train(out, size):
    corpus = [CORPUS, "\n".join(MORE_TEXTS)] + [open(HERE + "/../" + p).read() for p in ["tests/data/english.txt", "docs/state.md", "README.md"]]
    maker = Maker(size, [line for text in corpus for line in text.split("\n")], charsmap([]))
    os.makedirs(out, exist_ok=True)
    for name in FAMILIES:
        getattr(maker, name)().save(f"{out}/{name}.json")


def from_gguf(path, out):
    import gguf
    fields = gguf.GGUFReader(path).fields
    items = {k: fields["tokenizer.ggml." + k].contents() for k in ("tokens", "token_type", "model")}
    if items["model"] == "bert":
        def spelling(x):
            return x[1:] if x[0] == "\u2581" else x if x[0] == "[" and x[-1] == "]" and x[1:-1] else "##" + x
        t = tokenizers.Tokenizer(models.WordPiece({spelling(x): i for i, x in enumerate(items["tokens"])}, unk_token="[UNK]",
                                                  max_input_chars_per_word=100))
        t.normalizer, t.pre_tokenizer, t.decoder = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        t.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    else:
        merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
        t = tokenizers.Tokenizer(models.BPE({x: i for i, x in enumerate(items["tokens"])}, merges))
        t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        t.add_special_tokens(["<|endoftext|>"])
    t.save(out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["gguf"]:
        from_gguf(*sys.argv[2:4])
    elif len(sys.argv) > 2:
        train(sys.argv[1], int(sys.argv[2]))
    else:
        fixtures()
        seeds()
