"""The peers: how they are installed and which configurations of them run."""
import os
import shlex
import subprocess
import sys
from pathlib import Path

# configuration: (driver's engine, interpreter's name, driver's flags, what it is)
CONFIGURATIONS = {
    "libinfer": ("infer", "self", [], "EXACT numerics, KV f16, file mapped, no repacking"),
    "libinfer-read": ("infer", "self", ["--no-mmap"], "the same, the file read into memory with huge pages (INFER_MAP_READ)"),
    "libinfer-fast": ("infer", "self", ["--numerics", "fast"], "FAST numerics"),
    "libinfer-precise": ("infer", "self", ["--numerics", "precise"], "PRECISE numerics"),
    "ik": ("ik", "ik", [], "ik_llama.cpp, the wheel from PyPI; KV f16, flash attention on, batch and ubatch 512, file mapped"),
    "ik-rtr": ("ik", "ik", ["--repack"], "the same with run-time repacking (its -rtr), which reads the file into memory"),
    "ik-native": ("ik", "ik-native", [], "ik_llama.cpp built from PyPI's source on this machine for its instruction set; flags as ik"),
    "ik-native-rtr": ("ik", "ik-native", ["--repack"], "the same with run-time repacking"),
    "llama": ("llama", "llama", [], "llama.cpp built from PyPI's source on this machine; KV f16, flash attention on, batch and ubatch 512, "
                                    "file mapped, no repacking (use_extra_bufts off)"),
    "llama-repack": ("llama", "llama", ["--repack"], "the same with repacking and AMX where it has them (use_extra_bufts on, its default)"),
}
DEFAULT = ["libinfer", "ik", "ik-rtr", "llama", "llama-repack"]
PACKAGES = {"ik": ["ik-llama-cpp-python"], "ik-native": ["ik-llama-cpp-python", "--no-binary", "ik-llama-cpp-python"],
            "llama": ["llama-cpp-python", "typing_extensions", "numpy"], "plot": ["matplotlib"]}
MODULES = {"ik": "ik_llama_cpp", "ik-native": "ik_llama_cpp", "llama": "llama_cpp", "plot": "matplotlib"}
DISTRIBUTIONS = {"ik": "ik-llama-cpp-python", "ik-native": "ik-llama-cpp-python", "llama": "llama-cpp-python"}


def default_cache():
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "libinfer" / "bench"


def has(python, module):
    check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0


def install(name, cache, wrap=()):
    """An interpreter that has the package of that name, or an exception that says why not. One venv, but ik-native has its own."""
    venv = cache / ("venv-ik-native" if name == "ik-native" else "venv")
    python = str(venv / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    if not has(python, MODULES[name]):
        print(f"installing {PACKAGES[name][0]} into {venv}; llama.cpp and ik-native compile, which takes a while", file=sys.stderr)
        env = {**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON " + os.environ.get("CMAKE_ARGS", "")}
        done = subprocess.run([*wrap, python, "-m", "pip", "install", "-q", *PACKAGES[name]], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pip cannot install {PACKAGES[name][0]}: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}")
    return python


def version(python, name):
    code = f"import importlib.metadata as m; print(m.version('{DISTRIBUTIONS[name]}'))"
    got = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return f"{DISTRIBUTIONS[name]} {got.stdout.strip() or '(version unknown)'}"


def interpreters(wanted, given, cache):
    """({name: python}, {name: why it is missing}) for the configurations wanted; given: {name: python} chosen by the user."""
    have, missing = {"self": sys.executable}, {}
    for name in {CONFIGURATIONS[c][1] for c in wanted} - {"self"}:
        try:
            have[name] = given.get(name) or install(name, cache)
        except (OSError, RuntimeError, subprocess.SubprocessError) as e:
            missing[name] = str(e)
    return have, missing


def command(configuration, python, driver, model, lib, extra):
    engine, _, flags, _ = CONFIGURATIONS[configuration]
    own = ["--lib", lib] if engine == "infer" else []
    return shlex.join([python, str(driver), engine, str(model), *own, *flags, *extra])
