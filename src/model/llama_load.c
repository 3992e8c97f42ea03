// SPDX-License-Identifier: Apache-2.0
//
// llama_load.c: from tensors in a file to a llama that is ready to run.
//
// Two passes over one table of slots.  Binding finds the tensor of every slot and checks type and
// shape, and that no tensor is left without a slot (a left-over one, say a bias nobody adds, would
// mean wrong results).  Only then loading packs the matrices and converts the vectors, so a file
// that cannot run is refused before any work.
//
//   bound: [ layer 0: attn_norm q k v … | layer 1 | … | embedding final_norm classifier divisors ]
//
// Memory: a packed matrix is about as big as its tensor.  Pages of the mapped file that were packed
// are given back at once, so the resident size stays near the size of the weights.  After loading
// the file is not touched any more: it may be deleted, replaced or cut short.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

// ---- the slots

enum extent {
  ONE,
  WIDTH,
  QUERY,
  KEY,
  FFN,
  VOCABULARY,
  HALF_TURN,
  EXTENTS
};  // sizes a shape is made of

struct slot {
  const char *name;  // behind "blk.N." for layers
  size_t at;         // in struct llama_layer: a kernel_weight, or a float * when rows is ONE
  enum extent rows;  // ONE = a vector
  enum extent columns;
  bool optional;
};

#define LAYER(field) offsetof(struct llama_layer, field)
static const struct slot layer_slots[] = {
    {"attn_norm.weight", LAYER(attention_norm), ONE, WIDTH, false},
    {"attn_q.weight", LAYER(q), QUERY, WIDTH, false},
    {"attn_k.weight", LAYER(k), KEY, WIDTH, false},
    {"attn_v.weight", LAYER(v), KEY, WIDTH, false},
    {"attn_output.weight", LAYER(output), WIDTH, QUERY, false},
    {"ffn_norm.weight", LAYER(ffn_norm), ONE, WIDTH, false},
    {"ffn_gate.weight", LAYER(gate), FFN, WIDTH, false},
    {"ffn_up.weight", LAYER(up), FFN, WIDTH, false},
    {"ffn_down.weight", LAYER(down), WIDTH, FFN, false},
    {"attn_q.bias", LAYER(q_bias), ONE, QUERY, true},
    {"attn_k.bias", LAYER(k_bias), ONE, KEY, true},
    {"attn_v.bias", LAYER(v_bias), ONE, KEY, true},
    {"attn_output.bias", LAYER(output_bias), ONE, WIDTH, true},
    {"ffn_gate.bias", LAYER(gate_bias), ONE, FFN, true},
    {"ffn_up.bias", LAYER(up_bias), ONE, FFN, true},
    {"ffn_down.bias", LAYER(down_bias), ONE, WIDTH, true},
};
#undef LAYER
#define LAYER_SLOTS COUNT_OF(layer_slots)

enum { EMBEDDING, FINAL_NORM, CLASSIFIER, ROPE_DIVISORS, GLOBAL_SLOTS };
static const struct slot global_slots[GLOBAL_SLOTS] = {
    {"token_embd.weight", 0, VOCABULARY, WIDTH, false},
    {"output_norm.weight", 0, ONE, WIDTH, false},
    {"output.weight", 0, VOCABULARY, WIDTH, true},  // absent: the embedding serves
    {"rope_freqs.weight", 0, ONE, HALF_TURN, true},
};

// Turns the names of sizes in the slot tables into numbers, once per model.
static void measure(const struct llama_settings *s, uint64_t extents[EXTENTS]) {
  ASSERT(s->config.layers >= 1 && s->rope.rotated % 2 == 0);
  const struct model_config *c = &s->config;
  const int values[EXTENTS] = {1,
                               c->width,
                               c->heads * c->head_dim,
                               c->kv_heads * c->head_dim,
                               c->ffn_width,
                               c->vocabulary,
                               s->rope.rotated / 2};
  for (int i = 0; i < EXTENTS; i++) extents[i] = (uint64_t)values[i];
}

static const struct tensor *const *of_layer(const struct llama_binding *b, int layer) {
  return b->bound + (size_t)layer * LAYER_SLOTS;
}
static const struct tensor *const *of_model(const struct llama_binding *b, int layers) {
  return b->bound + (size_t)layers * LAYER_SLOTS;
}

// ---- binding

// rows is 1 for vectors, which have one dimension or a second one of 1.
static bool check_shape(const struct tensor *t, uint64_t rows, uint64_t columns, struct error *e) {
  ASSERT(rows >= 1 && columns >= 1);
  if (t->shape[0] == columns && t->shape[1] == rows && t->elements == rows * columns) return true;
  char shape[96];
  model_tensor_print_shape(t, shape);
  return error_set(e, ERROR_INPUT,
                   "tensor \"%s\" has the shape %s, but its settings ask for [%" PRIu64 ", %" PRIu64
                   "]",
                   model_quote(t->name).text, shape, columns, rows);
}

struct binder {
  const struct tensor_table *tensors;
  uint64_t extents[EXTENTS];
  bool *used;  // [tensors->count]
};

// The type is checked here too, so that an unsupported one is refused before any packing.
static bool bind_slot(struct binder *b, const struct slot *slot, const char *name,
                      const struct tensor **out, struct error *e) {
  const struct tensor *t = model_tensor_find(b->tensors, name);
  enum kernel_dtype ignored;
  *out = t;
  if (!t && slot->optional) return true;
  if (!t)
    return error_set(e, ERROR_INPUT, "the tensor \"%s\" is missing: the file is no complete llama",
                     name);
  b->used[t - b->tensors->items] = true;
  return check_shape(t, b->extents[slot->rows], b->extents[slot->columns], e) &&
         model_tensor_dtype(t, &ignored, e);
}

// Layer slots are named by their layer's number in front.
static bool bind_layer(struct binder *b, int layer, const struct tensor **out, struct error *e) {
  ASSERT(layer < MODEL_LAYERS_MAX);
  char name[MODEL_TENSOR_NAME_MAX + 1];
  for (size_t i = 0; i < LAYER_SLOTS; i++) {
    snprintf(name, sizeof name, "blk.%d.%s", layer, layer_slots[i].name);
    if (!bind_slot(b, &layer_slots[i], name, &out[i], e)) return false;
  }
  return true;
}

static bool ends_with(struct str s, struct str end) {
  return s.length >= end.length &&
         str_equal((struct str){s.data + s.length - end.length, end.length}, end);
}

// Old converters stored the rotary frequencies themselves with every layer; they say nothing new.
static bool is_harmless(const struct tensor *t) {
  return ends_with(t->name, STR(".attn_rot_embd.weight")) ||
         ends_with(t->name, STR(".attn_rot_embd"));
}

// A tensor that no slot took belongs to an operation that would be left out in silence.
static bool refuse_unused(const struct binder *b, struct error *e) {
  for (size_t i = 0; i < b->tensors->count; i++)
    if (!b->used[i] && !is_harmless(&b->tensors->items[i]))
      return error_set(e, ERROR_UNSUPPORTED,
                       "it has a tensor \"%s\", which a plain llama does not have; without it "
                       "results would be wrong",
                       model_quote(b->tensors->items[i].name).text);
  return true;
}

// Globals come first: the embedding's absence says more than a missing layer.
bool model_llama_bind(const struct tensor_table *t, const struct llama_settings *s,
                      struct arena *arena, struct llama_binding *out, struct error *e) {
  ASSERT(s->config.layers <= MODEL_LAYERS_MAX);
  struct binder b = {.tensors = t, .used = arena_new(arena, t->count * sizeof(bool))};
  size_t layers = (size_t)s->config.layers;
  out->bound = arena_new(arena, (layers * LAYER_SLOTS + GLOBAL_SLOTS) * sizeof *out->bound);
  measure(s, b.extents);
  const struct tensor **globals = out->bound + layers * LAYER_SLOTS;
  for (int i = 0; i < GLOBAL_SLOTS; i++)
    if (!bind_slot(&b, &global_slots[i], global_slots[i].name, &globals[i], e)) return false;
  for (size_t l = 0; l < layers; l++)
    if (!bind_layer(&b, (int)l, out->bound + l * LAYER_SLOTS, e)) return false;
  return refuse_unused(&b, e);
}

// ---- loading

struct loader {
  struct llama *llama;
  const struct world *mapped;  // the tensors lie in a mapped file of this world; NULL: in memory
};

static void release_pages(const struct loader *l, const struct tensor *t) {
  ASSERT(t->data);
  if (l->mapped) world_forget(l->mapped, t->data, t->bytes);
}

// From here on the packed copy is the matrix; the file's pages are not needed again.
static bool load_matrix(const struct loader *l, const struct tensor *t, struct kernel_weight *out,
                        struct error *e) {
  ASSERT(t && !out->packed);
  enum kernel_dtype dtype;
  if (!model_tensor_dtype(t, &dtype, e)) return false;
  if (!kernel_weight_pack(l->llama->kernel, dtype, (int64_t)t->shape[1], (int64_t)t->shape[0],
                          t->data, out, e))
    return error_prefix(e, "tensor \"%s\"", model_quote(t->name).text);
  release_pages(l, t);
  return true;
}

// Vectors are f32 whatever type the file has them in.
static bool load_vector(const struct loader *l, const struct tensor *t, float **out,
                        struct error *e) {
  ASSERT(t && !*out);
  enum kernel_dtype dtype;
  if (!model_tensor_dtype(t, &dtype, e)) return false;
  int64_t n = (int64_t)t->shape[0];
  if (!kernel_row_bytes(dtype, n))
    return error_set(e, ERROR_INPUT,
                     "tensor \"%s\" has %" PRId64 " elements of type %s, which is no whole block",
                     model_quote(t->name).text, n, kernel_dtype_name(dtype));
  *out = kernel_vector_new(l->llama->kernel, n, e);
  if (!*out) return false;
  kernel_row_read(dtype, t->data, n, *out);
  return true;
}

// The table says where in the struct each tensor goes and whether it is packed or converted.
static bool load_layer(const struct loader *l, const struct tensor *const *bound,
                       struct llama_layer *layer, struct error *e) {
  for (size_t i = 0; i < LAYER_SLOTS; i++) {
    if (!bound[i]) continue;
    void *field = (char *)layer + layer_slots[i].at;
    if (!(layer_slots[i].rows == ONE ? load_vector(l, bound[i], field, e)
                                     : load_matrix(l, bound[i], field, e)))
      return false;
  }
  return true;
}

// They end in a division, so zero, negative and NaN are refused.  *out lives in the arena.
static bool read_divisors(const struct loader *l, const struct tensor *t, float **out,
                          struct error *e) {
  enum kernel_dtype dtype;
  if (!model_tensor_dtype(t, &dtype, e)) return false;
  int64_t n = (int64_t)t->shape[0];
  *out = arena_new(&l->llama->arena, (size_t)n * sizeof **out);
  if (kernel_row_bytes(dtype, n)) kernel_row_read(dtype, t->data, n, *out);
  for (int64_t i = 0; i < n; i++)
    if (!((*out)[i] > 0 && isfinite((*out)[i])))
      return error_set(e, ERROR_INPUT,
                       "element %" PRId64
                       " of the tensor \"rope_freqs.weight\" is %g; it must be positive",
                       i, (double)(*out)[i]);
  return true;
}

static bool load_rope(const struct loader *l, const struct tensor *divisors, struct error *e) {
  const struct rope_settings *s = &l->llama->settings.rope;
  float *by = NULL;
  if (divisors && !read_divisors(l, divisors, &by, e)) return false;
  float *inverse = arena_new(&l->llama->arena, (size_t)s->rotated / 2 * sizeof *inverse);
  model_rope_prepare(s, by, inverse, &l->llama->rope.magnitude);
  l->llama->rope.rotated = s->rotated;
  l->llama->rope.inverse_frequency = inverse;
  return true;
}

// One packed table serves for looking up rows and for the product, when the file has only one.
static bool load_globals(const struct loader *l, const struct tensor *const *bound,
                         struct error *e) {
  ASSERT(bound[EMBEDDING] && bound[FINAL_NORM]);
  struct llama *m = l->llama;
  return load_vector(l, bound[FINAL_NORM], &m->final_norm, e) &&
         load_rope(l, bound[ROPE_DIVISORS], e) &&
         load_matrix(l, bound[EMBEDDING], &m->embedding, e) &&
         (!bound[CLASSIFIER] || load_matrix(l, bound[CLASSIFIER], &m->classifier, e));
}

// ---- scratch

// One allocation, cut into the activations; each begins on a cache line.
static bool reserve_scratch(struct llama *l, struct error *e) {
  ASSERT(!l->scratch.memory.device);
  const struct model_config *c = &l->settings.config;
  struct llama_scratch *s = &l->scratch;
  const size_t query = (size_t)c->heads * (size_t)c->head_dim,
               key = (size_t)c->kv_heads * (size_t)c->head_dim;
  const struct {
    float **at;
    size_t columns;
  } parts[] = {
      {&s->x, (size_t)c->width},
      {&s->normed, (size_t)c->width},
      {&s->q, query},
      {&s->attended, query},
      {&s->k, key},
      {&s->v, key},
      {&s->gate, (size_t)c->ffn_width},
      {&s->up, (size_t)c->ffn_width},
  };
  size_t offsets[COUNT_OF(parts)], total = 0;
  for (size_t i = 0; i < COUNT_OF(parts); i++) {
    offsets[i] = total;
    total += (parts[i].columns * sizeof(float) * MODEL_BATCH_MAX + 63) / 64 * 64;
  }
  struct device *d = kernel_context_device(l->kernel);
  if (!device_memory_allocate(d, total, "the activations of the model", &s->memory, e))
    return false;
  char *block = device_memory_map(&s->memory);
  for (size_t i = 0; i < COUNT_OF(parts); i++) *parts[i].at = (float *)(block + offsets[i]);
  return true;
}

static bool reserve_kernel(struct llama *l, struct error *e) {
  const struct model_config *c = &l->settings.config;
  int columns = c->heads * c->head_dim;
  if (columns < c->width) columns = c->width;
  if (columns < c->ffn_width) columns = c->ffn_width;
  return kernel_context_reserve(l->kernel, MODEL_BATCH_MAX, columns, c->context, e);
}

// ---- the whole

// Memory first: a model that does not fit fails before its weights are read.
bool model_llama_load(struct llama *l, const struct llama_settings *s,
                      const struct llama_binding *b, struct kernel_context *kernel,
                      const struct world *mapped, struct error *e) {
  ASSERT(kernel && b->bound);
  *l = (struct llama){.settings = *s, .kernel = kernel};
  struct loader loader = {l, mapped};
  int layers = s->config.layers;
  l->layers = arena_new(&l->arena, (size_t)layers * sizeof *l->layers);
  l->faults = arena_new(&l->arena, MODEL_BATCH_MAX * sizeof *l->faults);
  bool done = reserve_scratch(l, e) && reserve_kernel(l, e) &&
              load_globals(&loader, of_model(b, layers), e);
  for (int i = 0; done && i < layers; i++)
    done = load_layer(&loader, of_layer(b, i), &l->layers[i], e);
  if (!done) model_llama_clear(l);
  return done;
}

// Also clears what a failed load left half done: zeroed weights clear to nothing.
void model_llama_clear(struct llama *l) {
  for (int i = 0; l->layers && i < l->settings.config.layers; i++)
    for (size_t s = 0; s < LAYER_SLOTS; s++) {
      void *field = (char *)&l->layers[i] + layer_slots[s].at;
      if (layer_slots[s].rows == ONE)
        kernel_vector_free(*(float **)field);
      else
        kernel_weight_clear(field);
    }
  kernel_weight_clear(&l->embedding);
  kernel_weight_clear(&l->classifier);
  kernel_vector_free(l->final_norm);
  device_memory_free(&l->scratch.memory);
  arena_clear(&l->arena);
  *l = (struct llama){0};
}
