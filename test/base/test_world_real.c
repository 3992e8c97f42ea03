// SPDX-License-Identifier: Apache-2.0
//
// test_world_real.c: the real world's files, sockets, pollers and processes do what world.h says.
//
// Each test asks the table of calls alone; what came of it is looked at through plain system calls.
// Nothing waits for time to pass: a poller's wait ends because something happened.

#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/world.h"

#define LONG_NS 60000000000u  // far longer than anything here takes; reached only by a fault

static const struct world *w(void) { return world_real(); }

static int make_folder(void **state) {
  char *folder = strdup("/tmp/motley-real-XXXXXX");
  *state = folder;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
  char command[200];
  snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
  free(*state);
  return chdir("/") || system(command);
}

// ---- files

static void files_are_written_at_offsets(void **state) {
  (void)state;
  char text[16] = "";
  struct world_file_info info;
  int f = world_open(w(), "a", WORLD_READ | WORLD_WRITE | WORLD_CREATE | WORLD_EXCLUSIVE);
  assert_true(f >= 0);
  assert_int_equal(fcntl(f, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  assert_int_equal(world_write_at(w(), f, "world", 5, 6), 5);
  assert_int_equal(world_write_at(w(), f, "hello ", 6, 0), 6);
  assert_int_equal(world_read_at(w(), f, text, sizeof text, 0), 11);
  assert_string_equal(text, "hello world");
  assert_int_equal(world_read_at(w(), f, text, sizeof text, 11), 0);
  assert_int_equal(world_resize(w(), f, 5), 0);
  assert_int_equal(world_sync(w(), f), 0);
  assert_int_equal(world_info_of(w(), f, &info), 0);
  assert_true(info.kind == WORLD_FILE && info.size == 5);
  uint64_t number = info.number, device = info.device;
  assert_true(info.modified_ms > 1700000000000u);
  assert_int_equal(world_rename(w(), "a", "b"), 0);
  assert_int_equal(world_info(w(), "b", &info), 0);
  assert_true(info.number == number && info.device == device);
  assert_int_equal(world_close(w(), f), 0);
  assert_int_equal(world_close(w(), f), -EBADF);
  f = world_open(w(), "b", WORLD_WRITE | WORLD_TRUNCATE);
  assert_int_equal(world_info_of(w(), f, &info), 0);
  assert_int_equal(info.size, 0);
  assert_int_equal(world_read_at(w(), f, text, 1, 0), -EBADF);  // for writing only
  world_close(w(), f);
}

static bool count_names(void *context, const char *name) {
  int *counts = context;
  counts[0]++;
  if (!strcmp(name, "file") || !strcmp(name, "folder")) counts[1]++;
  return counts[0] < counts[2];
}

static void names_and_folders(void **state) {
  struct world_file_info info;
  struct buffer path = {0};
  assert_int_equal(world_open(w(), "file", WORLD_WRITE), -ENOENT);
  int f = world_open(w(), "file", WORLD_WRITE | WORLD_CREATE);
  world_close(w(), f);
  assert_int_equal(world_open(w(), "file", WORLD_WRITE | WORLD_CREATE | WORLD_EXCLUSIVE), -EEXIST);
  assert_int_equal(world_open(w(), "file", WORLD_READ | WORLD_FOLDER), -ENOTDIR);
  assert_int_equal(world_make_folder(w(), "folder"), 0);
  assert_int_equal(world_make_folder(w(), "folder"), -EEXIST);
  assert_int_equal(world_make_folder(w(), "no/folder"), -ENOENT);
  assert_int_equal(world_info(w(), "folder", &info), 0);
  assert_true(info.kind == WORLD_DIRECTORY && info.size == 0);
  assert_int_equal(world_info(w(), "/dev/null", &info), 0);
  assert_int_equal(info.kind, WORLD_OTHER);
  int counts[3] = {0, 0, 100};
  assert_int_equal(world_list(w(), ".", count_names, counts), 0);
  assert_true(counts[0] == 2 && counts[1] == 2);
  int first[3] = {0, 0, 1};
  assert_int_equal(world_list(w(), ".", count_names, first), 0);
  assert_int_equal(first[0], 1);
  assert_int_equal(world_list(w(), "nowhere", count_names, counts), -ENOENT);
  assert_int_equal(world_resolve_path(w(), "folder/..", &path), 0);
  assert_string_equal(path.data, *state);
  assert_int_equal(world_resolve_path(w(), "nowhere", &path), -ENOENT);
  buffer_clear(&path);
  assert_int_equal(world_remove(w(), "folder"), -EISDIR);
  assert_int_equal(world_remove_folder(w(), "file"), -ENOTDIR);
  assert_int_equal(world_remove_folder(w(), "folder"), 0);
  assert_int_equal(world_remove(w(), "file"), 0);
  assert_int_equal(world_remove(w(), "file"), -ENOENT);
  assert_true(world_free_bytes(w(), ".") > 0);
  assert_int_equal(world_free_bytes(w(), "nowhere"), -ENOENT);
}

static void one_handle_holds_a_lock(void **state) {
  (void)state;
  int a = world_open(w(), "lock", WORLD_WRITE | WORLD_CREATE);
  int b = world_open(w(), "lock", WORLD_WRITE);
  assert_int_equal(world_lock(w(), a), 0);
  assert_int_equal(world_lock(w(), b), -EWOULDBLOCK);
  world_close(w(), a);
  assert_int_equal(world_lock(w(), b), 0);
  world_close(w(), b);
}

static void a_map_outlives_its_handle(void **state) {
  (void)state;
  const uint8_t *data = NULL;
  int f = world_open(w(), "m", WORLD_READ | WORLD_WRITE | WORLD_CREATE);
  assert_int_equal(world_write_at(w(), f, "mapped", 6, 0), 6);
  assert_int_equal(world_map(w(), f, 6, &data), 0);
  world_close(w(), f);
  assert_memory_equal(data, "mapped", 6);
  world_unmap(w(), data, 6);
}

// ---- pollers

static void *wake_from_a_thread(void *poller) {
  world_wake(w(), *(int *)poller);
  return NULL;
}

static void a_wake_ends_one_wait(void **state) {
  (void)state;
  struct world_ready ready[4];
  pthread_t thread;
  int poller = world_poller(w());
  assert_true(poller >= 0);
  assert_int_equal(world_wake(w(), poller), 0);
  assert_int_equal(world_wake(w(), poller), 0);  // two before a wait count as one
  assert_int_equal(world_wait(w(), poller, ready, 4, WORLD_FOREVER), 0);
  assert_int_equal(world_wait(w(), poller, ready, 4, 0), 0);
  assert_int_equal(pthread_create(&thread, NULL, wake_from_a_thread, &poller), 0);
  assert_int_equal(world_wait(w(), poller, ready, 4, WORLD_FOREVER), 0);
  pthread_join(thread, NULL);
  assert_int_equal(world_wait(w(), poller, ready, 4, 1), 0);  // a nanosecond passes
  assert_int_equal(world_close(w(), poller), 0);
  int again = world_poller(w());  // both descriptors were given back
  assert_int_equal(again, poller);
  world_close(w(), again);
}

static void watches_follow_their_last_wish(void **state) {
  (void)state;
  struct world_ready ready[4];
  int ends[2], poller = world_poller(w()), mark;
  assert_int_equal(world_pipe(w(), ends), 0);
  assert_int_equal(world_poller_set(w(), poller, ends[0], WORLD_READABLE, &mark), 0);
  assert_int_equal(world_wait(w(), poller, ready, 4, 0), 0);
  assert_int_equal(world_write(w(), ends[1], "x", 1), 1);
  for (int i = 0; i < 2; i++) {  // level-triggered
    assert_int_equal(world_wait(w(), poller, ready, 4, WORLD_FOREVER), 1);
    assert_true(ready[0].data == &mark && ready[0].events == WORLD_READABLE);
  }
  assert_int_equal(world_poller_set(w(), poller, ends[0], WORLD_BROKEN, &mark), 0);
  assert_int_equal(world_wait(w(), poller, ready, 4, 0), 0);
  assert_int_equal(world_poller_set(w(), poller, ends[1], WORLD_WRITABLE, &poller), 0);
  assert_int_equal(world_wait(w(), poller, ready, 4, WORLD_FOREVER), 1);
  assert_true(ready[0].data == &poller && ready[0].events == WORLD_WRITABLE);
  assert_int_equal(world_poller_set(w(), poller, ends[1], 0, NULL), 0);
  assert_int_equal(world_wait(w(), poller, ready, 4, 0), 0);  // writable, but nobody asks
  assert_int_equal(world_poller_set(w(), poller, ends[1], 0, NULL), -ENOENT);
  world_close(w(), ends[1]);
  assert_int_equal(world_wait(w(), poller, ready, 4, WORLD_FOREVER), 1);
  assert_true(ready[0].data == &mark && ready[0].events == WORLD_BROKEN);
  world_close(w(), ends[0]);
  world_close(w(), poller);
}

static void a_broken_pipe_raises_no_signal(void **state) {
  (void)state;
  int ends[2];
  char data[65536] = "";
  signal(SIGPIPE, SIG_DFL);
  assert_int_equal(world_pipe(w(), ends), 0);
  assert_int_equal(world_read(w(), ends[0], data, 1), -EAGAIN);
  int64_t n, total = 0;
  while ((n = world_write(w(), ends[1], data, sizeof data)) > 0) total += n;
  assert_true(n == -EAGAIN && total >= 4096);
  world_close(w(), ends[0]);
  assert_int_equal(world_write(w(), ends[1], "x", 1), -EPIPE);
  world_close(w(), ends[1]);
}

// ---- network

static void wait_for_event(int handle, uint32_t events) {
  struct world_ready ready;
  int poller = world_poller(w());
  assert_int_equal(world_poller_set(w(), poller, handle, events, NULL), 0);
  assert_int_equal(world_wait(w(), poller, &ready, 1, LONG_NS), 1);
  world_close(w(), poller);
}

static void streams_connect_and_end(void **state) {
  (void)state;
  static const char *const hosts[] = {"127.0.0.1", "::1"};
  for (size_t i = 0; i < COUNT_OF(hosts); i++) {
    struct world_address address, peer;
    char data[8];
    assert_int_equal(world_resolve(w(), hosts[i], 7, &address, 1), 1);
    assert_true(address.port == 7 && address.v6 == (i == 1));
    address.port = 0;
    int listener = world_listen(w(), &address);
    if (address.v6 && listener < 0) continue;  // this machine has no IPv6
    assert_true(listener >= 0 && address.port > 0);
    assert_int_equal(world_accept(w(), listener, NULL), -EAGAIN);
    struct world_address taken = address;
    assert_int_equal(world_listen(w(), &taken), -EADDRINUSE);
    int client = world_connect(w(), &address);
    assert_true(client >= 0);
    wait_for_event(client, WORLD_WRITABLE);
    assert_int_equal(world_connected(w(), client), 0);
    wait_for_event(listener, WORLD_READABLE);
    int server = world_accept(w(), listener, &peer);
    assert_true(server >= 0 && peer.port != 0 && peer.port != address.port);
    assert_memory_equal(peer.bytes, address.bytes, 4);
    assert_int_equal(world_read(w(), server, data, 8), -EAGAIN);
    assert_int_equal(world_write(w(), client, "ping", 4), 4);
    assert_int_equal(world_end_write(w(), client), 0);
    wait_for_event(server, WORLD_READABLE);
    assert_int_equal(world_read(w(), server, data, 8), 4);
    assert_memory_equal(data, "ping", 4);
    wait_for_event(server, WORLD_READABLE);
    assert_int_equal(world_read(w(), server, data, 8), 0);
    assert_int_equal(world_write(w(), server, "pong", 4), 4);
    wait_for_event(client, WORLD_READABLE);
    assert_int_equal(world_read(w(), client, data, 8), 4);
    world_close(w(), client), world_close(w(), server), world_close(w(), listener);
  }
}

static void nobody_listens_there(void **state) {
  (void)state;
  struct world_address address = {.bytes = {127, 0, 0, 1}};
  int listener = world_listen(w(), &address);
  world_close(w(), listener);  // its port is free again
  int client = world_connect(w(), &address);
  if (client >= 0) {
    wait_for_event(client, WORLD_WRITABLE);
    assert_int_equal(world_connected(w(), client), -ECONNREFUSED);
    world_close(w(), client);
  } else {
    assert_int_equal(client, -ECONNREFUSED);
  }
}

// ---- processes

static struct world_exit wait_for_end(int process) {
  struct world_exit how = {-7, -7};
  wait_for_event(process, WORLD_READABLE);
  assert_int_equal(world_ended(w(), process, &how), 0);
  assert_int_equal(world_ended(w(), process, &how), -ECHILD);  // told once
  world_close(w(), process);
  return how;
}

static int start(const char *script, int input, int output, struct world_program more) {
  const char *const arguments[] = {"sh", "-c", script, NULL};
  more.arguments = arguments;
  more.input = input, more.output = output, more.errors = -1;
  return world_start(w(), &more);
}

static void read_to_end(int handle, char *text, size_t size) {
  size_t length = 0;
  int64_t n;
  do {
    wait_for_event(handle, WORLD_READABLE);
    n = world_read(w(), handle, text + length, size - 1 - length);
    assert_true(n >= 0);
    length += (size_t)n;
  } while (n > 0);
  text[length] = 0;
  world_close(w(), handle);
}

static void programs_get_what_was_said(void **state) {
  int in[2], out[2];
  char text[4096], expected[200];
  static const char *const environment[] = {"COLOUR=blue", NULL};
  signal(SIGUSR1, SIG_IGN);                 // must not reach the program
  int stray = open("/dev/null", O_RDONLY);  // without close-on-exec
  assert_int_equal(world_pipe(w(), in), 0);
  assert_int_equal(world_pipe(w(), out), 0);
  int process = start(
      "read line; echo \"$line $COLOUR $PWD\"; ls /proc/self/fd | wc -l; kill -USR1 $$; exit 3",
      in[0], out[1], (struct world_program){.environment = environment, .folder = *state});
  assert_true(process >= 0);
  world_close(w(), in[0]), world_close(w(), out[1]);
  assert_int_equal(world_write(w(), in[1], "word\n", 5), 5);
  world_close(w(), in[1]);
  read_to_end(out[0], text, sizeof text);
  snprintf(expected, sizeof expected, "word blue %s\n4\n", (char *)*state);  // 0 1 2 and ls's own
  assert_string_equal(text, expected);
  struct world_exit how = wait_for_end(process);
  assert_true(how.status == -1 && how.signal == SIGUSR1);
  close(stray);
  signal(SIGUSR1, SIG_DFL);
}

static void ends_are_told_and_absence_too(void **state) {
  (void)state;
  struct world_exit how;
  const char *const absent[] = {"no-such-program-anywhere", NULL};
  const struct world_program none = {.arguments = absent, .input = -1, .output = -1, .errors = -1};
  assert_int_equal(world_start(w(), &none), -ENOENT);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);  // no child is left of it
  assert_int_equal(start("exit 0", -1, -1, (struct world_program){.folder = "/no/where"}), -ENOENT);
  how = wait_for_end(start("exit 42", -1, -1, (struct world_program){0}));
  assert_true(how.status == 42 && how.signal == 0);
  int process = start("exec sleep 1000", -1, -1, (struct world_program){0});
  assert_int_equal(world_ended(w(), process, &how), -EAGAIN);
  assert_int_equal(world_signal(w(), process, SIGTERM), 0);
  how = wait_for_end(process);
  assert_true(how.status == -1 && how.signal == SIGTERM);
}

// The grandchild holds the pipe's other end: the end of the stream shows that it is gone too.
static void a_group_is_signalled_whole(void **state) {
  (void)state;
  int out[2];
  char text[64];
  assert_int_equal(world_pipe(w(), out), 0);
  int process = start("sleep 1000 & echo here; wait", -1, out[1],
                      (struct world_program){.own_group = true, .ends_with_us = true});
  world_close(w(), out[1]);
  wait_for_event(out[0], WORLD_READABLE);
  assert_int_equal(world_signal(w(), process, SIGKILL), 0);
  read_to_end(out[0], text, sizeof text);
  assert_string_equal(text, "here\n");
  assert_int_equal(wait_for_end(process).signal, SIGKILL);
}

// A middle process starts a program that should end with it, and ends without a word.
static void a_program_ends_with_its_starter(void **state) {
  (void)state;
  int out[2];
  char text[64];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  pid_t middle = fork();
  if (middle == 0) {
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC)) _exit(1);
    start("echo >&0; exec sleep 1000", ready[1], out[1],
          (struct world_program){.ends_with_us = true});
    _exit(read(ready[0], &byte, 1) == 1 ? 0 : 1);
  }
  close(out[1]);
  int status;
  assert_int_equal(waitpid(middle, &status, 0), middle);
  assert_int_equal(status, 0);
  read_to_end(out[0], text, sizeof text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(files_are_written_at_offsets, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(names_and_folders, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(one_handle_holds_a_lock, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(a_map_outlives_its_handle, make_folder, remove_folder),
      cmocka_unit_test(a_wake_ends_one_wait),
      cmocka_unit_test(watches_follow_their_last_wish),
      cmocka_unit_test(a_broken_pipe_raises_no_signal),
      cmocka_unit_test(streams_connect_and_end),
      cmocka_unit_test(nobody_listens_there),
      cmocka_unit_test_setup_teardown(programs_get_what_was_said, make_folder, remove_folder),
      cmocka_unit_test(ends_are_told_and_absence_too),
      cmocka_unit_test(a_group_is_signalled_whole),
      cmocka_unit_test(a_program_ends_with_its_starter),
  };
  return cmocka_run_group_tests_name("world_real", tests, NULL, NULL);
}
