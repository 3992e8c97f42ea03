// SPDX-License-Identifier: Apache-2.0
//
// json.c: JSON text in and out, with errors that say where.
//
// base/json_tree.h reads: it bounds the nesting and keeps numbers that no machine number holds.

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/internal.h"
#include "base/json_tree.h"

// ---- reading

// Any JSON value parses, so that a body of the wrong kind is told from one that is no JSON.
json_t *api_json_load(struct str body, struct api_error *e) {
  struct json_tree_fault fault;
  if (str_trim(body).length == 0) {
    api_error_set(e, 400, "invalid_request_error", "invalid_json", NULL,
                  "the request body is empty; send a JSON object");
    return NULL;
  }
  json_t *root = json_tree_read(body, &fault);
  if (!root) {
    api_error_set(e, 400, "invalid_request_error", "invalid_json", NULL,
                  "the request body is not valid JSON: line %d, column %d: %s", fault.line,
                  fault.column, fault.why);
  } else if (!api_json_is_object(root)) {
    char what[API_DESCRIPTION_MAX];
    api_error_set(e, 400, "invalid_request_error", "invalid_json", NULL,
                  "the request body must be a JSON object, not %s", api_json_describe(root, what));
    json_decref(root);
    root = NULL;
  }
  return root;
}

json_t *api_json_member(const json_t *object, const char *name) {
  json_t *value = json_object_get(object, name);
  return json_is_null(value) ? NULL : value;
}

bool api_json_is_object(const json_t *value) {
  struct str number;
  return json_is_object(value) && !json_tree_wide(value, &number);
}

struct str api_json_text(const json_t *string) {
  return (struct str){json_string_value(string), json_string_length(string)};
}

// A message quotes what the client sent as far as that helps to find it, and no further.
const char *api_json_describe(const json_t *value, char out[API_DESCRIPTION_MAX]) {
  static const char *const kinds[] = {
      [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a long text",
      [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
      [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
  struct str wide;
  assert(value);
  snprintf(out, API_DESCRIPTION_MAX, "%s", kinds[json_typeof(value)]);
  if (json_is_number(value)) snprintf(out, API_DESCRIPTION_MAX, "%.15g", json_number_value(value));
  if (json_is_integer(value))
    snprintf(out, API_DESCRIPTION_MAX, "%lld", (long long)json_integer_value(value));
  if (json_tree_wide(value, &wide))
    snprintf(out, API_DESCRIPTION_MAX, wide.length > 40 ? "%.40s…" : "%s", wide.data);
  if (json_is_string(value) && json_string_length(value) < API_DESCRIPTION_MAX - 3)
    snprintf(out, API_DESCRIPTION_MAX, "\"%s\"", json_string_value(value));
  return out;
}

// ---- writing

// The five short forms and the two characters that always need one; all else in four hex digits.
static void write_escape(struct buffer *out, unsigned char c) {
  assert(c < 0x20 || c == '"' || c == '\\' || c == 0x7F);
  static const char short_forms[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                     ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
  if (c < sizeof short_forms && short_forms[c]) {
    char escape[2] = {'\\', short_forms[c]};
    buffer_add(out, escape, 2);
  } else {
    buffer_print(out, "\\u%04x", c);
  }
}

// Copies runs of ordinary bytes at once; only the bytes between runs are looked at one by one.
void api_json_write_string(struct buffer *out, struct str s) {
  assert(s.data || s.length == 0);
  buffer_reserve(out, s.length + 2);
  buffer_add_char(out, '"');
  size_t run = 0;
  for (size_t at = 0; at < s.length;) {
    unsigned char c = (unsigned char)s.data[at];
    int length = c < 0x80 ? 1 : str_utf8_length(s, at);
    bool plain = length > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7F;
    if (!plain) {
      buffer_add(out, s.data + run, at - run);
      if (length == 0)
        buffer_add_text(out, "\xEF\xBF\xBD");
      else
        write_escape(out, c);
      run = at + 1;
    }
    at += length > 0 ? (size_t)length : 1;
  }
  buffer_add(out, s.data + run, s.length - run);
  buffer_add_char(out, '"');
}
