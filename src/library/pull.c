// SPDX-License-Identifier: Apache-2.0
//
// pull.c: brings a model into the library, and can be killed at any moment and run again.
//
//   models/.pull/<hash of the source>.lock      held by the pull that works on it
//   models/.pull/<hash of the source>/          what it has so far:
//       download(.part, .part.from)             the file as fetched: the model, or an archive with
//                                               the model in it
//       model.gguf                              the model, whole and checked
//       model.json                              its manifest: from here on the folder is a model
//   models/<name>/                              in the list (publish.c)
//
// Each step looks whether its result is there already, so a second run goes on where the first one
// stopped.  What a pull left that nobody ran again is removed by a later pull of anything, after
// LEFT_OVER_MS.

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "library/internal.h"
#include "model/model.h"

#define LEFT_OVER_MS (14 * 24 * 3600 * UINT64_C(1000))  // two weeks

struct pulling {
  struct library *library;
  const struct world *world;
  const struct library_pull *pull;
  struct arena memory;
  const char *source;    // canonical
  const char *hash;      // of it, 16 hex digits
  const char *parent;    // models/.pull
  const char *folder;    // models/.pull/<hash>
  const char *download;  // in it
  int lock;              // handle; -1 = not held
  struct error *e;
};

// ---- beginning

// Whether a manifest's source is what the person asked for.  It remembers "pypi:x==1.2" where they
// may say "pypi:x", and the file that was taken of a repository.
static bool is_same_source(const char *asked, const char *kept) {
  size_t n = strlen(asked);
  if (strncmp(asked, kept, n) != 0) return false;
  bool package = strncmp(asked, "pypi:", 5) == 0 && strncmp(kept + n, "==", 2) == 0;
  bool repository = strncmp(asked, "hf:", 3) == 0 && kept[n] == '/';
  return kept[n] == 0 || package || repository;
}

static bool find_source(struct pulling *p) {
  struct buffer source = {0};
  bool done = library_source_canonical(p->world, p->pull->source, &source, p->e);
  if (done) p->source = arena_copy(&p->memory, source.data, source.length);
  buffer_clear(&source);
  return done;
}

// The lock of one source: a handle, or -errno (-EWOULDBLOCK: another pull has it).  Whoever ends a
// pull removes the lock's file while holding it; so a lock counts only when its file is still the
// one of that name.
static int take_lock(const struct world *w, const char *path) {
  struct world_file_info held, there;
  for (;;) {
    int handle = world_open(w, path, WORLD_READ | WORLD_WRITE | WORLD_CREATE);
    if (handle < 0) return handle;
    int result = world_lock(w, handle);
    if (result == 0) result = world_info_of(w, handle, &held);
    if (result == 0) result = world_info(w, path, &there);
    if (result == 0 && held.device == there.device && held.number == there.number) return handle;
    world_close(w, handle);
    if (result < 0 && result != -ENOENT) return result;
  }
}

static bool lock_source(struct pulling *p) {
  const char *path = arena_print(&p->memory, "%s.lock", p->folder);
  int handle = take_lock(p->world, path);
  if (handle == -EWOULDBLOCK)
    return error_set(p->e, ERROR_BUSY,
                     "%s is being pulled by another motley right now; wait for it or stop it",
                     p->source);
  if (handle < 0) return error_set_errno(p->e, -handle, "cannot lock %s", path);
  p->lock = handle;
  return true;
}

static bool advise_home(struct error *e) {
  struct error why = *e;
  return error_set(e, why.kind, "%s; set MOTLEY_HOME to a folder where models may lie", why.text);
}

static bool is_whole_file(const void *context, const char *name) {
  (void)context;
  size_t n = strlen(name);
  return n < 4 || strcmp(name + n - 4, ".new") != 0;
}

// Folder and lock belong to the source, so one source is pulled once at a time.  What a killed run
// was writing has names of its own (".new"), which nobody will ask for.
static bool begin(struct pulling *p) {
  struct arena *m = &p->memory;
  if (!find_source(p)) return false;
  p->parent = arena_print(m, "%s/.pull", p->library->models);
  p->hash =
      arena_print(m, "%016llx", (unsigned long long)hash_bytes(p->source, strlen(p->source), 0));
  p->folder = arena_print(m, "%s/%s", p->parent, p->hash);
  p->download = arena_print(m, "%s/download", p->folder);
  return (file_make_folders(p->world, p->parent, p->e) || advise_home(p->e)) && lock_source(p) &&
         file_make_folders(p->world, p->folder, p->e) &&
         library_thin_folder(p->world, p->folder, is_whole_file, NULL, p->e);
}

// What an interrupted pull of another source left long ago, unless somebody works on it.
static void drop_left_over(struct pulling *p, const char *name) {
  struct world_file_info info;
  struct buffer folder = {0}, lock = {0};
  size_t length = strcspn(name, ".");  // "<hash>" or "<hash>.lock"
  buffer_print(&folder, "%s/%.*s", p->parent, (int)length, name);
  buffer_print(&lock, "%s.lock", folder.data);
  uint64_t now = world_wall_ms(p->world);
  bool there =
      world_info(p->world, folder.data, &info) == 0 || world_info(p->world, lock.data, &info) == 0;
  if (there && info.modified_ms < now && now - info.modified_ms > LEFT_OVER_MS) {
    int handle = take_lock(p->world, lock.data);
    if (handle >= 0) {
      library_remove_folder(p->world, folder.data, NULL);
      world_remove(p->world, lock.data);
      world_close(p->world, handle);
    }
  }
  buffer_clear(&folder);
  buffer_clear(&lock);
}

// Pulls that nobody ran again, and removals that were cut short.
static void sweep(struct pulling *p) {
  struct buffer names = {0};
  library_list_names(p->world, p->parent, &names, NULL);
  for (size_t at = 0; at < names.length; at += strlen(names.data + at) + 1)
    if (strncmp(names.data + at, p->hash, strlen(p->hash)) != 0) drop_left_over(p, names.data + at);
  names.length = 0;
  library_list_names(p->world, p->library->models, &names, NULL);
  for (size_t at = 0; at < names.length; at += strlen(names.data + at) + 1) {
    if (strncmp(names.data + at, ".removed-", 9) != 0) continue;
    const char *path = arena_print(&p->memory, "%s/%s", p->library->models, names.data + at);
    library_remove_folder(p->world, path, NULL);
  }
  buffer_clear(&names);
}

static bool is_wanted_model(const struct pulling *p, const struct library_model *m) {
  const struct library_pull *pull = p->pull;
  if (!is_same_source(p->source, m->source)) return false;
  if (pull->name && strcmp(pull->name, m->name) != 0) return false;
  return !pull->sha256 || library_same_digest(pull->sha256, m->sha256);
}

// What does not belong to the model goes: a run that was cut short while it published may have left
// it, or a power cut brought it back.  Another pull may have put another model there meanwhile.
static bool settle_model(struct pulling *p, const struct library_model *m) {
  const char *folder = arena_print(&p->memory, "%s/%s", p->library->models, m->name);
  struct library_model there;
  int lock = library_lock_list(p->library, NULL);
  if (lock < 0) return false;
  bool done = library_manifest_read(p->world, folder, m->name, &there, NULL);
  if (done) {
    done = strcmp(there.path, m->path) == 0 &&
           library_thin_folder(p->world, folder, library_belongs_to_model,
                               library_last_part(m->path), NULL) &&
           library_sync_folders(p->world, folder, NULL);
    library_model_clear(&there);
  }
  world_close(p->world, lock);
  return done;
}

// The model when it is here already, whole and unchanged.  The run that brought it may have ended
// just before its last sync.
static bool find_pulled(struct pulling *p, struct library_model *out) {
  struct library_model *list;
  int count;
  bool found = false;
  if (!library_models(p->library, &list, &count, NULL, NULL)) return false;
  for (int i = 0; i < count && !found; i++) {
    if (!is_wanted_model(p, &list[i])) continue;
    library_report(p->pull, "checking the copy that is here", 0, 0, NULL);
    if (!library_model_is_intact(p->library, &list[i], NULL)) continue;
    if (!settle_model(p, &list[i])) continue;
    *out = list[i];
    list[i] = (struct library_model){0};
    found = true;
  }
  library_models_free(list, count);
  return found;
}

// ---- getting the file

struct fetch_context {
  const struct library_pull *pull;
  const char *what;
};

static bool on_fetch(void *context, uint64_t done, uint64_t total) {
  struct fetch_context *c = context;
  return library_report(c->pull, c->what, done, total, NULL);
}

// The folder is the source's own, so what .part holds can only be an earlier part of the same
// file.
static bool fetch_url(struct pulling *p, const struct library_plan *plan, const char *sha256) {
  struct fetch_context context = {p->pull, plan->file_name};
  struct library_fetch request = {.world = p->world,
                                  .get = p->library->get,
                                  .url = plan->url,
                                  .path = p->download,
                                  .sha256 = sha256,
                                  .token = plan->token,
                                  .progress = on_fetch,
                                  .context = &context};
  return library_fetch_file(&request, NULL, p->e);
}

static bool is_tokenizer(const char *name) {
  size_t n = strlen(name);
  return n >= 7 && strncmp(name, "tok", 3) == 0 && strcmp(name + n - 4, ".bin") == 0;
}

// A llama2.c model needs the tokenizer that lies beside it, where exactly one does.
static bool copy_tokenizer(struct pulling *p, const struct library_plan *plan) {
  const char *model = library_model_file(plan->file_name), *found = NULL;
  if (!model || strcmp(model, "model.bin") != 0) return true;
  struct buffer names = {0};
  int count = 0;
  size_t length = (size_t)(plan->file_name - plan->path);  // the name is the path's last part
  const char *folder = arena_print(&p->memory, "%.*s", (int)length, plan->path);
  bool done = library_list_names(p->world, folder, &names, p->e);
  for (size_t at = 0; at < names.length; at += strlen(names.data + at) + 1)
    if (is_tokenizer(names.data + at)) found = names.data + at, count++;
  if (done && count == 1) {
    const char *from = arena_print(&p->memory, "%s%s", folder, found);
    const char *to = arena_print(&p->memory, "%s/%s", p->folder, found);
    done = library_copy_file(p->world, from, to, p->pull, p->e);
  }
  buffer_clear(&names);
  return done;
}

static bool copy_path(struct pulling *p, const struct library_plan *plan) {
  return library_copy_file(p->world, plan->path, p->download, p->pull, p->e) &&
         copy_tokenizer(p, plan);
}

// The file is here from an earlier run, and its digest says that it is the right one.
static bool has_download(const struct pulling *p, const char *sha256) {
  char digest[65];
  return sha256 && file_exists(p->world, p->download) &&
         library_sha256_file(p->world, p->download, digest, NULL) &&
         library_same_digest(digest, sha256);
}

static bool fail_digest(struct pulling *p, const char *what, const char *digest,
                        const char *wanted) {
  return error_set(p->e, ERROR_INPUT, "%s: the SHA-256 is %.16s… and should be %.16s…", what,
                   digest, wanted);
}

// Puts the planned file at p->download.
static bool get_file(struct pulling *p, const struct library_plan *plan) {
  // The person's digest is that of the model, so it holds for the download only when that is the
  // model.
  const char *asked = library_is_archive(plan->file_name) ? NULL : p->pull->sha256;
  const char *sha256 = plan->sha256 ? plan->sha256 : asked;
  if (asked && plan->sha256 && !library_same_digest(asked, plan->sha256))
    return fail_digest(p, plan->source, plan->sha256, asked);
  if (has_download(p, sha256)) return true;
  return plan->path ? copy_path(p, plan) : fetch_url(p, plan, sha256);
}

// ---- making a model of it

// An archive that has no model, or is damaged, is of no use to the next run either.
static bool unpack(struct pulling *p, const char *archive_name, const char **named) {
  struct error why = {0};
  if (library_archive_extract(p->world, p->download, archive_name, p->folder, p->pull, &p->memory,
                              named, &why))
    return true;
  bool passing =
      why.kind == ERROR_SYSTEM || why.kind == ERROR_CANCELLED || why.kind == ERROR_MEMORY;
  if (!passing) world_remove(p->world, p->download);
  return error_set(p->e, why.kind, "%s", why.text);
}

// The model file in the folder, from the download; *named is the file whose name the model takes.
static bool make_model(struct pulling *p, const struct library_plan *plan, const char **path,
                       const char **named) {
  *named = plan->file_name;
  if (library_is_archive(plan->file_name)) {
    if (!unpack(p, plan->file_name, named)) return false;
    *path = arena_print(&p->memory, "%s/%s", p->folder, library_model_file(*named));
    return true;
  }
  *path = arena_print(&p->memory, "%s/%s", p->folder, library_model_file(plan->file_name));
  int result = world_rename(p->world, p->download, *path);
  return result == 0 || error_set_errno(p->e, -result, "cannot rename %s", p->download);
}

// Files that turned out to be wrong are of no use to the next run.
static void drop_files(struct pulling *p, const char *model) {
  world_remove(p->world, model);
  world_remove(p->world, p->download);
}

// Catches a web page under a model's name, a file that was cut short, an architecture that Motley
// does not have: now, and not when it is served.  A model of llama2.c whose tokenizer did not come
// with it is fine: --tokenizer names one.
static bool check_model(struct pulling *p, const char *path, const char *named) {
  struct error why = {0};
  const struct library_pull *pull = p->pull;
  struct model_options options = {.world = p->world};
  if (model_check(path, &options, &why)) return true;
  if (why.kind == ERROR_MISSING) {
    if (pull->note)
      pull->note(pull->context,
                 "its tokenizer did not come with it: give it with --tokenizer FILE");
    return true;
  }
  if (why.kind == ERROR_INPUT || why.kind == ERROR_UNSUPPORTED) drop_files(p, path);
  return error_set(p->e, why.kind, "%s: %s", named, why.text);
}

// Who has a name; false when it is free, or cannot be read now (publish.c looks again).
static bool find_owner(struct pulling *p, const char *name, struct library_model *there) {
  const char *folder = arena_print(&p->memory, "%s/%s", p->library->models, name);
  return library_manifest_read(p->world, folder, name, there, NULL);
}

// The name that the person gave; else the file's, without its weight type unless another source has
// the name so: two weight types of one model can lie side by side.
static void choose_name(struct pulling *p, const char *file, char name[96]) {
  struct library_model there;
  if (p->pull->name) {
    memcpy(name, p->pull->name, strlen(p->pull->name) + 1);
    return;
  }
  library_name_from_file(file, name);
  library_name_drop_type(name);
  if (!find_owner(p, name, &there)) return;
  if (!is_same_source(p->source, there.source)) library_name_from_file(file, name);
  library_model_clear(&there);
}

static bool may_take(void *context, const char *source) {
  const struct pulling *p = context;
  return is_same_source(p->source, source);
}

// The name must be free, or belong to the same source (then the new one takes its place).
static bool check_name(struct pulling *p, const char *name) {
  struct library_model there;
  if (!find_owner(p, name, &there)) return true;
  bool may = may_take(p, there.source) || library_fail_taken(name, there.source, p->e);
  library_model_clear(&there);
  return may;
}

// The digest is taken of the file as it lies on disk, not of the bytes as they came: that is
// what a later check compares.
static bool describe(struct pulling *p, const struct library_plan *plan, const char *path,
                     const char *named, struct library_model *m) {
  struct world_file_info info;
  *m = (struct library_model){.path = (char *)(uintptr_t)path,
                              .source = (char *)(uintptr_t)plan->source};
  choose_name(p, named, m->name);
  library_report(p->pull, "checking", 0, 0, NULL);
  int result = world_info(p->world, path, &info);
  if (result < 0) return error_set_errno(p->e, -result, "cannot look at %s", path);
  if (!library_sha256_file(p->world, path, m->sha256, p->e)) return false;
  m->bytes = info.size;
  m->pulled_ms = world_wall_ms(p->world);
  if (!p->pull->sha256 || library_same_digest(p->pull->sha256, m->sha256)) return true;
  drop_files(p, path);
  return fail_digest(p, named, m->sha256, p->pull->sha256);
}

// Tells about a taken name before anything is fetched, where the name is known by then.
static bool check_name_early(struct pulling *p, const struct library_plan *plan) {
  char name[96];
  if (!p->pull->name && library_is_archive(plan->file_name)) return true;
  choose_name(p, plan->file_name, name);
  return check_name(p, name);
}

// A run that was killed just before the manifest left the model under its last name.
static void take_back_model(struct pulling *p, const struct library_plan *plan) {
  const char *model = library_model_file(plan->file_name);
  if (model && !file_exists(p->world, p->download))
    world_rename(p->world, arena_print(&p->memory, "%s/%s", p->folder, model), p->download);
}

// A manifest that does not fit its model must not be there when another model comes.
static bool drop_manifest(struct pulling *p) {
  const char *path = arena_print(&p->memory, "%s/model.json", p->folder);
  int result = world_remove(p->world, path);
  return result == 0 || result == -ENOENT ||
         error_set_errno(p->e, -result, "cannot remove %s", path);
}

// When the sync fails at its end, the manifest has its name and may lose it again.  So it goes, for
// the next run would take it as it is.
static bool write_manifest(struct pulling *p, const struct library_model *m) {
  if (library_manifest_write(p->world, p->folder, m, p->e)) return true;
  world_remove(p->world, arena_print(&p->memory, "%s/model.json", p->folder));
  return false;
}

// From nothing, or from what an earlier run left, to a folder with a manifest.
static bool fill_folder(struct pulling *p, char name[96]) {
  struct library_plan plan;
  struct library_model m;
  const char *path, *named;
  if (!drop_manifest(p) || !library_plan_make(p->library, p->pull, p->source, &plan, p->e))
    return false;
  if (plan.note.length && p->pull->note) p->pull->note(p->pull->context, plan.note.data);
  take_back_model(p, &plan);
  bool done = check_name_early(p, &plan) && get_file(p, &plan) &&
              make_model(p, &plan, &path, &named) && describe(p, &plan, path, named, &m) &&
              check_model(p, path, named) && check_name(p, m.name) && write_manifest(p, &m);
  if (done) memcpy(name, m.name, sizeof m.name);
  library_plan_clear(&plan);
  return done;
}

// Whether an earlier run came as far as the manifest, and its model is the one that is asked for.
static bool is_finished(struct pulling *p, char name[96]) {
  struct library_model m;
  const char *digest = p->pull->sha256;
  if (!library_manifest_read(p->world, p->folder, NULL, &m, NULL)) return false;
  bool good = (!p->pull->name || strcmp(m.name, p->pull->name) == 0) &&
              (!digest || library_same_digest(digest, m.sha256)) &&
              library_model_is_intact(p->library, &m, NULL);
  if (good) memcpy(name, m.name, sizeof m.name);
  library_model_clear(&m);
  return good;
}

// What a failed or stopped pull has so far stays for the next one.
static void end(struct pulling *p) {
  if (p->lock >= 0) {
    world_remove_folder(p->world, p->folder);  // where nothing is in it
    world_remove(p->world, arena_print(&p->memory, "%s.lock", p->folder));
    world_close(p->world, p->lock);
  }
  arena_clear(&p->memory);
}

// Arguments are checked before anything is written or asked for.
bool library_pull_model(struct library *s, const struct library_pull *pull,
                        struct library_model *out, struct error *e) {
  struct pulling p = {.library = s, .world = s->world, .pull = pull, .lock = -1, .e = e};
  char name[96];
  assert(pull->source && out);
  if (pull->name && !library_name_is_valid(pull->name))
    return error_set(
        e, ERROR_INPUT,
        "--name \"%s\" cannot be a model's name: use letters, digits, '.', '_' and '-', not '.' "
        "or '-' first, at most 95",
        pull->name);
  if (pull->sha256 &&
      (strlen(pull->sha256) != 64 || strspn(pull->sha256, "0123456789abcdefABCDEF") != 64))
    return error_set(e, ERROR_INPUT,
                     "--sha256 \"%s\" is not a SHA-256: give its 64 hexadecimal digits",
                     pull->sha256);
  bool done = begin(&p);
  if (done) sweep(&p);
  if (done && !find_pulled(&p, out)) {
    struct library_publication publication = {p.folder, name, may_take, &p};
    done = (is_finished(&p, name) || fill_folder(&p, name)) &&
           library_publish(s, &publication, out, e);
  }
  end(&p);
  return done;
}
