// SPDX-License-Identifier: Apache-2.0
//
// test_fields.c: the table of fields that mean nothing here.  Every row is asked on both routes:
// refused by its name where it would change the answer, let through where it would not.  And
// docs/api.md lists exactly the rows of the table.

#include "support/check.h"

#include "api/internal.h"
#include "base/file.h"

// A body of that route with one more member.
static bool parses(bool chat, const char *name, const char *value, struct api_error *e) {
  struct buffer body = {0};
  struct api_request request;
  buffer_print(&body, "{%s,\"%s\":%s}",
               chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" : "\"prompt\":\"hi\"",
               name, value);
  bool done = api_request_parse(buffer_str(&body), chat, 1000, &request, e);
  if (done) api_request_clear(&request);
  buffer_clear(&body);
  return done;
}

// The row that decides about the name on that route, or NULL.
static const struct api_field *row_for(const char *name, bool chat) {
  const struct api_field *f;
  for (size_t i = 0; (f = api_field_at(i)); i++)
    if (strcmp(f->name, name) == 0 && api_field_applies(f->where, chat)) return f;
  return NULL;
}

static void every_row_does_what_it_says(void **state) {
  (void)state;
  static const char *const asking[] = {"\"something\"", "77", "[1]", "{\"a\":1}", "1e400"};
  const struct api_field *f;
  size_t refused = 0, ignored = 0;
  for (size_t i = 0; (f = api_field_at(i)); i++) {
    for (int chat = 0; chat < 2; chat++) {
      if (row_for(f->name, chat) != f) continue;
      for (size_t k = 0; k < COUNT_OF(asking); k++) {
        struct api_error e = {0};
        bool done = parses(chat, f->name, asking[k], &e);
        if (done != !f->why) fail_msg("%s: %s on route %d", f->name, asking[k], chat);
        if (done) continue;
        assert_string_equal(e.param, f->name);
        assert_string_equal(e.code, "unsupported_parameter");
        assert_non_null(strstr(e.error.text, f->why));
        assert_int_equal(e.status, 400);
      }
      *(f->why ? &refused : &ignored) += 1;
    }
  }
  assert_true(refused > 100 && ignored > 40);
}

static void what_asks_for_nothing_passes(void **state) {
  (void)state;
  static const char *const empty[] = {"null", "false", "\"\"", "[]", "{}"};
  const struct api_field *f;
  for (size_t i = 0; (f = api_field_at(i)); i++) {
    for (int chat = 0; chat < 2; chat++) {
      char text[40];
      struct api_error e = {0};
      double number;
      if (row_for(f->name, chat) != f) continue;
      for (size_t k = 0; k < COUNT_OF(empty); k++) {
        bool passes = !f->why || !f->neutral || k == 0 || strcmp(f->neutral, empty[k]) == 0;
        if (parses(chat, f->name, empty[k], &e) != passes) fail_msg("%s: %s", f->name, empty[k]);
      }
      if (!f->neutral) continue;
      bool bare = str_to_double(str_of(f->neutral), &number) || strcmp(f->neutral, "true") == 0 ||
                  strcmp(f->neutral, "false") == 0;
      snprintf(text, sizeof text, bare ? "%s" : "\"%s\"", f->neutral);
      if (!parses(chat, f->name, text, &e)) fail_msg("%s: %s", f->name, e.error.text);
    }
  }
}

// A value that is nearly the neutral one.
static void neutral_values_are_exact(void **state) {
  (void)state;
  struct api_error e;
  assert_true(parses(false, "typical_p", "1.0", &e));
  assert_false(parses(false, "typical_p", "0.99", &e));
  assert_false(parses(false, "min_tokens", "true", &e));
  assert_false(parses(false, "n_predict", "0", &e));
  assert_false(parses(true, "enable_thinking", "false", &e));
  assert_false(parses(true, "parallel_tool_calls", "false", &e));
  assert_false(parses(false, "skip_special_tokens", "false", &e));
  assert_true(parses(true, "add_special_tokens", "false", &e));
  assert_false(parses(true, "add_special_tokens", "true", &e));
  assert_false(parses(false, "add_special_tokens", "false", &e));
  assert_true(parses(true, "field_nobody_knows", "[1]", &e));
}

// ---- the documentation

static struct str section_of(struct str text, const char *title) {
  const char *start = memmem(text.data, text.length, title, strlen(title));
  if (!start) fail_msg("docs/api.md has no \"%s\"", title);
  start += strlen(title);
  size_t left = (size_t)(text.data + text.length - start);
  const char *end = memmem(start, left, "\n#", 2);
  return (struct str){start, end ? (size_t)(end - start) : left};
}

static bool lists(struct str section, const char *name) {
  char quoted[80];
  snprintf(quoted, sizeof quoted, "`%s`", name);
  return memmem(section.data, section.length, quoted, strlen(quoted)) != NULL;
}

static bool is_row(struct str name, bool refused) {
  const struct api_field *f;
  for (size_t i = 0; (f = api_field_at(i)); i++)
    if (str_equal(name, str_of(f->name)) && (f->why != NULL) == refused) return true;
  return false;
}

// Every name in backticks in the section's list (lines that begin with a backtick) is a row.
static void check_names(struct str section, bool refused) {
  bool list = false;
  for (size_t at = 0; at < section.length; at++) {
    if (at == 0 || section.data[at - 1] == '\n') list = section.data[at] == '`';
    if (!list || section.data[at] != '`') continue;
    size_t end = at + 1;
    while (end < section.length && section.data[end] != '`') end++;
    struct str name = {section.data + at + 1, end - at - 1};
    if (!is_row(name, refused))
      fail_msg("docs/api.md lists \"%.*s\", the table does not", (int)name.length, name.data);
    at = end;
  }
}

static void the_documentation_lists_the_table(void **state) {
  (void)state;
  struct buffer file = {0};
  struct error e;
  const struct api_field *f;
  if (!file_read(world_real(), "docs/api.md", 1 << 20, &file, &e)) fail_msg("%s", e.text);
  struct str refused = section_of(buffer_str(&file), "## Fields that are refused");
  struct str ignored = section_of(buffer_str(&file), "## Fields that are ignored");
  for (size_t i = 0; (f = api_field_at(i)); i++)
    if (!lists(f->why ? refused : ignored, f->name)) fail_msg("docs/api.md lacks %s", f->name);
  check_names(refused, true);
  check_names(ignored, false);
  buffer_clear(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_does_what_it_says),
      cmocka_unit_test(what_asks_for_nothing_passes),
      cmocka_unit_test(neutral_values_are_exact),
      cmocka_unit_test(the_documentation_lists_the_table),
  };
  return cmocka_run_group_tests_name("api fields", tests, NULL, NULL);
}
