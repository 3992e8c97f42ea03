// SPDX-License-Identifier: Apache-2.0
//
// test_simulated.c: pulls in a simulated world where everything goes wrong, from one seed.
//
// A seed is a story of a few rounds on one machine.  In each, models are pulled (two at once, of
// one name, of one source), sometimes one is removed meanwhile, and something happens: the Nth call
// fails, the process is killed there, the power is cut there, or at some time; the network breaks.
// The server does what bad servers do (simulated_server.h).  After each round the disk is looked
// at; at the end everybody is honest, and all is pulled again.
//
// What must hold:
//   - a listed model is whole: its digest is the manifest's, and one that the server has had
//   - a pull that said yes is still there, and a removal that said yes too, whatever came after
//   - an error is one line
//   - in the end every pull succeeds, and nothing but the models is left
//   - the same seed gives the same log
//
// MOTLEY_SEEDS says how many stories are told; MOTLEY_SEED tells one, with its log.

#include <signal.h>

#include "library/simulated_server.h"

#define HOME "/home/motley"
#define MODELS HOME "/models"
#define ROUND_NS (1200 * SECOND)  // after which nobody should be at work any more
#define ATTEMPTS_MAX 8            // processes of one round
#define FINAL_TRIES 6             // pulls until one is through, when nothing fails any more
#define WEEKS_NS (15 * 24 * 3600 * SECOND)

// ---- the story

// What is pulled, and the name it gets.
static const struct pulled {
  const char *source, *name;
} pulled[SERVED] = {
    [PLAIN] = {"http://files/plain.gguf", "plain"},
    [SUM] = {"http://files/moved/sum.gguf", "sum"},
    [PACK] = {"http://files/pack.whl", "packed"},
    [HUB] = {"hf:Org/Repo", "hub"},
    [PIPED] = {"pypi:llm-sim", "piped"},
    [RIVAL] = {"http://files/other/plain.gguf", "plain"},
};

// What is known about a name.  An "allowed" digest may be the model's, by enum served_file and
// version.
struct promise {
  bool there, gone;        // it must be listed; it must not
  enum served_file owner;  // while it is there: what was pulled
  bool allowed[SERVED][VERSIONS];
  int pulls, removals;  // under way
};

struct attempt;
struct story {
  struct simulation *simulation;
  struct simulation_machine *home, *files;
  struct file_server server;
  struct promise promises[SERVED];  // by the first file of the name
  struct attempt *attempts;         // of this round
  int attempt_count;
  uint64_t dice;
  const struct world *(*world)(const struct world *w, struct world *broken);  // NULL = as it is
  bool sure;         // nothing fails any more
  int done, failed;  // pulls
  char fault[300];   // the first promise that was broken; "" = none
};

struct attempt {
  struct story *story;
  enum served_file file;
  bool removes;
  int version;   // the one whose digest is asked for, where it is
  int patience;  // progress calls until it is stopped; 0 = for ever
  bool succeeded;
  struct simulation_process *process;
};

static uint64_t dice(struct story *s, uint64_t sides) { return random_next(&s->dice) % sides; }

static void __attribute__((format(printf, 2, 3))) blame(struct story *s, const char *format, ...) {
  va_list arguments;
  if (s->fault[0]) return;
  va_start(arguments, format);
  vsnprintf(s->fault, sizeof s->fault, format, arguments);
  va_end(arguments);
}

static struct promise *promise_of(struct story *s, enum served_file file) {
  return &s->promises[file == RIVAL ? PLAIN : file];
}

// ---- a process that pulls, and one that removes

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
  struct attempt *a = context;
  if (!what || (total && done > total)) blame(a->story, "progress of %s beyond its end", what);
  return !a->patience || --a->patience;
}

static void check_error(struct story *s, const struct error *e) {
  if (e->kind == ERROR_NONE || !e->text[0] || strchr(e->text, '\n'))
    blame(s, "an error is not one line: \"%s\"", e->text);
}

static const struct world *world_for(struct story *s, const struct world *w, struct world *room) {
  return s->world ? s->world(w, room) : w;
}

// What the attempt may bring.
static void allow(struct promise *p, const struct attempt *a) {
  for (int v = 0; v < VERSIONS; v++)
    if (a->file != SUM || v == a->version) p->allowed[a->file][v] = true;
}

static void note_pulled(struct attempt *a, const struct library_model *m) {
  struct promise *p = promise_of(a->story, a->file);
  if (p->removals == 0) {
    *p = (struct promise){.there = true, .owner = a->file, .pulls = p->pulls};
    allow(p, a);
  }
  if (strcmp(m->name, pulled[a->file].name) != 0)
    blame(a->story, "%s became %s", pulled[a->file].source, m->name);
  a->succeeded = true;
  a->story->done++;
}

// Notes are made where no call of the world lies between them and what they are about.
static int pull_main(const struct world *w, void *context) {
  struct attempt *a = context;
  struct promise *p = promise_of(a->story, a->file);
  struct world room;
  struct library_model m = {0};
  struct error e = {0};
  struct library *l = library_open(world_for(a->story, w, &room), HOME, &e);
  struct library_pull pull = {
      .source = pulled[a->file].source, .progress = on_progress, .context = a};
  if (a->file == SUM) pull.sha256 = contents[SUM][a->version].file_digest;
  p->pulls++;
  p->gone = false;
  if (!p->there || p->owner == a->file) allow(p, a);
  bool done = library_pull_model(l, &pull, &m, &e);
  p->pulls--;
  if (done)
    note_pulled(a, &m);
  else
    check_error(a->story, &e), a->story->failed++;
  if (!done && a->story->simulation && getenv("MOTLEY_SEED")) print_message("  %s\n", e.text);
  library_model_clear(&m);
  library_close(l);
  return done ? 0 : 1;
}

static int remove_main(const struct world *w, void *context) {
  struct attempt *a = context;
  struct promise *p = promise_of(a->story, a->file);
  struct world room;
  struct error e = {0};
  struct library *l = library_open(world_for(a->story, w, &room), HOME, &e);
  p->removals++;
  p->there = false;
  for (int i = 0; i < a->story->attempt_count; i++) {  // the name becomes free for who waits for it
    const struct attempt *other = &a->story->attempts[i];
    if (!other->removes && promise_of(a->story, other->file) == p) allow(p, other);
  }
  bool done = library_remove(l, pulled[a->file].name, &e);
  p->removals--;
  if (done && p->pulls == 0) p->gone = true;
  if (!done) check_error(a->story, &e);
  library_close(l);
  return done ? 0 : 1;
}

static struct attempt *begin_attempt(struct story *s, enum served_file file, bool removes) {
  struct attempt *a = &s->attempts[s->attempt_count++];
  *a = (struct attempt){.story = s, .file = file, .removes = removes};
  a->version = (int)dice(s, 8) ? 0 : (int)dice(s, VERSIONS);
  if (!s->sure && dice(s, 6) == 0) a->patience = 1 + (int)dice(s, 40);
  if (s->sure) a->version = s->server.version[SUM];
  a->process =
      simulation_spawn(s->home, removes ? "remove" : "pull", removes ? remove_main : pull_main, a);
  return a;
}

// ---- what is on the disk

static enum served_file file_of_source(const char *source) {
  for (int f = 0; f < SERVED; f++) {
    size_t n = strlen(pulled[f].source);
    if (strncmp(source, pulled[f].source, n) == 0 && strchr("/=", source[n])) return f;
  }
  return SERVED;
}

static bool is_allowed(const struct promise *p, enum served_file file, const char *digest) {
  for (int v = 0; v < VERSIONS; v++)
    if (p->allowed[file][v] && strcmp(contents[file][v].model_digest, digest) == 0) return true;
  return false;
}

static void check_model(struct story *s, const struct library *l, const struct library_model *m) {
  struct error e = {0};
  enum served_file file = file_of_source(m->source);
  if (file == SERVED) return blame(s, "%s comes from %s", m->name, m->source);
  if (!library_model_is_intact(l, m, &e)) return blame(s, "listed and not whole: %s", e.text);
  if (!is_allowed(promise_of(s, file), file, m->sha256))
    blame(s, "%s has a digest that was not served or not asked for", m->name);
}

// The list as a new process would see it, and what was promised.
static void check_disk(struct story *s) {
  struct library_model *list;
  int count, broken;
  struct error e = {0};
  simulation_fail(s->home, SIMULATION_ANY, UINT64_MAX, -EIO);
  struct library *l = library_open(simulation_world(s->home), HOME, &e);
  if (!library_models(l, &list, &count, &broken, &e)) fail_msg("%s", e.text);
  if (broken) blame(s, "%d damaged models", broken);
  for (int f = 0; f < RIVAL; f++) {
    bool listed = false;
    for (int i = 0; i < count; i++) listed |= strcmp(list[i].name, pulled[f].name) == 0;
    if (s->promises[f].there && !listed) blame(s, "%s was pulled and is lost", pulled[f].name);
    if (s->promises[f].gone && listed) blame(s, "%s was removed and is back", pulled[f].name);
  }
  for (int i = 0; i < count; i++) check_model(s, l, &list[i]);
  library_models_free(list, count);
  library_close(l);
}

// ---- what happens meanwhile

static void cut_power(void *context) { simulation_power_cut(((struct story *)context)->home); }
static void break_network(void *context) {
  struct story *s = context;
  simulation_reset(s->home, s->files);
}
static void mend_network(void *context) {
  struct story *s = context;
  simulation_cut_off(s->home, s->files, false);
  simulation_cut_off(s->files, s->home, false);
}
static void kill_one(void *context) {
  struct story *s = context;
  struct simulation_process *p = s->attempts[dice(s, (uint64_t)s->attempt_count)].process;
  if (!simulation_ended(p, NULL)) simulation_signal(p, dice(s, 2) ? SIGKILL : SIGTERM);
}
static void part_network(void *context) {
  struct story *s = context;
  simulation_cut_off(s->home, s->files, dice(s, 3) > 0);
  simulation_cut_off(s->files, s->home, dice(s, 3) > 0);
  simulation_at(s->simulation, simulation_now_ns(s->simulation) + dice(s, 60 * SECOND),
                mend_network, s);
}

static void script_fault(struct story *s) {
  static const int results[] = {-EIO, -ENOSPC, SIMULATION_KILL, SIMULATION_POWER_CUT};
  static void (*const events[])(void *context) = {cut_power, kill_one, break_network, part_network};
  uint64_t kind = dice(s, 8);
  if (kind == 0) return;
  if (kind < 5) {
    static const struct {
      enum simulation_kind kind;
      uint64_t calls;  // of a pull, roughly
    } kinds[] = {{SIMULATION_ANY, 300},       {SIMULATION_ANY_CHANGE, 60},
                 {SIMULATION_ANY_CHANGE, 60}, {SIMULATION_WRITE_AT, 10},
                 {SIMULATION_WRITE_AT, 20},   {SIMULATION_WRITE_AT, 20},
                 {SIMULATION_SYNC, 30},       {SIMULATION_RENAME, 8}};
    uint64_t i = dice(s, COUNT_OF(kinds));
    simulation_fail(s->home, kinds[i].kind, 1 + dice(s, kinds[i].calls),
                    results[dice(s, COUNT_OF(results))]);
  } else {
    uint64_t longest = dice(s, 2) ? 100 * MS : 20 * SECOND;
    simulation_at(s->simulation, simulation_now_ns(s->simulation) + dice(s, longest),
                  events[dice(s, COUNT_OF(events))], s);
  }
}

// Runs what was begun until all have ended.
static void run_round(struct story *s) {
  struct simulation *simulation = s->simulation;
  simulation_run(simulation, simulation_now_ns(simulation) + ROUND_NS);
  mend_network(s);
  for (int i = 0; i < s->attempt_count; i++)
    if (!simulation_ended(s->attempts[i].process, NULL)) blame(s, "a pull does not come to an end");
  for (int f = 0; f < SERVED; f++) s->promises[f].pulls = s->promises[f].removals = 0;
  if (!simulation_is_on(s->home)) simulation_power_on(s->home);
  check_disk(s);
  s->attempt_count = 0;
}

// The home's folders are made by one process alone.  When two make them at once and one cannot sync
// them, it cannot take them away from the other either, and that one has no way to know that their
// names may be lost.
static void wild_round(struct story *s) {
  bool made = file_exists(simulation_world(s->home), MODELS "/.pull");
  uint64_t crowd = made ? dice(s, 3) : 0;
  enum served_file file = (enum served_file)dice(s, SERVED);
  begin_attempt(s, file, false);
  if (crowd == 1) begin_attempt(s, (enum served_file)dice(s, SERVED), false);
  if (crowd == 2) begin_attempt(s, file == PLAIN ? RIVAL : file, false);
  if (dice(s, 4) == 0) begin_attempt(s, file, true);
  script_fault(s);
  run_round(s);
}

// ---- the end

static bool pull_until_done(struct story *s, enum served_file file) {
  for (int i = 0; i < FINAL_TRIES; i++) {
    struct attempt *a = begin_attempt(s, file, false);
    run_round(s);
    if (a->succeeded) return true;
  }
  return false;
}

struct look {
  struct story *story;
  const char *folder;
};

// Nothing in models/ but the models and the lock, and in .pull/ nothing at all.
static bool look_at_models(void *context, const char *name) {
  struct look *l = context;
  bool known = strcmp(name, ".lock") == 0 || strcmp(name, ".pull") == 0;
  for (int f = 0; f < RIVAL; f++) known = known || strcmp(name, pulled[f].name) == 0;
  if (!known) blame(l->story, "left over: %s/%s", l->folder, name);
  return true;
}
static bool look_at_files(void *context, const char *name) {
  struct look *l = context;
  if (strcmp(name, "model.json") != 0 && !library_model_file(name))
    blame(l->story, "left over: %s/%s", l->folder, name);
  return true;
}
static bool look_at_nothing(void *context, const char *name) {
  struct look *l = context;
  blame(l->story, "left over: %s/%s", l->folder, name);
  return true;
}

static void check_left_overs(struct story *s) {
  const struct world *w = simulation_world(s->home);
  world_list(w, MODELS, look_at_models, &(struct look){s, MODELS});
  world_list(w, MODELS "/.pull", look_at_nothing, &(struct look){s, MODELS "/.pull"});
  for (int f = 0; f < RIVAL; f++) {
    char folder[100];
    snprintf(folder, sizeof folder, MODELS "/%s", pulled[f].name);
    world_list(w, folder, look_at_files, &(struct look){s, folder});
  }
}

static void nothing(void *context) { (void)context; }

// Everybody is honest, nothing fails.  A rival keeps the name if it has it, until it is removed;
// weeks later what it left is gone too.
static void happy_end(struct story *s) {
  s->sure = s->server.honest = true;
  begin_attempt(s, PLAIN, true);
  run_round(s);
  simulation_at(s->simulation, simulation_now_ns(s->simulation) + WEEKS_NS, nothing, NULL);
  simulation_run(s->simulation, simulation_now_ns(s->simulation) + WEEKS_NS + SECOND);
  for (int f = 0; f < RIVAL; f++)
    if (!pull_until_done(s, (enum served_file)f)) blame(s, "%s cannot be pulled", pulled[f].name);
  check_left_overs(s);
}

static void print_line(void *context, const char *line) {
  (void)context;
  print_message("%s\n", line);
}

struct told {  // what came of a story
  uint64_t hash, faults;
  int done, failed;
  char fault[300];
};

static struct told tell(uint64_t seed,
                        const struct world *(*world)(const struct world *, struct world *)) {
  struct attempt attempts[ATTEMPTS_MAX];
  struct story s = {.dice = seed, .world = world, .attempts = attempts};
  struct simulation_options options = {.loss_ppm = (uint32_t)dice(&s, 3) * 5000,
                                       .reset_ppm = (uint32_t)dice(&s, 3) * 2000,
                                       .short_ppm = (uint32_t)dice(&s, 2) * 200000,
                                       .give_up_ns = 90 * SECOND,
                                       .connect_ns = 60 * SECOND,
                                       .print = getenv("MOTLEY_SEED") ? print_line : NULL};
  s.simulation = simulation_new(seed, &options);
  s.home = simulation_machine(s.simulation, "home");
  s.files = simulation_machine(s.simulation, "files");
  s.server = (struct file_server){.dice = seed ^ 0x5eed, .honest = dice(&s, 4) == 0};
  simulation_program(s.simulation, "python3", pip_main, &s.server);
  simulation_spawn(s.files, "server", file_server_main, &s.server);
  for (uint64_t rounds = 2 + dice(&s, 3); rounds && !s.fault[0]; rounds--) wild_round(&s);
  if (!s.fault[0]) happy_end(&s);
  struct told told = {simulation_log_hash(s.simulation), simulation_faults(s.simulation), s.done,
                      s.failed, ""};
  memcpy(told.fault, s.fault, sizeof told.fault);
  simulation_free(s.simulation);
  return told;
}

static uint64_t seeds_wanted(uint64_t usual) {
  const char *wanted = getenv("MOTLEY_SEEDS");
  return wanted ? strtoull(wanted, NULL, 10) : usual;
}

static void pulls_keep_their_promises(void **state) {
  (void)state;
  uint64_t first = 0, count = seeds_wanted(100), faults = 0, done = 0, failed = 0;
  if (getenv("MOTLEY_SEED")) first = strtoull(getenv("MOTLEY_SEED"), NULL, 10), count = 1;
  for (uint64_t seed = first; seed < first + count; seed++) {
    struct told t = tell(seed, NULL);
    if (t.fault[0]) fail_msg("seed %llu: %s", (unsigned long long)seed, t.fault);
    faults += t.faults, done += (uint64_t)t.done, failed += (uint64_t)t.failed;
  }
  print_message("%llu stories: %llu faults, %llu pulls succeeded, %llu failed in one line\n",
                (unsigned long long)count, (unsigned long long)faults, (unsigned long long)done,
                (unsigned long long)failed);
}

static void the_same_seed_gives_the_same_log(void **state) {
  (void)state;
  uint64_t hashes[10];
  for (uint64_t seed = 0; seed < 10; seed++) hashes[seed] = tell(seed, NULL).hash;
  for (uint64_t seed = 10; seed-- > 0;)
    assert_int_equal(tell(seed, NULL).hash == hashes[seed], true);
  assert_int_not_equal(hashes[0], hashes[1]);
}

// ---- broken worlds: what a careless program would do, each is found out

static const struct world_calls *right;  // the simulation's own calls
static int not_synced = -1;              // of RENAME FIRST

static bool is_folder(void *context, int handle) {
  struct world_file_info info;
  return right->info_of(context, handle, &info) == 0 && info.kind == WORLD_DIRECTORY;
}
static int sync_folders_only(void *context, int handle) {
  return is_folder(context, handle) ? right->sync(context, handle) : 0;
}
static int sync_files_only(void *context, int handle) {
  return is_folder(context, handle) ? 0 : right->sync(context, handle);
}
static int sync_unchecked(void *context, int handle) {
  right->sync(context, handle);
  return 0;
}
static int sync_later(void *context, int handle) {
  if (is_folder(context, handle)) return right->sync(context, handle);
  not_synced = handle;
  return 0;
}
static int rename_first(void *context, const char *from, const char *to) {
  int result = right->rename(context, from, to), handle = not_synced;
  not_synced = -1;
  if (handle >= 0) right->sync(context, handle);
  return result;
}
static int64_t write_unchecked(void *context, int handle, const void *data, size_t size,
                               uint64_t offset) {
  right->write_at(context, handle, data, size, offset);
  return (int64_t)size;
}
static int lock_nothing(void *context, int handle) {
  (void)context, (void)handle;
  return 0;
}

static struct world_calls wrong;
static const struct world *break_world(const struct world *w, struct world *room) {
  *room = (struct world){&wrong, w->context};
  return room;
}

// `likely`: where it was found the last time; the search begins there, unless many seeds are
// wanted.
static void careless_programs_are_found_out(void **state) {
  (void)state;
  const struct {
    const char *name;
    uint64_t likely;
    struct world_calls calls;  // instead of the right ones where not NULL
  } careless[] = {
      {"no sync of files", 0, {.sync = sync_folders_only}},
      {"no sync of folders", 7, {.sync = sync_files_only}},
      {"syncs not looked at", 246, {.sync = sync_unchecked}},
      {"renamed before the sync", 597, {.sync = sync_later, .rename = rename_first}},
      {"writes not looked at", 545, {.write_at = write_unchecked}},
      {"no locks", 37, {.lock = lock_nothing}},
  };
  struct simulation *s = simulation_new(0, NULL);
  right = simulation_world(simulation_machine(s, "a"))->calls;
  simulation_free(s);
  for (size_t i = 0; i < COUNT_OF(careless); i++) {
    uint64_t first = seeds_wanted(0) ? 0 : careless[i].likely, told = 0;
    struct told t = {0};
    wrong = *right;
    if (careless[i].calls.sync) wrong.sync = careless[i].calls.sync;
    if (careless[i].calls.rename) wrong.rename = careless[i].calls.rename;
    if (careless[i].calls.write_at) wrong.write_at = careless[i].calls.write_at;
    if (careless[i].calls.lock) wrong.lock = careless[i].calls.lock;
    while (told < 1000 && !t.fault[0]) t = tell((first + told++) % 1000, break_world);
    print_message("%s: found by story %llu: %s\n", careless[i].name, (unsigned long long)told,
                  t.fault);
    if (!t.fault[0]) fail_msg("%s: not found out in 1000 stories", careless[i].name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pulls_keep_their_promises),
      cmocka_unit_test(the_same_seed_gives_the_same_log),
      cmocka_unit_test(careless_programs_are_found_out),
  };
  setenv("HF_ENDPOINT", "http://files", 1);
  unsetenv("HF_TOKEN");
  make_contents();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  drop_contents();
  return failed;
}
