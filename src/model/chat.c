// SPDX-License-Identifier: Apache-2.0
//
// chat.c: a conversation becomes the tokens that a model continues.
//
//   messages (JSON) ──the model's template──▶ text ──tokenizer, special tokens known──▶ ids
//
// A template writes the begin-of-text token itself or leaves it to the tokenizer; two of them would
// be another prompt than the one the model was trained on.

#include "model/chat.h"

#include "template/template.h"

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
};

// Parsed once here, so that a bad template shows before the first message.
struct chat *chat_new(const struct model *model, struct error *e) {
  struct str source = model_chat_template(model);
  bool fallback = source.length == 0;
  struct template *template = template_parse(fallback ? str_of(fallback_source) : source, e);
  if (!template) {
    error_prefix(e, "the chat template of %s", model_config(model)->name);
    return NULL;
  }
  struct chat *c = memory_new(sizeof *c);
  *c = (struct chat){template, model_tokenizer(model), fallback};
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

// A model without such a token gives "", which templates print without harm; undefined would be an
// error in some.
bool chat_render(const struct chat *c, const json_t *variables, uint64_t now_ms, struct buffer *out,
                 struct error *e) {
  const struct tokenizer *t = c->tokenizer;
  json_t *all = json_copy((json_t *)(uintptr_t)variables);  // shallow: the caller's stays as it is
  json_object_set_new(all, "bos_token", token_text(t, tokenizer_bos(t)));
  json_object_set_new(all, "eos_token", token_text(t, tokenizer_eos(t)));
  bool done = template_render(c->template, all, now_ms, out, e);
  json_decref(all);
  return done;
}

void chat_encode(const struct chat *c, struct str rendered, struct token_list *out) {
  int32_t bos = tokenizer_bos(c->tokenizer);
  struct str bos_text = bos < 0 ? STR("") : tokenizer_bytes(c->tokenizer, bos);
  bool has_bos = bos_text.length && str_starts(rendered, bos_text);
  tokenizer_encode(c->tokenizer, rendered, !has_bos, true, out);
}
