// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_spm.c: SentencePiece-BPE, the tokenizer of Llama 1 and 2, Mistral and llama2.c.
//
// A space is written "▁" (U+2581) in the vocabulary.  A text gets one more space in front (if the model says so,
// and again after every special token), is cut into UTF-8 characters, and is merged as a whole by score.  A
// character that is no token falls back to one "<0xNN>" token a byte.  Characters are cut by their first byte
// alone, so invalid UTF-8 also lands in byte tokens, nothing is lost.

#include <math.h>
#include <string.h>

#include "model/tokenizer_internal.h"

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

bool tokenizer_build_spm(struct tokenizer *t, const struct tokenizer_source *source, struct error *e) {
  t->scores = memory_new((size_t)t->count * sizeof *t->scores);
  for (int32_t id = 0; id < t->count; id++) {
    if (source->scores && !isfinite(source->scores[id]))
      return error_set(e, ERROR_INPUT, "tokenizer: the score of token %d is not a number; the file is damaged", id);
    if (source->scores) t->scores[id] = source->scores[id];
    tokenizer_set_piece(&t->pieces, t->texts[id], id);
    if (t->texts[id].length > t->longest_piece) t->longest_piece = t->texts[id].length;
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

void tokenizer_encode_spm(struct encoding *e, struct str text, bool after_special) {
  const struct tokenizer *t = e->tokenizer;
  struct buffer marked = {0};
  mark_spaces(&marked, text, t->add_space_prefix && after_special);
  struct str word = buffer_str(&marked);
  e->symbol_count = 0;
  for (size_t at = 0; at < word.length;) {
    uint32_t length = promised_length(word.data[at]);
    if (length > word.length - at) length = (uint32_t)(word.length - at);
    int32_t piece = tokenizer_find_piece(&t->pieces, (struct str){word.data + at, length});
    tokenizer_add_symbol(e, (uint32_t)at, length, piece);
    at += length;
  }
  tokenizer_merge_symbols(e, word);
  tokenizer_emit_symbols(e, word);
  buffer_clear(&marked);
}
