// SPDX-License-Identifier: Apache-2.0
//
// number_shim.c: the conversions over whole arrays, for number.test.py; not part of any program.

#include "base/number.h"

#define BOTH(format)                                                               \
  void read_##format(const uint16_t *codes, float *values, size_t n);              \
  void read_##format(const uint16_t *codes, float *values, size_t n) {             \
    for (size_t i = 0; i < n; i++) values[i] = number_##format##_to_f32(codes[i]); \
  }                                                                                \
  void write_##format(const float *values, uint16_t *codes, size_t n);             \
  void write_##format(const float *values, uint16_t *codes, size_t n) {            \
    for (size_t i = 0; i < n; i++) codes[i] = number_f32_to_##format(values[i]);   \
  }
BOTH(f16)
BOTH(bf16)
BOTH(e5m2)
BOTH(e4m3)
BOTH(e2m1)
BOTH(e8m0)
