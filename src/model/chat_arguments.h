// SPDX-License-Identifier: Apache-2.0
//
// chat_arguments.h: the arguments of tool calls, as text or as JSON; for chat.c alone.
#pragma once

#include <jansson.h>

#include "base/base.h"

// Renders variables; false when the template fails.
typedef bool (*chat_try)(void *context, const json_t *variables, struct buffer *out);
// Whether the template prints the arguments of a tool call right when they are given as JSON.
bool chat_arguments_parsed(chat_try try, void *context);
// The message with the arguments of its tool calls parsed, or the message itself where there are
// none to parse.  New reference.
json_t *chat_parse_arguments(json_t *message);
