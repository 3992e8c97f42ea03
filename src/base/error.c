// SPDX-License-Identifier: Apache-2.0
//
// error.c: errors as values, each one line for a person.
//
// A text is cleaned once, when it is set, so that whoever prints it or puts it into JSON needs no
// care: control characters (a path with a newline, a model name that moves the cursor) and bytes
// that are no UTF-8 become '?'.
//
// A text that does not fit is cut at a UTF-8 border.  One made of two parts, "what: why", is cut at
// the end of its first part, for the reason is what the reader needs most:
//
//   cannot open /a/very/long/pa…: No such file or directory

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define FIRST_PART_MIN 192u  // bytes that the first part keeps however long the second one is

static bool is_control(uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

// A rejected byte counts for one: the decoder says nothing about how long it meant to be.
static void clean(char *text, size_t length) {
  for (size_t at = 0; at < length;) {
    uint32_t c;
    int bytes = str_utf8_decode((struct str){text, length}, at, &c);
    if (!bytes) text[at++] = '?';
    for (; bytes > 0; bytes--, at++)
      if (is_control(c)) text[at] = '?';
  }
}

// Appends `part` to e->text, whose first *length bytes are taken, in at most `room` bytes; a part
// that is longer ends in "…" after its last whole character.
static void append_part(struct error *e, size_t *length, struct str part, size_t room) {
  static const char ellipsis[] = "…";
  size_t end = part.length;
  if (end > room) {
    end = room - (sizeof ellipsis - 1);
    while (end > 0 && ((unsigned char)part.data[end] & 0xC0) == 0x80) end--;
  }
  memcpy(e->text + *length, part.data, end);
  *length += end;
  if (end < part.length) {
    memcpy(e->text + *length, ellipsis, sizeof ellipsis - 1);
    *length += sizeof ellipsis - 1;
  }
}

// The second part is never cut to make room unless the first would vanish.
static void set_text(struct error *e, struct str first, struct str second) {
  size_t room = sizeof e->text - 1, length = 0, first_room = room;
  if (second.length) first_room = second.length + 2 < room ? room - second.length - 2 : 0;
  if (first_room < FIRST_PART_MIN) first_room = FIRST_PART_MIN;
  append_part(e, &length, first, first_room);
  if (second.length) {
    append_part(e, &length, STR(": "), room - length);
    append_part(e, &length, second, room - length);
  }
  e->text[length] = 0;
  clean(e->text, length);
}

// Formats on the stack: an error about memory must not need any.
static void set_list(struct error *e, enum error_kind kind, const char *suffix, const char *format,
                     va_list arguments) {
  char text[2 * ERROR_TEXT_MAX];  // what is longer is cut anyway
  int n = vsnprintf(text, sizeof text, format, arguments);
  size_t length = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
  e->kind = kind;
  set_text(e, (struct str){text, length}, str_of(suffix));
}

// NULL is looked for first: a caller who does not ask why must not pay for the text.
bool error_set(struct error *e, enum error_kind kind, const char *format, ...) {
  if (!e) return false;
  va_list arguments;
  va_start(arguments, format);
  set_list(e, kind, NULL, format, arguments);
  va_end(arguments);
  return false;
}

// Two kinds have numbers of their own; any other number is the system's refusal, and its text says
// which.
static enum error_kind kind_of_errno(int value) {
  switch (value) {
    case ENOENT:
    case ENOTDIR: return ERROR_MISSING;
    case ENOMEM: return ERROR_MEMORY;
    default: return ERROR_SYSTEM;
  }
}

// GNU strerror_r returns the text, from its own table or written into `reason`: threads are safe.
bool error_set_errno(struct error *e, int errno_value, const char *format, ...) {
  if (!e) return false;
  char reason[128];
  va_list arguments;
  va_start(arguments, format);
  set_list(e, kind_of_errno(errno_value), strerror_r(errno_value, reason, sizeof reason), format,
           arguments);
  va_end(arguments);
  return false;
}

// The old text is copied out first: set_list writes over it.
bool error_prefix(struct error *e, const char *format, ...) {
  if (!e) return false;
  char old[ERROR_TEXT_MAX];
  memcpy(old, e->text, sizeof old);
  va_list arguments;
  va_start(arguments, format);
  set_list(e, e->kind, old, format, arguments);
  va_end(arguments);
  return false;
}
