// SPDX-License-Identifier: Apache-2.0
//
// fuzz_json.c: the body of a request through api_request_parse, as chat and as completion; and any
// bytes as a JSON string, which must read back as the same text with U+FFFD for what was not UTF-8.

#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "support/fuzz.h"

#define VOCABULARY 1000

static void must(bool holds) {
  if (!holds) abort();
}

static void check_request(const struct api_request *r) {
  must(r->choices >= 1 && r->choices <= API_CHOICES_MAX && r->prompt_count >= 1);
  must(r->stop_count >= 0 && r->stop_count <= SAMPLING_STOPS && r->max_tokens >= -1);
  must(r->top_logprobs >= -1 && r->top_logprobs <= SAMPLING_TOP_LOGPROBS);
  must(r->sampling.temperature >= 0 && r->sampling.temperature <= 2);
  for (int i = 0; i < r->sampling.bias_count; i++)
    must(r->sampling.bias_ids[i] >= 0 && r->sampling.bias_ids[i] < VOCABULARY);
  for (size_t i = 0; i < json_array_size(r->messages); i++) {
    const json_t *content = json_object_get(json_array_get(r->messages, i), "content");
    must(json_is_string(content) || json_is_null(content));
  }
}

static void check_error(const struct api_error *e) {
  struct buffer text = {0};
  json_error_t why;
  must(e->status == 400 && e->error.text[0] && !strchr(e->error.text, '\n'));
  api_write_error(e, &text);
  json_t *again = json_loadb(text.data, text.length, 0, &why);
  must(json_is_string(json_object_get(json_object_get(again, "error"), "message")));
  json_decref(again);
  buffer_clear(&text);
}

static void parse(struct str body, bool chat) {
  struct api_request r;
  struct api_error e;
  if (!api_request_parse(body, chat, VOCABULARY, &r, &e)) return check_error(&e);
  check_request(&r);
  if (chat) json_decref(api_template_variables(&r));
  api_request_clear(&r);
}

static void write_and_read_back(struct str s) {
  struct buffer text = {0}, expected = {0};
  json_error_t why;
  for (size_t at = 0; at < s.length;) {
    int length = str_utf8_length(s, at);
    buffer_add_str(&expected,
                   length ? (struct str){s.data + at, (size_t)length} : STR("\xEF\xBF\xBD"));
    at += length ? (size_t)length : 1;
  }
  api_json_write_string(&text, s);
  json_t *again = json_loadb(text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
  must(json_is_string(again) && str_equal(api_json_text(again), buffer_str(&expected)));
  json_decref(again);
  buffer_clear(&text);
  buffer_clear(&expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct str s = {(const char *)data, size};
  parse(s, true);
  parse(s, false);
  write_and_read_back(s);
  return 0;
}
