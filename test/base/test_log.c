// SPDX-License-Identifier: Apache-2.0
//
// test_log.c: what a log line looks like in both forms, and that nobody who does not read it can
// hold the program up.  stderr is a pipe while a line is written.

#include "support/check.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"

#define TIME_LENGTH 24  // "2026-11-30T08:00:00.123Z"

static int pipe_ends[2], kept;

static void catch_stderr(void) {
  assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
  kept = dup(STDERR_FILENO);
  dup2(pipe_ends[1], STDERR_FILENO);
  close(pipe_ends[1]);
}

// What came, at most size - 1 bytes; "" for nothing.
static void release_stderr(char *text, size_t size) {
  dup2(kept, STDERR_FILENO);
  close(kept);
  size_t length = 0;
  for (ssize_t n;
       length < size - 1 && (n = read(pipe_ends[0], text + length, size - 1 - length)) > 0;)
    length += (size_t)n;
  text[length] = 0;
  close(pipe_ends[0]);
}

static const struct log_field fields[] = {
    {.name = "id", .kind = LOG_TEXT, .text = {"req-7", 5}},
    {.name = "said", .kind = LOG_TEXT, .text = {"a \"b\" \\\n\x1b[2J\xff\xc3\xa9", 15}},
    {.name = "empty", .kind = LOG_TEXT},
    {.name = "equals", .kind = LOG_TEXT, .text = {"a=b", 3}},
    {.name = "status", .kind = LOG_INTEGER, .integer = -404},
    {.name = "whole_s", .kind = LOG_SECONDS, .seconds = 1.23456},
    {.name = "gone", .kind = LOG_TRUE},
};

static void a_line_of_text_is_clean(void **state) {
  (void)state;
  char text[4096];
  catch_stderr();
  log_line(LOG_INFO, "not shown");
  log_line(LOG_WARNING, "a\nb%s", "\x1b[2J");
  log_event(LOG_ERROR, "request", fields, COUNT_OF(fields));
  release_stderr(text, sizeof text);
  char *second = strchr(text, '\n') + 1;
  assert_int_equal(text[10], 'T');
  assert_int_equal(text[TIME_LENGTH - 1], 'Z');
  assert_int_equal(strncmp(text + TIME_LENGTH, " warning a?b?[2J\n", 17), 0);
  assert_string_equal(
      second + TIME_LENGTH,
      " error request id=req-7 said=\"a \\\"b\\\" \\\\??[2J\xff\xc3\xa9\" empty=\"\""
      " equals=\"a=b\" status=-404 whole_s=1.2346 gone=true\n");
}

// 2023-11-14T22:13:20Z is 1,700,000,000 s after 1970, where the clock set by hand begins.
static void a_line_shows_the_time_of_the_world_it_was_given(void **state) {
  (void)state;
  struct world_simulated time;
  char text[4096];
  world_simulated_init(&time, 1);
  time.now_ns = 3661007000000u;
  log_set_world(&time.world);
  catch_stderr();
  log_line(LOG_WARNING, "x");
  release_stderr(text, sizeof text);
  log_set_world(NULL);
  assert_string_equal(text, "2023-11-14T23:14:21.007Z warning x\n");
}

static void a_line_of_json_can_be_read_back(void **state) {
  (void)state;
  char text[4096];
  log_set_form(LOG_AS_JSON);
  catch_stderr();
  log_line(LOG_WARNING, "a \"b\"\n");
  log_event(LOG_ERROR, "request", fields, COUNT_OF(fields));
  release_stderr(text, sizeof text);
  log_set_form(LOG_AS_TEXT);
  static const char first[] = "{\"time\":\"",
                    rest[] = "\",\"level\":\"warning\",\"message\":\"a \\\"b\\\"\\u000a\"}\n";
  const char *second = strchr(text, '\n') + 1;
  assert_int_equal(strncmp(text, first, strlen(first)), 0);
  assert_int_equal(strncmp(text + strlen(first) + TIME_LENGTH, rest, strlen(rest)), 0);
  assert_string_equal(
      second + strlen(first) + TIME_LENGTH,
      "\",\"level\":\"error\",\"message\":\"request\",\"id\":\"req-7\","
      "\"said\":\"a \\\"b\\\" \\\\\\u000a\\u001b[2J\xEF\xBF\xBD\xc3\xa9\",\"empty\":\"\","
      "\"equals\":\"a=b\",\"status\":-404,\"whole_s\":1.2346,\"gone\":true}\n");
}

static void levels_hide_what_is_below(void **state) {
  (void)state;
  static const char *const names[] = {"debug", "info", "warning", "error", "off"};
  enum log_level level = LOG_OFF;
  enum log_form form = LOG_AS_TEXT;
  for (int lowest = LOG_DEBUG; lowest <= LOG_OFF; lowest++) {
    char text[4096];
    int lines = 0;
    assert_true(log_level_parse(str_of(names[lowest]), &level));
    assert_int_equal(level, lowest);
    log_set_level(level);
    catch_stderr();
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
      assert_int_equal(log_shows((enum log_level)i), i >= lowest);
      log_line((enum log_level)i, "x");
    }
    release_stderr(text, sizeof text);
    for (const char *c = text; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, LOG_OFF - lowest);
  }
  log_set_level(LOG_WARNING);
  assert_false(log_level_parse(STR("loud"), &level));
  assert_false(log_level_parse(STR(""), &level));
  assert_int_equal(level, LOG_OFF);
  assert_true(log_form_parse(STR("json"), &form));
  assert_int_equal(form, LOG_AS_JSON);
  assert_false(log_form_parse(STR("xml"), &form));
}

// The pipe is filled, and nobody reads.  The program goes on; afterwards it says what was lost.
static void a_reader_that_does_not_read_is_not_waited_for(void **state) {
  (void)state;
  static char text[1 << 20];
  char part[256];
  catch_stderr();
  for (int i = 0; i < 5000; i++)
    log_line(LOG_WARNING, "line %d, made longer so that the pipe is soon full: %0100d", i, 0);
  // Make room for one line's look, then log again: the first line tells of those that were lost.
  size_t drained = 0;
  for (ssize_t n; drained < 8192 && (n = read(pipe_ends[0], part, sizeof part)) > 0;)
    drained += (size_t)n;
  log_line(LOG_WARNING, "after");
  release_stderr(text, sizeof text);
  char *told = strstr(text, "warning log lines were dropped: nobody read them lines=");
  assert_non_null(told);
  int lost = (int)strtol(strchr(told, '=') + 1, NULL, 10), seen = 0;
  for (const char *c = text; (c = strstr(c, "line ")) != NULL; c++) seen++;
  assert_in_range(lost, 1, 4999);
  assert_in_range(seen + lost, 4900, 5000);  // some were drained
  assert_non_null(strstr(told, " warning after\n"));
}

static void a_long_line_is_cut(void **state) {
  (void)state;
  static char text[1 << 16], big[3000];
  memset(big, 'x', sizeof big - 1);
  struct log_field long_fields[2] = {{.name = "a", .kind = LOG_TEXT, .text = str_of(big)},
                                     {.name = "b", .kind = LOG_TEXT, .text = str_of(big)}};
  catch_stderr();
  log_event(LOG_ERROR, "long", long_fields, 2);
  log_line(LOG_ERROR, "%s", big);
  release_stderr(text, sizeof text);
  assert_int_equal(strchr(text, '\n') - text, 4095);
  assert_int_equal(strlen(strchr(text, '\n') + 1), TIME_LENGTH + strlen(" error ") + 2047 + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_of_text_is_clean),
      cmocka_unit_test(a_line_shows_the_time_of_the_world_it_was_given),
      cmocka_unit_test(a_line_of_json_can_be_read_back),
      cmocka_unit_test(levels_hide_what_is_below),
      cmocka_unit_test(a_reader_that_does_not_read_is_not_waited_for),
      cmocka_unit_test(a_long_line_is_cut),
  };
  return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
