// SPDX-License-Identifier: Apache-2.0
//
// test_tokenizer_golden.c: ids equal those that llama.cpp gave.
//
// The files in golden/ are written by test/oracle/tokenizer.py --golden.  A hash is FNV-1a over the
// ids of one text.
//   tokenizer.txt    merges of a small vocabulary (the 256 byte letters come before them), texts
//                    that use it, and hashes for each pre-tokenizer; merges cross words, so a word
//                    cut elsewhere shows
//   smollm2.txt      texts and hashes for SmolLM2 (skipped without MOTLEY_TEST_MODEL)
//   stories260k.txt  the same for stories260K (only where ../shared/data/tok512.bin is)
//
// The build makes one more, story/ids.txt, for the tokenizer of test/support/story.py.  There the
// ids come from a slow encoder in Python.
//
//   merge LEFT RIGHT   text BYTES with \xNN   pre NAME   ids HASH HASH …

#include "base/file.h"
#include "model/internal.h"
#include "support/check.h"
#include "support/vocabulary.h"
#include "tokenizer/tokenizer.h"

#define TEXTS_MAX 256
#define STORY_TOKENS 478  // test/support/story.py: vocabulary()

struct golden {
  struct buffer file;
  struct vocabulary vocabulary;
  struct arena arena;
  struct str texts[TEXTS_MAX];
  int text_count;
  struct tokenizer *tokenizer;  // of the last "pre" line, or of the model
  bool settings;                // text n is encoded with add_special and parse_special by n
  struct str pre;
  int next;     // the text that the next hash belongs to
  int checked;  // hashes
};

static struct str next_word(struct str *line) {
  const char *space = memchr(line->data, ' ', line->length);
  struct str word = {line->data, space ? (size_t)(space - line->data) : line->length};
  size_t used = word.length + (space != NULL);
  line->data += used, line->length -= used;
  return word;
}

static struct str unescape(struct golden *g, struct str text) {
  char *out = arena_copy(&g->arena, text.data, text.length);
  size_t length = 0;
  for (size_t at = 0; at < text.length; at++) {
    out[length++] = text.data[at];
    if (text.data[at] != '\\') continue;
    char digits[3] = {text.data[at + 2], text.data[at + 3], 0};
    out[length - 1] = (char)strtol(digits, NULL, 16);
    at += 3;
  }
  return (struct str){out, length};
}

static void take_merge(struct golden *g, struct str line) {
  struct str left = next_word(&line);
  vocabulary_add_merge(&g->vocabulary, arena_copy(&g->arena, left.data, left.length),
                       arena_copy(&g->arena, line.data, line.length));
}

static void take_text(struct golden *g, struct str line) {
  assert_true(g->text_count < TEXTS_MAX);
  g->texts[g->text_count++] = unescape(g, line);
}

static void take_pre(struct golden *g, struct str line) {
  tokenizer_free(g->tokenizer);
  g->pre = g->vocabulary.source.pre = line;
  g->tokenizer = vocabulary_make(&g->vocabulary);
  g->next = 0;
}

static uint32_t hash_ids(const struct token_list *ids) {
  uint32_t hash = 0x811C9DC5;
  for (size_t i = 0; i < ids->count * 4; i++)
    hash = (hash ^ (uint8_t)(ids->ids[i / 4] >> i % 4 * 8)) * 0x01000193;
  return hash;
}

static void take_ids(struct golden *g, struct str line) {
  while (line.length) {
    struct str word = next_word(&line), text = g->texts[g->next];
    struct token_list ids = {0};
    tokenizer_encode(g->tokenizer, text, g->settings && (g->next & 1), g->settings && (g->next & 2),
                     &ids);
    if (hash_ids(&ids) != strtoul(word.data, NULL, 16))
      fail_msg("%.*s, text %d: \"%.*s\"", (int)g->pre.length, g->pre.data, g->next,
               (int)text.length, text.data);
    token_list_clear(&ids);
    g->next++, g->checked++;
  }
}

static void take_comment(struct golden *g, struct str line) { (void)g, (void)line; }

static const struct {
  struct str word;
  void (*take)(struct golden *g, struct str line);
} line_kinds[] = {
    {{"merge", 5}, take_merge}, {{"text", 4}, take_text}, {{"pre", 3}, take_pre},
    {{"ids", 3}, take_ids},     {{"#", 1}, take_comment},
};

static void take_line(struct golden *g, struct str line) {
  struct str kind = next_word(&line);
  for (size_t i = 0; i < COUNT_OF(line_kinds); i++)
    if (str_equal(kind, line_kinds[i].word)) {
      line_kinds[i].take(g, line);
      return;
    }
  fail_msg("unknown line in the golden file: %.*s", (int)kind.length, kind.data);
}

static struct golden *golden_new(void) {
  struct golden *g = memory_new(sizeof *g);
  vocabulary_start(&g->vocabulary, TOKENIZER_BPE, "");
  vocabulary_add_letters(&g->vocabulary);
  return g;
}

// Checks the whole file, which has so many hashes, and releases g.
static void check_file(struct golden *g, const char *path, int hashes) {
  struct error e = {0};
  if (!file_read(world_real(), path, 1 << 20, &g->file, &e)) fail_msg("%s", e.text);
  struct str rest = buffer_str(&g->file);
  while (rest.length) {
    const char *end = memchr(rest.data, '\n', rest.length);
    assert_non_null(end);
    take_line(g, (struct str){rest.data, (size_t)(end - rest.data)});
    rest.length -= (size_t)(end + 1 - rest.data), rest.data = end + 1;
  }
  assert_int_equal(g->checked, hashes);
  tokenizer_free(g->tokenizer);
  vocabulary_clear(&g->vocabulary);
  arena_clear(&g->arena);
  buffer_clear(&g->file);
  memory_free(g);
}

static void every_pre_tokenizer_cuts_like_llama_cpp(void **state) {
  (void)state;
  check_file(golden_new(), "test/tokenizer/golden/tokenizer.txt", 21 * 100);
}

static void check_model(struct tokenizer *t, const char *path) {
  struct golden *g = golden_new();
  g->tokenizer = t;
  g->settings = true;
  check_file(g, path, 200);
}

static void smollm2_ids_equal_llama_cpp(void **state) {
  (void)state;
  struct error e = {0};
  struct file_map file = {0};
  struct gguf gguf = {0};
  const char *path = getenv("MOTLEY_TEST_MODEL");
  if (!path || !*path) skip();
  if (!file_map_open(&file, world_real(), path, &e) ||
      !model_gguf_open(&gguf, (struct str){(const char *)file.data, file.length}, &e))
    fail_msg("%s", e.text);
  const struct gguf_entry *tokens = model_gguf_find(&gguf, "tokenizer.ggml.tokens");
  assert_non_null(tokens);
  struct tokenizer *t = model_vocabulary_read(&gguf, (int)tokens->count, &e);
  if (!t) fail_msg("%s", e.text);
  model_gguf_clear(&gguf);
  file_map_close(&file);
  check_model(t, "test/tokenizer/golden/smollm2.txt");
}

static void check_llama2c(const char *tokens, int count, const char *golden) {
  struct error e = {0};
  struct buffer file = {0};
  if (!file_read(world_real(), tokens, 1 << 20, &file, &e)) fail_msg("%s", e.text);
  struct tokenizer *t = model_llama2c_tokenizer(buffer_str(&file), count, &e);
  if (!t) fail_msg("%s", e.text);
  buffer_clear(&file);
  check_model(t, golden);
}

static void story_ids_equal_a_slow_encoder(void **state) {
  (void)state;
  check_llama2c(built_file("story/tok512.bin"), STORY_TOKENS, built_file("story/ids.txt"));
  if (file_exists(world_real(), "../shared/data/tok512.bin"))
    check_llama2c("../shared/data/tok512.bin", 512, "test/tokenizer/golden/stories260k.txt");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pre_tokenizer_cuts_like_llama_cpp),
      cmocka_unit_test(smollm2_ids_equal_llama_cpp),
      cmocka_unit_test(story_ids_equal_a_slow_encoder),
  };
  return cmocka_run_group_tests_name("tokenizer_golden", tests, NULL, NULL);
}
