// SPDX-License-Identifier: Apache-2.0
//
// run.c: `motley run`: generate here.  With -p the model continues the prompt as it stands (--chat
// wraps it into the model's chat template); without -p it is a conversation (chat.c).  Text goes to
// stdout, figures to stderr.

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/world.h"
#include "cli/generate.h"

#define PROMPT_MAX (64u << 20)  // bytes read from standard input for "-p -"

struct run {
  struct cli_model_options model;
  struct generate_options generate;
  const char *prompt;
  bool chat, json;
};

static void read_stdin(struct buffer *out) {
  char part[65536];
  for (size_t n; out->length < PROMPT_MAX && (n = fread(part, 1, sizeof part, stdin)) > 0;)
    buffer_add(out, part, n);
}

static bool encode_prompt(const struct run *r, const struct cli_runtime *rt, struct str prompt,
                          struct token_list *ids, struct error *e) {
  if (!r->chat) {
    tokenizer_encode(model_tokenizer(rt->model), prompt, true, true, ids);
    if (!token_list_ok(ids, e)) return false;
    if (ids->count == 0 && tokenizer_bos(model_tokenizer(rt->model)) >= 0)
      token_list_add(ids, tokenizer_bos(model_tokenizer(rt->model)));
    return ids->count ? true
                      : error_set(e, ERROR_INPUT, "the prompt is empty; give some text with -p");
  }
  struct chat *chat = chat_new(rt->model, e);
  if (!chat) return false;
  json_t *messages = json_array();
  if (r->generate.system) generate_add_message(messages, "system", str_of(r->generate.system));
  generate_add_message(messages, "user", prompt);
  bool done = generate_encode_chat(chat, messages, ids, e);
  json_decref(messages);
  chat_free(chat);
  return done;
}

static void print_text(void *context, struct str text) {
  (void)context;
  fwrite(text.data, 1, text.length, stdout);
}

static void keep_text(void *context, struct str text) { buffer_add_str(context, text); }

static void print_json(const struct cli_runtime *rt, const struct generate_result *result,
                       struct str text) {
  json_t *object = json_pack("{s:o?,s:s,s:s,s:i,s:i,s:i,s:f,s:f,s:i}",               //
                             "text", json_stringn(text.data, text.length),           //
                             "model", rt->name,                                      //
                             "finish_reason", generate_finish_name(result->finish),  //
                             "prompt_tokens", result->prompt_tokens,                 //
                             "cached_tokens", result->cached_tokens,                 //
                             "generated_tokens", result->generated_tokens,           //
                             "prefill_tok_s", result->prefill_tok_s,                 //
                             "decode_tok_s", result->decode_tok_s,                   //
                             "threads", device_team_size(rt->device));
  json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
  printf("\n");
  json_decref(object);
}

static bool run_once(const struct run *r, const struct cli_runtime *rt, struct error *e) {
  struct token_list ids = {0};
  struct buffer prompt = {0}, text = {0};
  struct generate_result result;
  if (strcmp(r->prompt, "-") == 0)
    read_stdin(&prompt);
  else
    buffer_add_text(&prompt, r->prompt);
  bool done = encode_prompt(r, rt, buffer_str(&prompt), &ids, e) &&
              generate_text(rt->engine, &ids, &r->generate, r->json ? keep_text : print_text, &text,
                            &result, e);
  if (done && r->json) print_json(rt, &result, buffer_str(&text));
  if (done && !r->json) {
    printf("\n");
    generate_print_figures(&result);
  }
  token_list_clear(&ids);
  buffer_clear(&prompt);
  buffer_clear(&text);
  return done;
}

// The last two columns of an option's row.
#define RANGE(name) sampling_range(name)->low, sampling_range(name)->high

static int run_main(const struct cli_command *self, int argc, char **argv) {
  struct run r = {.generate = generate_options_default()};
  struct cli_model_options *m = &r.model;
  struct generate_options *g = &r.generate;
  struct cli_option model_rows[CLI_MODEL_ROWS];
  cli_model_rows(m, true, model_rows);
  const struct cli_option options[] = {
      {"prompt", 'p', CLI_TEXT, "TEXT", "continue this text (\"-\" reads standard input)",
       &r.prompt, 0, 0},
      {"chat", 0, CLI_FLAG, NULL, "put the prompt into the model's chat template", &r.chat, 0, 0},
      {"system", 's', CLI_TEXT, "TEXT", "system message of the chat", &g->system, 0, 0},
      {"tokens", 'n', CLI_INTEGER, "N", "most tokens to generate (default 256; 0 = no limit)",
       &g->max_tokens, 0, 1 << 24},
      {"temp", 0, CLI_NUMBER, "T", "temperature (default 0.8; 0 = greedy)", &g->temperature,
       RANGE("temperature")},
      {"top-k", 0, CLI_INTEGER, "K", "only the K likeliest tokens (0 = off)", &g->top_k,
       RANGE("top_k")},
      {"top-p", 0, CLI_NUMBER, "P", "only the likeliest tokens up to this mass (default 0.95)",
       &g->top_p, RANGE("top_p")},
      {"min-p", 0, CLI_NUMBER, "P", "drop tokens below this share of the likeliest", &g->min_p,
       RANGE("min_p")},
      {"repeat-penalty", 0, CLI_NUMBER, "R", "penalty for tokens seen (1 = off)",
       &g->repetition_penalty, RANGE("repetition_penalty")},
      {"stop", 0, CLI_TEXT, "TEXT", "stop before this text", &g->stop, 0, 0},
      {"seed", 0, CLI_INTEGER, "S", "seed of the sampler (default: a new one each time)", &g->seed,
       -1e15, 1e15},
      {"ignore-end", 0, CLI_FLAG, NULL, "go on past the end token", &g->ignore_end, 0, 0},
      {"json", 0, CLI_FLAG, NULL, "with -p: print one JSON object", &r.json, 0, 0},
      CLI_OPTION_MORE(model_rows)};
  struct cli_parsed parsed;
  int stop = cli_parse(self, options, 0, 1, argc, argv, &parsed);
  if (stop) return stop - 1;
  m->model = parsed.count ? parsed.positional[0] : NULL;
  m->sequences = 1;
  if (r.json && !r.prompt) return cli_misuse(self, "--json needs a prompt: give one with -p");

  struct error e = {0};
  struct cli_runtime runtime = {0};
  bool done = cli_runtime_resolve(m, &runtime, &e) && cli_runtime_open(m, &runtime, &e) &&
              (r.prompt ? run_once(&r, &runtime, &e) : cli_chat(&runtime, g, &e));
  cli_runtime_close(&runtime);
  if (!done && e.kind == ERROR_CANCELLED) return 130;
  return done ? 0 : cli_fail(&e);
}

const struct cli_command cli_run = {
    "run",
    "generate here: one answer, or a conversation in the terminal",
    "motley run [MODEL] [-p PROMPT] [options]",
    "motley run smollm2-135m-instruct\n"
    "motley run smollm2-135m-instruct -p \"Once upon a time\" -n 64 --temp 0\n"
    "motley run smollm2-135m-instruct --chat -p \"Name three colours.\"",
    run_main,
    NULL};
