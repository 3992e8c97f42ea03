// SPDX-License-Identifier: Apache-2.0
//
// tokenizer.c: makes tokenizers and drives an encoding; internal.h shows how the files
// share the work.
//
// Making one: check the source → copy texts → flags from types → flags from well-known texts →
// pieces, bytes and merges of the kind → special tokens.
//
// Encoding: BOS → cut special tokens out → merge each plain span in its kind's way → EOS.

#include <assert.h>
#include <string.h>

#include "tokenizer/internal.h"

// ---- making one

static bool check_id(const struct tokenizer_source *s, int32_t id, const char *name,
                     struct error *e) {
  if (id >= -1 && id < s->count) return true;
  return error_set(e, ERROR_INPUT,
                   "tokenizer: the %s token is %d, but the vocabulary has only 0..%d", name, id,
                   s->count - 1);
}

// The limit on a text keeps sums of lengths within 32 bits.  Type 0, which ggml calls undefined,
// passes for a normal token.
static bool check_token(const struct tokenizer_source *s, int32_t id, struct error *e) {
  if ((s->texts[id].length && !s->texts[id].data) || s->texts[id].length > TOKENIZER_TEXT_MAX)
    return error_set(e, ERROR_INPUT, "tokenizer: the text of token %d is %zu bytes long (limit %u)",
                     id, s->texts[id].length, TOKENIZER_TEXT_MAX);
  if (s->types && (s->types[id] < 0 || s->types[id] > TOKEN_BYTE))
    return error_set(e, ERROR_INPUT, "tokenizer: token %d has type %d; types are 0..%d", id,
                     s->types[id], TOKEN_BYTE);
  return true;
}

// All that later code takes for granted: every id that is named exists, every text can be read.
// Scores and merges belong to one kind and are checked where it is built.
static bool check_source(const struct tokenizer_source *s, struct error *e) {
  if (s->count < 1 || s->count > TOKENIZER_VOCABULARY_MAX || !s->texts)
    return error_set(e, ERROR_INPUT, "tokenizer: a vocabulary of %d tokens is not possible (1..%d)",
                     s->count, TOKENIZER_VOCABULARY_MAX);
  if (!check_id(s, s->bos, "begin-of-text", e) || !check_id(s, s->eos, "end-of-text", e) ||
      !check_id(s, s->eot, "end-of-turn", e) || !check_id(s, s->unknown, "unknown", e))
    return false;
  if (s->add_bos && s->bos < 0)
    return error_set(e, ERROR_INPUT,
                     "tokenizer: texts must begin with a begin-of-text token, but none is named");
  if (s->add_eos && s->eos < 0)
    return error_set(e, ERROR_INPUT,
                     "tokenizer: texts must end with an end-of-text token, but none is named");
  for (int32_t id = 0; id < s->count; id++)
    if (!check_token(s, id, e)) return false;
  return true;
}

// An empty text gets one of its own, as llama.cpp does, so that every text has a first byte and no
// two empty ones are equal.
static void copy_texts(struct tokenizer *t, const struct tokenizer_source *s) {
  t->texts = memory_new((size_t)t->count * sizeof *t->texts);
  t->bytes = memory_new((size_t)t->count * sizeof *t->bytes);
  for (int32_t id = 0; id < t->count; id++) {
    struct str text = s->texts[id];
    if (text.length == 0) text = str_of(arena_print(&t->arena, "[EMPTY_%d]", id));
    t->texts[id] = (struct str){arena_copy(&t->arena, text.data, text.length), text.length};
    t->bytes[id] = STR("");
  }
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// "<0x0A>" → the byte 10.
static bool set_byte(struct tokenizer *t, int32_t id, struct error *e) {
  struct str text = t->texts[id];
  bool shape = text.length == 6 && str_starts(text, STR("<0x")) && text.data[5] == '>';
  int high = shape ? hex_digit(text.data[3]) : -1, low = shape ? hex_digit(text.data[4]) : -1;
  if (high < 0 || low < 0)
    return error_set(e, ERROR_INPUT,
                     "tokenizer: token %d is marked as a byte but its text is \"%.*s\", not <0x00>",
                     id, (int)(text.length < 40 ? text.length : 40), text.data);
  char byte = (char)(high << 4 | low);
  t->bytes[id] = (struct str){arena_copy(&t->arena, &byte, 1), 1};
  return true;
}

// A byte token without the form <0xNN> is refused here: otherwise text would be lost silently.
static bool set_flags_by_type(struct tokenizer *t, const struct tokenizer_source *s,
                              struct error *e) {
  static const uint8_t by_type[] = {
      [TOKEN_CONTROL] = FLAG_CONTROL,   [TOKEN_UNKNOWN] = FLAG_UNKNOWN,
      [TOKEN_USER_DEFINED] = FLAG_USER, [TOKEN_UNUSED] = FLAG_UNUSED,
      [TOKEN_BYTE] = FLAG_BYTE,
  };
  t->flags = memory_new((size_t)t->count);
  for (int32_t id = 0; s->types && id < t->count; id++) {
    t->flags[id] = by_type[s->types[id]];
    if ((t->flags[id] & FLAG_BYTE) && !set_byte(t, id, e)) return false;
  }
  return true;
}

// In the order of the head of this file: each step reads what the one before it left.
struct tokenizer *tokenizer_new(const struct tokenizer_source *source, struct error *e) {
  if (!check_source(source, e)) return NULL;
  struct tokenizer *t = memory_new(sizeof *t);
  t->kind = source->kind;
  t->count = source->count;
  t->bos = source->bos, t->eos = source->eos, t->eot = source->eot, t->unknown = source->unknown;
  t->add_bos = source->add_bos, t->add_eos = source->add_eos;
  t->add_space_prefix = source->add_space_prefix;
  copy_texts(t, source);
  tokenizer_reserve_pieces(&t->pieces, t->count + 256);
  bool good = set_flags_by_type(t, source, e);
  if (good) tokenizer_flag_known_texts(t);
  bool bpe = t->kind == TOKENIZER_BPE;
  good = good && (bpe ? tokenizer_build_bpe(t, source, e) : tokenizer_build_spm(t, source, e));
  if (!good) {
    tokenizer_free(t);
    return NULL;
  }
  tokenizer_collect_specials(t);
  return t;
}

// Also one that tokenizer_new left half made; what the other kind would have is zero.
void tokenizer_free(struct tokenizer *t) {
  if (!t) return;
  tokenizer_clear_pieces(&t->pieces);
  tokenizer_clear_merges(&t->merges);
  tokenizer_clear_rules(&t->rules);
  memory_free(t->specials.ids);
  memory_free(t->texts);
  memory_free(t->bytes);
  memory_free(t->flags);
  memory_free(t->scores);
  arena_clear(&t->arena);
  memory_free(t);
}

// ---- encoding

void token_list_clear(struct token_list *l) {
  memory_free(l->ids);
  *l = (struct token_list){0};
}

void token_list_add(struct token_list *l, int32_t id) {
  assert(l->count <= l->capacity);
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? l->capacity * 2 : 64;
    int32_t *ids = memory_try_resize(l->ids, capacity * sizeof *ids);
    if (!ids) {
      l->failed = true;
      return;
    }
    l->ids = ids;
    l->capacity = capacity;
  }
  l->ids[l->count++] = id;
}

bool token_list_ok(const struct token_list *l, struct error *e) {
  return !l->failed || error_set_memory(e, l->capacity * 2 * sizeof *l->ids, "the prompt's tokens");
}

// A symbol that is no token falls apart into byte tokens (see byte_tokens); a byte that has none is
// dropped.
void tokenizer_emit_symbols(struct encoding *e, struct str word) {
  const struct tokenizer *t = e->tokenizer;
  for (int32_t i = e->symbol_count ? 0 : -1; i >= 0; i = e->symbols[i].next) {
    const struct symbol *s = &e->symbols[i];
    int32_t id = s->piece < 0 ? -1 : t->pieces.tokens[s->piece];
    if (id >= 0) token_list_add(e->out, id);
    for (uint32_t at = 0; id < 0 && at < s->length; at++) {
      int32_t byte_token = t->byte_tokens[(unsigned char)word.data[s->begin + at]];
      if (byte_token >= 0) token_list_add(e->out, byte_token);
    }
  }
}

// A text too long to be merged at once is taken in parts; the cut may cost a token, never a byte.
static void encode_plain(struct encoding *e, struct str text) {
  for (bool first = true; text.length; first = false) {
    struct str part = {text.data,
                       text.length < TOKENIZER_SPAN_MAX ? text.length : TOKENIZER_SPAN_MAX};
    if (e->tokenizer->kind == TOKENIZER_BPE)
      tokenizer_encode_bpe(e, part);
    else
      tokenizer_encode_spm(e, part, first);
    text.data += part.length, text.length -= part.length;
  }
}

// The scratch of all spans is one `struct encoding`, which grows to the longest word and stays.
static void encode(const struct tokenizer *t, struct str text, bool parse_special,
                   const uint8_t *own, bool add_special, struct token_list *out) {
  struct encoding e = {.tokenizer = t, .out = out};
  struct spans spans = {0};
  if (!tokenizer_cut_specials(t, text, parse_special, own, &spans)) out->failed = true;
  if (add_special && t->add_bos) token_list_add(out, t->bos);
  for (size_t i = 0; i < spans.count; i++) {
    if (spans.items[i].id >= 0)
      token_list_add(out, spans.items[i].id);
    else
      encode_plain(&e, spans.items[i].text);
  }
  if (add_special && t->add_eos) token_list_add(out, t->eos);
  memory_free(spans.items);
  memory_free(e.symbols);
  memory_free(e.candidates);
}

void tokenizer_encode(const struct tokenizer *t, struct str text, bool add_special,
                      bool parse_special, struct token_list *out) {
  encode(t, text, parse_special, NULL, add_special, out);
}

void tokenizer_encode_rendered(const struct tokenizer *t, struct str text, const uint8_t *own,
                               bool add_special, struct token_list *out) {
  static const uint8_t nothing = 0;
  assert(own || text.length == 0);
  encode(t, text, true, own ? own : &nothing, add_special, out);
}

// ---- questions

static bool has_flag(const struct tokenizer *t, int32_t id, uint8_t flags) {
  return id >= 0 && id < t->count && (t->flags[id] & flags);
}

int tokenizer_count(const struct tokenizer *t) { return t->count; }
int32_t tokenizer_bos(const struct tokenizer *t) { return t->bos; }
int32_t tokenizer_eos(const struct tokenizer *t) { return t->eos; }
bool tokenizer_is_end(const struct tokenizer *t, int32_t id) { return has_flag(t, id, FLAG_END); }
bool tokenizer_is_special(const struct tokenizer *t, int32_t id) {
  return has_flag(t, id, FLAG_CONTROL | FLAG_UNKNOWN);
}
struct str tokenizer_bytes(const struct tokenizer *t, int32_t id) {
  return id >= 0 && id < t->count ? t->bytes[id] : STR("");
}
