// SPDX-License-Identifier: Apache-2.0
//
// status.c: /api/status, the live figures that the page shows, as one JSON object.
//
//   {version, uptime_s, model:{…}, processor:{…}, memory:{…}, engine:{…}}
//
// model and engine are null while the model is loading.

#include <stdio.h>
#include <stdlib.h>

#include "server/internal.h"

// context is what the engine takes, which may be less than the model was trained for.  error is why
// the last answer failed, null after one that did not.
static json_t *describe_model(const struct server *s, const struct server_model *m) {
  if (!m) return json_null();
  const struct model_config *c = model_config(m->model);
  const char *error = s->health.failures ? s->health.error : NULL;
  return json_pack("{s:s,s:s,s:I,s:s,s:I,s:i,s:i,s:i,s:i,s:i,s:i,s:s?}", "name", s->model_name,
                   "architecture", c->architecture, "parameters", (json_int_t)c->parameters,
                   "types", c->types, "file_bytes", (json_int_t)c->file_bytes, "context",
                   m->context, "layers", c->layers, "width", c->width, "heads", c->heads,
                   "kv_heads", c->kv_heads, "vocabulary", c->vocabulary, "error", error);
}

// load_percent is since the last request for it: the page asks every second or two.
static json_t *describe_processor(struct server *s) {
  double machine = 0, process = 0;
  probe_load_read(&s->load, &machine, &process);
  return json_pack("{s:s,s:i,s:s,s:f,s:f}", "name", s->cpu.name, "cores", s->cpu.cores, "isa",
                   kernel_isa_name(kernel_isa_best()), "load_percent", machine, "process_percent",
                   process);
}

static json_t *describe_memory(void) {
  struct probe_memory m = {0};
  probe_memory_read(&m);
  return json_pack("{s:I,s:I,s:I}", "total", (json_int_t)m.total, "available",
                   (json_int_t)m.available, "resident", (json_int_t)m.resident);
}

// Read under the engine's lock, all at one moment.
static json_t *describe_engine(const struct server_model *m) {
  struct engine_stats e;
  if (!m) return json_null();
  engine_stats_read(m->engine, &e);
  return json_pack("{s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:f,s:f}", "running", e.running, "waiting",
                   e.waiting, "pages", e.pages, "pages_used", e.pages_used, "requests",
                   (json_int_t)e.requests, "prompt_tokens", (json_int_t)e.prompt_tokens,
                   "generated_tokens", (json_int_t)e.generated_tokens, "prefill_tok_s",
                   e.prefill_tok_s, "decode_tok_s", e.decode_tok_s);
}

static int add_text(const char *text, size_t length, void *out) {
  buffer_add(out, text, length);
  return 0;
}

// Parts that fail to encode become null rather than taking the rest with them.
void server_status_write(struct server *s, struct buffer *out) {
  const struct server_model *m = atomic_load(&s->model);
  json_t *status =
      json_pack("{s:s,s:f,s:o?,s:o?,s:o?,s:o?}", "version", MOTLEY_VERSION, "uptime_s",
                server_uptime_s(s), "model", describe_model(s, m), "processor",
                describe_processor(s), "memory", describe_memory(), "engine", describe_engine(m));
  json_dump_callback(status, add_text, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
  json_decref(status);
}
