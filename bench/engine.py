#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engine.py: `motley bench engine` and llama.cpp's llama-bench in turn, on the same file.

  bench/engine.py --llama LLAMA_CPP_FOLDER --write MODEL.gguf [MODEL.gguf …]

Machines here are noisy, so a figure of one program says little: the two run alternately, A B A B …, and what counts
is the ratio of the pairs (median, lowest, highest).  --write puts the table into docs/performance.md between its
markers.
"""
import argparse, datetime, json, os, re, statistics, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOC = os.path.join(ROOT, 'docs', 'performance.md')


def motley(model, o):
    out = subprocess.check_output([os.path.join(ROOT, 'build', 'motley'), 'bench', 'engine', model, '--json',
                                   '--threads', str(o.threads), '--prompt', str(o.prompt), '--generate',
                                   str(o.generate), '--rounds', '1'])
    r = json.loads(out)
    return r['prefill_tok_s'], r['decode_tok_s'], r['rss_mb']


def llama_bench(model, o):
    out = subprocess.check_output([os.path.join(o.llama, 'build', 'bin', 'llama-bench'), '-m', model, '-t',
                                   str(o.threads), '-p', str(o.prompt), '-n', str(o.generate), '-r', '1', '-o',
                                   'json'], stderr=subprocess.DEVNULL)
    rows = json.loads(out)
    prompt = next(r['avg_ts'] for r in rows if r['n_prompt'])
    generate = next(r['avg_ts'] for r in rows if r['n_gen'])
    return prompt, generate


def measure(model, o):
    pairs = [(motley(model, o), llama_bench(model, o)) for _ in range(o.rounds)]
    row = {'model': os.path.basename(model), 'rss': statistics.median(a[2] for a, _ in pairs)}
    for i, phase in enumerate(('prompt', 'generate')):
        ratios = [a[i] / b[i] for a, b in pairs]
        row[phase] = (statistics.median(a[i] for a, _ in pairs), statistics.median(b[i] for _, b in pairs),
                      statistics.median(ratios), min(ratios), max(ratios))
    return row


def table(rows, o):
    lines = ['%s, %d threads, prompt %d, generate %d, %d alternating rounds; tokens per second, medians; ratio = '
             'Motley / llama.cpp of each pair: median (lowest–highest).'
             % (datetime.date.today().isoformat(), o.threads, o.prompt, o.generate, o.rounds), '',
             '| model | prompt: Motley | llama.cpp | ratio | generate: Motley | llama.cpp | ratio | RSS MB |',
             '|---|--:|--:|--:|--:|--:|--:|--:|']
    for r in rows:
        cells = ['%.0f | %.0f | %.2f (%.2f–%.2f)' % r[phase] for phase in ('prompt', 'generate')]
        lines.append('| %s | %s | %s | %.0f |' % (r['model'], *cells, r['rss']))
    return '\n'.join(lines)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('models', nargs='+')
    p.add_argument('--llama', default=os.path.join(ROOT, 'build', 'oracle', 'llama.cpp'))
    p.add_argument('--threads', type=int, default=2)
    p.add_argument('--prompt', type=int, default=512)
    p.add_argument('--generate', type=int, default=64)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--write', action='store_true')
    o = p.parse_args()
    text = table([measure(m, o) for m in o.models], o)
    print(text)
    if o.write:
        doc = open(DOC).read()
        doc = re.sub(r'(<!-- engine -->\n).*?(<!-- /engine -->)', lambda m: m[1] + text + '\n' + m[2], doc, flags=re.S)
        open(DOC, 'w').write(doc)


if __name__ == '__main__':
    sys.exit(main())
