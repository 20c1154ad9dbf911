#!/usr/bin/env python3
"""The library's ABI is the one of tests/abi/libinfer-1.abi, and the comparison would notice: test_abi_gate.py LIBRARY CC.

The real library is compared by its debug information. That the comparison works is shown with small libraries, made of a header that was broken
on purpose and a body for each of its prototypes: an unbroken one is accepted, each broken one is rejected."""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import abi_compare  # noqa: E402
import public_headers  # noqa: E402
import tap  # noqa: E402

LIBRARY, CC = sys.argv[1], sys.argv[2].split(";")
MAP = os.path.join(public_headers.ROOT, "lib", "infer.map")
CHANGED = 4  # a bit of abidiff's exit status
ADVICE = """the ABI differs from tests/abi/libinfer-1.abi. A function that was added, or a field that was appended to a struct with a size: run
scripts/abi-baseline and commit what it writes with the change. Anything else breaks programs that are built already: docs/abi.md tells the
other ways."""


def need_tools():
    if not abi_compare.have_tools():
        raise tap.Skip("no abidw and abidiff (abigail-tools)")


class Copy:
    """A copy of the public headers and the version script in a folder, to be broken."""

    def __init__(self, folder):
        self.folder = folder
        self.include = os.path.join(folder, "include")
        self.soname = "libinfer.so.1"
        shutil.copytree(os.path.join(public_headers.INCLUDE, "infer"), os.path.join(self.include, "infer"))
        with open(MAP, encoding="utf-8") as handle:
            self.map = handle.read()

    def edit(self, pattern, replacement):
        """Replaces what matches in the one header that has it, and there once."""
        hits = 0
        for name in public_headers.names(self.include):
            path = os.path.join(self.include, "infer", name)
            with open(path, encoding="utf-8") as handle:
                text, count = re.subn(pattern, replacement, handle.read(), flags=re.DOTALL)
            hits += count
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)
        assert hits == 1, f"{pattern} was found {hits} times: adapt this test to the header"

    def field(self, struct, old, new):
        """Replaces text inside a struct."""
        self.edit(r"(typedef struct " + struct + r" \{(?:(?!\n\} ).)*?\b)" + old, r"\g<1>" + new)

    def append(self, struct, fields):
        self.edit(r"(typedef struct " + struct + r" \{(?:(?!\n\} ).)*)\n\} ", r"\1\n" + fields + "\n} ")

    def build(self, *flags):
        """A library of these headers: every function has a body that does nothing."""
        text = public_headers.include_all(self.include)
        for prototype in public_headers.prototypes(self.include).values():
            body = "{ }" if re.match(r"void infer_", prototype) else "{ return 0; }"
            text += f"{prototype}\n{body}\n"
        source, script, library = (os.path.join(self.folder, name) for name in ("stub.c", "stub.map", "libstub.so"))
        with open(source, "w", encoding="utf-8") as handle:
            handle.write(text)
        with open(script, "w", encoding="utf-8") as handle:
            handle.write(self.map)
        command = CC + ["-std=c11", "-g", "-O0", "-w", "-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden", "-I" + self.include, *flags, source, "-o", library,
                        "-Wl,--version-script=" + script, "-Wl,-soname," + self.soname]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return library

    def asserts_hold(self):
        """Whether lib/api/abi*.c compile with these headers."""
        api = os.path.join(public_headers.ROOT, "lib", "api")
        for name in sorted(os.listdir(api)):
            if re.match(r"abi\w*\.c$", name):
                command = CC + ["-std=c11", "-fsyntax-only", "-I" + self.include, os.path.join(api, name)]
                if subprocess.run(command, capture_output=True, check=False).returncode:
                    return False
        return True


@contextlib.contextmanager
def copied():
    with tempfile.TemporaryDirectory() as folder:
        yield Copy(folder)


def rejected(break_it, baseline=abi_compare.BASELINE):
    """The library that break_it makes of a copy differs, and abidiff says so: it is no error of another kind."""
    need_tools()
    with copied() as copy:
        break_it(copy)
        status, report = abi_compare.differences(baseline, copy.build(), copy.include)
    assert status & CHANGED and not status & 3, f"not rejected: status {status}\n{report}"


def layout_rejected(break_it):
    """The same, and the static asserts of lib/api/abi*.c fail too."""
    with copied() as copy:
        assert copy.asserts_hold(), "the asserts fail before anything is broken"
        break_it(copy)
        assert not copy.asserts_hold(), "lib/api/abi*.c compile with the broken header"
    rejected(break_it)


def test_library_has_the_abi_of_the_baseline():
    need_tools()
    status, report = abi_compare.differences(abi_compare.BASELINE, LIBRARY)
    assert status == 0, f"{ADVICE}\nabidiff: status {status}\n{report}"


def test_baseline_has_everything():
    """The baseline tells of every function and every struct, and of nothing that is inside a handle."""
    with open(abi_compare.BASELINE, encoding="utf-8") as handle:
        text = handle.read()
    functions = set(re.findall(r"<function-decl name='(\w+)'", text))
    structs = set(re.findall(r"<class-decl name='(\w+)' size-in-bits", text))
    assert functions == set(public_headers.prototypes()), f"functions: {functions ^ set(public_headers.prototypes())}. {ADVICE}"
    assert structs == set(public_headers.structs()), f"structs: {structs ^ set(public_headers.structs())}. {ADVICE}"


def test_no_private_header_has_a_public_name():
    """abidw tells private types by the names of headers."""
    public = set(public_headers.names())
    clash = [os.path.join(base, name) for base, _, names in os.walk(os.path.join(public_headers.ROOT, "lib")) for name in names if name in public]
    assert not clash, f"{clash}: give it another name"


def test_unbroken_copy_is_accepted():
    need_tools()
    with copied() as copy:
        status, report = abi_compare.differences(abi_compare.BASELINE, copy.build(), copy.include)
        assert status == 0, f"status {status}\n{report}"
        assert copy.asserts_hold()


def test_no_debug_information_is_rejected():
    """A library that tells nothing is not taken for one that has not changed."""
    need_tools()
    with copied() as copy:
        status, report = abi_compare.differences(abi_compare.BASELINE, copy.build("-g0"), copy.include)
    assert status == 1 and "no debug information" in report, report


def test_field_inserted():
    layout_rejected(lambda copy: copy.field("infer_open_options", "uint32_t n_ctx;", "uint32_t more; uint32_t n_ctx;"))


def test_field_appended():
    """Allowed, but not without a new baseline."""
    layout_rejected(lambda copy: copy.append("infer_store_info", "    uint64_t more;"))


def test_field_removed():
    layout_rejected(lambda copy: copy.field("infer_score", "double sum;", ""))


def test_fields_swapped():
    def swap(copy):
        copy.field("infer_sampling", "float presence_penalty;", "float swapped;")
        copy.field("infer_sampling", "float frequency_penalty;", "float presence_penalty;")
        copy.field("infer_sampling", "float swapped;", "float frequency_penalty;")

    layout_rejected(swap)


def test_field_type_of_the_same_size():
    rejected(lambda copy: copy.field("infer_sampling", "float temperature;", "uint32_t temperature;"))


def test_field_sign():
    rejected(lambda copy: copy.field("infer_sampling", "uint32_t top_k;", "int32_t top_k;"))


def test_field_renamed():
    layout_rejected(lambda copy: copy.field("infer_sampling", "uint64_t seed;", "uint64_t state;"))


def test_reserved_field_reused():
    layout_rejected(lambda copy: copy.field("infer_event", "uint32_t reserved;", "uint32_t choice;"))


def test_tail_padding_reused():
    """No public struct ends in padding (test_layout); if one did, this is what would be said of a field that comes to lie there."""
    need_tools()
    with tempfile.TemporaryDirectory() as folder:
        baseline = os.path.join(folder, "padded.abi")
        with copied() as copy:
            copy.append("infer_embed_options", "    uint32_t tail;")
            with open(baseline, "w", encoding="utf-8") as out:
                out.write(abi_compare.baseline_of(copy.build(), copy.include))
            assert abi_compare.differences(baseline, copy.build(), copy.include)[0] == 0
        rejected(lambda copy: copy.append("infer_embed_options", "    uint32_t tail;\n    uint32_t reused;"), baseline)


def test_array_length():
    def lengths(copy):
        copy.field("infer_error", r"name\[128\];", "name[120];")
        copy.field("infer_error", r"text\[512\];", "text[520];")

    layout_rejected(lengths)


def test_argument_type():
    rejected(lambda copy: copy.edit(r"infer_cpu_name\(int32_t cpu\)", "infer_cpu_name(uint32_t cpu)"))


def test_argument_added():
    rejected(lambda copy: copy.edit(r"infer_cpu_name\(int32_t cpu\)", "infer_cpu_name(int32_t cpu, int32_t more)"))


def test_argument_removed():
    rejected(lambda copy: copy.edit(r"infer_cpu_name\(int32_t cpu\)", "infer_cpu_name(void)"))


def test_handle_exchanged():
    """What handles point to is private, but which handle it is counts."""
    rejected(lambda copy: copy.edit(r"infer_session_release\(infer_session \*", "infer_session_release(infer_store *"))


def test_argument_const():
    rejected(lambda copy: copy.edit(r"infer_session_get_info\(const infer_session \*", "infer_session_get_info(infer_session *"))


def test_return_type():
    rejected(lambda copy: copy.edit(r"int32_t infer_abi_version\(", "int64_t infer_abi_version("))


def test_callback_type():
    rejected(lambda copy: copy.edit(r"typedef int32_t \(\*infer_event_fn\)", "typedef void (*infer_event_fn)"))


def test_status_type():
    rejected(lambda copy: copy.edit(r"typedef int32_t infer_status;", "typedef int64_t infer_status;"))


def test_symbol_removed():
    def remove(copy):
        assert copy.map.count("    infer_cancel_clear;\n") == 1
        copy.map = copy.map.replace("    infer_cancel_clear;\n", "")

    rejected(remove)


def test_symbol_added():
    """Allowed, but not without a new baseline."""
    def add(copy):
        copy.edit(r"INFER_API const char \*infer_version", "INFER_API void infer_more(void);\nINFER_API const char *infer_version")
        copy.map = copy.map.replace("    infer_version;\n", "    infer_version;\n    infer_more;\n")

    rejected(add)


def test_version_node_changed():
    def rename(copy):
        assert copy.map.count("LIBINFER_1 {") == 1
        copy.map = copy.map.replace("LIBINFER_1 {", "LIBINFER_2 {")

    rejected(rename)


def test_soname_changed():
    def rename(copy):
        copy.soname = "libinfer.so.2"

    rejected(rename)


def constant_rejected(pattern, replacement):
    """Constants are in the headers alone: the static asserts are their gate."""
    with copied() as copy:
        assert copy.asserts_hold(), "the asserts fail before anything is broken"
        copy.edit(pattern, replacement)
        assert not copy.asserts_hold(), "lib/api/abi_values.c compiles with the broken header"


def test_enum_renumbered():
    constant_rejected(r"INFER_KV_BF16 = 2,", "INFER_KV_BF16 = 9,")


def test_enum_removed():
    constant_rejected(r"    INFER_KV_BF16 = 2,\n", "")


def test_enum_inserted_without_values():
    """The way enums break most often: an implicit value moves the rest."""
    constant_rejected(r"INFER_KV_F16 = 0,.*?INFER_KV_F32 = 1,\s*INFER_KV_BF16 = 2,", "INFER_KV_F16 = 0, INFER_KV_NEW, INFER_KV_F32, INFER_KV_BF16,")


def test_status_renumbered():
    constant_rejected(r"X\(INFER_ERROR_HOST, -9,", "X(INFER_ERROR_HOST, -10,")


def test_macro_changed():
    constant_rejected(r"#define INFER_ZSTR UINT64_MAX", "#define INFER_ZSTR UINT32_MAX")


tap.main(globals())
