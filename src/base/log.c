// SPDX-License-Identifier: Apache-2.0
//
// log.c: lines on stderr.
//
// A line is built first and written with one write(2), so lines of several threads never mix.  It
// has at most LINE_BYTES bytes: so many a pipe takes whole or not at all.  Before it is written,
// the system is asked whether there is room; a write to a pipe that nobody reads would wait for
// ever.
//
// Level, form and clock are the mutable variables of the base room: they are set before threads
// start.

#include "base/log.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 4096  // PIPE_BUF of Linux
#define TEXT_BYTES 2048  // of a message; the rest of a longer one is cut off

static struct log_settings {
  enum log_level lowest;
  enum log_form form;
  const struct world *world;  // whose clock the lines show; NULL = the real one's
} settings = {LOG_WARNING, LOG_AS_TEXT, NULL};

static atomic_uint dropped;  // lines since the last one that was written

static const char *const level_names[] = {"debug", "info", "warning", "error", "off"};
static const char *const form_names[] = {"text", "json"};

void log_set_level(enum log_level lowest) { settings.lowest = lowest; }
void log_set_form(enum log_form form) { settings.form = form; }
void log_set_world(const struct world *world) { settings.world = world; }
bool log_shows(enum log_level level) { return level >= settings.lowest && level < LOG_OFF; }

static int find_name(const char *const *names, size_t count, struct str text) {
  for (size_t i = 0; i < count; i++)
    if (str_equal(text, str_of(names[i]))) return (int)i;
  return -1;
}

bool log_level_parse(struct str text, enum log_level *out) {
  int found = find_name(level_names, COUNT_OF(level_names), text);
  if (found >= 0) *out = (enum log_level)found;
  return found >= 0;
}

bool log_form_parse(struct str text, enum log_form *out) {
  int found = find_name(form_names, COUNT_OF(form_names), text);
  if (found >= 0) *out = (enum log_form)found;
  return found >= 0;
}

// ---- building a line

// UTC, so that the logs of machines in different places can be laid side by side.
static void add_time(struct buffer *line) {
  uint64_t now_ms = world_wall_ms(settings.world ? settings.world : world_real());
  time_t seconds = (time_t)(now_ms / 1000);
  struct tm utc;
  char text[32];
  gmtime_r(&seconds, &utc);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  buffer_print(line, "%s.%03dZ", text, (int)(now_ms % 1000));
}

// What came from outside is quoted here: control characters must not reach a terminal.
static void add_clean(struct buffer *line, struct str text) {
  for (size_t i = 0; i < text.length; i++) {
    unsigned char c = (unsigned char)text.data[i];
    buffer_add_char(line, c < 0x20 || c == 0x7f ? '?' : (char)c);
  }
}

// A value that is one plain word stands as it is; any other stands in quotes.
static void add_value(struct buffer *line, struct str text) {
  bool plain = text.length > 0;
  for (size_t i = 0; i < text.length; i++)
    if (text.data[i] == ' ' || text.data[i] == '"' || text.data[i] == '=' || text.data[i] == '\\')
      plain = false;
  if (plain) return add_clean(line, text);
  buffer_add_char(line, '"');
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] == '"' || text.data[i] == '\\') buffer_add_char(line, '\\');
    add_clean(line, (struct str){text.data + i, 1});
  }
  buffer_add_char(line, '"');
}

// A JSON string.  Bytes that are no UTF-8 become U+FFFD.
static void add_json(struct buffer *line, struct str text) {
  buffer_add_char(line, '"');
  for (size_t i = 0; i < text.length;) {
    unsigned char c = (unsigned char)text.data[i];
    int length = str_utf8_length(text, i);
    if (c < 0x20 || c == 0x7f)
      buffer_print(line, "\\u%04x", c);
    else if (c == '"' || c == '\\')
      buffer_print(line, "\\%c", c);
    else if (length)
      buffer_add(line, text.data + i, (size_t)length);
    else
      buffer_add_text(line, "\xEF\xBF\xBD");
    i += length ? (size_t)length : 1;
  }
  buffer_add_char(line, '"');
}

static void add_field(struct buffer *line, bool json, const struct log_field *f) {
  buffer_print(line, json ? ",\"%s\":" : " %s=", f->name);
  switch (f->kind) {
    case LOG_TEXT: json ? add_json(line, f->text) : add_value(line, f->text); break;
    case LOG_INTEGER: buffer_print(line, "%lld", (long long)f->integer); break;
    case LOG_SECONDS: buffer_print(line, "%.4f", f->seconds); break;
    case LOG_TRUE: buffer_add_text(line, "true"); break;
  }
}

static void build(struct buffer *line, enum log_level level, struct str message,
                  const struct log_field *fields, int count) {
  bool json = settings.form == LOG_AS_JSON;
  if (json) buffer_add_text(line, "{\"time\":\"");
  add_time(line);
  buffer_print(line, json ? "\",\"level\":\"%s\",\"message\":" : " %s ", level_names[level]);
  json ? add_json(line, message) : add_clean(line, message);
  for (int i = 0; i < count; i++) add_field(line, json, &fields[i]);
  buffer_add_text(line, json ? "}\n" : "\n");
}

// ---- writing it

static bool has_room(void) {
  struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) != 0;  // an error shows in the write itself
}

// A line that is too long loses its end: half a line is better than one that may stop the program.
static void put(struct buffer *line) {
  if (line->length > LINE_BYTES) {
    line->length = LINE_BYTES;
    line->data[LINE_BYTES - 1] = '\n';
  }
  if (!has_room() || write(STDERR_FILENO, line->data, line->length) < 0)
    atomic_fetch_add(&dropped, 1);
}

static void put_dropped(void) {
  unsigned count = has_room() ? atomic_exchange(&dropped, 0) : 0;
  if (!count) return;
  struct buffer line = {0};
  struct log_field field = {.name = "lines", .kind = LOG_INTEGER, .integer = count};
  build(&line, LOG_WARNING, STR("log lines were dropped: nobody read them"), &field, 1);
  put(&line);
  buffer_clear(&line);
}

void log_event(enum log_level level, const char *message, const struct log_field *fields,
               int count) {
  if (!log_shows(level)) return;
  struct buffer line = {0};
  if (atomic_load(&dropped)) put_dropped();
  build(&line, level, str_of(message), fields, count);
  put(&line);
  buffer_clear(&line);
}

void log_line(enum log_level level, const char *format, ...) {
  if (!log_shows(level)) return;
  char text[TEXT_BYTES];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) text[0] = 0;
  log_event(level, text, NULL, 0);
}
