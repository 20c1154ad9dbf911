#!/usr/bin/env python3
"""What the shared library exports and imports: test_symbols.py LIBRARY CLI EXAMPLE... (--sanitized when built so)."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import public_headers  # noqa: E402
import tap  # noqa: E402

ROOT = tap.source_dir()
ARGS = [arg for arg in sys.argv[1:] if not arg.startswith("--")]
SANITIZED = "--sanitized" in sys.argv
LIBRARY, HOSTS = ARGS[0], ARGS[1:]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as handle:
        return handle.read()


def header_symbols():
    return set(public_headers.prototypes())


def dynamic(kind):
    """{(name, version)}"""
    found = set()
    for line in output("nm", "-D", kind, LIBRARY).splitlines():
        symbol = line.split()[-1]
        name, _, version = symbol.partition("@")
        found.add((name, version.lstrip("@")))
    return found


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*?)\]", output("readelf", "-d", path))


def differ(have, want, what):
    assert have == want, f"{what}: missing {sorted(want - have)}, too many {sorted(have - want)}"


def test_map_is_header():
    names = set(re.findall(r"^\s+(\w+);", read("lib/infer.map"), re.MULTILINE))
    differ(names, header_symbols(), "lib/infer.map (run scripts/gen-symbols)")
    names = set(re.findall(r"^\s+(\w+)$", read("lib/infer.def"), re.MULTILINE))
    differ(names, header_symbols(), "lib/infer.def (run scripts/gen-symbols)")


def test_exports():
    exported = {name for name, _ in dynamic("--defined-only") if not re.match(r"LIBINFER_\d+$", name)}
    differ(exported, header_symbols(), "exported symbols")


def test_versions():
    for name, version in dynamic("--defined-only"):
        assert (version or name) == "LIBINFER_1", f"{name} has version {version!r}"


def test_imports():
    if SANITIZED:
        raise tap.Skip("the sanitizers import what they need")
    allowed = {line.split("#")[0].strip() for line in read("tests/abi/imports.allow").splitlines()}
    imported = {name for name, _ in dynamic("--undefined-only")}
    assert imported, "no imports found: nm did not work"
    assert imported <= allowed, f"not in tests/abi/imports.allow: {sorted(imported - allowed)}"


def test_soname_and_needed():
    soname = re.findall(r"\(SONAME\).*\[(.*?)\]", output("readelf", "-d", LIBRARY))
    assert soname == ["libinfer.so.1"], soname
    if SANITIZED:
        return
    extra = [name for name in needed(LIBRARY) if not re.match(r"(libc\.so|libc\.musl|ld-|libpthread\.so|libzstd\.so\.1$|libpcre2-8\.so\.0$)", name)]
    assert not extra, f"the library needs {extra}"


def test_no_executable_stack_or_text_relocations():
    program = output("readelf", "-lW", LIBRARY)
    stack = re.search(r"GNU_STACK.*", program)
    assert stack and "RWE" not in stack.group(0), "executable stack"
    assert "TEXTREL" not in output("readelf", "-d", LIBRARY)


def test_hosts_link_the_shared_library():
    if not HOSTS:
        raise tap.Skip("built without tools and examples")
    for host in HOSTS:
        assert "libinfer.so.1" in needed(host), f"{host} does not link libinfer.so.1"
        own = re.findall(r"\bT (infer_\w+)", output("nm", "--defined-only", host))
        assert not own, f"{host} holds {own}"


def test_variants_stay_apart():
    """Only the objects of a CPU variant are compiled for more than the base processor, and they define nothing but kernels of that
    variant: no helper that the linker could choose for everybody."""
    if SANITIZED:
        raise tap.Skip("the sanitizers add symbols")
    lib = os.path.dirname(LIBRARY)
    build = os.path.dirname(lib)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as handle:
        commands = json.load(handle)
    flags = {c["output"]: {f for f in c["command"].split() if re.match(r"-m(arch|cpu|tune|avx|sse|fma|f16c|bmi|vx|amx)", f)}
             for c in commands if c["output"].startswith("lib/")}
    everywhere = set.intersection(*flags.values())  # what the user asked for
    wide = {o for o, f in flags.items() if f - everywhere}
    stray = sorted(o for o in wide if not re.match(r"lib/(kernels/)?libinfer_kernels_\w+\.a\.p/", o))
    assert not stray, f"compiled for more than the base processor: {stray}"
    for path in sorted(wide):
        variant = re.search(r"libinfer_kernels_(\w+)\.a", path).group(1)
        names = [line.split()[-1] for line in output("nm", "--defined-only", "--extern-only", os.path.join(build, path)).splitlines()]
        assert names, f"{path} defines nothing"
        others = [name for name in names if not name.endswith("_" + variant)]
        assert not others, f"{path} defines {others}"


tap.main(globals())
