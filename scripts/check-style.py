#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-style.py [--self-test] [ROOT]: the rules of CONTRIBUTING.md that a program can hold.

Over the C files of src/, test/ and bench/: lengths (file, function, line) and an opening comment.
Over src/ alone, with comments and strings blanked out: words that belong to certain rooms only (the
table FORBIDDEN says which and what to use instead), unfinished work, and, where build/ or
build/asan holds the rooms' libraries, the names that each room shows to the linker and the
variables it keeps.  Calls to the system for files, network, clock, randomness and processes are looked
for by outside.py, whose violations are reported here too.

--self-test writes a file for each rule that breaks it, and fails when that goes unnoticed.
One line per violation, then "N passed, N failed", counted in files and libraries.
"""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

import outside

FILE_LINES = 1500
FUNCTION_LINES = 100
COLUMNS = 100
HEAD_FROM_LINES = 50  # files at least so long open with a comment
HEAD_WORDS = 12       # of at least so many words

LIBRARY_ROOMS = r"src/(base|template|tokenizer|net|store|device|probe|tile|kernel|comm|model|library)/"  # floors 0 to 7

# name of the rule, what is found (in code, not in comments), where it is allowed, what to do
FORBIDDEN = [
    ("memory", r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|asprintf|aligned_alloc)\s*\(",
     r"src/base/", "use memory_*, arena_* or buffer_* of base/base.h"),
    ("big memory", r"(?<![\w.>])memory_(try|free)_big\s*\(",
     r"(?!src/(kernel|model|engine)/)", "what computes takes memory of a device: device_memory_allocate"),
    ("exit", r"(?<![\w.>])(exit|_exit|_Exit|quick_exit|abort)\s*\(",
     r"src/cli/|src/base/(memory|world_process)\.c", "return an error"),
    ("print", r"(?<![\w.>])((printf|vprintf|puts|putchar|perror)\s*\(|(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)\b)",
     r"(?!" + LIBRARY_ROOMS + r")|src/base/(log|memory)\.c", "library rooms never print: return an error"),
    ("log", r"(?<![\w.>])log_(line|event)\s*\(",
     r"(?!" + LIBRARY_ROOMS + r")|src/base/", "library rooms never log: return an error"),
    ("locale", r"(?<![\w.>])setlocale\s*\((?!LC_CTYPE\b)", r"(?!)", "numbers are written and read in the C locale"),
    ("unsafe", r"(?<![\w.>])(gets|strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|atof|mktemp|tmpnam)\s*\(",
     r"(?!)", "use snprintf, buffer_* or str_to_*"),
]
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

# What the names of a room's external symbols begin with, besides the room's own name.
PREFIXES = {
    "base": "error json_tree memory arena str buffer map hash log number pool work world random file sampling simulation",
    "cli": "generate",
    "model": "chat",
    "tokenizer": "detokenizer token_list",
}
# Variables that are not constant, each with its reason.
STATICS = {
    ("base", "settings"): "the log's level and form, set in main before threads start",
    ("base", "dropped"): "log lines that nobody read; counted for the process, as its stderr is",
    ("base", "fail_countdown"): "a test makes an allocation fail, in whichever thread",
    ("base", "memory_watcher"): "a simulation is told what its thread takes and gives back",
    ("base", "guarded"): "a signal handler reaches nothing else",
    ("base", "before"): "a signal handler reaches nothing else",
    ("base", "installing"): "the handler of SIGBUS is the process's, like the signal",
    ("cli", "screen_changed"): "a signal handler reaches nothing else",
    ("cli", "interrupted"): "a signal handler reaches nothing else",
    ("cli", "signalled_server"): "a signal handler reaches nothing else",
}

BLANK = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """The text with comments, strings and characters blanked, lines kept."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def functions(lines):
    """(first line number, name, length) of every function; clang-format puts both braces of one
    where they are looked for: the last one alone in column 1."""
    start, name = None, None
    for number, line in enumerate(lines, 1):
        opening = re.match(r"(?!typedef)[A-Za-z_].*?(\w+)\s*\(", line)
        if opening:
            start, name = number, opening.group(1)
        elif line.rstrip() == "}" and start:
            yield start, name, number - start + 1
            start = None
        elif line.startswith("};"):
            start = None


def head_words(lines):
    """Words of the comment that opens a file, its SPDX line left out."""
    words = 0
    for line in lines:
        if not line.startswith("//"):
            break
        if "SPDX" not in line:
            words += len(re.findall(r"\w{2,}", line))
    return words


def check_shape(path, text):
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not text.startswith("// SPDX-License-Identifier: Apache-2.0\n"):
        yield f"{path}:1: spdx: the first line must be // SPDX-License-Identifier: Apache-2.0"
    if len(lines) > FILE_LINES:
        yield f"{path}: file: {len(lines)} lines, at most {FILE_LINES}"
    if len(lines) >= HEAD_FROM_LINES and head_words(lines) < HEAD_WORDS:
        yield f"{path}: head: say in the opening comment what the file is for and how it works"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield f"{path}:{number}: wide: {len(line)} columns, at most {COLUMNS}"
    for number, name, length in functions(lines):
        if length > FUNCTION_LINES:
            yield f"{path}:{number}: function: {name} has {length} lines, at most {FUNCTION_LINES}"


def check_words(path, text):
    code = code_only(text)
    for rule, pattern, allowed, instead in FORBIDDEN:
        if re.match(allowed, path):
            continue
        for match in re.finditer(pattern, code):
            line = code.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: {rule}: {match.group().rstrip('( ')} is not for this room; {instead}"
    for match in UNFINISHED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{line}: unfinished: {match.group()}; finish it or write an issue"


# ---- what the linker sees

SYMBOL = re.compile(r"^[0-9a-f]{8,} (.{7}) (\S+)\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$")


def symbols(library):
    """(flags, section, name) of everything a static library defines."""
    listing = subprocess.run(["objdump", "-t", library], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        match = SYMBOL.match(line)
        if match and match.group(2) != "*UND*":
            yield match.groups()


def check_library(room, library, listed=symbols):
    prefixes = [room] + PREFIXES.get(room, "").split()
    for flags, section, name in listed(library):
        if name.startswith(("__odr", "__asan", ".", "*", "_sub_", "DW.")) or "d" in flags[5:6] and name == section:
            continue  # what sanitizers and the assembler add
        if flags[0] in "gu!" and not any(name.startswith(p + "_") for p in prefixes):
            yield f"{library}: symbol: {name} should begin with {' or '.join(p + '_' for p in prefixes)}"
        variable = re.match(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)", section) or section == "*COM*"
        base_name = re.sub(r"\.\d+$", "", name)
        if variable and "O" in flags and (room, base_name) not in STATICS:
            yield f"{library}: static: {name} is a variable; keep state in a context that is passed in"


def libraries(root):
    rooms = {os.path.basename(p.rstrip("/")) for p in glob.glob(os.path.join(root, "src/*/"))}
    for folder in ("build", "build/asan"):
        found = {room: os.path.join(root, folder, f"lib{room}.a") for room in sorted(rooms)}
        found = {room: path for room, path in found.items() if os.path.exists(path)}
        if found:
            return found
    return {}


# ---- all of it


def check(root):
    """(violations, places looked at)."""
    violations, places = [], 0
    for top in ("src", "test", "bench"):
        for folder, folders, files in sorted(os.walk(os.path.join(root, top))):
            folders.sort()
            for name in sorted(f for f in files if f.endswith((".c", ".h"))):
                whole = os.path.join(folder, name)
                path = os.path.relpath(whole, root)
                with open(whole, encoding="utf-8", errors="replace") as file:
                    text = file.read()
                places += 1
                violations += check_shape(path, text)
                if top == "src":
                    violations += check_words(path, text)
    for room, library in libraries(root).items():
        places += 1
        violations += check_library(room, library)
    return violations, places


# ---- the self-test

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEAD = SPDX + "//\n// x.c: a file for the test of the checker that says enough words about what it is for.\n\n"
GOOD = HEAD + """#include <stdio.h>
// free(x) and exit(1) in a comment, "printf(" too.
static const char *const text = "malloc(1) TO" "DO time(0) stderr";
int x_free(struct x *x) {
  x->free(x), s.time(0), world->random(x), memory_free(x), fprintf(file, text);
  return 'a';
}
"""
BREAKS = [  # path, text, rule
    ("src/api/x.c", "// no licence\n", "spdx"),
    ("src/api/x.c", HEAD + "int x;\n" * 1500, "file"),
    ("src/api/x.c", SPDX + "int x;\n" * 60, "head"),
    ("test/api/x.c", HEAD + "// " + "ä" * 98 + "\n", "wide"),
    ("src/api/x.c", HEAD + "int f(void) {\n" + "  g();\n" * 99 + "}\n", "function"),
    ("src/api/x.c", HEAD + "void f(\n    int a) {\n" + "  g();\n" * 98 + "}\n", "function"),
    ("src/api/x.c", HEAD + "int f(void) { return !malloc(1); }\n", "memory"),
    ("src/net/x.c", HEAD + "void f(void) { free (x); }\n", "memory"),
    ("src/server/x.c", HEAD + "void f(void) { exit(1); }\n", "exit"),
    ("src/base/map.c", HEAD + "void f(void) { abort(); }\n", "exit"),
    ("src/engine/x.c", HEAD + 'void *f(void) { return memory_try_big(9, "x", 0); }\n', "big memory"),
    ("src/model/x.c", HEAD + 'void f(void) { printf("x"); }\n', "print"),
    ("src/library/x.c", HEAD + 'void f(void) { fprintf(stderr, "x"); }\n', "print"),
    ("src/kernel/x.c", HEAD + 'void f(void) { log_line(LOG_INFO, "x"); }\n', "log"),
    ("src/cli/x.c", HEAD + 'void f(void) { setlocale(LC_ALL, ""); }\n', "locale"),
    ("src/cli/x.c", HEAD + "int f(char *x) { return atoi(x); }\n", "unsafe"),
    ("src/cli/x.c", HEAD + "// TO" + "DO: all of it\n", "unfinished"),
]
SYMBOLS = [  # room, (flags, section, name), rule or None
    ("net", ("g     F", ".text", "net_loop_new"), None),
    *[(room, ("g     F", ".text", words.split()[0] + "_x"), None) for room, words in PREFIXES.items()],
    ("net", ("g     F", ".text", "loop_new"), "symbol"),
    ("net", ("l     F", ".text", "helper"), None),
    ("net", ("l     O", ".bss", "counter.3"), "static"),
    ("net", ("l     O", ".data", "table"), "static"),
    ("net", ("l     O", ".data.rel.ro.local", "table"), None),
    ("net", ("l     O", ".rodata", "table"), None),
    *[(room, ("l     O", ".data." + name, name), None) for room, name in STATICS],
]


def self_test():
    outcomes = collections.Counter()

    def expect(name, violations, rule):
        right = len(violations) == 1 and f" {rule}: " in violations[0] if rule else not violations
        outcomes[right] += 1
        if not right:
            print(f"self-test: {name} should break {rule or 'nothing'}: {violations}")

    for path, text, rule in [("src/api/x.c", GOOD, None), ("src/base/memory.c", GOOD, None)] + BREAKS:
        with tempfile.TemporaryDirectory() as root:
            whole = os.path.join(root, path)
            os.makedirs(os.path.dirname(whole))
            with open(whole, "w", encoding="utf-8") as file:
                file.write(text)
            expect(path, check(root)[0], rule)
    for room, symbol, rule in SYMBOLS:
        expect(symbol, list(check_library(room, "lib.a", lambda _, s=symbol: [s])), rule)
    print(f"{outcomes[True]} passed, {outcomes[False]} failed")
    return outcomes[False]


def main():
    arguments = [a for a in sys.argv[1:] if a != "--self-test"]
    if "--self-test" in sys.argv:
        sys.exit(self_test() != 0)
    root = os.path.relpath(arguments[0] if arguments else os.path.join(os.path.dirname(__file__), ".."))
    violations, places = check(root)
    violations += outside.check(root)[0]
    for violation in violations:
        print(violation)
    accused = {v.split(":")[0] for v in violations}
    print(f"{places - len(accused)} passed, {len(accused)} failed")
    sys.exit(bool(violations))


main()
