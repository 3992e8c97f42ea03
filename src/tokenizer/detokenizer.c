// SPDX-License-Identifier: Apache-2.0
//
// detokenizer.c: token ids to text as they come, in whole UTF-8 characters.
//
// Bytes go one by one into `pending`, which always holds a proper beginning of one character:
//
//   pending      next byte             what happens
//   E2 96        81                    the character is complete: out it goes
//   E2 96        41 ("A")              can no longer become valid: U+FFFD, then 41 starts anew
//   (empty)      80, C0, FF            can start nothing: U+FFFD
//
// One U+FFFD stands for each longest run of bytes that was still possible, which is what the
// Unicode standard recommends and what browsers show.

#include <assert.h>
#include <string.h>

#include "tokenizer/internal.h"

#define REPLACEMENT "\xEF\xBF\xBD"  // U+FFFD

// Bytes of a character that begins so; 0 for what begins none: C0 and C1 could only begin overlong
// forms, F5 and more only what is above 10FFFF.
static int needed_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

// Whether `byte` can stand second after `first`; overlong forms, surrogates and what is above
// 10FFFF show here.
static bool second_fits(unsigned char first, unsigned char byte) {
  unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return byte >= low && byte <= high;
}

static bool fits(const struct detokenizer *d, unsigned char byte) {
  if (d->pending_length == 0) return needed_length(byte) > 0;
  if (d->pending_length == 1) return second_fits((unsigned char)d->pending[0], byte);
  return (byte & 0xC0) == 0x80;
}

static void flush_pending(struct detokenizer *d, struct buffer *out) {
  if (d->pending_length) buffer_add_text(out, REPLACEMENT);
  d->pending_length = 0;
}

// A byte that breaks a character off is asked twice: as its continuation, and then, after the
// U+FFFD, as the beginning of another.
static void add_byte(struct detokenizer *d, unsigned char byte, struct buffer *out) {
  if (!fits(d, byte)) {
    flush_pending(d, out);
    if (!fits(d, byte)) {
      buffer_add_text(out, REPLACEMENT);
      return;
    }
  }
  d->pending[d->pending_length++] = (char)byte;
  if (d->pending_length < needed_length((unsigned char)d->pending[0])) return;
  buffer_add(out, d->pending, (size_t)d->pending_length);
  d->pending_length = 0;
}

// Text follows text, so the space at the front is one that the text has.
void detokenizer_resume(struct detokenizer *d, const struct tokenizer *t, int32_t last) {
  assert(d->pending_length == 0 && !d->started);
  bool known = last >= 0 && last < t->count;
  d->started = known && !(t->flags[last] & (FLAG_CONTROL | FLAG_UNKNOWN | FLAG_USER));
}

// The space that encoding put in front is taken off once: off the first token that is shown.
void detokenizer_add(struct detokenizer *d, const struct tokenizer *t, int32_t id,
                     bool show_special, struct buffer *out) {
  if (tokenizer_is_special(t, id) && !show_special) return;
  struct str bytes = tokenizer_bytes(t, id);
  bool drop_space = !d->started && t->kind == TOKENIZER_SPM && t->add_space_prefix;
  if (drop_space && str_starts(bytes, STR(" "))) bytes.data++, bytes.length--;
  d->started = true;
  for (size_t i = 0; i < bytes.length; i++) add_byte(d, (unsigned char)bytes.data[i], out);
}

void detokenizer_finish(struct detokenizer *d, struct buffer *out) { flush_pending(d, out); }
