// SPDX-License-Identifier: Apache-2.0
//
// test_address.c: addresses of the network as text, both ways; what is no number is refused.

#include "support/check.h"

#include "base/world.h"

static const struct {
  const char *host, *printed;  // NULL: refused
} rows[] = {
    {"127.0.0.1", "127.0.0.1:8080"},
    {"0.0.0.0", "0.0.0.0:8080"},
    {"255.255.255.255", "255.255.255.255:8080"},
    {"::1", "[::1]:8080"},
    {"::", "[::]:8080"},
    {"2001:db8::00ff", "[2001:db8::ff]:8080"},
    {"2001:db8:1111:2222:3333:4444:5555:6666", "[2001:db8:1111:2222:3333:4444:5555:6666]:8080"},
    {"::ffff:255.255.255.255", "[::ffff:255.255.255.255]:8080"},
    {"", NULL},
    {"localhost", NULL},
    {"127.0.0.1 ", NULL},
    {"127.0.0.256", NULL},
    {"127.1", NULL},
    {"127.0.0.1:80", NULL},
    {"[::1]", NULL},
    {":::1", NULL},
    {"fe80::1%eth0", NULL},
};

static void numbers_are_read_and_printed(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    struct world_address a = {.port = 1, .bytes = {42}};
    char text[WORLD_ADDRESS_TEXT_MAX];
    if (world_address_parse(rows[i].host, 8080, &a) != (rows[i].printed != NULL))
      fail_msg("%s", rows[i].host);
    if (rows[i].printed) {
      world_address_print(&a, text);
      assert_string_equal(text, rows[i].printed);
    } else {  // untouched
      assert_int_equal(a.port, 1);
      assert_int_equal(a.bytes[0], 42);
    }
  }
}

static void ports_are_numbers_of_16_bits(void **state) {
  (void)state;
  struct world_address a;
  char text[WORLD_ADDRESS_TEXT_MAX];
  assert_true(world_address_parse("::1", 65535, &a));
  world_address_print(&a, text);
  assert_string_equal(text, "[::1]:65535");
  assert_true(world_address_parse("1.2.3.4", 0, &a));
  world_address_print(&a, text);
  assert_string_equal(text, "1.2.3.4:0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_read_and_printed),
      cmocka_unit_test(ports_are_numbers_of_16_bits),
  };
  return cmocka_run_group_tests_name("base addresses", tests, NULL, NULL);
}
