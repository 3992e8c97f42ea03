# SPDX-License-Identifier: Apache-2.0
# Libraries from Debian packages, linked statically (docs/decisions.md says why each).
find_package(Threads REQUIRED)
find_path(LLHTTP_HEADERS llhttp.h PATHS /usr/share/include/llhttp REQUIRED NO_CACHE)
find_path(LLHTTP_SOURCES llhttp.c PATHS /usr/share/llhttp REQUIRED NO_CACHE)
function(find_static variable name)
  find_library(${variable} lib${name}.a REQUIRED)
endfunction()
find_static(JANSSON_LIBRARY jansson)
find_static(PCRE2_LIBRARY pcre2-8)
find_static(ZLIB_LIBRARY z)
# libedit stands on libbsd, libmd and the terminal database.
find_static(EDIT_LIBRARY edit)
find_static(BSD_LIBRARY bsd)
find_static(MD_LIBRARY md)
find_static(TINFO_LIBRARY tinfo)

add_library(llhttp STATIC ${LLHTTP_SOURCES}/api.c ${LLHTTP_SOURCES}/http.c ${LLHTTP_SOURCES}/llhttp.c)
target_compile_options(llhttp PRIVATE -w -O2)
target_compile_definitions(llhttp PRIVATE LLHTTP_STRICT_MODE=1)
target_include_directories(llhttp SYSTEM PUBLIC ${LLHTTP_HEADERS})
include_directories(SYSTEM ${LLHTTP_HEADERS})
add_compile_definitions(PCRE2_CODE_UNIT_WIDTH=8)
set(MOTLEY_LIBRARIES llhttp ${JANSSON_LIBRARY} ${PCRE2_LIBRARY} ${ZLIB_LIBRARY} ${EDIT_LIBRARY} ${BSD_LIBRARY} ${MD_LIBRARY}
    ${TINFO_LIBRARY} Threads::Threads dl m)
