// SPDX-License-Identifier: Apache-2.0
//
// response.c: what happened to an answer, in OpenAI's words: whole answers, streamed chunks, lists
// of models.
//
// A stream of chat is, per choice: a chunk with the role, a chunk per token that shows text (or
// log-probabilities), a chunk with the reason of the end and an empty delta; then once, when asked
// for, a chunk with the usage and no choices; then "data: [DONE]".  A stream of completions has no
// role and puts the reason beside the last text.
//
// JSON is written straight into the buffer in the order OpenAI's own server uses: no tree is built
// for a token.

#include <assert.h>

#include "api/internal.h"

#define FINGERPRINT "motley-" MOTLEY_VERSION

static const char *const finish_reasons[] = {
    [API_FINISH_STOP] = "\"stop\"", [API_FINISH_LENGTH] = "\"length\""};

void api_choice_clear(struct api_choice *c) {
  assert(c);
  buffer_clear(&c->text);
  for (int i = 0; i < API_LOGPROB_COLUMNS; i++) buffer_clear(&c->logprobs[i]);
  *c = (struct api_choice){0};
}

// ---- pieces that several answers share

static void write_head(const struct api_response *r, const char *chat, const char *completion,
                       struct buffer *out) {
  assert(r->request && r->model);
  buffer_print(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%llu,\"model\":", r->id,
               r->request->chat ? chat : completion, (unsigned long long)r->created_s);
  api_json_write_string(out, str_of(r->model));
  buffer_add_text(out, ",\"system_fingerprint\":\"" FINGERPRINT "\",\"choices\":[");
}

static void write_usage(const struct api_response *r, int generated_tokens, struct buffer *out) {
  assert(generated_tokens >= 0 && r->cached_tokens <= r->prompt_tokens);
  buffer_print(out,
               "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
               r->prompt_tokens, generated_tokens, r->prompt_tokens + generated_tokens,
               r->cached_tokens);
}

// What is shown of the prompt that choice `index` continues.
static struct str echo_of(const struct api_response *r, int index) {
  assert(index >= 0 && r->request->choices > 0);
  return r->echo ? r->echo[index / r->request->choices] : (struct str){0};
}

// ---- what answers hold

static size_t held_bytes(const struct api_choice *c) {
  size_t bytes = c->text.length;
  for (int i = 0; i < API_LOGPROB_COLUMNS; i++) bytes += c->logprobs[i].length;
  return bytes;
}

static bool has_failed(const struct api_choice *c) {
  bool failed = c->text.failed;
  for (int i = 0; i < API_LOGPROB_COLUMNS; i++) failed |= c->logprobs[i].failed;
  return failed;
}

static bool refuse_memory(struct api_error *e) {
  return api_error_set(e, 500, "server_error", "out_of_memory", NULL,
                       "there is not enough memory for this answer");
}

// Adds the event to what the choice holds, within the bound that all choices share.
static bool hold(struct api_response *r, struct api_choice *c, const struct api_event *event,
                 bool text, struct api_error *e) {
  size_t before = held_bytes(c);
  assert(!c->finished && event->top_count <= SAMPLING_TOP_LOGPROBS);
  c->text.may_fail = true;
  for (int i = 0; i < API_LOGPROB_COLUMNS; i++) c->logprobs[i].may_fail = true;
  if (text) buffer_add_str(&c->text, event->text);
  api_add_logprobs(r, c, event);
  r->gathered += held_bytes(c) - before;
  if (has_failed(c)) return refuse_memory(e);
  if (r->gathered <= API_ANSWER_BYTES) return true;
  return api_error_set(e, 400, "invalid_request_error", "answer_too_large", NULL,
                       "the answer is larger than %u MiB: ask for a lower n, fewer tokens or fewer "
                       "logprobs, or for a stream",
                       API_ANSWER_BYTES >> 20);
}

static void note_end(struct api_choice *c, const struct api_event *event) {
  if (event->kind != API_END) return;
  assert(event->generated_tokens >= 0);
  c->finished = true;
  c->finish = event->finish;
  c->generated_tokens = event->generated_tokens;
}

// ---- whole answers

// The end, too, may carry text that was held back for a possible stop string.
bool api_choice_add(struct api_response *r, struct api_choice *c, const struct api_event *event,
                    struct api_error *e) {
  if (!hold(r, c, event, true, e)) return false;
  note_end(c, event);
  return true;
}

// Chat and completions differ in where the text goes; the rest is common.
static void write_choice(const struct api_response *r, struct api_choice *c, int index,
                         struct buffer *out) {
  struct buffer text = {.may_fail = true};
  assert(c->finished);
  buffer_add_str(&text, echo_of(r, index));
  buffer_add_str(&text, buffer_str(&c->text));
  out->failed |= text.failed;
  buffer_print(out, "{\"index\":%d,", index);
  buffer_add_text(
      out, r->request->chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
  api_json_write_string(out, buffer_str(&text));
  buffer_add_text(out, r->request->chat ? ",\"refusal\":null},\"logprobs\":" : ",\"logprobs\":");
  api_write_logprobs(r, c, out);
  buffer_print(out, ",\"finish_reason\":%s}", finish_reasons[c->finish]);
  buffer_clear(&text);
}

// Prompt tokens count once, however many answers continue them.
void api_write_response(const struct api_response *r, struct api_choice *choices, int count,
                        struct buffer *out) {
  int generated = 0;
  write_head(r, "chat.completion", "text_completion", out);
  for (int i = 0; i < count; i++) {
    if (i > 0) buffer_add_char(out, ',');
    write_choice(r, &choices[i], i, out);
    generated += choices[i].generated_tokens;
  }
  buffer_add_text(out, "],");
  write_usage(r, generated, out);
  buffer_add_text(out, "}");
}

// ---- streams

static void open_chunk(const struct api_response *r, int index, struct buffer *out) {
  assert(index >= 0);
  buffer_add_text(out, "data: ");
  write_head(r, "chat.completion.chunk", "text_completion", out);
  buffer_print(out, "{\"index\":%d,", index);
}

static void close_chunk(const struct api_response *r, struct api_choice *c, const char *reason,
                        struct buffer *out) {
  assert(reason && !c->finished);
  buffer_add_text(out, ",\"logprobs\":");
  api_write_logprobs(r, c, out);
  buffer_print(out, ",\"finish_reason\":%s}]", reason);
  buffer_add_text(out, r->request->stream_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static bool has_logprobs(const struct api_choice *c) {
  return c->logprobs[API_LOGPROB_TOKENS].length > 0;
}

// Role, text, end: each in a chunk of its own, as OpenAI's clients expect, even when one event
// brings all three.
static void write_chat_chunks(const struct api_response *r, struct api_choice *c, int index,
                              const struct api_event *event, struct buffer *out) {
  if (!c->started) {
    open_chunk(r, index, out);
    buffer_add_text(out,
                    "\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
                    "\"logprobs\":null,\"finish_reason\":null}]");
    buffer_add_text(out, r->request->stream_usage ? ",\"usage\":null}\n\n" : "}\n\n");
  }
  if (event->text.length || has_logprobs(c)) {
    open_chunk(r, index, out);
    buffer_add_text(out, "\"delta\":{\"content\":");
    api_json_write_string(out, event->text);
    buffer_add_char(out, '}');
    close_chunk(r, c, "null", out);
  }
  if (event->kind == API_END) {
    open_chunk(r, index, out);
    buffer_add_text(out, "\"delta\":{}");
    close_chunk(r, c, finish_reasons[event->finish], out);
  }
}

// Here text and the reason of the end share a chunk.
static void write_completion_chunk(const struct api_response *r, struct api_choice *c, int index,
                                   const struct api_event *event, struct buffer *out) {
  struct buffer text = {.may_fail = true};
  bool end = event->kind == API_END;
  if (!c->started) buffer_add_str(&text, echo_of(r, index));
  buffer_add_str(&text, event->text);
  out->failed |= text.failed;
  if (text.length || end || has_logprobs(c)) {
    open_chunk(r, index, out);
    buffer_add_text(out, "\"text\":");
    api_json_write_string(out, buffer_str(&text));
    close_chunk(r, c, end ? finish_reasons[event->finish] : "null", out);
  }
  buffer_clear(&text);
}

// Keeps in the choice what the next chunk and the end of the stream need to know.
bool api_write_chunk(struct api_response *r, struct api_choice *c, int index,
                     const struct api_event *event, struct buffer *out, struct api_error *e) {
  assert(index >= 0 && index < r->request->prompt_count * r->request->choices);
  if (!hold(r, c, event, false, e)) return false;
  if (event->kind == API_PROMPT) return true;
  size_t held = held_bytes(c);
  if (r->request->chat)
    write_chat_chunks(r, c, index, event, out);
  else
    write_completion_chunk(r, c, index, event, out);
  r->gathered -= held - held_bytes(c);
  c->started = true;
  note_end(c, event);
  return !out->failed || refuse_memory(e);
}

// The usage chunk has no choices; clients that did not ask for it would trip over that.
void api_write_stream_end(const struct api_response *r, int generated_tokens, struct buffer *out) {
  if (r->request->stream_usage) {
    buffer_add_text(out, "data: ");
    write_head(r, "chat.completion.chunk", "text_completion", out);
    buffer_add_text(out, "],");
    write_usage(r, generated_tokens, out);
    buffer_add_text(out, "}\n\n");
  }
  buffer_add_text(out, "data: [DONE]\n\n");
}

// ---- models

// max_model_len is not OpenAI's, but what clients of other servers look for to size their prompts.
void api_write_model(const struct api_model *model, struct buffer *out) {
  assert(model->name && model->context > 0);
  buffer_add_text(out, "{\"id\":");
  api_json_write_string(out, str_of(model->name));
  buffer_print(
      out, ",\"object\":\"model\",\"created\":%llu,\"owned_by\":\"motley\",\"max_model_len\":%d}",
      (unsigned long long)model->created_s, model->context);
}

// The list OpenAI's /v1/models gives.
void api_write_models(const struct api_model *models, int count, struct buffer *out) {
  buffer_add_text(out, "{\"object\":\"list\",\"data\":[");
  for (int i = 0; i < count; i++) {
    if (i > 0) buffer_add_char(out, ',');
    api_write_model(&models[i], out);
  }
  buffer_add_text(out, "]}");
}
