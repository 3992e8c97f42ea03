# SPDX-License-Identifier: Apache-2.0
"""motley.py: what tests that drive the real binary share: run it, serve with it, talk to it, count checks.

A test is a script: it makes a Checks, calls check(what, condition) for each claim, and ends with finish(), which
prints "N passed, N failed" and exits.  skip(why) ends with 77, which ctest shows as skipped.
"""
import http.client, json, os, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import story as story_module  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get('MOTLEY_BUILD', os.path.join(ROOT, 'build'))
BINARY = os.environ.get('MOTLEY_BINARY', os.path.join(BUILD, 'motley'))
STORIES = os.path.join(ROOT, '..', 'shared', 'data')  # laid beside the checkout on some machines
START_S = 120  # a sanitizer build reads a model slowly


def skip(why):
    print('skipped: ' + why)
    sys.exit(77)


def chat_model():
    """The real chat model the tests use: MOTLEY_TEST_MODEL, as scripts/test.sh sets it; else the test is skipped."""
    path = os.environ.get('MOTLEY_TEST_MODEL', '')
    if not path or not os.path.exists(path):
        skip('no chat model here: set MOTLEY_TEST_MODEL (scripts/test.sh pulls one)')
    return path


class StoryFiles:
    """A story model: `model` is its file, `greedy` what it tells from an empty prompt, `tell` how it goes on."""

    def __init__(self, name, model, greedy, tell):
        self.name, self.model, self.tell = name, model, tell
        self.greedy = open(greedy, 'rb').read()


def story():
    """The one that the build made; its text comes from a slow computation in Python (story.py)."""
    folder = os.path.join(BUILD, 'story')
    return StoryFiles('story', os.path.join(folder, 'story.bin'), os.path.join(folder, 'story.txt'),
                      story_module.made(folder).tell)


def stories():
    """All story models: the made one, and stories260K where it lies beside the checkout."""
    found = [story()]
    if os.path.exists(os.path.join(STORIES, 'stories260K.bin')):
        told = {'Tom': ' and Lily were playing in the park.', 'Tom and': ' Lily were playing in the park.'}
        found.append(StoryFiles('stories260K', os.path.join(STORIES, 'stories260K.bin'),
                                os.path.join(STORIES, 'stories260K.greedy.txt'), lambda prompt, steps: told[prompt]))
    return found


def run(*arguments, **options):
    """The binary with these arguments; a CompletedProcess with bytes."""
    options.setdefault('timeout', 300)
    options.setdefault('stdin', subprocess.DEVNULL)
    return subprocess.run([BINARY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def listening_port(process):
    """The port that a process started with --port 0 listens on, as the kernel tells it; None when the process ended.
    A port looked for beforehand could be somebody else's by the time it is used."""
    own = '/proc/%d/' % process.pid
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        sockets = set()
        for entry in os.scandir(own + 'fd'):
            try:
                sockets.add(os.readlink(entry.path))
            except OSError:
                pass  # closed in the meantime
        for line in open(own + 'net/tcp').readlines()[1:]:
            fields = line.split()
            if fields[3] == '0A' and 'socket:[%s]' % fields[9] in sockets:
                return int(fields[1].rpartition(':')[2], 16)
        time.sleep(0.01)
    if process.poll() is None:
        raise RuntimeError('the program did not listen within %d s' % START_S)


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, good, detail=''):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print('FAILED: %s %s' % (what, detail), flush=True)
        return bool(good)

    def one_line_error(self, what, result, *words):
        """The command failed, said one line on stderr with all the words, and was not killed by a signal."""
        text = result.stderr.decode(errors='replace')
        lines = [l for l in text.splitlines() if l.strip()]
        good = (result.returncode in (1, 2) and len(lines) == 1 and all(w in text for w in words))
        return self.check(what, good, 'status %d, said %r' % (result.returncode, text[:600]))

    def finish(self):
        print('%d passed, %d failed' % (self.passed, self.failed))
        sys.exit(self.failed != 0)


class Server:
    """`motley up MODEL` on a free port, ready to answer; a context manager."""

    def __init__(self, model, *options, environment=None):
        os.makedirs(BUILD, exist_ok=True)
        handle, self.log_path = tempfile.mkstemp('.log', 'test-server-', BUILD)
        self.log = os.fdopen(handle, 'wb')
        self.process = subprocess.Popen([BINARY, 'up', model, '--port', '0', *options],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, **(environment or {})})
        self.port = listening_port(self.process)
        self.base = 'http://127.0.0.1:%s' % self.port

    def __enter__(self):
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.get('/healthz')[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        self.__exit__()
        raise RuntimeError('the server did not start:\n' + self.output())

    def __exit__(self, *ignored):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def output(self):
        return open(self.log_path, errors='replace').read()

    def resident_bytes(self):
        for line in open('/proc/%d/status' % self.process.pid):
            if line.startswith('VmRSS:'):
                return int(line.split()[1]) * 1024

    def request(self, method, path, body=None, headers=None, timeout=300):
        """(status, headers, bytes)"""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        c.request(method, path, data, {'Content-Type': 'application/json', **(headers or {})})
        r = c.getresponse()
        result = r.status, dict(r.getheaders()), r.read()
        c.close()
        return result

    def get(self, path, **options):
        status, _, data = self.request('GET', path, **options)
        return status, data

    def post(self, path, body, **options):
        """(status, parsed JSON)"""
        status, _, data = self.request('POST', path, body, **options)
        return status, json.loads(data)

    def stream(self, path, body, timeout=300):
        """The parsed events of a streamed answer; the closing [DONE] must be there."""
        status, headers, data = self.request('POST', path, {**body, 'stream': True}, timeout=timeout)
        if status != 200:
            raise RuntimeError('status %d: %r' % (status, data[:300]))
        events = [part[6:] for part in data.decode().split('\n\n') if part.startswith('data: ')]
        if events[-1] != '[DONE]':
            raise RuntimeError('no [DONE] at the end: %r' % events[-1])
        return [json.loads(e) for e in events[:-1]]
