# SPDX-License-Identifier: Apache-2.0
# test/fuzz/fuzz_X.c defines LLVMFuzzerTestOneInput.  With clang it is linked with libFuzzer; test/support holds a
# plain main that replays test/fuzz/corpus/X in every ordinary test run (cmake/tests.cmake).
file(GLOB fuzz_sources CONFIGURE_DEPENDS test/fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE motley_all)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
