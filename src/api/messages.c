// SPDX-License-Identifier: Apache-2.0
//
// messages.c: chat messages and tools: checked, and brought to the one form that chat templates
// expect.
//
//   {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}
//     ──▶  {"role":"user","content":"a\nb"}
//
// A last message of the assistant is not given to the template: the answer goes on with its text.
//
// A template sees: role, content (a string, or null beside tool_calls), and as given name,
// tool_calls, tool_call_id, reasoning_content.  "developer" is OpenAI's newer word for "system";
// templates only know the older.  Parts other than text are refused by name, since leaving them out
// would change the question.

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/internal.h"

#define MESSAGES_MAX 4096
#define TOOLS_MAX 128  // as OpenAI

static const struct {
  const char *given, *kept;
} roles[] = {{"system", "system"},       {"developer", "system"}, {"user", "user"},
             {"assistant", "assistant"}, {"tool", "tool"},        {"function", "function"}};

static const char *const kept_members[] = {"name", "tool_calls", "tool_call_id",
                                           "reasoning_content"};

// "messages[2].content[0]": the place of what is wrong.  element < 0: none.
struct place {
  char text[96];
};
static struct place place_of(size_t message, const char *member, int element) {
  struct place p;
  assert(message < MESSAGES_MAX && strlen(member) < 32);
  int used = snprintf(p.text, sizeof p.text, "messages[%zu]%s", message, member);
  if (element >= 0) snprintf(p.text + used, sizeof p.text - (size_t)used, "[%d]", element);
  return p;
}

static const char *role_of(const json_t *role) {
  for (size_t i = 0; i < COUNT_OF(roles) && json_is_string(role); i++)
    if (strcmp(json_string_value(role), roles[i].given) == 0) return roles[i].kept;
  return NULL;
}

// The text of one content part; NULL after saying why there is none.
static const json_t *part_text(struct api_reader *r, const char *where, const json_t *part) {
  const char *type = json_string_value(api_json_member(part, "type"));
  if (!type) {
    api_refuse(r, where, "a content part needs a \"type\"");
  } else if (strcmp(type, "text") == 0 || strcmp(type, "refusal") == 0) {
    const json_t *text = api_json_member(part, type);
    if (json_is_string(text)) return text;
    api_refuse(r, where, "a %s part needs a string \"%s\"", type, type);
  } else {
    api_refuse(r, where,
               "content parts of type \"%.40s\" are not supported; this model reads text only",
               type);
  }
  return NULL;
}

// Joins text parts with line ends.  New reference, or NULL after a refusal.
static json_t *join_parts(struct api_reader *r, size_t message, const json_t *parts) {
  struct buffer text = {.may_fail = true};
  json_t *joined = NULL;
  assert(json_is_array(parts));
  size_t i, count = json_array_size(parts);
  for (i = 0; i < count; i++) {
    struct place where = place_of(message, ".content", (int)i);
    const json_t *part = part_text(r, where.text, json_array_get(parts, i));
    if (!part) break;
    if (i > 0) buffer_add_char(&text, '\n');
    buffer_add_str(&text, api_json_text(part));
  }
  if (i == count && !text.failed) joined = json_stringn(buffer_str(&text).data, text.length);
  if (i == count && !joined) api_refuse_memory(r, "messages");
  buffer_clear(&text);
  return joined;
}

// The content as a template wants it.  New reference, or NULL after a refusal.
static json_t *normal_content(struct api_reader *r, size_t index, const json_t *message,
                              const char *role) {
  json_t *content = api_json_member(message, "content");
  bool optional = strcmp(role, "assistant") == 0;
  char what[API_DESCRIPTION_MAX];
  if (json_is_string(content)) return json_incref(content);
  if (json_is_array(content)) return join_parts(r, index, content);
  if (!content && optional) {
    bool calls = api_json_member(message, "tool_calls") != NULL;
    return calls ? json_null() : json_string("");
  }
  struct place where = place_of(index, ".content", -1);
  if (!content)
    api_refuse(r, where.text, "is required for a message of role %s", role);
  else
    api_refuse(r, where.text, "must be a string or an array of text parts, not %s",
               api_json_describe(content, what));
  return NULL;
}

// Templates index into these; a number where a list should be would surface as an obscure template
// error.
static bool check_kept_members(struct api_reader *r, size_t index, const json_t *message) {
  assert(json_is_object(message));
  for (size_t i = 0; i < COUNT_OF(kept_members); i++) {
    const json_t *value = api_json_member(message, kept_members[i]);
    bool wants_array = strcmp(kept_members[i], "tool_calls") == 0;
    if (!value || (wants_array ? json_is_array(value) : json_is_string(value))) continue;
    char member[32];
    snprintf(member, sizeof member, ".%s", kept_members[i]);
    return api_refuse(r, place_of(index, member, -1).text, "must be %s",
                      wants_array ? "an array" : "a string");
  }
  return true;
}

// Members of OpenAI's that would change the question and that no template gets.
static bool refuse_members(struct api_reader *r, size_t index, const json_t *message) {
  static const struct {
    const char *name, *why;
  } members[] = {{"function_call", "is not supported: use tool_calls"},
                 {"audio", "is not supported: this model reads text only"}};
  for (size_t i = 0; i < COUNT_OF(members); i++) {
    if (!api_json_member(message, members[i].name)) continue;
    char member[32];
    snprintf(member, sizeof member, ".%s", members[i].name);
    return api_refuse(r, place_of(index, member, -1).text, "%s", members[i].why);
  }
  return true;
}

// Templates print the name of every call.
static bool check_tool_calls(struct api_reader *r, size_t index, const json_t *message) {
  const json_t *calls = api_json_member(message, "tool_calls");
  for (size_t i = 0; i < json_array_size(calls); i++) {
    const json_t *function = api_json_member(json_array_get(calls, i), "function");
    if (json_is_string(api_json_member(function, "name"))) continue;
    struct place where = place_of(index, ".tool_calls", (int)i);
    return api_refuse(r, where.text, "needs a \"function\" with a \"name\"");
  }
  return true;
}

// Checks first, then builds: a refused message leaves nothing half made.
static bool add_message(struct api_reader *r, size_t index, const json_t *message) {
  char what[API_DESCRIPTION_MAX];
  const json_t *role = api_json_member(message, "role");
  const char *kept = role_of(role);
  if (!api_json_is_object(message))
    return api_refuse(r, place_of(index, "", -1).text, "must be an object, not %s",
                      api_json_describe(message, what));
  if (!kept)
    return api_refuse(r, place_of(index, ".role", -1).text,
                      "must be system, developer, user, assistant, tool or function%s%s",
                      role ? ", not " : "", role ? api_json_describe(role, what) : "");
  if (!refuse_members(r, index, message)) return false;
  if (!check_kept_members(r, index, message) || !check_tool_calls(r, index, message)) return false;
  json_t *content = normal_content(r, index, message, kept);
  if (!content) return false;
  json_t *normal = json_object();
  int failed = json_object_set_new(normal, "role", json_string(kept));
  failed |= json_object_set_new(normal, "content", content);
  for (size_t i = 0; i < COUNT_OF(kept_members); i++) {
    json_t *value = api_json_member(message, kept_members[i]);
    if (value) failed |= json_object_set(normal, kept_members[i], value);
  }
  failed |= json_array_append_new(r->out->messages, normal);
  return !failed || api_refuse_memory(r, "messages");
}

// What cannot be kept when only the text of the last message is.
static bool check_last(struct api_reader *r, size_t index, const json_t *last) {
  assert(json_is_object(last));
  if (api_json_member(last, "tool_calls"))
    return api_refuse(r, place_of(index, ".tool_calls", -1).text,
                      "the last message calls tools: add a message of role tool with the result");
  if (api_json_member(last, "reasoning_content"))
    return api_refuse(r, place_of(index, ".reasoning_content", -1).text,
                      "is not supported in a last message, which the answer goes on with");
  if (json_string_length(json_object_get(last, "content")) == 0)
    return api_refuse(r, place_of(index, ".content", -1).text,
                      "the last message is the assistant's and empty: leave it out");
  if (index == 0)
    return api_refuse(r, place_of(index, ".role", -1).text,
                      "an assistant's message can only be continued behind another message");
  return true;
}

// True and false of a field that must say what is done anyway.
static bool check_switch(struct api_reader *r, const char *name, bool done, const char *why) {
  assert(name && why);
  const json_t *value = api_json_member(r->root, name);
  char what[API_DESCRIPTION_MAX];
  if (!value) return true;
  if (!json_is_boolean(value))
    return api_refuse(r, name, "must be true or false, not %s", api_json_describe(value, what));
  return json_is_true(value) == done || api_refuse(r, name, "%s", why);
}

// The text of a last message of the assistant is taken out of the messages: the template renders
// what comes before, and the answer goes on behind both.
static bool continue_last(struct api_reader *r) {
  assert(json_array_size(r->out->messages) > 0);
  size_t index = json_array_size(r->out->messages) - 1;
  const json_t *last = json_array_get(r->out->messages, index);
  bool goes_on = str_equal(api_json_text(json_object_get(last, "role")), STR("assistant"));
  const char *why = goes_on ? "a last message of the assistant is continued"
                            : "only a last message of the assistant can be continued";
  if (!check_switch(r, "continue_final_message", goes_on, why)) return false;
  if (!check_switch(r, "add_generation_prompt", !goes_on, why)) return false;
  if (!goes_on) return true;
  if (!check_last(r, index, last)) return false;
  struct str text = api_json_text(json_object_get(last, "content"));
  char *copy = api_copy_text(r, "messages", text);
  if (!copy) return false;
  r->out->continued = (struct str){copy, text.length};
  json_array_remove(r->out->messages, index);
  return true;
}

// Messages made before a refusal are released with the request.
bool api_read_messages(struct api_reader *r) {
  const json_t *given = api_json_member(r->root, "messages");
  char what[API_DESCRIPTION_MAX];
  if (!given) return api_refuse(r, "messages", "is required: an array of {role, content}");
  if (!json_is_array(given))
    return api_refuse(r, "messages", "must be an array, not %s", api_json_describe(given, what));
  size_t count = json_array_size(given);
  if (count == 0 || count > MESSAGES_MAX)
    return api_refuse(r, "messages", "must hold 1 to %d messages, not %zu", MESSAGES_MAX, count);
  r->out->messages = json_array();
  for (size_t i = 0; i < count; i++)
    if (!add_message(r, i, json_array_get(given, i))) return false;
  return continue_last(r);
}

// tool_choice "auto" leaves the choice to the model and "none" hides the tools; a forced call would
// need a grammar.
static bool read_tool_choice(struct api_reader *r) {
  const json_t *choice = api_json_member(r->root, "tool_choice");
  const char *word = json_string_value(choice);
  if (!choice || (word && strcmp(word, "auto") == 0)) return true;
  if (!word || strcmp(word, "none") != 0)
    return api_refuse(r, "tool_choice", "only \"auto\" and \"none\" are supported");
  json_decref(r->out->tools);
  r->out->tools = NULL;
  return true;
}

// The schemas are the template's business; the name is what every template prints.
bool api_read_tools(struct api_reader *r) {
  json_t *tools = api_json_member(r->root, "tools");
  size_t count = json_array_size(tools);
  if (tools && (!json_is_array(tools) || count > TOOLS_MAX))
    return api_refuse(r, "tools", "must be an array of at most %d tools", TOOLS_MAX);
  for (size_t i = 0; i < count; i++) {
    const json_t *function = api_json_member(json_array_get(tools, i), "function");
    if (!json_is_string(api_json_member(function, "name")))
      return api_refuse(r, "tools", "tool %zu needs a \"function\" with a \"name\"", i);
  }
  assert(!r->out->tools);
  if (count > 0) r->out->tools = json_incref(tools);
  return read_tool_choice(r);
}

// ---- what a template sees

// tools is null rather than absent: templates ask both "is defined" and "is not none".
json_t *api_template_variables(const struct api_request *r) {
  json_t *variables = json_object();
  assert(r->chat && r->messages);
  json_object_set(variables, "messages", r->messages);
  json_object_set_new(variables, "tools", r->tools ? json_incref(r->tools) : json_null());
  json_object_set_new(variables, "add_generation_prompt", json_true());
  return variables;
}
