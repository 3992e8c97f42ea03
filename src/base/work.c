// SPDX-License-Identifier: Apache-2.0
//
// work.c: the queue of jobs and its threads.
//
// A job is in one of three states:
//
//   waiting ──thread takes it──▶ running ──run returns──▶ done (the queue knows nothing of it)
//      └──────work_cancel, work_free──────▶ dropped
//
// One lock guards everything.  It is never held while a job runs.  Jobs wait in a list that goes
// through the jobs themselves, so submitting allocates nothing and a job can leave from the middle.
// A thread does not touch a job after it has called `run`: the caller may have freed it by then.

#include <assert.h>
#include <pthread.h>
#include <signal.h>

#include "base/work.h"

struct work {
  pthread_mutex_t lock;
  pthread_cond_t arrived;  // a job waits, or stop is set
  pthread_cond_t ended;    // a job is done
  struct work_job *first, *last;
  int most_waiting;
  bool stop;
  struct work_stats stats;
  int started;  // threads that exist; at most stats.threads
  int places;   // of `running` that a thread has taken
  pthread_t threads[WORK_THREADS_MAX];
  struct work_job *running[WORK_THREADS_MAX];  // what each thread does now, or NULL
};

// ---- the list.  Under the lock.

static void list_add(struct work *w, struct work_job *job) {
  job->previous = w->last;
  job->next = NULL;
  job->waiting = true;
  if (w->last)
    w->last->next = job;
  else
    w->first = job;
  w->last = job;
  w->stats.waiting++;
}

static void list_remove(struct work *w, struct work_job *job) {
  assert(job->waiting && w->stats.waiting > 0);
  if (job->previous)
    job->previous->next = job->next;
  else
    w->first = job->next;
  if (job->next)
    job->next->previous = job->previous;
  else
    w->last = job->previous;
  job->waiting = false;
  w->stats.waiting--;
}

// ---- the threads

// Called and returns with the lock held.  place: where work_finish looks for it, or NULL.
static void run_job(struct work *w, struct work_job *job, struct work_job **place) {
  w->stats.running++;
  if (place) *place = job;
  pthread_mutex_unlock(&w->lock);
  job->run(job->context);
  pthread_mutex_lock(&w->lock);
  if (place) *place = NULL;
  w->stats.running--;
  w->stats.done++;
  pthread_cond_broadcast(&w->ended);
}

static void *serve(void *context) {
  struct work *w = context;
  pthread_mutex_lock(&w->lock);
  struct work_job **place = &w->running[w->places++];
  for (;;) {
    while (!w->first && !w->stop) pthread_cond_wait(&w->arrived, &w->lock);
    if (w->stop) break;
    struct work_job *job = w->first;
    list_remove(w, job);
    run_job(w, job, place);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

// Signals that are sent to the process are for the threads that know what to do about them.  Those
// that an instruction causes (SIGSEGV and the like) must stay open.
static int start_thread(struct work *w) {
  sigset_t blocked, before;
  sigfillset(&blocked);
  sigdelset(&blocked, SIGSEGV);
  sigdelset(&blocked, SIGBUS);
  sigdelset(&blocked, SIGFPE);
  sigdelset(&blocked, SIGILL);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  int failed = pthread_create(&w->threads[w->started], NULL, serve, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) w->started++;
  return failed;
}

// ---- life

struct work *work_new(int threads, int waiting, struct error *e) {
  if (threads < 0 || threads > WORK_THREADS_MAX || waiting < 1) {
    error_set(e, ERROR_INPUT,
              "%d threads and %d waiting jobs: choose 0 to %d threads and 1 job or more", threads,
              waiting, WORK_THREADS_MAX);
    return NULL;
  }
  struct work *w = memory_new(sizeof *w);
  w->stats.threads = threads;
  w->most_waiting = waiting;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->arrived, NULL);
  pthread_cond_init(&w->ended, NULL);
  for (int i = 0; i < threads; i++) {
    int failed = start_thread(w);
    if (!failed) continue;
    error_set_errno(e, failed, "cannot start thread %d of %d for waiting work", i + 1, threads);
    work_free(w);
    return NULL;
  }
  return w;
}

void work_free(struct work *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  while (w->first) list_remove(w, w->first);
  pthread_cond_broadcast(&w->arrived);
  pthread_mutex_unlock(&w->lock);
  for (int i = 0; i < w->started; i++) pthread_join(w->threads[i], NULL);
  pthread_cond_destroy(&w->arrived);
  pthread_cond_destroy(&w->ended);
  pthread_mutex_destroy(&w->lock);
  memory_free(w);
}

// ---- jobs

bool work_submit(struct work *w, struct work_job *job, struct error *e) {
  assert(job->run && !job->waiting);
  pthread_mutex_lock(&w->lock);
  assert(!w->stop);
  bool inline_run = w->stats.threads == 0;
  bool room = inline_run || w->stats.waiting < w->most_waiting;
  if (inline_run)
    run_job(w, job, NULL);
  else if (room)
    list_add(w, job);
  else
    w->stats.refused++;
  pthread_mutex_unlock(&w->lock);
  if (room && !inline_run) pthread_cond_signal(&w->arrived);
  return room || error_set(e, ERROR_BUSY, "%d jobs wait already; try again later", w->most_waiting);
}

// Under the lock.
static bool take_back(struct work *w, struct work_job *job) {
  if (!job->waiting) return false;
  list_remove(w, job);
  w->stats.cancelled++;
  return true;
}

bool work_cancel(struct work *w, struct work_job *job) {
  pthread_mutex_lock(&w->lock);
  bool waited = take_back(w, job);
  pthread_mutex_unlock(&w->lock);
  return waited;
}

static bool is_running(const struct work *w, const struct work_job *job) {
  for (int i = 0; i < w->places; i++)
    if (w->running[i] == job) return true;
  return false;
}

bool work_finish(struct work *w, struct work_job *job) {
  pthread_mutex_lock(&w->lock);
  bool waited = take_back(w, job);
  while (is_running(w, job)) pthread_cond_wait(&w->ended, &w->lock);
  pthread_mutex_unlock(&w->lock);
  return waited;
}

void work_stats_read(struct work *w, struct work_stats *out) {
  pthread_mutex_lock(&w->lock);
  *out = w->stats;
  pthread_mutex_unlock(&w->lock);
}
