// SPDX-License-Identifier: Apache-2.0
//
// test_zip.c: the zip reader gives exactly the bytes that were packed, or refuses in one line.
//
// The archives are those of test/fuzz/corpus/zip, written by Python's zipfile or by hand
// (make_zip_corpus.py): good-* must unpack to the known model, bad-* must be refused.  Then every
// good one is damaged at every byte and cut at every length: whatever still unpacks must be
// unchanged.

#include "support/check.h"

#include <dirent.h>

#include "base/file.h"
#include "library/internal.h"

#define CORPUS "test/fuzz/corpus/zip"

// What a sample's .gguf entry holds: "GGUF" and 300 bytes i * 7 % 251, or nothing.
static void expect_model(const struct buffer *got) {
  if (got->length == 0) return;
  assert_int_equal(got->length, 304);
  assert_memory_equal(got->data, "GGUF", 4);
  for (int i = 0; i < 300; i++) assert_int_equal((uint8_t)got->data[4 + i], i * 7 % 251);
}

static bool add_bytes(void *context, const uint8_t *data, size_t length, struct error *e) {
  (void)e;
  buffer_add(context, data, length);
  return true;
}

static bool is_gguf(struct str name) {
  return name.length > 5 && memcmp(name.data + name.length - 5, ".gguf", 5) == 0;
}

// Opens and unpacks everything; the models in it are as packed, or the whole is refused.
static bool read_archive(const uint8_t *bytes, size_t length, struct error *e) {
  struct library_zip z;
  if (!library_zip_open(&z, bytes, length, e)) return false;
  bool good = true;
  for (int i = 0; good && i < z.count; i++) {
    struct buffer got = {0};
    good = library_zip_unpack(&z, &z.entries[i], add_bytes, &got, e);
    assert_true(got.length <= z.entries[i].size);
    if (good && is_gguf(z.entries[i].name)) expect_model(&got);
    buffer_clear(&got);
  }
  library_zip_close(&z);
  return good;
}

static void for_each_sample(const char *prefix,
                            void (*look)(const char *name, struct buffer *bytes)) {
  DIR *folder = opendir(CORPUS);
  int seen = 0;
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
    char path[512];
    struct buffer bytes = {0};
    snprintf(path, sizeof path, CORPUS "/%s", entry->d_name);
    assert_true(file_read(world_real(), path, 1 << 20, &bytes, NULL));
    look(entry->d_name, &bytes);
    buffer_clear(&bytes);
    seen++;
  }
  closedir(folder);
  assert_true(seen >= 5);
}

static const uint8_t *bytes_of(const struct buffer *b) { return (const uint8_t *)b->data; }

static void expect_good(const char *name, struct buffer *bytes) {
  struct error e = {0};
  if (!read_archive(bytes_of(bytes), bytes->length, &e)) fail_msg("%s: %s", name, e.text);
}

static void expect_bad(const char *name, struct buffer *bytes) {
  struct error e = {0};
  if (read_archive(bytes_of(bytes), bytes->length, &e)) fail_msg("%s was taken", name);
  assert_true(e.kind == ERROR_INPUT);
  assert_true(e.text[0] && !strchr(e.text, '\n'));
}

static void damage_everywhere(const char *name, struct buffer *bytes) {
  (void)name;
  const uint8_t masks[] = {0x01, 0x80, 0xff};
  for (size_t at = 0; at < bytes->length; at++)
    for (size_t m = 0; m < COUNT_OF(masks); m++) {
      bytes->data[at] = (char)((uint8_t)bytes->data[at] ^ masks[m]);
      read_archive(bytes_of(bytes), bytes->length, NULL);
      bytes->data[at] = (char)((uint8_t)bytes->data[at] ^ masks[m]);
    }
}

static void cut_everywhere(const char *name, struct buffer *bytes) {
  struct error e;
  for (size_t length = 0; length < bytes->length; length++) {
    uint8_t *exact = memory_new(length);  // so that the sanitizer sees a step too far
    memcpy(exact, bytes->data, length);
    if (read_archive(exact, length, &e)) fail_msg("%s was taken when cut at %zu", name, length);
    memory_free(exact);
  }
}

static void good_archives_unpack(void **state) {
  (void)state;
  for_each_sample("good-", expect_good);
}
static void bad_archives_are_refused(void **state) {
  (void)state;
  for_each_sample("bad-", expect_bad);
}
static void damage_never_changes_a_model(void **state) {
  (void)state;
  for_each_sample("good-", damage_everywhere);
}
static void a_cut_archive_is_refused(void **state) {
  (void)state;
  for_each_sample("good-", cut_everywhere);
}

// A sink that has enough stops the unpacking, with its own reason.
static bool refuse(void *context, const uint8_t *data, size_t length, struct error *e) {
  (void)context, (void)data, (void)length;
  return error_set(e, ERROR_SYSTEM, "disk full");
}

static void a_sink_can_stop(void **state) {
  (void)state;
  struct buffer bytes = {0};
  struct library_zip z;
  struct error e = {0};
  assert_true(file_read(world_real(), CORPUS "/good-deflated.zip", 1 << 20, &bytes, NULL));
  assert_true(library_zip_open(&z, bytes_of(&bytes), bytes.length, NULL));
  assert_false(library_zip_unpack(&z, &z.entries[0], refuse, NULL, &e));
  assert_string_equal(e.text, "disk full");
  library_zip_close(&z);
  buffer_clear(&bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_archives_unpack),
      cmocka_unit_test(bad_archives_are_refused),
      cmocka_unit_test(damage_never_changes_a_model),
      cmocka_unit_test(a_cut_archive_is_refused),
      cmocka_unit_test(a_sink_can_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
