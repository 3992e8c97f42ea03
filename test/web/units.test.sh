#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# units.test.sh: the page's modules that need no browser, with node's own test runner.
command -v node >/dev/null || { echo 'skipped: no node here'; exit 77; }
exec node --test test/web/markdown.test.mjs test/web/sse.test.mjs
