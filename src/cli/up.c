// SPDX-License-Identifier: Apache-2.0
//
// up.c: `motley up`: server, page and model in one go.
//
// The port is bound first, so a busy one is told before a model is read; the model is loaded on a
// second thread while the loop already answers /healthz with 503 "loading".

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "base/world.h"
#include "cli/cli.h"
#include "server/server.h"

struct up {
  struct cli_model_options model_options;
  const char *host, *api_key;
  const char *name;  // of the model in the API; NULL = as it is listed
  int64_t port;
  struct server *server;
  struct cli_runtime runtime;
  struct error error;  // of the loading thread
  atomic_bool loaded, failed;
};

// The one thing a signal handler can reach: written before the handlers are installed, cleared
// after they are reset.
static struct server *volatile signalled_server;

static void on_signal(int number) {
  if (signalled_server) server_stop(signalled_server);
  signal(number, SIG_DFL);  // a second Ctrl-C ends the program at once
}

// A log that nobody takes does not keep the server from serving: what cannot be said is dropped.
static void print_ready(const struct up *u) {
  const char *host = strcmp(u->host, "0.0.0.0") == 0 ? "127.0.0.1" : u->host;
  int port = server_port(u->server);
  bool v6 = strchr(host, ':') != NULL;
  char at[80];
  snprintf(at, sizeof at, "http://%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "", port);
  printf("\nMotley serves %s\n\n  Page   %s/\n  API    %s/v1\n\nTry:\n\n", u->runtime.name, at, at);
  printf("  curl %s/v1/chat/completions -H 'Content-Type: application/json'%s%s%s \\\n", at,
         u->api_key ? " -H 'Authorization: Bearer " : "", u->api_key ? "YOUR_KEY" : "",
         u->api_key ? "'" : "");
  printf(
      "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Why is the sky blue?\"}],"
      "\"temperature\":0.2}'\n\n");
  printf("Stop with Ctrl-C%s\n", isatty(STDOUT_FILENO) ? "." : " or kill -TERM.");
  if (fflush(stdout) == 0) return;
  __fpurge(stdout);
  clearerr(stdout);
}

static bool load(struct up *u) {
  return cli_runtime_open(&u->model_options, &u->runtime, &u->error) &&
         engine_start(u->runtime.engine, &u->error) &&
         server_attach(u->server, u->runtime.model, u->runtime.engine, &u->error);
}

static void *load_thread(void *argument) {
  struct up *u = argument;
  if (load(u)) {
    atomic_store(&u->loaded, true);
    print_ready(u);
  } else {
    atomic_store(&u->failed, true);
    server_stop(u->server);
  }
  return NULL;
}

// Whoever stops a program that is still reading gigabytes does not wait for the rest of them: a
// loading thread cannot be called off, but it has nothing that an end of the process would spoil.
static bool run(struct up *u, struct error *e) {
  pthread_t loader;
  struct sigaction action = {.sa_handler = on_signal};
  signalled_server = u->server;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  int refused = pthread_create(&loader, NULL, load_thread, u);
  if (refused) return error_set_errno(e, refused, "cannot start a thread to load the model");
  bool done = server_run(u->server, e);
  if (done && !atomic_load(&u->loaded) && !atomic_load(&u->failed)) _exit(0);
  pthread_join(loader, NULL);
  if (done && atomic_load(&u->failed)) {
    *e = u->error;
    done = false;
  }
  return done;
}

static bool start_server(struct up *u, struct error *e) {
  if (u->name) snprintf(u->runtime.name, sizeof u->runtime.name, "%s", u->name);
  struct server_options options = {.address = u->host,
                                   .port = (int)u->port,
                                   .api_key = u->api_key,
                                   .model_name = u->runtime.name,
                                   .world = world_real()};
  u->server = server_new(&options, e);
  return u->server != NULL;
}

static int up_main(const struct cli_command *self, int argc, char **argv) {
  struct up u = {.host = "127.0.0.1", .port = 8080};
  struct cli_model_options *m = &u.model_options;
  const struct cli_option options[] = {
      {"host", 0, CLI_TEXT, "ADDRESS",
       "address to listen on (default 127.0.0.1, localhost; 0.0.0.0 = all)", &u.host, 0, 0},
      {"port", 'p', CLI_INTEGER, "N", "port (default 8080; 0 = any free one)", &u.port, 0, 65535},
      {"name", 0, CLI_TEXT, "NAME", "name of the model in the API", &u.name, 0, 0},
      {"api-key", 0, CLI_TEXT, "KEY", "ask clients for this key", &u.api_key, 0, 0},
      {"context", 'c', CLI_INTEGER, "N", "longest sequence in tokens", &m->context, 16, 1 << 24},
      {"parallel", 0, CLI_INTEGER, "N", "sequences in one batch (default 16)", &m->sequences, 1,
       512},
      {"cache", 0, CLI_NUMBER, "GIB", "memory for the KV cache", &m->cache_gib, 0.001, 4096},
      {"threads", 't', CLI_INTEGER, "N", "threads that compute", &m->threads, 1, POOL_THREADS_MAX},
      {"isa", 0, CLI_TEXT, "NAME", "force portable, avx2 or avx512", &m->isa, 0, 0},
      {"tokenizer", 0, CLI_TEXT, "FILE", "tokenizer of a llama2.c model", &m->tokenizer, 0, 0},
      CLI_OPTION_END};
  struct cli_parsed parsed;
  int stop = cli_parse(self, options, 0, 1, argc, argv, &parsed);
  if (stop) return stop - 1;
  m->model = parsed.count ? parsed.positional[0] : NULL;
  if (strcmp(u.host, "localhost") == 0) u.host = "127.0.0.1";

  struct error e = {0};
  bool done = cli_runtime_resolve(m, &u.runtime, &e) && start_server(&u, &e) && run(&u, &e);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signalled_server = NULL;
  server_free(u.server);
  cli_runtime_close(&u.runtime);
  return done ? 0 : cli_fail(&e);
}

const struct cli_command cli_up = {
    "up",
    "serve a model: API, page and engine in one process",
    "motley up [MODEL] [options]",
    "motley up\nmotley up smollm2-135m-instruct --port 8081 --parallel 32",
    up_main,
    NULL};
