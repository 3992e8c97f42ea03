// SPDX-License-Identifier: Apache-2.0
//
// file.c: files, read whole or mapped, and written so that a crash leaves the old or the new
// content.
//
// What makes a new file safe, in this order: its bytes are synced before it gets its name (or the
// name could stand for a hole), and the folder is synced after (or the old name could come back).
// The result of each step is looked at.

#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/internal.h"

// Opens a regular file and tells its size; -1 with an error otherwise.
static int open_regular(const struct world *w, const char *path, uint64_t *size, struct error *e) {
  struct world_file_info info;
  int file = world_open(w, path, WORLD_READ);
  if (file < 0) {
    error_set_errno(e, -file, "cannot open %s", path);
    return -1;
  }
  if (world_info_of(w, file, &info) < 0 || info.kind != WORLD_FILE) {
    error_set(e, ERROR_INPUT, "%s is not a regular file", path);
    world_close(w, file);
    return -1;
  }
  *size = info.size;
  return file;
}

// The handle stays open, to see the file's size later.  An empty file cannot be mapped and is
// represented by no memory.
bool file_map_open(struct file_map *m, const struct world *w, const char *path, struct error *e) {
  uint64_t size;
  const uint8_t *data = NULL;
  int file = open_regular(w, path, &size, e);
  if (file < 0) return false;
  int result = size ? world_map(w, file, size, &data) : 0;
  if (!data) world_close(w, file);
  if (result < 0) return error_set_errno(e, -result, "cannot map %s", path);
  *m = (struct file_map){w, data, size, file};
  return true;
}

// The size too: bytes lost inside the last page read as zero without a fault.
bool file_map_intact(const struct file_map *m) {
  struct world_file_info now;
  if (!m->data) return true;
  return file_guard_intact(m->data) && world_info_of(m->world, m->handle, &now) >= 0 &&
         now.size >= m->length;
}

void file_map_close(struct file_map *m) {
  if (m->data) {
    world_unmap(m->world, m->data, m->length);
    world_close(m->world, m->handle);
  }
  *m = (struct file_map){0};
}

#define READ_STEP 4096u  // bytes asked for beyond what the file's size promised

// Reads to the end of the file, wherever that is: the files of /proc say that they are empty, and
// another program may be writing.  Stops as soon as more than `limit` bytes are there.
static int64_t read_all(const struct world *w, int file, size_t size, size_t limit,
                        struct buffer *out) {
  size_t before = out->length;
  int64_t n;
  do {
    size_t have = out->length - before;
    size_t wanted = have < size ? size - have : READ_STEP;
    if (!buffer_reserve(out, wanted)) return -ENOMEM;
    n = world_read_at(w, file, out->data + out->length, wanted, have);
    if (n > 0) out->length += (size_t)n;
  } while (n > 0 && out->length - before <= limit);
  out->data[out->length] = 0;
  return n;
}

// A file may be large: memory that is not there for it is an error, whatever the caller's buffer
// says.  On failure the buffer is cut back to what the caller had in it.
bool file_read(const struct world *w, const char *path, size_t limit, struct buffer *out,
               struct error *e) {
  uint64_t size;
  int file = open_regular(w, path, &size, e);
  if (file < 0) return false;
  size_t before = out->length;
  struct buffer kept = *out;
  out->may_fail = true;
  int64_t result = size > limit ? 0 : read_all(w, file, size, limit, out);
  out->may_fail = kept.may_fail;
  out->failed = kept.failed;
  world_close(w, file);
  if (result >= 0 && size <= limit && out->length - before <= limit) return true;
  out->length = before;
  if (out->data) out->data[before] = 0;
  if (result == -ENOMEM) return error_set_memory(e, size, path);
  if (result < 0) return error_set_errno(e, (int)-result, "cannot read %s", path);
  return error_set(e, ERROR_INPUT, "%s has more than the %zu bytes that are read of such a file",
                   path, limit);
}

// A full disk has a line of its own; `needed` is what is missing still.
static bool fail_write(const struct world *w, const char *path, int64_t result, uint64_t needed,
                       struct error *e) {
  if (result == -ENOSPC) return file_fail_disk_full(w, path, needed, e);
  return error_set_errno(e, (int)-result, "cannot write %s", path);
}

bool file_write_all(const struct world *w, int handle, struct str content, uint64_t offset,
                    const char *path, struct error *e) {
  while (content.length) {
    int64_t n = world_write_at(w, handle, content.data, content.length, offset);
    if (n <= 0) return fail_write(w, path, n ? n : -ENOSPC, content.length, e);
    content.data += n;
    content.length -= (size_t)n;
    offset += (uint64_t)n;
  }
  return true;
}

// The folder that holds `path`; false when its name is too long.
static bool folder_of(const char *path, char folder[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  if (slash == path) slash++;
  int n = slash ? snprintf(folder, PATH_MAX, "%.*s", (int)(slash - path), path)
                : snprintf(folder, PATH_MAX, ".");
  return n > 0 && n < PATH_MAX;
}

// After a rename only a synced folder makes the new name survive a power cut.  A folder that may be
// written but not read, and a file system that cannot sync folders, are left as they are: nothing
// more can be done there.
static int sync_folder_of(const struct world *w, const char *path) {
  char folder[PATH_MAX];
  if (!folder_of(path, folder)) return -ENAMETOOLONG;
  int handle = world_open(w, folder, WORLD_READ | WORLD_FOLDER);
  if (handle == -EACCES) return 0;
  if (handle < 0) return handle;
  int result = world_sync(w, handle);
  world_close(w, handle);
  return result == -EINVAL || result == -ENOTSUP ? 0 : result;
}

bool file_publish(const struct world *w, int handle, const char *from, const char *to,
                  struct error *e) {
  int result = world_sync(w, handle);
  if (result == 0) result = world_rename(w, from, to);
  if (result == 0) result = sync_folder_of(w, to);
  return result == 0 || fail_write(w, to, result, 0, e);
}

// The new file has a name that nobody else has or could foresee (two threads may write the same
// path, and the folder may be everybody's), and must not exist yet.
bool file_write_atomic(const struct world *w, const char *path, struct str content,
                       struct error *e) {
  char fresh[PATH_MAX];
  if (snprintf(fresh, sizeof fresh, "%s.%016" PRIx64 ".new", path, world_random(w)) >=
      (int)sizeof fresh)
    return error_set(e, ERROR_INPUT, "the path %s is too long", path);
  int file = world_open(w, fresh, WORLD_WRITE | WORLD_CREATE | WORLD_EXCLUSIVE);
  if (file < 0) {
    if (file == -ENOSPC) return file_fail_disk_full(w, path, content.length, e);
    return error_set_errno(e, -file, "cannot create %s", path);
  }
  bool done = file_write_all(w, file, content, 0, path, e) && file_publish(w, file, fresh, path, e);
  world_close(w, file);  // what was written is synced already
  if (!done) world_remove(w, fresh);
  return done;
}

static bool is_folder(const struct world *w, const char *path) {
  struct world_file_info info;
  return world_info(w, path, &info) == 0 && info.kind == WORLD_DIRECTORY;
}

// Makes each part in turn and does not ask first: another process may make the same folders.
bool file_make_folders(const struct world *w, const char *path, struct error *e) {
  char part[PATH_MAX];
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof part)
    return error_set(e, ERROR_INPUT, "the path \"%s\" is empty or too long", path);
  for (size_t i = 1; i <= length; i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    memcpy(part, path, i);
    part[i] = 0;
    int result = world_make_folder(w, part);
    if (result == -EEXIST)
      result = is_folder(w, part) ? 0 : -ENOTDIR;
    else if (result == 0 && (result = sync_folder_of(w, part)) < 0)
      world_remove_folder(w, part);  // or a later call would find it and not sync it
    if (result < 0) return error_set_errno(e, -result, "cannot make the folder %s", part);
  }
  return true;
}

bool file_exists(const struct world *w, const char *path) {
  struct world_file_info info;
  return world_info(w, path, &info) == 0;
}

// Cuts the last part off a path: "a/b" → "a" → "." and "/a" → "/".  False at the end.
static bool go_up(char *path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') path[--length] = 0;
  if (!strcmp(path, "/") || !strcmp(path, ".")) return false;
  char *slash = strrchr(path, '/');
  if (!slash) {
    path[0] = '.', path[1] = 0;
    return true;
  }
  slash[slash == path] = 0;
  return true;
}

// A file may be on its way to a folder that is not made yet: what counts is where it will be made.
bool file_free_bytes(const struct world *w, const char *path, uint64_t *bytes, struct error *e) {
  char existing[PATH_MAX];
  int64_t result;
  if (snprintf(existing, sizeof existing, "%s", path[0] ? path : ".") >= (int)sizeof existing)
    return error_set(e, ERROR_INPUT, "the path %.60s… is too long", path);
  do result = world_free_bytes(w, existing);
  while ((result == -ENOENT || result == -ENOTDIR) && go_up(existing));
  if (result < 0)
    return error_set_errno(e, (int)-result, "cannot tell how much space is free at %s", path);
  *bytes = (uint64_t)result;
  return true;
}

// What is not known is left out of the line.
bool file_fail_disk_full(const struct world *w, const char *path, uint64_t needed,
                         struct error *e) {
  char more[64] = "", left[64] = "";
  uint64_t free_now;
  if (needed) snprintf(more, sizeof more, "%.1f MB more are needed, ", (double)needed / 1e6);
  if (file_free_bytes(w, path, &free_now, NULL))
    snprintf(left, sizeof left, "%.1f MB are free; ", (double)free_now / 1e6);
  return error_set(e, ERROR_SYSTEM,
                   "not enough disk space for %s: %s%smake room and run the command again", path,
                   more, left);
}
