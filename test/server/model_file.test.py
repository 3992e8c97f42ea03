# SPDX-License-Identifier: Apache-2.0
"""A running server and its model file: the file may be cut, deleted or replaced; weights that outgrow f32 are an error.

The story model is copied, so that the test may spoil its file.
"""
import array, os, shutil, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))
import motley  # noqa: E402

HEADER = 28  # bytes of a llama2.c file before its weights
c = motley.Checks()
story = motley.story()
QUESTION = {'model': 'story', 'prompt': 'Tom', 'max_tokens': 24, 'temperature': 0}


def copy(folder):
    for name in os.listdir(os.path.dirname(story.model)):
        if name.endswith('.bin'):
            shutil.copy(os.path.join(os.path.dirname(story.model), name), folder)
    return os.path.join(folder, os.path.basename(story.model))


def scaled(path, factor):
    data = open(path, 'rb').read()
    weights = array.array('f', data[HEADER:])
    with open(path, 'wb') as file:
        file.write(data[:HEADER])
        array.array('f', [w * factor for w in weights]).tofile(file)


def spoil(what, change):
    """The answer before and after `change` are the same."""
    with tempfile.TemporaryDirectory() as folder:
        model = copy(folder)
        with motley.Server(model, '--threads', '2') as server:
            before = server.post('/v1/completions', QUESTION)
            change(model)
            after = server.post('/v1/completions', dict(QUESTION))
            other = server.post('/v1/completions', dict(QUESTION, prompt='A bird', max_tokens=40))
            c.check('%s: it answers' % what, before[0] == 200 and after[0] == 200 and other[0] == 200, (before, after))
            c.check('%s: the same text' % what, before[1]['choices'][0]['text'] == after[1]['choices'][0]['text'])
            c.check('%s: it is ready' % what, server.get('/healthz')[0] == 200)
            c.check('%s: it runs' % what, server.process.poll() is None)


spoil('truncate -s 0', lambda path: os.truncate(path, 0))
spoil('truncate to half', lambda path: os.truncate(path, os.path.getsize(path) // 2))
spoil('deleted', os.remove)
spoil('overwritten', lambda path: open(path, 'r+b').write(b'\xff' * os.path.getsize(path)))

with tempfile.TemporaryDirectory() as folder:
    model = copy(folder)
    scaled(model, 1e30)
    with motley.Server(model, '--threads', '2') as server:
        status, answer = server.post('/v1/completions', QUESTION)
        text = str(answer.get('error', {}).get('message'))
        c.check('1e30: a clear 5xx', status == 500, (status, answer))
        c.check('1e30: names the place', 'no longer finite after' in text or 'gave NaN' in text, text)
        status, answer = server.post('/v1/completions', dict(QUESTION, stream=True))
        c.check('1e30: a stream too', status == 500 and 'finite after' in answer['error']['message'], (status, answer))
        c.check('1e30: the server lives', server.get('/healthz')[0] == 200)
    run = motley.run('run', model, '-p', 'Tom', '-n', '4')
    c.one_line_error('run: one line', run, 'finite after the')

c.finish()
