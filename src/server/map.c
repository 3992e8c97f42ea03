// SPDX-License-Identifier: Apache-2.0
//
// map.c: between the plain structs of src/api, which knows no engine, and those of src/engine.
//
//   struct api_request ─▶ struct engine_request      struct engine_event ─▶ struct api_event
//
// The api speaks of tokens by their bytes, the engine by their ids; the tokenizer stands between.

#include <assert.h>

#include "server/internal.h"

// Every answer has a seed of its own: the given one, the next one, and so on.
struct engine_request server_map_request(const struct api_request *r, const struct token_list *ids,
                                         int index) {
  struct engine_request request = {.prompt = ids->ids,
                                   .prompt_count = (int)ids->count,
                                   .max_tokens = r->max_tokens > 0 ? r->max_tokens : 0,
                                   .prompt_only = r->max_tokens == 0,
                                   .prompt_logprobs = r->echo && r->top_logprobs >= 0,
                                   .sampling = r->sampling,
                                   .stop_count = r->stop_count,
                                   .stops = r->stops,
                                   .ignore_end = r->ignore_end,
                                   .top_logprobs = r->top_logprobs};
  assert(index >= 0);
  request.sampling.seed += (uint64_t)index;
  return request;
}

// Only what the client can do something about is its mistake.
bool server_map_error(const struct error *why, struct api_error *e) {
  assert(why->kind != ERROR_NONE);
  if (why->kind == ERROR_BUSY)
    return api_error_set(e, 429, "rate_limit_error", "engine_busy", NULL, "%s", why->text);
  if (why->kind == ERROR_INPUT)
    return api_error_set(e, 400, "invalid_request_error", "", NULL, "%s", why->text);
  return api_error_set(e, 500, "server_error", "", NULL, "%s", why->text);
}

// ---- tokens

static int count_characters(struct str s) {
  int count = 0;
  for (size_t i = 0; i < s.length; i++) count += ((unsigned char)s.data[i] & 0xC0) != 0x80;
  return count;
}

// With an echo the text begins with the prompt, whose tokens come first; without it, behind them.
void server_counter_start(struct server_counter *c, const struct tokenizer *t, int32_t last,
                          bool echo) {
  *c = (struct server_counter){.last = last, .in_prompt = echo};
  if (!echo) detokenizer_resume(&c->detokenizer, t, last);
}

// What is left of a broken character in the prompt is shown, and was counted, before the answer.
static void leave_prompt(struct server_counter *c, const struct tokenizer *t) {
  if (c->in_prompt) server_counter_start(c, t, c->last, false);
}

// A character that is not complete yet is counted for the token that holds its first byte.
int server_counter_add(struct server_counter *c, const struct tokenizer *t, int32_t id) {
  struct buffer text = {0};
  int waiting = c->detokenizer.pending_length > 0;
  detokenizer_add(&c->detokenizer, t, id, false, &text);
  int added = count_characters(buffer_str(&text)) + (c->detokenizer.pending_length > 0) - waiting;
  buffer_clear(&text);
  assert(added >= 0);
  return added;
}

static struct api_token token_of(const struct tokenizer *t, int32_t id, float logprob) {
  return (struct api_token){.bytes = tokenizer_bytes(t, id), .logprob = logprob};
}

static void map_logprobs(const struct tokenizer *t, struct server_counter *c,
                         const struct engine_event *from, struct api_event *to) {
  if (from->kind == EVENT_TOKEN) leave_prompt(c, t);
  to->token = token_of(t, from->id, from->logprob);
  to->characters = server_counter_add(c, t, from->id);
  to->top_count = from->top_count;
  for (int i = 0; i < from->top_count; i++)
    to->top[i] = token_of(t, from->top[i].id, from->top[i].logprob);
}

void server_map_event(const struct tokenizer *t, struct server_counter *c, bool logprobs,
                      const struct engine_event *from, struct api_event *to) {
  static const enum api_event_kind kinds[] = {
      [EVENT_PROMPT] = API_PROMPT, [EVENT_TOKEN] = API_TOKEN, [EVENT_END] = API_END};
  to->kind = kinds[from->kind];
  to->text = from->text;
  to->top_count = 0;
  if (to->kind != API_END && logprobs) map_logprobs(t, c, from, to);
  if (to->kind != API_END) return;
  assert(from->finish == FINISH_STOP || from->finish == FINISH_LENGTH);
  to->finish = from->finish == FINISH_LENGTH ? API_FINISH_LENGTH : API_FINISH_STOP;
  to->generated_tokens = from->generated_tokens;
}

// ---- the prompt, shown again

void server_map_echo(const struct tokenizer *t, const struct api_request *r, int prompt,
                     struct buffer *out) {
  assert(!r->chat && prompt >= 0 && prompt < r->prompt_count);
  if (r->prompts) return buffer_add_str(out, buffer_str(&r->prompts[prompt]));
  struct detokenizer d = {0};
  for (size_t i = 0; i < r->prompt_ids[prompt].count; i++)
    detokenizer_add(&d, t, r->prompt_ids[prompt].ids[i], false, out);
  detokenizer_finish(&d, out);
}
