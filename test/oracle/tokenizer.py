#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our token ids with llama.cpp's, text by text.

    python3 test/oracle/tokenizer.py --build build/asan [--texts 10000] [--seed 1] MODEL.gguf|tok512.bin ...

Needs the environment variable LLAMA_CPP (or --llama): a llama.cpp source folder with its shared libraries in
build/bin.  npm's package node-llama-cpp carries that source as a git bundle (llama/gitRelease.bundle): clone it, then
`cmake -B build -DBUILD_SHARED_LIBS=ON && cmake --build build --target llama`.  Needs Python's `gguf`, too.

    python3 test/oracle/tokenizer.py --golden test/tokenizer/golden SMOLLM2.gguf tok512.bin

writes the files that `make test` compares with where there is no llama.cpp: tokenizer.txt with a small vocabulary,
texts, and for each pre-tokenizer a hash of the ids that llama.cpp gives each text; smollm2.txt and stories260k.txt
with texts and hashes for these vocabularies, text n with setting n % 4.

For each vocabulary it compares: every token's bytes and flags; every text of llama.cpp's own MODEL.gguf.inp where
that lies beside the file (against MODEL.gguf.out, too); and random texts, each with one of the four settings of
add_special and parse_special.  It prints one line a vocabulary and the first differences, and fails on any.
"""
import argparse
import collections
import os
import random
import struct
import subprocess
import sys
import tempfile

import gguf

BPE_WITH_BOS = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken",
                "chameleon"}


class Vocabulary:
    """What `struct tokenizer_source` holds, with llama.cpp's defaults for what a file leaves out."""

    def __init__(self, path, pre):
        fields = gguf.GGUFReader(path).fields

        def get(key, default=None):
            return fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields else default

        self.spm = get("model") == "llama"
        self.pre = pre or get("pre", "")
        token_field = fields["tokenizer.ggml.tokens"]
        self.texts = [bytes(token_field.parts[i]) for i in token_field.data]
        merges = fields.get("tokenizer.ggml.merges")
        self.merges = [bytes(merges.parts[i]) for i in merges.data] if merges else []
        self.scores = get("scores") or [0.0] * len(self.texts)
        self.types = get("token_type") or [1] * len(self.texts)
        default = {"bos": 1, "eos": 2, "unknown": 0} if self.spm else {"bos": 11, "eos": 11, "unknown": -1}
        if self.pre in ("glm4", "chatglm-bpe"):
            default["bos"] = -1
        self.ids = [get(name + "_token_id", default.get(name, -1)) for name in ("bos", "eos", "eot", "unknown")]
        self.add = [int(get("add_bos_token", self.spm or self.pre in BPE_WITH_BOS)),
                    int(get("add_eos_token", False)), int(get("add_space_prefix", self.spm))]
        self.special = [t for t, kind in zip(self.texts, self.types) if kind in (2, 3, 4)]

    def write(self, path):
        with open(path, "wb") as out:
            numbers = [int(not self.spm), len(self.texts), len(self.merges)] + self.ids + self.add
            out.write(struct.pack("<10i", *numbers))
            for text in [self.pre.encode()] + self.texts:
                out.write(struct.pack("<I", len(text)) + text)
            out.write(struct.pack("<%df" % len(self.scores), *self.scores))
            out.write(struct.pack("<%di" % len(self.types), *self.types))
            for text in self.merges:
                out.write(struct.pack("<I", len(text)) + text)


def add_sizes(writer):
    """What llama.cpp wants to know of a model even when it only reads the vocabulary."""
    for add, value in ((writer.add_context_length, 512), (writer.add_embedding_length, 64),
                       (writer.add_block_count, 5), (writer.add_feed_forward_length, 172),
                       (writer.add_head_count, 8), (writer.add_layer_norm_rms_eps, 1e-5)):
        add(value)


def gguf_of_llama2c(path, out_path):
    """A GGUF that holds the vocabulary of a llama2.c tokenizer file."""
    data = open(path, "rb").read()
    texts, scores, types, at = [], [], [], 4
    while at < len(data):
        score, length = struct.unpack_from("<fI", data, at)
        text = data[at + 8:at + 8 + length]
        at += 8 + length
        number = len(texts)
        texts.append([b"<unk>", b"<s>", b"</s>"][number] if number < 3 else text.replace(b" ", "▁".encode()))
        types.append([2, 3, 3][number] if number < 3 else 6 if number < 259 else 1)
        scores.append(score)
    writer = gguf.GGUFWriter(out_path, "llama")
    add_sizes(writer)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def with_pre(path, pre, out_path):
    """A copy of a GGUF vocabulary under another pre-tokenizer's name."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out_path, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "tokenizer.ggml.pre"):
            continue
        if field.name in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
            writer.add_array(field.name, [bytes(field.parts[i]) for i in field.data])
        else:
            sub = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub)
    writer.add_string("tokenizer.ggml.pre", pre)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


# One name of each row of src/tokenizer/rules.c.
PRE_TOKENIZERS = ("default llama-bpe glm4 smollm gpt-2 qwen2 qwen35 tekken gpt-4o deepseek-llm deepseek-coder "
                  "deepseek-v3 falcon minicpm5 bailingmoe seed-coder youtu chameleon poro-chat viking laguna").split()


def letter(byte):
    """The character that stands for a byte in the vocabulary of byte-level BPE."""
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return chr(byte if byte in itself else 256 + [b for b in range(256) if b not in itself].index(byte))


def train(text, count):
    """The first `count` merges of `text` as one word, so that they cross what pre-tokenizers cut."""
    parts, merges = [letter(byte) for byte in text], []
    for _ in range(count):
        pairs = collections.Counter(zip(parts, parts[1:]))
        left, right = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append((left, right))
        joined, i = [], 0
        while i < len(parts):
            both = i + 1 < len(parts) and (parts[i], parts[i + 1]) == (left, right)
            joined.append(left + right if both else parts[i])
            i += 2 if both else 1
        parts = joined
    return merges


def bpe_gguf(path, pre, merges):
    writer = gguf.GGUFWriter(path, "llama")
    add_sizes(writer)
    texts = [letter(byte) for byte in range(256)]
    texts += [left + right for left, right in merges if left + right not in texts]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(texts)
    writer.add_token_merges([left + " " + right for left, right in merges])
    writer.add_add_bos_token(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def escape(text):
    return "".join(chr(b) if 0x20 < b < 0x7F and b != 0x5C else "\\x%02x" % b for b in text)


def hash_ids(ids):
    value = 0x811C9DC5  # FNV-1a
    for byte in struct.pack("<%di" % len(ids), *ids):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "%08x" % value


def hash_lines(hashes):
    return ["ids %s\n" % " ".join(hashes[i:i + 10]) for i in range(0, len(hashes), 10)]


def write_model_golden(theirs, path, out_path):
    vocabulary = Vocabulary(path, "")
    maker = Texts(2027, vocabulary.special)
    texts = [text for text in (maker.text() for _ in range(2000)) if 8 < len(text) < 200][:200]
    stream = b"".join(struct.pack("<ii", i % 4, len(text)) + text for i, text in enumerate(texts))
    with open(out_path, "w") as out:
        out.write("# Written by test/oracle/tokenizer.py --golden; read by test/model/test_tokenizer_golden.c.\n")
        out.writelines("text %s\n" % escape(text) for text in texts)
        out.writelines(hash_lines([hash_ids(ids) for ids in id_lists(run([theirs, path, "encode"], stream))]))


def write_golden(theirs, path, folder):
    maker = Texts(2026, [])
    spaces = (" ", " ", "", "", "  ", "\n", "    ", "\n\n")
    words = Texts.WORDS[:30] + ["".join(maker.random.choice("0123456789") for _ in range(n)) for n in range(1, 9)]
    lesson = "".join(maker.random.choice(spaces) + maker.random.choice(words) for _ in range(5000))
    merges = train(lesson.encode(), 400)
    texts = [text for text in (maker.text() for _ in range(1000)) if 8 < len(text) < 140][:100]
    stream = b"".join(struct.pack("<ii", 0, len(text)) + text for text in texts)
    with open(path, "w") as out:
        out.write("# Written by test/oracle/tokenizer.py --golden; read by test/model/test_tokenizer_golden.c.\n")
        out.writelines("merge %s %s\n" % merge for merge in merges)
        out.writelines("text %s\n" % escape(text) for text in texts)
        for pre in PRE_TOKENIZERS:
            vocabulary = os.path.join(folder, "golden.gguf")
            bpe_gguf(vocabulary, pre, merges)
            hashes = [hash_ids(ids) for ids in id_lists(run([theirs, vocabulary, "encode"], stream))]
            out.write("pre %s\n" % pre)
            out.writelines(hash_lines(hashes))


class Texts:
    """Random texts of every nature that has tripped a tokenizer."""

    RANGES = [(0x20, 0x7E)] * 6 + [
        (0x00, 0x1F), (0x7F, 0xA0), (0xA1, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x52F),
        (0x530, 0x6FF), (0x700, 0x8FF), (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x167F), (0x1680, 0x1FFF),
        (0x2000, 0x206F), (0x2070, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x30FF), (0x3100, 0x33FF), (0x3400, 0x9FFF),
        (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFF), (0x11000, 0x11FFF),
        (0x12000, 0x1BFFF), (0x1C000, 0x1EFFF), (0x1F000, 0x1FAFF), (0x20000, 0x323FF), (0xE0000, 0xE01FF),
        (0xF0000, 0x10FFFF)]
    SPACES = [" ", " ", " ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\xa0", "\u1680", "\u180e",
              "\u2003", "\u2028", "\u200b", "\u202f", "\u3000", "\ufeff"]
    WORDS = ("the of and don't I'll WE'RE it's They'Ve o'clock naïve Straße über İstanbul ǅungla Москва ΣΊΣΥΦΟΣ "
             "こんにちは 世界 한국어 मानक ไทย עברית العربية 3.14159 1,234,567 0x1F ½ Ⅻ ٣٤٥ 𝟙𝟚 e\u0301 👨‍👩‍👧‍👦 "
             "🏳️‍🌈 == != ->> <tag/> {json:[1,2]} \\n %d $5 `code` __init__ a_b C++ #1 …— “quoted” ﬁ ｆｕｌｌ '' 's 'S "
             "'ſ 'LL <s> </s> <|x|> <0x0A> ▁ ▁▁ Ġ Ċ").split()

    def __init__(self, seed, special):
        self.random = random.Random(seed)
        self.special = special

    def character(self):
        low, high = self.random.choice(self.RANGES)
        return chr(self.random.randint(low, high)).encode("utf-8", "surrogatepass")

    def part(self):
        r = self.random
        kind = r.randrange(12)
        if kind < 3:
            return (r.choice(("", " ", " ")) + r.choice(self.WORDS)).encode()
        if kind == 3:
            return b"".join(self.character() for _ in range(r.randint(1, 8)))
        if kind == 4:
            return "".join(r.choice(self.SPACES) for _ in range(r.randint(1, 6))).encode()
        if kind == 5:
            return r.choice(self.SPACES).encode() * r.choice((1, 2, 3, 5, 8, 17, 40))
        if kind == 6:
            return str(r.randrange(10 ** r.randint(1, 12))).encode()
        if kind == 7 and self.special:
            text = r.choice(self.special)
            return text if r.randrange(3) else text[:r.randint(1, len(text))]
        if kind == 8:
            return "".join(r.choice("aAbBeEtThH'sSéÉßñ") for _ in range(r.randint(1, 12))).encode()
        if kind == 9:
            return "".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(r.randint(1, 6))).encode()
        if kind == 10 and r.randrange(3) == 0:
            return bytes(r.randrange(256) for _ in range(r.randint(1, 6)))
        low, high = r.choice(self.RANGES)
        return "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 6))).encode()

    def text(self):
        whole = b"".join(self.part() for _ in range(self.random.choice((1, 2, 3, 5, 8, 13, 30))))
        # llama.cpp dies of an exception on what looks like a character above U+10FFFF.
        for first in range(0xF4, 0xF8):
            for second in range(0x90 if first == 0xF4 else 0x80, 0xC0):
                whole = whole.replace(bytes((first, second)), b"?")
        return whole


def run(command, requests=b""):
    done = subprocess.run(command, input=requests, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("failed (%d): %s" % (done.returncode, " ".join(command)))
    return done.stdout


def id_lists(answer):
    at, lists = 0, []
    while at < len(answer):
        (count,) = struct.unpack_from("<i", answer, at)
        lists.append(struct.unpack_from("<%di" % count, answer, at + 4))
        at += 4 + 4 * count
    return lists


def token_records(answer):
    at, records = 0, []
    while at < len(answer):
        flags, length = struct.unpack_from("<ii", answer, at)
        records.append((flags, answer[at + 8:at + 8 + length]))
        at += 8 + length
    return records


def own_tests(path):
    """The texts and expected ids that llama.cpp keeps beside its vocabularies."""
    if not os.path.exists(path + ".inp"):
        return [], []
    texts = open(path + ".inp", "rb").read().split(b"\n__ggml_vocab_test__\n")
    lines = open(path + ".out").read().split("\n")
    return texts[:-1], [tuple(map(int, line.split())) for line in lines[:len(texts) - 1]]


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def compare(ours, theirs, path, args, pre, folder):
    vocabulary = Vocabulary(path, pre)
    file = os.path.join(folder, "vocabulary.bin")
    vocabulary.write(file)
    records = [token_records(run([program, name, "tokens"])) for program, name in ((ours, file), (theirs, path))]
    # Where a text holds a character that is no byte-level letter, llama.cpp writes a note and we the character.
    wrong_tokens = [i for i, (a, b) in enumerate(zip(*records)) if a != b and b"[UNK_BYTE_0x" not in b[1]]
    for i in wrong_tokens[:args.show]:
        print("  token %d %r: ours %r, llama.cpp %r" % (i, vocabulary.texts[i], records[0][i], records[1][i]))
    known_texts, known_ids = own_tests(path)
    maker = Texts(args.seed, vocabulary.special)
    requests = [(0, text) for text in known_texts]
    requests += [(maker.random.randrange(4), maker.text()) for _ in range(args.texts)]
    stream = b"".join(struct.pack("<ii", how, len(text)) + text for how, text in requests)
    mine, reference = id_lists(run([ours, file, "encode"], stream)), id_lists(run([theirs, path, "encode"], stream))
    wrong = [i for i, (a, b) in enumerate(zip(mine, reference)) if a != b]
    wrong += [i for i, ids in enumerate(known_ids) if mine[i] != ids and i not in wrong]
    for i in wrong[:args.show]:
        at = first_difference(mine[i], reference[i])
        print("  text %d (setting %d) %r\n    from id %d: ours %s, llama.cpp %s" %
              (i, requests[i][0], requests[i][1][:300], at, mine[i][at:at + 12], reference[i][at:at + 12]))
    print("%-44s %-16s tokens %6d, differ %d; own texts %d; random texts %d; differ %d" %
          (os.path.basename(path), vocabulary.pre or ("-" if vocabulary.spm else "default"), len(records[0]),
           len(wrong_tokens), len(known_texts), args.texts, len(wrong)))
    return len(mine) == len(reference) == len(requests) and not wrong and not wrong_tokens


def main():
    parser = argparse.ArgumentParser(description="compare token ids with llama.cpp's")
    parser.add_argument("files", nargs="*", help="GGUF files, or a llama2.c tokenizer .bin")
    parser.add_argument("--llama", default=os.environ.get("LLAMA_CPP"))
    parser.add_argument("--build", default=os.environ.get("MOTLEY_BUILD", "build/asan"))
    parser.add_argument("--texts", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="differences to show of each vocabulary")
    parser.add_argument("--pre", default="", help="further pre-tokenizers to try each BPE file with, by commas")
    parser.add_argument("--golden", help="write files into this folder instead")
    args = parser.parse_args()
    if not args.llama or not os.path.isdir(os.path.join(args.llama, "build", "bin")):
        sys.exit("no llama.cpp: set LLAMA_CPP to a source folder with its libraries in build/bin (see --help)")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        theirs = os.path.join(folder, "tokenize")
        libraries = os.path.join(args.llama, "build", "bin")
        subprocess.run(["cc", "-O1", "-o", theirs, os.path.join(os.path.dirname(__file__), "llama_tokenize.c"),
                        "-I" + args.llama + "/include", "-I" + args.llama + "/ggml/include", "-L" + libraries,
                        "-Wl,-rpath," + os.path.abspath(libraries), "-lllama", "-lggml", "-lggml-base"], check=True)
        if args.golden:
            write_golden(theirs, os.path.join(args.golden, "tokenizer.txt"), folder)
        ours = os.path.join(args.build, "motley_tokenize")
        for path in args.files:
            if path.endswith(".bin"):
                converted = os.path.join(folder, os.path.basename(path) + ".gguf")
                gguf_of_llama2c(path, converted)
                path = converted
            if args.golden:
                name = "stories260k.txt" if path.endswith(".bin.gguf") else "smollm2.txt"
                write_model_golden(theirs, path, os.path.join(args.golden, name))
                continue
            if not args.pre:
                good = compare(ours, theirs, path, args, "", folder) and good
            for pre in filter(None, args.pre.split(",")):
                renamed = os.path.join(folder, "renamed.gguf")
                with_pre(path, pre, renamed)
                good = compare(ours, theirs, renamed, args, pre, folder) and good
    sys.exit(0 if good else 1)


main()
