#!/usr/bin/env python3
"""The manifest (infer_capabilities, and the ELF note) against the header and the library's imports: test_capabilities.py LIBRARY [--sanitized]"""
import ctypes
import json
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()
LIBRARY = sys.argv[1]
SANITIZED = "--sanitized" in sys.argv
KEYS = ["library", "network", "processes", "environment", "clock", "locale", "signals", "output", "exit", "code", "threads", "reads", "reads-system",
        "writes", "writes-folders"]
# What a library would import to do what the manifest denies: these may stand in no category at all. Suffixes that libraries add do not count (see plain).
DENIED = {
    "network": "socket socketpair connect bind listen accept accept4 send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg shutdown getaddrinfo gethostbyname "
               "gethostbyname_r getnameinfo getsockname getpeername getsockopt setsockopt res_query inet_pton",
    "processes": "fork vfork clone posix_spawn posix_spawnp execve execv execvp execvpe execl execlp execle fexecve system popen pclose wait wait3 wait4 waitpid "
                 "waitid ptrace daemon setsid prctl unshare setns",
    "environment": "getenv secure_getenv setenv putenv unsetenv clearenv environ __environ _environ",
    "clock": "time clock clock_gettime clock_getres gettimeofday ftime timespec_get localtime localtime_r gmtime gmtime_r mktime nanosleep clock_nanosleep usleep "
             "sleep times timer_create setitimer alarm pthread_cond_timedwait pthread_cond_clockwait",
    "locale": "setlocale newlocale uselocale duplocale freelocale localeconv nl_langinfo strcoll strxfrm toupper tolower isalpha isdigit isspace isalnum isupper "
              "islower isprint ispunct towupper towlower iswalpha mbstowcs wcstombs mbrtowc wcrtomb mbtowc strtod strtof strtold atof __ctype_b_loc "
              "__ctype_tolower_loc __ctype_toupper_loc strftime strerror strerror_r strcasecmp strncasecmp qsort_l",
    "signals": "signal sigaction sigaltstack sigprocmask sigsuspend sigwait sigwaitinfo sigtimedwait signalfd kill killpg raise tgkill pthread_kill sigqueue siginterrupt "
               "feenableexcept",
    "output": "printf fprintf vprintf vfprintf dprintf vdprintf puts putchar putc fputs fputc fwrite fflush perror stdin stdout stderr write writev syslog openlog "
              "isatty tcsetattr tcgetattr fopen fdopen freopen fclose putwchar psignal backtrace_symbols_fd __printf_chk __fprintf_chk __vfprintf_chk __assert_fail",
    "exit": "exit _exit _Exit quick_exit abort atexit at_quick_exit on_exit __cxa_atexit longjmp _longjmp siglongjmp setjmp _setjmp __sigsetjmp err errx verr",
    "code": "dlopen dlmopen dlsym dlvsym mprotect pkey_mprotect memfd_create shm_open mremap",
}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as handle:
        return handle.read()


def notes():
    """(owner, type, descriptor) of every note in section .note.libinfer, and that a loaded segment holds it"""
    with open(LIBRARY, "rb") as handle:
        elf = handle.read()
    assert elf[:6] == b"\x7fELF\x02\x01", "not a little-endian ELF of 64 bits"
    phoff, shoff = struct.unpack_from("<QQ", elf, 32)
    phsize, phnum, shsize, shnum, names = struct.unpack_from("<HHHHH", elf, 54)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, shoff + i * shsize) for i in range(shnum)]
    strings = sections[names][4]
    found = []
    for name, kind, flags, _, offset, size, *_ in sections:
        title = elf[strings + name:elf.index(b"\0", strings + name)]
        if title != b".note.libinfer":
            continue
        assert kind == 7, f"section type {kind}, not SHT_NOTE"
        assert flags & 2, "the section is not loaded"
        segments = [struct.unpack_from("<IIQQQQQQ", elf, phoff + i * phsize) for i in range(phnum)]
        assert any(s[0] == 4 and s[2] <= offset and offset + size <= s[2] + s[5] for s in segments), "no PT_NOTE segment holds it"
        end = offset + size
        while offset < end:
            owner_bytes, text_bytes, note = struct.unpack_from("<III", elf, offset)
            owner = offset + 12
            text = owner + (owner_bytes + 3) // 4 * 4
            assert text + text_bytes <= end, "the note is longer than its section"
            found.append((elf[owner:owner + owner_bytes], note, elf[text:text + text_bytes]))
            offset = text + (text_bytes + 3) // 4 * 4
    return found


def manifest():
    found = notes()
    assert len(found) == 1, f"{len(found)} notes"
    lines = [line.split(": ", 1) for line in found[0][2].rstrip(b"\0").decode("ascii").splitlines()]
    assert all(len(line) == 2 and line[1] == line[1].strip() and line[1] for line in lines), lines
    return lines


def allow_list():
    """{category: [name]}"""
    categories, names = {}, None
    for line in read("tests/abi/imports.allow").splitlines():
        line = line.split("#")[0].strip()
        if re.fullmatch(r"\[[a-z-]+\]", line):
            names = categories.setdefault(line[1:-1], [])
        elif line:
            names.append(line)
    return categories


def headers():
    return "".join(read(os.path.join("include/infer", name)) for name in sorted(os.listdir(os.path.join(ROOT, "include/infer"))))


def nm(path, *kind):
    result = subprocess.run(["nm", *kind, path], check=True, capture_output=True, text=True)
    return {line.split()[-1].partition("@")[0] for line in result.stdout.splitlines()}


def plain(name):
    return re.sub(r"^__|(64)?(_chk)?$", "", name)


def test_note():
    found = notes()
    assert [(owner, kind) for owner, kind, _ in found] == [(b"libinfer\0", 1)], found
    assert found[0][2].endswith(b"\n\0") and found[0][2].count(b"\0") == 1


def test_function_gives_the_note():
    if SANITIZED:
        raise tap.Skip("a sanitized library needs a sanitized program")
    library = ctypes.CDLL(LIBRARY)
    library.infer_capabilities.restype = ctypes.c_char_p
    library.infer_version.restype = ctypes.c_char_p
    assert library.infer_capabilities() + b"\0" == notes()[0][2]
    assert dict(manifest())["library"] == "libinfer " + library.infer_version().decode()


def test_keys():
    assert [key for key, _ in manifest()] == KEYS
    described = re.search(r"/\* What the library can do to its host.*?\*/", headers(), re.DOTALL).group(0)
    assert re.findall(r"^ \*     ([a-z-]+)  ", described, re.MULTILINE) == KEYS, "the header describes other keys"


def test_named_functions_and_options_exist():
    text = headers()
    functions = set(re.findall(r"^INFER_API [^;(]*?\b(infer_\w+)\(", text, re.MULTILINE))
    values = dict(manifest())
    for key in ("reads", "writes"):
        names = values[key].split()
        assert len(names) == len(set(names)) > 3, (key, names)
        assert set(names) <= functions, f"{key}: no such function: {set(names) - functions}"
    for key in ("threads", "writes-folders"):
        for option in values[key].split():
            name, field = option.split(".")
            body = re.search(r"typedef struct " + name + r" \{(.*?)\n\} " + name + ";", text, re.DOTALL)
            assert body and re.search(r"\b" + field + r"\b\s*;", body.group(1)), f"{key}: no such option: {option}"


def test_every_taker_of_a_written_path_is_named():
    """A prototype that takes a path, and is not said to read only, stands among the writers, so that a new one is not forgotten."""
    values = dict(manifest())
    takers = set(re.findall(r"^INFER_API [^;(]*?\b(infer_\w+)\([^;]*?\bconst char \*(?:path|to)\b", headers(), re.MULTILINE))
    assert takers >= {"infer_checkpoint_save", "infer_checkpoint_clone_file", "infer_store_open"}, takers
    unknown = takers - set(values["writes"].split()) - set(values["reads"].split())
    assert not unknown, f"takes a path and is not in the manifest: {unknown}"
    stores = {name for name in re.findall(r"^INFER_API infer_status (infer_store_\w+)\(", headers(), re.MULTILINE)}
    assert stores <= set(values["writes"].split()) | set(values["reads"].split()), stores


def test_denied_categories_are_empty():
    categories = allow_list()
    denied = {key for key, value in manifest() if value == "none"}
    assert denied == set(DENIED), denied ^ set(DENIED)
    for key in denied:
        assert categories.get(key) == [], f"the manifest says \"{key}: none\"; imports.allow has {categories.get(key)}"


def test_no_category_hides_what_is_denied():
    allowed = [name for names in allow_list().values() for name in names]
    imported = [] if SANITIZED else nm(LIBRARY, "-D", "--undefined-only")
    assert SANITIZED or len(imported) > 30, "nm did not work"
    for key, names in DENIED.items():
        names = set(names.split())
        bad = {name for name in [*allowed, *imported] if name in names or plain(name) in names}
        assert not bad, f"the manifest says \"{key}: none\": {bad}"


def test_files_are_touched_in_one_place():
    """Only lib/base/os_*.c read and write files, so that there is one place to look at, and one to fail in tests."""
    if SANITIZED:
        raise tap.Skip("the sanitizers import what they need")
    categories = allow_list()
    seam = set(categories["reads"] + categories["writes"]) - {"__errno_location", "mmap", "mmap64", "munmap"}
    assert {"open", "pwrite", "unlink"} <= seam
    build = os.path.dirname(os.path.dirname(LIBRARY))
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as handle:
        objects = [c["output"] for c in json.load(handle) if c["output"].startswith("lib/")]
    assert len(objects) > 50
    users = {path for path in objects if nm(os.path.join(build, path), "--undefined-only") & seam}
    stray = [path for path in users if not re.search(r"/base_os_\w+\.c\.o$", path)]
    assert users and not stray, f"{stray} reach for files themselves"


def test_system_files_are_those_of_the_source():
    found = set(re.findall(r'"(/(?:proc|sys|dev|etc|usr|tmp)[^"%]*)"', "".join(
        read(os.path.join(base, name)[len(ROOT) + 1:]) for base, _, names in os.walk(os.path.join(ROOT, "lib")) for name in names
        if name.endswith((".c", ".h")) and name != "api_capabilities.c")))
    assert found == set(dict(manifest())["reads-system"].split()), found


tap.main(globals())
