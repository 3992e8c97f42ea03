// SPDX-License-Identifier: Apache-2.0
//
// fuzz_zip.c: the zip reader on any bytes.  What it hands out must lie inside the declared size,
// and a bomb must not take long: unpacking stops at OUTPUT_MAX bytes.

#include <stdlib.h>

#include "library/internal.h"
#include "support/fuzz.h"

#define OUTPUT_MAX (4u << 20)

static bool count_bytes(void *context, const uint8_t *data, size_t length, struct error *e) {
  uint64_t *seen = context;
  (void)data;
  *seen += length;
  return *seen <= OUTPUT_MAX || error_set(e, ERROR_CANCELLED, "enough");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct library_zip z;
  struct error e;
  if (!library_zip_open(&z, data, size, &e)) return 0;
  for (int i = 0; i < z.count; i++) {
    uint64_t seen = 0;
    library_zip_unpack(&z, &z.entries[i], count_bytes, &seen, &e);
    if (seen > z.entries[i].size) abort();
  }
  library_zip_close(&z);
  return 0;
}
