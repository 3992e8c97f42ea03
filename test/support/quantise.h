// SPDX-License-Identifier: Apache-2.0
//
// quantise.h: weights into the formats of kernel.h and back, the slow obvious way, for tests.
//
// Written from the block definitions in kernel/kernel.h alone and sharing nothing with src/kernel,
// so that the two check each other.
#pragma once

#include "base/base.h"
#include "kernel/kernel.h"

// ggml's number of a format, as GGUF files write it.
uint32_t quantise_ggml_type(enum kernel_dtype t);
// Appends `count` weights; count must be a multiple of the block (1 or 32).
void quantise_row(enum kernel_dtype t, const float *weights, size_t count, struct buffer *out);
void dequantise_row(enum kernel_dtype t, const void *bytes, size_t count, float *weights);
