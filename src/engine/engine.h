// SPDX-License-Identifier: Apache-2.0
//
// engine.h: requests to batches to tokens.
//
// Life cycle: engine_new (takes a model, sizes the KV cache), engine_start (its own thread) or
// engine_step by hand (tests, one-shot runs); engine_submit gives a stream; the consumer reads
// events until EVENT_END, then engine_stream_free.  Freeing earlier cancels: the sequence leaves
// the batch before the next step.
//
// Back-pressure: each stream buffers at most ENGINE_STREAM_EVENTS; while it is full its sequence is
// not scheduled.  Fairness: waiting requests are admitted in order of arrival; a step mixes decodes
// with chunks of prompts.  When KV pages run out the youngest sequence is put back to waiting and
// recomputed later (its tokens are kept, so the client sees only a pause).  Deterministic: the same
// request gives the same tokens at any batch, thread count and time.
#pragma once

#include "base/base.h"
#include "base/sampling.h"
#include "base/world.h"
#include "model/model.h"

#define ENGINE_CACHE_SHARE 4     // of the free memory, what the cache takes by itself: 1/4
#define ENGINE_STREAM_EVENTS 64  // buffered events per stream

struct engine_options {
  int context;    // longest sequence, 0 = the model's own, capped by what the cache holds
  int sequences;  // most sequences in one batch; 0 = 16
  // KV cache; 0 = enough for `sequences` × min(context, 2048) and for one whole context, at most
  // 1/ENGINE_CACHE_SHARE of free memory.  The system gives the memory as it is first used: prefixes
  // of past requests are kept until the cache is full, so a busy process grows by this much.
  uint64_t cache_bytes;
  int queue;        // requests beyond `sequences` before ERROR_BUSY; 0 = 256
  int step_tokens;  // tokens per forward pass, <= MODEL_BATCH_MAX; 0 = that
  const struct world *world;
  // Called when engine_step has something to look at: for who steps by hand, such as an event loop.
  // Once until the next step begins; from any thread, with the engine's lock held, so it must not
  // call the engine.  May be NULL.
  void (*wake)(void *context);
  void *wake_context;
};

struct engine_request {  // borrowed for engine_submit only; copied
  const int32_t *prompt;
  int prompt_count;  // 1 .. context-1; with prompt_only also context
  int max_tokens;    // 0 = until the context is full
  struct sampling sampling;
  int stop_count;
  // Generation ends before the one that is complete first (of several the longest); never shown.
  // 1 to 1024 bytes of valid UTF-8 each.
  const struct str *stops;
  bool ignore_end;    // go on past end-of-generation tokens (benchmarks)
  bool show_special;  // put control tokens into the text
  int top_logprobs;   // -1 = no logprobs, 0..SAMPLING_TOP_LOGPROBS alternatives
  // One EVENT_PROMPT for each token of the prompt before anything else; needs top_logprobs >= 0.
  // All of the prompt is then computed, whatever is cached.
  bool prompt_logprobs;
  // No answer: the end (FINISH_LENGTH) comes behind the prompt, which may fill the whole context.
  bool prompt_only;
};

enum engine_event_kind { EVENT_PROMPT, EVENT_TOKEN, EVENT_END };
enum engine_finish { FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR };

struct engine_logprob {
  int32_t id;
  // natural log of the probability under the model's own softmax, before temperature and filters
  float logprob;
};
struct engine_event {
  enum engine_event_kind kind;
  // EVENT_PROMPT: one token of the prompt and its probability after the tokens before it.  The
  // first token has none: its logprob is NAN and top_count 0.  No text. EVENT_TOKEN: one generated
  // token; there are generated_tokens of them.  The end-of-generation token that ends an answer is
  // not one of them, and has no text.  text may be empty (held back: unfinished character, possible
  // stop string) and may carry the text of earlier tokens. EVENT_END: text is what was still held
  // back.
  int32_t id;
  struct str text;  // valid until the next engine_stream_next or free
  float logprob;    // when asked for
  int top_count;
  struct engine_logprob top[SAMPLING_TOP_LOGPROBS];  // best first; ties: lowest id first
  // EVENT_END
  enum engine_finish finish;
  int prompt_tokens, generated_tokens, cached_tokens;  // cached: prompt tokens whose KV was shared
  double queue_s, prefill_s, decode_s;                 // waiting, prompt, generation
  char error[160];                                     // FINISH_ERROR: one line
};

struct engine;
struct engine_stream;

// The model is borrowed and must outlive the engine.  Errors name the option to change.
struct engine *engine_new(struct model *model, const struct engine_options *options,
                          struct error *e);
// Stops it first, as engine_stop does; every stream must have been freed.  NULL does nothing.
void engine_free(struct engine *en);
// Runs steps on a thread of its own from now on; once per engine.
bool engine_start(struct engine *en, struct error *e);
// Running and waiting requests end with FINISH_CANCELLED; no more are taken.  Waits for the step
// under way and for the callbacks of all ends.
void engine_stop(struct engine *en);
int engine_context(const struct engine *en);  // longest sequence it takes

// notify(context) is called from the engine's thread, without locks held, whenever the stream has a
// first unread event after it was empty; it must not call back into the engine.  May be NULL.
// Errors: ERROR_INPUT (prompt too long, bad numbers; names the field), ERROR_BUSY (queue full),
// ERROR_CANCELLED (stopping).  Thread-safe.
struct engine_stream *engine_submit(struct engine *en, const struct engine_request *request,
                                    void (*notify)(void *context), void *context, struct error *e);
// Thread-safe against the engine; one consumer a stream.  False: nothing there yet.
bool engine_stream_next(struct engine_stream *s, struct engine_event *out);
// Waits for a call of notify under way, so that none comes afterwards; hold no lock that notify
// takes.
void engine_stream_free(struct engine_stream *s);

// Runs one batch; false when there was nothing to do.  Only when engine_start was not called.
bool engine_step(struct engine *en);

struct engine_stats {  // since start; read from any thread
  int running, waiting;
  int pages, pages_used;  // pages_used includes pages_kept
  int pages_kept;         // hold prefixes of past requests that no sequence uses now
  uint64_t page_bytes;    // of one page
  uint64_t requests, cancelled, rejected, preempted;
  uint64_t prompt_tokens, cached_tokens, generated_tokens, steps;
  // Tokens over the time of the steps that worked on such tokens, in the last ten seconds; 0 =
  // none.
  double prefill_tok_s, decode_tok_s;
};
// Thread-safe; a copy as of the last step.  requests, cancelled and rejected, and the part of
// waiting that no step has seen yet, are as of now.  rejected counts every refusal of
// engine_submit.
void engine_stats_read(struct engine *en, struct engine_stats *out);
