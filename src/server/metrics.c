// SPDX-License-Identifier: Apache-2.0
//
// metrics.c: what is counted, and /metrics in Prometheus' text format 0.0.4.
//
// A metric is a row: name, type, help, value.  Counters only grow; times are histograms in seconds,
// so that rates and percentiles are left to who reads them.

#include "server/internal.h"

static const int statuses[SERVER_STATUSES] = {200, 204, 304, 400, 401, 403, 404, 405, 408,
                                              411, 413, 417, 429, 431, 500, 501, 503, 505};
#define STATUS_OTHER (SERVER_STATUSES - 1)  // anything not in the table; its number is 0

static const double bounds[SERVER_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                              0.5,   1,      2.5,   5,    10,    25,   50,  100};

void server_metrics_response(struct server_metrics *m, enum server_route route, int status) {
  int column = STATUS_OTHER;
  for (int i = 0; i < STATUS_OTHER; i++)
    if (statuses[i] == status) column = i;
  m->responses[route][column]++;
}

static void observe(struct server_histogram *h, double seconds) {
  int bucket = 0;
  while (bucket < SERVER_BUCKETS && seconds > bounds[bucket]) bucket++;
  h->counts[bucket]++;
  h->sum += seconds;
}

// The engine measured these itself, so a client that reads slowly does not show as a slow model.
void server_metrics_finished(struct server_metrics *m, const struct engine_event *end) {
  observe(&m->first_token, end->queue_s + end->prefill_s);
  if (end->generated_tokens > 1)
    observe(&m->per_token, end->decode_s / (end->generated_tokens - 1));
  observe(&m->whole, end->queue_s + end->prefill_s + end->decode_s);
}

// ---- text

static void write_header(struct buffer *out, const char *name, const char *type, const char *help) {
  buffer_print(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

// Prometheus wants the buckets summed up: each counts everything up to its bound.
static void write_histogram(struct buffer *out, const char *name, const char *help,
                            const struct server_histogram *h) {
  uint64_t total = 0;
  write_header(out, name, "histogram", help);
  for (int i = 0; i < SERVER_BUCKETS; i++) {
    total += h->counts[i];
    buffer_print(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)total);
  }
  total += h->counts[SERVER_BUCKETS];
  buffer_print(out, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)total);
  buffer_print(out, "%s_sum %.9g\n%s_count %llu\n", name, h->sum, name, (unsigned long long)total);
}

// Pairs that never occurred are left out: most of them cannot.
static void write_responses(struct buffer *out, const struct server_metrics *m) {
  write_header(out, "motley_http_responses_total", "counter", "Responses by route and status.");
  for (int route = 0; route < ROUTE_COUNT; route++)
    for (int i = 0; i < SERVER_STATUSES; i++)
      if (m->responses[route][i])
        buffer_print(out, "motley_http_responses_total{route=\"%s\",code=\"%d\"} %llu\n",
                     server_route_name((enum server_route)route), statuses[i],
                     (unsigned long long)m->responses[route][i]);
}

struct value {
  const char *name, *type, *help;
  double value;
};

static void write_rows(struct buffer *out, const struct value *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    write_header(out, rows[i].name, rows[i].type, rows[i].help);
    buffer_print(out, "%s %.17g\n", rows[i].name, rows[i].value);
  }
}

// One row per metric of the server itself.
static void write_server_values(struct server *s, struct buffer *out) {
  bool attached = atomic_load(&s->model) != NULL;
  struct probe_memory memory = {0};
  struct work_stats work;
  probe_memory_read(&memory);
  work_stats_read(s->work, &work);
  const struct value rows[] = {
      {"motley_up", "gauge", "1 when a model is loaded, answers, and requests are taken.",
       attached && !s->draining && s->health.failures < SERVER_FAILURES},
      {"motley_uptime_seconds", "gauge", "Seconds since the server started.", server_uptime_s(s)},
      {"motley_resident_memory_bytes", "gauge", "Memory this process has in RAM.",
       (double)memory.resident},
      {"motley_clients_gone_total", "counter", "Requests whose client left before the end.",
       (double)s->metrics.abandoned},
      {"motley_requests_preparing", "gauge", "Requests that are rendered and tokenised now.",
       work.running},
      {"motley_requests_waiting", "gauge", "Requests that wait to be rendered and tokenised.",
       work.waiting},
      {"motley_requests_busy_total", "counter",
       "Requests refused because too many waited to be rendered and tokenised.",
       (double)work.refused},
      {"motley_sequences_failed_total", "counter",
       "Answers that ended with an error of the engine.", (double)s->health.failed},
  };
  write_rows(out, rows, COUNT_OF(rows));
}

// One row per metric of the engine.  Before a model is there these figures are zero, not absent, so
// that dashboards see a new process start from nothing.
static void write_engine_values(struct server *s, struct buffer *out) {
  const struct server_model *m = atomic_load(&s->model);
  struct engine_stats e = {0};
  if (m) engine_stats_read(m->engine, &e);
  const struct value rows[] = {
      {"motley_prompt_tokens_total", "counter", "Prompt tokens taken in.", (double)e.prompt_tokens},
      {"motley_cached_tokens_total", "counter", "Prompt tokens found in the prefix cache.",
       (double)e.cached_tokens},
      {"motley_generated_tokens_total", "counter", "Tokens generated.", (double)e.generated_tokens},
      {"motley_sequences_total", "counter", "Sequences submitted to the engine.",
       (double)e.requests},
      {"motley_sequences_cancelled_total", "counter", "Sequences cancelled by their client.",
       (double)e.cancelled},
      {"motley_sequences_rejected_total", "counter",
       "Sequences refused: the queue was full, the request impossible, or the server stopping.",
       (double)e.rejected},
      {"motley_sequences_preempted_total", "counter", "Times a sequence gave its cache pages up.",
       (double)e.preempted},
      {"motley_steps_total", "counter", "Forward passes.", (double)e.steps},
      {"motley_sequences_running", "gauge", "Sequences in the batch.", e.running},
      {"motley_sequences_waiting", "gauge", "Sequences waiting for the batch.", e.waiting},
      {"motley_cache_pages", "gauge", "Pages of the KV cache, used or not.", e.pages},
      {"motley_cache_pages_used", "gauge", "Pages in use, kept prefixes included.", e.pages_used},
      {"motley_cache_bytes", "gauge", "Most memory that the KV cache takes (--cache).",
       (double)e.pages * (double)e.page_bytes},
      {"motley_cache_used_bytes", "gauge", "Memory of the pages in use, kept prefixes included.",
       (double)e.pages_used * (double)e.page_bytes},
      {"motley_prefix_cache_bytes", "gauge",
       "Memory of kept prefixes that no sequence uses now; it is given up when it is needed.",
       (double)e.pages_kept * (double)e.page_bytes},
      {"motley_prefill_tokens_per_second", "gauge", "Prompt tokens a second, last ten seconds.",
       e.prefill_tok_s},
      {"motley_decode_tokens_per_second", "gauge", "Generated tokens a second, last ten seconds.",
       e.decode_tok_s},
  };
  write_rows(out, rows, COUNT_OF(rows));
}

// Histograms last: they are the long part.
void server_metrics_write(struct server *s, struct buffer *out) {
  write_header(out, "motley_build_info", "gauge", "The version, as a label.");
  buffer_add_text(out, "motley_build_info{version=\"" MOTLEY_VERSION "\"} 1\n");
  write_server_values(s, out);
  write_engine_values(s, out);
  write_responses(out, &s->metrics);
  write_histogram(out, "motley_time_to_first_token_seconds",
                  "From submission to the end of the prompt phase.", &s->metrics.first_token);
  write_histogram(out, "motley_time_per_token_seconds",
                  "Mean time per further token of a sequence.", &s->metrics.per_token);
  write_histogram(out, "motley_sequence_seconds", "From submission to the last token.",
                  &s->metrics.whole);
}
