// SPDX-License-Identifier: Apache-2.0
//
// generate.c: drives an engine by hand until one answer is complete, or Ctrl-C.

#include "cli/generate.h"

#include <signal.h>
#include <stdio.h>

#include "base/world.h"

struct generate_options generate_options_default(void) {
  return (struct generate_options){.max_tokens = 256,
                                   .temperature = 0.8,
                                   .top_p = 0.95,
                                   .repetition_penalty = 1,
                                   .seed = INT64_MIN};
}

const char *generate_finish_name(enum engine_finish finish) {
  static const char *const names[] = {"stop", "length", "cancelled", "error"};
  return names[finish];
}

// Set by SIGINT while an answer is generated; a signal handler can reach nothing but a static.
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
  (void)number;
  interrupted = 1;
}

void generate_arm_interrupt(void) {
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
  interrupted = 0;
  sigaction(SIGINT, &action, NULL);
}

static struct sampling sampling_of(const struct generate_options *o) {
  struct sampling s = sampling_default();
  s.temperature = (float)o->temperature;
  s.top_k = (int)o->top_k;
  s.top_p = (float)o->top_p;
  s.min_p = (float)o->min_p;
  s.repetition_penalty = (float)o->repetition_penalty;
  const struct world *world = world_real();
  s.seed = o->seed == INT64_MIN ? world_random(world) : (uint64_t)o->seed;
  return s;
}

static double rate(int tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

static void fill_result(const struct engine_event *end, struct generate_result *r) {
  r->finish = end->finish;
  r->prompt_tokens = end->prompt_tokens;
  r->cached_tokens = end->cached_tokens;
  r->generated_tokens = end->generated_tokens;
  r->prefill_tok_s = rate(end->prompt_tokens - end->cached_tokens, end->prefill_s);
  // The first token comes out of the prompt's own pass, so the generation phase made one less.
  r->decode_tok_s = end->generated_tokens > 1 ? rate(end->generated_tokens - 1, end->decode_s) : 0;
}

// Reads events until the end; false when the user interrupted, the engine failed, or the text
// cannot be written.
static bool consume(struct engine *engine, struct engine_stream *stream,
                    void (*show)(void *context, struct str text), void *context,
                    struct generate_result *result, struct error *e) {
  struct engine_event event;
  int tokens = 0;
  while (!interrupted) {
    if (!engine_stream_next(stream, &event)) {
      engine_step(engine);
      continue;
    }
    if (event.text.length) show(context, event.text);
    if (!cli_output_check(e)) return false;  // nobody would see the rest
    tokens += event.kind == EVENT_TOKEN;
    if (event.kind != EVENT_END) continue;
    fill_result(&event, result);
    if (event.finish == FINISH_ERROR) return error_set(e, ERROR_SYSTEM, "%s", event.error);
    return true;
  }
  *result = (struct generate_result){.finish = FINISH_CANCELLED, .generated_tokens = tokens};
  return error_set(e, ERROR_CANCELLED, "stopped by Ctrl-C");
}

bool generate_text(struct engine *engine, const struct token_list *prompt,
                   const struct generate_options *options,
                   void (*show)(void *context, struct str text), void *context,
                   struct generate_result *result, struct error *e) {
  struct str stop = str_of(options->stop);
  struct engine_request request = {.prompt = prompt->ids,
                                   .prompt_count = (int)prompt->count,
                                   .max_tokens = (int)options->max_tokens,
                                   .sampling = sampling_of(options),
                                   .stop_count = options->stop && stop.length ? 1 : 0,
                                   .stops = &stop,
                                   .ignore_end = options->ignore_end,
                                   .top_logprobs = -1};
  struct engine_stream *stream = engine_submit(engine, &request, NULL, NULL, e);
  if (!stream) return false;
  // SA_RESTART: text that is being written must not fail by the signal.
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, before;
  sigaction(SIGINT, &action, &before);
  if (before.sa_handler != on_interrupt) interrupted = 0;
  bool done = consume(engine, stream, show, context, result, e);
  sigaction(SIGINT, &before, NULL);
  engine_stream_free(stream);
  return done;
}

void generate_print_figures(const struct generate_result *r) {
  fprintf(stderr, "%d prompt tokens", r->prompt_tokens);
  if (r->cached_tokens) fprintf(stderr, " (%d cached)", r->cached_tokens);
  if (r->prefill_tok_s > 0) fprintf(stderr, " at %.0f tok/s", r->prefill_tok_s);
  fprintf(stderr, ", %d generated", r->generated_tokens);
  if (r->decode_tok_s > 0) fprintf(stderr, " at %.1f tok/s", r->decode_tok_s);
  fprintf(stderr, "\n");
}

// JSON text is UTF-8: what is not becomes U+FFFD, byte by byte.
static void add_clean(struct buffer *out, struct str s) {
  for (size_t at = 0; at < s.length;) {
    int n = str_utf8_length(s, at);
    if (n)
      buffer_add(out, s.data + at, (size_t)n);
    else
      buffer_add_text(out, "\xEF\xBF\xBD");
    at += n ? (size_t)n : 1;
  }
}

void generate_add_message(json_t *messages, const char *role, struct str content) {
  struct buffer clean = {0};
  add_clean(&clean, content);
  json_array_append_new(messages, json_pack("{s:s,s:s%}", "role", role, "content",
                                            clean.data ? clean.data : "", clean.length));
  buffer_clear(&clean);
}

bool generate_encode_chat(const struct chat *chat, json_t *messages, struct token_list *ids,
                          struct error *e) {
  const struct world *world = world_real();
  json_t *variables = json_pack("{s:O,s:b}", "messages", messages, "add_generation_prompt", 1);
  struct template_text text = {0};
  bool done = chat_render(chat, variables, world_wall_ms(world), &text, e);
  if (done) chat_encode(chat, &text, ids);
  done = done && token_list_ok(ids, e);
  template_text_clear(&text);
  json_decref(variables);
  return done;
}
