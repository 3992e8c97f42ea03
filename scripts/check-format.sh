#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check-format.sh: all C code is as clang-format-14 would write it (`make format` does).
# One line per file that is not, then "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
command -v clang-format-14 >/dev/null || { echo "check-format: clang-format-14 is missing" >&2 && exit 1; }
total=0
bad=0
while IFS= read -r file; do
  total=$((total + 1))
  place=$(clang-format-14 --dry-run -Werror "$file" 2>&1 | grep -m 1 -o '^[^ ]*:[0-9]*:[0-9]*') || continue
  echo "${place%:*}: format: differs from here on; run make format"
  bad=$((bad + 1))
done < <(find src test bench -name '*.[ch]' 2>/dev/null | sort)
echo "$((total - bad)) passed, $bad failed"
((bad == 0))
