// SPDX-License-Identifier: Apache-2.0
//
// model.c: the model that is served, as far as a request needs it: its template, its tokens, its
// limits.
//
//   chat          messages ──template──▶ text ──tokenizer──▶ ids; only the template's own text
//                                                             becomes special tokens
//   completions   text ──tokenizer, special tokens are plain text──▶ ids, or ids as given

#include <stdio.h>

#include "server/internal.h"

// 1 at least: check_size divides by it.
static size_t longest_token(const struct tokenizer *t) {
  size_t longest = 1;
  for (int id = 0; id < tokenizer_count(t); id++) {
    size_t length = tokenizer_bytes(t, id).length;
    if (length > longest) longest = length;
  }
  return longest;
}

// A template that cannot be parsed does not keep the model from serving: completions need none.
struct server_model *server_model_new(struct model *model, struct engine *engine,
                                      uint64_t wall_ms) {
  struct server_model *m = memory_new(sizeof *m);
  m->model = model;
  m->engine = engine;
  m->context = engine_context(engine);
  m->attached_s = wall_ms / 1000;
  m->longest_token = longest_token(model_tokenizer(model));
  m->chat = chat_new(model, &m->chat_error);
  if (!m->chat)
    log_line(LOG_WARNING, "chat is refused, completions work: %s", m->chat_error.text);
  else if (chat_is_fallback(m->chat))
    log_line(LOG_WARNING, "the model has no chat template; chat uses the ChatML form");
  return m;
}

void server_model_free(struct server_model *m) {
  if (!m) return;
  chat_free(m->chat);
  memory_free(m);
}

// Whatever goes wrong in a template is about these messages and this template: the client's to
// know.
static bool render(const struct server_model *m, const struct api_request *r, uint64_t wall_ms,
                   struct template_text *out, struct api_error *e) {
  struct error why = m->chat_error;
  if (!m->chat)
    return api_error_set(e, 400, "invalid_request_error", "no_chat_template", "messages",
                         "%s; chat cannot be used, /v1/completions works", why.text);
  json_t *variables = api_template_variables(r);
  bool done = chat_render(m->chat, variables, wall_ms, out, &why);
  json_decref(variables);
  if (!done)
    api_error_set(e, 400, "invalid_request_error", "chat_template", "messages",
                  "the model's chat template refuses these messages: %s", why.text);
  return done;
}

// One token of the context is kept for the answer, if there is to be one.
static bool fits(const struct server_model *m, const struct api_request *r, size_t tokens) {
  return tokens + (r->max_tokens != 0) <= (size_t)m->context;
}

static bool refuse_length(const struct server_model *m, const struct api_request *r,
                          const char *how_many, size_t tokens, struct api_error *e) {
  return api_error_set(e, 400, "invalid_request_error", "context_length_exceeded",
                       r->chat ? "messages" : "prompt",
                       "the prompt has %s%zu tokens, but this model's context is %d%s; shorten the "
                       "prompt",
                       how_many, tokens, m->context,
                       r->max_tokens ? " and one token of it is needed for the answer" : "");
}

// Tokenising takes time in proportion to the text, so a text that cannot fit however it is cut is
// not tokenised at all.
static bool check_size(const struct server_model *m, const struct api_request *r, struct str text,
                       struct api_error *e) {
  size_t least = text.length / m->longest_token;
  return fits(m, r, least) || refuse_length(m, r, "at least ", least, e);
}

// The text of a last message of the assistant follows what the template begins an answer with.  It
// is a message like all others: nothing in it becomes a control token.
static void add_continued(struct str continued, struct template_text *out) {
  buffer_add_str(&out->bytes, continued);
  for (size_t i = 0; i < continued.length; i++) buffer_add_char(&out->origins, TEMPLATE_INPUT);
}

// A rendered conversation too long for any choice of tokens is refused before it is tokenised.
static bool encode_chat(const struct server_model *m, const struct api_request *r, uint64_t wall_ms,
                        struct token_list *out, struct api_error *e) {
  struct template_text text = {0};
  bool done = render(m, r, wall_ms, &text, e);
  if (done) add_continued(r->continued, &text);
  done = done && check_size(m, r, buffer_str(&text.bytes), e);
  if (done) chat_encode(m->chat, &text, out);
  template_text_clear(&text);
  return done;
}

// Said here rather than left to the engine, since OpenAI's clients know this code and some shorten
// and retry.
static bool check_length(const struct server_model *m, const struct api_request *r,
                         const struct token_list *ids, struct api_error *e) {
  struct error why;
  if (!token_list_ok(ids, &why))
    return api_error_set(e, 503, "server_error", "no_memory", NULL, "%s", why.text);
  if (ids->count == 0)
    return api_error_set(e, 400, "invalid_request_error", "", r->chat ? "messages" : "prompt",
                         "the prompt is empty: there is no token to continue");
  return fits(m, r, ids->count) || refuse_length(m, r, "", ids->count, e);
}

// What users type into a completion never becomes a control token.
bool server_model_encode(const struct server_model *m, const struct api_request *r, int index,
                         uint64_t wall_ms, struct token_list *out, struct api_error *e) {
  if (r->chat) return encode_chat(m, r, wall_ms, out, e) && check_length(m, r, out, e);
  if (r->prompt_ids) {
    for (size_t i = 0; i < r->prompt_ids[index].count; i++)
      token_list_add(out, r->prompt_ids[index].ids[i]);
  } else {
    struct str text = buffer_str(&r->prompts[index]);
    if (!check_size(m, r, text, e)) return false;
    tokenizer_encode(model_tokenizer(m->model), text, true, false, out);
  }
  return check_length(m, r, out, e);
}

void server_health_note(struct server_health *h, const char *error) {
  h->failures = error ? h->failures + 1 : 0;
  h->failed += error != NULL;
  snprintf(h->error, sizeof h->error, "%s", error ? error : "");
}
