// SPDX-License-Identifier: Apache-2.0
//
// test_llama2c.c: llama2.c files are read right, and damaged ones refused with one line.
//
// Golden: the model that the build makes (test/support/story.py) tells, greedily from BOS, exactly
// what a slow forward pass in Python made it tell, with every instruction set this processor has.
// Where ../shared/data is, the 260-thousand-parameter story model must tell what llama2.c made it
// tell, too.  And a random model is written in both formats and must compute the same bits.

#include "support/check.h"

#include <unistd.h>

#include "base/threads.h"
#include "model/internal.h"
#include "support/test_model.h"

#define STORY_MODEL "../shared/data/stories260K.bin"
#define STORY_STEPS 256

static int32_t best_of(const float *logits, int count) {
  int best = 0;
  for (int i = 1; i < count; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

// One token of one sequence.
static void step(struct model *m, const struct kernel_cache *cache, const int32_t *pages,
                 int32_t id, int32_t position, float *logits) {
  struct kernel_span span = {.count = 1, .position = position, .pages = pages};
  struct model_batch batch = {.tokens = 1,
                              .ids = &id,
                              .positions = &position,
                              .spans = &span,
                              .span_count = 1,
                              .outputs = &(int32_t){0},
                              .output_count = 1};
  model_forward(m, cache, &batch, logits, &(int){0});
}

static struct kernel_cache new_cache(const struct model_config *c, int positions) {
  struct error e;
  struct kernel_cache cache = {
      .layers = c->layers,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .pages = (positions + KERNEL_PAGE_TOKENS - 1) / KERNEL_PAGE_TOKENS,
      .page_bytes = kernel_page_bytes(c->layers, c->kv_heads, c->head_dim)};
  cache.base = memory_try_big(cache.page_bytes * (size_t)cache.pages, "a test", &e);
  return cache;
}

static void free_cache(struct kernel_cache *c) {
  memory_free_big(c->base, c->page_bytes * (size_t)c->pages);
}

// ---- the golden story

static void tell_story(struct model *m, struct buffer *out) {
  const struct model_config *c = model_config(m);
  struct kernel_cache cache = new_cache(c, STORY_STEPS);
  struct detokenizer d = {0};
  int32_t pages[STORY_STEPS / KERNEL_PAGE_TOKENS];
  float *logits = calloc((size_t)c->vocabulary, sizeof *logits);
  for (size_t i = 0; i < COUNT_OF(pages); i++) pages[i] = (int32_t)i;
  int32_t id = tokenizer_bos(model_tokenizer(m));
  for (int p = 0; p < STORY_STEPS; p++) {
    step(m, &cache, pages, id, p, logits);
    id = best_of(logits, c->vocabulary);
    if (id == tokenizer_bos(model_tokenizer(m))) break;  // where llama2.c stops
    detokenizer_add(&d, model_tokenizer(m), id, false, out);
  }
  detokenizer_finish(&d, out);
  buffer_add_char(out, '\n');
  free(logits);
  free_cache(&cache);
}

static void check_story(const char *model, const char *text) {
  struct error error = {0};
  struct buffer expected = {0};
  if (!file_read(world_real(), text, 1 << 16, &expected, &error)) fail_msg("%s", error.text);
  int told = 0;
  for (int isa = KERNEL_ISA_PORTABLE; isa <= KERNEL_ISA_AVX512; isa++) {
    struct error e = {0};
    struct buffer story = {0};
    struct device *device = device_open("cpu", &(struct device_options){2}, &e);
    struct kernel_context *kernel = kernel_context_new(device, (enum kernel_isa)isa, &e);
    struct model *m = kernel ? model_open(model, NULL, kernel, &e) : NULL;
    if (kernel && !m) fail_msg("%s", e.text);
    if (m) {
      tell_story(m, &story);
      assert_string_equal(story.data, expected.data);
      told++;
    }
    buffer_clear(&story);
    model_free(m);
    kernel_context_free(kernel);
    device_close(device);
  }
  assert_true(told >= 1);
  buffer_clear(&expected);
}

static void the_story_is_told_word_for_word(void **state) {
  (void)state;
  check_story(built_file("story/story.bin"), built_file("story/story.txt"));
  if (file_exists(world_real(), STORY_MODEL))
    check_story(STORY_MODEL, "../shared/data/stories260K.greedy.txt");
}

// ---- written files

static const struct test_model_options shape = {
    .seed = 5, .layers = 2, .vocabulary = 300, .context = 64};

static void add_tensors(struct buffer *out, const struct gguf *g, const char *format, int layers) {
  char name[64];
  for (int l = 0; l < layers; l++) {
    snprintf(name, sizeof name, format, l);
    const struct tensor *t = model_tensor_find(&g->tensors, name);
    assert_non_null(t);
    buffer_add(out, t->data, t->bytes);
  }
}

// The test model's weights in llama2.c's order.
static void build_llama2c(struct str gguf, bool untied, struct buffer *out) {
  static const char *const layered[] = {
      "blk.%d.attn_norm.weight", "blk.%d.attn_q.weight",      "blk.%d.attn_k.weight",
      "blk.%d.attn_v.weight",    "blk.%d.attn_output.weight", "blk.%d.ffn_norm.weight",
      "blk.%d.ffn_gate.weight",  "blk.%d.ffn_down.weight",    "blk.%d.ffn_up.weight"};
  struct gguf g;
  struct error e;
  const int32_t header[7] = {64, 96, 2, 4, 2, untied ? -300 : 300, 64};
  assert_true(model_gguf_open(&g, gguf, &e));
  buffer_add(out, header, sizeof header);
  add_tensors(out, &g, "token_embd.weight", 1);
  for (size_t i = 0; i < COUNT_OF(layered); i++) add_tensors(out, &g, layered[i], 2);
  add_tensors(out, &g, "output_norm.weight", 1);
  for (int i = 0; i < 64 * 16; i++) buffer_add(out, &(float){0}, 4);  // the rotary tables
  if (untied) add_tensors(out, &g, "output.weight", 1);
  model_gguf_clear(&g);
}

static void build_tokenizer(struct buffer *out) {
  buffer_add(out, &(int32_t){8}, 4);
  for (int i = 0; i < 300; i++) {
    char text[16];
    int32_t length = i < 3     ? snprintf(text, sizeof text, "\n<%d>\n", i)
                     : i < 259 ? snprintf(text, sizeof text, "<0x%02X>", i - 3)
                     : i < 285 ? snprintf(text, sizeof text, "%c", 'a' + i - 259)
                               : snprintf(text, sizeof text, " %c", 'a' + i - 285);
    buffer_add(out, &(float){(float)-i}, 4);
    buffer_add(out, &length, 4);
    buffer_add(out, text, (size_t)length);
  }
}

static void write_file(const char *path, const struct buffer *b) {
  struct error e;
  if (!file_write_atomic(world_real(), path, buffer_str(b), &e)) fail_msg("%s", e.text);
}

// A folder of its own for the two files, so that the tokenizer is found beside the model.
struct files {
  char folder[64], model[80], tokenizer[80];
};

static void make_files(struct files *f, const struct buffer *model,
                       const struct buffer *tokenizer) {
  struct error e;
  snprintf(f->folder, sizeof f->folder, "/tmp/motley-test-llama2c.%ld", (long)getpid());
  snprintf(f->model, sizeof f->model, "%s/model.bin", f->folder);
  snprintf(f->tokenizer, sizeof f->tokenizer, "%s/tok300.bin", f->folder);
  assert_true(file_make_folders(world_real(), f->folder, &e));
  write_file(f->model, model);
  write_file(f->tokenizer, tokenizer);
}

static void remove_files(const struct files *f) {
  unlink(f->model);
  unlink(f->tokenizer);
  rmdir(f->folder);
}

static void expect_same_model(struct model *a, struct model *b) {
  const struct model_config *c = model_config(a);
  const int vocabulary = c->vocabulary;
  struct kernel_cache one = new_cache(c, 32), two = new_cache(c, 32);
  const int32_t pages[] = {0, 1};
  float x[300], y[300];
  assert_int_equal(c->parameters, model_config(b)->parameters);
  assert_int_equal(vocabulary, 300);
  for (int p = 0; p < 20; p++) {
    step(a, &one, pages, (p * 37) % vocabulary, p, x);
    step(b, &two, pages, (p * 37) % vocabulary, p, y);
    assert_memory_equal(x, y, sizeof x);
  }
  free_cache(&one);
  free_cache(&two);
}

static void both_formats_give_the_same_model(void **state) {
  (void)state;
  for (int untied = 0; untied < 2; untied++) {
    struct test_model_options o = shape;
    struct buffer gguf = {0}, model = {0}, tokenizer = {0};
    struct error e = {0};
    struct files files;
    struct device *device = device_open("cpu", &(struct device_options){1}, &e);
    struct kernel_context *kernel = kernel_context_new(device, KERNEL_ISA_AUTO, &e);
    o.untied = untied;
    test_model_build(&o, &gguf);
    build_llama2c(buffer_str(&gguf), untied, &model);
    build_tokenizer(&tokenizer);
    make_files(&files, &model, &tokenizer);
    struct model *a = model_open(files.model, NULL, kernel, &e);
    if (!a) fail_msg("%s", e.text);
    struct model *b = model_open_bytes(buffer_str(&gguf), NULL, "x", NULL, kernel, &e);
    expect_same_model(a, b);
    assert_string_equal(model_config(a)->name, "model.bin");
    assert_int_equal(model_chat_template(a).length, 0);
    assert_int_equal(tokenizer_bos(model_tokenizer(a)), 1);
    assert_true(str_equal(tokenizer_bytes(model_tokenizer(a), 285), STR(" a")));
    assert_true(str_equal(tokenizer_bytes(model_tokenizer(a), 13), STR("\n")));
    remove_files(&files);
    model_free(a);
    model_free(b);
    kernel_context_free(kernel);
    device_close(device);
    buffer_clear(&gguf);
    buffer_clear(&model);
    buffer_clear(&tokenizer);
  }
}

// ---- damaged files

static void expect_refusal(const struct error *e, const char *what) {
  assert_null(strpbrk(e->text, "\r\n"));
  if (!strstr(e->text, what)) fail_msg("\"%s\" lacks \"%s\"", e->text, what);
}

static void damaged_models_are_refused(void **state) {
  (void)state;
  static const struct {
    size_t at;
    int32_t value;
    const char *refusal;
  } damages[] = {
      {0, 0, "dim = 0"},
      {0, 65, "no multiple of n_heads"},
      {0, 1 << 30, "dim = 1073741824"},
      {4, -5, "hidden_dim = -5"},
      {8, 3, "cut short"},
      {8, 1 << 20, "n_layers"},
      {16, 3, "no multiple of its 3"},
      {20, INT32_MIN, "vocab_size = 0"},
      {20, 299, "bytes follow"},
      {24, 63, "bytes follow"},
      {12, 64, "must be an even number"},
  };
  struct buffer gguf = {0}, file = {0};
  struct llama2c l;
  struct error e;
  test_model_build(&shape, &gguf);
  build_llama2c(buffer_str(&gguf), false, &file);
  for (size_t i = 0; i < COUNT_OF(damages); i++) {
    int32_t saved;
    memcpy(&saved, file.data + damages[i].at, 4);
    memcpy(file.data + damages[i].at, &damages[i].value, 4);
    assert_false(model_llama2c_open(&l, buffer_str(&file), &e));
    expect_refusal(&e, damages[i].refusal);
    memcpy(file.data + damages[i].at, &saved, 4);
  }
  for (size_t length = 0; length < file.length; length += length < 100 ? 1 : 997) {
    char *exact = malloc(length + 1);
    memcpy(exact, file.data, length);
    assert_false(model_llama2c_open(&l, (struct str){exact, length}, &e));
    expect_refusal(&e, length < 28 ? "28 bytes of header" : "cut short");
    free(exact);
  }
  assert_true(model_llama2c_open(&l, buffer_str(&file), &e));
  model_llama2c_clear(&l);
  buffer_clear(&gguf);
  buffer_clear(&file);
}

static void damaged_tokenizers_are_refused(void **state) {
  (void)state;
  struct buffer file = {0};
  struct error e;
  build_tokenizer(&file);
  for (size_t length = 0; length < file.length; length++) {
    char *exact = malloc(length + 1);
    memcpy(exact, file.data, length);
    assert_null(model_llama2c_tokenizer((struct str){exact, length}, 300, &e));
    expect_refusal(&e, "token");
    free(exact);
  }
  assert_null(model_llama2c_tokenizer(buffer_str(&file), 299, &e));
  expect_refusal(&e, "belongs to another model");
  assert_null(model_llama2c_tokenizer(buffer_str(&file), 301, &e));
  expect_refusal(&e, "inside token 300");
  memcpy(file.data + 8, &(int32_t){-1}, 4);
  assert_null(model_llama2c_tokenizer(buffer_str(&file), 300, &e));
  expect_refusal(&e, "token 0 of the tokenizer file has -1 bytes");
  buffer_clear(&file);
}

static void a_missing_tokenizer_is_named(void **state) {
  (void)state;
  struct buffer found = {0};
  struct error e;
  assert_false(model_llama2c_find_tokenizer(world_real(), "/no-such-folder/model.bin", &found, &e));
  expect_refusal(&e, "no tok*.bin lies beside it");
  buffer_clear(&found);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_story_is_told_word_for_word),
      cmocka_unit_test(both_formats_give_the_same_model),
      cmocka_unit_test(damaged_models_are_refused),
      cmocka_unit_test(damaged_tokenizers_are_refused),
      cmocka_unit_test(a_missing_tokenizer_is_named),
  };
  return cmocka_run_group_tests_name("llama2c", tests, NULL, NULL);
}
