// SPDX-License-Identifier: Apache-2.0
//
// leaves_avx512.c: the table of AVX-512 leaves.  The leaves are in rows_, attention_,
// product_quant_ and product_float_avx512.c.
#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx512.h"

const struct kernel_leaves kernel_leaves_avx512 = {
    .isa = KERNEL_ISA_AVX512,
    .few_tokens = 32,
    .bf16_native = true,
    .product = {&kernel_avx512_f32, &kernel_avx512_f16, &kernel_avx512_bf16, &kernel_avx512_q4_0,
                &kernel_avx512_q4_1, &kernel_avx512_q8_0},
    .attention = &kernel_avx512_attention,
    .rows = &kernel_avx512_rows,
};
#endif
