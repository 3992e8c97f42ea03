// SPDX-License-Identifier: Apache-2.0
//
// api.h: the OpenAI wire format: JSON in to plain structs, plain structs out to JSON.  No sockets,
// no engine thread: everything here is a function of its arguments and can be tested as text.
//
// Unknown fields are ignored, as OpenAI's own server and clients expect; fields we know but cannot
// honour are refused by name.  Errors carry the parameter's path ("messages[2].content") for
// OpenAI's error shape.
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "engine/engine.h"

#define API_CHOICES_MAX 16
#define API_STOPS_MAX ENGINE_STOPS

struct api_error {
  int status;          // HTTP: 400, 401, 403, 404, 405, 429, 500, 503
  char type[40];       // "invalid_request_error", "rate_limit_error", "server_error"
  char code[40];       // "" = null
  char param[96];      // "" = null
  struct error error;  // the message
};

struct api_request {  // of either endpoint; owned by api_request_clear
  bool chat;          // /v1/chat/completions, else /v1/completions
  // chat: normalised (content parts joined into one string); NULL else
  json_t *messages;
  json_t *tools;  // chat: as given, or NULL
  // completions: each text; prompt_ids instead when token arrays were given
  struct buffer *prompts;
  struct token_list *prompt_ids;    // [prompt_count] when the prompt was given as ids, else NULL
  int prompt_count;                 // 1 for chat
  char *model;                      // as asked, in `memory`; NULL = absent
  int choices;                      // n, 1..API_CHOICES_MAX
  int max_tokens;                   // 0 = absent
  struct engine_sampling sampling;  // bias arrays point into `memory`
  bool seed_given;
  int stop_count;
  struct str stops[API_STOPS_MAX];  // in `memory`
  int top_logprobs;                 // -1 = none
  bool stream, stream_usage;        // stream_options.include_usage
  bool echo;                        // completions
  struct arena memory;
};
// body → request.  vocabulary bounds the ids of logit_bias and of prompts.  False with a 400 that
// names the parameter; *out is then untouched.
bool api_request_parse(struct str body, bool chat, int vocabulary, struct api_request *out,
                       struct api_error *e);
// Everything the request points to goes; a zeroed one is left as it is.
void api_request_clear(struct api_request *r);
// Variables for the chat template: messages, tools, add_generation_prompt; model/chat.h adds
// bos_token and eos_token.  New reference.
json_t *api_template_variables(const struct api_request *r);

// What logprobs are made of, as columns of JSON elements: chat has one list of objects, completions
// four parallel lists.
enum {
  API_LOGPROB_TOKENS,
  API_LOGPROB_VALUES,
  API_LOGPROB_TOP,
  API_LOGPROB_OFFSETS,
  API_LOGPROB_COLUMNS
};

struct api_choice {    // one generated answer, growing as events come; zeroed = nothing yet
  struct buffer text;  // whole answers only; a stream keeps none
  struct buffer logprobs[API_LOGPROB_COLUMNS];  // elements written so far, comma-separated
  size_t logprob_offset;  // completions: text_offset of the next token, in characters
  bool started;           // streams: the first chunk, which carries the role or the echo, is out
  bool finished;
  enum engine_finish finish;
  int generated_tokens;
};
// Leaves it zeroed, ready for another answer.
void api_choice_clear(struct api_choice *c);

struct api_response {  // what all answers to one request share
  const struct api_request *request;
  const struct tokenizer *tokenizer;  // texts of tokens in logprobs
  char id[40];                        // "chatcmpl-…" or "cmpl-…"
  const char *model;                  // name reported
  uint64_t created_s;
  int prompt_tokens, cached_tokens;
};
// All writers append to *out.

// One streamed event of choice number `index` as "data: {…}\n\n" lines: one where there is text or
// a log-probability to tell, none for a token whose text is held back.  Chat has one with the role
// before the first and one with the reason of the end after the last; completions put the reason
// beside the last text, and an end always has its line.
void api_write_chunk(const struct api_response *r, struct api_choice *c, int index,
                     const struct engine_event *event, struct buffer *out);
// After the last chunk of all choices: the usage where it was asked for, then [DONE].
// generated_tokens: of all choices together.
void api_write_stream_end(const struct api_response *r, int generated_tokens, struct buffer *out);
// Takes one event into an answer that is told whole; nothing is written yet.
void api_choice_add(const struct api_response *r, struct api_choice *c,
                    const struct engine_event *event);
// The whole answer; every choice must be finished.  Uses their log-probabilities up.
void api_write_response(const struct api_response *r, struct api_choice *choices, int count,
                        struct buffer *out);
void api_write_error(const struct api_error *e, struct buffer *out);         // {"error":{…}}
void api_write_stream_error(const struct api_error *e, struct buffer *out);  // as an SSE event
// One entry of /v1/models, also the whole of /v1/models/NAME.  created_s: since 1970.
void api_write_model(const char *name, const struct model_config *config, uint64_t created_s,
                     struct buffer *out);
// names[count] and configs[count]; all were created at the same time.
void api_write_models(const char *const *names, const struct model_config *const *configs,
                      int count, uint64_t created_s, struct buffer *out);
// Fills *e, which must not be NULL; code and param may be NULL.  Returns false, so that a check can
// `return api_error_set(...)`.
bool api_error_set(struct api_error *e, int status, const char *type, const char *code,
                   const char *param, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
