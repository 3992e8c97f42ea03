#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-includes.py [--self-test] [ROOT]: includes point only down the floors of the house.

The table FLOORS below is the one in docs/architecture.md: a room may include the public headers of
rooms on lower floors, and of rooms to its left on its own floor.  Checked for every file of src/:

  up         a room includes one above it (or to its right)
  private    a room reaches into another room's internal.h or sub-folder
  path       an include is not written as "room/header.h", or the file is not there
  room       a folder of src/ is not in the table
  cycle      headers include each other in a circle
  apart      a room of the table APART includes more than that table allows it

and for test/ and bench/: only test/<room>/ (and test/fuzz/, which aims at parsers wherever they are)
may include <room>'s private headers.
--self-test builds a small house, breaks each rule in turn, and fails when that goes unnoticed.
One line per violation, then "N passed, N failed", counted in files.
"""
import os
import re
import sys
import tempfile

FLOORS = [
    ["base"],
    ["template", "tokenizer", "net", "store"],
    ["probe", "device"],
    ["tile"],
    ["kernel"],
    ["comm"],
    ["model"],
    ["library"],
    ["engine"],
    ["api"],
    ["gateway", "agent", "server"],
    ["cli"],
]
ORDER = [room for floor in FLOORS for room in floor]
# Rooms that other programs use alone: all that they may include beside themselves.
APART = {"api": ["base"]}
GENERATED = ("server/assets_generated.h",)  # written by the build, not in the repository

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def c_files(root, top):
    for folder, folders, files in sorted(os.walk(os.path.join(root, top))):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".c", ".h", ".inc")):
                yield os.path.relpath(os.path.join(folder, name), root)


def includes_of(root, path):
    """(line number, included name) of every quoted include outside of comments."""
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        text = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), file.read())
    return [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in INCLUDE.finditer(text)]


def is_private(name):
    """internal.h, and whatever lies deeper than the room's own folder."""
    return name.count("/") > 1 or "internal" in os.path.basename(name)


def check_src_include(root, path, name):
    """The rule that `#include "name"` in src file `path` breaks, or None."""
    room, target = path.split("/")[1], name.split("/")[0]
    if "/" not in name or ".." in name.split("/"):
        return 'path: write it as "room/header.h"'
    if name not in GENERATED and not os.path.exists(os.path.join(root, "src", name)):
        return f"path: there is no src/{name}"
    if target not in ORDER:
        return f"room: src/{target} is not in the table of floors"
    if target == room:
        return None
    if ORDER.index(target) > ORDER.index(room):
        return f"up: {room} must not know {target}, which lies above it"
    if target not in APART.get(room, ORDER):
        return f"apart: {room} must do without {target}, so that programs can use it alone"
    if is_private(name):
        return f"private: {name} belongs to {target} alone"
    return None


def check_test_include(path, name):
    room, target = path.split("/")[1], name.split("/")[0]
    if target in ORDER and is_private(name) and room not in (target, "fuzz"):
        return f"private: only test/{target} may look into {name}"
    return None


def find_cycle(graph):
    """A circle in {file: [files]}, as a list that ends where it begins, or None."""
    state, trail = {}, []

    def visit(node):
        state[node] = "open"
        trail.append(node)
        for following in graph.get(node, ()):
            if state.get(following) == "open":
                return trail[trail.index(following):] + [following]
            if following not in state:
                found = visit(following)
                if found:
                    return found
        state[node] = "done"
        trail.pop()
        return None

    for node in sorted(graph):
        if node not in state:
            found = visit(node)
            if found:
                return found
    return None


def check(root):
    """(violations, files looked at)."""
    violations, count, graph = [], 0, {}
    for path in c_files(root, "src"):
        count += 1
        parts = path.split("/")
        if len(parts) < 3 or parts[1] not in ORDER:
            violations.append(f"{path}: room: not in a room of the table of floors")
            continue
        found = includes_of(root, path)
        graph[path] = ["src/" + name for _, name in found]
        for line, name in found:
            broken = check_src_include(root, path, name)
            if broken:
                violations.append(f"{path}:{line}: {broken}")
    for top in ("test", "bench"):
        for path in c_files(root, top):
            count += 1
            for line, name in includes_of(root, path):
                broken = check_test_include(path, name) if path.count("/") > 1 else None
                if broken:
                    violations.append(f"{path}:{line}: {broken}")
    cycle = find_cycle(graph)
    if cycle:
        violations.append("cycle: " + " → ".join(cycle))
    return violations, count


# ---- the self-test

HOUSE = {
    "src/base/base.h": "",
    "src/base/base.c": '#include "base/base.h"\n',
    "src/net/net.h": '#include "base/base.h"\n',
    "src/library/library.c": '#include "net/net.h"\n// #include "cli/x.h"\n',
    "src/kernel/internal.h": "",
    "src/kernel/kernel.h": '#include "base/base.h"\n',
    "src/kernel/cpu/pack.h": "",
    "src/kernel/cpu/pack.c": '#include "kernel/cpu/pack.h"\n#include "kernel/internal.h"\n',
    "src/model/model.c": '#include "kernel/kernel.h"\n',
    "src/api/api.c": '#include <jansson.h>\n#include "base/base.h"\n',
    "test/kernel/test_kernel.c": '#include "kernel/internal.h"\n#include "support/check.h"\n',
    "test/fuzz/fuzz_pack.c": '#include "kernel/internal.h"\n',
}
BREAKS = [  # file, its text, the rule that must be reported
    ("src/base/bad.c", '#include "net/net.h"\n', "up"),
    ("src/net/bad.c", '#include "library/library.h"\n', "up"),
    ("src/kernel/bad.c", '\n# include  "model/model.h"\n', "up"),
    ("src/api/bad.c", '#include "kernel/kernel.h"\n', "apart"),
    ("src/model/bad.c", '#include "kernel/internal.h"\n', "private"),
    ("src/model/bad.c", '#include "kernel/cpu/pack.h"\n', "private"),
    ("test/model/test_bad.c", '#include "kernel/internal.h"\n', "private"),
    ("src/base/bad.c", '#include "base.h"\n', "path"),
    ("src/base/bad.c", '#include "base/../net/net.h"\n', "path"),
    ("src/base/bad.c", '#include "base/absent.h"\n', "path"),
    ("src/attic/attic.c", "", "room"),
    ("src/lost.c", "", "room"),
    ("src/base/base.h", '#include "base/ring.h"\n', "cycle"),
]


def self_test():
    failed = 0
    support = {"src/library/library.h": "", "src/model/model.h": "",
               "src/base/ring.h": '#include "base/base.h"\n'}
    for path, text, rule in [(None, None, None)] + BREAKS:
        with tempfile.TemporaryDirectory() as root:
            house = {**HOUSE, **support}
            if path:
                house[path] = text
            for name, content in house.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(content)
            violations, _ = check(root)
        if rule is None and violations:
            print(f"self-test: a clean house is accused: {violations[0]}")
            failed += 1
        if rule and not (len(violations) == 1 and f"{rule}: " in violations[0]):
            print(f"self-test: {path} with {text!r} should break \"{rule}\" only: {violations}")
            failed += 1
    print(f"{len(BREAKS) + 1 - failed} passed, {failed} failed")
    return failed


def main():
    arguments = [a for a in sys.argv[1:] if a != "--self-test"]
    if "--self-test" in sys.argv:
        sys.exit(self_test() != 0)
    root = arguments[0] if arguments else os.path.join(os.path.dirname(__file__), "..")
    violations, count = check(root)
    for violation in violations:
        print(violation)
    accused = {v.split(":")[0] for v in violations}
    print(f"{max(count - len(accused), 0)} passed, {len(accused)} failed")
    sys.exit(bool(violations))


main()
