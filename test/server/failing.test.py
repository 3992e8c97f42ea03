# SPDX-License-Identifier: Apache-2.0
"""A model that cannot compute (its weights are NaN): each request ends with an error and not with nonsense, the server
lives, and its state says why."""
import json, os, re, struct, sys, tempfile
sys.path.insert(0, 'test')
from support.motley import Checks, Server
from support.tiny_model import shapes, tiny_gguf

c = Checks()
data = bytearray(tiny_gguf(0))
floats = sum(s[0] * (s[1] if len(s) > 1 else 1) for s in shapes().values())
data[-4 * floats:] = struct.pack('<f', float('nan')) * floats
path = os.path.join(tempfile.mkdtemp(), 'broken.gguf')
open(path, 'wb').write(data)


def state(server):
    status, answer = server.get('/healthz')
    return status, json.loads(answer), json.loads(server.get('/api/status')[1])['model']['error']


with Server(path, '--log', 'error') as s:
    status, health, error = state(s)
    c.check('at first nothing is known', status == 200 and error is None, (status, health, error))
    for i in range(1, 5):
        status, answer = s.post('/v1/completions', {'prompt': 'hello', 'max_tokens': 4})
        c.check('an error and not nonsense', status == 500 and answer['error']['code'] == 'engine_error' and
                answer['error']['message'], answer)
        status, health, error = state(s)
        c.check('the state says why', error == answer['error']['message'], (error, answer))
        c.check('/healthz after %d failures' % i, status == (503 if i >= 3 else 200), (status, health))
    c.check('/healthz says why', health['error']['code'] == 'model_failing' and '4 answers' in health['error']['message'] and
            error in health['error']['message'], health)
    text = s.get('/metrics')[1].decode()
    c.check('/metrics tells', re.search('^motley_sequences_failed_total 4$', text, re.M) and
            re.search('^motley_up 0$', text, re.M), text)
    c.check('a refused request is no failure of the model', s.post('/v1/completions', {'prompt': []})[0] == 400 and
            state(s)[1]['error']['message'] == health['error']['message'])
    c.check('it is still there', s.process.poll() is None)
c.check('each failure is an error in the log', len(re.findall('Z error request .* status=500 .*error=', s.output())) == 4,
        s.output())
c.finish()
