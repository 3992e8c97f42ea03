// SPDX-License-Identifier: Apache-2.0
//
// kernels.c: how fast the kernels are here: products of every weight type at some batch sizes, and
// the kernels of a whole SmolLM2-135M forward pass in the order a model calls them.
//
//   kernels [threads [isa [product|model]]]
//
// A product is timed over enough different matrices that they do not stay in cache.  Weights are
// rubbish; the time does not depend on them.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/kernel.h"

#define STREAM_BYTES (256u << 20)  // of matrices, far beyond the last-level cache
#define MATRICES_MAX 64
#define REPEATS 6  // the best counts

// One thread is timed by its processor time, which others on the machine disturb less.
static double seconds(bool alone) {
  struct timespec now;
  clock_gettime(alone ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *floats(int64_t n) {
  float *x = memory_new((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = sinf((float)(i % 10007)) * 0.5f;
  return x;
}

// A matrix whose scales are small numbers, so that nothing overflows.
static struct kernel_weight matrix(struct kernel_context *k, enum kernel_dtype t, int64_t rows,
                                   int64_t columns) {
  size_t bytes = (size_t)rows * kernel_row_bytes(t, columns);
  uint8_t *source = memory_new(bytes);
  for (size_t i = 0; i < bytes; i++) source[i] = (uint8_t)(i % 2 ? 0x20 : i * 37);
  struct kernel_weight w;
  struct error e;
  if (!kernel_weight_pack(k, t, rows, columns, source, &w, &e)) {
    fprintf(stderr, "%s\n", e.text);
    exit(1);
  }
  memory_free(source);
  return w;
}

static void time_product(struct kernel_context *k, bool alone, enum kernel_dtype t, int64_t rows,
                         int64_t columns, int tokens) {
  struct kernel_weight w[MATRICES_MAX];
  float *x = floats(tokens * columns), *y = floats(tokens * rows);
  int count = 1;
  w[0] = matrix(k, t, rows, columns);
  if (tokens < 128)
    while (count < MATRICES_MAX && (size_t)count * w[0].packed_bytes < STREAM_BYTES)
      w[count++] = matrix(k, t, rows, columns);
  double best = 1e9;
  for (int i = 0; i < REPEATS * count; i++) {
    double start = seconds(alone);
    kernel_matmul(k, &(const struct kernel_weight *){&w[i % count]}, 1, x, tokens, &y);
    double time = seconds(alone) - start;
    if (time < best) best = time;
  }
  printf("%-5s %5lld x %5lld, %3d tokens: %8.1f us %7.1f GOP/s %6.1f GB/s\n", kernel_dtype_name(t),
         (long long)rows, (long long)columns, tokens, best * 1e6,
         2e-9 * (double)(rows * columns * tokens) / best, 1e-9 * (double)w[0].packed_bytes / best);
  for (int i = 0; i < count; i++) kernel_weight_clear(&w[i]);
  memory_free(x);
  memory_free(y);
}

static void time_products(struct kernel_context *k, bool alone) {
  static const int tokens[] = {1, 4, 8, 16, 24, 128};
  for (int t = 0; t < KERNEL_DTYPES; t++)
    for (size_t n = 0; n < COUNT_OF(tokens); n++) time_product(k, alone, t, 5632, 2048, tokens[n]);
}

// ---- a model

enum {
  WIDTH = 576,
  FFN = 1536,
  HEADS = 9,
  KV_HEADS = 3,
  HEAD = 64,
  LAYERS = 30,
  VOCABULARY = 49152
};
enum part { NORM, QKV, ROPE, STORE, ATTENTION, OUTPUT, ADD, GATE_UP, SILU, DOWN, LOGITS, PARTS };
static const char *const part_names[] = {"norm", "qkv",     "rope", "store", "attention", "output",
                                         "add",  "gate+up", "silu", "down",  "logits"};

struct model {
  bool alone;
  struct kernel_context *k;
  struct kernel_weight q[LAYERS], key[LAYERS], v[LAYERS], o[LAYERS];
  struct kernel_weight gate[LAYERS], up[LAYERS], down[LAYERS], logits;
  struct kernel_cache cache;
  int32_t pages[256], positions[4096];
  float *x, *h, *qs, *ks, *vs, *a, *g, *u, *out, *norm, *frequency;
  int marks;  // of this step so far
  struct {
    enum part part;
    double best;  // seconds, over all steps
  } mark[LAYERS * 12 + 1];
  double last;
};

// The time since the last mark belongs to part p.  Each mark keeps its best time, so that a step
// that somebody else interrupted does not count.
static void mark(struct model *m, enum part p) {
  double now = seconds(m->alone), time = now - m->last;
  int i = m->marks++;
  if (m->mark[i].best == 0 || time < m->mark[i].best) m->mark[i].best = time;
  m->mark[i].part = p;
  m->last = seconds(m->alone);
}

static struct model *make_model(struct kernel_context *k, int tokens) {
  struct model *m = memory_new(sizeof *m);
  m->k = k;
  for (int l = 0; l < LAYERS; l++) {
    m->q[l] = matrix(k, KERNEL_Q4_1, WIDTH, WIDTH);
    m->key[l] = matrix(k, KERNEL_Q4_1, KV_HEADS * HEAD, WIDTH);
    m->v[l] = matrix(k, KERNEL_Q4_1, KV_HEADS * HEAD, WIDTH);
    m->o[l] = matrix(k, KERNEL_Q4_1, WIDTH, WIDTH);
    m->gate[l] = matrix(k, KERNEL_Q4_1, FFN, WIDTH);
    m->up[l] = matrix(k, KERNEL_Q4_1, FFN, WIDTH);
    m->down[l] = matrix(k, KERNEL_Q4_1, WIDTH, FFN);
  }
  m->logits = matrix(k, KERNEL_Q8_0, VOCABULARY, WIDTH);
  m->cache = (struct kernel_cache){LAYERS, KV_HEADS, HEAD, 256, 0, NULL};
  m->cache.page_bytes = kernel_page_bytes(LAYERS, KV_HEADS, HEAD);
  m->cache.base = memory_try_big(256 * m->cache.page_bytes, "bench", NULL);
  for (int i = 0; i < 256; i++) m->pages[i] = i;
  for (int i = 0; i < 4096; i++) m->positions[i] = i;
  int64_t n = tokens;
  m->x = floats(n * WIDTH), m->h = floats(n * WIDTH), m->qs = floats(n * WIDTH);
  m->ks = floats(n * KV_HEADS * HEAD), m->vs = floats(n * KV_HEADS * HEAD);
  m->a = floats(n * WIDTH), m->g = floats(n * FFN), m->u = floats(n * FFN);
  m->out = floats(VOCABULARY), m->norm = floats(WIDTH), m->frequency = floats(HEAD / 2);
  return m;
}

static void attention_half(struct model *m, int l, int tokens, int position) {
  struct kernel_span span = {0, tokens, position, m->pages};
  struct kernel_rope rope = {HEAD, m->frequency, 1};
  const struct kernel_weight *qkv[] = {&m->q[l], &m->key[l], &m->v[l]}, *o = &m->o[l];
  kernel_rms_norm(m->k, m->x, m->norm, 1e-5f, tokens, WIDTH, m->h);
  mark(m, NORM);
  kernel_matmul(m->k, qkv, 3, m->h, tokens, (float *[]){m->qs, m->ks, m->vs});
  mark(m, QKV);
  kernel_rope_apply(m->k, &rope, m->positions + position, tokens, HEADS, HEAD, m->qs);
  kernel_rope_apply(m->k, &rope, m->positions + position, tokens, KV_HEADS, HEAD, m->ks);
  mark(m, ROPE);
  kernel_cache_store(m->k, &m->cache, l, &span, 1, m->ks, m->vs);
  mark(m, STORE);
  kernel_attention(m->k, &m->cache, l, &span, 1, m->qs, HEADS, 0.125f, m->a);
  mark(m, ATTENTION);
  kernel_matmul(m->k, &o, 1, m->a, tokens, &m->h);
  mark(m, OUTPUT);
  kernel_add(m->k, m->x, m->h, (int64_t)tokens * WIDTH);
  mark(m, ADD);
}

static void ffn_half(struct model *m, int l, int tokens) {
  const struct kernel_weight *gate_up[] = {&m->gate[l], &m->up[l]}, *down = &m->down[l];
  kernel_rms_norm(m->k, m->x, m->norm, 1e-5f, tokens, WIDTH, m->h);
  mark(m, NORM);
  kernel_matmul(m->k, gate_up, 2, m->h, tokens, (float *[]){m->g, m->u});
  mark(m, GATE_UP);
  kernel_silu_multiply(m->k, m->g, m->u, (int64_t)tokens * FFN);
  mark(m, SILU);
  kernel_matmul(m->k, &down, 1, m->g, tokens, &m->h);
  mark(m, DOWN);
  kernel_add(m->k, m->x, m->h, (int64_t)tokens * WIDTH);
  mark(m, ADD);
}

static void forward(struct model *m, int tokens, int position) {
  const struct kernel_weight *logits = &m->logits;
  m->marks = 0;
  m->last = seconds(m->alone);
  for (int l = 0; l < LAYERS; l++) {
    attention_half(m, l, tokens, position);
    ffn_half(m, l, tokens);
  }
  kernel_matmul(m->k, &logits, 1, m->x, 1, &m->out);
  mark(m, LOGITS);
  for (int i = 0; i < tokens * WIDTH; i++) m->x[i] = m->norm[i % WIDTH];
}

static void report(struct model *m, const char *what, int tokens) {
  double total = 0, part[PARTS] = {0};
  for (int i = 0; i < m->marks; i++) {
    total += m->mark[i].best;
    part[m->mark[i].part] += m->mark[i].best;
  }
  printf("%s: %.3f ms a step, %.1f tok/s:", what, total * 1e3, tokens / total);
  for (int p = 0; p < PARTS; p++) printf(" %s %.3f", part_names[p], part[p] * 1e3);
  printf("\n");
  memset(m->mark, 0, sizeof m->mark);
}

static void time_model(struct kernel_context *k, bool alone) {
  struct model *m = make_model(k, 512);
  m->alone = alone;
  kernel_context_reserve(k, 512, FFN, 4096, NULL);
  forward(m, 512, 0);
  for (int i = 0; i < 5; i++) forward(m, 512, 0);
  report(m, "prefill 512", 512);
  for (int i = 0; i < 64; i++) forward(m, 1, 512 + i);
  report(m, "decode at 512", 1);
  for (int i = 0; i < 32; i++) forward(m, 1, 4000 + i);
  report(m, "decode at 4000", 1);
  for (int i = 0; i < 32; i++) forward(m, 8, 100);
  report(m, "8 tokens", 8);
}

int main(int argc, char **argv) {
  struct error e;
  enum kernel_isa isa = KERNEL_ISA_AUTO;
  if (argc > 2 && !kernel_isa_parse(str_of(argv[2]), &isa)) return 1;
  struct device *device =
      device_open("cpu", &(struct device_options){argc > 1 ? atoi(argv[1]) : 2}, &e);
  struct kernel_context *k = device ? kernel_context_new(device, isa, &e) : NULL;
  if (!k) {
    fprintf(stderr, "%s\n", e.text);
    return 1;
  }
  if (argc < 4 || !strcmp(argv[3], "product")) time_products(k, device_team_size(device) == 1);
  if (argc < 4 || !strcmp(argv[3], "model")) time_model(k, device_team_size(device) == 1);
  return 0;
}
