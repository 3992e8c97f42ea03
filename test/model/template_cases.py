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
    "html": "<a href=\"x\">'&'</a>", "text": "line one\nline two\n\nline four\n",
}

SNIPPETS = ["{{ s }}"]
