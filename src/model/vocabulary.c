// SPDX-License-Identifier: Apache-2.0
//
// vocabulary.c: the tokenizer in GGUF metadata → struct tokenizer_source.
//
// Keys, all under "tokenizer.ggml.": model (the kind), pre (how BPE cuts words), tokens, scores,
// token_type, merges, {bos,eos,eot,unknown}_token_id, add_bos_token, add_eos_token,
// add_space_prefix.  Lists must be as long as the vocabulary, and ids must lie in it; 2^32-1 stands
// for "none".  What a file leaves out has a default that depends on the kind, as the table below
// says.
#include <inttypes.h>

#include "model/internal.h"

static const struct kind {
  struct str name;
  enum tokenizer_kind kind;
  int32_t bos, eos, unknown;
  bool add_bos, add_space_prefix;
} kinds[] = {
    {{"llama", 5}, TOKENIZER_SPM, 1, 2, 0, true, true},
    {{"gpt2", 4}, TOKENIZER_BPE, -1, -1, -1, false, false},
};

// Pre-tokenizers of models that begin every text with BOS even when the file does not say so.
static const struct str pre_with_bos[] = {
    {"llama3", 6}, {"llama-v3", 8}, {"llama-bpe", 9}, {"falcon3", 7},   {"pixtral", 7},
    {"tekken", 6}, {"lfm2", 4},     {"midm-2.0", 8},  {"chameleon", 9}, {"falcon-h1", 9},
};

// The kind decides the defaults of everything else.
static bool read_kind(const struct gguf *g, const struct kind **out, struct error *e) {
  struct str name = {0};
  if (!model_gguf_string(g, "tokenizer.ggml.model", &name, e)) return false;
  if (!name.length)
    return error_set(e, ERROR_INPUT,
                     "the key \"tokenizer.ggml.model\" is missing: the file has no tokenizer");
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (str_equal(name, kinds[i].name)) return *out = &kinds[i], true;
  return error_set(e, ERROR_UNSUPPORTED,
                   "its tokenizer is of the kind \"%s\"; Motley has llama (SentencePiece BPE) and "
                   "gpt2 (byte-level "
                   "BPE)",
                   model_quote(name).text);
}

static bool check_length(const char *key, uint64_t count, int vocabulary, bool required,
                         struct error *e) {
  if (count == (uint64_t)vocabulary || (count == 0 && !required)) return true;
  return error_set(e, ERROR_INPUT, "\"%s\" has %" PRIu64 " elements, but the vocabulary has %d",
                   key, count, vocabulary);
}

// All lists run parallel to the tokens; scores and types may be absent, merges may not for BPE.
static bool read_lists(struct gguf *g, int vocabulary, struct tokenizer_source *s,
                       struct error *e) {
  ASSERT(vocabulary >= 1);
  static const char tokens[] = "tokenizer.ggml.tokens", scores[] = "tokenizer.ggml.scores";
  static const char types[] = "tokenizer.ggml.token_type", merges[] = "tokenizer.ggml.merges";
  uint64_t count, merge_count;
  if (!model_gguf_strings(g, tokens, &s->texts, &count, e) ||
      !check_length(tokens, count, vocabulary, true, e) ||
      !model_gguf_floats(g, scores, &s->scores, &count, e) ||
      !check_length(scores, count, vocabulary, false, e) ||
      !model_gguf_ints(g, types, &s->types, &count, e) ||
      !check_length(types, count, vocabulary, false, e) ||
      !model_gguf_strings(g, merges, &s->merges, &merge_count, e))
    return false;
  if (s->kind == TOKENIZER_BPE && !model_gguf_find(g, merges))
    return error_set(e, ERROR_INPUT, "the key \"%s\" is missing, which a gpt2 tokenizer needs",
                     merges);
  if (merge_count > INT32_MAX)
    return error_set(e, ERROR_INPUT, "\"%s\" has %" PRIu64 " elements", merges, merge_count);
  s->count = vocabulary;
  s->merge_count = (int)merge_count;
  return true;
}

// An id beyond the vocabulary would index past tables, or never be generated: a model that cannot
// stop.
static bool read_id(const struct gguf *g, const char *key, int vocabulary, int32_t *out,
                    struct error *e) {
  int64_t id = *out < vocabulary ? *out : -1;
  int64_t given = id;
  if (!model_gguf_int(g, key, -1, UINT32_MAX, &given, e)) return false;
  if (given == UINT32_MAX) given = -1;
  if (given >= vocabulary)
    return error_set(e, ERROR_INPUT, "key \"%s\" is %" PRId64 ", but the vocabulary has %d tokens",
                     key, given, vocabulary);
  *out = (int32_t)given;
  return true;
}

// Each reader leaves the kind's default where the file says nothing.
static bool read_special(const struct gguf *g, int vocabulary, struct tokenizer_source *s,
                         struct error *e) {
  return read_id(g, "tokenizer.ggml.bos_token_id", vocabulary, &s->bos, e) &&
         read_id(g, "tokenizer.ggml.eos_token_id", vocabulary, &s->eos, e) &&
         read_id(g, "tokenizer.ggml.eot_token_id", vocabulary, &s->eot, e) &&
         read_id(g, "tokenizer.ggml.unknown_token_id", vocabulary, &s->unknown, e) &&
         model_gguf_bool(g, "tokenizer.ggml.add_bos_token", &s->add_bos, e) &&
         model_gguf_bool(g, "tokenizer.ggml.add_eos_token", &s->add_eos, e) &&
         model_gguf_bool(g, "tokenizer.ggml.add_space_prefix", &s->add_space_prefix, e);
}

// A file may ask for a BOS or EOS that it does not define; then there is none to add.
struct tokenizer *model_vocabulary_read(struct gguf *g, int vocabulary, struct error *e) {
  ASSERT(vocabulary >= 1);
  const struct kind *kind = NULL;
  if (!read_kind(g, &kind, e)) return NULL;
  struct tokenizer_source s = {.kind = kind->kind,
                               .bos = kind->bos,
                               .eos = kind->eos,
                               .eot = -1,
                               .unknown = kind->unknown,
                               .add_bos = kind->add_bos,
                               .add_space_prefix = kind->add_space_prefix};
  if (!model_gguf_string(g, "tokenizer.ggml.pre", &s.pre, e)) return NULL;
  for (size_t i = 0; s.kind == TOKENIZER_BPE && i < COUNT_OF(pre_with_bos); i++)
    if (str_equal(s.pre, pre_with_bos[i])) s.add_bos = true;
  if (!read_lists(g, vocabulary, &s, e) || !read_special(g, vocabulary, &s, e)) return NULL;
  s.add_bos = s.add_bos && s.bos >= 0;
  s.add_eos = s.add_eos && s.eos >= 0;
  return tokenizer_new(&s, e);
}
