#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check-binary.sh [FILE]: the program is small and starts on every Linux that it promises to.
#
#   size      stripped, under 4,000,000 bytes
#   glibc     asks for no symbol newer than glibc 2.34 (RHEL 9, Ubuntu 22.04, Debian 12)
#   needed    loads nothing but libc, libm and the dynamic linker; vendor libraries come by dlopen
#   hardened  position independent, relocations read-only, stack not executable, no search path
# One line per violation, then "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
binary=${1:-build/motley}
size_limit=4000000
glibc_limit=2.34

passed=0 failed=0
report() { # name, complaint or nothing
  if [[ -z $2 ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "$binary: $1: $2"
  fi
}

[[ -f $binary ]] || {
  report size "there is no such file; run make first"
  echo "$passed passed, $failed failed"
  exit 1
}

stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$binary" || exit 1
bytes=$(stat -c %s "$stripped")
((bytes < size_limit)) && complaint= || complaint="$bytes bytes stripped, the limit is $size_limit"
report size "$complaint"

# "GLIBC_2.36 name" of each undefined symbol that is too new.
newer=$(objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*[) ].*' | tr -d ')' | while read -r version name; do
  number=${version#GLIBC_}
  lowest=$(printf '%s\n' "$number" "$glibc_limit" | sort -V | head -n 1)
  [[ $number == "$glibc_limit" || $lowest == "$number" ]] || echo "$name ($version)"
done | sort -u | paste -sd ' ')
report glibc "${newer:+newer than $glibc_limit: $newer}"

needed=$(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -v -x 'libc\.so\.6\|libm\.so\.6\|ld-linux-x86-64\.so\.2\|ld-linux-aarch64\.so\.1' | paste -sd ' ')
report needed "${needed:+loads $needed}"

weak=
readelf -hW "$binary" | grep -q 'Type: *DYN' || weak+="not position independent; "
readelf -lW "$binary" | grep -q 'GNU_STACK.*RW ' || weak+="the stack is executable; "
readelf -lW "$binary" | grep -q GNU_RELRO || weak+="relocations stay writable; "
readelf -dW "$binary" | grep -q 'BIND_NOW\|FLAGS_1.*NOW' || weak+="symbols are bound late; "
readelf -dW "$binary" | grep -q 'RPATH\|RUNPATH\|TEXTREL' && weak+="a search path or text relocations; "
report hardened "${weak%; }"

echo "$passed passed, $failed failed"
((failed == 0))
