// SPDX-License-Identifier: Apache-2.0
//
// request.c: the body of a request, checked field by field, to struct api_request.
//
// Numbers and switches are rows of the tables below: name, range, where they go.  A field that is
// null counts as absent.  What is known and cannot be honoured is refused before anything else
// (fields.c): that a feature is missing tells a client more than that some number beside it is out
// of range.
//
// The order of the checks is the order of the tables, so the same body always gives the same
// message.

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/internal.h"
#include "base/json_tree.h"

#define COMPLETION_TOKENS 16  // OpenAI's default of max_tokens for /v1/completions

// The parameter is named twice: for people in the text, for programs in "param".
bool api_refuse(struct api_reader *r, const char *param, const char *format, ...) {
  va_list arguments;
  char text[ERROR_TEXT_MAX];
  assert(param && *param);
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return api_error_set(r->e, 400, "invalid_request_error", "", param, "%s: %s", param, text);
}

bool api_refuse_memory(struct api_reader *r, const char *param) {
  return api_error_set(r->e, 500, "server_error", "out_of_memory", param,
                       "there is not enough memory for the field \"%s\" of this request", param);
}

char *api_copy_text(struct api_reader *r, const char *param, struct str text) {
  char *copy = arena_try(&r->out->memory, text.length + 1);
  assert(text.data || text.length == 0);
  if (!copy) return api_refuse_memory(r, param), NULL;
  if (text.length) memcpy(copy, text.data, text.length);
  return copy;
}

// ---- fields by table

static const struct integer_field {
  const char *name;
  enum api_route where;
  int low, high;
  size_t offset;  // of an int in struct api_request
} integer_fields[] = {
    {"n", API_BOTH, 1, API_CHOICES_MAX, offsetof(struct api_request, choices)},
    {"max_tokens", API_CHAT, 1, INT_MAX, offsetof(struct api_request, max_tokens)},
    {"max_tokens", API_COMPLETIONS, 0, INT_MAX, offsetof(struct api_request, max_tokens)},
    {"max_completion_tokens", API_CHAT, 1, INT_MAX, offsetof(struct api_request, max_tokens)},
    {"logprobs", API_COMPLETIONS, 0, SAMPLING_TOP_LOGPROBS,
     offsetof(struct api_request, top_logprobs)},
};

static const struct switch_field {
  const char *name;
  enum api_route where;
  size_t offset;  // of a bool in struct api_request
} switch_fields[] = {
    {"stream", API_BOTH, offsetof(struct api_request, stream)},
    {"echo", API_COMPLETIONS, offsetof(struct api_request, echo)},
    {"ignore_eos", API_BOTH, offsetof(struct api_request, ignore_end)},
};

// Every row of the table of base/sampling.h is a field of the same name.
static bool read_sampling(struct api_reader *r) {
  const struct sampling_range *range;
  char what[API_DESCRIPTION_MAX];
  for (size_t i = 0; (range = sampling_range_at(i)); i++) {
    const json_t *value = api_json_member(r->root, range->name);
    if (!value) continue;
    bool fits = range->whole ? json_is_integer(value) : json_is_number(value);
    if (!fits || !sampling_allows(range, json_number_value(value)))
      return api_refuse(r, range->name, "must be %s from %.10g to %.10g, not %s",
                        range->whole ? "an integer" : "a number", range->low, range->high,
                        api_json_describe(value, what));
    sampling_put(&r->out->sampling, range, json_number_value(value));
  }
  return true;
}

// 2.0 is a number but no integer; JSON keeps the difference and so do we.
static bool read_integers(struct api_reader *r) {
  char what[API_DESCRIPTION_MAX];
  assert(r->root && r->out);
  for (size_t i = 0; i < COUNT_OF(integer_fields); i++) {
    const struct integer_field *f = &integer_fields[i];
    const json_t *value =
        api_field_applies(f->where, r->out->chat) ? api_json_member(r->root, f->name) : NULL;
    json_int_t number = json_integer_value(value);
    if (!value) continue;
    if (!json_is_integer(value) || number < f->low || number > f->high)
      return api_refuse(r, f->name, "must be an integer from %d to %d, not %s", f->low, f->high,
                        api_json_describe(value, what));
    *(int *)((char *)r->out + f->offset) = (int)number;
  }
  return true;
}

// Leaves *out alone when the member is absent.
static bool read_switch(struct api_reader *r, const json_t *object, const char *member,
                        const char *param, bool *out) {
  const json_t *value = api_json_member(object, member);
  char what[API_DESCRIPTION_MAX];
  assert(param && out);
  if (!value) return true;
  if (!json_is_boolean(value))
    return api_refuse(r, param, "must be true or false, not %s", api_json_describe(value, what));
  *out = json_is_true(value);
  return true;
}

// A field of the other endpoint is passed over like one nobody knows.
static bool read_switches(struct api_reader *r) {
  for (size_t i = 0; i < COUNT_OF(switch_fields); i++) {
    const struct switch_field *f = &switch_fields[i];
    bool *out = (bool *)((char *)r->out + f->offset);
    if (api_field_applies(f->where, r->out->chat) &&
        !read_switch(r, r->root, f->name, f->name, out))
      return false;
  }
  return true;
}

// ---- fields with a shape of their own

static bool read_model(struct api_reader *r) {
  const json_t *model = api_json_member(r->root, "model");
  if (!model) return true;
  if (!json_is_string(model)) return api_refuse(r, "model", "must be a string");
  r->out->model = api_copy_text(r, "model", api_json_text(model));
  return r->out->model != NULL;
}

// The lowest 64 bits of a whole number of any length, as two's complement has them; false for any
// other number.
static bool low_bits(struct str text, uint64_t *out) {
  bool negative = str_starts(text, STR("-"));
  uint64_t bits = 0;
  for (size_t i = negative; i < text.length; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    bits = bits * 10 + (uint64_t)(text.data[i] - '0');
  }
  *out = negative ? 0 - bits : bits;
  return true;
}

// Any integer is a seed: of those beyond 64 bits the lowest 64 count.
static bool read_seed(struct api_reader *r) {
  const json_t *seed = api_json_member(r->root, "seed");
  uint64_t *out = &r->out->sampling.seed;
  char what[API_DESCRIPTION_MAX];
  struct str wide;
  if (!seed) return true;
  bool fits = json_tree_wide(seed, &wide) ? low_bits(wide, out) : json_is_integer(seed);
  if (!fits)
    return api_refuse(r, "seed", "must be an integer, not %s", api_json_describe(seed, what));
  if (json_is_integer(seed)) *out = (uint64_t)json_integer_value(seed);
  r->out->seed_given = true;
  return true;
}

static bool read_best_of(struct api_reader *r) {
  const json_t *best_of = api_json_member(r->root, "best_of");
  if (!best_of || r->out->chat) return true;
  if (!json_is_integer(best_of) || json_integer_value(best_of) != r->out->choices)
    return api_refuse(r, "best_of", "is only supported when it equals n, here %d", r->out->choices);
  return true;
}

// Copied, since the tree they come from dies with the parsing.
static bool add_stop(struct api_reader *r, const json_t *stop) {
  char what[API_DESCRIPTION_MAX];
  if (!json_is_string(stop))
    return api_refuse(r, "stop", "must be a string or an array of strings, not %s",
                      api_json_describe(stop, what));
  if (json_string_length(stop) == 0)
    return api_refuse(r, "stop", "an empty text would stop at once");
  if (json_string_length(stop) > SAMPLING_STOP_BYTES)
    return api_refuse(r, "stop", "a text must have at most %d bytes, not %zu", SAMPLING_STOP_BYTES,
                      json_string_length(stop));
  struct str text = api_json_text(stop);
  char *copy = api_copy_text(r, "stop", text);
  if (!copy) return false;
  assert(r->out->stop_count < SAMPLING_STOPS);
  r->out->stops[r->out->stop_count++] = (struct str){copy, text.length};
  return true;
}

// One string or a list, as clients send either.
static bool read_stops(struct api_reader *r) {
  const json_t *stop = api_json_member(r->root, "stop");
  size_t count = json_array_size(stop);
  if (!stop) return true;
  if (!json_is_array(stop)) return add_stop(r, stop);
  if (count > SAMPLING_STOPS)
    return api_refuse(r, "stop", "must hold at most %d texts, not %zu", SAMPLING_STOPS, count);
  for (size_t i = 0; i < count; i++)
    if (!add_stop(r, json_array_get(stop, i))) return false;
  return true;
}

// Keys of JSON objects are texts, so ids arrive as such.
static bool read_bias_entry(struct api_reader *r, const char *key, const json_t *value, int32_t *id,
                            float *bias) {
  int64_t number;
  double amount = json_number_value(value);
  assert(key && value && r->vocabulary > 0);
  if (!str_to_int(str_of(key), &number) || number < 0 || number >= r->vocabulary)
    return api_refuse(r, "logit_bias", "\"%.40s\" is not a token id from 0 to %d", key,
                      r->vocabulary - 1);
  double most = (double)SAMPLING_BIAS_MAX;
  if (!json_is_number(value) || !(amount >= -most && amount <= most))
    return api_refuse(r, "logit_bias", "the bias of token %s must be a number from %g to %g", key,
                      -most, most);
  *id = (int32_t)number;
  *bias = (float)amount;
  return true;
}

// The arrays live in the request's arena, beside each other as the engine wants them.
static bool read_bias(struct api_reader *r) {
  json_t *given = api_json_member(r->root, "logit_bias");
  size_t count = json_object_size(given);
  if (!given) return true;
  if (!api_json_is_object(given))
    return api_refuse(r, "logit_bias", "must be an object of token ids and biases");
  if (count > SAMPLING_BIAS_COUNT)
    return api_refuse(r, "logit_bias", "must hold at most %d tokens, not %zu", SAMPLING_BIAS_COUNT,
                      count);
  int32_t *ids = arena_new(&r->out->memory, count * sizeof *ids);
  float *values = arena_new(&r->out->memory, count * sizeof *values);
  const char *key;
  json_t *value;
  int at = 0;
  json_object_foreach(given, key, value) {
    if (!read_bias_entry(r, key, value, &ids[at], &values[at])) return false;
    at++;
  }
  r->out->sampling.bias_count = at;
  r->out->sampling.bias_ids = ids;
  r->out->sampling.bias_values = values;
  return true;
}

// Chat has a switch and a count; the count of completions is a row of integer_fields.
static bool read_logprobs(struct api_reader *r) {
  if (!r->out->chat) return true;
  const json_t *top = api_json_member(r->root, "top_logprobs");
  bool wanted = false;
  char what[API_DESCRIPTION_MAX];
  if (!read_switch(r, r->root, "logprobs", "logprobs", &wanted)) return false;
  if (top && !wanted) return api_refuse(r, "top_logprobs", "needs \"logprobs\": true");
  json_int_t count = json_integer_value(top);
  if (top && (!json_is_integer(top) || count < 0 || count > SAMPLING_TOP_LOGPROBS))
    return api_refuse(r, "top_logprobs", "must be an integer from 0 to %d, not %s",
                      SAMPLING_TOP_LOGPROBS, api_json_describe(top, what));
  if (wanted) r->out->top_logprobs = (int)count;
  return true;
}

// Options of a stream without a stream are a mistake worth telling: no usage would come.
static bool read_stream_options(struct api_reader *r) {
  const json_t *options = api_json_member(r->root, "stream_options");
  if (!options) return true;
  if (!api_json_is_object(options)) return api_refuse(r, "stream_options", "must be an object");
  if (!r->out->stream) return api_refuse(r, "stream_options", "needs \"stream\": true");
  bool every_chunk = false;
  if (!read_switch(r, options, "continuous_usage_stats", "stream_options.continuous_usage_stats",
                   &every_chunk))
    return false;
  if (every_chunk)
    return api_refuse(r, "stream_options.continuous_usage_stats",
                      "is not supported: the usage comes once, at the end");
  return read_switch(r, options, "include_usage", "stream_options.include_usage",
                     &r->out->stream_usage);
}

static bool read_response_format(struct api_reader *r) {
  const json_t *format = api_json_member(r->root, "response_format");
  const char *type = json_string_value(api_json_member(format, "type"));
  if (!format || (type && strcmp(type, "text") == 0)) return true;
  return api_refuse(r, "response_format", "only {\"type\":\"text\"} is supported, not \"%.40s\"",
                    type ? type : "");
}

static bool read_modalities(struct api_reader *r) {
  const json_t *list = api_json_member(r->root, "modalities");
  if (!list) return true;
  const char *only = json_string_value(json_array_get(list, 0));
  if (json_array_size(list) == 1 && only && strcmp(only, "text") == 0) return true;
  return api_refuse(r, "modalities", "only [\"text\"] is supported");
}

// ---- the whole

static bool read_chat(struct api_reader *r) {
  r->out->prompt_count = 1;
  return api_read_tools(r) && api_read_messages(r);
}

static bool read_fields(struct api_reader *r) {
  return read_model(r) && api_refuse_fields(r) && read_sampling(r) && read_integers(r) &&
         read_switches(r) && read_seed(r) && read_best_of(r) && read_stops(r) && read_bias(r) &&
         read_logprobs(r) && read_stream_options(r) && read_response_format(r) &&
         read_modalities(r) && (r->out->chat ? read_chat(r) : api_read_prompts(r));
}

// Everything is built in a local request, so that *out is untouched when something is wrong.
bool api_request_parse(struct str body, bool chat, int vocabulary, struct api_request *out,
                       struct api_error *e) {
  assert(vocabulary > 0 && out && e);
  struct api_request request = {.chat = chat,
                                .choices = 1,
                                .max_tokens = chat ? -1 : COMPLETION_TOKENS,
                                .top_logprobs = -1,
                                .sampling = sampling_default()};
  json_t *root = api_json_load(body, e);
  if (!root) return false;
  struct api_reader r = {.root = root, .out = &request, .vocabulary = vocabulary, .e = e};
  bool ok = read_fields(&r);
  assert(!ok || request.prompt_count * request.choices <= API_ANSWERS_MAX);
  json_decref(root);
  if (ok)
    *out = request;
  else
    api_request_clear(&request);
  return ok;
}

// Also for a request that was only partly read.
void api_request_clear(struct api_request *r) {
  json_decref(r->messages);
  json_decref(r->tools);
  for (int i = 0; i < r->prompt_count; i++) {
    if (r->prompts) buffer_clear(&r->prompts[i]);
    if (r->prompt_ids) memory_free(r->prompt_ids[i].ids);
  }
  memory_free(r->prompts);
  memory_free(r->prompt_ids);
  arena_clear(&r->memory);
  *r = (struct api_request){0};
}
