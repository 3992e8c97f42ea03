// SPDX-License-Identifier: Apache-2.0
//
// pull.c: brings a model into the library, and can be killed at any moment and run again.
//
//   models/.pull/<hash of the source>.lock      held by the pull that works on it
//   models/.pull/<hash of the source>/          what it has so far:
//       download(.part, .part.from)             the file as fetched: the model, or an archive with
//       it model.gguf                              the model, whole and checked model.json its
//       manifest: from here on the folder is a model
//   models/<name>/                              the folder, after one rename
//
// Each step looks whether its result is there already, so a second run goes on where the first one
// stopped.

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "library/fetch.h"
#include "library/internal.h"

struct pulling {
  struct library *store;
  const struct library_pull *pull;
  struct arena memory;
  const char *source;    // canonical
  const char *folder;    // models/.pull/<hash>
  const char *download;  // in it
  const char *lock_path;
  int lock;
  bool locked;
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
  bool done = library_source_canonical(p->pull->source, &source, p->e);
  if (done) p->source = arena_copy(&p->memory, source.data, source.length);
  buffer_clear(&source);
  return done;
}

// Whoever ends a pull removes the lock's file while holding it; so a lock counts only when its file
// is still the one of that name.
static bool take_lock(struct pulling *p, const char *path) {
  struct stat held, there;
  for (;;) {
    p->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (p->lock < 0) return error_set_errno(p->e, errno, "cannot create %s", path);
    if (flock(p->lock, LOCK_EX | LOCK_NB) < 0) break;
    bool same =
        fstat(p->lock, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino;
    if (same) return p->locked = true;
    close(p->lock);
  }
  if (errno != EWOULDBLOCK) return error_set_errno(p->e, errno, "cannot lock %s", path);
  return error_set(p->e, ERROR_BUSY,
                   "%s is being pulled by another motley right now; wait for it or stop it",
                   p->source);
}

static bool advise_home(struct error *e) {
  struct error why = *e;
  return error_set(e, why.kind, "%s; set MOTLEY_HOME to a folder where models may lie", why.text);
}

// Folder and lock belong to the source, so one source is pulled once at a time.
static bool begin(struct pulling *p) {
  struct arena *m = &p->memory;
  if (!find_source(p)) return false;
  const char *parent = arena_print(m, "%s/.pull", p->store->models);
  unsigned long long hash = hash_bytes(p->source, strlen(p->source), 0);
  p->folder = arena_print(m, "%s/%016llx", parent, hash);
  p->download = arena_print(m, "%s/download", p->folder);
  p->lock_path = arena_print(m, "%s.lock", p->folder);
  return (file_make_folders(world_real(), parent, p->e) || advise_home(p->e)) &&
         take_lock(p, p->lock_path) && file_make_folders(world_real(), p->folder, p->e);
}

static bool is_intact(const struct library_model *m) {
  char digest[65];
  return fetch_sha256_file(m->path, digest, NULL) && strcmp(digest, m->sha256) == 0;
}

static bool is_wanted_model(const struct pulling *p, const struct library_model *m) {
  const struct library_pull *pull = p->pull;
  if (!is_same_source(p->source, m->source)) return false;
  if (pull->name && strcmp(pull->name, m->name) != 0) return false;
  return !pull->sha256 || strcasecmp(pull->sha256, m->sha256) == 0;
}

// The model when it is here already, whole and unchanged.
static bool find_pulled(struct pulling *p, struct library_model *out) {
  struct library_model *list;
  int count;
  bool found = false;
  if (!library_models(p->store, &list, &count, NULL, NULL)) return false;
  for (int i = 0; i < count && !found; i++) {
    if (!is_wanted_model(p, &list[i])) continue;
    library_report(p->pull, "checking the copy that is here", 0, 0, NULL);
    if (!is_intact(&list[i])) continue;
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
  struct fetch_request request = {.url = plan->url,
                                  .path = p->download,
                                  .sha256 = sha256,
                                  .token = plan->token,
                                  .progress = on_fetch,
                                  .context = &context};
  return fetch_file(&request, NULL, p->e);
}

// A llama2.c model needs the tokenizer that lies beside it, where exactly one does.
static bool copy_tokenizer(struct pulling *p, const struct library_plan *plan) {
  const char *model = library_model_file(plan->file_name);
  if (!model || strcmp(model, "model.bin") != 0) return true;
  glob_t found;
  size_t folder = (size_t)(plan->file_name - plan->path);  // the name is the path's last part
  const char *pattern = arena_print(&p->memory, "%.*stok*.bin", (int)folder, plan->path);
  bool done = true;
  if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1) {
    const char *name = strrchr(found.gl_pathv[0], '/') + 1;
    const char *to = arena_print(&p->memory, "%s/%s", p->folder, name);
    done = library_copy_file(found.gl_pathv[0], to, p->pull, p->e);
  }
  globfree(&found);
  return done;
}

static bool copy_path(struct pulling *p, const struct library_plan *plan) {
  return library_copy_file(plan->path, p->download, p->pull, p->e) && copy_tokenizer(p, plan);
}

// The file is here from an earlier run, and its digest says that it is the right one.
static bool has_download(const struct pulling *p, const char *sha256) {
  char digest[65];
  return sha256 && file_exists(world_real(), p->download) &&
         fetch_sha256_file(p->download, digest, NULL) && strcasecmp(digest, sha256) == 0;
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
  if (asked && plan->sha256 && strcasecmp(asked, plan->sha256) != 0)
    return fail_digest(p, plan->source, plan->sha256, asked);
  if (has_download(p, sha256)) return true;
  return plan->path ? copy_path(p, plan) : fetch_url(p, plan, sha256);
}

// ---- making a model of it

// An archive that has no model, or is damaged, is of no use to the next run either.
static bool unpack(struct pulling *p, const char *archive_name, const char **named) {
  struct error why = {0};
  if (library_archive_extract(p->download, archive_name, p->folder, p->pull, &p->memory, named,
                              &why))
    return true;
  bool passing =
      why.kind == ERROR_SYSTEM || why.kind == ERROR_CANCELLED || why.kind == ERROR_MEMORY;
  if (!passing) unlink(p->download);
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
  return rename(p->download, *path) == 0 ||
         error_set_errno(p->e, errno, "cannot rename %s", p->download);
}

// Files that turned out to be wrong are of no use to the next run.
static void drop_files(struct pulling *p, const char *model) {
  unlink(model);
  unlink(p->download);
}

// Catches a web page under a model's name, a file that was cut short, an architecture that Motley
// does not have: now, and not when it is served.
static bool check_model(struct pulling *p, const char *path, const char *named) {
  struct error why = {0};
  const struct library_pull *pull = p->pull;
  if (!pull->check || pull->check(pull->context, path, &why)) return true;
  if (why.kind == ERROR_INPUT || why.kind == ERROR_UNSUPPORTED) drop_files(p, path);
  return error_set(p->e, why.kind, "%s: %s", named, why.text);
}

// Who has a name; false when it is free.
static bool find_owner(struct pulling *p, const char *name, struct library_model *there) {
  const char *folder = arena_print(&p->memory, "%s/%s", p->store->models, name);
  return library_manifest_read(folder, name, there, NULL);
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

// The name must be free, or belong to the same source (then the new one takes its place).
static bool check_name(struct pulling *p, const char *name) {
  struct library_model there;
  if (!find_owner(p, name, &there)) return true;
  bool same = is_same_source(p->source, there.source);
  if (!same)
    error_set(p->e, ERROR_INPUT,
              "the name %s is taken by %s: give another one with --name, or motley models "
              "--remove %s",
              name, there.source, name);
  library_model_clear(&there);
  return same;
}

// The digest is taken of the file as it lies on disk, not of the bytes as they came: that is
// what a later check compares.
static bool describe(struct pulling *p, const struct library_plan *plan, const char *path,
                     const char *named, struct library_model *m) {
  struct stat info;
  const struct world *w = world_real();
  *m = (struct library_model){.path = (char *)(uintptr_t)path,
                              .source = (char *)(uintptr_t)plan->source};
  choose_name(p, named, m->name);
  library_report(p->pull, "checking", 0, 0, NULL);
  if (stat(path, &info) < 0) return error_set_errno(p->e, errno, "cannot look at %s", path);
  if (!fetch_sha256_file(path, m->sha256, p->e)) return false;
  m->bytes = (uint64_t)info.st_size;
  m->pulled_ms = world_wall_ms(w);
  if (!p->pull->sha256 || strcasecmp(p->pull->sha256, m->sha256) == 0) return true;
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
  if (model && !file_exists(world_real(), p->download))
    rename(arena_print(&p->memory, "%s/%s", p->folder, model), p->download);
}

// From nothing, or from what an earlier run left, to a folder with a manifest.
static bool fill_folder(struct pulling *p) {
  struct library_plan plan;
  struct library_model m;
  const char *path, *named;
  if (!library_plan_make(p->pull, p->source, &plan, p->e)) return false;
  if (plan.note.length && p->pull->note) p->pull->note(p->pull->context, plan.note.data);
  take_back_model(p, &plan);
  bool done = check_name_early(p, &plan) && get_file(p, &plan) &&
              make_model(p, &plan, &path, &named) && describe(p, &plan, path, named, &m) &&
              check_model(p, path, named) && check_name(p, m.name) &&
              library_manifest_write(p->folder, &m, p->e);
  if (done) unlink(p->download);
  library_plan_clear(&plan);
  return done;
}

// ---- publishing

// The name inside the manifest of the finished folder, which need not be the folder's.
static bool read_finished(struct pulling *p, char name[96]) {
  struct library_model m;
  struct buffer text = {0};
  const char *path = arena_print(&p->memory, "%s/model.json", p->folder);
  bool good =
      file_exists(world_real(), path) && library_manifest_read(p->folder, "finished", &m, NULL);
  if (!good) return false;
  good = file_exists(world_real(), m.path) && file_read(world_real(), path, 65536, &text, NULL);
  json_t *root = good ? json_loadb(text.data, text.length, 0, NULL) : NULL;
  const char *kept = json_string_value(json_object_get(root, "name"));
  good = kept && library_name_is_valid(kept) &&
         (!p->pull->name || strcmp(kept, p->pull->name) == 0) &&
         (!p->pull->sha256 || strcasecmp(p->pull->sha256, m.sha256) == 0);
  if (good) memcpy(name, kept, strlen(kept) + 1);
  json_decref(root);
  buffer_clear(&text);
  library_model_clear(&m);
  return good;
}

// The folder takes its name.  One that is there under it goes aside first and is removed
// afterwards.
static bool publish(struct pulling *p, const char *name, struct library_model *out) {
  const char *place = arena_print(&p->memory, "%s/%s", p->store->models, name);
  const char *old = arena_print(&p->memory, "%s/.removed-%s", p->store->models, name);
  if (!check_name(p, name) || !library_remove_folder(old, p->e)) return false;
  if (rename(place, old) < 0 && errno != ENOENT)
    return error_set_errno(p->e, errno, "cannot replace %s", place);
  if (rename(p->folder, place) < 0)
    return error_set_errno(p->e, errno, "cannot rename %s", p->folder);
  library_remove_folder(old, NULL);
  int parent = open(p->store->models, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) fsync(parent), close(parent);
  return library_manifest_read(place, name, out, p->e);
}

// What a failed or stopped pull has so far stays for the next one.
static void end(struct pulling *p) {
  if (p->locked) {
    rmdir(p->folder);  // where nothing is in it
    unlink(p->lock_path);
  }
  if (p->lock >= 0) close(p->lock);
  arena_clear(&p->memory);
}

// Arguments are checked before anything is written or asked for.
bool library_pull_model(struct library *s, const struct library_pull *pull,
                        struct library_model *out, struct error *e) {
  struct pulling p = {.store = s, .pull = pull, .lock = -1, .e = e};
  char name[96];
  if (pull->name && !library_name_is_valid(pull->name))
    return error_set(
        e, ERROR_INPUT,
        "\"%s\" cannot be a model's name: use letters, digits, '.', '_' and '-', not '.' "
        "or '-' first, at most 95",
        pull->name);
  if (pull->sha256 &&
      (strlen(pull->sha256) != 64 || strspn(pull->sha256, "0123456789abcdefABCDEF") != 64))
    return error_set(e, ERROR_INPUT, "\"%s\" is not a SHA-256: 64 hexadecimal digits",
                     pull->sha256);
  bool done = begin(&p);
  if (done && !find_pulled(&p, out)) {
    if (!read_finished(&p, name)) done = fill_folder(&p) && read_finished(&p, name);
    done = done && publish(&p, name, out);
  }
  end(&p);
  return done;
}
