#!/usr/bin/env python3
"""Each public header compiles alone in every language it promises, without a warning and without padding, in every compiler that is here:
test_header.py CC [CXX]."""
import itertools
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import public_headers  # noqa: E402
import tap  # noqa: E402

CC = sys.argv[1].split(";")
CXX = sys.argv[2].split(";") if len(sys.argv) > 2 and sys.argv[2] else None
USE = "int main(void) { infer_error e; INFER_INIT(&e); return infer_abi_version() != INFER_ABI_VERSION; }\n"


def version(compiler):
    result = subprocess.run(compiler + ["--version"], capture_output=True, text=True, check=False)
    return result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout else None


def compilers(given, others):
    """The build's own, and the others that are installed; each once."""
    found = {version(given): given} if given else {}
    for name in others:
        if shutil.which(name) and version([name]):
            found.setdefault(version([name]), [name])
    return list(found.values())


def compile_text(compiler, language, standard, text):
    command = compiler + ["-std=" + standard, "-Wall", "-Wextra", "-Wpadded", "-Wundef", "-pedantic", "-pedantic-errors", "-Werror", "-fsyntax-only",
                          "-I" + public_headers.INCLUDE, "-x", language, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def compile_as(language, standard):
    found = compilers(CC, ["gcc", "clang"]) if language == "c" else compilers(CXX, ["g++", "clang++"])
    works = [compiler for compiler in found if compile_text(compiler, language, standard, "#include <stdint.h>\nint x;\n").returncode == 0]
    if not works:
        raise tap.Skip(f"no compiler for {standard}")
    for compiler in works:
        for header in public_headers.names():
            result = compile_text(compiler, language, standard, f"#include <infer/{header}>\n" + USE)
            assert result.returncode == 0, f"{compiler} {standard} {header}:\n{result.stderr}"


def test_c99():
    compile_as("c", "c99")


def test_c11():
    compile_as("c", "c11")


def test_c17():
    compile_as("c", "c17")


def test_cxx11():
    compile_as("c++", "c++11")


def test_cxx17():
    compile_as("c++", "c++17")


def test_cxx20():
    compile_as("c++", "c++20")


def test_any_order_and_twice():
    for order in itertools.permutations(public_headers.names()):
        text = "".join(f"#include <infer/{header}>\n" for header in order)
        result = compile_text(CC, "c", "c11", text + text + USE)
        assert result.returncode == 0, result.stderr


def test_init_in_both_languages():
    """INFER_INIT of every struct that has a size."""
    text = public_headers.include_all() + "int main(void)\n{\n"
    for number, name in enumerate(public_headers.sized_structs()):
        text += f"    {name} x{number};\n    INFER_INIT(&x{number});\n    if (x{number}.size != sizeof x{number})\n        return 1;\n"
    text += "    return 0;\n}\n"
    for compiler, language, standard in ((CC, "c", "c99"), (CXX, "c++", "c++11")):
        if compiler:
            result = compile_text(compiler, language, standard, text)
            assert result.returncode == 0, result.stderr


def test_a_warning_fails():
    """The cases before can fail: padding, and what is not C99."""
    padded = compile_text(CC, "c", "c11", "#include <stdint.h>\nstruct x { uint32_t a; uint64_t b; } x;\n")
    assert padded.returncode != 0 and "padding" in padded.stderr, padded.stderr
    assert compile_text(CC, "c", "c99", "_Static_assert(1, \"\");\n").returncode != 0


tap.main(globals())
