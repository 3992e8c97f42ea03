# SPDX-License-Identifier: Apache-2.0
"""The exit status of each command's failures, what it prints where, and the JSON forms with all their fields."""
import hashlib, json, os, re, signal, socket, subprocess, sys, tempfile
sys.path.insert(0, 'test')
from support.motley import BINARY, Checks, run
from support.tiny_model import tiny_gguf

c = Checks()
folder = tempfile.mkdtemp()
home = os.path.join(folder, 'home')
env = {**os.environ, 'MOTLEY_HOME': home}
data = tiny_gguf(4096)
model = os.path.join(folder, 'tiny.gguf')
open(model, 'wb').write(data)
digest = hashlib.sha256(data).hexdigest()


def motley(*arguments, **options):
    return run(*arguments, env=env, **options)


def fails(what, status, words, *arguments, **options):
    r = motley(*arguments, **options)
    c.one_line_error(what, r, *words)
    c.check('%s: status %d' % (what, status), r.returncode == status, r.returncode)
    c.check(what + ': nothing on stdout', r.stdout == b'', r.stdout)


# ---- pull, models

fails('pull of a file that is not there', 1, ['/none.gguf'], 'pull', 'file:' + folder + '/none.gguf')
fails('pull of a text', 1, ['status.test.py'], 'pull', 'file:test/cli/status.test.py')
fails('pull with another digest', 1, ['SHA-256', digest[:16]], 'pull', 'file:' + model, '--sha256', '0' * 64)
fails('pull with a digest that is none', 1, ['--sha256'], 'pull', 'file:' + model, '--sha256', 'abc')
fails('pull under a name that is none', 1, ['--name'], 'pull', 'file:' + model, '--name', 'a/../b')
fails('pull without a source', 2, ['SOURCE'], 'pull')
fails('pull of two sources', 2, ['too many'], 'pull', 'file:a', 'file:b')
fails('pull from nowhere', 1, ['soup:x'], 'pull', 'soup:x')
c.check('nothing came', json.loads(motley('models', '--json').stdout) == [])

r = motley('pull', 'file:' + model, '--json', '--sha256', digest)
pulled = json.loads(r.stdout)
c.check('pull --json', r.returncode == 0 and (pulled['name'], pulled['bytes'], pulled['sha256'], pulled['source']) ==
        ('tiny', len(data), digest, 'file:' + model) and open(pulled['path'], 'rb').read() == data, pulled)
c.check('models --json tells the same', json.loads(motley('models', '--json').stdout) == [pulled])
r = motley('models')
c.check('the table', re.search(rb'^NAME +SIZE +PULLED +SOURCE\ntiny +0\.\d MB +\d{4}-\d\d-\d\d +file:', r.stdout), r.stdout)
r = motley('pull', 'file:' + model, '--name', 'second')
c.check('pull says what to do next', r.returncode == 0 and r.stdout.decode().endswith('Try: %s run second\n' % BINARY),
        r.stdout)
fails('several models and none named', 1, ['2 models', 'models lists'], 'run', '-p', 'x')
fails('remove what is not there', 1, ['nothing-here'], 'models', '--remove', 'nothing-here')
fails('remove a file that was never pulled', 1, ['tiny.gguf'], 'models', '--remove', model)
c.check('and it stays', os.path.exists(model))
r = motley('models', '--remove', 'second')
c.check('remove', (r.returncode, r.stdout) == (0, b'second was removed\n'), r)
r = motley('models', '--remove', 'tiny', '--json')
c.check('remove --json', json.loads(r.stdout) == {'removed': 'tiny'}, r)
c.check('both are gone', json.loads(motley('models', '--json').stdout) == [] and not os.path.exists(pulled['path']))

# ---- a damaged store is told, and the rest works

motley('pull', 'file:' + model)
motley('pull', 'file:' + model, '--name', 'other')
with open(home + '/models/tiny/model.json', 'w') as file:
    file.write('{')
r = motley('models')
c.check('a damaged model is told on stderr', r.returncode == 0 and b'other' in r.stdout and b'1 damaged model was' in
        r.stderr and b'doctor' in r.stderr, r)
r = motley('models', '--json')
c.check('and stdout stays JSON', [m['name'] for m in json.loads(r.stdout)] == ['other'], r)
with open(home + '/models/other/' + os.listdir(home + '/models/other')[0], 'ab'):
    pass
path = json.loads(r.stdout)[0]['path']
with open(path, 'r+b') as file:
    file.seek(1000)
    byte = file.read(1)
    file.seek(1000)
    file.write(bytes([byte[0] ^ 1]))
r = motley('doctor')
c.check('doctor finds a changed file', r.returncode == 1 and b'other (DAMAGED)' in r.stdout and b'pull' in r.stdout, r)
found = {f['name']: f for f in json.loads(motley('doctor', '--json').stdout)}
c.check('doctor --json too', found['models']['verdict'] == 'bad', found['models'])
r = motley('doctor', 'extra')
c.check('doctor takes no word', r.returncode == 2)
os.makedirs(folder + '/unwritable')
r = run('doctor', '--json', env={**env, 'MOTLEY_HOME': model + '/x'})
found = {f['name']: f for f in json.loads(r.stdout)}
c.check('a home that cannot be is bad', r.returncode == 1 and found['store']['verdict'] == 'bad' and
        'MOTLEY_HOME' in found['store']['fix'], found['store'])
path = os.environ['PATH']
r = run('doctor', '--json', env={**env, 'PATH': folder})
found = {f['name']: f for f in json.loads(r.stdout)}
c.check('no python is missing, and no failure by itself', found['pypi']['verdict'] == 'missing' and 'python3' in
        found['pypi']['found'] and 'apt-get' in found['pypi']['fix'], found['pypi'])

# ---- run

def generated(*arguments, **options):
    r = motley('run', model, '--json', *arguments, **options)
    return r.returncode, json.loads(r.stdout or b'null'), r.stderr


status, answer, _ = generated('-p', 'hello', '-n', '5', '--temp', '0', '--ignore-end', '--threads', '1')
c.check('run --json has all fields', status == 0 and set(answer) == {
    'text', 'model', 'finish_reason', 'prompt_tokens', 'cached_tokens', 'generated_tokens', 'prefill_tok_s',
    'decode_tok_s', 'threads'}, answer)
c.check('and they are right', (answer['model'], answer['finish_reason'], answer['prompt_tokens'], answer['cached_tokens'],
                               answer['generated_tokens'], answer['threads']) == ('tiny', 'length', 5, 0, 5, 1), answer)
same = [generated('-p', 'hello', '-n', '20', '--seed', seed, '--ignore-end')[1]['text'] for seed in '334']
c.check('--seed', same[0] == same[1] != same[2], same)
r = motley('run', model, '-p', '-', '-n', '5', '--temp', '0', '--ignore-end', input=b'hello', stdin=None)
c.check('-p - reads standard input', r.returncode == 0 and b'5 prompt tokens' in r.stderr and
        r.stdout.decode(errors='replace').rstrip('\n') == answer['text'].rstrip('\n'), (r, answer))
c.check('figures on stderr', re.search(rb'^5 prompt tokens at \d+ tok/s, 5 generated at [\d.]+ tok/s\n$', r.stderr), r.stderr)
# This model speaks bytes; a text is looked for that has a letter in its middle.
for seed in map(str, range(100)):
    text = generated('-p', 'hello', '-n', '40', '--seed', seed, '--ignore-end')[1]['text']
    stop = next((ch for ch in text[3:] if ch.isalpha()), None)
    if stop:
        break
status, cut, _ = generated('-p', 'hello', '-n', '40', '--seed', seed, '--ignore-end', '--stop', stop)
c.check('--stop', cut['finish_reason'] == 'stop' and cut['text'] == text[:text.index(stop)], (cut, text, stop))
c.check('--context', generated('-p', 'hello', '-n', '0', '--ignore-end', '--context', '16')[1]['generated_tokens'] == 11)
fails('a prompt longer than the context', 1, ['--context'], 'run', model, '-p', 'x' * 40, '--context', '16')
fails('an empty prompt for this model', 1, ['-p'], 'run', model, '-p', '')
fails('temperature out of range', 2, ['--temp', '2'], 'run', model, '-p', 'x', '--temp', '2.01')
fails('top-p out of range', 2, ['--top-p'], 'run', model, '-p', 'x', '--top-p', '1.5')
fails('a negative number of tokens', 2, ['--tokens'], 'run', model, '-p', 'x', '-n', '-1')
fails('a flag with a value', 2, ['--json takes no value'], 'run', model, '--json=1')

# ---- bench

r = motley('bench', 'engine', model, '-p', '8', '-n', '4', '-r', '2', '--json', '--threads', '1')
figures = json.loads(r.stdout)
c.check('bench --json', r.returncode == 0 and (figures['prompt_tokens'], figures['generated_tokens'], figures['rounds'],
                                               figures['threads'], figures['model']) == (8, 4, 2, 1, 'tiny') and
        min(figures['prefill_tok_s'], figures['decode_tok_s'], figures['rss_mb']) > 0 and figures['types'] == 'F32 x11' and
        figures['isa'] in ('portable', 'avx2', 'avx512'), figures)
r = motley('bench', 'engine', model, '-p', '8', '-n', '4', '-r', '1')
c.check('bench in words', re.search(rb'^tiny \(F32 x11\), \d+ threads?, \w+\n  prompt +8 tokens .*\n  generate +4 tokens .*\n'
                                    rb'  memory .* MB resident\n$', r.stdout), r.stdout)
fails('bench of what is not there', 2, ['soup', 'engine'], 'bench', 'soup')
fails('bench of nothing', 2, ['motley bench'], 'bench')
fails('bench beyond the context', 1, ['--prompt and --generate', '166', '64'], 'bench', 'engine', model, '-p', '100')
fails('no round', 2, ['--rounds'], 'bench', 'engine', model, '-r', '0')
fails('too many rounds', 2, ['--rounds', '100'], 'bench', 'engine', model, '-r', '101')

# ---- Ctrl-C

p = subprocess.Popen([BINARY, 'run', model, '-p', 'x', '-n', '0', '--ignore-end', '--context', '64', '--chat'],
                     env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
p.communicate(timeout=120)
c.check('an answer that fits ends well', p.returncode == 0, p.returncode)
c.finish()
