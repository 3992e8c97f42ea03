// SPDX-License-Identifier: Apache-2.0
//
// fuzz_text.c: UTF-8 and numbers in text.  What is decoded must encode back to the same bytes, what
// is parsed as a whole number must print back to the same value, and errors made of hostile text
// must stay one clean line.

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/fuzz.h"

static void must(bool holds) {
  if (!holds) abort();
}

static void check_characters(struct str s) {
  for (size_t at = 0; at < s.length;) {
    uint32_t c = 0;
    char again[4];
    int length = str_utf8_decode(s, at, &c);
    must(length == str_utf8_length(s, at));
    if (length) {
      must(at + (size_t)length <= s.length && str_utf8_encode(c, again) == length);
      must(memcmp(s.data + at, again, (size_t)length) == 0);
    }
    at += length ? (size_t)length : 1;
  }
}

static void check_numbers(struct str s) {
  int64_t whole = 0;
  double number = 0;
  char text[32];
  if (str_to_int(s, &whole)) {
    int64_t again = 0;
    struct str printed = {text, (size_t)snprintf(text, sizeof text, "%" PRId64, whole)};
    must(str_to_int(printed, &again) && again == whole);
    must(str_to_double(s, &number) && number == (double)whole);
  }
  if (str_to_double(s, &number)) must(isfinite(number));
}

static void check_error(struct str s) {
  struct error e = {0};
  error_set(&e, ERROR_INPUT, "about \"%.*s\" nothing is known", (int)s.length, s.data);
  error_prefix(&e, "a prefix %.*s", (int)s.length, s.data);
  size_t length = strnlen(e.text, sizeof e.text);
  must(length < sizeof e.text);
  for (size_t i = 0; i < length; i++) must((unsigned char)e.text[i] >= 0x20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct str s = {(const char *)data, size};
  check_characters(s);
  check_numbers(s);
  check_numbers(str_trim(s));
  check_error(s);
  return 0;
}
