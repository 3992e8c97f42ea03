// SPDX-License-Identifier: Apache-2.0
//
// file.c: files, read whole or mapped, and written so that a crash leaves the old or the new
// content.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/world.h"

// Opens a regular file and tells its size; -1 with an error otherwise.
static int open_regular(const char *path, uint64_t *size, struct error *e) {
  struct stat info;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // not to hang on a pipe
  if (file < 0) {
    error_set_errno(e, errno, "cannot open %s", path);
    return -1;
  }
  if (fstat(file, &info) < 0 || !S_ISREG(info.st_mode)) {
    error_set(e, ERROR_INPUT, "%s is not a regular file", path);
    close(file);
    return -1;
  }
  *size = (uint64_t)info.st_size;
  return file;
}

// A mapping outlives its file descriptor, so that is closed at once.  An empty file cannot be
// mapped and is represented by no memory.
bool file_map_open(struct file_map *m, const char *path, struct error *e) {
  uint64_t size;
  int file = open_regular(path, &size, e);
  if (file < 0) return false;
  void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
  int why = errno;
  close(file);
  if (data == MAP_FAILED) return error_set_errno(e, why, "cannot map %s", path);
  *m = (struct file_map){data, size};
  return true;
}

void file_map_close(struct file_map *m) {
  if (m->data) munmap((void *)(uintptr_t)m->data, m->length);
  *m = (struct file_map){0};
}

#define READ_STEP 4096u  // bytes asked for beyond what the file's size promised

// Reads to the end of the file, wherever that is: the files of /proc say that they are empty, and
// another program may be writing.  Stops as soon as more than `limit` bytes are there.
static bool read_all(int file, size_t size, size_t limit, struct buffer *out) {
  size_t before = out->length;
  ssize_t n;
  do {
    size_t have = out->length - before;
    size_t wanted = have < size ? size - have : READ_STEP;
    buffer_reserve(out, wanted);
    n = read(file, out->data + out->length, wanted);
    if (n > 0) out->length += (size_t)n;
  } while ((n > 0 && out->length - before <= limit) || (n < 0 && errno == EINTR));
  out->data[out->length] = 0;
  return n >= 0;
}

// On failure the buffer is cut back to what the caller had in it.
bool file_read(const char *path, size_t limit, struct buffer *out, struct error *e) {
  uint64_t size;
  int file = open_regular(path, &size, e);
  if (file < 0) return false;
  size_t before = out->length;
  bool read = size > limit || read_all(file, size, limit, out);
  int why = errno;
  close(file);
  if (read && size <= limit && out->length - before <= limit) return true;
  out->length = before;
  if (out->data) out->data[before] = 0;
  if (!read) return error_set_errno(e, why, "cannot read %s", path);
  return error_set(e, ERROR_INPUT, "%s has more than the %zu bytes that are read of such a file",
                   path, limit);
}

// write(2) may take less than it was given, most often on a disk that has just become full.
static bool write_all(int file, struct str content) {
  while (content.length) {
    ssize_t n = write(file, content.data, content.length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    content.data += n;
    content.length -= (size_t)n;
  }
  return true;
}

// After a rename only a synced folder makes the new name survive a power cut.
static void sync_folder_of(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (slash == path) slash++;
  int n = slash ? snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path)
                : snprintf(folder, sizeof folder, ".");
  if (n <= 0 || n >= (int)sizeof folder) return;
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

// The new file has a name that nobody else has or could foresee (two threads may write the same
// path, and the folder may be everybody's), and must not exist yet.
bool file_write_atomic(const char *path, struct str content, struct error *e) {
  char fresh[PATH_MAX];
  const struct world *world = world_real();
  uint64_t unique = world->random(world->context);
  if (snprintf(fresh, sizeof fresh, "%s.%016" PRIx64 ".new", path, unique) >= (int)sizeof fresh)
    return error_set(e, ERROR_INPUT, "the path %s is too long", path);
  int file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return error_set_errno(e, errno, "cannot create %s", path);
  bool done = write_all(file, content) && fsync(file) == 0;
  int why = errno;
  if (close(file) < 0 && done) done = false, why = errno;
  if (done && rename(fresh, path) < 0) done = false, why = errno;
  if (!done) {
    unlink(fresh);
    return error_set_errno(e, why, "cannot write %s", path);
  }
  sync_folder_of(path);
  return true;
}

// Makes each part in turn and does not ask first: another process may make the same folders.
bool file_make_folders(const char *path, struct error *e) {
  char part[PATH_MAX];
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof part)
    return error_set(e, ERROR_INPUT, "the path \"%s\" is empty or too long", path);
  for (size_t i = 1; i <= length; i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    memcpy(part, path, i);
    part[i] = 0;
    struct stat info;
    if (mkdir(part, 0755) == 0 ||
        (errno == EEXIST && stat(part, &info) == 0 && S_ISDIR(info.st_mode)))
      continue;
    return error_set_errno(e, errno == EEXIST ? ENOTDIR : errno, "cannot make the folder %s", part);
  }
  return true;
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }
