// SPDX-License-Identifier: Apache-2.0
//
// origin.c: which bytes of a text the template wrote itself, and which come from its input.
//
// The origin of a byte follows from where it lies in memory, so no string value carries it, and a
// part of a string (a slice, a line, a stripped text) has the right origins without any work:
//
//   in the template's texts     its source and its string literals      the template's own
//   in a block of the rendering copies, each with its origins beside it  what the copy says
//   anywhere else               JSON, the C stack, constants             input
//
//   block   │ bytes: "<|im_start|>" "user" … free │ origins: 111111111111 0000 … │
//
// What is not known is input: a function that builds text in an unforeseen way can make the
// template's text lose its rank, and can never lift a user's.
//
// Blocks double in size, so there are few of them, and looking for the block of a byte is short.

#include <assert.h>
#include <string.h>

#include "template/internal.h"

#define BLOCK_FIRST (16u << 10)  // bytes of text in the first block

struct text_block {
  struct text_block *older;
  size_t used, size;  // bytes of text
  char *bytes;        // [size]
  uint8_t *origins;   // [size]
};

// NULL: the byte lies in no block.
static const uint8_t *find_origins(const struct render *r, const char *byte) {
  uintptr_t at = (uintptr_t)byte;
  for (const struct text_block *b = r->texts; b; b = b->older)
    if (at >= (uintptr_t)b->bytes && at < (uintptr_t)(b->bytes + b->used))
      return b->origins + (byte - b->bytes);
  return NULL;
}

static bool is_in_template(const struct template *t, const char *byte) {
  uintptr_t at = (uintptr_t)byte, start = (uintptr_t)t->texts.bytes;
  return at >= start && at < start + t->texts.used;
}

enum template_origin template_origin_at(const struct render *r, const char *byte) {
  const uint8_t *origins = find_origins(r, byte);
  if (origins) return *origins ? TEMPLATE_OWN : TEMPLATE_INPUT;
  return is_in_template(r->t, byte) ? TEMPLATE_OWN : TEMPLATE_INPUT;
}

// All bytes of one string lie in one place, so the first decides for all.
void template_add_origins(struct render *r, struct str s) {
  struct buffer *origins = &r->out->origins;
  if (s.length == 0) return;
  const uint8_t *known = find_origins(r, s.data);
  if (!buffer_reserve(&r->out->bytes, s.length) || !buffer_reserve(origins, s.length)) {
    template_fail_memory(r, s.length);
    return;
  }
  buffer_add_str(&r->out->bytes, s);
  if (known) {
    buffer_add(origins, known, s.length);
  } else {
    memset(origins->data + origins->length, is_in_template(r->t, s.data), s.length);
    origins->length += s.length;
  }
  assert(origins->length == r->out->bytes.length);
}

void template_set_origin(struct render *r, size_t mark, enum template_origin origin) {
  struct buffer *origins = &r->out->origins;
  assert(mark <= origins->length);
  if (mark < origins->length) memset(origins->data + mark, (int)origin, origins->length - mark);
}

// The newest block, with room for so many bytes; NULL when memory is at its limit.
static struct text_block *room_for(struct render *r, size_t length) {
  struct text_block *b = r->texts;
  if (b && b->size - b->used >= length) return b;
  size_t size = b ? b->size * 2 : BLOCK_FIRST, left = (r->limits.memory - r->memory) / 4;
  if (size > left) size = left;  // near the limit: what is needed now
  if (size < length) size = length;
  struct text_block *fresh = template_allocate(r, sizeof *fresh + 2 * size);
  if (!fresh) return NULL;
  *fresh = (struct text_block){.older = b, .size = size, .bytes = (char *)(fresh + 1)};
  fresh->origins = (uint8_t *)fresh->bytes + size;
  r->texts = fresh;
  return fresh;
}

struct str template_keep_text(struct render *r, struct str s, const uint8_t *origins) {
  struct text_block *b = s.length ? room_for(r, s.length) : NULL;
  if (!b) return STR("");
  char *copy = b->bytes + b->used;
  memcpy(copy, s.data, s.length);
  if (origins)
    memcpy(b->origins + b->used, origins, s.length);
  else
    memset(b->origins + b->used, TEMPLATE_OWN, s.length);
  b->used += s.length;
  return (struct str){copy, s.length};
}

void template_text_clear(struct template_text *t) {
  buffer_clear(&t->bytes);
  buffer_clear(&t->origins);
}
