// SPDX-License-Identifier: Apache-2.0
//
// known.c: tokens that mean something by their text alone.
//
// Files often mark their special tokens wrongly or not at all: an <|im_end|> of type "normal", an
// end of turn that no key names.  So the texts in the table carry their meaning whatever type the
// file gives them.  Content and consequences follow llama.cpp, since files are made to work with
// it.

#include <string.h>

#include "tokenizer/internal.h"

enum known_group {
  GROUP_END,           // control, and ends a generation
  GROUP_END_FIRST,     // the same, but of its run only the first that the vocabulary has
  GROUP_HIDDEN_FIRST,  // control; likewise
  GROUP_SHOWN,         // user-defined: part of an answer's visible structure
};

// `run` numbers texts that mean the same: the parts of a fill-in-the-middle prompt and its fillers.
static const struct known_text {
  const char *text;
  enum known_group group;
  int run;
} known_texts[] = {
    {"<|eot_id|>", GROUP_END, 0},
    {"<|im_end|>", GROUP_END, 0},
    {"<|end|>", GROUP_END, 0},
    {"<|return|>", GROUP_END, 0},
    {"<|call|>", GROUP_END, 0},
    {"<|flush|>", GROUP_END, 0},
    {"<|calls|>", GROUP_END, 0},
    {"<end_of_turn>", GROUP_END, 0},
    {"<|endoftext|>", GROUP_END, 0},
    {"</s>", GROUP_END, 0},
    {"<|eom_id|>", GROUP_END, 0},
    {"<EOT>", GROUP_END, 0},
    {"_<EOT>", GROUP_END, 0},
    {"[EOT]", GROUP_END, 0},
    {"[EOS]", GROUP_END, 0},
    {"<|end_of_text|>", GROUP_END, 0},
    {"<end_of_utterance>", GROUP_END, 0},
    {"<eos>", GROUP_END, 0},
    {"<turn|>", GROUP_END, 0},
    {"<|tool_response>", GROUP_END, 0},
    {"<｜end▁of▁sentence｜>", GROUP_END, 0},
    {"[e~[", GROUP_END, 0},
    {"<|fim_prefix|>", GROUP_HIDDEN_FIRST, 1},
    {"<fim-prefix>", GROUP_HIDDEN_FIRST, 1},
    {"<fim_prefix>", GROUP_HIDDEN_FIRST, 1},
    {"<｜fim▁begin｜>", GROUP_HIDDEN_FIRST, 1},
    {"<PRE>", GROUP_HIDDEN_FIRST, 1},
    {"▁<PRE>", GROUP_HIDDEN_FIRST, 1},
    {"<|code_prefix|>", GROUP_HIDDEN_FIRST, 1},
    {"<|prefix|>", GROUP_HIDDEN_FIRST, 1},
    {"<|fim_suffix|>", GROUP_HIDDEN_FIRST, 2},
    {"<fim-suffix>", GROUP_HIDDEN_FIRST, 2},
    {"<fim_suffix>", GROUP_HIDDEN_FIRST, 2},
    {"<｜fim▁hole｜>", GROUP_HIDDEN_FIRST, 2},
    {"<SUF>", GROUP_HIDDEN_FIRST, 2},
    {"▁<SUF>", GROUP_HIDDEN_FIRST, 2},
    {"<|code_suffix|>", GROUP_HIDDEN_FIRST, 2},
    {"<|suffix|>", GROUP_HIDDEN_FIRST, 2},
    {"<|fim_middle|>", GROUP_HIDDEN_FIRST, 3},
    {"<fim-middle>", GROUP_HIDDEN_FIRST, 3},
    {"<fim_middle>", GROUP_HIDDEN_FIRST, 3},
    {"<｜fim▁end｜>", GROUP_HIDDEN_FIRST, 3},
    {"<MID>", GROUP_HIDDEN_FIRST, 3},
    {"▁<MID>", GROUP_HIDDEN_FIRST, 3},
    {"<|code_middle|>", GROUP_HIDDEN_FIRST, 3},
    {"<|middle|>", GROUP_HIDDEN_FIRST, 3},
    {"<|fim_pad|>", GROUP_END_FIRST, 4},
    {"<fim-pad>", GROUP_END_FIRST, 4},
    {"<fim_pad>", GROUP_END_FIRST, 4},
    {"<PAD>", GROUP_END_FIRST, 4},
    {"[PAD]", GROUP_END_FIRST, 4},
    {"<|fim_repo|>", GROUP_END_FIRST, 5},
    {"<|repo_name|>", GROUP_END_FIRST, 5},
    {"<fim-repo>", GROUP_END_FIRST, 5},
    {"<REPO>", GROUP_END_FIRST, 5},
    {"<reponame>", GROUP_END_FIRST, 5},
    {"<|file_sep|>", GROUP_END_FIRST, 6},
    {"<|channel|>", GROUP_SHOWN, 0},
    {"<|message|>", GROUP_SHOWN, 0},
    {"<|start|>", GROUP_SHOWN, 0},
    {"<|constrain|>", GROUP_SHOWN, 0},
};

// ids[k] = the token with known_texts[k]'s text (the last of several), -1 = none.
static void find_known_texts(const struct tokenizer *t, int32_t *ids) {
  struct map numbers = {0};
  for (size_t k = 0; k < COUNT_OF(known_texts); k++) {
    map_put(&numbers, str_of(known_texts[k].text), (int64_t)k);
    ids[k] = -1;
  }
  for (int32_t id = 0; id < t->count; id++) {
    int64_t k;
    if (strchr("<[_\xE2", t->texts[id].data[0]) && map_get(&numbers, t->texts[id], &k)) ids[k] = id;
  }
  map_clear(&numbers);
}

static int32_t find_known(const int32_t *ids, const char *text) {
  for (size_t k = 0; k < COUNT_OF(known_texts); k++)
    if (strcmp(known_texts[k].text, text) == 0) return ids[k];
  return -1;
}

// Two families use a text of the table in another sense: with <|return|> and <|call|> (or <|calls|>
// and <|flush|>) an <|end|> ends a message and not the answer; with <|tool_response> an </s> is
// ordinary text.
static void mend_families(struct tokenizer *t, const int32_t *ids) {
  bool returns = find_known(ids, "<|return|>") >= 0, flushes = find_known(ids, "<|flush|>") >= 0;
  bool calls = find_known(ids, "<|call|>") >= 0 || find_known(ids, "<|calls|>") >= 0;
  int32_t end = find_known(ids, "<|end|>"), stop = find_known(ids, "</s>");
  if (end >= 0 && calls && (returns || flushes)) t->flags[end] = FLAG_USER;
  if (stop >= 0 && find_known(ids, "<|tool_response>") >= 0) t->flags[stop] = 0;
}

static bool has_bracket(struct str text) {
  for (size_t i = 0; i < text.length; i++)
    if (memchr("<>[]|", text.data[i], 5)) return true;
  return false;
}

// A user-defined token may be ordinary text, such as a run of blanks, a letter or "<"; a longer one
// with brackets stands for a place in a chat or an answer.
static void flag_protected(struct tokenizer *t) {
  for (int32_t id = 0; id < t->count; id++) {
    bool special = t->flags[id] & (FLAG_CONTROL | FLAG_UNKNOWN);
    bool marks = (t->flags[id] & FLAG_USER) && t->texts[id].length > 2 && has_bracket(t->texts[id]);
    if (special || marks) t->flags[id] |= FLAG_PROTECTED;
  }
}

// GROUP_SHOWN replaces what the type said; the others only add to it.  The ids that the file names
// as ends are ends whatever their text; families come last, for they take back what the table gave.
void tokenizer_flag_known_texts(struct tokenizer *t) {
  int32_t ids[COUNT_OF(known_texts)];
  find_known_texts(t, ids);
  int taken_run = 0;
  for (size_t k = 0; k < COUNT_OF(known_texts); k++) {
    const struct known_text *known = &known_texts[k];
    if (ids[k] < 0 || (known->run && known->run == taken_run)) continue;
    taken_run = known->run;
    uint8_t *flags = &t->flags[ids[k]];
    if (known->group == GROUP_SHOWN)
      *flags = FLAG_USER;
    else
      *flags |= FLAG_CONTROL;
    if (known->group == GROUP_END || known->group == GROUP_END_FIRST) *flags |= FLAG_END;
  }
  if (t->eos >= 0) t->flags[t->eos] |= FLAG_END;
  if (t->eot >= 0) t->flags[t->eot] |= FLAG_END;
  mend_families(t, ids);
  flag_protected(t);
}
