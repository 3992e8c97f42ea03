// SPDX-License-Identifier: Apache-2.0
//
// logprobs.c: log-probabilities in OpenAI's two shapes.
//
//   chat          {"content":[{"token":"_a","logprob":-0.1,"bytes":[32,97],
//                              "top_logprobs":[{…}]},…],
//                  "refusal":null}
//   completions   {"tokens":["_a",…],"token_logprobs":[-0.1,…],
//                  "top_logprobs":[{"_a":-0.1,…},…],"text_offset":[5,…]}
//
// (_ is a space.)
//
// A token need not be whole characters.  Chat then shows U+FFFD beside the exact bytes;
// completions, which has no bytes, writes such a token as "bytes:\xe2\x96".  Offsets count
// characters: a character belongs to the token that holds its first byte.

#include <assert.h>
#include <math.h>

#include "api/internal.h"

#define LOWEST_LOGPROB -9999.0  // OpenAI's stand-in for what JSON cannot write

static void write_number(struct buffer *out, float logprob) {
  if (isnan(logprob)) return buffer_add_text(out, "null");
  double value = isfinite(logprob) ? (double)logprob : LOWEST_LOGPROB;
  buffer_print(out, "%.9g", value);
}

static void write_bytes(struct buffer *out, struct str bytes) {
  buffer_add_char(out, '[');
  for (size_t i = 0; i < bytes.length; i++)
    buffer_print(out, "%s%d", i ? "," : "", (unsigned char)bytes.data[i]);
  buffer_add_char(out, ']');
}

// Leaves the object open: only the chosen token goes on with its alternatives.
static void write_token(struct buffer *out, const struct api_token *token) {
  assert(!isnan(token->logprob));
  buffer_add_text(out, "{\"token\":");
  api_json_write_string(out, token->bytes);
  buffer_add_text(out, ",\"logprob\":");
  write_number(out, token->logprob);
  buffer_add_text(out, ",\"bytes\":");
  write_bytes(out, token->bytes);
}

static struct buffer *next_element(struct api_choice *c, int column) {
  struct buffer *b = &c->logprobs[column];
  assert(column >= 0 && column < API_LOGPROB_COLUMNS);
  if (b->length) buffer_add_char(b, ',');
  return b;
}

// One object per token; the alternatives have the same members, without their own alternatives.
static void add_chat(struct api_choice *c, const struct api_event *event) {
  assert(event->kind == API_TOKEN);
  struct buffer *out = next_element(c, API_LOGPROB_TOKENS);
  write_token(out, &event->token);
  buffer_add_text(out, ",\"top_logprobs\":[");
  for (int i = 0; i < event->top_count; i++) {
    if (i > 0) buffer_add_char(out, ',');
    write_token(out, &event->top[i]);
    buffer_add_char(out, '}');
  }
  buffer_add_text(out, "]}");
}

// Whether a token's bytes are whole characters, so that it can be called by them.
static bool is_utf8(struct str s) {
  for (size_t at = 0; at < s.length;) {
    int n = str_utf8_length(s, at);
    if (n == 0) return false;
    at += (size_t)n;
  }
  return true;
}

// Members of top_logprobs are named by their text, so tokens that are parts of characters must not
// all be called U+FFFD.
static void write_name(struct buffer *out, struct str bytes) {
  if (is_utf8(bytes)) return api_json_write_string(out, bytes);
  buffer_add_text(out, "\"bytes:");
  for (size_t i = 0; i < bytes.length; i++)
    buffer_print(out, "\\\\x%02x", (unsigned char)bytes.data[i]);
  buffer_add_char(out, '"');
}

static void write_top(struct buffer *out, const struct api_event *event) {
  assert(event->top_count >= 0 && event->top_count <= SAMPLING_TOP_LOGPROBS);
  if (isnan(event->token.logprob)) return buffer_add_text(out, "null");
  buffer_add_char(out, '{');
  for (int i = 0; i < event->top_count; i++) {
    if (i > 0) buffer_add_char(out, ',');
    write_name(out, event->top[i].bytes);
    buffer_add_char(out, ':');
    write_number(out, event->top[i].logprob);
  }
  buffer_add_char(out, '}');
}

// One element in each of four parallel lists.
static void add_completion(struct api_choice *c, const struct api_event *event) {
  assert(event->kind != API_END);
  write_name(next_element(c, API_LOGPROB_TOKENS), event->token.bytes);
  write_number(next_element(c, API_LOGPROB_VALUES), event->token.logprob);
  buffer_print(next_element(c, API_LOGPROB_OFFSETS), "%zu", c->logprob_offset);
  assert(event->characters >= 0);
  c->logprob_offset += (size_t)event->characters;
  write_top(next_element(c, API_LOGPROB_TOP), event);
}

// The end has no token, though it may carry text: that belongs to tokens told before.
void api_add_logprobs(const struct api_response *r, struct api_choice *c,
                      const struct api_event *event) {
  if (r->request->top_logprobs < 0 || event->kind == API_END) return;
  if (r->request->chat)
    add_chat(c, event);
  else
    add_completion(c, event);
}

static void write_column(const struct api_choice *c, int column, const char *before,
                         struct buffer *out) {
  buffer_add_text(out, before);
  buffer_add_str(out, buffer_str(&c->logprobs[column]));
  buffer_add_char(out, ']');
}

// Empties the columns: a stream reports each token once, a whole answer comes here once.
void api_write_logprobs(const struct api_response *r, struct api_choice *c, struct buffer *out) {
  if (r->request->top_logprobs < 0 || !c->logprobs[API_LOGPROB_TOKENS].length) {
    buffer_add_text(out, "null");
  } else if (r->request->chat) {
    write_column(c, API_LOGPROB_TOKENS, "{\"content\":[", out);
    buffer_add_text(out, ",\"refusal\":null}");
  } else {
    write_column(c, API_LOGPROB_TOKENS, "{\"tokens\":[", out);
    write_column(c, API_LOGPROB_VALUES, ",\"token_logprobs\":[", out);
    if (r->request->top_logprobs > 0)
      write_column(c, API_LOGPROB_TOP, ",\"top_logprobs\":[", out);
    else
      buffer_add_text(out, ",\"top_logprobs\":null");
    write_column(c, API_LOGPROB_OFFSETS, ",\"text_offset\":[", out);
    buffer_add_char(out, '}');
  }
  for (int i = 0; i < API_LOGPROB_COLUMNS; i++) c->logprobs[i].length = 0;
}
