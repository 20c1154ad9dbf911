#!/usr/bin/env python3
"""The tests of the Rust binding as TAP: run_tests.py BUILD-FOLDER [--sanitized].

Runs cargo, without a network, against the library in the build folder, with a target folder inside it: the generated bindings, cargo test (each
of its cases is one here), clippy, the documentation, and the oldest compiler that it is for, where those are there."""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(sys.argv[1])
SYSTEM_CARGO, SYSTEM_RUSTC = "/usr/bin/cargo", "/usr/bin/rustc"
CASE = re.compile(r"^test (.*?) \.\.\. (ok|FAILED|ignored)")


class Tap:
    """Cases as they come; the plan is told at the end."""

    def __init__(self):
        self.count = self.failed = 0

    def case(self, name, good, skip=None, text=""):
        self.count += 1
        self.failed += not good
        name = name.replace("#", "")
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}" + (f" # SKIP {skip}" if skip else ""), flush=True)
        if not good:
            print("".join(f"# {line}\n" for line in text.splitlines()), end="", flush=True)

    def end(self):
        print(f"1..{self.count}")
        return 1 if self.failed else 0


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def environment(target, **more):
    lib = os.path.join(BUILD, "lib")
    paths = [lib] + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(BUILD, target), CARGO_NET_OFFLINE="true", LIBINFER_LIB_DIR=lib,
               LD_LIBRARY_PATH=":".join(paths), CARGO_TERM_COLOR="never")
    env.update(more)
    return {name: value for name, value in env.items() if value is not None}


def run(command, env):
    """(whether it went well, what it printed)."""
    result = subprocess.run(command, cwd=HERE, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                            errors="replace", stdin=subprocess.DEVNULL)
    return result.returncode == 0, result.stdout


def cargo_test(tap, cargo):
    good, text = run([cargo, "test", "--offline", "--locked", "--workspace", "--no-fail-fast"], environment("rust"))
    cases = [match.groups() for match in map(CASE.match, text.splitlines()) if match]
    for name, result in cases:
        tap.case(name, result != "FAILED", "ignored" if result == "ignored" else None, f"{name} failed: see below")
    if not good or not cases:
        tap.case("cargo test", False, None, text)


def check(tap, name, command, env):
    good, text = run(command, env)
    tap.case(name, good, None, text)


def refused(tap, name, words, cargo, arguments, **more):
    """A build that must fail, with these words."""
    good, text = run([cargo, "check", "--offline", "--locked", "-p", "libinfer-sys"] + arguments, environment("rust-refused", **more))
    tap.case(name, not good and words in text, None, text)


def library_checks(tap, cargo):
    """A library that is missing, or too old, is told before anything is compiled."""
    empty = os.path.join(BUILD, "rust-empty")
    os.makedirs(empty, exist_ok=True)
    refused(tap, "a_folder_without_the_library_is_refused", "has no libinfer.so.1", cargo, [], LIBINFER_LIB_DIR=empty)
    old = os.path.join(empty, "old-pkg-config") # says that it has 0.1.0
    with open(old, "w", encoding="utf-8") as script:
        script.write("#!/bin/sh\ncase \"$1\" in --modversion) echo 0.1.0 ;; --version) echo 1.8 ;; *) exit 1 ;; esac\n")
    os.chmod(old, 0o755)
    for number, words in ((old, "no libinfer 1.0.0 or newer"), ("/nowhere/pkg-config", "Install libinfer")):
        name = "an_old_library_is_refused" if number == old else "no_pkg_config_is_told"
        refused(tap, name, words, cargo, ["--no-default-features"], PKG_CONFIG=number, LIBINFER_LIB_DIR=None)


def version_of(rustc):
    result = subprocess.run([rustc, "--version"], capture_output=True, text=True, check=False)
    return result.stdout.split()[1] if result.returncode == 0 and len(result.stdout.split()) > 1 else ""


def main():
    cargo = shutil.which("cargo") or shutil.which(os.path.expanduser("~/.cargo/bin/cargo"))
    if not cargo:
        skip_all("no cargo")
    if "--sanitized" in sys.argv:
        skip_all("a library with a sanitizer cannot be loaded into a Rust program")
    sys.stdout.reconfigure(errors="backslashreplace") # whatever the locale
    os.environ["PATH"] = os.path.dirname(cargo) + ":" + os.environ.get("PATH", "")
    tap = Tap()
    check(tap, "bindings_are_those_of_the_headers", [sys.executable, os.path.join(ROOT, "scripts/gen-rust"), "--check"], dict(os.environ))
    cargo_test(tap, cargo)
    library_checks(tap, cargo)
    if run([cargo, "clippy", "--version"], dict(os.environ))[0]:
        command = [cargo, "clippy", "--offline", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]
        check(tap, "clippy", command, environment("rust-clippy"))
    else:
        tap.case("clippy", True, "no clippy")
    check(tap, "documentation", [cargo, "doc", "--offline", "--locked", "--workspace", "--no-deps"],
          environment("rust-clippy", RUSTDOCFLAGS="-D warnings"))
    old = version_of(SYSTEM_RUSTC) if os.path.exists(SYSTEM_CARGO) and os.path.exists(SYSTEM_RUSTC) else ""
    if old and cargo != SYSTEM_CARGO:
        check(tap, "compiles_with_the_system_s_rustc", [SYSTEM_CARGO, "check", "--offline", "--locked", "--workspace", "--all-targets"],
              environment("rust-system", RUSTC=SYSTEM_RUSTC, RUSTFLAGS="-D warnings"))
    else:
        tap.case("compiles_with_the_system_s_rustc", True, "there is no second one")
    sys.exit(tap.end())


main()
