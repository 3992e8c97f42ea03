// SPDX-License-Identifier: Apache-2.0
//
// world_process.c: the real world's processes: started, signalled, waited for by pidfd.
//
//   parent   pipe ── vfork ─────────────── read the pipe ── pidfd_open(child) ── handle
//                      │                        ▲
//   child              └ signals, group, folder, 0 1 2 ── exec ── the pipe closes: all is well
//                                                └ errno into the pipe, end: the parent collects it
//
// posix_spawn cannot ask for PR_SET_PDEATHSIG, hence the vfork.  Its child runs on the parent's
// memory, so it calls only what a signal handler may call, and signals are held back until it has
// its own handlers.  A pidfd names this process and no later one that gets the same number.

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/internal.h"

int world_process_pipe(void *context, int handles[2]) {
  (void)context;
  return pipe2(handles, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
}

// What the child has to become.  Prepared by the parent; the child only reads it.
struct child {
  const struct world_program *program;
  int streams[3];  // copies above 2, so that putting one in its place hides no other
  int report;      // the pipe's write end
  pid_t parent;
};

// The child must not see our ignored signals, our handlers, or our mask.
static void reset_signals(void) {
  sigset_t none;
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

// In the child.  Returns only when it failed.  When the parent ended before the wish to end with it
// was noted, nobody will send that signal any more.
static void become(const struct child *c) {
  const struct world_program *p = c->program;
  if (p->own_group && setpgid(0, 0) < 0) return;
  if (p->ends_with_us && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return;
  if (p->ends_with_us && getppid() != c->parent) {
    errno = ESRCH;
    return;
  }
  if (p->folder && chdir(p->folder) < 0) return;
  for (int i = 0; i < 3; i++)
    if (dup2(c->streams[i], i) < 0) return;
  // Libraries may have opened something that does not close by itself.
  syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  reset_signals();
  char *const *arguments = (char *const *)(uintptr_t)p->arguments;
  char *const *environment = p->environment ? (char *const *)(uintptr_t)p->environment : environ;
  execvpe(p->arguments[0], arguments, environment);
}

// Returns the child's number, or -errno.  Everything that vfork's child touches is in `c`.
static pid_t fork_child(const struct child *c) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t child = vfork();
  if (child == 0) {
    become(c);
    int why = errno;
    if (write(c->report, &why, sizeof why) < 0) _exit(126);
    _exit(127);
  }
  int why = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return child < 0 ? -why : child;
}

// Copies of the three streams above 2.  Whoever reads or writes them there expects to wait, so they
// no longer answer -EAGAIN.
static int copy_streams(const struct world_program *p, int streams[3]) {
  const int wanted[3] = {p->input, p->output, p->errors};
  for (int i = 0; i < 3; i++) {
    int from = wanted[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : wanted[i];
    if (from < 0) return -errno;
    streams[i] = fcntl(from, F_DUPFD_CLOEXEC, 3);
    int why = errno;
    if (wanted[i] < 0) close(from);
    if (streams[i] < 0) return -why;
    int flags = fcntl(streams[i], F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK)) fcntl(streams[i], F_SETFL, flags & ~O_NONBLOCK);
  }
  return 0;
}

static pid_t wait_for(pid_t child) {
  pid_t result;
  do result = waitpid(child, NULL, 0);
  while (result < 0 && errno == EINTR);
  return result;
}

// The child, once its program runs; else why it does not.
static int start(struct child *c, int report) {
  int why = 0;
  pid_t child = fork_child(c);
  close(c->report);
  c->report = -1;
  if (child < 0) return child;
  ssize_t n;
  do n = read(report, &why, sizeof why);
  while (n < 0 && errno == EINTR);
  if (n == 0) {
    int process = (int)syscall(SYS_pidfd_open, child, 0);
    if (process >= 0) return process;
    why = errno;
    kill(child, SIGKILL);
  }
  wait_for(child);
  return -(why ? why : EIO);
}

int world_process_start(void *context, const struct world_program *program) {
  struct child c = {program, {-1, -1, -1}, -1, getpid()};
  int pipe_ends[2];
  (void)context;
  if (pipe2(pipe_ends, O_CLOEXEC) < 0) return -errno;
  c.report = fcntl(pipe_ends[1], F_DUPFD_CLOEXEC, 3);
  int result = c.report < 0 ? -errno : copy_streams(program, c.streams);
  close(pipe_ends[1]);
  if (result == 0) result = start(&c, pipe_ends[0]);
  close(pipe_ends[0]);
  if (c.report >= 0) close(c.report);
  for (int i = 0; i < 3; i++)
    if (c.streams[i] >= 0) close(c.streams[i]);
  return result;
}

// The number of the process that a pidfd stands for, from the kernel's description of it; 0 when it
// is gone or cannot be read.
static pid_t number_of(int process) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", process);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  if (n < 0) return 0;
  text[n] = 0;
  const char *at = strstr(text, "\nPid:");
  int number = 0;
  return at && sscanf(at + 5, "%d", &number) == 1 && number > 0 ? number : 0;
}

// One that leads a group of its own was started so that signals reach its children too.  It is ours
// and not waited for yet, so its number is still its own.
int world_process_signal(void *context, int process, int number) {
  (void)context;
  pid_t leader = number_of(process);
  if (leader && getpgid(leader) == leader && leader != getpgrp())
    return kill(-leader, number) < 0 ? -errno : 0;
  return syscall(SYS_pidfd_send_signal, process, number, NULL, 0) < 0 ? -errno : 0;
}

int world_process_ended(void *context, int process, struct world_exit *out) {
  siginfo_t info = {0};
  int result;
  (void)context;
  do result = waitid(P_PIDFD, (id_t)process, &info, WEXITED | WNOHANG);
  while (result < 0 && errno == EINTR);
  if (result < 0) return -errno;
  if (info.si_pid == 0) return -EAGAIN;
  bool exited = info.si_code == CLD_EXITED;
  *out = (struct world_exit){exited ? info.si_status : -1, exited ? 0 : info.si_status};
  return 0;
}
