// SPDX-License-Identifier: Apache-2.0
//
// internal.h: how the tokenizer's files share the work.
//
//   text ─ special.c ─> plain spans and special tokens
//   plain span ─ BPE: words.c ─> words ─ bpe.c ─┬─ merge.c ─> ids
//              └ SPM: spm.c ───────────────────┘
//
// The vocabulary is held as *pieces*: the distinct byte strings that merging can meet, numbered
// from 0, each with the token it is (or -1).  For SPM a piece is a token's text as stored ("▁the");
// for BPE it is the bytes that the text stands for (" the", the byte-level letters undone) and
// there are pieces that are no token: single bytes and merge results that the vocabulary lacks.
//
// A tokenizer never changes after tokenizer_new, so threads share it freely; whatever an encoding
// needs for itself hangs off a `struct encoding` on the caller's stack.
#pragma once

#include <pcre2.h>

#include "tokenizer/tokenizer.h"

// Limits: far above any model, and low enough that all sums stay within 32 bits.
#define TOKENIZER_VOCABULARY_MAX (1 << 24)  // tokens
#define TOKENIZER_MERGES_MAX (1 << 26)
#define TOKENIZER_TEXT_MAX (1u << 20)  // bytes of one token's text
#define TOKENIZER_SPAN_MAX (1u << 28)  // bytes merged at once; longer texts are taken in parts
#define TOKENIZER_PATTERNS_MAX 6       // of one pre-tokenizer

// ---- pieces.c

struct piece_slot;
struct pieces {
  struct str *texts;  // [count] borrowed: they live in the tokenizer's arena
  int32_t *tokens;    // [count] token id, -1 = none
  int32_t count, capacity;
  struct piece_slot *slots;  // open addressing, power of two, at most half full
  uint32_t slot_count;
};
int32_t tokenizer_find_piece(const struct pieces *p, struct str text);  // number, -1 = absent
int32_t tokenizer_add_piece(struct pieces *p, struct str text);  // its number, also if it was there
void tokenizer_set_piece(struct pieces *p, struct str text, int32_t token);  // adds it where needed
void tokenizer_reserve_pieces(struct pieces *p, int32_t count);  // before the first is added
void tokenizer_clear_pieces(struct pieces *p);

// ---- merge.c

struct merge_slot;
// BPE: left piece and right piece → rank and resulting piece
struct merges {
  struct merge_slot *slots;
  uint32_t slot_count;
};
// Must come first, and once; more than `count` merges must not be added.
void tokenizer_reserve_merges(struct merges *m, int count);
// left, right and result are numbers of pieces; of two equal pairs the first counts.
void tokenizer_add_merge(struct merges *m, int32_t left, int32_t right, uint32_t rank,
                         int32_t result);
void tokenizer_clear_merges(struct merges *m);  // does nothing on a zeroed table

struct symbol {            // a run of bytes of the word being merged
  int32_t previous, next;  // neighbours alive; -1 = end
  uint32_t begin, length;  // bytes in the word; length 0 = merged into its left neighbour
  int32_t piece;           // -1 = none has this text
};
struct candidate;
struct encoding {
  const struct tokenizer *tokenizer;
  struct token_list *out;
  struct symbol *symbols;  // [symbol_count] of the current word
  int32_t symbol_count, symbol_capacity;
  struct candidate *candidates;  // binary heap, best first
  size_t candidate_count, candidate_capacity;
};
// begin: where the one before ends.  To begin a word set symbol_count to 0.  Where memory runs out
// this and merging mark e->out as failed and go on.
void tokenizer_add_symbol(struct encoding *e, uint32_t begin, uint32_t length, int32_t piece);
// Merges the best pair until none is left.  `word` is what the symbols lie in.
void tokenizer_merge_symbols(struct encoding *e, struct str word);

// ---- rules.c and words.c

struct word_rules {
  pcre2_code *patterns[TOKENIZER_PATTERNS_MAX];  // applied one after another, each to what the one
                                                 // before left
  int count;
  bool whole_words_first;  // a word that is a token is taken without merging (llama.cpp:
                           // ignore_merges)
  pcre2_match_context *limits;
};
// Compiles the rules of a name into zeroed *rules; "" is what old files mean by no name.  An
// unknown name is ERROR_UNSUPPORTED.  Clear *rules after a failure too.
bool tokenizer_find_rules(struct str name, struct word_rules *rules, struct error *e);
void tokenizer_clear_rules(struct word_rules *rules);  // does nothing on zeroed rules
typedef void (*tokenizer_word)(void *context, struct str word);
// Calls `word` for each word of the text in order; the words joined are the text with every invalid
// UTF-8 byte replaced by U+FFFD.  False when memory ran out before the first word.
bool tokenizer_split_words(const struct word_rules *rules, struct str text, tokenizer_word word,
                           void *context);

// ---- special.c

struct specials {
  int32_t *ids;  // [count] sorted by text, no text twice
  int count;
  int first[257];    // ids[first[b]] .. ids[first[b + 1] - 1] begin with byte b
  int always_count;  // those that are cut out even without parse_special
  size_t longest;    // bytes
};
struct span {
  struct str text;  // of plain text
  int32_t id;       // of a special token; -1 = plain text
};
struct spans {
  struct span *items;
  size_t count, capacity;
  bool failed;  // spans were left out: there was no memory
};
// Texts and flags must be final.
void tokenizer_collect_specials(struct tokenizer *t);
// Appends spans that joined are the text; *out must be empty, its items are the caller's to free.
// own: as tokenizer_encode_rendered takes it, and then parse_special does not matter; or NULL.
// False when memory ran out.
bool tokenizer_cut_specials(const struct tokenizer *t, struct str text, bool parse_special,
                            const uint8_t *own, struct spans *out);

// ---- the two kinds

enum token_flag {
  FLAG_CONTROL = 1,  // found in text only with parse_special; hidden from users
  FLAG_UNKNOWN = 2,  // the same
  FLAG_USER = 4,     // user-defined: always found in text
  FLAG_END = 8,      // ends a generation
  FLAG_BYTE = 16,    // "<0xNN>"
  FLAG_UNUSED = 32,  // stands for nothing
  // Gives a text its structure, or looks like it: control and unknown tokens, well-known texts, and
  // user-defined ones with a bracket in them.  Never made by merging plain text.
  FLAG_PROTECTED = 64,
};

struct tokenizer {
  enum tokenizer_kind kind;
  int count;
  struct arena arena;  // holds all texts
  struct str *texts;   // [count] as in the file
  struct str *bytes;   // [count] what the token stands for
  uint8_t *flags;      // [count] enum token_flag
  float *scores;       // [count] SPM only
  int32_t bos, eos, eot, unknown;
  bool add_bos, add_eos, add_space_prefix;
  struct pieces pieces;
  size_t longest_piece;      // bytes
  int32_t byte_pieces[256];  // BPE: the piece of each single byte
  int32_t byte_tokens[256];  // the token that stands for each single byte, -1 = none
  struct merges merges;      // BPE
  bool words_apart;          // SPM: no token has "▁" behind another character
  struct word_rules rules;   // BPE
  struct specials specials;
};

void tokenizer_flag_known_texts(struct tokenizer *t);  // known.c

// Fill pieces, bytes and what else their kind needs; texts and flags must be there.  On failure the
// tokenizer is good for tokenizer_free only.
bool tokenizer_build_spm(struct tokenizer *t, const struct tokenizer_source *source,
                         struct error *e);
bool tokenizer_build_bpe(struct tokenizer *t, const struct tokenizer_source *source,
                         struct error *e);  // likewise; ERROR_UNSUPPORTED for source->pre

// Append the ids of plain text, at most TOKENIZER_SPAN_MAX bytes, to e->out.  prefix: this is where
// a model that puts a space in front wants it.
void tokenizer_encode_spm(struct encoding *e, struct str text, bool prefix);
void tokenizer_encode_bpe(struct encoding *e, struct str text);    // by words; knows no prefix
void tokenizer_emit_symbols(struct encoding *e, struct str word);  // the ids of what merging left
