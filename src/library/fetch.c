// SPDX-License-Identifier: Apache-2.0
//
// fetch.c: downloads that survive being cut, killed and run again.
//
//   path.part        what arrived so far, always a prefix of the file
//   path.part.from   one line: the ETag or date which that prefix belongs to, written before its
//                    first byte
//   path             the whole file; appears by rename, after its digest was checked and its bytes
//                    synced
//
// One call makes several attempts.  Each asks for the bytes from the end of .part on ("Range"),
// under the condition that the file is still the one begun ("If-Range").  The answer decides:
//   206   append, when it starts where we stopped and is the same version; else begin anew
//   200   the whole file: .part is emptied first (another version, or a server without ranges)
//   416   .part is complete, or longer than the file: begin anew
//   else  an error for the person
// A connection that breaks or stalls is tried again, ATTEMPTS_MAX times in a row without a new
// byte.  A wrong digest after a resumed download starts once from nothing, since a server may have
// mixed two versions.

#include "library/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "library/curl.h"

#define ATTEMPTS_MAX 5     // in a row that brought nothing
#define RESTARTS_MAX 2     // from nothing, because the server's ranges do not fit
#define FIRST_WAIT_MS 400  // before the second attempt; doubled each time
#define CONNECT_SECONDS 20L
#define STALL_SECONDS 30L  // below STALL_RATE for so long counts as broken
#define STALL_RATE 1L      // bytes per second
#define REDIRECTS_MAX 10L
#define PROGRESS_NS 100000000ull  // between two calls of the progress function
#define SHOWN_URL_MAX 200         // bytes of a URL in a message
#define VALIDATOR_MAX 256

// What one response said in its headers; begun anew at each status line, so redirects leave nothing
// behind.
struct reply {
  int status;
  char etag[VALIDATOR_MAX];      // strong ones only
  char modified[VALIDATOR_MAX];  // Last-Modified
  uint64_t length;               // Content-Length, 0 = not told
  uint64_t range_start;          // Content-Range of a 206
  uint64_t range_total;          // of a 206 or 416, 0 = not told
};

struct transfer {
  struct library_curl curl;
  void *handle;
  struct curl_list *headers;
  const char *url;
  char shown_url[SHOWN_URL_MAX];  // without credentials and query
  char curl_error[CURL_ERROR_BYTES];
  struct reply reply;
  bool body_begun;  // the first byte of this attempt's body came
  struct error *e;  // where a callback leaves its reason
  bool failed;      // it did

  struct buffer *text;  // fetch_text: where the body goes, at most `limit` bytes
  size_t limit;

  const struct fetch_request *request;  // fetch_file, else NULL
  char part[PATH_MAX], from[PATH_MAX];
  int file;        // .part, open for appending
  uint64_t asked;  // length of .part when the attempt began = start of the range asked for
  uint64_t done;   // length of .part
  uint64_t total;  // of the whole file, 0 = unknown
  char validator[VALIDATOR_MAX];  // content of .part.from
  bool resumed;                   // the file is made of bytes from more than one attempt
  bool restart;                   // .part turned out to be of no use: ask for everything
  uint64_t progress_ns;           // time of the last call of the progress function
};

static uint64_t now_ns(void) { return world_monotonic_ns(world_real()); }

// "https://user:key@host/a?token=b" → "https://host/a": a message must not carry secrets.
static void show_url(const char *url, char out[SHOWN_URL_MAX]) {
  const char *host = strstr(url, "://");
  host = host ? host + 3 : url;
  const char *end = host + strcspn(host, "/?#");
  const char *at = memrchr(host, '@', (size_t)(end - host));
  const char *rest = at ? at + 1 : host;
  snprintf(out, SHOWN_URL_MAX, "%.*s%.*s", (int)(host - url), url, (int)strcspn(rest, "?#"), rest);
}

// ---- errors

// What a person can do about a status.
static const struct {
  int status;
  enum error_kind kind;
  const char *advice;
} STATUSES[] = {
    {401, ERROR_MISSING,
     "it wants a login or token (for Hugging Face set HF_TOKEN); a wrong name looks the same"},
    {403, ERROR_MISSING,
     "access denied: it may want a token (for Hugging Face set HF_TOKEN) or its licence accepted"},
    {404, ERROR_MISSING, "nothing is there: check the name"},
    {407, ERROR_MISSING, "the proxy wants a login: put it into https_proxy"},
    {410, ERROR_MISSING, "it was removed"},
    {429, ERROR_BUSY, "too many requests: try again later"},
};

// An unknown status of the 400s means that the request is at fault, one of the 500s that trying
// later can help.
static bool fail_status(struct transfer *t, int status) {
  for (size_t i = 0; i < COUNT_OF(STATUSES); i++)
    if (STATUSES[i].status == status)
      return error_set(t->e, STATUSES[i].kind, "%s: HTTP status %d: %s", t->shown_url, status,
                       STATUSES[i].advice);
  if (status >= 500)
    return error_set(t->e, ERROR_BUSY,
                     "%s: HTTP status %d: the server has trouble, try again later", t->shown_url,
                     status);
  return error_set(t->e, ERROR_INPUT, "%s: HTTP status %d", t->shown_url, status);
}

// What a person can do when libcurl gave up; `again` marks what may pass by itself.
static const struct {
  int code;
  enum error_kind kind;
  bool again;
  const char *advice;
} FAILURES[] = {
    {CURL_UNSUPPORTED_PROTOCOL, ERROR_INPUT, false, "only http: and https: addresses are fetched"},
    {CURL_BAD_URL, ERROR_INPUT, false, "this is not an address"},
    {CURL_NO_PROXY_HOST, ERROR_MISSING, false, "check http_proxy and https_proxy"},
    {CURL_NO_HOST, ERROR_MISSING, false,
     "no network? Check the address, and https_proxy where a proxy is needed"},
    {CURL_NO_CONNECTION, ERROR_MISSING, false, "no network, or nothing listens there"},
    {CURL_HTTP2_ERROR, ERROR_SYSTEM, true, "the connection broke; run the command again to go on"},
    {CURL_PARTIAL_FILE, ERROR_SYSTEM, true, "the connection broke; run the command again to go on"},
    {CURL_TIMED_OUT, ERROR_SYSTEM, true, "nothing arrives; run the command again to go on"},
    {CURL_TLS_HANDSHAKE, ERROR_SYSTEM, true, "no encrypted connection; is a proxy in between?"},
    {CURL_TOO_MANY_REDIRECTS, ERROR_INPUT, false, "the server sends us in circles"},
    {CURL_GOT_NOTHING, ERROR_SYSTEM, true, "the server hung up"},
    {CURL_SEND_FAILED, ERROR_SYSTEM, true, "the connection broke; run the command again to go on"},
    {CURL_RECEIVE_FAILED, ERROR_SYSTEM, true,
     "the connection broke; run the command again to go on"},
    {CURL_TLS_CERTIFICATE, ERROR_SYSTEM, false,
     "the certificate is not trusted; name your authorities in SSL_CERT_FILE"},
    {CURL_TLS_CA_FILE, ERROR_SYSTEM, false,
     "install ca-certificates, or check SSL_CERT_FILE and CURL_CA_BUNDLE"},
};

// libcurl's own words name host and port; the advice says what to do about it.
static bool fail_curl(struct transfer *t, int code) {
  const char *said = t->curl_error[0] ? t->curl_error : t->curl.easy_strerror(code);
  for (size_t i = 0; i < COUNT_OF(FAILURES); i++)
    if (FAILURES[i].code == code)
      return error_set(t->e, FAILURES[i].kind, "%s: %s (%s)", t->shown_url, said,
                       FAILURES[i].advice);
  return error_set(t->e, ERROR_SYSTEM, "%s: %s", t->shown_url, said);
}

static bool fail_range(struct transfer *t) {
  return error_set(t->e, ERROR_SYSTEM,
                   "%s: the server answers with another part of the file than was asked for",
                   t->shown_url);
}

static bool may_pass(const struct transfer *t, int code) {
  if (code == CURL_OK) return t->reply.status >= 500 || t->reply.status == 429;
  for (size_t i = 0; i < COUNT_OF(FAILURES); i++)
    if (FAILURES[i].code == code) return FAILURES[i].again;
  return false;
}

// ---- headers

// The text after "name:" when the line is that header, trimmed; else false.
static bool header_is(struct str line, const char *name, struct str *value) {
  size_t n = strlen(name);
  if (line.length <= n || line.data[n] != ':' || strncasecmp(line.data, name, n) != 0) return false;
  *value = str_trim((struct str){line.data + n + 1, line.length - n - 1});
  return true;
}

static void keep_text(char out[VALIDATOR_MAX], struct str value) {
  if (value.length >= VALIDATOR_MAX || memchr(value.data, 0, value.length)) return;
  memcpy(out, value.data, value.length);
  out[value.length] = 0;
}

// "bytes 100-199/500", "bytes 100-199/*", "bytes */500"; what is not told stays 0.
static void read_content_range(struct str value, struct reply *r) {
  char text[VALIDATOR_MAX] = "";
  unsigned long long start = 0, total = 0;
  keep_text(text, value);
  if (sscanf(text, "bytes %llu-%*u/%llu", &start, &total) < 1) sscanf(text, "bytes */%llu", &total);
  r->range_start = start;
  r->range_total = total;
}

// Called once a line, for every response on the way: redirects and proxies send headers too.
static size_t on_header(char *data, size_t size, size_t count, void *context) {
  struct transfer *t = context;
  struct reply *r = &t->reply;
  struct str line = {data, size * count}, value;
  int64_t length;
  if (str_starts(line, STR("HTTP/"))) {
    *r = (struct reply){0};
    const char *space = memchr(line.data, ' ', line.length);
    if (space && line.data + line.length - space > 3)
      r->status = (space[1] - '0') * 100 + (space[2] - '0') * 10 + (space[3] - '0');
  } else if (header_is(line, "etag", &value)) {
    if (!str_starts(value, STR("W/")))
      keep_text(r->etag, value);  // weak ones do not tell versions apart
  } else if (header_is(line, "last-modified", &value)) {
    keep_text(r->modified, value);
  } else if (header_is(line, "content-length", &value)) {
    if (str_to_int(value, &length) && length > 0) r->length = (uint64_t)length;
  } else if (header_is(line, "content-range", &value)) {
    read_content_range(value, r);
  }
  return size * count;
}

// ---- the body of a file

// Of the folder that the file goes to; unknown counts as plenty, and the write will tell.
static uint64_t free_bytes(const char *path) {
  struct statvfs s;
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash > path ? (int)(slash - path) : 1,
           slash ? path : ".");
  return statvfs(folder, &s) == 0 ? (uint64_t)s.f_bavail * s.f_frsize : UINT64_MAX;
}

static bool fail_disk_full(struct transfer *t) {
  uint64_t needed = t->total > t->done ? t->total - t->done : 0;
  return error_set(t->e, ERROR_SYSTEM,
                   "not enough disk space for %s: %.1f MB more are needed, %.1f MB are free; "
                   "make room and run the command again",
                   t->request->path, (double)needed / 1e6, (double)free_bytes(t->part) / 1e6);
}

static bool empty_part(struct transfer *t) {
  t->done = 0;
  t->resumed = false;
  if (ftruncate(t->file, 0) == 0 && lseek(t->file, 0, SEEK_SET) == 0) return true;
  return error_set_errno(t->e, errno, "cannot empty %s", t->part);
}

// The validator of the reply, written down before the first byte that belongs to it.
static bool note_validator(struct transfer *t) {
  const char *validator = t->reply.etag[0] ? t->reply.etag : t->reply.modified;
  memcpy(t->validator, validator, strlen(validator) + 1);
  if (validator[0]) return file_write_atomic(world_real(), t->from, str_of(validator), t->e);
  unlink(t->from);
  return true;
}

// A 206 continues .part when it starts where that ends and does not name another version.
static bool continues_part(const struct transfer *t) {
  const struct reply *r = &t->reply;
  const char *version = t->validator[0] == '"' ? r->etag : r->modified;
  bool other = t->validator[0] && version[0] && strcmp(t->validator, version) != 0;
  return t->asked && r->range_start == t->asked && !other;
}

// Looks at the reply's head before its body is taken.
static bool begin_body(struct transfer *t) {
  const struct reply *r = &t->reply;
  t->body_begun = true;
  if (r->status == 206) {
    if (!continues_part(t)) return t->restart = true, false;
    t->total = r->range_total ? r->range_total : r->length ? t->asked + r->length : 0;
    t->resumed = true;
  } else {
    t->total = r->length;
    if (!empty_part(t) || !note_validator(t)) return false;
  }
  if (t->total > t->done && t->total - t->done > free_bytes(t->part)) return fail_disk_full(t);
  return true;
}

// done counts what is on disk, so it is right also when the disk fills up in the middle of a
// piece.
static bool write_part(struct transfer *t, const char *data, size_t length) {
  while (length) {
    ssize_t n = write(t->file, data, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT)) return fail_disk_full(t);
    if (n < 0) return error_set_errno(t->e, errno, "cannot write %s", t->part);
    t->done += (uint64_t)n;
    data += n;
    length -= (size_t)n;
  }
  return true;
}

static bool is_wanted(int status) { return status == 200 || status == 206 || status == 203; }

static size_t on_file_data(char *data, size_t size, size_t count, void *context) {
  struct transfer *t = context;
  if (!is_wanted(t->reply.status)) return size * count;  // an error's page
  if ((t->body_begun || begin_body(t)) && write_part(t, data, size * count)) return size * count;
  t->failed = true;
  return 0;
}

// Bounded as it comes in: a server cannot fill the memory.
static size_t on_text_data(char *data, size_t size, size_t count, void *context) {
  struct transfer *t = context;
  if (!is_wanted(t->reply.status)) return size * count;
  if (t->text->length + size * count > t->limit) {
    error_set(t->e, ERROR_INPUT, "%s: the answer has more than %zu bytes", t->shown_url, t->limit);
    t->failed = true;
    return 0;
  }
  buffer_add(t->text, data, size * count);
  return size * count;
}

// Tells the caller how far we are; false when it wants to stop.
static bool report(struct transfer *t, bool always) {
  const struct fetch_request *r = t->request;
  uint64_t now = now_ns();
  if (!r->progress || (!always && now - t->progress_ns < PROGRESS_NS)) return true;
  t->progress_ns = now;
  if (r->progress(r->context, t->done, t->total)) return true;
  t->failed = true;
  return error_set(t->e, ERROR_CANCELLED, "stopped; run the command again to go on");
}

static int on_progress(void *context, int64_t a, int64_t b, int64_t c, int64_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return report(context, false) ? 0 : 1;
}

// ---- one attempt

// The variables that the curl program honours and the library does not.
static void set_authorities(struct transfer *t) {
  const char *bundle = getenv("CURL_CA_BUNDLE"), *file = getenv("SSL_CERT_FILE"),
             *folder = getenv("SSL_CERT_DIR");
  if (!bundle || !bundle[0]) bundle = file;
  if (bundle && bundle[0]) t->curl.easy_setopt(t->handle, CURL_OPTION_CAINFO, bundle);
  if (folder && folder[0]) t->curl.easy_setopt(t->handle, CURL_OPTION_CAPATH, folder);
}

static void add_header(struct transfer *t, const char *name, const char *value) {
  struct buffer line = {0};
  buffer_print(&line, "%s: %s", name, value);
  struct curl_list *longer = t->curl.slist_append(t->headers, line.data);
  if (longer) t->headers = longer;
  buffer_clear(&line);
}

// libcurl itself drops an Authorization header when a redirect leads to another host.
static void set_common(struct transfer *t, const char *token) {
  const struct {
    int option;
    long value;
  } numbers[] = {
      {CURL_OPTION_NOSIGNAL, 1},
      {CURL_OPTION_FOLLOWLOCATION, 1},
      {CURL_OPTION_MAXREDIRS, REDIRECTS_MAX},
      {CURL_OPTION_NETRC, CURL_NETRC_WHEN_THERE},
      {CURL_OPTION_CONNECTTIMEOUT, CONNECT_SECONDS},
      {CURL_OPTION_LOW_SPEED_LIMIT, STALL_RATE},
      {CURL_OPTION_LOW_SPEED_TIME, STALL_SECONDS},
      {CURL_OPTION_PROTOCOLS, CURL_PROTOCOL_HTTP | CURL_PROTOCOL_HTTPS},
      {CURL_OPTION_REDIR_PROTOCOLS, CURL_PROTOCOL_HTTP | CURL_PROTOCOL_HTTPS},
      {CURL_OPTION_BUFFERSIZE, 256 * 1024},
  };
  for (size_t i = 0; i < COUNT_OF(numbers); i++)
    t->curl.easy_setopt(t->handle, numbers[i].option, numbers[i].value);
  t->curl.easy_setopt(t->handle, CURL_OPTION_URL, t->url);
  t->curl.easy_setopt(t->handle, CURL_OPTION_USERAGENT, "motley/" MOTLEY_VERSION);
  t->curl.easy_setopt(t->handle, CURL_OPTION_ERRORBUFFER, t->curl_error);
  t->curl.easy_setopt(t->handle, CURL_OPTION_HEADERFUNCTION, on_header);
  t->curl.easy_setopt(t->handle, CURL_OPTION_HEADERDATA, t);
  t->curl.easy_setopt(t->handle, CURL_OPTION_WRITEDATA, t);
  set_authorities(t);
  if (token && token[0]) {
    struct buffer bearer = {0};
    buffer_print(&bearer, "Bearer %s", token);
    add_header(t, "Authorization", bearer.data);
    buffer_clear(&bearer);
  }
}

// After a failure transfer_close still has to be called.
static bool transfer_open(struct transfer *t, const char *url, struct error *e) {
  *t = (struct transfer){.url = url, .e = e, .file = -1};
  show_url(url, t->shown_url);
  if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
    return error_set(e, ERROR_INPUT, "%s: only http: and https: addresses are fetched",
                     t->shown_url);
  if (!library_curl_load(&t->curl, e)) return false;
  t->handle = t->curl.easy_init();
  return t->handle ||
         error_set(e, ERROR_MEMORY, "%s: libcurl has no memory to begin", t->shown_url);
}

static void transfer_close(struct transfer *t) {
  if (t->headers) t->curl.slist_free_all(t->headers);
  if (t->handle) t->curl.easy_cleanup(t->handle);
  if (t->file >= 0) close(t->file);
}

// Runs the prepared request; returns libcurl's code.
static int perform(struct transfer *t) {
  t->reply = (struct reply){0};
  t->curl_error[0] = 0;
  t->curl.easy_setopt(t->handle, CURL_OPTION_HTTPHEADER, t->headers);
  int code = t->curl.easy_perform(t->handle);
  t->curl.easy_reset(t->handle);
  t->curl.slist_free_all(t->headers);
  t->headers = NULL;
  return code;
}

// One attempt: documents are small, and the person waits for them.
bool fetch_text(const char *url, const char *token, size_t limit, struct buffer *out,
                struct error *e) {
  struct transfer t;
  size_t before = out->length;
  bool done = transfer_open(&t, url, e);
  if (done) {
    t.text = out;
    t.limit = before + limit;
    set_common(&t, token);
    t.curl.easy_setopt(t.handle, CURL_OPTION_WRITEFUNCTION, on_text_data);
    int code = perform(&t);
    done = code == CURL_OK && is_wanted(t.reply.status);
    if (!done && !t.failed) code ? fail_curl(&t, code) : fail_status(&t, t.reply.status);
  }
  transfer_close(&t);
  if (!done && out->length > before) out->data[out->length = before] = 0;
  return done;
}

// ---- a file in several attempts

// Names the two files and goes on from what an earlier run left.  The folder must exist.
static bool open_part(struct transfer *t) {
  const char *path = t->request->path;
  if (snprintf(t->part, sizeof t->part, "%s.part", path) >= (int)sizeof t->part ||
      snprintf(t->from, sizeof t->from, "%s.part.from", path) >= (int)sizeof t->from)
    return error_set(t->e, ERROR_INPUT, "the path %s is too long", path);
  t->file = open(t->part, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (t->file < 0) return error_set_errno(t->e, errno, "cannot create %s", t->part);
  struct stat info;
  if (fstat(t->file, &info) < 0) return error_set_errno(t->e, errno, "cannot look at %s", t->part);
  t->done = (uint64_t)info.st_size;
  struct buffer kept = {0};
  if (file_exists(world_real(), t->from) &&
      file_read(world_real(), t->from, VALIDATOR_MAX - 1, &kept, NULL))
    keep_text(t->validator, str_trim(buffer_str(&kept)));
  buffer_clear(&kept);
  // Without a validator only a digest can tell whether the rest fits what we have.
  if (t->done && !t->validator[0] && !t->request->sha256 && !empty_part(t)) return false;
  return lseek(t->file, 0, SEEK_END) >= 0 || error_set_errno(t->e, errno, "cannot use %s", t->part);
}

// A range is asked for only where there is something to continue, so a fresh download works with
// any server.
static int attempt(struct transfer *t) {
  char range[32];
  t->asked = t->done;
  t->body_begun = t->failed = t->restart = false;
  set_common(t, t->request->token);
  t->curl.easy_setopt(t->handle, CURL_OPTION_WRITEFUNCTION, on_file_data);
  t->curl.easy_setopt(t->handle, CURL_OPTION_XFERINFOFUNCTION, on_progress);
  t->curl.easy_setopt(t->handle, CURL_OPTION_XFERINFODATA, t);
  t->curl.easy_setopt(t->handle, CURL_OPTION_NOPROGRESS, 0L);
  if (t->asked) {
    snprintf(range, sizeof range, "%llu-", (unsigned long long)t->asked);
    t->curl.easy_setopt(t->handle, CURL_OPTION_RANGE, range);
    if (t->validator[0]) add_header(t, "If-Range", t->validator);
  }
  return perform(t);
}

// 416 to a range: when the file is as long as .part, that is all of it.
static bool complete_by_416(struct transfer *t) {
  if (t->reply.status != 416) return false;
  if (t->asked && t->reply.range_total == t->asked) return t->resumed = true;
  t->restart = true;
  return false;
}

// Waits, telling the caller meanwhile; false when it wants to stop.
static bool wait_ms(struct transfer *t, int ms) {
  for (; ms > 0; ms -= 100) {
    if (!report(t, true)) return false;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  return true;
}

// An empty file has no body, so nothing has looked at the head yet.
static bool finish_body(struct transfer *t) {
  if (!t->body_begun && t->reply.status != 416 && !begin_body(t)) return false;
  return report(t, true);
}

// Whether the attempt that just failed is worth another one.  A server that this call never reached
// is told at once; one that broke off may be back soon.
static bool is_worth_waiting(const struct transfer *t, int code, bool reached) {
  return may_pass(t, code) || (reached && (code == CURL_NO_CONNECTION || code == CURL_NO_HOST));
}

// .part becomes complete, or false with an error; .part then stays for the next run.
static bool fill_part(struct transfer *t) {
  int wait = FIRST_WAIT_MS, restarts = 0;
  bool reached = false;
  for (int tries = 1;; tries++) {
    uint64_t before = t->done;
    int code = attempt(t);
    bool wanted = is_wanted(t->reply.status) || complete_by_416(t);
    if (code == CURL_OK && wanted && !t->restart) return finish_body(t);
    if (t->restart && restarts++ < RESTARTS_MAX && empty_part(t)) continue;
    if (t->restart) return fail_range(t);
    if (t->failed) return false;
    reached = reached || t->reply.status != 0;
    if (t->done > before) tries = 0, wait = FIRST_WAIT_MS;
    if (!is_worth_waiting(t, code, reached) || tries >= ATTEMPTS_MAX)
      return code ? fail_curl(t, code) : fail_status(t, t->reply.status);
    if (!wait_ms(t, wait)) return false;
    wait *= 2;
  }
}

static bool digest_is_right(const struct transfer *t, const char *digest) {
  return !t->request->sha256 || strcasecmp(t->request->sha256, digest) == 0;
}

// Synced before it gets its name: after a power cut the name must not stand for a hole.
static bool finish_file(struct transfer *t) {
  const char *path = t->request->path;
  if (fsync(t->file) < 0) return error_set_errno(t->e, errno, "cannot write %s", t->part);
  if (rename(t->part, path) < 0)
    return error_set_errno(t->e, errno, "cannot rename %s to %s", t->part, path);
  unlink(t->from);
  return true;
}

// Fills .part and checks its digest.
static bool fetch_checked(struct transfer *t, char digest[65]) {
  if (!fill_part(t) || !fetch_sha256_file(t->part, digest, t->e)) return false;
  if (!digest_is_right(t, digest) && t->resumed) {
    if (!empty_part(t) || !fill_part(t) || !fetch_sha256_file(t->part, digest, t->e)) return false;
  }
  if (digest_is_right(t, digest)) return true;
  unlink(t->part);
  unlink(t->from);
  return error_set(
      t->e, ERROR_INPUT,
      "%s: the file's SHA-256 is %.16s… and should be %.16s…: it is damaged or another "
      "version, and was removed",
      t->shown_url, digest, t->request->sha256);
}

// What arrived stays in .part on failure, for the next run; .part without a byte is no use to
// it.
bool fetch_file(const struct fetch_request *request, char *sha256_out, struct error *e) {
  struct transfer *t = memory_new(sizeof *t);  // two paths long: too much for a small stack
  char digest[65];
  bool done = transfer_open(t, request->url, e);
  if (done) {
    t->request = request;
    done = open_part(t) && fetch_checked(t, digest) && finish_file(t);
  }
  if (!done && t->file >= 0 && t->done == 0) {  // nothing came: nothing to go on from
    unlink(t->part);
    unlink(t->from);
  }
  if (done && sha256_out) memcpy(sha256_out, digest, sizeof digest);
  transfer_close(t);
  memory_free(t);
  return done;
}
