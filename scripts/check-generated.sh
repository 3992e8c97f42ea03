#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check-generated.sh [--write]: files that a program wrote are as that program writes them today.
#
# Each row of the table is "PATH  COMMAND".  For a file the command writes all of it to its standard output.  For a
# folder (a path that ends with /) it writes files into that folder; it is run in a copy of test/, and the two folders
# are compared.  What differs is reported with the first line that does; --write puts the new text in its place.
# One line per difference, then "N passed, N failed", counted in rows.
set -u
cd "$(dirname "$0")/.."
generated='
src/template/unicode_tables.h  python3 scripts/make_template_unicode.py
test/fuzz/corpus/zip/          python3 test/fuzz/make_zip_corpus.py
'
passed=0 failed=0
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

differ() { # path committed, path fresh, command
  [[ -e $1 ]] || { echo "$1: generated: is not in the repository, but \"$3\" writes it" && return; }
  echo "$1: generated: differs from what \"$3\" writes; run scripts/check-generated.sh --write"
  diff --text "$1" "$2" | grep -a -m 2 '^[<>]' | cut -c 1-160
}

while read -r path command; do
  [[ -n $path ]] || continue
  mkdir -p "$copy/$(dirname "$path")"
  if [[ $path == */ ]]; then
    cp -r test "$copy/" && (cd "$copy" && $command) >/dev/null
  else
    $command >"$copy/$path"
  fi || {
    echo "$path: generated: \"$command\" failed"
    failed=$((failed + 1))
    continue
  }
  good=1
  while IFS= read -r fresh; do
    cmp -s "$fresh" "${fresh#"$copy"/}" && continue
    if [[ ${1:-} == --write ]]; then cp "$fresh" "${fresh#"$copy"/}"; continue; fi
    differ "${fresh#"$copy"/}" "$fresh" "$command"
    good=0
  done < <(find "$copy/$path" -type f | sort)
  passed=$((passed + good)) failed=$((failed + 1 - good))
done <<<"$generated"
echo "$passed passed, $failed failed"
((failed == 0))
