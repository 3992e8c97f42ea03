// SPDX-License-Identifier: Apache-2.0
//
// cli.h: what every command of the program is made of.
//
// A command is a row: name, one-line summary, how it is called, an example, its options as a table,
// and a function.
// `--help` is printed from the row, so help and parser cannot differ.  Exit status: 0 done, 1
// failed (one line on stderr says why), 2 called wrongly.
#pragma once

#include <stdio.h>

#include "base/base.h"
#include "engine/engine.h"
#include "kernel/kernel.h"
#include "model/model.h"

enum cli_option_kind { CLI_FLAG, CLI_TEXT, CLI_INTEGER, CLI_NUMBER, CLI_MORE };
struct cli_option {
  const char *name;  // long name without "--"
  char letter;       // short form, 0 = none
  enum cli_option_kind kind;
  const char *argument;  // how --help calls the value; NULL for flags
  const char *help;
  // bool, const char *, int64_t or double; untouched when the option is absent.  CLI_MORE: the
  // table that goes on here, which is not written.
  void *target;
  double low, high;  // allowed range of numbers, both ends included
};
#define CLI_OPTION_END \
  { 0 }
// Ends a table too: the rows of `table` follow, as if they stood here.
#define CLI_OPTION_MORE(table) \
  { .name = "", .kind = CLI_MORE, .target = (table) }

struct cli_command {
  const char *name;
  const char *summary;  // for the list of commands
  const char *usage;    // "motley run MODEL [options]"
  const char *example;  // whole lines, each a command that works
  int (*run)(const struct cli_command *self, int argc,
             char **argv);  // argv[0] is the command's name
  const char *notes;        // more for --help: whole lines, or NULL
};

// Options may stand anywhere; what is left over goes to positional[], at most `most` of them, "--"
// ends options. 0 = go on; else the exit status is (result - 1): --help was printed, or a line
// about what is wrong.
struct cli_parsed {
  const char *positional[4];
  int count;
};
int cli_parse(const struct cli_command *self, const struct cli_option *options, int fewest,
              int most, int argc, char **argv, struct cli_parsed *out);
bool cli_output_check(struct error *e);  // flushes stdout; false when some of it was lost
int cli_fail(const struct error *e);     // prints "motley: text" and returns 1
// Prints "motley NAME: text" and how to get help; returns 2.
int cli_misuse(const struct cli_command *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Sets what the log shows, from the values of --log and --log-format; where one is NULL, from
// MOTLEY_LOG and MOTLEY_LOG_FORMAT.  0, or the status of a wrong call.
int cli_set_log(const struct cli_command *self, const char *level, const char *form);
// Prints the text with "motley COMMAND" in it as this program was called: "build/motley COMMAND".
void cli_advise(FILE *file, const char *text);

// ---- a model ready to generate, as run, bench and up need it.

struct cli_model_options {
  const char *model;          // MODEL as on the command line; NULL = the only pulled one
  const char *tokenizer;      // llama2.c only
  const char *isa;            // NULL = best
  int64_t threads;            // 0 = one per processor
  int64_t context;            // 0 = the model's, within what the cache holds
  const char *context_flags;  // what makes up context, for a refusal; NULL = --context
  int64_t sequences;          // 0 = default
  double cache_gib;           // 0 = default
  char cache_help[200];       // made by cli_model_rows
};
// The rows of the options above that several commands share: how the model is read and run.  A
// table of options ends with CLI_OPTION_MORE(rows).  sized: with --context and --cache.
#define CLI_MODEL_ROWS 6
void cli_model_rows(struct cli_model_options *m, bool sized,
                    struct cli_option rows[CLI_MODEL_ROWS]);

struct cli_runtime {  // everything a model stands on, in order of creation
  struct device *device;
  struct kernel_context *kernel;
  struct model *model;
  struct engine *engine;
  char name[96];  // as listed, or made from the file's name
  char *path;     // of the model file; owned
};
// Life cycle: resolve (cheap: finds the file), open (reads it), close.  close may follow either, or
// a failure.
bool cli_runtime_resolve(const struct cli_model_options *options, struct cli_runtime *out,
                         struct error *e);
bool cli_runtime_open(const struct cli_model_options *options, struct cli_runtime *r,
                      struct error *e);
void cli_runtime_close(struct cli_runtime *r);
extern const struct cli_command cli_up, cli_run, cli_pull, cli_models, cli_bench, cli_doctor;
