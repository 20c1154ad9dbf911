"""The ABI of a shared library as text (abidw) and the difference of two (abidiff). Both want a library whose exported functions carry debug
information, which libinfer's do in every build until it is stripped."""
import os
import re
import shutil
import subprocess
import tempfile

import public_headers

BASELINE = os.path.join(public_headers.ROOT, "tests", "abi", "libinfer-1.abi")


def have_tools():
    return shutil.which("abidw") and shutil.which("abidiff")


def baseline_of(library, include=public_headers.INCLUDE):
    """Text that changes when the ABI does, and not with line numbers, paths, build options or the processor. What is inside the handles is
    private: abidw knows that by the names of the headers, so no header of lib/ may have the name of a public one."""
    command = ["abidw", "--headers-dir", os.path.join(include, "infer"), "--drop-private-types", "--exported-interfaces-only", "--no-show-locs",
               "--no-corpus-path", "--no-comp-dir-path", "--no-elf-needed", "--no-architecture", "--no-parameter-names", "--type-id-style", "hash", library]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def undescribed(text):
    """Exported functions of which the debug information says nothing: abidiff would compare no more than their names."""
    symbols = set(re.findall(r"<elf-symbol name='(\w+)'[^>]* type='func-type'", text))
    return sorted(symbols - set(re.findall(r"<function-decl name='(\w+)'", text)))


def differences(baseline, library, include=public_headers.INCLUDE):
    """(exit status, report) of abidiff. The status is made of bits: 1 error, 2 bad usage, 4 the ABI changed, 8 incompatibly. Changes of every
    kind count, those too that abidiff calls harmless, such as an added function or a field's new name.

    Text is compared with text, from which abidw has left out what is private: given the library itself, abidiff would have to be told what is
    private, and takes for private every type of a baseline without locations, which is all of them."""
    text = baseline_of(library, include)
    silent = undescribed(text)
    if silent:
        return 1, f"no debug information about {silent}: was the library stripped?"
    with tempfile.TemporaryDirectory() as folder:
        now = os.path.join(folder, "now.abi")
        with open(now, "w", encoding="utf-8") as out:
            out.write(text)
        result = subprocess.run(["abidiff", "--no-show-locs", "--no-architecture", "--harmless", baseline, now], check=False, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr
