#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# install-dependencies.sh [build|test]: installs the Debian packages that are missing, and only those.
#
# `build` is what the program needs, `test` (which includes it) what the tests, the fuzzers and the
# gates need besides.  What is there is found by one dpkg-query and by looking for the commands, so
# that a second call takes a few hundredths of a second and a node, python or cmake from elsewhere
# is left alone.  Whatever goes wrong is one line that names what is missing.
# MOTLEY_NO_INSTALL=1 only checks.
set -u
cd "$(dirname "$0")/.."

# One row per need: "package  [command that does as well, or other packages separated by |]".
build_needs='
gcc             command:gcc
libc6-dev
cmake           command:cmake
ninja-build     command:ninja
node-llhttp
libjansson-dev
libpcre2-dev
zlib1g-dev
libedit-dev
libbsd-dev
libmd-dev
libncurses-dev
libcurl4        libcurl3-gnutls|libcurl4t64
ca-certificates
python3         command:python3
python3-pip     command:pip3
nodejs          command:node
npm             command:npm
'
test_needs='
libcmocka-dev
clang-14        command:clang-14
clang-format-14 command:clang-format-14
libclang-rt-14-dev
chromium        command:chromium
chromium-driver command:chromedriver
valgrind        command:valgrind
python3-venv    python:not-debian
brotli          command:brotli
'

fail() {
  echo "install-dependencies: $*" >&2
  exit 1
}

case "${1:-build}" in
  build) needs=$build_needs ;;
  test) needs=$build_needs$test_needs ;;
  *) fail "unknown argument \"$1\"; use build or test" ;;
esac

# What dpkg calls installed among all packages named above, each between spaces.
names=$(echo "$needs" | sed 's/command:[^ ]*\|python:[^ ]*//g; s/|/ /g')
installed=" "
if command -v dpkg-query >/dev/null; then
  # shellcheck disable=SC2086
  installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' $names 2>/dev/null) "
fi

satisfied() { # package, alternative
  [[ $installed == *" installed:$1 "* ]] && return 0
  case "$2" in
    "") return 1 ;;
    command:*) command -v "${2#command:}" >/dev/null ;;
    python:not-debian) [[ $(command -v python3) != /usr/bin/python3 ]] ;;  # it brings its own venv
    *)
      local other
      for other in ${2//|/ }; do
        [[ $installed == *" installed:$other "* ]] && return 0
      done
      return 1
      ;;
  esac
}

missing=()
while read -r package alternative; do
  [[ -z $package ]] || satisfied "$package" "$alternative" || missing+=("$package")
done <<<"$needs"
((${#missing[@]})) || exit 0

list="${missing[*]}"
[[ -z ${MOTLEY_NO_INSTALL:-} ]] || fail "missing: $list (not installed, since MOTLEY_NO_INSTALL is set)"
command -v apt-get >/dev/null || fail "missing: $list; this system has no apt-get: install them with its own tools"

as_root=()
if (($(id -u) != 0)); then
  command -v sudo >/dev/null || fail "missing: $list; run as root: apt-get install $list"
  # A password can be typed only where there is a terminal.
  [[ -t 0 ]] || sudo -n true 2>/dev/null || fail "missing: $list; run: sudo apt-get install $list"
  as_root=(sudo)
fi

mkdir -p build || fail "cannot make the folder build"
log=build/install-dependencies.log
: >"$log" || fail "cannot write $log"
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
    -o Acquire::Retries=2 "$@" </dev/null >>"$log" 2>&1
}
install() { apt install -y --no-install-recommends "${missing[@]}"; }

echo "installing $list"
# Package lists may be absent (a fresh image) or out of date (packages gone from the mirror).
compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null && install && exit 0
apt update && install && exit 0
reason=$(grep -h '^E: \|^Err:' "$log" | tail -n 1)
fail "could not install $list: ${reason:-apt-get failed}; is there a network? (log: $log)"
