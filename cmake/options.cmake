# SPDX-License-Identifier: Apache-2.0
# How code is compiled, everywhere.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
option(MOTLEY_TESTS "build the tests" ON)
option(MOTLEY_FUZZ "build the libFuzzer targets (clang)" OFF)
option(MOTLEY_STRIP "strip the program" OFF)
set(MOTLEY_SANITIZE "" CACHE STRING "sanitizers: address,undefined or thread")

add_compile_options(-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
                    -fno-strict-aliasing -fno-math-errno -ffp-contract=off -fvisibility=hidden)
add_compile_definitions(_GNU_SOURCE MOTLEY_VERSION="${PROJECT_VERSION}")
include_directories(${CMAKE_SOURCE_DIR}/src)
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections -Wl,-z,relro,-z,now)

if(MOTLEY_SANITIZE)
  if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    # gcc's own advice: the sanitizers' code makes this warning see things.  The release build has it.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  add_compile_options(-fsanitize=${MOTLEY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  add_link_options(-fsanitize=${MOTLEY_SANITIZE})
endif()

set(MOTLEY_avx2_FLAGS -mavx2 -mfma -mf16c -mbmi2)
set(MOTLEY_avx512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mfma -mf16c -mbmi2
    -mprefer-vector-width=512)
