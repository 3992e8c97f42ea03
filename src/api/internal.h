// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of src/api share.
//
//   body ─json.c─▶ JSON ─request.c, messages.c, prompts.c─▶ struct api_request
//   struct api_event ─response.c, logprobs.c─▶ text of an answer
//
// Readers return false after they have set the error; writers append and cannot fail.
#pragma once

#include "api/api.h"

// ---- json.c

// Parses the body, an object; says line and column of what is wrong.  New reference.
json_t *api_json_load(struct str body, struct api_error *e);
// A member, or NULL when it is absent or null: OpenAI treats both alike.
json_t *api_json_member(const json_t *object, const char *name);
// A wide number (base/json_tree.h) is an object to jansson, and none to us.
bool api_json_is_object(const json_t *value);
// Borrowed from the JSON.  Empty, with data NULL, for what is no string.
struct str api_json_text(const json_t *string);
#define API_DESCRIPTION_MAX 64  // bytes with the NUL
// A short description for messages: the value itself when it is small, else its kind ("an array").
// Returns out; value must not be NULL.
const char *api_json_describe(const json_t *value, char out[API_DESCRIPTION_MAX]);
// A JSON string with its quotes.  Bytes that are not UTF-8 become U+FFFD.
void api_json_write_string(struct buffer *out, struct str text);

// ---- request.c

struct api_reader {
  const json_t *root;       // the body
  struct api_request *out;  // filled field by field; whoever made the reader clears it on failure
  int vocabulary;           // token ids are below it
  struct api_error *e;      // set by the reader that returns false
};
// What the request needed and the machine has not: 500.  Returns false.
bool api_refuse_memory(struct api_reader *r, const char *param);
// A copy in the request's memory with a NUL behind it; NULL after api_refuse_memory.
char *api_copy_text(struct api_reader *r, const char *param, struct str text);
// 400 with the parameter's name in front of the text; returns false.
bool api_refuse(struct api_reader *r, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- fields.c

enum api_route { API_BOTH, API_CHAT, API_COMPLETIONS };
bool api_field_applies(enum api_route where, bool chat);
struct api_field {  // one that means nothing here
  const char *name;
  enum api_route where;
  const char
      *neutral;     // a value that asks for nothing: a number, true, or a word; NULL = empty ones
  const char *why;  // it is refused; NULL = it is ignored
};
const struct api_field *api_field_at(size_t index);  // NULL beyond the last row
// Refuses the first field of the table that asks for what cannot be had.
bool api_refuse_fields(struct api_reader *r);

// ---- messages.c, prompts.c

// Fills out->messages, normalised; required, and not empty.
bool api_read_messages(struct api_reader *r);
// Fills out->tools; absent, empty and tool_choice "none" all leave NULL.
bool api_read_tools(struct api_reader *r);
// Fills prompts or prompt_ids, and prompt_count; required.  out->choices must be there: the two
// together are limited.
bool api_read_prompts(struct api_reader *r);

// ---- logprobs.c.  Columns gather in the choice; writing them empties them.

// Does nothing unless log-probabilities were asked for and the event is a token.
void api_add_logprobs(const struct api_response *r, struct api_choice *c,
                      const struct api_event *event);
// The value of the member "logprobs": an object, or null when nothing has gathered.
void api_write_logprobs(const struct api_response *r, struct api_choice *c, struct buffer *out);
