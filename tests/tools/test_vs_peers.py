#!/usr/bin/env python3
"""bench/report.py and bench/peers.py: medians, ratios, tables, command lines. No peer and no model is needed."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

sys.path.insert(0, os.path.join(tap.source_dir(), "bench"))
import peers  # noqa: E402
import report  # noqa: E402


def rounds():
    """Three rounds of one model: libinfer 100, 120, 90; a peer at 50, 40, 45; another that fails in round 2; one that never runs."""
    out = []
    for i, (mine, one, two) in enumerate([(100.0, 50.0, 30.0), (120.0, 40.0, None), (90.0, 45.0, 80.0)], 1):
        common = dict(model="Q4_0", round=i)
        out.append(dict(common, engine="libinfer", prompt_tps=mine, start_ms=10.0 * i, peak_rss_mb=100.0))
        out.append(dict(common, engine="ik", prompt_tps=one, start_ms=20.0 * i, peak_rss_mb=200.0))
        out.append(dict(common, engine="llama", **(dict(error="killed by signal 11") if two is None else dict(prompt_tps=two, start_ms=1e3))))
        out.append(dict(common, engine="llama-repack", error="killed by signal 11"))
    return out


def same(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def test_medians():
    same(report.medians(rounds(), "Q4_0", "prompt_tps"), {"libinfer": 100.0, "ik": 45.0, "llama": 55.0})


def test_fastest_peer_looks_at_the_direction():
    same(report.fastest_peer(rounds(), "Q4_0", "prompt_tps"), "llama")
    same(report.fastest_peer(rounds(), "Q4_0", "start_ms"), "ik")
    same(report.fastest_peer([r for r in rounds() if r["engine"] == "libinfer"], "Q4_0", "start_ms"), None)


def test_ratios_pair_rounds():
    same(report.ratio(rounds(), "Q4_0", "prompt_tps", "ik"), (2.0, 2.0, 3.0, 3))
    same(report.ratio(rounds(), "Q4_0", "prompt_tps", "llama"), ((100 / 30 + 90 / 80) / 2, 90 / 80, 100 / 30, 2))
    same(report.ratio(rounds(), "Q4_0", "prompt_tps", "llama-repack"), None)


def test_failures_are_in_the_table():
    text = report.markdown({"rounds": rounds(), "setup": {"notes": {"threads": 2}}}, ["prompt_tps", "start_ms", "gen_tps"])
    row = next(line for line in text.splitlines() if line.startswith("| Q4_0"))
    same(row, "| Q4_0 | 100.0 | 45.0 | 55.0 (1 failed) | failed | llama | **2.23** (1.12–3.33, 2 rounds) |")
    for wanted in ("- Q4_0, llama-repack: killed by signal 11", "- threads: 2"):
        if wanted not in text:
            raise AssertionError(f"{wanted!r} is not in:\n{text}")
    if "generation" in text:
        raise AssertionError("a table for a figure that nobody has")


def test_tables_are_rectangular():
    text = report.markdown({"rounds": rounds(), "setup": {}}, ["prompt_tps"])
    same({line.count("|") for line in text.splitlines() if line.startswith("|")}, {8})


def test_relative_has_holes():
    models, engines, bars = report.relative(rounds(), "prompt_tps")
    same((models, engines), (["Q4_0"], ["libinfer", "ik", "llama", "llama-repack"]))
    same(bars["llama"], [1.0])
    same(bars["llama-repack"], [None])


def test_batch_columns():
    same(report.column("batch_16_tps")[2], True)


def test_commands():
    got = peers.command("ik-rtr", "/v/python", "driver.py", "a b.gguf", "lib.so", ["-t", "2"])
    same(got, "/v/python driver.py ik 'a b.gguf' --repack -t 2")
    same(peers.command("libinfer-fast", "py", "d", "m", "x.so", []), "py d infer m --lib x.so --numerics fast")
    for name in peers.CONFIGURATIONS:
        if not re.fullmatch(r"[a-z-]+", name):
            raise AssertionError(name)


if __name__ == "__main__":
    tap.main(globals())
