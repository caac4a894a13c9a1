"""template_expressions.py - every filter, test, method, operator and statement over every kind of
value: expressions() gives templates over the variables VALUES, written for this project.
"""

VALUES = {"a": 3, "b": -7, "f": 2.5, "s": "Hello Wörld", "e": "", "n": None, "t": True, "z": 0,
          "l": [3, 1, 2], "d": {"x": 1, "y": [1, 2], "z": {"k": "v"}}, "w": ["b", "A", "c", "a"],
          "u": [{"n": "x", "v": 2}, {"n": "y", "v": 1}, {"n": "X", "v": 0}], "ws": "  pad \n",
          "h": "<b class='x'>bold &amp; \"y\"</b> <!-- no --> text", "el": [], "ed": {},
          "ll": [[1, 2], [3]], "long": "The quick brown fox jumps over the lazy dog, again and again.\nLine two.",
          "mixed": [1, "a", None, 2.5, True], "num": "42", "fl": "-3.75e2", "x0": "0x1F", "big": 123456789012,
          "q": "it's \"quoted\" \\ \t\u00e9\u200b\u0007", "i64": 9007199254740993}

# What stands before a filter or a test: all kinds of values, Markup and generators among them.
SUBJECTS = ["a", "b", "f", "s", "e", "n", "t", "z", "l", "d", "w", "u", "ws", "h", "el", "ed", "ll", "mixed",
            "num", "fl", "nope", "s|safe", "h|e", "l|map('string')", "d.items()", "d|items", "range(4)",
            "(1, 2)", "dict", "l|reverse", "l|batch(2)", "namespace(x=1)"]

FILTERS = """abs|attr('x')|attr('upper')|batch(2)|batch(2, 'F')|batch(0)|capitalize|center|center(9)|center(12)|count
d|default|default('D')|default('D', true)|dictsort|dictsort(true)|dictsort(by='value')|dictsort(reverse=true)|e|escape
filesizeformat|filesizeformat(true)|first|float|float(9)|float(default='x')|forceescape|format(1)|format|groupby('n')|groupby(0)
groupby('n', default='x')|groupby('n', case_sensitive=true)|indent|indent(2)|indent(2, true)|indent(2, true, true)|indent('>')|indent(width=1, blank=true)
int|int(7)|int(default=7, base=16)|int(0, 0)|items|join|join('-')|join('-', 0)|join(attribute='n')|join(d=', ', attribute='v')|last|length|list|lower
map('upper')|map('int')|map(attribute='n')|map(attribute='v', default=5)|map(attribute='n.q')|map('default', 'x')|map|map('nope')|map('join', '+')
max|max(attribute='v')|max(case_sensitive=true)|min|min(attribute='n')|pprint|reject|reject('none')|rejectattr('v')|rejectattr('n', 'eq', 'x')
replace('l', 'L')|replace('l', 'L', 1)|replace('', '-')|replace('<', '[')|reverse|round|round(1)|round(-1)|round(0, 'floor')|round(1, method='ceil')|round(1, 'bad')
safe|select|select('none')|select('string')|selectattr('v')|selectattr('n', 'equalto', 'x')|selectattr('v', 'gt', 0)|selectattr|select('nope')
slice(2)|slice(2, 'F')|slice(3)|slice(0)|sort|sort(true)|sort(case_sensitive=true)|sort(attribute='n')|sort(attribute='n,v')|sort(attribute=0)
string|striptags|sum|sum('v')|sum(attribute='v')|sum(start=10)|sum(start='x')|title|tojson|tojson(indent=2)|tojson(true)|tojson(sort_keys=true)
tojson(separators=(',', ':'))|tojson(ensure_ascii=true)|tojson(indent=0)|tojson(indent=1, separators=('; ', '='))|tojson(nope=1)|trim|trim('Hd ')|trim(chars='<b')
truncate|truncate(9)|truncate(9, true)|truncate(5, false, '..')|truncate(9, end='~', leeway=0)|truncate(12, true, '...', 0)|truncate(2)|unique|unique(true)|unique(attribute='n')
upper|urlencode|wordcount|wordwrap(10)|wordwrap(10, false)|wordwrap(4)|wordwrap(10, wrapstring='|')|wordwrap(7, true, '/')|wordwrap(8, break_on_hyphens=false)|xmlattr|xmlattr(false)
nope|list|list|length|list|sort|list|first|list|last|list|tojson|list|join('.')|sort|join|string|length|string|upper|e|upper|safe|replace('&', '<')""".replace("\n", "|")

TESTS = """boolean|callable|defined|divisibleby 2|divisibleby(0)|eq 3|equalto('x')|escaped|even|false|filter|float|ge 2|gt 2|greaterthan(1)
in [1, 3, 'x']|in s|integer|iterable|le 3|lessthan(4)|lower|lt 3|mapping|ne 3|none|number|odd|sameas true|sameas none|sequence|string|test|true|undefined|upper|nope
== 3|!= 3|not none|not defined""".replace("\n", "|").split("|")

METHODS = """upper()|lower()|title()|capitalize()|casefold()|swapcase()|strip()|strip('d ')|lstrip('He')|rstrip()|split()|split('l')|split('l', 1)|split(maxsplit=1)
split(sep='l')|rsplit('l', 1)|rsplit()|rsplit(None, 1)|split('')|splitlines()|splitlines(true)|splitlines(keepends=true)|replace('l', 'x')|replace('l', 'x', 1)|replace('', '.')
startswith('He')|startswith('el', 1)|startswith('He', 0, 1)|startswith(('a', 'H'))|endswith('ld')|endswith('l', 0, 4)|find('l')|find('l', 3)|find('l', 0, 2)|rfind('l')|index('o')|index('zz')|rindex('l')
count('l')|count('l', 3)|count('')|partition('l')|rpartition('l')|partition('zz')|rpartition('zz')|partition('')|removeprefix('He')|removesuffix('ld')|join(w)|join(['a'])|join([1])|join('xyz')
isdigit()|isalpha()|isalnum()|isspace()|isupper()|islower()|istitle()|isnumeric()|isdecimal()|isidentifier()|isascii()|isprintable()|center(15)|center(15, '*')|ljust(13, '.')|rjust(13)|zfill(14)|expandtabs(4)
encode()|format(1)|format_map({})|translate({})|maketrans('a', 'b')|get('x')|get('zz')|get('zz', 4)|keys()|values()|items()|copy()|index(1)|count(1)|append(1)|pop()|update({})|nope()|hex()|is_integer()
bit_length()|conjugate()|upper|__class__|__len__()|_x""".replace("\n", "|").split("|")

FORMATS = ["'{}'.format(f)", "'{0} {1} {0}'.format(a, s)", "'{x}'.format(x=1)", "'{:>8}|'.format(s)", "'{:<8}|{:^8}|'.format(a, a)",
           "'{:05d}'.format(a)", "'{:.2f}'.format(f)", "'{:,}'.format(big)", "'{!r}'.format(s)", "'{!s:>6}'.format(a)", "'{0[0]}'.format(l)", "'{0.x}'.format(d)",
           "'{d[x]}'.format(d=d)", "'{:x} {:b} {:o} {:X}'.format(255, 5, 8, 255)", "'{:+d} {: d}'.format(3, 3)", "'{:e}'.format(f)", "'{:%}'.format(0.25)",
           "'{:*^9}'.format('x')", "'{{}} {}'.format(1)", "'{'.format(1)", "'{} {}'.format(1)", "'{nope}'.format()", "'{:d}'.format('x')", "'{:s}'.format('x')", "'{:.3}'.format('abcdef')",
           "'%s' % s", "'%d %s' % (a, s)", "'%5d|%-5d|%05d' % (a, a, a)", "'%.1f' % f", "'%r' % s", "'%x %X %o' % (255, 255, 8)", "'%+d' % a", "'%%' % ()", "'%s %s' % s",
           "'%(x)s' % d", "'%(x)03d|%(q)s' % {'x': 1, 'q': 2}", "'%c' % 'x'", "'%c' % 65", "'%e %g' % (f, f)", "'%s' % (l,)", "'%s' % l", "'%5s|%-5s|%.2s' % ('ab', 'ab', 'abcdef')", "'%d' % f", "'%d' % s", "'%i' % a", "'%s' % none", "'%q' % 1", "'%s'", "'%' % a", "'%5.1f|' % f"]

OPERANDS = ["a", "b", "f", "s", "e", "n", "t", "z", "l", "d", "nope", "(1, 2)", "s|safe", "'<'", "range(2)", "w"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]

ITEMS = ["s[0]", "s[-1]", "s[99]", "s[1:3]", "s[::-1]", "s[::2]", "s[5:1:-2]", "s[-3:]", "s[:-3]", "s['x']", "s[n]", "s[1.0]", "s[t]", "l[0]", "l[-1]", "l[99]", "l[1:]", "l[::-1]", "l[:]", "l[5:]", "l['a']",
         "l.0", "u.0.n", "d.x", "d['x']", "d.nope", "d['nope']", "d[0]", "d.items", "d['items']", "d.y[1]", "d.z.k", "d.z['k']", "n.x", "n['x']", "nope.x", "nope['x']", "nope[0]", "a.x", "a[0]", "a.real", "f.real",
         "(1, 2)[0]", "(1, 2)[:1]", "d[:1]", "n[:1]", "nope[:1]", "l['0']", "{1: 2}[1]", "{'a': 1}.a", "[1][0]", "'abc'[1]", "range(5)[1]", "range(5)[-1]", "range(5)[9]", "range(5)|length", "range(3)|list|last",
         "d.items()|list|first", "d.keys()|list", "d.values()|list|length", "d.items()|length", "d.items()[0]", "'x' in d.keys()", "('x', 1) in d.items()", "d.keys()", "d.values()", "d.items()", "range(3)", "range(1, 9, 3)", "range(3) == range(3)",
         "l|map('string')|first", "l|map('string')|last", "l|map('string')|length", "(l|map('string'))[0]", "l|map('string')|list", "l|map('string') ~ ''", "l|select|list == l", "2 in l|map('int')", "l|map('int')|sum", "l|map('int')|sort", "l|map('int')|max",
         "dict(a=1, b=2)", "dict([('a', 1)])", "dict(d, q=9)", "dict(d)", "dict()", "dict(1)", "dict.x([['k', 'v']])", "namespace(a=1).a", "namespace({'a': 1}).a", "namespace().q is defined", "cycler(1, 2).next()", "joiner(', ')()", "cycler('a', 'b').current",
         "1_000", "1e3", "1.5e-3", "0x1f", "0b11", "0o17", "1__0", "'\\x41\\u00e9\\n'", "'a' 'b'", "\"it's\"", "'q\\'q'", "i64", "i64 + 1", "9223372036854775807 + 1", "2 ** 70", "-2 ** 2", "2 ** 3 ** 2", "-a|abs", "1 if f", "1 if f else 2", "(1 if z) is undefined",
         "not a", "not not a", "a is not none and b", "a if n else b if e else s", "1 < 2 < 3", "3 > 2 > 2", "1 == 1.0", "true == 1", "'1' == 1", "none == nope", "nope == nope2", "[] == ()", "[1] == [1.0]", "{'a': 1} == {'a': 1.0}", "'a' < 'b'", "'a' < 1", "[1] < [2]", "(1, 'a') < (1, 'b')", "none < 1", "l is eq [3, 1, 2]",
         "a.__class__", "s.__class__.__name__", "s.upper.__name__", "''.join(l|map('string'))", "s is string and s|length > 3", "(s)", "((a))", "[a, b,]", "(a,)", "{'k': a,}", "a,b", "1 / 3", "10 / 2", "7 // 2", "-7 // 2", "-7 % 3", "7 % -3", "7.5 // 2", "7.5 % 2", "1 / 0", "1 // 0", "1 % 0", "0.1 + 0.2", "1e100", "1e22", "123456789.0 * 10", "5 % 3 * 2", "1e16", "-0.0", "f|int", "1.0|int", "loop", "self", "super()", "caller", "varargs", "true.x", "none|string", "[none]", "true|string ~ none",
         "q", "[q]", "d ~ u", "[1.0, 1e-7, 1e16, -0.0]", "{'a': none, 'b': true}", "{1: 'x', none: 2, true: 3}", "{(1, 2): 3}", "{'a': {'b': [1, {'c': ()}]}}", "{1: 2}|tojson", "{none: 2}|tojson", "{1.5: 2}|tojson", "{true: 2}|tojson", "{(1,): 2}|tojson",
         "s|upper|lower|title", "s | replace('o', '0') | length", "'a.b'|replace('.', '\\n')", "s|e|e", "('<'|e) ~ '<'", "('<'|e) + '<'", "'<' + ('<'|safe)", "('<'|safe) * 2", "('%s'|safe) % '<'", "('<'|safe).join(['<', '>'])", "('a<'|safe).upper()", "('a<b'|safe)[1:]", "('a<'|safe).replace('a', '<')", "['<', '>'|safe]|join('&')", "('&amp;'|safe)|striptags", "('x'|safe) is string", "('x'|safe) == 'x'", "{'a': 'x'|safe}", "('x'|safe)|tojson", "('<{}>'|safe).format('<')", "('<'|safe)|length", "('a b'|safe).split()", "('<'|e).strip()", "'x' in ('xyz'|safe)", "('<'|e)|string + '<'", "('<'|e)|trim + '<'", "('<'|e)|upper + '<'",
         "{'class': 'x', 'id': none, 'n': 1, 'u': nope, 'q': '\"'}|xmlattr", "{'a b': 1}|xmlattr", "{}|xmlattr", "{'a>': 1}|xmlattr", "1000|filesizeformat", "1|filesizeformat", "0|filesizeformat", "13000|filesizeformat", "4100000|filesizeformat(true)", "1024|filesizeformat(true)", "1500.5|filesizeformat", "'300'|filesizeformat", "-5000|filesizeformat", "1e30|filesizeformat",
         "'{}'|urlencode", "{'a b': 'c&d', 'x': 1}|urlencode", "[('a', 1)]|urlencode", "'ä/ü?'|urlencode",
         "long|wordwrap(20)", "long|wordwrap(20, wrapstring='|')", "'averyveryverylongword and short'|wordwrap(8)", "'averyveryverylongword and short'|wordwrap(8, false)", "'well-known half-baked co-operation'|wordwrap(12)", "'a  b   c'|wordwrap(3)", "'tab\\tx y'|wordwrap(5)", "''|wordwrap(5)", "'a\\n\\nb'|wordwrap(5)", "'a-b--c---d'|wordwrap(3)", "'x' * 30|string|wordwrap(7)", "long|truncate(20)", "long|truncate(25, true)", "long|truncate(25, leeway=50)", "long|truncate(10, false, '')", "'abc'|truncate(3)", "'abcdefgh'|truncate(3, true, '')", "'a b c d e f g h'|truncate(6)",
         "d|pprint", "u|pprint", "s|pprint", "long|pprint", "[long, long]|pprint", "ll|pprint", "{'b': 1, 'a': 2}|pprint", "(1,)|pprint", "none|pprint", "[1.5, true, none]|pprint", "range(30)|list|pprint", "{'k': range(30)|list, 'j': 'x'}|pprint", "[[], {}, ()]|pprint", "{'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': 1, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb': [1, 2]}|pprint",
         "'<p>a</p><p>b</p>'|striptags", "'a < b > c'|striptags", "'<!-- x -->y'|striptags", "'&lt;b&gt; &#39; &nbsp;x'|striptags", "'  a \\n b  '|striptags", "h|striptags",
         "u|groupby('n')|list", "u|groupby('n')|map('first')|list", "u|groupby('n')|map(attribute='grouper')|list", "u|groupby('n')|map(attribute='list')|map('length')|list", "(u|groupby('n')|first).grouper", "u|groupby('n', case_sensitive=true)|map('first')|list", "u|groupby('zz', default=1)|length", "[]|groupby('x')", "u|sort(attribute='n')|map(attribute='v')|list", "u|sort(attribute='n,v', reverse=true)|map(attribute='v')|list", "u|unique(attribute='n')|map(attribute='v')|list", "u|sum(attribute='v')", "u|max(attribute='v')", "u|map(attribute='v')|select('gt', 0)|list", "u|map(attribute='zz')|list", "u|map(attribute='zz', default='-')|join", "ll|map('first')|list", "ll|map(attribute=0)|list", "ll|sum(start=[])", "ll|map('sum')|list", "w|map('replace', 'a', '<b>')|join", "[1, 2, 3, 4, 5, 6, 7]|slice(3)|list", "[1, 2, 3, 4, 5, 6, 7]|slice(3, 'x')|map('list')|list", "'abcdefg'|slice(2)|list", "[1, 2, 3]|batch(2)|list", "[1, 2, 3]|batch(2, 0)|map('join', '-')|list", "'%s, %s!'|format('a', 'b')", "'%(a)s'|format(a=1)", "'x'|center(7)", "'xy'|center(7)", "'héé'|center(8)|length", "['a', 'b']|reverse|list", "'abc'|reverse", "'ß'|upper", "'ŉ'|upper", "'ǆ'|title", "\"o'neil mc-donald x_y\"|title", "'hello-world (foo) {bar} <baz>'|title", "'ÀÉ'|lower", "'straße'.casefold()", "'İ'|lower|length", "'aΣ'|lower",
         "'5'|int + 1", "'5.9'|int", "' 7 '|int", "'1_0'|int", "'abc'|int", "'-5'|int", "'+5'|int", "'0x1f'|int(base=16)", "'1f'|int(base=16)", "'0b11'|int(base=2)", "'12'|int(base=8)", "none|int", "[]|int", "'inf'|float", "'nan'|float", "'1e5'|int", "'1e400'|int", "'5'|float", "'x'|float(1.5)", "none|float", "1.5|round|int", "2.675|round(2)", "0.5|round", "1.5|round", "2.5|round", "1234.5678|round(-2)", "-1.5|round", "42|round", "42|round(1, 'ceil')", "1.15|round(1)", "'3'|round"]

STATEMENTS = [
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for x in l|map('string') %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% endfor %}", "{% set g = l|map('string') %}{{ g|join }}|{{ g|join }}", "{% set g = l|select %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}no{% else %}empty{% endfor %}",
    "{% for row in l|batch(2) %}{{ row|join(',') }};{% endfor %}", "{% for col in range(7)|slice(3) %}{{ col }}{% endfor %}", "{% for g in u|groupby('n') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}", "{% for key, items in u|groupby('n') %}{{ key }}{{ items|map(attribute='v')|join }}{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% set (x, y) = (1, 2) %}{{ x }}{{ y }}", "{% set x, y = 'ab' %}{{ x }}{{ y }}", "{% set x, y = [1] %}", "{% set x, y = [1, 2, 3] %}", "{% for x, y in [[1]] %}{% endfor %}", "{% set ns = namespace(v=1) %}{% set ns.v, q = 2, 3 %}{{ ns.v }}{{ q }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% for i in [1] %}{% set x = i %}{% endfor %}{{ x is defined }}", "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 5 %}{{ x }}{% endfor %}{{ x }}", "{% with %}{% set x = 1 %}{% endwith %}{{ x is defined }}", "{% with x = 1 %}{% with y = x %}{{ y }}{% endwith %}{% endwith %}", "{% with x = 1, y = x %}{{ y is defined }}{% endwith %}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, c=4) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a, b=1) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b=5) m() %}{{ a }}{{ b }}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m() %}{{ s }}{% set s = 1 %}{{ s }}{% endmacro %}{{ m() }}{{ s }}", "{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}", "{% macro m() %}{% for i in l %}{{ i }}{% endfor %}{% endmacro %}{{ m()|upper }}{{ m() + 'x' }}",
    "{% set x = {'k': []} %}{{ x.k.append(1) }}", "{% do l.append(1) %}", "{% set _ = 1 %}{{ _ }}", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% block b %}in{% endblock %}", "{% block b %}{{ self.b is defined }}{% endblock %}", "{% block b %}x{% endblock b %}", "{% autoescape true %}{{ '<' }}{% endautoescape %}", "{% autoescape false %}{{ '<' }}{% endautoescape %}", "{% trans %}x{% endtrans %}", "{% debug %}",
    "{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{% endfor %}", "{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in l %}{{ loop.depth }}{{ loop.depth0 }}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}", "{% for x in l %}{% for y in l if y > x %}{{ loop.index }}{% else %}-{% endfor %}{% endfor %}", "{% for x in ll recursive %}[{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}@{{ loop.depth }}{% endif %}]{% endfor %}", "{% for x in l %}{% if loop.first %}{% continue %}{% endif %}{% if loop.index == 3 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}",
    "{% for x in n %}{% endfor %}", "{% for x in a %}{% endfor %}", "{% for x in nope %}{% else %}e{% endfor %}", "{% for x in s %}{{ x }}.{% endfor %}", "{% for x in d %}{{ x }}{% endfor %}", "{% for x in l[::-1] %}{{ x }}{% endfor %}", "{% for x in l|reverse %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for loop in l %}{{ loop }}{% endfor %}",
    "{% filter upper|replace('A', '<') %}abc{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% set x %}a{{ s }}{% endset %}{{ x|length }}", "{% set x | trim | upper %}  ab  {% endset %}[{{ x }}]", "{% set x = joiner(',') %}{% for i in l %}{{ x() }}{{ i }}{% endfor %}", "{% set c = cycler('x', 'y') %}{% for i in l %}{{ c.next() }}{% endfor %}{{ c.current }}{{ c.reset() }}{{ c.next() }}",
    "{{ a }}{# c #}\n{# d -#}\n x", "{#- c -#}", "a {#+ c +#} b", "{% if a %}\n  x\n{% endif %}\n  {{ b }}\n", "  {%- if a %} x {% endif -%}  y", "\t{% if a %}\tx\n\t{% endif %}\n", "x {% if a %}\ny{% endif %}", "{% raw %}{{ x }}{% endraw %}", "{%- raw -%} {{ x }} {%- endraw -%} y", "{% raw %}\n{% if %}\n{% endraw %}\nz", "a\n  {% raw %}  b  {% endraw %}  c", "{{- a -}} b {{+ a +}}", "{{ '{{' }}{{ '}}' }}", "{{ '{%' }}", "{{ '#}' }}", "{{ {'a': 1}['a'] }}", "{{ {'a': {'b': 2}}.a.b }}", "{%if a%}x{%endif%}", "{%-if a-%} x {%-endif-%}", "{{a}}{{b}}", "{{ a\n}}\n{{\nb }}", "{% if a\n and t %}x{% endif %}", "{{ 'a\nb' }}", "a\r\nb\r{{ a }}\n", "{% set x = 'a\\\nb' %}{{ x }}",
    "{% if n %}a{% elif e %}b{% elif t %}c{% else %}d{% endif %}", "{% if not a and b or t %}x{% endif %}", "{% if a is odd and b is not even %}x{% endif %}", "{% if a in l and 'x' not in d %}x{% else %}y{% endif %}", "{{ a is defined and a is not none }}", "{{ 'x' if d.x is defined else 'y' }}", "{% if s is string and l is not string %}x{% endif %}", "{{ a is divisibleby(3) and not a is even }}", "{{ a is sameas a }}", "{{ a in [1, 2, 3] is true }}", "{{ l|length is eq 3 }}", "{{ s|upper is upper }}", "{{ 5 is not number }}", "{{ a is number is true }}",
    "{{ *l }}", "{{ range(*[1, 4])|list }}", "{{ dict(**{'a': 1}) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, **{'b': 2}) }}", "{{ [1, 2, *l] }}", "{{ l|map('upper', ) }}", "{{ }}", "{{ a b }}", "{{ a | }}", "{{ a is }}", "{% if a %}", "{% endif %}", "{% else %}", "{% for %}", "{% for x l %}", "{% set %}", "{% set x %}", "{% set 1 = 2 %}", "{% set a.b = 2 %}", "{% macro %}", "{% call %}", "{{ 'abc }}", "{{ \"a' }}", "{{ ( }}", "{{ [1, }}", "{{ {1: }}", "{{ a. }}", "{{ a[ }}", "{{ a[] }}", "{{ 1.x }}", "{{ ?a }}", "{{ a ! b }}", "{% unknown %}", "{{ $a }}", "{{ a; b }}", "{{ a =1 }}", "{{ true = 1 }}", "{{ `a` }}", "{{ @ }}", "{% if a = 1 %}{% endif %}", "{% set x = %}", "{{ a|f() }}", "{% break %}", "{% continue %}", "{% for x in l %}{% break x %}{% endfor %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% generation %}a{% set gx = 1 %}{% endgeneration %}{{ gx is defined }}",
    "{{ strftime_now('%d %b %Y|%B %-d, %Y|%H:%M:%S|%y %j %A %a %p %I %%') }}", "{{ raise_exception('x') }}", "{% if false %}{{ raise_exception('x') }}{% endif %}ok", "{% if false %}{{ s|nope }}{% endif %}ok", "{% if false %}{{ s is nope }}{% endif %}ok", "{{ nofunc() }}", "{{ s() }}", "{{ nope.x.y is defined }}", "{{ (nope.x).y }}", "{{ nope|upper }}", "{{ nope + 1 }}", "{{ nope ~ 'x' }}", "{{ nope|length }}", "{{ nope is none }}", "{{ not nope }}", "{{ nope() }}", "{{ -nope }}", "{{ nope|int }}", "{{ nope|float }}", "{{ nope|abs }}", "{{ nope|round }}", "{{ nope|sum }}", "{{ nope|tojson }}", "{{ [nope] }}", "{{ [nope]|join }}", "{{ nope < 1 }}", "{{ nope in l }}", "{{ nope in s }}", "{{ 1 in nope }}", "{{ l[nope] }}", "{{ d[nope] }}", "{{ d.get(nope) }}", "{{ s.replace(nope, 'x') }}", "{{ s.startswith(nope) }}", "{{ {nope: 1} }}", "{{ nope if nope else 'z' }}", "{{ nope or 'z' }}", "{{ nope and 'z' }}", "{{ nope == none }}", "{{ nope != 'x' }}",
]


def expressions():
    for subject in SUBJECTS:
        for name in FILTERS.split("|"):
            if name:
                yield "{{ (" + subject + ")|" + name + " }}"
                if name.split("(")[0] in ("batch", "map", "select", "selectattr", "reject", "rejectattr", "slice", "unique", "items", "reverse"):
                    yield "{{ (" + subject + ")|" + name + "|list }}"
        for test in TESTS:
            yield "{{ (" + subject + ") is " + test + " }}"
    for subject in ("s", "ws", "e", "q", "d", "l", "a", "(s|safe)", "'aBc dEf'", "'١٢'", "'x1'", "(1, 1)", "'12'", "long", "f", "n"):
        for method in METHODS:
            yield "{{ " + subject + "." + method + " }}"
    for left in OPERANDS:
        for right in OPERANDS:
            for operator in OPERATORS:
                yield "{{ " + left + " " + operator + " " + right + " }}"
    for one in FORMATS + ITEMS:
        yield "{{ " + one + " }}"
    yield from STATEMENTS
