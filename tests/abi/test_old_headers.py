#!/usr/bin/env python3
"""What programs of every released version have inside them still holds: test_old_headers.py LIBRARY CC.

tests/abi/headers-X.Y are the public headers of version X.Y. For each of them: all its functions are exported, and declared alike today; all its
fields lie where they lay, and are as large; its structs are no smaller today, and those without a size as large as ever; its constants have their
values. (tests/abi/program_1_0.c is compiled with them, and run.)"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import public_headers  # noqa: E402
import tap  # noqa: E402

LIBRARY, CC = sys.argv[1], sys.argv[2].split(";")
HERE = os.path.dirname(os.path.abspath(__file__))


def released():
    found = sorted(glob.glob(os.path.join(HERE, "headers-*")))
    assert found, "no headers of a released version"
    return found


def values(old, include):
    """{name: number} of what the old headers know, as the compiler finds it with `include`."""
    names = {name: f"(unsigned long long){name}" for name in public_headers.enumerators(old) + public_headers.constants(old)}
    for struct, fields in public_headers.structs(old).items():
        names[f"sizeof {struct}"] = f"sizeof({struct})"
        for field in fields:
            if field == "reserved":  # may have become a field with a name
                continue
            names[f"{struct}.{field}"] = f"offsetof({struct}, {field})"
            names[f"sizeof {struct}.{field}"] = f"sizeof((({struct} *)0)->{field})"
    text = public_headers.include_all(old) + "#include <stdio.h>\nint main(void)\n{\n"
    text += "".join(f'    printf("%llu\\n", (unsigned long long)({expression}));\n' for expression in names.values()) + "    return 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "values")
        result = subprocess.run(CC + ["-std=c11", "-I" + include, "-x", "c", "-", "-o", program], input=text, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"something of {old} is gone:\n{result.stderr}"
        numbers = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(names, map(int, numbers)))


def changed_values(old, include):
    then, now = values(old, old), values(old, include)
    sized = public_headers.sized_structs(old)
    return [name for name in then if (now[name] < then[name] if name.startswith("sizeof ") and name[7:] in sized else now[name] != then[name])]


def declared_otherwise(old, include):
    """The compiler's complaints when old prototypes and function types stand behind the present headers; "" for none."""
    text = public_headers.include_all(include)
    text += "".join(prototype + ";\n" for prototype in public_headers.prototypes(old).values())
    text += "".join(re.findall(r"^typedef [^;{]*\(\*infer_\w+\)\([^;]*\);\n|^typedef \w+ infer_\w+;\n", public_headers.text_of(old), re.MULTILINE))
    result = subprocess.run(CC + ["-std=c11", "-fsyntax-only", "-I" + include, "-x", "c", "-"], input=text, capture_output=True, text=True, check=False)
    return result.stderr if result.returncode else ""


def test_functions_are_exported():
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r"\b(infer_\w+)@@LIBINFER_1\b", symbols))
    for old in released():
        gone = set(public_headers.prototypes(old)) - exported
        assert not gone, f"{old}: {sorted(gone)} are not exported any more"


def test_functions_are_declared_alike():
    for old in released():
        complaints = declared_otherwise(old, public_headers.INCLUDE)
        assert not complaints, f"{old}:\n{complaints}"


def test_layouts_and_values():
    for old in released():
        changed = changed_values(old, public_headers.INCLUDE)
        assert not changed, f"{old}: {changed} changed"


def broken(pattern, replacement):
    """A copy of the present headers with one thing changed, as (old, complaint)."""
    old = released()[0]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(public_headers.INCLUDE, "infer"), os.path.join(folder, "infer"))
        hits = 0
        for name in public_headers.names(folder):
            path = os.path.join(folder, "infer", name)
            with open(path, encoding="utf-8") as handle:
                text, count = re.subn(pattern, replacement, handle.read(), flags=re.DOTALL)
            hits += count
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)
        assert hits == 1, f"{pattern} was found {hits} times: adapt this test to the header"
        return changed_values(old, folder), declared_otherwise(old, folder)


def test_the_comparison_notices():
    changed, _ = broken(r"    uint32_t n_ctx;(\s+/\* of models)", r"    uint32_t more, n_ctx;\1")
    assert "infer_open_options.n_ctx" in changed, changed
    changed, _ = broken(r"(typedef struct infer_text \{.*?uint64_t text_len;)", r"\1 uint64_t more;")
    assert changed == ["sizeof infer_text"], changed
    changed, _ = broken(r"INFER_KV_BF16 = 2,", "INFER_KV_BF16 = 9,")
    assert changed == ["INFER_KV_BF16"], changed
    _, complaints = broken(r"infer_cpu_name\(int32_t cpu\)", "infer_cpu_name(uint32_t cpu)")
    assert "infer_cpu_name" in complaints
    _, complaints = broken(r"typedef int32_t \(\*infer_event_fn\)", "typedef int64_t (*infer_event_fn)")
    assert "infer_event_fn" in complaints


def test_growth_is_allowed():
    """A field that is appended to a struct with a size, a reserved one that gets a name, and a function that is added break no program."""
    changed, complaints = broken(r"(typedef struct infer_store_info \{.*?)\n\} infer_store_info;", r"\1\n    uint64_t more;\n} infer_store_info;\nvoid infer_more(void);")
    assert not changed and not complaints, (changed, complaints)
    changed, complaints = broken(r"(typedef struct infer_event \{(?:(?!\n\} ).)*uint32_t )reserved;", r"\1choice;")
    assert not changed and not complaints, (changed, complaints)


tap.main(globals())
