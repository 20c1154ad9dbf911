"""Reads include/infer/*.h: what the tests of the ABI compare with the library, its static asserts and older headers."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()
INCLUDE = os.path.join(ROOT, "include")


def names(include=INCLUDE):
    found = sorted(os.path.basename(path) for path in glob.glob(os.path.join(include, "infer", "*.h")))
    assert found, f"no header in {include}/infer"
    return found


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def text_of(include=INCLUDE):
    """All headers, without comments and continued lines."""
    texts = []
    for name in names(include):
        with open(os.path.join(include, "infer", name), encoding="utf-8") as handle:
            texts.append(strip_comments(handle.read()))
    return "\n".join(texts)


def include_all(include=INCLUDE):
    return "".join(f"#include <infer/{name}>\n" for name in names(include))


def prototypes(include=INCLUDE):
    """{function: its prototype without INFER_API and the semicolon}"""
    text = text_of(include)
    found = {}
    for match in re.finditer(r"^INFER_API\s+([^;{]*?\b(infer_\w+)\s*\([^;]*\))\s*(?:INFER_\w+(?:\([^)]*\))?\s*)?;", text, re.MULTILINE):
        found[match.group(2)] = " ".join(match.group(1).split())
    declared = len(re.findall(r"^INFER_API\b", text, re.MULTILINE))
    assert len(found) == declared > 100, f"{len(found)} of {declared} prototypes were recognised"
    return found


def structs(include=INCLUDE):
    """{struct: [field]}, in the order of the header."""
    text = text_of(include)
    found = {}
    for match in re.finditer(r"^typedef struct (\w+) \{\n(.*?)^\} (\w+);", text, re.MULTILINE | re.DOTALL):
        assert match.group(1) == match.group(3), match.group(1)
        fields = []
        for declaration in match.group(2).split(";")[:-1]:
            declaration = " ".join(declaration.split())
            function = re.match(r".*?\(\*(\w+)\)\(.*\)$", declaration)
            if function:
                fields.append(function.group(1))
                continue
            fields += [re.search(r"(\w+)(?:\[\w+\])?$", part).group(1) for part in declaration.split(",")]
        found[match.group(1)] = fields
    declared = len(re.findall(r"\bstruct \w+\s*\{", text))
    assert len(found) == declared > 30, f"{len(found)} of {declared} structs were recognised"
    return found


def sized_structs(include=INCLUDE):
    return [name for name, fields in structs(include).items() if fields[0] == "size"]


def handles(include=INCLUDE):
    """The opaque types."""
    found = re.findall(r"^typedef struct (\w+) \1;", text_of(include), re.MULTILINE)
    assert len(found) > 8, found
    return found


def enumerators(include=INCLUDE):
    """Names in order, those that INFER_STATUS_LIST makes included."""
    text = text_of(include)
    found = re.findall(r"^\s*X\((INFER_\w+),", text, re.MULTILINE)
    assert len(found) > 20, "INFER_STATUS_LIST was not recognised"
    for body in re.findall(r"^\s*(?:typedef )?enum\s*\w*\s*\{(.*?)\}", text, re.MULTILINE | re.DOTALL):
        if "INFER_STATUS_LIST" in body:
            continue
        for item in body.split(","):
            if item.strip():
                found.append(re.match(r"\s*(INFER_\w+)\s*=", item).group(1))
    assert len(found) == len(set(found)) > 150, "the enumerators were not recognised"
    return found


def constants(include=INCLUDE):
    """Macros that are numbers and part of the ABI: not the version, which changes with each release."""
    macros = re.findall(r"^#define (INFER_\w+) +\S", text_of(include), re.MULTILINE)
    return [name for name in macros if not re.match(r"INFER_(API|VERSION_\w+|ABI_VERSION|NUMERICS_VERSION|STATUS_ENUM|\w+_H)$", name)]
