"""make_template_cases.py - renders templates with the real Jinja2, configured as transformers'
apply_chat_template configures it, and stores what it gave as tests/data/template/cases.jsonl.

Needs PyPI jinja2.  One JSON object a line: {"template", "variables", "expected"}; expected is null
where Jinja2 fails.  Then conversations.jsonl, and renderings.jsonl: {"template": NAME, "sha256":
[...]}, the digests of the conversations under each template of real/.  Run from the repository's
root.
"""

import hashlib
import json
import pathlib
import sys

import jinja_reference
import template_conversations

FOLDER = pathlib.Path("tests/data/template")
NOW = 1767942300  # 2026-01-09 07:05 UTC, what strftime_now() shows
ENV = jinja_reference.environment(NOW)

SMOLLM2 = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
           "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
           "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
           "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
           "{{ '<|im_start|>assistant\n' }}{% endif %}")

# Our own, in the style of the tool-calling templates of the field: namespaces, reversed scans,
# tojson of tools, reasoning split off, nested macros.
TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}
    {%- else %}{%- set content = '' %}{%- endif %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if call.function %}{%- set call = call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' }}{{- call.name }}{{- '", "arguments": ' }}
                {%- if call.arguments is string %}{{- call.arguments }}
                {%- else %}{{- call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- else %}
        {{- raise_exception('unknown role ' ~ message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

CALL = {"id": "c1", "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 3, "f": [1.5, None, True]}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "It's \"<b>\" & more",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
U = {"role": "user", "content": "Grüße 🦙 <|im_end|> \n x"}
S = {"role": "system", "content": "Be brief."}
A = {"role": "assistant", "content": "<think>\nhmm\n</think>\n\nYes."}
T = {"role": "tool", "content": "{\"t\": 21}", "tool_call_id": "c1"}
C = {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}
N = {"role": "assistant", "content": None, "tool_calls": [CALL]}
R = {"role": "assistant", "content": "ok", "reasoning_content": "\nwhy\n"}
CONVERSATIONS = [[U], [S, U], [U, A, U], [S, U, A, U], [U, C, T, T], [S, U, C, T, T, A, U], [U, N, T, U],
                 [U, R], [S, U, R, U, R], [{"role": "user", "content": ""}], [S], [A], [U, S, U],
                 [{"role": "critic", "content": "x"}], [U, U], [U, A, A]]

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


def main():
    write_renderings()
    cases = [("{{ " + e + " }}", VALUES) for line in EXPRESSIONS for e in split(line)]
    cases += [(t, VALUES) for t in STATEMENTS]
    for template in (SMOLLM2, TOOLS):
        for messages in CONVERSATIONS:
            for tools in (None, [TOOL], [TOOL, TOOL]):
                for extra in ({"add_generation_prompt": True}, {"add_generation_prompt": False},
                              {"add_generation_prompt": True, "enable_thinking": False}):
                    cases.append((template, {"messages": messages, "tools": tools, **extra}))
    n_failing = 0
    with open(FOLDER / "cases.jsonl", "w", encoding="utf-8") as out:
        for template, variables in cases:
            try:
                expected = ENV.from_string(template).render(**variables)
            except Exception:
                expected, n_failing = None, n_failing + 1
            out.write(json.dumps({"template": template, "variables": variables, "expected": expected},
                                 ensure_ascii=False) + "\n")
    print(len(cases), "cases,", n_failing, "of which Jinja2 refuses", file=sys.stderr)


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
