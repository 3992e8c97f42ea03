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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/world.h"
#include "cli/cli.h"
#include "server/server.h"

struct up {
  struct cli_model_options model_options;
  const char *host;
  const char *api_key, *api_key_file;  // as given on the command line
  const char *key_for, *cors;
  const char *log, *log_format;
  struct buffer key;  // empty = open
  const char *name;   // of the model in the API; NULL = as it is listed
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
         u->key.length ? " -H 'Authorization: Bearer " : "", u->key.length ? "YOUR_KEY" : "",
         u->key.length ? "'" : "");
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

// ---- the key

#define KEY_BYTES 4096  // a key of a person or of a generator is far shorter

// A header can carry it: visible characters only.
static bool check_key(const struct buffer *key, const char *source, struct error *e) {
  bool good = key->length > 0 && key->length <= KEY_BYTES;
  for (size_t i = 0; i < key->length; i++) good &= key->data[i] > ' ' && key->data[i] < 0x7f;
  return good || error_set(e, ERROR_INPUT,
                           "the key of %s must be 1 to %d visible ASCII characters without blanks",
                           source, KEY_BYTES);
}

// The first line, so that an editor's newline at the end does no harm.
static bool read_key_file(struct up *u, struct error *e) {
  struct buffer text = {0};
  if (!file_read(world_real(), u->api_key_file, KEY_BYTES + 2, &text, e))
    return error_prefix(e, "--api-key-file");
  struct str line = buffer_str(&text);
  const char *end = line.length ? memchr(line.data, '\n', line.length) : NULL;
  if (end) line.length = (size_t)(end - line.data);
  buffer_add_str(&u->key, str_trim(line));
  memset(text.data ? text.data : (char[]){0}, 0, text.length);
  buffer_clear(&text);
  return check_key(&u->key, "--api-key-file", e);
}

// One of three places.  What stood on the command line is wiped there: ps and /proc show it to
// everybody on the machine.
static bool take_key(struct up *u, struct error *e) {
  const char *environment = getenv("MOTLEY_API_KEY");
  if (u->api_key) {
    buffer_add_text(&u->key, u->api_key);
    memset((char *)(uintptr_t)u->api_key, '*', strlen(u->api_key));
    return check_key(&u->key, "--api-key", e);
  }
  if (u->api_key_file) return read_key_file(u, e);
  if (!environment && u->key_for)
    return error_set(e, ERROR_INPUT,
                     "--key-for %s closes nothing, for there is no key: give one with "
                     "--api-key-file or the variable MOTLEY_API_KEY",
                     u->key_for);
  if (!environment) return true;
  buffer_add_text(&u->key, environment);
  return check_key(&u->key, "the variable MOTLEY_API_KEY", e);
}

// ---- words of options

static const char *const key_scopes[] = {"api", "metrics", "all"};  // enum server_key_scope

static int find_word(const char *const *words, int count, const char *word) {
  for (int i = 0; i < count; i++)
    if (strcmp(words[i], word) == 0) return i;
  return -1;
}

// 0, or the status of a wrong call.
static int check_words(const struct cli_command *self, const struct up *u) {
  if (u->api_key && u->api_key_file)
    return cli_misuse(self, "--api-key and --api-key-file both give a key; give one");
  if (u->key_for && find_word(key_scopes, COUNT_OF(key_scopes), u->key_for) < 0)
    return cli_misuse(self, "--key-for %s: give api, metrics or all", u->key_for);
  return cli_set_log(self, u->log, u->log_format);
}

static bool start_server(struct up *u, struct error *e) {
  if (u->name) snprintf(u->runtime.name, sizeof u->runtime.name, "%s", u->name);
  struct server_options options = {.address = u->host,
                                   .port = (int)u->port,
                                   .api_key = u->key.length ? u->key.data : NULL,
                                   .cors = u->cors,
                                   .model_name = u->runtime.name,
                                   .world = world_real()};
  int scope = u->key_for ? find_word(key_scopes, COUNT_OF(key_scopes), u->key_for) : 0;
  options.key_for = (enum server_key_scope)scope;
  u->server = server_new(&options, e);
  return u->server != NULL;
}

static int up_main(const struct cli_command *self, int argc, char **argv) {
  struct up u = {.host = "127.0.0.1", .port = 8080};
  struct cli_model_options *m = &u.model_options;
  struct cli_option model_rows[CLI_MODEL_ROWS];
  cli_model_rows(m, true, model_rows);
  const struct cli_option options[] = {
      {"host", 0, CLI_TEXT, "ADDRESS",
       "address to listen on (default 127.0.0.1, localhost; 0.0.0.0 = all)", &u.host, 0, 0},
      {"port", 'p', CLI_INTEGER, "N", "port (default 8080; 0 = any free one)", &u.port, 0, 65535},
      {"name", 0, CLI_TEXT, "NAME", "name of the model in the API", &u.name, 0, 0},
      {"api-key-file", 0, CLI_TEXT, "FILE",
       "ask clients for the key in the first line of this file", &u.api_key_file, 0, 0},
      {"api-key", 0, CLI_TEXT, "KEY",
       "ask clients for this key (a file or MOTLEY_API_KEY is safer: ps shows this one at first)",
       &u.api_key, 0, 0},
      {"key-for", 0, CLI_TEXT, "WHAT",
       "what needs the key: api (default: /v1 and /api), metrics (/metrics too), all", &u.key_for,
       0, 0},
      {"cors", 0, CLI_TEXT, "ORIGIN",
       "let web pages of this origin use the API, such as https://app.example.org\n"
       "                             (several with commas; * = every page; default: none)",
       &u.cors, 0, 0},
      {"log", 0, CLI_TEXT, "LEVEL",
       "debug, info (a line a request), warning (default), error or off; on stderr", &u.log, 0, 0},
      {"log-format", 0, CLI_TEXT, "FORM", "text (default) or json", &u.log_format, 0, 0},
      {"parallel", 0, CLI_INTEGER, "N", "sequences in one batch (default 16)", &m->sequences, 1,
       512},
      CLI_OPTION_MORE(model_rows)};
  struct cli_parsed parsed;
  int stop = cli_parse(self, options, 0, 1, argc, argv, &parsed);
  if (stop) return stop - 1;
  m->model = parsed.count ? parsed.positional[0] : NULL;
  if (strcmp(u.host, "localhost") == 0) u.host = "127.0.0.1";
  stop = check_words(self, &u);
  if (stop) return stop;

  struct error e = {0};
  bool done = take_key(&u, &e) && cli_runtime_resolve(m, &u.runtime, &e) && start_server(&u, &e) &&
              run(&u, &e);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signalled_server = NULL;
  server_free(u.server);
  cli_runtime_close(&u.runtime);
  buffer_clear(&u.key);
  return done ? 0 : cli_fail(&e);
}

const struct cli_command cli_up = {
    "up",
    "serve a model: API, page and engine in one process",
    "motley up [MODEL] [options]",
    "motley up\nmotley up smollm2-135m-instruct --port 8081 --parallel 32 --log info",
    up_main,
    "Without --key-for, a server with a key still shows /, /healthz and /metrics to everybody.\n"
    "MOTLEY_LOG and MOTLEY_LOG_FORMAT are what --log and --log-format are when they are not "
    "given."};
