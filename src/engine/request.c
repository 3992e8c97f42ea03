// SPDX-License-Identifier: Apache-2.0
//
// request.c: a request checked, and made into a sequence.
//
// The ranges of sampling numbers are those of base/sampling.h.  A refusal names the field as the
// header does, the value, and the range.

#include <string.h>

#include "engine/internal.h"

// ---- checks

// An id out of range would read outside of the embedding.
static bool check_ids(const char *name, const int32_t *ids, int count, int vocabulary,
                      struct error *e) {
  for (int i = 0; i < count; i++) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    return error_set(e, ERROR_INPUT,
                     "%s[%d]: token %d does not exist; this model has tokens 0 to %d", name, i,
                     ids[i], vocabulary - 1);
  }
  return true;
}

// The count first: the arrays are read only when they may be that long.
static bool check_sampling(const struct sampling *s, int vocabulary, struct error *e) {
  if (s->bias_count < 0 || s->bias_count > vocabulary)
    return error_set(e, ERROR_INPUT, "logit_bias: %d entries; at most one for each of %d tokens",
                     s->bias_count, vocabulary);
  return sampling_check(s, e) && check_ids("logit_bias", s->bias_ids, s->bias_count, vocabulary, e);
}

// Text is given out in whole characters, so a stop string that is none could never be met.
static bool utf8_valid(struct str s) {
  for (size_t at = 0; at < s.length;) {
    int length = str_utf8_length(s, at);
    if (!length) return false;
    at += (size_t)length;
  }
  return true;
}

// Lengths are bounded since so much text may have to be held back.
static bool check_stops(const struct engine_request *r, struct error *e) {
  if (r->stop_count < 0 || r->stop_count > SAMPLING_STOPS)
    return error_set(e, ERROR_INPUT, "stop: %d strings; at most %d are allowed", r->stop_count,
                     SAMPLING_STOPS);
  for (int i = 0; i < r->stop_count; i++) {
    size_t length = r->stops[i].length;
    if (length == 0 || length > SAMPLING_STOP_BYTES)
      return error_set(e, ERROR_INPUT, "stop[%d]: %zu bytes long; choose 1 to %d", i, length,
                       SAMPLING_STOP_BYTES);
    if (!utf8_valid(r->stops[i])) return error_set(e, ERROR_INPUT, "stop[%d]: not valid UTF-8", i);
  }
  return true;
}

// One place of the context is kept, so that there is something to generate.
static bool check_lengths(const struct engine_request *r, int context, int positions,
                          struct error *e) {
  if (r->prompt_count < 1) return error_set(e, ERROR_INPUT, "prompt: no tokens; send at least one");
  if (r->prompt_count > context - (r->prompt_only ? 0 : 1))
    return error_set(
        e, ERROR_INPUT, "prompt: %d tokens do not fit the context of %d%s; shorten it%s",
        r->prompt_count, context, r->prompt_only ? "" : " (one is kept for the answer)",
        context < positions ? " or start with a larger --context"
                            : ": the model has no longer context");
  if (r->max_tokens < 0)
    return error_set(e, ERROR_INPUT, "max_tokens: %d is negative; choose 0 (no limit) or more",
                     r->max_tokens);
  if (r->top_logprobs < -1 || r->top_logprobs > SAMPLING_TOP_LOGPROBS)
    return error_set(e, ERROR_INPUT,
                     "top_logprobs: %d is out of range; choose 0 to %d (-1 for none)",
                     r->top_logprobs, SAMPLING_TOP_LOGPROBS);
  if (r->prompt_logprobs && r->top_logprobs < 0)
    return error_set(e, ERROR_INPUT, "prompt_logprobs: needs top_logprobs of 0 or more");
  return true;
}

// Lengths first: the arrays are walked only once their counts are believed.
bool engine_request_check(const struct engine_request *r, int context,
                          const struct engine_backend *backend, struct error *e) {
  int vocabulary = backend->vocabulary;
  return check_lengths(r, context, backend->positions, e) &&
         check_ids("prompt", r->prompt, r->prompt_count, vocabulary, e) &&
         check_sampling(&r->sampling, vocabulary, e) && check_stops(r, e);
}

// ---- the sequence

// What the request points to; the numbers came along with the struct.
static void copy_lists(struct sequence *s, const struct engine_request *r) {
  ASSERT(r->stop_count >= 0 && s->sampling.bias_count >= 0);
  struct sampling *sampling = &s->sampling;
  size_t biases = (size_t)sampling->bias_count;
  sampling->bias_ids =
      (void *)arena_copy(&s->memory, sampling->bias_ids, biases * sizeof *sampling->bias_ids);
  sampling->bias_values =
      (void *)arena_copy(&s->memory, sampling->bias_values, biases * sizeof *sampling->bias_values);
  s->stop_count = r->stop_count;
  s->stops = arena_new(&s->memory, (size_t)r->stop_count * sizeof *s->stops);
  for (int i = 0; i < r->stop_count; i++)
    s->stops[i] = (struct str){arena_copy(&s->memory, r->stops[i].data, r->stops[i].length),
                               r->stops[i].length};
}

// Waiting sequences hold their prompt only; make_tables (scheduler.c) gives them room to grow.
struct sequence *engine_sequence_new(const struct engine_request *r, int context) {
  ASSERT(r->prompt_count >= 1 && r->prompt_count <= context);
  struct sequence *s = memory_new(sizeof *s);
  s->sampling = r->sampling;
  copy_lists(s, r);
  s->random = r->sampling.seed;
  s->submitted_ns = s->admitted_ns = s->first_token_ns = TIME_NEVER;
  s->top_logprobs = r->top_logprobs;
  s->ignore_end = r->ignore_end;
  s->show_special = r->show_special;
  s->prompt_logprobs = r->prompt_logprobs;
  s->prompt_only = r->prompt_only;
  s->count = s->prompt_count = r->prompt_count;
  int room = context - r->prompt_count;
  if (r->prompt_only) room = 0;
  s->limit = r->prompt_count + (r->max_tokens && r->max_tokens < room ? r->max_tokens : room);
  s->tokens = memory_new((size_t)s->count * sizeof *s->tokens);
  memcpy(s->tokens, r->prompt, (size_t)s->count * sizeof *s->tokens);
  return s;
}

// The stream is not looked at: its consumer may free it at any time.
void engine_sequence_free(struct sequence *s) {
  buffer_clear(&s->held.text);
  arena_clear(&s->memory);
  memory_free(s->tokens);
  memory_free(s->pages);
  memory_free(s);
}

// ---- lists

// By halving: the list is sorted.
int engine_list_after(const struct sequence_list *l, uint64_t arrival) {
  int low = 0, high = l->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (l->items[middle]->arrival <= arrival)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool list_has(const struct sequence_list *l, const struct sequence *s) {
  for (int i = 0; i < l->count; i++)
    if (l->items[i] == s) return true;
  return false;
}

void engine_list_insert(struct sequence_list *l, struct sequence *s) {
  ASSERT_DEBUG(!list_has(l, s));
  int at = engine_list_after(l, s->arrival);
  memmove(l->items + at + 1, l->items + at, (size_t)(l->count - at) * sizeof *l->items);
  l->items[at] = s;
  l->count++;
}

void engine_list_remove(struct sequence_list *l, struct sequence *s) {
  ASSERT_DEBUG(list_has(l, s));
  int at = engine_list_after(l, s->arrival) - 1;
  l->count--;
  memmove(l->items + at, l->items + at + 1, (size_t)(l->count - at) * sizeof *l->items);
}
