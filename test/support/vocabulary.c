// SPDX-License-Identifier: Apache-2.0
//
// vocabulary.c: small vocabularies put together by hand, as arrays that a tokenizer_source points
// into, with a map from text to id for the slow implementations in tests (vocabulary.h).

#include "support/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// No cmocka here: this file is linked into fuzz targets, too.
static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "vocabulary: %s\n", what);
  abort();
}

void vocabulary_start(struct vocabulary *v, enum tokenizer_kind kind, const char *pre) {
  memset(v, 0, sizeof *v);
  v->source = (struct tokenizer_source){.kind = kind,
                                        .pre = str_of(pre),
                                        .texts = v->texts,
                                        .scores = v->scores,
                                        .types = v->types,
                                        .merges = v->merges,
                                        .bos = -1,
                                        .eos = -1,
                                        .eot = -1,
                                        .unknown = -1};
}

int32_t vocabulary_add(struct vocabulary *v, const char *text, enum token_type type, float score) {
  must(v->source.count < VOCABULARY_TOKENS_MAX, "too many tokens");
  int32_t id = v->source.count++;
  v->texts[id] = (struct str){arena_copy(&v->arena, text, strlen(text)), strlen(text)};
  v->types[id] = (int32_t)type;
  v->scores[id] = score;
  map_put(&v->ids, v->texts[id], id);
  return id;
}

// The bytes that are no letters of themselves get U+0100, U+0101, … in order.
int vocabulary_letter(int byte, char out[4]) {
  uint32_t next = 256;
  for (int b = 0; b < 256; b++) {
    bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    uint32_t letter = itself ? (uint32_t)b : next++;
    if (b == byte) return str_utf8_encode(letter, out);
  }
  return 0;
}

void vocabulary_add_letters(struct vocabulary *v) {
  for (int byte = 0; byte < 256; byte++) {
    char text[5] = "";
    text[vocabulary_letter(byte, text)] = 0;
    vocabulary_add(v, text, TOKEN_NORMAL, 0);
  }
}

void vocabulary_add_bytes(struct vocabulary *v) {
  for (int byte = 0; byte < 256; byte++) {
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
    vocabulary_add(v, text, TOKEN_BYTE, 0);
  }
}

void vocabulary_add_merge(struct vocabulary *v, const char *left, const char *right) {
  must(v->source.merge_count < VOCABULARY_MERGES_MAX, "too many merges");
  v->merges[v->source.merge_count++] = str_of(arena_print(&v->arena, "%s %s", left, right));
  const char *joined = arena_print(&v->arena, "%s%s", left, right);
  if (vocabulary_id(v, str_of(joined)) < 0) vocabulary_add(v, joined, TOKEN_NORMAL, 0);
}

int32_t vocabulary_id(const struct vocabulary *v, struct str text) {
  int64_t id = -1;
  map_get(&v->ids, text, &id);
  return (int32_t)id;
}

struct tokenizer *vocabulary_make(const struct vocabulary *v) {
  struct error e = {0};
  struct tokenizer *t = tokenizer_new(&v->source, &e);
  must(t != NULL, e.text);
  return t;
}

void vocabulary_clear(struct vocabulary *v) {
  map_clear(&v->ids);
  arena_clear(&v->arena);
}
