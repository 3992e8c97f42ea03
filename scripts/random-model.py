#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random-model.py: writes llama models as GGUF: random ones, and a real one in another weight type.

  scripts/random-model.py --type Q8_0 --tokenizer SMOLLM2.gguf random.gguf
  scripts/random-model.py --preset 1b --type Q4_0 big.gguf
  scripts/random-model.py --requantize SMOLLM2.gguf --type F16 smollm2-f16.gguf

Random models serve as test and benchmark input: any shape, any of the six types, the same bytes
from the same seed.  Weights are scaled so that activations stay near 1 in every layer.  The
tokenizer is copied from a GGUF, or a byte-level one is generated.  Needs numpy and nothing else.

Re-encoding takes every matrix to f32 and from there to the new type; vectors stay as they are.
The block formats are those of src/kernel/kernel.h; where the format leaves a choice (which scale,
how to round) the choice is the one GGUF files are usually made with, so that files compare.
"""
import argparse
import os
import struct
import sys

import numpy as np

# ------------------------------------------------------------------------------ weight types

BLOCK = 32


def halves(x):
    """f32 → the two bytes of f16 in each row: [n] → [n, 2] u8."""
    return x.astype(np.float16).reshape(-1, 1).view(np.uint8)


def from_halves(b):
    return np.ascontiguousarray(b).view(np.float16).astype(np.float32)


def inverse(d):
    with np.errstate(divide='ignore'):
        return np.where(d == 0, np.float32(0), np.float32(1) / d).astype(np.float32)


def pack_nibbles(q):
    return q[:, :16] | q[:, 16:] << 4


def unpack_nibbles(b):
    return np.concatenate([b & 15, b >> 4], axis=1).astype(np.float32)


def put_bf16(x):
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def get_bf16(b):
    return (b.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def put_q4_0(x):
    largest = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)
    d = largest / np.float32(-8)
    q = np.minimum((x * inverse(d) + np.float32(8.5)).astype(np.uint8), 15)
    return np.concatenate([halves(d), pack_nibbles(q)], axis=1)


def get_q4_0(b):
    return from_halves(b[:, :2]) * (unpack_nibbles(b[:, 2:]) - 8)


def put_q4_1(x):
    low = x.min(1, keepdims=True)
    d = (x.max(1, keepdims=True) - low) / np.float32(15)
    q = np.minimum(((x - low) * inverse(d) + np.float32(0.5)).astype(np.uint8), 15)
    return np.concatenate([halves(d), halves(low), pack_nibbles(q)], axis=1)


def get_q4_1(b):
    return from_halves(b[:, :2]) * unpack_nibbles(b[:, 4:]) + from_halves(b[:, 2:4])


def put_q8_0(x):
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    scaled = x * inverse(d)
    q = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    return np.concatenate([halves(d), q.view(np.uint8)], axis=1)


def get_q8_0(b):
    return from_halves(b[:, :2]) * np.ascontiguousarray(b[:, 2:]).view(np.int8)


# name: (ggml's number, GGUF's general.file_type, weights in a block, bytes of a block, put, get)
TYPES = {
    'F32': (0, 0, 1, 4, lambda x: x, lambda b: b.view(np.float32)),
    'F16': (1, 1, 1, 2, lambda x: x.astype(np.float16), lambda b: b.view(np.float16)),
    'BF16': (30, 32, 1, 2, put_bf16, get_bf16),
    'Q4_0': (2, 2, BLOCK, 18, put_q4_0, get_q4_0),
    'Q4_1': (3, 3, BLOCK, 20, put_q4_1, get_q4_1),
    'Q8_0': (8, 7, BLOCK, 34, put_q8_0, get_q8_0),
}
BY_NUMBER = {t[0]: name for name, t in TYPES.items()}


def quantise(x, kind):
    """[rows, columns] f32 → bytes."""
    _, _, block, _, put, _ = TYPES[kind]
    x = np.ascontiguousarray(x, np.float32)
    return np.ascontiguousarray(put(x.reshape(-1, block) if block > 1 else x)).tobytes()


def dequantise(data, kind, rows, columns):
    _, _, block, size, _, get = TYPES[kind]
    b = np.frombuffer(data, np.uint8)
    x = get(b.reshape(-1, size) if block > 1 else b)
    return x.astype(np.float32).reshape(rows, columns)


def row_bytes(kind, columns):
    _, _, block, size, _, _ = TYPES[kind]
    if columns % block:
        sys.exit('%s needs rows of a multiple of %d weights, not %d' % (kind, block, columns))
    return columns // block * size


# ------------------------------------------------------------------------------ GGUF

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
ELEMENT_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGNMENT = 32


def string(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<Q', len(b)) + b


def number(value):
    real = isinstance(value, float)
    return struct.pack('<If', F32, value) if real else struct.pack('<II', U32, value)


def text(s):
    return struct.pack('<I', STRING) + string(s)


def array(kind, items):
    return struct.pack('<IIQ', ARRAY, kind, len(items)) + b''.join(items)


class Reader:
    """A GGUF file: entries {key: type and value as bytes}, tensors {name: shape, type, offset}."""

    def __init__(self, path):
        self.file = np.memmap(path, np.uint8, 'r')
        self.at = 4
        version, tensors, entries = self.take('<IQQ')
        if bytes(self.file[:4]) != b'GGUF' or version not in (2, 3):
            sys.exit('%s is no GGUF of version 2 or 3' % path)
        self.entries, self.tensors = {}, {}
        for _ in range(entries):
            key = self.string().decode()
            start = self.at
            self.skip(self.take('<I')[0])
            self.entries[key] = bytes(self.file[start:self.at])
        for _ in range(tensors):
            name = self.string().decode()
            shape = self.take('<%dQ' % self.take('<I')[0])
            self.tensors[name] = (shape, *self.take('<IQ'))
        alignment = self.number('general.alignment', ALIGNMENT)
        self.data = -(-self.at // alignment) * alignment

    def take(self, form):
        values = struct.unpack_from(form, self.file, self.at)
        self.at += struct.calcsize(form)
        return values

    def string(self):
        length, = self.take('<Q')
        self.at += length
        return bytes(self.file[self.at - length:self.at])

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            item, count = self.take('<IQ')
            if item in ELEMENT_BYTES:
                self.at += count * ELEMENT_BYTES[item]
            else:
                for _ in range(count):
                    self.skip(item)
        else:
            self.at += ELEMENT_BYTES[kind]

    def number(self, key, default):
        value = self.entries.get(key)
        return default if value is None else struct.unpack_from('<I', value, 4)[0]

    def bytes_of(self, name, first_row, rows):
        shape, number_, offset = self.tensors[name]
        size = row_bytes(BY_NUMBER[number_], shape[0])
        start = self.data + offset + first_row * size
        return bytes(self.file[start:start + rows * size])


def write(path, entries, tensors):
    """tensors: (name, shape innermost first, type, chunks); chunks() yields the bytes in pieces."""
    header = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(entries))
    header += b''.join(string(k) + v for k, v in entries.items())
    offset = 0
    for name, shape, kind, _ in tensors:
        size = row_bytes(kind, shape[0]) * (shape[1] if len(shape) > 1 else 1)
        header += string(name) + struct.pack('<I%dQ' % len(shape), len(shape), *shape)
        header += struct.pack('<IQ', TYPES[kind][0], offset)
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    part = '%s.%d.part' % (path, os.getpid())
    with open(part, 'wb') as f:
        f.write(header)
        for _, _, _, chunks in tensors:
            f.write(b'\0' * (-f.tell() % ALIGNMENT))
            for chunk in chunks():
                f.write(chunk)
        f.write(b'\0' * (-f.tell() % ALIGNMENT))
    os.replace(part, path)


# ------------------------------------------------------------------------------ random models

# layers, width, ffn, heads, key-value heads, vocabulary
PRESETS = {
    'tiny': (2, 64, 192, 4, 2, 320),
    'small': (4, 256, 768, 8, 4, 2048),
    '1b': (22, 2048, 5632, 32, 4, 32000),
}
ROWS = 1024  # rows made at a time


def random_matrix(rng, rows, columns, scale, kind):
    for first in range(0, rows, ROWS):
        n = min(ROWS, rows - first)
        yield quantise(rng.standard_normal((n, columns), np.float32) * np.float32(scale), kind)


def byte_letters():
    """How byte-level BPE spells each byte: printable Latin-1 as itself, the rest from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def generated_tokenizer(vocabulary):
    if vocabulary < 259:
        sys.exit('a byte-level vocabulary needs at least 259 tokens')
    letters = byte_letters()
    tokens = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] + letters
    types, merges = [3] * 3 + [1] * 256, []
    for a in letters:  # pairs of letters fill it up
        for b in letters:
            if len(tokens) < vocabulary:
                tokens.append(a + b)
                types.append(1)
                merges.append(a + ' ' + b)
    while len(tokens) < vocabulary:
        tokens.append('<unused_%d>' % len(tokens))
        types.append(5)
    p = 'tokenizer.ggml.'
    return {
        p + 'model': text('gpt2'), p + 'pre': text('gpt-2'),
        p + 'tokens': array(STRING, [string(t) for t in tokens]),
        p + 'token_type': array(5, [struct.pack('<i', t) for t in types]),
        p + 'merges': array(STRING, [string(m) for m in merges]),
        p + 'bos_token_id': number(1), p + 'eos_token_id': number(2),
    }


def copied_tokenizer(path):
    entries = {k: v for k, v in Reader(path).entries.items() if k.startswith('tokenizer.')}
    count, = struct.unpack_from('<Q', entries['tokenizer.ggml.tokens'], 8)
    return entries, count


def settings(o):
    p = 'llama.'
    return {
        'general.architecture': text('llama'),
        'general.name': text('random %s, seed %d' % (o.type, o.seed)),
        'general.file_type': number(TYPES[o.type][1]),
        p + 'block_count': number(o.layers), p + 'context_length': number(o.context),
        p + 'embedding_length': number(o.width), p + 'feed_forward_length': number(o.ffn),
        p + 'attention.head_count': number(o.heads),
        p + 'attention.head_count_kv': number(o.kv_heads),
        p + 'attention.layer_norm_rms_epsilon': number(1e-5),
        p + 'rope.freq_base': number(float(o.rope_base)),
        p + 'rope.dimension_count': number(o.width // o.heads),
        p + 'vocab_size': number(o.vocabulary),
    }


def random_tensors(o):
    rng = np.random.Generator(np.random.PCG64(o.seed))
    tensors = []

    def matrix(name, rows, columns, scale):
        tensors.append((name + '.weight', (columns, rows), o.type,
                        lambda: random_matrix(rng, rows, columns, scale, o.type)))

    def vector(name, count):
        values = (1 + 0.1 * rng.standard_normal(count)).astype(np.float32)
        tensors.append((name + '.weight', (count,), 'F32', lambda: [values.tobytes()]))

    key = o.width // o.heads * o.kv_heads
    matrix('token_embd', o.vocabulary, o.width, 2 / o.width ** 0.5 if o.tied else 1)
    for layer in range(o.layers):
        b = 'blk.%d.' % layer
        vector(b + 'attn_norm', o.width)
        for name, rows, columns in (('attn_q', o.width, o.width), ('attn_k', key, o.width),
                                    ('attn_v', key, o.width), ('attn_output', o.width, o.width),
                                    ('ffn_gate', o.ffn, o.width), ('ffn_up', o.ffn, o.width),
                                    ('ffn_down', o.width, o.ffn)):
            matrix(b + name, rows, columns, 1 / columns ** 0.5)
        vector(b + 'ffn_norm', o.width)
    vector('output_norm', o.width)
    if not o.tied:
        matrix('output', o.vocabulary, o.width, 2 / o.width ** 0.5)
    return tensors


def make_random(o):
    if o.tokenizer:
        tokenizer, o.vocabulary = copied_tokenizer(o.tokenizer)
    else:
        tokenizer = generated_tokenizer(o.vocabulary)
    if o.width % o.heads or o.heads % o.kv_heads:
        sys.exit('width must be a multiple of heads, and heads one of key-value heads')
    write(o.out, {**settings(o), **tokenizer}, random_tensors(o))


# ------------------------------------------------------------------------------ re-encoding

def reencode(source, name, kind):
    shape, number_, _ = source.tensors[name]
    old = BY_NUMBER[number_]
    rows = shape[1] if len(shape) > 1 else 1
    for first in range(0, rows, ROWS):
        n = min(ROWS, rows - first)
        data = source.bytes_of(name, first, n)
        yield data if kind == old else quantise(dequantise(data, old, n, shape[0]), kind)


def requantise(o):
    source = Reader(o.requantize)
    for name, (_, number_, _) in source.tensors.items():
        if number_ not in BY_NUMBER:
            sys.exit('%s has ggml type %d, which this script cannot read' % (name, number_))
    entries = {k: v for k, v in source.entries.items() if k != 'general.alignment'}
    entries['general.file_type'] = number(TYPES[o.type][1])
    tensors = []
    for name, (shape, number_, _) in source.tensors.items():
        kind = o.type if len(shape) > 1 else BY_NUMBER[number_]
        tensors.append((name, shape, kind,
                        lambda name=name, kind=kind: reencode(source, name, kind)))
    write(o.out, entries, tensors)


def main():
    p = argparse.ArgumentParser(
        description=__doc__.split('\n')[0],
        epilog='example: scripts/random-model.py --preset 1b --type Q4_0 big.gguf')
    p.add_argument('out', metavar='OUT.gguf')
    p.add_argument('--type', choices=TYPES, default='F32', help='of all matrices (F32)')
    p.add_argument('--requantize', metavar='FROM.gguf', help='re-encode this model instead')
    p.add_argument('--preset', choices=PRESETS, default='small', help='a shape (small)')
    for name in ('layers', 'width', 'ffn', 'heads', 'kv-heads', 'vocabulary'):
        p.add_argument('--' + name, type=int, help='instead of the preset\'s')
    p.add_argument('--context', type=int, default=2048, help='positions (2048)')
    p.add_argument('--rope-base', type=float, default=10000, help='rotary base (10000)')
    p.add_argument('--tied', action='store_true', help='the embedding is the output matrix too')
    p.add_argument('--tokenizer', metavar='FROM.gguf', help='copy its tokenizer and vocabulary size')
    p.add_argument('--seed', type=int, default=1)
    o = p.parse_args()
    shape = ('layers', 'width', 'ffn', 'heads', 'kv_heads', 'vocabulary')
    for name, value in zip(shape, PRESETS[o.preset]):
        if getattr(o, name) is None:
            setattr(o, name, value)
    (requantise if o.requantize else make_random)(o)


if __name__ == '__main__':
    main()
