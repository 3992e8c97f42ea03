// SPDX-License-Identifier: Apache-2.0
//
// number.c: the small number formats, converted by one body of integer arithmetic and a table.
//
// A format is sign, exponent field and fraction, like f32 itself, only narrower:
//
//   f32    s eeeeeeee fffffffffffffffffffffff      bias 127
//   bf16   s eeeeeeee fffffff                      bias 127
//   f16    s eeeee ffffffffff                      bias 15
//   e5m2   s eeeee ff                              bias 15
//   e4m3   s eeee fff                              bias 7    no infinity, only the last code is NaN
//   e2m1   s ee f                                  bias 1    neither infinity nor NaN
//   e8m0     eeeeeeee                              bias 127  powers of two; handled apart
//
// Without the sign, codes of every such format grow with the value they stand for.  Two things
// follow.  Rounding up may carry from the fraction into the exponent and is still right.  And one
// comparison with the code of the largest finite value finds every overflow.
//
// Rounding to nearest, ties to even, of a code to `shift` fewer bits: add just less than half of
// the last place, plus one more where the bit that stays is odd, and cut.
//
// Only integers are used, so the result does not depend on the rounding mode, nor on a kernel that
// lets the processor flush subnormal numbers to zero.

#include <stdbool.h>
#include <string.h>

#include "base/number.h"

#define F32_FRACTION 23  // bits
#define F32_BIAS 127
#define F32_INFINITY 0x7F800000u

struct format {
  int exponent, fraction, bias;  // bits, bits, what the exponent field is above the exponent
  uint16_t largest;              // code of the largest finite value
  uint16_t overflow;             // code for what is larger, infinity included
  uint16_t nan;                  // code of a quiet NaN; 0 = the format has none
  bool infinite;                 // the code after `largest` is infinity
};
static const struct format f16 = {5, 10, 15, 0x7BFF, 0x7C00, 0x7E00, true};
static const struct format bf16 = {8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, true};
static const struct format e5m2 = {5, 2, 15, 0x7B, 0x7B, 0x7E, true};
static const struct format e4m3 = {4, 3, 7, 0x7E, 0x7E, 0x7F, false};
static const struct format e2m1 = {2, 1, 1, 0x7, 0x7, 0, false};

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// code / 2^shift, to nearest, ties to even.  shift >= 1, code < 2^31.
static uint32_t round_off(uint32_t code, int shift) {
  if (shift > F32_FRACTION + 2) return 0;  // less than a quarter of the last place
  uint32_t odd = code >> shift & 1;
  return (code + (1u << (shift - 1)) - 1 + odd) >> shift;
}

// The magnitude of a finite or infinite f32 as a code of f.
static uint32_t magnitude_code(uint32_t magnitude, const struct format *f) {
  int shift = F32_FRACTION - f->fraction;
  int field = (int)(magnitude >> F32_FRACTION);
  int smallest = F32_BIAS - f->bias + 1;  // f32's field where f's normal numbers begin
  uint32_t code;
  if (field >= smallest) {
    code = round_off(magnitude - ((uint32_t)(smallest - 1) << F32_FRACTION), shift);
  } else {
    // Subnormal in f: the leading one becomes an ordinary bit and everything moves right.
    uint32_t whole = magnitude & ((1u << F32_FRACTION) - 1);
    if (field) whole |= 1u << F32_FRACTION;
    code = round_off(whole, shift + smallest - (field ? field : 1));
  }
  return code > f->largest ? f->overflow : code;
}

// Inlined into each conversion, where the table row is a constant and the arithmetic folds.
static inline uint32_t encode(float value, const struct format *f) {
  uint32_t bits = bits_of(value), magnitude = bits & 0x7FFFFFFFu;
  uint32_t sign = bits >> 31 << (f->exponent + f->fraction);
  if (magnitude <= F32_INFINITY) return sign | magnitude_code(magnitude, f);
  if (!f->nan) return 0;
  uint32_t payload = (magnitude & ~F32_INFINITY) >> (F32_FRACTION - f->fraction);
  return sign | f->nan | payload;  // what the processor's own instructions keep of a NaN
}

// The magnitude of a code above f->largest: infinity, or a NaN with its payload and made quiet.
static uint32_t special_bits(uint32_t code, const struct format *f) {
  if (f->infinite && code == f->largest + 1u) return F32_INFINITY;
  uint32_t payload = code & ((1u << f->fraction) - 1);
  return F32_INFINITY | 1u << (F32_FRACTION - 1) | payload << (F32_FRACTION - f->fraction);
}

// The magnitude of a subnormal code > 0 of a format whose subnormals are normal in f32: the leading
// one moves up to where f32 implies it, and each place it moves takes one from the exponent.
static uint32_t subnormal_bits(uint32_t code, const struct format *f) {
  int top = 31 - __builtin_clz(code);
  uint32_t field = (uint32_t)(F32_BIAS - f->bias + 1 - f->fraction + top);
  return (field << F32_FRACTION) + ((code ^ 1u << top) << (F32_FRACTION - top));
}

// The sign is carried apart all the way, so that -0 stays -0.
static inline float decode(uint32_t bits, const struct format *f) {
  int sign_at = f->exponent + f->fraction;
  uint32_t sign = (bits >> sign_at & 1) << 31, code = bits & ((1u << sign_at) - 1);
  if (code == 0) return float_of(sign);
  if (code > f->largest) return float_of(sign | special_bits(code, f));
  if (code >> f->fraction == 0) return float_of(sign | subnormal_bits(code, f));
  uint32_t wide = code << (F32_FRACTION - f->fraction);
  return float_of(sign | (wide + ((uint32_t)(F32_BIAS - f->bias) << F32_FRACTION)));
}

float number_f16_to_f32(uint16_t bits) { return decode(bits, &f16); }
uint16_t number_f32_to_f16(float value) { return (uint16_t)encode(value, &f16); }

// A bf16 is the upper half of an f32.  A signalling NaN comes out quiet, as from the other formats.
float number_bf16_to_f32(uint16_t bits) {
  bool nan = (bits & 0x7FFFu) > 0x7F80u;
  return float_of((uint32_t)(nan ? bits | 0x40u : bits) << 16);
}
uint16_t number_f32_to_bf16(float value) { return (uint16_t)encode(value, &bf16); }

float number_e4m3_to_f32(uint8_t bits) { return decode(bits, &e4m3); }
uint8_t number_f32_to_e4m3(float value) { return (uint8_t)encode(value, &e4m3); }
float number_e5m2_to_f32(uint8_t bits) { return decode(bits, &e5m2); }
uint8_t number_f32_to_e5m2(float value) { return (uint8_t)encode(value, &e5m2); }
float number_e2m1_to_f32(uint8_t bits) { return decode(bits & 0xFu, &e2m1); }
uint8_t number_f32_to_e2m1(float value) { return (uint8_t)encode(value, &e2m1); }

// An e8m0 is the exponent field of an f32, but for its ends: 0 means 2^-127, which f32 writes as a
// subnormal, and 255 is NaN.
#define E8M0_NAN 255u
#define E8M0_LARGEST 254u
#define F32_TWO_TO_MINUS_127 0x00400000u

float number_e8m0_to_f32(uint8_t bits) {
  if (bits == 0) return float_of(F32_TWO_TO_MINUS_127);
  uint32_t quiet = bits == E8M0_NAN ? 1u << (F32_FRACTION - 1) : 0;
  return float_of((uint32_t)bits << F32_FRACTION | quiet);
}

// Between 2^-127 (subnormal, so its leading one is an ordinary bit) and 2^-126 the middle is three
// quarters of the way up from zero; above, it is half-way between two values of the exponent field.
uint8_t number_f32_to_e8m0(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFu) > F32_INFINITY) return E8M0_NAN;
  if (bits >> 31 || bits <= F32_TWO_TO_MINUS_127 / 2 * 3) return 0;
  if (bits >> F32_FRACTION == 0) return 1;
  uint32_t code = round_off(bits, F32_FRACTION);
  return (uint8_t)(code > E8M0_LARGEST ? E8M0_LARGEST : code);
}
