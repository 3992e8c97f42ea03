// SPDX-License-Identifier: Apache-2.0
//
// test_options.c: the parser that all commands share: what it takes, what it refuses, what it says.
//
// A made-up command has one option of each kind.  A case is a command line and what it must give:
// values, words that are left over, or one line on stderr.  stdout and stderr go to files while the
// parser runs, so that what a person would read can be compared.

#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"
#include "support/check.h"

// ---- a command with one option of each kind

static struct values {
  bool loud;
  const char *name;
  int64_t count;
  double share;
} v;

static const struct cli_option options[] = {
    {"loud", 'l', CLI_FLAG, NULL, "says more", &v.loud, 0, 0},
    {"name", 'n', CLI_TEXT, "NAME", "whom to greet", &v.name, 0, 0},
    {"count", 'c', CLI_INTEGER, "N", "how often", &v.count, 1, 100},
    {"share", 0, CLI_NUMBER, "X", "how much of it", &v.share, -2, 2.5},
    {"counter", 0, CLI_INTEGER, "N", "a name that begins like another", &v.count, 0, 9},
    CLI_OPTION_END,
};

static const struct cli_command command = {
    .name = "greet",
    .summary = "Greets somebody.",
    .usage = "motley greet WHOM [options]",
    .example = "motley greet Ann\nmotley greet Bob --count 2",
    .notes = "It greets politely.",
};

// ---- what is printed while the parser runs

struct outcome {
  int result;
  struct cli_parsed parsed;
  char out[4096], errors[4096];
};

static void read_back(FILE *file, char *text, size_t size) {
  rewind(file);
  text[fread(text, 1, size - 1, file)] = 0;
  fclose(file);
}

// Sends descriptor `fd` to a fresh file; returns a copy of what it was.
static int redirect(int fd, FILE **to) {
  *to = tmpfile();
  assert_non_null(*to);
  int kept = dup(fd);
  dup2(fileno(*to), fd);
  return kept;
}

static void restore(int fd, int kept) {
  dup2(kept, fd);
  close(kept);
}

// words: separated by spaces; "_" stands for an empty word.
static struct outcome parse(const char *words, int fewest, int most) {
  static char line[512];
  char *argv[32] = {(char[]){"greet"}};
  int argc = 1;
  snprintf(line, sizeof line, "%s", words);
  for (char *rest = line, *word; (word = strsep(&rest, " "));)
    if (*word) argv[argc++] = strcmp(word, "_") == 0 ? word + 1 : word;
  struct outcome o = {0};
  FILE *out, *errors;
  v = (struct values){0};
  fflush(stdout);
  int kept_out = redirect(STDOUT_FILENO, &out), kept_errors = redirect(STDERR_FILENO, &errors);
  o.result = cli_parse(&command, options, fewest, most, argc, argv, &o.parsed);
  fflush(stdout);
  fflush(stderr);
  restore(STDOUT_FILENO, kept_out);
  restore(STDERR_FILENO, kept_errors);
  read_back(out, o.out, sizeof o.out);
  read_back(errors, o.errors, sizeof o.errors);
  return o;
}

static void check_silent(const struct outcome *o) {
  assert_string_equal(o->out, "");
  assert_string_equal(o->errors, "");
}

// One line that names the command, has the words, and tells where help is.
static void check_refused(const char *words, int fewest, int most, const char *expected) {
  struct outcome o = parse(words, fewest, most);
  if (o.result != 3 || !strstr(o.errors, expected))
    fail_msg("\"%s\": result %d, said \"%s\", wanted \"%s\"", words, o.result, o.errors, expected);
  assert_ptr_equal(strstr(o.errors, "motley greet: "), o.errors);
  assert_non_null(strstr(o.errors, "greet --help shows how it is called"));
  assert_ptr_equal(strchr(o.errors, '\n'), o.errors + strlen(o.errors) - 1);
  assert_string_equal(o.out, "");
}

// ---- what it takes

static void test_options_may_stand_anywhere(void **state) {
  (void)state;
  static const char *const lines[] = {
      "Ann --loud --count 7 --share 0.5 --name Bob",
      "--loud --count 7 Ann --share 0.5 --name Bob",
      "--name=Bob --share=0.5 --count=7 --loud Ann",
      "-l -c 7 -n Bob --share 0.5 Ann",
  };
  for (size_t i = 0; i < COUNT_OF(lines); i++) {
    struct outcome o = parse(lines[i], 1, 1);
    assert_int_equal(o.result, 0);
    check_silent(&o);
    assert_true(v.loud && v.count == 7 && v.share == 0.5);
    assert_string_equal(v.name, "Bob");
    assert_int_equal(o.parsed.count, 1);
    assert_string_equal(o.parsed.positional[0], "Ann");
  }
}

static void test_what_is_absent_stays_as_it_was(void **state) {
  (void)state;
  struct outcome o = parse("", 0, 2);
  assert_int_equal(o.result, 0);
  check_silent(&o);
  assert_true(!v.loud && !v.name && v.count == 0 && v.share == 0);
  assert_int_equal(o.parsed.count, 0);
}

static void test_the_last_of_two_counts(void **state) {
  (void)state;
  assert_int_equal(parse("--count 7 --count 8", 0, 0).result, 0);
  assert_int_equal(v.count, 8);
}

static void test_borders_of_a_range_belong_to_it(void **state) {
  (void)state;
  assert_int_equal(parse("--count 1 --share -2", 0, 0).result, 0);
  assert_true(v.count == 1 && v.share == -2);
  assert_int_equal(parse("--count 100 --share 2.5", 0, 0).result, 0);
  assert_true(v.count == 100 && v.share == 2.5);
}

static void test_two_dashes_end_the_options(void **state) {
  (void)state;
  struct outcome o = parse("-- --loud -h --", 0, 4);
  assert_int_equal(o.result, 0);
  assert_false(v.loud);
  assert_int_equal(o.parsed.count, 3);
  assert_string_equal(o.parsed.positional[0], "--loud");
  assert_string_equal(o.parsed.positional[1], "-h");
  assert_string_equal(o.parsed.positional[2], "--");
}

// A single dash is a word (standard input, for some), and an empty word is one too.
static void test_words_that_look_like_options(void **state) {
  (void)state;
  struct outcome o = parse("- _", 0, 4);
  assert_int_equal(o.result, 0);
  assert_int_equal(o.parsed.count, 2);
  assert_string_equal(o.parsed.positional[0], "-");
  assert_string_equal(o.parsed.positional[1], "");
}

// A value may begin with a dash, and may be empty.
static void test_values_are_taken_as_they_are(void **state) {
  (void)state;
  assert_int_equal(parse("--name --loud", 0, 0).result, 0);
  assert_string_equal(v.name, "--loud");
  assert_false(v.loud);
  assert_int_equal(parse("--name=", 0, 0).result, 0);
  assert_string_equal(v.name, "");
  assert_int_equal(parse("--name=a=b", 0, 0).result, 0);
  assert_string_equal(v.name, "a=b");
  assert_int_equal(parse("--share -1.5", 0, 0).result, 0);
  assert_true(v.share == -1.5);
}

static void test_a_name_that_begins_like_another(void **state) {
  (void)state;
  assert_int_equal(parse("--counter 3", 0, 0).result, 0);
  assert_int_equal(v.count, 3);
  check_refused("--counter 10", 0, 0, "--counter 10: give a whole number from 0 to 9");
}

// ---- what it refuses

static void test_refusals_name_what_is_wrong(void **state) {
  (void)state;
  static const struct {
    const char *words;
    int fewest, most;
    const char *expected;
  } cases[] = {
      {"--no-such", 0, 0, "there is no option --no-such"},
      {"-x", 0, 0, "there is no option -x"},
      {"-lc", 0, 0, "there is no option -lc"},
      {"--lou", 0, 0, "there is no option --lou"},
      {"--loud=yes", 0, 0, "--loud takes no value"},
      {"--name", 0, 0, "--name needs a value: NAME"},
      {"-c", 0, 0, "--count needs a value: N"},
      {"--count 0", 0, 0, "--count 0: give a whole number from 1 to 100"},
      {"--count 101", 0, 0, "--count 101: give a whole number from 1 to 100"},
      {"--count 7.5", 0, 0, "--count 7.5: give a whole number"},
      {"--count 7x", 0, 0, "--count 7x: give a whole number"},
      {"--count=", 0, 0, "--count : give a whole number"},
      {"--count 99999999999999999999", 0, 0, "give a whole number from 1 to 100"},
      {"--share 2.50001", 0, 0, "--share 2.50001: give a number from -2 to 2.5"},
      {"--share -2.1", 0, 0, "give a number from -2 to 2.5"},
      {"--share nan", 0, 0, "--share nan: give a number"},
      {"--share inf", 0, 0, "--share inf: give a number"},
      {"--share 1,5", 0, 0, "--share 1,5: give a number"},
      {"one", 0, 0, "\"one\" is one word too many"},
      {"one two", 0, 1, "\"two\" is one word too many"},
      {"-- one two", 0, 1, "\"two\" is one word too many"},
      {"", 1, 1, "something is missing: motley greet WHOM"},
      {"--loud", 1, 1, "something is missing"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    check_refused(cases[i].words, cases[i].fewest, cases[i].most, cases[i].expected);
}

// A value that was refused leaves the target as it was.
static void test_a_refused_value_changes_nothing(void **state) {
  (void)state;
  assert_int_equal(parse("--count 5 --count 500", 0, 0).result, 3);
  assert_int_equal(v.count, 5);
}

// ---- help

static void test_help_shows_every_row(void **state) {
  (void)state;
  static const char *const lines[] = {"--help", "-h", "Ann --loud --help --no-such"};
  for (size_t i = 0; i < COUNT_OF(lines); i++) {
    struct outcome o = parse(lines[i], 1, 1);
    assert_int_equal(o.result, 1);
    assert_string_equal(o.errors, "");
    assert_ptr_equal(strstr(o.out, "Greets somebody."), o.out);
    assert_non_null(strstr(o.out, "greet WHOM [options]"));
    assert_non_null(strstr(o.out, "-l, --loud"));
    assert_non_null(strstr(o.out, "-n, --name NAME"));
    assert_non_null(strstr(o.out, "    --share X"));
    assert_non_null(strstr(o.out, "a name that begins like another"));
    assert_non_null(strstr(o.out, "Example:\n  "));
    assert_non_null(strstr(o.out, "greet Bob --count 2\n"));
    assert_non_null(strstr(o.out, "It greets politely."));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options_may_stand_anywhere),
      cmocka_unit_test(test_what_is_absent_stays_as_it_was),
      cmocka_unit_test(test_the_last_of_two_counts),
      cmocka_unit_test(test_borders_of_a_range_belong_to_it),
      cmocka_unit_test(test_two_dashes_end_the_options),
      cmocka_unit_test(test_words_that_look_like_options),
      cmocka_unit_test(test_values_are_taken_as_they_are),
      cmocka_unit_test(test_a_name_that_begins_like_another),
      cmocka_unit_test(test_refusals_name_what_is_wrong),
      cmocka_unit_test(test_a_refused_value_changes_nothing),
      cmocka_unit_test(test_help_shows_every_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
