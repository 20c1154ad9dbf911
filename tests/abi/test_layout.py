#!/usr/bin/env python3
"""Every public struct and constant is nailed down in lib/api/abi*.c and leaves no hole: test_layout.py CC."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import public_headers  # noqa: E402
import tap  # noqa: E402

CC = sys.argv[1].split(";")
API = os.path.join(public_headers.ROOT, "lib", "api")


def asserts():
    """Text of lib/api/abi*.c without comments."""
    texts = []
    for name in sorted(os.listdir(API)):
        if re.match(r"abi\w*\.c$", name):
            with open(os.path.join(API, name), encoding="utf-8") as handle:
                texts.append(public_headers.strip_comments(handle.read()))
    assert len(texts) > 1
    return "\n".join(texts)


def compile_text(text, command):
    return subprocess.run(command + ["-fsyntax-only", "-I" + public_headers.INCLUDE, "-x", "c", "-"], input=text, capture_output=True, text=True, check=False)


def test_every_field_is_asserted():
    text = asserts()
    fields = re.findall(r"^AT\((\w+), (\w+), \d+\);", text, re.MULTILINE)
    sizes = re.findall(r"^SIZE\((\w+), \d+\);", text, re.MULTILINE)
    want = [(name, field) for name, names in public_headers.structs().items() for field in names]
    missing, stale = [pair for pair in want if pair not in fields], [pair for pair in fields if pair not in want]
    assert not missing and not stale, f"lib/api/abi*.c lacks AT() of {missing}, and has {stale} too many"
    assert len(fields) == len(want), "a field is asserted twice"
    assert sorted(sizes) == sorted(public_headers.structs()), f"SIZE() differs: {set(sizes) ^ set(public_headers.structs())}"


def test_every_constant_is_asserted():
    values = re.findall(r"^VALUE\((\w+), [^;]+\);", asserts(), re.MULTILINE)
    want = public_headers.enumerators() + public_headers.constants()
    missing, stale = [name for name in want if name not in values], [name for name in values if name not in want]
    assert not missing and not stale, f"lib/api/abi_values.c lacks VALUE() of {missing}, and has {stale} too many"
    assert len(values) == len(want), "a constant is asserted twice"


def test_asserts_are_compiled():
    """The lines above mean something only where the build compiles the files, and where the macros assert."""
    with open(os.path.join(API, "meson.build"), encoding="utf-8") as handle:
        built = set(re.findall(r"'(abi\w*\.c)'", handle.read()))
    assert built == {name for name in os.listdir(API) if re.match(r"abi\w*\.c$", name)}, built
    macros = re.findall(r"^#define (AT|SIZE|VALUE)\(.*\) (\w+)\(", asserts(), re.MULTILINE)
    assert {name for name, _ in macros} == {"AT", "SIZE", "VALUE"} and {call for _, call in macros} == {"_Static_assert"}, macros


def test_every_struct_has_its_minimum():
    """API_STRUCTS: what api_in_struct and api_check_out refuse, and what test_callers tries."""
    with open(os.path.join(API, "api.h"), encoding="utf-8") as handle:
        rows = re.findall(r"^    X\((\w+), (\w+), (\w+)\)", handle.read(), re.MULTILINE)
    structs = public_headers.structs()
    listed, want = [name for name, _, _ in rows], public_headers.sized_structs()
    assert sorted(listed) == sorted(want), f"API_STRUCTS of lib/api/api.h differs: {set(listed) ^ set(want)}"
    for name, last, reserved in rows:
        assert last in structs[name], f"{name} has no field {last}"
        assert reserved == ("reserved" if "reserved" in structs[name] else "size"), f"{name}: is its field `reserved` checked?"
        assert not [field for field in structs[name] if re.match(r"reserved.+|_?padding|_pad", field)], f"{name}: one field `reserved` is what can be checked"


def padding_text():
    """A struct is as large as its fields together, and `reserved` is four bytes."""
    text = public_headers.include_all()
    for name, fields in public_headers.structs().items():
        total = " + ".join(f"sizeof((({name} *)0)->{field})" for field in fields)
        text += f'_Static_assert({total} == sizeof({name}), "{name} has a hole");\n'
        if "reserved" in fields:
            text += f'_Static_assert(sizeof((({name} *)0)->reserved) == 4, "{name}.reserved");\n'
    return text


def test_no_padding():
    result = compile_text(padding_text(), CC + ["-std=c11"])
    assert result.returncode == 0, result.stderr


def test_padding_is_found():
    """The case before can fail."""
    text = padding_text() + '\ntypedef struct { uint32_t a; uint64_t b; } holey;\n_Static_assert(12 == sizeof(holey), "holey has a hole");\n'
    result = compile_text(text, CC + ["-std=c11"])
    assert result.returncode != 0 and "holey has a hole" in result.stderr, result.stderr


def test_no_padding_on_32_bits():
    """i386, where 64-bit fields need an alignment of 4 only. Headers alone: no C library for it is needed."""
    compilers = [CC + ["-m32"]] + ([["clang", "--target=i386-linux-gnu"]] if shutil.which("clang") else [])
    tried = 0
    for compiler in compilers:
        command = compiler + ["-std=c11", "-ffreestanding"]
        if compile_text("#include <stdint.h>\nint x;\n", command).returncode:
            continue
        tried += 1
        result = compile_text(padding_text(), command)
        assert result.returncode == 0, result.stderr
    if not tried:
        raise tap.Skip("no compiler for a 32-bit system")


def test_same_layout_on_aarch64():
    """The offsets of lib/api/abi*.c are those of every 64-bit system that is built for."""
    if not shutil.which("clang"):
        raise tap.Skip("no clang, which compiles for any system")
    command = ["clang", "--target=aarch64-linux-gnu", "-std=c11", "-ffreestanding", "-I" + os.path.join(public_headers.ROOT, "lib")]
    result = compile_text(re.sub(r'#include "(infer/\w+\.h)"', r"#include <\1>", asserts()), command)
    assert result.returncode == 0, result.stderr


tap.main(globals())
