// SPDX-License-Identifier: Apache-2.0
//
// chat.c: a conversation in the terminal.
//
// In a terminal, libedit reads the entries (prompt.c: editing, pasting; history over sessions);
// piped input is taken line by line, so a script can talk too.  A line that begins with """ goes on
// until a line that ends with """.  Ctrl-C while the model speaks stops the answer, what was said
// stays in the conversation; Ctrl-C at the prompt drops the entry; Ctrl-D or /bye ends.  When the
// context is full the oldest exchanges are left out of what the model sees, and a line says so.

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/world.h"
#include "cli/generate.h"
#include "cli/prompt.h"
#include "library/library.h"

#define HISTORY_LINES 1000

struct talk {
  const struct cli_runtime *runtime;
  struct generate_options *options;
  struct chat *chat;
  json_t *messages;      // the whole conversation; [0] may be the system message
  struct buffer system;  // that message; empty = none
  bool terminal;         // a person types
  struct prompt prompt;
  History *history;
  char *history_path;    // NULL = not kept
  struct buffer answer;  // what the model is saying
  struct generate_result last;
};

// ---- reading lines

static void open_editor(struct talk *t) {
  HistEvent event;
  struct error ignored;
  setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");  // what terminals send, said or not
  EditLine *edit = el_init("motley", stdin, stdout, stderr);
  t->history = history_init();
  if (!edit || !t->history) return;
  history(t->history, &event, H_SETSIZE, HISTORY_LINES);
  history(t->history, &event, H_SETUNIQUE, 1);
  cli_prompt_install(&t->prompt, edit);
  el_set(edit, EL_HIST, history, t->history);
  struct library *s = library_open(world_real(), NULL, &ignored);
  if (!s) return;
  struct buffer path = {0};
  buffer_print(&path, "%s/chat-history", library_home(s));
  t->history_path = path.data;
  history(t->history, &event, H_LOAD, t->history_path);
  library_close(s);
}

static void close_editor(struct talk *t) {
  if (t->history) history_end(t->history);
  if (t->prompt.edit) el_end(t->prompt.edit);
  memory_free(t->history_path);
}

// Into a new file first: a full disk, or an end at the wrong moment, leaves the old one whole.
static void save_history(struct talk *t) {
  HistEvent event;
  struct buffer fresh = {0};
  buffer_print(&fresh, "%s.new", t->history_path);
  FILE *file = fopen(fresh.data, "we");
  bool good = file && history(t->history, &event, H_SAVE_FP, file) >= 0;
  if (good && (fflush(file) != 0 || ferror(file))) good = false;  // the library looks at neither
  if (file && fclose(file) != 0) good = false;
  if (!good || rename(fresh.data, t->history_path) < 0) unlink(fresh.data);
  buffer_clear(&fresh);
}

static void remember(struct talk *t, const char *line) {
  HistEvent event;
  if (!line[strspn(line, " \t\r\n")]) return;
  history(t->history, &event, H_ENTER, line);
  if (t->history_path) save_history(t);
}

// One entry from the editor; false at the end of input.  A dropped one comes back empty.
static bool edit_entry(struct talk *t, const char *prompt, struct buffer *line) {
  int length;
  t->prompt.text = prompt;
  const char *text = cli_prompt_read(&t->prompt, &length);
  if (!text) printf("\n");  // the shell's prompt begins a line
  if (!text) return false;
  if (t->prompt.dropped) return true;
  remember(t, text);
  buffer_add(line, text, (size_t)length);
  return true;
}

static bool read_line(struct talk *t, const char *prompt, struct buffer *line) {
  if (t->prompt.edit) {
    if (!edit_entry(t, prompt, line)) return false;
  } else {
    char *text = NULL;
    size_t room = 0;
    ssize_t length = getline(&text, &room, stdin);
    if (length > 0) buffer_add(line, text, (size_t)length);
    memory_free(text);
    if (length <= 0) return false;
  }
  while (line->length &&
         (line->data[line->length - 1] == '\n' || line->data[line->length - 1] == '\r'))
    line->data[--line->length] = 0;
  return true;
}

static bool ends_with_quotes(const struct buffer *b) {
  return b->length >= 3 && memcmp(b->data + b->length - 3, "\"\"\"", 3) == 0;
}

// A whole entry: what the editor gives, one line of a pipe, or all between """ and """.
static bool read_entry(struct talk *t, struct buffer *entry) {
  if (!read_line(t, ">>> ", entry)) return false;
  if (!str_starts(buffer_str(entry), STR("\"\"\""))) return true;
  buffer_drop_front(entry, 3);
  while (!ends_with_quotes(entry)) {
    buffer_add_char(entry, '\n');
    if (!read_line(t, "... ", entry) || t->prompt.dropped) break;
  }
  if (t->prompt.dropped)
    entry->length = 0;
  else if (ends_with_quotes(entry))
    entry->length -= 3;
  if (entry->data) entry->data[entry->length] = 0;
  return true;
}

// ---- slash commands

static void forget(struct talk *t) {
  json_array_clear(t->messages);
  if (t->system.length) generate_add_message(t->messages, "system", buffer_str(&t->system));
}

static void command_clear(struct talk *t, const char *argument) {
  (void)argument;
  forget(t);
  fprintf(stderr, "The conversation starts anew.\n");
}

static void command_system(struct talk *t, const char *argument) {
  json_t *first = json_array_get(t->messages, 0);
  if (first && strcmp(json_string_value(json_object_get(first, "role")), "system") == 0)
    json_array_remove(t->messages, 0);
  t->system.length = 0;
  buffer_add_text(&t->system, argument);
  if (!*argument) return;
  json_t *one = json_array();
  generate_add_message(one, "system", str_of(argument));
  json_array_insert(t->messages, 0, json_array_get(one, 0));
  json_decref(one);
}

static void set_number(const char *argument, double low, double high, double *target) {
  double value;
  if (str_to_double(str_trim(str_of(argument)), &value) && value >= low && value <= high)
    *target = value;
  else
    fprintf(stderr, "give a number from %g to %g\n", low, high);
}
static void command_temp(struct talk *t, const char *argument) {
  const struct sampling_range *range = sampling_range("temperature");
  set_number(argument, range->low, range->high, &t->options->temperature);
}
static void command_tokens(struct talk *t, const char *argument) {
  double value = (double)t->options->max_tokens;
  set_number(argument, 0, 1 << 24, &value);
  t->options->max_tokens = (int64_t)value;
}
static void command_stats(struct talk *t, const char *argument) {
  (void)argument;
  generate_print_figures(&t->last);
}
static void command_help(struct talk *t, const char *argument);

static const struct talk_command {
  const char *name, *help;
  void (*run)(struct talk *t, const char *argument);  // NULL ends the conversation
} talk_commands[] = {
    {"/help", "this list", command_help},
    {"/clear", "forget the conversation", command_clear},
    {"/system", "TEXT: set the system message (nothing: remove it)", command_system},
    {"/temp", "T: set the temperature", command_temp},
    {"/tokens", "N: most tokens of an answer (0 = no limit)", command_tokens},
    {"/stats", "figures of the last answer", command_stats},
    {"/bye", "leave (Ctrl-D does too)", NULL},
};

static void command_help(struct talk *t, const char *argument) {
  (void)t, (void)argument;
  for (size_t i = 0; i < COUNT_OF(talk_commands); i++)
    fprintf(stderr, "  %-8s %s\n", talk_commands[i].name, talk_commands[i].help);
  fprintf(stderr,
          "  \"\"\"      begins and ends an entry of several lines; Alt-Enter starts a line\n"
          "  Ctrl-C   stops an answer, drops an entry\n");
}

static const struct talk_command *find_command(const char *entry) {
  size_t length = strcspn(entry, " \t\n");
  for (size_t i = 0; i < COUNT_OF(talk_commands); i++) {
    const char *name = talk_commands[i].name;
    if (strlen(name) == length && strncmp(name, entry, length) == 0) return &talk_commands[i];
  }
  return NULL;
}

// A line that begins with a slash is meant as a command.  Several lines may be code, which begins
// with a comment.
static bool is_command(const char *entry) {
  return entry[0] == '/' && (find_command(entry) || !strchr(entry, '\n'));
}

// False when the conversation is over.
static bool obey(struct talk *t, const char *entry) {
  size_t length = strcspn(entry, " \t\n");
  const struct talk_command *c = find_command(entry);
  if (!c)
    fprintf(stderr, "there is no %.*s; /help lists what there is\n", (int)length, entry);
  else if (c->run)
    c->run(t, entry + length + strspn(entry + length, " \t\n"));
  return !c || c->run;
}

// ---- answering

static void show(void *context, struct str text) {
  struct talk *t = context;
  fwrite(text.data, 1, text.length, stdout);
  buffer_add_str(&t->answer, text);
}

// The messages the model sees: all, or without the oldest exchanges when they do not fit; *dropped
// counts them.
static bool encode_fitting(struct talk *t, struct token_list *ids, int *dropped, struct error *e) {
  int context = engine_context(t->runtime->engine);
  int64_t wanted = t->options->max_tokens ? t->options->max_tokens : context / 4;
  int room = context - (int)(wanted < context / 2 ? wanted : context / 2);
  json_t *view = json_copy(t->messages);
  bool has_system =
      strcmp(json_string_value(json_object_get(json_array_get(view, 0), "role")), "system") == 0;
  bool done;
  for (*dropped = 0;; ++*dropped) {
    ids->count = 0;
    done = generate_encode_chat(t->chat, view, ids, e);
    if (!done || (int)ids->count <= room || json_array_size(view) < (has_system ? 4u : 3u)) break;
    json_array_remove(view, has_system);  // the oldest question and its answer go together
    json_array_remove(view, has_system);
  }
  json_decref(view);
  return done;
}

// One exchange; failures are told and the conversation goes on.
static void answer(struct talk *t, struct str entry) {
  struct error e = {0};
  struct token_list ids = {0};
  int dropped = 0;
  generate_add_message(t->messages, "user", entry);
  t->answer.length = 0;
  bool encoded = encode_fitting(t, &ids, &dropped, &e);
  if (dropped)
    fprintf(stderr, "(the context is full: the first %d exchanges are left out)\n", dropped);
  bool done = encoded && generate_text(t->runtime->engine, &ids, t->options, show, t, &t->last, &e);
  printf("\n");
  if (!done && e.kind != ERROR_CANCELLED) {
    if (!ferror(stdout))  // that is told when the program ends
      fprintf(stderr, "motley: %s\n", e.text);
    json_array_remove(t->messages, json_array_size(t->messages) - 1);
  } else {
    generate_add_message(t->messages, "assistant", buffer_str(&t->answer));
    if (!done) fprintf(stderr, "(stopped)\n");
  }
  if (t->terminal) printf("\n");
  token_list_clear(&ids);
}

static void converse(struct talk *t) {
  struct buffer entry = {0};
  for (bool more = true; more && !ferror(stdout); entry.length = 0) {
    if (t->terminal) generate_arm_interrupt();
    if (!read_entry(t, &entry)) break;
    struct str text = str_trim(buffer_str(&entry));
    if (!text.length) continue;
    if (is_command(text.data))
      more = obey(t, text.data);
    else
      answer(t, text);
  }
  buffer_clear(&entry);
}

bool cli_chat(const struct cli_runtime *runtime, struct generate_options *options,
              struct error *e) {
  struct talk t = {.runtime = runtime, .options = options, .terminal = isatty(STDIN_FILENO) == 1};
  t.chat = chat_new(runtime->model, e);
  if (!t.chat) return false;
  t.messages = json_array();
  if (options->system) buffer_add_text(&t.system, options->system);
  forget(&t);
  if (t.terminal) {
    open_editor(&t);
    fprintf(stderr,
            "%s on %d threads. Ctrl-C stops an answer, /help shows more, Ctrl-D leaves.\n\n",
            runtime->name, device_team_size(runtime->device));
  }
  converse(&t);
  if (t.terminal) {
    close_editor(&t);
    signal(SIGINT, SIG_DFL);
  }
  buffer_clear(&t.answer);
  buffer_clear(&t.system);
  json_decref(t.messages);
  chat_free(t.chat);
  return true;
}
