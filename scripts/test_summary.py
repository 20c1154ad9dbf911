#!/usr/bin/env python3
"""Counts test cases in meson's testlog.json: test_summary.py TESTLOG MESON-STATUS.

Every test of the project prints TAP (cmocka's way of it included: "not ok N # SKIP" is a skipped case). A test that crashed, ran out of time, or gave no case counts as one failure.
Ends with "N passed, N failed, N skipped"; the exit status is 0 when none failed."""
import json
import re
import sys

CASE = re.compile(r"^(not )?ok\b[^#\n]*(#\s*skip)?", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)")
PLAN_SKIP = re.compile(r"^1\.\.0\b.*#\s*skip", re.IGNORECASE)


def count(record):
    """(passed, failed, skipped, remark) of one test."""
    passed = failed = skipped = planned = 0
    for line in record.get("stdout", "").splitlines():
        case = CASE.match(line)
        plan = PLAN.match(line)
        planned += int(plan.group(1)) if plan else 0
        if case:
            if case.group(2):
                skipped += 1
            elif case.group(1):
                failed += 1
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
    return passed, failed, skipped, ""


def main():
    passed = failed = skipped = 0
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            records = [json.loads(line) for line in log if line.strip()]
    except OSError as error:
        print(f"no test log: {error}")
        records = []
    if not records:
        print("no test was run")
        failed = 1
    for record in records:
        p, f, s, remark = count(record)
        passed, failed, skipped = passed + p, failed + f, skipped + s
        if f:
            print(f"FAILED {record['name']}: {f} of {p + f + s} {remark}".rstrip())
    if sys.argv[2] != "0" and failed == 0:
        print(f"meson test ended with status {sys.argv[2]}")
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
