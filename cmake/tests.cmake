# SPDX-License-Identifier: Apache-2.0
#
# Three kinds of tests, found by their names:
#   test/<room>/test_X.c            a cmocka program                    <room>.X
#   test/<room>/X.test.sh, .py      drives the real binary              <room>.X.sh, <room>.X.py
#   test/fuzz/fuzz_X.c              replays test/fuzz/corpus/X/*        replay.X
# Every test runs in the source folder with MOTLEY_BINARY and MOTLEY_BUILD set; exit 77 = skipped.
find_library(CMOCKA_LIBRARY cmocka REQUIRED)
file(GLOB test_sources CONFIGURE_DEPENDS test/*/test_*.c)
list(FILTER test_sources EXCLUDE REGEX "/support/")
file(GLOB support_sources CONFIGURE_DEPENDS test/support/*.c)
list(FILTER support_sources EXCLUDE REGEX "/replay_main\\.c$")
if(support_sources)
  add_library(test_support STATIC ${support_sources})
  target_include_directories(test_support PUBLIC test)
endif()

# A room that programs outside of this house may use alone is linked alone into its tests: should it
# need more than the rooms named here, they do not link.
set(test_libraries_api api base ${JANSSON_LIBRARY} Threads::Threads m)

# A small model with the text that it must tell, so that tests need no file from elsewhere.
set(story ${CMAKE_BINARY_DIR}/story)
add_custom_command(
  OUTPUT ${story}/story.txt
  COMMAND python3 test/support/story.py ${story}
  DEPENDS test/support/story.py
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
  COMMENT "Making the story model"
  VERBATIM)
add_custom_target(story ALL DEPENDS ${story}/story.txt)

foreach(source IN LISTS test_sources)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(room ${folder} NAME)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "" name ${name})
  set(target test_${room}_${name})
  add_executable(${target} ${source})
  target_include_directories(${target} PRIVATE test)
  if(DEFINED test_libraries_${room})
    target_link_libraries(${target} PRIVATE ${test_libraries_${room}} ${CMOCKA_LIBRARY})
  else()
    target_link_libraries(${target} PRIVATE $<TARGET_NAME_IF_EXISTS:test_support> motley_all
                          ${CMOCKA_LIBRARY})
  add_dependencies(${target} story)
  endif()
  add_test(NAME ${room}.${name} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  list(APPEND all_tests ${room}.${name})
endforeach()

file(GLOB script_tests CONFIGURE_DEPENDS test/*/*.test.sh test/*/*.test.py)
foreach(script IN LISTS script_tests)
  get_filename_component(folder ${script} DIRECTORY)
  get_filename_component(room ${folder} NAME)
  get_filename_component(file ${script} NAME)
  string(REPLACE .test. . name ${file})
  if(script MATCHES "\\.py$")
    set(interpreter python3)
  else()
    set(interpreter bash)
  endif()
  add_test(NAME ${room}.${name} COMMAND ${interpreter} ${script}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  list(APPEND all_tests ${room}.${name})
endforeach()

# The fuzz targets with a plain main (test/support/replay_main.c), so that what a fuzzer once found
# stays found, with gcc too.
file(GLOB fuzz_sources CONFIGURE_DEPENDS test/fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name ${name})
  add_executable(replay_${name} ${source} test/support/replay_main.c)
  target_include_directories(replay_${name} PRIVATE test)
  target_link_libraries(replay_${name} PRIVATE $<TARGET_NAME_IF_EXISTS:test_support> motley_all)
  add_test(NAME replay.${name} COMMAND replay_${name} test/fuzz/corpus/${name}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  list(APPEND all_tests replay.${name})
endforeach()

if(all_tests)
  set_tests_properties(${all_tests} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
    ENVIRONMENT "MOTLEY_BINARY=${CMAKE_BINARY_DIR}/motley;MOTLEY_BUILD=${CMAKE_BINARY_DIR}")
endif()
# What .ci/run repeats under the thread sanitizer: `ctest -L threads`.
foreach(test IN LISTS all_tests)
  if(test MATCHES "^(base|net|device|engine|server|kernel)\\.")
    set_tests_properties(${test} PROPERTIES LABELS threads)
  endif()
endforeach()
