// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of the engine share: the model's seam, pages, sequences, streams, one
// step.
//
//   engine_submit ─▶ arrived ─▶ waiting ─▶ running ─▶ finished          one `struct sequence` each
//        │          (locked)    ▲  by arrival  │
//        ▼                      └──preempted───┘
//   engine_stream ◀── events ── accept.c ◀── logits ◀── forward ◀── step ◀── scheduler.c
//
// Who may touch what: everything belongs to the one thread that runs steps (engine_start's, or the
// caller of engine_step), but for the fields below the line "guarded by lock" and the streams,
// which consumers share.  A stream and its sequence point at each other under the lock; either may
// go first, and clears the other's pointer.
#pragma once

#include <pthread.h>

#include "engine/engine.h"

// -------------------------------------------------------------------------------- the model's seam

// All that the engine asks of a model.  backend.c fills it from a struct model; tests and the
// rehearsal of a whole fleet bring one of their own.
struct engine_backend {
  void *context;  // handed to every call
  // The KV cache and the logits are its memory; NULL = the engine opens the processor for them.
  struct device *device;
  int vocabulary, positions;  // token ids are below the first; sequences no longer than the second
  int layers, kv_heads, head_dim;
  size_t page_bytes;          // of one page of KERNEL_PAGE_TOKENS positions, a multiple of 64
  uint64_t memory_available;  // bytes that bound the cache, and size it by default; 0 = unknown
  // model_forward's contract; faults are -1 before the call.
  void (*forward)(void *context, const struct kernel_cache *cache, const struct model_batch *batch,
                  float *logits, int *faults);
  // Names a fault for people; NULL where `forward` reports none.
  void (*place_print)(int place, char out[MODEL_PLACE_TEXT]);
  bool (*is_end)(void *context, int32_t id);
  // The text that *d gives goes on behind token `last`, the end of the prompt.
  void (*resume)(void *context, struct detokenizer *d, int32_t last);
  void (*detokenize)(void *context, struct detokenizer *d, int32_t id, bool show_special,
                     struct buffer *out);
  void (*flush)(void *context, struct detokenizer *d, struct buffer *out);
};
// engine_new's contract.  *backend is copied; its context is borrowed and must outlive the engine.
struct engine *engine_new_backend(const struct engine_backend *backend,
                                  const struct engine_options *options, struct error *e);

// The options with every 0 replaced by its number, and the pages that this makes.
struct engine_limits {
  int context, sequences, queue, step_tokens;
  int pages;
};
// ERROR_INPUT for an option out of range or against another one, ERROR_MEMORY where the cache
// cannot be had or does not hold the context asked for; names the option.
bool engine_limits_resolve(const struct engine_backend *backend,
                           const struct engine_options *options, struct engine_limits *out,
                           struct error *e);

// ---------------------------------------------------------------------------------------- pages

// One page of the KV cache.  States: free (in the free list); private (referenced, not known: being
// filled); known (full, in the table under its parent and tokens), referenced or cached (no
// reference, in the LRU list).
struct page {
  int32_t tokens[KERNEL_PAGE_TOKENS];  // what was computed into it, once known
  int32_t parent;       // known page with the 16 tokens before these, -1 = these begin the sequence
  int32_t references;   // sequences that use it
  int32_t children;     // known pages whose parent this is
  int32_t bucket_next;  // of the table's chain; of the free list when free; -1 ends
  int32_t older, newer;  // LRU list of cached pages; -1 ends
  bool known;
};
struct page_pool {
  int count;
  struct page *pages;  // [count]
  int32_t *buckets;    // [bucket_mask + 1] first page of each chain, -1 = none
  uint32_t bucket_mask;
  int32_t free_first;
  int free_count, cached_count;
  int32_t oldest, newest;  // ends of the LRU list
};
// count >= 1 pages, all free.
void engine_pages_init(struct page_pool *p, int count);
void engine_pages_clear(struct page_pool *p);  // whoever still holds pages must forget them
int engine_pages_available(const struct page_pool *p);  // free or evictable
int32_t engine_pages_take(struct page_pool *p);  // one private page; -1 when none is available
// The known page with these KERNEL_PAGE_TOKENS tokens after `parent`, referenced for the caller; -1
// = none.
int32_t engine_pages_find(struct page_pool *p, int32_t parent, const int32_t *tokens);
// Makes a full private page known.  Returns it, or the page that was known already with the same
// content, in which case the reference has moved there and `page` is free.
int32_t engine_pages_publish(struct page_pool *p, int32_t parent, const int32_t *tokens,
                             int32_t page);
// Gives back a sequence's pages, table[count] in the order of the text: known ones stay cached.
void engine_pages_release(struct page_pool *p, const int32_t *table, int count);

// ---------------------------------------------------------------------------------------- sampling

// Scratch for turning one row of logits into one token; nothing in it outlives a call.
struct sampler {
  int vocabulary, padded;  // padded: up to a multiple of 4
  float *scores;           // [padded] logits, adjusted step by step; -inf beyond the vocabulary
  float *weights;          // [padded] e^((score - best) / temperature)
  int32_t *heap;           // [vocabulary] ids
  int32_t *counts;         // [vocabulary], all 0 between calls
};
struct sampler_input {
  const struct sampling *sampling;
  const float *logits;    // [vocabulary]
  const int32_t *tokens;  // [count] prompt, then what was generated
  int count, prompt_count;
  int top_logprobs;  // -1 = no logprobs wanted
};
// vocabulary >= 1.
void engine_sampler_init(struct sampler *s, int vocabulary);
void engine_sampler_clear(struct sampler *s);  // does nothing on a zeroed one
// Sets event->id, and logprob, top_count, top when wanted.  Advances *random by one draw, unless
// greedy.  False: the logits are no numbers one can choose by; *e names the token.
bool engine_sampler_pick(struct sampler *s, const struct sampler_input *in, uint64_t *random,
                         struct engine_event *event, struct error *e);
// Log-probabilities of a row of logits alone: sets event->logprob to that of `id`, top_count and
// top. position is for the message, as above.
bool engine_sampler_score(struct sampler *s, const float *logits, int position, int32_t id,
                          int top_logprobs, struct engine_event *event, struct error *e);
// False with ERROR_INPUT naming the field.  context: the engine's, which may be less than the
// backend's positions.
bool engine_request_check(const struct engine_request *r, int context,
                          const struct engine_backend *backend, struct error *e);

// ---------------------------------------------------------------------------------------- text

// Decoded text that was not handed out yet.
struct held_text {
  struct buffer text;
  size_t scanned;  // no stop string ends within the first `scanned` bytes
  bool stopped;    // a stop string was found; text ends before it
};
// Looks at the new bytes; returns how many at the front can be handed out now.
size_t engine_text_scan(struct held_text *t, const struct str *stops, int stop_count);
void engine_text_drop(struct held_text *t, size_t length);  // they were handed out

// --------------------------------------------------------------------------------------- sequences

#define TIME_NEVER UINT64_MAX

struct sequence {
  uint64_t arrival;              // order of submission; smaller = older
  struct engine_stream *stream;  // guarded by lock; NULL = the consumer is gone
  struct arena memory;           // of the copied request
  struct sampling sampling;
  struct str *stops;
  int stop_count, top_logprobs;
  bool ignore_end, show_special, prompt_logprobs, prompt_only;

  int32_t *tokens;          // [limit] once admitted, [prompt_count] before
  int count, prompt_count;  // tokens there are; those of the prompt
  int limit;                // most tokens, prompt included; <= context
  int generated;            // = count - prompt_count
  int told;                 // with prompt_logprobs: tokens of the prompt told as EVENT_PROMPT
  int room;                 // free events of the stream's ring when it was last looked at
  int32_t *pages;           // [pages for limit]; NULL before the first admission
  int page_count;           // pages held
  int published;            // of them known: always the first ones
  int computed;             // tokens whose K and V are in the pages; < count
  int reached;              // most that `computed` ever was: preemption sets that back, not this
  int cached;               // prompt tokens whose K and V were found
  bool paused;              // its stream was full when the step began
  uint64_t random;          // state of its generator

  struct detokenizer detokenizer;
  struct held_text held;
  uint64_t submitted_ns, admitted_ns, first_token_ns;  // the world's clock; TIME_NEVER = not yet
};
// Copies the checked request; its arrival and stream are not set yet.
struct sequence *engine_sequence_new(const struct engine_request *r, int context);
void engine_sequence_free(struct sequence *s);  // its pages were released

// Sequences by arrival, oldest first.
struct sequence_list {
  struct sequence **items;  // [capacity of the engine's limits]
  int count;
};
// There must be room; s->arrival must be set and not change while s is in a list.
void engine_list_insert(struct sequence_list *l, struct sequence *s);
void engine_list_remove(struct sequence_list *l, struct sequence *s);  // it must be in the list
// How many are that old or older: the place of a newcomer.
int engine_list_after(const struct sequence_list *l, uint64_t arrival);

// ---------------------------------------------------------------------------------------- streams

#define STREAM_ROOM 2    // free events a step needs: a token, and the end
#define TELLING_ROOM 16  // those that a step needs which also tells tokens of a prompt

struct engine_stream {
  struct engine *engine;
  void (*notify)(void *context);
  void *context;
  struct buffer reading;  // text of the event the consumer holds; the consumer's alone
  // guarded by the engine's lock:
  struct sequence *sequence;  // NULL once the end was put in
  bool starved;               // the engine waits for the consumer to read
  bool listed;                // in the engine's notify list
  int first, count;           // ring
  struct stream_slot {
    struct engine_event event;
    struct buffer text;  // capacity is reused round after round
  } slots[ENGINE_STREAM_EVENTS];
};
// Lock held; there must be a free slot.  Copies event and text; event->text is not looked at.
void engine_stream_push(struct engine_stream *s, const struct engine_event *event, struct str text);
// Lock held.  Fewer than STREAM_ROOM slots are free: its sequence must sit out the step.
bool engine_stream_full(const struct engine_stream *s);
void engine_stream_notify(struct engine *en);  // calls the listed consumers; takes the lock itself

// ---------------------------------------------------------------------------------------- figures

#define STATS_SECONDS 10

// Work of the last seconds, one slot a second, so that speeds can be told without a history.
struct stats_window {
  struct stats_second {
    uint64_t second;  // of the world's clock; other than expected = stale
    uint64_t prefill_tokens, decode_tokens;
    uint64_t prefill_ns, decode_ns;  // time of the steps that did such work
  } seconds[STATS_SECONDS];
};
// A step that ended at end_ns of the world's clock and took step_ns; it counts for the second it
// ended in.
void engine_stats_add(struct stats_window *w, uint64_t end_ns, uint64_t step_ns, int prefill_tokens,
                      int decode_tokens);
// Tokens a second; 0 where no such tokens were worked on in the window.
void engine_stats_speed(const struct stats_window *w, uint64_t now_ns, double *prefill,
                        double *decode);

// -------------------------------------------------------------------------------------- the engine

// One forward pass being put together; arrays are as long as a step can need.
struct step {
  struct step_member {
    struct sequence *sequence;
    int count;    // its tokens in this batch
    int outputs;  // logits of the last so many of them are wanted
  } * members;    // [sequences]
  int member_count;
  int32_t *ids, *positions;   // [step_tokens]
  struct kernel_span *spans;  // [sequences], one per member
  int32_t *outputs;           // [sequences + TELLING_ROWS]
  int tokens, output_count;
  int prefill_tokens;  // prompt tokens computed for the first time
  int decode_tokens;   // members that go on from a generated token
};

// Rows of logits that a step has beside one a sequence, for prompts whose tokens are told.
#define TELLING_ROWS 64

struct engine {
  struct engine_backend backend;
  struct engine_limits limits;
  const struct world *world;
  void (*call_awake)(void *context);  // engine_options.wake; may be NULL
  void *call_context;
  struct device *own_device;  // NULL when the backend has one
  struct kernel_cache cache;
  struct page_pool pool;
  struct sampler sampler;
  float *logits;  // [sequences + TELLING_ROWS, vocabulary]
  int *faults;    // [sequences + TELLING_ROWS] of each row of logits
  struct device_memory cache_memory, logits_memory;  // of cache.base and logits
  struct sequence_list running, waiting;
  struct sequence **gone;  // [sequences + queue], scratch
  struct step step;
  struct engine_event event;  // scratch
  uint64_t preempted, prompt_tokens, cached_tokens, generated_tokens, steps;

  pthread_t thread;
  bool started;  // of the owner of the engine

  // guarded by lock:
  pthread_mutex_t lock;
  pthread_cond_t wake;   // the engine has something to look at
  pthread_cond_t quiet;  // a notify call is over
  bool awake, stopping;
  struct sequence_list arrived;
  uint64_t arrivals;
  int live;                       // sequences in any list
  struct engine_stream **notify;  // [sequences + queue], NULL = freed meanwhile
  int notify_count;
  struct engine_stream *calling;  // its notify is being called
  struct engine_stats stats;      // as of the last step, but for the counters of submit and free
  struct stats_window window;
};

void engine_wake(struct engine *en);  // lock held
// Chooses the next batch: fills en->step.  False when no sequence can go on.
bool engine_schedule(struct engine *en);
// After the forward pass: counts what was computed, makes full pages known.
void engine_schedule_done(struct engine *en);
// Whether tokens of its prompt are still to be told.
static inline bool engine_is_telling(const struct sequence *s) {
  return s->prompt_logprobs && s->told < s->prompt_count;
}
// Tells the next token of the prompt, whose probability these logits give.  False: the sequence has
// ended, because they are no numbers.
bool engine_tell_prompt(struct engine *en, struct sequence *s, const float *logits);
// Takes one sampled token (or the failure to get one) of a running sequence: text, stops, events,
// the end.
void engine_accept(struct engine *en, struct sequence *s, const float *logits);
// Ends a running sequence whose numbers outgrew f32; `fault` is as the backend told it.
void engine_end_fault(struct engine *en, struct sequence *s, int fault, int position);
// Ends a sequence: END event, pages back, memory freed.  It must not be in a list.
void engine_finish(struct engine *en, struct sequence *s, enum engine_finish finish,
                   const char *why);
