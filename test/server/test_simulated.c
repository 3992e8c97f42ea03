// SPDX-License-Identifier: Apache-2.0
//
// test_simulated.c: the whole server (loop, HTTP, routes, API, engine) in the simulated world,
// driven by clients that behave well and badly.  One seed decides everything.
//
//   machine "server"   server_run; the engine with test/engine/fake_model.h is stepped by its loop
//   machines "c0" …    clients: each opens connections one after another and asks questions on them
//
// Every answer that arrives whole is judged: its status, its body, and for completions the very
// text that test/engine/oracle.h computes apart from the engine.  An answer may be missing only
// where the network had faults, the server was told to stop, or the client itself went away.
//
//   SEEDS=10000 test_server_simulated    so many seeds (default SEEDS_DEFAULT)
//   SEED=7 test_server_simulated         that one alone, with its log

#include "support/check.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/simulation.h"
#include "base/work.h"
#include "engine/fake_model.h"
#include "engine/oracle.h"
#include "server/internal.h"
#include "support/test_model.h"
#include "support/wire.h"

#define SEEDS_DEFAULT 300
#define PORT 8080
#define CONTEXT 128
#define CLIENTS_MAX 5
#define WAIT (300 * WIRE_SECOND)  // longer than any limit of the server
#define MS UINT64_C(1000000)
#define VARIANTS 14
#define QUESTIONS_MAX 5  // on one connection

// ---- what is asked, and what must come back

struct variant {  // of a completion
  struct buffer plain, streamed;
  struct buffer text;
  int prompt_tokens, tokens;
  const char *finish;
};
static struct variant variants[VARIANTS];  // made once; the same for every seed

// For their tokenizer, template and settings; the weights are not used.
static struct device *device;
static struct kernel_context *kernel;
static struct model *model;
static int vocabulary;

static uint64_t below(uint64_t *dice, uint64_t count) { return random_next(dice) % count; }

static void write_variant(struct variant *v, const struct engine_request *r, bool stream,
                          struct buffer *out) {
  buffer_print(
      out, "{\"model\":\"tiny\",\"max_tokens\":%d,\"temperature\":%g,\"seed\":%llu,\"prompt\":",
      r->max_tokens, (double)r->sampling.temperature, (unsigned long long)r->sampling.seed);
  for (int i = 0; i < v->prompt_tokens; i++)
    buffer_print(out, "%c%d", i ? ',' : '[', (int)r->prompt[i]);
  buffer_add_char(out, ']');
  if (r->stop_count) buffer_print(out, ",\"stop\":[\"bb\",\"c\\n\"]");
  buffer_print(out, "%s}", stream ? ",\"stream\":true" : "");
}

// Prompts share beginnings, so that pages of the cache are shared too.
static void make_variants(void) {
  static const struct str stops[] = {{"bb", 2}, {"c\n", 2}};
  static struct oracle_answer answer;
  uint64_t dice = 99;
  for (int i = 0; i < VARIANTS; i++) {
    struct variant *v = &variants[i];
    int32_t ids[64];
    v->prompt_tokens = 1 + (int)below(&dice, 60);
    for (int k = 0; k < v->prompt_tokens; k++) ids[k] = 1 + (k * 7 + (k > 20 ? i : i % 2)) % 300;
    struct engine_request r = {.prompt = ids,
                               .prompt_count = v->prompt_tokens,
                               .max_tokens = 1 + (int)below(&dice, 30),
                               .sampling = sampling_default(),
                               .stops = stops,
                               .stop_count = i % 3 ? 0 : 2,
                               .top_logprobs = -1};
    r.sampling.temperature = i % 4 ? 0.75f : 0;
    r.sampling.seed = (uint64_t)i;
    v->finish =
        oracle_generate(&r, CONTEXT, vocabulary, &answer) == FINISH_STOP ? "stop" : "length";
    v->tokens = answer.count;
    buffer_add_str(&v->text, buffer_str(&answer.text));
    write_variant(v, &r, false, &v->plain);
    write_variant(v, &r, true, &v->streamed);
  }
  buffer_clear(&answer.text);
}

enum kind {
  HEALTH,
  HEAD,
  MODELS,
  MISSING,
  METHOD,
  COMPLETION,
  CHUNKED,
  STREAM,
  CHAT,
  BAD_JSON,
  MALFORMED,
  TOO_LARGE,
  KINDS
};
static const struct {
  int status;
  bool needs_model, closes;
} kinds[KINDS] = {
    [HEALTH] = {200, true, false},    [HEAD] = {200, true, false},
    [MODELS] = {200, true, false},    [MISSING] = {404, false, false},
    [METHOD] = {405, false, false},   [COMPLETION] = {200, true, false},
    [CHUNKED] = {200, true, false},   [STREAM] = {200, true, false},
    [CHAT] = {200, true, false},      [BAD_JSON] = {400, true, false},
    [MALFORMED] = {400, false, true}, [TOO_LARGE] = {413, false, true},
};

struct question {
  enum kind kind;
  int variant;
  struct buffer bytes;
};

#define HOST "Host: server\r\n"
static const char *const malformed[] = {"GET / HTTP/1.1\r\n\r\n", "GET /\r\n\r\n", "\x16\x03\x01",
                                        "GET / HTTP/1.1\r\n" HOST "a b\r\n\r\n",
                                        "POST /v1/completions HTTP/1.1\r\n" HOST
                                        "Transfer-Encoding: chunked\r\n\r\nzz\r\n"};

static void add_post(struct buffer *out, const char *path, struct str body) {
  buffer_print(out, "POST %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", path, body.length);
  buffer_add_str(out, body);
}

// The body in three chunks.
static void add_chunked(struct buffer *out, struct str body) {
  buffer_add_text(out,
                  "POST /v1/completions HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
  for (size_t at = 0, size = body.length / 3 + 1; at < body.length; at += size) {
    size_t length = body.length - at < size ? body.length - at : size;
    buffer_print(out, "%zx\r\n%.*s\r\n", length, (int)length, body.data + at);
  }
  buffer_add_text(out, "0\r\n\r\n");
}

static void build(struct question *q, uint64_t *dice) {
  const struct variant *v = &variants[q->variant];
  struct buffer *out = &q->bytes;
  switch (q->kind) {
    case HEALTH: buffer_add_text(out, "GET /healthz HTTP/1.1\r\n" HOST "\r\n"); break;
    case HEAD: buffer_add_text(out, "HEAD /healthz HTTP/1.1\r\n" HOST "\r\n"); break;
    case MODELS: buffer_add_text(out, "GET /v1/models HTTP/1.1\r\n" HOST "\r\n"); break;
    case MISSING: buffer_add_text(out, "GET /nowhere HTTP/1.1\r\n" HOST "\r\n"); break;
    case METHOD: buffer_add_text(out, "DELETE /healthz HTTP/1.1\r\n" HOST "\r\n"); break;
    case COMPLETION: add_post(out, "/v1/completions", buffer_str(&v->plain)); break;
    case CHUNKED: add_chunked(out, buffer_str(&v->plain)); break;
    case STREAM: add_post(out, "/v1/completions", buffer_str(&v->streamed)); break;
    case CHAT:
      add_post(out, "/v1/chat/completions",
               STR("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":9,"
                   "\"seed\":1}"));
      break;
    case BAD_JSON: add_post(out, "/v1/completions", STR("{\"prompt\":")); break;
    case MALFORMED: buffer_add_text(out, malformed[below(dice, COUNT_OF(malformed))]); break;
    case TOO_LARGE:
      buffer_add_text(out,
                      "POST /v1/completions HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n");
      break;
    case KINDS: break;
  }
}

// ---- one run

struct house {
  uint64_t seed, dice;
  struct simulation *simulation;
  struct simulation_process *server_process;
  struct fake_model fake;
  struct engine *engine;
  struct server *server;
  struct net_timer *pace, *loading;
  bool busy;                // a step is under way
  int connections;          // the server's limit, 0 = plenty
  uint64_t loading_ms;      // until the model is attached
  bool faults;              // of the network
  bool told_to_stop;        // the signal is on its way or there
  bool told_to_stop_early;  // while clients are there
  bool rude;                // a client left before its answer
  int clients, sessions;
  // what clients saw
  int asked;               // questions of which bytes were sent
  int whole[600];          // answers by status
  int answered[VARIANTS];  // completions answered with their text
  int lost;
  uint64_t calls, fault_count;
  // faults on demand
  struct world_calls calls_table;
  const struct world_calls *real;
  uint64_t watch_left;           // the so manieth poller_set or wait …
  int watch_result;              // … gives this; 0 = none is made to fail
  bool scripted;                 // the test makes a call fail
  char refusal[ERROR_TEXT_MAX];  // why the server did not start
  char failure[512];             // the first thing that was wrong
};

struct client {
  struct house *house;
  uint64_t dice;
  int index;
};

__attribute__((format(printf, 2, 3))) static void wrong(struct house *h, const char *format, ...) {
  va_list arguments;
  if (h->failure[0]) return;
  va_start(arguments, format);
  vsnprintf(h->failure, sizeof h->failure, format, arguments);
  va_end(arguments);
}

// ---- the server's process

// The simulation makes most calls fail on demand; these two are made to fail here.  The house is
// found through a static, since a call is given the simulation's own context.
static struct house *failing;

static bool fails_now(struct house *h) { return h->watch_left && --h->watch_left == 0; }

static int poller_set_that_fails(void *context, int poller, int handle, uint32_t events,
                                 void *data) {
  if (events && fails_now(failing)) return failing->watch_result;
  return failing->real->poller_set(context, poller, handle, events, data);
}

static int wait_that_fails(void *context, int poller, struct world_ready *out, int most,
                           uint64_t timeout_ns) {
  if (fails_now(failing)) return failing->watch_result;
  return failing->real->wait(context, poller, out, most, timeout_ns);
}

// A step takes some milliseconds: the next one comes so much later.
static void step(void *context) {
  struct house *h = context;
  if (h->busy || !engine_step(h->engine)) return;
  h->busy = true;
  net_timer_set(h->pace, below(&h->dice, 6));
}

static void step_over(void *context) {
  struct house *h = context;
  h->busy = false;
  step(h);
}

// Called with the engine's lock held: the step comes from the loop.
static void on_work(void *context) {
  struct house *h = context;
  net_loop_post(h->server->loop, step, h);
}

static void attach(void *context) {
  struct house *h = context;
  struct error e = {0};
  if (!server_attach(h->server, model, h->engine, &e)) wrong(h, "attach: %s", e.text);
}

static void on_signal(void *context) { server_stop(((struct house *)context)->server); }

static bool start(struct house *h, const struct world *w, struct work *work, struct error *e) {
  struct server_options o = {.address = "0.0.0.0",
                             .port = PORT,
                             .model_name = "tiny",
                             .max_connections = h->connections,
                             .world = w,
                             .work = work};
  h->server = server_new(&o, e);
  if (!h->server) return false;
  h->fake = (struct fake_model){.vocabulary = vocabulary};
  struct engine_backend backend = fake_backend(&h->fake);
  struct engine_options options = {.context = CONTEXT,
                                   .sequences = 1 + (int)below(&h->dice, 4),
                                   .queue = 1 + (int)below(&h->dice, 30),
                                   .step_tokens = 16 + (int)below(&h->dice, 64),
                                   .cache_bytes = (16 + below(&h->dice, 32)) * backend.page_bytes,
                                   .world = w,
                                   .wake = on_work,
                                   .wake_context = h};
  h->engine = engine_new_backend(&backend, &options, e);
  return h->engine != NULL;
}

// What must hold once server_run has returned: nothing is left open, and the figures add up.
static void check_server(struct house *h) {
  const struct server_metrics *m = &h->server->metrics;
  struct engine_stats stats;
  uint64_t responses = 0, whole = 0, finished = 0;
  int calls = 0, tokens = 0, answered = 0;
  for (int route = 0; route < ROUTE_COUNT; route++)
    for (int i = 0; i < SERVER_STATUSES; i++) responses += m->responses[route][i];
  for (size_t i = 0; i < COUNT_OF(m->whole.counts); i++) finished += m->whole.counts[i];
  for (size_t i = 0; i < COUNT_OF(h->whole); i++) whole += (uint64_t)h->whole[i];
  for (const struct server_call *c = h->server->calls; c; c = c->next) calls++;
  for (int i = 0; i < VARIANTS; i++) {
    tokens += h->answered[i] * variants[i].tokens;
    answered += h->answered[i];
  }
  engine_stats_read(h->engine, &stats);
  if (h->server->open_calls) wrong(h, "%d calls are open", h->server->open_calls);
  if (calls > h->clients) wrong(h, "%d calls for %d clients", calls, h->clients);
  if (h->fake.broken) wrong(h, "engine: %s", h->fake.broken);
  int most =
      h->asked + (h->connections ? h->sessions : 0);  // one too many is told without a question
  if (responses > (uint64_t)most) wrong(h, "%d questions, %d responses", most, (int)responses);
  if (whole > responses) wrong(h, "%d answers seen, %d counted", (int)whole, (int)responses);
  if (stats.generated_tokens < (uint64_t)tokens)
    wrong(h, "%d tokens seen, %d counted", tokens, (int)stats.generated_tokens);
  if (finished < (uint64_t)answered || finished + stats.cancelled > stats.requests)
    wrong(h, "%d answered, %d finished, %d cancelled, %d submitted", answered, (int)finished,
          (int)stats.cancelled, (int)stats.requests);
  if (h->faults || h->rude || h->told_to_stop_early) return;
  if (whole != responses || m->abandoned || stats.cancelled || finished != stats.requests)
    wrong(h, "calm, but %d of %d answers seen, %d gone, %d cancelled", (int)whole, (int)responses,
          (int)m->abandoned, (int)stats.cancelled);
}

// Only a call that the test made to fail is a reason not to start, or to stop.
static void refused(struct house *h, const struct error *e) {
  snprintf(h->refusal, sizeof h->refusal, "%s", e->text);
  if (!h->scripted) wrong(h, "the server ends: %s", e->text);
  if (!e->text[0] || strchr(e->text, '\n')) wrong(h, "not one line: \"%s\"", e->text);
}

static int serve(const struct world *real, void *context) {
  struct house *h = context;
  struct world watched = {&h->calls_table, real->context};
  const struct world *w = h->watch_result ? &watched : real;
  h->real = real->calls;
  h->calls_table = *real->calls;
  failing = h;
  h->calls_table.poller_set = poller_set_that_fails;
  h->calls_table.wait = wait_that_fails;
  struct error e = {0};
  struct work *work = work_new(0, 16, &e);
  if (start(h, w, work, &e)) {
    h->pace = net_timer_new(h->server->loop, step_over, h);
    h->loading = net_timer_new(h->server->loop, attach, h);
    net_timer_set(h->loading, h->loading_ms);
    simulation_handle(real, on_signal, h);
    if (!server_run(h->server, &e)) refused(h, &e);
    simulation_handle(real, NULL, NULL);
    check_server(h);
    net_timer_free(h->pace);
    net_timer_free(h->loading);
  } else {
    refused(h, &e);
  }
  engine_free(h->engine);
  server_free(h->server);
  work_free(work);
  return 0;
}

// ---- judging an answer

static bool has_text(struct house *h, const struct variant *v, const char *text, const char *finish,
                     const char *what) {
  if (text && strcmp(text, buffer_str(&v->text).data) == 0 && finish && !strcmp(finish, v->finish))
    return true;
  wrong(h, "%s: \"%s\" (%s), not \"%s\" (%s)", what, text ? text : "?", finish ? finish : "?",
        buffer_str(&v->text).data, v->finish);
  return false;
}

static bool judge_plain(struct house *h, const struct variant *v, struct str body) {
  json_t *all = json_loadb(body.data, body.length, 0, NULL);
  const json_t *choice = json_array_get(json_object_get(all, "choices"), 0);
  const json_t *usage = json_object_get(all, "usage");
  bool right = has_text(h, v, json_string_value(json_object_get(choice, "text")),
                        json_string_value(json_object_get(choice, "finish_reason")), "completion");
  int tokens = (int)json_integer_value(json_object_get(usage, "completion_tokens"));
  int prompt = (int)json_integer_value(json_object_get(usage, "prompt_tokens"));
  if (tokens != v->tokens || prompt != v->prompt_tokens)
    wrong(h, "usage %d + %d, not %d + %d", prompt, tokens, v->prompt_tokens, v->tokens);
  json_decref(all);
  return right;
}

// One event's JSON.  True: it is an error.
static bool take_event(struct str line, struct buffer *text, char finish[16]) {
  json_t *all = json_loadb(line.data, line.length, 0, NULL);
  const json_t *choice = json_array_get(json_object_get(all, "choices"), 0);
  const char *piece = json_string_value(json_object_get(choice, "text"));
  const char *end = json_string_value(json_object_get(choice, "finish_reason"));
  bool error = !all || json_object_get(all, "error");
  if (piece) buffer_add_text(text, piece);
  if (end) snprintf(finish, 16, "%s", end);
  json_decref(all);
  return error;
}

// False: the stream ended with an error event, which only a server that stops may send.
static bool judge_stream(struct house *h, const struct variant *v, struct str body) {
  struct buffer text = {0};
  char finish[16] = "";
  bool error = false, done = false;
  while (body.length) {
    const char *end = memmem(body.data, body.length, "\n\n", 2);
    struct str event = {body.data, end ? (size_t)(end - body.data) : body.length};
    if (!end || !str_starts(event, STR("data: ")) || done) wrong(h, "a stream is malformed");
    body.data += event.length + (end ? 2 : 0);
    body.length -= event.length + (end ? 2 : 0);
    struct str json = {event.data + 6, event.length < 6 ? 0 : event.length - 6};
    done = str_equal(json, STR("[DONE]"));
    if (!done) error |= take_event(json, &text, finish);
  }
  if (error && !h->told_to_stop) wrong(h, "a stream ended with an error");
  if (!done && !error) wrong(h, "a stream ended without [DONE]");
  bool right = !error && has_text(h, v, buffer_str(&text).data, finish, "stream");
  buffer_clear(&text);
  return right;
}

static bool may_refuse(const struct house *h, const struct question *q, int status) {
  bool needs_model = kinds[q->kind].needs_model;
  if (status == 503)
    return (needs_model && (h->loading_ms || h->told_to_stop)) || h->connections || h->scripted;
  return status == 429 && needs_model;  // the engine's queue is full
}

static void judge(struct client *c, const struct question *q, const struct client_response *r) {
  struct house *h = c->house;
  const struct variant *v = &variants[q->variant];
  h->whole[r->status >= 0 && r->status < 600 ? r->status : 0]++;
  if (r->status != kinds[q->kind].status) {
    if (!may_refuse(h, q, r->status))
      wrong(h, "status %d for %s", r->status, buffer_str(&q->bytes).data);
    return;
  }
  if (q->kind == HEALTH && !str_equal(buffer_str(&r->body), STR("{\"status\":\"ok\"}\n")))
    wrong(h, "health: %s", buffer_str(&r->body).data);
  if (q->kind == COMPLETION || q->kind == CHUNKED)
    h->answered[q->variant] += judge_plain(h, v, buffer_str(&r->body));
  if (q->kind == STREAM) h->answered[q->variant] += judge_stream(h, v, buffer_str(&r->body));
}

// ---- clients

enum manner {
  POLITE,        // one question after the other
  PIPELINED,     // all questions at once, then the answers
  SLOW_WRITER,   // a few bytes at a time
  SLOW_READER,   // likewise
  WAITS_AT_END,  // stays until the server closes the idle connection
  SILENT,        // stops in the midst of a question
  LEAVES,        // closes at some byte of question or answer
  HALF_CLOSES,   // ends its sending half after the questions
  MANNERS
};

static bool is_rude(enum manner manner) { return manner >= SILENT; }

struct session {
  struct client *client;
  struct wire wire;
  enum manner manner;
  struct question questions[QUESTIONS_MAX];
  int count;
};

static bool excused(const struct house *h) {
  return h->faults || h->told_to_stop || h->connections;
}

static void lost(struct session *s, const struct question *q, const char *why) {
  struct house *h = s->client->house;
  h->lost++;
  if (!excused(h) && !is_rude(s->manner))
    wrong(h, "client %d (manner %d): %s, no answer to %s", s->client->index, s->manner, why,
          buffer_str(&q->bytes).data);
}

static bool send_bytes(struct session *s, struct str bytes) {
  uint64_t *dice = &s->client->dice;
  while (bytes.length) {
    size_t part = bytes.length;
    if (s->manner == SLOW_WRITER) {
      part = 1 + below(dice, 200);
      if (part > bytes.length) part = bytes.length;
      world_sleep(s->wire.world, below(dice, 200) * MS);
    }
    if (wire_send(&s->wire, (struct str){bytes.data, part}, WAIT) < part) return false;
    bytes.data += part, bytes.length -= part;
  }
  return true;
}

// False: the connection is over.
static bool read_answer(struct session *s, const struct question *q) {
  struct house *h = s->client->house;
  struct client_response r;
  bool whole = wire_response(&s->wire, q->kind == HEAD, &r, WAIT), closes = true;
  if (whole) {
    judge(s->client, q, &r);
    closes = str_equal(client_header(&r, "connection"), STR("close"));
    if (closes && !kinds[q->kind].closes && !((h->connections || h->scripted) && r.status == 503))
      wrong(h, "status %d closes the connection", r.status);
    if (closes && !wire_is_ended(&s->wire, WAIT) && !excused(h))
      wrong(h, "bytes after an answer that closes");
  } else {
    lost(s, q, s->wire.ended ? "the connection ended" : "the connection broke");
  }
  client_clear(&r);
  return whole && !closes;
}

static void talk(struct session *s) {
  struct house *h = s->client->house;
  bool at_once = s->manner == PIPELINED || s->manner == HALF_CLOSES, open = true;
  for (int i = 0; at_once && i < s->count && open; i++) {
    h->asked++;
    open = send_bytes(s, buffer_str(&s->questions[i].bytes));
  }
  if (s->manner == HALF_CLOSES) world_end_write(s->wire.world, s->wire.handle);
  if (at_once) open = true;  // what was sent may be answered although the rest could not be
  for (int i = 0; i < s->count && open; i++) {
    struct question *q = &s->questions[i];
    if (!at_once) h->asked++;
    if (!at_once && !send_bytes(s, buffer_str(&q->bytes)))
      lost(s, q, "it could not be sent");  // a refusal may be there all the same
    open = read_answer(s, q);
  }
  if (!open) return;
  if (s->wire.in.length) wrong(h, "bytes nobody asked for: %s", s->wire.in.data);
  if (s->manner != WAITS_AT_END) return;
  uint64_t begun = world_monotonic_ns(s->wire.world), took;
  bool ended = wire_is_ended(&s->wire, WAIT);
  took = (world_monotonic_ns(s->wire.world) - begun) / MS;
  if (!excused(h) && (!ended || took < 74000 || took > 76000))
    wrong(h, "an idle connection ended after %d ms", (int)took);
}

// Part of a question and then nothing: 408 after a minute, or an idle end when no byte came.
static void fall_silent(struct session *s) {
  struct house *h = s->client->house;
  struct client_response r;
  const struct question *q = &s->questions[0];
  size_t part = below(&s->client->dice, q->bytes.length);
  if (part) h->asked++;
  wire_send(&s->wire, (struct str){q->bytes.data, part}, WAIT);
  bool head = q->kind == HEAD && part >= strlen("HEAD ");
  bool whole = wire_response(&s->wire, head, &r, WAIT);
  if (whole) h->whole[r.status]++;
  bool refused = r.status == 408 || (kinds[q->kind].closes && r.status == kinds[q->kind].status);
  if (!excused(h) && (part ? !whole || !refused : !s->wire.ended))
    wrong(h, "%zu silent bytes of %s: status %d", part, buffer_str(&q->bytes).data, r.status);
  client_clear(&r);
}

static void leave(struct session *s) {
  struct house *h = s->client->house;
  const struct question *q = &s->questions[0];
  size_t part = below(&s->client->dice, 2 * q->bytes.length);
  if (part > q->bytes.length) part = q->bytes.length;
  if (part) h->asked++;
  wire_send(&s->wire, (struct str){q->bytes.data, part}, WAIT);
  for (uint64_t i = below(&s->client->dice, 4); part == q->bytes.length && i > 0; i--)
    wire_receive(&s->wire, 50 * MS);
}

static void prepare(struct session *s) {
  uint64_t *dice = &s->client->dice;
  s->manner = (enum manner)below(dice, MANNERS);
  s->count = 1 + (int)below(dice, QUESTIONS_MAX);
  for (int i = 0; i < s->count; i++) {
    struct question *q = &s->questions[i];
    q->kind = (enum kind)below(dice, KINDS);
    q->variant = (int)below(dice, VARIANTS);
    if (kinds[q->kind].closes) s->count = i + 1;
    build(q, dice);
  }
  s->client->house->rude |= is_rude(s->manner);
}

static void hold_session(struct client *c, const struct world *w) {
  struct session s = {.client = c};
  struct world_address at[1];
  c->house->sessions++;
  prepare(&s);
  if (world_resolve(w, "server", PORT, at, 1) == 1 && wire_connect(&s.wire, w, at, WAIT)) {
    if (s.manner == SLOW_READER) {  // but not so slow that its connection counts as idle
      s.wire.pause_ns = below(&c->dice, 300) * MS;
      s.wire.most = 60 + below(&c->dice, 500);
    }
    if (s.manner == SILENT)
      fall_silent(&s);
    else if (s.manner == LEAVES)
      leave(&s);
    else
      talk(&s);
  } else {
    lost(&s, &s.questions[0], "no connection");
  }
  wire_close(&s.wire);
  for (int i = 0; i < QUESTIONS_MAX; i++) buffer_clear(&s.questions[i].bytes);
}

static int visit(const struct world *w, void *context) {
  struct client *c = context;
  int sessions = 1 + (int)below(&c->dice, 3);
  world_sleep(w, below(&c->dice, 100) * MS);
  for (int i = 0; i < sessions; i++) {
    hold_session(c, w);
    world_sleep(w, below(&c->dice, 300) * MS);
  }
  return 0;
}

// ---- the whole

static void stop_server(void *context) {
  struct house *h = context;
  h->told_to_stop = true;
  simulation_signal(h->server_process, SIGTERM);
}

static void print_line(void *context, const char *line) {
  (void)context;
  print_message("%s\n", line);
}

// Half of the seeds have a calm network, and half of them stop the server in the midst.
static struct simulation_options choose(struct house *h, bool print) {
  uint64_t *dice = &h->dice;
  struct simulation_options o = {.delay_ns = below(dice, 5 * MS),
                                 .jitter_ns = below(dice, 20 * MS),
                                 .buffer_bytes = 1u << (10 + below(dice, 7)),
                                 .short_ppm = below(dice, 2) ? 300000 : 0,
                                 .print = print ? print_line : NULL};
  h->faults = below(dice, 2);
  if (h->faults) o.reset_ppm = 5000, o.loss_ppm = 20000, o.give_up_ns = 120 * WIRE_SECOND;
  h->connections = below(dice, 8) ? 0 : 1 + (int)below(dice, 3);
  h->loading_ms = below(dice, 4) ? 0 : below(dice, 400);
  h->clients = 1 + (int)below(dice, CLIENTS_MAX);
  return o;
}

// Runs one seed; the hash of its log.
static uint64_t run_seed(uint64_t seed, bool print, struct house *h) {
  struct client clients[CLIENTS_MAX];
  struct world_exit how;
  *h = (struct house){.seed = seed, .dice = seed};
  struct simulation_options options = choose(h, print);
  struct simulation *s = h->simulation = simulation_new(seed, &options);
  struct simulation_machine *server = simulation_machine(s, "server");
  h->server_process = simulation_spawn(server, "server", serve, h);
  for (int i = 0; i < h->clients; i++) {
    char name[16];
    snprintf(name, sizeof name, "c%d", i);
    clients[i] = (struct client){.house = h, .index = i, .dice = seed * 1000 + (uint64_t)i};
    simulation_spawn(simulation_machine(s, name), "client", visit, &clients[i]);
  }
  h->told_to_stop_early = below(&h->dice, 2);
  uint64_t stop_ns = h->told_to_stop_early ? 1 + below(&h->dice, 3 * WIRE_SECOND) : 100 * WAIT;
  simulation_at(s, stop_ns, stop_server, h);
  bool over = simulation_run(s, 100000 * WAIT);
  if (!over) wrong(h, "something goes on for ever");
  if (!simulation_ended(h->server_process, &how)) wrong(h, "the server did not end");
  uint64_t hash = simulation_log_hash(s);
  h->calls = simulation_calls(s);
  h->fault_count = simulation_faults(s);
  simulation_free(s);
  return hash;
}

static void open_model(void) {
  char path[64];
  struct error e = {0};
  snprintf(path, sizeof path, "/tmp/motley-simulated-%d.gguf", (int)getpid());
  struct test_model_options o = {
      .seed = 3,
      .context = CONTEXT,
      .chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"};
  device = device_open("cpu", &(struct device_options){1}, &e);
  kernel = kernel_context_new(device, KERNEL_ISA_AUTO, &e);
  assert_true(test_model_write(path, &o));
  model = model_open(path, NULL, kernel, &e);
  unlink(path);
  if (!model) fail_msg("%s", e.text);
  vocabulary = model_config(model)->vocabulary;
}

static void close_model(void) {
  model_free(model);
  kernel_context_free(kernel);
  device_close(device);
  for (int i = 0; i < VARIANTS; i++) {
    buffer_clear(&variants[i].plain);
    buffer_clear(&variants[i].streamed);
    buffer_clear(&variants[i].text);
  }
}

// ---- the tests

static long number_of(const char *name, long instead) {
  const char *text = getenv(name);
  return text && text[0] ? strtol(text, NULL, 10) : instead;
}

// Each 20th seed runs twice, to compare the hashes.
static void every_seed_keeps_the_rules(void **state) {
  (void)state;
  long one = number_of("SEED", -1), seeds = number_of("SEEDS", SEEDS_DEFAULT);
  uint64_t first = one >= 0 ? (uint64_t)one : 1, last = one >= 0 ? first : (uint64_t)seeds;
  uint64_t asked = 0, answered = 0, lost = 0, bad = 0, calls = 0, faults = 0;
  for (uint64_t seed = first; seed <= last; seed++) {
    static struct house h;
    uint64_t hash = run_seed(seed, one >= 0, &h);
    for (size_t i = 0; i < COUNT_OF(h.whole); i++) answered += (uint64_t)h.whole[i];
    asked += (uint64_t)h.asked, lost += (uint64_t)h.lost;
    calls += h.calls, faults += h.fault_count;
    if (h.failure[0]) print_message("seed %d: %s\n", (int)seed, h.failure), bad++;
    if (seed % 20 == 0 && run_seed(seed, false, &h) != hash)
      print_message("seed %d: two runs differ\n", (int)seed), bad++;
  }
  print_message("%d seeds: %d questions, %d answers, %d lost, %d faults, %d world calls\n",
                (int)(last - first + 1), (int)asked, (int)answered, (int)lost, (int)faults,
                (int)calls);
  assert_int_equal(bad, 0);
  assert_true(answered > asked / 3);
}

static int visit_once(const struct world *w, void *context) {
  struct client *c = context;
  struct session s = {.client = c, .count = 3};
  struct world_address at[1];
  static const enum kind asked[] = {HEALTH, STREAM, COMPLETION};
  world_sleep(w, 50 * MS);
  for (int i = 0; i < s.count; i++) {
    s.questions[i] = (struct question){.kind = asked[i], .variant = 3};
    build(&s.questions[i], &c->dice);
  }
  if (world_resolve(w, "server", PORT, at, 1) == 1 && wire_connect(&s.wire, w, at, WAIT)) talk(&s);
  wire_close(&s.wire);
  for (int i = 0; i < s.count; i++) buffer_clear(&s.questions[i].bytes);
  return 0;
}

// A whole run in which one call of the server fails.  False: there was no such call any more.
static bool run_with_fault(uint64_t nth, int result, bool watch, struct house *h) {
  struct world_exit how;
  *h = (struct house){.dice = 1, .faults = true, .scripted = true, .clients = 1};
  struct simulation *s = h->simulation = simulation_new(1, NULL);
  struct simulation_machine *server = simulation_machine(s, "server");
  struct client client = {.house = h, .dice = 1};
  if (watch)
    h->watch_left = nth, h->watch_result = result;
  else
    simulation_fail(server, SIMULATION_ANY, nth, result);
  h->server_process = simulation_spawn(server, "server", serve, h);
  simulation_spawn(simulation_machine(s, "c0"), "client", visit_once, &client);
  simulation_at(s, 100 * WIRE_SECOND, stop_server, h);
  if (!simulation_run(s, 100000 * WAIT)) wrong(h, "something goes on for ever");
  if (!simulation_ended(h->server_process, &how) || how.status != 0 || how.signal)
    wrong(h, "the server did not end well");
  bool came = watch ? h->watch_left == 0 : !simulation_fail_waits(server);
  simulation_free(s);
  return came;
}

// The 1st, 2nd, 3rd … call of start-up and three requests fails: the server says one line, or goes
// on and answers what it can.  Nothing is lost of memory or handles (the sanitizers look).
static void every_call_may_fail(void **state) {
  (void)state;
  static const int results[] = {-EMFILE, -ENOMEM, -ECONNRESET, -EPIPE, -EADDRINUSE, -EIO};
  static struct house h;
  int points = 0, refusals = 0;
  for (int watch = 0; watch < 2; watch++) {
    for (size_t i = 0; i < COUNT_OF(results); i++) {
      for (uint64_t nth = 1; run_with_fault(nth, results[i], watch, &h); nth++) {
        points++;
        refusals += h.refusal[0] != 0;
        if (h.failure[0])
          fail_msg("%s %d failing with %d: %s", watch ? "watch" : "call", (int)nth, results[i],
                   h.failure);
      }
      assert_int_equal(h.whole[200], 3);  // the last run: nothing failed
    }
  }
  print_message("%d calls made to fail, %d times the server gave up in one line\n", points,
                refusals);
  assert_true(points > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_seed_keeps_the_rules),
      cmocka_unit_test(every_call_may_fail),
  };
  open_model();
  make_variants();
  int failed = cmocka_run_group_tests_name("server, simulated", tests, NULL, NULL);
  close_model();
  return failed;
}
