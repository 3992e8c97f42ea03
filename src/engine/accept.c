// SPDX-License-Identifier: Apache-2.0
//
// accept.c: what happens to one sequence after a forward pass: its next token, its text, its end.
//
//   logits of a position inside the prompt ─▶ PROMPT event with the token that stands there
//
//   logits ─▶ token ─▶ end token?           ─▶ END  stop      (not shown, not counted)
//                   ─▶ TOKEN event with the text that can be handed out
//                      stop string found?   ─▶ END  stop
//                      limit reached?       ─▶ END  length    (with the text still held back)
//
// So a stream gives exactly generated_tokens TOKEN events and then one END.

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/internal.h"

static void push(struct engine *en, struct sequence *s, const struct engine_event *event,
                 struct str text) {
  ASSERT(event->kind != EVENT_END);
  pthread_mutex_lock(&en->lock);
  if (s->stream) engine_stream_push(s->stream, event, text);
  pthread_mutex_unlock(&en->lock);
}

// ---- the end

static double seconds(uint64_t from_ns, uint64_t to_ns) {
  ASSERT(from_ns <= to_ns);
  return (double)(to_ns - from_ns) / 1e9;
}

// A phase that was not reached took no time; one that was not left lasts until now.
static void fill_times(const struct engine *en, const struct sequence *s,
                       struct engine_event *event) {
  uint64_t now = world_monotonic_ns(en->world);
  uint64_t admitted = s->admitted_ns == TIME_NEVER ? now : s->admitted_ns;
  uint64_t first = s->first_token_ns == TIME_NEVER ? now : s->first_token_ns;
  event->queue_s = seconds(s->submitted_ns, admitted);
  event->prefill_s = seconds(admitted, first);
  event->decode_s = seconds(first, now);
}

// The rest of the text.  Bytes that will never become a character may complete a stop string even
// now.
static struct str flush_text(struct engine *en, struct sequence *s) {
  if (!s->held.stopped) {
    en->backend.flush(en->backend.context, &s->detokenizer, &s->held.text);
    engine_text_scan(&s->held, s->stops, s->stop_count);
  }
  return buffer_str(&s->held.text);
}

// The figures go with the END event; the stream is let go under the same lock that put it there, so
// a consumer that frees it later finds no sequence to cancel.
void engine_finish(struct engine *en, struct sequence *s, enum engine_finish finish,
                   const char *why) {
  ASSERT(s->generated == s->count - s->prompt_count);
  struct engine_event *event = &en->event;
  struct str text = flush_text(en, s);
  *event =
      (struct engine_event){.kind = EVENT_END, .finish = finish, .prompt_tokens = s->prompt_count};
  if (finish == FINISH_LENGTH && s->held.stopped) event->finish = FINISH_STOP;
  event->generated_tokens = s->generated;
  event->cached_tokens = s->cached;
  fill_times(en, s, event);
  snprintf(event->error, sizeof event->error, "%.*s", (int)sizeof event->error - 1, why);
  engine_pages_release(&en->pool, s->pages, s->page_count);
  pthread_mutex_lock(&en->lock);
  ASSERT(en->live > 0);
  if (s->stream) {
    engine_stream_push(s->stream, event, text);
    s->stream->sequence = NULL;
    en->stats.cancelled += finish == FINISH_CANCELLED;  // engine_stream_free counts its own
  }
  en->live--;
  pthread_mutex_unlock(&en->lock);
  engine_sequence_free(s);
}

// ---- a token

// Samples into en->event, which then is the TOKEN event.
static bool pick(struct engine *en, struct sequence *s, const float *logits, struct error *e) {
  ASSERT(logits && s->count >= s->prompt_count);
  struct sampler_input in = {.sampling = &s->sampling,
                             .logits = logits,
                             .tokens = s->tokens,
                             .count = s->count,
                             .prompt_count = s->prompt_count,
                             .top_logprobs = s->top_logprobs};
  en->event.kind = EVENT_TOKEN;
  en->event.logprob = 0;
  en->event.top_count = 0;
  return engine_sampler_pick(&en->sampler, &in, &s->random, &en->event, e);
}

// The token joins the sequence; the text that it completes goes out with it.
static void take_token(struct engine *en, struct sequence *s, int32_t id) {
  ASSERT(id >= 0 && id < en->backend.vocabulary && s->count < s->limit);
  if (s->first_token_ns == TIME_NEVER) s->first_token_ns = world_monotonic_ns(en->world);
  s->tokens[s->count++] = id;
  s->generated++;
  en->generated_tokens++;
  en->backend.detokenize(en->backend.context, &s->detokenizer, id, s->show_special, &s->held.text);
  size_t ready = engine_text_scan(&s->held, s->stops, s->stop_count);
  push(en, s, &en->event, (struct str){s->held.text.data, ready});
  engine_text_drop(&s->held, ready);
}

static void end(struct engine *en, struct sequence *s, enum engine_finish finish, const char *why) {
  ASSERT(en->running.count > 0);
  engine_list_remove(&en->running, s);
  engine_finish(en, s, finish, why);
}

// Numbers that outgrew f32 inside the model: the logits are NaN too, but this says where it began.
void engine_end_fault(struct engine *en, struct sequence *s, int fault, int position) {
  char place[MODEL_PLACE_TEXT];
  struct error e = {0};
  ASSERT(fault >= 0 && en->backend.place_print);
  en->backend.place_print(fault, place);
  error_set(&e, ERROR_INPUT,
            "the model's numbers are no longer finite after %s, at position %d; its file may be "
            "damaged",
            place, position);
  end(en, s, FINISH_ERROR, e.text);
}

// ---- tokens of the prompt

// Nothing comes before the first token, so it has no probability.
static void tell_first(struct engine *en, struct sequence *s) {
  if (!engine_is_telling(s) || s->told) return;
  en->event.kind = EVENT_PROMPT;
  en->event.id = s->tokens[s->told++];
  en->event.logprob = NAN;
  en->event.top_count = 0;
  push(en, s, &en->event, (struct str){0});
}

bool engine_tell_prompt(struct engine *en, struct sequence *s, const float *logits) {
  struct error e = {0};
  tell_first(en, s);
  ASSERT(engine_is_telling(s) && s->generated == 0);
  int32_t id = s->tokens[s->told];
  if (!engine_sampler_score(&en->sampler, logits, s->told - 1, id, s->top_logprobs, &en->event,
                            &e)) {
    end(en, s, FINISH_ERROR, e.text);
    return false;
  }
  en->event.kind = EVENT_PROMPT;
  en->event.id = id;
  s->told++;
  push(en, s, &en->event, (struct str){0});
  return true;
}

// In the order of the drawing above: the first end that applies is the one told.
void engine_accept(struct engine *en, struct sequence *s, const float *logits) {
  struct error e = {0};
  tell_first(en, s);
  ASSERT(s->computed == s->count && !engine_is_telling(s));
  if (s->prompt_only) {
    s->first_token_ns = world_monotonic_ns(en->world);
    end(en, s, FINISH_LENGTH, "");
    return;
  }
  ASSERT(s->count < s->limit);
  if (!pick(en, s, logits, &e)) {
    end(en, s, FINISH_ERROR, e.text);
    return;
  }
  int32_t id = en->event.id;
  if (!s->ignore_end && en->backend.is_end(en->backend.context, id)) {
    end(en, s, FINISH_STOP, "");
    return;
  }
  take_token(en, s, id);
  if (s->held.stopped)
    end(en, s, FINISH_STOP, "");
  else if (s->count == s->limit)
    end(en, s, FINISH_LENGTH, "");
}
