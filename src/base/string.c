// SPDX-License-Identifier: Apache-2.0
//
// string.c: borrowed strings, UTF-8, numbers in text, and the growing buffer.
//
// UTF-8 is decoded strictly: what is cut short, longer than needed (C0 80 for NUL), a surrogate or
// above 10FFFF is no character at all.  Numbers must fill the whole string.  A buffer doubles:
// data[0..length) is the content, data[length] a NUL, capacity > length once data is not NULL.  One
// that has failed stays as it was at its last good addition.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct str str_of(const char *text) {
  return (struct str){text ? text : "", text ? strlen(text) : 0};
}

bool str_equal(struct str a, struct str b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

bool str_starts(struct str s, struct str prefix) {
  return s.length >= prefix.length && str_equal((struct str){s.data, prefix.length}, prefix);
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

struct str str_trim(struct str s) {
  while (s.length && is_space(s.data[0])) s.data++, s.length--;
  while (s.length && is_space(s.data[s.length - 1])) s.length--;
  return s;
}

// The smallest code point that needs 1, 2, 3, 4 bytes: what is below it is an overlong form.
static const uint32_t utf8_smallest[5] = {0, 0, 0x80, 0x800, 0x10000};

// Whether a form is overlong is asked after decoding: the value tells how short it could have been.
int str_utf8_decode(struct str s, size_t at, uint32_t *code_point) {
  if (at >= s.length) return 0;
  const unsigned char *p = (const unsigned char *)s.data + at;
  int length = p[0] < 0x80             ? 1
               : (p[0] & 0xE0) == 0xC0 ? 2
               : (p[0] & 0xF0) == 0xE0 ? 3
               : (p[0] & 0xF8) == 0xF0 ? 4
                                       : 0;
  if (length == 0 || (size_t)length > s.length - at) return 0;
  uint32_t c = length == 1 ? p[0] : p[0] & (0x7Fu >> length);
  for (int i = 1; i < length; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
    c = c << 6 | (p[i] & 0x3Fu);
  }
  if (c < utf8_smallest[length] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0;
  *code_point = c;
  return length;
}

int str_utf8_length(struct str s, size_t at) {
  uint32_t ignored;
  return str_utf8_decode(s, at, &ignored);
}

// The first byte begins with as many ones as there are bytes: 0xF00 moved right by `length`.
int str_utf8_encode(uint32_t c, char out[4]) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0;
  if (c < 0x80) return out[0] = (char)c, 1;
  int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
  out[0] = (char)((0xF00u >> length & 0xF0) | c);
  return length;
}

// The value grows downwards, for the smallest number has no positive twin.
bool str_to_int(struct str s, int64_t *out) {
  bool negative = s.length && s.data[0] == '-';
  int64_t value = 0;
  if (s.length == negative) return false;
  for (size_t i = negative; i < s.length; i++) {
    int digit = s.data[i] - '0';
    if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
        __builtin_sub_overflow(value, digit, &value))
      return false;
  }
  if (!negative && __builtin_sub_overflow(0, value, &value)) return false;
  *out = value;
  return true;
}

// strtod reads hexadecimal, "inf" and "nan" too; only the characters of a decimal number get that
// far.
static bool looks_decimal(struct str s) {
  for (size_t i = 0; i < s.length; i++)
    if (!s.data[i] || !strchr("0123456789+-.eE", s.data[i])) return false;
  return s.length > 0;
}

#define DOUBLE_TEXT_MAX 512  // characters; the exact decimal digits of most doubles need fewer

// strtod wants a NUL at the end, which a str does not have: hence the copy.
bool str_to_double(struct str s, double *out) {
  char text[DOUBLE_TEXT_MAX];
  if (s.length >= sizeof text || !looks_decimal(s)) return false;
  memcpy(text, s.data, s.length);
  text[s.length] = 0;
  char *end;
  // The program sets no locale but for characters (LC_CTYPE), so strtod expects a point.
  double value = strtod(text, &end);
  if (end != text + s.length || !isfinite(value)) return false;
  *out = value;
  return true;
}

// ---- buffer

#define BUFFER_FIRST 64u  // bytes of the first allocation

// Doubling makes n additions cost n copies in all.
static bool grow(struct buffer *b, size_t wanted) {
  size_t capacity = b->capacity ? b->capacity * 2 : BUFFER_FIRST;
  if (capacity < wanted) capacity = wanted;
  char *data =
      b->may_fail ? memory_try_resize(b->data, capacity) : memory_resize(b->data, capacity);
  if (!data) {
    b->failed = true;
    return false;
  }
  b->data = data;
  b->capacity = capacity;
  return true;
}

bool buffer_reserve(struct buffer *b, size_t extra) {
  if (b->failed) return false;
  // The allocator refuses so much, and says it.
  if (extra > SIZE_MAX / 4 - b->length) extra = SIZE_MAX / 4 - b->length;
  size_t wanted = b->length + extra + 1;
  return wanted <= b->capacity || grow(b, wanted);
}

bool buffer_ok(const struct buffer *b, const char *for_what, struct error *e) {
  return !b->failed || error_set_memory(e, b->capacity * 2, for_what);
}

void buffer_add(struct buffer *b, const void *data, size_t length) {
  if (!buffer_reserve(b, length)) return;
  if (length) memcpy(b->data + b->length, data, length);
  b->length += length;
  b->data[b->length] = 0;
}

void buffer_add_str(struct buffer *b, struct str s) { buffer_add(b, s.data, s.length); }
void buffer_add_text(struct buffer *b, const char *text) { buffer_add(b, text, strlen(text)); }
void buffer_add_char(struct buffer *b, char c) { buffer_add(b, &c, 1); }

// Formats twice, once only to count, so that the text goes straight to its place.
void buffer_print(struct buffer *b, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (n >= 0 && buffer_reserve(b, (size_t)n)) {
    vsnprintf(b->data + b->length, (size_t)n + 1, format, again);
    b->length += (size_t)n;
  }
  va_end(again);
}

void buffer_drop_front(struct buffer *b, size_t length) {
  if (length > b->length) length = b->length;
  if (!length) return;
  memmove(b->data, b->data + length, b->length - length + 1);
  b->length -= length;
}

void buffer_clear(struct buffer *b) {
  memory_free(b->data);
  *b = (struct buffer){.may_fail = b->may_fail};
}

struct str buffer_str(const struct buffer *b) {
  return (struct str){b->data ? b->data : "", b->length};
}
