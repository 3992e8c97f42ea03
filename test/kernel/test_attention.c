// SPDX-License-Identifier: Apache-2.0
//
// test_attention.c: the paged cache and causal attention against a naive double-precision oracle.
//
// The oracle keeps keys and values as plain arrays and knows nothing of pages, segments or tiles.
// Pages of a sequence are scattered over the cache, and every slot that no token was stored to
// holds NaN, so a read behind a token's position shows.  Chunks, batches and threads are compared
// to the bit.

#include <math.h>

#include "base/number.h"
#include "base/world.h"
#include "kernel/kernel.h"
#include "support/check.h"

#define LAYERS 2
#define LAYER 1
#define PAGES 64

struct shape {
  int heads, kv_heads, head_dim;
};

struct fixture {
  struct device *device;
  struct kernel_context *kernel;
  struct shape shape;
  struct kernel_cache cache;
};

// One sequence: its inputs, and where its pages are.
struct sequence {
  int length;
  float *q, *k, *v;  // [length][heads or kv_heads][head_dim]
  int32_t pages[PAGES];
};

static struct fixture open_kernel(int threads, enum kernel_isa isa, struct shape s) {
  struct fixture f = {device_open("cpu", &(struct device_options){threads}, NULL),
                      NULL,
                      s,
                      {LAYERS, s.kv_heads, s.head_dim, PAGES, 0, 0}};
  f.kernel = kernel_context_new(f.device, isa, NULL);
  f.cache.page_bytes = kernel_page_bytes(LAYERS, s.kv_heads, s.head_dim);
  f.cache.base = memory_try_big(PAGES * f.cache.page_bytes, "test", NULL);
  memset(f.cache.base, 0x7F, PAGES * f.cache.page_bytes);  // 0x7F7F is NaN
  return f;
}

static void close_kernel(struct fixture *f) {
  kernel_context_free(f->kernel);
  device_close(f->device);
  memory_free_big(f->cache.base, PAGES * f->cache.page_bytes);
}

static float *random_floats(int64_t n, uint64_t seed) {
  float *x = memory_new((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)((double)(random_next(&seed) >> 11) / (1ull << 52) - 1) * 2;
  return x;
}

// Sequence `number` of a cache takes every third page, from another place for each number.
static struct sequence make_sequence(struct shape s, int length, int number) {
  uint64_t seed = (uint64_t)(number * 1000 + s.heads);
  struct sequence q = {.length = length,
                       .q = random_floats((int64_t)length * s.heads * s.head_dim, seed + 1),
                       .k = random_floats((int64_t)length * s.kv_heads * s.head_dim, seed + 2),
                       .v = random_floats((int64_t)length * s.kv_heads * s.head_dim, seed + 3)};
  for (int p = 0; p < PAGES; p++) q.pages[p] = (p * 3 + number) % PAGES;
  return q;
}

static void free_sequence(struct sequence *s) {
  memory_free(s->q);
  memory_free(s->k);
  memory_free(s->v);
}

static double rounded(float x) { return number_f16_to_f32(number_f32_to_f16(x)); }

// out[head_dim] of one token and head.
static void oracle(struct shape s, const struct sequence *q, int token, int head, double *out) {
  int kv = head / (s.heads / s.kv_heads);
  double scores[PAGES * KERNEL_PAGE_TOKENS], largest = -INFINITY, sum = 0;
  for (int j = 0; j <= token; j++) {
    scores[j] = 0;
    for (int d = 0; d < s.head_dim; d++)
      scores[j] += (double)q->q[(token * s.heads + head) * s.head_dim + d] *
                   rounded(q->k[(j * s.kv_heads + kv) * s.head_dim + d]);
    scores[j] /= sqrt(s.head_dim);
    largest = fmax(largest, scores[j]);
  }
  for (int d = 0; d < s.head_dim; d++) out[d] = 0;
  for (int j = 0; j <= token; j++) {
    double p = exp(scores[j] - largest);
    sum += p;
    for (int d = 0; d < s.head_dim; d++)
      out[d] += p * rounded(q->v[(j * s.kv_heads + kv) * s.head_dim + d]);
  }
  for (int d = 0; d < s.head_dim; d++) out[d] /= sum;
}

// Tokens [from, from + count) of each sequence in one batch; out goes to each sequence's own array.
static void run_batch(struct fixture *f, const struct sequence *s, int sequences, const int *from,
                      const int *count, float *const *out) {
  struct kernel_span spans[8];
  int64_t kv = (int64_t)f->shape.kv_heads * f->shape.head_dim;
  int64_t qs = (int64_t)f->shape.heads * f->shape.head_dim;
  int tokens = 0;
  for (int i = 0; i < sequences; i++) {
    spans[i] = (struct kernel_span){tokens, count[i], from[i], s[i].pages};
    tokens += count[i];
  }
  float *q = memory_new((size_t)(tokens * qs) * 4), *o = memory_new((size_t)(tokens * qs) * 4);
  float *k = memory_new((size_t)(tokens * kv) * 4), *v = memory_new((size_t)(tokens * kv) * 4);
  for (int i = 0; i < sequences; i++) {
    memcpy(q + spans[i].first * qs, s[i].q + from[i] * qs, (size_t)(count[i] * qs) * 4);
    memcpy(k + spans[i].first * kv, s[i].k + from[i] * kv, (size_t)(count[i] * kv) * 4);
    memcpy(v + spans[i].first * kv, s[i].v + from[i] * kv, (size_t)(count[i] * kv) * 4);
  }
  kernel_cache_store(f->kernel, &f->cache, LAYER, spans, sequences, k, v);
  kernel_attention(f->kernel, &f->cache, LAYER, spans, sequences, q, f->shape.heads,
                   1 / sqrtf((float)f->shape.head_dim), o);
  for (int i = 0; i < sequences; i++)
    memcpy(out[i] + from[i] * qs, o + spans[i].first * qs, (size_t)(count[i] * qs) * 4);
  memory_free(q);
  memory_free(k);
  memory_free(v);
  memory_free(o);
}

// A sequence alone, `chunk` tokens at a time.
static float *run_chunks(struct fixture *f, const struct sequence *s, int chunk) {
  float *out = memory_new((size_t)s->length * (size_t)(f->shape.heads * f->shape.head_dim) * 4);
  for (int at = 0; at < s->length; at += chunk) {
    int count = s->length - at < chunk ? s->length - at : chunk;
    run_batch(f, s, 1, &at, &count, &out);
  }
  return out;
}

static void check_against_oracle(struct fixture *f, const struct sequence *s, const float *out) {
  double want[256];
  for (int t = 0; t < s->length; t += t % 16 < 14 ? 13 : 1)
    for (int h = 0; h < f->shape.heads; h++) {
      oracle(f->shape, s, t, h, want);
      for (int d = 0; d < f->shape.head_dim; d++) {
        double got = (double)out[(t * f->shape.heads + h) * f->shape.head_dim + d];
        if (!(fabs(got - want[d]) < 2e-6 * (1 + fabs(want[d]))))
          fail_msg("%s heads %d/%d of %d: token %d head %d [%d]: %.9g, want %.9g",
                   kernel_isa_name(kernel_context_isa(f->kernel)), f->shape.heads,
                   f->shape.kv_heads, f->shape.head_dim, t, h, d, got, want[d]);
      }
    }
}

static const enum kernel_isa isas[] = {KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512};
static const struct shape shapes[] = {{9, 3, 64}, {4, 4, 8}, {8, 1, 80}, {14, 1, 16}, {2, 1, 100}};

static void test_attention_is_right_in_any_chunks(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(isas); i++)
    for (size_t n = 0; n < COUNT_OF(shapes); n++) {
      struct fixture f = open_kernel(2, isas[i], shapes[n]);
      if (f.kernel) {
        struct sequence s = make_sequence(shapes[n], n ? 290 : 530, 0);
        float *whole = run_chunks(&f, &s, s.length);
        check_against_oracle(&f, &s, whole);
        static const int chunks[] = {97, 5, 256, 16, 1};
        for (size_t c = 0; c < (n ? 2 : COUNT_OF(chunks)); c++) {
          memset(f.cache.base, 0x7F, PAGES * f.cache.page_bytes);
          float *cut = run_chunks(&f, &s, chunks[c]);
          assert_memory_equal(cut, whole,
                              (size_t)s.length * (size_t)(f.shape.heads * f.shape.head_dim) * 4);
          memory_free(cut);
        }
        memory_free(whole);
        free_sequence(&s);
      }
      close_kernel(&f);
    }
}

// Three sequences of different lengths: each alone, then together in mixed spans, 1 to 4 threads.
static void test_batch_and_threads_change_no_bit(void **state) {
  (void)state;
  static const int lengths[] = {300, 41, 1};
  struct shape shape = {6, 2, 64};
  size_t bytes = 300u * 6 * 64 * 4;
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct sequence s[3];
    float *alone[3];
    for (int n = 0; n < 3; n++) s[n] = make_sequence(shape, lengths[n], n);
    for (int threads = 1; threads <= 4; threads++) {
      struct fixture f = open_kernel(threads, isas[i], shape);
      if (f.kernel && threads == 1)
        for (int n = 0; n < 3; n++) alone[n] = run_chunks(&f, &s[n], lengths[n]);
      if (f.kernel) {
        float *out[3];
        for (int n = 0; n < 3; n++) out[n] = memory_new(bytes);
        memset(f.cache.base, 0x7F, PAGES * f.cache.page_bytes);
        run_batch(&f, s, 2, (int[]){0, 0}, (int[]){299, 17}, out);
        run_batch(&f, s, 3, (int[]){299, 17, 0}, (int[]){1, 24, 1}, out);
        for (int n = 0; n < 3; n++) {
          assert_memory_equal(out[n], alone[n], (size_t)lengths[n] * 6 * 64 * 4);
          memory_free(out[n]);
        }
      }
      if (f.kernel && threads == 4)
        for (int n = 0; n < 3; n++) memory_free(alone[n]);
      close_kernel(&f);
    }
    for (int n = 0; n < 3; n++) free_sequence(&s[n]);
  }
}

// Decoding is cut at segments when there are threads to feed; that must show nowhere.
static void test_decoding_at_long_context_on_many_threads(void **state) {
  (void)state;
  struct shape shape = {3, 1, 32};
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct sequence s = make_sequence(shape, 1000, 5);
    float *first = NULL;
    for (int threads = 1; threads <= 4; threads++) {
      struct fixture f = open_kernel(threads, isas[i], shape);
      if (f.kernel) {
        float *out = memory_new(1000u * 3 * 32 * 4);
        run_batch(&f, &s, 1, (int[]){0}, (int[]){999}, &out);
        run_batch(&f, &s, 1, (int[]){999}, (int[]){1}, &out);
        if (!first) first = out;
        assert_memory_equal(out, first, 1000u * 3 * 32 * 4);
        if (threads == 1) check_against_oracle(&f, &s, out);
        if (out != first) memory_free(out);
      }
      close_kernel(&f);
    }
    memory_free(first);
    free_sequence(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attention_is_right_in_any_chunks),
      cmocka_unit_test(test_batch_and_threads_change_no_bit),
      cmocka_unit_test(test_decoding_at_long_context_on_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
