// SPDX-License-Identifier: Apache-2.0
//
// model.c: opening a model file of any supported format, and the model's front door.
//
// The first bytes decide who reads the file: "GGUF" → gguf.c; seven plausible whole numbers →
// llama2c.c; anything else is named by format.c.  The file and the reader's tables are needed until
// the weights are packed.  What stays is a copy: weights, tokenizer, chat template and config.  So
// a file that is cut short or deleted later does no harm to a model that is open.
//
// While a file is read another program may cut it short, or its disk may fail.  The lost bytes then
// read as zero and the mapping says so (file_map_intact): whatever came of such a reading is given
// up.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"

#define LLAMA2C_TOKENIZER_MAX (256u << 20)  // bytes

struct model {
  struct llama llama;  // its settings.config is the model's
  struct tokenizer *tokenizer;
  struct str chat_template;  // in the arena; no data when the file has none
  struct arena arena;
};

// ---- the config's summary

struct type_count {
  const char *name;
  int count;
};

static int by_count(const void *a, const void *b) {
  return ((const struct type_count *)b)->count - ((const struct type_count *)a)->count;
}

// "Q4_1 x210, F32 x61, Q8_0 x1": the most frequent type first.
static void summarise_types(const struct tensor_table *t, char *out, size_t size) {
  ASSERT(size > 0);
  struct type_count counts[64] = {0};
  for (size_t i = 0; i < t->count; i++) {
    uint32_t type = t->items[i].type < 64 ? t->items[i].type : 63;
    counts[type].name = model_tensor_type(type).name;
    counts[type].count++;
  }
  qsort(counts, COUNT_OF(counts), sizeof *counts, by_count);
  size_t at = 0;
  for (size_t i = 0; i < COUNT_OF(counts) && counts[i].count && at < size; i++)
    at += (size_t)snprintf(out + at, size - at, "%s%s x%d", i ? ", " : "", counts[i].name,
                           counts[i].count);
}

// What people see of a model; computed while the tensor table is there.
static void summarise(const struct tensor_table *t, struct str file, const char *path,
                      struct model_config *c) {
  const char *slash = strrchr(path, '/');
  if (!c->name[0]) model_text_copy(str_of(slash ? slash + 1 : path), c->name, sizeof c->name);
  for (size_t i = 0; i < t->count; i++) c->parameters += (int64_t)t->items[i].elements;
  c->file_bytes = file.length;
  summarise_types(t, c->types, sizeof c->types);
}

// ---- the two formats

// Binding lives only until the weights are packed.  Without a kernel the file is only checked: what
// a load would refuse is refused, and nothing is packed.
static bool load(struct model *m, const struct tensor_table *t, const struct llama_settings *s,
                 struct kernel_context *kernel, const struct world *mapped, struct error *e) {
  struct arena arena = {0};
  struct llama_binding binding;
  bool done = model_llama_bind(t, s, &arena, &binding, e) &&
              (!kernel || model_llama_load(&m->llama, s, &binding, kernel, mapped, e));
  arena_clear(&arena);
  return done;
}

// The vocabulary is as large as the embedding table; the tokenizer must agree.
static bool read_vocabulary_size(const struct gguf *g, struct model_config *c, struct error *e) {
  const struct tensor *embedding = model_tensor_find(&g->tensors, "token_embd.weight");
  if (!embedding)
    return error_set(e, ERROR_INPUT,
                     "the tensor \"token_embd.weight\" is missing: the file is no complete llama");
  if (embedding->shape[1] > MODEL_VOCABULARY_MAX)
    return error_set(e, ERROR_INPUT, "its embedding has %" PRIu64 " rows; at most %d are possible",
                     embedding->shape[1], MODEL_VOCABULARY_MAX);
  c->vocabulary = (int)embedding->shape[1];
  return true;
}

// Settings, tokenizer, weights, cheapest first: a wrong file is refused before gigabytes are read.
static bool open_gguf(struct model *m, struct str file, const struct world *mapped,
                      const char *path, struct kernel_context *kernel, struct error *e) {
  struct gguf g;
  struct llama_settings s;
  struct str chat_template = {0};
  if (!model_gguf_open(&g, file, e)) return false;
  bool done = model_settings_read(&g, &s, e) && read_vocabulary_size(&g, &s.config, e) &&
              model_gguf_string(&g, "tokenizer.chat_template", &chat_template, e) &&
              (m->tokenizer = model_vocabulary_read(&g, s.config.vocabulary, e));
  if (chat_template.data) {
    char *copy = arena_copy(&m->arena, chat_template.data, chat_template.length);
    m->chat_template = (struct str){copy, chat_template.length};
  }
  if (done) {
    summarise(&g.tensors, file, path, &s.config);
    done = load(m, &g.tensors, &s, kernel, mapped, e);
  }
  model_gguf_clear(&g);
  return done;
}

static const struct world *world_of(const struct model_options *options) {
  return options && options->world ? options->world : world_real();
}

// The tokenizer is a file of its own; an option names it or it lies beside the model.
static bool open_llama2c_tokenizer(struct model *m, const char *path,
                                   const struct model_options *options, int vocabulary,
                                   struct error *e) {
  struct buffer found = {0}, content = {0};
  const char *named = options ? options->tokenizer_path : NULL;
  bool done = named || model_llama2c_find_tokenizer(world_of(options), path, &found, e);
  if (done)
    done = file_read(world_of(options), named ? named : found.data, LLAMA2C_TOKENIZER_MAX, &content,
                     e);
  if (done) done = (m->tokenizer = model_llama2c_tokenizer(buffer_str(&content), vocabulary, e));
  buffer_clear(&found);
  buffer_clear(&content);
  return done;
}

// The same order as for GGUF.
static bool open_llama2c(struct model *m, struct str file, const struct world *mapped,
                         const char *path, const struct model_options *options,
                         struct kernel_context *kernel, struct error *e) {
  struct llama2c l;
  if (!model_llama2c_open(&l, file, e)) return false;
  summarise(&l.tensors, file, path, &l.settings.config);
  bool done = open_llama2c_tokenizer(m, path, options, l.settings.config.vocabulary, e) &&
              load(m, &l.tensors, &l.settings, kernel, mapped, e);
  model_llama2c_clear(&l);
  return done;
}

// A llama2.c file has no mark; its first numbers are small and positive, which no mark of another
// format is.
static bool may_be_llama2c(struct str file) {
  int32_t header[7];
  if (file.length < sizeof header) return false;
  memcpy(header, file.data, sizeof header);
  for (int i = 0; i < 7; i++)
    if (header[i] == 0 || (i != 5 && header[i] < 0) || header[i] > (1 << 24) ||
        header[i] < -(1 << 24))
      return false;
  return true;
}

static bool open_any(struct model *m, struct str file, const struct world *mapped, const char *path,
                     const struct model_options *options, struct kernel_context *kernel,
                     struct error *e) {
  if (str_starts(file, STR("GGUF"))) return open_gguf(m, file, mapped, path, kernel, e);
  if (may_be_llama2c(file)) return open_llama2c(m, file, mapped, path, options, kernel, e);
  return model_format_refuse(file, e);
}

// ---- the front door

// Every refusal of whatever reader begins with the file's name, put in front here.
struct model *model_open_bytes(struct str file, const struct world *mapped, const char *name,
                               const struct model_options *options, struct kernel_context *kernel,
                               struct error *e) {
  ASSERT(name);
  struct model *m = memory_new(sizeof *m);
  if (open_any(m, file, mapped, name, options, kernel, e)) return m;
  error_prefix(e, "%s", name);
  model_free(m);
  return NULL;
}

// Goes before what the reader said: of a file that was cut short meanwhile that is rubbish.
static bool refuse_broken(struct error *e) {
  return error_set(e, ERROR_SYSTEM,
                   "it was cut short, or its disk failed, while it was read; put the file back and "
                   "start again");
}

// The mapping is needed for this call only.
struct model *model_open(const char *path, const struct model_options *options,
                         struct kernel_context *kernel, struct error *e) {
  ASSERT(path && kernel);
  struct file_map map = {0};
  if (!file_map_open(&map, world_of(options), path, e)) return NULL;
  struct model *m = model_open_bytes((struct str){(const char *)map.data, map.length}, map.world,
                                     path, options, kernel, e);
  if (!file_map_intact(&map)) {
    model_free(m);
    m = NULL;
    refuse_broken(e);
    error_prefix(e, "%s", path);
  }
  file_map_close(&map);
  return m;
}

// The same way as model_open, without a kernel: so the two never come to different conclusions
// about a file.  The path is not put in front of a refusal, as model_open_bytes does.
bool model_check(const char *path, const struct model_options *options, struct error *e) {
  ASSERT(path);
  struct file_map map = {0};
  if (!file_map_open(&map, world_of(options), path, e)) return false;
  struct model *m = memory_new(sizeof *m);
  bool good = open_any(m, (struct str){(const char *)map.data, map.length}, map.world, path,
                       options, NULL, e);
  if (!file_map_intact(&map)) good = refuse_broken(e);
  model_free(m);
  file_map_close(&map);
  return good;
}

void model_free(struct model *m) {
  if (!m) return;
  tokenizer_free(m->tokenizer);
  model_llama_clear(&m->llama);
  arena_clear(&m->arena);
  memory_free(m);
}

struct device *model_device(const struct model *m) {
  return kernel_context_device(m->llama.kernel);
}
const struct model_config *model_config(const struct model *m) { return &m->llama.settings.config; }
const struct tokenizer *model_tokenizer(const struct model *m) { return m->tokenizer; }
struct str model_chat_template(const struct model *m) {
  return m->chat_template.data ? m->chat_template : str_of("");
}

static bool batch_is_sound(const struct model_config *c, const struct model_batch *b) {
  int next = 0;
  for (int i = 0; i < b->span_count; next += b->spans[i++].count)
    if (b->spans[i].first != next || b->spans[i].count < 1) return false;
  for (int i = 0; i < b->tokens; i++)
    if (b->ids[i] < 0 || b->ids[i] >= c->vocabulary || b->positions[i] < 0) return false;
  for (int i = 0; i < b->output_count; i++)
    if (b->outputs[i] < (i ? b->outputs[i - 1] + 1 : 0) || b->outputs[i] >= b->tokens) return false;
  return next == b->tokens;
}

void model_forward(struct model *m, const struct kernel_cache *cache,
                   const struct model_batch *batch, float *logits, int *faults) {
  ASSERT(batch->tokens >= 1 && batch->tokens <= MODEL_BATCH_MAX);
  ASSERT(batch->output_count == 0 || (logits && faults));
  ASSERT_DEBUG(batch_is_sound(model_config(m), batch));
  model_llama_forward(&m->llama, cache, batch, logits, faults);
}

void model_place_print(int place, char out[MODEL_PLACE_TEXT]) {
  ASSERT(place >= 0);
  if (place == MODEL_PLACE_EMBEDDING)
    snprintf(out, MODEL_PLACE_TEXT, "the embedding");
  else
    snprintf(out, MODEL_PLACE_TEXT, "the %s of layer %d",
             place % 2 ? "attention" : "feed-forward part", (place - 1) / 2);
}
