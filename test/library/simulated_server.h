// SPDX-License-Identifier: Apache-2.0
//
// simulated_server.h: the models that tests pull in a simulated world, and the file server that has
// them: an honest one, or one that does what bad servers do, by dice.
//
//   http://files/<name>          a file of the table `served`, in its present version
//   http://files/api/models/…    the hub's list of files
//   http://files/moved/<name>    302 to the file
//
// Each file has VERSIONS versions; a server that is not honest changes them as it likes.  It hangs
// up, stalls, dawdles, lies about lengths and ranges, refuses, or sends rubbish.  Two rules keep
// the tests' promise possible: a body comes whole from one version, and bytes are changed only
// where the client has a digest to see it.
#pragma once

#include "support/check.h"

#include <errno.h>
#include <zlib.h>

#include "base/file.h"
#include "base/simulation.h"
#include "library/internal.h"
#include "support/test_model.h"

#define VERSIONS 3
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum served_file { PLAIN, SUM, PACK, HUB, PIPED, RIVAL, SERVED };

struct served {
  const char *name;    // on the server
  const char *inside;  // the model's name in the archive, NULL = the file is the model
  bool has_digest;     // the client knows it before
};
static const struct served served[SERVED] = {
    [PLAIN] = {"plain.gguf", NULL, false},
    [SUM] = {"sum.gguf", NULL, true},
    [PACK] = {"pack.whl", "pack/Packed.Q8_0.gguf", false},
    [HUB] = {"hub.gguf", NULL, true},
    [PIPED] = {"llm_sim-1.0-py3-none-any.whl", "llm_sim/Piped.gguf", true},
    [RIVAL] = {"other/plain.gguf", NULL, false},
};

// Made once: the bytes that are served, and the digests of them and of the models in them.
struct content {
  struct buffer file;
  char file_digest[65], model_digest[65];
};
static struct content contents[SERVED][VERSIONS];

// ---- the files

static void add_le(struct buffer *b, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) buffer_add_char(b, (char)(value >> (8 * i)));
}

// A zip file with one stored entry, as zipfile would write it.
static void make_archive(const char *name, const struct buffer *model, struct buffer *out) {
  uint32_t crc = (uint32_t)crc32_z(0, (const uint8_t *)model->data, model->length);
  size_t n = strlen(name);
  struct buffer middle = {0};  // what both headers have: method … size, length of the name
  add_le(&middle, 20, 2), add_le(&middle, 0, 2), add_le(&middle, 0, 2), add_le(&middle, 0, 4);
  add_le(&middle, crc, 4), add_le(&middle, model->length, 4), add_le(&middle, model->length, 4);
  add_le(&middle, n, 2), add_le(&middle, 0, 2);
  add_le(out, 0x04034b50, 4);
  buffer_add_str(out, buffer_str(&middle));
  buffer_add_text(out, name);
  buffer_add_str(out, buffer_str(model));
  size_t directory = out->length;
  add_le(out, 0x02014b50, 4), add_le(out, 20, 2);
  buffer_add_str(out, buffer_str(&middle));
  add_le(out, 0, 2), add_le(out, 0, 2), add_le(out, 0, 2), add_le(out, 0, 4), add_le(out, 0, 4);
  buffer_add_text(out, name);
  size_t size = out->length - directory;
  add_le(out, 0x06054b50, 4), add_le(out, 0, 4), add_le(out, 1, 2), add_le(out, 1, 2);
  add_le(out, size, 4), add_le(out, directory, 4), add_le(out, 0, 2);
  buffer_clear(&middle);
}

static void make_contents(void) {
  for (int f = 0; f < SERVED; f++)
    for (int v = 0; v < VERSIONS; v++) {
      struct content *c = &contents[f][v];
      struct buffer model = {0};
      test_model_build(&(struct test_model_options){.seed = (uint64_t)(f * VERSIONS + v + 1),
                                                    .layers = 1,
                                                    .width = 32,
                                                    .ffn_width = 32 + 32 * v,
                                                    .vocabulary = 292 + 3 * v,
                                                    .dtype = KERNEL_Q8_0},
                       &model);
      library_sha256(model.data, model.length, c->model_digest);
      if (served[f].inside)
        make_archive(served[f].inside, &model, &c->file);
      else
        buffer_add_str(&c->file, buffer_str(&model));
      library_sha256(c->file.data, c->file.length, c->file_digest);
      buffer_clear(&model);
    }
}

static void drop_contents(void) {
  for (int f = 0; f < SERVED; f++)
    for (int v = 0; v < VERSIONS; v++) buffer_clear(&contents[f][v].file);
}

// ---- the server

enum mood {  // what one answer does
  WELL,
  HANGS_UP,  // in the midst of the body
  HANGS_UP_AT_ONCE,
  STALLS,       // in the midst of the body, for ever
  DAWDLES,      // a piece every now and then
  CLAIMS_MORE,  // a length that is too large
  CLAIMS_LESS,
  NO_LENGTH,  // the body ends with the connection, perhaps early
  NO_RANGES,
  SHORT_RANGE,  // less than was asked for, said so
  OTHER_RANGE,  // from another place, said so
  CARELESS,     // a range although the version is another one; its ETag tells
  DAMAGES,      // a byte is wrong
  TROUBLE,      // 503
  REFUSES,      // 404
  MOVED,        // 302 to the same file
  RUBBISH,      // no HTTP at all
  MOODS
};

struct file_server {
  uint64_t dice;
  bool honest;
  int version[SERVED];
  uint64_t requests;
};

#define PADDING_MAX 64  // a file that lacks no more than its last padding would still be a model
#define CONNECTIONS_MAX 16
struct connection {
  int handle;  // -1 = free
  struct buffer in, out;
  size_t sent, stop_at;    // bytes of `out`; at stop_at nothing more is sent
  bool answers, hangs_up;  // the latter at stop_at; else it waits for the client to go
  size_t piece;
  uint64_t pause_ns, next_ns;
};

static uint64_t roll(struct file_server *f, uint64_t sides) {
  return random_next(&f->dice) % sides;
}

static enum mood choose_mood(struct file_server *f, enum served_file file) {
  if (f->honest || roll(f, 2)) return WELL;
  enum mood mood = roll(f, 4) ? (enum mood)roll(f, MOODS) : DAWDLES;
  return mood == DAMAGES && !served[file].has_digest ? HANGS_UP : mood;
}

// The hub's list, with one model in it and its digest.
static void answer_list(const struct file_server *f, struct connection *c) {
  const struct content *content = &contents[HUB][f->version[HUB]];
  struct buffer body = {0};
  buffer_print(&body,
               "[{\"type\":\"file\",\"path\":\"README.md\",\"size\":5},"
               "{\"type\":\"file\",\"path\":\"hub.gguf\",\"size\":%zu,\"lfs\":{\"oid\":\"%s\"}}]",
               content->file.length, content->file_digest);
  buffer_print(&c->out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", body.length, body.data);
  buffer_clear(&body);
}

// The value of a header of the request, as text; "" when it is not there.
static void header_of(const struct connection *c, const char *name, char out[100]) {
  const char *at = strcasestr(c->in.data, name);
  const char *end = at ? strstr(at, "\r\n") : NULL;
  out[0] = 0;
  if (end) snprintf(out, 100, "%.*s", (int)(end - at - (long)strlen(name)), at + strlen(name));
}

struct answer {
  enum mood mood;
  struct str whole;  // of the version
  uint64_t from, to;
  bool partial;
  char etag[16];
};

// The head and body of a file's answer.
static void answer_file(struct file_server *f, struct connection *c, const struct answer *a) {
  size_t length = a->to - a->from, claimed = length;
  if (a->mood == CLAIMS_MORE) claimed += 1 + roll(f, 100);
  if (a->mood == CLAIMS_LESS && length > 200) claimed -= PADDING_MAX + roll(f, 100);
  buffer_print(&c->out, "HTTP/1.1 %s\r\nETag: %s\r\n", a->partial ? "206 Partial" : "200 OK",
               a->etag);
  if (a->partial)
    buffer_print(&c->out, "Content-Range: bytes %zu-%zu/%zu\r\n", (size_t)a->from,
                 (size_t)a->to - 1, a->whole.length);
  if (a->mood == NO_LENGTH)
    buffer_add_text(&c->out, "Connection: close\r\n\r\n");
  else
    buffer_print(&c->out, "Content-Length: %zu\r\n\r\n", claimed);
  size_t head = c->out.length;
  buffer_add(&c->out, a->whole.data + a->from, length);
  c->stop_at = c->out.length;
  bool cut = a->mood == HANGS_UP || a->mood == STALLS || (a->mood == NO_LENGTH && roll(f, 2));
  if (cut) c->stop_at = head + roll(f, length > PADDING_MAX ? length - PADDING_MAX : 1);
  if (a->mood == DAMAGES && length) c->out.data[head + roll(f, length)] ^= 1;
}

static void answer_range(struct file_server *f, struct connection *c, enum served_file file,
                         enum mood mood) {
  char range[100], condition[100];
  struct answer a = {.mood = mood, .whole = buffer_str(&contents[file][f->version[file]].file)};
  unsigned long long from = 0;
  snprintf(a.etag, sizeof a.etag, "\"v%d\"", f->version[file]);
  header_of(c, "\r\nRange: bytes=", range);
  header_of(c, "\r\nIf-Range: ", condition);
  bool same = !condition[0] || strcmp(condition, a.etag) == 0 || mood == CARELESS;
  a.partial = range[0] && same && mood != NO_RANGES && sscanf(range, "%llu", &from) == 1;
  a.from = a.partial ? from : 0;
  a.to = a.whole.length;
  if (a.from >= a.to && a.partial) {
    buffer_print(&c->out,
                 "HTTP/1.1 416 No\r\nContent-Range: bytes */%zu\r\nContent-Length: 0\r\n\r\n",
                 a.whole.length);
    return;
  }
  if (a.partial && mood == SHORT_RANGE) a.to = a.from + 1 + roll(f, a.to - a.from);
  if (a.partial && mood == OTHER_RANGE) a.from = roll(f, a.to);
  answer_file(f, c, &a);
}

static void answer(struct file_server *f, struct connection *c) {
  char path[200] = "";
  sscanf(c->in.data, "GET /%199s", path);
  const char *hub = strstr(path, "/resolve/main/");
  const char *name = strncmp(path, "moved/", 6) == 0 ? path + 6 : hub ? hub + 14 : path;
  int file = 0;
  while (file < SERVED && strcmp(served[file].name, name) != 0) file++;
  f->requests++;
  if (!f->honest && roll(f, 8) == 0) f->version[roll(f, SERVED)] = (int)roll(f, VERSIONS);
  enum mood mood = choose_mood(f, file < SERVED ? (enum served_file)file : PLAIN);
  c->answers = c->hangs_up = true;
  c->piece = SIZE_MAX;
  c->stop_at = SIZE_MAX;
  if (name == path + 6) mood = MOVED;
  if (mood == TROUBLE) buffer_add_text(&c->out, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
  if (mood == REFUSES) buffer_add_text(&c->out, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
  if (mood == RUBBISH) buffer_add_text(&c->out, "220 mail ready\r\n");
  if (mood == MOVED)
    buffer_print(&c->out, "HTTP/1.1 302 Found\r\nLocation: /%s\r\nContent-Length: 0\r\n\r\n", name);
  if (c->out.length || mood == HANGS_UP_AT_ONCE) return;
  if (strncmp(path, "api/models/", 11) == 0) return answer_list(f, c);
  if (file == SERVED) {
    buffer_add_text(&c->out, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    return;
  }
  answer_range(f, c, (enum served_file)file, mood);
  c->hangs_up = mood != STALLS;
  if (mood != DAWDLES) return;
  c->piece = 500 + roll(f, 3000);
  c->pause_ns = (1 + roll(f, 1500)) * MS;
}

static void drop_connection(const struct world *w, int poller, struct connection *c) {
  world_poller_set(w, poller, c->handle, 0, NULL);
  world_close(w, c->handle);
  buffer_clear(&c->in);
  buffer_clear(&c->out);
  *c = (struct connection){.handle = -1};
}

// Reads the request; false when the client is gone.
static bool hear(const struct world *w, struct file_server *f, struct connection *c) {
  char piece[1000];
  int64_t n;
  while ((n = world_read(w, c->handle, piece, sizeof piece)) > 0)
    if (!c->answers) buffer_add(&c->in, piece, (size_t)n);
  if (n != -EAGAIN) return false;
  if (!c->answers && c->in.length && strstr(c->in.data, "\r\n\r\n")) answer(f, c);
  return true;
}

// Sends what is due; false when the answer is over.
static bool speak(const struct world *w, struct connection *c) {
  size_t end = c->stop_at < c->out.length ? c->stop_at : c->out.length;
  while (c->answers && c->sent < end && world_monotonic_ns(w) >= c->next_ns) {
    size_t piece = end - c->sent < c->piece ? end - c->sent : c->piece;
    int64_t n = world_write(w, c->handle, c->out.data + c->sent, piece);
    if (n < 0) return n == -EAGAIN;
    c->sent += (size_t)n;
    c->next_ns = world_monotonic_ns(w) + c->pause_ns;
  }
  return !c->answers || c->sent < end || !c->hangs_up;
}

static void take_connection(const struct world *w, int poller, int listener,
                            struct connection *connections) {
  int handle = world_accept(w, listener, NULL);
  if (handle < 0) return;
  for (int i = 0; i < CONNECTIONS_MAX; i++) {
    if (connections[i].handle >= 0) continue;
    connections[i] = (struct connection){.handle = handle};
    world_poller_set(w, poller, handle, WORLD_READABLE, &connections[i]);
    return;
  }
  world_close(w, handle);
}

// The process.  It looks around every 20 ms while it has something to send, else only when called.
static int file_server_main(const struct world *w, void *context) {
  struct file_server *f = context;
  struct connection connections[CONNECTIONS_MAX];
  struct world_address address = {.port = 80};
  int poller = world_poller(w), listener = world_listen(w, &address);
  for (int i = 0; i < CONNECTIONS_MAX; i++) connections[i] = (struct connection){.handle = -1};
  world_poller_set(w, poller, listener, WORLD_READABLE, NULL);
  while (listener >= 0) {
    struct world_ready ready[4];
    bool busy = false;
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
      struct connection *c = &connections[i];
      if (c->handle >= 0 && (!hear(w, f, c) || !speak(w, c))) drop_connection(w, poller, c);
      busy = busy || (c->handle >= 0 && c->answers && c->hangs_up);
    }
    if (world_wait(w, poller, ready, 4, busy ? 20 * MS : WORLD_FOREVER) > 0)
      take_connection(w, poller, listener, connections);
  }
  return 1;
}

// ---- pip

// `python3 -m pip … NAME`: the report that names the wheel and its digest.
static int pip_main(const struct world *w, void *context) {
  const struct file_server *f = context;
  struct buffer report = {0};
  buffer_print(&report,
               "{\"install\":[{\"download_info\":{\"url\":\"http://files/%s\",\"archive_info\":"
               "{\"hashes\":{\"sha256\":\"%s\"}}},\"metadata\":{\"version\":\"1.0\"}}]}",
               served[PIPED].name, contents[PIPED][f->version[PIPED]].file_digest);
  int64_t n = world_write(w, 1, report.data, report.length);
  buffer_clear(&report);
  return n > 0 ? 0 : 1;
}
