// SPDX-License-Identifier: Apache-2.0
//
// vocabulary.h: small vocabularies put together by hand, for tests of the tokenizer.
//
//   struct vocabulary v;
//   vocabulary_start(&v, TOKENIZER_BPE, "smollm");
//   vocabulary_add_letters(&v);                     ids 0..255 = the bytes
//   vocabulary_add_merge(&v, "a", "b");             and a token "ab" where there is none
//   vocabulary_add(&v, "<|im_end|>", TOKEN_CONTROL, 0);
//   struct tokenizer *t = vocabulary_make(&v);      aborts on an error
//   vocabulary_clear(&v);
#pragma once

#include "tokenizer/tokenizer.h"

#define VOCABULARY_TOKENS_MAX 2048
#define VOCABULARY_MERGES_MAX 1024

struct vocabulary {
  struct arena arena;  // owns the texts
  struct map ids;      // text → id
  struct str texts[VOCABULARY_TOKENS_MAX];
  float scores[VOCABULARY_TOKENS_MAX];
  int32_t types[VOCABULARY_TOKENS_MAX];
  struct str merges[VOCABULARY_MERGES_MAX];
  struct tokenizer_source source;  // points into the arrays above
};

void vocabulary_start(struct vocabulary *v, enum tokenizer_kind kind, const char *pre);
int32_t vocabulary_add(struct vocabulary *v, const char *text, enum token_type type, float score);
void vocabulary_add_letters(struct vocabulary *v);  // BPE: the 256 byte-level letters
void vocabulary_add_bytes(struct vocabulary *v);    // SPM: <0x00> to <0xFF>
void vocabulary_add_merge(struct vocabulary *v, const char *left, const char *right);
int32_t vocabulary_id(const struct vocabulary *v, struct str text);  // -1 = none
struct tokenizer *vocabulary_make(const struct vocabulary *v);
void vocabulary_clear(struct vocabulary *v);

// The letter of a byte, as UTF-8; returns its length.
int vocabulary_letter(int byte, char out[4]);
