# SPDX-License-Identifier: Apache-2.0
"""stories260K: 256 greedy tokens equal llama2.c's published text byte for byte, with every instruction set forced,
with one and with two threads."""
import re, sys
sys.path.insert(0, 'test')
from support.motley import Checks, Server, run, stories

c = Checks()
model, expected = stories(), open(stories('stories260K.greedy.txt'), 'rb').read()
for isa in ('portable', 'avx2', 'avx512'):
    for threads in ('1', '2'):
        r = run('run', model, '-p', '', '-n', '256', '--temp', '0', '--isa', isa, '--threads', threads)
        if b'this processor' in r.stderr:
            print('%s: not on this processor' % isa)
            continue
        c.check('greedy text, %s, %s threads' % (isa, threads), r.returncode == 0 and r.stdout == expected,
                '%r %r' % (r.stdout[:200], r.stderr[:200]))

r = run('run', model, '-p', 'Once', '-n', '8', '--temp', '0', '--json')
rates = re.findall(rb'"(?:prefill|decode)_tok_s":([^,}]+)', r.stdout)
c.check('rates have six digits', len(rates) == 2 and all(len(re.sub(rb'\D', b'', x)) <= 7 for x in rates), r.stdout)
with Server(model, '--host', 'localhost') as s:
    c.check('--host localhost', s.get('/healthz')[0] == 200, s.output())
c.finish()
