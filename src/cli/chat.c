// SPDX-License-Identifier: Apache-2.0
//
// chat.c: a conversation in the terminal.
//
// In a terminal, libedit reads the lines (editing, history over sessions); piped input is taken
// line by line, so a script can talk too.  A line that begins with """ goes on until a line that
// ends with """.  Ctrl-C while the model speaks stops the answer, what was said stays in the
// conversation; Ctrl-C at the prompt drops the line; Ctrl-D or /bye ends.  When the context is full
// the oldest exchanges are left out of what the model sees, and a line says so.

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/world.h"
#include "cli/generate.h"
#include "store/store.h"

#define HISTORY_LINES 1000

struct talk {
  const struct cli_runtime *runtime;
  struct generate_options *options;
  struct chat *chat;
  json_t *messages;  // the whole conversation; [0] may be the system message
  bool terminal;     // a person types
  bool prompt_more;  // inside """
  EditLine *edit;
  History *history;
  char *history_path;    // NULL = not kept
  struct buffer answer;  // what the model is saying
  struct generate_result last;
};

// ---- reading lines

static char *prompt_text(EditLine *edit) {
  struct talk *t;
  el_get(edit, EL_CLIENTDATA, &t);
  return t->prompt_more ? "... " : ">>> ";
}

static void open_editor(struct talk *t) {
  HistEvent event;
  struct error ignored;
  setlocale(LC_CTYPE, "");
  t->edit = el_init("motley", stdin, stdout, stderr);
  t->history = history_init();
  if (!t->edit || !t->history) return;
  history(t->history, &event, H_SETSIZE, HISTORY_LINES);
  history(t->history, &event, H_SETUNIQUE, 1);
  el_set(t->edit, EL_CLIENTDATA, t);
  el_set(t->edit, EL_PROMPT, prompt_text);
  el_set(t->edit, EL_EDITOR, "emacs");
  el_set(t->edit, EL_HIST, history, t->history);
  el_set(t->edit, EL_SIGNAL, 0);
  struct store *s = store_open(NULL, &ignored);
  if (!s) return;
  struct buffer path = {0};
  buffer_print(&path, "%s/chat-history", store_home(s));
  t->history_path = path.data;
  history(t->history, &event, H_LOAD, t->history_path);
  store_close(s);
}

static void close_editor(struct talk *t) {
  if (t->history) history_end(t->history);
  if (t->edit) el_end(t->edit);
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

static volatile sig_atomic_t line_dropped;  // Ctrl-C at the prompt; a handler reaches only a static
static void on_interrupt(int number) {
  (void)number;
  line_dropped = 1;
}

// One line from the editor, without its newline; false at the end of input.  A dropped line comes
// back empty.
static bool edit_line(struct talk *t, struct buffer *line) {
  struct sigaction action = {.sa_handler = on_interrupt},
                   before;  // no SA_RESTART: the read must return
  int length;
  line_dropped = 0;
  sigaction(SIGINT, &action, &before);
  const char *text = el_gets(t->edit, &length);
  sigaction(SIGINT, &before, NULL);
  if (line_dropped) {
    t->prompt_more = false;
    el_reset(t->edit);
    printf("\n");
    return true;
  }
  if (!text || length <= 0) return false;
  remember(t, text);
  buffer_add(line, text, (size_t)length);
  return true;
}

static bool read_line(struct talk *t, struct buffer *line) {
  if (t->edit && t->terminal) {
    if (!edit_line(t, line)) return false;
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

// A whole entry: one line, or all between """ and """.
static bool read_entry(struct talk *t, struct buffer *entry) {
  if (!read_line(t, entry)) return false;
  if (!str_starts(buffer_str(entry), STR("\"\"\""))) return true;
  buffer_drop_front(entry, 3);
  t->prompt_more = true;
  while (t->prompt_more && !ends_with_quotes(entry)) {
    buffer_add_char(entry, '\n');
    if (!read_line(t, entry)) break;
  }
  if (!t->prompt_more)
    entry->length = 0;  // dropped by Ctrl-C
  else if (ends_with_quotes(entry))
    entry->length -= 3;
  if (entry->data) entry->data[entry->length] = 0;
  t->prompt_more = false;
  return true;
}

// ---- slash commands

static void forget(struct talk *t) {
  json_array_clear(t->messages);
  if (t->options->system) generate_add_message(t->messages, "system", str_of(t->options->system));
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
  set_number(argument, 0, 100, &t->options->temperature);
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
          "  \"\"\"      begins and ends an entry of several lines; Ctrl-C stops an answer\n");
}

// False when the conversation is over.
static bool obey(struct talk *t, const char *entry) {
  size_t length = strcspn(entry, " \t");
  const char *argument = entry + length + strspn(entry + length, " \t");
  for (size_t i = 0; i < COUNT_OF(talk_commands); i++) {
    const struct talk_command *c = &talk_commands[i];
    if (strlen(c->name) != length || strncmp(c->name, entry, length) != 0) continue;
    if (!c->run) return false;
    c->run(t, argument);
    return true;
  }
  fprintf(stderr, "there is no %.*s; /help lists what there is\n", (int)length, entry);
  return true;
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
    if (!read_entry(t, &entry)) break;
    struct str text = str_trim(buffer_str(&entry));
    if (!text.length) continue;
    if (text.data[0] == '/')
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
  forget(&t);
  if (t.terminal) {
    open_editor(&t);
    fprintf(stderr,
            "%s on %d threads. Ctrl-C stops an answer, /help shows more, Ctrl-D leaves.\n\n",
            runtime->name, pool_threads(runtime->pool));
  }
  converse(&t);
  if (t.terminal) close_editor(&t);
  buffer_clear(&t.answer);
  json_decref(t.messages);
  chat_free(t.chat);
  return true;
}
