"""Named checks against a running gateway: each prints one line, and the exit status is the number that failed."""

import os
import sys
import traceback

BASE_URL = os.environ["GATEWAY"]
KEY = os.environ.get("GATEWAY_KEY", "none")
MODEL = os.environ["GATEWAY_MODEL"]
CHECKS = []


def check(function):
    """Adds a check; its name is the promise."""
    CHECKS.append(function)
    return function


def run():
    """Runs those that are named, or all."""
    wanted = sys.argv[1:]
    failed = 0
    for function in CHECKS:
        name = function.__name__
        if wanted and name not in wanted:
            continue
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    if wanted and not set(wanted) <= {function.__name__ for function in CHECKS}:
        print(f"FAILED: no such check among {wanted}")
        failed += 1
    print(f"{len(CHECKS)} checks, {failed} failed")
    sys.exit(min(failed, 100))
