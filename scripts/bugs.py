#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bugs.py [--preset P] [WORD…]: puts small bugs in by hand, one at a time, and says which test catches each.

The bugs are listed in test/bugs/bugs.txt.  Each is put into a copy of the tree under build/bugs; the tests of its room
(or those that its row names) are built and run until one fails.  A bug that no test catches SURVIVED: a test is missing.
WORD chooses the bugs whose text, file or tests contain it.  Ends with "N passed, N failed": caught, and not.
A bug whose text is no longer in its file is reported, too: the row must follow the code.
--preset debug is quicker to build than the default, asan, and sees less.
"""
import os
import re
import subprocess
import sys
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..'))
COPY = os.path.join(ROOT, 'build', 'bugs')
TREE = ('src', 'test', 'cmake', 'scripts', 'web', 'bench', 'CMakeLists.txt', 'CMakePresets.json')


def read_bugs():
    bugs, part = [], None
    for line in open(os.path.join(ROOT, 'test', 'bugs', 'bugs.txt'), encoding='utf-8'):
        line = line.rstrip('\n')
        word, _, rest = line.partition(' ')
        if word == 'bug':
            bugs.append({'what': rest, '-': [], '+': []})
        elif word in ('file', 'tests'):
            bugs[-1][word] = rest
        elif word in ('-', '+'):
            part = word
            bugs[-1][part].append(rest)
        elif line.strip() and not line.startswith('#'):
            bugs[-1][part].append(line)
    for bug in bugs:
        room = bug['file'].split('/')[1]
        bug.setdefault('tests', '^%s\\.' % room)
    return bugs


def with_bug(text, bug):
    """The text with the bug in it, or None when the old text is not there exactly once."""
    lines = [re.escape(line.strip()) for line in bug['-']]
    found = re.findall(r'\s*\n\s*'.join(lines), text)
    if len(found) < 1:
        return None
    return text.replace(found[0], '\n'.join(bug['+']), 1)


def targets_of(regex, folder):
    """The targets to build for the tests that the regex chooses: C tests by name, the program for scripts."""
    listing = subprocess.run(['ctest', '--test-dir', folder, '-N', '-R', regex], stdout=subprocess.PIPE, text=True)
    names = re.findall(r'Test +#\d+: (\S+)', listing.stdout)
    targets = {'test_' + name.replace('.', '_', 1) for name in names if not re.search(r'\.(py|sh)$', name)}
    targets = {'replay_' + t[len('test_replay_'):] if t.startswith('test_replay_') else t for t in targets}
    return sorted(targets | {'motley'})


def try_bug(bug, preset, folder):
    """(verdict, detail)"""
    path = os.path.join(COPY, bug['file'])
    with open(path, encoding='utf-8') as file:
        good = file.read()
    bad = with_bug(good, bug)
    if bad is None:
        return 'does not apply', bug['file'] + ' has no such text'
    with open(path, 'w', encoding='utf-8') as file:
        file.write(bad)
    try:
        build = subprocess.run(['scripts/build.sh', preset, *targets_of(bug['tests'], folder)], cwd=COPY,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if build.returncode != 0:
            return 'does not build', build.stdout.decode(errors='replace')[-1500:]
        tests = subprocess.run(['ctest', '--test-dir', folder, '-R', bug['tests'], '--stop-on-failure', '--timeout', '120'],
                               cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        failed = re.findall(r'^\s+\d+ - (\S+) \(', tests.stdout.decode(errors='replace'), re.M)
        return ('caught', failed[0]) if failed else ('SURVIVED', '')
    finally:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(good)


def environment(folder):
    script = 'eval "$(scripts/test-inputs.sh %s/motley)" && env -0' % folder
    listing = subprocess.run(['bash', '-c', script], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return dict(item.decode().split('=', 1) for item in listing.split(b'\0') if b'=' in item)


def main():
    words = sys.argv[1:]
    preset = words.pop(words.index('--preset') + 1) if '--preset' in words else 'asan'
    words = [w for w in words if not w.startswith('--')]
    bugs = [b for b in read_bugs() if not words or any(w in ' '.join((b['what'], b['file'], b['tests'])) for w in words)]
    os.makedirs(COPY, exist_ok=True)
    for name in TREE:  # with their times, so that a second run builds only what changed
        subprocess.run(['rm', '-rf', os.path.join(COPY, name)], check=True)
        subprocess.run(['cp', '-a', os.path.join(ROOT, name), COPY], check=True)
    folder = os.path.join(COPY, 'build', preset)
    subprocess.run(['scripts/build.sh', preset], cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    os.environ.update(environment(os.path.join(ROOT, 'build', preset)))
    caught = 0
    for bug in bugs:
        began = time.monotonic()
        verdict, detail = try_bug(bug, preset, folder)
        caught += verdict == 'caught'
        print('%-14s %-30s %s (%s, %.0f s)' % (verdict, detail if verdict == 'caught' else '', bug['what'], bug['file'],
                                               time.monotonic() - began), flush=True)
        if verdict not in ('caught', 'SURVIVED'):
            print(detail)
    print('%d passed, %d failed' % (caught, len(bugs) - caught))
    sys.exit(caught != len(bugs))


main()
