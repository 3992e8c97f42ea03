// SPDX-License-Identifier: Apache-2.0
//
// fuzz.h: what a fuzz target (test/fuzz/fuzz_X.c) defines.  It hands the bytes to one parser and
// returns 0.  The bytes may be anything; the parser must answer with a result or an error, leak
// nothing and touch nothing outside `data[0..size)`.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
