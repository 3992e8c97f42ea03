// SPDX-License-Identifier: Apache-2.0
//
// test_program.c: advice names the program as it was called; the log's settings come from flags or
// from the environment; the rows of options that commands share.

#include "support/check.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"

static const struct cli_command command = {.name = "greet", .usage = "motley greet"};

// What a text becomes when the program was called as `name`.
static void advise(char *name, const char *text, char *out, size_t size) {
  char *before = program_invocation_name;
  FILE *file = tmpfile();
  assert_non_null(file);
  program_invocation_name = name;
  cli_advise(file, text);
  program_invocation_name = before;
  rewind(file);
  out[fread(out, 1, size - 1, file)] = 0;
  fclose(file);
}

static void advice_can_be_typed_as_it_stands(void **state) {
  (void)state;
  static const struct {
    const char *text, *becomes;
  } cases[] = {
      {"motley pull x", "build/motley pull x"},
      {"get one with: motley pull pypi:x", "get one with: build/motley pull pypi:x"},
      {"(motley models lists them)", "(build/motley models lists them)"},
      {"\"motley run\" or motley up", "\"build/motley run\" or build/motley up"},
      {"motley --help", "build/motley --help"},
      {"motley up; motley doctor.", "build/motley up; build/motley doctor."},
      {"another motley is here", "another motley is here"},
      {"motley runs models", "motley runs models"},  // no command: a word that begins like one
      {"motley pulls", "motley pulls"},
      {"amotley pull x", "amotley pull x"},
      {"a/motley pull x", "a/motley pull x"},
      {"motley", "motley"},
      {"", ""},
      {"motley pull", "build/motley pull"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char name[] = "build/motley", out[200];
    advise(name, cases[i].text, out, sizeof out);
    if (strcmp(out, cases[i].becomes) != 0) fail_msg("\"%s\" became \"%s\"", cases[i].text, out);
  }
}

// Runs with stderr closed: what is said of wrong values is looked at in
// test/server/logging.test.py.
static int set_log(const char *level, const char *form) {
  int kept = dup(STDERR_FILENO);
  assert_non_null(freopen("/dev/null", "w", stderr));
  int status = cli_set_log(&command, level, form);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  return status;
}

static void flags_count_before_the_environment(void **state) {
  (void)state;
  unsetenv("MOTLEY_LOG"), unsetenv("MOTLEY_LOG_FORMAT");
  assert_int_equal(set_log(NULL, NULL), 0);
  assert_false(log_shows(LOG_INFO));  // as the log room has it
  assert_true(log_shows(LOG_WARNING));
  setenv("MOTLEY_LOG", "debug", 1);
  assert_int_equal(set_log(NULL, NULL), 0);
  assert_true(log_shows(LOG_DEBUG));
  assert_int_equal(set_log("error", NULL), 0);
  assert_false(log_shows(LOG_WARNING));
  setenv("MOTLEY_LOG", "loud", 1);
  assert_int_equal(set_log("off", NULL), 0);  // a wrong value that does not count is not looked at
  assert_false(log_shows(LOG_ERROR));
  assert_int_equal(set_log(NULL, NULL), 2);
  assert_int_equal(set_log("loud", NULL), 2);
  assert_int_equal(set_log("info", "xml"), 2);
  assert_int_equal(set_log("info", "text"), 0);
  unsetenv("MOTLEY_LOG");
}

// The shared rows fill the options they belong to, in every command that has them.
static void shared_rows_reach_their_options(void **state) {
  (void)state;
  for (int sized = 0; sized < 2; sized++) {
    struct cli_model_options m = {0};
    struct cli_option rows[CLI_MODEL_ROWS];
    struct cli_parsed parsed;
    bool own = false;
    cli_model_rows(&m, sized, rows);
    const struct cli_option options[] = {{"own", 0, CLI_FLAG, NULL, "", &own, 0, 0},
                                         CLI_OPTION_MORE(rows)};
    char *words[] = {(char[]){"greet"}, (char[]){"--threads"},   (char[]){"3"},
                     (char[]){"--isa"}, (char[]){"avx2"},        (char[]){"--own"},
                     (char[]){"file"},  (char[]){"--tokenizer"}, (char[]){"words"},
                     (char[]){"-c"},    (char[]){"64"},          (char[]){"--cache=0.5"}};
    int count = sized ? (int)COUNT_OF(words) : (int)COUNT_OF(words) - 3;
    assert_int_equal(cli_parse(&command, options, 0, 1, count, words, &parsed), 0);
    assert_true(own && m.threads == 3);
    assert_string_equal(m.isa, "avx2");
    assert_string_equal(m.tokenizer, "words");
    assert_string_equal(parsed.positional[0], "file");
    assert_int_equal(m.context, sized ? 64 : 0);
    assert_true(m.cache_gib == (sized ? 0.5 : 0));
    assert_true(strstr(m.cache_help, "a quarter of the free memory") != NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(advice_can_be_typed_as_it_stands),
      cmocka_unit_test(flags_count_before_the_environment),
      cmocka_unit_test(shared_rows_reach_their_options),
  };
  return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
