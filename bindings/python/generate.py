#!/usr/bin/env python3
"""Writes the modules of libinfer that follow from include/infer/*.h:

    src/libinfer/_c.py       constants, structs and prototypes, for ctypes
    src/libinfer/enums.py    constants as enumerations
    src/libinfer/records.py  output structs as frozen dataclasses

    generate.py            writes them
    generate.py --check    writes nothing; the exit status is 1 when one is not as it would be written
    generate.py --layout   prints a C program that prints each struct's size and offsets (tests/test_declarations.py compares them)

The headers keep to a few forms (one declaration a statement, plain fields, enumerators that are numbers), so a small parser reads them; what it does not
know it refuses by name."""
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
HEADERS = ["infer.h", "state.h", "scheduler.h"]

# First enumerator of a block -> class, and the prefix that its members lose. Blocks that are not here are plain constants of _c.py: flags, which the
# package gives as keyword arguments.
ENUMS = {
    "INFER_OK": ("Status", "INFER_"),
    "INFER_LOG_ERROR": ("LogLevel", "INFER_LOG_"),
    "INFER_CPU_AUTO": ("Cpu", "INFER_CPU_"),
    "INFER_NUMERICS_EXACT": ("Numerics", "INFER_NUMERICS_"),
    "INFER_MAP_AUTO": ("Map", "INFER_MAP_"),
    "INFER_TYPE_F32": ("TensorType", "INFER_TYPE_"),
    "INFER_VALUE_UINT": ("ValueKind", "INFER_VALUE_"),
    "INFER_TOKENIZER_BPE": ("TokenizerKind", "INFER_TOKENIZER_"),
    "INFER_TOKEN_NORMAL": ("TokenKind", "INFER_TOKEN_"),
    "INFER_KV_F16": ("KvType", "INFER_KV_"),
    "INFER_ROWS_LAST": ("Rows", "INFER_ROWS_"),
    "INFER_EVENT_PREFILL": ("EventKind", "INFER_EVENT_"),
    "INFER_FINISH_STOP": ("Finish", "INFER_FINISH_"),
    "INFER_ADAPTER_LORA": ("AdapterKind", "INFER_ADAPTER_"),
    "INFER_ADAPTER_ADD": ("AdapterMode", "INFER_ADAPTER_"),
    "INFER_POOLING_MODEL": ("Pooling", "INFER_POOLING_"),
    "INFER_CACHE_REASON_OFF": ("CacheReason", "INFER_CACHE_REASON_"),
    "INFER_VERIFY_FIRST_USE": ("Verify", "INFER_VERIFY_"),
    "INFER_FINGERPRINT_QUICK": ("Fingerprint", "INFER_FINGERPRINT_"),
    "INFER_REQUEST_EVENT_PROMPT": ("RequestEventKind", "INFER_REQUEST_EVENT_"),
}

# Struct -> dataclass, and the fields that are more than a number.
RECORDS: dict[str, tuple[str, dict[str, str]]] = {
    "infer_engine_info": ("EngineInfo", {"cpu": "Cpu", "numerics": "Numerics"}),
    "infer_tokenizer_info": ("TokenizerInfo", {"kind": "TokenizerKind", "add_bos": "bool", "add_eos": "bool"}),
    "infer_model_info": ("ModelInfo", {"pooling": "Pooling", "encoder": "bool"}),
    "infer_model_memory": ("ModelMemory", {}),
    "infer_session_info": ("SessionInfo", {"approximate": "bool"}),
    "infer_adapter_info": ("AdapterInfo", {"kind": "AdapterKind"}),
    "infer_checkpoint_info": ("CheckpointInfo", {"kv_type": "KvType", "approximate": "bool", "generating": "bool"}),
    "infer_store_entry": ("StoreEntry", {"kv_type": "KvType", "approximate": "bool"}),
    "infer_store_info": ("StoreInfo", {}),
    "infer_cache_report": ("CacheReport", {"reason": "CacheReason", "own_reason": "CacheReason"}),
    "infer_cache_stats": ("CacheStats", {}),
    "infer_scheduler_info": ("SchedulerInfo", {}),
    "infer_request_info": ("RequestInfo", {"cache_reason": "CacheReason", "own_reason": "CacheReason"}),
    "infer_estimate": ("Estimate", {}),
}

NUMBERS = {
    "int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "uint8_t": "c_uint8", "float": "c_float",
    "double": "c_double", "char": "c_char", "infer_status": "c_int32",
}


class Param(NamedTuple):
    type: str               # without const: "uint64_t", "char *", "infer_engine **"
    name: str
    length: str | None   # of an array


class Function(NamedTuple):
    name: str
    result: str
    params: list[Param]


class Api:
    """What the headers declare, in their order."""

    def __init__(self) -> None:
        self.defines: dict[str, str] = {}         # name -> Python expression
        self.blocks: list[list[tuple[str, int]]] = []
        self.messages: dict[str, str] = {}        # of statuses
        self.handles: list[str] = []
        self.structs: dict[str, list[Param]] = {}
        self.callbacks: dict[str, Function] = {}
        self.functions: dict[str, Function] = {}


def preprocess(text: str, api: Api) -> str:
    """The text without comments and directives; what #define says goes to api."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"\\\n", " ", text)
    for name, value in re.findall(r"^#define (INFER_\w+) (.+)$", text, flags=re.MULTILINE):
        value = value.strip()
        if value == "UINT64_MAX":
            api.defines[name] = hex(2**64 - 1)
        elif re.fullmatch(r'\d+|"[^"]*"', value):
            api.defines[name] = value
        elif shift := re.fullmatch(r"\(\(uint64_t\)1 << (\d+)\)", value):
            api.defines[name] = f"1 << {shift.group(1)}"
    statuses = re.search(r"^#define INFER_STATUS_LIST\(X\)(.+)$", text, flags=re.MULTILINE)
    if statuses:
        rows = re.findall(r'X\((\w+), (-?\d+), "([^"]*)"\)', statuses.group(1))
        api.blocks.append([(name, int(value)) for name, value, _ in rows])
        api.messages.update((name, message) for name, _, message in rows)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    return re.sub(r'extern "C" \{', "", text)


def statements(text: str) -> list[str]:
    """Split at the semicolons that are not inside braces."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == ";" and depth == 0:
            found.append(" ".join(text[start:at].split()))
            start = at + 1
    return found


def parse_param(text: str) -> Param:
    text = re.sub(r"\b(const|struct)\b", " ", text).strip()
    match = re.fullmatch(r"(\w+)\s*((?:\*\s*)*)(\w+)?(?:\[(\w+)\])?", text)
    if not match:
        raise SystemExit(f"generate.py: cannot read the parameter or field '{text}'")
    base, stars, name, length = match.groups()
    stars = stars.replace(" ", "")
    return Param(f"{base} {stars}".strip(), name or "", length)


def parse_params(text: str) -> list[Param]:
    text = text.strip()
    return [] if text in ("", "void") else [parse_param(part) for part in text.split(",")]


def parse_fields(body: str) -> list[Param]:
    fields = []
    for statement in filter(None, (s.strip() for s in body.split(";"))):
        pointer = re.fullmatch(r"(.+?)\(\*(\w+)\)\((.*)\)", statement)
        if pointer: # a function pointer
            result = pointer.group(1).strip()
            params = parse_params(pointer.group(3))
            fields.append(Param(f"{result} (*)({', '.join(p.type for p in params)})", pointer.group(2), None))
            continue
        first, *rest = (part.strip() for part in statement.split(","))
        fields.append(parse_param(first))
        fields.extend(Param(fields[-1].type, name, None) for name in rest) # "a, b, c" of one number type
    return fields


def parse_enum(body: str) -> list[tuple[str, int]]:
    rows = []
    for part in filter(None, (p.strip() for p in body.split(","))):
        match = re.fullmatch(r"(INFER_\w+) = (-?\d+)", part)
        if not match:
            raise SystemExit(f"generate.py: cannot read the enumerator '{part}'")
        rows.append((match.group(1), int(match.group(2))))
    return rows


def parse_statement(statement: str, api: Api) -> None:
    if match := re.fullmatch(r"enum \{(.*)\}", statement):
        if "INFER_STATUS_LIST" not in statement:
            api.blocks.append(parse_enum(match.group(1)))
    elif match := re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1", statement):
        api.structs[match.group(1)] = parse_fields(match.group(2))
    elif match := re.fullmatch(r"typedef struct (\w+) \1", statement):
        api.handles.append(match.group(1))
    elif match := re.fullmatch(r"typedef (.+?)\(\*(\w+)\)\((.*)\)", statement):
        api.callbacks[match.group(2)] = Function(match.group(2), parse_param(match.group(1)).type, parse_params(match.group(3)))
    elif match := re.fullmatch(r"INFER_API (.+?)(\w+)\((.*)\)", statement):
        api.functions[match.group(2)] = Function(match.group(2), parse_param(match.group(1)).type, parse_params(match.group(3)))
    elif statement not in ("typedef int32_t infer_status",):
        raise SystemExit(f"generate.py: cannot read '{statement}'")


def parse(include: Path) -> Api:
    api = Api()
    for header in HEADERS:
        text = preprocess((include / header).read_text(encoding="utf-8"), api)
        for statement in statements(text):
            parse_statement(statement.strip("} ") if statement.startswith("}") else statement, api)
    return api


# ---- C types as ctypes -----------------------------------------------------------------------------------------------

def pointer_type(api: Api, base: str) -> str:
    """T * of parameters."""
    if base in api.structs:
        return f"POINTER({base})"
    if base in NUMBERS and base not in ("char", "uint8_t"):
        return f"POINTER({NUMBERS[base]})"
    if base == "void" or base in api.handles or base in NUMBERS:
        return "c_void_p" # strings too: bytes and buffers are taken, and nothing is read up to a zero byte
    raise SystemExit(f"generate.py: unknown type {base}")


def ctype(api: Api, type_: str, result: bool = False) -> str:
    if "(*)" in type_:
        head, tail = type_.split("(*)")
        params = [p.strip() for p in tail.strip("()").split(",")]
        return f"CFUNCTYPE({', '.join([ctype(api, head.strip(), True), *(ctype(api, p) for p in params)])})"
    base, _, stars = type_.partition(" ")
    if not stars:
        if base == "void":
            return "None"
        if base in api.callbacks or base in api.structs:
            return base
        return NUMBERS[base]
    if result and base == "char":
        return "c_char_p" # the results of this type are static and zero-terminated
    if stars == "*":
        return pointer_type(api, base)
    return f"POINTER({'c_void_p' if base in ('char', 'void') or base in api.handles else pointer_type(api, base)})"


def field_type(api: Api, field: Param) -> str:
    type_ = ctype(api, field.type)
    if field.length is None:
        return type_
    return f"{type_} * {field.length}"


def annotation(api: Api, field: Param) -> str:
    """What a field reads as."""
    if field.length is not None:
        return "Any"
    if field.type in ("float", "double"):
        return "float"
    if field.type in NUMBERS:
        return "int"
    return "int | None" if ctype(api, field.type) == "c_void_p" else "Any"


NOTICE = "# Made by bindings/python/generate.py from include/infer/*.h: do not edit.\n"


def write_c(api: Api) -> str:
    out = [
        '"""The C declarations of include/infer/*.h, for ctypes."""', NOTICE + "# pylint: skip-file\n# ruff: noqa", "from __future__ import annotations\n",
        "from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint8, c_uint32, c_uint64,",
        "                    c_void_p)", "from typing import Any\n",
    ]
    out += [f"{name} = {value}" for name, value in api.defines.items()] + [""]
    for block in api.blocks:
        out += [f"{name} = {value}" for name, value in block] + [""]
    emitted = set()

    def emit_callback(name: str) -> None:
        if name in emitted:
            return
        emitted.add(name)
        callback = api.callbacks[name]
        for param in callback.params:
            base = param.type.split(" ")[0]
            if base in api.structs:
                emit_struct(base)
        types = [ctype(api, callback.result, True), *(ctype(api, p.type) for p in callback.params)]
        out.append(f"{name} = CFUNCTYPE({', '.join(types)})\n")

    def emit_struct(name: str) -> None:
        if name in emitted:
            return
        emitted.add(name)
        for field in api.structs[name]:
            base = field.type.split(" ")[0]
            if base in api.callbacks:
                emit_callback(base)
            elif base in api.structs:
                emit_struct(base)
        out.append(f"\nclass {name}(Structure):")
        out.extend(f"    {f.name}: {annotation(api, f)}" for f in api.structs[name])
        out.append("    _fields_ = [")
        out.extend(f"        (\"{f.name}\", {field_type(api, f)})," for f in api.structs[name])
        out.append("    ]\n")

    for name in api.callbacks:
        emit_callback(name)
    for name in api.structs:
        emit_struct(name)
    out.append("\n# Name -> result, parameters.")
    out.append("FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {")
    for function in api.functions.values():
        params = ", ".join(ctype(api, p.type) if p.length is None else "c_void_p" for p in function.params)
        result = ctype(api, function.result, True)
        out.append(f"    \"{function.name}\": ({result}, [{params}]),")
    out.append("}")
    return "\n".join(out) + "\n"


def member(name: str, prefix: str) -> str:
    return name[len(prefix):]


def write_enums(api: Api) -> str:
    out = [
        '"""The library\'s constants as enumerations; include/infer/*.h says what each means."""', NOTICE, "from __future__ import annotations\n",
        "from enum import IntEnum\n", "",
        "class _Open(IntEnum):", '    """Knows values of a later library too, as UNKNOWN_n."""\n',
        "    @classmethod", "    def _missing_(cls, value: object) -> _Open:",
        "        number = int(value) # type: ignore[call-overload]",
        "        unknown = int.__new__(cls, number)", '        unknown._name_ = f"UNKNOWN_{number}"', "        unknown._value_ = number",
        "        return unknown\n",
    ]
    for block in api.blocks:
        if block[0][0] not in ENUMS:
            continue
        name, prefix = ENUMS[block[0][0]]
        out.append(f"\nclass {name}(_Open):")
        out.append(f'    """{prefix}*"""\n')
        out.extend(f"    {member(constant, prefix)} = {value}" for constant, value in block)
        out.append("")
    return "\n".join(out).rstrip() + "\n"


def record_field(field: Param, special: dict[str, str]) -> tuple[str, str]:
    """(type, expression over c)"""
    value = f"c.{field.name}"
    if field.name in special:
        return special[field.name], f"{special[field.name]}({value})"
    if field.type == "char":
        return "str", f'{value}.decode("utf-8", "replace")'
    if field.length is not None:
        return "bytes", f"bytes({value})"
    return ("float" if field.type in ("float", "double") else "int"), value


def write_records(api: Api) -> str:
    chosen = [(name, RECORDS[name]) for name in api.structs if name in RECORDS]
    used = sorted({kind for _, (_, special) in chosen for kind in special.values() if kind != "bool"})
    out = [
        '"""What the library tells about things; include/infer/*.h says what each field means."""', NOTICE, "from __future__ import annotations\n",
        "from dataclasses import dataclass\n", "from . import _c", f"from .enums import {', '.join(used)}\n",
    ]
    for name, (record, special) in chosen:
        fields = [f for f in api.structs[name] if f.name != "size" and not f.name.startswith("reserved") and "*" not in f.type]
        out += ["", "@dataclass(frozen=True)", f"class {record}:", f'    """{name}"""\n']
        out += [f"    {f.name}: {record_field(f, special)[0]}" for f in fields]
        out += ["", "    @classmethod", f"    def _of(cls, c: _c.{name}) -> {record}:", "        return cls("]
        out += [f"            {f.name}={record_field(f, special)[1]}," for f in fields]
        out += ["        )", ""]
    return "\n".join(out).rstrip() + "\n"


def layout_program(api: Api) -> str:
    lines = ["#include <infer/scheduler.h>", "#include <stdio.h>", "int main(void)", "{"]
    for name, fields in api.structs.items():
        lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'    printf("{name}.{f.name} %zu\\n", offsetof({name}, {f.name}));' for f in fields]
    return "\n".join([*lines, "    return 0;", "}"]) + "\n"


def main(args: list[str]) -> int:
    api = parse(HERE.parent.parent / "include" / "infer")
    if args == ["--layout"]:
        sys.stdout.write(layout_program(api))
        return 0
    if args not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for name, text in (("_c.py", write_c(api)), ("enums.py", write_enums(api)), ("records.py", write_records(api))):
        path = HERE / "src" / "libinfer" / name
        if not args:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"bindings/python/src/libinfer/{name} is not as the headers have it: run bindings/python/generate.py", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
