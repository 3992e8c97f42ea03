// SPDX-License-Identifier: Apache-2.0
//
// test_library.c: names, manifests, the list, finding a model by what was typed, removing, and the
// choice among files.
//
// Each test has a home of its own below /tmp.  Pulling is tested with the real program
// (pull.test.py).

#include "support/check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "library/internal.h"

struct fixture {
  char home[64];
  struct library *store;
};

static int set_up(void **state) {
  struct fixture *f = memory_new(sizeof *f);
  strcpy(f->home, "/tmp/motley-store-XXXXXX");
  if (!mkdtemp(f->home)) return -1;
  f->store = library_open(world_real(), f->home, NULL);
  *state = f;
  return f->store ? 0 : -1;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", f->home);
  library_close(f->store);
  int failed = system(command);
  memory_free(f);
  return failed;
}

static void write_file(const char *path, const char *text) {
  assert_true(file_write_atomic(world_real(), path, str_of(text), NULL));
}

// A model as a pull leaves it; its file holds its name.
static void add_model(const struct fixture *f, const char *name, const char *source) {
  char folder[160], path[200];
  snprintf(folder, sizeof folder, "%s/models/%s", f->home, name);
  snprintf(path, sizeof path, "%s/model.gguf", folder);
  assert_true(file_make_folders(world_real(), folder, NULL));
  write_file(path, name);
  struct library_model m = {
      .path = path, .source = (char *)(uintptr_t)source, .bytes = strlen(name), .pulled_ms = 7};
  strcpy(m.name, name);
  if (name[0] == '.') return;
  memset(m.sha256, 'a', 64);
  assert_true(library_manifest_write(world_real(), folder, &m, NULL));
}

// ---- names

static void names_come_from_files(void **state) {
  (void)state;
  const char *const cases[][2] = {
      {"SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct.q4_1"},
      {"/some/where/A b(c).GGUF", "a-b-c"},
      {"stories260K.bin", "stories260k"},
      {".gguf", "gguf"},
      {"..gguf", "model"},
      {"-rf.gguf", "rf"},
      {"模型.gguf", "model"},
  };
  char name[96];
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    library_name_from_file(cases[i][0], name);
    assert_string_equal(name, cases[i][1]);
    assert_true(library_name_is_valid(name));
  }
  char longest[300];
  memset(longest, 'x', 299);
  longest[299] = 0;
  library_name_from_file(longest, name);
  assert_int_equal(strlen(name), 95);
  assert_true(library_name_is_valid(name));
}

static void weight_types_are_cut_off_names(void **state) {
  (void)state;
  const char *const cases[][2] = {
      {"smollm2-135m-instruct.q4_1", "smollm2-135m-instruct"},
      {"m-q4_k_m", "m"},
      {"m.bf16", "m"},
      {"m_f32", "m"},
      {"m-iq3_xs", "m"},
      {"m-Q8_0", "m"},
      {"stories260k", "stories260k"},
      {"q8_0", "q8_0"},                // nothing would be left
      {"m-q8_0-chat", "m-q8_0-chat"},  // not at the end
      {"m-q8", "m-q8"},
      {"model-f160", "model-f160"},
      {"mq8_0", "mq8_0"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char name[96];
    snprintf(name, sizeof name, "%s", cases[i][0]);
    library_name_drop_type(name);
    assert_string_equal(name, cases[i][1]);
  }
}

static void dangerous_names_are_refused(void **state) {
  (void)state;
  const char *const bad[] = {"", ".", "..", "../x", "a/b", "a b", "-x", ".x", "ä", "a\n"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_false(library_name_is_valid(bad[i]));
}

// ---- list

static void the_list_is_sorted_and_counts_what_is_broken(void **state) {
  struct fixture *f = *state;
  struct library_model *list;
  int count, broken;
  char path[200];
  assert_true(library_models(f->store, &list, &count, &broken, NULL));  // no folder yet
  assert_int_equal(count, 0);
  library_models_free(list, count);
  add_model(f, "zeta", "pypi:z==1");
  add_model(f, "alpha", "hf:o/r/a.gguf");
  add_model(f, "short", "file:/x");
  add_model(f, "rubbish", "file:/x");
  snprintf(path, sizeof path, "%s/models/short/model.gguf", f->home);
  write_file(path, "another size");
  snprintf(path, sizeof path, "%s/models/rubbish/model.json", f->home);
  write_file(path, "{\"file\": \"../../../etc/passwd\"}");
  snprintf(path, sizeof path, "%s/models/unfinished", f->home);
  assert_true(file_make_folders(world_real(), path, NULL));
  snprintf(path, sizeof path, "%s/models/.pull/0123", f->home);
  assert_true(file_make_folders(world_real(), path, NULL));
  assert_true(library_models(f->store, &list, &count, &broken, NULL));
  assert_int_equal(count, 2);
  assert_int_equal(broken, 2);
  assert_string_equal(list[0].name, "alpha");
  assert_string_equal(list[1].name, "zeta");
  assert_string_equal(list[1].source, "pypi:z==1");
  assert_int_equal(list[1].bytes, 4);
  assert_int_equal(list[1].pulled_ms, 7);
  library_models_free(list, count);
}

static void manifests_that_lie_are_refused(void **state) {
  struct fixture *f = *state;
  const char *const bad[] = {
      "",
      "[]",
      "{}",
      "not JSON",
      "{\"file\":\"../x.gguf\",\"source\":\"s\",\"sha256\":\"D\",\"bytes\":1,\"pulled_ms\":1}",
      "{\"file\":\"model.gguf\",\"source\":\"s\",\"sha256\":\"short\",\"bytes\":1,\"pulled_ms\":1}",
      "{\"file\":\"model.gguf\",\"source\":\"s\",\"sha256\":\"D\",\"bytes\":-1,\"pulled_ms\":1}",
      "{\"file\":\"model.exe\",\"source\":\"s\",\"sha256\":\"D\",\"bytes\":1,\"pulled_ms\":1}",
  };
  char digest[65] = "", path[200];
  memset(digest, '0', 64);
  snprintf(path, sizeof path, "%s/model.json", f->home);
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    struct buffer text = {0};
    struct library_model m;
    struct error e = {0};
    const char *mark = strstr(bad[i], "\"D\"");
    if (mark)
      buffer_print(&text, "%.*s\"%s\"%s", (int)(mark - bad[i]), bad[i], digest, mark + 3);
    else
      buffer_add_text(&text, bad[i]);
    write_file(path, text.data ? text.data : "");
    assert_false(library_manifest_read(world_real(), f->home, "x", &m, &e));
    assert_int_equal(e.kind, ERROR_INPUT);
    buffer_clear(&text);
  }
}

// ---- resolve

static void models_are_found_by_name_file_and_folder(void **state) {
  struct fixture *f = *state;
  struct library_model m;
  char path[300];
  add_model(f, "alpha", "hf:o/r");
  assert_true(library_resolve(f->store, "alpha", &m, NULL));
  snprintf(path, sizeof path, "%s/models/alpha/model.gguf", f->home);
  assert_string_equal(m.path, path);
  assert_string_equal(m.name, "alpha");
  library_model_clear(&m);

  snprintf(path, sizeof path, "%s/folder", f->home);
  assert_true(file_make_folders(world_real(), path, NULL));
  snprintf(path, sizeof path, "%s/folder/Some-Model.bin", f->home);
  write_file(path, "12345");
  assert_true(library_resolve(f->store, path, &m, NULL));
  assert_string_equal(m.name, "some-model");
  assert_string_equal(m.path, path);
  assert_int_equal(m.bytes, 5);
  library_model_clear(&m);

  snprintf(path, sizeof path, "%s/folder/tok512.bin", f->home);  // beside it, and no model
  write_file(path, "t");
  snprintf(path, sizeof path, "%s/folder", f->home);
  assert_true(library_resolve(f->store, path, &m, NULL));
  assert_string_equal(m.name, "some-model");
  library_model_clear(&m);
}

static void expect_unresolved(const struct fixture *f, const char *model, enum error_kind kind,
                              const char *words) {
  struct library_model m;
  struct error e = {0};
  assert_false(library_resolve(f->store, model, &m, &e));
  if (e.kind != kind || !strstr(e.text, words)) print_error("%s\n", e.text);
  assert_int_equal(e.kind, kind);
  assert_non_null(strstr(e.text, words));
}

static void what_is_not_there_is_told(void **state) {
  struct fixture *f = *state;
  char path[200];
  expect_unresolved(f, "alpha", ERROR_MISSING, "none was pulled yet: motley pull");
  add_model(f, "zebra", "x");
  add_model(f, "llama-3-8b", "x");
  add_model(f, "smollm2-135m-instruct.q4_1", "x");
  expect_unresolved(f, "smollm2", ERROR_MISSING, "are: smollm2-135m-instruct.q4_1, ");
  expect_unresolved(f, "smolm2", ERROR_MISSING, "did you mean smollm2-135m-instruct.q4_1? Pulled");
  expect_unresolved(f, "lama-3-8b", ERROR_MISSING, "did you mean llama-3-8b?");
  expect_unresolved(f, "mistral", ERROR_MISSING, "\"mistral\"; pulled are: ");
  expect_unresolved(f, "lama-3-8b", ERROR_MISSING, "Pulled are: llama-3-8b, ");
  expect_unresolved(f, "zebar", ERROR_MISSING, "are: zebra, ");
  expect_unresolved(f, "/no/such/file.gguf", ERROR_MISSING, "/no/such/file.gguf");
  expect_unresolved(f, "missing.gguf", ERROR_MISSING, "missing.gguf");
  expect_unresolved(f, f->home, ERROR_MISSING, "no model file");
  snprintf(path, sizeof path, "%s/a.gguf", f->home);
  write_file(path, "1");
  snprintf(path, sizeof path, "%s/b.gguf", f->home);
  write_file(path, "1");
  expect_unresolved(f, f->home, ERROR_INPUT, "2 model files");
  snprintf(path, sizeof path, "%s/models/zebra/model.gguf", f->home);
  unlink(path);
  expect_unresolved(f, "zebra", ERROR_MISSING, "motley pull x");
}

// ---- publish

static bool take(void *context, const char *source) {
  (void)source;
  return *(bool *)context;
}

// A finished pull in models/.pull/x, named `name`, then published; its file holds "fresh".
static bool publish(const struct fixture *f, bool may, struct error *e) {
  char folder[160], path[200];
  struct library_model out = {0};
  add_model(f, ".pull", "hf:o/new");
  snprintf(folder, sizeof folder, "%s/models/.pull", f->home);
  snprintf(path, sizeof path, "%s/model.gguf", folder);
  write_file(path, "fresh");
  struct library_model m = {.path = path, .source = (char *)(uintptr_t) "hf:o/new", .bytes = 5};
  strcpy(m.name, "alpha");
  memset(m.sha256, 'b', 64);
  assert_true(library_manifest_write(world_real(), folder, &m, NULL));
  struct library_publication p = {folder, "alpha", take, &may};
  bool done = library_publish(f->store, &p, &out, e);
  library_model_clear(&out);
  return done;
}

static void a_name_is_taken_over_only_where_it_may_be(void **state) {
  struct fixture *f = *state;
  struct error e = {0};
  struct library_model m;
  add_model(f, "alpha", "hf:o/old");
  assert_false(publish(f, false, &e));
  assert_non_null(strstr(e.text, "taken by hf:o/old"));
  assert_true(library_resolve(f->store, "alpha", &m, NULL));
  assert_string_equal(m.source, "hf:o/old");
  library_model_clear(&m);
  assert_true(publish(f, true, &e));
  assert_true(library_resolve(f->store, "alpha", &m, NULL));
  assert_string_equal(m.source, "hf:o/new");
  assert_int_equal(m.bytes, 5);
  library_model_clear(&m);
}

// ---- remove

static void removing_takes_the_model_and_nothing_else(void **state) {
  struct fixture *f = *state;
  struct error e = {0};
  char path[200];
  add_model(f, "alpha", "x");
  add_model(f, "beta", "x");
  assert_true(library_remove(f->store, "alpha", &e));
  snprintf(path, sizeof path, "%s/models/alpha", f->home);
  assert_false(file_exists(world_real(), path));
  snprintf(path, sizeof path, "%s/models/beta/model.gguf", f->home);
  assert_true(file_exists(world_real(), path));
  assert_false(library_remove(f->store, "alpha", &e));
  assert_non_null(strstr(e.text, "beta"));
  assert_false(library_remove(f->store, "../models/beta", &e));
  assert_false(library_remove(f->store, path, &e));
  assert_non_null(strstr(e.text, "file of yours"));
  assert_true(file_exists(world_real(), path));
}

// ---- the choice among files

static void the_best_type_is_picked(void **state) {
  (void)state;
  const struct {
    const char *files[6];
    const char *wanted, *chosen;  // NULL: refused
    const char *words;            // of the error, or of the others
  } cases[] = {
      {{"README.md", "m.Q4_K_M.gguf"}, NULL, "m.Q4_K_M.gguf", ""},  // the only one
      {{"m.Q4_K_M.gguf", "m.Q4_0.gguf", "m-q8_0.gguf", "m.f16.gguf"},
       NULL,
       "m-q8_0.gguf",
       "m.Q4_K_M.gguf, m.Q4_0.gguf"},
      {{"m.bf16.gguf", "m.f16.gguf"}, NULL, "m.f16.gguf", "m.bf16.gguf"},
      {{"m.Q4_K_M.gguf", "m.Q5_K_M.gguf"}, NULL, NULL, "m.Q5_K_M.gguf"},
      {{"config.json", "model.safetensors"}, NULL, NULL, "no GGUF file"},
      {{"m.Q4_0.gguf", "sub/m.Q5_K_M.gguf"}, "m.Q5_K_M.gguf", "sub/m.Q5_K_M.gguf", "m.Q4_0.gguf"},
      {{"m.Q4_0.gguf"}, "other.gguf", NULL, "there are: m.Q4_0.gguf"},
      {{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "m.Q4_0.gguf"},
       NULL,
       "m.Q4_0.gguf",
       "m-00001"},
      {{"m-Q8_0-00001-of-00002.gguf"}, NULL, NULL, "whole GGUF"},
      {{"m-00001-of-00002.gguf"}, "m-00001-of-00002.gguf", NULL, "one part"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct library_candidate list[6] = {0};
    struct buffer others = {0};
    struct error e = {0};
    int count = 0;
    while (count < 6 && cases[i].files[count]) list[count].path = cases[i].files[count], count++;
    int chosen = library_pick(list, count, cases[i].wanted, "hf:o/r", &others, &e);
    if (cases[i].chosen) {
      if (chosen < 0) fail_msg("case %zu: %s", i, e.text);
      assert_string_equal(list[chosen].path, cases[i].chosen);
      assert_non_null(strstr(others.data ? others.data : "", cases[i].words));
    } else {
      assert_int_equal(chosen, -1);
      if (!strstr(e.text, cases[i].words)) fail_msg("case %zu: %s", i, e.text);
    }
    buffer_clear(&others);
  }
}

// ---- programs

struct ran {
  struct library_text out, complaints;
  struct error e;
  int status;
  bool done;
};

static void run(struct ran *r, const char *const *argv, const char *const *extra, size_t limit,
                bool (*go_on)(void *context), void *context) {
  *r = (struct ran){.status = -1};
  assert_true(library_text_open(&r->out, limit, "a test", NULL));
  assert_true(library_text_open(&r->complaints, limit, "a test", NULL));
  struct library_program p = {argv, extra, &r->out, &r->complaints, go_on, context};
  r->done = library_run_program(world_real(), &p, &r->status, &r->e);
}

static void ran_clear(struct ran *r) {
  library_text_close(&r->out);
  library_text_close(&r->complaints);
}

static void programs_are_run_without_a_shell(void **state) {
  (void)state;
  struct ran r;
  const char *const echo[] = {"sh", "-c",     "printf '%s' \"$1$WORD\"; echo oops >&2; exit 3",
                              "sh", "$(x) ;", NULL};
  const char *const extra[] = {"WORD=added", NULL};
  run(&r, echo, extra, 100, NULL, NULL);
  assert_true(r.done);
  assert_int_equal(r.status, 3);
  assert_string_equal(r.out.data, "$(x) ;added");
  assert_string_equal(r.complaints.data, "oops\n");
  ran_clear(&r);
  const char *const much[] = {
      "sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done", NULL};
  run(&r, much, NULL, 1000, NULL, NULL);
  assert_true(r.done);
  assert_int_equal(r.out.length, 1000);
  assert_int_equal(r.status, 0);
  ran_clear(&r);
  const char *const none[] = {"no-such-program-here", NULL};
  run(&r, none, NULL, 10, NULL, NULL);
  assert_false(r.done);
  assert_int_equal(r.e.kind, ERROR_MISSING);
  ran_clear(&r);
}

// A name that is there already is replaced, in every program's eyes, and the rest stays.
static void the_environment_is_added_to(void **state) {
  (void)state;
  struct ran r;
  const char *const show[] = {
      "sh", "-c", "env | grep -c '^MOTLEY_TEST_X='; echo $MOTLEY_TEST_X $MOTLEY_TEST_Y", NULL};
  const char *const extra[] = {"MOTLEY_TEST_X=new", NULL};
  setenv("MOTLEY_TEST_X", "old", 1);
  setenv("MOTLEY_TEST_Y", "kept", 1);
  run(&r, show, extra, 100, NULL, NULL);
  assert_string_equal(r.out.data, "1\nnew kept\n");
  ran_clear(&r);
}

static bool not_on(void *context) { return --*(int *)context > 0; }

static void a_program_can_be_stopped(void **state) {
  (void)state;
  struct ran r;
  int looks = 2;
  const char *const forever[] = {"sleep", "1000", NULL};
  run(&r, forever, NULL, 10, not_on, &looks);
  assert_false(r.done);
  assert_int_equal(r.e.kind, ERROR_CANCELLED);
  assert_int_equal(r.status, 128 + 15);
  ran_clear(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_come_from_files),
      cmocka_unit_test(weight_types_are_cut_off_names),
      cmocka_unit_test(dangerous_names_are_refused),
      cmocka_unit_test_setup_teardown(the_list_is_sorted_and_counts_what_is_broken, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(manifests_that_lie_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(models_are_found_by_name_file_and_folder, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_not_there_is_told, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_name_is_taken_over_only_where_it_may_be, set_up, tear_down),
      cmocka_unit_test_setup_teardown(removing_takes_the_model_and_nothing_else, set_up, tear_down),
      cmocka_unit_test(the_best_type_is_picked),
      cmocka_unit_test(programs_are_run_without_a_shell),
      cmocka_unit_test(the_environment_is_added_to),
      cmocka_unit_test(a_program_can_be_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
