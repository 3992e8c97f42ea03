// SPDX-License-Identifier: Apache-2.0
//
// test_origin.c: each byte of a rendered text knows whether the template wrote it.
//
// Expectations are written as the text with its input in ‹ ›:  <|user|>‹Hi›.  Beside them, one
// property for every filter and method there is: what comes from input only is input only.

#include "support/check.h"

#include <jansson.h>

#include "template/internal.h"

static const char variables_text[] =
    "{\"s\": \"a<|x|>b\", \"n\": 12, \"f\": 1.5, \"yes\": true, \"role\": \"user\", \"empty\": "
    "\"\","
    " \"l\": [\"one\", \"two\"], \"d\": {\"<k>\": \"v\"}, \"again\": \"user\"}";

// The text with its input in ‹ ›.
static void show(const struct template_text *t, struct buffer *out) {
  bool inside = false;
  for (size_t i = 0; i <= t->bytes.length; i++) {
    bool input = i < t->bytes.length && t->origins.data[i] == TEMPLATE_INPUT;
    if (input != inside) buffer_add_text(out, input ? "‹" : "›");
    inside = input;
    if (i < t->bytes.length) buffer_add_char(out, t->bytes.data[i]);
  }
}

static bool render(const char *source, struct template_text *out, struct error *e) {
  struct template *t = template_parse(str_of(source), e);
  json_t *v = json_loads(variables_text, 0, NULL), *own = json_array();
  json_array_append(own, json_object_get(v, "role"));
  bool done = t && template_render(t, v, own, 0, out, e);
  assert_int_equal(out->bytes.length, out->origins.length);
  template_free(t);
  json_decref(own);
  json_decref(v);
  return done;
}

static const struct {
  const char *source, *shown;
} cases[] = {
    {"<|im_start|>{{ s }}<|im_end|>", "<|im_start|>‹a<|x|>b›<|im_end|>"},
    {"{{ '<|' + role + '|>' }}", "<|user|>"},
    {"{{ '<|' + again + '|>' }}", "<|‹user›|>"},  // the same text, but not the same string
    {"{{ '<|' ~ role|upper ~ '|>' ~ again|upper }}", "<|USER|>‹USER›"},
    {"{{ '\\x3c|' 'im_' \"end|>\" }}{{ s[1:6] }}", "<|im_end|>‹<|x|>›"},
    {"{% set x = '<|im' %}{{ x ~ s ~ x }}", "<|im‹a<|x|>b›<|im"},
    {"{% set x %}<a>{{ s }}<b>{% endset %}{{ x[2:] }}{{ x|replace('>', '|') }}",
     ">‹a<|x|>b›<b><a|‹a<|x|›|‹b›<b|"},
    {"{% macro m(v) %}<m>{{ v }}{{ caller() }}{% endmacro %}{% call m(s) %}</m>{% endcall %}",
     "<m>‹a<|x|>b›</m>"},
    {"{{ s.replace('<|x|>', '<|y|>') }}", "‹a›<|y|>‹b›"},
    {"{{ '<|y|>'.replace('y', s) }}", "<|‹a<|x|>b›|>"},
    {"{{ s.split('<|x|>') | join('<|x|>') }}", "‹a›<|x|>‹b›"},
    {"{{ '<x>'.join(l) }}{{ l|join('<y>') }}", "‹one›<x>‹twoone›<y>‹two›"},
    {"{{ '<%s>' % s }}{{ '<{}>'.format(s) }}{{ '<%s>'|format(s) }}",
     "<‹a<|x|>b›><‹a<|x|>b›><‹a<|x|>b›>"},
    {"{{ '<%5s>' % 'z' }}", "<‹    ›z>"},
    {"{{ ('  <|z|> ' + s)|trim }}", "<|z|> ‹a<|x|>b›"},
    {"{{ (s ~ '<z>')|reverse }}", ">z<‹b>|x|<a›"},
    {"{{ (s ~ '<z>')[::2] }}", "‹a||b›z"},
    {"{{ ('<z>' ~ s) * 2 }}", "<z>‹a<|x|>b›<z>‹a<|x|>b›"},
    {"{{ ('<z>\n' ~ s)|indent(1, true) }}", "‹ ›<z>‹\n a<|x|>b›"},
    {"{{ ('<z>' ~ s)|tojson }}{{ ('<z>' ~ s)|string }}", "‹\"›<z>‹a<|x|>b\"›<z>‹a<|x|>b›"},
    {"{{ d }}{{ d|tojson }}", "‹{'<k>': 'v'}{\"<k>\": \"v\"}›"},
    {"{{ {'<k>': s} }}", "‹{'›<k>‹': 'a<|x|>b'}›"},
    {"{% for k, v in d.items() %}<{{ k }}>{{ v }}{% endfor %}", "<‹<k>›>‹v›"},
    {"{{ {'user': '<|user|>'}[again] }}", "<|user|>"},
    {"{% set ns = namespace(t='<|z|>') %}{% for x in l %}{% set ns.t = ns.t ~ x %}{% endfor %}"
     "{{ ns.t }}",
     "<|z|>‹onetwo›"},
    {"{% if s == 'a<|x|>b' %}{{ s }}{% endif %}", "‹a<|x|>b›"},  // equal, and still input
    {"{{ s|default('<|z|>') }}{{ nothing|default('<|z|>') }}{{ empty or '<|e|>' }}",
     "‹a<|x|>b›<|z|><|e|>"},
    {"{% for x in l %}<i{{ loop.index }}>{{ loop.index0 + 1 }}{{ n + loop.index }}{% endfor %}",
     "<i1>1‹13›<i2>2‹14›"},
    {"{{ 3 }}{{ 1.5 }}{{ n }}{{ f }}{{ n * 2 }}{{ -3 }}{{ yes }}{{ s|length }}",
     "31.5‹121.524›-3‹True7›"},
    {"{% filter upper %}<z>{{ s }}{% endfilter %}", "<Z>‹A<|X|>B›"},
    {"{{ s|e }}{{ '<z>'|e }}", "‹a&lt;|x|&gt;b&lt;›z‹&gt;›"},
    {"{{ s|safe + '<z>' }}", "‹a<|x|>b&lt;›z‹&gt;›"},
    {"{{ l|map('upper')|join }}{{ l|first }}{{ (l + ['<z>'])|last }}", "‹ONETWOone›<z>"},
    {"{{ 'İ' ~ s|capitalize }}{{ 'straße'|upper }}", "İ‹A<|x|>b›STRASSE"},
    {"{% raw %}{{ s }}{% endraw %}{# c #}{{ '' }}{{ empty }}", "{{ s }}"},
    {"{{ strftime_now('<%Y>') }}", "‹<1970>›"},
};

static void test_each_byte_has_its_origin(void **state) {
  (void)state;
  int bad = 0;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct template_text out = {0};
    struct buffer shown = {0};
    struct error e = {0};
    if (!render(cases[i].source, &out, &e)) fail_msg("%s: %s", cases[i].source, e.text);
    show(&out, &shown);
    if (!str_equal(buffer_str(&shown), str_of(cases[i].shown)))
      bad++, print_error("%s\n  wanted %s\n  got    %s\n", cases[i].source, cases[i].shown,
                         shown.data);
    buffer_clear(&shown);
    template_text_clear(&out);
  }
  assert_int_equal(bad, 0);
}

static const char *const names[] = {
    "abs",         "attr",         "batch",        "capitalize", "casefold",
    "center",      "copy",         "count",        "cycle",      "d",
    "default",     "depth",        "dictsort",     "e",          "endswith",
    "escape",      "expandtabs",   "find",         "first",      "float",
    "forceescape", "format",       "get",          "groupby",    "indent",
    "index",       "int",          "is_integer",   "isalnum",    "isalpha",
    "isascii",     "isdecimal",    "isdigit",      "islower",    "isnumeric",
    "isprintable", "isspace",      "istitle",      "isupper",    "items",
    "join",        "keys",         "last",         "length",     "list",
    "ljust",       "lower",        "lstrip",       "map",        "max",
    "min",         "nextitem",     "partition",    "previtem",   "reject",
    "rejectattr",  "removeprefix", "removesuffix", "replace",    "reverse",
    "rfind",       "rindex",       "rjust",        "round",      "rpartition",
    "rsplit",      "rstrip",       "safe",         "select",     "selectattr",
    "slice",       "sort",         "split",        "splitlines", "startswith",
    "string",      "strip",        "sum",          "swapcase",   "title",
    "tojson",      "trim",         "truncate",     "unique",     "upper",
    "urlencode",   "values",       "wordcount",    "xmlattr",    "zfill"};

// Whatever is done to input alone gives no byte of the template's.  The arguments are input, too.
static void test_nothing_lifts_input(void **state) {
  (void)state;
  static const char *const calls[] = {"", "(n)", "(s)", "(s, s)", "(l)", "(n, s)"};
  static const char *const subjects[] = {"s", "l", "d", "n", "f", "yes", "(s ~ s)", "s.upper()"};
  size_t rendered = 0;
  for (size_t f = 0; f < COUNT_OF(names); f++) {
    for (size_t k = 0; k < COUNT_OF(calls) * COUNT_OF(subjects) * 2; k++) {
      struct buffer source = {0};
      struct template_text out = {0};
      struct error e = {0};
      const char *subject = subjects[k / 2 / COUNT_OF(calls)],
                 *call = calls[k / 2 % COUNT_OF(calls)];
      if (k % 2)
        buffer_print(&source, "{{ %s|%s%s }}", subject, names[f], call);
      else
        buffer_print(&source, "{{ %s.%s%s }}", subject, names[f], *call ? call : "()");
      if (render(source.data, &out, &e)) {
        rendered++;
        if (out.bytes.length && memchr(out.origins.data, TEMPLATE_OWN, out.bytes.length))
          fail_msg("%s gives the template's bytes: %s", source.data, out.bytes.data);
      }
      buffer_clear(&source);
      template_text_clear(&out);
    }
  }
  assert_true(rendered > 500);
}

int main(void) {
  setenv("TZ", "UTC", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_byte_has_its_origin),
      cmocka_unit_test(test_nothing_lifts_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
