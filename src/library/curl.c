// SPDX-License-Identifier: Apache-2.0
//
// curl.c: finds libcurl on this machine and takes its functions by name.

#include "library/curl.h"

#include <dlfcn.h>
#include <string.h>

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
