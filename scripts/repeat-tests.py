#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""repeat-tests.py [--runs N] [--seconds S] [--preset asan|tsan|debug] [--load N] [--jobs N] [-R REGEX]

Finds tests that fail by chance: runs every test many times beside a load that keeps all cores busy.

  --runs N     runs of each test; without it 200 for a test written in C, 30 for a script (they start browsers and
               servers), and 50 under the thread sanitizer, where only the tests with the label "threads" are run
  --seconds S  no further run of a test begins when its runs took so long: a bound on the time of the whole
  --preset P   which build: asan (the default), tsan or debug; it is brought up to date first
  --load N     processes that only compute (as many as there are cores)
  --jobs N     tests that run at the same time (1)
  -R REGEX     only tests whose name matches

Prints a table of test, runs, failures and seconds for a run.  The output of each failed run is kept in
build/repeat/TEST.RUN.log.  A test that is skipped is run once and marked so.  Ends with "N passed, N failed", counted
in tests, and fails when one run of one test failed.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..'))
SKIPPED = 77
RUNS_C, RUNS_SCRIPT, RUNS_THREADS = 200, 30, 50
LOGS = os.path.join(ROOT, 'build', 'repeat')


def environment_of_test_inputs(folder):
    """What scripts/test-inputs.sh says tests need, as a dictionary."""
    script = 'eval "$(scripts/test-inputs.sh %s)" && env -0' % shlex.quote(os.path.join(folder, 'motley'))
    listing = subprocess.run(['bash', '-c', script], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return dict(item.decode().split('=', 1) for item in listing.split(b'\0') if b'=' in item)


def tests_of(folder, environment):
    """[{name, command, environment, folder, timeout, labels}]"""
    listing = subprocess.run(['ctest', '--test-dir', folder, '--show-only=json-v1'], cwd=ROOT, env=environment,
                             stdout=subprocess.PIPE, check=True)  # it finds python3 by this PATH
    tests = []
    for test in json.loads(listing.stdout)['tests']:
        properties = {p['name']: p['value'] for p in test.get('properties', [])}
        tests.append({'name': test['name'], 'command': test['command'],
                      'environment': dict(e.split('=', 1) for e in properties.get('ENVIRONMENT', [])),
                      'folder': properties.get('WORKING_DIRECTORY', ROOT), 'labels': properties.get('LABELS', []),
                      'timeout': properties.get('TIMEOUT', 600)})
    return tests


def runs_of(test, options):
    if options.runs:
        return options.runs
    if options.preset == 'tsan':
        return RUNS_THREADS
    return RUNS_SCRIPT if re.search(r'\.(sh|py)$', test['name']) else RUNS_C


def run_once(test, environment, prefix):
    """(exit status or what ended it, output)"""
    try:
        done = subprocess.run(prefix + test['command'], cwd=test['folder'], env={**environment, **test['environment']},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=test['timeout'])
    except subprocess.TimeoutExpired as late:
        return 'timeout', late.stdout or b''
    return done.returncode, done.stdout


def repeat(test, environment, prefix, options):
    """(test, runs, failures, seconds of all runs, skipped)"""
    began, failures, runs = time.monotonic(), 0, 0
    for run in range(1, runs_of(test, options) + 1):
        if options.seconds and run > 1 and time.monotonic() - began > options.seconds:
            break
        status, output = run_once(test, environment, prefix)
        runs = run
        if status == SKIPPED:
            return test, runs, failures, time.monotonic() - began, True
        if status != 0:
            failures += 1
            with open(os.path.join(LOGS, '%s.%d.log' % (test['name'], run)), 'wb') as log:
                log.write(output + b'\n[ended with %s]\n' % str(status).encode())
    return test, runs, failures, time.monotonic() - began, False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[1])
    parser.add_argument('--runs', type=int, default=0)
    parser.add_argument('--seconds', type=float, default=0)
    parser.add_argument('--preset', default='asan')
    parser.add_argument('--load', type=int, default=os.cpu_count())
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('-R', dest='regex', default='')
    options = parser.parse_args()
    folder = os.path.join('build', options.preset)
    subprocess.run(['scripts/build.sh', options.preset], cwd=ROOT, check=True)
    environment = environment_of_test_inputs(folder)
    environment.setdefault('ASAN_OPTIONS', 'detect_stack_use_after_return=1:strict_string_checks=1')
    environment.setdefault('UBSAN_OPTIONS', 'print_stacktrace=1')
    environment.setdefault('TSAN_OPTIONS', 'halt_on_error=1:second_deadlock_stack=1')
    # gcc 12's thread sanitizer cannot place its shadow where the kernel spreads addresses widely.
    prefix = ['setarch', '-R'] if options.preset == 'tsan' else []
    tests = [t for t in tests_of(folder, environment) if re.search(options.regex, t['name'])]
    if options.preset == 'tsan':
        tests = [t for t in tests if 'threads' in t['labels']]
    os.makedirs(LOGS, exist_ok=True)
    load = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(options.load)]
    failed = 0
    try:
        print('%-34s %6s %9s %9s' % ('test', 'runs', 'failures', 's a run'), flush=True)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            jobs = [pool.submit(repeat, test, environment, prefix, options) for test in tests]
            for job in concurrent.futures.as_completed(jobs):
                test, runs, failures, seconds, skipped = job.result()
                failed += failures > 0
                print('%-34s %6d %9s %9.2f' % (test['name'], runs, 'skipped' if skipped else failures, seconds / runs),
                      flush=True)
    finally:
        for process in load:
            process.kill()
            process.wait()
    print('%d passed, %d failed' % (len(tests) - failed, failed))
    return failed != 0 or not tests


if __name__ == '__main__':
    sys.exit(main())
