// SPDX-License-Identifier: Apache-2.0
//
// test_llama.c: the forward pass computes what the architecture says, and does not depend on how
// its tokens were batched.
//
// Oracle: the same model file read by a second, naive forward pass in double precision (below), one
// token at a time over all earlier ones, weights dequantised by test/support/quantise.c, rotary
// frequencies from the textbook.  The engine rounds activations to the weight's companion format
// and keys and values to f16, so results agree within a tolerance that belongs to the format.
// What must agree bit by bit is the engine with itself: whole prompts and chunks, alone and in
// company, on one thread and several.

#include "support/check.h"

#include <math.h>
#include <unistd.h>

#include "base/number.h"
#include "base/threads.h"
#include "model/internal.h"
#include "support/quantise.h"
#include "support/test_model.h"

#define TOKENS 40  // length of the test texts
#define PAGES_EACH ((TOKENS + KERNEL_PAGE_TOKENS - 1) / KERNEL_PAGE_TOKENS)
#define SEQUENCES 3

// ---- the model under test

struct fixture {
  struct buffer file;
  struct device *device;
  struct kernel_context *kernel;
  struct model *model;
  struct kernel_cache cache;
  int32_t pages[SEQUENCES][PAGES_EACH];
  int faults[TOKENS];  // of the last feed
};

static void open_fixture(struct fixture *f, const struct test_model_options *o, int threads) {
  struct error e = {0};
  *f = (struct fixture){0};
  test_model_build(o, &f->file);
  f->device = device_open("cpu", &(struct device_options){threads}, &e);
  f->kernel = kernel_context_new(f->device, KERNEL_ISA_AUTO, &e);
  f->model = model_open_bytes(buffer_str(&f->file), NULL, "test", NULL, f->kernel, &e);
  if (!f->model) fail_msg("%s", e.text);
  const struct model_config *c = model_config(f->model);
  f->cache =
      (struct kernel_cache){.layers = c->layers,
                            .kv_heads = c->kv_heads,
                            .head_dim = c->head_dim,
                            .pages = SEQUENCES * PAGES_EACH,
                            .page_bytes = kernel_page_bytes(c->layers, c->kv_heads, c->head_dim)};
  f->cache.base = memory_try_big(f->cache.page_bytes * (size_t)f->cache.pages, "a test", &e);
  for (int s = 0; s < SEQUENCES; s++)  // pages of the sequences lie mixed, last first
    for (int p = 0; p < PAGES_EACH; p++) f->pages[s][p] = f->cache.pages - 1 - (p * SEQUENCES + s);
}

static void close_fixture(struct fixture *f) {
  memory_free_big(f->cache.base, f->cache.page_bytes * (size_t)f->cache.pages);
  model_free(f->model);
  kernel_context_free(f->kernel);
  device_close(f->device);
  buffer_clear(&f->file);
}

static void random_ids(int32_t *ids, int count, uint64_t seed, int vocabulary) {
  for (int i = 0; i < count; i++) ids[i] = (int32_t)(random_next(&seed) % (uint64_t)vocabulary);
}

// One span of sequence `s`: `count` tokens from `position` on; logits of all of them.
static void feed(struct fixture *f, int s, const int32_t *ids, int position, int count,
                 float *logits) {
  int32_t positions[TOKENS], outputs[TOKENS];
  for (int i = 0; i < count; i++) positions[i] = position + i, outputs[i] = i;
  struct kernel_span span = {.count = count, .position = position, .pages = f->pages[s]};
  struct model_batch batch = {.tokens = count,
                              .ids = ids + position,
                              .positions = positions,
                              .spans = &span,
                              .span_count = 1,
                              .outputs = outputs,
                              .output_count = logits ? count : 0};
  model_forward(f->model, &f->cache, &batch, logits, f->faults);
}

// ---- the oracle

struct oracle {
  struct gguf gguf;
  struct test_model_options o;
  double *keys, *values;  // [layers][TOKENS][kv_heads × head_dim]
};

// Element (row, column) view of a tensor as doubles; NULL where the file has no such tensor.
static double *fetch(const struct oracle *r, const char *format, int layer) {
  static const enum kernel_dtype by_number[] = {
      [0] = KERNEL_F32,  [1] = KERNEL_F16,  [2] = KERNEL_Q4_0,
      [3] = KERNEL_Q4_1, [8] = KERNEL_Q8_0, [30] = KERNEL_BF16};
  char name[64];
  snprintf(name, sizeof name, "blk.%d.%s", layer, format);
  const struct tensor *t = model_tensor_find(&r->gguf.tensors, layer < 0 ? format : name);
  if (!t) return NULL;
  float *single = malloc(t->elements * sizeof *single);
  double *out = malloc(t->elements * sizeof *out);
  dequantise_row(by_number[t->type], t->data, t->elements, single);
  for (uint64_t i = 0; i < t->elements; i++) out[i] = (double)single[i];
  free(single);
  return out;
}

static void oracle_norm(const struct oracle *r, const double *x, const char *name, int layer,
                        double *y) {
  double *w = fetch(r, name, layer), sum = 0;
  for (int i = 0; i < r->o.width; i++) sum += x[i] * x[i];
  for (int i = 0; i < r->o.width; i++) y[i] = x[i] / sqrt(sum / r->o.width + (double)1e-5f) * w[i];
  free(w);
}

// y = W x + bias
static void oracle_multiply(const struct oracle *r, const char *part, int layer, int rows,
                            int columns, const double *x, double *y) {
  char name[64];
  snprintf(name, sizeof name, "%s.weight", part);
  double *w = fetch(r, name, layer);
  snprintf(name, sizeof name, "%s.bias", part);
  double *bias = fetch(r, name, layer);
  for (int i = 0; i < rows; i++) {
    y[i] = bias ? bias[i] : 0;
    for (int j = 0; j < columns; j++) y[i] += w[i * columns + j] * x[j];
  }
  free(w);
  free(bias);
}

// The angle of pair i at `position`: textbook rotary, linear and YaRN, Llama 3's divisors.
static double oracle_angle(const struct oracle *r, int i, int position, const double *divisors) {
  const struct test_model_options *o = &r->o;
  double n = o->head_dim, angle = position * pow((double)o->rope_base, -2 * i / n);
  if (divisors) angle /= divisors[i];
  if (!o->rope_scaling) return angle;
  if (strcmp(o->rope_scaling, "linear") == 0) return angle / (double)o->rope_factor;
  double log_base = log((double)o->rope_base);
  double low = floor(n * log(o->rope_original / (32 * 2 * M_PI)) / (2 * log_base));
  double high = ceil(n * log(o->rope_original / (2 * M_PI)) / (2 * log_base));
  if (low < 0) low = 0;
  if (high > n - 1) high = n - 1;
  double slowed = (i - low) / (high - low > 0.001 ? high - low : 0.001);
  slowed = slowed < 0 ? 0 : slowed > 1 ? 1 : slowed;
  return angle * (1 - slowed) + angle / (double)o->rope_factor * slowed;
}

static void oracle_rotate(const struct oracle *r, double *x, int heads, int position) {
  double *divisors = fetch(r, "rope_freqs.weight", -1);
  bool yarn = r->o.rope_scaling && strcmp(r->o.rope_scaling, "yarn") == 0;
  double magnitude = yarn ? 1 + 0.1 * log((double)r->o.rope_factor) : 1;
  for (int h = 0; h < heads; h++)
    for (int i = 0; i < r->o.head_dim / 2; i++) {
      double *pair = x + h * r->o.head_dim + 2 * i, a = pair[0], b = pair[1];
      double angle = oracle_angle(r, i, position, divisors);
      pair[0] = (a * cos(angle) - b * sin(angle)) * magnitude;
      pair[1] = (a * sin(angle) + b * cos(angle)) * magnitude;
    }
  free(divisors);
}

static void oracle_attend(const struct oracle *r, int layer, int position, const double *q,
                          double *out) {
  const int d = r->o.head_dim, kv = r->o.kv_heads, group = r->o.heads / kv;
  const double *keys = r->keys + (size_t)layer * TOKENS * (size_t)(kv * d);
  const double *values = r->values + (size_t)layer * TOKENS * (size_t)(kv * d);
  for (int h = 0; h < r->o.heads; h++) {
    double weights[TOKENS], total = 0;
    for (int p = 0; p <= position; p++) {
      double score = 0;
      for (int i = 0; i < d; i++) score += q[h * d + i] * keys[(p * kv + h / group) * d + i];
      total += weights[p] = exp(score / sqrt(d));
    }
    for (int i = 0; i < d; i++) out[h * d + i] = 0;
    for (int p = 0; p <= position; p++)
      for (int i = 0; i < d; i++)
        out[h * d + i] += weights[p] / total * values[(p * kv + h / group) * d + i];
  }
}

// The cache holds f16.
static void oracle_round(double *x, int count) {
  for (int i = 0; i < count; i++) x[i] = (double)number_f16_to_f32(number_f32_to_f16((float)x[i]));
}

static void oracle_layer(struct oracle *r, int layer, int position, double *x) {
  const struct test_model_options *o = &r->o;
  const int query = o->heads * o->head_dim, key = o->kv_heads * o->head_dim;
  double normed[512], q[512], attended[512], gate[512], up[512], add[512];
  double *k = r->keys + ((size_t)layer * TOKENS + (size_t)position) * (size_t)key;
  double *v = r->values + ((size_t)layer * TOKENS + (size_t)position) * (size_t)key;
  oracle_norm(r, x, "attn_norm.weight", layer, normed);
  oracle_multiply(r, "attn_q", layer, query, o->width, normed, q);
  oracle_multiply(r, "attn_k", layer, key, o->width, normed, k);
  oracle_multiply(r, "attn_v", layer, key, o->width, normed, v);
  oracle_rotate(r, q, o->heads, position);
  oracle_rotate(r, k, o->kv_heads, position);
  oracle_round(k, key);
  oracle_round(v, key);
  oracle_attend(r, layer, position, q, attended);
  oracle_multiply(r, "attn_output", layer, o->width, query, attended, add);
  for (int i = 0; i < o->width; i++) x[i] += add[i];
  oracle_norm(r, x, "ffn_norm.weight", layer, normed);
  oracle_multiply(r, "ffn_gate", layer, o->ffn_width, o->width, normed, gate);
  oracle_multiply(r, "ffn_up", layer, o->ffn_width, o->width, normed, up);
  for (int i = 0; i < o->ffn_width; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
  oracle_multiply(r, "ffn_down", layer, o->width, o->ffn_width, gate, add);
  for (int i = 0; i < o->width; i++) x[i] += add[i];
}

static void oracle_step(struct oracle *r, int32_t id, int position, double *logits) {
  double x[512], normed[512];
  double *embedding = fetch(r, "token_embd.weight", -1);
  memcpy(x, embedding + (size_t)id * (size_t)r->o.width, (size_t)r->o.width * sizeof *x);
  for (int l = 0; l < r->o.layers; l++) oracle_layer(r, l, position, x);
  oracle_norm(r, x, "output_norm.weight", -1, normed);
  oracle_multiply(r, r->o.untied ? "output" : "token_embd", -1, r->o.vocabulary, r->o.width, normed,
                  logits);
  free(embedding);
}

static void oracle_open(struct oracle *r, struct str file, const struct test_model_options *o) {
  struct error e;
  r->o = test_model_defaults(o);
  size_t room = (size_t)(r->o.layers * TOKENS * r->o.kv_heads * r->o.head_dim);
  assert_true(model_gguf_open(&r->gguf, file, &e));
  r->keys = calloc(room, sizeof(double));
  r->values = calloc(room, sizeof(double));
}

static void oracle_close(struct oracle *r) {
  model_gguf_clear(&r->gguf);
  free(r->keys);
  free(r->values);
}

// ---- against the oracle

// Root mean square difference of the logits, relative to their own spread.
static double distance(const float *ours, const double *theirs, int count) {
  double difference = 0, spread = 0;
  for (int i = 0; i < count; i++) {
    difference += ((double)ours[i] - theirs[i]) * ((double)ours[i] - theirs[i]);
    spread += theirs[i] * theirs[i];
  }
  return sqrt(difference / spread);
}

static void compare_with_oracle(const struct test_model_options *o, double tolerance) {
  struct fixture f;
  struct oracle r;
  int32_t ids[TOKENS];
  open_fixture(&f, o, 2);
  oracle_open(&r, buffer_str(&f.file), o);
  const int vocabulary = model_config(f.model)->vocabulary;
  const int count = o->head_dim ? 12 : TOKENS / 2;
  float *logits = calloc((size_t)(TOKENS * vocabulary), sizeof *logits);
  double *expected = calloc((size_t)vocabulary, sizeof *expected);
  random_ids(ids, TOKENS, o->seed, vocabulary);
  feed(&f, 0, ids, 0, count, logits);
  for (int p = 0; p < count; p++) {
    oracle_step(&r, ids[p], p, expected);
    double d = distance(logits + p * vocabulary, expected, vocabulary);
    if (!(d <= tolerance)) fail_msg("position %d: distance %g, tolerance %g", p, d, tolerance);
  }
  free(logits);
  free(expected);
  oracle_close(&r);
  close_fixture(&f);
}

// Tolerances: three times or more what is measured, since inputs are rounded to the companion
// format.  A wrong sign, head or scale gives distances near 1.
static const struct {
  enum kernel_dtype dtype;
  double tolerance;
} formats[] = {{KERNEL_F32, 5e-4},  {KERNEL_F16, 6e-3},  {KERNEL_BF16, 0.08},
               {KERNEL_Q8_0, 0.12}, {KERNEL_Q4_0, 0.15}, {KERNEL_Q4_1, 0.12}};

static void every_format_computes_what_the_oracle_does(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(formats); i++) {
    struct test_model_options o = {.seed = 3 + i, .dtype = formats[i].dtype, .untied = i % 2};
    compare_with_oracle(&o, formats[i].tolerance);
  }
}

static const struct test_model_options variants[] = {
    {.seed = 11, .biases = true},
    {.seed = 12, .heads = 8, .kv_heads = 8},
    {.seed = 13, .heads = 6, .kv_heads = 2, .head_dim = 16, .width = 96},
    {.seed = 14, .heads = 2, .kv_heads = 1, .head_dim = 48},
    {.seed = 15, .rope_divisors = true},
    {.seed = 16, .rope_scaling = "linear", .rope_factor = 4},
    {.seed = 17, .rope_scaling = "yarn", .rope_factor = 4, .rope_original = 128, .rope_base = 500},
    {.seed = 18, .rope_scaling = "yarn", .rope_factor = 8, .rope_original = 64, .untied = true},
    {.seed = 18, .rope_scaling = "yarn", .rope_factor = 4, .rope_original = 4096},
    {.seed = 19, .layers = 1},
    {.seed = 20, .layers = 5, .ffn_width = 33, .width = 40, .vocabulary = 301},
};

static void every_variant_computes_what_the_oracle_does(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(variants); i++) compare_with_oracle(&variants[i], 5e-4);
}

// ---- against itself

static const struct test_model_options itself[] = {
    {.seed = 21, .dtype = KERNEL_F32},
    {.seed = 22, .dtype = KERNEL_Q4_1, .untied = true},
    {.seed = 23, .dtype = KERNEL_Q8_0},
    {.seed = 24, .dtype = KERNEL_BF16, .biases = true},
};

static void expect_same_bits(const float *a, const float *b, size_t count, const char *what) {
  for (size_t i = 0; i < count; i++)
    if (memcmp(&a[i], &b[i], sizeof *a) != 0)
      fail_msg("%s: logit %zu is %.9g, alone it is %.9g", what, i, (double)a[i], (double)b[i]);
}

static void chunks_and_threads_change_no_bit(void **state) {
  (void)state;
  static const int cuts[][4] = {{1, 1, 1, 37}, {16, 16, 8, 0}, {7, 26, 5, 2}, {39, 1, 0, 0}};
  for (size_t i = 0; i < COUNT_OF(itself); i++) {
    struct fixture whole, cut;
    int32_t ids[TOKENS];
    open_fixture(&whole, &itself[i], 1);
    open_fixture(&cut, &itself[i], 3);
    const int vocabulary = model_config(whole.model)->vocabulary;
    const size_t all = (size_t)(TOKENS * vocabulary);
    float *expected = calloc(all, sizeof *expected), *got = calloc(all, sizeof *got);
    random_ids(ids, TOKENS, i, vocabulary);
    feed(&whole, 0, ids, 0, TOKENS, expected);
    for (size_t c = 0; c < COUNT_OF(cuts); c++) {
      for (int part = 0, at = 0; part < 4 && cuts[c][part]; at += cuts[c][part++])
        feed(&cut, 1, ids, at, cuts[c][part], got + at * vocabulary);
      expect_same_bits(got, expected, all, "cut prompt");
    }
    free(expected);
    free(got);
    close_fixture(&whole);
    close_fixture(&cut);
  }
}

// Three texts of different lengths in one batch, each with a part already in the cache, and logits
// wanted of some tokens only.
static void company_changes_no_bit(void **state) {
  (void)state;
  static const int before[SEQUENCES] = {0, 5, 20}, now[SEQUENCES] = {9, 1, 17};
  for (size_t i = 0; i < COUNT_OF(itself); i++) {
    struct fixture f;
    int32_t ids[SEQUENCES][TOKENS], flat[TOKENS], positions[TOKENS], outputs[2 * SEQUENCES];
    struct kernel_span spans[SEQUENCES];
    open_fixture(&f, &itself[i], 2);
    const size_t vocabulary = (size_t)model_config(f.model)->vocabulary;
    float *alone = calloc(TOKENS * vocabulary, sizeof *alone);
    float *expected = calloc(2 * SEQUENCES * vocabulary, sizeof *expected);
    float *got = calloc(2 * SEQUENCES * vocabulary, sizeof *got);
    int tokens = 0, wanted = 0;
    for (int s = 0; s < SEQUENCES; s++) {
      random_ids(ids[s], TOKENS, 100 * i + (size_t)s, (int)vocabulary);
      if (before[s]) feed(&f, s, ids[s], 0, before[s], NULL);
      feed(&f, s, ids[s], before[s], now[s], alone);
      spans[s] = (struct kernel_span){tokens, now[s], before[s], f.pages[s]};
      for (int t = 0; t < now[s]; t++) {
        if (t == now[s] - 1 || t == 3) {
          memcpy(expected + (size_t)wanted * vocabulary, alone + (size_t)t * vocabulary,
                 vocabulary * sizeof *alone);
          outputs[wanted++] = tokens;
        }
        flat[tokens] = ids[s][before[s] + t];
        positions[tokens++] = before[s] + t;
      }
    }
    struct model_batch batch = {tokens, flat, positions, spans, SEQUENCES, outputs, wanted};
    model_forward(f.model, &f.cache, &batch, got, f.faults);
    for (int w = 0; w < wanted; w++) assert_int_equal(f.faults[w], -1);
    expect_same_bits(got, expected, (size_t)wanted * vocabulary, "in company");
    free(alone);
    free(expected);
    free(got);
    close_fixture(&f);
  }
}

// A model full of NaN and infinities runs to the end; what it answers is its own affair.
static void weights_that_are_no_numbers_do_no_harm(void **state) {
  (void)state;
  for (int dtype = 0; dtype < KERNEL_DTYPES; dtype++) {
    struct test_model_options o = {.seed = 31, .dtype = (enum kernel_dtype)dtype};
    struct fixture f;
    struct gguf g;
    struct error e;
    int32_t ids[TOKENS];
    open_fixture(&f, &o, 2);
    model_free(f.model);
    assert_true(model_gguf_open(&g, buffer_str(&f.file), &e));
    uint64_t state_of = 1;
    for (size_t t = 0; t < g.tensors.count; t++) {
      char *data = f.file.data + g.tensors.items[t].offset;
      for (uint64_t b = 0; b < g.tensors.items[t].bytes; b++)
        if (random_next(&state_of) % 4 == 0) data[b] = (char)0xff;
    }
    model_gguf_clear(&g);
    f.model = model_open_bytes(buffer_str(&f.file), NULL, "test", NULL, f.kernel, &e);
    assert_non_null(f.model);
    const int vocabulary = model_config(f.model)->vocabulary;
    float *logits = calloc((size_t)(TOKENS * vocabulary), sizeof *logits);
    random_ids(ids, TOKENS, 1, vocabulary);
    feed(&f, 0, ids, 0, TOKENS, logits);
    free(logits);
    close_fixture(&f);
  }
}

// ---- numbers that outgrow f32

// Multiplies a tensor of f32 by `factor`.
static void scale_tensor(struct buffer *file, const char *name, float factor) {
  struct gguf g;
  struct error e;
  assert_true(model_gguf_open(&g, buffer_str(file), &e));
  const struct tensor *t = model_tensor_find(&g.tensors, name);
  assert_non_null(t);
  for (uint64_t i = 0; i < t->elements; i++) {
    char *at = file->data + t->offset + i * sizeof(float);
    float x;
    memcpy(&x, at, sizeof x);
    x *= factor;
    memcpy(at, &x, sizeof x);
  }
  model_gguf_clear(&g);
}

// Each tensor is made huge in a model of its own; the part that overflows first is told, whole
// prompt or cut in two, and its logits are NaN.
static void the_part_that_outgrows_f32_is_named(void **state) {
  (void)state;
  static const struct {
    const char *tensor, *place;
    float factor;
  } cases[] = {
      {"token_embd.weight", "the embedding", 1e30f},
      {"blk.0.attn_output.weight", "the attention of layer 0", 1e30f},
      {"blk.0.attn_q.weight", "the attention of layer 0", 1e38f},
      {"blk.1.attn_v.weight", "the attention of layer 1", 1e10f},  // beyond f16 in the cache
      {"blk.0.ffn_down.weight", "the feed-forward part of layer 0", 1e30f},
      {"blk.1.ffn_down.weight", "the feed-forward part of layer 1", 1e30f},
      {"blk.2.ffn_up.weight", "the feed-forward part of layer 2", 1e35f},
      {"blk.1.attn_norm.weight", "the attention of layer 1", 1e30f},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct test_model_options o = {.seed = 61, .layers = 3, .untied = true};
    struct fixture f;
    struct error e = {0};
    int32_t ids[TOKENS];
    char place[MODEL_PLACE_TEXT];
    open_fixture(&f, &o, 2);
    model_free(f.model);
    scale_tensor(&f.file, cases[i].tensor, cases[i].factor);
    f.model = model_open_bytes(buffer_str(&f.file), NULL, "test", NULL, f.kernel, &e);
    if (!f.model) fail_msg("%s", e.text);
    const int vocabulary = model_config(f.model)->vocabulary;
    float *logits = calloc((size_t)(TOKENS * vocabulary), sizeof *logits);
    random_ids(ids, TOKENS, 1, vocabulary);
    feed(&f, 0, ids, 0, 9, logits);
    feed(&f, 0, ids, 9, 3, logits + 9 * vocabulary);
    for (int t = 0; t < 3; t++) {
      if (f.faults[t] < 0) fail_msg("%s times %g is not noticed", cases[i].tensor, 1e30);
      model_place_print(f.faults[t], place);
      assert_string_equal(place, cases[i].place);
      assert_true(isnan(logits[(9 + t) * vocabulary]));
    }
    free(logits);
    close_fixture(&f);
  }
}

// ---- the file is not needed any more

static void nothing_of_the_file_is_needed_after_loading(void **state) {
  (void)state;
  for (int dtype = 0; dtype < KERNEL_DTYPES; dtype++) {
    struct test_model_options o = {.seed = 71,
                                   .dtype = (enum kernel_dtype)dtype,
                                   .untied = dtype % 2,
                                   .biases = true,
                                   .rope_divisors = true,
                                   .chat_template = "{{ messages }}"};
    struct fixture f;
    int32_t ids[TOKENS];
    open_fixture(&f, &o, 2);
    const int vocabulary = model_config(f.model)->vocabulary;
    const size_t all = (size_t)(TOKENS * vocabulary);
    float *expected = calloc(all, sizeof *expected), *got = calloc(all, sizeof *got);
    random_ids(ids, TOKENS, 1, vocabulary);
    feed(&f, 0, ids, 0, TOKENS, expected);
    struct str first = tokenizer_bytes(model_tokenizer(f.model), 100);
    char before[16] = {0};
    memcpy(before, first.data, first.length < 16 ? first.length : 15);
    memset(f.file.data, 0xa5, f.file.length);
    feed(&f, 0, ids, 0, TOKENS, got);
    expect_same_bits(got, expected, all, "without its file");
    assert_true(str_equal(model_chat_template(f.model), STR("{{ messages }}")));
    assert_memory_equal(tokenizer_bytes(model_tokenizer(f.model), 100).data, before, first.length);
    free(expected);
    free(got);
    close_fixture(&f);
  }
}

// A world in which another program cuts the file to `size` bytes just after it was mapped.
struct cutting_world {
  struct world world;
  struct world_calls calls;
  const char *path;
  uint64_t size;
};
static int cutting_map(void *context, int handle, size_t size, const uint8_t **data) {
  const struct cutting_world *w = context;
  int result = world_real()->calls->map(world_real()->context, handle, size, data);
  assert_int_equal(truncate(w->path, (off_t)w->size), 0);
  return result;
}

static void a_file_that_is_cut_short_while_it_is_read_is_an_error(void **state) {
  (void)state;
  struct test_model_options o = {.seed = 72, .layers = 3, .dtype = KERNEL_Q8_0};
  struct fixture f;
  char path[64];
  open_fixture(&f, &o, 2);
  snprintf(path, sizeof path, "/tmp/motley-test-cut.%ld.gguf", (long)getpid());
  const uint64_t whole = f.file.length;
  const uint64_t sizes[] = {0, 1, 4096, whole / 2, whole - 4096, whole - 1};
  struct cutting_world w = {.calls = *world_real()->calls, .path = path};
  w.world = (struct world){&w.calls, &w};
  w.calls.map = cutting_map;
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (int check = 0; check < 2; check++) {
      struct error e = {0};
      struct model_options options = {.world = &w.world};
      uint64_t before = device_usage_of(f.device).allocations;
      w.size = sizes[i];
      assert_true(test_model_write(path, &o));
      if (check)
        assert_false(model_check(path, &options, &e));
      else
        assert_null(model_open(path, &options, f.kernel, &e));
      assert_int_equal(e.kind, ERROR_SYSTEM);
      assert_non_null(strstr(e.text, "cut short"));
      assert_int_equal(strncmp(e.text, path, strlen(path)) == 0, !check);
      assert_true(device_usage_of(f.device).allocations <= before + 1);  // the chunk being filled
    }
  w.size = whole;
  struct error e = {0};
  assert_true(test_model_write(path, &o));
  assert_true(model_check(path, &(struct model_options){.world = &w.world}, &e));
  unlink(path);
  close_fixture(&f);
}

// The address sanitizer's door to allocation counting; absent from other builds.
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                              void (*)(const volatile void *))
    __attribute__((weak));

static int allocations;  // counted by the hook, which gets no context
static void count_allocation(const volatile void *block, size_t size) {
  (void)block, (void)size;
  __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}
static void ignore_release(const volatile void *block) { (void)block; }

static void a_forward_pass_allocates_nothing(void **state) {
  (void)state;
  if (!__sanitizer_install_malloc_and_free_hooks) skip();
  struct test_model_options o = {.seed = 35, .dtype = KERNEL_Q4_1, .biases = true};
  struct fixture f;
  int32_t ids[TOKENS];
  open_fixture(&f, &o, 2);
  const int vocabulary = model_config(f.model)->vocabulary;
  float *logits = calloc((size_t)(TOKENS * vocabulary), sizeof *logits);
  random_ids(ids, TOKENS, 1, vocabulary);
  assert_true(__sanitizer_install_malloc_and_free_hooks(count_allocation, ignore_release));
  memory_free(memory_new(1));
  assert_int_equal(allocations, 1);  // the counter counts
  feed(&f, 0, ids, 0, 24, logits);
  feed(&f, 0, ids, 24, 1, logits);
  assert_int_equal(allocations, 1);
  free(logits);
  close_fixture(&f);
}

static void the_config_says_what_the_file_holds(void **state) {
  (void)state;
  struct test_model_options o = {
      .seed = 41, .dtype = KERNEL_Q8_0, .untied = true, .chat_template = "{{ messages }}"};
  struct fixture f;
  open_fixture(&f, &o, 1);
  const struct model_config *c = model_config(f.model);
  assert_string_equal(c->architecture, "llama");
  assert_string_equal(c->name, "test model");
  assert_string_equal(c->types, "Q8_0 x16, F32 x5");
  assert_int_equal(c->layers, 2);
  assert_int_equal(c->head_dim, 16);
  assert_int_equal(c->vocabulary, 320);
  assert_int_equal(c->context, 256);
  const int matrices = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96;
  assert_int_equal(c->parameters, 2 * 320 * 64 + 2 * (matrices + 2 * 64) + 64);
  assert_int_equal(c->file_bytes, f.file.length);
  assert_true(str_equal(model_chat_template(f.model), STR("{{ messages }}")));
  assert_int_equal(tokenizer_count(model_tokenizer(f.model)), 320);
  close_fixture(&f);
}

// The same file by path: mapped, its pages given back, and running alike.
static void a_mapped_file_runs_like_one_in_memory(void **state) {
  (void)state;
  struct test_model_options o = {.seed = 51, .dtype = KERNEL_F16};
  struct fixture f;
  struct error e = {0};
  char path[64];
  int32_t ids[TOKENS];
  open_fixture(&f, &o, 1);
  const int vocabulary = model_config(f.model)->vocabulary;
  float *expected = calloc((size_t)(TOKENS * vocabulary), sizeof *expected);
  float *got = calloc((size_t)(TOKENS * vocabulary), sizeof *got);
  random_ids(ids, TOKENS, 1, vocabulary);
  feed(&f, 0, ids, 0, TOKENS, expected);
  model_free(f.model);
  snprintf(path, sizeof path, "/tmp/motley-test-llama.%ld.gguf", (long)getpid());
  assert_true(test_model_write(path, &o));
  f.model = model_open(path, NULL, f.kernel, &e);
  unlink(path);
  if (!f.model) fail_msg("%s", e.text);
  feed(&f, 0, ids, 0, TOKENS, got);
  expect_same_bits(got, expected, (size_t)(TOKENS * vocabulary), "mapped");
  assert_null(model_open("/no/such/model.gguf", NULL, f.kernel, &e));
  assert_int_equal(e.kind, ERROR_MISSING);
  free(expected);
  free(got);
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_format_computes_what_the_oracle_does),
      cmocka_unit_test(every_variant_computes_what_the_oracle_does),
      cmocka_unit_test(chunks_and_threads_change_no_bit),
      cmocka_unit_test(company_changes_no_bit),
      cmocka_unit_test(weights_that_are_no_numbers_do_no_harm),
      cmocka_unit_test(the_part_that_outgrows_f32_is_named),
      cmocka_unit_test(nothing_of_the_file_is_needed_after_loading),
      cmocka_unit_test(a_file_that_is_cut_short_while_it_is_read_is_an_error),
      cmocka_unit_test(a_forward_pass_allocates_nothing),
      cmocka_unit_test(the_config_says_what_the_file_holds),
      cmocka_unit_test(a_mapped_file_runs_like_one_in_memory),
  };
  return cmocka_run_group_tests_name("llama", tests, NULL, NULL);
}
