"""What the Python tests share: cases in TAP. A case fails by raising; Skip skips it, visibly."""
import os
import sys
import traceback


class Skip(Exception):
    pass


def run(cases, only=None):
    """cases: functions, named test_*. The exit status is 0 when none failed."""
    chosen = [case for case in cases if not only or only in case.__name__]
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, case in enumerate(chosen, 1):
        try:
            case()
            print(f"ok {number} - {case.__name__}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {case.__name__} # SKIP {reason}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {case.__name__}", flush=True)
            for line in traceback.format_exc().splitlines():
                print(f"# {line}", flush=True)
    return 1 if failed or not chosen else 0


def cases_of(namespace):
    return [value for name, value in namespace.items() if name.startswith("test_") and callable(value)]


def source_dir():
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(namespace):
    sys.exit(run(cases_of(namespace)))
