// SPDX-License-Identifier: Apache-2.0
//
// api.h: the OpenAI wire format: JSON in to plain structs, plain structs out to JSON.
//
//   body ─api_request_parse─▶ struct api_request ─▶ whoever generates the answer
//   struct api_event ─api_write_chunk / api_choice_add─▶ text for the client
//
// This room knows no engine, no model and no tokenizer: a program that only passes requests on can
// use it alone.  No sockets, no threads: everything is a function of its arguments.
//
// Unknown fields are ignored, as OpenAI's own clients expect.  Fields we know but cannot honour are
// refused by name (fields.c).  Errors carry the parameter's path ("messages[2].content") for
// OpenAI's error shape.
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/sampling.h"

#define API_CHOICES_MAX 16
#define API_ANSWERS_MAX 128  // prompts times n of one request

struct api_error {
  int status;          // HTTP: 400, 401, 403, 404, 405, 429, 500, 503
  char type[40];       // "invalid_request_error", "rate_limit_error", "server_error"
  char code[40];       // "" = null
  char param[96];      // "" = null
  struct error error;  // the message
};
// Fills *e, which must not be NULL; code and param may be NULL.  Returns false, so that a check can
// `return api_error_set(...)`.
bool api_error_set(struct api_error *e, int status, const char *type, const char *code,
                   const char *param, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
void api_write_error(const struct api_error *e, struct buffer *out);         // {"error":{…}}
void api_write_stream_error(const struct api_error *e, struct buffer *out);  // as an SSE event

// ---- requests

struct api_ids {
  int32_t *ids;  // [count], owned by the request
  size_t count;
};

struct api_request {  // of either endpoint; owned by api_request_clear
  bool chat;          // /v1/chat/completions, else /v1/completions
  // chat: normalised (content parts joined into one string); NULL else
  json_t *messages;
  json_t *tools;  // chat: as given, or NULL
  // chat: the text of a last message of the assistant, which the answer goes on with; it is not in
  // `messages`.  In `memory`; empty = the answer begins anew.
  struct str continued;
  // completions: each text; prompt_ids instead when token arrays were given
  struct buffer *prompts;
  struct api_ids *prompt_ids;  // [prompt_count] when the prompt was given as ids, else NULL
  int prompt_count;            // 1 for chat
  char *model;                 // as asked, in `memory`; NULL = absent
  int choices;                 // n, 1..API_CHOICES_MAX
  int max_tokens;              // -1 = absent; 0 (completions): only the prompt is looked at
  struct sampling sampling;    // bias arrays point into `memory`
  bool seed_given;
  int stop_count;
  struct str stops[SAMPLING_STOPS];  // in `memory`
  int top_logprobs;                  // -1 = none, else 0..SAMPLING_TOP_LOGPROBS
  bool stream, stream_usage;         // stream_options.include_usage
  bool echo;                         // completions
  bool ignore_end;                   // ignore_eos: go on past end-of-generation tokens
  struct arena memory;
};
// body → request.  vocabulary: the ids of logit_bias and of prompts are below it; INT32_MAX for
// whoever does not know.  False with a 400 that names the parameter; *out is then untouched.
bool api_request_parse(struct str body, bool chat, int vocabulary, struct api_request *out,
                       struct api_error *e);
// Everything the request points to goes; a zeroed one is left as it is.
void api_request_clear(struct api_request *r);
// Variables for the chat template: messages, tools, add_generation_prompt.  What is rendered with
// them comes before request.continued.  New reference.
json_t *api_template_variables(const struct api_request *r);

// ---- answers

struct api_token {   // one token and how likely it was
  struct str bytes;  // the exact bytes, which need not be whole characters; borrowed
  float logprob;     // natural logarithm; NAN = none: the first token of a prompt
};

enum api_event_kind { API_PROMPT, API_TOKEN, API_END };
enum api_finish { API_FINISH_STOP, API_FINISH_LENGTH };

struct api_event {  // what happened to one answer; borrowed for the call that takes it
  enum api_event_kind kind;
  struct str text;  // can be shown now, behind all text before; whole characters
  // API_PROMPT: a token of the prompt; all of them come before anything else, for `echo` with
  // logprobs.  API_TOKEN: a generated one.  Only looked at when log-probabilities were asked for:
  struct api_token token;
  int characters;                               // of the text that begin in this token
  int top_count;                                // alternatives, best first
  struct api_token top[SAMPLING_TOP_LOGPROBS];  // [top_count]
  // API_END:
  enum api_finish finish;
  int generated_tokens;
};

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
  enum api_finish finish;
  int generated_tokens;
};
// Leaves it zeroed, ready for another answer.
void api_choice_clear(struct api_choice *c);

struct api_response {  // what all answers to one request share
  const struct api_request *request;
  const struct str *echo;  // [prompt_count] what `echo` shows of each prompt; NULL = no echo
  char id[40];             // "chatcmpl-…" or "cmpl-…"
  const char *model;       // name reported
  uint64_t created_s;
  int prompt_tokens, cached_tokens;
  size_t gathered;  // bytes of answers that are told whole, and of prompts that are told
};
#define API_ANSWER_BYTES (64u << 20)  // most of `gathered`
// All writers append to *out.  Those that take *e fail when the answer becomes too large (400) or
// memory runs out (500); others leave a buffer that may fail as such a buffer is left.

// One streamed event of choice number `index` as "data: {…}\n\n" lines: one where there is text or
// a log-probability to tell, none for a token whose text is held back.  Tokens of the prompt wait
// for the first line.  Chat has one with the role
// before the first and one with the reason of the end after the last; completions put the reason
// beside the last text, and an end always has its line.
bool api_write_chunk(struct api_response *r, struct api_choice *c, int index,
                     const struct api_event *event, struct buffer *out, struct api_error *e);
// After the last chunk of all choices: the usage where it was asked for, then [DONE].
// generated_tokens: of all choices together.
void api_write_stream_end(const struct api_response *r, int generated_tokens, struct buffer *out);
// Takes one event into an answer that is told whole; nothing is written yet.
bool api_choice_add(struct api_response *r, struct api_choice *c, const struct api_event *event,
                    struct api_error *e);
// The whole answer; every choice must be finished.  Uses their log-probabilities up.
void api_write_response(const struct api_response *r, struct api_choice *choices, int count,
                        struct buffer *out);

// ---- models

struct api_model {
  const char *name;
  int context;         // tokens
  uint64_t created_s;  // since 1970
};
// One entry of /v1/models, also the whole of /v1/models/NAME.
void api_write_model(const struct api_model *model, struct buffer *out);
void api_write_models(const struct api_model *models, int count, struct buffer *out);
