// SPDX-License-Identifier: Apache-2.0
//
// engine.c: the life of an engine: made, started, fed, stepped, stopped.
//
// One thread runs steps (engine_start's, or whoever calls engine_step).  A step:
//
//   collect   under the lock: new requests in, cancelled ones out, which consumers are behind
//   schedule  scheduler.c chooses tokens; nothing to do ends the step here
//   forward   the model computes K, V and logits: all the time goes here, without the lock
//   accept    accept.c turns logits into tokens, text and events
//   publish   figures, then the callbacks of consumers
//
// When a step finds nothing to do the thread sleeps on `wake` until a request comes, a stream is
// freed, a consumer reads a ring that was full, or engine_stop: `awake` is set with the signal and
// cleared by collect, so a signal that comes during a step is not lost.

#include <string.h>

#include "engine/internal.h"

// ---- making and freeing

static bool check_backend(const struct engine_backend *b, struct error *e) {
  if (b->vocabulary >= 1 && b->positions >= 2 && b->page_bytes) return true;
  return error_set(e, ERROR_INPUT,
                   "the model has a vocabulary of %d and %d positions; nothing can be generated",
                   b->vocabulary, b->positions);
}

// A block of the device's memory that the host reads and writes.
static void *take_memory(struct device *d, size_t bytes, const char *for_what,
                         struct device_memory *out, struct error *e) {
  ASSERT(bytes > 0);
  if (!device_limits_of(d)->host_memory) {
    error_set(e, ERROR_UNSUPPORTED, "the engine cannot read memory of the device %s",
              device_name(d));
    return NULL;
  }
  return device_memory_allocate(d, bytes, for_what, out, e) ? device_memory_map(out) : NULL;
}

// The two big blocks, for which memory may be short; a refusal names the option to lower.
static bool make_memory(struct engine *en, struct error *e) {
  const struct engine_backend *b = &en->backend;
  struct device *d = b->device;
  if (!d) d = en->own_device = device_open("cpu", &(struct device_options){.threads = 1}, e);
  if (!d) return false;
  size_t cache_bytes = (size_t)en->limits.pages * b->page_bytes;
  size_t rows = (size_t)en->limits.sequences + TELLING_ROWS;
  size_t logits_bytes = rows * (size_t)b->vocabulary * sizeof *en->logits;
  en->cache = (struct kernel_cache){.layers = b->layers,
                                    .kv_heads = b->kv_heads,
                                    .head_dim = b->head_dim,
                                    .pages = en->limits.pages,
                                    .page_bytes = b->page_bytes};
  en->cache.base =
      take_memory(d, cache_bytes, "the KV cache (--cache lowers it)", &en->cache_memory, e);
  if (!en->cache.base) return false;
  en->logits =
      take_memory(d, logits_bytes, "the logits (--parallel lowers it)", &en->logits_memory, e);
  return en->logits != NULL;
}

// Every list as long as it can get, so that no step allocates.
static void make_lists(struct engine *en) {
  ASSERT(en->limits.sequences >= 1 && en->limits.step_tokens >= en->limits.sequences);
  size_t sequences = (size_t)en->limits.sequences, tokens = (size_t)en->limits.step_tokens;
  size_t live = sequences + (size_t)en->limits.queue;
  struct step *step = &en->step;
  en->running.items = memory_new(sequences * sizeof *en->running.items);
  en->waiting.items = memory_new(live * sizeof *en->waiting.items);
  en->arrived.items = memory_new(live * sizeof *en->arrived.items);
  en->faults = memory_new((sequences + TELLING_ROWS) * sizeof *en->faults);
  en->gone = memory_new(live * sizeof *en->gone);
  en->notify = memory_new(live * sizeof *en->notify);
  step->members = memory_new(sequences * sizeof *step->members);
  step->spans = memory_new(sequences * sizeof *step->spans);
  step->outputs = memory_new((sequences + TELLING_ROWS) * sizeof *step->outputs);
  step->ids = memory_new(tokens * sizeof *step->ids);
  step->positions = memory_new(tokens * sizeof *step->positions);
}

// Fails before anything is allocated when options do not fit, and cleans up after itself when
// memory does not.
struct engine *engine_new_backend(const struct engine_backend *backend,
                                  const struct engine_options *options, struct error *e) {
  ASSERT(backend->forward && backend->is_end && backend->detokenize && backend->flush);
  struct engine_limits limits;
  if (!check_backend(backend, e) || !engine_limits_resolve(backend, options, &limits, e))
    return NULL;
  struct engine *en = memory_new(sizeof *en);
  en->backend = *backend;
  en->limits = limits;
  en->world = options->world ? options->world : world_real();
  en->call_awake = options->wake;
  en->call_context = options->wake_context;
  pthread_mutex_init(&en->lock, NULL);
  pthread_cond_init(&en->wake, NULL);
  pthread_cond_init(&en->quiet, NULL);
  make_lists(en);
  engine_pages_init(&en->pool, limits.pages);
  engine_sampler_init(&en->sampler, backend->vocabulary);
  en->stats.pages = limits.pages;
  en->stats.page_bytes = backend->page_bytes;
  if (make_memory(en, e)) return en;
  engine_free(en);
  return NULL;
}

// Also frees what a failed engine_new_backend left half made.
void engine_free(struct engine *en) {
  if (!en) return;
  engine_stop(en);
  device_memory_free(&en->cache_memory);
  device_memory_free(&en->logits_memory);
  device_close(en->own_device);
  engine_pages_clear(&en->pool);
  engine_sampler_clear(&en->sampler);
  void *lists[] = {en->running.items, en->waiting.items,  en->arrived.items, en->gone,
                   en->notify,        en->step.members,   en->step.spans,    en->step.outputs,
                   en->step.ids,      en->step.positions, en->faults};
  for (size_t i = 0; i < COUNT_OF(lists); i++) memory_free(lists[i]);
  pthread_mutex_destroy(&en->lock);
  pthread_cond_destroy(&en->wake);
  pthread_cond_destroy(&en->quiet);
  memory_free(en);
}

int engine_context(const struct engine *en) { return en->limits.context; }

// ---- submitting

void engine_wake(struct engine *en) {
  if (!en->awake && en->call_awake) en->call_awake(en->call_context);
  en->awake = true;
  pthread_cond_signal(&en->wake);
}

// Lock held.
static bool check_room(const struct engine *en, struct error *e) {
  if (en->stopping)
    return error_set(e, ERROR_CANCELLED, "the engine is stopping; it takes no more requests");
  if (en->live < en->limits.sequences + en->limits.queue) return true;
  return error_set(
      e, ERROR_BUSY,
      "the queue is full: %d requests run and %d wait; try again later, or start with a larger "
      "--parallel",
      en->limits.sequences, en->limits.queue);
}

// Joins stream and sequence and queues them, all or nothing.
static bool enqueue(struct engine *en, struct sequence *s, struct engine_stream *stream,
                    struct error *e) {
  ASSERT(!s->stream && !stream->sequence);
  pthread_mutex_lock(&en->lock);
  bool room = check_room(en, e);
  if (room) {
    s->stream = stream;
    stream->sequence = s;
    s->arrival = ++en->arrivals;
    s->submitted_ns = world_monotonic_ns(en->world);
    engine_list_insert(&en->arrived, s);
    en->live++;
    en->stats.requests++;
    engine_wake(en);
  }
  pthread_mutex_unlock(&en->lock);
  return room;
}

static struct engine_stream *refuse(struct engine *en) {
  pthread_mutex_lock(&en->lock);
  en->stats.rejected++;
  pthread_mutex_unlock(&en->lock);
  return NULL;
}

// Checks and copies without the lock: only the queueing itself keeps the engine waiting.
struct engine_stream *engine_submit(struct engine *en, const struct engine_request *request,
                                    void (*notify)(void *context), void *context, struct error *e) {
  if (!engine_request_check(request, en->limits.context, &en->backend, e)) return refuse(en);
  struct sequence *s = engine_sequence_new(request, en->limits.context);
  en->backend.resume(en->backend.context, &s->detokenizer, s->tokens[s->prompt_count - 1]);
  struct engine_stream *stream = memory_new(sizeof *stream);
  stream->engine = en;
  stream->notify = notify;
  stream->context = context;
  if (enqueue(en, s, stream, e)) return stream;
  engine_sequence_free(s);
  memory_free(stream);
  return refuse(en);
}

// ---- the step

// Moves sequences whose consumer is gone out of `list` into `gone`, and sees which consumers are
// behind.  Lock held; streams may vanish once it is not.
static int look_at_streams(struct sequence_list *list, struct sequence **gone) {
  ASSERT(list->count >= 0);
  int kept = 0, gone_count = 0;
  for (int i = 0; i < list->count; i++) {
    struct sequence *s = list->items[i];
    if (!s->stream) {
      gone[gone_count++] = s;
      continue;
    }
    s->room = ENGINE_STREAM_EVENTS - s->stream->count;
    s->paused = s->stream->starved = s->room < (engine_is_telling(s) ? TELLING_ROOM : STREAM_ROOM);
    list->items[kept++] = s;
  }
  list->count = kept;
  return gone_count;
}

// Cancelled sequences end here, before the batch is chosen: their pages are free for it.
static void collect(struct engine *en) {
  struct sequence **gone = en->gone;
  pthread_mutex_lock(&en->lock);
  en->awake = false;
  for (int i = 0; i < en->arrived.count; i++)
    engine_list_insert(&en->waiting, en->arrived.items[i]);
  en->arrived.count = 0;
  int count = look_at_streams(&en->running, gone);
  count += look_at_streams(&en->waiting, gone + count);
  pthread_mutex_unlock(&en->lock);
  for (int i = 0; i < count; i++) engine_finish(en, gone[i], FINISH_CANCELLED, "");
}

// All of a step's time goes here.
static void forward(struct engine *en) {
  ASSERT(en->step.tokens >= 1 && en->step.tokens <= en->limits.step_tokens);
  const struct step *step = &en->step;
  struct model_batch batch = {.tokens = step->tokens,
                              .ids = step->ids,
                              .positions = step->positions,
                              .spans = step->spans,
                              .span_count = step->member_count,
                              .outputs = step->outputs,
                              .output_count = step->output_count};
  for (int i = 0; i < step->output_count; i++) en->faults[i] = -1;
  en->backend.forward(en->backend.context, &en->cache, &batch, en->logits, en->faults);
}

// The rows of logits of one member, from `row` on: they belong to its last positions.  All but that
// of the last token there is are about tokens of the prompt.
static void accept_member(struct engine *en, const struct step_member *m, int row) {
  struct sequence *s = m->sequence;
  for (int i = 0; i < m->outputs; i++, row++) {
    int position = s->computed - m->outputs + i;
    const float *logits = en->logits + (size_t)row * (size_t)en->backend.vocabulary;
    if (en->faults[row] >= 0) {
      engine_end_fault(en, s, en->faults[row], position);
      return;
    }
    if (position == s->count - 1)
      engine_accept(en, s, logits);  // may end s: this was its last row
    else if (!engine_tell_prompt(en, s, logits))
      return;
  }
}

// Rows come in the order of the members that wanted some.
static void accept_all(struct engine *en) {
  int row = 0;
  for (int i = 0; i < en->step.member_count; i++) {
    const struct step_member *m = &en->step.members[i];
    accept_member(en, m, row);
    row += m->outputs;
  }
  ASSERT(row == en->step.output_count);
}

// Copies the step's own counters to where other threads may read them.
static void publish_stats(struct engine *en) {
  ASSERT(en->pool.free_count >= 0 && en->pool.free_count <= en->limits.pages);
  struct engine_stats *stats = &en->stats;
  pthread_mutex_lock(&en->lock);
  stats->running = en->running.count;
  stats->waiting = en->waiting.count;
  stats->pages_used = en->limits.pages - en->pool.free_count;
  stats->pages_kept = en->pool.cached_count;
  stats->preempted = en->preempted;
  stats->prompt_tokens = en->prompt_tokens;
  stats->cached_tokens = en->cached_tokens;
  stats->generated_tokens = en->generated_tokens;
  stats->steps = en->steps;
  pthread_mutex_unlock(&en->lock);
}

// Pages become known before tokens are accepted: a sequence that ends leaves its prefix behind.
static void run_batch(struct engine *en) {
  ASSERT(en->step.member_count >= 1 && en->step.member_count <= en->limits.sequences);
  uint64_t begun = world_monotonic_ns(en->world);
  forward(en);
  engine_schedule_done(en);
  accept_all(en);
  en->steps++;
  uint64_t ended = world_monotonic_ns(en->world);
  pthread_mutex_lock(&en->lock);
  engine_stats_add(&en->window, ended, ended - begun, en->step.prefill_tokens,
                   en->step.decode_tokens);
  pthread_mutex_unlock(&en->lock);
}

// Also when nothing runs: cancelled sequences may have ended, and their figures change.
bool engine_step(struct engine *en) {
  collect(en);
  bool some = engine_schedule(en);
  if (some) run_batch(en);
  publish_stats(en);
  engine_stream_notify(en);
  return some;
}

// ---- the thread

// False when it is time to stop.
static bool wait_for_work(struct engine *en) {
  pthread_mutex_lock(&en->lock);
  while (!en->awake && !en->stopping) pthread_cond_wait(&en->wake, &en->lock);
  bool go_on = !en->stopping;
  pthread_mutex_unlock(&en->lock);
  return go_on;
}

static bool is_stopping(struct engine *en) {
  pthread_mutex_lock(&en->lock);
  bool stopping = en->stopping;
  pthread_mutex_unlock(&en->lock);
  return stopping;
}

// Ends whatever is left, in place of a step, once no more steps come.
static void end_all(struct engine *en) {
  collect(en);
  struct sequence_list *lists[] = {&en->running, &en->waiting};
  for (size_t i = 0; i < COUNT_OF(lists); i++) {
    while (lists[i]->count) {
      struct sequence *s = lists[i]->items[--lists[i]->count];
      engine_finish(en, s, FINISH_CANCELLED, "");
    }
  }
  publish_stats(en);
  engine_stream_notify(en);
}

// The engine's thread: steps while there is work, sleeps while there is none.
static void *run(void *context) {
  struct engine *en = context;
  do {
    while (!is_stopping(en) && engine_step(en)) continue;
  } while (wait_for_work(en));
  end_all(en);
  return NULL;
}

bool engine_start(struct engine *en, struct error *e) {
  ASSERT(!en->started && !en->stopping);
  int failed = pthread_create(&en->thread, NULL, run, en);
  if (failed) return error_set_errno(e, failed, "cannot start the engine's thread");
  en->started = true;
  return true;
}

// May be called again: engine_free does.
void engine_stop(struct engine *en) {
  pthread_mutex_lock(&en->lock);
  en->stopping = true;
  engine_wake(en);
  pthread_mutex_unlock(&en->lock);
  if (en->started)
    pthread_join(en->thread, NULL);
  else
    end_all(en);
  en->started = false;
}

// ---- figures

// Requests that the engine has not seen yet are waiting too.
void engine_stats_read(struct engine *en, struct engine_stats *out) {
  uint64_t now = world_monotonic_ns(en->world);
  pthread_mutex_lock(&en->lock);
  *out = en->stats;
  out->waiting += en->arrived.count;
  engine_stats_speed(&en->window, now, &out->prefill_tok_s, &out->decode_tok_s);
  pthread_mutex_unlock(&en->lock);
}
