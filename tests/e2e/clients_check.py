"""clients_check.py - counting checks."""

passed = failed = 0


def check(name, condition, seen=None):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print("FAILED:", name, "" if seen is None else seen)


def refused(name, kind, part, call):
    try:
        call()
        check(name + ": was not refused", False)
    except kind as error:
        text = f"{error} {error.body}"
        check(name, part in text, text)


def report():
    print(f"{passed} passed, {failed} failed")
    return failed != 0
