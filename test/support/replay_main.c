// SPDX-License-Identifier: Apache-2.0
//
// replay_main.c: runs a fuzz target over files, without a fuzzer and with any compiler.
//
//   replay_X FILE-OR-FOLDER…
//
// Each file is given as it is, and then VARIANTS times damaged: cut short, bits flipped, a byte
// replaced or runs swapped in from elsewhere in the file.  The damage comes from a generator that
// starts from the file's own bytes, so a failure repeats.  Every input lies in a block of exactly
// its size: the address sanitizer then sees a read of one byte too many.
//
// When a run dies, the input that killed it is named on stderr and left in the working folder as
// crash-replay, ready to be debugged and then added to the corpus.

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/file.h"
#include "support/fuzz.h"

#define VARIANTS 48
#define FILE_MAX (64u << 20)           // bytes; a bigger file is a mistake in the corpus
#define VARIANTS_BYTES_MAX (1u << 20)  // bigger files are replayed as they are only

// What is being tried, for the handler below, which gets no argument.
static struct {
  const char *file;
  int variant;  // 0 = the file itself
  const uint8_t *data;
  size_t size;
} current;

static void tell_who_died(void) {
  fprintf(stderr, "replay: died on %s, variant %d (%zu bytes), kept as crash-replay\n",
          current.file, current.variant, current.size);
  FILE *out = fopen("crash-replay", "wb");
  if (!out) return;
  fwrite(current.data, 1, current.size, out);
  fclose(out);
}

static void on_signal(int number) {
  tell_who_died();
  signal(number, SIG_DFL);
  raise(number);
}

// A sanitizer handles the signals of bad accesses itself and tells us before it ends the process.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void __sanitizer_set_death_callback(void (*callback)(void));
static void watch_for_death(void) {
  __sanitizer_set_death_callback(tell_who_died);
  signal(SIGABRT, on_signal);
}
#else
static void watch_for_death(void) {
  const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  for (size_t i = 0; i < COUNT_OF(deadly); i++) signal(deadly[i], on_signal);
}
#endif

static void try_input(const char *file, int variant, const uint8_t *data, size_t size) {
  uint8_t *exact = malloc(size ? size : 1);
  memcpy(exact, data, size);
  current.file = file, current.variant = variant, current.data = exact, current.size = size;
  LLVMFuzzerTestOneInput(size ? exact : exact + 1, size);
  free(exact);
}

// Damages data[0..size) in place; returns the new size, never more than before.
static size_t damage(uint8_t *data, size_t size, uint64_t *seed) {
  uint64_t changes = 1 + random_next(seed) % 4;
  for (uint64_t i = 0; i < changes && size; i++) {
    size_t at = random_next(seed) % size, from = random_next(seed) % size;
    size_t room = size - (at > from ? at : from), run = 1 + random_next(seed) % 16;
    uint64_t choice = random_next(seed);
    switch (choice % 5) {
      case 0: size = at; break;
      case 1: data[at] ^= (uint8_t)(1u << (choice >> 8) % 8); break;
      case 2: data[at] = (uint8_t)(choice >> 8); break;
      case 3: data[at] = choice >> 8 & 1 ? 0xFF : 0; break;
      case 4: memmove(data + at, data + from, run < room ? run : room); break;
    }
  }
  return size;
}

static bool replay_file(const char *path) {
  struct error e = {0};
  struct buffer original = {0}, variant = {0};
  if (!file_read(world_real(), path, FILE_MAX, &original, &e)) {
    fprintf(stderr, "replay: %s\n", e.text);
    return false;
  }
  try_input(path, 0, (const uint8_t *)original.data, original.length);
  uint64_t seed = hash_bytes(original.data, original.length, 0);
  int variants = original.length <= VARIANTS_BYTES_MAX ? VARIANTS : 0;
  for (int i = 1; i <= variants; i++) {
    variant.length = 0;
    buffer_add_str(&variant, buffer_str(&original));
    size_t size = damage((uint8_t *)variant.data, variant.length, &seed);
    try_input(path, i, (const uint8_t *)variant.data, size);
  }
  buffer_clear(&original);
  buffer_clear(&variant);
  return true;
}

// A file, or all files of a folder in alphabetical order.  Returns how many ran, -1 on failure.
static int replay_path(const char *path) {
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) return replay_file(path) ? 1 : -1;
  struct dirent **entries;
  int count = scandir(path, &entries, NULL, alphasort), ran = 0;
  if (count < 0) {
    fprintf(stderr, "replay: there is no file or folder %s\n", path);
    return -1;
  }
  for (int i = 0; i < count; i++) {
    char *name = entries[i]->d_name, whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", path, name);
    if (name[0] != '.' && ran >= 0) ran = replay_file(whole) ? ran + 1 : -1;
    free(entries[i]);
  }
  free(entries);
  return ran;
}

int main(int argc, char **argv) {
  int files = 0;
  watch_for_death();
  try_input("the empty input", 0, (const uint8_t *)"", 0);
  for (int i = 1; i < argc; i++) {
    int ran = replay_path(argv[i]);
    if (ran < 0) return 1;
    files += ran;
  }
  if (!files) {
    fprintf(stderr, "replay: no input; a fuzz target needs a seed in test/fuzz/corpus\n");
    return 1;
  }
  printf("%d files replayed, each with up to %d damaged variants\n", files, VARIANTS);
  return 0;
}
