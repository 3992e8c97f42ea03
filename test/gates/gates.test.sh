# SPDX-License-Identifier: Apache-2.0
#
# gates.test.sh: the gates notice what they are there for.
#
# The Python gates bring a self-test that breaks each of their rules.  The program gate is given
# programs that are too big, too new, loading too much, and soft.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

expect() { # what, wanted status, command…
  local what=$1 wanted=$2 output status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  if [[ $status != "$wanted" ]]; then
    echo "$what: status $status instead of $wanted"
    echo "$output" | tail -n 5
    failed=1
  fi
}

accuses() { # program, name of the check
  scripts/check-binary.sh "$1" | grep -q ": $2: " && return
  echo "check-binary.sh does not report \"$2\" for $1"
  failed=1
}

expect "includes, self-test" 0 scripts/check-includes.py --self-test
expect "style, self-test" 0 scripts/check-style.py --self-test
expect "outside, self-test" 0 scripts/outside.py --self-test

compile() { # name, text, options…
  local name=$1 text=$2
  shift 2
  echo "$text" | cc -x c -O1 -pie -fPIE -o "$folder/$name" - -Wl,-z,relro,-z,now "$@" 2>"$folder/log" && return
  cat "$folder/log"
  failed=1
  return 1
}
compile good '#include <stdio.h>
int main(void) { return puts("x") < 0; }' && expect "a good program" 0 scripts/check-binary.sh "$folder/good"
compile big 'static const char fill[4000000] = {1};
int main(int n, char **v) { (void)v; return fill[n]; }' && accuses "$folder/big" size
compile soft 'int main(void) { return 0; }' -Wl,-z,execstack,-z,norelro && accuses "$folder/soft" hardened
compile loads '#include <zlib.h>
int main(void) { return zlibVersion()[0] == 0; }' -Wl,--no-as-needed -lz && accuses "$folder/loads" needed
# A function that came after 2.34; where the C library has none such, nothing can be shown.
new='#include <stdlib.h>
int main(void) { return arc4random() == 0; }'
if echo "$new" | cc -x c -Werror -o /dev/null - 2>/dev/null; then
  compile new "$new" && accuses "$folder/new" glibc
fi
expect "no program at all" 1 scripts/check-binary.sh "$folder/absent"

# A figure that gets worse is noticed: a tree with one good function, then one with a function that is too long.
house=$folder/house
mkdir -p "$house/src/net" "$house/scripts" "$house/test/net"
cp scripts/style-figures.py "$house/scripts"
room() { # lines of the function
  printf '// SPDX-License-Identifier: Apache-2.0\n\n// Does it.\nint net_x(void);\n' >"$house/src/net/net.h"
  { printf '// SPDX-License-Identifier: Apache-2.0\n\n// Does it.\nint net_x(void) {\n' &&
    yes '  f();' | head -n "$1" && echo '}'; } >"$house/src/net/net.c"
}
room 10
expect "figures of a good tree" 0 "$house/scripts/style-figures.py" --update
expect "the same figures again" 0 "$house/scripts/style-figures.py" --check
room 80
expect "figures of a worse tree" 1 "$house/scripts/style-figures.py" --check

# A skip is counted and explained; one that nobody expects fails the run where CI says so, and so does a test that could
# not be started.
results() { # what ctest would write
  cat >"$folder/results.xml" <<XML
<testsuite><testcase name="base.text" status="run"><system-out>$1</system-out></testcase>$2</testsuite>
XML
}
summary() { # status wanted, last line wanted, environment…
  local output status=0
  output=$(env "${@:3}" scripts/test-summary.py "$folder/results.xml") || status=$?
  [[ $status == "$1" && $(tail -n 1 <<<"$output") == "$2" ]] && return
  echo "test-summary.py: status $status, \"$output\" instead of $1, \"$2\""
  failed=1
}
skip='<skipped message="SKIP_RETURN_CODE=77"/><system-out>skipped: no moon</system-out>'
results "" ""
summary 0 "1 passed, 0 failed, 0 skipped" STRICT_SKIPS=1
results "" "<testcase name=\"x.y\" status=\"notrun\">$skip</testcase>"
summary 0 "1 passed, 0 failed, 1 skipped" STRICT_SKIPS=0
summary 1 "1 passed, 1 failed, 1 skipped" STRICT_SKIPS=1
results "" "<testcase name=\"tokenizer.tokenizer.py\" status=\"notrun\">$skip</testcase>"
summary 0 "1 passed, 0 failed, 1 skipped" STRICT_SKIPS=1
results "[  SKIPPED ] a_case" ""
summary 1 "1 passed, 1 failed, 1 skipped" STRICT_SKIPS=1
results "" '<testcase name="x.y" status="notrun"><skipped message="unable to find executable"/></testcase>'
summary 1 "1 passed, 1 failed, 0 skipped" STRICT_SKIPS=0
exit "$failed"
