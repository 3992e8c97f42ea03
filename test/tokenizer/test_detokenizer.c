// SPDX-License-Identifier: Apache-2.0
//
// test_detokenizer.c: text comes out whole character by whole character, and nothing is lost.
//
// The oracle for broken UTF-8 is slow and knows no table: a run of bytes can still become a
// character if some way to go on makes str_utf8_length accept it.

#include "base/world.h"
#include "support/check.h"
#include "support/vocabulary.h"
#include "tokenizer/tokenizer.h"

#define REPLACEMENT "\xEF\xBF\xBD"

static struct tokenizer *byte_tokenizer(struct vocabulary *v) {
  vocabulary_start(v, TOKENIZER_BPE, "gpt-2");
  vocabulary_add_letters(v);
  vocabulary_add(v, "<|hidden|>", TOKEN_CONTROL, 0);
  return vocabulary_make(v);
}

static bool can_become_a_character(const char *bytes, size_t count) {
  static const unsigned char ways[] = {0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF};
  char whole[4];
  memcpy(whole, bytes, count);
  for (int i = 0; i < 6 * 6 * 6; i++) {
    char next[3] = {(char)ways[i % 6], (char)ways[i / 6 % 6], (char)ways[i / 36]};
    memcpy(whole + count, next, 4 - count);
    if (str_utf8_length((struct str){whole, 4}, 0) >= (int)count) return true;
  }
  return false;
}

static void replace_slowly(struct str s, struct buffer *out) {
  for (size_t at = 0; at < s.length;) {
    size_t length = (size_t)str_utf8_length(s, at);
    size_t run = 1;  // of bytes that were still possible
    while (run < 3 && at + run < s.length && can_become_a_character(s.data + at, run + 1)) run++;
    if (length)
      buffer_add(out, s.data + at, length);
    else
      buffer_add_text(out, REPLACEMENT);
    at += length ? length : run;
  }
}

static void broken_utf8_is_replaced_run_by_run(void **state) {
  (void)state;
  static const unsigned char bytes[] = {'a',  0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2,
                                        0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF};
  struct vocabulary v;
  struct tokenizer *t = byte_tokenizer(&v);
  uint64_t seed = 21;
  for (int round = 0; round < 20000; round++) {
    struct buffer ours = {0}, slow = {0};
    struct detokenizer d = {0};
    char text[12];
    size_t length = random_next(&seed) % sizeof text;
    for (size_t i = 0; i < length; i++) text[i] = (char)bytes[random_next(&seed) % COUNT_OF(bytes)];
    for (size_t i = 0; i < length; i++) detokenizer_add(&d, t, (unsigned char)text[i], true, &ours);
    detokenizer_finish(&d, &ours);
    replace_slowly((struct str){text, length}, &slow);
    assert_true(str_equal(buffer_str(&ours), buffer_str(&slow)));
    buffer_clear(&ours), buffer_clear(&slow);
  }
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// After each token, what has come out is whole characters and all but the last unfinished one.
static void nothing_unfinished_comes_out(void **state) {
  (void)state;
  struct vocabulary v;
  struct tokenizer *t = byte_tokenizer(&v);
  struct str text = STR("a é 世 \xF0\x9F\x98\x80\n");
  struct buffer out = {0};
  struct detokenizer d = {0};
  for (size_t i = 0; i < text.length; i++) {
    detokenizer_add(&d, t, (unsigned char)text.data[i], false, &out);
    detokenizer_add(&d, t, 256, false, &out);  // a hidden token in between changes nothing
    size_t whole = 0;
    for (int n; whole <= i && (n = str_utf8_length(text, whole)) && whole + (size_t)n <= i + 1;)
      whole += (size_t)n;
    assert_int_equal(out.length, whole);
  }
  assert_true(str_equal(buffer_str(&out), text));
  buffer_clear(&out);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

static void invalid_bytes_come_out_at_once(void **state) {
  (void)state;
  struct vocabulary v;
  struct tokenizer *t = byte_tokenizer(&v);
  struct buffer out = {0};
  struct detokenizer d = {0};
  detokenizer_add(&d, t, 0xE2, false, &out);
  detokenizer_add(&d, t, 0x96, false, &out);
  assert_int_equal(out.length, 0);
  detokenizer_add(&d, t, 'A', false, &out);
  assert_string_equal(out.data, REPLACEMENT "A");
  detokenizer_add(&d, t, 0xC0, false, &out);
  assert_string_equal(out.data, REPLACEMENT "A" REPLACEMENT);
  detokenizer_add(&d, t, 0xF0, false, &out);
  detokenizer_finish(&d, &out);
  assert_string_equal(out.data, REPLACEMENT "A" REPLACEMENT REPLACEMENT);
  buffer_clear(&out);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

static struct tokenizer *spaced_tokenizer(struct vocabulary *v, bool prefix) {
  vocabulary_start(v, TOKENIZER_SPM, "");
  v->source.unknown = vocabulary_add(v, "<unk>", TOKEN_UNKNOWN, 0);
  v->source.bos = vocabulary_add(v, "<s>", TOKEN_CONTROL, 0);
  vocabulary_add_bytes(v);
  vocabulary_add(v, "▁", TOKEN_NORMAL, -2);
  vocabulary_add(v, "a", TOKEN_NORMAL, -2);
  vocabulary_add(v, "▁a", TOKEN_NORMAL, -1);
  vocabulary_add(v, "▁▁", TOKEN_NORMAL, -1);
  vocabulary_add(v, "<u>", TOKEN_USER_DEFINED, 0);
  v->source.add_bos = true;
  v->source.add_space_prefix = prefix;
  return vocabulary_make(v);
}

static void decode(const struct tokenizer *t, const struct token_list *ids, bool show_special,
                   struct buffer *out) {
  struct detokenizer d = {0};
  for (size_t i = 0; i < ids->count; i++) detokenizer_add(&d, t, ids->ids[i], show_special, out);
  detokenizer_finish(&d, out);
}

static void one_space_is_dropped_once(void **state) {
  (void)state;
  struct vocabulary v;
  struct tokenizer *t = spaced_tokenizer(&v, true);
  struct token_list ids = {0};
  struct buffer out = {0};
  tokenizer_encode(t, STR("a a"), true, true, &ids);
  decode(t, &ids, false, &out);
  assert_string_equal(out.data, "a a");
  out.length = 0;
  decode(t, &ids, true, &out);
  assert_string_equal(out.data, "<s> a a");
  buffer_clear(&out);
  token_list_clear(&ids);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// The first token of a continuation keeps its space; behind a special token a new text begins.
static void a_continuation_keeps_its_space(void **state) {
  (void)state;
  static const struct {
    const char *last;  // token that the text before ends with
    bool prefix;
    const char *expected;  // of "▁a▁a" that goes on behind it
  } cases[] = {
      {"a", true, " a a"},    {"▁", true, " a a"},   {"<0x41>", true, " a a"}, {"<s>", true, "a a"},
      {"<unk>", true, "a a"}, {"<u>", true, "a a"},  {"<s>", false, " a a"},   {"a", false, " a a"},
      {NULL, true, "a a"},    {NULL, false, " a a"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct vocabulary v;
    struct tokenizer *t = spaced_tokenizer(&v, cases[i].prefix);
    struct buffer out = {0};
    struct detokenizer d = {0};
    int32_t last = cases[i].last ? vocabulary_id(&v, str_of(cases[i].last)) : -1;
    int32_t a = vocabulary_id(&v, STR("▁a"));
    detokenizer_resume(&d, t, last);
    detokenizer_add(&d, t, a, false, &out);
    detokenizer_add(&d, t, a, false, &out);
    detokenizer_finish(&d, &out);
    assert_string_equal(out.data, cases[i].expected);
    buffer_clear(&out);
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
}

// Valid text → ids → the same text, for both kinds, with and without the space in front.
static void text_comes_back(void **state) {
  (void)state;
  uint64_t seed = 22;
  for (int kind = 0; kind < 3; kind++) {
    struct vocabulary v;
    struct tokenizer *t = kind == 2 ? byte_tokenizer(&v) : spaced_tokenizer(&v, kind == 1);
    for (int round = 0; round < 2000; round++) {
      struct buffer text = {0}, back = {0};
      struct token_list ids = {0};
      for (uint64_t n = random_next(&seed) % 20; n > 0; n--) {
        char bytes[4];
        uint32_t c = (uint32_t)(random_next(&seed) >> (32 + random_next(&seed) % 28));
        int length = str_utf8_encode(c % 3 == 0 ? ' ' : c % 0x110000, bytes);
        buffer_add(&text, bytes, (size_t)length);
      }
      tokenizer_encode(t, buffer_str(&text), true, false, &ids);
      decode(t, &ids, false, &back);
      assert_true(str_equal(buffer_str(&text), buffer_str(&back)));
      buffer_clear(&text), buffer_clear(&back);
      token_list_clear(&ids);
    }
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broken_utf8_is_replaced_run_by_run),
      cmocka_unit_test(nothing_unfinished_comes_out),
      cmocka_unit_test(invalid_bytes_come_out_at_once),
      cmocka_unit_test(one_space_is_dropped_once),
      cmocka_unit_test(a_continuation_keeps_its_space),
      cmocka_unit_test(text_comes_back),
  };
  return cmocka_run_group_tests_name("detokenizer", tests, NULL, NULL);
}
