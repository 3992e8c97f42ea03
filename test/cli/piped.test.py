# SPDX-License-Identifier: Apache-2.0
"""A conversation through a pipe, with a tiny model: entries, commands, a context that fills up, and Ctrl-C.  The model's
weights are zero, so what it says does not depend on what it reads: /stats, which tells the tokens of the last prompt,
shows what it was given."""
import os, re, signal, subprocess, sys, tempfile
sys.path.insert(0, 'test')
from support import tiny_model
from support.motley import BINARY, Checks, run

c = Checks()
folder = tempfile.mkdtemp()
env = {**os.environ, 'MOTLEY_HOME': folder}


def write(name, context):
    tiny_model.CONTEXT = context
    path = os.path.join(folder, name)
    with open(path, 'wb') as file:
        file.write(tiny_model.tiny_gguf(0))
    return path


model, endless = write('tiny.gguf', 512), write('endless.gguf', 1 << 17)


def talk(lines, *options):
    """(status, bytes of stdout, stderr as text, [(prompt tokens, generated tokens) of each /stats])"""
    r = run('run', model, '-n', '4', '--ignore-end', *options, env=env, stdin=None,
            input=''.join(line + '\n' for line in lines).encode())
    err = r.stderr.decode()
    return (r.returncode, r.stdout, err,
            [(int(p), int(g)) for p, g in re.findall(r'^(\d+) prompt tokens.*, (\d+) generated', err, re.M)])


def prompt(*messages):
    """How many tokens the ChatML form of the messages has: one a byte, the words of the form too."""
    return sum(len('<|im_start|>%s\n%s<|im_end|>\n' % m) for m in messages) + len('<|im_start|>assistant\n')


hello = ('user', 'hello')
status, out, err, stats = talk(['hello', '/stats', 'hello', '/stats', '/clear', 'hello\r', '/stats', '', '  ',
                                '/clear', '/system Be kind.', 'hello', '/stats', '/clear', 'hello', '/stats',
                                '/clear', '/system', 'hello', '/stats', '/clear', '"""hello"""', '/stats',
                                '/clear', '"""', 'hello', 'you"""', '/stats', '/clear', '"""// x', 'y"""', '/stats'])
kind = prompt(('system', 'Be kind.'), hello)
c.check('it ends well', status == 0 and out.count(b'\n') >= 9, (status, out))
c.check('an entry is its message', stats[0] == (prompt(hello), 4), (stats, prompt(hello)))
c.check('the conversation is remembered', stats[1][0] > stats[0][0] + len('<|im_end|>'), stats)
c.check('/clear forgets it, and a line may end as in Windows', stats[2] == stats[0], stats)
c.check('/system', stats[3][0] == kind, (stats, kind))
c.check('/clear keeps the system message', stats[4][0] == kind, stats)
c.check('/system alone removes it', stats[5] == stats[0], stats)
c.check('quotes around one line', stats[6] == stats[0], stats)
c.check('quotes around several', stats[7][0] == prompt(('user', 'hello\nyou')), stats)
c.check('code that begins with a slash is no command', stats[8][0] == prompt(('user', '// x\ny')), stats)
c.check('/clear says so', err.count('starts anew') == 7, err)

status, out, err, stats = talk(['/help', '/nonsense', '/temp 2.1', '/temp hot', '/temp', '/tokens -1', '/tokens 2',
                                '/temp 2', '/temp 0', 'hello', '/stats', '/bye', 'hello', '/stats'], '--system', 'Be kind.')
c.check('/help lists every command', all(name in err for name in
                                         ('/clear', '/system', '/temp', '/tokens', '/stats', '/bye', 'Ctrl-C')), err)
c.check('what is no command is told', err.count('there is no /nonsense; /help lists what there is\n') == 1, err)
c.check('numbers out of range are told, those at the border taken', err.count('give a number from 0 to 2\n') == 3 and
        err.count('give a number from 0 to ') == 4, err)
c.check('/tokens, --system, and /bye leaves', status == 0 and stats == [(kind, 2)], stats)
c.check('no entry, no answer', talk([])[:3] == (0, b'', ''))

# 512 tokens of context are full after some exchanges of 150: the oldest are left out, and that is said.
for options in ((), ('--system', 'Be kind.')):
    status, _, err, stats = talk(['%d %s' % (i, 'x' * 100) for i in range(6)] + ['/stats'], *options)
    c.check('a full context is told %s' % (options,), status == 0 and 'the context is full: the first 1 exchanges are left '
            'out' in err and 'motley:' not in err and stats[0][0] < 512, (err, stats))
status, _, err, stats = talk(['x' * 600, 'hello', '/stats'])
c.check('an entry that cannot fit is told, and forgotten', status == 0 and err.count('motley: ') == 1 and
        stats == [(prompt(hello), 4)], err)

# ---- signals while an answer is being made: it has begun when its first bytes come.
for number, end in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)):
    p = subprocess.Popen([BINARY, 'run', endless, '-p', 'x', '-n', '0', '--ignore-end'], env=env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = p.stdout.read(1)
    p.send_signal(number)
    out, err = p.communicate(timeout=300)
    c.check('%s ends an answer, silently' % number.name, first and (p.returncode, err) == (end, b''), (p.returncode, err))
c.finish()
