// SPDX-License-Identifier: Apache-2.0
//
// files.c: reading the kernel's small text files, and free space on a disk.

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/world.h"
#include "probe/internal.h"

#define TEXT_MAX (1u << 20)  // bytes; /proc/stat and cpuinfo of a 500-core machine stay below

bool probe_text_read(const char *root, const char *path, struct buffer *out) {
  char whole[PATH_MAX];
  if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return false;
  return file_read(whole, TEXT_MAX, out, NULL);
}

// A last line without an end counts too.
bool probe_text_line(struct str *text, struct str *line) {
  if (!text->length) return false;
  const char *end = memchr(text->data, '\n', text->length);
  size_t length = end ? (size_t)(end - text->data) : text->length;
  *line = (struct str){text->data, length};
  size_t taken = length + (end != NULL);
  *text = (struct str){text->data + taken, text->length - taken};
  return true;
}

// An empty word is the end of the line.
bool probe_text_word(struct str *line, struct str *word) {
  size_t at = 0;
  while (at < line->length && (line->data[at] == ' ' || line->data[at] == '\t')) at++;
  size_t begin = at;
  while (at < line->length && line->data[at] != ' ' && line->data[at] != '\t') at++;
  *word = (struct str){line->data + begin, at - begin};
  *line = (struct str){line->data + at, line->length - at};
  return word->length > 0;
}

// Serves "Name:  value unit" and "name value" alike; the first line of that name decides.
bool probe_text_field(struct str text, const char *name, uint64_t *value) {
  struct str line, word;
  while (probe_text_line(&text, &line)) {
    if (!probe_text_word(&line, &word)) continue;
    if (word.data[word.length - 1] == ':') word.length--;
    int64_t number;
    if (!str_equal(word, str_of(name)) || !probe_text_word(&line, &word)) continue;
    if (!str_to_int(word, &number) || number < 0) return false;
    *value = (uint64_t)number;
    return true;
  }
  return false;
}

// Cuts the last component off a path: "a/b" → "a" → "." and "/a" → "/".  False at the end.
static bool go_up(char *path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') path[--length] = 0;
  if (!strcmp(path, "/") || !strcmp(path, ".")) return false;
  char *slash = strrchr(path, '/');
  if (!slash) {
    path[0] = '.', path[1] = 0;
    return true;
  }
  slash[slash == path] = 0;
  return true;
}

// A model is going to a folder that may not be made yet: what counts is where it would be made.
bool probe_disk_free(const char *path, uint64_t *bytes, struct error *e) {
  char existing[PATH_MAX];
  struct statvfs info;
  if (snprintf(existing, sizeof existing, "%s", path[0] ? path : ".") >= (int)sizeof existing)
    return error_set(e, ERROR_INPUT, "the path %.60s… is too long", path);
  while (statvfs(existing, &info) < 0) {
    if ((errno == ENOENT || errno == ENOTDIR) && go_up(existing)) continue;
    return error_set_errno(e, errno, "cannot tell how much space is free at %s", path);
  }
  *bytes = (uint64_t)info.f_bavail * info.f_frsize;
  return true;
}
