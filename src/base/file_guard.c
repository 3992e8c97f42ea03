// SPDX-License-Identifier: Apache-2.0
//
// file_guard.c: a mapped file that is cut short, or whose disk fails, does not end the process.
//
// Touching a byte of a mapping that the file has no more raises SIGBUS in the thread that touched
// it, whichever that is.  There is no way back out of the middle of its work, but there is one
// forward: the handler puts zeros where the lost bytes were, notes that the mapping is broken, and
// returns; the thread goes on with zeros.  Whoever mapped the file asks file_map_intact when the
// work is done, and throws the result away.
//
//   guarded   | start length broken | start length broken | …      one row for each mapping
//             free ──file_guard_add──▶ filling ──▶ watched ──file_guard_remove──▶ free
//
// The handler takes no lock and calls mmap only, which is a plain system call.  Any other SIGBUS
// gets what it would have got without us.

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/internal.h"

#define GUARDED_MAX 64  // mappings at a time; one too many is not guarded

enum { FREE, FILLING, WATCHED };

struct guarded {
  atomic_int state;
  atomic_uintptr_t start;
  atomic_size_t length;
  atomic_bool broken;
};

// A signal handler reaches nothing else.
static struct guarded guarded[GUARDED_MAX];
static struct sigaction before;
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;

static struct guarded *find(uintptr_t address) {
  for (int i = 0; i < GUARDED_MAX; i++) {
    struct guarded *g = &guarded[i];
    if (atomic_load(&g->state) == WATCHED && address >= atomic_load(&g->start) &&
        address - atomic_load(&g->start) < atomic_load(&g->length))
      return g;
  }
  return NULL;
}

// All from the lost page to the end becomes zero: what is lost once makes the whole of no use, and
// one fault is cheaper than a million.
static bool fill(struct guarded *g, uintptr_t address) {
  uintptr_t page = address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
  uintptr_t end = atomic_load(&g->start) + atomic_load(&g->length);
  atomic_store(&g->broken, true);
  return mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
  (void)context;
  uintptr_t address = (uintptr_t)info->si_addr;
  struct guarded *g = find(address);
  if (g && fill(g, address)) return;
  sigaction(number, &before, NULL);  // it comes again, and finds the one before us
}

// Looks each time: somebody else, a library say, may have put a handler of its own there.
static void install(void) {
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, now;
  sigemptyset(&action.sa_mask);
  pthread_mutex_lock(&installing);
  sigaction(SIGBUS, NULL, &now);
  if (now.sa_sigaction != on_bus_error) sigaction(SIGBUS, &action, &before);
  pthread_mutex_unlock(&installing);
}

void file_guard_add(const uint8_t *data, size_t length) {
  install();
  for (int i = 0; i < GUARDED_MAX; i++) {
    struct guarded *g = &guarded[i];
    int expected = FREE;
    if (!atomic_compare_exchange_strong(&g->state, &expected, FILLING)) continue;
    atomic_store(&g->start, (uintptr_t)data);
    atomic_store(&g->length, length);
    atomic_store(&g->broken, false);
    atomic_store(&g->state, WATCHED);
    return;
  }
}

void file_guard_remove(const uint8_t *data) {
  struct guarded *g = find((uintptr_t)data);
  if (g) atomic_store(&g->state, FREE);
}

bool file_guard_intact(const uint8_t *data) {
  const struct guarded *g = find((uintptr_t)data);
  return !g || !atomic_load(&g->broken);
}
