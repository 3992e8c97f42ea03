// SPDX-License-Identifier: Apache-2.0
//
// assets.h: the web page, compiled into the program.
//
// cmake/assets.cmake writes ${CMAKE_BINARY_DIR}/generated/assets.c, which defines the two symbols
// below.  A file may stand there several times, once per encoding; the server picks by
// Accept-Encoding and needs at least one entry per path.  The page itself has the path "/".
#pragma once

#include <stddef.h>

struct server_asset {
  const char *path;          // as requested, decoded: "/", "/assets/app.4f2a9c01.js"
  const char *content_type;  // "text/html; charset=utf-8"
  const char *encoding;      // "br", "gzip", or "" for the plain bytes
  const char *etag;          // with its quotes: "\"4f2a9c01\"", one per content and encoding
  const unsigned char *data;
  size_t size;  // bytes of data
};

// Any order.  Paths below /assets/ carry a hash of their content in the name, so they may be cached
// for ever.
extern const struct server_asset server_assets[];
extern const int server_asset_count;
