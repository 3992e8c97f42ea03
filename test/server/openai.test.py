# SPDX-License-Identifier: Apache-2.0
"""The openai package of PyPI and plain HTTP chat with the real model: plain, streaming, n, stop, seed, logprobs."""
import concurrent.futures, json, os, socket, sys, time
sys.path.insert(0, 'test')
from support.motley import Checks, Server, chat_model, skip
try:
    import openai
except ImportError:
    skip('the openai package is not here (scripts/test-inputs.sh installs it)')

c = Checks()
ask = [{'role': 'user', 'content': 'What is the capital of France? Answer in one short sentence.'}]
with Server(chat_model(), '--name', 'smollm2', '--context', '2048') as s:
    client = openai.OpenAI(base_url=s.base + '/v1', api_key='none', max_retries=0)

    c.check('models', [m.id for m in client.models.list()] == ['smollm2'])
    plain = client.chat.completions.create(model='smollm2', messages=ask, max_tokens=24, temperature=0)
    text = plain.choices[0].message.content
    c.check('it answers', 'Paris' in text, text)
    c.check('usage adds up', plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens
            and plain.usage.prompt_tokens > 20, plain.usage)

    parts = list(client.chat.completions.create(model='smollm2', messages=ask, max_tokens=24, temperature=0,
                                                stream=True, stream_options={'include_usage': True}))
    streamed = ''.join(p.choices[0].delta.content or '' for p in parts if p.choices)
    c.check('streamed text equals plain text', streamed == text, streamed)
    c.check('usage comes last', parts[-1].usage and parts[-1].usage.completion_tokens == plain.usage.completion_tokens)
    c.check('one finish reason', [p.choices[0].finish_reason for p in parts if p.choices
                                  and p.choices[0].finish_reason] == [plain.choices[0].finish_reason])

    def sample(seed):
        return client.chat.completions.create(model='smollm2', messages=ask, max_tokens=16, seed=seed, n=3,
                                              temperature=1.5)
    one, two, other = sample(5), sample(5), sample(6)
    texts = lambda r: [x.message.content for x in r.choices]
    c.check('the same seed gives the same answers', texts(one) == texts(two), texts(one))
    c.check('n answers differ among themselves', len(set(texts(one))) > 1, texts(one))
    c.check('another seed gives others', texts(one) != texts(other))

    stopped = client.completions.create(model='smollm2', prompt='1 2 3 4 5 6 7', max_tokens=40, temperature=0,
                                        stop=[' 12'])
    c.check('stop string', ' 12' not in stopped.choices[0].text and stopped.choices[0].finish_reason == 'stop',
            stopped.choices[0])
    log = client.chat.completions.create(model='smollm2', messages=ask, max_tokens=4, temperature=0, logprobs=True,
                                         top_logprobs=3).choices[0].logprobs.content
    c.check('logprobs', all(len(t.top_logprobs) == 3 and t.token == t.top_logprobs[0].token and t.logprob <= 0
                            for t in log), log)
    c.check('logprobs tokens join to the text', ''.join(t.token for t in log) == text[:len(''.join(t.token for t in log))])

    # Deterministic: alone and in a batch of eight.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: client.chat.completions.create(
            model='smollm2', messages=ask, max_tokens=24, temperature=0).choices[0].message.content, range(8)))
    c.check('eight at once say what one says', set(together) == {text}, together)

    # Errors in OpenAI's shape.
    for what, path, body, status, word in (
            ('wrong model', '/v1/chat/completions', {'model': 'gpt-9', 'messages': ask}, 404, 'gpt-9'),
            ('no messages', '/v1/chat/completions', {'model': 'smollm2'}, 400, 'messages'),
            ('hot temperature', '/v1/chat/completions', {'messages': ask, 'temperature': 9}, 400, 'temperature'),
            ('broken JSON', '/v1/chat/completions', b'{"messages": [', 400, 'JSON'),
            ('too long', '/v1/completions', {'prompt': 'word ' * 3000}, 400, '2048')):
        got, answer = s.post(path, body)
        e = answer.get('error', {})
        c.check(what, got == status and word in e.get('message', '') and '\n' not in e['message']
                and {'type', 'code', 'param'} <= set(e), (got, answer))
    c.check('unknown path', s.get('/v1/nothing')[0] == 404)
    c.check('wrong method', s.get('/v1/chat/completions')[0] == 405)

    # A client that goes away stops its generation.
    body = json.dumps({'messages': ask, 'max_tokens': 1500, 'stream': True, 'temperature': 2,
                       'logit_bias': {'2': -100, '0': -100}}).encode()
    gone = socket.create_connection(('127.0.0.1', s.port))
    gone.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                 b'Content-Length: %d\r\n\r\n' % len(body) + body)
    gone.recv(100)
    running = lambda: json.loads(s.get('/api/status')[1])['engine']['running']
    def wait_for(count, seconds=60):
        end = time.monotonic() + seconds
        while running() != count and time.monotonic() < end:
            time.sleep(0.02)
        return running() == count
    c.check('it is running', wait_for(1))
    gone.close()
    c.check('it stops when its client goes away', wait_for(0))

    metrics = s.get('/metrics')[1].decode()
    c.check('metrics', '# TYPE' in metrics and 'motley_' in metrics)
    page = s.get('/')[1].decode()
    c.check('the page', '<title>' in page and 'otley' in page)
    print('resident while serving: %.0f MB' % (s.resident_bytes() / 1e6))
c.finish()
