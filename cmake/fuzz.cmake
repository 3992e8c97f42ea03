# SPDX-License-Identifier: Apache-2.0
# test/fuzz/fuzz_X.c defines LLVMFuzzerTestOneInput (test/support/fuzz.h).  Here it is linked with
# libFuzzer, which needs clang; scripts/fuzz.sh runs it.  Ordinary test runs replay the corpus
# instead (cmake/tests.cmake).
file(GLOB fuzz_sources CONFIGURE_DEPENDS test/fuzz/fuzz_*.c)
file(GLOB support_sources CONFIGURE_DEPENDS test/support/*.c)
list(FILTER support_sources EXCLUDE REGEX "/replay_main\\.c$")
add_custom_target(fuzzers)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source} ${support_sources})
  target_include_directories(${name} PRIVATE test)
  target_link_libraries(${name} PRIVATE motley_all)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endforeach()
