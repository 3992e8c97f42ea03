// SPDX-License-Identifier: Apache-2.0
//
// format.c: names the file somebody gave instead of a model, and says what to do.
//
// Downloads go wrong in a few well-known ways (an error page, a Git LFS pointer, nothing at all),
// and models come in formats that look alike by name.  Each has a mark at a fixed place; the table
// is tried from the top.
#include <ctype.h>
#include <string.h>

#include "model/internal.h"

static const struct mark {
  size_t at;
  const char *bytes;
  size_t length;
  const char *advice;
} marks[] = {
#define MARK(at, text, advice) \
  { at, text, sizeof(text) - 1, advice }
    MARK(0, "version https://git-lfs",
         "it is a Git LFS pointer, not the model: run git lfs pull, or fetch the file itself"),
    MARK(0, "PK\x03\x04",
         "it is a zip archive, most likely a PyTorch checkpoint: convert it to GGUF first"),
    MARK(0, "\x80\x02",
         "it is a Python pickle (an old PyTorch checkpoint): convert it to GGUF first"),
    MARK(8, "{\"", "it looks like safetensors: convert it to GGUF first"),
    MARK(0, "lmgg", "it is a GGML file from before GGUF: fetch a GGUF"),
    MARK(0, "fmgg", "it is a GGMF file from before GGUF: fetch a GGUF"),
    MARK(0, "tjgg", "it is a GGJT file from before GGUF: fetch a GGUF"),
    MARK(0, "algg", "it is a GGLA adapter from before GGUF: fetch a GGUF model"),
    MARK(0, "FUGG", "it is a byte-swapped GGUF: fetch the usual little-endian file"),
    MARK(0, "24ka", "it is a llama2.c file of version 1 or 2: export it with --version 0"),
    MARK(0, "\x89HDF", "it is an HDF5 file: convert it to GGUF first"),
    MARK(0, "\x1f\x8b", "it is compressed with gzip: unpack it first"),
    MARK(0, "\x28\xb5\x2f\xfd", "it is compressed with zstd: unpack it first"),
    MARK(0, "BZh", "it is compressed with bzip2: unpack it first"),
    MARK(0, "\3757zXZ", "it is compressed with xz: unpack it first"),
    MARK(0, "7z\xbc\xaf", "it is a 7z archive: unpack it first"),
    MARK(0, "\177ELF", "it is a program, not a model"),
#undef MARK
};

static bool is_html(struct str start) {
  start = str_trim(start);
  return start.length >= 5 && start.data[0] == '<' &&
         (strncasecmp(start.data, "<html", 5) == 0 || strncasecmp(start.data, "<!doc", 5) == 0 ||
          strncasecmp(start.data, "<?xml", 5) == 0);
}

static bool is_text(struct str start) {
  ASSERT(start.length <= 64);
  for (size_t i = 0; i < start.length; i++)
    if (!isprint((unsigned char)start.data[i]) && !isspace((unsigned char)start.data[i]))
      return false;
  return true;
}

// The first words are enough to recognise the file by.
static bool refuse_text(struct str start, struct error *e) {
  start = str_trim(start);
  int length = 0;
  while (length < 24 && (size_t)length < start.length && isprint((unsigned char)start.data[length]))
    length++;
  return error_set(e, ERROR_INPUT,
                   "it is text that begins \"%.*s%s\", not a model; give a GGUF file, or the name "
                   "of a pulled model",
                   length, start.data, (size_t)length < start.length ? "…" : "");
}

// Marks first: a zip or a pickle may hold text that would fool the later guesses.
bool model_format_refuse(struct str file, struct error *e) {
  struct str start = {file.data, file.length < 64 ? file.length : 64};
  if (!file.length) return error_set(e, ERROR_INPUT, "the file is empty: fetch it again");
  for (size_t i = 0; i < COUNT_OF(marks); i++) {
    const struct mark *m = &marks[i];
    if (file.length >= m->at + m->length && memcmp(file.data + m->at, m->bytes, m->length) == 0)
      return error_set(e, ERROR_UNSUPPORTED, "%s", m->advice);
  }
  if (is_html(start))
    return error_set(e, ERROR_INPUT,
                     "it is a web page, not a model: the download went wrong; fetch it again");
  if (is_text(start)) return refuse_text(start, e);
  return error_set(e, ERROR_UNSUPPORTED,
                   "it is no model file Motley knows (GGUF version 2 or 3, llama2.c .bin)%s",
                   file.length < 28 ? ": it is cut short" : "");
}
