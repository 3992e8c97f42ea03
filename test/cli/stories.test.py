# SPDX-License-Identifier: Apache-2.0
"""stories260K: 256 greedy tokens equal llama2.c's published text byte for byte, with every instruction set forced,
with one and with two threads."""
import json, re, sys
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

def tell(prompt, *options):
    r = run('run', model, '-p', prompt, '-n', '12', '--temp', '0', '--json', *options)
    return json.loads(r.stdout)['text'] if r.returncode == 0 else r.stderr

# The first token of a continuation keeps its blank; only a whole text begins without one.
c.check('a continuation begins with its blank', tell('Tom') == ' and Lily were playing in the park.', tell('Tom'))
c.check('a stop string with that blank', tell('Tom', '--stop', ' and') == '', tell('Tom', '--stop', ' and'))
c.check('a whole text begins without', tell('').startswith('Once upon a time'), tell(''))
c.check('behind a blank', tell('Tom and').startswith(' Lily'), tell('Tom and'))
with Server(model, '--host', 'localhost') as s:
    c.check('--host localhost', s.get('/healthz')[0] == 200, s.output())
    ask = {'prompt': 'Tom', 'max_tokens': 12, 'temperature': 0}
    text = s.post('/v1/completions', ask)[1]['choices'][0]['text']
    c.check('served: begins with its blank', text == ' and Lily were playing in the park.', text)
    echo = s.post('/v1/completions', {**ask, 'echo': True})[1]['choices'][0]['text']
    c.check('served: echo joins', echo == 'Tom' + text, echo)
    stop = s.post('/v1/completions', {**ask, 'stop': [' and']})[1]['choices'][0]
    c.check('served: stop string', stop['text'] == '' and stop['finish_reason'] == 'stop', stop)
    parts = ''.join(e['choices'][0]['text'] for e in s.stream('/v1/completions', ask) if e['choices'])
    c.check('served: the stream is the same', parts == text, parts)
    whole = s.post('/v1/completions', {**ask, 'prompt': ''})[1]['choices'][0]['text']
    c.check('served: a whole text begins without', whole.startswith('Once upon'), whole)
c.finish()
