# SPDX-License-Identifier: Apache-2.0
"""The inputs of template.test.py: conversations, chat templates in the shapes that are common, and snippets."""

SYSTEM = {"role": "system", "content": "  You are helpful.\n"}
HELLO = {"role": "user", "content": "Hello <there> & \"you\"!\n"}
ANSWER = {"role": "assistant", "content": "Hi — how are you? 🙂"}
QUESTION = {"role": "user", "content": "What's the weather in 東京?"}
THOUGHT = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nIt is 2.", "reasoning_content": "One and one."}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 3, "exact": True, "range": [1, 2.5],
                                                       "nested": {"a": None, "b": "x'y"}}}}]}
CALL_NONE = dict(CALL, content=None)
CALL_TEXT = {"role": "assistant", "content": "Let me see.", "tool_calls": [
    {"id": "call00002", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Bern\"}"}},
    {"id": "call00003", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": -2}}}]}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"temperature\": 21.5}"}
RESULT_2 = {"role": "tool", "name": "add", "tool_call_id": "call00003", "content": "-1"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]}
IMAGE = {"role": "user", "content": [{"type": "image", "image": "x.png"}, {"type": "text", "text": "Describe it."}]}
RESULT_PARTS = dict(RESULT, content=[{"type": "text", "text": "21 degrees"}])

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Looks up the weather.\nIn a city.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Where"},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "days": {"type": "integer", "minimum": 1},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}},
                  "required": ["lat"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mixed": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}, "required": ["city"]},
    "return": {"type": "object", "properties": {"t": {"type": "number"}}}}}
ADD = {"type": "function", "function": {
    "name": "add", "description": "Adds <two> numbers & says \"so\"",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                   "required": ["a", "b"]}}}
PLAIN = {"type": "function", "function": {"name": "now", "description": "Time"}}
EMPTY = {"type": "function", "function": {"name": "noop", "description": "",
                                          "parameters": {"type": "object", "properties": {}}}}

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def chat(*messages, prompt=True, **more):
    return dict(TOKENS, messages=list(messages), add_generation_prompt=prompt, **more)


CONVERSATIONS = {
    "hello": chat(HELLO),
    "hello without prompt": chat(HELLO, prompt=False),
    "no messages": chat(),
    "system": chat(SYSTEM, HELLO),
    "system only": chat(SYSTEM),
    "system alone in the middle": chat(HELLO, SYSTEM, ANSWER, QUESTION),
    "dialogue": chat(SYSTEM, HELLO, ANSWER, QUESTION),
    "dialogue ends with answer": chat(SYSTEM, HELLO, ANSWER, prompt=False),
    "dialogue continued": chat(HELLO, ANSWER),
    "two users": chat(HELLO, QUESTION),
    "starts with assistant": chat(ANSWER, HELLO),
    "odd role": chat({"role": "narrator", "content": "Once upon a time"}, HELLO),
    "developer": chat({"role": "developer", "content": "Be terse."}, HELLO),
    "parts": chat(SYSTEM, PARTS, ANSWER, QUESTION),
    "parts in system": chat({"role": "system", "content": [{"type": "text", "text": "Parts."}]}, PARTS),
    "image": chat(IMAGE),
    "thoughts": chat(HELLO, THOUGHT, QUESTION),
    "thoughts last": chat(HELLO, THOUGHT, prompt=False),
    "thinking on": chat(SYSTEM, HELLO, enable_thinking=True, thinking=True),
    "thinking off": chat(SYSTEM, HELLO, enable_thinking=False, thinking=False),
    "tools": chat(SYSTEM, QUESTION, tools=[WEATHER, ADD]),
    "odd tools": chat(QUESTION, tools=[PLAIN, EMPTY, ADD]),
    "tools without system": chat(QUESTION, tools=[WEATHER]),
    "empty tools": chat(SYSTEM, QUESTION, tools=[]),
    "no tools": chat(SYSTEM, QUESTION, tools=None),
    "call": chat(SYSTEM, QUESTION, CALL, RESULT, tools=[WEATHER, ADD]),
    "call answered": chat(QUESTION, CALL_NONE, RESULT, ANSWER, HELLO, tools=[WEATHER]),
    "call without tools": chat(QUESTION, CALL, RESULT),
    "two calls": chat(SYSTEM, QUESTION, CALL_TEXT, RESULT, RESULT_2, tools=[WEATHER, ADD]),
    "thoughtful call": chat(QUESTION, dict(CALL, reasoning_content="I look."), RESULT, tools=[WEATHER]),
    "call last": chat(QUESTION, CALL, tools=[WEATHER], prompt=False),
    "result in parts": chat(QUESTION, CALL, RESULT_PARTS, tools=[WEATHER]),
    "documents": chat(HELLO, documents=[{"title": "One", "text": "First.", "doc_id": 1}, {"title": "Two", "text": "2"}]),
    "no content": chat({"role": "user"}, {"role": "assistant", "content": None}, HELLO),
    "effort": chat(SYSTEM, HELLO, reasoning_effort="high", builtin_tools=["browser", "python"],
                   model_identity="You are a test.", custom_tools=[WEATHER], date_string="1 May 2025",
                   tools_in_user_message=False),
    "long": chat(SYSTEM, *[HELLO, ANSWER] * 8, QUESTION),
}

CHATS = {
    # one line per message, the shape of SmolLM2, Qwen and all of ChatML
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
              "{{ '<|im_start|>system\nYou are a helper.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] "
              "+ '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|im_start|>assistant\n' }}{% endif %}",
    # system text folded into the first user turn and strict turns, the shape of Llama 2 and Mistral
    "inst": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
            "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}"
            "{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) "
            "%}{{ raise_exception('Roles must alternate, not ' + message['role']) }}{% endif %}{% if loop.index0 == 0 "
            "and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + "
            "message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
            "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
            "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}"
            "{% endfor %}",
    # blocks on lines of their own, the shape of Zephyr and TinyLlama
    "lines": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
             "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token "
             "}}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
             "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
             "{% endfor %}",
    # tools as JSON, tool calls, content in parts, the shape of Llama 3 and later ones
    "tools": """{{- bos_token }}
{#- first: who the model is #}
{%- if messages and messages[0].role == 'system' %}
    {%- set system = messages[0]['content']|trim if messages[0].content is string else '' %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = 'Cutting date: ' ~ strftime_now('%d %b %Y') %}
{%- endif %}
{%- macro text(content) -%}
    {%- if content is string -%}{{ content | trim }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content if part.type == 'text' -%}{{ part.text }}{%- endfor -%}
    {%- endif -%}
{%- endmacro %}
<|system|>{{ system }}
{%- if tools is defined and tools %}

Tools: {% for tool in tools %}
{{ tool | tojson(indent=2) }}{{ "," if not loop.last }}
{%- endfor %}
{%- endif %}<|end|>
{%- set ns = namespace(calls=0, last=none) %}
{%- for message in messages %}
    {%- if message.tool_calls is defined %}
        {%- for call in message.tool_calls %}
            {%- set ns.calls = ns.calls + 1 %}
<|call {{ ns.calls }}|>{{ call.function.name }}({% for key, value in (call.function.arguments.items() if
            call.function.arguments is mapping else []) %}{{ key }}={{ value | tojson }}{% if not loop.last %}, {% endif
            %}{% endfor %})
        {%- endfor %}
    {%- elif message.role == 'tool' or message['role'] == "ipython" %}
<|result|>{{ message.content if message.content is string else message.content | tojson }}
    {%- elif message.role in ['user', 'assistant'] %}
<|{{ message.role }}|>{{ text(message.content) }}
    {%- else %}
        {{- raise_exception("no such role: " ~ message.role) }}
    {%- endif %}
    {%- set ns.last = message.role %}
{%- endfor %}
{%- if add_generation_prompt and ns.last != 'assistant' %}
<|assistant|>
{%- endif %}
""",
    # thoughts are removed from old turns, the shape of Qwen 3 and DeepSeek
    "thoughts": """{%- set ns = namespace(last_query=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" %}{% set ns.searching = false %}{% set ns.last_query = index %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- set reasoning = '' %}
    {%- if message.reasoning_content is string %}
        {%- set reasoning = message.reasoning_content %}
    {%- elif '</think>' in content %}
        {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {{- '<|' + message.role + '|>' }}
    {%- if reasoning and (loop.last or loop.index0 > ns.last_query) %}
        {{- '<think>\\n' + reasoning.strip() + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- content }}
{% endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}""",
}

VARIABLES = {
    "s": "Hello World", "u": "Größe 東京 🙂", "empty": "", "n": 7, "neg": -3, "f": 2.5, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "d": {"b": 1, "a": "x", "C": None}, "deep": {"x": {"y": [1, {"z": "end"}]}},
    "people": [{"name": "Ann", "age": 31, "pet": {"kind": "cat"}}, {"name": "bob", "age": 25, "pet": {"kind": "dog"}},
               {"name": "Cid", "age": 31, "pet": {"kind": "cat"}}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
    "letters": "".join(chr(c) for c in [*range(0x80, 0x590), *range(0x10A0, 0x1100), *range(0x1E00, 0x2000),
                                        *range(0x10400, 0x10450)]),
    "html": "<a href=\"x\">'&'</a>", "text": "line one\nline two\n\nline four\n",
}

# Every line is one template, rendered with VARIABLES.  Where jinja2 fails, the engine must fail too.
EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2
7 // 2, -7 // 2, 7 // -2, 7 % 3, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2, 7.5 % -2
2 ** 3 ** 2, 2 ** -1, (-2) ** 3, 2.0 ** 0.5, 2 ** 62
1.5|round(299), 12345.678|round(-3), 1.5|round(31), {'a': [1]}|tojson(indent=12)
'zz'|int(0, 36), 'g'|int(-1, 17), '11'|int(0, 37), '9000000000000000000.0'|int, '1e16'|int
'abc'.find('', 3), 'abc'.find('', 2, 2), 'abc'.endswith('', 3), 'abc'.count('', 3), 'abc'.find('a', 0, -5), 'abc'.startswith('', 0, -7)
(f - f) // neg, -7.5 // 2, 7 // -2.0, 0.0 % neg, 1e300 // 7.0
-2 ** 2, -n|abs, -neg, +n, - 1|string
1 / 0
1 // 0
1 % 0
1.0 / 0
true + true, true * 3, -true
'a' ~ 1 + 2 ~ none
1 ~ 2 * 3, 'a' ~ 1 ~ none ~ true ~ 1.50 ~ undefined_name ~ [1] ~ {'a': none}, 5 ~ 6 == '56'
1 if yes else 2, 1 if no else 2, (1 if no), 1 if no else 2 if no else 3
(1 if no) is defined, (1 if no).x
0.1, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 1.5e300, 100.0, 0.1 + 0.2, 1e22, 5e-324, -0.0, 3.0e0
1_000, 0x1F, 0b101, 0o17, 1_0.5_0, 1e3, 0xff_ff
1.0 == 1, 1 == true, '1' == 1, none == false, [] == [], [1] == [1.0], {'a': 1} == {'a': 1.0}, (1,) == [1]
1 < 2 < 3, 1 < 3 < 2, 3 > 2 >= 2 > 1, 1 < 2 > 1, 1 == 1 != 2
'a' < 'b', 'a' < 'B', 'é' > 'z', [1, 2] < [1, 3], [1] < [1, 0], (1, 'a') < (1, 'b'), true < 2
1 < 'a'
[1] < (1,)
none < 1
undefined_name < 1
1 < undefined_name
{} < {}
'a' in 'abc', 'd' not in 'abc', '' in 'abc', 1 in [1, 2], 3 not in (1, 2), 'b' in d, 'z' in d, 1 in {1: 2}, 1.0 in [1], true in [1]
1 in 'abc'
1 in 5
'x' in undefined_name, undefined_name in [], undefined_name in ['']
[1] in d
not yes, not not yes, not no and no, not (no and no), no or 'x', '' or none or 0, 1 and 'y', 0 and 1
not 1 == 2, not 1 in [2]
none, true, false, None, True, False, [none, true], (1,), (), [], {}, (1, 2), 1, 2
'it''s', "a" "b" 'c', 'a\'b', "a\"b", 'a\\b', 'tab\there', 'nl\nhere', '\x41\u00e9\U0001F642', '\q', '\101'
'\u6771'
["it's"], ['say "x"'], ['both \' and "'], ['tab\t nl\n cr\r back\\'], ['é 東 🙂 \u00a0 \u200b \x01 \x7f \xad']
[1, [2, (3,)], {'a': [none, true, 1.0]}], {'a': 1, 2: 'b', none: 3, true: 4}, {1: 'a', 1.0: 'b', true: 'c'}
{'a': 1}['a'], {'a': 1}.a, {'items': 1}.items is callable, {'items': 1}['items'], {'get': 2}['get'], d['b'], d.b, d['zz'], d.zz
d.items(), d.keys(), d.values(), d|length, d.items()|list, d.keys()|list, d.values()|first
d.get('b'), d.get('zz'), d.get('zz', 5)
d.get([1])
d[[1]]
{[1]: 2}
{(1, 2): 3}[(1, 2)], {1: 'x'}[1.0], {1: 'x'}[true], {'1': 'x'}[1]
d.zz.y
d['zz']['y']
undefined_name
undefined_name.x
undefined_name['x']
undefined_name()
undefined_name + 1
1 + undefined_name
undefined_name ~ 'x', undefined_name|default('d'), undefined_name or 'e', undefined_name == undefined_name, undefined_name == none
undefined_name|length, undefined_name|list, undefined_name|join(','), undefined_name|upper, undefined_name|string, [undefined_name]
undefined_name|int
undefined_name|float
undefined_name|tojson
undefined_name|sum, undefined_name|first, undefined_name|sort, undefined_name|unique|list, undefined_name|items|list
undefined_name is defined, undefined_name is undefined, undefined_name is none, undefined_name is iterable, undefined_name is sequence, undefined_name is mapping, undefined_name is string, undefined_name is callable, undefined_name is number
none.x
none['x'], none.x is defined, 5['x'] is defined, n[0] is defined, s.nope is defined, s['nope'] is defined
n.x.y
l[0], l[-1], l[5], l[-5] is defined, l['0'] is defined, l.0, l.1, (1, 2, 3)[1], s[0], s[-1], s[50] is defined, u[6], u[9]
l[1.0] is defined, l[true], l[none] is defined
l[5].x
l[1:], l[:2], l[::-1], l[::2], l[-2:], l[5:], l[:-1], l[2:0:-1], s[1:4], s[::-1], u[6:], u[::-1], u[-3:], (1, 2, 3)[1:], s[:5][1], s[100:], s[-100:3]
l[:-9:-1], l[-2:-9:-1], l[-9:9], l[9:-9:-2], s[:-99:-3], range(5)[:-9:-1]|list, range(5)[-9:2]|list, l[2:1], l[1:2:5]
l[::0]
l['a':]
d['a':] is defined
range(5)[1:3], range(5)[::-1]|list, range(10)[2:8:3]|list, range(5)[9] is defined, range(5)[-1]
range(3), range(1, 7, 2), range(3)|list, range(5, 0, -2)|list, range(0)|list, range(3)|length, 2 in range(3), 3 in range(3), 4 in range(0, 9, 2), range(3) == range(0, 3), range(0, 10, 3)
range(100001)
range(1, 2, 0)
range()
range('a')
range(2.5)
l + [4], (1,) + (2,), 'a' + 'b', l * 2, 'ab' * 3, 3 * 'x', [0] * 0, 'x' * -1, (1, 2) * 2
l + (1,)
'a' + 1
1 + 'a'
'a' * 'b'
'a' - 'b'
-'a'
none + 1
[1] + none
s.upper(), s.lower(), s.title(), s.capitalize(), u.upper(), u.lower(), 'straße'.upper(), 'ΑΣ'.lower()[0], 'ǆ'.upper()
'  x '.strip(), '  x '.lstrip() ~ '|', '  x '.rstrip() ~ '|', 'xxaxx'.strip('x'), 'abcba'.strip('ab'), 'éaé'.strip('é'), '\u3000x\u00a0'.strip(), 'x'.strip(none)
'abc'.lstrip('ab'), 'abc'.rstrip('bc'), 'mississippi'.rstrip('ip')
'abc'.strip(1)
s.split(), ' a  b '.split(), 'a,b,,c'.split(','), 'a,b,c'.split(',', 1), 'a b c'.split(none, 1), ''.split(), ''.split(','), 'a--b--c'.split('--'), '  a b  c '.split(none, 1), 'a b'.split(maxsplit=1), 'a b c'.split(' ', 0)
'a,b,c'.rsplit(',', 1), ' a  b c '.rsplit(none, 1), 'a b c'.rsplit(), 'a.b.c'.rsplit('.'), 'abc'.rsplit('x', 1)
'a'.split('')
'a\nb\r\nc\n\nd'.splitlines(), 'a\nb'.splitlines(true), ''.splitlines(), 'a\n'.splitlines(), 'a\x0bb\u2028c'.splitlines()
'abc'.startswith('ab'), 'abc'.startswith(('x', 'a')), 'abc'.endswith('bc'), 'abc'.endswith(('x', 'y')), 'abc'.startswith('b', 1), 'abc'.startswith(''), 'abc'.endswith('b', 0, 2), 'abc'.startswith('a', 5), ''.startswith('')
'abc'.startswith(1)
'abc'.startswith(['a'])
'abcabc'.find('c'), 'abc'.find('x'), 'abcabc'.rfind('b'), 'abcabc'.find('b', 2), 'abcabc'.find('b', -2), 'é東x'.find('x'), 'abc'.find(''), 'abc'.find('', 5), 'éxé'.rfind('é')
'banana'.count('an'), 'aaa'.count('aa'), 'abc'.count(''), 'banana'.count('a', 2), 'banana'.count('a', 2, 4)
'banana'.replace('a', 'o'), 'banana'.replace('a', 'o', 2), 'abc'.replace('', '-'), 'abc'.replace('', '-', 2), 'abc'.replace('x', 'y'), 'aaa'.replace('aa', 'b'), 'abc'.replace('b', '')
'abc'.replace(1, 2)
', '.join(['a', 'b']), ''.join([]), '-'.join('abc'), ','.join(d), ', '.join(words|sort)
', '.join([1, 2])
'abc'.join(5)
'5'.isdigit(), ''.isdigit(), ' '.isspace(), '1.5'.isdigit()
'a-b-c'.partition('-'), 'a-b-c'.rpartition('-'), 'abc'.partition('x'), 'abc'.rpartition('x'), 'abc'.removeprefix('a'), 'abc'.removesuffix('c'), 'abc'.removeprefix('x')
'{} {}'.format(1, 'a'), '{1} {0}'.format('a', 'b'), '{x} {y}'.format(x=1, y=none), '{{}} {}'.format(1)
'{:+.1f}'.format(-2.55), '{:05.1f}'.format(-2.5), '{:d}'.format(true), '{}'.format(true), '{:>6}'.format(none|string)
'{}'.format()
'{x}'.format(1)
'%(a)s' | format(1, a=2)
'%(a)s %(b)s' | format(a=1, b=2)
'{'.format(1)
'}'.format(1)
'{:d}'.format('a')
'{:s}'.format(1)
'{:z}'.format(1)
'%s %s' % (1, 'a'), '%s' % 'x', '%s' % [1, 2], '%d%%' % 5, '%05d|%5d|%-5d|%+d|% d' % (42, 42, 42, 42, 42), '%5s|%-5s|%.2s' % ('abc', 'abc', 'abc'), '%i' % 3.9, '%(a)s %(b)d' % {'a': 'x', 'b': 3}, '%s' % d.zz
'%s' % ()
'%s %s' % (1,)
'%s' % (1, 2)
'%d' % 'a'
'%y' % 1
'%' % 1
'a' % 1
'a' % (), 'a' % {}, 'a' % []
l.index(1), l.count(3), (1, 2, 1).count(1), (5, 6).index(6)
letters.upper() == letters, letters.upper(), letters.lower()
'%-05d|%-5s|%+05d|%05s|%-+6.1f|% 05d' % (5, 'a', 5, 'a', 2.25, 5)
(range(60)|list + range(60)|list)|unique|list|length, (range(40)|map('string')|list * 2)|unique|join(','), {'a': 1}|length
l.index(9)
l.append(4)
l.pop()
d.update({'z': 1})
d.pop('b')
d.setdefault('q', 1)
l.sort()
l.nope()
d.nope()
s.nope()
l.append is defined, d.pop is defined, d.nope is defined, s.upper is defined, s.upper is callable
''.__class__
s.__class__.__mro__
5()
'x'()
l()
s|upper, s|lower, s|title, s|capitalize, 'hello-world (foo) [bar] <baz> {qux} a_b'|title, "it's"|title, s|trim, ' x '|trim ~ '|', 'xxaxx'|trim('x'), n|upper, none|lower, l|upper
s|length, u|length, l|length, d|length, ''|length, 'é'|count, (1, 2)|length
5|length
none|length
l|map('string')|list|length
l|select|length
l|first, l|last, s|first, s|last, []|first is defined, []|last is defined, d|first, range(4)|last, ''|first is defined
l|map('string')|last
l|join, l|join(','), l|join(', ') , s|join('-'), [1, none, true, 1.5]|join('|'), people|join(', ', attribute='name'), []|join(','), 'é東'|join('.'), d|join(','), people|map(attribute='name')|join
5|join
l|sort, l|sort(reverse=true), words|sort, words|sort(case_sensitive=true), words|sort(reverse=true), people|sort(attribute='age')|map(attribute='name')|list, people|sort(attribute='age,name')|map(attribute='name')|list, people|sort(true, false, 'age')|map(attribute='name')|list, people|sort(attribute='pet.kind')|map(attribute='name')|list, s|sort, d|sort, [true, 0, 2, -1.5]|sort
[1, 'a']|sort
l|sort(attribute='nope'), [{'a': 1}, {'b': 2}]|sort(attribute='x')|length, [{}]|sort(attribute='x')
[{'a': 1}, {}]|sort(attribute='a')
[none]|sort, [none, none]|sort
[none, 1]|sort
5|sort
d|dictsort, d|dictsort(true), {'b': 2, 'a': 3, 'c': 1}|dictsort(by='value'), {'b': 2, 'a': 3}|dictsort(reverse=true), {'B': 1, 'a': 2, 'C': 3}|dictsort(case_sensitive=true), {}|dictsort
d|dictsort(by='value')
l|dictsort
{'a': 1}|dictsort(by='x')
d|items|list, {}|items|list
l|items|list
l|reverse|list, s|reverse, u|reverse, (1, 2)|reverse|list, range(3)|reverse|list
5|reverse
words|unique|list, words|unique(case_sensitive=true)|list, [1, 1.0, true, '1']|unique|list, people|unique(attribute='age')|map(attribute='name')|list, ['a', 'A']|unique|list
[[1]]|unique|list
l|min, l|max, words|min, words|max, words|max(case_sensitive=true), people|min(attribute='age'), people|map(attribute='age')|max, []|min is defined, 'hello'|max, [2, 1.5]|min, people|max(attribute='pet.kind')
[1, 'a']|min
l|sum, people|sum(attribute='age'), []|sum, [1.5, 2]|sum, [[1], [2]]|sum(start=[]), l|sum(start=10)
words|sum
l|map('string')|list, words|map('upper')|list, people|map(attribute='pet.kind')|list, people|map(attribute='zip')|list|length, people|map(attribute='zip', default='-')|list, [1.234, 2.345]|map('round', 1)|list, words|map('replace', 'a', 'x')|list, [[3, 1], [2]]|map('sort')|list, [[1, 2], [3, 4]]|map(attribute=1)|list, [[1, 2], [3, 4]]|map(attribute='0')|list, none|map('upper')|list, words|map('default', 'x')|list
words|map('nope')|list
words|map|list
l|select|list, [0, 1, '', 'a', none]|select|list, [0, 1, none]|reject|list, l|select('odd')|list, l|reject('odd')|list, l|select('gt', 1)|list, l|select('>', 1)|list, l|select('in', [1, 2])|list, l|select('divisibleby', 3)|list, words|select('equalto', 'a')|list, words|select('==', 'a')|list, [1, 'a', none]|select('string')|list, none|select|list
l|select('nope')|list
people|selectattr('age', 'equalto', 31)|map(attribute='name')|list, people|rejectattr('age', 'gt', 30)|map(attribute='name')|list, people|selectattr('zip')|list, people|selectattr('zip', 'undefined')|list|length, people|selectattr('pet.kind', '==', 'cat')|list|length, people|selectattr('name', 'in', ['Ann'])|map(attribute='age')|list, people|selectattr('age')|list|length, people|rejectattr('zip', 'defined')|list|length
people|selectattr|list
l|selectattr('x')|list
l|list, s|list, d|list, range(3)|list, (1, 2)|list, ''|list, u|list
5|list
l|select|list is sequence, l|map('string') is sequence, l|map('string') is iterable, d.items() is sequence, d.keys() is iterable
'yes' if l|select('gt', 100) else 'no'
d|tojson, l|tojson, s|tojson, u|tojson, none|tojson, true|tojson, 1.0|tojson, 1e100|tojson, html|tojson, (1, 2)|tojson, {1: 2, none: 3, true: 4, 1.5: 5}|tojson, ''|tojson, []|tojson, {}|tojson, '\u2028\x00\x1f\x7f"\\/'|tojson, deep|tojson
people|tojson(indent=2)
deep|tojson(indent=4)
[[], {}, [[]], {'a': {}}]|tojson(indent=1), l|tojson(indent=0), l|tojson(indent='--'), l|tojson(indent=none)
d|tojson(separators=(',', ':')), d|tojson(separators=[', ', '=']), d|tojson(indent=2, separators=(' ,', ' : ')), u|tojson(ensure_ascii=true), u|tojson(true), {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true), '🙂'|tojson(ensure_ascii=true), {'b': 1, 'a': 2}|tojson(true, none, none, true)
{1: 1, 'a': 2}|tojson(sort_keys=true)
{(1, 2): 1}|tojson
range(3)|tojson
d.items()|tojson
l|map('string')|tojson
s.upper|tojson
d|tojson(separators=(1, 2))
d|tojson(nope=1)
undefined_name|default, undefined_name|d('x'), none|default('x'), none|default('x', true), ''|default('x', boolean=true), 0|d(5, true), s|default('x'), d.zz|default(default_value='q')
d.zz.y|default('x')
html|escape, html|e, html|e|e, html|safe|e, html|safe + '<', '<' + html|safe, html|safe ~ '<', html|e|string, (html|safe)|upper, [html|safe], 5|e, html|safe|length, html|safe == html, (html|safe)[0:2] + '&', (html|safe).split('"')[0] + '<'
'-1'|int, '42'|int, ' 42 '|int, '42.9'|int, 'x'|int, 'x'|int(-1), '0x1F'|int(0, 16), '1F'|int(base=16), '101'|int(0, 2), '0b101'|int(0, 2), '0o17'|int(0, 8), 3.99|int, -3.99|int, true|int, none|int, l|int, '1_000'|int, ''|int, '1e3'|int, '0x1F'|int, '+5'|int, '--5'|int, '5-'|int
'1.5'|float, 'x'|float, 'x'|float(2.5), 3|float, none|float, '1e3'|float, ' 2 '|float, true|float, '-.5'|float, '5.'|float
1e400|int
7|abs, neg|abs, -2.5|abs, true|abs
'a'|abs
2.5|round, 3.5|round, -2.5|round, 2.675|round(2), 1234|round(-2), 1250|round(-2), 1234.5|round(-2), 2.1|round(0, 'ceil'), 2.9|round(method='floor'), 2.123|round(2, 'ceil'), -2.1|round(0, 'floor'), 5|round, 5|round(2), 5|round(1, 'ceil'), 0.5|round, 1.5|round, true|round
2.5|round(0, 'nope')
'a'|round
s|replace('o', '0'), s|replace('o', '0', 1), s|replace('', '-'), n|replace('7', '8'), s|replace(old='l', new='L'), 'a1'|replace(1, 2)
s|replace('o')
text|indent, text|indent(2), text|indent(2, true), text|indent(2, blank=true), text|indent('> '), text|indent(width=1, first=true, blank=true), 'one'|indent, ''|indent, ''|indent(2, true), 'a\n'|indent(1), 'a\r\nb'|indent(1), '\n'|indent(1), '\n\n'|indent(1, true, true)
5|indent
s.find('o', -9223372036854775807), s[-9223372036854775807:9223372036854775807], l[::9223372036854775807]
('<b>'|e).replace('b', '<'), ('<b>'|safe).replace('b', '<'|safe), ('a'|safe).upper().lower().title().strip('x') + '<', ('a b'|safe).split()[0] + '<', '{}'.format('<'|safe), ('a'|safe).join(['b', 'c']) + '<'
n|string + 'x', l|string|length, none|string, 1.50|string, [1, 'a']|string
s|nope
s|upper(1)
s|trim(nope=1)
s|default('a', 'b', 'c')
s|replace(old='a', old='b')
s|replace('o', 'x', old='l')
s|default('a', default_value='b')
n is odd, n is even, 8 is even, n is divisibleby 7, n is divisibleby(2), 0 is even, -1 is odd, 1.0 is odd, true is odd
'a' is odd
n is divisibleby 0
n is defined, n is number, n is integer, n is float, f is float, f is number, true is number, true is integer, true is boolean, n is boolean, none is none, nil is none, s is string, s is sequence, s is iterable, s is mapping, l is sequence, l is iterable, l is mapping, d is mapping, d is sequence, d is iterable, n is iterable, n is sequence, (1,) is sequence, range(2) is sequence, yes is true, yes is false, no is false, 1 is true, 0 is false, n is sameas 7, l is sameas l, none is sameas none, 1 is sameas 1.0
n is eq 7, n is equalto(7), n is ne 8, n is gt 6, n is greaterthan 7, n is ge 7, n is lt 8, n is lessthan 7, n is le 7, n is in [7, 8], n is not in [7], 'a' is in 'abc', n is not none, n is not defined, s is not string
n is odd if yes else 2
n is not odd and n is not even or yes, (n is odd) if yes else 2, n is none or n is odd, [n is odd], (n is odd), {'a': n is odd}
n is nope
n is odd is even
n is divisibleby
1 is gt 'a'
namespace(a=1).a, namespace().a is defined, namespace({'x': 2}).x, namespace({'x': 2}, x=3).x, namespace(a=1)['a'], namespace(a=1)
namespace().a.b
namespace(a=1)|tojson
namespace(1)
namespace() is mapping, namespace() is iterable, namespace() is sequence
dict(a=1, b=2), dict({'x': 1}, y=2), dict([('a', 1), ('b', 2)]), dict()
dict(1)
dict([1])
strftime_now('%Y-%m-%d %H:%M:%S'), strftime_now('%d %B %Y'), strftime_now('%b %a %j %%'), strftime_now('')
raise_exception('told: ' ~ n)
raise_exception(d)
raise_exception()
deep.x.y[1].z, deep['x']['y'][0], deep.x.y.1.z, deep.x.nope is defined
people[0].pet.kind, people[-1]['name'], people[0].get('name'), people|length, (people|first).name, people|map(attribute='age')|sum
[1, 2, 3,], (1, 2,), {'a': 1,}, [[1, 2][0]], {'a': {'b': {}}}
dict(a=1)|items|list
'a' 'b' ~ 'c', ('x')
(n), ((n)), (((n)) + 1), [((1))]
n if n else undefined_name.x
no and undefined_name.x, yes or undefined_name.x
s.upper().lower().title().split()[0][::-1]|upper
'a' if 'b' in ['b'] and not no else 'c'
1 if 2 is even and 3 is odd else 4
[x, 1], [x is defined]
"\n" in text, text.split("\n")|length, text.strip().split("\n\n")
1, 2 if no else 3, 4
'' if not s else s ~ '!' if yes else '?'
-n|string, -(n|string|int), (-n)|string
l.length is defined
'{:5}|{:<5}|{:>5}|{:^5}|{:^6}|{:05}|{:+}|{: }|{:d}|{:3d}|{:+05d}'.format('a', 'b', 'c', 'd', 'e', 42, 5, 6, 7, 8, 9)
'{:.2f}|{:8.3f}|{:.0f}|{}|{:10}|{:<10}|{:.3}|{:.0s}|{:>4}'.format(3.14159, 2.5, 2.5, 1.0, 1.5, 1.5, 'abcdef', 'abc', none|string)
'{:+.1f}'.format(-2.55), '{:05.1f}'.format(-2.5), '{:d}'.format(true), '{}'.format(true), '{} {}'.format(l, none), '{:6d}'.format(-12)
'{:d}'.format(1.5)
'{:f}'.format('a')
'{:+}'.format('a')
'{:.2}'.format(5)
'{'.format(1)
'}'.format(1)
'{x}'.format(1)
'{} {}'.format(1)
'%s %s' % (1, 'a'), '%s' % 'x', '%s' % [1, 2], '%d%%' % 5, '%05d|%5d|%-5d|%+d|% d' % (42, 42, 42, 42, 42), '%.2f|%8.3f|%f' % (3.14159, 2.5, 1), '%s' % none, '%5s|%-5s|%.2s' % ('abc', 'abc', 'abc'), '%i' % 3.9, '%(a)s %(b)d' % {'a': 'x', 'b': 3}, '%s' % d.zz
'%-05d|%-5s|%+05d|%05s|%-+6.1f|% 05d|%.3d|%5.3d' % (5, 'a', 5, 'a', 2.25, 5, 5, 5)
'%d' % 'a'
'%s' % (1, 2)
'%s %s' % (1,)
'%(a)s' % {'b': 1}
'%(a' % {'a': 1}
'%s|%d'|format('a', 3), '%(k)s'|format(k=1), '%5.1f|'|format(2.25)
'%d' % (-9.3,), '%.0f' % 0.5, '%.0f' % 1.5, '%f' % 1e20
[1,2,3].index(2), (5, 6).index(6), l.count(3), (1, 2, 1).count(1)
l.index(77)
""".strip("\n").split("\n")

STATEMENTS = [
    "{{ s }}", "{{s}}", "{{- s -}}", "  {{- s -}}  x", "a {{+ s }}", "{{ '{{' }} {{ '%}' }} {{ '}}' }} {{ {'a': {'b': 1}} }}",
    "{{ [1,2]|map('string')|list }}", "", "\n", "\n\n", "a\n", "a\n\n", "a\r\nb\r\n", "a\rb\r", "{{ s }}\n", "{{ s }}\n\n",
    "{{", "{{ s", "{{ s }", "{%", "{% if", "{% if x", "{# x", "{% raw %}x", "}} %} #}", "{ { } }", "{{}}", "{{ }}", "{% %}",
    "{{ 'x }}", "{{ s } }", "{{ ( }}", "{{ [1, }}", "{{ {1 }}", "{{ {1:} }}", "{{ s s }}", "{{ 1 2 }}", "{{ a.}}", "{{ |x }}",
    "{{ s| }}", "{{ s|upper| }}", "{{ s is }}", "{{ if }}", "{{ 'a' 1 }}", "{{ a..b }}", "{{ @ }}", "{{ $x }}", "{{ a ? b }}", "{{ a ! }}",
    "{{ not }}", "{{ 1 + }}", "{{ * 2 }}", "{{ f(a=1, 2) }}", "{{ f(**d, *l) }}", "{{ f(*l, *l) }}", "{{ x[ }}", "{{ x[1 }}", "{{ x[] }}",
    # comments and white space
    "a{# comment #}b", "a {#- c -#} b", "a\n  {# c #}\nb", "a\n  {#+ c +#}\nb", "{# {{ x }} {% if %} #}x", "a{#-#}b", "a {#--#} b", "{##}x",
    "  {% if yes %}\n  x\n  {% endif %}\ny", "a\n    {% if yes %}b{% endif %}\n c", "  {%+ if yes %}x{% endif %}", "a  {%- if yes -%}  b  {%- endif -%}  c",
    "a\n\n  {%- if yes %}\n\nb{% endif +%}\n\nc", "{% if yes %}\n\n\nx{% endif %}\n\n", "{% if yes -%}\n\n x{% endif %}", "x {% if yes %} y {% endif %} z\n",
    "\t{% if yes %}\n\ta\n\t{% endif %}\n", "{{ s }}  {% if yes %}\n x{% endif %}", "a\n {{ s }}\n  {{- s }}\n{{ s -}}\n  b", "\u00a0{%- if yes %}x{% endif %}", "a\u3000\n {{- s }}",
    "{% set x = 1 %}\n{{ x }}\n{% set y = 2 -%}\n{{ y }}", "  {{ s }}\n  {% set x = 1 %}\n  {{ x }}\n", "{%- set x = 1 -%}\n\n{{ x }}", "a {%+ set x = 1 +%}\nb",
    "a\n{%- raw %} {{ x }} {% if %} {% endraw -%}\n b", "{% raw %}{{ s }}{% endraw %}", "{%- raw -%}\n  a {{ b }}\n  {%- endraw -%}\n c", "x\n  {% raw %}\n  y\n  {% endraw %}\nz", "{% raw %}{% raw %}{% endraw %}", "{%+ raw %} a {%+ endraw +%}\n b",
    "{{'a'}}{{'b'}}\n{{'c'}}",
    "{{ \"a\nb\" }}", "{{ 'a\\\nb' }}", "{{ 'a\r\nb' }}|",
    # if
    "{% if no %}a{% elif n == 7 %}b{% elif yes %}c{% else %}d{% endif %}", "{% if no %}a{% else %}b{% endif %}", "{% if s and l and not empty %}x{% endif %}", "{% if undefined_name %}a{% endif %}b",
    "{% if yes %}a", "{% if yes %}a{% endfor %}", "{% endif %}", "{% else %}", "{% if %}x{% endif %}", "{% if yes %}{% else %}{% else %}{% endif %}", "{% if no %}{{ s|nope }}{% endif %}ok", "{% if yes %}{{ s|nope }}{% endif %}", "{% if no %}{{ s is nope }}{% endif %}ok", "{{ s|nope if no else 'ok' }}",
    "{% if 1, 2 %}x{% endif %}", "{% if yes: %}x{% endif %}",
    # for
    "{% for x in l %}{{ x }}{% endfor %}", "{% for x in l %}{{ x }}{% else %}none{% endfor %}", "{% for x in [] %}{{ x }}{% else %}none{% endfor %}", "{% for x in undefined_name %}a{% else %}b{% endfor %}",
    "{% for x in none %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|items %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}",
    "{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}{{ b }};{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for c in 'aé🙂' %}[{{ c }}]{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}", "{% for x in l %}{{ loop.nextitem.y }}{% endfor %}",
    "{% for x in l %}{{ loop.nope is defined }}{{ loop['index'] }}{% endfor %}",
    "{% for x in l|map('string') %}{{ loop.length }}{{ loop.last }}{{ x }}{% endfor %}", "{% for x in l|select('gt', 1) %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }};{% endfor %}", "{% for x in l if x > 5 %}{{ x }}{% else %}none{% endfor %}", "{% for k, v in d.items() if v %}{{ k }}{% endfor %}", "{% for x in l if x > 1 %}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in range(9) if not ns.stop %}{{ x }}{% if x == 3 %}{% set ns.stop = true %}{% endif %}{% endfor %}", "{% set ns = namespace(stop=false) %}{% for x in range(9) if not ns.stop %}{{ x }}{{ loop.last }}{% if x == 3 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% continue %}", "{% for x in l %}{% break %}{% else %}e{% endfor %}x", "{% for x in l %}{% for y in l %}{% break %}{% endfor %}{{ x }}{% endfor %}",
    "{% for x in [] %}{% else %}{% break %}{% endfor %}", "{% for y in l %}{{ y }}{% for x in [] %}{% else %}{% break %}{% endfor %}z{% endfor %}",
    "{% for x in l %}{% for y in 'ab' %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for t in tree %}{{ loop(t.kids) }}{% endfor %}",
    "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}|{{ x }}|{{ loop }}", "{% set y = 0 %}{% for x in l %}{{ y }}{% set y = y + x %}{{ y }};{% endfor %}{{ y }}", "{% set ns = namespace(y=0) %}{% for x in l %}{% set ns.y = ns.y + x %}{% endfor %}{{ ns.y }}", "{% set y = 0 %}{% if yes %}{% set y = 1 %}{% endif %}{{ y }}",
    "{% for x in l %}{% if loop.first %}{% set z = 1 %}{% endif %}{{ z }};{% endfor %}", "{% for n in l %}{{ n }}{% endfor %}{{ n }}", "{% for x in l %}{% for x in 'ab' %}{{ x }}{% endfor %}{{ x }}{% endfor %}", "{% for x in l %}{{ x }}", "{% for x %}{% endfor %}", "{% for x in %}{% endfor %}", "{% for 1 in l %}{% endfor %}", "{% for x.y in l %}{% endfor %}",
    "{% for x in d.items() %}{{ x }}{{ loop.length }}{% endfor %}", "{% for x in d.values() %}{{ x }},{% endfor %}", "{% for x in range(3)|reverse %}{{ x }}{% endfor %}",
    "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = l|map('string') %}{% for x in g %}{{ x }}{% if loop.first %}{% break %}{% endif %}{% endfor %}{{ g|list }}", "{% for x in l if loop.index %}{% endfor %}", "{% for a in l %}{% for b in l if b > a %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
    # set
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set (x, y) = [1, 2] %}{{ x }}{{ y }}", "{% set x, y = [1] %}", "{% set x %}a {{ s }} b{% endset %}[{{ x }}]", "{% set x | upper | replace('A', 'b') %}a {{ s }}{% endset %}[{{ x }}]", "{% set x %}\n  {% set y = 1 %}{{ y }}\n{% endset %}{{ x }}{{ y }}", "{% set x = 1 if no %}{{ x }}", "{% set x %}{% endset %}{{ x|length }}{{ x is string }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns.a + 1 %}{{ ns.a }}{{ ns.b }}", "{% set d.x = 1 %}", "{% set nope.x = 1 %}", "{% set ns = namespace(l=[]) %}{% for x in l %}{% set ns.l = ns.l + [x * 2] %}{% endfor %}{{ ns.l }}", "{% set x = %}", "{% set = 1 %}", "{% set 1 = 2 %}", "{% set x y %}", "{% set true = 1 %}", "{% set x %}a", "{% set ns = namespace() %}{% set ns.a, y = 1, 2 %}{{ ns.a }}{{ y }}", "{% set ns = namespace() %}{% set ns.t %}abc{% endset %}{{ ns.t }}",
    "{{ x }}{% set x = 1 %}{{ x }}", "{% set s = s ~ '!' %}{{ s }}", "{% set range = 5 %}{{ range }}", "{% set items = d.items() %}{% for k, v in items %}{{ k }}{% endfor %}{% for k, v in items %}{{ v }}{% endfor %}",
    # macro, call, filter, with, generation
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}", "{% macro m(a=b, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}{{ m(b=3) }}{{ m(4) }}", "{% set a = 1 %}{% macro m(a=a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "{% macro m(a, b) %}{{ b is defined }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m(b=1, a) %}{% endmacro %}", "{% macro fact(n) %}{{ n }}{% if n > 1 %}*{{ fact(n - 1) }}{% endif %}{% endmacro %}{{ fact(5) }}", "{% macro loop_forever(n) %}{{ loop_forever(n) }}{% endmacro %}{{ loop_forever(1) }}", "{% macro m() %}{% set q = 1 %}{{ q }}{{ s }}{% endmacro %}{{ m() }}{{ q }}", "{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}", "{% macro m() %}{{ later }}{% endmacro %}{% set later = 3 %}{{ m() }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m() -%}\n  a\n  {%- endmacro %}[{{ m() }}]", "{% macro m(x) %}{% for y in x %}{{ y }}{% endfor %}{% endmacro %}{{ m(l)|upper }}{{ m('ab') ~ m('cd') }}", "{{ m }}{% macro m() %}{% endmacro %}{{ m is callable }}{{ m.name }}{{ m }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}x{{ s }}{% endcall %}", "{% macro m(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(a, b) m(l) %}{{ a }}:{{ b }} {% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% call s %}{% endcall %}", "{% macro m(x) %}{{ x }}{{ caller(y=2) }}{% endmacro %}{% call(y, z=3) m(1) %}{{ y }}{{ z }}{% endcall %}", "{% macro o() %}<{{ caller() }}>{% endmacro %}{% macro i() %}({{ caller() }}){% endmacro %}{% call o() %}{% call i() %}x{% endcall %}{% endcall %}", "{% macro m(*a) %}{% endmacro %}", "{% macro m(a, a) %}{{ a }}{% endmacro %}", "{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}", "{% macro m(caller=none) %}{{ caller() if caller else 'no' }}{% endmacro %}{{ m() }}{% call m() %}c{% endcall %}",
    "{% macro m() %}{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}{% endmacro %}{{ m() }}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% macro m(x=[]) %}{{ x }}{% endmacro %}{{ m() }}{{ m([1]) }}{{ m(none) }}",
    "{% filter upper %}a {{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}banana{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nope %}x{% endfilter %}", "{% filter trim %}  {% set q = 1 %}{{ q }} {% endfilter %}{{ q }}", "{% filter upper %}x",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a, b = 1 %}{% endwith %}", "{% with a %}{% endwith %}", "{% for x in l %}{% with y = x %}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endwith %}{% endfor %}",
    "{% generation %}{{ s }}{% endgeneration %}", "{% for x in l %}{% generation %}{{ x }}{% set q = 1 %}{% endgeneration %}{{ q }}{% endfor %}", "a\n{% generation %}\nb\n{% endgeneration %}\nc", "{% generation %}x",
    "{% print s %}", "{% print s, n %}", "{% unknown %}", "{% endunknown %}", "{% 5 %}",
    "{% if s is string and s|length > 3 and s[0] == 'H' %}ok{% endif %}", "{% if 'a' in d and d['a'] is not none %}ok{% endif %}", "{%- for p in people -%}\n  {{- p.name }}{% if not loop.last %}, {% endif -%}\n{%- endfor %}",
    "{{ raise_exception('Only user and assistant roles are supported!') if not no }}", "{% if n == 7 %}{{ raise_exception('n is ' + n|string) }}{% endif %}", "{{ raise_exception('zeile\neins') }}" if False else "{{ s }}",
    "{% for i in range(3) %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}\n", "{{ '%s' % s }}{{ '%d' % n }}", "{%- macro r(d) -%}{%- for k, v in d|dictsort -%}{{ k }}:{%- if v is mapping %}{{ r(v) }}{% else %}{{ v }}{% endif %};{%- endfor -%}{%- endmacro -%}{{ r({'b': {'y': 1, 'x': 2}, 'a': 3}) }}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{{ m }}{% macro m() %}{% endmacro %}{{ m is callable }}{{ m.name }}{{ m }}",
]

SNIPPETS = ["{{ [" + line + "]|string if true }}" if line.startswith("x, ") else "{{ " + line + " }}"
            for line in EXPRESSIONS] + STATEMENTS
