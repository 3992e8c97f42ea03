#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds llama.cpp, the independent implementation that test/oracle compares with, from its npm package
# (node-llama-cpp carries the whole source as a git bundle), into build/oracle.  Needs git, cmake, g++ and npm; takes
# about ten minutes on two cores, nothing when it was done before.  Prints the folder with its libraries at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=node-llama-cpp@3.21.1
work=$PWD/build/oracle
bin=$work/llama.cpp/build/bin
if [ ! -x "$bin/llama-bench" ]; then
  mkdir -p "$work/npm"
  (cd "$work/npm" && npm init -y >/dev/null && npm install --ignore-scripts --no-audit --no-fund "$package" >&2)
  rm -rf "$work/llama.cpp"
  git clone -q "$work/npm/node_modules/node-llama-cpp/llama/gitRelease.bundle" "$work/llama.cpp"
  cmake -S "$work/llama.cpp" -B "$work/llama.cpp/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF >&2
  cmake --build "$work/llama.cpp/build" -j"$(nproc)" --target llama-bench llama >&2
fi
echo "$work/llama.cpp"
