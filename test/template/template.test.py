#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The template engine against the real jinja2, set up as transformers sets it up for chat templates.

    python3 test/template/template.test.py                 checks (needs the package jinja2, else it is skipped)
    python3 test/template/template.test.py --store         also writes the cases of SNIPPETS and CHATS to
                                                        test/template/cases/, where `make test` finds them
    MOTLEY_TEMPLATE_FOLDER=DIR python3 …                also renders every *.jinja in DIR over all conversations
                                                        (default: build/templates, where scripts/chat-templates.sh
                                                        puts published ones; without that folder they are left out)

Each case goes through the C program test_template_template_cases, which compares byte by byte.  Cases of whole chat
templates go through test_model_hostile, too, which fills the conversations with text that looks like special tokens.
"""
import copy
import datetime
import glob
import json
import os
import subprocess
import sys
import tempfile

try:
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("jinja2 is not installed: pip install jinja2")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import template_random  # noqa: E402
from template_cases import CHATS, CONVERSATIONS, SNIPPETS, VARIABLES  # noqa: E402

NOW_MS = 1_764_500_000_123
STORE = "test/template/cases"


class Raised(jinja2.exceptions.TemplateError):
    """raise_exception was called."""


class Generation(Extension):
    """{% generation %}: a block whose body is rendered in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(str(message))


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(pattern):
    return datetime.datetime.fromtimestamp(NOW_MS / 1000, datetime.timezone.utc).strftime(pattern)


def make_environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


ENV = make_environment()


SETS = dict(CONVERSATIONS, snippets=VARIABLES)


def expect(name, source, variables):
    """One case with what jinja2 makes of it; `variables` names one of SETS."""
    case = {"name": name, "template": source, "variables": variables, "now_ms": NOW_MS}
    try:
        # a copy, since the filter indent adds a newline to a list in place
        text = ENV.from_string(source).render(**copy.deepcopy(SETS[variables]))
        text.encode()
        case["output"] = text
    except Raised as error:
        case["error"] = str(error)
    except Exception:  # whatever Python raised: the engine must fail too, with a sentence of its own
        case["error"] = ""
    return case


def write(cases, file):
    """A line for each set of variables that the cases use, and one for each case."""
    used = {case["variables"] for case in cases}
    line = lambda value: json.dumps(value, ensure_ascii=False)  # noqa: E731
    file.write('{"variables": {\n' + ",\n".join(f"{line(n)}: {line(v)}" for n, v in SETS.items() if n in used))
    file.write('\n}, "cases": [\n' + ",\n".join(map(line, cases)) + "\n]}\n")


def run(cases, what, programs=("test_template_template_cases",)):
    print(f"{what}: {len(cases)} cases, {sum('output' in c for c in cases)} with a text")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        write(cases, file)
        file.flush()
        folder = os.environ.get("MOTLEY_BUILD", "build/asan")
        environment = dict(os.environ, MOTLEY_TEMPLATE_CASES=file.name)
        return all([subprocess.run([os.path.join(folder, program)], env=environment, check=False).returncode == 0
                    for program in programs])


def store(cases, name):
    os.makedirs(STORE, exist_ok=True)
    with open(f"{STORE}/{name}.json", "w") as file:
        write(cases, file)


def main():
    os.environ["TZ"] = "UTC"
    snippets = [expect(source[:60], source, "snippets") for source in SNIPPETS]
    chats = [expect(f"{name} / {about}", source, about)
             for name, source in CHATS.items() for about in CONVERSATIONS]
    if "--store" in sys.argv:
        store(snippets, "snippets")
        store(chats, "chats")
    good = run(snippets, "snippets") and run(chats, "chats")
    count, seed = int(os.environ.get("MOTLEY_TEMPLATE_RANDOM", "1000")), int(os.environ.get("MOTLEY_TEMPLATE_SEED", "1"))
    sources = template_random.expressions(count, seed) + template_random.programs(count, seed)
    good = run([expect(source, source, "snippets") for source in sources], f"random, seed {seed}") and good
    folder = os.environ.get("MOTLEY_TEMPLATE_FOLDER", "build/templates")
    if os.path.isdir(folder):
        found = []
        for path in sorted(glob.glob(folder + "/*.jinja")):
            with open(path) as file:
                source = file.read()
            found += [expect(f"{os.path.basename(path)} / {about}", source, about)
                      for about in CONVERSATIONS]
        good = run(found, folder, ("test_template_template_cases", "test_model_hostile")) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
