#!/usr/bin/env python3
"""Counts test cases: test_summary.py LOG STATUS [LOG STATUS...]. LOG is meson's testlog.json, or the TAP of one program; STATUS is what
meson test, or the program, ended with.

Every test of the project prints TAP (cmocka's way of it included: "not ok N # SKIP" is a skipped case). A test that crashed, ran out of time, or gave no case counts as one failure.
Ends with "N passed, N failed, N skipped"; the exit status is 0 when none failed."""
import json
import os
import re
import sys

CASE = re.compile(r"^(not )?ok\b[^#\n]*(#\s*skip)?", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)")
VARIANT = re.compile(r"^# variant (\w+) +(?:(\d+) cases|skipped)")
POINTS = re.compile(r"^# in all (\d+) of (\d+) failing points", re.MULTILINE)
PLAN_SKIP = re.compile(r"^1\.\.0\b.*#\s*skip", re.IGNORECASE)


def count(record):
    """(passed, failed, skipped, remark) of one test. The remark names the cases that failed."""
    passed = failed = skipped = planned = 0
    names = []
    for line in record.get("stdout", "").splitlines():
        case = CASE.match(line)
        plan = PLAN.match(line)
        planned += int(plan.group(1)) if plan else 0
        if case:
            if case.group(2):
                skipped += 1
            elif case.group(1):
                failed += 1
                names.append(line.split(" - ", 1)[-1].strip())
            else:
                passed += 1
        elif PLAN_SKIP.match(line):
            skipped += 1
    result = record.get("result", "?")
    if result not in ("OK", "SKIP", "EXPECTEDFAIL") and failed == 0:
        return passed, 1, skipped, f"ended with {result}"
    if passed + failed + skipped == 0:
        return 0, 1, 0, "gave no test case"
    if passed + failed + skipped < planned:
        return passed, failed + 1, skipped, f"stopped before the last of {planned} cases"
    return passed, failed, skipped, f"({'; '.join(names)})" if names else ""


def records_of(path, status):
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            text = log.read()
    except OSError as error:
        print(f"no test log: {error}")
        return []
    if path.endswith(".tap"):
        result = "OK" if status == "0" else f"status {status}"
        return [{"name": os.path.basename(path), "stdout": text, "result": result}]
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def variants_of(record, cases):
    """Adds what the kernel parity tests (tests/kernels/parity.h) compared to cases: {variant: number, or None when it cannot run}."""
    for line in record.get("stdout", "").splitlines():
        match = VARIANT.match(line)
        if match and match.group(2):
            cases[match.group(1)] = (cases.get(match.group(1)) or 0) + int(match.group(2))
        elif match:
            cases.setdefault(match.group(1), None)


def count_log(path, status, cases):
    """(passed, failed, skipped) of one log."""
    passed = failed = skipped = 0
    records = records_of(path, status)
    if not records:
        print("no test was run")
        failed = 1
    for record in records:
        p, f, s, remark = count(record)
        for tried, points in POINTS.findall(record.get("stdout", "")):
            print(f"{record['name'].split()[-1]}: {tried} of {points} failing points tried")
        variants_of(record, cases)
        passed, failed, skipped = passed + p, failed + f, skipped + s
        if f:
            print(f"FAILED {record['name']}: {f} of {p + f + s} {remark}".rstrip())
    if status != "0" and failed == 0:
        print(f"meson test ended with status {status}")
        failed = 1
    return passed, failed, skipped


def main():
    cases = {}
    counts = [count_log(*pair, cases) for pair in zip(sys.argv[1::2], sys.argv[2::2])] or [(0, 1, 0)]
    if cases:
        print("kernel cases equal to scalar, by variant: " + ", ".join(f"{n} {c if c else 'skipped'}" for n, c in cases.items()))
    passed, failed, skipped = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
