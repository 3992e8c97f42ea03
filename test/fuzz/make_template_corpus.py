#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz_template from the cases of test/template/template_cases.py.

    python3 test/fuzz/make_template_corpus.py

One file per chat template with a conversation that has tools and calls, and the stored snippets that render, several
to a file.  What does not render comes by itself: the replay and the fuzzer damage the seeds.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../template"))
from template_cases import CHATS, CONVERSATIONS, VARIABLES  # noqa: E402

FOLDER = os.path.join(HERE, "corpus/template")
TOGETHER = 8  # snippets in a file


def write(name, source, variables):
    with open(os.path.join(FOLDER, name), "w") as file:
        file.write(source + "\n=== variables\n" + json.dumps(variables, ensure_ascii=False))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, source in CHATS.items():
        write(f"chat-{name}", source, CONVERSATIONS["two calls"])
    variables = dict(VARIABLES, letters="Ǆǆß")
    with open(os.path.join(HERE, "../template/cases/snippets.json")) as file:
        good = [case["template"] for case in json.load(file)["cases"] if "output" in case]
    for i in range(0, len(good), TOGETHER):
        write(f"snippets-{i // TOGETHER:02}", "\n".join(good[i:i + TOGETHER]), variables)


if __name__ == "__main__":
    main()
