"""tests/README.md: every row of hostile-inputs has its tests, and every test that is named there exists and runs."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

TESTS = os.path.join(tap.source_dir(), "tests")
ROWS = [f"N{n:02}" for n in [*range(1, 20), 23, 29, 30, 31]]
NOT_BUILT = {"N11"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def table():
    rows = {}
    for line in read(os.path.join(TESTS, "README.md")).splitlines():
        found = re.match(r"\| (N\d\d(?:, N\d\d)*) \|.*\| (.*) \|$", line)
        for row in found.group(1).split(", ") if found else []:
            rows.setdefault(row, []).extend(re.findall(r"`([^`]*)`", found.group(2)))
    return rows


def registered():
    """Every word in quotes in the meson files of the tests."""
    files = [re.sub(r"#.*", "", read(path)) for path in glob.glob(f"{TESTS}/**/meson.build", recursive=True)]
    return {word for text in files for word in re.findall(r"'([^']*)'", text)}


def problems_of(entry, words):
    file, _, cases = entry.partition(": ")
    path = os.path.join(TESTS, file)
    if not os.path.isfile(path):
        return [f"{entry}: there is no file {file}"]
    name = os.path.basename(file)
    if not {name, os.path.splitext(name)[0], file} & words:
        return [f"{entry}: no meson.build runs {name}"]
    text = read(path)
    bad = []
    for case in [case for case in cases.split(", ") if case]:
        defined = re.search(rf"(static [\w ]+[ *]|def ){re.escape(case)}(\(|\[\])", text)
        used = len(re.findall(rf"\b{re.escape(case)}\b", text)) > 1 or file.endswith(".py")
        if not defined or not used:
            bad.append(f"{entry}: {case} is not defined, or not used, in {file}")
    return bad


def test_every_row_has_tests():
    rows = table()
    missing = [row for row in ROWS if row not in NOT_BUILT and not rows.get(row)]
    assert not missing, missing
    assert sum(len(entries) for entries in rows.values()) > 60


def test_every_test_exists():
    words = registered()
    bad = [problem for entries in table().values() for entry in entries for problem in problems_of(entry, words)]
    assert not bad, "\n".join(bad)


def test_the_check_finds_what_is_wrong():
    words = registered()
    assert problems_of("formats/test_gguf_bad.c: test_n01_truncated", words) == []
    assert problems_of("formats/test_gguf_bad.c: test_n01_truncate", words)
    assert problems_of("formats/test_gguf_worse.c: test_n01_truncated", words)
    assert problems_of("formats/gguf_build.h", words)


if __name__ == "__main__":
    tap.main(globals())
