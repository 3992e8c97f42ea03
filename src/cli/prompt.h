// SPDX-License-Identifier: Apache-2.0
//
// prompt.h: one entry from a person at a terminal: libedit, and what it does not know by itself.
#pragma once

#include <histedit.h>
#include <stdbool.h>

struct prompt {
  EditLine *edit;
  const char *text;  // what stands before the entry: ">>> "
  bool dropped;      // Ctrl-C ended the entry that was read last
};

// Takes the editor's client data, prompt and keys for itself; `p` stays where it is.
void prompt_install(struct prompt *p, EditLine *edit);

// The entry with its newline, valid until the next call; lines inside are parted by '\n'.  NULL at
// the end of input.
const char *prompt_read(struct prompt *p, int *length);
