// SPDX-License-Identifier: Apache-2.0
//
// fetch.c: downloads that survive being cut, killed, run again, and a power cut at any moment.
//
//   path.part        what arrived so far, always a prefix of the file
//   path.part.from   two lines: the ETag or date which that prefix belongs to (may be empty), and
//                    how many bytes of it are safe on the disk
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
//
// After a power cut a file may have its length but not its bytes.  So a later run believes only
// what .part.from says, and cuts .part to it.  That is written once a second, after a sync of
// .part, and at the end of a failed run.  Before .part is emptied it is set to 0.

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "library/internal.h"

#define ATTEMPTS_MAX 5               // in a row that brought nothing
#define RESTARTS_MAX 2               // from nothing, because the server's ranges do not fit
#define FIRST_WAIT_MS 400            // before the second attempt; doubled each time
#define PROGRESS_NS 100000000ull     // between two calls of the progress function
#define CHECKPOINT_NS 1000000000ull  // between two syncs of .part: so much may have to come twice
#define SHOWN_URL_MAX 200            // bytes of a URL in a message
#define FROM_MAX (LIBRARY_VALIDATOR_MAX + 24)  // bytes of .part.from

struct download {
  const struct library_fetch *request;
  const struct world *world;
  char shown_url[SHOWN_URL_MAX];  // without credentials and query
  struct library_reply reply;
  bool body_begun;  // the first byte of this attempt's body came
  struct error *e;  // where a callback leaves its reason
  bool failed;      // it did

  struct library_text *text;  // a document: where the body goes; else NULL

  char part[PATH_MAX], from[PATH_MAX];
  int file;        // .part; -1 = not open
  uint64_t asked;  // length of .part when the attempt began = start of the range asked for
  uint64_t done;   // length of .part
  uint64_t safe;   // how much of it .part.from vouches for
  uint64_t total;  // of the whole file, 0 = unknown
  char validator[LIBRARY_VALIDATOR_MAX];  // first line of .part.from
  bool resumed;                           // the file is made of bytes from more than one attempt
  bool unsure;                            // a sync failed: bytes behind `safe` may be lost
  bool restart;                           // .part turned out to be of no use: ask for everything
  uint64_t progress_ns;                   // time of the last call of the progress function
  uint64_t checkpoint_ns;                 // time of the last checkpoint
};

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
static bool fail_status(struct download *d, int status) {
  for (size_t i = 0; i < COUNT_OF(STATUSES); i++)
    if (STATUSES[i].status == status)
      return error_set(d->e, STATUSES[i].kind, "%s: HTTP status %d: %s", d->shown_url, status,
                       STATUSES[i].advice);
  if (status >= 500)
    return error_set(d->e, ERROR_BUSY,
                     "%s: HTTP status %d: the server has trouble, try again later", d->shown_url,
                     status);
  return error_set(d->e, ERROR_INPUT, "%s: HTTP status %d", d->shown_url, status);
}

#define BROKE "the connection broke; run the command again to go on"

// What a person can do when a transfer failed; `again` marks what may pass by itself.
static const struct {
  enum error_kind kind;
  bool again;
  const char *advice;
} FAILURES[] = {
    [TRANSFER_DONE] = {ERROR_NONE, false, NULL},
    [TRANSFER_STOPPED] = {ERROR_CANCELLED, false, "run the command again to go on"},
    [TRANSFER_BAD_SCHEME] = {ERROR_INPUT, false, "only http: and https: addresses are fetched"},
    [TRANSFER_BAD_URL] = {ERROR_INPUT, false, "this is not an address"},
    [TRANSFER_NO_PROXY] = {ERROR_MISSING, false, "check http_proxy and https_proxy"},
    [TRANSFER_NO_HOST] = {ERROR_MISSING, false,
                          "no network? Check the address, and https_proxy where a proxy is needed"},
    [TRANSFER_NO_CONNECTION] = {ERROR_MISSING, false, "no network, or nothing listens there"},
    [TRANSFER_BROKEN] = {ERROR_SYSTEM, true, BROKE},
    [TRANSFER_SILENT] = {ERROR_SYSTEM, true, "nothing arrives; run the command again to go on"},
    [TRANSFER_HUNG_UP] = {ERROR_SYSTEM, true, "the server hung up"},
    [TRANSFER_NO_TLS] = {ERROR_SYSTEM, true, "no encrypted connection; is a proxy in between?"},
    [TRANSFER_CIRCLES] = {ERROR_INPUT, false, "the server sends us in circles"},
    [TRANSFER_CERTIFICATE] = {ERROR_SYSTEM, false,
                              "the certificate is not trusted; name your authorities in "
                              "SSL_CERT_FILE"},
    [TRANSFER_AUTHORITIES] = {ERROR_SYSTEM, false,
                              "install ca-certificates, or check SSL_CERT_FILE and CURL_CA_BUNDLE"},
    [TRANSFER_NO_CARRIER] = {ERROR_MISSING, false, NULL},
    [TRANSFER_OTHER] = {ERROR_SYSTEM, false, NULL},
};

// The carrier's own words name host and port; the advice says what to do about it.
static bool fail_transfer(struct download *d, enum library_transfer_end end, const char *said) {
  assert((size_t)end < COUNT_OF(FAILURES) && end != TRANSFER_DONE);
  if (end == TRANSFER_NO_CARRIER) return error_set(d->e, FAILURES[end].kind, "%s", said);
  const char *advice = FAILURES[end].advice;
  return error_set(d->e, FAILURES[end].kind, "%s: %s%s%s%s", d->shown_url, said,
                   advice && said[0] ? " (" : "", advice ? advice : "",
                   advice && said[0] ? ")" : "");
}

static bool fail_range(struct download *d) {
  return error_set(d->e, ERROR_SYSTEM,
                   "%s: the server answers with another part of the file than was asked for",
                   d->shown_url);
}

// Whether an attempt that ended so may go better the next time.
static bool may_pass(const struct download *d, enum library_transfer_end end) {
  if (end == TRANSFER_DONE) return d->reply.status >= 500 || d->reply.status == 429;
  return FAILURES[end].again;
}

static bool fail_disk_full(struct download *d) {
  uint64_t needed = d->total > d->done ? d->total - d->done : 0;
  return file_fail_disk_full(d->world, d->request->path, needed, d->e);
}

// For a result of the world below 0.
static bool fail_file(struct download *d, int64_t result, const char *what) {
  if (result == -ENOSPC || result == -EDQUOT) return fail_disk_full(d);
  return error_set_errno(d->e, (int)-result, "cannot %s %s", what, d->part);
}

// ---- headers

static void keep_text(char out[LIBRARY_VALIDATOR_MAX], struct str value) {
  if (value.length >= LIBRARY_VALIDATOR_MAX || memchr(value.data, 0, value.length)) return;
  memcpy(out, value.data, value.length);
  out[value.length] = 0;
}

// Reads the digits at the front of *s and moves behind them; false when there are none, or more
// than fit.
static bool take_number(struct str *s, uint64_t *out) {
  size_t digits = 0;
  while (digits < s->length && s->data[digits] >= '0' && s->data[digits] <= '9') digits++;
  int64_t value;
  if (!str_to_int((struct str){s->data, digits}, &value)) return false;
  *s = (struct str){s->data + digits, s->length - digits};
  *out = (uint64_t)value;
  return true;
}

static bool take_text(struct str *s, struct str text) {
  if (!str_starts(*s, text)) return false;
  *s = (struct str){s->data + text.length, s->length - text.length};
  return true;
}

// "bytes 100-199/500", "bytes 100-199/*", "bytes */500"; what is not told stays 0.
static void read_content_range(struct str value, struct library_reply *r) {
  uint64_t start = 0, end, total = 0;
  if (!take_text(&value, STR("bytes "))) return;
  bool range =
      take_number(&value, &start) && take_text(&value, STR("-")) && take_number(&value, &end);
  if (!range && !take_text(&value, STR("*"))) return;
  if (take_text(&value, STR("/"))) take_number(&value, &total);
  r->range_start = start;
  r->range_total = total;
}

static bool is_name(struct str name, const char *wanted) {
  return name.length == strlen(wanted) && strncasecmp(name.data, wanted, name.length) == 0;
}

void library_reply_header(struct library_reply *r, struct str name, struct str value) {
  value = str_trim(value);
  if (is_name(name, "etag") && !str_starts(value, STR("W/"))) keep_text(r->etag, value);
  if (is_name(name, "last-modified")) keep_text(r->modified, value);
  if (is_name(name, "content-length")) take_number(&value, &r->length);
  if (is_name(name, "content-range")) read_content_range(value, r);
}

// ---- .part and .part.from

// Writes down which version .part belongs to and how many of its bytes are safe.
static bool note(struct download *d, uint64_t safe, struct error *e) {
  char text[FROM_MAX];
  int n = snprintf(text, sizeof text, "%s\n%llu\n", d->validator, (unsigned long long)safe);
  assert(n > 0 && n < (int)sizeof text && safe <= d->done);
  if (!file_write_atomic(d->world, d->from, (struct str){text, (size_t)n}, e)) return false;
  d->safe = safe;
  return true;
}

// What .part.from says; nothing when it is not there or not of this form.
static void read_note(struct download *d) {
  struct buffer text = {0};
  uint64_t safe;
  if (file_exists(d->world, d->from) && file_read(d->world, d->from, FROM_MAX, &text, NULL)) {
    const char *newline = text.length ? memchr(text.data, '\n', text.length) : NULL;
    size_t length = newline ? (size_t)(newline - text.data) : 0;
    struct str rest = {newline ? newline + 1 : "", newline ? text.length - length - 1 : 0};
    if (take_number(&rest, &safe) && str_equal(rest, STR("\n"))) {
      keep_text(d->validator, (struct str){text.data, length});
      d->safe = safe;
    }
  }
  buffer_clear(&text);
}

// After this a power cut costs no byte that is there now.  A sync that failed is not tried again:
// the system may have forgotten the bytes, and the next one would say that all is well.
static bool checkpoint(struct download *d, struct error *e) {
  if (d->done == d->safe) return true;
  int result = d->unsure ? -EIO : world_sync(d->world, d->file);
  d->unsure = result < 0;
  if (result < 0) return error_set_errno(e, -result, "cannot write %s", d->part);
  return note(d, d->done, e);
}

// The note goes first: while .part is emptied and filled anew, it vouches for nothing.
static bool empty_part(struct download *d) {
  if (d->safe && !note(d, 0, d->e)) return false;
  d->done = 0;
  d->resumed = false;
  int result = world_resize(d->world, d->file, 0);
  return result == 0 || fail_file(d, result, "empty");
}

// The whole file is coming: whatever is in .part belongs to something else.
static bool begin_anew(struct download *d) {
  const char *validator = d->reply.etag[0] ? d->reply.etag : d->reply.modified;
  memcpy(d->validator, validator, strlen(validator) + 1);
  d->done = 0;
  return note(d, 0, d->e) && empty_part(d);
}

// ---- the body

// A 206 continues .part when it starts where that ends and is of the same version.  With an ETag
// the answer has to say so (RFC 9110, 15.3.7); a date need not be repeated.
static bool continues_part(const struct download *d) {
  const struct library_reply *r = &d->reply;
  bool same = d->validator[0] == '"'
                  ? strcmp(d->validator, r->etag) == 0
                  : !d->validator[0] || !r->modified[0] || !strcmp(d->validator, r->modified);
  return d->asked && r->range_start == d->asked && same;
}

// Looks at the answer's head before its body is taken.
static bool begin_body(struct download *d) {
  const struct library_reply *r = &d->reply;
  uint64_t left = UINT64_MAX;
  d->body_begun = true;
  if (r->status == 206) {
    if (!continues_part(d)) return d->restart = true, false;
    d->total = r->range_total ? r->range_total : r->length ? d->asked + r->length : 0;
    d->resumed = true;
  } else {
    d->total = r->length;
    if (!begin_anew(d)) return false;
  }
  file_free_bytes(d->world, d->part, &left, NULL);  // not known: the write will tell
  if (d->total > d->done && d->total - d->done > left) return fail_disk_full(d);
  return true;
}

// `done` counts what was written, so it is right also when the disk fills up in the middle of a
// piece.
static bool write_part(struct download *d, struct str bytes) {
  while (bytes.length) {
    int64_t n = world_write_at(d->world, d->file, bytes.data, bytes.length, d->done);
    if (n <= 0) return fail_file(d, n ? n : -ENOSPC, "write");
    d->done += (uint64_t)n;
    bytes = (struct str){bytes.data + n, bytes.length - (size_t)n};
  }
  uint64_t now = world_monotonic_ns(d->world);
  if (now - d->checkpoint_ns < CHECKPOINT_NS) return true;
  d->checkpoint_ns = now;
  return checkpoint(d, d->e);
}

static bool is_wanted(int status) { return status == 200 || status == 206 || status == 203; }

static bool on_file_data(void *context, struct str bytes) {
  struct download *d = context;
  if (!is_wanted(d->reply.status)) return true;  // an error's page
  if ((d->body_begun || begin_body(d)) && write_part(d, bytes)) return true;
  d->failed = true;
  return false;
}

// Bounded as it comes in: a server cannot fill the memory.
static bool on_text_data(void *context, struct str bytes) {
  struct download *d = context;
  if (!is_wanted(d->reply.status)) return true;
  if (library_text_add(d->text, bytes) == bytes.length) return true;
  d->failed = true;
  return error_set(d->e, ERROR_INPUT, "%s: the answer has more than %zu bytes", d->shown_url,
                   d->text->limit);
}

// Tells the caller how far we are; false when it wants to stop.
static bool report(struct download *d, bool always) {
  const struct library_fetch *r = d->request;
  uint64_t now = world_monotonic_ns(d->world);
  if (!r->progress || (!always && now - d->progress_ns < PROGRESS_NS)) return true;
  d->progress_ns = now;
  if (r->progress(r->context, d->done, d->total >= d->done ? d->total : 0)) return true;
  d->failed = true;
  return error_set(d->e, ERROR_CANCELLED, "stopped; run the command again to go on");
}

static bool on_tick(void *context) { return report(context, false); }

// ---- one attempt

static bool is_printable(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7F) return false;
  return true;
}

// What can be refused before anything is sent.
static bool begin(struct download *d, const struct library_fetch *request, struct error *e) {
  *d = (struct download){.request = request, .world = request->world, .e = e, .file = -1};
  assert(request->world && request->get && request->url);
  d->checkpoint_ns = world_monotonic_ns(d->world);
  show_url(request->url, d->shown_url);
  if (strncasecmp(request->url, "http://", 7) != 0 && strncasecmp(request->url, "https://", 8) != 0)
    return error_set(e, ERROR_INPUT, "%s: only http: and https: addresses are fetched",
                     d->shown_url);
  if (request->token && !is_printable(request->token))
    return error_set(e, ERROR_INPUT,
                     "%s: the token (HF_TOKEN) has a line break or another control character",
                     d->shown_url);
  return true;
}

static enum library_transfer_end attempt(struct download *d, char said[LIBRARY_SAID_MAX]) {
  struct library_transfer transfer = {.world = d->world,
                                      .url = d->request->url,
                                      .token = d->request->token,
                                      .range_start = d->done,
                                      .if_range = d->done ? d->validator : NULL,
                                      .reply = &d->reply,
                                      .data = d->text ? on_text_data : on_file_data,
                                      .tick = on_tick,
                                      .context = d};
  d->asked = d->done;
  d->body_begun = d->failed = d->restart = false;
  d->reply = (struct library_reply){0};
  return d->request->get(&transfer, said);
}

// The line for a person, unless a callback has left one.
static bool fail_attempt(struct download *d, enum library_transfer_end end, const char *said) {
  if (d->failed) return false;
  if (end != TRANSFER_DONE) return fail_transfer(d, end, said);
  return is_wanted(d->reply.status) ? fail_range(d) : fail_status(d, d->reply.status);
}

// One attempt: documents are small, and the person waits for them.
bool library_fetch_text(const struct library_fetch *request, struct library_text *out,
                        struct error *e) {
  struct download *d = memory_new(sizeof *d);  // two paths long: too much for a small stack
  char said[LIBRARY_SAID_MAX];
  size_t before = out->length;
  bool done = begin(d, request, e);
  if (done) {
    d->text = out;
    enum library_transfer_end end = attempt(d, said);
    done = end == TRANSFER_DONE && is_wanted(d->reply.status);
    if (!done) fail_attempt(d, end, said);
  }
  if (!done) out->data[out->length = before] = 0;
  memory_free(d);
  return done;
}

// ---- a file in several attempts

// Names the two files and goes on from what an earlier run left.  The folder must exist.
static bool open_part(struct download *d) {
  const char *path = d->request->path;
  struct world_file_info info;
  if (snprintf(d->part, sizeof d->part, "%s.part", path) >= (int)sizeof d->part ||
      snprintf(d->from, sizeof d->from, "%s.part.from", path) >= (int)sizeof d->from)
    return error_set(d->e, ERROR_INPUT, "the path %s is too long", path);
  d->file = world_open(d->world, d->part, WORLD_READ | WORLD_WRITE | WORLD_CREATE);
  if (d->file < 0) return fail_file(d, d->file, "create");
  int result = world_info_of(d->world, d->file, &info);
  if (result < 0) return fail_file(d, result, "look at");
  read_note(d);
  d->done = d->safe;
  if (d->safe > info.size) return empty_part(d);  // the note is wrong
  // Without a validator only a digest can tell whether the rest fits what we have.
  if (d->done && !d->validator[0] && !d->request->sha256) return empty_part(d);
  result = world_resize(d->world, d->file, d->done);
  return result == 0 || fail_file(d, result, "cut");
}

// 416 to a range: when the file is as long as .part, that is all of it.
static bool complete_by_416(struct download *d) {
  if (d->reply.status != 416) return false;
  if (d->asked && d->reply.range_total == d->asked) return d->resumed = true;
  d->restart = true;
  return false;
}

// Waits, telling the caller meanwhile; false when it wants to stop.
static bool wait_ms(struct download *d, int ms) {
  for (; ms > 0; ms -= 100) {
    if (!report(d, true)) return false;
    world_sleep(d->world, 100000000);
  }
  return true;
}

// Whether the attempt that just failed is worth another one.  A server that this call never reached
// is told at once; one that broke off may be back soon.
static bool is_worth_waiting(const struct download *d, enum library_transfer_end end,
                             bool reached) {
  return may_pass(d, end) ||
         (reached && (end == TRANSFER_NO_CONNECTION || end == TRANSFER_NO_HOST));
}

enum step {
  STEP_WHOLE,   // .part is the file
  STEP_MORE,    // a piece came as promised, but the server left out the rest
  STEP_ANEW,    // .part is of no use
  STEP_LATER,   // it may go better the next time
  STEP_GIVE_UP  // it will not
};

// What came of an attempt.  An empty file has no body, so nothing has looked at its head yet.
static enum step judge(struct download *d, enum library_transfer_end end, bool reached) {
  bool wanted = is_wanted(d->reply.status) || complete_by_416(d);
  bool ended = end == TRANSFER_DONE && wanted && !d->restart;
  if (ended && !d->body_begun && d->reply.status != 416) d->failed = !begin_body(d);
  if (ended && !d->failed) d->failed = !report(d, true);
  if (d->restart) return STEP_ANEW;
  if (d->failed) return STEP_GIVE_UP;
  if (!ended) return is_worth_waiting(d, end, reached) ? STEP_LATER : STEP_GIVE_UP;
  if (d->reply.status == 416 || !d->total || d->total == d->done) return STEP_WHOLE;
  return d->total > d->done ? STEP_MORE : STEP_ANEW;
}

// .part becomes complete, or false with an error; .part then stays for the next run.
static bool fill_part(struct download *d) {
  int wait = FIRST_WAIT_MS, restarts = 0;
  bool reached = false;
  uint64_t furthest = d->done;
  for (int tries = 1;; tries++) {
    char said[LIBRARY_SAID_MAX];
    enum library_transfer_end end = attempt(d, said);
    reached = reached || d->reply.status != 0;
    enum step step = judge(d, end, reached);
    if (step == STEP_WHOLE) return true;
    if (step == STEP_GIVE_UP) return fail_attempt(d, end, said);
    if (step == STEP_ANEW) {
      if (restarts++ == RESTARTS_MAX) return fail_range(d);
      if (!empty_part(d)) return false;
      continue;
    }
    bool further = d->done > furthest;
    if (further) tries = 0, wait = FIRST_WAIT_MS, furthest = d->done;
    if (further && step == STEP_MORE) continue;
    if (tries >= ATTEMPTS_MAX) return fail_attempt(d, end, said);
    if (!wait_ms(d, wait)) return false;
    wait *= 2;
  }
}

static bool digest_is_right(const struct download *d, const char *digest) {
  return !d->request->sha256 || library_same_digest(d->request->sha256, digest);
}

static void drop_part(struct download *d) {
  world_remove(d->world, d->part);
  world_remove(d->world, d->from);
}

// Fills .part and checks its digest.
static bool fetch_checked(struct download *d, char digest[65]) {
  if (!fill_part(d) || !library_sha256_file(d->world, d->part, digest, d->e)) return false;
  if (!digest_is_right(d, digest) && d->resumed) {
    if (!empty_part(d) || !fill_part(d) || !library_sha256_file(d->world, d->part, digest, d->e))
      return false;
  }
  if (digest_is_right(d, digest)) return true;
  d->done = 0;  // it goes below
  return error_set(
      d->e, ERROR_INPUT,
      "%s: the file's SHA-256 is %.16s… and should be %.16s…: it is damaged or another "
      "version, and was removed",
      d->shown_url, digest, d->request->sha256);
}

// What arrived stays in .part on failure, for the next run; .part without a byte is of no use to
// it.
bool library_fetch_file(const struct library_fetch *request, char *sha256_out, struct error *e) {
  struct download *d = memory_new(sizeof *d);
  char digest[65];
  assert(request->path);
  bool opened = begin(d, request, e) && open_part(d);
  bool whole = opened && fetch_checked(d, digest);
  bool done = whole && file_publish(d->world, d->file, d->part, request->path, e);
  if (done) world_remove(d->world, d->from);
  if (opened && !whole && d->done) checkpoint(d, NULL);
  if (opened && !whole && !d->done) drop_part(d);
  if (d->file >= 0) world_close(d->world, d->file);
  if (done && sha256_out) memcpy(sha256_out, digest, sizeof digest);
  memory_free(d);
  return done;
}
