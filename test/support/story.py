# SPDX-License-Identifier: Apache-2.0
"""story.py [FOLDER]: a small story model made here, and the text that it must tell.

The build runs it once (cmake/tests.cmake), so that no test needs a file from elsewhere:

  story.bin    a llama of two layers in llama2.c's format, 64 wide, with grouped heads and a classifier of its own
  tok512.bin   its tokenizer, in the form that belongs to that format
  story.txt    what it tells at temperature 0 from an empty prompt: STEPS tokens and a newline
  ids.txt      texts and hashes of their ids, in the form that test/model/test_tokenizer_golden.c reads

The text is computed by the functions below: one token at a time, plain loops over Python's own numbers (doubles), no
cache that is shared with or copied from the program.  Weights are random, so the text makes no sense, but each step
depends on every weight and on all tokens before it.  Greedy choice is only well defined where the best logit is clearly
best: `tell` refuses a text with a step where the lead is smaller than LEAD, and `make` takes the first seed without one.
"""
import array
import math
import operator
import os
import random
import struct
import sys

WIDTH, FFN, LAYERS, HEADS, KV_HEADS, CONTEXT = 64, 128, 2, 4, 2, 320
HEAD = WIDTH // HEADS
STEPS = 256
LEAD = 0.002  # float arithmetic moves a logit of this model by some 0.00001
BOS = 1
WORDS = """Once upon a time there was little girl boy dog cat and Tom Lily played in the park with big red ball They saw
bird tree She he loved to go out but it sun shone said Mom yes no happy sad ran home""".split()


def vocabulary():
    """Token texts by id: three marks, 256 bytes, letters, then words with a blank in front and all their beginnings."""
    tokens = ['<unk>', '<s>', '</s>'] + ['<0x%02X>' % b for b in range(256)]
    tokens += [' '] + [chr(c) for c in range(ord('!'), ord('~') + 1)]
    for word in WORDS:
        for end in range(2, len(word) + 2):
            part = (' ' + word)[:end]
            if part not in tokens:
                tokens.append(part)
    return tokens


class Story:
    def __init__(self, seed):
        self.tokens = vocabulary()
        self.numbers = {text: i for i, text in enumerate(self.tokens)}
        self.random = random.Random(seed)
        key = KV_HEADS * HEAD
        self.embedding = self.matrix(len(self.tokens), WIDTH, 1)
        self.layers = [{'attention_norm': self.vector(), 'q': self.matrix(WIDTH, WIDTH, 2), 'k': self.matrix(key, WIDTH, 2),
                        'v': self.matrix(key, WIDTH, 2), 'out': self.matrix(WIDTH, WIDTH, 2), 'ffn_norm': self.vector(),
                        'gate': self.matrix(FFN, WIDTH, 2), 'down': self.matrix(WIDTH, FFN, 2),
                        'up': self.matrix(FFN, WIDTH, 2)} for _ in range(LAYERS)]
        self.norm = self.vector()
        self.classifier = self.matrix(len(self.tokens), WIDTH, 4)
        for row in self.classifier[:259 + 95]:
            row[:] = array.array('f', [0] * WIDTH)  # marks, bytes and single letters are never the best

    # Weights have the values that a 32-bit float can hold.
    def matrix(self, rows, columns, scale):
        bound = scale * math.sqrt(3 / columns)
        return [array.array('f', [self.random.uniform(-bound, bound) for _ in range(columns)]) for _ in range(rows)]

    def vector(self):
        return array.array('f', [self.random.uniform(0.5, 1.5) for _ in range(WIDTH)])

    # ---- the files

    def model_bytes(self):
        layered = ('attention_norm', 'q', 'k', 'v', 'out', 'ffn_norm', 'gate', 'down', 'up')
        parts = [self.embedding] + [layer[name] for name in layered for layer in self.layers]
        parts += [self.norm, array.array('f', bytes(4 * CONTEXT * HEAD)), self.classifier]
        head = struct.pack('<7i', WIDTH, FFN, LAYERS, HEADS, KV_HEADS, -len(self.tokens), CONTEXT)
        return head + b''.join(b''.join(row.tobytes() for row in part) if isinstance(part, list) else part.tobytes()
                               for part in parts)

    def tokenizer_bytes(self):
        texts = [t.encode() for t in self.tokens]
        return struct.pack('<i', max(map(len, texts))) + b''.join(
            struct.pack('<fi', self.score(i), len(t)) + t for i, t in enumerate(texts))

    def score(self, number):
        return -float(number) if number >= 259 else 0.0

    # ---- text to ids and back

    def encode(self, text):
        """SentencePiece's merging: a blank in front, then always the neighbours whose union has the best score.  The sign
        "▁" is a blank, too."""
        if not text:
            return []
        parts = list(' ' + text.replace('\u2581', ' '))
        while True:
            unions = [(self.score(self.numbers[a + b]), -i) for i, (a, b) in enumerate(zip(parts, parts[1:]))
                      if a + b in self.numbers]
            if not unions:
                break
            at = -max(unions)[1]
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        ids = []
        for part in parts:  # a letter that is no token is written as its bytes
            ids += [self.numbers[part]] if part in self.numbers else [3 + b for b in part.encode()]
        return ids

    # ---- the forward pass

    @staticmethod
    def times(matrix, x):
        return [sum(map(operator.mul, row, x)) for row in matrix]

    @staticmethod
    def normed(x, weights):
        scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + 1e-5)
        return [v * scale * w for v, w in zip(x, weights)]

    @staticmethod
    def turned(x, position):
        """Rotary embedding: neighbours are a pair, each head begins anew."""
        out = []
        for i in range(0, len(x), 2):
            angle = position * 10000 ** (-(i % HEAD) / HEAD)
            c, s = math.cos(angle), math.sin(angle)
            out += [x[i] * c - x[i + 1] * s, x[i] * s + x[i + 1] * c]
        return out

    @staticmethod
    def attended(q, keys, values):
        out = []
        for head in range(HEADS):
            own, shared = head * HEAD, head // (HEADS // KV_HEADS) * HEAD
            query = q[own:own + HEAD]
            scores = [sum(map(operator.mul, query, k[shared:shared + HEAD])) / math.sqrt(HEAD) for k in keys]
            top = max(scores)
            shares = [math.exp(s - top) for s in scores]
            total = sum(shares)
            out += [sum(share * v[shared + i] for share, v in zip(shares, values)) / total for i in range(HEAD)]
        return out

    def step(self, past, number):
        """The logits behind token `number`; `past` holds keys and values of each layer and grows."""
        x = list(self.embedding[number])
        for layer, (keys, values) in zip(self.layers, past):
            position = len(keys)
            n = self.normed(x, layer['attention_norm'])
            keys.append(self.turned(self.times(layer['k'], n), position))
            values.append(self.times(layer['v'], n))
            mixed = self.attended(self.turned(self.times(layer['q'], n), position), keys, values)
            x = list(map(operator.add, x, self.times(layer['out'], mixed)))
            n = self.normed(x, layer['ffn_norm'])
            gate, up = self.times(layer['gate'], n), self.times(layer['up'], n)
            hidden = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
            x = list(map(operator.add, x, self.times(layer['down'], hidden)))
        return self.times(self.classifier, self.normed(x, self.norm))

    def tell(self, prompt, steps):
        """The greedy continuation, of so many tokens.  Behind a prompt its blank in front stays."""
        past, logits, text = [([], []) for _ in range(LAYERS)], None, ''
        for number in [BOS] + self.encode(prompt):
            logits = self.step(past, number)
        for i in range(steps):
            second, first = sorted(logits)[-2:]
            if first - second < LEAD:
                raise ArithmeticError('the lead of token %d is %g' % (i, first - second))
            number = logits.index(first)
            text += self.tokens[number]
            if i + 1 < steps:
                logits = self.step(past, number)
        return text if prompt else text.removeprefix(' ')


# ---- the golden ids

def fnv(ids):
    value = 0x811C9DC5
    for byte in struct.pack('<%di' % len(ids), *ids):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def golden_ids(story, count=200):
    """Text n is encoded with a BOS in front when n is odd."""
    dice, texts = random.Random(7), []
    pieces = WORDS + list(' .,!?"\'aeiouTM<>[]|\t\n') + ['  ', ' Once', 'é', 'ß', '\u2581', '\u0416', '\u4e16', '\U0001f40e']
    for _ in range(count):
        texts.append(''.join(dice.choice(pieces) for _ in range(dice.randrange(1, 12))))
    lines = ['# Written by test/support/story.py; read by test/model/test_tokenizer_golden.c.']
    for text in texts:
        lines.append('text ' + ''.join(chr(b) if 33 <= b < 127 and b != ord('\\') else '\\x%02x' % b for b in text.encode()))
    for n, text in enumerate(texts):
        lines.append('ids %08x' % fnv([BOS] * (n & 1) + story.encode(text)))
    return '\n'.join(lines) + '\n'


def make(folder):
    os.makedirs(folder, exist_ok=True)
    for seed in range(1, 100):
        story = Story(seed)
        try:
            text = story.tell('', STEPS)
            break
        except ArithmeticError:
            pass
    else:
        sys.exit('story.py: no seed gives a text that is the same on every machine')
    for name, data in (('seed', b'%d' % seed), ('tok512.bin', story.tokenizer_bytes()), ('story.bin', story.model_bytes()),
                       ('ids.txt', golden_ids(story).encode()), ('story.txt', text.encode() + b'\n')):
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(data)


def made(folder):
    """The Story whose files lie there."""
    return Story(int(open(os.path.join(folder, 'seed')).read()))


if __name__ == '__main__':
    make(sys.argv[1])
