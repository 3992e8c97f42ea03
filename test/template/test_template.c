// SPDX-License-Identifier: Apache-2.0
//
// test_template.c: what the comparison with jinja2 (test_template_cases.c) cannot show: the
// sentences of errors, the limits that end a hostile template, rendering from several threads, and
// a failure at every possible step.

#include "support/check.h"

#include <jansson.h>
#include <pthread.h>

#include "base/json_tree.h"
#include "template/internal.h"

static const char variables_text[] =
    "{\"s\": \"text\", \"n\": 7, \"l\": [1, 2, 3], \"d\": {\"a\": 1}, \"none\": null,"
    " \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
    "\"content\": \"Ho\"}]}";

// "wide" holds numbers that no machine number holds (base/json_tree.h).
static json_t *variables(void) {
  struct json_tree_fault fault;
  json_t *v = json_loads(variables_text, 0, NULL);
  json_object_set_new(
      v, "wide", json_tree_read(STR("[18446744073709551615, -1E+400, {\"a\": 1e400}]"), &fault));
  return v;
}

// Parses and renders; returns the error's text, or "" and the output.
static const char *outcome(struct str source, struct template_text *out, struct error *e) {
  *e = (struct error){0};
  struct template *t = template_parse(source, e);
  json_t *v = variables();
  bool done = t && template_render(t, v, NULL, 0, out, e);
  assert_int_equal(out->bytes.length, out->origins.length);
  json_decref(v);
  template_free(t);
  return done ? "" : e->text;
}

static void start_with(struct template_text *out, const char *text) {
  buffer_add_text(&out->bytes, text);
  buffer_add_text(&out->origins, text);  // any byte per byte
}

static void expect_error(const char *source, const char *wanted) {
  struct error e;
  struct template_text out = {0};
  const char *got = outcome(str_of(source), &out, &e);
  if (strcmp(got, wanted) != 0) fail_msg("%s\n  wanted: %s\n  got:    %s", source, wanted, got);
  assert_int_equal(e.kind, ERROR_INPUT);
  assert_int_equal(out.bytes.length, 0);
  template_text_clear(&out);
}

// ---- sentences

static const struct {
  const char *source, *error;
} mistakes[] = {
    {"{{ l|groupby('a') }}", "chat template line 1: there is no filter 'groupby'"},
    {"{{ s is upper }}", "chat template line 1: there is no test 'upper'"},
    {"{{ s.zfill(3) }}", "chat template line 1: 'str object' has no attribute 'zfill'"},
    {"{{ cycler(1) }}", "chat template line 1: 'cycler' is undefined"},
    {"{{ '%x' % 3 }}",
     "chat template line 1: a format may hold %s, %d, %f and %%, and no other '%'"},
    {"{{ '%20000d' % 3 }}", "chat template line 1: a width or precision above 10000 in a format"},
    {"{{ '%d' % 9223372036854775807.0 }}",
     "chat template line 1: this format does not fit a value of type float: d"},
    {"a\n{{ s", "chat template line 2: a tag is not closed: }} is missing"},
    {"a\n\n{% if s %}b",
     "chat template line 3: {% endif %} is missing: a block that starts here is not closed"},
    {"{% for x in l %}\n{% endif %}", "chat template line 2: unknown or misplaced tag {% endif %}"},
    {"{{ s }}\n{{ s s }}", "chat template line 2: '}}' was expected, not 's'"},
    {"{{ }}", "chat template line 1: an expression was expected, not '}}'"},
    {"{{ 1 + }}", "chat template line 1: an expression was expected, not '}}'"},
    {"{{ [1, 2 }}", "chat template line 1: a tag is not closed: }} is missing"},
    {"{{ 'x }}", "chat template line 1: a string that starts with ' is not closed"},
    {"{{ '\\ud800' }}",
     "chat template line 1: a string holds an escape that is no character: \\ud800"},
    {"{{ a ? b }}", "chat template line 1: the character '?' has no meaning inside a tag"},
    {"{{ 99999999999999999999 }}",
     "chat template line 1: the number 99999999999999999999 does not fit into 64 bits"},
    {"{# x", "chat template line 1: a comment {# has no #}"},
    {"{% raw %}x", "chat template line 1: {% raw %} has no {% endraw %}"},
    {"{% include 'x' %}", "chat template line 1: unknown or misplaced tag {% include %}"},
    {"{% break %}", "chat template line 1: {% break %} stands outside of a for loop"},
    {"{% set 1 = 2 %}", "chat template line 1: a name to assign to was expected, not '1'"},
    {"{% set true = 2 %}", "chat template line 1: 'true' cannot be assigned to"},
    {"\n{{ s|shout }}", "chat template line 2: there is no filter 'shout'"},
    {"{{ s is loud }}", "chat template line 1: there is no test 'loud'"},
    {"{% if n %}\n{{ s|shout }}{% endif %}", "chat template line 2: there is no filter 'shout'"},
    {"\xff", "chat template line 1: the text is not UTF-8"},
    {"{{ s }}\n\n{{ nothing.x }}", "chat template line 3: 'nothing' is undefined"},
    {"{{ d.b.c }}", "chat template line 1: 'dict object' has no attribute 'b'"},
    {"{{ l[7].x }}", "chat template line 1: list object has no element 7"},
    {"{{ none.x.y }}", "chat template line 1: 'NoneType object' has no attribute 'x'"},
    {"{{ s + n }}", "chat template line 1: unsupported operand types for +: 'str' and 'int'"},
    {"{{ 's' < 1 }}",
     "chat template line 1: '<' is not supported between instances of 'str' and 'int'"},
    {"{{ 1 // 0 }}", "chat template line 1: division by zero"},
    {"{{ 9223372036854775807 + 1 }}", "chat template line 1: a whole number grows beyond 64 bits"},
    {"{{ 10 ** 20 }}", "chat template line 1: a whole number grows beyond 64 bits"},
    {"{{ (-9223372036854775807 - 1) // -1 }}",
     "chat template line 1: a whole number grows beyond 64 bits"},
    {"{{ l.append(4) }}",
     "chat template line 1: append() is refused: a template may not change a list; build a new one "
     "with +"},
    {"{{ d.update({}) }}",
     "chat template line 1: update() is refused: a template may not change a dict"},
    {"{{ n() }}", "chat template line 1: 'int' object is not callable"},
    {"{% for x in n %}{% endfor %}", "chat template line 1: 'int' object is not iterable"},
    {"{% for a, b in l %}{% endfor %}", "chat template line 1: 'int' object is not iterable"},
    {"{% for a, b in [l] %}{% endfor %}",
     "chat template line 1: 2 names cannot take the 3 items of a value of type list"},
    {"{% set d.x = 1 %}",
     "chat template line 1: attribute 'x' can only be set on a namespace(), not on dict"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
     "chat template line 1: macro 'm' takes at most 1 arguments"},
    {"{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
     "chat template line 1: parameter 'a' was not given"},
    {"{{ s|replace('a') }}", "chat template line 1: filter 'replace' needs 2 arguments"},
    {"{{ s|trim(1, 2) }}", "chat template line 1: filter 'trim' takes at most 1 arguments, not 2"},
    {"{{ s|trim(x=1) }}", "chat template line 1: filter 'trim' has no argument 'x'"},
    {"{{ nothing|tojson }}",
     "chat template line 1: a value of type Undefined cannot be written as JSON"},
    {"{{ raise_exception('Roles must alternate') }}", "Roles must alternate"},
    {"{{ raise_exception('two\\nlines') }}", "two?lines"},
};

static void test_errors_say_where_and_what(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(mistakes); i++)
    expect_error(mistakes[i].source, mistakes[i].error);
}

// ---- limits

static const struct {
  const char *source, *says;  // a part of the error's text
} hostile[] = {
    {"{{ 'x' * 1000000000 }}", "repeating 1000000000 times"},
    {"{{ 'x' * 10000000 }}{{ 'x' * 10000000 }}", "the text grows beyond 16384 KiB"},
    {"{{ [0] * 1000000000 }}", "repeating 1000000000 times"},
    {"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor "
     "%}",
     "the text grows beyond"},
    {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor "
     "%}",
     "of memory"},
    {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
     "takes more than 5000000 steps"},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "does a macro call itself without end?"},
    {"{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor "
     "%}{{ ns.l }}",
     "nested more than 1000 deep"},
    {"{% set ns = namespace(l=[], m=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}"
     "{% set ns.m = [ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
     "nested more than 1000 deep"},
    {"{{ range(100001) }}", "at most 100000 items"},
    {"{{ range(0, 9000000000000000000, 9000000000000000) }}", "must stay within"},
    {"{{ '%99999999999d' % 1 }}", "a width or precision above"},
    {"{{ '{:99999999}'.format(1) }}", "a width or precision above"},
    {"{{ 'x'|indent(900000000, true) }}", "the text grows beyond"},
    {"{% set s = 'ab' * 5000000 %}{% for i in range(100000) %}{% if 'ba' * 9 in s %}{% endif %}{% "
     "endfor %}",
     "takes more than 5000000 steps"},
    {"{% set s = 'a' * 1000000 %}{{ s.rfind('b' + s[:500000]) }}", "takes more than 5000000 steps"},
    {"{{ s|tojson(indent=99999999999) }}", ""},
};

static void test_hostile_templates_end(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(hostile); i++) {
    struct error e;
    struct template_text out = {0};
    const char *got = outcome(str_of(hostile[i].source), &out, &e);
    if (!strstr(got, hostile[i].says) || (hostile[i].says[0] && out.bytes.length))
      fail_msg("%s\n  got: %s", hostile[i].source, got);
    template_text_clear(&out);
  }
}

// `open` 2,000 times, then `middle`, then `close` as often: the parser must refuse it, not run out
// of stack.
static void expect_too_deep(const char *start, const char *open, const char *middle,
                            const char *close, const char *end) {
  struct buffer source = {0};
  struct template_text out = {0};
  struct error e;
  buffer_add_text(&source, start);
  for (int i = 0; i < 2000; i++) buffer_add_text(&source, open);
  buffer_add_text(&source, middle);
  for (int i = 0; i < 2000; i++) buffer_add_text(&source, close);
  buffer_add_text(&source, end);
  const char *got = outcome(buffer_str(&source), &out, &e);
  if (!strstr(got, "nested more than 128 deep")) fail_msg("%s… gave: %s", open, got);
  buffer_clear(&source);
}

static void test_deep_sources_are_refused(void **state) {
  (void)state;
  expect_too_deep("{{ ", "(", "1", ")", " }}");
  expect_too_deep("{{ ", "[", "1", "]", " }}");
  expect_too_deep("{{ ", "{1:", "1", "}", " }}");
  expect_too_deep("{{ s", "[1", "", "]", " }}");
  expect_too_deep("{{ s", "(s", "", ")", " }}");
  expect_too_deep("{{ ", "not ", "1", "", " }}");
  expect_too_deep("{{ ", "1 if 1 else ", "1", "", " }}");
  expect_too_deep("{% set ", "(", "x", ")", " = 1 %}");
  expect_too_deep("", "{% if x %}", "", "{% endif %}", "");
  expect_too_deep("", "{% for x in y %}", "", "{% endfor %}", "");
  expect_too_deep("", "{% macro m() %}", "", "{% endmacro %}", "");
  expect_too_deep("", "{% filter trim %}", "", "{% endfilter %}", "");
}

// One tag with a long tail: a chain of postfixes or filters makes a deep tree without any recursion
// in the parser.
static void expect_long_chain(const char *start, const char *link, const char *end, bool refused) {
  struct buffer source = {0};
  struct template_text out = {0};
  struct error e;
  buffer_add_text(&source, start);
  for (int i = 0; i < 20000; i++) buffer_add_text(&source, link);
  buffer_add_text(&source, end);
  const char *got = outcome(buffer_str(&source), &out, &e);
  if (refused != (strstr(got, "nested more than 128 deep") != NULL))
    fail_msg("%s%s… gave: %s", start, link, got);
  if (!refused) assert_string_equal(got, "");
  buffer_clear(&source);
  template_text_clear(&out);
}

static void test_long_chains(void **state) {
  (void)state;
  expect_long_chain("{{ s", ".x", " }}", true);
  expect_long_chain("{{ s", "|trim", " }}", true);
  expect_long_chain("{{ s", "[0]", " }}", true);
  expect_long_chain("{{ s", "()", " }}", true);
  expect_long_chain("{{ ", "-", "1 }}", true);
  expect_long_chain("{% filter trim", "|trim", " %}x{% endfilter %}", true);
  expect_long_chain("{{ 1", " + 1", " }}", false);
  expect_long_chain("{{ 1", " ~ 1", " }}", false);
  expect_long_chain("{{ 1", " and 1", " }}", false);
  expect_long_chain("{{ 1", " == 1", " }}", false);
  expect_long_chain("{% if 0 %}", "{% elif 0 %}", "{% endif %}", false);
  expect_long_chain("{{ [1", ", 1", "] }}", false);
}

static void test_big_sources_are_refused(void **state) {
  (void)state;
  struct buffer source = {0};
  struct template_text out = {0};
  struct error e;
  for (uint32_t i = 0; i <= SOURCE_MAX; i++) buffer_add_char(&source, 'x');
  assert_string_equal(outcome(buffer_str(&source), &out, &e),
                      "the chat template has 1048577 bytes; at most 1048576 are read");
  buffer_clear(&source);
}

// ---- a failure at every step

static const char everything[] =
    "{%- macro m(a, b=2) -%}{{ a }}{{ b }}{{ caller('x') if caller else '' }}{%- endmacro -%}\n"
    "{% set ns = namespace(text='', n=0) %}{% for m_ in messages if m_.role %}\n"
    "{% set ns.text = ns.text ~ loop.index ~ m_['content']|upper|tojson %}{% set ns.n = ns.n + "
    "loop.length %}\n"
    "{{ loop.last }}{{ loop.nextitem.role if loop.nextitem is defined }}{% endfor %}\n"
    "{{ m(1) }}{{ m(b=[1, {'k': (1.5,)}], a='q') }}{% call(z) m([1], b={'c': 3}) %}{{ z * 3 }}{% "
    "endcall %}\n"
    "{% set x | replace('a', 'b') %}banana{% endset %}{{ x[1:4] ~ x[::-1] ~ ns.text }}\n"
    "{% for k, v in d|dictsort %}{{ k }}{{ '%05.1f|%s' % (v, l) }}{{ '{:>4}'.format(k) }}{% endfor "
    "%}\n"
    "{{ [3, 1, 2]|sort|map('string')|join(',') }}{{ messages|selectattr('role', 'eq', 'user')|list "
    "}}{{ "
    "messages|tojson(indent=2) }}\n"
    "{{ s.split('e') }}{{ dict(a=1).items() }}{{ l|reverse|list }}{{ l|sum }}{{ "
    "messages|map(attribute='role')|list }}"
    "{% with q = 1 %}{% filter indent(2) %}{{ q }}\n{{ q }}{% endfilter %}{% endwith %}";

enum limit { STEPS, DEPTH, OUTPUT, MEMORY };

// Renders with one limit at 0, 1, 2, … until it does not matter any more.  Every shorter run must
// fail with one line and leave the output alone.
static void fail_everywhere(enum limit limit, size_t stride) {
  struct error e = {0};
  json_t *v = variables();
  struct template *t = template_parse(STR(everything), &e);
  if (!t) fail_msg("%s", e.text);
  size_t runs = 0;
  for (size_t at = 0;; at += stride, runs++) {
    struct template_limits limits = {100000, 1000, 1u << 20, 1u << 20};
    if (limit == STEPS) limits.steps = (uint32_t)at;
    if (limit == DEPTH) limits.depth = (int)at;
    if (limit == OUTPUT) limits.output = at;
    if (limit == MEMORY) limits.memory = at;
    struct template_text out = {0};
    start_with(&out, "kept");
    e = (struct error){0};
    bool done = template_render_within(t, v, NULL, 0, &limits, &out, &e);
    if (!done) {
      assert_string_equal(out.bytes.data, "kept");
      assert_true(str_starts(str_of(e.text), STR("chat template line ")));
    }
    template_text_clear(&out);
    if (done) break;
  }
  assert_true(runs > 5);
  template_free(t);
  json_decref(v);
}

static void test_failure_at_every_step(void **state) {
  (void)state;
  fail_everywhere(STEPS, 1);
  fail_everywhere(DEPTH, 1);
  fail_everywhere(OUTPUT, 1);
  fail_everywhere(MEMORY, 97);
}

// Memory of the system runs out at the 1st, 2nd, 3rd … allocation.
static void test_no_memory_is_an_error(void **state) {
  (void)state;
  struct error e = {0};
  json_t *v = variables();
  struct template *t = template_parse(STR(everything), &e);
  uint64_t nth = 1;
  for (bool ran_out = true; ran_out; nth++) {
    struct template_text out = {0};
    start_with(&out, "kept");
    memory_fail_at(nth);
    bool done = template_render(t, v, NULL, 0, &out, &e);
    ran_out = !memory_fail_waits();
    memory_fail_at(0);
    assert_int_equal(done, !ran_out);
    if (ran_out) assert_int_equal(e.kind, ERROR_MEMORY);
    if (ran_out) assert_string_equal(out.bytes.data, "kept");
    assert_int_equal(out.bytes.length, out.origins.length);
    template_text_clear(&out);
  }
  assert_true(nth > 3);
  template_free(t);
  json_decref(v);
}

// ---- one tree, many threads

struct shared {
  const struct template *t;
  const json_t *variables;
  struct template_text wanted;
  bool good[4];
};
struct worker {
  struct shared *shared;
  int number;
};

static void *render_again(void *argument) {
  struct worker *w = argument;
  bool good = true;
  for (int i = 0; i < 50; i++) {
    struct template_text out = {0};
    struct error e;
    good = good && template_render(w->shared->t, w->shared->variables, NULL, 0, &out, &e);
    good = good && str_equal(buffer_str(&out.bytes), buffer_str(&w->shared->wanted.bytes));
    template_text_clear(&out);
  }
  w->shared->good[w->number] = good;
  return NULL;
}

static void test_threads_share_a_template(void **state) {
  (void)state;
  struct error e = {0};
  json_t *v = variables();
  struct template *t = template_parse(STR(everything), &e);
  struct shared shared = {.t = t, .variables = v};
  struct worker workers[4];
  pthread_t threads[4];
  assert_true(template_render(t, v, NULL, 0, &shared.wanted, &e));
  for (int i = 0; i < 4; i++) {
    workers[i] = (struct worker){&shared, i};
    assert_int_equal(pthread_create(&threads[i], NULL, render_again, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_true(shared.good[i]);
  }
  template_text_clear(&shared.wanted);
  template_free(t);
  json_decref(v);
}

// ---- what Python cannot show

static void expect_text(const char *source, const char *wanted) {
  struct error e;
  struct template_text out = {0};
  assert_string_equal(outcome(str_of(source), &out, &e), "");
  if (!str_equal(buffer_str(&out.bytes), str_of(wanted)))
    fail_msg("%s gave %s", source, out.bytes.data);
  template_text_clear(&out);
}

static void test_texts(void **state) {
  (void)state;
  expect_text("{{ '\\ud83d\\ude42' }}", "🙂");  // a surrogate pair is one character
  expect_text("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}",
              "9223372036854775807 -9223372036854775808");
  expect_text("{{ s }}{{ n }}\n", "text7");
  expect_text("{% do namespace() %}x", "x");
}

static void test_wide_numbers(void **state) {
  (void)state;
  expect_text("{{ wide|tojson }}", "[18446744073709551615, -1E+400, {\"a\": 1e400}]");
  expect_text("{{ wide[0] }} {{ wide }}",
              "18446744073709551615 [18446744073709551615, -1E+400, {'a': 1e400}]");
  expect_text("{{ wide[0] is number }} {{ wide[0] is integer }} {{ wide[0] is float }}",
              "True True False");
  expect_text("{{ wide[1] is number }} {{ wide[1] is integer }} {{ wide[1] is float }}",
              "True False True");
  expect_text("{{ wide[0] is string }} {{ wide[0] is mapping }} {{ wide[0] is iterable }}",
              "False False False");
  expect_text("{{ 'yes' if wide[0] }} {{ wide[0] == wide[0] }} {{ wide[0] == wide[1] }}",
              "yes True False");
  expect_text("{{ {wide[0]: 1}[wide[0]] }} {{ 'n: ' ~ wide[2].a }}", "1 n: 1e400");
  expect_error("{{ wide[0] + 1 }}",
               "chat template line 1: unsupported operand types for +: 'large number' and 'int'");
  expect_error("{{ wide[0] < 1 }}",
               "chat template line 1: '<' is not supported between instances of 'large number' and "
               "'int'");
}

static void test_output_is_appended(void **state) {
  (void)state;
  struct error e;
  struct template_text out = {0};
  start_with(&out, "before ");
  assert_string_equal(outcome(STR("{{ s|upper }}{% set x %}{{ s }}{% endset %}{{ x }}"), &out, &e),
                      "");
  assert_string_equal(out.bytes.data, "before TEXTtext");
  assert_string_equal(outcome(STR("more {{ s.x.y }}"), &out, &e),
                      "chat template line 1: 'str object' has no attribute 'x'");
  assert_string_equal(out.bytes.data, "before TEXTtext");
  template_text_clear(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors_say_where_and_what),
      cmocka_unit_test(test_hostile_templates_end),
      cmocka_unit_test(test_deep_sources_are_refused),
      cmocka_unit_test(test_long_chains),
      cmocka_unit_test(test_big_sources_are_refused),
      cmocka_unit_test(test_failure_at_every_step),
      cmocka_unit_test(test_no_memory_is_an_error),
      cmocka_unit_test(test_threads_share_a_template),
      cmocka_unit_test(test_texts),
      cmocka_unit_test(test_wide_numbers),
      cmocka_unit_test(test_output_is_appended),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
