#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/template/unicode_tables.h from Python's unicodedata: what str.upper, str.lower and repr know.

    python3 scripts/make_template_unicode.py > new.h

Only characters from U+0080 on are listed; unicode.c answers for ASCII itself.

Python versions differ in their Unicode.  Where this Python has another version than the file in the repository, that
file is written again as it is, if the two agree on every character that both versions have; else this Python's own
tables come out.  So a comparison with the repository means the same on every machine.
"""
import os
import re
import sys
import unicodedata

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../src/template/unicode_tables.h")
ALL = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def ranges(predicate):
    found = []
    for c in ALL:
        if not predicate(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def runs(mapping):
    """Groups characters that move by one distance, next to each other or every second one."""
    found = []
    for c, distance in mapping:
        last = found[-1] if found else None
        if last and last[2] == distance and (c - last[1] == last[3] or (last[0] == last[1] and c - last[1] <= 2)):
            last[3] = c - last[1]
            last[1] = c
        else:
            found.append([c, c, distance, 1])
    return found


def cases(function):
    simple, special = [], []
    for c in ALL:
        to = function(chr(c))
        if len(to) > 1:
            special.append((c, [ord(x) for x in to]))
        elif ord(to) != c:
            simple.append((c, ord(to) - c))
    return runs(simple), special


def table(declaration, rows, per_line):
    lines = ["    " + " ".join(row + "," for row in rows[i:i + per_line]) for i in range(0, len(rows), per_line)]
    return [f"static const {declaration}[] = {{", *lines, "};", ""]


HEAD = """// SPDX-License-Identifier: Apache-2.0
//
// unicode_tables.h: case mappings of characters from U+0080 on, and which of them cannot be shown;
// written by scripts/make_template_unicode.py from Unicode {version}; do not edit.
#pragma once

#include <stdint.h>

struct code_range {{
  uint32_t first, last;
}};

// first, first + stride, … last become themselves + distance.
struct case_run {{
  uint32_t first, last;
  int32_t distance;
  uint32_t stride;
}};

// Characters that become several; 0 ends a short list.
struct case_special {{
  uint32_t from, to[3];
}};

// clang-format off"""


def generate():
    lines = [HEAD.format(version=unicodedata.unidata_version)]
    rows = [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(lambda c: not c.isprintable())]
    lines += table("struct code_range unprintable_ranges", rows, 4)
    for name, function in (("upper", str.upper), ("lower", str.lower)):
        simple, special = cases(function)
        lines += table(f"struct case_run {name}_runs", [f"{{0x{a:X}, 0x{b:X}, {d}, {s}}}" for a, b, d, s in simple], 3)
        rows = [f"{{0x{c:X}, {{{', '.join(f'0x{x:X}' for x in to)}}}}}" for c, to in special]
        lines += table(f"struct case_special {name}_special", rows, 2)
    return "\n".join(lines + ["// clang-format on"]) + "\n"


def numbers(text, name):
    """The rows of one table, as lists of numbers."""
    body = re.search(name + r"\[\] = {\n(.*?)\n};", text, re.S).group(1)
    return [[int(n, 0) for n in re.findall(r"-?\b(?:0x)?[0-9A-F]+\b", row)] for row in re.findall(r"{(.*?)},(?=\s|$)", body)]


def agrees(text):
    """Whether a file of another version says the same of each character that it and this Python both have.  What the
    older version lacks is not printable there, and a mapping to it is missing there."""
    hidden = {c for a, b in numbers(text, "unprintable_ranges") for c in range(a, b + 1)}
    both = [c for c in ALL if c not in hidden and unicodedata.category(chr(c)) != "Cn"]
    missing = {c for c in hidden if unicodedata.category(chr(c)) == "Cn"}
    if any(not chr(c).isprintable() for c in both) or any(chr(c).isprintable() for c in missing):
        return False
    for name, function in (("upper", str.upper), ("lower", str.lower)):
        maps = {c: [c + d] for a, b, d, s in numbers(text, name + "_runs") for c in range(a, b + 1, s)}
        maps.update((row[0], row[1:]) for row in numbers(text, name + "_special"))
        for c in both:
            to = [ord(x) for x in function(chr(c))]
            if maps.get(c, [c]) != to and not any(x in hidden for x in to):
                return False
    return True


def main():
    with open(FILE) as file:
        there = file.read()
    version = re.search(r"from Unicode ([0-9.]+);", there).group(1)
    if version != unicodedata.unidata_version and agrees(there):
        print(f"this Python has Unicode {unicodedata.unidata_version}: compared with the tables of {version}", file=sys.stderr)
        sys.stdout.write(there)
    else:
        sys.stdout.write(generate())


if __name__ == "__main__":
    main()
