// SPDX-License-Identifier: Apache-2.0
//
// world.h: everything outside the program that a run depends on: clocks, randomness, files.
//
// Rooms above take a `const struct world *` and never call the system's clock or random source
// themselves, so a test (later a whole simulated fleet) replays from one seed with world_simulated.
#pragma once

#include "base/base.h"

struct world {
  uint64_t (*monotonic_ns)(void *context);  // never goes back
  uint64_t (*wall_ms)(void *context);       // since 1970, UTC
  uint64_t (*random)(void *context);        // 64 uniform bits
  void *context;
};
// the system's clocks and getrandom(2); process-wide and immutable
const struct world *world_real(void);

// A world driven by the test: time advances only by hand, randomness comes from `seed`.
struct world_simulated {
  struct world world;
  uint64_t now_ns;  // monotonic; wall time is this / 1e6 + 1,700,000,000,000
  uint64_t state;   // of the generator
};
// Starts at time 0.  s->world points at s, so s must stay where it is and outlive its users.
void world_simulated_init(struct world_simulated *s, uint64_t seed);

// splitmix64: the project's one small generator.  Advances *state, returns 64 uniform bits.
uint64_t random_next(uint64_t *state);

// ---- files.  Paths are NUL-terminated; errors name the path.

// A file mapped for reading.  Invariant: data is NULL only when length is 0.
struct file_map {
  const uint8_t *data;
  size_t length;
};
// Regular files only: a folder or a pipe is ERROR_INPUT.  A file that another program cuts short
// meanwhile ends this process with SIGBUS when the lost bytes are touched.
bool file_map_open(struct file_map *m, const char *path, struct error *e);
// All that was borrowed from the data is gone.  Does nothing on a zeroed map.
void file_map_close(struct file_map *m);
// The whole file, at most `limit` bytes, appended to *out; a longer one is ERROR_INPUT.
bool file_read(const char *path, size_t limit, struct buffer *out, struct error *e);
// Writes a new file beside `path`, syncs it, renames it over `path`, syncs the folder: after a
// crash `path` holds either the old content or the new.
bool file_write_atomic(const char *path, struct str content, struct error *e);
bool file_make_folders(const char *path, struct error *e);  // like mkdir -p
bool file_exists(const char *path);
