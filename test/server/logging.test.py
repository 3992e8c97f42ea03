# SPDX-License-Identifier: Apache-2.0
"""The log of a server: one line a request with all that it promises, in both forms; nothing below the level; refusals
of the network too; the key and what users write never appear."""
import json, os, re, socket, sys, tempfile
sys.path.insert(0, 'test')
from support.motley import Checks, Server, run
from support.tiny_model import tiny_gguf

c = Checks()
folder = tempfile.mkdtemp()
model = os.path.join(folder, 'tiny.gguf')
open(model, 'wb').write(tiny_gguf(0))
PROMPT = 'secret words'


def raw(server, data):
    """Sends bytes; returns what comes until the other side closes."""
    with socket.create_connection(('127.0.0.1', server.port), 60) as s:
        s.sendall(data)
        answer = b''
        while True:
            part = s.recv(65536)
            if not part:
                return answer
            answer += part


def exercise(server):
    """A request of each kind; the id of the completion."""
    server.get('/healthz')
    status, answer = server.post('/v1/completions', {'prompt': PROMPT, 'max_tokens': 3, 'n': 2, 'temperature': 0,
                                                     'logit_bias': {'0': -100}})
    c.check('the completion', status == 200, answer)
    server.stream('/v1/completions', {'prompt': PROMPT, 'max_tokens': 2, 'logit_bias': {'0': -100}})
    server.post('/v1/completions', {'prompt': PROMPT, 'max_tokens': -1})
    server.get('/no"where here'.replace(' ', '%20') + '?key=hidden')
    raw(server, b'GARBAGE\r\n\r\n')
    return answer['id']


with Server(model, '--log', 'info', '--log-format', 'json') as s:
    name = exercise(s)
lines = [json.loads(l) for l in s.output().splitlines() if l.startswith('{')]
requests = [l for l in lines if l['message'] == 'request']
routes = {}
for l in requests:
    routes.setdefault((l['route'], l['status']), []).append(l)
c.check('each line has a time and a level', all(re.fullmatch(r'\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z', l['time']) and
                                                l['level'] in ('info', 'warning', 'error') for l in lines), lines)
c.check('every request has its line', {('/healthz', 200), ('/v1/completions', 200), ('/v1/completions', 400),
                                       ('(none)', 404)} <= set(routes), routes)
c.check('ids differ', len({l['id'] for l in requests}) == len(requests))
first, second = routes['/v1/completions', 200]
c.check('the id is that of the answer', first['id'] == name, (first, name))
c.check('tokens are counted', (first['prompt_tokens'], first['generated_tokens']) == (len(PROMPT), 6) and
        0 <= first['cached_tokens'] <= len(PROMPT), first)
c.check('of a stream too', (second['prompt_tokens'], second['generated_tokens']) == (len(PROMPT), 2), second)
for l in (first, second):
    c.check('times are in order', 0 <= l['prepare_s'] <= l['first_token_s'] <= l['total_s'] and
            0 <= l['queue_s'] <= l['total_s'], l)
c.check('peer and method', all(re.fullmatch(r'127\.0\.0\.1:\d+', l['peer']) and l['method'] in ('GET', 'POST')
                               for l in requests), requests)
c.check('an answer at once has no tokens', 'prompt_tokens' not in routes['/healthz', 200][-1])
bad = routes['/v1/completions', 400][0]
c.check('an error is told', 'max_tokens' in bad['error'] and bad['id'].startswith('req-'), bad)
lost = routes['(none)', 404][0]
c.check('a path that is nowhere', lost['path'] == '/no"where here', lost)
refused = [l for l in lines if l['message'] == 'refused']
c.check('a refusal of the network', len(refused) == 1 and refused[0]['status'] == 400 and refused[0]['error'] and
        refused[0]['peer'].startswith('127.0.0.1:'), refused)
c.check('no query and no prompt in the log', 'hidden' not in s.output() and 'secret' not in s.output())

with Server(model, environment={'MOTLEY_LOG': 'info'}) as s:
    exercise(s)
text = s.output()
c.check('MOTLEY_LOG turns it on', len(re.findall(r'Z info request id=', text)) >= 5, text)
c.check('a line of text', re.search(r'Z info request id=cmpl-\w+ peer=127\.0\.0\.1:\d+ method=POST route=/v1/completions '
                                    r'status=200 prepare_s=[\d.]+ queue_s=[\d.]+ first_token_s=[\d.]+ total_s=[\d.]+ '
                                    r'prompt_tokens=12 cached_tokens=\d+ generated_tokens=6\n', text), text)
c.check('quotes are escaped', 'path="/no\\"where here"' in text, text)

for options, environment in (((), {}), (('--log', 'warning'), {}), (('--log', 'warning'), {'MOTLEY_LOG': 'debug'}),
                             (('--log', 'off'), {}), ((), {'MOTLEY_LOG': 'error'})):
    with Server(model, *options, environment=environment) as s:
        exercise(s)
    c.check('no line a request with %s %s' % (options, environment), ' request ' not in s.output(), s.output())
    told = 'no chat template' in s.output()
    c.check('warnings with %s %s' % (options, environment), told == (options != ('--log', 'off') and
                                                                      environment.get('MOTLEY_LOG') != 'error'))

# A client that leaves: gone, and no status when nothing had been sent.
with Server(model, '--log', 'info', '--log-format', 'json') as s:
    body = json.dumps({'prompt': 'x', 'max_tokens': 60, 'stream': True, 'logit_bias': {'0': -100}}).encode()
    with socket.create_connection(('127.0.0.1', s.port), 60) as gone:
        gone.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
        gone.recv(10)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
    while b'motley_sequences_running 0' not in s.get('/metrics')[1]:
        pass
lines = [json.loads(l) for l in s.output().splitlines() if l.startswith('{')]
mine = [l for l in lines if l.get('route') == '/v1/completions']
c.check('a client that leaves has its line', len(mine) == 1 and mine[0]['status'] in (0, 200), mine)

for arguments, environment, words in ((('--log', 'loud'), {}, ('--log loud', 'debug')),
                                      (('--log-format', 'xml'), {}, ('--log-format xml', 'json')),
                                      ((), {'MOTLEY_LOG': 'LOUD'}, ('MOTLEY_LOG LOUD', 'debug')),
                                      ((), {'MOTLEY_LOG_FORMAT': ''}, ('MOTLEY_LOG_FORMAT', 'json'))):
    r = run('up', model, '--port', '0', *arguments, env={**os.environ, **environment})
    c.one_line_error('%s %s' % (arguments, environment), r, *words)
    c.check('and is wrong usage', r.returncode == 2)
c.finish()
