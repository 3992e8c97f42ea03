// SPDX-License-Identifier: Apache-2.0
//
// json_tree.h: JSON text from anybody, read into jansson's trees.
//
// jansson holds 64-bit integers and doubles, and refuses a text with any other number.  JSON has no
// such limits, and a number that nobody here computes with (in a tool's schema, say) must come out
// as it came in.  So such a number is kept as its text: a "wide number", which is neither
// json_is_number nor json_is_string.  Whoever reads a tree sees it as something of the wrong kind
// until it asks json_tree_wide.
//
//   {"const": 18446744073709551615}  ──▶  {"const": wide number "18446744073709551615"}
//
// json_dumps cannot write a tree with a wide number in it; it then gives NULL.
#pragma once

#include <jansson.h>

#include "base/base.h"

#define JSON_TREE_NESTING 128    // levels; jansson, and all that walk a tree, recurse
#define JSON_TREE_WIDE_MAX 4096  // wide numbers in one text

struct json_tree_fault {
  int line, column;  // from 1; where it was noticed
  char why[120];     // "a number is too large"
};
// Any JSON value, UTF-8; keys of one object must differ, and no string holds U+0000.  New
// reference; NULL with *fault filled.
json_t *json_tree_read(struct str text, struct json_tree_fault *fault);
// The text of a wide number, borrowed from the tree; false for any other value, NULL included.
bool json_tree_wide(const json_t *value, struct str *text);
// A wide number.  New reference, NULL without memory.
json_t *json_tree_wide_new(struct str text);
