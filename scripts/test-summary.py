#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-summary.py RESULTS.xml: what a run of ctest came to, from its JUnit file.

Prints a line for each test that was skipped, as a whole or a single case of it, with the reason that it gave, and last
"N passed, N failed, N skipped".  Skips that are expected are listed with their reason in test/skips.txt; any other is
marked "not in test/skips.txt", and fails the run when STRICT_SKIPS=1 (as in .ci/run), so that no test stops running
unnoticed.  A test that could not be started counts as failed.
"""
import os
import re
import sys
import xml.etree.ElementTree

LIST = os.path.join(os.path.dirname(__file__), '..', 'test', 'skips.txt')


def expected_skips():
    """{name: why} of the rows "NAME: why"; a name is a test, or test/case."""
    rows = {}
    for line in open(LIST, encoding='utf-8'):
        if line.strip() and not line.startswith('#'):
            name, _, why = line.strip().partition(': ')
            rows[name] = why
    return rows


def reason_in(output):
    said = re.search(r'^skipped: (.*)$', output, re.M)
    return said.group(1) if said else 'it gave no reason'


def read(path):
    """(passed, failed names, skips as (name, reason))"""
    passed, failed, skips = 0, [], []
    for case in xml.etree.ElementTree.parse(path).getroot().iter('testcase'):
        name, status = case.get('name'), case.get('status')
        output = case.findtext('system-out') or ''
        skip = case.find('skipped')
        if status == 'run':
            passed += 1
            cases = re.findall(r'^\[  SKIPPED \] (?!\d+ test)(\w+)$', output, re.M)
            skips += [('%s/%s' % (name, c), 'a case of a test that passed') for c in dict.fromkeys(cases)]
        elif status == 'notrun' and skip is not None and 'SKIP_RETURN_CODE' in (skip.get('message') or ''):
            skips.append((name, reason_in(output)))
        else:
            failed.append(name)
    return passed, failed, skips


def main():
    passed, failed, skips = read(sys.argv[1])
    expected, strict = expected_skips(), os.environ.get('STRICT_SKIPS') == '1'
    unlisted = [name for name, _ in skips if name not in expected]
    for name, reason in skips:
        print('skipped: %s: %s' % (name, expected[name] if name in expected else reason + ' (not in test/skips.txt)'))
    bad = len(failed) + (len(unlisted) if strict else 0)
    print('%d passed, %d failed, %d skipped' % (passed, bad, len(skips)))
    sys.exit(bad != 0)


main()
