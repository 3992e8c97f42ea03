// SPDX-License-Identifier: Apache-2.0
//
// curl.h: libcurl, loaded at run time.  Only curl.c uses it.
//
// The prototypes and numbers are libcurl's documented C interface, which has been stable since
// soname 4 (2006); they are written down here so that neither building nor starting Motley needs
// libcurl.  A test compares the numbers with the system's <curl/curl.h> where that is installed.
#pragma once

#include "base/base.h"

// An option's number says the type of its value: long below 10,000, pointer, function from 20,000,
// 64-bit from 30,000.
enum curl_option {
  CURL_OPTION_LOW_SPEED_LIMIT = 19,  // long, bytes per second
  CURL_OPTION_LOW_SPEED_TIME = 20,   // long, seconds
  CURL_OPTION_NOPROGRESS = 43,
  CURL_OPTION_NETRC = 51,
  CURL_OPTION_FOLLOWLOCATION = 52,
  CURL_OPTION_MAXREDIRS = 68,
  CURL_OPTION_CONNECTTIMEOUT = 78,  // long, seconds
  CURL_OPTION_BUFFERSIZE = 98,
  CURL_OPTION_NOSIGNAL = 99,
  CURL_OPTION_PROTOCOLS = 181,
  CURL_OPTION_REDIR_PROTOCOLS = 182,
  CURL_OPTION_WRITEDATA = 10001,
  CURL_OPTION_URL = 10002,
  CURL_OPTION_RANGE = 10007,
  CURL_OPTION_ERRORBUFFER = 10010,
  CURL_OPTION_USERAGENT = 10018,
  CURL_OPTION_HTTPHEADER = 10023,
  CURL_OPTION_HEADERDATA = 10029,
  CURL_OPTION_XFERINFODATA = 10057,
  CURL_OPTION_CAINFO = 10065,
  CURL_OPTION_CAPATH = 10097,
  CURL_OPTION_WRITEFUNCTION = 20011,
  CURL_OPTION_HEADERFUNCTION = 20079,
  CURL_OPTION_XFERINFOFUNCTION = 20219,
};
enum curl_protocol { CURL_PROTOCOL_HTTP = 1, CURL_PROTOCOL_HTTPS = 2 };
enum { CURL_NETRC_WHEN_THERE = 1, CURL_GLOBAL_ALL_PARTS = 3, CURL_ERROR_BYTES = 256 };
enum { CURL_INFO_RESPONSE_CODE = 0x200002 };

enum curl_code {
  CURL_OK = 0,
  CURL_UNSUPPORTED_PROTOCOL = 1,
  CURL_BAD_URL = 3,
  CURL_NO_PROXY_HOST = 5,
  CURL_NO_HOST = 6,
  CURL_NO_CONNECTION = 7,
  CURL_HTTP2_ERROR = 16,
  CURL_PARTIAL_FILE = 18,
  CURL_WRITE_FAILED = 23,
  CURL_TIMED_OUT = 28,
  CURL_TLS_HANDSHAKE = 35,
  CURL_STOPPED_BY_CALLBACK = 42,
  CURL_TOO_MANY_REDIRECTS = 47,
  CURL_GOT_NOTHING = 52,
  CURL_SEND_FAILED = 55,
  CURL_RECEIVE_FAILED = 56,
  CURL_TLS_CERTIFICATE = 60,
  CURL_TLS_CA_FILE = 77,
};

struct curl_list;  // of header lines

// The functions in use.  Owned by the caller; the library stays loaded until the process ends,
// because the TLS library below it registers exit handlers.
struct library_curl {
  int (*global_init)(long flags);
  void *(*easy_init)(void);
  int (*easy_setopt)(void *handle, int option, ...);
  int (*easy_perform)(void *handle);
  int (*easy_getinfo)(void *handle, int info, ...);
  void (*easy_reset)(void *handle);
  void (*easy_cleanup)(void *handle);
  const char *(*easy_strerror)(int code);
  struct curl_list *(*slist_append)(struct curl_list *list, const char *line);
  void (*slist_free_all)(struct curl_list *list);
};
// Finds libcurl and fills *c; ERROR_MISSING says what to install.
bool library_curl_load(struct library_curl *c, struct error *e);
