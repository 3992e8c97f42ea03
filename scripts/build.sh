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
exec cmake --build "$folder" "$@"
