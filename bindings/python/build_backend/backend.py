"""Builds the wheel (PEP 517): libinfer itself, by meson and ninja, inside the package. Needs no other Python package.

Settings (pip install ./bindings/python --config-settings KEY=VALUE):

    meson-args   further arguments for meson setup, separated by spaces: "-Dzstd=enabled -Dpcre2=enabled"
    library      a libinfer that is built already, to be taken as it is

The library is built without zstd and PCRE2 unless meson-args says otherwise: they would have to be there wherever the wheel goes."""
from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "src" / "libinfer"
# What a source distribution needs of the repository, beside this folder.
SOURCES = ["include", "lib", "models/meson.build", "meson.build", "meson_options.txt", "scripts/hide-internals", "LICENSE"]


class BuildError(Exception):
    """Said to the user as it is."""


def _root() -> Path:
    """Where libinfer's sources are: in a source distribution in c/, else this is bindings/python of the repository."""
    for root in (HERE / "c", HERE.parent.parent):
        if (root / "include" / "infer" / "infer.h").is_file() and (root / "meson.build").is_file():
            return root
    raise BuildError(f"libinfer's C sources are not beside {HERE}: install from a checkout of the repository (pip install ./bindings/python; pip 21.3 or later, "
                     "which builds in place), or from its source distribution")


def _version() -> str:
    """Of the library, which is the package's too."""
    match = re.search(r"^\s*version: '([^']+)'", (_root() / "meson.build").read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        raise BuildError("meson.build names no version")
    return match.group(1)


def _run(command: list[str], cwd: Path) -> None:
    print("+", shlex.join(command), flush=True)
    try:
        subprocess.run(command, cwd=cwd, check=True)
    except OSError as error:
        raise BuildError(f"{command[0]}: {error}") from error
    except subprocess.CalledProcessError as error:
        raise BuildError(f"'{shlex.join(command)}' failed with status {error.returncode}: see above (pip shows it with -v)") from error


def _tool(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise BuildError(f"'{name}' was not found: libinfer is built by a C compiler, meson 1.0 and ninja. On Debian or Ubuntu: apt-get install gcc libc6-dev "
                         f"meson ninja-build pkg-config libxxhash-dev; anywhere: pip install {package}")
    return path


def _build_library(settings: dict[str, Any], into: Path) -> Path:
    """The library, stripped, under the name that the package looks for."""
    given = settings.get("library")
    if given:
        found = Path(given).resolve()
        if not found.is_file():
            raise BuildError(f"library: there is no file {found}")
    else:
        meson, ninja = _tool("meson", "meson"), _tool("ninja", "ninja")
        more = settings.get("meson-args", "")
        arguments = [word for text in ([more] if isinstance(more, str) else more) for word in shlex.split(text)]
        build = into / "build"
        _run([meson, "setup", str(build), str(_root()), "--buildtype=release", "-Ddefault_library=shared", "-Dtools=false", "-Dexamples=false", "-Dtests=false",
              "-Ddocs=false", "-Dserver=disabled", "-Dzstd=disabled", "-Dpcre2=disabled", *arguments], HERE)
        _run([ninja, "-C", str(build)], HERE)
        names = re.compile(r"libinfer\.so\.\d+(\.\d+)*|libinfer\.\d+\.dylib|(lib)?infer-\d+\.dll")
        built = sorted((path for path in (build / "lib").iterdir() if names.fullmatch(path.name) and path.is_file()), key=lambda path: len(path.name))
        if not built:
            raise BuildError(f"the build left no library in {build / 'lib'}")
        found = built[0]
    abi = re.search(r"^#define INFER_ABI_VERSION (\d+)", (_root() / "include" / "infer" / "infer.h").read_text(encoding="utf-8"), re.MULTILINE)
    assert abi, "infer.h names no ABI version"
    name = {"win32": f"infer-{abi.group(1)}.dll", "darwin": f"libinfer.{abi.group(1)}.dylib"}.get(sys.platform, f"libinfer.so.{abi.group(1)}")
    library = into / name
    shutil.copyfile(found.resolve(), library)
    strip = shutil.which("strip")
    if strip and sys.platform != "win32":
        _run([strip, "-x" if sys.platform == "darwin" else "--strip-unneeded", str(library)], HERE)
    return library


def _metadata() -> str:
    return (f"Metadata-Version: 2.1\nName: libinfer\nVersion: {_version()}\nSummary: Run language models inside your program: the Python binding of libinfer\n"
            "License: MIT\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n" + (HERE / "README.md").read_text(encoding="utf-8"))


def _tag() -> str:
    # Any Python 3, as ctypes needs no extension module; this platform, as the library inside is its code.
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def _wheel_file() -> str:
    return f"Wheel-Version: 1.0\nGenerator: libinfer\nRoot-Is-Purelib: false\nTag: {_tag()}\n"


def _epoch() -> tuple[int, int, int, int, int, int]:
    return (1980, 1, 1, 0, 0, 0) # the same wheel from the same sources


def _write_wheel(path: Path, files: list[tuple[str, bytes]], info: str) -> None:
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files:
            entry = zipfile.ZipInfo(name, _epoch())
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            wheel.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
        record.append(f"{info}/RECORD,,\n")
        entry = zipfile.ZipInfo(f"{info}/RECORD", _epoch())
        entry.external_attr = 0o644 << 16
        wheel.writestr(entry, "".join(record))


def _fail(error: BuildError) -> None:
    print(f"\nlibinfer: {error}\n", file=sys.stderr, flush=True)
    raise SystemExit(1)


# ---- What a front end calls --------------------------------------------------------------------------------------------


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Without this one a front end builds everything twice."""
    del config_settings
    try:
        info = f"libinfer-{_version()}.dist-info"
        folder = Path(metadata_directory) / info
        folder.mkdir()
        (folder / "METADATA").write_text(_metadata(), encoding="utf-8")
        (folder / "WHEEL").write_text(_wheel_file(), encoding="utf-8")
        return info
    except BuildError as error:
        _fail(error)
        raise


def build_wheel(wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None) -> str:
    del metadata_directory
    try:
        info = f"libinfer-{_version()}.dist-info"
        files = [(f"libinfer/{path.name}", path.read_bytes()) for path in sorted(PACKAGE.iterdir()) if path.suffix == ".py" or path.name == "py.typed"]
        with tempfile.TemporaryDirectory(prefix="libinfer-") as folder:
            library = _build_library(config_settings or {}, Path(folder))
            files.append((f"libinfer/{library.name}", library.read_bytes()))
        files += [(f"{info}/METADATA", _metadata().encode()), (f"{info}/WHEEL", _wheel_file().encode())]
        files.append((f"{info}/LICENSE", (_root() / "LICENSE").read_bytes()))
        name = f"libinfer-{_version()}-{_tag()}.whl"
        _write_wheel(Path(wheel_directory) / name, files, info)
        return name
    except BuildError as error:
        _fail(error)
        raise


def _source_files(root: Path) -> list[tuple[str, Path]]:
    """Names in the distribution, and the files."""
    found = [(str(path.relative_to(HERE)), path) for path in sorted(HERE.rglob("*"))
             if path.is_file() and not {"__pycache__", "c", ".pytest_cache", ".mypy_cache", ".ruff_cache", "build", "dist"} & set(path.relative_to(HERE).parts)]
    for source in SOURCES:
        path = root / source
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file():
                found.append((f"c/{file.relative_to(root)}", file))
    return found


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    del config_settings
    try:
        base = f"libinfer-{_version()}"
        files = [(f"{base}/{name}", path.read_bytes(), os.access(path, os.X_OK)) for name, path in _source_files(_root())]
        files.append((f"{base}/PKG-INFO", _metadata().encode(), False))
        path = Path(sdist_directory) / f"{base}.tar.gz"
        with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
            for name, data, runs in files:
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o755 if runs else 0o644
                archive.addfile(member, io.BytesIO(data))
        return path.name
    except BuildError as error:
        _fail(error)
        raise


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    del config_settings
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel
