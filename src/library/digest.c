// SPDX-License-Identifier: Apache-2.0
//
// digest.c: SHA-256 of files and bytes, by libmd (which libedit links anyway).
//
// A file is read in pieces and not mapped: one that shrinks meanwhile must not become a signal.

#include <assert.h>
#include <sha2.h>
#include <strings.h>

#include "library/internal.h"

#define READ_BYTES (256 * 1024)  // of a file at a time

static void write_hex(const uint8_t digest[SHA256_DIGEST_LENGTH], char out[65]) {
  for (int i = 0; i < 2 * SHA256_DIGEST_LENGTH; i++)
    out[i] = "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
  out[64] = 0;
}

void library_sha256(const void *data, size_t length, char out[65]) {
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA2_CTX h;
  assert(data || !length);
  SHA256Init(&h);
  if (length) SHA256Update(&h, data, length);
  SHA256Final(digest, &h);
  write_hex(digest, out);
}

bool library_sha256_file(const struct world *w, const char *path, char out[65], struct error *e) {
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA2_CTX h;
  int file = world_open(w, path, WORLD_READ);
  if (file < 0) return error_set_errno(e, -file, "cannot open %s", path);
  uint8_t *piece = memory_new(READ_BYTES);
  int64_t n;
  SHA256Init(&h);
  for (uint64_t at = 0; (n = world_read_at(w, file, piece, READ_BYTES, at)) > 0; at += (uint64_t)n)
    SHA256Update(&h, piece, (size_t)n);
  memory_free(piece);
  world_close(w, file);
  if (n < 0) return error_set_errno(e, (int)-n, "cannot read %s", path);
  SHA256Final(digest, &h);
  write_hex(digest, out);
  return true;
}

bool library_same_digest(const char *a, const char *b) {
  assert(a && b);
  return strcasecmp(a, b) == 0;
}
