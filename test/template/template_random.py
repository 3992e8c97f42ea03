# SPDX-License-Identifier: Apache-2.0
"""Random templates for template.test.py: expressions of every kind and statements around them.

An expression is asked for by kind (number, text, list, dict, truth) and is mostly of that kind; now and then it is
of another one, so that errors are compared too.  Left out is what cannot print alike: functions and generators as
text (their addresses), whole numbers beyond 64 bits (an error here, fine in Python), and two accidents of Jinja:
that it folds constants before it looks at whether they are used, and that a variable of the conversation is hidden
from a filter or call block as soon as the scope around that block sets the same name further down.
"""
import random

NAMES = {"number": ["n", "neg", "f", "i"], "text": ["s", "u", "empty", "html", "text", "c"], "list": ["l", "words", "people", "m"],
         "dict": ["d", "deep", "p"], "truth": ["yes", "no", "nil", "undefined_name"]}
TEXTS = ["''", "'a'", "'Hello World'", "\"it's\"", "'é東🙂'", "' x '", "'a,b,,c'", "'\\n'", "'<b>&'", "'%s|%5.2f'", "'{} {:>4}'", "'10'",
         "'name'", "'age'", "'ab' 'cd'"]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "2.5", "0.1", "1e3", "1e16", "100"]
TO_TEXT = ["upper", "lower", "title", "capitalize", "trim", "string", "tojson", "escape", "replace('a', 'o')", "indent(2)",
           "join(',')", "join", "default('q')", "default('q', true)", "first", "last", "string|length|string",
           "format(1)", "safe", "trim('a ')", "reverse|join", "list|string", "tojson(indent=1)", "e"]
TO_NUMBER = ["length", "int", "float", "abs", "round", "round(1)", "sum", "min", "max", "count", "int(3)", "round(1, 'floor')"]
TO_LIST = ["list", "sort", "unique|list", "reverse|list", "map('string')|list", "map('upper')|list", "select|list", "reject|list",
           "map(attribute='name')|list", "selectattr('age')|list", "selectattr('age', 'gt', 26)|list", "rejectattr('zip')|list",
           "dictsort", "items|list", "sort(reverse=true)", "sort(attribute='age')",
           "map('length')|list", "select('string')|list", "select('odd')|list", "reject('none')|list", "map('int')|list",
           "map('default', 'z')|list", "unique(true)|list", "map(attribute=0)|list"]
METHODS = ["upper()", "lower()", "strip()", "title()", "capitalize()", "lstrip('a')", "rstrip()", "replace('l', 'L')",
           "replace('', '.', 2)", "strip('Hd')", "removeprefix('H')",
           "format(1, 2)", "join(['x', 'y'])", "join('ab')"]
LIST_METHODS = ["split()", "split(',')", "split('l', 1)", "rsplit('l', 1)", "splitlines()", "partition('o')", "rpartition('l')",
                "rsplit(none, 1)", "splitlines(true)"]
TRUTH_METHODS = ["startswith('H')", "endswith(('d', 'x'))", "isdigit()", "isspace()",
                 ]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true",
         "false", "odd", "even", "divisibleby 2", "eq 1", "ne 'a'", "gt 1", "lt 2", "in [1, 'a']", "callable", "sameas none", "divisibleby(3)", "equalto('a')"]
KINDS = list(NAMES)


class Writer:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, items):
        return self.r.choice(items)

    def expression(self, kind, depth):
        if self.r.random() < 0.04:
            kind = self.pick(KINDS)
        if depth <= 0 or self.r.random() < 0.15:
            return self.leaf(kind)
        return getattr(self, kind)(depth - 1)

    def leaf(self, kind):
        if self.r.random() < 0.6:
            return self.pick(NAMES[kind])
        return {"number": self.pick(NUMBERS), "text": self.pick(TEXTS), "list": self.pick(["[]", "[1, 2, 3]", "['b', 'a']", "(1, 'x')",
                "[none, true]", "range(4)|list", "[[1, 2], [3, 4]]"]), "dict": self.pick(["{}", "{'a': 1, 'b': 'x'}", "{1: 2, 'k': [1]}",
                "dict(q=1)", "{'name': 'Z', 'age': 3}"]), "truth": self.pick(["true", "false", "none"])}[kind]

    def any(self, depth):
        return self.expression(self.pick(KINDS), depth)

    def number(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.pick([
            lambda: f"({e('number')} {self.pick(['+', '-', '*', '/', '//', '%'])} {e('number')})",
            lambda: f"-{self.leaf('number')}", lambda: f"({e('number')})|{self.pick(TO_NUMBER)}",
            lambda: f"{e('list')}|{self.pick(TO_NUMBER)}", lambda: f"{e('text')}|{self.pick(TO_NUMBER)}",
            lambda: f"({e('list')})[{self.pick(['0', '-1', '1'])}]", lambda: f"({e('text')}).{self.pick(['find', 'count', 'rfind'])}('l')",
            lambda: f"({e('number')} if {e('truth')} else {e('number')})", lambda: f"({e('list')})|length", lambda: f"{e('dict')}.get('a', 5)",
        ])()

    def text(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.pick([
            lambda: f"({e('text')} + {e('text')})", lambda: f"({self.any(depth)} ~ {self.any(depth)} ~ {e('text')})",
            lambda: f"({e('text')})|{self.pick(TO_TEXT)}", lambda: f"({self.any(depth)})|{self.pick(TO_TEXT)}",
            lambda: f"({e('text')}).{self.pick(METHODS)}", lambda: f"(u ~ {e('text')})[{self.pick(['0', '-1', '1:3', '::-1', ':-1', '2:', '::2', '-3:'])}]",
            lambda: f"({e('text')} * {self.pick(['2', '0', '3', 'yes'])})", lambda: f"({e('text')} if {e('truth')} else {e('text')})",
            lambda: f"({e('dict')})[{e('text')}]", lambda: f"({e('dict')}).{self.pick(['a', 'name', 'x', 'b'])}",
            lambda: f"({e('text')} % {e('number')})", lambda: f"({e('truth')} or {e('text')})", lambda: f"({e('number')})|string",
        ])()

    def list(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.pick([
            lambda: f"({e('list')} + {e('list')})", lambda: f"({e('list')})|{self.pick(TO_LIST)}", lambda: f"({self.any(depth)})|{self.pick(TO_LIST)}",
            lambda: f"[{self.any(depth)}, {self.any(depth)}]", lambda: f"({self.any(depth)}, {e('number')})",
            lambda: f"({e('text')}).{self.pick(LIST_METHODS)}", lambda: f"({e('list')}|list)[{self.pick(['1:', ':2', '::-1', '::2', '-2:', '5:'])}]",
            lambda: f"({e('dict')})|{self.pick(['list', 'dictsort', 'items|list'])}", lambda: f"({e('dict')}).{self.pick(['items', 'keys', 'values'])}()|list",
            lambda: f"range({self.pick(['3', '1, 5', '5, 0, -2', 'n'])})|list", lambda: f"({e('list')} * 2)",
        ])()

    def dict(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.pick([
            lambda: f"{{{self.leaf('text')}: {self.any(depth)}, 'z': {self.any(depth)}}}", lambda: f"dict(a={self.any(depth)}, b={e('number')})",
            lambda: f"({e('dict')} if {e('truth')} else {e('dict')})", lambda: f"(({e('list')})|first)", lambda: "people[1]",
            lambda: f"dict({e('dict')}, k={e('number')})",
        ])()

    def truth(self, depth):
        e = lambda kind: self.expression(kind, depth)
        kind = self.pick(["number", "text", "list"])
        return self.pick([
            lambda: f"({e(kind)} {self.pick(['==', '!=', '<', '>', '<=', '>='])} {e(kind)})",
            lambda: f"({self.any(depth)} {self.pick(['==', '!='])} {self.any(depth)})",
            lambda: f"({e('number')} < {e('number')} <= {e('number')})", lambda: f"({e('text')} {self.pick(['in', 'not in'])} {e('text')})",
            lambda: f"({self.any(depth)} {self.pick(['in', 'not in'])} {e('list')})", lambda: f"({e('text')} in {e('dict')})",
            lambda: f"(not {e('truth')})", lambda: f"({e('truth')} {self.pick(['and', 'or'])} {e('truth')})",
            lambda: f"({self.any(depth)} is {self.pick(['', 'not '])}{self.pick(TESTS)})", lambda: f"({e('text')}).{self.pick(TRUTH_METHODS)}",
        ])()

    def tag(self, kind, content):
        """A tag with any of the signs, on a line of its own or not."""
        open_, close = {"print": ("{{", "}}"), "block": ("{%", "%}")}[kind]
        left, right = self.pick(["", "", "", "-"]), self.pick(["", "", "", "-"])
        if kind == "block" and self.r.random() < 0.1:
            left, right = self.pick(["+", ""]), self.pick(["+", ""])
        return (self.pick(["", "", " ", "\n", "\n  ", "x "]) + open_ + left + " " + content + " " + right + close
                + self.pick(["", "", "\n", " ", "\n\n"]))

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randint(1, 3)))

    def statement(self, depth):
        e = lambda kind, d=2: self.expression(kind, d)
        b = lambda content: self.tag("block", content)
        if depth <= 0:
            return self.tag("print", self.any(3))
        body = lambda: self.body(depth - 1)
        return self.pick([
            lambda: self.tag("print", self.any(4)), lambda: self.tag("print", self.any(3)), lambda: self.pick(["text ", "\n\n", "  line\n", "{# c #}", "\n {#- c -#} "]),
            lambda: b(f"if {e('truth')}") + body() + self.pick(["", b("else") + body(), b(f"elif {e('truth')}") + body()]) + b("endif"),
            lambda: b(f"for i in {e('list')}{self.pick(['', '', ' if i'])}") + body()
            + self.pick(["", self.tag("print", "loop." + self.pick(["index", "last", "length", "revindex", "first", "nextitem", "previtem"]))])
            + self.pick(["", b(f"if {e('truth')}") + b(self.pick(["break", "continue"])) + b("endif")])
            + self.pick(["", b("else") + body()]) + b("endfor"),
            lambda: b(f"for c, p in ({e('dict')}).items()") + body() + b("endfor"), lambda: b(f"set {self.pick(['i', 'c', 'm', 'p'])} = {self.any(2)}"),
            lambda: b(f"set c{self.pick(['', ' | upper', ' | trim | title'])}") + body() + b("endset"),
            lambda: b("set ns.x = ns.x + 1") + self.tag("print", "ns.x"), lambda: b(f"set ns.y = {self.any(2)}") + self.tag("print", "ns.y"),
            lambda: b(f"macro g(i, c={self.any(1)})") + body() + b("endmacro") + self.tag("print", f"g({self.any(1)})"),
            lambda: b(f"filter {self.pick(['upper', 'trim', 'indent(2)', 'title'])}") + body() + b("endfilter"),
            lambda: b(f"with i = {self.any(1)}, m = {e('list', 1)}") + body() + b("endwith"),
            lambda: b("raw").replace("+%}", "%}") + "{{ x }} {% y %}" + b("endraw"), lambda: b("call(i) h()") + body() + b("endcall"),
        ])()


PREFIX = "{% set ns = namespace(x=0, y=none) %}{% macro h() %}[{{ caller(7) }}]{% endmacro %}"


def expressions(count, seed):
    w = Writer(seed)
    return ["{{ " + w.any(4) + " }}" for _ in range(count)]


def programs(count, seed):
    w = Writer(seed)
    return [PREFIX + w.body(3) for _ in range(count)]
