// SPDX-License-Identifier: Apache-2.0
//
// log.c: one line a message on stderr: "2026-11-30T08:00:00.123Z info text".
//
// The line is built first and written with one write(2), so lines of several threads never mix.
// The lowest level is the one mutable static of the base room: it is set before threads start.

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

static enum log_level lowest_level = LOG_INFO;

void log_set_level(enum log_level lowest) { lowest_level = lowest; }

// UTC, so that the logs of machines in different places can be laid side by side.
static void add_time(struct buffer *line) {
  struct timespec now;
  struct tm utc;
  char text[32];
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  buffer_print(line, "%s.%03ldZ ", text, now.tv_nsec / 1000000);
}

// The message may quote what came from outside: control characters must not reach a terminal.
void log_line(enum log_level level, const char *format, ...) {
  static const char *const names[] = {"debug", "info", "warning", "error"};
  if (level < lowest_level) return;
  struct buffer line = {0};
  add_time(&line);
  buffer_print(&line, "%s ", names[level]);
  size_t start = line.length;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  buffer_add_text(&line, text);
  for (size_t i = start; i < line.length; i++)
    if ((unsigned char)line.data[i] < 0x20 || line.data[i] == 0x7f) line.data[i] = '?';
  buffer_add_char(&line, '\n');
  if (write(STDERR_FILENO, line.data, line.length) < 0) {
    // Nobody to tell: stderr is gone.
  }
  buffer_clear(&line);
}
