// SPDX-License-Identifier: Apache-2.0
//
// tokenizer.h: text to token ids and back.
//
// Two kinds: SentencePiece-BPE (scores; "▁" for space; <0xNN> byte fallback) and byte-level BPE
// (merge ranks; a regular expression cuts text into words first).  Both know added and special
// tokens, which are cut out of the text before anything else when `parse_special` is set.
// Immutable after creation: safe to share by threads.
#pragma once

#include "base/base.h"

enum tokenizer_kind { TOKENIZER_SPM, TOKENIZER_BPE };
enum token_type {  // the numbers are GGUF's tokenizer.ggml.token_type
  TOKEN_NORMAL = 1,
  TOKEN_UNKNOWN = 2,
  TOKEN_CONTROL = 3,
  TOKEN_USER_DEFINED = 4,
  TOKEN_UNUSED = 5,
  TOKEN_BYTE = 6
};

// Everything a tokenizer is made of; borrowed for the call of tokenizer_new only, which checks and
// copies it.
struct tokenizer_source {
  enum tokenizer_kind kind;
  // name of the pre-tokenizer for BPE, GGUF's tokenizer.ggml.pre ("smollm", "llama-bpe"…)
  struct str pre;
  int count;                 // vocabulary size
  const struct str *texts;   // [count] token texts as stored in the file
  const float *scores;       // [count] for SPM; NULL = all 0
  const int32_t *types;      // [count] enum token_type; NULL = all normal
  const struct str *merges;  // [merge_count] "left right" for BPE, best first
  int merge_count;
  int32_t bos, eos, eot, unknown;  // ids, -1 = none
  bool add_bos, add_eos, add_space_prefix;
};

struct tokenizer;
// NULL with ERROR_INPUT where ids, types, texts, scores or merges cannot be right, and with
// ERROR_UNSUPPORTED, listing the known ones, for an unknown `pre` of BPE: a near miss would change
// ids silently.
struct tokenizer *tokenizer_new(const struct tokenizer_source *source, struct error *e);
// Texts given out by tokenizer_bytes go with it.
void tokenizer_free(struct tokenizer *t);

struct token_list {
  int32_t *ids;  // owned
  size_t count, capacity;
  bool failed;  // ids were left out: there was no memory
};
void token_list_clear(struct token_list *l);            // releases; empty and usable again
void token_list_add(struct token_list *l, int32_t id);  // any number: nothing is checked
// False with ERROR_MEMORY when ids were left out.  To be asked once, after all additions: what
// encodes adds to a list goes on quietly when memory runs out, and the list then is of no use.
bool token_list_ok(const struct token_list *l, struct error *e);

// Appends the ids of `text`.  add_special: begin with BOS / end with EOS where the model says so.
// parse_special: texts of control and user-defined tokens in `text` become those tokens (for
// rendered templates; never for what a user typed into /v1/completions unless asked).  Invalid
// UTF-8 is taken byte by byte.
void tokenizer_encode(const struct tokenizer *t, struct str text, bool add_special,
                      bool parse_special, struct token_list *out);

// Appends the ids of a rendered chat.  own: [text.length], not 0 where the template wrote the byte
// and 0 where it comes from a message, a tool or another variable.  A special token is recognised
// only where all of its bytes are the template's own.  From other bytes come ordinary tokens alone:
// no control token and no added token that looks like one ("<tool_call>", "[INST]").  Apart from
// that the ids are those of tokenizer_encode with parse_special.
void tokenizer_encode_rendered(const struct tokenizer *t, struct str text, const uint8_t *own,
                               bool add_special, struct token_list *out);

// The questions below may be asked of any id; one out of range is no token and has no bytes.

int tokenizer_count(const struct tokenizer *t);    // ids are 0..count-1
int32_t tokenizer_bos(const struct tokenizer *t);  // -1 = none
int32_t tokenizer_eos(const struct tokenizer *t);  // -1 = none; not the only end there may be
// EOS, EOT or another end-of-generation token
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);
// control or unknown: not shown to users
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
// The bytes one token stands for ("▁the" → " the", "<0x0A>" → "\n", byte-level letters undone).
// Control, unknown and user-defined tokens give their own text, unused ones nothing.  Owned by the
// tokenizer.
struct str tokenizer_bytes(const struct tokenizer *t, int32_t id);

// Streaming detokenisation.  Zero-initialised = start of a text; detokenizer_resume = inside one.
// Feed ids one by one; what is appended is always whole UTF-8 characters: an unfinished character
// waits for the next token; bytes that can never become valid turn into U+FFFD.  The space that SPM
// puts before the first word is dropped at the start of a text, and only there.
struct detokenizer {
  char pending[4];  // bytes of an unfinished character
  int pending_length;
  bool started;  // a space at the front belongs to the text
};
// For a zeroed *d: the text goes on behind token `last`, which was not fed.  A space at the front
// is then kept, unless `last` is a special or user-defined token: encoding begins a new text behind
// those and puts its space there.
void detokenizer_resume(struct detokenizer *d, const struct tokenizer *t, int32_t last);
// Appends what became whole, perhaps nothing.  A special token that is not shown leaves no trace:
// bytes before and behind it join.
void detokenizer_add(struct detokenizer *d, const struct tokenizer *t, int32_t id,
                     bool show_special, struct buffer *out);
// flushes pending bytes as U+FFFD
void detokenizer_finish(struct detokenizer *d, struct buffer *out);
