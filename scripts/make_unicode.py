#!/usr/bin/env python3
"""Writes lib/text/unicode_tables.h: the Unicode data that tokenizers need, at a pinned version.

Run: pip install unicodedata2==16.0.0 && scripts/make_unicode.py > lib/text/unicode_tables.h
The version is that of Oniguruma in the `tokenizers` package, so that character classes agree.
"""
import sys
import unicodedata

import unicodedata2 as ud

VERSION = "16.0.0"
BLOCK = 128
CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Cs", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
              "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"]
WHITESPACE = {9, 10, 11, 12, 13, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000} | set(range(0x2000, 0x200B))
# Script=Han, Scripts.txt of Unicode 16.0.
HAN = [(0x2E80, 0x2E99), (0x2E9B, 0x2EF3), (0x2F00, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029),
       (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFA6D), (0xFA70, 0xFAD9), (0x16FE2, 0x16FE3),
       (0x16FF0, 0x16FF1), (0x20000, 0x2A6DF), (0x2A700, 0x2B739), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1),
       (0x2CEB0, 0x2EBE0), (0x2EBF0, 0x2EE5D), (0x2F800, 0x2FA1D), (0x30000, 0x3134A), (0x31350, 0x323AF)]
F_SPACE, F_HAN, F_NFC = 32, 64, 128
HANGUL = (0xAC00, 0xD7A3)


def scalar(c):
    return not 0xD800 <= c <= 0xDFFF


def hangul(c):
    return HANGUL[0] <= c <= HANGUL[1]


def compositions():
    """(first, second) -> composite, Hangul syllables left out: they are computed."""
    out = {}
    for c in range(0x110000):
        if not scalar(c) or hangul(c):
            continue
        d = ud.decomposition(chr(c))
        if d and not d.startswith("<"):
            parts = [int(x, 16) for x in d.split()]
            if len(parts) == 2 and ud.normalize("NFC", chr(parts[0]) + chr(parts[1])) == chr(c):
                out[tuple(parts)] = c
    return out


def emit(name, ctype, values, per=20):
    print(f"static const {ctype} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per):
        print("    " + ",".join(str(v) for v in values[i:i + per]) + ",")
    print("};\n")


def properties(pairs):
    seconds = {b for _, b in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    han = {c for a, b in HAN for c in range(a, b + 1)}
    props = []
    for c in range(0x110000):
        p = CATEGORIES.index(ud.category(chr(c)))
        if c in WHITESPACE:
            p |= F_SPACE
        if c in han:
            p |= F_HAN
        if scalar(c) and (c in seconds or ud.combining(chr(c)) or ud.normalize("NFC", chr(c)) != chr(c)):
            p |= F_NFC
        props.append(p)
    blocks, index = {}, []
    for i in range(0, 0x110000, BLOCK):
        index.append(blocks.setdefault(tuple(props[i:i + BLOCK]), len(blocks)))
    emit("prop_index", "uint16_t" if len(blocks) > 255 else "uint8_t", index)
    emit("prop_data", "uint8_t", [v for b in blocks for v in b])


def lower_case():
    """Runs of simple lower-case mappings: first, count, stride, delta."""
    m = {c: ord(ud_lower(c)) for c in range(0x110000) if scalar(c) and len(ud_lower(c)) == 1 and ud_lower(c) != chr(c)}
    m[0x130] = 0x69  # simple mapping; the full one adds U+0307
    runs, keys, i = [], sorted(m), 0
    while i < len(keys):
        best = 1
        stride = 1
        for s in (1, 2):
            n = 1
            while i + n < len(keys) and keys[i + n] == keys[i] + n * s and m[keys[i + n]] - keys[i + n] == m[keys[i]] - keys[i]:
                n += 1
            if n > best:
                best, stride = n, s
        runs.append((keys[i], best, stride, m[keys[i]] - keys[i]))
        i += best
    print("static const struct lower_run lower_runs[%d] = {" % len(runs))
    for i in range(0, len(runs), 6):
        print("    " + " ".join("{%d,%d,%d,%d}," % r for r in runs[i:i + 6]))
    print("};\n")


def ud_lower(c):
    """Simple lower case: Python's own tables, and for letters newer than they are, the name."""
    s = chr(c).lower()
    if unicodedata.category(chr(c)) == "Cn" and ud.category(chr(c)) == "Lu":
        try:
            return ud.lookup(ud.name(chr(c)).replace("CAPITAL", "SMALL"))
        except (KeyError, ValueError):
            return s
    return s


def decompositions():
    cps, offs, data = [], [], []
    for c in range(0x110000):
        if not scalar(c) or hangul(c):
            continue
        d = ud.normalize("NFD", chr(c))
        if d != chr(c):
            cps.append(c)
            offs.append(len(data))
            data.extend(ord(x) for x in d)
    offs.append(len(data))
    emit("decomp_cp", "uint32_t", cps, 14)
    emit("decomp_off", "uint16_t", offs)
    emit("decomp_data", "uint32_t", data, 14)


def compatibility():
    """Full compatibility decompositions where they differ from the canonical ones."""
    cps, offs, data = [], [], []
    for c in range(0x110000):
        if scalar(c) and ud.normalize("NFKD", chr(c)) != ud.normalize("NFD", chr(c)):
            cps.append(c)
            offs.append(len(data))
            data.extend(ord(x) for x in ud.normalize("NFKD", chr(c)))
    offs.append(len(data))
    emit("compat_cp", "uint32_t", cps, 14)
    emit("compat_off", "uint16_t", offs)
    emit("compat_data", "uint32_t", data, 14)


def combining():
    runs, c = [], 0
    while c < 0x110000:
        v = ud.combining(chr(c)) if scalar(c) else 0
        n = 1
        while c + n < 0x110000 and n < 255 and (ud.combining(chr(c + n)) if scalar(c + n) else 0) == v:
            n += 1
        if v:
            runs.append((c, n, v))
        c += n
    print("static const struct ccc_run ccc_runs[%d] = {" % len(runs))
    for i in range(0, len(runs), 8):
        print("    " + " ".join("{%d,%d,%d}," % r for r in runs[i:i + 8]))
    print("};\n")


def main():
    if ud.unidata_version != VERSION:
        sys.exit("needs unicodedata2==" + VERSION)
    pairs = compositions()
    print("/* Unicode %s data, made by scripts/make_unicode.py. Do not edit. */" % VERSION)
    print("/* clang-format off */\n")
    properties(pairs)
    lower_case()
    decompositions()
    compatibility()
    combining()
    print("static const struct pair compose_pairs[%d] = {" % len(pairs))
    items = sorted((a, b, c) for (a, b), c in pairs.items())
    for i in range(0, len(items), 6):
        print("    " + " ".join("{%d,%d,%d}," % r for r in items[i:i + 6]))
    print("};")


main()
