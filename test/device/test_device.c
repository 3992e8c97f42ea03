// SPDX-License-Identifier: Apache-2.0
//
// test_device.c: what device.h promises, on the cpu.
//
// Kernels come from a shared object that the test compiles from the text MODULE below with the
// system's C compiler.  Order is shown by results, never by time: a kernel that waits for a flag
// holds a queue for as long as the test wants.

#include "support/check.h"

#include <stdatomic.h>
#include <unistd.h>

#include "device/device.h"

#define THREADS 3

static struct device *open_cpu(void) {
  struct error e = {0};
  struct device *d = device_open("cpu", &(struct device_options){.threads = THREADS}, &e);
  if (!d) fail_msg("%s", e.text);
  return d;
}

static struct device_memory allocate(struct device *d, size_t bytes) {
  struct device_memory m = {0};
  struct error e = {0};
  if (!device_memory_allocate(d, bytes, "a test", &m, &e)) fail_msg("%s", e.text);
  return m;
}

static struct device_queue *new_queue(struct device *d) {
  struct device_queue *q = device_queue_new(d, NULL);
  assert_non_null(q);
  return q;
}

static void finish(struct device_queue *q) {
  struct error e = {0};
  if (!device_queue_wait(q, &e)) fail_msg("%s", e.text);
}

// ---- the device

static void a_name_finds_the_device(void **state) {
  (void)state;
  static const char *const good[] = {"cpu", "cpu:0"};
  for (size_t i = 0; i < COUNT_OF(good); i++) {
    struct device *d = device_open(good[i], &(struct device_options){.threads = 2}, NULL);
    assert_non_null(d);
    assert_string_equal(device_name(d), "cpu:0");
    assert_string_equal(device_kind(d), "cpu");
    assert_int_equal(device_team_size(d), 2);
    assert_int_equal(device_limits_of(d)->units, 2);
    assert_true(device_limits_of(d)->host_memory);
    assert_true(device_limits_of(d)->memory_total > 0);
    device_close(d);
  }
  device_close(NULL);
}

static void a_wrong_name_is_refused_by_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int threads;
    enum error_kind kind;
    const char *words;
  } bad[] = {
      {"gpu", 1, ERROR_UNSUPPORTED, "\"gpu\"; what this program knows: cpu"},
      {"", 1, ERROR_UNSUPPORTED, "\"\""},
      {"cpux", 1, ERROR_UNSUPPORTED, "\"cpux\""},
      {"cp", 1, ERROR_UNSUPPORTED, "\"cp\""},
      {"cpu:", 1, ERROR_UNSUPPORTED, "\"cpu:\""},
      {"cpu:-1", 1, ERROR_UNSUPPORTED, "\"cpu:-1\""},
      {"cpu:99999999999", 1, ERROR_UNSUPPORTED, "cpu"},
      {"cpu:1", 1, ERROR_MISSING, "cpu:1"},
      {"cpu", 0, ERROR_INPUT, "threads"},
      {"cpu", POOL_THREADS_MAX + 1, ERROR_INPUT, "threads"},
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    struct error e = {0};
    assert_null(device_open(bad[i].name, &(struct device_options){.threads = bad[i].threads}, &e));
    assert_int_equal(e.kind, bad[i].kind);
    if (!strstr(e.text, bad[i].words)) fail_msg("\"%s\" lacks \"%s\"", e.text, bad[i].words);
  }
}

// ---- memory

static void memory_is_zero_aligned_and_counted(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 63, 64, 4097, 3 << 20};
  struct device *d = open_cpu();
  struct device_memory blocks[COUNT_OF(sizes)];
  size_t total = 0;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    blocks[i] = allocate(d, sizes[i]);
    const uint8_t *bytes = device_memory_map(&blocks[i]);
    assert_non_null(bytes);
    assert_int_equal((uintptr_t)bytes % device_limits_of(d)->alignment, 0);
    for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(bytes[b], 0);
    memset(device_memory_map(&blocks[i]), 0xff, sizes[i]);
    assert_int_equal(blocks[i].bytes, sizes[i]);
    assert_int_equal(device_usage_of(d).bytes, total += sizes[i]);
    assert_int_equal(device_usage_of(d).allocations, i + 1);
  }
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    device_memory_free(&blocks[i]);
    device_memory_free(&blocks[i]);  // a freed one is none
    assert_null(device_memory_map(&blocks[i]));
  }
  assert_int_equal(device_usage_of(d).bytes, 0);
  assert_int_equal(device_usage_of(d).allocations, 0);
  assert_int_equal(device_usage_of(d).most_bytes, total);
  device_close(d);
}

static void memory_that_is_not_there_is_an_error_that_says_what_for(void **state) {
  (void)state;
  struct device *d = open_cpu();
  struct device_memory m = {0};
  struct error e = {0};
  assert_false(device_memory_allocate(d, (size_t)1 << 60, "the moon", &m, &e));
  assert_int_equal(e.kind, ERROR_MEMORY);
  assert_non_null(strstr(e.text, "the moon"));
  assert_non_null(strstr(e.text, "cpu:0"));
  assert_null(m.device);
  assert_int_equal(device_usage_of(d).allocations, 0);
  device_close(d);
}

static void the_allocation_that_a_test_names_is_refused_and_no_other(void **state) {
  (void)state;
  struct device *d = open_cpu();
  for (uint64_t number = 0; number <= 4; number++) {
    struct device_memory m[4] = {0};
    device_refuse_allocation(d, number);
    for (uint64_t i = 0; i < COUNT_OF(m); i++)
      assert_int_equal(device_memory_allocate(d, 100, "a test", &m[i], NULL), i + 1 != number);
    for (size_t i = 0; i < COUNT_OF(m); i++) device_memory_free(&m[i]);
  }
  device_close(d);
}

// ---- copies

static void copies_arrive_in_the_order_of_the_queue(void **state) {
  (void)state;
  enum { ROUNDS = 1000 };  // several times what the queue holds at once
  struct device *d = open_cpu();
  struct device_queue *q = new_queue(d);
  struct device_memory a = allocate(d, ROUNDS * sizeof(int)), b = allocate(d, sizeof(int));
  static int values[ROUNDS], got[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) values[i] = i * 7 + 1;
  assert_true(device_copy_in(q, &a, 0, values, sizeof values, NULL));
  for (int i = 0; i < ROUNDS; i++) {  // each value goes through the one place b
    assert_true(device_copy(q, &b, 0, &a, (size_t)i * sizeof(int), sizeof(int), NULL));
    assert_true(device_copy_out(q, &got[i], &b, 0, sizeof(int), NULL));
  }
  finish(q);
  assert_memory_equal(got, values, sizeof got);
  device_queue_free(q);
  device_queue_free(NULL);
  device_memory_free(&a);
  device_memory_free(&b);
  device_close(d);
}

static void a_copy_outside_of_its_block_is_refused(void **state) {
  (void)state;
  struct device *d = open_cpu();
  struct device_queue *q = new_queue(d);
  struct device_memory m = allocate(d, 100);
  char host[101] = {0};
  struct error e = {0};
  static const size_t bad[][2] = {{0, 101}, {100, 1},      {101, 0},
                                  {99, 2},  {SIZE_MAX, 1}, {1, SIZE_MAX}};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    assert_false(device_copy_in(q, &m, bad[i][0], host, bad[i][1], &e));
    assert_int_equal(e.kind, ERROR_INPUT);
    assert_false(device_copy_out(q, host, &m, bad[i][0], bad[i][1], &e));
  }
  assert_true(device_copy_in(q, &m, 100, host, 0, &e));
  assert_true(device_copy_in(q, &m, 0, host, 100, &e));
  assert_false(device_copy(q, &m, 0, &m, 49, 50, &e));
  assert_non_null(strstr(e.text, "overlaps"));
  assert_false(device_copy(q, &m, 49, &m, 0, 50, &e));
  assert_true(device_copy(q, &m, 50, &m, 0, 50, &e));
  assert_false(device_copy(q, &m, 51, &m, 0, 50, &e));
  assert_false(device_copy(q, &m, 0, &m, 51, 50, &e));
  finish(q);
  device_queue_free(q);
  device_memory_free(&m);
  device_close(d);
}

// ---- modules

static const char module_text[] =
    "#include \"device/device.h\"\n"
    "#include <stdatomic.h>\n"
    "void number(const struct device_block *b, void *const *a) {\n"  // out[block] += factor * sum
    "  int *out = *(int **)a[0]; int factor = *(int *)a[1]; double plus = *(double *)a[2];\n"
    "  unsigned at = (b->index[2] * b->grid[1] + b->index[1]) * b->grid[0] + b->index[0];\n"
    "  out[at] += factor * (int)(1 + at + b->block[0] * b->block[1] * b->block[2]) + (int)plus;\n"
    "}\n"
    "void hold(const struct device_block *b, void *const *a) {\n"
    "  (void)b; while (!atomic_load(*(atomic_int **)a[0])) continue;\n"
    "}\n"
    "void scratch(const struct device_block *b, void *const *a) {\n"  // 1 = the workspace was alone
    "  unsigned char *out = *(unsigned char **)a[0], *w = b->workspace;\n"
    "  for (size_t i = 0; i < b->workspace_bytes; i++) w[i] = (unsigned char)(b->index[0] + i);\n"
    "  out[b->index[0]] = (size_t)w % 64 == 0;\n"
    "  for (size_t i = 0; i < b->workspace_bytes; i++)\n"
    "    if (w[i] != (unsigned char)(b->index[0] + i)) out[b->index[0]] = 2;\n"
    "}\n";

struct code {
  char folder[64], path[96];
  struct buffer bytes;
};

static void compile(struct code *c, const char *text) {
  char source[128], command[600];
  snprintf(c->folder, sizeof c->folder, "/tmp/motley-device-XXXXXX");
  assert_non_null(mkdtemp(c->folder));
  snprintf(source, sizeof source, "%s/module.c", c->folder);
  snprintf(c->path, sizeof c->path, "%s/module.so", c->folder);
  FILE *file = fopen(source, "w");
  fputs(text, file);
  fclose(file);
  snprintf(command, sizeof command, "cc -std=gnu17 -O1 -shared -fPIC -Isrc -o %s %s", c->path,
           source);
  assert_int_equal(system(command), 0);
  file = fopen(c->path, "rb");
  c->bytes = (struct buffer){0};
  for (int byte; (byte = fgetc(file)) != EOF;) buffer_add_char(&c->bytes, (char)byte);
  fclose(file);
}

static void remove_code(struct code *c) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", c->folder);
  assert_int_equal(system(command), 0);
  buffer_clear(&c->bytes);
}

static struct device_module *load(struct device *d, const struct code *c) {
  struct error e = {0};
  struct device_code code = {.bytes = c->bytes.data, .length = c->bytes.length};
  struct device_module *m = device_module_load(d, &code, &e);
  if (!m) fail_msg("%s", e.text);
  return m;
}

static struct device_kernel *kernel(struct device_module *m, const char *name) {
  struct error e = {0};
  struct device_kernel *k = device_module_kernel(m, name, &e);
  if (!k) fail_msg("%s", e.text);
  return k;
}

// A device with one queue and the module above.
struct fixture {
  struct device *device;
  struct device_queue *queue;
  struct code code;
  struct device_module *module;
};
static void open_fixture(struct fixture *f) {
  compile(&f->code, module_text);
  f->device = open_cpu();
  f->queue = new_queue(f->device);
  f->module = load(f->device, &f->code);
}
static void close_fixture(struct fixture *f) {
  device_module_free(f->module);
  device_queue_free(f->queue);
  device_close(f->device);
  remove_code(&f->code);
}

static void every_block_runs_once_with_its_arguments(void **state) {
  (void)state;
  static const uint32_t grids[][3] = {{1, 1, 1}, {7, 1, 1}, {2, 3, 5}, {1, 1, 64}, {1000, 2, 1}};
  struct fixture f;
  open_fixture(&f);
  for (size_t g = 0; g < COUNT_OF(grids); g++) {
    size_t blocks = (size_t)grids[g][0] * grids[g][1] * grids[g][2];
    struct device_memory out = allocate(f.device, (blocks + 2) * sizeof(int));
    int factor = 3;
    double plus = 1000;
    struct device_argument arguments[] = {{.memory = &out, .offset = sizeof(int)},
                                          {.value = &factor, .value_bytes = sizeof factor},
                                          {.value = &plus, .value_bytes = sizeof plus}};
    struct device_launch launch = {.kernel = kernel(f.module, "number"),
                                   .grid = {grids[g][0], grids[g][1], grids[g][2]},
                                   .block = {2, 3, 4},
                                   .arguments = arguments,
                                   .argument_count = 3};
    assert_true(device_launch(f.queue, &launch, NULL));
    factor = 5;  // a value is copied by the launch
    assert_true(device_launch(f.queue, &launch, NULL));
    finish(f.queue);
    const int *got = device_memory_map(&out);
    for (size_t i = 0; i < blocks; i++)
      assert_int_equal(got[i + 1], (3 + 5) * (int)(1 + i + 24) + 2000);
    assert_int_equal(got[0], 0);
    assert_int_equal(got[blocks + 1], 0);
    device_memory_free(&out);
  }
  close_fixture(&f);
}

static void a_workspace_belongs_to_one_block(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 100, 65, 70000, 64};  // grows, and is used again smaller
  struct fixture f;
  open_fixture(&f);
  enum { BLOCKS = 200 };
  for (size_t s = 0; s < COUNT_OF(sizes); s++) {
    struct device_memory out = allocate(f.device, BLOCKS);
    struct device_argument argument = {.memory = &out};
    struct device_launch launch = {
        kernel(f.module, "scratch"), {BLOCKS, 1, 1}, {1, 1, 1}, &argument, 1, sizes[s]};
    assert_true(device_launch(f.queue, &launch, NULL));
    finish(f.queue);
    const uint8_t *got = device_memory_map(&out);
    for (int i = 0; i < BLOCKS; i++) assert_int_equal(got[i], 1);
    device_memory_free(&out);
  }
  close_fixture(&f);
}

static void a_launch_beyond_a_limit_is_refused_by_name(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  struct device_memory m = allocate(f.device, 16);
  char value[64] = {0};
  struct device_kernel *k = kernel(f.module, "number");
  struct device_argument beyond = {.memory = &m, .offset = 17};
  struct device_argument wide = {.value = value, .value_bytes = DEVICE_VALUE_MAX + 1};
  struct device_argument empty = {.value = value};
  const struct {
    struct device_launch launch;
    const char *words;
  } bad[] = {
      {{k, {0, 1, 1}, {1, 1, 1}, NULL, 0, 0}, "0 blocks along x"},
      {{k, {1, 65536, 1}, {1, 1, 1}, NULL, 0, 0}, "65536 blocks along y"},
      {{k, {1, 1, 0}, {1, 1, 1}, NULL, 0, 0}, "0 blocks along z"},
      {{k, {INT32_MAX, 65535, 65535}, {1, 1, 1}, NULL, 0, 0}, "blocks"},
      {{k, {1, 1, 1}, {1, 1, 0}, NULL, 0, 0}, "0 threads along z"},
      {{k, {1, 1, 1}, {1025, 1, 1}, NULL, 0, 0}, "1025 threads along x"},
      {{k, {1, 1, 1}, {32, 33, 1}, NULL, 0, 0}, "more than 1024 threads"},
      {{k, {1, 1, 1}, {1024, 1024, 1024}, NULL, 0, 0}, "more than 1024 threads"},
      {{k, {1, 1, 1}, {1, 1, 1}, NULL, 0, SIZE_MAX}, "workspace"},
      {{k, {1, 1, 1}, {1, 1, 1}, &beyond, 1, 0}, "argument 0 begins at byte 17"},
      {{k, {1, 1, 1}, {1, 1, 1}, &wide, 1, 0}, "argument 0 is a value of 17 bytes"},
      {{k, {1, 1, 1}, {1, 1, 1}, &empty, 1, 0}, "argument 0 is a value of 0 bytes"},
      {{k, {1, 1, 1}, {1, 1, 1}, &beyond, DEVICE_ARGUMENTS_MAX + 1, 0}, "33 arguments"},
      {{k, {1, 1, 1}, {1, 1, 1}, &beyond, -1, 0}, "-1 arguments"},
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    struct error e = {0};
    assert_false(device_launch(f.queue, &bad[i].launch, &e));
    assert_int_equal(e.kind, ERROR_INPUT);
    if (!strstr(e.text, bad[i].words)) fail_msg("\"%s\" lacks \"%s\"", e.text, bad[i].words);
  }
  finish(f.queue);
  device_memory_free(&m);
  close_fixture(&f);
}

static void code_that_is_none_is_refused(void **state) {
  (void)state;
  struct fixture f;
  struct error e = {0};
  open_fixture(&f);
  struct device_code text = {.bytes = "no module", .length = 9};
  assert_null(device_module_load(f.device, &text, &e));
  assert_int_equal(e.kind, ERROR_INPUT);
  assert_non_null(strstr(e.text, "no module for the device cpu:0: "));
  assert_null(device_module_load(f.device, &(struct device_code){.path = "/no/such.so"}, &e));
  assert_non_null(strstr(e.text, "/no/such.so"));
  assert_null(device_module_kernel(f.module, "absent", &e));
  assert_int_equal(e.kind, ERROR_MISSING);
  assert_non_null(strstr(e.text, "\"absent\""));
  device_module_free(NULL);
  close_fixture(&f);
}

static int run_answer(struct fixture *f, struct device_module *m) {
  struct device_memory out = allocate(f->device, sizeof(int));
  struct device_argument argument = {.memory = &out};
  struct device_launch launch = {kernel(m, "answer"), {1, 1, 1}, {1, 1, 1}, &argument, 1, 0};
  assert_true(device_launch(f->queue, &launch, NULL));
  finish(f->queue);
  int got = *(int *)device_memory_map(&out);
  device_memory_free(&out);
  return got;
}

// The loader knows a library by its path: two modules from bytes must not be taken for one.
static void modules_from_bytes_and_from_a_path_are_apart(void **state) {
  (void)state;
  static const char *const texts[] = {
      "void answer(const void *b, void *const *a) { (void)b; **(int **)a[0] = 1; }\n",
      "void answer(const void *b, void *const *a) { (void)b; **(int **)a[0] = 2; }\n"};
  struct fixture f;
  struct code code[2];
  open_fixture(&f);
  for (int i = 0; i < 2; i++) compile(&code[i], texts[i]);
  struct device_module *first = load(f.device, &code[0]), *second = load(f.device, &code[1]);
  struct device_code by_path = {.path = code[0].path};
  struct device_module *third = device_module_load(f.device, &by_path, NULL);
  assert_int_equal(run_answer(&f, first), 1);
  assert_int_equal(run_answer(&f, second), 2);
  assert_int_equal(run_answer(&f, third), 1);
  device_module_free(first);
  struct device_module *fourth = load(f.device, &code[1]);
  assert_int_equal(run_answer(&f, fourth), 2);
  assert_int_equal(run_answer(&f, second), 2);
  device_module_free(second);
  device_module_free(third);
  device_module_free(fourth);
  for (int i = 0; i < 2; i++) remove_code(&code[i]);
  close_fixture(&f);
}

// ---- events and failures

static void launch_hold(struct fixture *f, struct device_queue *q, struct device_memory *flag) {
  struct device_argument argument = {.memory = flag};
  struct device_launch launch = {kernel(f->module, "hold"), {1, 1, 1}, {1, 1, 1}, &argument, 1, 0};
  assert_true(device_launch(q, &launch, NULL));
}

// The other queue copies what this one writes after it was held; without the event it would copy
// the zero that is there before.
static void an_event_holds_another_queue_back(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  struct device_queue *other = new_queue(f.device), *third = new_queue(f.device);
  struct device_event *event = device_event_new(f.device, NULL);
  struct device_memory flag = allocate(f.device, sizeof(int)), m = allocate(f.device, sizeof(int));
  struct device_memory later = allocate(f.device, sizeof(int));  // written after the event
  struct device_memory still = allocate(f.device, sizeof(int));  // written by nobody
  const int value = 42, zero = 0;
  int got = -1, ignored[600];
  assert_true(device_event_reached(event));  // never recorded: it holds nobody back
  device_event_wait(event);
  assert_true(device_queue_wait_event(other, event, NULL));
  launch_hold(&f, f.queue, &flag);
  assert_true(device_copy_in(f.queue, &m, 0, &value, sizeof value, NULL));
  assert_true(device_queue_record(f.queue, event, NULL));
  assert_true(device_copy_in(f.queue, &later, 0, &value, sizeof value, NULL));
  assert_true(device_queue_wait_event(other, event, NULL));
  assert_true(device_copy_out(other, &got, &m, 0, sizeof got, NULL));
  for (int i = 0; i < 600; i++)  // time for a queue that is not held back to do wrong
    assert_true(device_copy_out(third, &ignored[i], &still, 0, sizeof(int), NULL));
  finish(third);
  assert_false(device_event_reached(event));
  atomic_store((atomic_int *)device_memory_map(&flag), 1);
  finish(other);
  assert_int_equal(got, 42);
  assert_true(device_event_reached(event));
  finish(f.queue);
  // The same event once more, now recorded on the other queue.
  atomic_store((atomic_int *)device_memory_map(&flag), 0);
  launch_hold(&f, other, &flag);
  assert_true(device_copy_in(other, &m, 0, &zero, sizeof zero, NULL));
  assert_true(device_queue_record(other, event, NULL));
  assert_true(device_queue_wait_event(f.queue, event, NULL));
  assert_true(device_copy_out(f.queue, &got, &m, 0, sizeof got, NULL));
  assert_false(device_event_reached(event));
  atomic_store((atomic_int *)device_memory_map(&flag), 1);
  device_event_wait(event);
  finish(f.queue);
  assert_int_equal(got, 0);
  device_queue_free(other);
  device_queue_free(third);
  device_event_free(event);
  device_event_free(NULL);
  device_memory_free(&flag);
  device_memory_free(&later);
  device_memory_free(&still);
  device_memory_free(&m);
  close_fixture(&f);
}

// A workspace that cannot be had fails the launch later, on the queue.
static void the_first_failure_stays_and_work_behind_it_is_skipped(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  struct device_event *event = device_event_new(f.device, NULL);
  struct device_memory out = allocate(f.device, 64);
  const char seven[4] = {7, 7, 7, 7};
  char got[4] = {0};
  struct device_argument argument = {.memory = &out};
  struct device_launch launch = {
      kernel(f.module, "scratch"), {4, 1, 1}, {1, 1, 1}, &argument, 1, 8};
  struct error e = {0};
  device_refuse_allocation(f.device, 1);
  assert_true(device_launch(f.queue, &launch, NULL));
  assert_true(device_copy_in(f.queue, &out, 0, seven, 4, NULL));
  assert_true(device_queue_record(f.queue, event, NULL));
  device_event_wait(event);  // marks are reached, or others would wait for ever
  assert_false(device_queue_wait(f.queue, &e));
  assert_int_equal(e.kind, ERROR_MEMORY);
  assert_non_null(strstr(e.text, "workspace"));
  assert_int_equal(*(char *)device_memory_map(&out), 0);
  assert_true(device_launch(f.queue, &launch, NULL));  // told once, the queue works again
  assert_true(device_copy_out(f.queue, got, &out, 0, 4, NULL));
  finish(f.queue);
  assert_memory_equal(got, "\1\1\1\1", 4);
  device_event_free(event);
  device_memory_free(&out);
  close_fixture(&f);
}

// ---- the team

static void count_share(void *context, int index, int count) {
  atomic_int *counts = context;
  assert_int_equal(count, THREADS);
  atomic_fetch_add(&counts[index], 1);
}

struct turn {
  struct device *device;
  atomic_int *counts;
};
static void *take_turns(void *context) {
  struct turn *t = context;
  for (int i = 0; i < 500; i++) device_team_run(t->device, count_share, t->counts);
  return NULL;
}

static void the_team_takes_one_function_at_a_time(void **state) {
  (void)state;
  struct device *d = open_cpu();
  atomic_int counts[THREADS] = {0};
  struct turn turn = {d, counts};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(pool_start_thread(&threads[i], take_turns, &turn), 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) assert_int_equal(atomic_load(&counts[i]), 1500);
  device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_finds_the_device),
      cmocka_unit_test(a_wrong_name_is_refused_by_name),
      cmocka_unit_test(memory_is_zero_aligned_and_counted),
      cmocka_unit_test(memory_that_is_not_there_is_an_error_that_says_what_for),
      cmocka_unit_test(the_allocation_that_a_test_names_is_refused_and_no_other),
      cmocka_unit_test(copies_arrive_in_the_order_of_the_queue),
      cmocka_unit_test(a_copy_outside_of_its_block_is_refused),
      cmocka_unit_test(every_block_runs_once_with_its_arguments),
      cmocka_unit_test(a_workspace_belongs_to_one_block),
      cmocka_unit_test(a_launch_beyond_a_limit_is_refused_by_name),
      cmocka_unit_test(code_that_is_none_is_refused),
      cmocka_unit_test(modules_from_bytes_and_from_a_path_are_apart),
      cmocka_unit_test(an_event_holds_another_queue_back),
      cmocka_unit_test(the_first_failure_stays_and_work_behind_it_is_skipped),
      cmocka_unit_test(the_team_takes_one_function_at_a_time),
  };
  return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
