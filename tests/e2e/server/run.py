"""run.py SELFSAME [PATTERN] - the server's cases: functions named after what they show.

A case takes the tools it needs by name: `real` (a served fixture model), `scripted` (a served model
whose replies are written down), `start` (a function that starts another server).
"""

import contextlib
import importlib
import inspect
import os
import re
import sys
import tempfile
import time
import traceback

import harness
import scripts

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODULES = [importlib.import_module(name[:-3]) for name in sorted(os.listdir(FOLDER))
           if re.fullmatch(r"cases_\w+\.py", name)]


def cases(pattern):
    for module in MODULES:
        for name, case in list(vars(module).items()):
            if inspect.isfunction(case) and case.__module__ == module.__name__ and \
                    getattr(case, "is_case", False) and pattern in name:
                yield name, case


def main(program, pattern=""):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        scripted_model = os.path.join(folder, "scripted")
        scripts.write(scripted_model)
        models = {"real": "tests/data/family/smollm2", "scripted": scripted_model}

        def start(model, *flags, **options):
            return harness.Server(program, models[model], *flags, **options)

        start.program = program
        shared = {name: stack.enter_context(start(name, "--parallel", "64")) for name in models}
        tools = {**shared, "start": start, "folder": folder}
        for name, case in cases(pattern):
            begun = time.monotonic()
            try:
                case(**{key: tools[key] for key in inspect.signature(case).parameters})
                for server in shared.values():
                    assert server.is_alive(), "the shared servers stay alive"
                passed += 1
            except Exception:
                failed += 1
                print(f"FAILED {name}")
                traceback.print_exc(file=sys.stdout)
            if time.monotonic() - begun > 2:
                print(f"{name}: {time.monotonic() - begun:.1f} s")
    print(f"{passed} passed, {failed} failed")
    return failed != 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
