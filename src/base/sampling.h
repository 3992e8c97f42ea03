// SPDX-License-Identifier: Apache-2.0
//
// sampling.h: the numbers that say how a token is chosen, and what each may be.
//
// The API, the command line and the engine all take these numbers from people.  The table below is
// the only place that knows their ranges: the API refuses with it, the flags take their bounds from
// it, and the engine checks with it once more.
#pragma once

#include "base/base.h"

#define SAMPLING_TOP_LOGPROBS 20  // most alternatives reported per token, as OpenAI
#define SAMPLING_STOPS 16         // stop strings per request
#define SAMPLING_STOP_BYTES 1024  // of one stop string; bounds how much text is held back
#define SAMPLING_BIAS_MAX 100.0f  // a logit bias lies between minus this and this
#define SAMPLING_BIAS_COUNT 1024  // biased tokens per request

struct sampling {
  float temperature;  // 0 = greedy (lowest id wins ties)
  int top_k;          // 0 = off
  float top_p;        // 1 = off; 0 keeps the best token only
  float min_p;        // 0 = off: keep tokens with p >= min_p * max p
  // 1 = off: logits of seen tokens (whole prompt and answer) divided (positive) or multiplied
  // (negative)
  float repetition_penalty;
  // OpenAI's: subtracted from logits of tokens generated so far
  float presence_penalty, frequency_penalty;
  uint64_t seed;
  int bias_count;
  const int32_t *bias_ids;   // logit bias: added before everything else
  const float *bias_values;  // -SAMPLING_BIAS_MAX .. SAMPLING_BIAS_MAX
};
struct sampling sampling_default(void);  // temperature 1, everything else off, seed 0

struct sampling_range {
  const char *name;  // of the member above, and of the API's field
  double low, high;  // both are allowed
  size_t offset;     // of the member in struct sampling
  bool whole;        // the member is an int, else a float
};
// The row of that name, which must be one of the table.
const struct sampling_range *sampling_range(const char *name);
// The rows in the order of the table; NULL beyond the last.
const struct sampling_range *sampling_range_at(size_t index);
// Whether `value` may be given for that row; NaN may not.
bool sampling_allows(const struct sampling_range *r, double value);
// Stores a value that is allowed.
void sampling_put(struct sampling *s, const struct sampling_range *r, double value);
// The numbers of the table and the values of biases; ids are not looked at.  False with ERROR_INPUT
// that names the member, its value and its range.
bool sampling_check(const struct sampling *s, struct error *e);
