// SPDX-License-Identifier: Apache-2.0
//
// llama_tokenize.c: llama.cpp's half of the tokenizer comparison, through its public C interface.
// tokenizer.py builds and drives it; requests and answers are those of motley_tokenize.c.
//
//   llama_tokenize VOCABULARY.gguf encode < requests > ids
//   llama_tokenize VOCABULARY.gguf tokens > one record a token

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

static void quiet(enum ggml_log_level level, const char *text, void *context) {
  (void)context;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void write_int(int32_t value) { fwrite(&value, 4, 1, stdout); }

static void encode_requests(const struct llama_vocab *vocab) {
  int32_t head[2];
  while (fread(head, 4, 2, stdin) == 2) {
    char *text = malloc((size_t)head[1] + 1);
    if (fread(text, 1, (size_t)head[1], stdin) != (size_t)head[1]) exit(1);
    int32_t room = 4 * head[1] + 16;
    llama_token *ids = malloc((size_t)room * sizeof *ids);
    int32_t count =
        llama_tokenize(vocab, text, head[1], ids, room, head[0] & 1, (head[0] & 2) != 0);
    if (count < 0) exit(1);
    write_int(count);
    fwrite(ids, sizeof *ids, (size_t)count, stdout);
    free(ids);
    free(text);
  }
}

static void write_tokens(const struct llama_vocab *vocab) {
  const int special = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN;
  static char piece[1 << 20];
  for (llama_token id = 0; id < llama_vocab_n_tokens(vocab); id++) {
    int32_t length = llama_token_to_piece(vocab, id, piece, sizeof piece, 0, true);
    write_int(llama_vocab_is_eog(vocab, id) +
              2 * ((llama_vocab_get_attr(vocab, id) & special) != 0));
    write_int(length);
    fwrite(piece, 1, (size_t)length, stdout);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  llama_log_set(quiet, NULL);
  struct llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  struct llama_model *model = llama_model_load_from_file(argv[1], params);
  if (!model) return 1;
  const struct llama_vocab *vocab = llama_model_get_vocab(model);
  if (strcmp(argv[2], "encode") == 0)
    encode_requests(vocab);
  else
    write_tokens(vocab);
  llama_model_free(model);
  return 0;
}
