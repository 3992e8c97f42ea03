// SPDX-License-Identifier: Apache-2.0
//
// copy.c: copies a file on this machine, and what copying, unpacking and downloading have in
// common: room on the disk, and the question whether to go on.
//
// A copy shares the original's blocks where the file system can (FICLONE), else the kernel moves
// the bytes (copy_file_range), else they go through memory.  The new name appears when all is
// written and synced.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "library/internal.h"

#define COPY_PIECE (8u << 20)  // bytes copied between two reports

// Asks about the folder, since the file itself need not be there yet. f_bavail leaves out what
// is reserved for root.
uint64_t library_free_bytes(const char *path) {
  struct statvfs s;
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (!slash || (size_t)(slash - path) >= sizeof folder) return UINT64_MAX;
  memcpy(folder, path, (size_t)(slash - path));
  folder[slash - path] = 0;
  return statvfs(folder[0] ? folder : "/", &s) == 0 ? (uint64_t)s.f_bavail * s.f_frsize
                                                    : UINT64_MAX;
}

bool library_fail_disk_full(const char *path, uint64_t needed, struct error *e) {
  return error_set(e, ERROR_SYSTEM,
                   "not enough disk space for %s: %.1f MB more are needed, %.1f MB are free; make "
                   "room and run the command again",
                   path, (double)needed / 1e6, (double)library_free_bytes(path) / 1e6);
}

bool library_report(const struct library_pull *pull, const char *what, uint64_t done,
                    uint64_t total, struct error *e) {
  if (!pull->progress || pull->progress(pull->context, what, done, total)) return true;
  return error_set(e, ERROR_CANCELLED, "stopped; run the command again to go on");
}

struct copying {
  const char *from_path, *to_path;
  const char *what;  // the file's name, for progress
  int from, to;
  uint64_t size;  // bytes
  const struct library_pull *pull;
};

// The number of bytes copied, 0 at the end, -1 on failure.
static ssize_t copy_piece(int from, int to) {
  ssize_t n = copy_file_range(from, NULL, to, NULL, COPY_PIECE, 0);
  if (n >= 0 || (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP))
    return n;
  char piece[64 * 1024];
  n = read(from, piece, sizeof piece);
  for (ssize_t at = 0; at < n;) {
    ssize_t w = write(to, piece + at, (size_t)(n - at));
    if (w < 0 && errno == EINTR) continue;
    if (w < 0) return -1;
    at += w;
  }
  return n;
}

// The room is asked for first: a copy that must fail should not fill the disk before it does.
static bool copy_all(const struct copying *c, struct error *e) {
  if (ioctl(c->to, FICLONE, c->from) == 0) return true;
  if (c->size > library_free_bytes(c->to_path))
    return library_fail_disk_full(c->to_path, c->size, e);
  for (uint64_t done = 0;;) {
    ssize_t n = copy_piece(c->from, c->to);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT))
      return library_fail_disk_full(c->to_path, c->size - done, e);
    if (n < 0) return error_set_errno(e, errno, "cannot copy %s", c->from_path);
    if (n == 0) return true;
    done += (uint64_t)n;
    if (!library_report(c->pull, c->what, done, c->size, e)) return false;
  }
}

// On failure the caller closes whichever of the two was opened.
static bool open_both(struct copying *c, const char *fresh, struct error *e) {
  struct stat info;
  c->from = open(c->from_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // not to hang on a pipe
  if (c->from < 0) return error_set_errno(e, errno, "cannot open %s", c->from_path);
  if (fstat(c->from, &info) < 0 || !S_ISREG(info.st_mode))
    return error_set(e, ERROR_INPUT, "%s is not a regular file", c->from_path);
  c->size = (uint64_t)info.st_size;
  c->to = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return c->to >= 0 || error_set_errno(e, errno, "cannot create %s", fresh);
}

// Goes through "<to>.new", so a copy that was killed is never taken for the file.
bool library_copy_file(const char *from, const char *to, const struct library_pull *pull,
                       struct error *e) {
  struct buffer fresh = {0};
  struct copying c = {.from_path = from,
                      .to_path = to,
                      .what = library_last_part(from),
                      .from = -1,
                      .to = -1,
                      .pull = pull};
  buffer_print(&fresh, "%s.new", to);
  bool done = open_both(&c, fresh.data, e) && copy_all(&c, e);
  if (done && (fsync(c.to) < 0 || rename(fresh.data, to) < 0))
    done = error_set_errno(e, errno, "cannot write %s", to);
  if (!done && c.to >= 0) unlink(fresh.data);
  if (c.to >= 0) close(c.to);
  if (c.from >= 0) close(c.from);
  buffer_clear(&fresh);
  return done;
}
