// SPDX-License-Identifier: Apache-2.0
//
// fuzz_template.c: a template and its variables: parse, and render within small limits.
//
// The bytes are the template's source, then a line "=== variables", then the variables as JSON.
// Without that line, or with JSON that cannot be read, a small conversation takes their place.
// Checked: an error is one line, a failed rendering leaves the output as it was, a second rendering
// gives the same text.  And the small conversation is full of U+E000, which no filter makes of
// other characters: where the source has none, none may count as the template's own text.

#include <stdlib.h>
#include <string.h>

#include "support/fuzz.h"
#include "template/internal.h"

static const char separator[] = "\n=== variables\n";
static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\\ue000\"},"
    " {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Gr\\u00fc\\u00dfe "
    "\\ud83d\\ude42\\ue000\"}]},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"type\": "
    "\"function\","
    "   \"function\": {\"name\": \"f\\ue000\", \"arguments\": {\"\\ue000\": 1, \"b\": [1.5, true, "
    "null]}}}]}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\\ue000\", \"parameters\": "
    "{}}}],"
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
  struct template_text first = {0}, second = {0};
  const struct buffer *text = &first.bytes;
  struct error e = {0};
  buffer_add_text(&first.bytes, "before");
  buffer_add_text(&first.origins, "000000");
  bool done = template_render_within(t, variables, NULL, 1700000000000, &limits, &first, &e);
  must(text->length >= 6 && memcmp(text->data, "before", 6) == 0);
  must(first.origins.length == text->length);
  must(done || (text->length == 6 && !strchr(e.text, '\n')));
  must(template_render_within(t, variables, NULL, 1700000000000, &limits, &second, &e) == done);
  size_t length = second.bytes.length;
  must(length == text->length - 6 && second.origins.length == length);
  must(!length || memcmp(text->data + 6, second.bytes.data, length) == 0);
  must(!length || memcmp(first.origins.data + 6, second.origins.data, length) == 0);
  template_text_clear(&first);
  template_text_clear(&second);
}

// 0xEE begins U+E000 to U+EFFF only.  A backslash may stand for any character.
static void check_origins(const struct template *t, struct str source, const json_t *variables) {
  static const struct template_limits limits = {
      .steps = 20000, .depth = 300, .output = 1u << 20, .memory = 4u << 20};
  struct template_text text = {0};
  struct error e = {0};
  if (memchr(source.data, 0xEE, source.length) || memchr(source.data, '\\', source.length)) return;
  template_render_within(t, variables, NULL, 1700000000000, &limits, &text, &e);
  for (size_t i = 0; i < text.bytes.length; i++)
    must((unsigned char)text.bytes.data[i] != 0xEE || text.origins.data[i] == TEMPLATE_INPUT);
  template_text_clear(&text);
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
  if (source.length) check_origins(t, source, variables);
  json_decref(variables);
  template_free(t);
  return 0;
}
