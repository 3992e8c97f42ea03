// SPDX-License-Identifier: Apache-2.0
//
// check.h: cmocka with the headers it wants before it, for every test program.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
