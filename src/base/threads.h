// SPDX-License-Identifier: Apache-2.0
//
// threads.h: a fixed team of threads that runs one function at a time, all together.
//
// pool_run(p, f, x) calls f(x, index, count) once for every index below count, the size of the
// team, and returns when all are done.  Usually each thread does the share of its own number, the
// caller number 0; a share whose thread gets no processor is done by another one, so a busy machine
// does not hold the team up.  A hand-over costs well under 5 us while the team is hot: workers spin
// for some 50 us and then sleep on a futex, so an idle program uses no processor time.  Work is
// split by index alone, never by who comes first: the split is deterministic.
#pragma once

#include <pthread.h>

#include "base/base.h"

// Starts a thread that takes no signal sent to the process: those are for the threads that know
// what to do about them.  0, or an errno value.  End it with pthread_join.
int pool_start_thread(pthread_t *thread, void *(*function)(void *context), void *context);

#define POOL_THREADS_MAX 256

struct pool;
typedef void pool_function(void *context, int index, int count);

// threads: 1..POOL_THREADS_MAX, the caller included; outside of it ERROR_INPUT.  A thread that the
// system refuses is an error too: nobody gets a smaller team than was asked for.  Returns when all
// threads run.
struct pool *pool_new(int threads, struct error *e);
// Ends and joins the workers; not while pool_run is under way.
void pool_free(struct pool *p);
int pool_threads(const struct pool *p);  // the number that pool_new was given
// One caller at a time; not re-entrant.  What the caller wrote before it all threads see, and what
// they wrote the caller sees afterwards.
void pool_run(struct pool *p, pool_function *function, void *context);
// The half-open share [*begin, *end) of `total` items for index `index` of `count`.  Shares begin
// at multiples of `grain`; they cover everything once, differ by one grain at most, and may be
// empty.
void pool_share(int64_t total, int64_t grain, int index, int count, int64_t *begin, int64_t *end);
