// SPDX-License-Identifier: Apache-2.0
//
// stream.c: the ring of events between the engine and one consumer.
//
//   engine ── push ──▶ [ slot slot slot … ENGINE_STREAM_EVENTS ] ── engine_stream_next ──▶ consumer
//      ▲                                                                      │
//      └───────────── wake, when the ring was full and has room again ────────┘
//
// One lock, the engine's, guards all rings: it is held for a copy of one event, thousands of times
// shorter than a step.  The bytes of an event's text live in its slot; reading swaps that buffer
// with the consumer's own, so no text is copied twice and nothing is allocated once the buffers
// have grown.
//
// A step starts only for sequences whose ring has STREAM_ROOM left, so a push always finds a slot
// and the end of a sequence can always be told.
//
// Freeing and notify: a consumer's callback runs without the lock.  A stream that is freed while it
// is listed is struck off the list; one whose callback is running right now makes
// engine_stream_free wait for that call.  So after engine_stream_free the engine never calls it
// again.

#include "engine/internal.h"

// Lists the consumer for a call when the ring was empty, unless it is listed already.
void engine_stream_push(struct engine_stream *s, const struct engine_event *event,
                        struct str text) {
  ASSERT(s->count < ENGINE_STREAM_EVENTS);
  struct stream_slot *slot = &s->slots[(s->first + s->count) % ENGINE_STREAM_EVENTS];
  slot->event = *event;
  slot->text.length = 0;
  buffer_add_str(&slot->text, text);
  if (s->count++ || s->listed || !s->notify) return;
  s->listed = true;
  s->engine->notify[s->engine->notify_count++] = s;
}

bool engine_stream_full(const struct engine_stream *s) {
  ASSERT(s->count >= 0 && s->count <= ENGINE_STREAM_EVENTS);
  return s->count + STREAM_ROOM > ENGINE_STREAM_EVENTS;
}

// Nothing can join the list meanwhile: only this thread pushes.
void engine_stream_notify(struct engine *en) {
  ASSERT(en->notify_count >= 0);
  pthread_mutex_lock(&en->lock);
  for (int i = 0; i < en->notify_count; i++) {
    struct engine_stream *s = en->notify[i];
    if (!s) continue;
    s->listed = false;
    en->calling = s;
    pthread_mutex_unlock(&en->lock);
    s->notify(s->context);
    pthread_mutex_lock(&en->lock);
    en->calling = NULL;
    pthread_cond_broadcast(&en->quiet);
  }
  en->notify_count = 0;
  pthread_mutex_unlock(&en->lock);
}

// The slot gets the consumer's old buffer in exchange for the text.
bool engine_stream_next(struct engine_stream *s, struct engine_event *out) {
  ASSERT(s->first >= 0 && s->first < ENGINE_STREAM_EVENTS);
  struct engine *en = s->engine;
  pthread_mutex_lock(&en->lock);
  bool some = s->count > 0;
  if (some) {
    struct stream_slot *slot = &s->slots[s->first];
    struct buffer text = slot->text;
    slot->text = s->reading;
    s->reading = text;
    *out = slot->event;
    s->first = (s->first + 1) % ENGINE_STREAM_EVENTS;
    s->count--;
  }
  if (s->starved && !engine_stream_full(s)) {
    s->starved = false;
    engine_wake(en);
  }
  pthread_mutex_unlock(&en->lock);
  if (some) out->text = buffer_str(&s->reading);
  return some;
}

static void strike_off(struct engine *en, const struct engine_stream *s) {
  for (int i = 0; i < en->notify_count; i++)
    if (en->notify[i] == s) en->notify[i] = NULL;
}

// Cuts every tie under the lock; after that nobody else knows the stream.
void engine_stream_free(struct engine_stream *s) {
  if (!s) return;
  struct engine *en = s->engine;
  pthread_mutex_lock(&en->lock);
  if (s->sequence) {
    s->sequence->stream = NULL;  // the next step drops it
    en->stats.cancelled++;
    engine_wake(en);
  }
  strike_off(en, s);
  while (en->calling == s) pthread_cond_wait(&en->quiet, &en->lock);
  pthread_mutex_unlock(&en->lock);
  for (int i = 0; i < ENGINE_STREAM_EVENTS; i++) buffer_clear(&s->slots[i].text);
  buffer_clear(&s->reading);
  memory_free(s);
}
