// SPDX-License-Identifier: Apache-2.0
//
// leaves_avx2.c: the table of AVX2 leaves.  The leaves are in rows_, attention_, product_quant_ and
// product_float_avx2.c.
#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx2.h"

const struct kernel_leaves kernel_leaves_avx2 = {
    .isa = KERNEL_ISA_AVX2,
    .few_tokens = 12,
    .convert = {NULL, kernel_avx2_convert_f16, kernel_avx2_convert_bf16, kernel_avx2_convert_q8},
    .few = {kernel_avx2_few_f32, kernel_avx2_few_f16, kernel_avx2_few_bf16, kernel_avx2_few_q4_0,
            kernel_avx2_few_q4_1, kernel_avx2_few_q8_0},
    .many = {kernel_avx2_many_f32, kernel_avx2_many_f32, kernel_avx2_many_f32,
             kernel_avx2_many_q4_0, kernel_avx2_many_q4_1, kernel_avx2_many_q8_0},
    .unpack = {NULL, kernel_avx2_unpack_f16, kernel_avx2_unpack_bf16, kernel_avx2_unpack_q4_0,
               kernel_avx2_unpack_q4_1, kernel_avx2_unpack_q8_0},
    .attention_scores = kernel_avx2_attention_scores,
    .attention_softmax = kernel_avx2_attention_softmax,
    .attention_values = kernel_avx2_attention_values,
    .scale = kernel_avx2_scale,
    .blend = kernel_avx2_blend,
    .to_f16 = kernel_avx2_to_f16,
    .rms_norm = kernel_avx2_rms_norm,
    .rotate = kernel_avx2_rotate,
    .silu_multiply = kernel_avx2_silu_multiply,
    .add = kernel_avx2_add,
};
#endif
