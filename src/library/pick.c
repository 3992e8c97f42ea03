// SPDX-License-Identifier: Apache-2.0
//
// pick.c: which of a repository's or package's model files to take.
//
// People publish one model in many weight types and name the type in the file:
// "Llama-1B.Q4_K_M.gguf".  Of the types that Motley reads, Q8_0 comes first: its answers are those
// of the original as far as anyone notices.

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "library/internal.h"

#define NAMED_MAX 40        // files that a message lists
#define NAME_SHOWN_MAX 100  // bytes of each name

static const char *const TYPES[] = {"Q8_0", "Q4_0", "Q4_1", "F16", "BF16", "F32"};  // best first

// Whether the word stands in the text by itself: "x.f16.gguf" has F16, "x.bf16.gguf" has not.
static bool has_word(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *at = text; (at = strcasestr(at, word)); at++) {
    bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
    bool ends = !(isalnum((unsigned char)at[n]) || at[n] == '_');
    if (begins && ends) return true;
  }
  return false;
}

static bool is_wanted(const char *path, const char *wanted) {
  return strcmp(path, wanted) == 0 || strcmp(library_last_part(path), wanted) == 0;
}

// "model-00001-of-00003.gguf": a part is no model.
static bool is_split(const char *path) {
  int part, parts, length = 0;
  for (const char *at = path; (at = strchr(at, '-')); at++)
    if (sscanf(at, "-%5d-of-%5d.gguf%n", &part, &parts, &length) == 2 && length) return parts > 1;
  return false;
}

static bool is_gguf(const char *path) {
  size_t n = strlen(path);
  return n > 5 && strcasecmp(path + n - 5, ".gguf") == 0;
}

// Names as many as a person reads.
static void list_files(const struct library_candidate *list, int count, int but,
                       struct buffer *out) {
  int named = 0;
  for (int i = 0; i < count; i++) {
    if (i == but || !is_gguf(list[i].path)) continue;
    if (named++ < NAMED_MAX)
      buffer_print(out, "%s%.*s", out->length ? ", " : "", NAME_SHOWN_MAX,
                   library_last_part(list[i].path));
  }
  if (named > NAMED_MAX) buffer_print(out, " and %d more", named - NAMED_MAX);
}

// The only whole GGUF, or the best of those that name a type we read; -1 when there is none.
static int choose(const struct library_candidate *list, int count) {
  int only = -1, whole = 0;
  for (int i = 0; i < count; i++)
    if (is_gguf(list[i].path) && !is_split(list[i].path)) only = i, whole++;
  if (whole == 1) return only;
  for (size_t t = 0; t < COUNT_OF(TYPES); t++)
    for (int i = 0; i < count; i++)
      if (is_gguf(list[i].path) && !is_split(list[i].path) &&
          has_word(library_last_part(list[i].path), TYPES[t]))
        return i;
  return -1;
}

// The list of what there is, is the answer to "what to do": the person names one of them.
static int fail_pick(const struct library_candidate *list, int count, const char *wanted,
                     const char *where, struct error *e) {
  struct buffer files = {0}, types = {0};
  list_files(list, count, -1, &files);
  for (size_t t = 0; t < COUNT_OF(TYPES); t++)
    buffer_print(&types, "%s%s", t ? ", " : "", TYPES[t]);
  if (!files.length)
    error_set(e, ERROR_MISSING, "%s has no GGUF file; look for one with \"GGUF\" in its name",
              where);
  else if (wanted)
    error_set(e, ERROR_MISSING, "%s has no file \"%s\"; there are: %s", where, wanted, files.data);
  else
    error_set(e, ERROR_UNSUPPORTED,
              "%s has no whole GGUF file of a type that Motley reads (%s); there are: %s", where,
              types.data, files.data);
  buffer_clear(&files);
  buffer_clear(&types);
  return -1;
}

// A name given by the person is taken as it is, whatever its type: the model reader has the last
// word.
int library_pick(const struct library_candidate *list, int count, const char *wanted,
                 const char *where, struct buffer *others, struct error *e) {
  int chosen = -1;
  for (int i = 0; wanted && i < count && chosen < 0; i++)
    if (is_wanted(list[i].path, wanted)) chosen = i;
  if (!wanted) chosen = choose(list, count);
  if (chosen < 0) return fail_pick(list, count, wanted, where, e);
  if (is_split(list[chosen].path)) {
    error_set(e, ERROR_UNSUPPORTED,
              "%s is one part of a model in several files, which Motley does not read",
              list[chosen].path);
    return -1;
  }
  if (others) list_files(list, count, chosen, others);
  return chosen;
}
