"""The build backend: the wheel has the library inside and works alone; the source distribution has what it is built from."""
import base64
import csv
import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import PROMPT, ROOT, TINY

import libinfer

LIBRARY = os.environ.get("LIBINFER_LIBRARY", "")
needs_library = pytest.mark.skipif(not LIBRARY or "LD_PRELOAD" in os.environ, reason="needs an unsanitized library by LIBINFER_LIBRARY")


def backend_of(folder):
    spec = importlib.util.spec_from_file_location("backend", folder / "build_backend" / "backend.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module", name="backend")
def _backend():
    return backend_of(ROOT / "bindings" / "python")


@needs_library
def test_wheel_works_alone(backend, tmp_path):
    name = backend.build_wheel(str(tmp_path), {"library": LIBRARY})
    assert name.startswith(f"libinfer-{libinfer.__version__}-py3-none-") and name.endswith(".whl") and "any" not in name
    with zipfile.ZipFile(tmp_path / name) as wheel:
        wheel.extractall(tmp_path / "site")
        inside = wheel.namelist()
        assert "libinfer/py.typed" in inside and f"libinfer/{libinfer._library._NAME}" in inside
        info = f"libinfer-{libinfer.__version__}.dist-info"
        record = list(csv.reader(wheel.read(f"{info}/RECORD").decode().splitlines()))
        assert [row[0] for row in record] == inside
        for file, digest, size in record[:-1]:
            data = wheel.read(file)
            assert int(size) == len(data) and digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert f"Version: {libinfer.__version__}\n" in wheel.read(f"{info}/METADATA").decode()
    code = f"""
import libinfer
print(libinfer._library.lib._name)
with libinfer.Model.open({TINY!r}) as model, model.session() as session:
    session.append_text({PROMPT!r})
    print(session.generate(4).text())
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("LIBINFER_LIBRARY", "LD_LIBRARY_PATH")}
    environment["PYTHONPATH"] = str(tmp_path / "site")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert result.stdout.splitlines() == [str(tmp_path / "site" / "libinfer" / libinfer._library._NAME), ", the little girl"], result.stderr


@needs_library
def test_the_same_wheel_again(backend, tmp_path):
    (tmp_path / "again").mkdir()
    first = tmp_path / backend.build_wheel(str(tmp_path), {"library": LIBRARY})
    second = tmp_path / "again" / backend.build_wheel(str(tmp_path / "again"), {"library": LIBRARY})
    assert first.read_bytes() == second.read_bytes()


def test_metadata_is_the_wheels(backend, tmp_path):
    info = tmp_path / backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert f"Version: {libinfer.__version__}\n" in (info / "METADATA").read_text(encoding="utf-8")
    assert backend.get_requires_for_build_wheel() == []


@needs_library
def test_source_distribution(backend, tmp_path):
    name = backend.build_sdist(str(tmp_path))
    base = f"libinfer-{libinfer.__version__}"
    assert name == f"{base}.tar.gz"
    with tarfile.open(tmp_path / name) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path)
    for file in ("pyproject.toml", "PKG-INFO", "build_backend/backend.py", "src/libinfer/_c.py", "c/meson.build", "c/include/infer/infer.h", "c/lib/meson.build"):
        assert f"{base}/{file}" in names
    assert not [entry for entry in names if "__pycache__" in entry or ".gguf" in entry]
    again = backend_of(tmp_path / base)
    assert again._root() == tmp_path / base / "c"
    (tmp_path / "out").mkdir()
    assert again.build_wheel(str(tmp_path / "out"), {"library": LIBRARY}).endswith(".whl")


def test_what_is_missing_is_said(backend, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path), {"library": str(tmp_path / "none.so")})
    assert "there is no file" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path))
    said = capsys.readouterr().err
    assert "'meson' was not found" in said and "apt-get install" in said
    monkeypatch.setattr(backend, "HERE", tmp_path / "a" / "b" / "c")
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path))
    assert "C sources are not beside" in capsys.readouterr().err
