// SPDX-License-Identifier: Apache-2.0
//
// leaves_avx2.c: the table of AVX2 leaves.  The leaves are in rows_, attention_, product_quant_ and
// product_float_avx2.c.
#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx2.h"

const struct kernel_leaves kernel_leaves_avx2 = {
    .isa = KERNEL_ISA_AVX2,
    .few_tokens = 12,
    .product = {&kernel_avx2_f32, &kernel_avx2_f16, &kernel_avx2_bf16, &kernel_avx2_q4_0,
                &kernel_avx2_q4_1, &kernel_avx2_q8_0},
    .attention = &kernel_avx2_attention,
    .rows = &kernel_avx2_rows,
};
#endif
