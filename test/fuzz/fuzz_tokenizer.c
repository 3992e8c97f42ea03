// SPDX-License-Identifier: Apache-2.0
//
// fuzz_tokenizer.c: a hostile vocabulary and a hostile text.
//
// The first line says what to build, then come tokens and merges, an empty line, and the text:
//
//   s or b, then flags a letter each, then a space and the name of the pre-tokenizer
//   TYPE-LETTER SCORE-LETTER TEXT     a token (n c u s b x: normal, control, user, unused, byte,
//                                     unknown), its score by a letter
//   = LEFT RIGHT                      a merge
//
// Whatever comes of it: a refusal is one line; ids lie in the vocabulary; text that was encoded in
// one go is encoded the same again; what the detokenizer puts out is valid UTF-8.

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/fuzz.h"
#include "tokenizer/tokenizer.h"

#define TOKENS_MAX 600

struct input {
  struct str rest;
  struct str texts[TOKENS_MAX], merges[TOKENS_MAX];
  float scores[TOKENS_MAX];
  int32_t types[TOKENS_MAX];
  struct tokenizer_source source;
};

static void must(bool holds) {
  if (!holds) abort();
}

static struct str take_line(struct str *rest) {
  const char *end = rest->length ? memchr(rest->data, '\n', rest->length) : NULL;
  struct str line = {rest->data, end ? (size_t)(end - rest->data) : rest->length};
  size_t used = line.length + (end != NULL);
  rest->data += used, rest->length -= used;
  return line;
}

static void take_head(struct input *in) {
  struct str line = take_line(&in->rest);
  struct tokenizer_source *s = &in->source;
  *s = (struct tokenizer_source){.kind = TOKENIZER_SPM,
                                 .texts = in->texts,
                                 .scores = in->scores,
                                 .types = in->types,
                                 .merges = in->merges,
                                 .bos = -1,
                                 .eos = -1,
                                 .eot = -1,
                                 .unknown = -1};
  for (; line.length && line.data[0] != ' '; line.data++, line.length--) {
    char c = line.data[0];
    if (c == 'b') s->kind = TOKENIZER_BPE;
    if (c == 'B') s->add_bos = true, s->bos = 0;
    if (c == 'E') s->add_eos = true, s->eos = 1;
    if (c == 'U') s->unknown = 2;
    if (c == 'p') s->add_space_prefix = true;
    if (c == '!') s->eot = 1 << 20;
  }
  s->pre = str_trim(line);
}

static void take_token(struct input *in, struct str line) {
  static const char letters[] = "?nxcusb";  // by enum token_type
  const char *type = strchr(letters, line.data[0]);
  int at = in->source.count++;
  in->types[at] = type && *type ? (int32_t)(type - letters) : line.data[0];
  in->scores[at] = line.length > 1 ? (float)(line.data[1] - 'm') : 0;
  in->texts[at] = line.length > 2 ? (struct str){line.data + 2, line.length - 2} : STR("");
}

static void take_vocabulary(struct input *in) {
  while (in->rest.length && in->source.count < TOKENS_MAX && in->source.merge_count < TOKENS_MAX) {
    struct str line = take_line(&in->rest);
    if (line.length == 0) return;
    if (line.data[0] != '=')
      take_token(in, line);
    else
      in->merges[in->source.merge_count++] = (struct str){line.data + 1, line.length - 1};
  }
}

static void check_text(const struct tokenizer *t, struct str text, int flags) {
  struct token_list once = {0}, again = {0};
  struct buffer out = {0};
  struct detokenizer d = {0};
  tokenizer_encode(t, text, flags & 1, flags & 2, &once);
  tokenizer_encode(t, text, flags & 1, flags & 2, &again);
  must(once.count == again.count);
  for (size_t i = 0; i < once.count; i++) {
    must(once.ids[i] == again.ids[i] && once.ids[i] >= 0 && once.ids[i] < tokenizer_count(t));
    detokenizer_add(&d, t, once.ids[i], flags & 4, &out);
  }
  detokenizer_finish(&d, &out);
  for (size_t at = 0; at < out.length;) {
    int length = str_utf8_length(buffer_str(&out), at);
    must(length > 0);
    at += (size_t)length;
  }
  buffer_clear(&out);
  token_list_clear(&once), token_list_clear(&again);
}

// Whether the template wrote the token's text somewhere.
static bool is_own_somewhere(const struct tokenizer *t, int32_t id, struct str text,
                             const uint8_t *own) {
  struct str bytes = tokenizer_bytes(t, id);
  for (size_t at = 0; at + bytes.length <= text.length; at++)
    if (str_starts((struct str){text.data + at, text.length - at}, bytes) &&
        !memchr(own + at, 0, bytes.length))
      return true;
  return false;
}

// A special id comes from the template's own text alone; where all is the template's, the ids are
// those of the text with special tokens parsed.
static void check_rendered(const struct tokenizer *t, struct str text, int32_t unknown, int way) {
  struct token_list ids = {0}, all = {0};
  uint8_t *own = memory_new(text.length + 1);
  for (size_t i = 0; i < text.length; i++)
    own[i] = way == 0 || (way == 1 && hash_bytes(&i, sizeof i, 9) % 8 > 0);
  tokenizer_encode_rendered(t, text, own, false, &ids);
  tokenizer_encode(t, text, false, true, &all);
  must(way != 0 || (ids.count == all.count &&
                    (!ids.count || memcmp(ids.ids, all.ids, ids.count * sizeof *ids.ids) == 0)));
  for (size_t i = 0; i < ids.count; i++)
    if (tokenizer_is_special(t, ids.ids[i]) && ids.ids[i] != unknown)
      must(is_own_somewhere(t, ids.ids[i], text, own));
  memory_free(own);
  token_list_clear(&ids), token_list_clear(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input *in = memory_new(sizeof *in);
  struct error e = {0};
  in->rest = (struct str){(const char *)data, size};
  take_head(in);
  take_vocabulary(in);
  struct tokenizer *t = tokenizer_new(&in->source, &e);
  must(t || (e.text[0] && !strchr(e.text, '\n')));
  for (int flags = 0; t && flags < 8; flags++) check_text(t, in->rest, flags);
  for (int way = 0; t && way < 3; way++) check_rendered(t, in->rest, in->source.unknown, way);
  tokenizer_free(t);
  memory_free(in);
  return 0;
}
