#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test.sh [CTEST ARGUMENT…]: every test under address and undefined-behaviour sanitizers.
#
#   scripts/test.sh                 all of them
#   scripts/test.sh -R kernel       those whose name matches
#   PRESET=tsan scripts/test.sh -L threads
#
# Ends with a line for each test that was skipped and why, then "N passed, N failed, N skipped".  Fails when a test
# failed, none ran, or the build did; with STRICT_SKIPS=1 also when a skip is not in test/skips.txt.
set -u
cd "$(dirname "$0")/.."
preset=${PRESET:-asan}
folder=build/$preset

stop() {
  echo "test: $*" >&2
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}

scripts/install-dependencies.sh test || stop "what the tests need is not there"
scripts/build.sh "$preset" || stop "the build failed"
eval "$(scripts/test-inputs.sh "$folder/motley")"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
# gcc 12's thread sanitizer cannot place its shadow where the kernel spreads addresses widely.
wrapper=()
[[ $preset != tsan ]] || ! setarch -R true 2>/dev/null || wrapper=(setarch -R)

jobs=$(nproc)
results=$PWD/$folder/tests.xml
rm -f "$results"
"${wrapper[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error \
  --test-output-size-passed 4000000 -j "$jobs" --output-junit "$results" "$@" </dev/null
status=$?
[[ -f $results ]] || stop "ctest ran no test"

# Skipped tests with their reasons, then the sums.
summary=$(scripts/test-summary.py "$results")
summary_status=$?
if ((status != 0 && summary_status == 0)); then
  echo "test: ctest ended with status $status" >&2
  summary=$(sed 's/^\([0-9]* passed\), 0 failed/\1, 1 failed/' <<<"$summary")
fi
echo "$summary"
((status == 0 && summary_status == 0))
