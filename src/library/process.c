// SPDX-License-Identifier: Apache-2.0
//
// process.c: runs a program without a shell and reads what it prints.
//
//   program ──output──▶ pipe ──▶ *out
//           ──errors──▶ pipe ──▶ *complaints
//
// It gets /dev/null to read from.  Both pipes are read until they end, so a program that prints
// much on either never blocks; then it is waited for.  Ten times a second the caller is asked
// whether to go on; when not, the program is told to end and waited for, so none is left over.

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "library/internal.h"

#define LOOK_NS 100000000u  // between two questions whether to go on
#define PIECE (16 * 1024)   // bytes read at a time

extern char **environ;

struct running {
  const struct world *world;
  int poller, process;
  int pipes[2][2];  // of its output and of its errors: [0] reads, [1] writes; -1 = closed
};

// The environment with `extra` in front: the first of two equal names counts.
static const char *const *environment_with(struct arena *memory, const char *const *extra) {
  size_t own = 0, more = 0;
  while (environ[own]) own++;
  while (extra && extra[more]) more++;
  const char **all = arena_new(memory, (own + more + 1) * sizeof *all);
  size_t count = 0;
  for (size_t i = 0; i < more; i++) all[count++] = extra[i];
  for (size_t i = 0; i < own; i++) {
    size_t name = strcspn(environ[i], "=");
    bool replaced = false;
    for (size_t j = 0; j < more; j++) replaced |= strncmp(environ[i], extra[j], name + 1) == 0;
    if (!replaced) all[count++] = environ[i];
  }
  return all;
}

bool library_text_open(struct library_text *t, size_t limit, const char *for_what,
                       struct error *e) {
  char *data = memory_try_big(limit + 1, for_what, e);
  if (!data) return false;
  *t = (struct library_text){data, 0, limit};
  return true;
}

size_t library_text_add(struct library_text *t, struct str bytes) {
  assert(t->data && t->length <= t->limit);
  size_t room = t->limit - t->length, n = bytes.length < room ? bytes.length : room;
  if (n) memcpy(t->data + t->length, bytes.data, n);
  t->length += n;
  return n;
}

void library_text_close(struct library_text *t) {
  memory_free_big(t->data, t->limit + 1);
  *t = (struct library_text){0};
}

static void drop(struct running *r, int *handle) {
  if (*handle >= 0) world_close(r->world, *handle);
  *handle = -1;
}

// 0, or -errno.  The write ends are the program's alone afterwards, so that a pipe ends with it.
static int start(struct running *r, const char *const *argv, const char *const *extra) {
  struct arena memory = {0};
  int result = r->poller = world_poller(r->world);
  for (int i = 0; i < 2 && result >= 0; i++) {
    int both[2];
    result = world_pipe(r->world, both);
    if (result < 0) break;
    r->pipes[i][0] = both[0];
    r->pipes[i][1] = both[1];
    result = world_poller_set(r->world, r->poller, both[0], WORLD_READABLE, &r->pipes[i][0]);
  }
  if (result >= 0) {
    struct world_program program = {.arguments = argv,
                                    .environment = environment_with(&memory, extra),
                                    .input = -1,
                                    .output = r->pipes[0][1],
                                    .errors = r->pipes[1][1],
                                    .ends_with_us = true};
    result = r->process = world_start(r->world, &program);
  }
  for (int i = 0; i < 2; i++) drop(r, &r->pipes[i][1]);
  arena_clear(&memory);
  return result < 0 ? result : 0;
}

// Takes what the pipe holds; closes it at its end.
static void drain(struct running *r, int *pipe, struct library_text *into) {
  char piece[PIECE];
  int64_t n = world_read(r->world, *pipe, piece, sizeof piece);
  if (n == -EAGAIN) return;
  if (n <= 0) {
    world_poller_set(r->world, r->poller, *pipe, 0, NULL);
    drop(r, pipe);
    return;
  }
  library_text_add(into, (struct str){piece, (size_t)n});
}

// Until both pipes have ended; false when the caller wants to stop, or the wait fails.
static bool read_both(struct running *r, const struct library_program *p) {
  while (r->pipes[0][0] >= 0 || r->pipes[1][0] >= 0) {
    struct world_ready ready[2];
    if (p->go_on && !p->go_on(p->context)) return false;
    int n = world_wait(r->world, r->poller, ready, 2, LOOK_NS);
    if (n < 0) return false;
    for (int i = 0; i < n; i++) {
      int *pipe = ready[i].data;
      drain(r, pipe, pipe == &r->pipes[0][0] ? p->out : p->complaints);
    }
  }
  return true;
}

// Its status, or 128 + the signal; -1 when that cannot be known.
static int wait_for(struct running *r) {
  struct world_exit how = {.status = -1};
  struct world_ready ready;
  int result = world_poller_set(r->world, r->poller, r->process, WORLD_READABLE, NULL);
  while (result >= 0 && (result = world_ended(r->world, r->process, &how)) == -EAGAIN)
    result = world_wait(r->world, r->poller, &ready, 1, WORLD_FOREVER);
  world_poller_set(r->world, r->poller, r->process, 0, NULL);
  return result < 0 ? -1 : how.signal ? 128 + how.signal : how.status;
}

bool library_run_program(const struct world *w, const struct library_program *p, int *status,
                         struct error *e) {
  struct running r = {w, -1, -1, {{-1, -1}, {-1, -1}}};
  assert(p->argv[0] && p->out && p->complaints);
  int result = start(&r, p->argv, p->extra);
  bool done = result == 0 || error_set_errno(e, -result, "cannot run %s", p->argv[0]);
  if (done) {
    done = read_both(&r, p);
    if (!done) {
      world_signal(w, r.process, SIGTERM);
      error_set(e, ERROR_CANCELLED, "stopped");
    }
    *status = wait_for(&r);
  }
  drop(&r, &r.process);
  for (int i = 0; i < 2; i++) drop(&r, &r.pipes[i][0]);
  drop(&r, &r.poller);
  return done;
}
