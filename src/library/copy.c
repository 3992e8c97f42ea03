// SPDX-License-Identifier: Apache-2.0
//
// copy.c: copies a file on this machine, and the question, common to copying, unpacking and
// downloading, whether to go on.
//
// The bytes go through memory in pieces.  The new name appears when all is written and synced.

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "library/internal.h"

#define COPY_PIECE (1u << 20)  // bytes copied between two reports

bool library_report(const struct library_pull *pull, const char *what, uint64_t done,
                    uint64_t total, struct error *e) {
  assert(!total || done <= total);
  if (!pull->progress || pull->progress(pull->context, what, done, total)) return true;
  return error_set(e, ERROR_CANCELLED, "stopped; run the command again to go on");
}

struct copying {
  const struct world *world;
  const char *from_path, *to_path;
  int from, to;   // handles; -1 = not open
  uint64_t size;  // bytes
  const struct library_pull *pull;
};

// On failure the caller closes whichever of the two was opened.
static bool open_both(struct copying *c, const char *fresh, struct error *e) {
  struct world_file_info info;
  c->from = world_open(c->world, c->from_path, WORLD_READ);
  if (c->from < 0) return error_set_errno(e, -c->from, "cannot open %s", c->from_path);
  if (world_info_of(c->world, c->from, &info) < 0 || info.kind != WORLD_FILE)
    return error_set(e, ERROR_INPUT, "%s is not a regular file", c->from_path);
  c->size = info.size;
  c->to = world_open(c->world, fresh, WORLD_WRITE | WORLD_CREATE | WORLD_TRUNCATE);
  if (c->to == -ENOSPC) return file_fail_disk_full(c->world, c->to_path, c->size, e);
  return c->to >= 0 || error_set_errno(e, -c->to, "cannot create %s", fresh);
}

// The room is asked for first: a copy that must fail should not fill the disk before it does.  The
// file is copied as long as it is, should it grow or shrink meanwhile.
static bool copy_all(const struct copying *c, uint8_t *piece, struct error *e) {
  uint64_t left = UINT64_MAX, done = 0;
  file_free_bytes(c->world, c->to_path, &left, NULL);
  if (c->size > left) return file_fail_disk_full(c->world, c->to_path, c->size, e);
  for (;;) {
    int64_t n = world_read_at(c->world, c->from, piece, COPY_PIECE, done);
    if (n < 0) return error_set_errno(e, (int)-n, "cannot read %s", c->from_path);
    if (n == 0) return true;
    struct str bytes = {(const char *)piece, (size_t)n};
    if (!file_write_all(c->world, c->to, bytes, done, c->to_path, e)) return false;
    done += (uint64_t)n;
    uint64_t total = done < c->size ? c->size : done;
    if (!library_report(c->pull, library_last_part(c->from_path), done, total, e)) return false;
  }
}

// Goes through "<to>.new", so a copy that was killed is never taken for the file.
bool library_copy_file(const struct world *w, const char *from, const char *to,
                       const struct library_pull *pull, struct error *e) {
  struct buffer fresh = {0};
  struct copying c = {w, from, to, -1, -1, 0, pull};
  buffer_print(&fresh, "%s.new", to);
  bool done = open_both(&c, fresh.data, e);
  if (done) {
    uint8_t *piece = memory_new(COPY_PIECE);
    done = copy_all(&c, piece, e) && file_publish(w, c.to, fresh.data, to, e);
    memory_free(piece);
  }
  if (!done && c.to >= 0) world_remove(w, fresh.data);
  if (c.to >= 0) world_close(w, c.to);
  if (c.from >= 0) world_close(w, c.from);
  buffer_clear(&fresh);
  return done;
}
