// SPDX-License-Identifier: Apache-2.0
//
// work.h: a few threads that do jobs one by one, taken from a queue of limited length.
//
// For work that takes milliseconds to seconds and must not hold up the thread that asks for it.
// (threads.h is for the opposite case: one short function that all threads run together.)
//
//   work_submit(w, &job) ──▶ queue, at most `waiting` jobs ──▶ a thread calls job.run(job.context)
//
// What a job does last is to tell whoever asked for it that the result is there, for example with
// net_loop_post.  With 0 threads work_submit runs the job itself before it returns: a program of
// one thread, such as one in a simulated world, behaves the same and stays deterministic.
//
// Life cycle: work_new, work_submit and work_cancel from any thread, work_free.
#pragma once

#include "base/base.h"

#define WORK_THREADS_MAX 64

struct work;

// Memory of the caller, who sets `run` and `context`; the other fields belong to the queue.  From
// work_submit until `run` is called, or work_cancel says true, the job stays where it is and is not
// submitted again.  After that the queue does not look at it any more.
struct work_job {
  void (*run)(void *context);  // on a thread of the queue
  void *context;
  struct work_job *previous, *next;  // of those that wait
  bool waiting;                      // nobody has begun it
};

// threads: 0..WORK_THREADS_MAX; waiting: how many jobs may wait for a thread, 1 or more.
// ERROR_INPUT when one is out of range, ERROR_SYSTEM when the system refuses a thread.
struct work *work_new(int threads, int waiting, struct error *e);
// Jobs that wait are dropped: their `run` is never called.  Returns when those under way are done.
// Nobody may submit or cancel any more.
void work_free(struct work *w);
// Puts the job at the end of the queue.  ERROR_BUSY when as many wait as may: the job is then not
// taken.  All that the caller wrote before is seen by `run`.
bool work_submit(struct work *w, struct work_job *job, struct error *e);
// Takes a job back.  True: it waited, and its `run` will not be called.  False: it runs, or has
// run.
bool work_cancel(struct work *w, struct work_job *job);
// The same, and when it runs its `run` is waited for.  To be called before what `run` uses is
// freed, even when `run` has told that it is done: it may not have returned yet.
bool work_finish(struct work *w, struct work_job *job);

struct work_stats {
  int threads;                        // as work_new was told
  int waiting, running;               // jobs
  uint64_t done, refused, cancelled;  // jobs since work_new
};
void work_stats_read(struct work *w, struct work_stats *out);
