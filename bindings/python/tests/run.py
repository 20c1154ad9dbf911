#!/usr/bin/env python3
"""Runs the tests of the Python binding and prints TAP, a line for each: run.py LIBRARY [--sanitized] [PYTEST-ARG...]. Skips, visibly, without pytest."""
import importlib.util
import os
import subprocess
import sys

LIBRARY = os.path.abspath(sys.argv[1])
SANITIZED = "--sanitized" in sys.argv
ARGUMENTS = [argument for argument in sys.argv[2:] if argument != "--sanitized"]
HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = "/usr/bin/python3" # for which a distribution's packages are


def has_all(python):
    return os.path.exists(python) and subprocess.run([python, "-c", "import pytest, numpy"], capture_output=True, check=False).returncode == 0


def choose_python():
    """Goes on with the system's Python where this one lacks something that that one has."""
    lacks = [name for name in ("pytest", "numpy") if importlib.util.find_spec(name) is None]
    if lacks and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM) and has_all(SYSTEM):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    if "pytest" in lacks:
        print("1..0 # SKIP the Python binding: pytest is not installed (python3-pytest)")
        sys.exit(0)


def preload_sanitizer():
    """An interpreter that is not sanitized needs the run-time library first. Leaks are counted by the tests themselves: the interpreter has its own."""
    if "LD_PRELOAD" in os.environ:
        return
    linked = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=False).stdout
    needed = [line.split("=>")[1].split()[0] for line in linked.splitlines() if "=>" in line and ("libasan" in line or "libclang_rt.asan" in line)]
    if not needed or "not found" in needed[0]:
        print("1..0 # SKIP the Python binding: the sanitizer's run-time library is not a shared one")
        sys.exit(0)
    os.environ["LD_PRELOAD"] = needed[0]
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    os.execv(sys.executable, [sys.executable, *sys.argv])


choose_python()
if SANITIZED:
    preload_sanitizer()

import pytest


class Tap:
    """One line for each test: failed in any of setup, call and teardown is failed."""

    def __init__(self):
        self.planned = self.number = 0

    def pytest_configure(self, config):
        config.option.verbose = 1 # what failed comparisons ask for; the terminal's plugin would have it

    def pytest_collection_finish(self, session):
        self.planned = len(session.items)
        print(f"1..{self.planned}", flush=True)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self.reports = []
        yield
        self.number += 1
        name = item.nodeid.replace("#", " ")
        failed = [report for report in self.reports if report.failed]
        skipped = [report for report in self.reports if report.skipped]
        if failed:
            print(f"not ok {self.number} - {name}", flush=True)
            for line in "\n".join(str(report.longreprtext) for report in failed).splitlines():
                print(f"# {line}", flush=True)
        elif skipped:
            print(f"ok {self.number} - {name} # SKIP {skipped[0].longrepr[2]}", flush=True)
        else:
            print(f"ok {self.number} - {name}", flush=True)

    def pytest_runtest_logreport(self, report):
        self.reports.append(report)

    def pytest_collectreport(self, report):
        if report.failed:
            print(f"not ok 1 - collecting {report.nodeid}", flush=True)
            for line in str(report.longreprtext).splitlines():
                print(f"# {line}", flush=True)


def main():
    os.environ["LIBINFER_LIBRARY"] = LIBRARY
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    sys.stdout.reconfigure(errors="backslashreplace") # whatever the locale
    # -s: what tests print is a comment of TAP at worst. No cache and no plugins of the machine: the tree stays as it is, and runs are alike.
    status = pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", "--rootdir", os.path.dirname(HERE), "-c", os.path.join(os.path.dirname(HERE), "pyproject.toml"),
                          HERE, *ARGUMENTS], plugins=[Tap()])
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
