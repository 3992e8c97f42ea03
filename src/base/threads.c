// SPDX-License-Identifier: Apache-2.0
//
// threads.c: the team of threads.
//
// A round has as many shares as the team has threads.  One counter, `generation`, starts it: the
// caller publishes function and context, then adds one.  Workers watch it: they spin for POOL_SPIN
// rounds of pause, then sleep on it as a futex.  Every thread takes its own share first and then
// those that nobody has begun: where the system has no processor free for a worker, the others do
// its share instead of waiting for it.  Which thread does a share changes nothing in its result.
//
//   caller   function=f  unfinished=n  generation++ [wake if sleepers]  take shares 0, 1, …
//            wait unfinished==0
//   worker   wait generation!=seen     take shares i, i+1, …, i-1
//   take     claims[share]: generation-1 → generation, or leave it    f(share)
//            unfinished-- [the last wakes a sleeping caller]
//
// A worker that comes late finds all shares of its round claimed, and function and context are read
// only after a claim: the caller cannot begin another round before that share is finished.
//
// Sleeping is announced in `sleepers` before the futex call and checked after the counter was
// changed, both with sequentially consistent order, so no wake-up is lost.

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/threads.h"

// pauses before sleeping, roughly 50 us: longer than the gaps between operators of one step
#define POOL_SPIN 2000

struct worker {
  struct pool *pool;
  pthread_t thread;
  int index;
};

struct pool {
  int count;        // threads, the caller included; also the shares of a round
  char line_0[60];  // the two counters that everybody watches get cache lines of their own
  atomic_uint generation;
  char line_1[60];
  atomic_int unfinished;  // shares
  char line_2[60];
  atomic_int sleepers;  // workers asleep on generation
  atomic_int caller_sleeps;
  atomic_bool stop;
  atomic_int running;  // workers that have begun
  pool_function *function;
  void *context;
  struct worker *workers;  // [count - 1], of threads 1..count-1
  struct claim {
    atomic_uint generation;  // of the last round in which this share was taken
    char line[60];
  } * claims;  // [count]
};

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void futex_wait(void *address, unsigned expected) {
  syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}
static void futex_wake(void *address) {
  syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, POOL_THREADS_MAX, NULL, NULL, 0);
}

// Returns the generation that is not `seen`.  Spins first: between two operators of a step the next
// round is microseconds away.
static unsigned wait_for_work(struct pool *p, unsigned seen) {
  for (int i = 0; i < POOL_SPIN; i++) {
    if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) break;
    relax();
  }
  unsigned now;
  while ((now = atomic_load(&p->generation)) == seen) {
    atomic_fetch_add(&p->sleepers, 1);
    futex_wait(&p->generation, seen);  // returns at once when generation has moved on already
    atomic_fetch_sub(&p->sleepers, 1);
  }
  return now;
}

static bool claim(struct pool *p, int share, unsigned generation) {
  unsigned before = generation - 1;
  return atomic_compare_exchange_strong(&p->claims[share].generation, &before, generation);
}

// Does every share of the round that is still free, `first` before the others.
static void take_shares(struct pool *p, unsigned generation, int first) {
  for (int i = 0; i < p->count; i++) {
    int share = (first + i) % p->count;
    if (!claim(p, share, generation)) continue;
    p->function(p->context, share, p->count);
    if (atomic_fetch_sub(&p->unfinished, 1) == 1 && atomic_load(&p->caller_sleeps))
      futex_wake(&p->unfinished);
  }
}

// A round that began and ended while this worker was away is passed over: only the newest
// generation matters, since the caller waits for all shares before it starts another.
static void *work(void *argument) {
  struct worker *w = argument;
  atomic_fetch_add(&w->pool->running, 1);
  futex_wake(&w->pool->running);
  for (unsigned seen = 0;;) {
    seen = wait_for_work(w->pool, seen);
    if (atomic_load(&w->pool->stop)) return NULL;
    take_shares(w->pool, seen, w->index);
  }
}

static unsigned start_round(struct pool *p) {
  unsigned generation = atomic_fetch_add(&p->generation, 1) + 1;
  if (atomic_load(&p->sleepers)) futex_wake(&p->generation);
  return generation;
}

// No share is free any more, some are under way: spin, then sleep, which leaves this processor to a
// worker that was put aside in the middle of its share.
static void wait_for_workers(struct pool *p) {
  for (int i = 0; i < POOL_SPIN; i++) {
    if (atomic_load_explicit(&p->unfinished, memory_order_acquire) == 0) return;
    relax();
  }
  atomic_store(&p->caller_sleeps, 1);
  for (int left; (left = atomic_load(&p->unfinished)) != 0;)
    futex_wait(&p->unfinished, (unsigned)left);
  atomic_store(&p->caller_sleeps, 0);
}

// Everything the workers read is written before start_round, whose atomic addition publishes it.
void pool_run(struct pool *p, pool_function *function, void *context) {
  if (p->count == 1) {
    function(context, 0, 1);
    return;
  }
  p->function = function;
  p->context = context;
  atomic_store(&p->unfinished, p->count);
  take_shares(p, start_round(p), 0);
  wait_for_workers(p);
}

// Ends the workers that were started; `started` of them exist.
static void stop_workers(struct pool *p, int started) {
  atomic_store(&p->stop, true);
  start_round(p);
  for (int i = 0; i < started; i++) pthread_join(p->workers[i].thread, NULL);
}

// Signals for the process must interrupt the system calls of other threads.  (Signals that an
// instruction causes stay.)
int pool_start_thread(pthread_t *thread, void *(*function)(void *context), void *context) {
  static const int sent[] = {SIGINT,  SIGTERM, SIGQUIT, SIGHUP,   SIGCHLD,
                             SIGALRM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};
  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (size_t i = 0; i < COUNT_OF(sent); i++) sigaddset(&blocked, sent[i]);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  int failed = pthread_create(thread, NULL, function, context);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed;
}

// A thread that begins late would do so in the middle of somebody's work: what the system and its
// libraries do at the start of a thread (they allocate) belongs to the making of the team.
static void wait_for_start(struct pool *p) {
  for (int running; (running = atomic_load(&p->running)) < p->count - 1;)
    futex_wait(&p->running, (unsigned)running);
}

static void free_memory(struct pool *p) {
  memory_free(p->workers);
  memory_free(p->claims);
  memory_free(p);
}

// When the system refuses a thread, those that were started are ended again.
struct pool *pool_new(int threads, struct error *e) {
  if (threads < 1 || threads > POOL_THREADS_MAX) {
    error_set(e, ERROR_INPUT, "%d threads: choose 1 to %d", threads, POOL_THREADS_MAX);
    return NULL;
  }
  struct pool *p = memory_new(sizeof *p);
  p->count = threads;
  p->workers = memory_new((size_t)threads * sizeof *p->workers);
  p->claims = memory_new((size_t)threads * sizeof *p->claims);
  for (int i = 0; i < threads - 1; i++) {
    p->workers[i] = (struct worker){.pool = p, .index = i + 1};
    int failed = pool_start_thread(&p->workers[i].thread, work, &p->workers[i]);
    if (failed) {
      error_set_errno(e, failed, "cannot start thread %d of %d; ask for fewer with --threads",
                      i + 2, threads);
      stop_workers(p, i);
      free_memory(p);
      return NULL;
    }
  }
  wait_for_start(p);
  return p;
}

void pool_free(struct pool *p) {
  if (!p) return;
  stop_workers(p, p->count - 1);
  free_memory(p);
}

int pool_threads(const struct pool *p) { return p->count; }

void pool_share(int64_t total, int64_t grain, int index, int count, int64_t *begin, int64_t *end) {
  int64_t grains = (total + grain - 1) / grain;
  *begin = grains * index / count * grain;
  *end = grains * (index + 1) / count * grain;
  if (*begin > total) *begin = total;
  if (*end > total) *end = total;
}
