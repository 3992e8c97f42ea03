// SPDX-License-Identifier: Apache-2.0
//
// error.c: errors in OpenAI's shape: {"error":{"message","type","param","code"}}.  The one place
// that fills and writes that shape; what has no param or code is written as null.

#include <assert.h>
#include <stdio.h>

#include "api/internal.h"

// The text passes through error_set, which makes it one clean line whatever a request put into it.
bool api_error_set(struct api_error *e, int status, const char *type, const char *code,
                   const char *param, const char *format, ...) {
  assert(e && status >= 400 && type && format);
  va_list arguments;
  char text[ERROR_TEXT_MAX];
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  *e = (struct api_error){.status = status};
  snprintf(e->type, sizeof e->type, "%s", type);
  snprintf(e->code, sizeof e->code, "%s", code ? code : "");
  snprintf(e->param, sizeof e->param, "%s", param ? param : "");
  return error_set(&e->error, status >= 500 ? ERROR_SYSTEM : ERROR_INPUT, "%s", text);
}

static void write_text_or_null(const char *text, struct buffer *out) {
  assert(text && out);
  if (text[0])
    api_json_write_string(out, str_of(text));
  else
    buffer_add_text(out, "null");
}

// All four members are always there: clients read them without asking.
void api_write_error(const struct api_error *e, struct buffer *out) {
  assert(e->status >= 400 && e->type[0]);
  buffer_add_text(out, "{\"error\":{\"message\":");
  api_json_write_string(out, str_of(e->error.text));
  buffer_add_text(out, ",\"type\":");
  api_json_write_string(out, str_of(e->type));
  buffer_add_text(out, ",\"param\":");
  write_text_or_null(e->param, out);
  buffer_add_text(out, ",\"code\":");
  write_text_or_null(e->code, out);
  buffer_add_text(out, "}}");
}

void api_write_stream_error(const struct api_error *e, struct buffer *out) {
  buffer_add_text(out, "data: ");
  api_write_error(e, out);
  buffer_add_text(out, "\n\n");
}
