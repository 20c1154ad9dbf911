#!/usr/bin/env python3
"""tests/data/types.safetensors: a tensor of every dtype, written by the safetensors package, and beside each NAME what torch makes of
its values in float32, as NAME.f32. The 8-bit floats are there with all 256 patterns.

Needs: safetensors torch.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parent.parent / "tests/data/types.safetensors"


def main():
    gen = torch.Generator().manual_seed(5)
    bits = torch.arange(256, dtype=torch.uint8)
    wide = torch.randint(-2**63, 2**63 - 1, (37,), generator=gen, dtype=torch.int64)
    real = torch.randn(7, 5, generator=gen, dtype=torch.float64) * 1e3
    tensors = {
        "F64": real, "F32": real.float(), "F16": real.half(), "BF16": real.bfloat16(),
        "F8_E4M3": bits.view(torch.float8_e4m3fn), "F8_E5M2": bits.view(torch.float8_e5m2),
        "I64": wide, "I32": wide.to(torch.int32), "I16": wide.to(torch.int16), "I8": wide.to(torch.int8),
        "U64": wide.view(torch.uint64), "U32": wide.to(torch.int32).view(torch.uint32), "U16": wide.to(torch.int16).view(torch.uint16),
        "U8": wide.to(torch.uint8), "BOOL": wide % 3 == 0,
        "one": torch.tensor(2.5), "empty": torch.empty(3, 0, 2), "five": torch.arange(120, dtype=torch.int16).reshape(2, 3, 1, 4, 5),
    }
    expected = {f"{name}.f32": t.to(torch.float32).reshape(-1) for name, t in tensors.items()}
    save_file({name: t.clone() for name, t in {**tensors, **expected}.items()}, OUT, metadata={"format": "pt", "quoted \"key\"": "line\nü"})


if __name__ == "__main__":
    main()
