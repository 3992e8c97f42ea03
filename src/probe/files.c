// SPDX-License-Identifier: Apache-2.0
//
// files.c: reading the small text files in which the kernel describes the machine, and taking
// lines, words and named fields out of them.

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "probe/internal.h"

#define TEXT_MAX (1u << 20)  // bytes; /proc/stat and cpuinfo of a 500-core machine stay below

bool probe_text_read(const char *root, const char *path, struct buffer *out) {
  char whole[PATH_MAX];
  if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return false;
  return file_read(world_real(), whole, TEXT_MAX, out, NULL);
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
