// SPDX-License-Identifier: Apache-2.0
//
// program.c: advice names the program as it was called, so that it can be typed as it stands.
//
// Texts in the source say "motley pull …".  Somebody who called build/motley has no motley on the
// PATH, so on the way out each "motley" in front of a command (or of --help) becomes the name that
// this process was called by.  Other uses of the word stay.

#include <errno.h>
#include <string.h>

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
