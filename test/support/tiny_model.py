# SPDX-License-Identifier: Apache-2.0
"""tiny_model.py: model files that Motley accepts, of any size and content, made without numpy.

tiny_gguf(size, seed) is a llama of one layer, 32 wide, with a byte-level vocabulary; random bytes in a metadata list
of its own bring it to the size (at least GGUF_LEAST).  tiny_llama2c() is the same in llama2.c's form, with its
tokenizer.
"""
import random
import struct

WIDTH, FFN, HEADS, CONTEXT = 32, 32, 2, 64
U8, U32, I32, F32, STRING, ARRAY = 0, 4, 5, 6, 8, 9
ALIGNMENT = 32


def string(text):
    data = text.encode()
    return struct.pack('<Q', len(data)) + data


def entry(key, kind, payload):
    return string(key) + struct.pack('<I', kind) + payload


def array(key, kind, items):
    return entry(key, ARRAY, struct.pack('<IQ', kind, len(items)) + b''.join(items))


def letters():
    """How byte-level BPE spells each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b if b in printable else next(others)) for b in range(256)]


def entries():
    numbers = {'block_count': 1, 'context_length': CONTEXT, 'embedding_length': WIDTH, 'feed_forward_length': FFN,
               'attention.head_count': HEADS, 'attention.head_count_kv': HEADS}
    tokens = ['<|endoftext|>'] + letters()
    return [entry('general.architecture', STRING, string('llama')),
            *[entry('llama.' + key, U32, struct.pack('<I', value)) for key, value in numbers.items()],
            entry('llama.attention.layer_norm_rms_epsilon', F32, struct.pack('<f', 1e-5)),
            entry('tokenizer.ggml.model', STRING, string('gpt2')),
            entry('tokenizer.ggml.pre', STRING, string('gpt-2')),
            array('tokenizer.ggml.tokens', STRING, [string(t) for t in tokens]),
            array('tokenizer.ggml.token_type', I32, [struct.pack('<i', 3)] + [struct.pack('<i', 1)] * 256),
            array('tokenizer.ggml.merges', STRING, []),
            entry('tokenizer.ggml.eos_token_id', U32, struct.pack('<I', 0))]


def shapes():
    """Name → shape, innermost first."""
    layer = {'attn_norm': (WIDTH,), 'ffn_norm': (WIDTH,), 'ffn_gate': (WIDTH, FFN), 'ffn_up': (WIDTH, FFN),
             'ffn_down': (FFN, WIDTH), **{'attn_' + n: (WIDTH, WIDTH) for n in ('q', 'k', 'v', 'output')}}
    return {'token_embd': (WIDTH, 257), 'output_norm': (WIDTH,), **{'blk.0.' + n: s for n, s in layer.items()}}


def gguf(padding):
    parts = entries() + [entry('test.padding', ARRAY, struct.pack('<IQ', U8, len(padding)) + padding)]
    tensors, offset = b'', 0
    for name, shape in shapes().items():
        tensors += string(name + '.weight') + struct.pack('<I%dQIQ' % len(shape), len(shape), *shape, 0, offset)
        offset += -(-4 * shape[0] * (shape[1] if len(shape) > 1 else 1) // ALIGNMENT) * ALIGNMENT
    head = b'GGUF' + struct.pack('<IQQ', 3, len(shapes()), len(parts)) + b''.join(parts) + tensors
    return head + b'\0' * (-len(head) % ALIGNMENT + offset)


GGUF_LEAST = len(gguf(b'x')) + ALIGNMENT


def tiny_gguf(size, seed=1):
    """Of size bytes, or up to 31 fewer."""
    room = max(size, GGUF_LEAST) - GGUF_LEAST + 1
    return gguf(random.Random(seed).randbytes(room))


def tiny_llama2c():
    """(model, tokenizer)"""
    vocabulary, context = 3 + 256 + 1, 16
    floats = (vocabulary * WIDTH + WIDTH + 4 * WIDTH * WIDTH + WIDTH + 3 * WIDTH * FFN + WIDTH +
              context * (WIDTH // HEADS))
    model = struct.pack('<7i', WIDTH, FFN, 1, HEADS, HEADS, vocabulary, context) + bytes(4 * floats)
    tokens = [b'<unk>', b'<s>', b'</s>'] + [b'<0x%02X>' % i for i in range(256)] + [b'a']
    return model, struct.pack('<i', 6) + b''.join(struct.pack('<fi', 0, len(t)) + t for t in tokens)
