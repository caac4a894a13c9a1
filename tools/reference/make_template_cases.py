"""make_template_cases.py - stores what the real Jinja2, configured as transformers'
apply_chat_template configures it, makes of templates, under tests/data/template.

    make_template_cases.py BENCH

Needs PyPI jinja2 and make build/release/bench-template.  cases.jsonl: {"template", "expected"} a
line, "variables" where they change, expected null where Jinja2 fails; of the templates of
template_expressions.py one in four, without those that the program refuses by name (counted here,
listed by compare_expressions.py).  conversations.jsonl, and renderings.jsonl: {"template": NAME,
"sha256": [...]}, the digests of the conversations under each template of real/.  Run from the
repository's root.
"""

import copy
import hashlib
import json
import pathlib
import re
import subprocess
import sys

import jinja_reference
import template_expressions
import template_conversations

FOLDER = pathlib.Path("tests/data/template")
NOW = 1767942300  # 2026-01-09 07:05 UTC, what strftime_now() shows
ENV = jinja_reference.environment(NOW)

VALUES = {"a": 3, "b": -7, "f": 2.5, "s": "Hello Wörld", "e": "", "n": None, "t": True,
          "l": [3, 1, 2], "d": {"x": 1, "y": [1, 2], "z": {"k": "v"}}, "w": ["b", "A", "c", "a"],
          "u": [{"n": "x", "v": 2}, {"n": "y", "v": 1}, {"n": "x", "v": 0}], "ws": "  pad \n"}

EXPRESSIONS = """a + b|a - b|a * b|a / b|a // b|b // a|a % b|b % a|a ** 2|-a|+a|a / 2|7 // 2.0|f * 2|1e3|1_000|0.1 + 0.2
a == 3|a != 3|1 < a < 5|1 < a > 5|a in l|9 not in l|'x' in d|'lo' in s|not a|a and e|e or 'z'|a if t else b|a if n else b|a if n
s.upper()|s.lower()|s.title()|s.capitalize()|s.split()|s.split('l')|s.split('l', 1)|s.rsplit('l', 1)|s.replace('l', 'L')|s.replace('l','L',1)
s.strip('Hd')|ws.strip()|ws.lstrip()|ws.rstrip()|s.startswith('He')|s.endswith(('x','ld'))|s.find('W')|s.find('q')|s.count('l')|s.index('W')
s[0]|s[-1]|s[1:4]|s[::-1]|s[:-2]|s[6:]|l[0]|l[-1]|l[9]|l[1:]|l[::-1]|l[::2]|s[2:1]|d.x|d['x']|d.nope|d.nope is defined|d.z.k|d['z']['k']
l + [4]|l * 2|(1, 2)|(1,)|()|[]|{}|{'a': 1, 'b': [None, True, 1.0]}|'a' 'b'|'a' ~ 1 ~ none|s ~ a|"it's"|'say "hi"'|["it's", 'a"b']|'\\n\\t\\\\'
l|length|s|length|d|length|l|first|l|last|l|sort|w|sort|w|sort(case_sensitive=true)|l|sort(reverse=true)|u|sort(attribute='v')|l|reverse|list|l|join(',')|w|join|l|sum|l|max|w|min
u|map(attribute='n')|join|u|map(attribute='v')|list|w|map('upper')|list|w|map('replace','a','z')|list|l|select('odd')|list|l|reject('odd')|list|l|select('gt', 1)|list
u|selectattr('v')|list|length|u|selectattr('n','equalto','x')|map(attribute='v')|list|u|rejectattr('n','eq','x')|list|u|groupby('n')|length|w|unique|list|[1,1,2]|unique|list
d|items|list|d|dictsort|d.items()|list|d.keys()|list|d.values()|list|d.get('x')|d.get('q')|d.get('q', 5)|d|list|l|batch(2)|list|s|list|s|trim|ws|trim|s|default('q')|nope|default('q')|e|default('q', true)|nope|d('z')
s|upper|s|lower|s|title|s|capitalize|s|replace('o','0')|s|wordcount|s|center(20)|'a\nb'|indent|'a\nb'|indent(2, true)|'%s-%d'|format('x', 3)|'%05.1f' % 3.14159|'<&>'|e|s|urlencode
a|string|'42'|int|'x'|int|'4.7'|int|'4.7'|float|f|int|3.7|round|3.14159|round(2)|2.5|round|3.2|round(0,'ceil')|b|abs|a|float|true|int
d|tojson|u|tojson(indent=2)|s|tojson|n|tojson|t|tojson|f|tojson|[]|tojson|{}|tojson(indent=2)|d|tojson(separators=(',', ':'))|{'b':1,'a':2}|tojson(sort_keys=true)|'\"\\\\/'|tojson
a is number|a is integer|f is float|s is string|l is sequence|d is mapping|n is none|t is boolean|t is true|a is odd|b is even|l is iterable|nope is undefined|a is divisibleby 3|a is eq 3|a is in [3]|s is lower|'ab' is lower
nope|nope ~ 'x'|nope|length|nope|list|nope == nope|none|true|false|True|None|[none, true]|a is not none|n is not defined|nope.x|nope + 1|1 / 0|l.append(1)|s.nope|s.nope is defined|a.b
range(3)|list|range(1, 10, 3)|list|range(5, 0, -2)|list|dict(a=1)|dict(a=1).a|namespace(x=1).x|'{} {}'.format(1, 'b')|'{0}{1}{0}'.format('a','b')|','.join(w)|'a,b'.split(',')[1]|'abc'|reverse
1.0|1e16|1e-5|123456789.123|-0.0|2 ** 10|2 ** -1|10 // 3 * 3 + 10 % 3|'a' * 3|'a' < 'b'|[1, 2] < [1, 3]|(1, 2) == (1, 2)|'a' in ['a']|1 == 1.0|1 == true|'1' == 1|not n and t|(a, b)|first|'ä'|upper|'ß'|lower|'x'.isdigit()|'12'.isdigit()|'ab'.isalpha()|' '.isspace()|'Ab'.islower()
'a.b.c'.rsplit('.', 1)|'a.b.c'.partition('.')|'abc'.removeprefix('a')|'abc'.removesuffix('c')|'a\\nb'.splitlines()|'7'.zfill(3)|'x'.ljust(3) ~ '|'""".split("\n")

STATEMENTS = [
    "{% for i in l %}{{ loop.index }}:{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for i in l %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }};{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in l if i > 1 %}{{ loop.index }}{{ i }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in s %}{{ c }}-{% endfor %}",
    "{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in l %}{% for j in l %}{{ i * j }} {% endfor %}|{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}", "{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set x %}a{{ a }}b{% endset %}{{ x }}", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% if n %}1{% elif a %}2{% else %}3{% endif %}",
    "{% macro m(x, y=2) %}[{{ x }},{{ y }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(x=5, y=6) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, k=2) }}",
    "{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(v) m(3) %}v{{ v }}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}hi{% endcall %}",
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% with x = 1, y = 2 %}{{ x + y }}{% endwith %}{{ x }}", "{% raw %}{{ no }}{% endraw %}", "a{# c #}b", "a{#- c -#} b",
    "  {% if t %}\n  x\n  {% endif %}\ny", "{% if t -%}\n  x  \n{%- endif %}\ny", "a\n  {%+ if t %}b{% endif %}\n", "{{ a }}\n{{ b }}\n", "x\n\n", "{% if t %}\n\nx{% endif %}",
    "   {{ a }}   ", "   {{- a -}}   z", "{% for i in l -%}\n {{ i }}\n{%- endfor %}", "a\r\nb\r\n", "\n{% set q = 1 %}\n{{ q }}", "{%- for m in u -%}{{ m.n }}{%- endfor -%}",
    "{% generation %}x{{ a }}{% endgeneration %}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {}} }}", "{% for i in l recursive %}{{ i }}{% endfor %}",
    "{% for x in [[1,[2]],[3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}", "{{ raise_exception('no') }}", "{% if %}", "{{ a", "{% for i in %}{% endfor %}", "{{ 1 + }}", "{% endif %}", "{% nope %}", "{{ s|nope }}", "{{ a is nope }}",
    "{% set d2 = dict(d, q=1) %}{{ d2 }}", "{{ l|map('string')|join('+') }}", "{% set l2 = l + [4] %}{{ l2 }}{{ l }}", "{{ messages }}", "{% if a > 1 and (b < 0 or n) and not e %}y{% endif %}", "{{ 'a' if a == 3 else 'b' if a == 4 else 'c' }}",
    "{%- set x = namespace() -%}{%- set x.y = [] -%}{{ x.y }}", "{% for i in range(3) %}{{ i }}{% endfor %}", "{% set x = l | sort | first %}{{ x }}", "{{ (l | sort)[0] }}", "{{ l | sort | string }}", "{{ -l[0] | abs }}", "{{ 'a' ~ -1 }}", "{{ not true == false }}",
]


def digest(template, conversation):
    try:
        return hashlib.sha256(template.render(**conversation).encode()).hexdigest()
    except Exception:
        return None


def write_renderings():
    conversations = list(template_conversations.conversations())
    with open(FOLDER / "conversations.jsonl", "w", encoding="utf-8") as out:
        for one in conversations:
            out.write(json.dumps(one, ensure_ascii=False) + "\n")
    with open(FOLDER / "renderings.jsonl", "w", encoding="utf-8") as out:
        for path in sorted((FOLDER / "real").glob("*.jinja")):
            template = ENV.from_string(open(path, encoding="utf-8", newline="").read())
            out.write(json.dumps({"template": path.stem, "now": NOW,
                                  "sha256": [digest(template, c) for c in conversations]}) + "\n")


def expected_of(source, variables):
    try:
        return ENV.from_string(source).render(**copy.deepcopy(variables))
    except Exception:
        return None


def refused(sources, variables):
    """For each source: does the program give an error?"""
    blob = "".join(json.dumps({"source": s, **({"variables": variables} if i == 0 else {})}) + "\n"
                   for i, s in enumerate(sources))
    out = subprocess.run([sys.argv[1]], input=blob, text=True, stdout=subprocess.PIPE, check=True).stdout
    return [isinstance(json.loads(line), dict) for line in out.split("\n")[:-1]]


def main():
    write_renderings()
    expressions = list(dict.fromkeys(template_expressions.expressions()))
    n_statements = len(template_expressions.STATEMENTS + template_expressions.ITEMS + template_expressions.FORMATS)
    sets = [(VALUES, ["{{ " + e + " }}" for line in EXPRESSIONS for e in split(line)] + STATEMENTS),
            (template_expressions.VALUES, expressions[:-n_statements:4] + expressions[-n_statements:])]
    n = n_failing = n_refused = 0
    with open(FOLDER / "cases.jsonl", "w", encoding="utf-8") as out:
        for variables, sources in sets:
            shown = {"variables": variables}
            for source, is_refused in zip(sources, refused(sources, variables), strict=True):
                expected = expected_of(source, variables)
                if expected is not None and (is_refused or re.search(r" at 0x[0-9a-f]+|TemplateReference|strftime", source + expected)):
                    n_refused += 1
                    continue
                n_failing += expected is None
                n += 1
                out.write(json.dumps({"template": source, **shown, "expected": expected}, ensure_ascii=False) + "\n")
                shown = {}
    print(n, "cases,", n_failing, "of which Jinja2 refuses;", n_refused, "left out", file=sys.stderr)


def split(line):
    """Cases of a line are separated by |, filters too: a part that continues a case starts with a
    filter's or test's name, so the longest joins are tried first."""
    parts, current = [], ""
    for piece in line.split("|"):
        name = piece.split("(")[0].strip()
        joined = name in ENV.filters and current != ""
        if joined:
            current += "|" + piece
            parts[-1] = current
        else:
            current = piece
            parts.append(piece)
    return [p for p in parts if p.strip()]


if __name__ == "__main__":
    main()
