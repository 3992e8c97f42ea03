// SPDX-License-Identifier: Apache-2.0
//
// gguf_value.c: typed readers of GGUF metadata.
//
// gguf.c has checked that every value lies inside the file, so nothing here can run out of bytes;
// what is checked here is the type, the range and the number of elements.  Whole numbers may be
// stored in any of the eight integer types, real ones as f32 or f64: writers disagree, and all of
// them mean the same number.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/internal.h"

static const char *const type_names[GGUF_TYPES] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
};

static const uint8_t number_bytes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static bool wrong_type(const struct gguf_entry *v, const char *expected, struct error *e) {
  return error_set(e, ERROR_INPUT, "key \"%s\" holds %s%s at byte %" PRIu64 ", but %s was expected",
                   model_quote(v->key).text, v->type == GGUF_ARRAY ? "an array of " : "",
                   type_names[v->items], v->offset, expected);
}

static bool is_integer(enum gguf_type t) { return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64; }
static bool is_real(enum gguf_type t) { return t == GGUF_F32 || t == GGUF_F64; }

// Element `index` of an integer value; a u64 beyond int64 becomes INT64_MAX, which no range here
// allows.
static int64_t integer_at(const struct gguf *g, const struct gguf_entry *v, uint64_t index) {
  ASSERT(index < v->count && is_integer(v->items));
  const char *p = g->file.data + v->offset + index * number_bytes[v->items];
  union {
    uint8_t u8;
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
  } n;
  memcpy(&n, p, number_bytes[v->items]);
  switch (v->items) {
    case GGUF_U8: return n.u8;
    case GGUF_I8: return n.i8;
    case GGUF_U16: return n.u16;
    case GGUF_I16: return n.i16;
    case GGUF_U32: return n.u32;
    case GGUF_I32: return n.i32;
    case GGUF_U64: return n.u64 > INT64_MAX ? INT64_MAX : (int64_t)n.u64;
    default: return n.i64;
  }
}

static double real_at(const struct gguf *g, const struct gguf_entry *v, uint64_t index) {
  ASSERT(index < v->count && is_real(v->items));
  const char *p = g->file.data + v->offset + index * number_bytes[v->items];
  float single;
  double number;
  if (v->items == GGUF_F64) return memcpy(&number, p, sizeof number), number;
  return memcpy(&single, p, sizeof single), (double)single;
}

static bool differs(const struct gguf_entry *v, struct error *e) {
  return error_set(e, ERROR_UNSUPPORTED,
                   "key \"%s\" gives each layer its own value at byte %" PRIu64
                   "; Motley runs models whose layers are alike",
                   model_quote(v->key).text, v->offset);
}

// Arrays of equal numbers pass as one number: converters write per-layer settings so even where all
// layers agree.
bool model_gguf_int(const struct gguf *g, const char *key, int64_t low, int64_t high, int64_t *out,
                    struct error *e) {
  const struct gguf_entry *v = model_gguf_find(g, key);
  if (!v) return true;
  if (!is_integer(v->items) || v->count == 0) return wrong_type(v, "a whole number", e);
  int64_t value = integer_at(g, v, 0);
  for (uint64_t i = 1; i < v->count; i++)
    if (integer_at(g, v, i) != value) return differs(v, e);
  if (value < low || value > high)
    return error_set(e, ERROR_INPUT,
                     "key \"%s\" is %" PRId64 " at byte %" PRIu64 ", but must lie in %" PRId64
                     "..%" PRId64,
                     key, value, v->offset, low, high);
  *out = value;
  return true;
}

// The comparison is written so that NaN fails it.
bool model_gguf_float(const struct gguf *g, const char *key, double low, double high, double *out,
                      struct error *e) {
  const struct gguf_entry *v = model_gguf_find(g, key);
  if (!v) return true;
  if (!is_real(v->items) || v->count != 1) return wrong_type(v, "a real number", e);
  double value = real_at(g, v, 0);
  if (!(value >= low && value <= high))
    return error_set(e, ERROR_INPUT, "key \"%s\" is %g at byte %" PRIu64 ", but must lie in %g..%g",
                     key, value, v->offset, low, high);
  *out = value;
  return true;
}

// A byte that is neither 0 nor 1 is no bool; C would take it for true and a bit test for false.
bool model_gguf_bool(const struct gguf *g, const char *key, bool *out, struct error *e) {
  const struct gguf_entry *v = model_gguf_find(g, key);
  if (!v) return true;
  uint8_t byte = v->type == GGUF_BOOL ? (uint8_t)g->file.data[v->offset] : 2;
  if (byte > 1) return wrong_type(v, "true or false", e);
  *out = byte;
  return true;
}

// The string whose length stands at byte *at; moves *at behind it.
static struct str string_at(const struct gguf *g, uint64_t *at) {
  ASSERT(*at + 8 <= g->file.length);
  uint64_t length;
  memcpy(&length, g->file.data + *at, sizeof length);
  struct str s = {g->file.data + *at + sizeof length, length};
  *at += sizeof length + length;
  return s;
}

// The string stays in the file; it is no longer valid than the file's bytes.
bool model_gguf_string(const struct gguf *g, const char *key, struct str *out, struct error *e) {
  const struct gguf_entry *v = model_gguf_find(g, key);
  if (!v) return true;
  if (v->type != GGUF_STRING) return wrong_type(v, "a string", e);
  uint64_t at = v->offset;
  *out = string_at(g, &at);
  return true;
}

// Costs 16 bytes of arena for each string, which takes at least 8 in the file.
bool model_gguf_strings(struct gguf *g, const char *key, const struct str **out, uint64_t *count,
                        struct error *e) {
  const struct gguf_entry *v = model_gguf_find(g, key);
  *out = NULL;
  *count = 0;
  if (!v) return true;
  if (v->type != GGUF_ARRAY || v->items != GGUF_STRING)
    return wrong_type(v, "an array of strings", e);
  struct str *texts = arena_new(&g->arena, v->count * sizeof *texts);
  uint64_t at = v->offset;
  for (uint64_t i = 0; i < v->count; i++) texts[i] = string_at(g, &at);
  *out = texts;
  *count = v->count;
  return true;
}

// Copied, since a file need not align its arrays; infinite and NaN elements are refused here once.
bool model_gguf_floats(struct gguf *g, const char *key, const float **out, uint64_t *count,
                       struct error *e) {
  const struct gguf_entry *v = model_gguf_find(g, key);
  *out = NULL;
  *count = 0;
  if (!v) return true;
  if (v->type != GGUF_ARRAY || !is_real(v->items))
    return wrong_type(v, "an array of real numbers", e);
  float *numbers = arena_new(&g->arena, v->count * sizeof *numbers);
  for (uint64_t i = 0; i < v->count; i++) {
    numbers[i] = (float)real_at(g, v, i);
    if (!isfinite(numbers[i]))
      return error_set(e, ERROR_INPUT, "element %" PRIu64 " of \"%s\" is no finite number", i, key);
  }
  *out = numbers;
  *count = v->count;
  return true;
}

// Copied like the floats; whatever width the file used, elements must fit 32 bits.
bool model_gguf_ints(struct gguf *g, const char *key, const int32_t **out, uint64_t *count,
                     struct error *e) {
  const struct gguf_entry *v = model_gguf_find(g, key);
  *out = NULL;
  *count = 0;
  if (!v) return true;
  if (v->type != GGUF_ARRAY || !is_integer(v->items))
    return wrong_type(v, "an array of whole numbers", e);
  int32_t *numbers = arena_new(&g->arena, v->count * sizeof *numbers);
  for (uint64_t i = 0; i < v->count; i++) {
    int64_t value = integer_at(g, v, i);
    if (value < INT32_MIN || value > INT32_MAX)
      return error_set(e, ERROR_INPUT,
                       "element %" PRIu64 " of \"%s\" is %" PRId64 ", which is too large", i, key,
                       value);
    numbers[i] = (int32_t)value;
  }
  *out = numbers;
  *count = v->count;
  return true;
}
