// SPDX-License-Identifier: Apache-2.0
//
// server_fixture.h: a whole server with a small random model behind it, for the tests of
// src/server.
//
// The model is test/support/test_model.h's; the engine runs in its own thread and the loop in
// another.  Everything is asked over sockets, as a client would.
#pragma once

#include "support/check.h"

#include <jansson.h>
#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/threads.h"
#include "server/server.h"
#include "support/client.h"
#include "support/test_model.h"

struct fixture {
  struct device *device;
  struct kernel_context *kernel;
  struct model *model;
  struct engine *engine;
  struct server *server;
  pthread_t thread;
  int port;
};

// \n and quotes only: JSON's own escapes stay out of the way of the tests.
#define TEMPLATE                                                                           \
  "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"                     \
  "{% if messages[0].content == 'refuse' %}{{ raise_exception('no: refuse') }}{% endif %}" \
  "{% if messages[0].content == 'slow' %}"                                                 \
  "{% for i in range(60) %}{% for j in range(1000) %}{% endfor %}{% endfor %}{% endif %}"

static void open_model(struct fixture *f, int context) {
  char path[64];
  struct error e = {0};
  snprintf(path, sizeof path, "/tmp/motley-server-%d.gguf", (int)getpid());
  struct test_model_options o = {.seed = 3, .context = context, .chat_template = TEMPLATE};
  assert_true(test_model_write(path, &o));
  f->device = device_open("cpu", &(struct device_options){1}, &e);
  f->kernel = kernel_context_new(f->device, KERNEL_ISA_AUTO, &e);
  f->model = model_open(path, NULL, f->kernel, &e);
  unlink(path);
  if (!f->model) fail_msg("%s", e.text);
}

static void *run_server(void *context) {
  struct error e;
  return server_run(context, &e) ? NULL : context;
}

static void start_unattached(struct fixture *f, const struct server_options *options) {
  struct error e = {0};
  struct server_options o = options ? *options : (struct server_options){0};
  if (!o.address) o.address = "127.0.0.1";
  o.model_name = "tiny/1";
  o.world = world_real();
  *f = (struct fixture){0};
  f->server = server_new(&o, &e);
  if (!f->server) fail_msg("%s", e.text);
  f->port = server_port(f->server);
  pthread_create(&f->thread, NULL, run_server, f->server);
}

static void attach(struct fixture *f, int context, const struct engine_options *engine) {
  struct error e = {0};
  open_model(f, context);
  struct engine_options o = engine ? *engine : (struct engine_options){0};
  o.world = world_real();
  f->engine = engine_new(f->model, &o, &e);
  if (!f->engine) fail_msg("%s", e.text);
  assert_true(engine_start(f->engine, &e));
  assert_true(server_attach(f->server, f->model, f->engine, &e));
}

static void start(struct fixture *f) {
  start_unattached(f, NULL);
  attach(f, 256, NULL);
}

static void stop(struct fixture *f) {
  void *failed;
  server_stop(f->server);
  pthread_join(f->thread, &failed);
  assert_null(failed);
  engine_free(f->engine);
  server_free(f->server);
  model_free(f->model);
  kernel_context_free(f->kernel);
  device_close(f->device);
}

// ---- asking

static void make_request(struct buffer *out, const char *method, const char *path,
                         const char *headers, const char *body) {
  buffer_print(out, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path, headers);
  if (body) buffer_print(out, "Content-Length: %zu\r\n", strlen(body));
  buffer_print(out, "\r\n%s", body ? body : "");
}

static int ask(struct fixture *f, const char *method, const char *path, const char *headers,
               const char *body, struct client_response *r) {
  struct buffer request = {0};
  make_request(&request, method, path, headers, body);
  int status = client_once(f->port, buffer_str(&request), r);
  buffer_clear(&request);
  return status;
}

// The answer as JSON; new reference, NULL when it is none.
static json_t *ask_json(struct fixture *f, const char *method, const char *path, const char *body,
                        int status) {
  struct client_response r;
  json_error_t e;
  int got = ask(f, method, path, "", body, &r);
  if (got != status)
    fail_msg("%d, not %d, for %s %s: %s", got, status, path, body ? body : "",
             r.body.data ? r.body.data : "");
  assert_true(r.body.length > 1 && r.body.data[r.body.length - 1] == '\n');
  json_t *answer = json_loadb(buffer_str(&r.body).data, r.body.length, JSON_DECODE_ANY, &e);
  client_clear(&r);
  return answer;
}

// Walks "choices.0.message.content".
static json_t *at(const json_t *value, const char *path) {
  char part[64];
  while (value && *path) {
    size_t length = strcspn(path, ".");
    snprintf(part, sizeof part, "%.*s", (int)length, path);
    path += length + (path[length] == '.');
    value = json_is_array(value) ? json_array_get(value, (size_t)atoi(part))
                                 : json_object_get(value, part);
  }
  return (json_t *)value;
}

static const char *text_at(const json_t *value, const char *path) {
  const char *text = json_string_value(at(value, path));
  return text ? text : "(no text)";
}

static int number_at(const json_t *value, const char *path) {
  return (int)json_integer_value(at(value, path));
}
