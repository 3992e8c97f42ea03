// SPDX-License-Identifier: Apache-2.0
//
// template.h: Jinja as chat templates use it.
//
// Life cycle: template_parse once per model, template_render per request (thread-safe: the parsed
// tree is never changed), template_free.  Variables come in as JSON, text goes out; nothing else is
// reachable from a template.  A hostile template meets limits: steps, depth and output are bounded,
// and every failure is one line with the line number in the template.
//
// Every byte of the text has an origin: the template itself, or the input.  A message that contains
// "<|im_end|>" gives the same bytes as the template's own "<|im_end|>", and only the origins tell
// them apart.  The template's own are: the text outside of tags, string literals, what filters make
// of them, the numbers it counts itself, and the strings named by `own` below.  All else is input:
// the variables, what is computed from them, and the punctuation that the engine adds.
#pragma once

#include <jansson.h>

#include "base/base.h"

struct template;
// Parses the source, UTF-8 of at most 1 MiB, which need not outlive the call.  NULL with
// ERROR_INPUT, "chat template line N: …", when it is no template.
struct template *template_parse(struct str source, struct error *e);
void template_free(struct template *t);

#define TEMPLATE_OUTPUT_MAX (16u << 20)  // bytes
#define TEMPLATE_STEPS_MAX 5000000       // evaluated nodes
#define TEMPLATE_DEPTH_MAX 128           // nesting of expressions and blocks in the source

enum template_origin { TEMPLATE_INPUT = 0, TEMPLATE_OWN = 1 };

// Rendered text.  Zero-initialised = empty and ready to use.
struct template_text {
  struct buffer bytes;    // UTF-8
  struct buffer origins;  // enum template_origin of each byte: as long as `bytes`
};
void template_text_clear(struct template_text *t);  // releases; empty and usable again

// variables: a JSON object: messages, tools, add_generation_prompt, bos_token, eos_token, …;
// borrowed.  own: NULL, or an array of strings that count as the template's own text; meant are
// these very nodes wherever they stand in `variables`, not other strings with the same text.
// now_ms: wall time for strftime_now, which tells the local time.
// raise_exception('text') in the template becomes ERROR_INPUT with that text.
// Appends to *out; on failure *out is as it was.
bool template_render(const struct template *t, const json_t *variables, const json_t *own,
                     uint64_t now_ms, struct template_text *out, struct error *e);
