// SPDX-License-Identifier: Apache-2.0
//
// process.c: runs a program without a shell and reads what it prints.
//
// The child gets /dev/null to read from and two pipes to write to; both are read until they end, so
// a program that prints much on either never blocks.  Ten times a second the caller is asked
// whether to go on; when not, the child is told to end and waited for, so none is left over.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library/internal.h"

#define LOOK_MS 100        // between two questions whether to go on
#define PIECE (16 * 1024)  // bytes read at a time

extern char **environ;

// The environment with `extra` in front: the first of two equal names counts.
static char **environment_with(struct arena *memory, const char *const *extra) {
  size_t own = 0, more = 0;
  while (environ[own]) own++;
  while (extra && extra[more]) more++;
  char **all = arena_new(memory, (own + more + 1) * sizeof *all);
  size_t count = 0;
  for (size_t i = 0; i < more; i++) all[count++] = arena_copy(memory, extra[i], strlen(extra[i]));
  for (size_t i = 0; i < own; i++) {
    size_t name = strcspn(environ[i], "=");
    bool replaced = false;
    for (size_t j = 0; j < more; j++) replaced |= strncmp(environ[i], extra[j], name + 1) == 0;
    if (!replaced) all[count++] = environ[i];
  }
  return all;
}

// Starts it with its output and error output going to the pipes' write ends; 0 or an errno.
static int start(const char *const *argv, char *const *environment, int out, int complaints,
                 pid_t *child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t defaults, none;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);  // main ignores it; a child should not
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);  // `motley pull` holds SIGINT back from itself
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, complaints, 2);
  int failed = posix_spawnp(child, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv,
                            environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

// Takes what the pipe holds; false at its end.
static bool drain(int pipe, size_t limit, struct buffer *into) {
  char piece[PIECE];
  ssize_t n = read(pipe, piece, sizeof piece);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  size_t room = limit > into->length ? limit - into->length : 0;
  if (n > 0) buffer_add(into, piece, (size_t)n < room ? (size_t)n : room);
  return n > 0;
}

// Reads both pipes to their ends; false when the caller wants to stop.
static bool read_both(struct pollfd pipes[2], size_t limit, bool (*go_on)(void *context),
                      void *context, struct buffer *out, struct buffer *complaints) {
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    if (go_on && !go_on(context)) return false;
    if (poll(pipes, 2, LOOK_MS) <= 0) continue;
    if (pipes[0].revents && !drain(pipes[0].fd, limit, out)) pipes[0].fd = -1;
    if (pipes[1].revents && !drain(pipes[1].fd, limit, complaints)) pipes[1].fd = -1;
  }
  return true;
}

static int wait_for(pid_t child) {
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Both pipes are read to their ends before the program is waited for, or it would block on a
// full one.
bool library_run_program(const char *const *argv, const char *const *extra, size_t limit,
                         bool (*go_on)(void *context), void *context, struct buffer *out,
                         struct buffer *complaints, int *status, struct error *e) {
  struct arena memory = {0};
  int a[2] = {-1, -1}, b[2] = {-1, -1};
  pid_t child;
  bool done = pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0;
  if (!done) error_set_errno(e, errno, "cannot run %s", argv[0]);
  if (done) {
    int failed = start(argv, environment_with(&memory, extra), a[1], b[1], &child);
    if (failed) done = error_set_errno(e, failed, "cannot run %s", argv[0]);
  }
  for (int i = 0; i < 2; i++)
    if ((i ? b : a)[1] >= 0) close((i ? b : a)[1]);
  if (done) {
    struct pollfd pipes[2] = {{.fd = a[0], .events = POLLIN}, {.fd = b[0], .events = POLLIN}};
    done = read_both(pipes, limit, go_on, context, out, complaints);
    if (!done) {
      kill(child, SIGTERM);
      error_set(e, ERROR_CANCELLED, "stopped");
    }
    *status = wait_for(child);
  }
  if (a[0] >= 0) close(a[0]);
  if (b[0] >= 0) close(b[0]);
  arena_clear(&memory);
  return done;
}
