// SPDX-License-Identifier: Apache-2.0
//
// chat.h: from a conversation to the tokens a model continues.
//
// The model's own template renders the messages; the text is then encoded with the template's own
// special tokens recognised, and no others.  A model without a template gets ChatML, the most
// common form, and chat_is_fallback says so.  Immutable after chat_new: safe to share by threads.
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "model/model.h"
#include "template/template.h"

struct chat;
// Borrows the model, which must outlive it.  NULL where the file's template cannot be parsed:
// ChatML is for files without one, not for files with a wrong one.
struct chat *chat_new(const struct model *model, struct error *e);
// The same from a template's source, "" for ChatML, and a tokenizer, which must outlive it.
struct chat *chat_new_of(struct str source, const struct tokenizer *tokenizer, struct error *e);
void chat_free(struct chat *c);               // the model stays
bool chat_is_fallback(const struct chat *c);  // the file brought no template
// variables: what template.h's template_render takes; bos_token and eos_token are added here,
// messages must be there.  These two and the roles of messages count as the template's own text;
// everything else in `variables` is input.  Appends to *out; untouched on failure.
bool chat_render(const struct chat *c, const json_t *variables, uint64_t now_ms,
                 struct template_text *out, struct error *e);
// Appends the ids of rendered text.  Special tokens are recognised where the template wrote them,
// never in what came from messages, tools or names; a BOS that the template wrote itself is not
// doubled.
void chat_encode(const struct chat *c, const struct template_text *rendered,
                 struct token_list *out);
