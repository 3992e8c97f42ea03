// SPDX-License-Identifier: Apache-2.0
//
// leaves_avx512.c: the table of AVX-512 leaves.  The leaves are in rows_, attention_,
// product_quant_ and product_float_avx512.c.
#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx512.h"

const struct kernel_leaves kernel_leaves_avx512 = {
    .isa = KERNEL_ISA_AVX512,
    .few_tokens = 32,
    .convert = {NULL, kernel_avx512_convert_f16, kernel_avx512_convert_bf16,
                kernel_avx512_convert_q8},
    .bf16_native = true,
    .few = {kernel_avx512_few_f32, kernel_avx512_few_f16, kernel_avx512_few_bf16,
            kernel_avx512_few_q4_0, kernel_avx512_few_q4_1, kernel_avx512_few_q8_0},
    .many = {kernel_avx512_many_f32, kernel_avx512_many_f32, kernel_avx512_many_bf16,
             kernel_avx512_many_q4_0, kernel_avx512_many_q4_1, kernel_avx512_many_q8_0},
    .unpack = {NULL, kernel_avx512_unpack_f16, NULL, kernel_avx512_unpack_q4_0,
               kernel_avx512_unpack_q4_1, kernel_avx512_unpack_q8_0},
    .attention_scores = kernel_avx512_attention_scores,
    .attention_softmax = kernel_avx512_attention_softmax,
    .attention_values = kernel_avx512_attention_values,
    .scale = kernel_avx512_scale,
    .blend = kernel_avx512_blend,
    .to_f16 = kernel_avx512_to_f16,
    .rms_norm = kernel_avx512_rms_norm,
    .rotate = kernel_avx512_rotate,
    .silu_multiply = kernel_avx512_silu_multiply,
    .add = kernel_avx512_add,
};
#endif
