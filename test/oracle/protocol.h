// SPDX-License-Identifier: Apache-2.0
//
// protocol.h: the text in which test/oracle/compare.py speaks with both engines, so that a
// difference can be seen by eye.  Each line of standard input is one job, each answer one line:
//
//   greedy N ID ID …    → N times " ID:LOGIT/ID:LOGIT", the best and the second best token of each
//   step nll ID ID …         → "SUM COUNT", minus log-likelihood in nats of the second half of the
//   tokens, each given
//                         all before it (the first half only serves as context)
//   text BYTES\n…       → " ID ID …" of that text, special tokens parsed, BOS where the model wants
//   one
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROTOCOL_TOKENS_MAX 8192

struct top2 {
  int32_t id[2];
  float logit[2];
};

// The best two; the lowest id wins ties.
static inline struct top2 protocol_top2(const float *logits, int count) {
  struct top2 t = {{-1, -1}, {-INFINITY, -INFINITY}};
  for (int i = 0; i < count; i++) {
    if (logits[i] > t.logit[0]) {
      t.id[1] = t.id[0];
      t.logit[1] = t.logit[0];
      t.id[0] = i;
      t.logit[0] = logits[i];
    } else if (logits[i] > t.logit[1]) {
      t.id[1] = i;
      t.logit[1] = logits[i];
    }
  }
  return t;
}

static inline double protocol_nll(const float *logits, int count, int32_t id) {
  double most = -INFINITY, sum = 0;
  for (int i = 0; i < count; i++) most = logits[i] > most ? logits[i] : most;
  for (int i = 0; i < count; i++) sum += exp(logits[i] - most);
  return most + log(sum) - logits[id];
}

// Reads the ids of one line after `text`; returns how many.
static inline int protocol_ids(char *text, int32_t *ids) {
  int count = 0;
  for (char *word = strtok(text, " \n"); word && count < PROTOCOL_TOKENS_MAX;
       word = strtok(NULL, " \n"))
    ids[count++] = (int32_t)strtol(word, NULL, 10);
  return count;
}
