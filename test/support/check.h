// SPDX-License-Identifier: Apache-2.0
//
// check.h: cmocka with the headers it wants before it, for every test program.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// The path of a file that the build made ("story/story.bin").  The text is overwritten by the
// eighth call after it.
static inline const char *built_file(const char *name) {
  static char paths[8][512];
  static unsigned next;
  const char *build = getenv("MOTLEY_BUILD");
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", build ? build : "build/asan", name);
  return path;
}
