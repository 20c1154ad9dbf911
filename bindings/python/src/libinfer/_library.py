"""Finds libinfer and loads it."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from . import _c

if sys.platform == "win32":
    _NAME = f"infer-{_c.INFER_ABI_VERSION}.dll"
elif sys.platform == "darwin":
    _NAME = f"libinfer.{_c.INFER_ABI_VERSION}.dylib"
else:
    _NAME = f"libinfer.so.{_c.INFER_ABI_VERSION}"


def _candidates() -> Iterator[str]:
    """Where the library may be, in the order in which it is looked for. The first that is there counts."""
    chosen = os.environ.get("LIBINFER_LIBRARY")
    if chosen: # whoever names one wants this one
        yield chosen
        return
    inside = Path(__file__).parent / _NAME
    if inside.is_file():
        yield str(inside)
        return
    yield _NAME # as the system's loader finds it: ldconfig, LD_LIBRARY_PATH
    if shutil.which("pkg-config"):
        found = subprocess.run(["pkg-config", "--variable=libdir", "libinfer"], capture_output=True, text=True, check=False)
        if found.returncode == 0 and found.stdout.strip():
            yield os.path.join(found.stdout.strip(), _NAME)


def _bind(library: ctypes.CDLL, path: str) -> None:
    for name, (result, params) in _c.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path}: has no {name}: it is older than this package", path=path) from None
        function.restype = result
        function.argtypes = params


def load() -> ctypes.CDLL:
    """The library, its functions declared. ImportError says where it was looked for."""
    problems = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            problems.append(str(error))
            continue
        try:
            version = library.infer_abi_version()
        except AttributeError:
            raise ImportError(f"{path}: is not libinfer", path=path) from None
        if version != _c.INFER_ABI_VERSION:
            raise ImportError(f"{path}: has ABI version {version}, this package needs {_c.INFER_ABI_VERSION}", path=path)
        _bind(library, path)
        return library
    raise ImportError(f"{_NAME} was not found ({'; '.join(problems)}). Install libinfer, or set LIBINFER_LIBRARY to the path of its library")


lib = load()
