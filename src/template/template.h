// SPDX-License-Identifier: Apache-2.0
//
// template.h: Jinja as chat templates use it.
//
// Life cycle: template_parse once per model, template_render per request (thread-safe: the parsed
// tree is never changed), template_free.  Variables come in as JSON, text goes out; nothing else is
// reachable from a template.  A hostile template meets limits: steps, depth and output are bounded,
// and every failure is one line with the line number in the template.
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

// variables: a JSON object: messages, tools, add_generation_prompt, bos_token, eos_token, …;
// borrowed.  now_ms: wall time for strftime_now, which tells the local time.
// raise_exception('text') in the template becomes ERROR_INPUT with that text.
// Appends to *out; on failure *out is as it was.
bool template_render(const struct template *t, const json_t *variables, uint64_t now_ms,
                     struct buffer *out, struct error *e);
