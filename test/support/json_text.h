// SPDX-License-Identifier: Apache-2.0
//
// json_text.h: a JSON tree as text for comparing, with wide numbers (base/json_tree.h) in angle
// brackets: {"const":<18446744073709551615>}.  All else is as json_dumps has it, compact and ASCII.
#pragma once

#include <stdlib.h>

#include "base/json_tree.h"

static inline void json_text_write(const json_t *v, struct buffer *out) {
  struct str wide;
  if (json_tree_wide(v, &wide)) {
    buffer_print(out, "<%.*s>", (int)wide.length, wide.data);
  } else if (json_is_object(v)) {
    const char *separator = "{", *key;
    json_t *member;
    if (json_object_size(v) == 0) buffer_add_text(out, separator);
    json_object_foreach((json_t *)(uintptr_t)v, key, member) {
      buffer_print(out, "%s\"%s\":", separator, key);
      json_text_write(member, out);
      separator = ",";
    }
    buffer_add_char(out, '}');
  } else if (json_is_array(v)) {
    buffer_add_char(out, '[');
    for (size_t i = 0; i < json_array_size(v); i++) {
      if (i) buffer_add_char(out, ',');
      json_text_write(json_array_get(v, i), out);
    }
    buffer_add_char(out, ']');
  } else {
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    buffer_add_text(out, text ? text : "(no text)");
    free(text);
  }
}
