#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/template/unicode_tables.h from Python's unicodedata: the classes and case mappings of str.

    python3 scripts/make_template_unicode.py > src/template/unicode_tables.h

Only characters from U+0080 on are listed; unicode.c answers for ASCII itself.
"""
import unicodedata

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
    print(f"static const {declaration}[] = {{")
    for i in range(0, len(rows), per_line):
        print("    " + " ".join(row + "," for row in rows[i:i + per_line]))
    print("};\n")


def main():
    print("// SPDX-License-Identifier: Apache-2.0\n//")
    print("// unicode_tables.h: classes and case mappings of characters from U+0080 on, written by\n"
          f"// scripts/make_template_unicode.py from Unicode {unicodedata.unidata_version}; do not edit.")
    print("#pragma once\n\n#include <stdint.h>\n")
    print("struct code_range {\n  uint32_t first, last;\n};\n")
    print("// first, first + stride, … last become themselves + distance.")
    print("struct case_run {\n  uint32_t first, last;\n  int32_t distance;\n  uint32_t stride;\n};\n")
    print("// Characters that become several; 0 ends a short list.")
    print("struct case_special {\n  uint32_t from, to[3];\n};\n")
    print("// clang-format off")
    for name, predicate in (("alphabetic", str.isalpha), ("decimal", str.isdecimal), ("upper", str.isupper),
                            ("lower", str.islower), ("unprintable", lambda c: not c.isprintable())):
        rows = [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(predicate)]
        table(f"struct code_range {name}_ranges", rows, 4)
    for name, function in (("upper", str.upper), ("lower", str.lower)):
        simple, special = cases(function)
        table(f"struct case_run {name}_runs", [f"{{0x{a:X}, 0x{b:X}, {d}, {s}}}" for a, b, d, s in simple], 3)
        rows = [f"{{0x{c:X}, {{{', '.join(f'0x{x:X}' for x in to)}}}}}" for c, to in special]
        table(f"struct case_special {name}_special", rows, 2)
    print("// clang-format on")


if __name__ == "__main__":
    main()
