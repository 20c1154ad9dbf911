"""The C declarations are those of the headers, and of the compiler."""
import ctypes
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, child_environment

import libinfer
from libinfer import _c, _library

BINDING = ROOT / "bindings" / "python"
SOURCES = "".join(path.read_text() for path in (BINDING / "src" / "libinfer").glob("*.py") if path.name not in ("_c.py", "records.py", "enums.py"))

# What the package does in another way, and how.
OTHERWISE = {
    "infer_init": "new() zeroes structs and sets their size",
    "infer_generate": "Generation iterates infer_generate_next",
    "infer_model_open_path": "infer_model_open with a path",
    "infer_adapter_open_path": "infer_adapter_open with a path",
    "infer_source_path": "opened() fills the struct",
    "infer_source_descriptor": "opened() fills the struct",
    "infer_source_memory": "a callback source, whose release tells when the bytes may go",
    "infer_source_callback": "opened() fills the struct",
    "infer_session_model": "Session.model",
    "infer_adapter_model": "Adapter.model",
    "infer_checkpoint_model": "Checkpoint.model",
    "infer_cpu_name": "the enumeration Cpu",
    "infer_type_name": "the enumeration TensorType",
}


def compiler():
    found = shutil.which(os.environ.get("CC", "cc").split()[0])
    if found is None:
        pytest.skip("there is no C compiler")
    return found


def generate(script, *arguments):
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)


def copied(folder, header, old, new):
    """generate.py beside headers of which one is changed."""
    copy = folder / "bindings" / "python"
    shutil.copytree(BINDING, copy, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    shutil.copytree(ROOT / "include", folder / "include")
    path = folder / "include" / "infer" / header
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return copy / "generate.py"


def test_generated_modules_are_as_the_headers_have_them():
    result = generate(BINDING / "generate.py", "--check")
    assert result.returncode == 0, result.stderr


def test_a_stale_module_is_found(tmp_path):
    result = generate(copied(tmp_path, "infer.h", "INFER_LOG_DEBUG = 4", "INFER_LOG_DEBUG = 5"), "--check")
    assert result.returncode == 1
    assert "_c.py is not as the headers have it" in result.stderr
    assert "enums.py is not as the headers have it" in result.stderr


@pytest.mark.parametrize("statement", ["typedef struct { int x; } infer_odd;", "INFER_API int (*infer_odd(void))(void);", "enum { INFER_ODD = 1 << 3 };"])
def test_what_the_parser_does_not_know_is_refused(tmp_path, statement):
    result = generate(copied(tmp_path, "state.h", "#ifdef __cplusplus\n}", statement + "\n#ifdef __cplusplus\n}"))
    assert result.returncode == 1
    assert "cannot read" in result.stderr


def test_layout_is_the_compilers(tmp_path):
    (tmp_path / "layout.c").write_text(generate(BINDING / "generate.py", "--layout").stdout)
    subprocess.run([compiler(), "-I", str(ROOT / "include"), str(tmp_path / "layout.c"), "-o", str(tmp_path / "layout")], check=True)
    lines = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout.splitlines()
    structs = 0
    for line in lines:
        name, number = line.split()
        struct, _, field = name.partition(".")
        kind = getattr(_c, struct)
        assert (getattr(kind, field).offset if field else ctypes.sizeof(kind)) == int(number), name
        structs += not field
    assert structs > 40


def test_every_function_is_used():
    """A function that the headers gain is either in the package or, with a reason, in OTHERWISE."""
    kinds = set(re.findall(r'_KIND = "(\w+)"', SOURCES))
    made = {f"infer_{kind}_{verb}" for kind in kinds for verb in ("ref", "release", "get_info")} | {"infer_session_cache_report", "infer_model_get_memory"}
    missing = [name for name in _c.FUNCTIONS if f"lib.{name}" not in SOURCES and f"library.{name}" not in SOURCES and name not in made and name not in OTHERWISE]
    assert not missing, f"not in the package: {missing}"
    assert not [name for name in OTHERWISE if name not in _c.FUNCTIONS]


def test_every_status_has_a_class():
    for status in libinfer.Status:
        if status:
            error = libinfer.errors.from_c(status, _c.infer_error())
            assert type(error) is not libinfer.Error, status
            assert error.code == status and error.name == f"INFER_{status.name}"
            assert str(error) == _library.lib.infer_status_message(status).decode()
    assert type(libinfer.errors.from_c(-1000, _c.infer_error())) is libinfer.Error


def imported(**environment):
    return subprocess.run([sys.executable, "-c", "import libinfer"], capture_output=True, text=True, check=False, env=child_environment(**environment))


@pytest.mark.parametrize(("source", "said"), [
    ("int infer_abi_version(void) { return 99; }", "has ABI version 99"), ("int nothing;", "is not libinfer"),
    (f"int infer_abi_version(void) {{ return {libinfer.ABI_VERSION}; }}", "older than this package"),
])
def test_another_library_is_refused(tmp_path, source, said):
    (tmp_path / "other.c").write_text(source)
    library = tmp_path / "other.so"
    subprocess.run([compiler(), "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", str(library)], check=True)
    result = imported(LIBINFER_LIBRARY=str(library))
    assert result.returncode == 1
    assert "ImportError" in result.stderr and said in result.stderr and str(library) in result.stderr


def test_a_library_that_is_not_there_is_said(tmp_path):
    result = imported(LIBINFER_LIBRARY=str(tmp_path / "none.so"))
    assert result.returncode == 1
    assert "set LIBINFER_LIBRARY" in result.stderr and "none.so" in result.stderr


def test_the_systems_loader_finds_it(tmp_path):
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / _library._NAME).symlink_to(os.path.realpath(os.environ["LIBINFER_LIBRARY"]))
    environment = child_environment(LD_LIBRARY_PATH=str(folder))
    del environment["LIBINFER_LIBRARY"]
    code = "import libinfer; print(libinfer._library.lib._name)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert result.stdout.strip() == _library._NAME, result.stderr


def test_enumerations_know_later_values():
    later = libinfer.KvType(77)
    assert later == 77 and later.name == "UNKNOWN_77"
    assert libinfer.Cpu(13).name == "AVX512VNNI"


def test_versions():
    assert libinfer.ABI_VERSION == _c.INFER_ABI_VERSION
    assert libinfer.__version__.split(".")[0] == str(_c.INFER_VERSION_MAJOR)
    assert libinfer.NUMERICS_VERSION >= 1


def test_capabilities():
    told = libinfer.capabilities()
    assert told["network"] == "none" and told["output"] == "none"


@pytest.mark.parametrize("files", [[], ["generate.py"]])
def test_types(files):
    """mypy --strict finds nothing (pyproject.toml says strict, and which files)."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, *files]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BINDING)
    assert result.returncode == 0, result.stdout
