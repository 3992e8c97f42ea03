// SPDX-License-Identifier: Apache-2.0
//
// fuzz_template.c: a template and its variables: parse, and render within small limits.
//
// The bytes are the template's source, then a line "=== variables", then the variables as JSON.
// Without that line, or with JSON that cannot be read, a small conversation takes their place.
// Checked: an error is one line, a failed rendering leaves the output as it was, a second rendering
// gives the same text.

#include <stdlib.h>
#include <string.h>

#include "support/fuzz.h"
#include "template/internal.h"

static const char separator[] = "\n=== variables\n";
static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"},"
    " {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Gr\\u00fc\\u00dfe "
    "\\ud83d\\ude42\"}]},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"type\": "
    "\"function\","
    "   \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [1.5, true, null]}}}]}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}],"
    " \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";

static void must(bool holds) {
  if (!holds) abort();
}

static json_t *read_variables(struct str text) {
  json_t *variables = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
  if (json_is_object(variables)) return variables;
  json_decref(variables);
  return json_loads(conversation, 0, NULL);
}

static void check_render(const struct template *t, const json_t *variables) {
  static const struct template_limits limits = {
      .steps = 20000, .depth = 300, .output = 1u << 20, .memory = 4u << 20};
  struct buffer first = {0}, second = {0};
  struct error e = {0};
  buffer_add_text(&first, "before");
  bool done = template_render_within(t, variables, 1700000000000, &limits, &first, &e);
  must(first.length >= 6 && memcmp(first.data, "before", 6) == 0);
  must(done || (first.length == 6 && !strchr(e.text, '\n')));
  must(template_render_within(t, variables, 1700000000000, &limits, &second, &e) == done);
  must(second.length == first.length - 6);
  must(!second.length || memcmp(first.data + 6, second.data, second.length) == 0);
  buffer_clear(&first);
  buffer_clear(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct str source = {(const char *)data, size}, rest = STR("");
  const char *found = size ? memmem(data, size, separator, sizeof separator - 1) : NULL;
  if (found) {
    source.length = (size_t)(found - source.data);
    rest.data = found + sizeof separator - 1;
    rest.length = size - source.length - (sizeof separator - 1);
  }
  struct error e = {0};
  struct template *t = template_parse(source, &e);
  if (!t) {
    must(e.text[0] && !strchr(e.text, '\n'));
    return 0;
  }
  json_t *variables = read_variables(rest);
  check_render(t, variables);
  json_decref(variables);
  template_free(t);
  return 0;
}
