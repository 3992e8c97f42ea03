// SPDX-License-Identifier: Apache-2.0
//
// generate.h: one answer at a time on an engine that this thread drives itself; shared by run, chat
// and bench.
#pragma once

#include <jansson.h>

#include "cli/cli.h"
#include "model/chat.h"

struct generate_options {
  const char *system, *stop;  // NULL = none
  int64_t max_tokens;         // 0 = until the context is full
  double temperature, top_p, min_p, repetition_penalty;
  int64_t top_k, seed;  // seed INT64_MIN = a new one each time
  bool ignore_end;
};
struct generate_options generate_options_default(void);

struct generate_result {
  enum engine_finish finish;
  int prompt_tokens, generated_tokens, cached_tokens;
  double prefill_tok_s, decode_tok_s;  // 0 when there was nothing to measure
};
const char *generate_finish_name(enum engine_finish finish);  // "stop", "length", …

// Runs the engine until the answer is complete; text goes to `show` piece by piece, whole
// characters only.  Ctrl-C ends the answer: false with ERROR_CANCELLED and *result filled with what
// was there.
bool generate_text(struct engine *engine, const struct token_list *prompt,
                   const struct generate_options *options,
                   void (*show)(void *context, struct str text), void *context,
                   struct generate_result *result, struct error *e);
// From here on Ctrl-C does not end the program; it stops the answer that is made next, even when it
// comes before that has begun.
void generate_arm_interrupt(void);
void generate_print_figures(const struct generate_result *result);  // one line on stderr

// {"role":…,"content":…} appended to a JSON array; bytes that are no UTF-8 become U+FFFD.
void generate_add_message(json_t *messages, const char *role, struct str content);
bool generate_encode_chat(const struct chat *chat, json_t *messages, struct token_list *ids,
                          struct error *e);

// The conversation mode of `motley run` (chat.c).
bool cli_chat(const struct cli_runtime *runtime, struct generate_options *options, struct error *e);
