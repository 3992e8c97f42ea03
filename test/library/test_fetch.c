// SPDX-License-Identifier: Apache-2.0
//
// test_fetch.c: downloads arrive whole, or say in one line why not, whatever the server does.
//
// file_server.py, started here, misbehaves as its path says.  The oracle is its formula for byte i
// of a file, written again in expect_file.  SHA-256 is compared with the vectors of FIPS 180-4 and
// of its test suite, and with itself fed in other pieces.

#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "library/curl.h"
#include "library/internal.h"
#if __has_include(<curl/curl.h>)
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>
#define CURL_IS_HERE 1
#endif

struct fixture {
  pid_t server;
  int server_stdin;
  int port;
  char folder[64];
};

// The whole line: a server whose last byte nobody takes would end with an error.
static int read_port(int pipe) {
  char line[16] = "";
  size_t n = 0;
  while (n < sizeof line - 1 && !strchr(line, '\n') && read(pipe, line + n, 1) == 1) n++;
  return atoi(line);
}

static void *start(struct fixture *f) {
  int to[2], from[2];
  assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
  f->server = fork();
  if (f->server == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    execlp("python3", "python3", "test/library/file_server.py", (char *)NULL);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  f->server_stdin = to[1];
  f->port = read_port(from[0]);
  close(from[0]);
  strcpy(f->folder, "/tmp/motley-fetch-XXXXXX");
  return mkdtemp(f->folder);
}

static int set_up(void **state) {
  struct fixture *f = memory_new(sizeof *f);
  *state = f;
  for (const char *const *name =
           (const char *const[]){"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", NULL};
       *name; name++)
    unsetenv(*name);
  return start(f) && f->port ? 0 : -1;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  char command[128];
  close(f->server_stdin);
  waitpid(f->server, NULL, 0);
  snprintf(command, sizeof command, "rm -rf %s", f->folder);
  int failed = system(command);
  memory_free(f);
  return failed;
}

// ---- one download, in short

struct download {
  char url[256], path[128], part[160], from[160];
  struct library_fetch request;
  char digest[65];
  struct error error;
};

static void prepare(struct download *d, const struct fixture *f, const char *target) {
  *d = (struct download){0};
  snprintf(d->url, sizeof d->url, "http://127.0.0.1:%d/%s", f->port, target);
  snprintf(d->path, sizeof d->path, "%s/%lu", f->folder,
           (unsigned long)hash_bytes(target, strlen(target), 1));
  snprintf(d->part, sizeof d->part, "%s.part", d->path);
  snprintf(d->from, sizeof d->from, "%s.part.from", d->path);
  d->request = (struct library_fetch){
      .world = world_real(), .get = library_curl_get, .url = d->url, .path = d->path};
}

static bool fetch(struct download *d) {
  return library_fetch_file(&d->request, d->digest, &d->error);
}

static void fill(uint8_t *data, size_t size, unsigned version) {
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(i * i * 31 + i / 251 + version);
}

static void digest_of(size_t size, unsigned version, char out[65]) {
  uint8_t *data = memory_new(size);
  fill(data, size, version);
  library_sha256(data, size, out);
  memory_free(data);
}

// The file is there with this content, and nothing of .part is left.
static void expect_file(const struct download *d, size_t size, unsigned version) {
  if (d->error.text[0]) print_error("%s\n", d->error.text);
  struct buffer got = {0};
  assert_true(file_read(world_real(), d->path, 1 << 24, &got, NULL));
  assert_int_equal(got.length, size);
  uint8_t *wanted = memory_new(size);
  fill(wanted, size, version);
  if (size) assert_memory_equal(got.data, wanted, size);
  char digest[65];
  library_sha256(wanted, size, digest);
  assert_string_equal(d->digest, digest);
  assert_false(file_exists(world_real(), d->part));
  assert_false(file_exists(world_real(), d->from));
  memory_free(wanted);
  buffer_clear(&got);
}

static void expect_failure(struct download *d, enum error_kind kind, const char *words) {
  assert_false(fetch(d));
  if (d->error.kind != kind || !strstr(d->error.text, words)) print_error("%s\n", d->error.text);
  assert_int_equal(d->error.kind, kind);
  assert_non_null(strstr(d->error.text, words));
  assert_false(file_exists(world_real(), d->path));
}

static void put_file(const char *path, const void *data, size_t size) {
  assert_true(file_write_atomic(world_real(), path, (struct str){data, size}, NULL));
}

// What an earlier run left: bytes, and the note that vouches for them.
static void put_part(const struct download *d, const void *data, size_t size,
                     const char *validator) {
  char note[64];
  snprintf(note, sizeof note, "%s\n%zu\n", validator, size);
  put_file(d->part, data, size);
  put_file(d->from, note, strlen(note));
}

static bool fetch_text(const char *url, struct library_text *out, struct error *e) {
  struct library_fetch request = {.world = world_real(), .get = library_curl_get, .url = url};
  return library_fetch_text(&request, out, e);
}

// Everything that was asked so far.
static void read_log(const struct fixture *f, struct library_text *log) {
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d/log", f->port);
  assert_true(library_text_open(log, 1 << 20, "a test", NULL));
  assert_true(fetch_text(url, log, NULL));
}

// ---- whole files

static void good_servers_give_the_file(void **state) {
  const struct {
    const char *target;
    size_t size;
  } cases[] = {{"plain/300000", 300000}, {"plain/1", 1},         {"plain/0", 0},
               {"chunked/70001", 70001}, {"norange/5000", 5000}, {"redirect/0/plain/2000", 2000}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct download d;
    prepare(&d, *state, cases[i].target);
    assert_true(fetch(&d));
    expect_file(&d, cases[i].size, 0);
  }
}

static void a_broken_connection_goes_on_where_it_stopped(void **state) {
  struct download d;
  prepare(&d, *state, "drop/100000/30000");
  assert_true(fetch(&d));
  expect_file(&d, 100000, 0);
  struct library_text log;
  read_log(*state, &log);
  assert_non_null(strstr(log.data, "/drop/100000/30000|bytes=30000-|\"v0\"|"));
  assert_non_null(strstr(log.data, "/drop/100000/30000|bytes=90000-|\"v0\"|"));
  library_text_close(&log);
}

static void a_date_names_the_version_too(void **state) {
  struct download d;
  prepare(&d, *state, "dated/50000");
  assert_true(fetch(&d));
  expect_file(&d, 50000, 0);
  struct library_text log;
  read_log(*state, &log);
  assert_non_null(strstr(log.data, "/dated/50000|bytes=25000-|Mon, 02 Nov 2026 10:00:00 GMT|"));
  library_text_close(&log);
}

// Versions that change under way must never be mixed.
static void another_version_begins_anew(void **state) {
  const char *const targets[] = {"changing/40000/15000", "careless/40000/15000"};
  for (size_t i = 0; i < COUNT_OF(targets); i++) {
    struct download d;
    prepare(&d, *state, targets[i]);
    assert_true(fetch(&d));
    expect_file(&d, 40000, 1);
  }
}

static void a_digest_notices_mixed_versions_and_begins_anew(void **state) {
  struct download d;
  char digest[65];
  digest_of(40000, 1, digest);
  prepare(&d, *state, "mixing/40000/15000");
  d.request.sha256 = digest;
  assert_true(fetch(&d));
  expect_file(&d, 40000, 1);
}

static void a_server_without_ranges_begins_anew(void **state) {
  struct download d;
  prepare(&d, *state, "norange-drop/40000/15000");
  assert_true(fetch(&d));
  expect_file(&d, 40000, 0);
}

static void wrong_ranges_are_not_taken(void **state) {
  struct download d;
  prepare(&d, *state, "shifted/40000/15000");
  assert_true(fetch(&d));
  expect_file(&d, 40000, 0);
}

// RFC 9110 allows a server to send less than the range that was asked for.
static void short_ranges_are_put_together(void **state) {
  struct download d;
  prepare(&d, *state, "short/40000/15000");
  assert_true(fetch(&d));
  expect_file(&d, 40000, 0);
}

// ---- what an earlier run left

static void an_earlier_run_is_continued(void **state) {
  struct download d;
  uint8_t *data = memory_new(60000);
  fill(data, 60000, 0);
  prepare(&d, *state, "plain/60000");
  put_part(&d, data, 20000, "\"v0\"");
  assert_true(fetch(&d));
  expect_file(&d, 60000, 0);
  struct library_text log;
  read_log(*state, &log);
  assert_non_null(strstr(log.data, "/plain/60000|bytes=20000-|\"v0\"|"));
  library_text_close(&log);
  memory_free(data);
}

static void what_is_left_of_another_version_is_dropped(void **state) {
  struct download d;
  prepare(&d, *state, "plain/60001");
  put_part(&d, "rubbish of another version", 26, "\"old\"");
  assert_true(fetch(&d));
  expect_file(&d, 60001, 0);
}

// Bytes behind those that the note vouches for may be a hole that a power cut left.
static void only_bytes_with_a_note_are_used(void **state) {
  const char *const notes[] = {"\"v0\"\n20000\n",
                               "\"v0\"\n",
                               "\"v0\"",
                               "",
                               "\"v0\"\n-1\n",
                               "\"v0\"\n60000\nmore",
                               "\"v0\"\n99999999999999999999\n",
                               "\"v0\"\n60001\n"};
  for (size_t i = 0; i < COUNT_OF(notes); i++) {
    struct download d;
    uint8_t *data = memory_new(60000);
    fill(data, 20000, 0);  // and zeros
    prepare(&d, *state, "plain/70000");
    put_file(d.part, data, 60000);
    put_file(d.from, notes[i], strlen(notes[i]));
    assert_true(fetch(&d));
    expect_file(&d, 70000, 0);
    unlink(d.path);
    memory_free(data);
  }
}

static void a_part_without_a_validator_is_used_only_under_a_digest(void **state) {
  struct download d;
  prepare(&d, *state, "bare/3001");
  put_part(&d, "rubbish", 7, "");
  assert_true(fetch(&d));
  expect_file(&d, 3001, 0);

  char digest[65];
  digest_of(3002, 0, digest);
  prepare(&d, *state, "bare/3002");
  d.request.sha256 = digest;
  put_part(&d, "rubbish", 7, "");  // continued first, then found wrong
  assert_true(fetch(&d));
  expect_file(&d, 3002, 0);
}

static void a_complete_or_too_long_part_ends_well(void **state) {
  struct download d;
  uint8_t *data = memory_new(5000);
  fill(data, 5000, 0);
  prepare(&d, *state, "plain/4000");
  put_part(&d, data, 4000, "\"v0\"");
  assert_true(fetch(&d));
  expect_file(&d, 4000, 0);
  prepare(&d, *state, "plain/4001");
  put_part(&d, data, 5000, "\"v0\"");
  assert_true(fetch(&d));
  expect_file(&d, 4001, 0);
  memory_free(data);
}

// ---- refusals

static void statuses_say_what_to_do(void **state) {
  const struct {
    const char *target;
    enum error_kind kind;
    const char *words;
  } cases[] = {
      {"status/404", ERROR_MISSING, "status 404: nothing is there"},
      {"status/401", ERROR_MISSING, "HF_TOKEN"},
      {"status/403", ERROR_MISSING, "HF_TOKEN"},
      {"status/418", ERROR_INPUT, "status 418"},
      {"loop", ERROR_INPUT, "circles"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct download d;
    prepare(&d, *state, cases[i].target);
    expect_failure(&d, cases[i].kind, cases[i].words);
  }
}

static void a_short_trouble_of_the_server_is_sat_out(void **state) {
  struct download d;
  prepare(&d, *state, "status/503/2");
  assert_true(fetch(&d));
  expect_file(&d, 1000, 0);
}

static void a_wrong_digest_removes_the_file(void **state) {
  struct download d;
  char digest[65];
  digest_of(2000, 7, digest);
  prepare(&d, *state, "plain/2001");
  d.request.sha256 = digest;
  expect_failure(&d, ERROR_INPUT, "SHA-256");
  assert_false(file_exists(world_real(), d.part));
}

static void addresses_that_cannot_be_reached(void **state) {
  const struct {
    const char *url;
    enum error_kind kind;
    const char *words;
  } cases[] = {
      {"http://127.0.0.1:1/x", ERROR_MISSING, "no network, or nothing listens"},
      {"http://no-such-host.invalid/x", ERROR_MISSING, "no network?"},
      {"ftp://127.0.0.1/x", ERROR_INPUT, "only http: and https:"},
      {"file:///etc/passwd", ERROR_INPUT, "only http: and https:"},
      {"http://user:secret@127.0.0.1:1/x?token=secret", ERROR_MISSING, "http://127.0.0.1:1/x:"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct download d;
    prepare(&d, *state, "x");
    d.request.url = cases[i].url;
    expect_failure(&d, cases[i].kind, cases[i].words);
    assert_null(strstr(d.error.text, "secret"));
  }
}

static void a_folder_that_is_not_there(void **state) {
  struct download d;
  prepare(&d, *state, "plain/10");
  d.request.path = "/no/such/folder/file";
  expect_failure(&d, ERROR_MISSING, "/no/such/folder/file.part");
}

// ---- progress and cancelling

struct watched {
  int calls;
  uint64_t last, total;
  uint64_t stop_at;  // 0 = never
  bool went_back;
};

static bool watch(void *context, uint64_t done, uint64_t total) {
  struct watched *w = context;
  w->calls++;
  w->went_back |= done < w->last;
  w->last = done;
  w->total = total;
  return !w->stop_at || done < w->stop_at;
}

static void progress_ends_at_the_total(void **state) {
  struct download d;
  struct watched w = {0};
  prepare(&d, *state, "slow/60000");
  d.request.progress = watch;
  d.request.context = &w;
  assert_true(fetch(&d));
  assert_true(w.calls >= 1);
  assert_false(w.went_back);
  assert_int_equal(w.last, 60000);
  assert_int_equal(w.total, 60000);
}

static void a_stopped_download_can_be_resumed(void **state) {
  struct download d;
  struct watched w = {.stop_at = 20000};
  prepare(&d, *state, "slow/200000");
  d.request.progress = watch;
  d.request.context = &w;
  expect_failure(&d, ERROR_CANCELLED, "again");
  struct stat part;
  assert_int_equal(stat(d.part, &part), 0);
  assert_in_range(part.st_size, 20000, 199999);
  d.request.progress = NULL;
  d.error = (struct error){0};
  assert_true(fetch(&d));
  expect_file(&d, 200000, 0);
}

// ---- tokens

static void a_token_stays_with_its_host(void **state) {
  struct fixture *f = *state;
  struct download d;
  char target[64];
  snprintf(target, sizeof target, "redirect/%d/plain/77",
           f->port);  // leads to "localhost": another host
  prepare(&d, f, target);
  d.request.token = "hf_secret";
  assert_true(fetch(&d));
  prepare(&d, f, "redirect/0/plain/78");
  d.request.token = "hf_secret";
  assert_true(fetch(&d));
  struct library_text log;
  read_log(f, &log);
  assert_non_null(strstr(log.data, "/plain/77|||\n"));
  assert_non_null(strstr(log.data, "/plain/78|||Bearer hf_secret\n"));
  library_text_close(&log);
}

// ---- documents

static void documents_are_bounded(void **state) {
  struct fixture *f = *state;
  struct library_text text;
  struct error e = {0};
  char url[64];
  assert_true(library_text_open(&text, 1006, "a test", NULL));
  library_text_add(&text, STR("before"));
  snprintf(url, sizeof url, "http://127.0.0.1:%d/plain/1001", f->port);
  assert_false(fetch_text(url, &text, &e));
  assert_non_null(strstr(e.text, "more than 1006 bytes"));
  assert_string_equal(text.data, "before");
  snprintf(url, sizeof url, "http://127.0.0.1:%d/plain/1000", f->port);
  assert_true(fetch_text(url, &text, &e));
  assert_int_equal(text.length, 1006);
  library_text_close(&text);
}

// ---- SHA-256

static void digests_match_the_standard(void **state) {
  (void)state;
  const struct {
    const char *text;
    const char *digest;
  } cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
       "opqrsmnopqrst"
       "nopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
  };
  char digest[65];
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    library_sha256(cases[i].text, strlen(cases[i].text), digest);
    assert_string_equal(digest, cases[i].digest);
  }
  char *million = memory_new(1000000);
  memset(million, 'a', 1000000);
  library_sha256(million, 1000000, digest);
  assert_string_equal(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  memory_free(million);
}

// Every length around the block size, against Python's hashlib: the digest of all 200 digests.
static void digests_of_all_short_lengths(void **state) {
  (void)state;
  struct buffer all = {0};
  uint8_t data[200];
  char digest[65];
  fill(data, sizeof data, 0);
  for (size_t n = 0; n < sizeof data; n++) {
    library_sha256(data, n, digest);
    buffer_add_text(&all, digest);
  }
  library_sha256(all.data, all.length, digest);
  assert_string_equal(digest, "7d866465e941ac8c3f1beed224ff4bb89a3fa865255f10dced07826782812328");
  buffer_clear(&all);
}

static void digest_of_a_file(void **state) {
  struct fixture *f = *state;
  char path[128], digest[65], wanted[65];
  uint8_t *data = memory_new(700001);
  fill(data, 700001, 3);
  snprintf(path, sizeof path, "%s/digest", f->folder);
  put_file(path, data, 700001);
  library_sha256(data, 700001, wanted);
  assert_true(library_sha256_file(world_real(), path, digest, NULL));
  assert_string_equal(digest, wanted);
  struct error e = {0};
  assert_false(library_sha256_file(world_real(), "/no/such/file", digest, &e));
  assert_non_null(strstr(e.text, "/no/such/file"));
  memory_free(data);
}

// ---- libcurl's numbers

#ifdef CURL_IS_HERE
static void numbers_are_libcurls(void **state) {
  (void)state;
  const long pairs[][2] = {
      {CURL_OPTION_LOW_SPEED_LIMIT, CURLOPT_LOW_SPEED_LIMIT},
      {CURL_OPTION_LOW_SPEED_TIME, CURLOPT_LOW_SPEED_TIME},
      {CURL_OPTION_NOPROGRESS, CURLOPT_NOPROGRESS},
      {CURL_OPTION_NETRC, CURLOPT_NETRC},
      {CURL_OPTION_FOLLOWLOCATION, CURLOPT_FOLLOWLOCATION},
      {CURL_OPTION_MAXREDIRS, CURLOPT_MAXREDIRS},
      {CURL_OPTION_CONNECTTIMEOUT, CURLOPT_CONNECTTIMEOUT},
      {CURL_OPTION_BUFFERSIZE, CURLOPT_BUFFERSIZE},
      {CURL_OPTION_NOSIGNAL, CURLOPT_NOSIGNAL},
      {CURL_OPTION_PROTOCOLS, CURLOPT_PROTOCOLS},
      {CURL_OPTION_REDIR_PROTOCOLS, CURLOPT_REDIR_PROTOCOLS},
      {CURL_OPTION_WRITEDATA, CURLOPT_WRITEDATA},
      {CURL_OPTION_URL, CURLOPT_URL},
      {CURL_OPTION_RANGE, CURLOPT_RANGE},
      {CURL_OPTION_ERRORBUFFER, CURLOPT_ERRORBUFFER},
      {CURL_OPTION_USERAGENT, CURLOPT_USERAGENT},
      {CURL_OPTION_HTTPHEADER, CURLOPT_HTTPHEADER},
      {CURL_OPTION_HEADERDATA, CURLOPT_HEADERDATA},
      {CURL_OPTION_XFERINFODATA, CURLOPT_XFERINFODATA},
      {CURL_OPTION_CAINFO, CURLOPT_CAINFO},
      {CURL_OPTION_CAPATH, CURLOPT_CAPATH},
      {CURL_OPTION_WRITEFUNCTION, CURLOPT_WRITEFUNCTION},
      {CURL_OPTION_HEADERFUNCTION, CURLOPT_HEADERFUNCTION},
      {CURL_OPTION_XFERINFOFUNCTION, CURLOPT_XFERINFOFUNCTION},
      {CURL_PROTOCOL_HTTP, CURLPROTO_HTTP},
      {CURL_PROTOCOL_HTTPS, CURLPROTO_HTTPS},
      {CURL_NETRC_WHEN_THERE, CURL_NETRC_OPTIONAL},
      {CURL_GLOBAL_ALL_PARTS, CURL_GLOBAL_ALL},
      {CURL_ERROR_BYTES, CURL_ERROR_SIZE},
      {CURL_INFO_RESPONSE_CODE, CURLINFO_RESPONSE_CODE},
      {CURL_OK, CURLE_OK},
      {CURL_UNSUPPORTED_PROTOCOL, CURLE_UNSUPPORTED_PROTOCOL},
      {CURL_BAD_URL, CURLE_URL_MALFORMAT},
      {CURL_NO_PROXY_HOST, CURLE_COULDNT_RESOLVE_PROXY},
      {CURL_NO_HOST, CURLE_COULDNT_RESOLVE_HOST},
      {CURL_NO_CONNECTION, CURLE_COULDNT_CONNECT},
      {CURL_HTTP2_ERROR, CURLE_HTTP2},
      {CURL_PARTIAL_FILE, CURLE_PARTIAL_FILE},
      {CURL_WRITE_FAILED, CURLE_WRITE_ERROR},
      {CURL_TIMED_OUT, CURLE_OPERATION_TIMEDOUT},
      {CURL_TLS_HANDSHAKE, CURLE_SSL_CONNECT_ERROR},
      {CURL_STOPPED_BY_CALLBACK, CURLE_ABORTED_BY_CALLBACK},
      {CURL_TOO_MANY_REDIRECTS, CURLE_TOO_MANY_REDIRECTS},
      {CURL_GOT_NOTHING, CURLE_GOT_NOTHING},
      {CURL_SEND_FAILED, CURLE_SEND_ERROR},
      {CURL_RECEIVE_FAILED, CURLE_RECV_ERROR},
      {CURL_TLS_CERTIFICATE, CURLE_PEER_FAILED_VERIFICATION},
      {CURL_TLS_CA_FILE, CURLE_SSL_CACERT_BADFILE},
  };
  for (size_t i = 0; i < COUNT_OF(pairs); i++) assert_int_equal(pairs[i][0], pairs[i][1]);
}
#endif

int main(void) {
  struct library_curl curl;
  struct error e = {0};
  if (!library_curl_load(&curl, &e)) {
    printf("skipped: %s\n", e.text);
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(digests_match_the_standard),
      cmocka_unit_test(digests_of_all_short_lengths),
      cmocka_unit_test(digest_of_a_file),
      cmocka_unit_test(good_servers_give_the_file),
      cmocka_unit_test(a_broken_connection_goes_on_where_it_stopped),
      cmocka_unit_test(a_date_names_the_version_too),
      cmocka_unit_test(another_version_begins_anew),
      cmocka_unit_test(a_digest_notices_mixed_versions_and_begins_anew),
      cmocka_unit_test(a_server_without_ranges_begins_anew),
      cmocka_unit_test(wrong_ranges_are_not_taken),
      cmocka_unit_test(short_ranges_are_put_together),
      cmocka_unit_test(an_earlier_run_is_continued),
      cmocka_unit_test(what_is_left_of_another_version_is_dropped),
      cmocka_unit_test(only_bytes_with_a_note_are_used),
      cmocka_unit_test(a_part_without_a_validator_is_used_only_under_a_digest),
      cmocka_unit_test(a_complete_or_too_long_part_ends_well),
      cmocka_unit_test(statuses_say_what_to_do),
      cmocka_unit_test(a_short_trouble_of_the_server_is_sat_out),
      cmocka_unit_test(a_wrong_digest_removes_the_file),
      cmocka_unit_test(addresses_that_cannot_be_reached),
      cmocka_unit_test(a_folder_that_is_not_there),
      cmocka_unit_test(progress_ends_at_the_total),
      cmocka_unit_test(a_stopped_download_can_be_resumed),
      cmocka_unit_test(a_token_stays_with_its_host),
      cmocka_unit_test(documents_are_bounded),
#ifdef CURL_IS_HERE
      cmocka_unit_test(numbers_are_libcurls),
#endif
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
