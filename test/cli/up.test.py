# SPDX-License-Identifier: Apache-2.0
"""motley up: where its key comes from and who can see it, what it says of wrong calls, what its options change, and how
each way to fail ends: one line and status 1, or 2 for a wrong call."""
import os, re, signal, socket, subprocess, sys, tempfile
sys.path.insert(0, 'test')
from support.motley import BINARY, Checks, Server, run
from support.tiny_model import tiny_gguf, tiny_llama2c

c = Checks()
folder = tempfile.mkdtemp()


def write(name, data):
    path = os.path.join(folder, name)
    with open(path, 'wb') as file:
        file.write(data)
    return path


model = write('tiny.gguf', tiny_gguf(0))
llama2c, tokenizer = (write(name, data) for name, data in zip(('tiny.bin', 'words.tok'), tiny_llama2c()))
empty = {k: v for k, v in os.environ.items() if not k.startswith('MOTLEY_API_KEY')}


def with_key(key):
    return {'Authorization': 'Bearer ' + key}


# ---- the key

def command_line(server):
    return open('/proc/%d/cmdline' % server.process.pid, 'rb').read()


for options in (('--api-key', 'open-sesame'), ('--api-key=open-sesame',)):
    with Server(model, *options) as s:
        c.check('%s opens' % options[0], s.get('/v1/models', headers=with_key('open-sesame'))[0] == 200)
        c.check('%s closes' % options[0], s.get('/v1/models')[0] == 401)
        c.check('%s cannot be seen by ps' % options[0], b'sesame' not in command_line(s) and b'***********' in
                command_line(s), command_line(s))
        c.check('%s is not printed' % options[0], 'sesame' not in s.output() and 'YOUR_KEY' in s.output(), s.output())
key_file = write('key', b'  from-a-file \nsecond line\n')
with Server(model, '--api-key-file', key_file, environment={'MOTLEY_API_KEY': 'other'}) as s:
    c.check('the first line of a file', s.get('/v1/models', headers=with_key('from-a-file'))[0] == 200)
    c.check('and not the environment', s.get('/v1/models', headers=with_key('other'))[0] == 401)
with Server(model, environment={'MOTLEY_API_KEY': 'from-outside'}) as s:
    c.check('the environment', s.get('/v1/models', headers=with_key('from-outside'))[0] == 200)
    c.check('and it closes', s.get('/v1/models')[0] == 401)
with Server(model, '--api-key', 'k', '--key-for', 'metrics') as s:
    c.check('--key-for metrics', (s.get('/metrics')[0], s.get('/healthz')[0]) == (401, 200))

for what, options, environment, words in (
        ('an empty key', ('--api-key', ''), {}, ('--api-key', 'visible')),
        ('an empty key in the environment', (), {'MOTLEY_API_KEY': ''}, ('MOTLEY_API_KEY',)),
        ('a key with a blank', ('--api-key', 'a b'), {}, ('--api-key', 'blanks')),
        ('a key with a line break', ('--api-key', 'a\nb'), {}, ('--api-key',)),
        ('a key that is not ASCII', ('--api-key', 'schlüssel'), {}, ('--api-key', 'ASCII')),
        ('a key file that is not there', ('--api-key-file', folder + '/none'), {}, ('--api-key-file', folder + '/none')),
        ('a key file that is empty', ('--api-key-file', write('empty', b'')), {}, ('--api-key-file',)),
        ('a key file with an empty first line', ('--api-key-file', write('late', b'\nkey\n')), {}, ('--api-key-file',)),
        ('a folder as a key file', ('--api-key-file', folder), {}, ('--api-key-file',)),
        ('a scope without a key', ('--key-for', 'all'), {}, ('--key-for all', '--api-key-file', 'MOTLEY_API_KEY')),
        ('a wrong origin', ('--cors', 'app.example.org'), {}, ('--cors', 'https://app.example.org')),
        ('a host that is a name', ('--host', 'example.org'), {}, ('example.org',)),
        ('an address that is not here', ('--host', '203.0.113.7'), {}, ('203.0.113.7',)),
        ('an instruction set that is none', ('--isa', 'mmx'), {}, ('--isa mmx', 'avx2')),
        ('a context beyond the model', ('--context', '100'), {}, ('--context', '100', '64')),
        ('a cache beyond the memory', ('--cache', '4000'), {}, ('--cache', 'free'))):
    r = run('up', model, '--port', '0', *options, env={**empty, **environment})
    c.one_line_error(what, r, *words)
    c.check(what + ': status 1', r.returncode == 1, r.returncode)

for what, options, words in (
        ('two keys', ('--api-key', 'a', '--api-key-file', key_file), ('--api-key', '--api-key-file')),
        ('a scope that is none', ('--api-key', 'a', '--key-for', 'some'), ('--key-for some', 'metrics')),
        ('a port that is none', ('--port', '65536'), ('--port 65536', '65535')),
        ('a port below zero', ('--port', '-1'), ('--port -1',)),
        ('a port that is a word', ('--port', 'http'), ('--port http',)),
        ('no sequence', ('--parallel', '0'), ('--parallel 0', '512')),
        ('too many sequences', ('--parallel', '513'), ('--parallel 513', '512')),
        ('a cache of nothing', ('--cache', '0'), ('--cache 0', '0.001')),
        ('a context of one', ('--context', '15'), ('--context 15', '16')),
        ('no thread', ('--threads', '0'), ('--threads 0', '256')),
        ('two models', (model,), ('one word too many',))):
    r = run('up', model, *options, env=empty)
    c.one_line_error(what, r, *words)
    c.check(what + ': status 2', r.returncode == 2, r.returncode)

with socket.socket() as busy:
    busy.bind(('127.0.0.1', 0))
    busy.listen()
    port = busy.getsockname()[1]
    r = run('up', folder + '/none.gguf', '--port', str(port))
    c.one_line_error('a model that is not there is told before the port', r, 'none.gguf')
    r = run('up', model, '--port', str(port))
    c.one_line_error('a busy port', r, str(port), '--port')
    c.check('a busy port: status 1', r.returncode == 1)
broken = write('broken.gguf', tiny_gguf(0)[:500])
r = run('up', broken, '--port', '0')
c.one_line_error('a model that is cut short', r, 'broken.gguf')
c.check('a model that is cut short: status 1', r.returncode == 1)
c.one_line_error('a llama2.c model without a tokenizer', run('up', llama2c, '--port', '0'), '--tokenizer')


# ---- what options change

def metric(server, name):
    return float(re.search(rb'^%s ([\d.e+]+)$' % name.encode(), server.get('/metrics')[1], re.M).group(1))


with Server(model, '--cache', '0.01', '--context', '32', '--name', 'a/b c', '--parallel', '3') as s:
    status, answer = s.post('/v1/completions', {'prompt': 'x' * 40})
    c.check('--context', status == 400 and 'context is 32' in answer['error']['message'], answer)
    c.check('--name', b'"id":"a/b c"' in s.get('/v1/models')[1])
    c.check('--name in a path', s.get('/v1/models/a%2Fb%20c')[0] == 200)
    size, page = metric(s, 'motley_cache_bytes'), metric(s, 'motley_cache_bytes') / metric(s, 'motley_cache_pages')
    c.check('--cache', (1 << 30) * 0.01 - page < size <= (1 << 30) * 0.01, (size, page))
    c.check('nothing is kept at first', metric(s, 'motley_prefix_cache_bytes') == 0)
    prompt = {'prompt': 'y' * 24, 'max_tokens': 2, 'temperature': 0, 'logit_bias': {'0': -100}}
    first, second = (s.post('/v1/completions', prompt)[1] for _ in range(2))
    c.check('a prefix is kept and used', second['usage']['prompt_tokens_details']['cached_tokens'] == 16 and
            first['choices'] == second['choices'], second)
    c.check('and its memory is told', 0 < metric(s, 'motley_prefix_cache_bytes') == metric(s, 'motley_cache_used_bytes') <
            size, s.get('/metrics')[1])
with Server(llama2c, '--tokenizer', tokenizer, '--isa', 'portable', '--threads', '2') as s:
    c.check('--tokenizer', s.post('/v1/completions', {'prompt': 'a', 'max_tokens': 2})[0] == 200)
p = subprocess.Popen([BINARY, 'up', model, '--host', '::1', '--port', '0'], stdout=subprocess.PIPE,
                     stderr=subprocess.DEVNULL)
text = ''
while 'Stop with' not in text:
    line = p.stdout.readline().decode()
    if not line:
        break
    text += line
p.terminate()
c.check('--host ::1', re.search(r'Page   http://\[::1\]:\d+/\n', text) and p.wait(60) == 0, text)

with Server(model, '--host', '0.0.0.0') as s:
    pass
c.check('an address that means all is printed as one that a browser can open',
        re.search(r'Page   http://127\.0\.0\.1:%d/\n' % s.port, s.output()), s.output())

# ---- the end

for number in (signal.SIGTERM, signal.SIGINT):
    with Server(model) as s:
        s.process.send_signal(number)
        c.check('status 0 after %s' % number.name, s.process.wait(60) == 0, s.process.returncode)
c.finish()
