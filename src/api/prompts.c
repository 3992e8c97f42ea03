// SPDX-License-Identifier: Apache-2.0
//
// prompts.c: the prompt of /v1/completions, in its four forms:
//
//   "text"          one text            [1, 2, 3]         one list of token ids
//   ["a", "b"]      several texts       [[1, 2], [3]]     several lists
//
// Each prompt is answered n times; the answers to prompt p have the indexes p*n … p*n+n-1.

#include <assert.h>
#include <stdio.h>

#include "api/internal.h"
#include "base/json_tree.h"

static bool add_text(struct api_reader *r, int at, const json_t *text) {
  struct buffer *prompt = &r->out->prompts[at];
  assert(at < r->out->prompt_count && json_is_string(text));
  prompt->may_fail = true;
  buffer_add_str(prompt, api_json_text(text));
  return !prompt->failed || api_refuse_memory(r, "prompt");
}

// Ids are bounded here, since nothing below checks what a client chose.
static bool add_ids(struct api_reader *r, int at, const json_t *ids) {
  struct api_ids *list = &r->out->prompt_ids[at];
  size_t count = json_array_size(ids);
  char what[API_DESCRIPTION_MAX];
  assert(at < r->out->prompt_count && json_is_array(ids));
  list->ids = memory_try(count * sizeof *list->ids);
  if (!list->ids) return api_refuse_memory(r, "prompt");
  for (size_t i = 0; i < count; i++) {
    const json_t *id = json_array_get(ids, i);
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= r->vocabulary)
      return api_refuse(r, "prompt", "token ids must be integers from 0 to %d, not %s",
                        r->vocabulary - 1, api_json_describe(id, what));
    list->ids[list->count++] = (int32_t)value;
  }
  return true;
}

// The first element decided what all of them must be.
static bool add_each(struct api_reader *r, const json_t *prompts, size_t count, bool texts) {
  assert(count == json_array_size(prompts) && texts == (r->out->prompts != NULL));
  for (size_t i = 0; i < count; i++) {
    const json_t *prompt = json_array_get(prompts, i);
    if (texts ? !json_is_string(prompt) : !json_is_array(prompt))
      return api_refuse(r, "prompt", "must hold only texts or only lists of token ids");
    if (!(texts ? add_text(r, (int)i, prompt) : add_ids(r, (int)i, prompt))) return false;
  }
  return true;
}

static void make_room(struct api_request *out, size_t count, bool texts) {
  assert(count > 0 && count <= API_ANSWERS_MAX);
  out->prompt_count = (int)count;
  if (texts)
    out->prompts = memory_new(count * sizeof *out->prompts);
  else
    out->prompt_ids = memory_new(count * sizeof *out->prompt_ids);
}

// The first element tells the four forms apart.
bool api_read_prompts(struct api_reader *r) {
  const json_t *given = api_json_member(r->root, "prompt");
  const json_t *first = json_array_get(given, 0);
  if (!given) return api_refuse(r, "prompt", "is required: a text, or a list of token ids");
  struct str wide;
  bool one = json_is_string(given) || json_is_number(first) || json_tree_wide(first, &wide);
  bool texts = json_is_string(given) || json_is_string(first);
  if (!one && !texts && !json_is_array(first))
    return api_refuse(r, "prompt", "must be a text, texts, token ids, or lists of token ids");
  size_t count = one ? 1 : json_array_size(given);
  if (count * (size_t)r->out->choices > API_ANSWERS_MAX)
    return api_refuse(r, "prompt", "%zu prompts with n = %d ask for more than %d answers at once",
                      count, r->out->choices, API_ANSWERS_MAX);
  make_room(r->out, count, texts);
  if (one) return texts ? add_text(r, 0, given) : add_ids(r, 0, given);
  return add_each(r, given, count, texts);
}
