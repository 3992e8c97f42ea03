#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fuzz.sh [--merge] [--jobs N] [SECONDS] [TARGET…]: libFuzzer on every parser, or on those named.
#
#   scripts/fuzz.sh                 600 s each
#   scripts/fuzz.sh 60 gguf json    a minute each on two of them
#   scripts/fuzz.sh --merge         also takes what reached new code, minimised, into the corpus
#
# A target X is test/fuzz/fuzz_X.c; it starts from test/fuzz/corpus/X and an optional dictionary
# test/fuzz/X.dict.  What it finds goes to build/fuzz/found/X (new inputs) and build/fuzz/crash/X
# (failures); logs to build/fuzz/X.log.  Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.."

merge=0 jobs=1 seconds=600 targets=()
while (($#)); do
  case "$1" in
    --merge) merge=1 ;;
    --jobs) jobs=${2:?--jobs needs a number} && shift ;;
    -h | --help) sed -n '3,14s/^# \{0,1\}//p' "$0" && exit 0 ;;
    -*) echo "fuzz: unknown option $1; see --help" >&2 && exit 2 ;;
    *[!0-9]*) targets+=("${1#fuzz_}") ;;
    *) seconds=$1 ;;
  esac
  shift
done
if ((${#targets[@]} == 0)); then
  for file in test/fuzz/fuzz_*.c; do
    [[ -e $file ]] && name=${file##*/fuzz_} && targets+=("${name%.c}")
  done
fi
for target in "${targets[@]}"; do
  [[ -f test/fuzz/fuzz_$target.c ]] && continue
  echo "fuzz: there is no test/fuzz/fuzz_$target.c" >&2
  exit 2
done
((${#targets[@]})) || { echo "fuzz: no target in test/fuzz" >&2 && exit 2; }

scripts/install-dependencies.sh test || exit 1
scripts/build.sh fuzz fuzzers >build/fuzz-build.log 2>&1 || {
  cat build/fuzz-build.log >&2
  echo "fuzz: the build failed" >&2
  exit 1
}

fuzz_one() { # target; runs in a process of its own, which becomes the fuzzer
  local found=build/fuzz/found/$1 crash=build/fuzz/crash/$1 corpus=test/fuzz/corpus/$1
  local options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1)
  mkdir -p "$found" "$crash" "$corpus"
  [[ ! -f test/fuzz/$1.dict ]] || options+=(-dict=test/fuzz/$1.dict)
  exec build/fuzz/fuzz_"$1" "${options[@]}" -artifact_prefix="$crash/" "$found" "$corpus" \
    >build/fuzz/"$1".log 2>&1 </dev/null
}

# New inputs that reach code which the corpus does not, smallest first, under their hash as name.
merge_one() { # target
  build/fuzz/fuzz_"$1" -merge=1 "test/fuzz/corpus/$1" "build/fuzz/found/$1" \
    >>build/fuzz/"$1".log 2>&1 </dev/null
}

figure() { # log, name of a statistic
  sed -n "s/^stat::$2: *//p" "$1" | tail -n 1
}

report_one() { # target, status
  local log=build/fuzz/$1.log
  local runs features
  runs=$(figure "$log" number_of_executed_units)
  features=$(sed -n 's/.* ft: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  if (($2 == 0)); then
    printf '%-12s ok      %12s executions, %s features, %s new inputs\n' "$1" "${runs:-?}" \
      "${features:-?}" "$(ls "build/fuzz/found/$1" | wc -l)"
  else
    printf '%-12s FAILED  %12s executions; input in build/fuzz/crash/%s, log in %s\n' "$1" \
      "${runs:-?}" "$1" "$log"
    grep -m 3 '^SUMMARY\|runtime error\|ERROR: ' "$log" | sed 's/^/    /'
  fi
}

passed=0 failed=0 running=()
finish_oldest() {
  local target=${running[0]%%:*} process=${running[0]##*:} status=0
  running=("${running[@]:1}")
  wait "$process" || status=$?
  report_one "$target" "$status"
  if ((status == 0)); then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  ((!merge || status)) || merge_one "$target"
}
stop_all() {
  trap - INT TERM
  for entry in "${running[@]}"; do kill "${entry##*:}" 2>/dev/null; done
  exit 130
}
trap stop_all INT TERM

for target in "${targets[@]}"; do
  ((${#running[@]} < jobs)) || finish_oldest
  fuzz_one "$target" &
  running+=("$target:$!")
done
while ((${#running[@]})); do finish_oldest; done
echo "$passed passed, $failed failed"
((failed == 0))
