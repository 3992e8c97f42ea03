# SPDX-License-Identifier: Apache-2.0
"""The conversation mode in a real terminal (a pty): it answers, remembers, Ctrl-C stops an answer and not the
program, history comes back with the arrow key, Ctrl-D leaves.  Piped input talks too."""
import os, pty, re, select, subprocess, sys, tempfile, time
sys.path.insert(0, 'test')
from support.motley import BINARY, Checks, chat_model, run

c = Checks()
model = chat_model()
env = {**os.environ, 'MOTLEY_HOME': tempfile.mkdtemp(), 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8'}


class Terminal:
    def __init__(self, *command):
        master, slave = pty.openpty()
        self.master, self.seen = master, ''
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env,
                                        start_new_session=True,
                                        preexec_fn=lambda: __import__('fcntl').ioctl(0, 0x540E, 0))  # TIOCSCTTY
        os.close(slave)

    def wait_for(self, pattern, seconds=180):
        """Reads until the pattern stands in what came since the last call; returns that text or None."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.seen, re.S)
            if found:
                text, self.seen = self.seen[:found.end()], self.seen[found.end():]
                return text
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode(errors='replace')
                except OSError:
                    break
        print('waited in vain for %r; seen: %r' % (pattern, self.seen[-500:]))
        return None

    def type(self, text):
        os.write(self.master, text.encode())


t = Terminal(BINARY, 'run', model, '--temp', '0', '-n', '400')
c.check('it greets', t.wait_for('>>> '))
t.type('What is 2+2?\r')
answer = t.wait_for(r'\n>>> ')
c.check('it answers', answer and '4' in answer, answer)
t.type('Write a list of numbers from 1 to 50.\r')
c.check('it starts to answer', t.wait_for(r'50\.\r\n.*[3-9]'))
t.type('\x03')
c.check('Ctrl-C stops the answer', t.wait_for(r'\(stopped\).*>>> ', 30))
c.check('the program lives', t.process.poll() is None)
t.type('half a line')
t.wait_for('half a line')
t.type('\x03')
c.check('Ctrl-C at the prompt drops the line', t.wait_for('>>> ', 10))
t.type('/help\r')
c.check('/help', t.wait_for('/system.*>>> '))
t.type('/nonsense\r')
c.check('unknown commands are told', t.wait_for('there is no /nonsense.*>>> '))
t.type('\x1b[A')
c.check('the arrow brings history back', t.wait_for('/nonsense', 10))
t.type('\x15')
for line in ('"""', 'Say', 'hello.'):  # each at its prompt: what is typed ahead is echoed twice
    t.type(line + '\r')
    t.wait_for(r'\.\.\. ', 10)
t.type('"""\r')
c.check('several lines are one entry', t.wait_for(r'(?i)hello.*\n>>> ', 60))
t.type('\x04')
t.wait_for('$^', 2)
c.check('Ctrl-D leaves with status 0', t.process.wait(30) == 0)
c.check('history is kept', 'What is 2+2?' in open(env['MOTLEY_HOME'] + '/chat-history').read().replace('\\040', ' '))

piped = subprocess.run([BINARY, 'run', model, '--temp', '0', '-n', '12'], input=b'What is 2+2?\n',
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
c.check('piped input talks', piped.returncode == 0 and b'4' in piped.stdout and b'>>>' not in piped.stdout,
        piped.stdout)
c.finish()
