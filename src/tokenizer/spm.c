// SPDX-License-Identifier: Apache-2.0
//
// spm.c: SentencePiece-BPE, the tokenizer of Llama 1 and 2, Mistral and llama2.c.
//
// A space is written "▁" (U+2581) in the vocabulary.  A text gets one more space in front (if the
// model says so, and again after every special token), is cut into UTF-8 characters, and is merged
// as a whole by score.  A character that is no token falls back to one "<0xNN>" token a byte.
// Characters are cut by their first byte alone, so invalid UTF-8 also lands in byte tokens, nothing
// is lost.

#include <math.h>
#include <string.h>

#include "tokenizer/internal.h"

#define SPACE_MARK "\xE2\x96\x81"  // ▁

// "▁the▁" → " the "
static struct str undo_space_marks(struct tokenizer *t, struct str text) {
  char *out = arena_copy(&t->arena, text.data, text.length);
  size_t length = 0;
  for (size_t at = 0; at < text.length;) {
    bool mark = str_starts((struct str){text.data + at, text.length - at}, STR(SPACE_MARK));
    out[length++] = mark ? ' ' : text.data[at];
    at += mark ? 3 : 1;
  }
  return (struct str){out, length};
}

static void set_bytes(struct tokenizer *t, int32_t id) {
  uint8_t flags = t->flags[id];
  if (flags & FLAG_BYTE) return;  // tokenizer.c has done those
  bool as_stored = flags & (FLAG_CONTROL | FLAG_UNKNOWN | FLAG_USER);
  if (!as_stored && !(flags & FLAG_UNUSED)) t->bytes[id] = undo_space_marks(t, t->texts[id]);
  if (as_stored) t->bytes[id] = t->texts[id];
}

// The token for each byte: "<0xNN>", or else the token whose text is the byte alone.
static void find_byte_tokens(struct tokenizer *t) {
  for (int byte = 0; byte < 256; byte++) {
    char text[8];
    struct str hex = {text, 6}, alone = {(char[]){(char)byte}, 1};
    memcpy(text, "<0x00>", 7);
    text[3] = "0123456789ABCDEF"[byte >> 4];
    text[4] = "0123456789ABCDEF"[byte & 15];
    int32_t piece = tokenizer_find_piece(&t->pieces, hex);
    if (piece < 0) piece = tokenizer_find_piece(&t->pieces, alone);
    t->byte_tokens[byte] = piece < 0 ? t->unknown : t->pieces.tokens[piece];
  }
}

// Whether "▁" stands behind another character somewhere in the text.
static bool crosses_words(struct str text) {
  for (size_t at = 1; at + 3 <= text.length; at++) {
    if (memcmp(text.data + at, SPACE_MARK, 3) != 0) continue;
    if (at < 3 || memcmp(text.data + at - 3, SPACE_MARK, 3) != 0) return true;
  }
  return false;
}

// Of two tokens with one text the later counts.  Protected tokens are no pieces: text that merges
// to "<s>" is not the token.  A score that is no number would leave no order to
// merge in.
bool tokenizer_build_spm(struct tokenizer *t, const struct tokenizer_source *source,
                         struct error *e) {
  t->scores = memory_new((size_t)t->count * sizeof *t->scores);
  t->words_apart = true;
  for (int32_t id = 0; id < t->count; id++) {
    if (source->scores && !isfinite(source->scores[id]))
      return error_set(e, ERROR_INPUT,
                       "tokenizer: the score of token %d is not a number; the file is damaged", id);
    if (source->scores) t->scores[id] = source->scores[id];
    if (!(t->flags[id] & FLAG_PROTECTED)) tokenizer_set_piece(&t->pieces, t->texts[id], id);
    if (t->texts[id].length > t->longest_piece) t->longest_piece = t->texts[id].length;
    if (crosses_words(t->texts[id])) t->words_apart = false;
    set_bytes(t, id);
  }
  find_byte_tokens(t);
  return true;
}

// How many bytes the first byte of a character promises; a stray continuation byte stands alone.
static uint32_t promised_length(char first) {
  static const uint8_t by_high_bits[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  return by_high_bits[(unsigned char)first >> 4];
}

// Runs between spaces are copied whole.  A "▁" already in the text stays and reads as a space.
static void mark_spaces(struct buffer *out, struct str text, bool prefix) {
  if (prefix) buffer_add_str(out, STR(SPACE_MARK));
  for (size_t at = 0; at < text.length;) {
    const char *space = memchr(text.data + at, ' ', text.length - at);
    size_t run = space ? (size_t)(space - text.data) - at : text.length - at;
    buffer_add(out, text.data + at, run);
    if (space) buffer_add_str(out, STR(SPACE_MARK));
    at += run + (space != NULL);
  }
}

static void finish_word(struct encoding *e, struct str text) {
  tokenizer_merge_symbols(e, text);
  tokenizer_emit_symbols(e, text);
  e->symbol_count = 0;
}

// A "▁" behind another character begins a new word where the vocabulary never joins them: the same
// ids as from merging the whole text, but the candidates stay few.
void tokenizer_encode_spm(struct encoding *e, struct str text, bool prefix) {
  const struct tokenizer *t = e->tokenizer;
  struct buffer marked = {.may_fail = true};
  mark_spaces(&marked, text, t->add_space_prefix && prefix);
  struct str all = buffer_str(&marked);
  if (marked.failed) e->out->failed = true;
  bool was_mark = true;
  e->symbol_count = 0;
  for (size_t at = 0; at < all.length;) {
    uint32_t length = promised_length(all.data[at]);
    if (length > all.length - at) length = (uint32_t)(all.length - at);
    struct str character = {all.data + at, length};
    bool is_mark = str_equal(character, STR(SPACE_MARK));
    if (t->words_apart && is_mark && !was_mark) finish_word(e, all);
    tokenizer_add_symbol(e, (uint32_t)at, length, tokenizer_find_piece(&t->pieces, character));
    was_mark = is_mark;
    at += length;
  }
  finish_word(e, all);
  buffer_clear(&marked);
}
