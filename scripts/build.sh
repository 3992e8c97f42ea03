#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh PRESET [TARGET…]: configures build/PRESET (release: build) when that is due, then builds.
# Presets are in CMakePresets.json.  New source files need no configuring: the globs are re-checked.
set -eu
cd "$(dirname "$0")/.."
preset=${1:?build.sh needs a preset: release debug asan tsan clang fuzz}
shift
folder=build
[[ $preset == release ]] || folder=build/$preset
if [[ ! -f $folder/build.ninja || CMakePresets.json -nt $folder/build.ninja ]]; then
  mkdir -p "$folder"
  if ! cmake --preset "$preset" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    echo "build: configuring the preset \"$preset\" failed (see above)" >&2
    exit 1
  fi
fi
if (($#)); then set -- --target "$@"; fi

# Ninja says that it looked for new files and found nothing to do, each time; who builds in order to
# run does not need that.  Progress stays: on a terminal in one line, as without the pipe.
show() {
  local line progress='^\[[0-9]+/[0-9]+\] ' open=
  while IFS= read -r line || [[ -n $line ]]; do
    case $line in *"Re-checking globbed directories..." | "ninja: no work to do.") continue ;; esac
    if [[ -t 1 && $line =~ $progress ]]; then
      printf '\r\033[K%.*s' $((${COLUMNS:-80} - 1)) "$line"
      open=1
    else
      printf '%s%s\n' "${open:+$'\n'}" "$line"
      open=
    fi
  done
  [[ -z $open ]] || echo
}
set -o pipefail
cmake --build "$folder" "$@" 2>&1 | show
