// SPDX-License-Identifier: Apache-2.0
//
// llama_oracle.c: llama.cpp's answers in the words of protocol.h.
//   llama_oracle MODEL.gguf THREADS [f16|f32 type of the KV cache]

#include <llama.h>

#include "protocol.h"

static void silent(enum ggml_log_level level, const char *text, void *data) {
  (void)data;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

struct oracle {
  struct llama_model *model;
  struct llama_context *context;
  const struct llama_vocab *vocabulary;
  int tokens;  // size of the vocabulary
};

// Feeds ids at `position`; logits of all of them when `all`, else of the last.
static void feed(struct oracle *o, const int32_t *ids, int count, int position, int all) {
  struct llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; i++) {
    batch.token[i] = ids[i];
    batch.pos[i] = position + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = all || i == count - 1;
  }
  if (llama_decode(o->context, batch)) {
    fprintf(stderr, "llama_decode failed\n");
    exit(1);
  }
  llama_batch_free(batch);
}

static void greedy(struct oracle *o, char *line) {
  int32_t ids[PROTOCOL_TOKENS_MAX] = {0};
  char *rest;
  int steps = (int)strtol(line, &rest, 10);
  int count = protocol_ids(rest, ids);
  llama_memory_clear(llama_get_memory(o->context), true);
  feed(o, ids, count, 0, 0);
  for (int i = 0; i < steps; i++) {
    struct top2 t = protocol_top2(llama_get_logits_ith(o->context, -1), o->tokens);
    printf(" %d:%.6f/%d:%.6f", t.id[0], t.logit[0], t.id[1], t.logit[1]);
    if (i + 1 < steps) feed(o, &t.id[0], 1, count + i, 0);
  }
  printf("\n");
}

static void nll(struct oracle *o, char *line) {
  int32_t ids[PROTOCOL_TOKENS_MAX] = {0};
  int count = protocol_ids(line, ids), from = count / 2;
  double sum = 0;
  llama_memory_clear(llama_get_memory(o->context), true);
  feed(o, ids, count, 0, 1);
  for (int i = from; i + 1 < count; i++)
    sum += protocol_nll(llama_get_logits_ith(o->context, i), o->tokens, ids[i + 1]);
  printf("%.9f %d\n", sum, count - 1 - from);
}

static void text(struct oracle *o, char *line) {
  size_t length = strtoul(line, NULL, 10);
  char *bytes = malloc(length + 2);
  int32_t *ids = malloc((length + 16) * sizeof *ids);
  if (fread(bytes, 1, length + 1, stdin) != length + 1) exit(1);
  int count = llama_tokenize(o->vocabulary, bytes, (int)length, ids, (int)length + 16, true, true);
  for (int i = 0; i < count; i++) printf(" %d", ids[i]);
  printf("\n");
  free(bytes);
  free(ids);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  struct oracle o = {0};
  llama_log_set(silent, NULL);
  llama_backend_init();
  o.model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!o.model) return 1;
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = 2560;
  params.n_batch = 2560;
  params.n_threads = params.n_threads_batch = atoi(argv[2]);
  if (argc > 3 && strcmp(argv[3], "f32") == 0) {
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  o.context = llama_init_from_model(o.model, params);
  if (!o.context) return 1;
  o.vocabulary = llama_model_get_vocab(o.model);
  o.tokens = llama_vocab_n_tokens(o.vocabulary);
  static char line[1 << 20];
  while (fgets(line, sizeof line, stdin)) {
    if (strncmp(line, "greedy ", 7) == 0)
      greedy(&o, line + 7);
    else if (strncmp(line, "nll ", 4) == 0)
      nll(&o, line + 4);
    else if (strncmp(line, "text ", 5) == 0)
      text(&o, line + 5);
    fflush(stdout);
  }
  return 0;
}
