#!/usr/bin/env python3
"""What `meson install` puts where, and that a stranger's program builds with it: test_install.py MESON BUILD CC [--sanitized]"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

sys.path.insert(0, os.path.join(tap.source_dir(), "tests", "tools"))
import gguf_edit  # noqa: E402

MESON, BUILD, CC = sys.argv[1].split(";"), sys.argv[2], sys.argv[3].split(";")
SANITIZED = "--sanitized" in sys.argv
ROOT = tap.source_dir()
MODEL = os.path.join(ROOT, "models", "tiny.gguf")
SCRATCH = tempfile.TemporaryDirectory(prefix="infer-install-")
DEST = SCRATCH.name


def run(*command, **more):
    result = subprocess.run(command, capture_output=True, check=False, **more)
    assert result.returncode == 0, f"{command}: {result.stdout!r} {result.stderr!r}"
    return result.stdout


def find(name):
    for base, _, names in os.walk(DEST):
        if name in names:
            return os.path.join(base, name)
    raise AssertionError(f"{name} was not installed")


def test_install():
    run(*MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", DEST)
    for name in ("infer.h", "state.h", "scheduler.h", "libinfer.so.1", "libinfer.so", "libinfer.a", "libinfer.pc"):
        find(name)


def test_tool_is_complete():
    cli = find("infer-cli")
    find("infer-cli.1")
    env = dict(os.environ, XDG_CACHE_HOME=DEST)
    env.pop("LD_LIBRARY_PATH", None)  # it finds the library beside itself
    result = subprocess.run([cli, "--temp", "0", "-n", "8", "Once upon a time"], env=env, capture_output=True, check=False)
    assert result.returncode == 0 and result.stdout.strip(), result
    assert b"bundled" in result.stderr, "the installed model was not used"
    find("infer-bench.1")
    result = subprocess.run([find("infer-bench"), "--version"], env=env, capture_output=True, check=False)
    assert result.returncode == 0 and b"libinfer" in result.stdout, result


def compiled(source, *extra):
    if SANITIZED:
        raise tap.Skip("a sanitized library needs a sanitized program")
    library = find("libinfer.so.1")
    # not PKG_CONFIG_LIBDIR: what Requires.private names is the system's
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(find("libinfer.pc")), PKG_CONFIG_SYSROOT_DIR=DEST)
    flags = run("pkg-config", "--cflags", "--libs", "libinfer", env=env).decode().split()
    program = os.path.join(DEST, "program")
    run(*CC, os.path.join(ROOT, "examples", source), "-o", program, *flags, *extra)
    return program, dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library))


def test_pkg_config_file():
    with open(find("libinfer.pc"), encoding="utf-8") as pc:
        text = pc.read()
    assert text.count("pthread") <= 1, text
    assert "xxhash" not in text, "xxHash is a header only"


def private_libraries():
    with open(find("libinfer.pc"), encoding="utf-8") as pc:
        needed = re.search(r"^Requires.private:(.*)", pc.read(), re.MULTILINE)
    names = re.findall(r"\blib[\w-]+", needed[1]) if needed else []
    return run("pkg-config", "--libs", *names).decode().split() if names else []


HOST = """#include <infer/infer.h>
#include <string.h>
const char *model_open(void), *err_set(void);
const char *model_open(void) { return "host"; }
const char *err_set(void) { return "host"; }
int main(int argc, char **argv)
{
    infer_error err;
    infer_model *model = NULL;
    INFER_INIT(&err);
    infer_status st = argc > 1 ? infer_model_open_path(NULL, argv[1], &model, &err) : INFER_OK;
    infer_model_release(model);
    return st != INFER_OK || strcmp(model_open(), err_set());
}
"""


def test_static_library_hides_internals():
    if SANITIZED or not all(map(shutil.which, ("ld", "objcopy", "ar", "nm"))):
        raise tap.Skip("installed as it is: sanitized, or no binutils")
    library = find("libinfer.a")
    names = re.findall(rb" [A-TV-Z] (\w+)$", run("nm", library), re.MULTILINE)
    assert len(names) > 50 and all(name.startswith(b"infer_") for name in names), names
    source, program = os.path.join(DEST, "host.c"), os.path.join(DEST, "host")
    with open(source, "w", encoding="utf-8") as out:
        out.write(HOST)
    header = os.path.dirname(os.path.dirname(find("infer.h")))
    run(*CC, source, "-o", program, "-I" + header, library, "-pthread", *private_libraries())
    run(program, MODEL)


def test_simple_by_pkg_config():
    program, env = compiled("simple.c")
    assert len(run(program, MODEL, "Once upon a time", env=env)) > 40


def test_simple_uses_the_template():
    program, env = compiled("simple.c")
    chat = os.path.join(DEST, "chat.gguf")
    with open(MODEL, "rb") as source, open(chat, "wb") as out:
        out.write(gguf_edit.edit(source.read(), {b"tokenizer.chat_template": b"{{ messages[0].content }} a time"}))
    assert run(program, chat, "Once upon", env=env) == run(program, MODEL, "Once upon a time", env=env)


def test_fork_by_pkg_config():
    program, env = compiled("fork.c")
    ways = (b"\n\n" + run(program, MODEL, "Once upon a time", env=env)).rstrip(b"\n").split(b"\n\n...")[1:]
    assert len(ways) == 4 and len(set(ways)) == 3, ways
    assert ways[3] == ways[0], "the rolled-back session differs"


def test_many_by_pkg_config():
    program, env = compiled("many.c")
    alone = run(program, MODEL, "Once upon a time", env=env)
    together = run(program, MODEL, "A cat", "Once upon a time", env=env)
    assert alone[3:].strip() and b"2: " + alone[3:] in together and b"1: " in together, (alone, together)


def test_stream_cancel_by_pkg_config():
    program, env = compiled("stream_cancel.c", "-pthread")
    assert b"the session holds" in run(program, MODEL, "Once upon a time", "0.05", env=env)


def test_example_reports_errors():
    program, env = compiled("simple.c")
    result = subprocess.run([program, "/nonexistent.gguf", "x"], env=env, capture_output=True, check=False)
    assert result.returncode == 1 and b"no such file" in result.stderr, result


tap.main(globals())
