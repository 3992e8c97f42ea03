# SPDX-License-Identifier: Apache-2.0
"""Every command explains itself, and calls that are wrong get one line and status 2 (usage) or 1 (failure)."""
import json, os, sys, tempfile
sys.path.insert(0, 'test')
from support.motley import Checks, run

c = Checks()
home = tempfile.mkdtemp()
env = {**os.environ, 'MOTLEY_HOME': home}
commands = [l.split()[0] for l in run('--help').stdout.decode().split('Commands:')[1].splitlines()
            if l.startswith('  ')]
c.check('the list has the commands of the design', {'up', 'run', 'pull', 'models', 'bench', 'doctor'} <= set(commands))
for name in commands:
    r = run(name, '--help')
    text = r.stdout.decode()
    c.check(name + ' --help', r.returncode == 0 and 'Usage: motley ' + name in text, text)
    c.check(name + ' --help has an example', 'Example:\n  motley ' + name in text, text)
    c.one_line_error(name + ' with an unknown option', run(name, '--no-such-option', env=env), '--no-such-option')
    c.check(name + ' usage error is status 2', run(name, '--no-such-option', env=env).returncode == 2)

c.check('--version', run('--version').stdout.startswith(b'motley '))
c.one_line_error('unknown command', run('fly'), 'fly', '--help')
c.one_line_error('value out of range', run('up', '--port', '99999', env=env), '--port', '65535')
c.one_line_error('value missing', run('run', '-p', env=env), '--prompt')
c.one_line_error('no number', run('run', '--temp', 'hot', env=env), '--temp', 'hot')
c.one_line_error('no model yet', run('run', '-p', 'x', env=env), 'motley pull')
c.one_line_error('no such model', run('run', 'no-such-model', '-p', 'x', env=env), 'no-such-model')
c.one_line_error('unknown bench', run('bench', 'soup', env=env), 'soup', 'engine')
c.one_line_error('unknown instruction set', run('run', 'test/cli/commands.test.py', '--isa', 'mmx', '-p', 'x'), 'mmx')
c.one_line_error('a file that is no model', run('run', 'test/cli/commands.test.py', '-p', 'x'), 'commands.test.py')
c.one_line_error('a folder without a model', run('run', 'test/cli', '-p', 'x'), 'test/cli')

r = run('doctor', '--json', env=env)
names = [f['name'] for f in json.loads(r.stdout)]
c.check('doctor --json lists its checks', {'processor', 'memory', 'store', 'NVIDIA', 'Ascend'} <= set(names), names)
r = run('models', '--json', env=env)
c.check('models --json is a list', json.loads(r.stdout) == [], r.stdout)
c.finish()
