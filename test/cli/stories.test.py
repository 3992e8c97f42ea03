# SPDX-License-Identifier: Apache-2.0
"""stories.test.py: 256 greedy tokens equal the golden text byte for byte, with every instruction set forced, with one and
with two threads; and a continuation keeps its blank, in `run` and served.

The model is the one that the build makes, whose texts come from a slow computation in Python (test/support/story.py).
Where stories260K lies beside the checkout, it must tell llama2.c's published text, too."""
import json, re, sys
sys.path.insert(0, 'test')
from support.motley import Checks, Server, run, stories

c = Checks()


def check_greedy(story):
    for isa in ('portable', 'avx2', 'avx512'):
        for threads in ('1', '2'):
            r = run('run', story.model, '-p', '', '-n', '256', '--temp', '0', '--isa', isa, '--threads', threads)
            if b'this processor' in r.stderr:
                print('%s: not on this processor' % isa)
                continue
            c.check('greedy text of %s, %s, %s threads' % (story.name, isa, threads),
                    r.returncode == 0 and r.stdout == story.greedy, '%r %r' % (r.stdout[:200], r.stderr[:200]))


def check_rates(story):
    r = run('run', story.model, '-p', 'Once', '-n', '8', '--temp', '0', '--json')
    rates = re.findall(rb'"(?:prefill|decode)_tok_s":([^,}]+)', r.stdout)
    c.check('rates have six digits', len(rates) == 2 and all(len(re.sub(rb'\D', b'', x)) <= 7 for x in rates), r.stdout)


def check_blanks(story):
    """The first token of a continuation keeps its blank; only a whole text begins without one."""
    def tell(prompt, *options):
        r = run('run', story.model, '-p', prompt, '-n', '12', '--temp', '0', '--json', *options)
        return json.loads(r.stdout)['text'] if r.returncode == 0 else r.stderr

    wanted, behind, whole = story.tell('Tom', 12), story.tell('Tom and', 12), story.greedy.decode()
    first = wanted[:wanted.index(' ', 1)]  # the first word with its blank
    c.check('the expected text begins with a blank', wanted[0] == ' ' and behind[0] == ' ' and whole[0] != ' ')
    c.check('a continuation begins with its blank', tell('Tom') == wanted, tell('Tom'))
    c.check('a stop string with that blank', tell('Tom', '--stop', first) == '', tell('Tom', '--stop', first))
    c.check('a whole text begins without', whole.startswith(tell('')) and len(tell('')) > 10, tell(''))
    c.check('behind a blank', tell('Tom and').startswith(behind[:8]), tell('Tom and'))
    with Server(story.model, '--host', 'localhost') as s:
        c.check('--host localhost', s.get('/healthz')[0] == 200, s.output())
        ask = {'prompt': 'Tom', 'max_tokens': 12, 'temperature': 0}
        text = s.post('/v1/completions', ask)[1]['choices'][0]['text']
        c.check('served: begins with its blank', text == wanted, text)
        echo = s.post('/v1/completions', {**ask, 'echo': True})[1]['choices'][0]['text']
        c.check('served: echo joins', echo == 'Tom' + wanted, echo)
        stop = s.post('/v1/completions', {**ask, 'stop': [first]})[1]['choices'][0]
        c.check('served: stop string', stop['text'] == '' and stop['finish_reason'] == 'stop', stop)
        parts = ''.join(e['choices'][0]['text'] for e in s.stream('/v1/completions', ask) if e['choices'])
        c.check('served: the stream is the same', parts == wanted, parts)
        begun = s.post('/v1/completions', {**ask, 'prompt': ''})[1]['choices'][0]['text']
        c.check('served: a whole text begins without', whole.startswith(begun) and len(begun) > 10, begun)


for story in stories():
    check_greedy(story)
    check_rates(story)
    check_blanks(story)
c.finish()
