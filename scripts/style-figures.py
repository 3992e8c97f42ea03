#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""style-figures.py [--check | --update | --worst N] [ROOT]: how the C code of src/ reads, in figures that may not get worse.

Without an option it prints the table.  --check compares with the committed figures in scripts/style-figures.txt and
fails when one is worse; --update writes today's figures there, and refuses to write one that is worse.  --worst N also
names the longest functions, the longest files, the silent files and the functions without a comment.

For the whole:
  comments          share of lines that carry a comment (the SPDX line is not counted)
  opens             share of files of 50 lines or more whose opening comment has 12 words or more
  documented        share of functions of 8 lines or more with a comment right above
  explained         share of the prototypes in headers with a comment above, behind, or above their group
  function_median, function_p95, function_longest      lines from the signature to the closing brace
  over_screen       share of functions longer than 60 lines
  nesting_p95       95th percentile of the deepest brace of a function
  private           share of functions that are static
  wide              lines of more than 100 columns
  file_longest      lines
  includes          mean number of #include in a file
  headers           headers for each source file
  goto, macros, variables      for 1,000 lines: goto, macros with arguments, variables that live as long as the program
  asserts           for 100 functions on the floors of kernel, model, engine and api
For each room:
  tests ROOM        lines in test/ROOM (any language) for each line in src/ROOM; the goal is 0.8

The text is read with comments, strings and preprocessor lines blanked out; clang-format has put every function's name in
the first column and its closing brace alone in the first column, so that no parser is needed.
"""
import os
import re
import statistics
import sys

SCREEN = 60
COLUMNS = 100
BIG_FILE = 50
HEAD_WORDS = 12
SHORT_FUNCTION = 8
ASSERT_ROOMS = ('device', 'kernel', 'model', 'engine', 'api')
FIGURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'style-figures.txt')

# Which way is better: +1 higher, -1 lower.  A room's "tests" is +1.  Slack: what may be lost by one ordinary change,
# so that a change is not stopped for a figure that it moves by rounding; 0 for those where the exact value matters.
BETTER = {
    'comments': (+1, 0.003), 'opens': (+1, 0), 'documented': (+1, 0.01), 'explained': (+1, 0.01),
    'function_median': (-1, 1), 'function_p95': (-1, 1), 'function_longest': (-1, 0), 'over_screen': (-1, 0.001),
    'nesting_p95': (-1, 0), 'private': (+1, 0.01), 'wide': (-1, 0), 'file_longest': (-1, 50), 'includes': (-1, 0.1),
    'headers': (-1, 0.02), 'goto': (-1, 0.1), 'macros': (-1, 0.1), 'variables': (-1, 0.1), 'asserts': (+1, 0.5),
}
TESTS_SLACK = 0.02
# Where a figure is at least this good, it may move freely.
GOOD_ENOUGH = {'comments': 0.15, 'opens': 0.95, 'documented': 0.75, 'explained': 0.92, 'function_median': 15,
               'function_p95': 50, 'over_screen': 0.0, 'private': 0.65, 'file_longest': 1000, 'includes': 6,
               'headers': 0.5, 'goto': 1, 'macros': 3, 'variables': 0.5, 'asserts': 100}
TESTS_GOOD = 0.8

BLANK = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PREPROCESSOR = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.M)
FUNCTION = re.compile(r'^(?!typedef\b)[A-Za-z_][^;={}\n]*\((?:[^;{}]|\n)*?\)\s*\{', re.M)
PROTOTYPE = re.compile(r'^(?!typedef\b|struct \w+ \{|#|return\b)[A-Za-z_][\w \*]*?\w+\([^;{}]*\)[^;{}()]*;', re.M)
VARIABLE = re.compile(r'^(?:static )?(?!const\b|typedef\b|extern\b|return\b)(?:_Thread_local )?[A-Za-z_][\w ]*[ \*]\w+(?:\[[^\]]*\])*'
                      r'(?: =[^;]*|);', re.M)


def blanked(match):
    return re.sub(r'[^\n]', ' ', match.group())


class File:
    """One C file: its lines, and functions as (length, name, first line, nesting, has a comment, is static)."""

    def __init__(self, path, text):
        self.path, self.lines = path, text.split('\n')[:-1]
        self.code = PREPROCESSOR.sub(blanked, BLANK.sub(blanked, text))
        self.comment_lines = self.find_comments(text)
        self.functions = [self.function(m) for m in FUNCTION.finditer(self.code)]
        self.includes = len(re.findall(r'^\s*#\s*include\b', text, re.M))
        self.macros = len(re.findall(r'^\s*#\s*define\s+\w+\(', text, re.M))
        self.gotos = len(re.findall(r'\bgoto\b', self.code))
        self.asserts = len(re.findall(r'\b(?:assert|ASSERT\w*)\s*\(', self.code))
        inside = set()
        for length, _, first, *_ in self.functions:
            inside.update(range(first, first + length))
        outside = '\n'.join('' if n in inside else line for n, line in enumerate(self.code.split('\n'), 1))
        statics = re.findall(r'^\s+static\s+(?!const\b)(?![^;=]*\*const\b)[^;()]*;', self.code, re.M)
        self.variables = len(statics) + sum(
            1 for m in VARIABLE.finditer(outside)
            if not re.search(r'\bconst\b|^(struct|union|enum) \w+;', m.group().split('=')[0]) and
            '(' not in m.group().split('=')[0])

    @staticmethod
    def find_comments(text):
        lines = set()
        for match in BLANK.finditer(text):
            if match.group().startswith('/') and 'SPDX' not in match.group():
                first = text.count('\n', 0, match.start()) + 1
                lines.update(range(first, first + match.group().count('\n') + 1))
        return lines

    def function(self, match):
        first = self.code.count('\n', 0, match.start()) + 1
        depth = deepest = 0
        end = match.end() - 1
        for end in range(match.end() - 1, len(self.code)):
            if self.code[end] == '{':
                depth += 1
                deepest = max(deepest, depth)
            elif self.code[end] == '}':
                depth -= 1
                if depth == 0:
                    break
        length = self.code.count('\n', match.start(), end) + 1
        name = re.findall(r'(\w+)\s*\(', match.group())[0]
        return (length, name, first, deepest, first - 1 in self.comment_lines or first in self.comment_lines,
                'static' in match.group().split('(')[0].split())

    def opens(self):
        words = 0
        for line in self.lines:
            if not line.startswith('//'):
                break
            words += 0 if 'SPDX' in line else len(re.findall(r'\w{2,}', line))
        return words >= HEAD_WORDS

    def prototypes(self):
        """(declared, explained): one comment covers the prototypes that follow it without an empty line."""
        declared = explained = 0
        for match in PROTOTYPE.finditer(self.code):
            first = self.code.count('\n', 0, match.start()) + 1
            last = self.code.count('\n', 0, match.end()) + 1
            declared += 1
            above = first
            while above > 1 and self.lines[above - 2].strip() and above - 1 not in self.comment_lines:
                above -= 1
            explained += bool(self.comment_lines & set(range(above - 1, last + 1)))
        return declared, explained


def read(root):
    files = []
    for folder, folders, names in os.walk(os.path.join(root, 'src')):
        folders.sort()
        for name in sorted(names):
            if name.endswith(('.c', '.h')):
                whole = os.path.join(folder, name)
                with open(whole, encoding='utf-8') as file:
                    files.append(File(os.path.relpath(whole, root), file.read()))
    return files


def share(part, whole):
    return part / whole if whole else 1


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def test_lines(root, room):
    total = 0
    for folder, _, names in os.walk(os.path.join(root, 'test', room)):
        for name in names:
            if name.endswith(('.c', '.h', '.py', '.sh', '.mjs')):
                with open(os.path.join(folder, name), 'rb') as file:
                    total += file.read().count(b'\n')
    return total


def measure(root, files):
    functions = [f for file in files for f in file.functions]
    lengths = [f[0] for f in functions]
    lines = sum(len(file.lines) for file in files)
    big = [file for file in files if len(file.lines) >= BIG_FILE]
    long_ones = [f for f in functions if f[0] >= SHORT_FUNCTION]
    headers = [file for file in files if file.path.endswith('.h')]
    declared, explained = (sum(column) for column in zip(*[file.prototypes() for file in headers]))
    checked = [file for file in files if file.path.split('/')[1] in ASSERT_ROOMS]
    per_thousand = 1000 / lines
    figures = {
        'comments': sum(len(file.comment_lines) for file in files) / lines,
        'opens': share(sum(file.opens() for file in big), len(big)),
        'documented': share(sum(f[4] for f in long_ones), len(long_ones)),
        'explained': share(explained, declared),
        'function_median': statistics.median(lengths),
        'function_p95': percentile(lengths, 0.95),
        'function_longest': max(lengths),
        'over_screen': sum(length > SCREEN for length in lengths) / len(lengths),
        'nesting_p95': percentile([f[3] for f in functions], 0.95),
        'private': sum(f[5] for f in functions) / len(functions),
        'wide': sum(len(line) > COLUMNS for file in files for line in file.lines),
        'file_longest': max(len(file.lines) for file in files),
        'includes': sum(file.includes for file in files) / len(files),
        'headers': len(headers) / (len(files) - len(headers)),
        'goto': sum(file.gotos for file in files) * per_thousand,
        'macros': sum(file.macros for file in files) * per_thousand,
        'variables': sum(file.variables for file in files) * per_thousand,
        'asserts': 100 * share(sum(file.asserts for file in checked), sum(len(file.functions) for file in checked)),
    }
    for room in sorted({file.path.split('/')[1] for file in files}):
        own = sum(len(file.lines) for file in files if file.path.split('/')[1] == room)
        figures['tests ' + room] = test_lines(root, room) / own
    return {name: round(value, 3) for name, value in figures.items()}


def is_worse(name, now, before):
    """Whether a figure is worse than before by more than its slack, and not good enough all the same."""
    room = name.startswith('tests ')
    sign, slack = (+1, TESTS_SLACK) if room else BETTER[name]
    good = TESTS_GOOD if room else GOOD_ENOUGH.get(name)
    if good is not None and sign * (now - good) >= 0:
        return False
    return sign * (before - now) > slack + 1e-9


def committed():
    if not os.path.exists(FIGURES):
        return {}
    with open(FIGURES, encoding='utf-8') as file:
        rows = [line.rsplit(None, 1) for line in file if line.strip() and not line.startswith('#')]
    return {name.strip(): float(value) for name, value in rows}


def update(figures, before):
    """Takes what is better than the committed figure; the others stay."""
    rows = []
    for name, now in figures.items():
        sign = +1 if name.startswith('tests ') else BETTER[name][0]
        old = before.get(name, now)
        rows.append('%-20s %g' % (name, now if sign * (now - old) > 0 else old))
    with open(FIGURES, 'w', encoding='utf-8') as file:
        file.write('# Written by scripts/style-figures.py --update, which says what each means.  No figure may get worse.\n')
        file.write('\n'.join(rows) + '\n')


def print_worst(files, count):
    functions = sorted(((f, file.path) for file in files for f in file.functions), reverse=True)
    print('\nlongest functions:')
    for f, path in functions[:count]:
        print('  %4d %s:%d %s' % (f[0], path, f[2], f[1]))
    print('longest files:')
    for file in sorted(files, key=lambda file: -len(file.lines))[:count]:
        print('  %4d %s' % (len(file.lines), file.path))
    print('functions without a comment:')
    for f, path in [row for row in functions if row[0][0] >= SHORT_FUNCTION and not row[0][4]][:count]:
        print('  %4d %s:%d %s' % (f[0], path, f[2], f[1]))
    print('files that open without a word:',
          *[file.path for file in files if len(file.lines) >= BIG_FILE and not file.opens()][:count])


def main():
    arguments = sys.argv[1:]
    worst = int(arguments.pop(arguments.index('--worst') + 1)) if '--worst' in arguments else 0
    folders = [a for a in arguments if not a.startswith('--')]
    root = folders[0] if folders else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    files = read(root)
    figures, before = measure(root, files), committed()
    failed = [name for name, now in figures.items() if name in before and is_worse(name, now, before[name])]
    print('%-20s %9s %9s' % ('figure', 'today', 'was'))
    for name, now in figures.items():
        print('%-20s %9g %9s%s' % (name, now, '%g' % before[name] if name in before else '',
                                   '  WORSE' if name in failed else ''))
    if worst:
        print_worst(files, worst)
    if '--update' in arguments and not failed:
        update(figures, before)
    for name in failed:
        print('style-figures: %s is %g and was %g: mend that, or say in the commit why the row of %s changes'
              % (name, figures[name], before[name], os.path.relpath(FIGURES, root)))
    print('%d passed, %d failed' % (len(figures) - len(failed), len(failed)))
    sys.exit(bool(failed) and not worst)


if __name__ == '__main__':
    main()
