// SPDX-License-Identifier: Apache-2.0
//
// tensor.c: the names and sizes of ggml's tensor types, looking tensors up, and showing what a file
// calls things.
//
// Motley computes with six of the types; it knows the names and block sizes of all, so that a
// file's layout can be checked and a refusal can say what the file holds.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

// By ggml's number.  Blocks of 0: numbers that were withdrawn.
static const struct tensor_type types[] = {
    {"F32", 1, 4},        {"F16", 1, 2},        {"Q4_0", 32, 18},     {"Q4_1", 32, 20},
    {"Q4_2", 0, 0},       {"Q4_3", 0, 0},       {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},     {"Q8_1", 32, 36},     {"Q2_K", 256, 84},    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},   {"Q5_K", 256, 176},   {"Q6_K", 256, 210},   {"Q8_K", 256, 292},
    {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ3_XXS", 256, 98}, {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18},   {"IQ3_S", 256, 110},  {"IQ2_S", 256, 82},   {"IQ4_XS", 256, 136},
    {"I8", 1, 1},         {"I16", 1, 2},        {"I32", 1, 4},        {"I64", 1, 8},
    {"F64", 1, 8},        {"IQ1_M", 256, 56},   {"BF16", 1, 2},       {"Q4_0_4_4", 0, 0},
    {"Q4_0_4_8", 0, 0},   {"Q4_0_8_8", 0, 0},   {"TQ1_0", 256, 54},   {"TQ2_0", 256, 66},
    {"IQ4_NL_4_4", 0, 0}, {"IQ4_NL_4_8", 0, 0}, {"IQ4_NL_8_8", 0, 0}, {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},    {"Q1_0", 128, 18},    {"Q2_0", 64, 18},
};

struct tensor_type model_tensor_type(uint32_t number) {
  return number < COUNT_OF(types) ? types[number] : (struct tensor_type){"", 0, 0};
}

static const struct {
  uint32_t number;
  enum kernel_dtype dtype;
} supported[] = {{0, KERNEL_F32},  {1, KERNEL_F16},  {30, KERNEL_BF16},
                 {2, KERNEL_Q4_0}, {3, KERNEL_Q4_1}, {8, KERNEL_Q8_0}};

// The refusal lists what is supported, since the way out is another file of the same model.
bool model_tensor_dtype(const struct tensor *t, enum kernel_dtype *out, struct error *e) {
  for (size_t i = 0; i < COUNT_OF(supported); i++)
    if (supported[i].number == t->type) return *out = supported[i].dtype, true;
  return error_set(e, ERROR_UNSUPPORTED,
                   "tensor \"%s\" has the type %s; Motley computes with F32, F16, BF16, Q4_0, Q4_1 "
                   "and Q8_0: take "
                   "a file in one of those",
                   model_quote(t->name).text, model_tensor_type(t->type).name);
}

const struct tensor *model_tensor_find(const struct tensor_table *t, const char *name) {
  ASSERT(name);
  int64_t index;
  return map_get(&t->by_name, str_of(name), &index) ? &t->items[index] : NULL;
}

void model_tensor_print_shape(const struct tensor *t, char out[96]) {
  ASSERT(t->dimensions >= 1 && t->dimensions <= 4);
  size_t at = 0;
  for (int i = 0; i < t->dimensions; i++)
    at += (size_t)snprintf(out + at, 96 - at, "%s%" PRIu64, i ? ", " : "[", t->shape[i]);
  snprintf(out + at, 96 - at, "]");
}

// Returned by value, so that a call can stand among the arguments of error_set.
struct model_quoted model_quote(struct str s) {
  struct model_quoted q;
  size_t n = s.length < 64 ? s.length : 64;
  for (size_t i = 0; i < n; i++)
    q.text[i] = s.data[i] >= 0x20 && s.data[i] <= 0x7e ? s.data[i] : '?';
  snprintf(q.text + n, sizeof q.text - n, "%s", n < s.length ? "..." : "");
  return q;
}

// Ends before the first byte that is no UTF-8, or where the room does.
void model_text_copy(struct str s, char *out, size_t room) {
  ASSERT(room >= 1);
  size_t at = 0;
  for (int n; (n = str_utf8_length(s, at)) > 0 && at + (size_t)n < room; at += (size_t)n) {
    bool control = (unsigned char)s.data[at] < 0x20 || s.data[at] == 0x7f;
    memcpy(out + at, control ? "?" : s.data + at, (size_t)n);
  }
  out[at] = 0;
}
