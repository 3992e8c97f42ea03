// SPDX-License-Identifier: Apache-2.0
//
// curl.c: the transport of the real world: libcurl, found on this machine at run time.
//
// Proxies, certificates, redirects and .netrc then behave as the user's other tools do.  Its
// functions are taken by name; its sockets are its own, which is why nothing simulated can use it.
// What it reports is put into the words of transport.h: header lines become a reply, its codes
// become ends.

#include "library/curl.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library/transport.h"

#define STALL_RATE \
  1L  // bytes per second: below it for LIBRARY_STALL_SECONDS is a broken connection
#define PIECE_BYTES (256 * 1024L)

// Debian's two builds (OpenSSL, GnuTLS) and, last, the name that development packages link.
static const char *const LIBRARIES[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};

// The names in the order of the fields of struct library_curl.
static const char *const SYMBOLS[] = {
    "curl_global_init",  "curl_easy_init",      "curl_easy_setopt",  "curl_easy_perform",
    "curl_easy_getinfo", "curl_easy_reset",     "curl_easy_cleanup", "curl_easy_strerror",
    "curl_slist_append", "curl_slist_free_all",
};
_Static_assert(sizeof(struct library_curl) == COUNT_OF(SYMBOLS) * sizeof(void *),
               "one name per function");

// All or nothing: a library in which one function is missing is not used.
bool library_curl_load(struct library_curl *c, struct error *e) {
  void *library = NULL;
  for (size_t i = 0; i < COUNT_OF(LIBRARIES) && !library; i++)
    library = dlopen(LIBRARIES[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    return error_set(e, ERROR_MISSING,
                     "downloads need libcurl, and none of %s, %s is here: install it, on Debian "
                     "with \"apt-get install libcurl4\"",
                     LIBRARIES[0], LIBRARIES[1]);
  }
  void *functions[COUNT_OF(SYMBOLS)];
  for (size_t i = 0; i < COUNT_OF(SYMBOLS); i++) {
    functions[i] = dlsym(library, SYMBOLS[i]);
    if (functions[i]) continue;
    dlclose(library);
    return error_set(e, ERROR_MISSING,
                     "the libcurl of this machine has no %s: it is too old or damaged", SYMBOLS[i]);
  }
  memcpy(c, functions, sizeof functions);
  c->global_init(CURL_GLOBAL_ALL_PARTS);
  return true;
}

// ---- one request

struct carrying {
  const struct library_transfer *transfer;
  struct library_curl curl;
  void *handle;
  struct curl_list *headers;
};

// Called once a line, for every answer on the way: redirects and proxies send headers too, so each
// status line begins anew.
static size_t on_header(char *data, size_t size, size_t count, void *context) {
  const struct carrying *c = context;
  struct library_reply *r = c->transfer->reply;
  struct str line = {data, size * count};
  const char *colon = memchr(data, ':', line.length);
  if (str_starts(line, STR("HTTP/"))) {
    *r = (struct library_reply){0};
    const char *space = memchr(data, ' ', line.length);
    if (space && data + line.length - space > 3)
      r->status = (space[1] - '0') * 100 + (space[2] - '0') * 10 + (space[3] - '0');
  } else if (colon) {
    struct str value = {colon + 1, line.length - (size_t)(colon + 1 - data)};
    library_reply_header(r, (struct str){data, (size_t)(colon - data)}, str_trim(value));
  }
  return line.length;
}

// libcurl reads less than was given as a failure of the transfer.
static size_t on_data(char *data, size_t size, size_t count, void *context) {
  const struct carrying *c = context;
  struct str bytes = {data, size * count};
  return c->transfer->data(c->transfer->context, bytes) ? bytes.length : 0;
}

static int on_progress(void *context, int64_t a, int64_t b, int64_t c, int64_t d) {
  const struct carrying *carrying = context;
  (void)a, (void)b, (void)c, (void)d;
  return carrying->transfer->tick(carrying->transfer->context) ? 0 : 1;
}

// The variables that the curl program honours and the library does not.
static void set_authorities(struct carrying *c) {
  const char *bundle = getenv("CURL_CA_BUNDLE"), *file = getenv("SSL_CERT_FILE"),
             *folder = getenv("SSL_CERT_DIR");
  if (!bundle || !bundle[0]) bundle = file;
  if (bundle && bundle[0]) c->curl.easy_setopt(c->handle, CURL_OPTION_CAINFO, bundle);
  if (folder && folder[0]) c->curl.easy_setopt(c->handle, CURL_OPTION_CAPATH, folder);
}

static bool add_header(struct carrying *c, const char *name, const char *value) {
  struct buffer line = {0};
  buffer_print(&line, "%s%s", name, value);
  struct curl_list *longer = c->curl.slist_append(c->headers, line.data);
  if (longer) c->headers = longer;
  buffer_clear(&line);
  return longer != NULL;
}

static void set_numbers(struct carrying *c) {
  static const struct {
    int option;
    long value;
  } numbers[] = {
      {CURL_OPTION_NOSIGNAL, 1},
      {CURL_OPTION_NOPROGRESS, 0},
      {CURL_OPTION_FOLLOWLOCATION, 1},
      {CURL_OPTION_MAXREDIRS, LIBRARY_REDIRECTS_MAX},
      {CURL_OPTION_NETRC, CURL_NETRC_WHEN_THERE},
      {CURL_OPTION_CONNECTTIMEOUT, LIBRARY_CONNECT_SECONDS},
      {CURL_OPTION_LOW_SPEED_LIMIT, STALL_RATE},
      {CURL_OPTION_LOW_SPEED_TIME, LIBRARY_STALL_SECONDS},
      {CURL_OPTION_PROTOCOLS, CURL_PROTOCOL_HTTP | CURL_PROTOCOL_HTTPS},
      {CURL_OPTION_REDIR_PROTOCOLS, CURL_PROTOCOL_HTTP | CURL_PROTOCOL_HTTPS},
      {CURL_OPTION_BUFFERSIZE, PIECE_BYTES},
  };
  for (size_t i = 0; i < COUNT_OF(numbers); i++)
    c->curl.easy_setopt(c->handle, numbers[i].option, numbers[i].value);
}

// libcurl itself drops an Authorization header when a redirect leads to another host.  A range is
// asked for only where there is something to continue, so a fresh download works with any server.
// False when there is no memory.
static bool set_up(struct carrying *c, char said[LIBRARY_SAID_MAX]) {
  const struct library_transfer *t = c->transfer;
  char range[32];
  set_numbers(c);
  set_authorities(c);
  c->curl.easy_setopt(c->handle, CURL_OPTION_URL, t->url);
  c->curl.easy_setopt(c->handle, CURL_OPTION_USERAGENT, "motley/" MOTLEY_VERSION);
  c->curl.easy_setopt(c->handle, CURL_OPTION_ERRORBUFFER, said);
  c->curl.easy_setopt(c->handle, CURL_OPTION_HEADERFUNCTION, on_header);
  c->curl.easy_setopt(c->handle, CURL_OPTION_HEADERDATA, c);
  c->curl.easy_setopt(c->handle, CURL_OPTION_WRITEFUNCTION, on_data);
  c->curl.easy_setopt(c->handle, CURL_OPTION_WRITEDATA, c);
  c->curl.easy_setopt(c->handle, CURL_OPTION_XFERINFOFUNCTION, on_progress);
  c->curl.easy_setopt(c->handle, CURL_OPTION_XFERINFODATA, c);
  snprintf(range, sizeof range, "%llu-", (unsigned long long)t->range_start);
  if (t->range_start) c->curl.easy_setopt(c->handle, CURL_OPTION_RANGE, range);
  bool done = true;
  if (t->if_range && t->if_range[0]) done = add_header(c, "If-Range: ", t->if_range);
  if (t->token && t->token[0]) done = done && add_header(c, "Authorization: Bearer ", t->token);
  c->curl.easy_setopt(c->handle, CURL_OPTION_HTTPHEADER, c->headers);
  return done;
}

static const struct {
  int code;
  enum library_transfer_end end;
} ENDS[] = {
    {CURL_OK, TRANSFER_DONE},
    {CURL_UNSUPPORTED_PROTOCOL, TRANSFER_BAD_SCHEME},
    {CURL_BAD_URL, TRANSFER_BAD_URL},
    {CURL_NO_PROXY_HOST, TRANSFER_NO_PROXY},
    {CURL_NO_HOST, TRANSFER_NO_HOST},
    {CURL_NO_CONNECTION, TRANSFER_NO_CONNECTION},
    {CURL_HTTP2_ERROR, TRANSFER_BROKEN},
    {CURL_PARTIAL_FILE, TRANSFER_BROKEN},
    {CURL_WRITE_FAILED, TRANSFER_STOPPED},
    {CURL_TIMED_OUT, TRANSFER_SILENT},
    {CURL_TLS_HANDSHAKE, TRANSFER_NO_TLS},
    {CURL_STOPPED_BY_CALLBACK, TRANSFER_STOPPED},
    {CURL_TOO_MANY_REDIRECTS, TRANSFER_CIRCLES},
    {CURL_GOT_NOTHING, TRANSFER_HUNG_UP},
    {CURL_SEND_FAILED, TRANSFER_BROKEN},
    {CURL_RECEIVE_FAILED, TRANSFER_BROKEN},
    {CURL_TLS_CERTIFICATE, TRANSFER_CERTIFICATE},
    {CURL_TLS_CA_FILE, TRANSFER_AUTHORITIES},
};

static enum library_transfer_end end_of(int code) {
  for (size_t i = 0; i < COUNT_OF(ENDS); i++)
    if (ENDS[i].code == code) return ENDS[i].end;
  return TRANSFER_OTHER;
}

enum library_transfer_end library_curl_get(const struct library_transfer *t,
                                           char said[LIBRARY_SAID_MAX]) {
  struct carrying c = {.transfer = t};
  struct error e = {0};
  assert(t->reply && t->data && t->tick);
  _Static_assert(LIBRARY_SAID_MAX == CURL_ERROR_BYTES, "libcurl writes into it");
  *t->reply = (struct library_reply){0};
  said[0] = 0;
  if (!library_curl_load(&c.curl, &e)) {
    snprintf(said, LIBRARY_SAID_MAX, "%.*s", LIBRARY_SAID_MAX - 1, e.text);
    return TRANSFER_NO_CARRIER;
  }
  enum library_transfer_end end = TRANSFER_OTHER;
  c.handle = c.curl.easy_init();
  if (c.handle && set_up(&c, said)) {
    int code = c.curl.easy_perform(c.handle);
    end = end_of(code);
    if (code != CURL_OK && !said[0])
      snprintf(said, LIBRARY_SAID_MAX, "%s", c.curl.easy_strerror(code));
  } else {
    snprintf(said, LIBRARY_SAID_MAX, "libcurl has no memory to begin");
  }
  if (c.handle) c.curl.easy_cleanup(c.handle);
  if (c.headers) c.curl.slist_free_all(c.headers);
  return end;
}
