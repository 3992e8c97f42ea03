#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""template-usage.py FOLDER: what the chat templates in FOLDER (*.jinja) use of Jinja, and how many of them do.

    python3 scripts/template-usage.py build/templates      needs the package jinja2

The engine in src/template keeps what is listed here, and what an author is likely to write next.
scripts/chat-templates.sh brings a folder of published templates.
"""
import collections
import glob
import os
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True))


ENVIRONMENT = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols, "jinja2.ext.do"])


def names(tree):
    """(kind, name) of everything in one template that the engine needs a row or a node for."""
    for node in tree.find_all(nodes.Node):
        kind = type(node).__name__
        if isinstance(node, nodes.Filter):
            yield "filter", node.name
            yield from (("filter argument", f"{node.name}({k.key}=)") for k in node.kwargs or [])
            if node.args:
                yield "filter argument", f"{node.name}({len(node.args)})"
            if node.name in ("map", "select", "reject", "selectattr", "rejectattr"):
                yield from (("filter argument", f"{node.name}: {a.value}") for a in node.args if isinstance(a, nodes.Const))
        elif isinstance(node, nodes.Test):
            yield "test", node.name
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            yield "method", node.node.attr
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
            yield "call", node.node.name
        elif isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name) and node.node.name == "loop":
            yield "loop", node.attr
        elif isinstance(node, nodes.BinExpr) and kind == "Mod" and isinstance(node.left, nodes.Const):
            yield "format", repr(node.left.value)[:40]
        if not isinstance(node, (nodes.Filter, nodes.Test)):
            yield "node", kind


def main():
    used = collections.defaultdict(set)
    paths = sorted(glob.glob(sys.argv[1] + "/*.jinja"))
    for path in paths:
        with open(path) as file:
            tree = ENVIRONMENT.parse(file.read())
        for kind, name in names(tree):
            used[kind, name].add(os.path.basename(path))
    print(f"{len(paths)} templates")
    for (kind, name), where in sorted(used.items(), key=lambda row: (row[0][0], -len(row[1]), row[0][1])):
        print(f"{kind:16} {len(where):4} {name}")


main()
