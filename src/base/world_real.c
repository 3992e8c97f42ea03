// SPDX-License-Identifier: Apache-2.0
//
// world_real.c: the world as Linux has it: clocks, randomness, files, sockets.
//
// Each function is one system call with its result turned into "what came, or -errno".  A handle is
// a descriptor that programs which are started do not inherit (close-on-exec).  A poller is two of
// them: an epoll instance, and an eventfd that a wake makes readable.  Both have to be found from
// one number without asking anybody, because a wake may come from a signal handler:
//
//   bit 30   bits 20..29            bits 0..19
//     1      eventfd - epoll fd     epoll fd
//
// Processes are in world_process.c.

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/internal.h"
#include "base/world.h"

#define NS_PER_SECOND 1000000000u

// The call again for as long as a signal interrupts it; then its result, or -errno.
#define RETRIED(call)                        \
  __extension__({                            \
    int64_t result_;                         \
    do result_ = (call);                     \
    while (result_ < 0 && errno == EINTR);   \
    result_ < 0 ? -(int64_t)errno : result_; \
  })

// ---- clocks and randomness

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t real_monotonic_ns(void *context) {
  (void)context;
  return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t real_wall_ms(void *context) {
  (void)context;
  return clock_ns(CLOCK_REALTIME) / 1000000u;
}

// getrandom cannot fail for so few bytes on a system that has started; the clock is for the
// impossible, so that no caller needs an error path.
static uint64_t real_random(void *context) {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) {
    uint64_t state = real_monotonic_ns(context);
    return random_next(&state);
  }
  return value;
}

// To a point in time, so that a signal does not make the sleep longer.
static void real_sleep(void *context, uint64_t ns) {
  uint64_t end = real_monotonic_ns(context);
  if (__builtin_add_overflow(end, ns, &end)) end = UINT64_MAX;
  struct timespec until = {.tv_sec = (time_t)(end / NS_PER_SECOND),
                           .tv_nsec = (long)(end % NS_PER_SECOND)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

// ---- files

static int poller_epoll(int poller) { return poller & 0xFFFFF; }
static int poller_event(int poller) { return poller_epoll(poller) + (poller >> 20 & 0x3FF); }
static bool is_poller(int handle) { return handle >= 1 << 30; }

// O_NONBLOCK: opening a named pipe must not wait for its other end.
static int real_open(void *context, const char *path, uint32_t flags) {
  static const struct {
    uint32_t world;
    int system;
  } names[] = {{WORLD_CREATE, O_CREAT},
               {WORLD_EXCLUSIVE, O_EXCL},
               {WORLD_TRUNCATE, O_TRUNC},
               {WORLD_FOLDER, O_DIRECTORY}};
  (void)context;
  int how = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how |= flags & WORLD_WRITE ? flags & WORLD_READ ? O_RDWR : O_WRONLY : O_RDONLY;
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (flags & names[i].world) how |= names[i].system;
  return (int)RETRIED(open(path, how, 0644));
}

// Linux frees the descriptor whatever close returns, so nothing is done again, and an interrupted
// close is done.
static int real_close(void *context, int handle) {
  (void)context;
  if (is_poller(handle)) {
    close(poller_event(handle));
    handle = poller_epoll(handle);
  }
  return close(handle) == 0 || errno == EINTR ? 0 : -errno;
}

static int64_t real_read_at(void *context, int handle, void *data, size_t size, uint64_t offset) {
  (void)context;
  return RETRIED(pread(handle, data, size, (off_t)offset));
}

static int64_t real_write_at(void *context, int handle, const void *data, size_t size,
                             uint64_t offset) {
  (void)context;
  return RETRIED(pwrite(handle, data, size, (off_t)offset));
}

static int real_resize(void *context, int handle, uint64_t size) {
  (void)context;
  return (int)RETRIED(ftruncate(handle, (off_t)size));
}

static int real_sync(void *context, int handle) {
  (void)context;
  return (int)RETRIED(fsync(handle));
}

static struct world_file_info info_from(const struct stat *s) {
  return (struct world_file_info){
      .kind = S_ISREG(s->st_mode)   ? WORLD_FILE
              : S_ISDIR(s->st_mode) ? WORLD_DIRECTORY
                                    : WORLD_OTHER,
      .size = S_ISREG(s->st_mode) ? (uint64_t)s->st_size : 0,
      .modified_ms = (uint64_t)s->st_mtim.tv_sec * 1000u + (uint64_t)s->st_mtim.tv_nsec / 1000000u,
      .runnable = S_ISREG(s->st_mode) && (s->st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)),
      .device = s->st_dev,
      .number = s->st_ino};
}

static int real_info(void *context, const char *path, struct world_file_info *out) {
  struct stat s;
  (void)context;
  if (stat(path, &s) < 0) return -errno;
  *out = info_from(&s);
  return 0;
}

static int real_info_of(void *context, int handle, struct world_file_info *out) {
  struct stat s;
  (void)context;
  if (fstat(handle, &s) < 0) return -errno;
  *out = info_from(&s);
  return 0;
}

static int real_rename(void *context, const char *from, const char *to) {
  (void)context;
  return rename(from, to) < 0 ? -errno : 0;
}

static int real_remove(void *context, const char *path) {
  (void)context;
  return unlink(path) < 0 ? -errno : 0;
}

static int real_make_folder(void *context, const char *path) {
  (void)context;
  return mkdir(path, 0755) < 0 ? -errno : 0;
}

static int real_remove_folder(void *context, const char *path) {
  (void)context;
  return rmdir(path) < 0 ? -errno : 0;
}

// readdir tells its end and a failure apart by errno alone.
static int real_list(void *context, const char *path, world_list_function *each,
                     void *each_context) {
  (void)context;
  DIR *folder = opendir(path);
  if (!folder) return -errno;
  int why = 0;
  bool go_on = true;
  while (go_on) {
    errno = 0;
    const struct dirent *entry = readdir(folder);
    why = errno;
    if (!entry) break;
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      go_on = each(each_context, entry->d_name);
    why = 0;
  }
  closedir(folder);
  return -why;
}

static int real_resolve_path(void *context, const char *path, struct buffer *out) {
  char whole[PATH_MAX];
  (void)context;
  if (!realpath(path, whole)) return -errno;
  buffer_add_text(out, whole);
  return 0;
}

// f_bavail leaves out what only the administrator may use.
static int64_t real_free_bytes(void *context, const char *path) {
  struct statvfs s;
  int64_t bytes;
  (void)context;
  int64_t result = RETRIED(statvfs(path, &s));
  if (result < 0) return result;
  return __builtin_mul_overflow(s.f_bavail, s.f_frsize, &bytes) ? INT64_MAX : bytes;
}

static int real_lock(void *context, int handle) {
  (void)context;
  return (int)RETRIED(flock(handle, LOCK_EX | LOCK_NB));
}

static int real_map(void *context, int handle, size_t size, const uint8_t **data) {
  (void)context;
  void *mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, handle, 0);
  if (mapped == MAP_FAILED) return -errno;
  file_guard_add(mapped, size);
  *data = mapped;
  return 0;
}

static void real_unmap(void *context, const uint8_t *data, size_t size) {
  (void)context;
  file_guard_remove(data);
  munmap((void *)(uintptr_t)data, size);
}

// Advice: a refusal costs memory only.
static void real_forget(void *context, const uint8_t *data, size_t size) {
  (void)context;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)data + size) / page * page;
  if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

// ---- network

#define BACKLOG 1024  // connections that wait to be accepted
#define UNSENT_IN_KERNEL \
  (128 << 10)  // bytes that a connection may hold unsent: a slow reader is
               // noticed, not buffered for

union socket_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

static socklen_t to_system(const struct world_address *a, union socket_address *out) {
  *out = (union socket_address){.any = {0}};
  if (a->v6) {
    out->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
    memcpy(&out->v6.sin6_addr, a->bytes, 16);
    return sizeof out->v6;
  }
  out->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(a->port)};
  memcpy(&out->v4.sin_addr, a->bytes, 4);
  return sizeof out->v4;
}

static struct world_address from_system(const union socket_address *a) {
  struct world_address out = {.v6 = a->any.sa_family == AF_INET6};
  if (out.v6)
    memcpy(out.bytes, &a->v6.sin6_addr, 16);
  else
    memcpy(out.bytes, &a->v4.sin_addr, 4);
  out.port = ntohs(out.v6 ? a->v6.sin6_port : a->v4.sin_port);
  return out;
}

// The resolver's own numbers, as the errno that says most nearly the same.
static int resolver_error(int why) {
  switch (why) {
    case EAI_SYSTEM: return errno ? -errno : -EIO;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_AGAIN: return -EAGAIN;
    default: return -ENOENT;
  }
}

static int real_resolve(void *context, const char *host, uint16_t port, struct world_address *out,
                        int most) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  int count = 0;
  (void)context;
  int why = getaddrinfo(host, NULL, &hints, &found);
  if (why) return resolver_error(why);
  for (const struct addrinfo *i = found; i && count < most; i = i->ai_next) {
    union socket_address address = {.any = {0}};
    if (i->ai_family != AF_INET && i->ai_family != AF_INET6) continue;
    memcpy(&address, i->ai_addr, i->ai_addrlen);
    out[count] = from_system(&address);
    out[count++].port = port;
  }
  freeaddrinfo(found);
  return count ? count : -ENOENT;
}

static int new_socket(const struct world_address *address) {
  int family = address->v6 ? AF_INET6 : AF_INET;
  int handle = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return handle < 0 ? -errno : handle;
}

static void set_options(int handle) {
  int on = 1, unsent = UNSENT_IN_KERNEL;
  setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(handle, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

// SO_REUSEADDR lets a restarted server have its port back at once; a port that another program
// listens on stays refused.
static int real_listen(void *context, struct world_address *address) {
  union socket_address where;
  socklen_t length = to_system(address, &where);
  int on = 1, handle = new_socket(address);
  (void)context;
  if (handle < 0) return handle;
  setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(handle, &where.any, length) < 0 || listen(handle, BACKLOG) < 0 ||
      getsockname(handle, &where.any, &length) < 0) {
    int why = errno;
    close(handle);
    return -why;
  }
  address->port = from_system(&where).port;
  return handle;
}

// A connection that was given up before it was accepted is nobody's business.
static int real_accept(void *context, int handle, struct world_address *peer) {
  union socket_address from = {.any = {0}};
  int accepted;
  (void)context;
  do {
    socklen_t length = sizeof from;
    accepted = accept4(handle, &from.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  } while (accepted < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (accepted < 0) return -errno;
  set_options(accepted);
  if (peer) *peer = from_system(&from);
  return accepted;
}

static int real_connect(void *context, const struct world_address *address) {
  union socket_address where;
  socklen_t length = to_system(address, &where);
  int handle = new_socket(address);
  (void)context;
  if (handle < 0) return handle;
  set_options(handle);
  if (connect(handle, &where.any, length) < 0 && errno != EINPROGRESS && errno != EINTR) {
    int why = errno;
    close(handle);
    return -why;
  }
  return handle;
}

// SO_ERROR is 0 both before and after a good end; only poll tells whether there was one.
static int real_connected(void *context, int handle) {
  struct pollfd look = {.fd = handle, .events = POLLOUT};
  int why = 0;
  socklen_t length = sizeof why;
  (void)context;
  int64_t ready = RETRIED(poll(&look, 1, 0));
  if (ready < 0) return (int)ready;
  if (ready == 0) return -EAGAIN;
  if (getsockopt(handle, SOL_SOCKET, SO_ERROR, &why, &length) < 0) return -errno;
  return -why;
}

static int64_t real_read(void *context, int handle, void *data, size_t size) {
  (void)context;
  return RETRIED(read(handle, data, size));
}

// send can be told to raise no SIGPIPE, a write to a pipe cannot: there the signal is held back and
// taken away again.
static int64_t write_to_pipe(int handle, const void *data, size_t size) {
  sigset_t broken, before, waiting;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&waiting);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  int64_t result = RETRIED(write(handle, data, size));
  if (result == -EPIPE && !sigismember(&waiting, SIGPIPE))
    (void)RETRIED(sigtimedwait(&broken, NULL, &(struct timespec){0}));
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return result;
}

static int64_t real_write(void *context, int handle, const void *data, size_t size) {
  (void)context;
  int64_t result = RETRIED(send(handle, data, size, MSG_NOSIGNAL | MSG_DONTWAIT));
  return result == -ENOTSOCK ? write_to_pipe(handle, data, size) : result;
}

static int real_end_write(void *context, int handle) {
  (void)context;
  return shutdown(handle, SHUT_WR) < 0 ? -errno : 0;
}

// ---- waiting

#define READY_MAX 256  // fetched by one epoll_wait

static const struct {
  uint32_t world, system;
} events_table[] = {{WORLD_READABLE, EPOLLIN},
                    {WORLD_WRITABLE, EPOLLOUT},
                    {WORLD_BROKEN, EPOLLERR | EPOLLHUP},
                    {WORLD_ENDED, EPOLLRDHUP}};

static uint32_t events_to_system(uint32_t events) {
  uint32_t result = 0;
  for (size_t i = 0; i < COUNT_OF(events_table); i++)
    if (events & events_table[i].world) result |= events_table[i].system;
  return result;
}

static uint32_t events_from_system(uint32_t events) {
  uint32_t result = 0;
  for (size_t i = 0; i < COUNT_OF(events_table); i++)
    if (events & events_table[i].system) result |= events_table[i].world;
  return result;
}

// The address that stands for the eventfd among what epoll found ready.
static const char woken_mark;

// The eventfd gets the lowest number above epoll's, so that their distance fits its ten bits unless
// a thousand descriptors in a row are taken.
static int real_poller(void *context) {
  (void)context;
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return -errno;
  int first = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), why = errno;
  int event = first < 0 ? -1 : fcntl(first, F_DUPFD_CLOEXEC, epoll + 1);
  if (first >= 0) why = errno, close(first);
  struct epoll_event wake = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)&woken_mark};
  if (event >= 0 && (event - epoll > 0x3FF || epoll > 0xFFFFF)) {
    close(event), event = -1, why = EMFILE;
  }
  if (event >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wake) == 0)
    return 1 << 30 | (event - epoll) << 20 | epoll;
  if (event >= 0) why = errno, close(event);
  close(epoll);
  return -why;
}

static int real_poller_set(void *context, int poller, int handle, uint32_t events, void *data) {
  struct epoll_event event = {.events = events_to_system(events), .data.ptr = data};
  int epoll = poller_epoll(poller);
  (void)context;
  assert(is_poller(poller) && !is_poller(handle));
  if (!events) return epoll_ctl(epoll, EPOLL_CTL_DEL, handle, NULL) < 0 ? -errno : 0;
  if (epoll_ctl(epoll, EPOLL_CTL_MOD, handle, &event) == 0) return 0;
  if (errno != ENOENT) return -errno;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, handle, &event) < 0 ? -errno : 0;
}

// Whole milliseconds, rounded up: a timer is never found a little early.
static int wait_ms(uint64_t now, uint64_t end) {
  if (end == WORLD_FOREVER) return -1;
  if (end <= now) return 0;
  uint64_t ms = (end - now - 1) / 1000000u + 1;
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

// What is ready, without the wake, which is taken back.
static int take_ready(int poller, const struct epoll_event *events, int count,
                      struct world_ready *out) {
  int filled = 0;
  for (int i = 0; i < count; i++) {
    uint64_t wakes;
    if (events[i].data.ptr != &woken_mark)
      out[filled++] =
          (struct world_ready){events_from_system(events[i].events), events[i].data.ptr};
    else if (RETRIED(read(poller_event(poller), &wakes, sizeof wakes)) < 0)
      continue;  // another thread took it
  }
  return filled;
}

static int real_wait(void *context, int poller, struct world_ready *out, int most,
                     uint64_t timeout_ns) {
  struct epoll_event events[READY_MAX];
  assert(is_poller(poller) && most > 0);
  uint64_t now = timeout_ns && timeout_ns != WORLD_FOREVER ? real_monotonic_ns(context) : 0, end;
  if (__builtin_add_overflow(now, timeout_ns, &end)) end = WORLD_FOREVER;
  for (;;) {
    int count = epoll_wait(poller_epoll(poller), events, most < READY_MAX ? most : READY_MAX,
                           wait_ms(now, end));
    if (count >= 0) return take_ready(poller, events, count, out);
    if (errno != EINTR) return -errno;
    if (end != WORLD_FOREVER && timeout_ns) now = real_monotonic_ns(context);
  }
}

// The write fails only when 2^64 - 2 wakes are pending, and then the wait ends anyhow.  A signal
// handler must leave errno as it was.
static int real_wake(void *context, int poller) {
  (void)context;
  int kept = errno;
  uint64_t one = 1;
  int64_t result = RETRIED(write(poller_event(poller), &one, sizeof one));
  errno = kept;
  return result < 0 && result != -EAGAIN ? (int)result : 0;
}

// ---- the table

static const struct world_calls real_calls = {
    .monotonic_ns = real_monotonic_ns,
    .wall_ms = real_wall_ms,
    .random = real_random,
    .sleep = real_sleep,
    .open = real_open,
    .close = real_close,
    .read_at = real_read_at,
    .write_at = real_write_at,
    .resize = real_resize,
    .sync = real_sync,
    .info = real_info,
    .info_of = real_info_of,
    .rename = real_rename,
    .remove = real_remove,
    .make_folder = real_make_folder,
    .remove_folder = real_remove_folder,
    .list = real_list,
    .resolve_path = real_resolve_path,
    .free_bytes = real_free_bytes,
    .lock = real_lock,
    .map = real_map,
    .unmap = real_unmap,
    .forget = real_forget,
    .resolve = real_resolve,
    .listen = real_listen,
    .accept = real_accept,
    .connect = real_connect,
    .connected = real_connected,
    .read = real_read,
    .write = real_write,
    .end_write = real_end_write,
    .poller = real_poller,
    .poller_set = real_poller_set,
    .wait = real_wait,
    .wake = real_wake,
    .pipe = world_process_pipe,
    .start = world_process_start,
    .signal = world_process_signal,
    .ended = world_process_ended,
};

const struct world *world_real(void) {
  static const struct world real = {&real_calls, NULL};
  return &real;
}
