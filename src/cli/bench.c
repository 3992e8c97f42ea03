// SPDX-License-Identifier: Apache-2.0
//
// bench.c: `motley bench engine`: how fast a model is read and generates here.
//
// Each round submits one prompt of random tokens (a new one each time, so that no prefix is shared)
// and generates a fixed number of tokens greedily past any end token.  The median round is
// reported.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/world.h"
#include "cli/generate.h"
#include "probe/probe.h"

#define ROUNDS_MAX 100

struct bench {
  struct cli_model_options model;
  int64_t prompt, generate, rounds, seed;
  bool json;
};

struct figures {
  double prefill_tok_s[ROUNDS_MAX], decode_tok_s[ROUNDS_MAX];
};

static void discard(void *context, struct str text) { (void)context, (void)text; }

static void random_prompt(const struct tokenizer *t, int64_t count, uint64_t *state,
                          struct token_list *out) {
  for (out->count = 0; (int64_t)out->count < count;) {
    int32_t id = (int32_t)(random_next(state) % (uint64_t)tokenizer_count(t));
    if (!tokenizer_is_special(t, id)) token_list_add(out, id);
  }
}

static bool run_rounds(const struct bench *b, const struct cli_runtime *r, struct figures *f,
                       struct error *e) {
  struct generate_options options = generate_options_default();
  options.temperature = 0;
  options.ignore_end = true;
  options.max_tokens = b->generate + 1;  // the first comes out of the prompt's pass
  struct token_list prompt = {0};
  uint64_t state = (uint64_t)b->seed;
  bool done = true;
  for (int i = -1; done && i < b->rounds; i++) {  // round -1 warms caches up and is not counted
    struct generate_result result;
    random_prompt(model_tokenizer(r->model), b->prompt, &state, &prompt);
    done = generate_text(r->engine, &prompt, &options, discard, NULL, &result, e);
    if (i < 0 || !done) continue;
    f->prefill_tok_s[i] = result.prefill_tok_s;
    f->decode_tok_s[i] = result.decode_tok_s;
  }
  token_list_clear(&prompt);
  return done;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int64_t count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void report(const struct bench *b, const struct cli_runtime *r, struct figures *f) {
  struct probe_memory memory;
  probe_memory_read(&memory);
  double rss_mb = (double)memory.resident / 1e6;
  double prefill = median(f->prefill_tok_s, b->rounds), decode = median(f->decode_tok_s, b->rounds);
  const char *isa = kernel_isa_name(kernel_context_isa(r->kernel));
  const char *types = model_config(r->model)->types;
  if (!b->json) {
    printf("%s (%s), %d threads, %s\n", r->name, types, device_team_size(r->device), isa);
    printf("  prompt    %5lld tokens  %8.1f tok/s\n", (long long)b->prompt, prefill);
    printf("  generate  %5lld tokens  %8.1f tok/s\n", (long long)b->generate, decode);
    printf("  memory    %8.1f MB resident\n", rss_mb);
    return;
  }
  json_t *object =
      json_pack("{s:s,s:s,s:s,s:f,s:f,s:I,s:I,s:i,s:I,s:f}", "model", r->name, "types", types,
                "isa", isa, "prefill_tok_s", prefill, "decode_tok_s", decode, "prompt_tokens",
                (json_int_t)b->prompt, "generated_tokens", (json_int_t)b->generate, "threads",
                device_team_size(r->device), "rounds", (json_int_t)b->rounds, "rss_mb", rss_mb);
  json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
  printf("\n");
  json_decref(object);
}

static bool bench_engine(struct bench *b, struct error *e) {
  struct cli_runtime runtime = {0};
  struct figures figures;
  b->model.sequences = 1;
  b->model.context = b->prompt + b->generate + 2;
  b->model.context_flags = "--prompt and --generate";
  bool done = cli_runtime_resolve(&b->model, &runtime, e) &&
              cli_runtime_open(&b->model, &runtime, e) && run_rounds(b, &runtime, &figures, e);
  if (done) report(b, &runtime, &figures);
  cli_runtime_close(&runtime);
  return done;
}

static int bench_main(const struct cli_command *self, int argc, char **argv) {
  struct bench b = {.prompt = 512, .generate = 64, .rounds = 3, .seed = 1};
  struct cli_model_options *m = &b.model;
  struct cli_option model_rows[CLI_MODEL_ROWS];
  cli_model_rows(m, false, model_rows);
  const struct cli_option options[] = {
      {"prompt", 'p', CLI_INTEGER, "N", "tokens of the prompt (default 512)", &b.prompt, 1,
       1 << 20},
      {"generate", 'n', CLI_INTEGER, "N", "tokens to generate (default 64)", &b.generate, 1,
       1 << 20},
      {"rounds", 'r', CLI_INTEGER, "N", "counted rounds (default 3)", &b.rounds, 1, ROUNDS_MAX},
      {"seed", 0, CLI_INTEGER, "S", "seed of the random prompts (default 1)", &b.seed, 0, 1e15},
      {"json", 0, CLI_FLAG, NULL, "print one JSON object", &b.json, 0, 0},
      CLI_OPTION_MORE(model_rows)};
  struct cli_parsed parsed;
  int stop = cli_parse(self, options, 1, 2, argc, argv, &parsed);
  if (stop) return stop - 1;
  struct error e = {0};
  if (strcmp(parsed.positional[0], "engine") != 0) {
    error_set(&e, ERROR_INPUT, "bench %s: what can be measured is: engine", parsed.positional[0]);
    return cli_fail(&e) + 1;
  }
  m->model = parsed.count > 1 ? parsed.positional[1] : NULL;
  return bench_engine(&b, &e) ? 0 : cli_fail(&e);
}

const struct cli_command cli_bench = {"bench",
                                      "measure the speed of a model here",
                                      "motley bench engine [MODEL] [options]",
                                      "motley bench engine smollm2-135m-instruct --json",
                                      bench_main,
                                      NULL};
