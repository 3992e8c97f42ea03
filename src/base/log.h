// SPDX-License-Identifier: Apache-2.0
//
// log.h: what happens, line by line on stderr, for people or for programs.
//
//   text   2026-11-30T08:00:00.123Z info request id=req-7 route=/healthz status=200
//   JSON   {"time":"2026-11-30T08:00:00.123Z","level":"info","message":"request","id":"req-7",…}
//
// Only floors 7 and up log; the lower ones return errors.  Thread-safe: lines never mix.  A reader
// of stderr who takes nothing does not hold the program up: lines that find no room are dropped,
// and the next line that does says how many.
#pragma once

#include "base/world.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR, LOG_OFF };
enum log_form { LOG_AS_TEXT, LOG_AS_JSON };

// All three are set in main, before threads start.  At first: LOG_WARNING, LOG_AS_TEXT.
void log_set_level(enum log_level lowest);
void log_set_form(enum log_form form);
// Whose clock the lines show; NULL = the real world's.  It must outlive the logging.
void log_set_world(const struct world *world);
// "debug", "info", "warning", "error", "off"; "text", "json".  False for anything else, *out is
// then untouched.
bool log_level_parse(struct str text, enum log_level *out);
bool log_form_parse(struct str text, enum log_form *out);
// Whether a line of this level would be written: what only the log needs need not be made else.
bool log_shows(enum log_level level);

// One line.  Control characters become '?'.
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum log_kind { LOG_TEXT, LOG_INTEGER, LOG_SECONDS, LOG_TRUE };
struct log_field {
  const char *name;  // "status"; no white space
  enum log_kind kind;
  struct str text;  // any bytes; LOG_TEXT
  int64_t integer;  // LOG_INTEGER
  double seconds;   // LOG_SECONDS: written to 0.1 ms
};
// One line with fields in the order given.  message: a word or a few.
void log_event(enum log_level level, const char *message, const struct log_field *fields,
               int count);
