# SPDX-License-Identifier: Apache-2.0
"""The conversation mode in a real terminal (a pty): it answers, remembers, Ctrl-C stops an answer and not the
program, a paste is one entry, history comes back with the arrow key, Ctrl-D leaves.  Piped input talks too."""
import os, pty, re, select, subprocess, sys, tempfile, time
sys.path.insert(0, 'test')
from support.motley import BINARY, Checks, chat_model, run, skip

c = Checks()
model = chat_model()
env = {**os.environ, 'MOTLEY_HOME': tempfile.mkdtemp(), 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8'}


class Terminal:
    def __init__(self, *command):
        try:
            master, slave = pty.openpty()
        except OSError as e:
            skip('no pseudo terminal can be had here: %s' % e)
        self.master, self.seen = master, ''
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env,
                                        start_new_session=True,
                                        preexec_fn=lambda: __import__('fcntl').ioctl(0, 0x540E, 0))  # TIOCSCTTY
        os.close(slave)

    def wait_for(self, pattern, seconds=240):
        """Reads until the pattern stands in what came since the last call; returns that text.  In vain: the test ends."""
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
        self.process.kill()
        c.check('waited for %r' % pattern, False, 'seen: %r' % self.seen[-500:])
        c.finish()

    def type(self, text):
        os.write(self.master, text.encode())


t = Terminal(BINARY, 'run', model, '--temp', '0', '-n', '24')
c.check('it greets', t.wait_for('>>> '))
t.type('What is 2+2?\r')
answer = t.wait_for(r'2\?\r\n.*\n.*>>> ')
c.check('it answers', answer and '4' in answer.split('2?')[-1], answer)
t.type('/tokens 4000\r')
t.wait_for('4000\r\n.*>>> ')
t.type('Write a list of numbers from 1 to 50.\r')
c.check('it begins to answer', t.wait_for(r'50\.\r\n\x1b\[\?2004l'))
t.type('\x03')  # before the first word or behind it
c.check('Ctrl-C stops the answer', t.wait_for(r'\(stopped\).*>>> '))
c.check('the program lives', t.process.poll() is None)
t.type('/tokens 24\r')
t.wait_for('24\r\n.*>>> ')

t.type('half a line')
t.wait_for('half a line')
t.type('\x03')
c.check('Ctrl-C at the prompt drops the line', t.wait_for(r'\^C\r\n.*>>> '))
t.type('x' * 200)
t.wait_for('x{10}$')
t.type('\x03\x1b[200~/he\x1b[201~lp\r')
c.check('in a wrapped line too, and the keys behind it count', t.wait_for(r'\^C\r\n.*>>> .*/system.*>>> '))
t.type('/nonsense\r')
c.check('unknown commands are told', t.wait_for('there is no /nonsense.*>>> '))
t.type('\x1b[A')
c.check('the arrow brings history back', t.wait_for('/nonsense'))
t.type('\x15"""\rSay\rhello.\r"""\r')
c.check('lines in quotes are one entry', t.wait_for(r'(?i)"""\r\n.*hello.*>>> '))
for how, keys in (('', '// Say this:\rblue.'), (' that the terminal marks', '\x1b[200~// Say this:\rgreen.\r\x1b[201~')):
    t.type(keys)
    shown = t.wait_for(r'(blue|green)\.')
    c.check('a paste%s waits for Enter' % how, shown and '2004l' not in shown, repr(shown))
    t.type('\r')
    c.check('a paste%s is answered' % how, t.wait_for(r'\r\n\x1b\[\?2004l.*\w.*>>> '))
t.type('wiped\x03\x04')
c.check('Ctrl-D leaves with status 0', t.wait_for(r'\^C\r\n.*>>> ') and t.process.wait(60) == 0)
lines = open(env['MOTLEY_HOME'] + '/chat-history').read().replace('\\040', ' ').splitlines()
c.check('history is kept', any('What is 2+2?' in line for line in lines), lines)
for colour in ('blue.', 'green.'):
    c.check('a paste is one entry: ' + colour, any('Say this:\\012' + colour in line for line in lines), lines)
c.check('what was dropped is not kept', not any('half' in line or 'wiped' in line for line in lines), lines)

piped = subprocess.run([BINARY, 'run', model, '--temp', '0', '-n', '12'], input=b'What is 2+2?\n',
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
c.check('piped input talks', piped.returncode == 0 and b'4' in piped.stdout and b'>>>' not in piped.stdout,
        piped.stdout)
c.finish()
