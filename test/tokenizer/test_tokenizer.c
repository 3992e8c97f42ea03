// SPDX-License-Identifier: Apache-2.0
//
// test_tokenizer.c: what tokenizer.h promises, case by case, on vocabularies small enough to read.
// That ids are right in general is shown by test_tokenizer_merge.c (slow second implementations),
// test_tokenizer_golden.c (llama.cpp's answers kept in a file) and test/oracle/tokenizer.py
// (llama.cpp itself).

#include <math.h>

#include "base/threads.h"
#include "base/world.h"
#include "support/check.h"
#include "support/vocabulary.h"
#include "tokenizer/tokenizer.h"

static void expect_ids(const struct tokenizer *t, const char *text, int flags, int count,
                       const int32_t *ids) {
  struct token_list got = {0};
  tokenizer_encode(t, str_of(text), flags & 1, flags & 2, &got);
  assert_int_equal(got.count, count);
  for (int i = 0; i < count; i++) assert_int_equal(got.ids[i], ids[i]);
  token_list_clear(&got);
}
#define ADD_SPECIAL 1
#define PARSE_SPECIAL 2
#define EXPECT(t, text, flags, ...)                                       \
  expect_ids(t, text, flags, (int)(sizeof((int32_t[]){__VA_ARGS__}) / 4), \
             (const int32_t[]){__VA_ARGS__})

// ---- SentencePiece

enum { UNK, BOS, EOS, BYTE0, MARK = BYTE0 + 256, A, B, AB, MARK_A, MARK_AB };

static struct tokenizer *small_spm(struct vocabulary *v) {
  vocabulary_start(v, TOKENIZER_SPM, "");
  vocabulary_add(v, "<unk>", TOKEN_UNKNOWN, 0);
  vocabulary_add(v, "<s>", TOKEN_CONTROL, 0);
  vocabulary_add(v, "</s>", TOKEN_CONTROL, 0);
  vocabulary_add_bytes(v);
  vocabulary_add(v, "▁", TOKEN_NORMAL, -9);
  vocabulary_add(v, "a", TOKEN_NORMAL, -9);
  vocabulary_add(v, "b", TOKEN_NORMAL, -9);
  vocabulary_add(v, "ab", TOKEN_NORMAL, -3);
  vocabulary_add(v, "▁a", TOKEN_NORMAL, -2);
  vocabulary_add(v, "▁ab", TOKEN_NORMAL, -4);
  v->source.bos = BOS, v->source.eos = EOS, v->source.unknown = UNK;
  v->source.add_bos = v->source.add_space_prefix = true;
  return vocabulary_make(v);
}

static void spm_merges_by_score(void **state) {
  (void)state;
  struct vocabulary v;
  struct tokenizer *t = small_spm(&v);
  EXPECT(t, "ab", 0, MARK_AB);       // ▁a first (-2), then ▁ab
  EXPECT(t, "bab", 0, MARK, B, AB);  // "▁b" is no token
  EXPECT(t, "ab ab", 0, MARK_AB, MARK_AB);
  EXPECT(t, "  a", 0, MARK, MARK, MARK_A);
  EXPECT(t, "a", ADD_SPECIAL, BOS, MARK_A);
  expect_ids(t, "", 0, 0, NULL);
  EXPECT(t, "", ADD_SPECIAL, BOS);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

static void spm_falls_back_to_bytes(void **state) {
  (void)state;
  struct vocabulary v;
  struct tokenizer *t = small_spm(&v);
  EXPECT(t, "aé", 0, MARK_A, BYTE0 + 0xC3, BYTE0 + 0xA9);
  EXPECT(t, "a\n", 0, MARK_A, BYTE0 + '\n');
  EXPECT(t, "a\xFF", 0, MARK_A, BYTE0 + 0xFF);
  EXPECT(t, "a\xE3", 0, MARK_A, BYTE0 + 0xE3);  // cut short
  tokenizer_free(t);
  vocabulary_clear(&v);
}

static void spm_puts_a_space_behind_special_tokens(void **state) {
  (void)state;
  struct vocabulary v;
  struct tokenizer *t = small_spm(&v);
  EXPECT(t, "<s>ab</s>ab", PARSE_SPECIAL, BOS, MARK_AB, EOS, MARK_AB);
  EXPECT(t, "ab<unk>", PARSE_SPECIAL, MARK_AB, UNK);
  EXPECT(t, "<s>", 0, MARK, BYTE0 + '<', BYTE0 + 's', BYTE0 + '>');
  tokenizer_free(t);
  v.source.add_space_prefix = false;
  t = vocabulary_make(&v);
  EXPECT(t, "ab<s>ab", PARSE_SPECIAL, AB, BOS, AB);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// ---- byte-level BPE

static void bpe_cuts_words_and_merges_by_rank(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "smollm");
  vocabulary_add_letters(&v);
  vocabulary_add_merge(&v, "h", "e");   // 256
  vocabulary_add_merge(&v, "l", "l");   // 257
  vocabulary_add_merge(&v, "Ġ", "he");  // 258
  vocabulary_add_merge(&v, "o", "Ġ");   // 259, never: a space begins a word
  vocabulary_add_merge(&v, "1", "2");   // 260, never: digits stand alone
  struct tokenizer *t = vocabulary_make(&v);
  EXPECT(t, "hello hell", 0, 256, 257, 'o', 258, 257);
  EXPECT(t, "lll", 0, 257, 'l');
  EXPECT(t, "12", 0, '1', '2');
  EXPECT(t, "\x80", 0, 0xEF, 0xBF, 0xBD);  // no UTF-8: U+FFFD
  EXPECT(t, "\xC1\x81", 0, 'A');           // overlong: what it encodes, as llama.cpp has it
  EXPECT(t, "\xF7\xBF\xBF\xBF", 0, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF,
         0xBD);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

static void bpe_takes_whole_words_first_where_the_model_does(void **state) {
  (void)state;
  static const char *const names[] = {"gpt-2", "llama-bpe"};
  for (int first = 0; first < 2; first++) {
    struct vocabulary v;
    vocabulary_start(&v, TOKENIZER_BPE, names[first]);
    vocabulary_add_letters(&v);
    int32_t whole = vocabulary_add(&v, "abc", TOKEN_NORMAL, 0);  // no merge makes it
    struct tokenizer *t = vocabulary_make(&v);
    if (first)
      EXPECT(t, "abc", 0, whole);
    else
      EXPECT(t, "abc", 0, 'a', 'b', 'c');
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
}

static void bpe_falls_back_where_a_merge_makes_no_token(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "gpt-2");
  vocabulary_add_letters(&v);
  vocabulary_add_merge(&v, "a", "b");
  vocabulary_add_merge(&v, "ab", "c");
  v.source.count = 257;  // "abc" is no token, "ab" is
  struct tokenizer *t = vocabulary_make(&v);
  EXPECT(t, "abcab", 0, 'a', 'b', 'c', 256);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// ---- special tokens

static void special_tokens_go_by_type_and_setting(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "gpt-2");
  vocabulary_add_letters(&v);
  int32_t control = vocabulary_add(&v, "<|c|>", TOKEN_CONTROL, 0);
  int32_t user = vocabulary_add(&v, "<|u|>", TOKEN_USER_DEFINED, 0);
  int32_t longer = vocabulary_add(&v, "|><|u|>", TOKEN_USER_DEFINED, 0);
  int32_t normal = vocabulary_add(&v, "<|im_end|>", TOKEN_NORMAL, 0);  // its text makes it control
  struct tokenizer *t = vocabulary_make(&v);
  EXPECT(t, "<|c|>a<|u|>", PARSE_SPECIAL, control, 'a', user);
  EXPECT(t, "<|c|>a<|u|>", 0, '<', '|', 'c', '|', '>', 'a', user);
  EXPECT(t, "x<|c|><|u|>", PARSE_SPECIAL, 'x', '<', '|', 'c', longer);  // the longest goes first
  EXPECT(t, "<|im_end|>", PARSE_SPECIAL, normal);
  assert_true(tokenizer_is_special(t, control) && tokenizer_is_special(t, normal));
  assert_false(tokenizer_is_special(t, user) || tokenizer_is_special(t, 'a'));
  assert_false(tokenizer_is_special(t, -1) || tokenizer_is_special(t, 1 << 30));
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// marks: one character a byte of the text, 'x' where the template wrote it.
static void expect_rendered(const struct tokenizer *t, const char *text, const char *marks,
                            int count, const int32_t *ids) {
  struct token_list got = {0};
  uint8_t own[64] = {0};
  assert_int_equal(strlen(text), strlen(marks));
  for (size_t i = 0; marks[i]; i++) own[i] = marks[i] == 'x';
  tokenizer_encode_rendered(t, str_of(text), own, false, &got);
  if (got.count != (size_t)count) fail_msg("%s: %zu ids, not %d", text, got.count, count);
  for (int i = 0; i < count; i++) assert_int_equal(got.ids[i], ids[i]);
  token_list_clear(&got);
}
#define EXPECT_RENDERED(t, text, marks, ...)                                   \
  expect_rendered(t, text, marks, (int)(sizeof((int32_t[]){__VA_ARGS__}) / 4), \
                  (const int32_t[]){__VA_ARGS__})

static void only_the_template_writes_special_tokens(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "gpt-2");
  vocabulary_add_letters(&v);
  int32_t end = vocabulary_add(&v, "<e>", TOKEN_CONTROL, 0);
  int32_t call = vocabulary_add(&v, "<c>", TOKEN_USER_DEFINED, 0);
  int32_t longer = vocabulary_add(&v, "<e>\n", TOKEN_CONTROL, 0);
  int32_t letter = vocabulary_add(&v, "ö", TOKEN_USER_DEFINED, 0);
  int32_t blanks = vocabulary_add(&v, "  ", TOKEN_USER_DEFINED, 0);
  int32_t start = vocabulary_add(&v, "<|start|>", TOKEN_CONTROL, 0);  // known.c: shown to users
  vocabulary_add(&v, "<|>", TOKEN_CONTROL, 0);
  vocabulary_add_merge(&v, "|", ">");
  vocabulary_add_merge(&v, "<", "|>");  // text that merges to <|> is no <|>
  vocabulary_add_merge(&v, "a", "b");
  int32_t bar = vocabulary_id(&v, STR("|>")), ab = vocabulary_id(&v, STR("ab"));
  struct tokenizer *t = vocabulary_make(&v);
  EXPECT_RENDERED(t, "<e>", "xxx", end);
  EXPECT_RENDERED(t, "<e>", "...", '<', 'e', '>');
  EXPECT_RENDERED(t, "<e>", ".xx", '<', 'e', '>');
  EXPECT_RENDERED(t, "<e>", "x.x", '<', 'e', '>');
  EXPECT_RENDERED(t, "<e>", "xx.", '<', 'e', '>');
  EXPECT_RENDERED(t, "<e><e>", "...xxx", '<', 'e', '>', end);
  EXPECT_RENDERED(t, "<e>\n", "xxxx", longer);
  EXPECT_RENDERED(t, "<e>\n", "xxx.", end, '\n');  // the shorter one is whole
  EXPECT_RENDERED(t, "<c>", "xxx", call);
  EXPECT_RENDERED(t, "<c>", "...", '<', 'c', '>');
  EXPECT_RENDERED(t, "<|start|>", "xxxxxxxxx", start);
  EXPECT_RENDERED(t, "<|start|>", ".........", '<', '|', 's', 't', 'a', 'r', 't', bar);
  EXPECT_RENDERED(t, "ö  ", "....", letter, blanks);  // ordinary text, whoever wrote it
  EXPECT_RENDERED(t, "ab", ".x", ab);                 // text is one text, whoever wrote it
  EXPECT_RENDERED(t, "<|>", "x..", '<', '|', '>');
  expect_rendered(t, "", "", 0, NULL);
  EXPECT(t, "<e>", PARSE_SPECIAL, end);
  EXPECT(t, "<e>", 0, '<', 'e', '>');
  EXPECT(t, "<c>", 0, call);  // as llama.cpp does
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// SentencePiece merges characters by the texts of tokens, so a special text could come out of it.
static void merging_makes_no_special_token(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_SPM, "");
  vocabulary_add(&v, "<unk>", TOKEN_UNKNOWN, 0);
  int32_t bos = vocabulary_add(&v, "<s>", TOKEN_CONTROL, 0);
  vocabulary_add_bytes(&v);
  int32_t open = vocabulary_add(&v, "<s", TOKEN_NORMAL, -1);
  int32_t close = vocabulary_add(&v, ">", TOKEN_NORMAL, -1);
  vocabulary_add(&v, "<", TOKEN_NORMAL, -1), vocabulary_add(&v, "s", TOKEN_NORMAL, -1);
  struct tokenizer *t = vocabulary_make(&v);
  EXPECT(t, "<s>", PARSE_SPECIAL, bos);
  EXPECT(t, "<s>", 0, open, close);
  EXPECT_RENDERED(t, "<s>", "xx.", open, close);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// At each allocation memory runs out once: the list says so, nothing leaks, and what was there
// stays.
static void no_memory_is_told(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    struct vocabulary v;
    struct tokenizer *t;
    if (kind == 0) {
      t = small_spm(&v);
    } else {
      vocabulary_start(&v, TOKENIZER_BPE, "smollm");
      vocabulary_add_letters(&v);
      vocabulary_add_merge(&v, "a", "b");
      vocabulary_add(&v, "<s>", TOKEN_CONTROL, 0);
      t = vocabulary_make(&v);
    }
    struct str text =
        STR("<s>ab ab\xFF <s>ab abababababababababababababababababababababababababababab"
            "abababababababababababababababababababababababababababababababababab");
    struct token_list wanted = {0};
    struct error e;
    tokenizer_encode(t, text, false, true, &wanted);
    assert_true(token_list_ok(&wanted, &e));
    uint64_t nth = 1;
    for (bool ran_out = true; ran_out; nth++) {
      struct token_list ids = {0};
      memory_fail_at(nth);
      tokenizer_encode(t, text, false, true, &ids);
      ran_out = !memory_fail_waits();
      memory_fail_at(0);
      assert_int_equal(token_list_ok(&ids, &e), !ran_out);
      if (ran_out) assert_int_equal(e.kind, ERROR_MEMORY);
      if (!ran_out) assert_int_equal(ids.count, wanted.count);
      token_list_clear(&ids);
    }
    assert_true(nth > 5);
    token_list_clear(&wanted);
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
}

static void ends_are_found_by_id_and_by_text(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "smollm");
  int32_t end_of_text = vocabulary_add(&v, "<|endoftext|>", TOKEN_CONTROL, 0);
  int32_t start = vocabulary_add(&v, "<|im_start|>", TOKEN_CONTROL, 0);
  int32_t end = vocabulary_add(&v, "<|im_end|>", TOKEN_CONTROL, 0);
  int32_t repository = vocabulary_add(&v, "<reponame>", TOKEN_CONTROL, 0);
  int32_t padding = vocabulary_add(&v, "<PAD>", TOKEN_CONTROL, 0);  // after the next in the table
  int32_t fim_padding = vocabulary_add(&v, "<fim_pad>", TOKEN_CONTROL, 0);
  int32_t eos = vocabulary_add(&v, "stop", TOKEN_NORMAL, 0);
  int32_t eot = vocabulary_add(&v, "over", TOKEN_NORMAL, 0);
  v.source.eos = eos, v.source.eot = eot;
  struct tokenizer *t = vocabulary_make(&v);
  assert_true(tokenizer_is_end(t, end_of_text) && tokenizer_is_end(t, end));
  assert_true(tokenizer_is_end(t, eos) && tokenizer_is_end(t, eot));
  assert_true(tokenizer_is_end(t, repository) && tokenizer_is_end(t, fim_padding));
  assert_false(tokenizer_is_end(t, padding));  // of texts that mean the same, the first counts
  assert_false(tokenizer_is_end(t, start) || tokenizer_is_end(t, -1) || tokenizer_is_end(t, 99));
  tokenizer_free(t);
  vocabulary_clear(&v);
}

static void families_with_other_ends_are_known(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "gpt-4o");
  int32_t end = vocabulary_add(&v, "<|end|>", TOKEN_CONTROL, 0);
  int32_t returned = vocabulary_add(&v, "<|return|>", TOKEN_CONTROL, 0);
  int32_t channel = vocabulary_add(&v, "<|channel|>", TOKEN_CONTROL, 0);
  struct tokenizer *t = vocabulary_make(&v);
  assert_true(tokenizer_is_end(t, end));
  tokenizer_free(t);
  vocabulary_add(&v, "<|call|>", TOKEN_CONTROL, 0);
  t = vocabulary_make(&v);
  assert_true(tokenizer_is_end(t, returned));
  assert_false(tokenizer_is_end(t, end) || tokenizer_is_special(t, channel));
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// ---- what tokens stand for

static void bytes_undo_how_texts_are_stored(void **state) {
  (void)state;
  struct vocabulary v;
  struct tokenizer *t = small_spm(&v);
  assert_true(str_equal(tokenizer_bytes(t, MARK_AB), STR(" ab")));
  assert_true(str_equal(tokenizer_bytes(t, BYTE0 + 10), STR("\n")));
  assert_true(str_equal(tokenizer_bytes(t, BOS), STR("<s>")));
  assert_true(str_equal(tokenizer_bytes(t, -1), STR("")));
  tokenizer_free(t);
  vocabulary_clear(&v);
  vocabulary_start(&v, TOKENIZER_BPE, "");
  vocabulary_add_letters(&v);
  int32_t word = vocabulary_add(&v, "ĠÃ©Ċ", TOKEN_NORMAL, 0);
  int32_t user = vocabulary_add(&v, "Ġ ", TOKEN_USER_DEFINED, 0);
  int32_t unused = vocabulary_add(&v, "[unused1]", TOKEN_UNUSED, 0);
  int32_t empty = vocabulary_add(&v, "", TOKEN_NORMAL, 0);
  t = vocabulary_make(&v);
  for (int byte = 0; byte < 256; byte++) {
    assert_int_equal(tokenizer_bytes(t, byte).length, 1);
    assert_int_equal((unsigned char)tokenizer_bytes(t, byte).data[0], byte);
  }
  assert_true(str_equal(tokenizer_bytes(t, word), STR(" é\n")));
  assert_true(str_equal(tokenizer_bytes(t, user), STR("Ġ ")));
  assert_true(str_equal(tokenizer_bytes(t, unused), STR("")));
  assert_true(str_equal(tokenizer_bytes(t, empty), STR("[EMPTY_259]")));
  assert_int_equal(tokenizer_count(t), 260);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

static void of_equal_texts_the_last_counts(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "gpt-2");
  vocabulary_add_letters(&v);
  vocabulary_add(&v, "<|x|>", TOKEN_CONTROL, 0);
  int32_t special = vocabulary_add(&v, "<|x|>", TOKEN_CONTROL, 0);
  int32_t letter = vocabulary_add(&v, "a", TOKEN_NORMAL, 0);
  struct tokenizer *t = vocabulary_make(&v);
  EXPECT(t, "a<|x|>", PARSE_SPECIAL, letter, special);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

// ---- bad sources

typedef void (*spoil)(struct vocabulary *v);
static void no_tokens(struct vocabulary *v) { v->source.count = 0; }
static void too_many_tokens(struct vocabulary *v) { v->source.count = 1 << 25; }
static void bos_outside(struct vocabulary *v) { v->source.bos = v->source.count; }
static void eos_negative(struct vocabulary *v) { v->source.eos = -2; }
static void bos_missing(struct vocabulary *v) { v->source.add_bos = true; }
static void eos_missing(struct vocabulary *v) { v->source.add_eos = true; }
static void type_unknown(struct vocabulary *v) { v->types[5] = 7; }
static void byte_without_number(struct vocabulary *v) { v->types[65] = TOKEN_BYTE; }
static void text_too_long(struct vocabulary *v) { v->texts[3].length = (size_t)1 << 30; }
static void merge_without_space(struct vocabulary *v) { v->merges[1] = STR("Ġthe"); }
static void merge_of_one(struct vocabulary *v) { v->merges[1] = STR("a "); }
static void merge_empty(struct vocabulary *v) { v->merges[1] = STR(""); }
static void merges_negative(struct vocabulary *v) { v->source.merge_count = -1; }
static void merges_missing(struct vocabulary *v) { v->source.merges = NULL; }
static void pre_unknown(struct vocabulary *v) { v->source.pre = STR("klingon"); }
static void pre_of_two(struct vocabulary *v) { v->source.pre = STR("llama3 llama-v3"); }
static void score_not_a_number(struct vocabulary *v) {
  v->source.kind = TOKENIZER_SPM;
  v->scores[9] = NAN;
}

static void bad_sources_are_refused_in_one_line(void **state) {
  (void)state;
  static const struct {
    spoil spoil;
    const char *says;
  } cases[] = {
      {no_tokens, "vocabulary of 0 tokens"},
      {too_many_tokens, "vocabulary of 33554432 tokens"},
      {bos_outside, "begin-of-text token is 258, but the vocabulary has only 0..257"},
      {eos_negative, "end-of-text token is -2"},
      {bos_missing, "must begin with"},
      {eos_missing, "must end with"},
      {type_unknown, "token 5 has type 7"},
      {byte_without_number, "token 65 is marked as a byte but its text is \"A\""},
      {text_too_long, "text of token 3 is 1073741824 bytes"},
      {merge_without_space, "merge 1 is \"Ġthe\""},
      {merge_of_one, "merge 1 is \"a \""},
      {merge_empty, "merge 1 is \"\""},
      {merges_negative, "-1 merges"},
      {merges_missing, "2 merges"},
      {pre_unknown,
       "\"klingon\" is not supported; supported are the families of: default llama-bpe"},
      {pre_of_two, "\"llama3 llama-v3\" is not supported"},
      {score_not_a_number, "score of token 9"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct vocabulary v;
    struct error e = {0};
    vocabulary_start(&v, TOKENIZER_BPE, "gpt-2");
    vocabulary_add_letters(&v);
    vocabulary_add_merge(&v, "a", "b");
    vocabulary_add_merge(&v, "c", "d");
    cases[i].spoil(&v);
    assert_null(tokenizer_new(&v.source, &e));
    if (!strstr(e.text, cases[i].says)) fail_msg("\"%s\" is not in: %s", cases[i].says, e.text);
    vocabulary_clear(&v);
  }
}

static void refusal_lists_every_family(void **state) {
  (void)state;
  struct vocabulary v;
  struct error e = {0};
  vocabulary_start(&v, TOKENIZER_BPE, "klingon");
  vocabulary_add_letters(&v);
  assert_null(tokenizer_new(&v.source, &e));
  assert_int_equal(e.kind, ERROR_UNSUPPORTED);
  assert_non_null(strstr(e.text, " smollm "));
  assert_non_null(strstr(e.text, "laguna"));  // the last one: the line was not cut
  vocabulary_clear(&v);
}

// ---- threads

struct shared_work {
  const struct tokenizer *tokenizer;
  struct token_list expected;
  int wrong[8];  // by thread
};

static const char shared_text[] =
    "Hello, shared world!  1234 <|im_end|>\n\t naïve 世界 \xFF and so on and so on.";

static void encode_many_times(void *context, int index, int count) {
  (void)count;
  struct shared_work *w = context;
  for (int round = 0; round < 200; round++) {
    struct token_list got = {0};
    tokenizer_encode(w->tokenizer, str_of(shared_text), false, true, &got);
    w->wrong[index] += got.count != w->expected.count ||
                       memcmp(got.ids, w->expected.ids, got.count * sizeof *got.ids) != 0;
    token_list_clear(&got);
  }
}

static void threads_share_a_tokenizer(void **state) {
  (void)state;
  struct vocabulary v;
  vocabulary_start(&v, TOKENIZER_BPE, "llama-bpe");
  vocabulary_add_letters(&v);
  vocabulary_add_merge(&v, "l", "l");
  vocabulary_add_merge(&v, "Ġ", "a");
  vocabulary_add(&v, "<|im_end|>", TOKEN_CONTROL, 0);
  struct tokenizer *t = vocabulary_make(&v);
  struct shared_work work = {.tokenizer = t};
  tokenizer_encode(t, str_of(shared_text), false, true, &work.expected);
  struct pool *pool = pool_new(4, NULL);
  pool_run(pool, encode_many_times, &work);
  pool_free(pool);
  for (int i = 0; i < 8; i++) assert_int_equal(work.wrong[i], 0);
  token_list_clear(&work.expected);
  tokenizer_free(t);
  vocabulary_clear(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spm_merges_by_score),
      cmocka_unit_test(spm_falls_back_to_bytes),
      cmocka_unit_test(spm_puts_a_space_behind_special_tokens),
      cmocka_unit_test(bpe_cuts_words_and_merges_by_rank),
      cmocka_unit_test(bpe_takes_whole_words_first_where_the_model_does),
      cmocka_unit_test(bpe_falls_back_where_a_merge_makes_no_token),
      cmocka_unit_test(special_tokens_go_by_type_and_setting),
      cmocka_unit_test(only_the_template_writes_special_tokens),
      cmocka_unit_test(merging_makes_no_special_token),
      cmocka_unit_test(no_memory_is_told),
      cmocka_unit_test(ends_are_found_by_id_and_by_text),
      cmocka_unit_test(families_with_other_ends_are_known),
      cmocka_unit_test(bytes_undo_how_texts_are_stored),
      cmocka_unit_test(of_equal_texts_the_last_counts),
      cmocka_unit_test(bad_sources_are_refused_in_one_line),
      cmocka_unit_test(refusal_lists_every_family),
      cmocka_unit_test(threads_share_a_tokenizer),
  };
  return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
