"""compare_template.py - render conversations with bench-template and with the real Jinja2.

Needs: PyPI jinja2; make build/release/bench-template.

    compare_template.py BENCH [--show N] PATH...

PATH is a template, or a folder whose *.jinja files and tokenizer_config.json's chat_template are
taken.  Both must give the same text, or both must fail.  Exit status 1 when one differed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jinja_reference
import template_conversations

NOW = 1767942300  # 2026-01-09 07:05 UTC


def templates_of(path, scratch):
    """Files, each once by content."""
    path = pathlib.Path(path)
    if path.is_file() and path.suffix != ".json":
        yield path
        return
    yield from sorted(path.rglob("*.jinja"))
    for config in [path] if path.is_file() else sorted(path.rglob("tokenizer_config.json")):
        template = json.loads(config.read_text()).get("chat_template")
        named = template if isinstance(template, list) else [{"name": "", "template": template}]
        for one in named:
            if isinstance(one["template"], str):
                out = pathlib.Path(scratch) / (str(config).replace("/", "+") + one["name"] + ".jinja")
                out.write_text(one["template"], newline="")
                yield out


def reference(template, conversation):
    try:
        return template.render(**conversation)
    except Exception as error:  # any failure of theirs must be one of ours
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--show", type=int, default=1, help="differences printed for a template")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    conversations = list(template_conversations.conversations())
    env = jinja_reference.environment(NOW)
    n_templates = n_total = n_failing = n_differ = 0
    seen = set()
    with tempfile.TemporaryDirectory() as scratch:
        for path in (p for a in args.paths for p in templates_of(a, scratch)):
            source = open(path, encoding="utf-8", newline="").read()
            if source in seen:
                continue
            seen.add(source)
            blob = "".join(json.dumps({"template": str(path), "variables": c, "now": NOW}) + "\n"
                           for c in conversations)
            out = subprocess.run([args.bench], input=blob, text=True, stdout=subprocess.PIPE, check=True,
                                 env={**os.environ, "TZ": "UTC"}).stdout
            ours = [json.loads(line) for line in out.split("\n")[:-1]]
            try:
                template = env.from_string(source)
                theirs = [reference(template, c) for c in conversations]
            except Exception as error:
                theirs = [{"error": f"{type(error).__name__}: {error}"}] * len(conversations)
            bad = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
                   if a != b and not (isinstance(a, dict) and isinstance(b, dict))]
            n_templates += 1
            n_total += len(ours)
            n_failing += sum(isinstance(b, dict) for b in theirs)
            n_differ += len(bad)
            if bad:
                print(f"{path}: {len(bad)} of {len(ours)} differ")
            for i in bad[:args.show]:
                print(f"  conversation {i}\n    ours   {show(ours[i], theirs[i])}\n    theirs {show(theirs[i], ours[i])}")
    print(f"{n_templates} templates x {len(conversations)} conversations: {n_total} renderings, "
          f"{n_failing} of which Jinja2 refuses, {n_differ} differences")
    sys.exit(n_differ > 0)


def show(a, b):
    """Around the first difference."""
    if not isinstance(a, str) or not isinstance(b, str):
        return repr(a)[:300]
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"...{a[max(0, at - 60):at + 60]!r}"


main()
