#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py: Motley against llama.cpp on the same files, token by token.

  test/oracle/compare.py [--model SMOLLM2.gguf] [--llama LLAMA_CPP_FOLDER] [--quick]

What it shows
  greedy      20 prompts, 64 tokens each, for SmolLM2 as it comes and for random-weight llama models in F32, F16,
              BF16 and Q8_0.  Where the two differ, the first difference is printed with llama.cpp's two best logits
              there: a difference counts as a tie only when Motley took the second best and the two lie within 0.01.
              Weights of 8 and 4 bits come with activations of 8 bits: a difference in the last bit of a sum now
              and then moves one of them by a whole step, so two right programs drift apart.  How far is measured
              on llama.cpp itself: its default cache (f16, flash attention) against an f32 cache.  A model that
              does not meet the rule above passes only while Motley is no further from llama.cpp than that.
  perplexity  2,000 tokens of English (the GPL's text, which every Debian has) for SmolLM2 re-encoded as Q4_0 and
              Q4_1; the two perplexities must lie within 0.5 % of each other.

Both engines are driven by the same text protocol (protocol.h).  llama.cpp is built by build-llama-cpp.sh from its
npm package; Motley's side is build/motley_oracle.  Ends with "N passed, N failed".
"""
import argparse, math, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(ROOT, 'build', 'oracle')
TEXT = '/usr/share/common-licenses/GPL-3'
STEPS, TIE, PERPLEXITY = 64, 1e-2, 0.005


class Engine:
    """One of the two programs, spoken to line by line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit('an engine ended early: ' + ' '.join(map(str, self.process.args)))
        return line.decode().split()

    def tokens(self, text):
        data = text.encode()
        return [int(i) for i in self.ask(b'text %d\n%s\n' % (len(data), data))]

    def greedy(self, ids):
        answer = self.ask(('greedy %d %s\n' % (STEPS, ' '.join(map(str, ids)))).encode())
        return [[(int(c.split(':')[0]), float(c.split(':')[1])) for c in step.split('/')] for step in answer]

    def nll(self, ids):
        total, count = self.ask(('nll %s\n' % ' '.join(map(str, ids))).encode())
        return float(total), int(count)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def build(llama):
    """Both programs; returns their paths."""
    subprocess.check_call(['cmake', '--preset', 'release'], cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.check_call(['cmake', '--build', '--preset', 'release', '--target', 'motley_oracle'], cwd=ROOT,
                          stdout=subprocess.DEVNULL)
    libraries = os.path.join(llama, 'build', 'bin')
    theirs = os.path.join(WORK, 'llama_oracle')
    os.makedirs(WORK, exist_ok=True)
    subprocess.check_call(['cc', '-O2', '-w', '-I' + os.path.join(llama, 'include'),
                           '-I' + os.path.join(llama, 'ggml', 'include'),
                           os.path.join(ROOT, 'test/oracle/llama_oracle.c'), '-o', theirs, '-L' + libraries,
                           '-Wl,-rpath,' + libraries, '-lllama', '-lggml', '-lggml-base', '-lm'])
    return os.path.join(ROOT, 'build', 'motley_oracle'), theirs


def compare_greedy(name, ours, theirs, prompts, quiet=False):
    same = ties = wrong = 0
    worst = 0.0
    for prompt in prompts:
        ids = theirs.tokens(prompt) or [1]
        a, b = ours.greedy(ids), theirs.greedy(ids)
        for step in range(STEPS):
            (mine, _), (best, second) = a[step], b[step]
            if mine[0] == best[0]:
                worst = max(worst, abs(mine[1] - best[1]))
                continue
            gap = best[1] - second[1]
            tie = mine[0] == second[0] and gap <= TIE
            ties, wrong = ties + tie, wrong + (not tie)
            quiet or print('  %s: %r differs at token %d: Motley %d, llama.cpp %d (%.5f) then %d (%.5f): gap %.5f%s'
                  % (name, prompt[:24], step, mine[0], best[0], best[1], second[0], second[1], gap,
                     ' (a tie)' if tie else '  WRONG'))
            break
        else:
            same += 1
    print('%-32s greedy: %d of %d prompts equal for %d tokens, %d differ at a tie, %d wrong; '
          'largest difference of a best logit %.5f' % (name, same, len(prompts), STEPS, ties, wrong, worst))
    return wrong


def judge_greedy(name, path, o, ours_path, theirs_path, prompts):
    """Strictly; where that fails, against the distance of llama.cpp from itself."""
    ours, theirs = Engine(ours_path, path, o.threads), Engine(theirs_path, path, o.threads)
    wrong = compare_greedy(name, ours, theirs, prompts)
    ours.close()
    good = wrong == 0
    if not good:
        other = Engine(theirs_path, path, o.threads, 'f32')
        limit = compare_greedy('  llama.cpp against itself', other, theirs, prompts, quiet=True)
        other.close()
        good = wrong <= limit
        print('  %s: the rule is NOT met; Motley is %s' % (name, 'no further from llama.cpp than llama.cpp is from itself'
                                                          if good else 'further away than llama.cpp from itself'))
    theirs.close()
    return good


def judge_perplexity(name, path, o, ours_path, theirs_path, tokens):
    ours, theirs = Engine(ours_path, path, o.threads), Engine(theirs_path, path, o.threads)
    ids = theirs.tokens(open(TEXT).read()[:40000])[:tokens]
    (a, n), (b, m) = ours.nll(ids), theirs.nll(ids)
    pa, pb = math.exp(a / n), math.exp(b / m)
    good = n == m and abs(pa / pb - 1) <= PERPLEXITY
    print('%-32s perplexity over %d of %d tokens: Motley %.4f, llama.cpp %.4f, ratio %.5f%s'
          % (name, n, len(ids), pa, pb, pa / pb, '' if good else '  WRONG'))
    ours.close()
    theirs.close()
    return good


def make_model(path, *arguments):
    if not os.path.exists(path):
        subprocess.check_call([sys.executable, os.path.join(ROOT, 'scripts/random-model.py'), *arguments, path])
    return path


def smollm2_as(kind, model):
    return make_model(os.path.join(WORK, 'smollm2-%s.gguf' % kind), '--requantize', model, '--type', kind)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--model', default=os.path.join(WORK, 'smollm2.gguf'), help='SmolLM2-135M-Instruct Q4_1 GGUF')
    p.add_argument('--llama', help='a built llama.cpp; default: build it from its npm package')
    p.add_argument('--threads', default='2')
    p.add_argument('--quick', action='store_true', help='5 prompts, 600 tokens')
    o = p.parse_args()
    llama = o.llama or subprocess.check_output(['bash', os.path.join(ROOT, 'test/oracle/build-llama-cpp.sh')],
                                               text=True).split('\n')[-2]
    ours_path, theirs_path = build(llama)
    prompts = open(os.path.join(ROOT, 'test/oracle/prompts.txt')).read().splitlines()[:5 if o.quick else 20]
    jobs = [('SmolLM2 Q4_1', o.model, judge_greedy, prompts)]
    for kind in ('F32', 'F16', 'BF16', 'Q8_0'):
        path = make_model(os.path.join(WORK, 'random-%s.gguf' % kind), '--type', kind, '--tokenizer', o.model,
                          '--seed', '7')
        jobs.append(('random weights ' + kind, path, judge_greedy, prompts))
    for kind in ('F32', 'F16', 'BF16', 'Q8_0'):
        jobs.append(('SmolLM2 as ' + kind, smollm2_as(kind, o.model), judge_greedy, prompts))
    for kind in ('Q4_0', 'Q4_1', 'Q8_0', 'F16', 'BF16', 'F32'):
        jobs.append(('SmolLM2 as ' + kind, smollm2_as(kind, o.model), judge_perplexity, 600 if o.quick else 2000))
    passed = 0
    for name, path, judge, what in jobs:
        passed += judge(name, path, o, ours_path, theirs_path, what)
    print('%d passed, %d failed' % (passed, len(jobs) - passed))
    sys.exit(passed != len(jobs))


if __name__ == '__main__':
    main()
