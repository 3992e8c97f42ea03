// SPDX-License-Identifier: Apache-2.0
//
// test_template_cases.c: templates rendered with variables give the text that Jinja on Python gave.
//
// A case file is a JSON object: "variables", named sets of variables, and "cases", an array of
// {"name", "template", "variables" (the name of a set), "now_ms", and "output" or "error"}. "error"
// says that Jinja failed; when it is not empty the template raised it itself and the text must be
// the same.  The files in test/template/cases/ were written by test/template/template.test.py with
// the real jinja2; MOTLEY_TEMPLATE_CASES names one more file, which that script uses for the cases
// it makes on the spot.

#include "support/check.h"

#include <glob.h>
#include <jansson.h>

#include "base/base.h"
#include "template/template.h"

static const char *text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

// Where two texts part, with what stands around it.
static void show_difference(const char *wanted, struct str got) {
  size_t at = 0;
  while (at < got.length && wanted[at] == got.data[at]) at++;
  size_t from = at < 60 ? 0 : at - 60;
  print_error("  differs at byte %zu\n  wanted: …%.120s\n  got:    …%.*s\n", at, wanted + from,
              (int)(got.length - from > 120 ? 120 : got.length - from), got.data + from);
}

static bool matches(const json_t *wanted, const json_t *error, bool rendered,
                    const struct template_text *out, const struct error *e) {
  if (wanted) {
    struct str text = {json_string_value(wanted), json_string_length(wanted)};
    if (rendered && str_equal(text, buffer_str(&out->bytes))) return true;
    if (!rendered) print_error("  failed: %s\n", e->text);
    if (rendered) show_difference(text.data, buffer_str(&out->bytes));
    return false;
  }
  const char *raised = json_string_value(error);
  if (!rendered && (!raised[0] || strncmp(raised, e->text, 400) == 0)) return true;
  print_error("  wanted the error '%s', got %s\n", raised,
              rendered ? buffer_str(&out->bytes).data : e->text);
  return false;
}

static bool check_case(const json_t *c, const json_t *sets) {
  struct error e = {0};
  struct template_text out = {0};
  struct str source = str_of(text_at(c, "template"));
  struct template *t = template_parse(source, &e);
  uint64_t now = (uint64_t)json_integer_value(json_object_get(c, "now_ms"));
  bool rendered =
      t && template_render(t, json_object_get(sets, text_at(c, "variables")), NULL, now, &out, &e);
  bool good =
      matches(json_object_get(c, "output"), json_object_get(c, "error"), rendered, &out, &e);
  good = good && (rendered || (out.bytes.length == 0 && e.text[0] && !strchr(e.text, '\n')));
  if (!good) print_error("case '%s'\n", text_at(c, "name"));
  template_free(t);
  template_text_clear(&out);
  return good;
}

static void check_file(const char *path) {
  json_error_t why;
  json_t *file = json_load_file(path, 0, &why);
  const json_t *cases = json_object_get(file, "cases"), *sets = json_object_get(file, "variables");
  if (!cases) fail_msg("%s: %s", path, why.text);
  size_t bad = 0;
  for (size_t i = 0; i < json_array_size(cases); i++)
    bad += !check_case(json_array_get(cases, i), sets);
  assert_true(json_array_size(cases) > 0);
  print_message("%s: %zu cases, %zu differ\n", path, json_array_size(cases), bad);
  json_decref(file);
  assert_int_equal(bad, 0);
}

static void test_stored_cases(void **state) {
  (void)state;
  glob_t found;
  assert_int_equal(glob("test/template/cases/*.json", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) check_file(found.gl_pathv[i]);
  globfree(&found);
}

static void test_given_cases(void **state) {
  (void)state;
  const char *path = getenv("MOTLEY_TEMPLATE_CASES");
  if (!path) skip();
  check_file(path);
}

int main(void) {
  setenv("TZ", "UTC", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stored_cases),
                                     cmocka_unit_test(test_given_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
