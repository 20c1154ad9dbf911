#!/usr/bin/env python3
"""The system calls that a scenario of nearly everything really makes, by strace, against the list of docs/security.md: test_guest_calls.py PROGRAM [--sanitized]"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

PROGRAM = sys.argv[1]
# On the list for other systems, sources of files or versions of the C library than this scenario meets.
ELSEWHERE = {"brk", "clone", "clone3", "exit_group", "fcntl", "fstat", "getrandom", "madvise", "mprotect", "newfstatat", "pread64", "sched_yield", "sysinfo", "rseq", "rt_sigaction",
             "set_robust_list", "read"}


def documented():
    with open(os.path.join(tap.source_dir(), "docs", "security.md"), encoding="utf-8") as handle:
        return set(re.search(r"```seccomp\n(.*?)```", handle.read(), re.DOTALL).group(1).split())


def traced():
    """The lines between the scenario's two marks."""
    if "--sanitized" in sys.argv:
        raise tap.Skip("the sanitizers make calls of their own")
    if not shutil.which("strace"):
        raise tap.Skip("no strace")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        result = subprocess.run(["strace", "-f", "-qq", "-o", log, PROGRAM, "--scenario"], capture_output=True, check=False)
        if result.returncode and b"ptrace" in result.stderr.lower():
            raise tap.Skip("strace may not trace here")
        assert result.returncode == 0, result
        with open(log, encoding="utf-8", errors="replace") as handle:
            lines = handle.read().splitlines()
    marks = [number for number, line in enumerate(lines) if "getppid(" in line]
    assert len(marks) == 2, marks
    return lines[marks[0] + 1:marks[1]]


def test_calls():
    lines = traced()
    found = [re.match(r"\d+ +(?:<\.\.\. (\w+) resumed|(\w+)\()", line) for line in lines]
    calls = {match.group(1) or match.group(2) for match in found if match}
    print("# " + " ".join(sorted(calls)))
    assert len(calls) > 8, calls
    assert calls <= documented(), f"not in docs/security.md: {calls - documented()}"
    unused = documented() - calls - ELSEWHERE - {"exit"}
    assert not unused, f"docs/security.md lists what is never called: {unused}"


def test_files_are_opened_to_be_read():
    opened = [line for line in traced() if "openat(" in line]
    assert opened
    for line in opened:
        assert "O_RDONLY" in line and "O_CLOEXEC" in line and not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", line), line
        assert re.search(r'"[^"]*(tiny\.gguf|/no/such/[^"]*|/dev/null/?|/proc/self/cgroup|/sys/devices/system/cpu[^"]*|/sys/fs/cgroup[^"]*)"', line), f"opened: {line}"


tap.main(globals())
