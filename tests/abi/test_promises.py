"""docs/promises.md: every promise has a test that exists and runs, and a recorded mutation that the test is known to notice: test_promises.py [--patches]. TAP."""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()
TESTS = os.path.join(ROOT, "tests")
MUTATIONS = os.path.join(TESTS, "mutations")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def rows():
    """[(promise, test, case, mutation)]"""
    found = re.findall(r"^\| (.+?) \| `(\w+)(?: ([^`]+))?` \| `([\w.-]+)` \|$", read(os.path.join(ROOT, "docs", "promises.md")), re.MULTILINE)
    return found


def registered():
    places = (f"{TESTS}/**/meson.build", f"{ROOT}/bindings/*/meson.build")
    files = [re.sub(r"#.*", "", read(p)) for place in places for p in glob.glob(place, recursive=True)]
    return {word for text in files for word in re.findall(r"'([^']*)'", text)}


def sources_of(test):
    """The text of the test's program, and of what it shares with others in its folder. Of a binding's suite: its files, names included."""
    if test.startswith("bindings_"):
        paths = [p for kind in ("py", "rs") for p in glob.glob(f"{ROOT}/bindings/{test[9:]}/**/*.{kind}", recursive=True) if "/target/" not in p]
        return "\n".join(os.path.basename(p) + "\n" + os.path.basename(p).split(".")[0] + "\n" + read(p) for p in paths) or None
    paths = [p for p in glob.glob(f"{TESTS}/**/{test}.*", recursive=True) if p.endswith((".c", ".py"))]
    if not paths:
        return None
    folder = os.path.dirname(paths[0])
    shared = [p for p in glob.glob(f"{folder}/*.[ch]") if not os.path.basename(p).startswith("test_")]
    return "\n".join(read(p) for p in paths + shared)


def problems_of(test, case, words):
    text = sources_of(test)
    if text is None:
        return [f"{test}: there is no such program"]
    if not {test, f"{test}.c", f"{test}.py"} & words and not test.startswith("fuzz_"):
        return [f"{test}: no meson.build runs it"]
    corpus = re.fullmatch(r"\((tests/fuzz/corpus/\w+)\)", case)
    if corpus:
        return [] if os.path.isdir(os.path.join(ROOT, corpus[1])) else [f"{test}: there is no {corpus[1]}"]
    parts = [p.strip() for p in re.split(r"[:,]", case) if p.strip()]
    return [f"{test}: nothing in it is called {part!r}" for part in parts if part not in text]


def patch_head(name):
    text = read(os.path.join(MUTATIONS, name + ".patch"))
    return tuple(re.search(rf"^# {key}: (.+)$", text, re.MULTILINE)[1].strip() for key in ("promise", "test"))


def test_every_test_exists():
    words = registered()
    table = rows()
    assert len(table) > 60, len(table)
    bad = [problem for _, test, case, _ in table for problem in problems_of(test, case, words)]
    assert not bad, "\n".join(bad)


def test_every_promise_was_broken_once():
    table = {mutation: f"{test} {case}".strip() for _, test, case, mutation in rows()}
    patches = {os.path.basename(p)[:-6] for p in glob.glob(f"{MUTATIONS}/*.patch")}
    assert set(table) == patches, (sorted(set(table) - patches), sorted(patches - set(table)))
    bad = [name for name in sorted(patches) if patch_head(name)[1] != table[name]]
    assert not bad, f"the patch names another test than the table: {bad}"


def test_mutations_still_apply():
    if "--patches" not in sys.argv:
        raise tap.Skip("in the suite slow: code that is mended may move a patch, which is then made anew before a release")
    if not shutil.which("git") or not os.path.exists(os.path.join(ROOT, ".git")):
        raise tap.Skip("not a git checkout")
    bad = []
    for path in sorted(glob.glob(f"{MUTATIONS}/*.patch")):
        result = subprocess.run(["git", "apply", "--recount", "--check", path], cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode:
            bad.append(f"{os.path.basename(path)}: {result.stderr.strip().splitlines()[0]}")
    assert not bad, "\n".join(bad)


def test_the_check_finds_what_is_wrong():
    words = registered()
    assert problems_of("test_callers", "test_outputs", words) == []
    assert problems_of("test_callers", "test_output_of_nothing", words)
    assert problems_of("test_callees", "", words)


if __name__ == "__main__":
    tap.main(globals())
