// SPDX-License-Identifier: Apache-2.0
//
// call.c: one completion from its request to its last event.
//
//   body ─parse─▶ api_request            template, tokenizer          (a worker's thread)
//                     └──work_submit──▶ prepare ─▶ ids ──net_loop_post──▶ prepared
//                                                                            │
//                                           prompts × n engine streams ◀─────┘
//                                                   │
//                                                   │ notify (engine's thread):
//                                                   │ signalled, net_loop_post
//                                                   ▼
//   pump (loop's thread): while the client takes more, read events ─▶ chunks,
//                                                      or text gathered for one answer
//
// Back-pressure: net_http_write says "enough" ─▶ blocked, and events stay in the engine's streams,
// which hold a bounded number and then leave their sequence out of the batch ─▶ `drained` ─▶ pump
// again.  A client that goes away frees the streams at once, which takes the sequences out before
// the engine's next step.
//
// signalled keeps at most one look per call on its way, however fast tokens come.
//
// While a call is prepared its request belongs to the worker.  A client that goes away then takes
// its job out of the queue; one that runs already cannot be stopped, so the slot stays taken until
// `prepared` has seen its end, and the result is thrown away.

#include <assert.h>
#include <stdio.h>

#include "server/internal.h"

// ---- slots

// The list is as long as there were calls at the same time at most, so a walk is short.
static struct server_call *call_take(struct server *s) {
  struct server_call *c = s->calls;
  while (c && (c->exchange || c->preparation.open)) c = c->next;
  if (!c) {
    c = memory_new(sizeof *c);
    c->server = s;
    c->next = s->calls;
    s->calls = c;
  }
  s->open_calls++;
  return c;
}

// Freeing a stream that still runs cancels it.
static void drop_answers(struct server_call *c) {
  for (int i = 0; i < c->count; i++) {
    engine_stream_free(c->streams[i]);
    api_choice_clear(&c->choices[i]);
  }
  for (int i = 0; c->echoes && i < c->request.prompt_count; i++) buffer_clear(&c->echoes[i]);
  void *lists[] = {c->streams, c->choices, c->counters, c->echoes, c->echo};
  for (size_t i = 0; i < COUNT_OF(lists); i++) memory_free(lists[i]);
  c->streams = NULL;
  c->choices = NULL;
  c->counters = NULL;
  c->echoes = NULL;
  c->echo = NULL;
  c->count = c->unfinished = 0;
}

// What the preparation and the request hold.
static void drop_request(struct server_call *c) {
  assert(!c->preparation.open);
  for (int i = 0; c->preparation.ids && i < c->request.prompt_count; i++)
    token_list_clear(&c->preparation.ids[i]);
  memory_free(c->preparation.ids);
  c->preparation = (struct preparation){0};
  api_request_clear(&c->request);
}

// The slot stays in the list: a look that is on its way finds it unused and does nothing.
void server_call_closed(struct server_call *c, bool gone) {
  struct preparation *p = &c->preparation;
  (void)gone;  // both ways every stream that is left is of no use to anybody
  assert(c->exchange && c->server->open_calls > 0);
  drop_answers(c);
  if (p->open && work_cancel(c->server->work, &p->job)) p->open = false;
  if (!p->open) drop_request(c);
  c->exchange = NULL;
  c->server->open_calls--;
}

// Also of calls that are prepared already: a worker that has posted may still be about to wake the
// loop.
void server_calls_finish(struct server *s) {
  for (struct server_call *c = s->calls; c; c = c->next) {
    assert(!c->exchange);
    work_finish(s->work, &c->preparation.job);
    c->preparation.open = false;  // what it posted is dropped with the loop
  }
}

// After the loop and the engine have gone: nobody looks at a call any more.
void server_calls_free(struct server *s) {
  while (s->calls) {
    struct server_call *c = s->calls;
    s->calls = c->next;
    drop_answers(c);
    drop_request(c);
    memory_free(c);
  }
}

// ---- the engine has something to say

static void look(void *context) {
  struct server_call *c = context;
  atomic_store(&c->signalled, false);  // before reading: what comes later signals again
  server_call_pump(c);
}

static void notify(void *context) {
  struct server_call *c = context;
  if (!atomic_exchange(&c->signalled, true)) net_loop_post(c->server->loop, look, c);
}

static void fail_for_memory(struct server_call *c) {
  struct api_error e;
  api_error_set(&e, 500, "server_error", "out_of_memory", NULL,
                "there is not enough memory for this answer");
  server_call_fail(c, &e);
}

// Every choice has ended well.
static void finish(struct server_call *c) {
  struct server *s = c->server;
  struct buffer *out = &s->scratch;
  assert(c->exchange && c->unfinished == 0);
  out->length = 0;
  if (c->request.stream) {
    int generated = 0;
    for (int i = 0; i < c->count; i++) generated += c->choices[i].generated_tokens;
    api_write_stream_end(&c->response, generated, out);
    net_http_write(c->exchange, buffer_str(out));
    net_http_end(c->exchange);
  } else {
    api_write_response(&c->response, c->choices, c->count, out);
    if (out->failed) return fail_for_memory(c);
    server_answer_json(s, c->exchange, c->route, 200, buffer_str(out));
  }
}

static bool is_failure(const struct engine_event *event) {
  return event->kind == EVENT_END &&
         (event->finish == FINISH_ERROR || event->finish == FINISH_CANCELLED);
}

// One failed choice fails the whole answer: half of what was asked for would look like all of it.
static void fail_with_event(struct server_call *c, const struct engine_event *event) {
  struct api_error e;
  if (event->finish == FINISH_ERROR) {
    server_health_note(&c->server->health, event->error);
    api_error_set(&e, 500, "server_error", "engine_error", NULL, "%s", event->error);
  } else {
    api_error_set(&e, 503, "server_error", "shutting_down", NULL,
                  "the engine stopped before the answer was complete");
  }
  server_call_fail(c, &e);
}

static void end_choice(struct server_call *c, int index, const struct engine_event *event) {
  struct server_record *r = server_record_of(c->exchange);
  server_metrics_finished(&c->server->metrics, event);
  server_health_note(&c->server->health, NULL);
  if (index % c->request.choices == 0) c->response.cached_tokens += event->cached_tokens;
  r->cached_tokens = c->response.cached_tokens;
  if (event->queue_s > r->queue_s) r->queue_s = event->queue_s;
  engine_stream_free(c->streams[index]);
  c->streams[index] = NULL;
  c->unfinished--;
}

// The head of a stream goes out with its first event: until then a failure still has a status of
// its own.
static void begin_stream(struct server_call *c) {
  if (c->begun) return;
  c->begun = true;
  struct buffer headers = {0};
  buffer_add_text(&headers,
                  "Content-Type: text/event-stream; charset=utf-8\r\n"
                  "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
  server_cors_headers(c->server, c->exchange, &headers);
  server_note_response(c->server, c->exchange, c->route, 200);
  net_http_begin(c->exchange, 200, headers.data);
  buffer_clear(&headers);
}

static void record_token(struct server_call *c) {
  struct server_record *r = server_record_of(c->exchange);
  if (r->generated_tokens++ == 0) r->first_token_s = server_record_age_s(c->server, r);
}

// Passes one event on.  False: this stream has no more to read now.
static bool pass_on(struct server_call *c, int index, const struct engine_event *event) {
  struct buffer *out = &c->server->scratch;
  struct api_choice *choice = &c->choices[index];
  struct api_event told;
  struct api_error e;
  assert(c->streams[index] && !choice->finished);
  if (is_failure(event)) return fail_with_event(c, event), false;
  if (event->kind == EVENT_TOKEN) record_token(c);
  server_map_event(c->tokenizer, &c->counters[index], c->request.top_logprobs >= 0, event, &told);
  if (c->request.stream) {
    begin_stream(c);
    out->length = 0;
    if (!api_write_chunk(&c->response, choice, index, &told, out, &e))
      return server_call_fail(c, &e), false;
    c->blocked = !net_http_write(c->exchange, buffer_str(out));
  } else {
    if (!api_choice_add(&c->response, choice, &told, &e)) return server_call_fail(c, &e), false;
  }
  bool end = event->kind == EVENT_END;
  if (end) end_choice(c, index, event);
  return !end && !c->blocked;
}

// Spurious calls are fine: there is then nothing to read.
void server_call_pump(struct server_call *c) {
  struct engine_event event;
  if (!c->exchange || c->unfinished == 0) return;
  for (int i = 0; i < c->count && !c->blocked && c->unfinished; i++) {
    struct engine_stream *stream = c->streams[i];
    while (stream && engine_stream_next(stream, &event) && pass_on(c, i, &event)) continue;
  }
  if (c->unfinished == 0 && c->count > 0) finish(c);
}

// Also frees the choices that were still running.
void server_call_fail(struct server_call *c, const struct api_error *e) {
  struct server *s = c->server;
  drop_answers(c);
  if (s->scratch.failed) buffer_clear(&s->scratch);  // memory may be there again
  if (!c->begun) return server_answer_error(s, c->exchange, c->route, e);
  server_record_error(server_record_of(c->exchange), e);
  s->scratch.length = 0;
  api_write_stream_error(e, &s->scratch);
  net_http_write(c->exchange, buffer_str(&s->scratch));
  net_http_end(c->exchange);
}

// ---- submitting

static bool check_model_name(struct server_call *c, struct api_error *e) {
  const char *asked = c->request.model, *served = c->server->model_name;
  if (!asked || str_equal(str_of(asked), str_of(served))) return true;
  return api_error_set(e, 404, "invalid_request_error", "model_not_found", "model",
                       "the model \"%.100s\" does not exist; this server has: %.100s", asked,
                       served);
}

static bool submit(struct server_call *c, const struct server_model *m, int index,
                   const struct token_list *ids, struct api_error *e) {
  struct error why = {0};
  struct engine_request request = server_map_request(&c->request, ids, index);
  server_counter_start(&c->counters[index], c->tokenizer, ids->ids[ids->count - 1],
                       c->request.echo);
  c->streams[index] = engine_submit(m->engine, &request, notify, c, &why);
  return c->streams[index] || server_map_error(&why, e);
}

// One prompt for its n answers; the engine finds their common pages itself.
static bool submit_prompt(struct server_call *c, const struct server_model *m, int prompt,
                          struct api_error *e) {
  const struct token_list *ids = &c->preparation.ids[prompt];
  int n = c->request.choices;
  bool done = true;
  c->response.prompt_tokens += (int)ids->count;
  server_record_of(c->exchange)->prompt_tokens = c->response.prompt_tokens;
  for (int i = prompt * n; done && i < (prompt + 1) * n; i++) done = submit(c, m, i, ids, e);
  return done;
}

// On failure what was submitted already is dropped by server_call_fail.
static bool submit_all(struct server_call *c, struct api_error *e) {
  const struct server_model *m = atomic_load(&c->server->model);
  for (int prompt = 0; prompt < c->request.prompt_count; prompt++)
    if (!submit_prompt(c, m, prompt, e)) return false;
  return true;
}

// ---- preparing

// Back on the loop's thread.  A call that has failed meanwhile has no choices left; one whose
// client has gone has no exchange.
static void prepared(void *context) {
  struct server_call *c = context;
  struct preparation *p = &c->preparation;
  struct api_error e;
  assert(p->open);
  p->open = false;
  if (!c->exchange) return drop_request(c);
  if (c->unfinished == 0) return;
  struct server_record *r = server_record_of(c->exchange);
  r->prepare_s = server_record_age_s(c->server, r);
  if (!p->done) return server_call_fail(c, &p->why);
  if (!submit_all(c, &e)) server_call_fail(c, &e);
}

// On a worker.  Nothing may follow the post: from then on the call is the loop's again.
static void prepare(void *context) {
  struct server_call *c = context;
  struct preparation *p = &c->preparation;
  const struct server_model *m = atomic_load(&c->server->model);
  p->done = true;
  for (int i = 0; p->done && i < c->request.prompt_count; i++)
    p->done = server_model_encode(m, &c->request, i, p->wall_ms, &p->ids[i], &p->why);
  net_loop_post(c->server->loop, prepared, c);
}

static bool start_preparing(struct server_call *c, struct api_error *e) {
  struct preparation *p = &c->preparation;
  struct error why;
  p->job = (struct work_job){.run = prepare, .context = c};
  p->wall_ms = server_wall_ms(c->server);
  p->ids = memory_new((size_t)c->request.prompt_count * sizeof *p->ids);
  p->open = true;
  if (work_submit(c->server->work, &p->job, &why)) return true;
  p->open = false;
  return api_error_set(e, 503, "server_error", "server_busy", NULL,
                       "too many requests wait for their template and tokenizer; try again later");
}

// ---- start

// Without a seed every request gets one from the world, so that it is still reproducible from the
// log of a simulation.
static void describe_response(struct server_call *c, const struct server_model *m) {
  struct server *s = c->server;
  const struct world *w = s->world;
  c->tokenizer = model_tokenizer(m->model);
  c->response = (struct api_response){
      .request = &c->request, .model = s->model_name, .created_s = server_wall_ms(s) / 1000};
  snprintf(c->response.id, sizeof c->response.id, "%s-%016llx",
           c->request.chat ? "chatcmpl" : "cmpl", (unsigned long long)world_random(w));
  snprintf(server_record_of(c->exchange)->id, sizeof c->response.id, "%s", c->response.id);
  if (!c->request.seed_given) c->request.sampling.seed = world_random(w);
}

// What all answers to a prompt show of it.
static void make_echo(struct server_call *c) {
  size_t prompts = (size_t)c->request.prompt_count;
  if (!c->request.echo) return;
  c->echoes = memory_new(prompts * sizeof *c->echoes);
  c->echo = memory_new(prompts * sizeof *c->echo);
  for (size_t i = 0; i < prompts; i++) {
    server_map_echo(c->tokenizer, &c->request, (int)i, &c->echoes[i]);
    c->echo[i] = buffer_str(&c->echoes[i]);
  }
  c->response.echo = c->echo;
}

static bool start(struct server_call *c, const struct server_model *m, struct api_error *e) {
  bool chat = c->route == ROUTE_CHAT;
  int vocabulary = model_config(m->model)->vocabulary;
  if (!api_request_parse(net_http_body(c->exchange), chat, vocabulary, &c->request, e))
    return false;
  if (!check_model_name(c, e)) return false;
  describe_response(c, m);
  c->count = c->unfinished = c->request.prompt_count * c->request.choices;
  c->choices = memory_new((size_t)c->count * sizeof *c->choices);
  c->streams = memory_new((size_t)c->count * sizeof *c->streams);
  c->counters = memory_new((size_t)c->count * sizeof *c->counters);
  make_echo(c);
  return start_preparing(c, e);
}

// The call is tied to its exchange before anything can fail, so that `closed` finds it in every
// case.
void server_call_start(struct server *s, struct net_exchange *x, enum server_route route) {
  struct api_error e;
  struct server_call *c = call_take(s);
  c->exchange = x;
  c->route = route;
  c->begun = c->blocked = false;
  server_record_of(x)->call = c;
  if (!start(c, atomic_load(&s->model), &e)) server_call_fail(c, &e);
}
