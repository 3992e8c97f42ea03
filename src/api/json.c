// SPDX-License-Identifier: Apache-2.0
//
// json.c: JSON text in and out, with errors that say where.
//
// jansson reads.  Before it does, one pass over the bytes bounds the nesting: jansson itself and
// everything that later walks the tree recurse, and no honest request nests deeper than
// NESTING_MAX.

#include <stdio.h>
#include <string.h>

#include "api/internal.h"

#define NESTING_MAX 128  // levels; a tool's schema uses two a level of the described data

// ---- reading

static const struct {
  enum json_error_code code;
  const char *text;
} words[] = {
    {json_error_invalid_utf8, "the text is not valid UTF-8"},
    {json_error_premature_end_of_input, "the text ends too early"},
    {json_error_end_of_input_expected, "something follows the end of the JSON value"},
    {json_error_null_character, "\\u0000 is not allowed in a string"},
    {json_error_null_byte_in_key, "\\u0000 is not allowed in a key"},
    {json_error_numeric_overflow, "a number is too large"},
    {json_error_out_of_memory, "there is not enough memory for it"},
};

static bool refuse_json(struct api_error *e, int line, int column, const char *why) {
  return api_error_set(e, 400, "invalid_request_error", "invalid_json", NULL,
                       "the request body is not valid JSON: line %d, column %d: %s", line, column,
                       why);
}

// Finds the first bracket that opens a level too many.
static bool check_nesting(struct str body, struct api_error *e) {
  int depth = 0, line = 1;
  size_t line_start = 0;
  bool in_string = false;
  for (size_t i = 0; i < body.length; i++) {
    char c = body.data[i];
    if (c == '\n') {
      line++;
      line_start = i + 1;
    } else if (in_string) {
      if (c == '\\') i++;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == ']' || c == '}') {
      depth--;
    } else if ((c == '[' || c == '{') && ++depth > NESTING_MAX) {
      return refuse_json(e, line, (int)(i - line_start) + 1, "it nests deeper than 128 levels");
    }
  }
  return true;
}

static void explain(const json_error_t *error, struct api_error *e) {
  const char *why = error->text;
  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (words[i].code == json_error_code(error)) why = words[i].text;
  refuse_json(e, error->line, error->column, why);
}

// Duplicate keys are refused: two readers could take different ones.  Any JSON value parses, so
// that a body of the wrong kind is told from one that is no JSON.
json_t *api_json_load(struct str body, struct api_error *e) {
  json_error_t error = {0};
  if (str_trim(body).length == 0) {
    api_error_set(e, 400, "invalid_request_error", "invalid_json", NULL,
                  "the request body is empty; send a JSON object");
    return NULL;
  }
  if (!check_nesting(body, e)) return NULL;
  json_t *root =
      json_loadb(body.data, body.length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (!root) {
    explain(&error, e);
  } else if (!json_is_object(root)) {
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

struct str api_json_text(const json_t *string) {
  return (struct str){json_string_value(string), json_string_length(string)};
}

// A message quotes what the client sent as far as that helps to find it, and no further.
const char *api_json_describe(const json_t *value, char out[API_DESCRIPTION_MAX]) {
  static const char *const kinds[] = {
      [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a long text",
      [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
      [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
  snprintf(out, API_DESCRIPTION_MAX, "%s", kinds[json_typeof(value)]);
  if (json_is_number(value)) snprintf(out, API_DESCRIPTION_MAX, "%.15g", json_number_value(value));
  if (json_is_integer(value))
    snprintf(out, API_DESCRIPTION_MAX, "%lld", (long long)json_integer_value(value));
  if (json_is_string(value) && json_string_length(value) < API_DESCRIPTION_MAX - 3)
    snprintf(out, API_DESCRIPTION_MAX, "\"%s\"", json_string_value(value));
  return out;
}

// ---- writing

// The five short forms and the two characters that always need one; all else in four hex digits.
static void write_escape(struct buffer *out, unsigned char c) {
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
