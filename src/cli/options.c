// SPDX-License-Identifier: Apache-2.0
//
// options.c: one parser for all commands, driven by their tables; --help comes from the same rows.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

// The rows of a table and of those that it goes on with; NULL at the end.
static const struct cli_option *row(const struct cli_option *o) {
  while (o->name && o->kind == CLI_MORE) o = o->target;
  return o->name ? o : NULL;
}

static void print_option(const struct cli_option *o) {
  char left[48];
  char letter[8] = "    ";
  if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
  snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
           o->argument ? o->argument : "");
  printf("  %-26s %s\n", left, o->help);
}

// Lines, each moved in by two columns.
static void print_lines(const char *lines) {
  struct buffer out = {0};
  for (const char *line = lines; *line;) {
    size_t length = strcspn(line, "\n");
    buffer_print(&out, "  %.*s\n", (int)length, line);
    line += length + (line[length] == '\n');
  }
  cli_advise(stdout, out.data);
  buffer_clear(&out);
}

static void print_help(const struct cli_command *self, const struct cli_option *options) {
  printf("%s\n\nUsage: ", self->summary);
  cli_advise(stdout, self->usage);
  printf("\n");
  if (row(options)) printf("\nOptions:\n");
  for (const struct cli_option *o = options; (o = row(o)) != NULL; o++) print_option(o);
  printf("\nExample:\n");
  print_lines(self->example);
  if (!self->notes) return;
  printf("\n");
  cli_advise(stdout, self->notes);
  printf("\n");
}

static void print_misuse(const struct cli_command *self, const char *format, va_list arguments) {
  struct buffer help = {0};
  fprintf(stderr, "motley %s: ", self->name);
  vfprintf(stderr, format, arguments);
  buffer_print(&help, "; motley %s --help shows how it is called\n", self->name);
  cli_advise(stderr, help.data);
  buffer_clear(&help);
}

int cli_misuse(const struct cli_command *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_misuse(self, format, arguments);
  va_end(arguments);
  return 2;
}

// The same inside the parser, where 1 means that help was printed.
#define usage_error(...) (cli_misuse(__VA_ARGS__) + 1)

// The row that `word` ("--name", "--name=value" or "-n") means; *value is what follows '='.
static const struct cli_option *find(const struct cli_option *options, const char *word,
                                     const char **value) {
  *value = NULL;
  for (const struct cli_option *o = options; (o = row(o)) != NULL; o++) {
    if (o->letter && word[1] == o->letter && word[2] == 0) return o;
    size_t length = strlen(o->name);
    if (word[1] != '-' || strncmp(word + 2, o->name, length) != 0) continue;
    if (word[2 + length] == '=') *value = word + 3 + length;
    if (word[2 + length] == '=' || word[2 + length] == 0) return o;
  }
  return NULL;
}

static bool in_range(const struct cli_option *o, double value) {
  return value >= o->low && value <= o->high;
}

// Stores the value; false when it is no such number or out of range.
static bool store(const struct cli_option *o, const char *value) {
  int64_t integer;
  double number;
  switch (o->kind) {
    case CLI_FLAG: *(bool *)o->target = true; return true;
    case CLI_TEXT: *(const char **)o->target = value; return true;
    case CLI_INTEGER:
      if (!str_to_int(str_of(value), &integer) || !in_range(o, (double)integer)) return false;
      *(int64_t *)o->target = integer;
      return true;
    case CLI_NUMBER:
      if (!str_to_double(str_of(value), &number) || !in_range(o, number)) return false;
      *(double *)o->target = number;
      return true;
    case CLI_MORE: break;  // no row: `row` has followed it
  }
  return false;
}

// Takes the option at argv[*i] (and its value); 0 or a usage error.
static int take_option(const struct cli_command *self, const struct cli_option *options, int argc,
                       char **argv, int *i) {
  const char *word = argv[*i], *value;
  const struct cli_option *o = find(options, word, &value);
  if (!o) return usage_error(self, "there is no option %s", word);
  if (o->kind == CLI_FLAG && value) return usage_error(self, "--%s takes no value", o->name);
  if (o->kind != CLI_FLAG && !value) {
    if (*i + 1 >= argc) return usage_error(self, "--%s needs a value: %s", o->name, o->argument);
    value = argv[++*i];
  }
  if (store(o, value)) return 0;
  return usage_error(self, "--%s %s: give %s from %.12g to %.12g", o->name, value,
                     o->kind == CLI_INTEGER ? "a whole number" : "a number", o->low, o->high);
}

int cli_parse(const struct cli_command *self, const struct cli_option *options, int fewest,
              int most, int argc, char **argv, struct cli_parsed *out) {
  *out = (struct cli_parsed){0};
  bool options_ended = false;
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    if (!options_ended && strcmp(word, "--") == 0) {
      options_ended = true;
    } else if (!options_ended && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      print_help(self, options);
      return 1;
    } else if (!options_ended && word[0] == '-' && word[1]) {
      int failed = take_option(self, options, argc, argv, &i);
      if (failed) return failed;
    } else if (out->count == most) {
      return usage_error(self, "\"%s\" is one word too many", word);
    } else {
      out->positional[out->count++] = word;
    }
  }
  if (out->count < fewest) return usage_error(self, "something is missing: %s", self->usage);
  return 0;
}

// A failure of the past leaves no reason behind, so what is still buffered is tried first.
bool cli_output_check(struct error *e) {
  errno = 0;
  bool failed = fflush(stdout) != 0 || ferror(stdout);
  return !failed || error_set_errno(e, errno ? errno : EIO, "cannot write to standard output");
}

int cli_fail(const struct error *e) {
  fprintf(stderr, "motley: ");
  cli_advise(stderr, e->text);
  fprintf(stderr, "\n");
  return 1;
}
