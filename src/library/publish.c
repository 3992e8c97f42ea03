// SPDX-License-Identifier: Apache-2.0
//
// publish.c: a finished pull takes its place in the list of models.
//
//   models/.pull/<hash>/  ──one rename──▶  models/<name>/            the name was free
//
//   models/.pull/<hash>/model.gguf ──▶  models/<name>/model-<digest>.gguf     the same source is
//                        model.json ──▶ models/<name>/model.json              there already
//
// In the second case the old model is listed until the new manifest has replaced the old one, in
// one rename; so a power cut at any moment leaves the one or the other.  All of it happens under
// the lock of the list, so two pulls cannot take one name.

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "library/internal.h"

bool library_fail_taken(const char *name, const char *source, struct error *e) {
  return error_set(e, ERROR_INPUT,
                   "the name %s is taken by %s: give another one with --name, or motley models "
                   "--remove %s",
                   name, source, name);
}

struct publishing {
  struct library *library;
  const struct library_publication *publication;
  struct arena memory;
  const char *place;  // models/<name>
  struct error *e;
};

static bool rename_path(struct publishing *p, const char *from, const char *to) {
  int result = world_rename(p->library->world, from, to);
  return result == 0 || error_set_errno(p->e, -result, "cannot rename %s to %s", from, to);
}

// A folder of that name without a readable manifest is no model.  It goes aside, for it may hold
// folders that are not ours; then the new one takes the name.
static bool take_free_name(struct publishing *p) {
  const struct world *w = p->library->world;
  const char *away =
      arena_print(&p->memory, "%s/.removed-%s", p->library->models, p->publication->name);
  if (file_exists(w, p->place)) {
    if (!library_remove_folder(w, away, p->e) || !rename_path(p, p->place, away)) return false;
  }
  if (!rename_path(p, p->publication->folder, p->place)) return false;
  library_remove_folder(w, away, NULL);
  if (library_sync_folders(w, p->place, p->e)) return true;
  world_rename(w, p->place, p->publication->folder);  // it has its name and may lose it
  return false;
}

// Everything but the manifest moves over; files of the same name there are replaced.
static bool move_files(struct publishing *p, const char *model, const char *new_name) {
  const struct world *w = p->library->world;
  struct buffer names = {0};
  bool done = library_list_names(w, p->publication->folder, &names, p->e);
  for (size_t at = 0; done && at < names.length; at += strlen(names.data + at) + 1) {
    const char *name = names.data + at;
    bool is_model = strcmp(name, model) == 0;
    if (!is_model && strncmp(name, "tok", 3) != 0) continue;
    done = rename_path(p, arena_print(&p->memory, "%s/%s", p->publication->folder, name),
                       arena_print(&p->memory, "%s/%s", p->place, is_model ? new_name : name));
  }
  buffer_clear(&names);
  return done;
}

// The new manifest could not be written, or has its name and may lose it: then the old one is
// written again, so that what is listed lasts.
static bool take_back(struct publishing *p, const struct library_model *old) {
  struct library_model there;
  const struct world *w = p->library->world;
  if (!library_manifest_read(w, p->place, old->name, &there, NULL)) return false;
  if (strcmp(there.path, old->path) != 0) library_manifest_write(w, p->place, old, NULL);
  library_model_clear(&there);
  return false;
}

// The new files first, so that the manifest never names one that a power cut could take.
static bool replace(struct publishing *p, const struct library_model *fresh) {
  const struct world *w = p->library->world;
  const char *file = library_last_part(fresh->path);
  const char *dot = strrchr(file, '.');
  struct library_model m = *fresh, old;
  assert(dot && library_model_file(file));
  const char *new_name =
      arena_print(&p->memory, "%.*s-%.16s%s", (int)(dot - file), file, fresh->sha256, dot);
  m.path = arena_print(&p->memory, "%s/%s", p->place, new_name);
  if (!move_files(p, file, new_name) || !library_sync_folders(w, p->place, p->e)) return false;
  if (!library_manifest_read(w, p->place, m.name, &old, p->e)) return false;
  bool done = library_manifest_write(w, p->place, &m, p->e) || take_back(p, &old);
  library_model_clear(&old);
  if (!done) return false;
  library_thin_folder(w, p->place, library_belongs_to_model, new_name, NULL);
  library_remove_folder(w, p->publication->folder, NULL);
  return library_sync_folders(w, p->place, p->e);
}

// Whether the name is free, or may be taken over (*taken).  What cannot be read now may be
// somebody's model all the same.
static bool look_at_place(struct publishing *p, bool *taken) {
  const struct library_publication *publication = p->publication;
  struct library_model there;
  struct error why = {0};
  *taken = library_manifest_read(p->library->world, p->place, publication->name, &there, &why);
  if (!*taken && (why.kind == ERROR_INPUT || why.kind == ERROR_MISSING)) return true;
  if (!*taken) return error_set(p->e, why.kind, "%s", why.text);
  bool may = publication->may_take(publication->context, there.source) ||
             library_fail_taken(publication->name, there.source, p->e);
  library_model_clear(&there);
  return may;
}

// Puts the folder in its place and makes that last.
static bool place_folder(struct publishing *p, struct library_model *out) {
  struct library *s = p->library;
  struct library_model fresh;
  bool taken;
  if (!look_at_place(p, &taken) ||
      !library_manifest_read(s->world, p->publication->folder, p->publication->name, &fresh, p->e))
    return false;
  // What is removed must not come back after a power cut, when the folder has its new name.
  bool done = library_thin_folder(s->world, p->publication->folder, library_belongs_to_model,
                                  library_last_part(fresh.path), p->e) &&
              library_sync_folders(s->world, p->publication->folder, p->e) &&
              (taken ? replace(p, &fresh) : take_free_name(p)) &&
              library_manifest_read(s->world, p->place, p->publication->name, out, p->e);
  library_model_clear(&fresh);
  return done;
}

bool library_publish(struct library *s, const struct library_publication *publication,
                     struct library_model *out, struct error *e) {
  struct publishing p = {.library = s, .publication = publication, .e = e};
  assert(library_name_is_valid(publication->name) && publication->may_take);
  int lock = library_lock_list(s, e);
  if (lock < 0) return false;
  p.place = arena_print(&p.memory, "%s/%s", s->models, publication->name);
  bool done = place_folder(&p, out);
  arena_clear(&p.memory);
  world_close(s->world, lock);
  return done;
}
