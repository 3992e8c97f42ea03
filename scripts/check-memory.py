#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-memory.py: valgrind over pull, start, chat, stop, and a run at the terminal.

Everything runs with the small models that the tests make, so that it takes a minute or two.  What must hold for each
process: no invalid access and no use of a value that was never set, no block that is definitely lost, and at the end no
file descriptor open but those that the process was given.  The build is the preset debug: valgrind sees more without
a sanitizer in its way.  Valgrind knows no AVX-512, so it is the kernels for AVX2 that run here; the others are tested
under the address sanitizer.  Logs are in build/memory.  Ends with "N passed, N failed".
"""
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..'))
LOGS = os.path.join(ROOT, 'build', 'memory')
os.chdir(ROOT)
if not shutil.which('valgrind'):
    sys.exit('check-memory: valgrind is missing; scripts/install-dependencies.sh test installs it')
subprocess.run(['scripts/build.sh', 'debug', 'motley', 'story'], check=True)
shutil.rmtree(LOGS, ignore_errors=True)
os.makedirs(LOGS)

# The program under valgrind, as a program: all that test/support/motley.py starts is watched.
program = os.path.join(LOGS, 'motley')
with open(program, 'w') as file:
    file.write('#!/bin/sh\nexec valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite '
               '--show-leak-kinds=definite --track-fds=yes --log-file=%s/%%p.log %s/build/debug/motley "$@"\n' % (LOGS, ROOT))
os.chmod(program, 0o755)
os.environ.update(MOTLEY_BINARY=program, MOTLEY_BUILD=os.path.join(ROOT, 'build', 'debug'),
                  MOTLEY_HOME=os.path.join(LOGS, 'home'))
sys.path.insert(0, os.path.join(ROOT, 'test', 'support'))
import motley  # noqa: E402
from tiny_model import tiny_gguf  # noqa: E402

checks = motley.Checks()
check = checks.check


def served_file():
    """A web server for one small model; (process, its address)."""
    files = os.path.join(LOGS, 'files')
    os.makedirs(files)
    with open(os.path.join(files, 'tiny.gguf'), 'wb') as file:
        file.write(tiny_gguf(200000))
    process = subprocess.Popen([sys.executable, 'test/library/file_server.py', files], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    return process, 'http://127.0.0.1:%d/files/tiny.gguf' % int(process.stdout.readline())


def use_commands():
    web, address = served_file()
    story = motley.story().model
    for what, arguments in (('pull of a file', ['pull', 'file:' + story, '--name', 'story']),
                            ('pull of an address', ['pull', address, '--name', 'tiny']), ('models', ['models']),
                            ('run', ['run', 'story', '-p', 'Tom', '-n', '8', '--temp', '0'])):
        r = motley.run(*arguments)
        check(what, r.returncode == 0, (r.returncode, r.stderr[-400:]))
    r = motley.run('pull', address + '.absent', '--name', 'absent')
    check('a pull that fails', r.returncode in (1, 2), (r.returncode, r.stderr[-400:]))
    web.stdin.close()
    web.wait(10)


def use_server():
    with motley.Server('story') as s:
        chat = {'messages': [{'role': 'user', 'content': 'Hello'}], 'max_tokens': 6, 'temperature': 0}
        status, answer = s.post('/v1/chat/completions', chat)
        check('a chat', status == 200 and answer['usage']['completion_tokens'] >= 1, (status, answer))
        check('a streamed chat', len(s.stream('/v1/chat/completions', chat)) >= 2)
        check('a completion', s.post('/v1/completions', {'prompt': 'ab', 'max_tokens': 4, 'logprobs': 2})[0] == 200)
        check('a request that is refused', s.post('/v1/completions', {'prompt': 'ab', 'max_tokens': 'x'})[0] == 400)
        for path in ('/', '/metrics', '/api/status', '/v1/models'):
            check(path, s.get(path)[0] == 200)
    check('the server ends with 0', s.process.returncode == 0, (s.process.returncode, s.output()[-400:]))


def read_logs():
    """What valgrind says of each process."""
    logs = sorted(glob.glob(os.path.join(LOGS, '*.log')))
    check('valgrind watched each process', len(logs) == 6, logs)
    for path in logs:
        text = re.sub(r'^==\d+== ?', '', open(path, errors='replace').read(), flags=re.M)
        own = [part for part in re.split(r'\n(?=Open )', '\n' + text) if part.startswith('Open ')
               and '<inherited from parent>' not in part and LOGS not in part.split('\n')[0]]
        check('no descriptor is left open', not own, path + '\n' + '\n'.join(own))
        errors = re.findall(r'^(?:Invalid|Conditional|Use of|Syscall param|Process terminating|.*definitely lost).*', text, re.M)
        check('no error, nothing lost', not errors, path + '\n' + '\n'.join(errors))


use_commands()
use_server()
read_logs()
checks.finish()
