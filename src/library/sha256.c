// SPDX-License-Identifier: Apache-2.0
//
// sha256.c: SHA-256 (FIPS 180-4), so that a model's digest needs no library.
//
// The message is cut into blocks of 64 bytes; each block changes eight 32-bit words in 64 rounds.
// The last block is filled up with 0x80, zeros and the length in bits:
//
//   | message … | 80 | 00 … 00 | length, 8 bytes, big-endian |
//
// The sixteen newest words of the message schedule are kept in a ring, so a block needs no table
// of 64.

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "library/fetch.h"

#define BLOCK 64
#define READ_BYTES (256 * 1024)  // of a file at a time

struct sha256 {
  uint32_t state[8];
  uint64_t length;       // bytes added so far
  uint8_t block[BLOCK];  // the first length % BLOCK bytes of the block begun
};

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t turn(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static inline uint32_t read_be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// One round.  The standard shifts the eight words along; here the caller names them in turn
// instead.
static inline void round_step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e,
                              uint32_t f, uint32_t g, uint32_t *h, uint32_t input) {
  uint32_t t = *h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + (g ^ (e & (f ^ g))) + input;
  *d += t;
  *h = t + (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) | (c & (a | b)));
}

// Word t of the schedule for t >= 16, made from the sixteen before it and put in the place of the
// oldest.
static inline uint32_t schedule(uint32_t w[16], int t) {
  uint32_t before2 = w[(t + 14) & 15], before15 = w[(t + 1) & 15];
  w[t & 15] += (turn(before2, 17) ^ turn(before2, 19) ^ before2 >> 10) + w[(t + 9) & 15] +
               (turn(before15, 7) ^ turn(before15, 18) ^ before15 >> 3);
  return w[t & 15];
}

// Eight rounds, after which every word is in its place again.  Unrolled, so that s and w stay in
// registers.
static inline __attribute__((always_inline)) void eight_rounds(uint32_t s[8], uint32_t w[16],
                                                               int t) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    uint32_t word = t < 16 ? w[t + i] : schedule(w, t + i);
    round_step(s[-i & 7], s[(1 - i) & 7], s[(2 - i) & 7], &s[(3 - i) & 7], s[(4 - i) & 7],
               s[(5 - i) & 7], s[(6 - i) & 7], &s[(7 - i) & 7], ROUND[t + i] + word);
  }
}

// The compression function of FIPS 180-4, section 6.2.2.
static void add_block(uint32_t state[8], const uint8_t block[BLOCK]) {
  uint32_t w[16], s[8];
  for (int i = 0; i < 16; i++) w[i] = read_be32(block + 4 * i);
  memcpy(s, state, sizeof s);
#pragma GCC unroll 8
  for (int t = 0; t < 64; t += 8) eight_rounds(s, w, t);
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

// The square roots' fractional parts of the first eight primes.
static void sha256_init(struct sha256 *h) {
  *h = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

// Whole blocks are hashed where they lie; only what is begun is copied.
static void sha256_add(struct sha256 *h, const uint8_t *data, size_t length) {
  size_t begun = h->length % BLOCK;
  h->length += length;
  if (begun) {
    size_t take = length < BLOCK - begun ? length : BLOCK - begun;
    memcpy(h->block + begun, data, take);
    data += take, length -= take;
    if (begun + take < BLOCK) return;
    add_block(h->state, h->block);
  }
  for (; length >= BLOCK; data += BLOCK, length -= BLOCK) add_block(h->state, data);
  if (length) memcpy(h->block, data, length);
}

// The length field needs 8 bytes: with fewer left in the block, another one is filled.
static void sha256_end(struct sha256 *h, char out[65]) {
  static const uint8_t padding[BLOCK] = {0x80};
  uint64_t bits = h->length * 8;
  uint8_t tail[8];
  for (int i = 0; i < 8; i++) tail[i] = (uint8_t)(bits >> (56 - 8 * i));
  size_t begun = h->length % BLOCK;
  sha256_add(h, padding, begun < BLOCK - 8 ? BLOCK - 8 - begun : 2 * BLOCK - 8 - begun);
  sha256_add(h, tail, sizeof tail);
  for (int i = 0; i < 64; i++)
    out[i] = "0123456789abcdef"[h->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
  out[64] = 0;
}

void fetch_sha256(const void *data, size_t length, char out[65]) {
  struct sha256 h;
  sha256_init(&h);
  if (length) sha256_add(&h, data, length);
  sha256_end(&h, out);
}

// Read rather than mapped: a file that shrinks meanwhile must not become a signal.
bool fetch_sha256_file(const char *path, char out[65], struct error *e) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return error_set_errno(e, errno, "cannot open %s", path);
  struct sha256 h;
  sha256_init(&h);
  uint8_t *piece = memory_new(READ_BYTES);
  ssize_t n;
  while ((n = read(file, piece, READ_BYTES)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) sha256_add(&h, piece, (size_t)n);
  int why = errno;
  memory_free(piece);
  close(file);
  if (n < 0) return error_set_errno(e, why, "cannot read %s", path);
  sha256_end(&h, out);
  return true;
}
