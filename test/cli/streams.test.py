# SPDX-License-Identifier: Apache-2.0
"""What surrounds the process misbehaves: standard output is full, closed or gone, a file may not grow, the model file
is cut short while it is served, the program is told to stop before the model is there.  Each time one clear line and an
orderly end, or service goes on."""
import os, shutil, signal, socket, subprocess, sys, tempfile, time
sys.path.insert(0, 'test')
from support.motley import BINARY, Checks, Server, listening_port, run, story

c = Checks()
folder = tempfile.mkdtemp()
env = {**os.environ, 'MOTLEY_HOME': folder}
told = story()
model = shutil.copy(told.model, folder + '/stories.bin')
shutil.copy(os.path.join(os.path.dirname(told.model), 'tok512.bin'), folder)
speak = ['run', model, '-p', 'Once', '--temp', '0']


def shell(script, *arguments, **options):
    """bash runs the script; "$@" is motley with the arguments."""
    options.setdefault('timeout', 300)
    return subprocess.run(['bash', '-c', script, 'bash', BINARY, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=env, **options)


for call in (speak + ['-n', '20'], speak + ['-n', '20', '--json'], ['models'], ['doctor'], ['--help'], ['--version'],
             ['run', '--help']):
    c.one_line_error('%s with a full disk behind it' % call[0], shell('"$@" >/dev/full', *call), 'standard output')
r = shell('echo Hello | "$@" >/dev/full', 'run', model, '-n', '4')
c.check('a conversation with a full disk behind it', r.returncode == 1 and b'standard output' in r.stderr, r)

# The reader takes 4 bytes and goes.  Without an end of its own the program would fill the context.
r = shell('set -o pipefail; "$@" | head -c 4', *speak, '-n', '0', '--ignore-end')
c.one_line_error('the reader went away', r, 'standard output')
c.check('and what it read was right', r.stdout == told.tell('Once', 4)[:4].encode(), r.stdout)

# A closed descriptor must not become the number of a file or socket that is opened later.
held = shell('exec "$@" >&- <&- 2>&-', 'pull', 'file:' + model, '--name', 'held')
c.check('all three streams closed: done', held.returncode == 0, held.returncode)
c.check('and the model is untouched',
        open(folder + '/models/held/model.bin', 'rb').read() == open(model, 'rb').read())


def up(redirections=''):
    """The program, and the port where it listens."""
    process = subprocess.Popen(['bash', '-c', 'exec "$@" ' + redirections, 'bash', BINARY, 'up', model, '--port', '0'],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    return process, listening_port(process)


def answer_of(port, any_status=False):
    """The first line of /healthz, once it is 200 or any_status will do."""
    end, answer = time.monotonic() + 60, b''
    while time.monotonic() < end and answer[9:12] != b'200' and not (answer and any_status):
        try:
            with socket.create_connection(('127.0.0.1', port), 10) as s:
                s.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
                answer = s.recv(15)
        except OSError:
            time.sleep(0.001)
    return answer


for closed in ('>&-', '2>&-', '<&-', '>&- 2>&- <&-'):
    p, port = up(closed)
    answer = answer_of(port)
    links = '/proc/%d/fd/' % p.pid
    c.check('up with %s serves' % closed, answer == b'HTTP/1.1 200 OK', answer)
    c.check('up with %s: no socket stands in for a stream' % closed,
            not any('socket' in os.readlink(links + str(i)) or 'eventpoll' in os.readlink(links + str(i))
                    for i in range(3)), [os.readlink(links + str(i)) for i in range(3)])
    p.send_signal(signal.SIGTERM)
    c.check('up with %s ends well' % closed, p.wait(60) == 0, p.returncode)

r = shell('ulimit -f 100; exec "$@"', 'pull', 'file:' + model, '--name', 'small')
c.one_line_error('a file that may not grow', r, 'File too large')

# Stopped while it loads, or just after: any answer, and be it "loading", says that signals are heeded.
for _ in range(5):
    p, port = up()
    answer_of(port, any_status=True)
    p.send_signal(signal.SIGTERM)
    c.check('stopped while it loads', p.wait(60) == 0, p.returncode)

# Nothing is read from the model's file once it is loaded, so a file that is cut short changes no answer.
with Server(model) as s:
    ask = {'prompt': 'Once', 'max_tokens': 20, 'temperature': 0}
    before = s.post('/v1/completions', ask)
    os.truncate(model, 100)
    after = s.post('/v1/completions', ask)
    c.check('it serves on when its model file is cut short',
            before[0] == after[0] == 200 and before[1]['choices'] == after[1]['choices'], (before, after, s.output()[-300:]))
c.finish()
