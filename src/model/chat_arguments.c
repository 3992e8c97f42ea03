// SPDX-License-Identifier: Apache-2.0
//
// chat_arguments.c: the arguments of tool calls, as text or as JSON.
//
// In OpenAI's API the arguments of a call are a string that holds JSON.  Most templates want the
// JSON itself, and print it with tojson or walk over it; a string would come out quoted twice.
// Others print the string as it stands, and cannot print an object.  So each template is tried once
// with an example, as llama.cpp does it:
//
//   arguments given as {"city": …}   the text shows it as JSON       parse them in every request
//                                    it fails, or shows none, or     leave them as strings
//                                    shows Python's {'city': …}
//
// Templates are strict about what surrounds a call, so there are several examples.  The first one
// that either form gets through decides; where none does, the arguments are parsed.

#include "model/chat_arguments.h"

#include <string.h>

#include "base/json_tree.h"

#define EXAMPLE_KEY "arg_name"
#define EXAMPLE_VALUE "arg-value"

static const char example_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"tool\",\"description\":\"A tool\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\","
    "\"description\":\"x\"}},\"required\":[\"x\"]}}}]";
static const char example_object[] = "{\"" EXAMPLE_KEY "\":\"" EXAMPLE_VALUE "\"}";

// What stands around the call: with tools or without, content empty or null, the call answered or
// the last word.
static const struct example {
  bool tools, empty_content, answered;
} examples[] = {
    {true, true, true},  {true, false, true},   {true, true, false},
    {false, true, true}, {false, false, false},
};

static json_t *text_message(const char *role, const char *content) {
  return json_pack("{s:s,s:s}", "role", role, "content", content);
}

// arguments: taken over.
static json_t *call_message(const struct example *x, json_t *arguments) {
  json_t *call = json_pack("{s:s,s:s,s:{s:s,s:o}}", "id", "call00001", "type", "function",
                           "function", "name", "tool", "arguments", arguments);
  return json_pack("{s:s,s:o,s:[o]}", "role", "assistant", "content",
                   x->empty_content ? json_string("") : json_null(), "tool_calls", call);
}

static json_t *example_variables(const struct example *x, json_t *arguments) {
  json_t *messages = json_array();
  json_array_append_new(messages, text_message("user", "Hello"));
  json_array_append_new(messages, call_message(x, arguments));
  if (x->answered) {
    json_t *result = text_message("tool", "42");
    json_object_set_new(result, "tool_call_id", json_string("call00001"));
    json_object_set_new(result, "name", json_string("tool"));
    json_array_append_new(messages, result);
    json_array_append_new(messages, text_message("assistant", "It is 42."));
    json_array_append_new(messages, text_message("user", "Thanks"));
  }
  return json_pack("{s:o,s:o,s:b}", "messages", messages, "tools",
                   x->tools ? json_loads(example_tools, 0, NULL) : json_null(),
                   "add_generation_prompt", x->answered);
}

// Whether the value of the example comes out, and not between Python's quotes.
static bool comes_out(chat_try try, void *context, const struct example *x, json_t *arguments) {
  struct buffer out = {0};
  json_t *variables = example_variables(x, arguments);
  bool done = try(context, variables, &out);
  const char *text = buffer_str(&out).data;
  done = done && strstr(text, EXAMPLE_VALUE) && !strstr(text, "'" EXAMPLE_VALUE "'");
  json_decref(variables);
  buffer_clear(&out);
  return done;
}

bool chat_arguments_parsed(chat_try try, void *context) {
  for (size_t i = 0; i < COUNT_OF(examples); i++) {
    if (comes_out(try, context, &examples[i], json_loads(example_object, 0, NULL))) return true;
    if (comes_out(try, context, &examples[i], json_string(example_object))) return false;
  }
  return true;
}

// No text at all means no arguments.  What is no JSON stays the string that it is.  A model may
// repeat a key, which only jansson's own reading takes: the last one counts.
static json_t *parsed(const json_t *arguments) {
  struct str text = {json_string_value(arguments), json_string_length(arguments)};
  struct json_tree_fault fault;
  if (str_trim(text).length == 0) return json_object();
  json_t *tree = json_tree_read(text, &fault);
  return tree ? tree : json_loadb(text.data, text.length, JSON_DECODE_ANY, NULL);
}

// Copies are made along the way to the arguments only; all else is shared.
static json_t *with_arguments(json_t *call) {
  json_t *function = json_object_get(call, "function");
  const json_t *arguments = json_object_get(function, "arguments");
  json_t *value = json_is_string(arguments) ? parsed(arguments) : NULL;
  if (!value) return json_incref(call);
  json_t *new_call = json_copy(call), *new_function = json_copy(function);
  json_object_set_new(new_function, "arguments", value);
  json_object_set_new(new_call, "function", new_function);
  return new_call;
}

json_t *chat_parse_arguments(json_t *message) {
  const json_t *calls = json_object_get(message, "tool_calls");
  if (!json_is_array(calls)) return json_incref(message);
  json_t *all = json_array();
  for (size_t i = 0; i < json_array_size(calls); i++)
    json_array_append_new(all, with_arguments(json_array_get(calls, i)));
  json_t *copy = json_copy(message);
  json_object_set_new(copy, "tool_calls", all);
  return copy;
}
