// SPDX-License-Identifier: Apache-2.0
//
// error.c: errors as values, each one line for a person.
//
// A text is cleaned once, when it is set: control characters (a hostile model name, a path with a
// newline) become '?', and a text that does not fit is cut at a UTF-8 border and ends in "…", so
// that whoever prints it needs no care.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static void clean(char *text) {
  for (unsigned char *c = (unsigned char *)text; *c; c++)
    if (*c < 0x20 || *c == 0x7f) *c = '?';
}

// `room` bytes hold a text that wanted more: end it with "…" after its last whole character.
static void cut(char *text, size_t room) {
  static const char ellipsis[] = "…";
  size_t end = room - sizeof ellipsis;
  while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) end--;
  memcpy(text + end, ellipsis, sizeof ellipsis);
}

static void set_text(struct error *e, const char *text, size_t wanted) {
  if (wanted < sizeof e->text) {
    memcpy(e->text, text, wanted + 1);
  } else {
    memcpy(e->text, text, sizeof e->text - 1);
    e->text[sizeof e->text - 1] = 0;
    cut(e->text, sizeof e->text);
  }
  clean(e->text);
}

static void set_list(struct error *e, enum error_kind kind, const char *suffix, const char *format,
                     va_list arguments) {
  struct buffer text = {0};
  char stack[1024];
  int n = vsnprintf(stack, sizeof stack, format, arguments);
  buffer_add(&text, stack, n < 0 ? 0 : (size_t)n < sizeof stack ? (size_t)n : sizeof stack - 1);
  if (suffix) buffer_print(&text, ": %s", suffix);
  e->kind = kind;
  set_text(e, text.data ? text.data : "", text.length);
  buffer_clear(&text);
}

bool error_set(struct error *e, enum error_kind kind, const char *format, ...) {
  if (!e) return false;
  va_list arguments;
  va_start(arguments, format);
  set_list(e, kind, NULL, format, arguments);
  va_end(arguments);
  return false;
}

static enum error_kind kind_of_errno(int value) {
  switch (value) {
    case ENOENT:
    case ENOTDIR: return ERROR_MISSING;
    case ENOMEM: return ERROR_MEMORY;
    default: return ERROR_SYSTEM;
  }
}

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
