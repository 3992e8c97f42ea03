// SPDX-License-Identifier: Apache-2.0
//
// llama2c.c: the model and tokenizer files of llama2.c, in its first format, which has no mark.
//
//   model      header      dim hidden layers heads kv_heads vocabulary positions, 7 × i32;
//                          a negative vocabulary says that the classifier is a matrix of its own
//              f32 arrays  in the order of `parts` below, each for all layers before the next one
//              rotary      positions × head/2 cosines, then as many sines: ignored
//              classifier  if it is one of its own
//   tokenizer  longest:i32, then for each token score:f32 length:i32 bytes
//
// The arrays are cut into tensors with the names GGUF uses, so llama_load.c needs to know nothing
// of this format.  Fixed by the format: rms epsilon 1e-5, rotary base 10000, pairs side by side as
// in GGUF's llama.  Tokens: 0 is unknown, 1 and 2 are BOS and EOS, 3..258 the bytes; texts hold a
// plain space where SentencePiece has "▁".
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

enum { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY, POSITIONS, HEADER_FIELDS };
#define HEADER_BYTES (HEADER_FIELDS * 4)
#define FIRST_BYTE_TOKEN 3
#define TOKEN_BYTES_MAX 4096  // real ones have 27

static const struct {
  const char *name;
  int64_t high;
} header_fields[HEADER_FIELDS] = {
    {"dim", MODEL_WIDTH_MAX},        {"hidden_dim", MODEL_FFN_MAX},
    {"n_layers", MODEL_LAYERS_MAX},  {"n_heads", MODEL_HEADS_MAX},
    {"n_kv_heads", MODEL_HEADS_MAX}, {"vocab_size", MODEL_VOCABULARY_MAX},
    {"seq_len", MODEL_CONTEXT_MAX},
};

// ---- the model

// The sign of the vocabulary size says whether the embedding serves as classifier too.  INT32_MIN
// has no positive counterpart and becomes 0, which the limits refuse.
static bool read_header(struct str file, int32_t h[HEADER_FIELDS], bool *tied, struct error *e) {
  if (file.length < HEADER_BYTES)
    return error_set(e, ERROR_INPUT,
                     "a llama2.c file begins with %d bytes of header, but it has %zu in all",
                     HEADER_BYTES, file.length);
  memcpy(h, file.data, HEADER_BYTES);
  *tied = h[VOCABULARY] > 0;
  if (!*tied) h[VOCABULARY] = h[VOCABULARY] == INT32_MIN ? 0 : -h[VOCABULARY];
  for (int i = 0; i < HEADER_FIELDS; i++)
    if (h[i] < 1 || h[i] > header_fields[i].high)
      return error_set(e, ERROR_INPUT,
                       "the llama2.c header says %s = %" PRId32 " at byte %d, but 1..%" PRId64
                       " is possible",
                       header_fields[i].name, h[i], i * 4, header_fields[i].high);
  return true;
}

// What the header does not say is fixed by the format.
static void fill_settings(const int32_t h[HEADER_FIELDS], struct llama_settings *s) {
  ASSERT(h[HEADS] >= 1);
  *s = (struct llama_settings){
      .config = {.architecture = "llama",
                 .layers = h[LAYERS],
                 .width = h[DIM],
                 .ffn_width = h[HIDDEN],
                 .heads = h[HEADS],
                 .kv_heads = h[KV_HEADS],
                 .head_dim = h[DIM] / h[HEADS],
                 .vocabulary = h[VOCABULARY],
                 .context = h[POSITIONS],
                 .rms_epsilon = 1e-5f},
      .rope = {.rotated = h[DIM] / h[HEADS], .base = 10000, .factor = 1, .attention_factor = 1},
  };
}

struct part {
  const char *name;  // of one layer's tensor behind "blk.N.", or the whole name
  bool layered;
  int64_t rows, columns;  // rows 0 = a vector
};

// Cuts one array into tensors; *at moves behind it.
static bool cut_part(struct llama2c *l, struct str file, const struct part *p, uint64_t *at,
                     struct error *e) {
  ASSERT(*at <= file.length && p->columns >= 1);
  uint64_t elements =
      (uint64_t)(p->rows ? p->rows : 1) * (uint64_t)p->columns;  // < 2^21 × 2^20, see the limits
  for (int i = 0; i < (p->layered ? l->settings.config.layers : 1); i++) {
    char *name = p->layered ? arena_print(&l->arena, "blk.%d.%s", i, p->name)
                            : arena_print(&l->arena, "%s", p->name);
    if (elements * sizeof(float) > file.length - *at)
      return error_set(e, ERROR_INPUT,
                       "the llama2.c weights %s need %" PRIu64 " bytes at byte %" PRIu64
                       ", but the file ends at byte %zu: it is cut short; fetch it again",
                       name, elements * sizeof(float), *at, file.length);
    struct tensor *t = &l->tensors.items[l->tensors.count];
    *t = (struct tensor){.name = str_of(name),
                         .dimensions = p->rows ? 2 : 1,
                         .elements = elements,
                         .shape = {(uint64_t)p->columns, p->rows ? (uint64_t)p->rows : 1, 1, 1},
                         .offset = *at,
                         .bytes = elements * sizeof(float),
                         .data = (const uint8_t *)file.data + *at};
    map_put(&l->tensors.by_name, t->name, (int64_t)l->tensors.count++);
    *at += t->bytes;
  }
  return true;
}

// Walks the file front to back.  It must end exactly behind the last array: a length that fits by
// accident is unlikely, so this is also how another format is told from llama2.c.
static bool cut_parts(struct llama2c *l, struct str file, bool tied, struct error *e) {
  const struct model_config *c = &l->settings.config;
  const int64_t key = (int64_t)c->kv_heads * c->head_dim;
  const struct part parts[] = {
      {"token_embd.weight", false, c->vocabulary, c->width},
      {"attn_norm.weight", true, 0, c->width},
      {"attn_q.weight", true, c->width, c->width},
      {"attn_k.weight", true, key, c->width},
      {"attn_v.weight", true, key, c->width},
      {"attn_output.weight", true, c->width, c->width},
      {"ffn_norm.weight", true, 0, c->width},
      {"ffn_gate.weight", true, c->ffn_width, c->width},
      {"ffn_down.weight", true, c->width, c->ffn_width},
      {"ffn_up.weight", true, c->ffn_width, c->width},
      {"output_norm.weight", false, 0, c->width},
      {"output.weight", false, c->vocabulary, c->width},
  };
  uint64_t at = HEADER_BYTES;
  size_t last = COUNT_OF(parts) - 1;
  l->tensors.items =
      arena_new(&l->arena, COUNT_OF(parts) * (size_t)c->layers * sizeof *l->tensors.items);
  for (size_t i = 0; i < last; i++)
    if (!cut_part(l, file, &parts[i], &at, e)) return false;
  uint64_t turns = (uint64_t)c->context * (uint64_t)(c->head_dim / 2) * 2 * sizeof(float);
  if (turns > file.length - at)
    return error_set(e, ERROR_INPUT,
                     "the llama2.c rotary tables need %" PRIu64 " bytes at byte %" PRIu64
                     ", but the file ends at byte %zu: it is cut short; fetch it again",
                     turns, at, file.length);
  at += turns;
  if (!tied && !cut_part(l, file, &parts[last], &at, e)) return false;
  if (at != file.length)
    return error_set(e, ERROR_INPUT,
                     "%zu bytes follow the llama2.c weights, which end at byte %" PRIu64
                     ": it is another format or damaged",
                     file.length - at, at);
  return true;
}

// dim must divide by n_heads before head lengths derived from it mean anything.
bool model_llama2c_open(struct llama2c *l, struct str file, struct error *e) {
  int32_t header[HEADER_FIELDS];
  bool tied = true;
  *l = (struct llama2c){0};
  if (!read_header(file, header, &tied, e)) return false;
  fill_settings(header, &l->settings);
  if (header[DIM] % header[HEADS])
    return error_set(e, ERROR_INPUT,
                     "the llama2.c header says dim = %d, which is no multiple of n_heads = %d",
                     header[DIM], header[HEADS]);
  if (model_settings_check(&l->settings, e) && cut_parts(l, file, tied, e)) return true;
  model_llama2c_clear(l);
  return false;
}

void model_llama2c_clear(struct llama2c *l) {
  map_clear(&l->tensors.by_name);
  arena_clear(&l->arena);
  *l = (struct llama2c){0};
}

// ---- the tokenizer

// What a token is, and its text as SentencePiece writes it.
static int32_t convert_token(int id, struct str raw, struct arena *arena, struct str *text) {
  ASSERT(id >= 0);
  static const struct str control[] = {{"<unk>", 5}, {"<s>", 3}, {"</s>", 4}};
  if (id < FIRST_BYTE_TOKEN) return *text = control[id], id == 0 ? TOKEN_UNKNOWN : TOKEN_CONTROL;
  if (id < FIRST_BYTE_TOKEN + 256) {
    *text = str_of(arena_print(arena, "<0x%02X>", id - FIRST_BYTE_TOKEN));
    return TOKEN_BYTE;
  }
  char *out = arena_new(arena, raw.length * 3 + 1), *end = out;  // "▁" has three bytes
  for (size_t i = 0; i < raw.length; i++) {
    if (raw.data[i] == ' ')
      end = mempcpy(end, "▁", 3);
    else
      *end++ = raw.data[i];
  }
  *text = (struct str){out, (size_t)(end - out)};
  return TOKEN_NORMAL;
}

// Lengths are signed in the file; a negative one must not become a huge unsigned one.
static bool read_token(struct str file, size_t *at, int id, float *score, struct str *raw,
                       struct error *e) {
  ASSERT(*at <= file.length);
  int32_t length;
  if (file.length - *at < 8)
    return error_set(e, ERROR_INPUT,
                     "the tokenizer file ends at byte %zu inside token %d: it is cut short or does "
                     "not belong to the model",
                     file.length, id);
  memcpy(score, file.data + *at, 4);
  memcpy(&length, file.data + *at + 4, 4);
  *at += 8;
  if (length < 0 || length > TOKEN_BYTES_MAX || (size_t)length > file.length - *at)
    return error_set(e, ERROR_INPUT,
                     "token %d of the tokenizer file has %" PRId32
                     " bytes at byte %zu, but %zu follow",
                     id, length, *at, file.length - *at);
  *raw = (struct str){file.data + *at, (size_t)length};
  *at += (size_t)length;
  return true;
}

// The file states no count: it belongs to the model whose vocabulary uses it up exactly.
static struct tokenizer *read_tokens(struct str file, int vocabulary, struct arena *arena,
                                     struct error *e) {
  struct str *texts = arena_new(arena, (size_t)vocabulary * sizeof *texts), raw = {0};
  float *scores = arena_new(arena, (size_t)vocabulary * sizeof *scores);
  int32_t *types = arena_new(arena, (size_t)vocabulary * sizeof *types);
  size_t at = 4;  // behind the longest token's length, which nobody needs
  for (int i = 0; i < vocabulary; i++) {
    if (!read_token(file, &at, i, &scores[i], &raw, e)) return NULL;
    types[i] = convert_token(i, raw, arena, &texts[i]);
  }
  if (at != file.length) {
    error_set(e, ERROR_INPUT,
              "%zu bytes follow the %d tokens of the tokenizer file: it belongs to another model",
              file.length - at, vocabulary);
    return NULL;
  }
  struct tokenizer_source s = {.kind = TOKENIZER_SPM,
                               .count = vocabulary,
                               .texts = texts,
                               .scores = scores,
                               .types = types,
                               .bos = 1,
                               .eos = 2,
                               .eot = -1,
                               .unknown = 0,
                               .add_bos = true,
                               .add_space_prefix = true};
  return tokenizer_new(&s, e);
}

// Eight bytes a token are the least; with fewer the tables below would be out of proportion.
struct tokenizer *model_llama2c_tokenizer(struct str file, int vocabulary, struct error *e) {
  struct arena arena = {0};
  struct tokenizer *t = NULL;
  if (file.length < 4 || vocabulary < FIRST_BYTE_TOKEN + 256 ||
      file.length / 8 < (size_t)vocabulary)
    error_set(e, ERROR_INPUT, "the tokenizer file has %zu bytes, too few for %d tokens",
              file.length, vocabulary);
  else
    t = read_tokens(file, vocabulary, &arena, e);
  arena_clear(&arena);
  return t;
}

static bool is_tokenizer_name(struct str name) {
  struct str end = STR(".bin");
  return str_starts(name, STR("tok")) && name.length > end.length + 3 &&
         str_equal((struct str){name.data + name.length - end.length, end.length}, end);
}

struct search {
  int found;
  struct buffer name;  // of the first one
};

static bool look_at_name(void *context, const char *name) {
  struct search *s = context;
  if (is_tokenizer_name(str_of(name)) && s->found++ == 0) buffer_add_text(&s->name, name);
  return true;
}

// With several there is no telling which one: guessing would give babble, not an error.
bool model_llama2c_find_tokenizer(const struct world *w, const char *path, struct buffer *out,
                                  struct error *e) {
  const char *slash = strrchr(path, '/');
  struct buffer folder = {0};
  struct search s = {0};
  buffer_print(&folder, "%.*s", slash ? (int)(slash - path) + 1 : 2, slash ? path : "./");
  world_list(w, folder.data, look_at_name, &s);
  if (s.found == 1) buffer_print(out, "%s%s", folder.data, s.name.data);
  buffer_clear(&folder);
  buffer_clear(&s.name);
  return s.found == 1 ||
         error_set(e, ERROR_MISSING,
                   "a llama2.c model needs its tokenizer: %s tok*.bin lies beside it; name the "
                   "file with --tokenizer",
                   s.found ? "more than one" : "no");
}
