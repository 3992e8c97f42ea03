// SPDX-License-Identifier: Apache-2.0
//
// program.c: what holds for the program as a whole: the name it was called by, and its log.
//
// Advice names the program as it was called, so that it can be typed as it stands.  Texts in the
// source say "motley pull …".  Somebody who called build/motley has no motley on the PATH, so on
// the way out each "motley" in front of a command (or of --help) becomes the name that this process
// was called by.  Other uses of the word stay.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"

static const struct str called[] = {{"up", 2},     {"run", 3},       {"pull", 4},
                                    {"models", 6}, {"bench", 5},     {"doctor", 6},
                                    {"--help", 6}, {"--version", 9}, {"COMMAND", 7}};

static bool is_word_end(char c) { return !c || strchr(" \t\n;:,.)\"", c) != NULL; }

static bool begins_with_command(const char *text) {
  for (size_t i = 0; i < COUNT_OF(called); i++)
    if (strncmp(text, called[i].data, called[i].length) == 0 && is_word_end(text[called[i].length]))
      return true;
  return false;
}

void cli_advise(FILE *file, const char *text) {
  static const char name[] = "motley ";
  const size_t length = sizeof name - 1;
  for (const char *at; (at = strstr(text, name)); text = at + length) {
    bool word = at == text || strchr(" \"(", at[-1]);
    bool command = word && begins_with_command(at + length);
    fprintf(file, "%.*s%s ", (int)(at - text), text, command ? program_invocation_name : "motley");
  }
  fputs(text, file);
}

// The value that counts, and where it came from.
static const char *choose(const char *given, const char *flag, const char *variable,
                          const char **source) {
  *source = given ? flag : variable;
  return given ? given : getenv(variable);
}

int cli_set_log(const struct cli_command *self, const char *level, const char *form) {
  enum log_level lowest;
  enum log_form as;
  const char *source, *value = choose(level, "--log", "MOTLEY_LOG", &source);
  if (value && !log_level_parse(str_of(value), &lowest))
    return cli_misuse(self, "%s %s: give debug, info, warning, error or off", source, value);
  if (value) log_set_level(lowest);
  value = choose(form, "--log-format", "MOTLEY_LOG_FORMAT", &source);
  if (value && !log_form_parse(str_of(value), &as))
    return cli_misuse(self, "%s %s: give text or json", source, value);
  if (value) log_set_form(as);
  return 0;
}
