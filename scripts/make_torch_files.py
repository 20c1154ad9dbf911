#!/usr/bin/env python3
"""Make tests/data/torch: files of torch.save for the reader of PyTorch files (torch 2.15). A tensor NAME beside NAME.f32 must decode to it.

Usage: make_torch_files.py
Needs: torch safetensors.
"""
import collections
import io
import pickle
import shutil
import struct
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save

ROOT = Path(__file__).resolve().parent.parent / "tests/data"
OUT = ROOT / "torch"
TYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8", "uint8", "uint16",
         "uint32", "uint64", "bool"]


def with_twins(tensors):
    out = collections.OrderedDict()
    for name, t in tensors.items():
        out[name] = t
        out[f"{name}.f32"] = t.to(torch.float32).clone().contiguous()
    return out


def write(name, value, **kwargs):
    torch.save(value, OUT / name, **kwargs)


def rezip(source, name, change=lambda n, data: data, method=zipfile.ZIP_STORED):
    """The archive with its entries changed."""
    with zipfile.ZipFile(OUT / source) as z, zipfile.ZipFile(OUT / name, "w", method) as to:
        for i in z.infolist():
            to.writestr(zipfile.ZipInfo(i.filename), change(i.filename, z.read(i)), method)


def main():
    torch.manual_seed(0)
    OUT.mkdir(parents=True, exist_ok=True)
    x = torch.randn(3, 5) * 9
    write("types.pt", with_twins({t: (x.abs() if t[0] in "ub" else x).to(getattr(torch, t)) for t in TYPES}))

    base = torch.arange(24, dtype=torch.float32)
    views = collections.OrderedDict(
        whole=base, shaped=base.view(2, 3, 4), turned=base.view(4, 6).t(), every=base[1::3], part=base[5:9], rows=base.view(6, 4)[::2],
        permuted=base.view(2, 3, 4).permute(2, 0, 1), column=base.view(6, 4)[:, 1], one=base[7], empty=torch.empty(0, 5), tied=base.view(2, 3, 4),
        five=torch.arange(32, dtype=torch.float32).view(2, 2, 2, 2, 2), half=base.half().view(4, 6).t(), parameter=torch.nn.Parameter(base[:3].clone()))
    write("views.pt", with_twins(views))

    state = collections.OrderedDict(weight=torch.ones(2, 2), bias=torch.zeros(2))
    state._metadata = {"": {"version": 1}}
    nested = {"model": state, "layers": [torch.full((2,), 1.0), {"w": torch.full((2,), 2.0)}], "pair": (torch.full((1,), 3.0), None), 7: torch.full((1,), 4.0),
              "step": 3, "rate": 1e-3, "big": 2**40, "negative": -5, "text": "caf\u00e9", "size": torch.Size([2, 3]), "flags": [True, False, None]}
    write("nested.pt", nested)
    write("nested-p4.pt", nested, pickle_protocol=4)
    write("alone.pt", torch.arange(6, dtype=torch.float32).view(2, 3))

    write("legacy.pt", {"w": torch.ones(2)}, _use_new_zipfile_serialization=False)
    write("optimizer.pt", {"w": torch.ones(2), "args": __import__("argparse").Namespace(lr=1)})
    rezip("alone.pt", "big-endian.pt", lambda n, d: b"big" if n.endswith("/byteorder") else d)
    rezip("alone.pt", "compressed.pt", method=zipfile.ZIP_DEFLATED)
    rezip("views.pt", "unaligned.pt", lambda n, d: d + b"!" if n.endswith("serialization_id") else d)  # zipfile aligns nothing

    inner = save({"a": torch.arange(6, dtype=torch.float32).view(2, 3), "b": torch.arange(3, dtype=torch.int64)}, metadata={"format": "pt"})
    (OUT / "safetensors.pt").write_bytes(inner)
    for odd in (0, 1):  # where its data lies
        with zipfile.ZipFile(OUT / f"safetensors-{odd}.zip", "w") as z:
            name = "model.safetensors"
            pad = -(30 + len(name)) % 8 + odd
            info = zipfile.ZipInfo(name)
            info.extra = struct.pack("<HH", 0xD935, pad + 4) + bytes(pad + 4) if pad else b""
            z.writestr(info, inner)

    bin_folder = ROOT / "adapters/lora-bin"  # as PEFT saves with safe_serialization=False
    bin_folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "adapters/lora-layers/adapter_config.json", bin_folder)
    torch.save(load_file(ROOT / "adapters/lora-layers/adapter_model.safetensors"), bin_folder / "adapter_model.bin")
    for p in sorted(OUT.iterdir()):
        print(p.name, p.stat().st_size)


if __name__ == "__main__":
    main()
