"""compare_expressions.py - template_expressions.py with bench-template and with the real Jinja2.

    compare_expressions.py BENCH [--all]

Prints the templates that differ, with --all also those that only the program refuses; exit status
1 when any differ.
"""
import copy
import json
import os
import re
import subprocess
import sys

import jinja_reference
import template_expressions

NOW = 1767942300


def reference(env, source):
    try:
        return env.from_string(source).render(**copy.deepcopy(template_expressions.VALUES))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    env = jinja_reference.environment(NOW)
    sources = list(dict.fromkeys(template_expressions.expressions()))
    blob = json.dumps({"source": "", "variables": template_expressions.VALUES, "now": NOW}) + "\n"
    blob += "".join(json.dumps({"source": s}) + "\n" for s in sources)
    out = subprocess.run([sys.argv[1]], input=blob, text=True, errors="replace", stdout=subprocess.PIPE, check=True,
                         env={**os.environ, "TZ": "UTC"}).stdout
    ours = [json.loads(line) for line in out.split("\n")[1:-1]]
    n_differ = n_refused = 0
    for source, a, b in zip(sources, ours, (reference(env, s) for s in sources), strict=True):
        if a == b or isinstance(b, dict) and isinstance(a, dict):
            continue
        if isinstance(a, dict):
            if re.search(r" at 0x[0-9a-f]+>|0X[0-9A-F]+>", b):
                continue  # an address: nothing could print that
            n_refused += 1
            if "--all" not in sys.argv:
                continue
        n_differ += not isinstance(a, dict)
        print(source, "\n   ours  ", repr(a)[:200], "\n   theirs", repr(b)[:200])
    print(f"{len(sources)} templates: {n_differ} differ, {n_refused} that Jinja2 takes are refused")
    sys.exit(n_differ > 0)


main()
