// SPDX-License-Identifier: Apache-2.0
//
// chat.c: a conversation becomes the tokens that a model continues.
//
//   messages (JSON) ──the model's template──▶ text and origins ──tokenizer──▶ ids
//
// Who writes a message must not be able to end it and to speak as somebody else.  So text of the
// input stays text, whatever it looks like; only bytes that the template wrote become special
// tokens.  Of the input, these strings count as the template's: bos_token and eos_token, which come
// from the model, and a message's role where it is one of a fixed set of words, since templates
// build tokens from it ('<|' + message.role + '|>').
//
// Arguments of tool calls that come as strings are parsed where the template wants them as JSON
// (chat_arguments.c).
//
// A template writes the begin-of-text token itself or leaves it to the tokenizer; two of them would
// be another prompt than the one the model was trained on.

#include "model/chat.h"

#include <assert.h>
#include <string.h>

#include "model/chat_arguments.h"

// ChatML, for models that bring no template of their own.  A message that only calls tools has no
// content.
static const char fallback_source[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

struct chat {
  struct template *template;
  const struct tokenizer *tokenizer;
  bool fallback;
  bool parses_arguments;
};

static bool try_render(void *context, const json_t *variables, struct buffer *out) {
  struct template_text text = {0};
  struct error ignored;
  bool done = chat_render(context, variables, 0, &text, &ignored);
  if (done) buffer_add_str(out, buffer_str(&text.bytes));
  template_text_clear(&text);
  return done;
}

// Parsed once here, so that a bad template shows before the first message.
struct chat *chat_new_of(struct str source, const struct tokenizer *tokenizer, struct error *e) {
  bool fallback = source.length == 0;
  struct template *template = template_parse(fallback ? str_of(fallback_source) : source, e);
  if (!template) return NULL;
  struct chat *c = memory_new(sizeof *c);
  *c = (struct chat){.template = template, .tokenizer = tokenizer, .fallback = fallback};
  c->parses_arguments = chat_arguments_parsed(try_render, c);
  return c;
}

struct chat *chat_new(const struct model *model, struct error *e) {
  struct chat *c = chat_new_of(model_chat_template(model), model_tokenizer(model), e);
  if (!c) error_prefix(e, "the chat template of %s", model_config(model)->name);
  return c;
}

void chat_free(struct chat *c) {
  if (!c) return;
  template_free(c->template);
  memory_free(c);
}

bool chat_is_fallback(const struct chat *c) { return c->fallback; }

static json_t *token_text(const struct tokenizer *t, int32_t id) {
  struct str text = id < 0 ? STR("") : tokenizer_bytes(t, id);
  json_t *value = json_stringn(text.data, text.length);
  return value ? value : json_string("");  // bytes that are no UTF-8 cannot be shown to a template
}

static bool is_known_role(const json_t *role) {
  static const char *const roles[] = {"system",    "developer", "user",
                                      "assistant", "tool",      "function"};
  for (size_t i = 0; i < COUNT_OF(roles) && json_is_string(role); i++)
    if (str_equal(str_of(roles[i]),
                  (struct str){json_string_value(role), json_string_length(role)}))
      return true;
  return false;
}

// A role that is the same node as some other string of the input would lift that string, too; so
// each role gets a node of its own, which goes into `own`.  New reference.
static json_t *with_own_role(json_t *message, json_t *own) {
  const json_t *role = json_object_get(message, "role");
  if (!is_known_role(role)) return json_incref(message);
  json_t *copy = json_copy(message), *word = json_string(json_string_value(role));
  json_object_set(copy, "role", word);
  json_array_append_new(own, word);
  return copy;
}

// The messages as the template gets them.
static json_t *prepare(const struct chat *c, const json_t *messages, json_t *own) {
  json_t *all = json_array();
  for (size_t i = 0; i < json_array_size(messages); i++) {
    json_t *message = with_own_role(json_array_get(messages, i), own);
    json_array_append_new(
        all, c->parses_arguments ? chat_parse_arguments(message) : json_incref(message));
    json_decref(message);
  }
  return all;
}

static void set_own(json_t *variables, const char *name, json_t *value, json_t *own) {
  json_object_set(variables, name, value);
  json_array_append_new(own, value);
}

// A model without such a token gives "", which templates print without harm; undefined would be an
// error in some.
bool chat_render(const struct chat *c, const json_t *variables, uint64_t now_ms,
                 struct template_text *out, struct error *e) {
  const struct tokenizer *t = c->tokenizer;
  json_t *own = json_array();
  json_t *all = json_copy((json_t *)(uintptr_t)variables);  // shallow: the caller's stays as it is
  const json_t *messages = json_object_get(variables, "messages");
  if (json_is_array(messages)) json_object_set_new(all, "messages", prepare(c, messages, own));
  set_own(all, "bos_token", token_text(t, tokenizer_bos(t)), own);
  set_own(all, "eos_token", token_text(t, tokenizer_eos(t)), own);
  bool done = template_render(c->template, all, own, now_ms, out, e);
  json_decref(all);
  json_decref(own);
  return done;
}

// The template's own BOS only: a message that begins with the same text is no BOS.
static bool begins_with_bos(const struct chat *c, const struct template_text *rendered) {
  int32_t bos = tokenizer_bos(c->tokenizer);
  struct str text = bos < 0 ? STR("") : tokenizer_bytes(c->tokenizer, bos);
  return text.length && str_starts(buffer_str(&rendered->bytes), text) &&
         !memchr(rendered->origins.data, TEMPLATE_INPUT, text.length);
}

void chat_encode(const struct chat *c, const struct template_text *rendered,
                 struct token_list *out) {
  assert(rendered->bytes.length == rendered->origins.length);
  tokenizer_encode_rendered(c->tokenizer, buffer_str(&rendered->bytes),
                            (const uint8_t *)rendered->origins.data, !begins_with_bos(c, rendered),
                            out);
}
