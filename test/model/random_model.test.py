#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_model.test.py: scripts/random-model.py writes what it says.

One seed gives one file; a model made in a type equals the F32 model of the same seed re-encoded to
that type; dequantised weights lie within a step of the originals.  The files are read by a few
lines of struct here, so that neither the script's reader nor Motley's is trusted.
"""
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('skipped: needs numpy')
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, 'scripts', 'random-model.py')
TYPES = ('F32', 'F16', 'BF16', 'Q4_0', 'Q4_1', 'Q8_0')
# Largest error of a weight as a share of the largest weight of its block of 32.
STEP = {'F32': 0, 'F16': 2.0 ** -11, 'BF16': 2.0 ** -8, 'Q4_0': 0.13, 'Q4_1': 0.07, 'Q8_0': 0.0045}


def make(folder, name, *arguments):
    path = os.path.join(folder, name)
    subprocess.run([sys.executable, SCRIPT, *arguments, path], check=True)
    with open(path, 'rb') as f:
        return path, f.read()


def tensors(data):
    """{name: (type, shape, offset from the start of the data)} and where the data starts."""
    at = 24

    def take(form):
        nonlocal at
        values = struct.unpack_from('<' + form, data, at)
        at += struct.calcsize('<' + form)
        return values if len(values) > 1 else values[0]

    def string():
        nonlocal at
        n = take('Q')
        at += n
        return data[at - n:at].decode()

    def skip(kind):
        nonlocal at
        sizes = {4: 4, 5: 4, 6: 4, 7: 1}
        if kind == 8:
            string()
        elif kind == 9:
            item, count = take('I'), take('Q')
            for _ in range(count):
                skip(item)
        else:
            at += sizes[kind]

    count, entries = struct.unpack_from('<QQ', data, 8)
    for _ in range(entries):
        string()
        skip(take('I'))
    found = {}
    for _ in range(count):
        name, dimensions = string(), take('I')
        shape = [take('Q') for _ in range(dimensions)]
        found[name] = (take('I'), shape, take('Q'))
    return found, -(-at // 32) * 32


def weights(data, name):
    """The tensor as [blocks of 32] f32, decoded from the block definitions in kernel.h."""
    found, start = tensors(data)
    kind, shape, offset = found[name]
    count = int(np.prod(shape))
    raw = np.frombuffer(data, np.uint8, offset=start + offset)

    def blocks(size):
        return raw[:count // 32 * size].reshape(-1, size)

    def f16(b):
        return np.ascontiguousarray(b).view(np.float16).astype(np.float32)

    def nibbles(b):
        return np.concatenate([b & 15, b >> 4], axis=1).astype(np.float32)

    if kind == 0:
        return raw[:count * 4].view(np.float32).reshape(-1, 32)
    if kind == 1:
        return raw[:count * 2].view(np.float16).astype(np.float32).reshape(-1, 32)
    if kind == 30:
        wide = raw[:count * 2].view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(-1, 32)
    if kind == 2:
        b = blocks(18)
        return f16(b[:, :2]) * (nibbles(b[:, 2:]) - 8)
    if kind == 3:
        b = blocks(20)
        return f16(b[:, :2]) * nibbles(b[:, 4:]) + f16(b[:, 2:4])
    b = blocks(34)
    return f16(b[:, :2]) * np.ascontiguousarray(b[:, 2:]).view(np.int8)


def data_of(data):
    return data[tensors(data)[1]:]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        source, plain = make(folder, 'f32.gguf', '--preset', 'tiny', '--seed', '3')
        _, same = make(folder, 'b', '--preset', 'tiny', '--seed', '3')
        _, other = make(folder, 'c', '--preset', 'tiny', '--seed', '4')
        checks = [('same seed, same bytes', same == plain),
                  ('another seed, other bytes', other != plain)]
        for kind in TYPES:
            _, made = make(folder, 'm', '--preset', 'tiny', '--seed', '3', '--type', kind)
            _, again = make(folder, 'r', '--requantize', source, '--type', kind)
            checks.append((kind + ': made equals re-encoded', data_of(made) == data_of(again)))
            for name in ('token_embd.weight', 'blk.1.ffn_down.weight'):
                exact, got = weights(plain, name), weights(made, name)
                error = np.abs(got - exact).max(1) / np.abs(exact).max(1)
                checks.append(('%s: %s within a step' % (kind, name), error.max() <= STEP[kind]))
    for what, good in checks:
        failed += not good
        print('%s  %s' % ('ok  ' if good else 'FAIL', what))
    print('%d passed, %d failed' % (len(checks) - failed, failed))
    sys.exit(failed > 0)


main()
