// SPDX-License-Identifier: Apache-2.0
//
// motley_tokenize.c: our half of the comparison with llama.cpp; tokenizer.py drives it and writes
// its inputs.
//
//   motley_tokenize VOCABULARY encode  < requests > ids
//   motley_tokenize VOCABULARY tokens  > one record a token
//
// All numbers are 32 bits, little-endian.
//   VOCABULARY  kind, count, merges, bos, eos, eot, unknown, add_bos, add_eos, add_space_prefix;
//               name of the pre-tokenizer; count texts; count scores (float); count types;
//               merges texts.  A text is its length and its bytes.
//   request     1 = add_special + 2 = parse_special; text
//   ids         how many; the ids
//   token       1 = ends a generation + 2 = special; bytes

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

struct reader {
  struct str rest;
};

static int32_t read_int(struct reader *r) {
  int32_t value = 0;
  if (r->rest.length >= 4) {
    memcpy(&value, r->rest.data, 4);
    r->rest.data += 4, r->rest.length -= 4;
  }
  return value;
}

static struct str read_text(struct reader *r) {
  size_t length = (uint32_t)read_int(r);
  if (length > r->rest.length) length = r->rest.length;
  struct str text = {r->rest.data, length};
  r->rest.data += length, r->rest.length -= length;
  return text;
}

static void write_int(int32_t value) { fwrite(&value, 4, 1, stdout); }

static const struct str *read_texts(struct reader *r, int count) {
  struct str *texts = memory_new((size_t)count * sizeof *texts);
  for (int i = 0; i < count; i++) texts[i] = read_text(r);
  return texts;
}

static const int32_t *read_ints(struct reader *r, int count) {
  int32_t *values = memory_new((size_t)count * sizeof *values);
  for (int i = 0; i < count; i++) values[i] = read_int(r);
  return values;
}

static struct tokenizer *load(struct str file, struct error *e) {
  struct reader r = {file};
  struct tokenizer_source s = {.kind = (enum tokenizer_kind)read_int(&r)};
  s.count = read_int(&r), s.merge_count = read_int(&r);
  s.bos = read_int(&r), s.eos = read_int(&r), s.eot = read_int(&r), s.unknown = read_int(&r);
  s.add_bos = read_int(&r), s.add_eos = read_int(&r), s.add_space_prefix = read_int(&r);
  s.pre = read_text(&r);
  s.texts = read_texts(&r, s.count);
  s.scores = (const float *)read_ints(&r, s.count);
  s.types = read_ints(&r, s.count);
  s.merges = read_texts(&r, s.merge_count);
  struct tokenizer *t = tokenizer_new(&s, e);
  memory_free((void *)s.texts), memory_free((void *)s.scores), memory_free((void *)s.types);
  memory_free((void *)s.merges);
  return t;
}

static void encode_requests(const struct tokenizer *t) {
  struct buffer input = {0};
  struct token_list ids = {0};
  char part[4096];
  for (size_t got; (got = fread(part, 1, sizeof part, stdin));) buffer_add(&input, part, got);
  for (struct reader r = {buffer_str(&input)}; r.rest.length;) {
    int32_t how = read_int(&r);
    ids.count = 0;
    tokenizer_encode(t, read_text(&r), how & 1, how & 2, &ids);
    write_int((int32_t)ids.count);
    fwrite(ids.ids, 4, ids.count, stdout);
  }
  token_list_clear(&ids);
  buffer_clear(&input);
}

static void write_tokens(const struct tokenizer *t) {
  for (int32_t id = 0; id < tokenizer_count(t); id++) {
    struct str bytes = tokenizer_bytes(t, id);
    write_int(tokenizer_is_end(t, id) + 2 * tokenizer_is_special(t, id));
    write_int((int32_t)bytes.length);
    fwrite(bytes.data, 1, bytes.length, stdout);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  struct error e = {0};
  struct file_map file = {0};
  struct tokenizer *t = NULL;
  if (file_map_open(&file, world_real(), argv[1], &e))
    t = load((struct str){(const char *)file.data, file.length}, &e);
  file_map_close(&file);
  if (!t) {
    fprintf(stderr, "%s\n", e.text);
    return 1;
  }
  if (strcmp(argv[2], "encode") == 0)
    encode_requests(t);
  else
    write_tokens(t);
  tokenizer_free(t);
  return 0;
}
