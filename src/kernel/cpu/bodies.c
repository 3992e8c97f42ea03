// SPDX-License-Identifier: Apache-2.0
//
// bodies.c: what the processor has for every operator.

#include "kernel/internal.h"

const struct kernel_bodies kernel_cpu_bodies = {
    .kind = "cpu",
    .body = {[KERNEL_OP_MATMUL] = kernel_cpu_matmul,
             [KERNEL_OP_EMBED] = kernel_cpu_embed,
             [KERNEL_OP_RMS_NORM] = kernel_cpu_rms_norm,
             [KERNEL_OP_ROPE] = kernel_cpu_rope,
             [KERNEL_OP_SILU_MULTIPLY] = kernel_cpu_silu_multiply,
             [KERNEL_OP_ADD] = kernel_cpu_add,
             [KERNEL_OP_ADD_BIAS] = kernel_cpu_add_bias,
             [KERNEL_OP_CACHE_STORE] = kernel_cpu_cache_store,
             [KERNEL_OP_ATTENTION] = kernel_cpu_attention},
};
