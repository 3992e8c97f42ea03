// SPDX-License-Identifier: Apache-2.0
//
// sampling.c: the table of sampling parameters, with the range of each, and the checks that read
// it.
//
// The API, the command line and the engine all ask this table, so a value that one of them takes is
// taken by the others too.

#include "base/sampling.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#define REAL(member, low, high) \
  { #member, low, high, offsetof(struct sampling, member), false }

static const struct sampling_range ranges[] = {
    REAL(temperature, 0, 2),
    REAL(top_p, 0, 1),
    REAL(min_p, 0, 1),
    REAL(repetition_penalty, 0.01, 100),
    REAL(presence_penalty, -2, 2),
    REAL(frequency_penalty, -2, 2),
    {"top_k", 0, INT_MAX, offsetof(struct sampling, top_k), true},
};

struct sampling sampling_default(void) {
  return (struct sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
}

const struct sampling_range *sampling_range(const char *name) {
  size_t i = 0;
  while (i < COUNT_OF(ranges) && strcmp(ranges[i].name, name) != 0) i++;
  assert(i < COUNT_OF(ranges));
  return &ranges[i];
}

const struct sampling_range *sampling_range_at(size_t index) {
  return index < COUNT_OF(ranges) ? &ranges[index] : NULL;
}

// The bounds as floats hold them: 0.01 must be allowed whether it is asked as a double or read back
// from a float.
bool sampling_allows(const struct sampling_range *r, double value) {
  double low = r->whole ? r->low : (double)(float)r->low;
  return (value >= r->low || value >= low) && value <= r->high;
}

void sampling_put(struct sampling *s, const struct sampling_range *r, double value) {
  char *member = (char *)s + r->offset;
  assert(sampling_allows(r, value));
  if (r->whole)
    *(int *)(void *)member = (int)value;
  else
    *(float *)(void *)member = (float)value;
}

static double value_of(const struct sampling *s, const struct sampling_range *r) {
  const char *member = (const char *)s + r->offset;
  return r->whole ? *(const int *)(const void *)member
                  : (double)*(const float *)(const void *)member;
}

static bool check_biases(const struct sampling *s, struct error *e) {
  for (int i = 0; i < s->bias_count; i++) {
    float value = s->bias_values[i];
    if (value >= -SAMPLING_BIAS_MAX && value <= SAMPLING_BIAS_MAX) continue;
    return error_set(e, ERROR_INPUT, "logit_bias[%d]: %g is out of range; choose %g to %g", i,
                     (double)value, (double)-SAMPLING_BIAS_MAX, (double)SAMPLING_BIAS_MAX);
  }
  return true;
}

bool sampling_check(const struct sampling *s, struct error *e) {
  assert(s->bias_count >= 0);
  for (size_t i = 0; i < COUNT_OF(ranges); i++) {
    double value = value_of(s, &ranges[i]);
    if (sampling_allows(&ranges[i], value)) continue;
    return error_set(e, ERROR_INPUT,
                     "%s: %.7g is out of range; choose a number from %.10g to %.10g",
                     ranges[i].name, value, ranges[i].low, ranges[i].high);
  }
  return check_biases(s, e);
}
