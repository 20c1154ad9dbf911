#!/usr/bin/env python3
"""Writes lib/text/unicode_hf_tables.h: where the classes of characters in the `tokenizers` library differ from those of unicode_tables.h.

Run: pip install unicodedata2==16.0.0 tokenizers==0.23.3 regex==2026.11.19 && scripts/make_unicode_hf.py > lib/text/unicode_hf_tables.h
Its parts use tables of different Unicode versions: normalisation 9, punctuation and control characters about 8, letters' case 17. The library
is asked about every code point.
"""
import sys

import regex
import unicodedata2 as ud
from tokenizers import normalizers, pre_tokenizers

if ud.unidata_version != "16.0.0":
    sys.exit("needs unicodedata2==16.0.0")
CPS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF]
NFD, NFKD = normalizers.NFD(), normalizers.NFKD()
CLEAN = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
ACCENTS = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
MARKS, LOWER = normalizers.StripAccents(), normalizers.Lowercase()
PUNCT, DIGITS = pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Digits(True)


def cat(c):
    return ud.category(chr(c))


def inert(c):
    """Has a combining class or a decomposition that the library does not know of."""
    s = chr(c)
    known = True
    if ud.combining(s):
        assert ud.combining(s) < 240 or c == 0x345
        known = c == 0x345 or NFD.normalize_str("a\u0345" + s) == "a" + NFD.normalize_str(s) + "\u0345"
    if known and ud.normalize("NFKD", s) != s:
        known = NFKD.normalize_str(s) != s
    return not known


def differs(ours, theirs):
    return [c for c in CPS if ours(c) != theirs(c)]


def isolates(pre, c):
    return len(pre.pre_tokenize_str("a" + chr(c))) == 2


def decomposes(c):
    return NFD.normalize_str(chr(c)) != chr(c)


def emit(name, cps):
    runs = []
    for c in cps:
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    print("static const struct uc_range %s[%d] = {" % (name, len(runs)))
    for i in range(0, len(runs), 7):
        print("    " + " ".join("{0x%X,0x%X}," % tuple(r) for r in runs[i:i + 7]))
    print("};\n")


def main():
    print("/* Made by scripts/make_unicode_hf.py. Do not edit. */")
    print("/* clang-format off */\n")
    emit("inert", [c for c in CPS if inert(c)])
    emit("punct_differs", differs(lambda c: cat(c)[0] == "P", lambda c: isolates(PUNCT, c)))
    emit("number_differs", differs(lambda c: cat(c)[0] == "N", lambda c: isolates(DIGITS, c)))
    emit("control_differs", differs(lambda c: cat(c) in ("Cc", "Cf", "Co") or c == 0xFFFD, lambda c: CLEAN.normalize_str(chr(c)) == ""))
    emit("mark_differs", differs(lambda c: cat(c)[0] == "M", lambda c: MARKS.normalize_str(chr(c)) == ""))
    # Behind NFD there are no characters that decompose.
    emit("nonspacing_differs", [c for c in CPS if not decomposes(c) and (cat(c) == "Mn") != (ACCENTS.normalize_str(chr(c)) == "")])
    # Grapheme clusters: what stays with the character in front, with the one behind, what stands alone, emoji.
    for name, classes in [("joins_front", r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]"), ("joins_back", r"\p{GCB=Prepend}"),
                          ("stands_alone", r"[\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]"), ("pictograph", r"\p{Extended_Pictographic}")]:
        emit(name, [c for c in CPS if regex.match(classes, chr(c))])
    lower = [(c, ord(LOWER.normalize_str(chr(c)))) for c in CPS if len(LOWER.normalize_str(chr(c))) == 1]
    lower = [(a, b) for a, b in lower if b != ord(chr(a).lower()[0]) and cat(a) == "Cn"]
    print("static const struct uc_range late_lower[%d] = { /* letter, its lower case */" % len(lower))
    for i in range(0, len(lower), 7):
        print("    " + " ".join("{0x%X,0x%X}," % p for p in lower[i:i + 7]))
    print("};")


main()
