// SPDX-License-Identifier: Apache-2.0
//
// fetch.h: downloads, for `motley pull`: resumable, checked, with progress.  Blocks its caller.
//
// https is libcurl's job, loaded at run time (libcurl.so.4, or its gnutls build): proxies,
// certificates, redirects and .netrc then behave as the user's other tools do.  A machine without
// it gets one line saying what to install.
#pragma once

#include "base/base.h"

struct fetch_request {
  const char *url;  // http: or https:
  // where the file goes; while incomplete it is `path`.part, which a later call resumes
  const char *path;
  const char *sha256;  // 64 hex digits to check against, or NULL
  const char *token;   // sent as "Authorization: Bearer" to the first host only, or NULL
  // Called about ten times a second; total 0 = unknown.  Returns false to stop (ERROR_CANCELLED;
  // .part is kept).
  bool (*progress)(void *context, uint64_t done, uint64_t total);
  void *context;
};
// On success the file is complete, synced, checked and named `path`; sha256_out (65 bytes, may be
// NULL) gets its digest.  Errors name the URL and the reason: no network, HTTP status, disk full,
// digest mismatch (the file is then removed).
bool fetch_file(const struct fetch_request *request, char *sha256_out, struct error *e);
// A small document appended to *out; more than `limit` bytes are an error.
bool fetch_text(const char *url, const char *token, size_t limit, struct buffer *out,
                struct error *e);

// SHA-256 of a file, read from start to end, as 64 lower-case hex digits and a NUL.
bool fetch_sha256_file(const char *path, char out[65], struct error *e);
// The same of bytes in memory; cannot fail.
void fetch_sha256(const void *data, size_t length, char out[65]);
