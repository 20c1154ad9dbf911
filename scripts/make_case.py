#!/usr/bin/env python3
"""Writes lib/text/jinja_case.h: upper-case mappings (simple ones as ranges, those of several characters as a list) from
Python's own Unicode data, because str.upper() is what templates expect."""
import sys
import unicodedata

OUT = sys.argv[1] if len(sys.argv) > 1 else "lib/text/jinja_case.h"

simple, special = [], []
for cp in range(0x80, 0x110000):
    if 0xD800 <= cp < 0xE000:
        continue
    up = chr(cp).upper()
    if up == chr(cp):
        continue
    if len(up) == 1:
        simple.append((cp, ord(up)))
    else:
        special.append((cp, [ord(c) for c in up]))

ranges = []  # first, last, step, delta
for cp, up in simple:
    delta = up - cp
    if ranges:
        first, last, step, d = ranges[-1]
        gap = cp - last
        if d == delta and gap in (1, 2) and (step == 0 or step == gap):
            ranges[-1] = (first, cp, gap, d)
            continue
    ranges.append((cp, cp, 0, delta))

with open(OUT, "w") as f:
    f.write(f"/* Made by scripts/make_case.py from Unicode {unicodedata.unidata_version}. Upper-case mappings beyond ASCII. */\n")
    f.write("#ifndef TEXT_JINJA_CASE_H\n#define TEXT_JINJA_CASE_H\n\n#include <stdint.h>\n\n")
    f.write("/* Every step-th of first..last maps to itself plus delta. Sorted. */\n")
    f.write("static const struct { uint32_t first, last; int32_t step, delta; } case_upper[] = {\n")
    for i in range(0, len(ranges), 4):
        f.write("    " + " ".join(f"{{0x{a:X}, 0x{b:X}, {max(s, 1)}, {d}}}," for a, b, s, d in ranges[i:i + 4]) + "\n")
    f.write("};\n\n/* Those that become two or three characters. Sorted. */\n")
    f.write("static const struct { uint32_t cp, to[3]; } case_special[] = {\n")
    for i in range(0, len(special), 4):
        f.write("    " + " ".join("{0x%X, {%s}}," % (c, ", ".join("0x%X" % u for u in up)) for c, up in special[i:i + 4]) + "\n")
    f.write("};\n\n#endif\n")
