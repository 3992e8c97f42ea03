// SPDX-License-Identifier: Apache-2.0
//
// number.h: the small number formats that models are stored in, converted exactly.
//
// To f32 every conversion is exact.  From f32 every conversion rounds to nearest, ties to even.
// Overflow: f16 and bf16 give infinity as IEEE 754 says; e4m3 (OCP "fn": no infinity, 0x7f = NaN),
// e5m2, e2m1 saturate to the largest finite value (infinity too), and e8m0 saturates to 2^127.  NaN
// stays NaN where the format has one (e2m1 has none: it gives +0).  Sources: IEEE 754-2019; OCP
// 8-bit Floating Point (OFP8) 1.0; OCP Microscaling Formats (MX) 1.0.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Bits from the left: sign, exponent (its bias), fraction.
float number_f16_to_f32(uint16_t bits);  // 1, 5 (15), 10
uint16_t number_f32_to_f16(float value);
float number_bf16_to_f32(uint16_t bits);  // 1, 8 (127), 7
uint16_t number_f32_to_bf16(float value);
float number_e4m3_to_f32(uint8_t bits);  // 1, 4 (7), 3; max 448
uint8_t number_f32_to_e4m3(float value);
float number_e5m2_to_f32(uint8_t bits);  // 1, 5 (15), 2; max 57344; has infinity when read
uint8_t number_f32_to_e5m2(float value);
float number_e2m1_to_f32(uint8_t bits);  // low 4 bits: 1, 2 (1), 1; values 0 .5 1 1.5 2 3 4 6
uint8_t number_f32_to_e2m1(float value);
float number_e8m0_to_f32(uint8_t bits);  // 2^(bits-127); 255 = NaN
// The nearest power of two by distance (a tie, 1.5 * 2^k, goes to the even code); zero and negative
// give 2^-127, NaN gives 255.
uint8_t number_f32_to_e8m0(float value);
