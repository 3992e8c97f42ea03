// SPDX-License-Identifier: Apache-2.0
//
// test_tokenizer_merge.c: ids against second implementations that are slow and obvious.
//
//   merging      look at all neighbours, join the best pair, start again
//   specials     for each length from the longest: find the leftmost, cut, go on to its right
//
// over random vocabularies (many ties among scores, tokens that cross words) and random texts.
// Then texts made to be slow: long runs of one pattern under every pre-tokenizer, and one word of
// a megabyte.  They take seconds where matching or merging is linear, and hours where it is not.

#include "base/world.h"
#include "support/check.h"
#include "support/vocabulary.h"
#include "tokenizer/tokenizer.h"

#define PARTS_MAX 512

static uint64_t below(uint64_t *seed, uint64_t limit) { return random_next(seed) % limit; }

static void expect_same(const struct token_list *ours, const struct token_list *slow,
                        struct str text) {
  bool same =
      ours->count == slow->count &&
      (ours->count == 0 || memcmp(ours->ids, slow->ids, ours->count * sizeof(int32_t)) == 0);
  if (!same) fail_msg("ids of \"%.*s\" differ", (int)text.length, text.data);
}

// ---- merging

// How bad it is to join left and right; false where they do not join.  Both lie side by side.
typedef bool (*pair_judge)(const struct vocabulary *v, struct str left, struct str right,
                           double *badness);

static bool judge_by_score(const struct vocabulary *v, struct str left, struct str right,
                           double *badness) {
  int32_t id = vocabulary_id(v, (struct str){left.data, left.length + right.length});
  if (id >= 0) *badness = -(double)v->scores[id];
  return id >= 0;
}

static bool judge_by_rank(const struct vocabulary *v, struct str left, struct str right,
                          double *badness) {
  for (int rank = 0; rank < v->source.merge_count; rank++) {
    struct str merge = v->merges[rank];
    *badness = rank;
    if (merge.length == left.length + 1 + right.length && str_starts(merge, left) &&
        merge.data[left.length] == ' ' &&
        memcmp(merge.data + left.length + 1, right.data, right.length) == 0)
      return true;
  }
  return false;
}

static void merge_slowly(const struct vocabulary *v, struct str text, pair_judge judge,
                         struct token_list *out) {
  struct str parts[PARTS_MAX];
  int count = 0;
  for (size_t at = 0; at < text.length; at += parts[count++].length)
    parts[count] = (struct str){text.data + at, (size_t)str_utf8_length(text, at)};
  for (;;) {
    int best = -1;
    double least = 0, badness = 0;
    for (int i = 0; i + 1 < count; i++)
      if (judge(v, parts[i], parts[i + 1], &badness) && (best < 0 || badness < least))
        best = i, least = badness;
    if (best < 0) break;
    parts[best].length += parts[best + 1].length;
    memmove(&parts[best + 1], &parts[best + 2], (size_t)(count - best - 2) * sizeof *parts);
    count--;
  }
  for (int i = 0; i < count; i++) token_list_add(out, vocabulary_id(v, parts[i]));
}

static struct str random_text(uint64_t *seed, const char *const *alphabet, size_t letters,
                              size_t longest, struct buffer *out) {
  out->length = 0;
  buffer_add(out, "", 0);  // ends with a NUL even when it stays empty
  for (size_t n = below(seed, longest); n > 0; n--)
    buffer_add_text(out, alphabet[below(seed, letters)]);
  return buffer_str(out);
}

static void bpe_equals_slow_merging(void **state) {
  (void)state;
  static const char *const letters[] = {"a", "b", "c"};
  uint64_t seed = 11;
  struct buffer text = {0};
  for (int round = 0; round < 40; round++) {
    struct vocabulary v;
    vocabulary_start(&v, TOKENIZER_BPE, "gpt-2");
    vocabulary_add_letters(&v);
    for (int i = 0; i < 30; i++) {  // sides may be texts that no earlier merge makes
      char left[16], right[16];
      snprintf(left, sizeof left, "%s", random_text(&seed, letters, 3, 4, &text).data);
      snprintf(right, sizeof right, "%s", random_text(&seed, letters, 3, 3, &text).data);
      if (*left && *right) vocabulary_add_merge(&v, left, right);
    }
    struct tokenizer *t = vocabulary_make(&v);
    for (int i = 0; i < 40; i++) {
      struct token_list ours = {0}, slow = {0};
      struct str word = random_text(&seed, letters, 3, 60, &text);
      tokenizer_encode(t, word, false, false, &ours);
      merge_slowly(&v, word, judge_by_rank, &slow);
      expect_same(&ours, &slow, word);
      token_list_clear(&ours), token_list_clear(&slow);
    }
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
  buffer_clear(&text);
}

static void add_random_spm(struct vocabulary *v, uint64_t *seed, const char *const *letters,
                           size_t count, bool cross_words) {
  struct buffer text = {0};
  vocabulary_start(v, TOKENIZER_SPM, "");
  for (size_t i = 0; i < count; i++) vocabulary_add(v, letters[i], TOKEN_NORMAL, -10);
  for (int i = 0; i < 40; i++) {
    struct str token = random_text(seed, letters, count, 5, &text);
    bool crosses = strstr(token.data, "a▁") || strstr(token.data, "é▁");
    if (!token.length || vocabulary_id(v, token) >= 0 || (crosses && !cross_words)) continue;
    vocabulary_add(v, token.data, TOKEN_NORMAL, -(float)below(seed, 4));
  }
  buffer_clear(&text);
}

// In every second vocabulary no token crosses a word, so that words are merged apart.
static void spm_equals_slow_merging(void **state) {
  (void)state;
  static const char *const letters[] = {"a", "é", "▁"};
  uint64_t seed = 12;
  struct buffer text = {0}, plain = {0};
  for (int round = 0; round < 80; round++) {
    struct vocabulary v;
    add_random_spm(&v, &seed, letters, 3, round % 2);
    struct tokenizer *t = vocabulary_make(&v);
    for (int i = 0; i < 40; i++) {
      struct token_list ours = {0}, slow = {0};
      struct str word = random_text(&seed, letters, 3, 60, &text);
      plain.length = 0;
      for (size_t at = 0; at < word.length; at++) {
        bool mark = str_starts((struct str){word.data + at, word.length - at}, STR("▁"));
        buffer_add_char(&plain, mark ? ' ' : word.data[at]);
        if (mark) at += 2;
      }
      tokenizer_encode(t, buffer_str(&plain), false, false, &ours);
      merge_slowly(&v, word, judge_by_score, &slow);
      expect_same(&ours, &slow, word);
      token_list_clear(&ours), token_list_clear(&slow);
    }
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
  buffer_clear(&text), buffer_clear(&plain);
}

// ---- special tokens

// The leftmost token of `length` bytes in the text: its place, or -1.
static long find_special(const struct vocabulary *v, struct str text, size_t length, int32_t *id) {
  for (size_t at = 0; at + length <= text.length; at++) {
    *id = vocabulary_id(v, (struct str){text.data + at, length});
    if (*id >= 256) return (long)at;
  }
  return -1;
}

static void cut_slowly(const struct vocabulary *v, struct str text, size_t length,
                       struct token_list *out) {
  if (text.length == 0) return;
  if (length < 2) {
    for (size_t i = 0; i < text.length; i++) token_list_add(out, (unsigned char)text.data[i]);
    return;
  }
  int32_t id;
  long at = find_special(v, text, length, &id);
  if (at < 0) {
    cut_slowly(v, text, length - 1, out);
    return;
  }
  cut_slowly(v, (struct str){text.data, (size_t)at}, length - 1, out);
  token_list_add(out, id);
  size_t end = (size_t)at + length;
  cut_slowly(v, (struct str){text.data + end, text.length - end}, length, out);
}

static void specials_equal_slow_cutting(void **state) {
  (void)state;
  static const char *const letters[] = {"<", "|", "a", ">"};
  uint64_t seed = 13;
  struct buffer text = {0};
  for (int round = 0; round < 40; round++) {
    struct vocabulary v;
    vocabulary_start(&v, TOKENIZER_BPE, "gpt-2");
    vocabulary_add_letters(&v);
    for (int i = 0; i < 12; i++) {
      struct str token = random_text(&seed, letters, 4, 7, &text);
      if (token.length > 1 && vocabulary_id(&v, token) < 0)
        vocabulary_add(&v, token.data, below(&seed, 2) ? TOKEN_CONTROL : TOKEN_USER_DEFINED, 0);
    }
    struct tokenizer *t = vocabulary_make(&v);
    for (int i = 0; i < 100; i++) {
      struct token_list ours = {0}, slow = {0};
      struct str whole = random_text(&seed, letters, 4, 60, &text);
      tokenizer_encode(t, whole, false, true, &ours);
      cut_slowly(&v, whole, 7, &slow);
      expect_same(&ours, &slow, whole);
      token_list_clear(&ours), token_list_clear(&slow);
    }
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
  buffer_clear(&text);
}

// ---- slow texts

static const char *const pre_tokenizers[] = {
    "default",     "llama-bpe",      "glm4",   "smollm",     "gpt-2",        "qwen2",
    "qwen35",      "tekken",         "gpt-4o", "falcon",     "minicpm5",     "bailingmoe",
    "deepseek-v3", "deepseek-coder", "viking", "seed-coder", "deepseek-llm", "youtu",
    "chameleon",   "poro-chat",      "laguna",
};

static struct tokenizer *letters_only(struct vocabulary *v, const char *pre) {
  vocabulary_start(v, TOKENIZER_BPE, pre);
  vocabulary_add_letters(v);
  vocabulary_add_merge(v, "a", "a");
  vocabulary_add_merge(v, "Ġ", "Ġ");
  vocabulary_add_merge(v, "ĠĠ", "ĠĠ");
  return vocabulary_make(v);
}

// With one token a byte at least, the ids' bytes are the text again.
static void expect_round_trip(const struct tokenizer *t, struct str text) {
  struct token_list ids = {0};
  struct buffer back = {0};
  tokenizer_encode(t, text, false, true, &ids);
  for (size_t i = 0; i < ids.count; i++) buffer_add_str(&back, tokenizer_bytes(t, ids.ids[i]));
  assert_true(str_equal(buffer_str(&back), text));
  buffer_clear(&back);
  token_list_clear(&ids);
}

static void every_pre_tokenizer_is_linear(void **state) {
  (void)state;
  static const char *const patterns[] = {
      " ",         "\n",       "\r\n", " \n",
      "a",         "A",        "Aa",   "aA",
      "a ",        "7",        "7 ",   "!",
      "' ",        "'s",       "é",    "É",
      "e\xCC\x81", "\xCC\x81", "世",   "\xE2\x80\x83",
      "\t",        "\x01",     "! ",   "\xF0\x9F\x98\x80",
      "<",         "IMGIMGA",  "  a",  "\xF0\xB1\x8D\x90",
  };
  struct buffer text = {0};
  for (size_t p = 0; p < COUNT_OF(pre_tokenizers); p++) {
    struct vocabulary v;
    struct tokenizer *t = letters_only(&v, pre_tokenizers[p]);
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
      text.length = 0;
      while (text.length < 10000) buffer_add_text(&text, patterns[i]);
      buffer_add_text(&text, i % 2 ? "x" : "");
      expect_round_trip(t, buffer_str(&text));
    }
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
  buffer_clear(&text);
}

static void a_word_of_a_megabyte_is_merged(void **state) {
  (void)state;
  struct buffer text = {0};
  uint64_t seed = 14;
  for (int i = 0; i < 1 << 20; i++) buffer_add_char(&text, below(&seed, 8) ? 'a' : 'b');
  for (int kind = 0; kind < 2; kind++) {
    struct vocabulary v;
    struct tokenizer *t = NULL;
    if (kind == TOKENIZER_BPE) {
      t = letters_only(&v, "llama-bpe");
    } else {
      static const char *const letters[] = {"a", "b"};
      add_random_spm(&v, &seed, letters, 2, true);
      t = vocabulary_make(&v);
    }
    expect_round_trip(t, buffer_str(&text));
    tokenizer_free(t);
    vocabulary_clear(&v);
  }
  buffer_clear(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bpe_equals_slow_merging),
      cmocka_unit_test(spm_equals_slow_merging),
      cmocka_unit_test(specials_equal_slow_cutting),
      cmocka_unit_test(every_pre_tokenizer_is_linear),
      cmocka_unit_test(a_word_of_a_megabyte_is_merged),
  };
  return cmocka_run_group_tests_name("tokenizer_merge", tests, NULL, NULL);
}
