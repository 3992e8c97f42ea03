// SPDX-License-Identifier: Apache-2.0
//
// file.h: whole files, on top of world.h: read, mapped, written so that a crash leaves the old or
// the new content; folders made.  Errors name the path.
#pragma once

#include "base/world.h"

// A file mapped for reading.  Invariant: data is NULL only when length is 0.
struct file_map {
  const struct world *world;
  const uint8_t *data;
  size_t length;
  int handle;  // of the file, while there is data
};
// Regular files only: a folder or a pipe is ERROR_INPUT.
bool file_map_open(struct file_map *m, const struct world *w, const char *path, struct error *e);
// False when the file was cut short, or its disk failed, since it was mapped: lost bytes read as
// zero, and what was made of the data must be thrown away.
bool file_map_intact(const struct file_map *m);
// All that was borrowed from the data is gone.  Does nothing on a zeroed map.
void file_map_close(struct file_map *m);
// The whole file, at most `limit` bytes, appended to *out; a longer one is ERROR_INPUT.
bool file_read(const struct world *w, const char *path, size_t limit, struct buffer *out,
               struct error *e);
// Writes a new file beside `path`, syncs it, renames it over `path`, syncs the folder: after a
// crash `path` holds either the old content or the new.
bool file_write_atomic(const struct world *w, const char *path, struct str content,
                       struct error *e);
// Writes all of it at the offset; the world's write may take less at a time.
bool file_write_all(const struct world *w, int handle, struct str content, uint64_t offset,
                    const char *path, struct error *e);
// Puts a complete file in its place: syncs the open `handle`, renames, syncs the folder of `to`.
// On failure `to` holds the old or the new content, and `from` may still be there.
bool file_publish(const struct world *w, int handle, const char *from, const char *to,
                  struct error *e);
bool file_make_folders(const struct world *w, const char *path, struct error *e);  // like mkdir -p
bool file_exists(const struct world *w, const char *path);
// Bytes free for `path`, which need not exist yet: of the disk that would hold it.
bool file_free_bytes(const struct world *w, const char *path, uint64_t *bytes, struct error *e);
// The one line about a disk that has no room: how much is needed (0 = not known), how much is free,
// what to do.  Returns false.
bool file_fail_disk_full(const struct world *w, const char *path, uint64_t needed, struct error *e);
