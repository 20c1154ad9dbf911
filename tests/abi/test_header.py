#!/usr/bin/env python3
"""Each public header compiles alone in every language it promises: test_header.py CC [CXX]."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

CC = sys.argv[1].split(";")
CXX = sys.argv[2].split(";") if len(sys.argv) > 2 and sys.argv[2] else None
INCLUDE = os.path.join(tap.source_dir(), "include")
USE = """#include <infer/infer.h>
int main(void) { infer_sampling s; INFER_INIT(&s); return infer_abi_version() != INFER_ABI_VERSION; }
"""
USE_SCHEDULER = """#include <infer/scheduler.h>
int main(void) { infer_request_options o; INFER_INIT(&o); o.flags = INFER_REQUEST_ECHO; return infer_abi_version() != INFER_ABI_VERSION; }
"""


def compile_as(compiler, language, standard, texts=(USE, USE_SCHEDULER)):
    for text in texts:
        compile_one(compiler, language, standard, text)


def compile_one(compiler, language, standard, text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "use." + language)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        command = compiler + ["-std=" + standard, "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only",
                              "-I" + INCLUDE, path]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


def test_c99():
    compile_as(CC, "c", "c99")


def test_c11():
    compile_as(CC, "c", "c11")


def test_included_twice():
    compile_as(CC, "c", "c11", ["#include <infer/infer.h>\n" + USE, "#include <infer/scheduler.h>\n#include <infer/infer.h>\n" + USE_SCHEDULER])


def test_cxx17():
    if not CXX:
        raise tap.Skip("no C++ compiler")
    compile_as(CXX, "cpp", "c++17")


def test_fields_have_no_padding():
    """Structs are part of the ABI: no compiler may be free to place a field."""
    for text in (USE, USE_SCHEDULER):
        result = subprocess.run(CC + ["-std=c11", "-Wpadded", "-Werror=padded", "-fsyntax-only", "-I" + INCLUDE, "-x", "c", "-"],
                                input=text, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


tap.main(globals())
