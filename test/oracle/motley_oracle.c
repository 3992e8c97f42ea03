// SPDX-License-Identifier: Apache-2.0
//
// motley_oracle.c: Motley's answers in the words of protocol.h, through model_forward with a cache
// of its own.
//   motley_oracle MODEL THREADS [isa]

#include "protocol.h"

#include "model/model.h"

#define POSITIONS_MAX 2560

struct subject {
  struct model *model;
  struct kernel_cache cache;
  int32_t pages[POSITIONS_MAX / KERNEL_PAGE_TOKENS + 1];
  float *logits;  // [MODEL_BATCH_MAX, vocabulary]
};

static void open_cache(struct subject *s) {
  const struct model_config *c = model_config(s->model);
  struct kernel_cache *cache = &s->cache;
  *cache =
      (struct kernel_cache){.layers = c->layers,
                            .kv_heads = c->kv_heads,
                            .head_dim = c->head_dim,
                            .pages = POSITIONS_MAX / KERNEL_PAGE_TOKENS + 1,
                            .page_bytes = kernel_page_bytes(c->layers, c->kv_heads, c->head_dim)};
  struct error e;
  cache->base = memory_try_big(cache->page_bytes * (size_t)cache->pages, "the cache", &e);
  for (int i = 0; i < cache->pages; i++)
    s->pages[i] = cache->pages - 1 - i;  // not in order, on purpose
  s->logits = memory_new((size_t)MODEL_BATCH_MAX * (size_t)c->vocabulary * sizeof(float));
}

// Feeds up to MODEL_BATCH_MAX ids; logits of all of them when `all`, else of the last, in
// s->logits.
static void feed(struct subject *s, const int32_t *ids, int count, int position, int all) {
  int32_t positions[MODEL_BATCH_MAX], outputs[MODEL_BATCH_MAX];
  int faults[MODEL_BATCH_MAX];
  for (int i = 0; i < count; i++) positions[i] = position + i, outputs[i] = all ? i : count - 1;
  struct kernel_span span = {.first = 0, .count = count, .position = position, .pages = s->pages};
  struct model_batch batch = {.tokens = count,
                              .ids = ids,
                              .positions = positions,
                              .spans = &span,
                              .span_count = 1,
                              .outputs = outputs,
                              .output_count = all ? count : 1};
  model_forward(s->model, &s->cache, &batch, s->logits, faults);
}

static void greedy(struct subject *s, char *line) {
  int32_t ids[PROTOCOL_TOKENS_MAX] = {0};
  char *rest;
  int steps = (int)strtol(line, &rest, 10), vocabulary = model_config(s->model)->vocabulary;
  int count = protocol_ids(rest, ids);
  for (int at = 0, n; at < count; at += n) {
    n = count - at < MODEL_BATCH_MAX ? count - at : MODEL_BATCH_MAX;
    feed(s, ids + at, n, at, 0);
  }
  for (int i = 0; i < steps; i++) {
    struct top2 t = protocol_top2(s->logits, vocabulary);
    printf(" %d:%.6f/%d:%.6f", t.id[0], t.logit[0], t.id[1], t.logit[1]);
    if (i + 1 < steps) feed(s, &t.id[0], 1, count + i, 0);
  }
  printf("\n");
}

static void nll(struct subject *s, char *line) {
  int32_t ids[PROTOCOL_TOKENS_MAX] = {0};
  int count = protocol_ids(line, ids), from = count / 2,
      vocabulary = model_config(s->model)->vocabulary;
  double sum = 0;
  for (int at = 0, n; at < count; at += n) {
    n = count - at < MODEL_BATCH_MAX ? count - at : MODEL_BATCH_MAX;
    feed(s, ids + at, n, at, 1);
    for (int i = at < from ? from - at : 0; i < n && at + i + 1 < count; i++)
      sum += protocol_nll(s->logits + (size_t)i * (size_t)vocabulary, vocabulary, ids[at + i + 1]);
  }
  printf("%.9f %d\n", sum, count - 1 - from);
}

static void text(struct subject *s, char *line) {
  size_t length = strtoul(line, NULL, 10);
  char *bytes = malloc(length + 2);
  struct token_list ids = {0};
  if (fread(bytes, 1, length + 1, stdin) != length + 1) exit(1);
  tokenizer_encode(model_tokenizer(s->model), (struct str){bytes, length}, true, true, &ids);
  for (size_t i = 0; i < ids.count; i++) printf(" %d", ids.ids[i]);
  printf("\n");
  token_list_clear(&ids);
  free(bytes);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  struct error e = {0};
  enum kernel_isa isa = KERNEL_ISA_AUTO;
  if (argc > 3) kernel_isa_parse(str_of(argv[3]), &isa);
  struct subject s = {0};
  struct device *device = device_open("cpu", &(struct device_options){atoi(argv[2])}, &e);
  struct kernel_context *kernel = device ? kernel_context_new(device, isa, &e) : NULL;
  s.model = kernel ? model_open(argv[1], NULL, kernel, &e) : NULL;
  if (!s.model || !kernel_context_reserve(kernel, MODEL_BATCH_MAX, model_config(s.model)->ffn_width,
                                          POSITIONS_MAX, &e)) {
    fprintf(stderr, "motley_oracle: %s\n", e.text);
    return 1;
  }
  open_cache(&s);
  static char line[1 << 20];
  while (fgets(line, sizeof line, stdin)) {
    if (strncmp(line, "greedy ", 7) == 0)
      greedy(&s, line + 7);
    else if (strncmp(line, "nll ", 4) == 0)
      nll(&s, line + 4);
    else if (strncmp(line, "text ", 5) == 0)
      text(&s, line + 5);
    fflush(stdout);
  }
  return 0;
}
