// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of src/api share.
#pragma once

#include "api/api.h"

// ---- json.c

// Parses the body, an object; says line and column of what is wrong.  New reference.
json_t *api_json_load(struct str body, struct api_error *e);
// A member, or NULL when it is absent or null: OpenAI treats both alike.
json_t *api_json_member(const json_t *object, const char *name);
struct str api_json_text(const json_t *string);
// A short description for messages: the value itself when it is small, else its kind ("an array").
#define API_DESCRIPTION_MAX 64
const char *api_json_describe(const json_t *value, char out[API_DESCRIPTION_MAX]);
// A JSON string with its quotes.  Bytes that are not UTF-8 become U+FFFD.
void api_json_write_string(struct buffer *out, struct str text);

// ---- request.c

struct api_reader {
  const json_t *root;
  struct api_request *out;
  int vocabulary;
  struct api_error *e;
};
// 400 with the parameter's name in front of the text; returns false.
bool api_refuse(struct api_reader *r, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- messages.c, prompts.c

bool api_read_messages(struct api_reader *r);
bool api_read_tools(struct api_reader *r);
bool api_read_prompts(struct api_reader *r);

// ---- logprobs.c.  Columns gather in the choice; writing them empties them.

void api_add_logprobs(const struct api_response *r, struct api_choice *c,
                      const struct engine_event *event);
void api_write_logprobs(const struct api_response *r, struct api_choice *c, struct buffer *out);
