#!/usr/bin/env python3
"""Writes lib/base/codebooks.c: the code books of the GGUF weight formats, from the values that the `gguf` package (0.19.0) publishes."""
import pathlib

import numpy as np
from gguf import quants


def grid(cls):
    """One integer an entry: its values in bytes, the first in the lowest."""
    cls.init_grid()
    values = np.asarray(cls.grid, dtype=np.float32).reshape(cls.grid_shape).astype(np.int64) & 0xFF
    return [sum(int(v) << (8 * i) for i, v in enumerate(row)) for row in values]


def table(ctype, name, numbers, fmt, per_line):
    lines = [f"const {ctype} {name}[{len(numbers)}] = {{"]
    for i in range(0, len(numbers), per_line):
        lines.append("    " + ", ".join(fmt(n) for n in numbers[i:i + per_line]) + ",")
    return lines + ["};", ""]


def main():
    out = ["/* Made by scripts/make_codebooks.py. */", '#include "base/codebooks.h"', ""]
    out += table("int8_t", "codebook_iq4nl", quants.IQ4_NL.kvalues, str, 16)
    out += table("int8_t", "codebook_fp4", quants.MXFP4.kvalues, str, 16)
    out += table("uint8_t", "codebook_signs", list(quants.IQ2_XXS.ksigns), str, 16)
    for cls, name in ((quants.IQ2_XXS, "iq2xxs"), (quants.IQ2_XS, "iq2xs"), (quants.IQ2_S, "iq2s"),
                      (quants.IQ3_XXS, "iq3xxs"), (quants.IQ3_S, "iq3s"), (quants.IQ1_S, "iq1")):
        bits = 8 * cls.grid_shape[1]
        numbers = grid(cls)
        out += table(f"uint{bits}_t", f"codebook_{name}", numbers, lambda n, b=bits: f"0x{n:0{b // 4}x}", 6 if bits == 64 else 8)
    path = pathlib.Path(__file__).parent.parent / "lib/base/codebooks.c"
    path.write_text("\n".join(out[:-1]) + "\n")


if __name__ == "__main__":
    main()
