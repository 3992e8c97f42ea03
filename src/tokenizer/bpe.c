// SPDX-License-Identifier: Apache-2.0
//
// bpe.c: byte-level BPE, the tokenizer of GPT-2, SmolLM, Llama 3, Qwen, Mistral Nemo and
// most others.
//
// A vocabulary file cannot hold arbitrary bytes as text, so it writes each byte as a *letter*:
// printable Latin-1 characters stand for themselves and the other 68 bytes for U+0100, U+0101, … in
// order ("Ġ" is the space, "Ċ" the newline).  Letters and bytes correspond one to one, so
// everything here works on bytes: token texts and merges are turned into bytes once, when the
// tokenizer is made.
//
// A text is cut into words by the pre-tokenizer (words.c); each word starts as one symbol
// a byte and is merged by rank.

#include <string.h>

#include "tokenizer/internal.h"

// The byte of a letter; -1 for a character that is no letter.
static int byte_of_letter(uint32_t letter) {
  bool itself =
      (letter >= 0x21 && letter <= 0x7E) || (letter >= 0xA1 && letter <= 0xFF && letter != 0xAD);
  if (itself) return (int)letter;
  if (letter < 256 || letter >= 256 + 68) return -1;
  int nth = (int)letter - 256;  // among the bytes that are not themselves: 00..20, 7F..A0, AD
  return nth <= 0x20 ? nth : nth < 67 ? 0x7F + nth - 0x21 : 0xAD;
}

// Writes the bytes that `text` stands for to `out` (as long as text at most) and returns how many.
// A character that is no letter goes through as it is, and *all_letters becomes false.
static size_t undo_letters(struct str text, char *out, bool *all_letters) {
  size_t length = 0;
  *all_letters = true;
  for (size_t at = 0; at < text.length;) {
    uint32_t character;
    int size = str_utf8_decode(text, at, &character);
    int byte = size ? byte_of_letter(character) : -1;
    if (byte >= 0) {
      out[length++] = (char)byte;
    } else {
      *all_letters = false;
      memcpy(out + length, text.data + at, size ? (size_t)size : 1);
      length += size ? (size_t)size : 1;
    }
    at += size ? (size_t)size : 1;
  }
  return length;
}

// A text with a character that is no letter can never come out of merging, so it is no piece; nor
// is a protected token's, which must not.
static void add_token(struct tokenizer *t, int32_t id) {
  bool all_letters;
  struct str text = t->texts[id];
  char *bytes = arena_copy(&t->arena, text.data, text.length);
  struct str decoded = {bytes, undo_letters(text, bytes, &all_letters)};
  if (all_letters && !(t->flags[id] & FLAG_PROTECTED)) {
    tokenizer_set_piece(&t->pieces, decoded, id);
    if (decoded.length > t->longest_piece) t->longest_piece = decoded.length;
  }
  uint8_t flags = t->flags[id];
  if (flags & FLAG_BYTE) return;  // tokenizer.c has done those
  bool as_stored = flags & (FLAG_CONTROL | FLAG_UNKNOWN | FLAG_USER);
  if (as_stored) t->bytes[id] = text;
  if (!as_stored && !(flags & FLAG_UNUSED)) t->bytes[id] = decoded;
}

// Every byte becomes a piece, token or not: words start out as single bytes.
static void add_single_bytes(struct tokenizer *t) {
  char *all = arena_new(&t->arena, 256);
  for (int byte = 0; byte < 256; byte++) {
    all[byte] = (char)byte;
    t->byte_pieces[byte] = tokenizer_add_piece(&t->pieces, (struct str){all + byte, 1});
    t->byte_tokens[byte] = t->pieces.tokens[t->byte_pieces[byte]];
  }
}

// "left right" → both sides as bytes, one behind the other in `scratch`, so their joined text is
// there too.  False where a side has a character that is no letter: no text ever contains that.
static bool split_merge(struct str text, size_t space, struct buffer *scratch,
                        struct str sides[2]) {
  bool left_good, right_good;
  scratch->length = 0;
  buffer_reserve(scratch, text.length);
  struct str left = {text.data, space}, right = {text.data + space + 1, text.length - space - 1};
  sides[0] = (struct str){scratch->data, undo_letters(left, scratch->data, &left_good)};
  char *behind = scratch->data + sides[0].length;
  sides[1] = (struct str){behind, undo_letters(right, behind, &right_good)};
  return left_good && right_good;
}

// The piece with this text, new if need be.  Merges mostly stand in the order of the tokens they
// make, so the piece after the last result is tried first, which spares a look-up in a big table.
static int32_t find_result(struct tokenizer *t, struct str joined, int32_t last) {
  if (last + 1 < t->pieces.count && str_equal(t->pieces.texts[last + 1], joined)) return last + 1;
  int32_t piece = tokenizer_find_piece(&t->pieces, joined);
  if (piece >= 0) return piece;
  joined.data = arena_copy(&t->arena, joined.data, joined.length);
  return tokenizer_add_piece(&t->pieces, joined);
}

// The space is looked for between the first byte and the last: neither side is empty.  A merge with
// a character that is no letter is passed over, and the ranks of the others stay.
static bool add_merges(struct tokenizer *t, const struct tokenizer_source *s,
                       struct buffer *scratch, struct error *e) {
  int32_t result = -1;
  for (int rank = 0; rank < s->merge_count; rank++) {
    struct str text = s->merges[rank], sides[2];
    const char *space = text.length > 2 ? memchr(text.data + 1, ' ', text.length - 2) : NULL;
    if (!space)
      return error_set(e, ERROR_INPUT,
                       "tokenizer: merge %d is \"%.*s\", not two texts with a space between", rank,
                       (int)(text.length < 40 ? text.length : 40), text.data);
    if (!split_merge(text, (size_t)(space - text.data), scratch, sides)) continue;
    result = find_result(t, (struct str){scratch->data, sides[0].length + sides[1].length}, result);
    // The sides live on as parts of the result's text, which the arena holds.
    sides[0].data = t->pieces.texts[result].data;
    sides[1].data = sides[0].data + sides[0].length;
    int32_t left = tokenizer_add_piece(&t->pieces, sides[0]);
    int32_t right = tokenizer_add_piece(&t->pieces, sides[1]);
    tokenizer_add_merge(&t->merges, left, right, (uint32_t)rank, result);
  }
  return true;
}

static bool check_merges(const struct tokenizer_source *s, struct error *e) {
  if (s->merge_count >= 0 && s->merge_count <= TOKENIZER_MERGES_MAX &&
      (s->merges || !s->merge_count))
    return true;
  return error_set(e, ERROR_INPUT, "tokenizer: %d merges are not possible (limit %d)",
                   s->merge_count, TOKENIZER_MERGES_MAX);
}

// Tokens first, so that a merge whose result is a token finds it.
bool tokenizer_build_bpe(struct tokenizer *t, const struct tokenizer_source *source,
                         struct error *e) {
  if (!check_merges(source, e) || !tokenizer_find_rules(source->pre, &t->rules, e)) return false;
  for (int32_t id = 0; id < t->count; id++) add_token(t, id);
  add_single_bytes(t);
  tokenizer_reserve_merges(&t->merges, source->merge_count);
  struct buffer scratch = {0};
  bool good = add_merges(t, source, &scratch, e);
  buffer_clear(&scratch);
  return good;
}

// A word may be a token that merging does not arrive at; families with whole_words_first take it
// all the same.
static void encode_word(void *context, struct str word) {
  struct encoding *e = context;
  const struct tokenizer *t = e->tokenizer;
  if (t->rules.whole_words_first && word.length <= t->longest_piece) {
    int32_t piece = tokenizer_find_piece(&t->pieces, word);
    if (piece >= 0 && t->pieces.tokens[piece] >= 0) {
      token_list_add(e->out, t->pieces.tokens[piece]);
      return;
    }
  }
  e->symbol_count = 0;
  for (size_t i = 0; i < word.length; i++)
    tokenizer_add_symbol(e, (uint32_t)i, 1, t->byte_pieces[(unsigned char)word.data[i]]);
  tokenizer_merge_symbols(e, word);
  tokenizer_emit_symbols(e, word);
}

void tokenizer_encode_bpe(struct encoding *e, struct str text) {
  if (!tokenizer_split_words(&e->tokenizer->rules, text, encode_word, e)) e->out->failed = true;
}
