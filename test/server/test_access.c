// SPDX-License-Identifier: Apache-2.0
//
// test_access.c: web pages of other origins (--cors) and where the key is wanted (--key-for).
//
// A table of requests each; what a browser would look at is compared: status and headers.

#include "server/server_fixture.h"

struct seen {
  int status;
  const char *origin;  // Access-Control-Allow-Origin, "" = not there
};

static void check_request(struct fixture *f, const char *method, const char *path,
                          const char *headers, struct seen want) {
  struct client_response r;
  int status = ask(f, method, path, headers, NULL, &r);
  struct str origin = client_header(&r, "access-control-allow-origin");
  if (status != want.status || !str_equal(origin, str_of(want.origin)))
    fail_msg("%s %s %s: %d and \"%.*s\", not %d and \"%s\"", method, path, headers, status,
             (int)origin.length, origin.data, want.status, want.origin);
  client_clear(&r);
}

static void start_cors(struct fixture *f, const char *cors) {
  struct server_options options = {.cors = cors};
  start_unattached(f, &options);
  attach(f, 256, NULL);
}

static void allowed_pages_may_read_answers(void **state) {
  (void)state;
  static const char a[] = "https://a.example", b[] = "http://localhost:3000";
  static const struct {
    const char *method, *path, *headers;
    struct seen want;
  } cases[] = {
      {"GET", "/v1/models", "Origin: https://a.example\r\n", {200, a}},
      {"GET", "/v1/models", "Origin: HTTPS://A.example\r\n", {200, "HTTPS://A.example"}},
      {"GET", "/v1/models", "Origin: http://localhost:3000\r\n", {200, b}},
      {"GET", "/v1/models", "Origin: http://localhost:3001\r\n", {403, ""}},
      {"GET", "/v1/models", "Origin: http://a.example\r\n", {403, ""}},
      {"GET", "/v1/models", "Origin: https://a.example.evil\r\n", {403, ""}},
      {"GET", "/v1/models", "Origin: https://evil/https://a.example\r\n", {403, ""}},
      {"GET", "/v1/models", "Origin: null\r\n", {403, ""}},
      {"GET", "/v1/models", "Origin: *\r\n", {403, ""}},
      {"GET", "/v1/models", "", {200, ""}},
      {"GET", "/v1/models", "Origin: http://localhost\r\n", {200, ""}},  // its own page
      {"GET", "/v1/models/none", "Origin: https://a.example\r\n", {404, a}},
      {"GET", "/nowhere", "Origin: https://a.example\r\n", {404, a}},
      {"GET", "/v1/completions", "Origin: https://a.example\r\n", {405, a}},
      {"GET", "/healthz", "Origin: https://a.example\r\n", {200, a}},
      {"GET", "/healthz", "Origin: https://b.example\r\n", {200, ""}},
  };
  struct fixture f;
  struct client_response r;
  start_cors(&f, "https://a.example, http://localhost:3000");
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    check_request(&f, cases[i].method, cases[i].path, cases[i].headers, cases[i].want);
  // Answers of all kinds, and what keeps a cache from mixing them up.
  const char *bodies[] = {"{\"prompt\":\"a\",\"max_tokens\":2}",
                          "{\"prompt\":\"a\",\"max_tokens\":2,\"stream\":true}", "{"};
  for (int i = 0; i < 3; i++) {
    int status = ask(&f, "POST", "/v1/completions", "Origin: https://a.example\r\n", bodies[i], &r);
    assert_int_equal(status, i < 2 ? 200 : 400);
    assert_true(str_equal(client_header(&r, "access-control-allow-origin"), str_of(a)));
    assert_true(str_equal(client_header(&r, "access-control-expose-headers"), STR("Retry-After")));
    assert_true(str_equal(client_header(&r, "vary"), STR("Origin")));
    client_clear(&r);
  }
  stop(&f);
}

static void preflights_say_what_a_page_may_send(void **state) {
  (void)state;
  static const char ask_headers[] =
      "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization, content-type, x-stainless-os\r\n"
      "Access-Control-Request-Private-Network: true\r\n";
  struct fixture f;
  struct client_response r;
  struct server_options options = {.cors = "https://a.example", .api_key = "k"};
  start_unattached(&f, &options);
  attach(&f, 256, NULL);
  assert_int_equal(ask(&f, "OPTIONS", "/v1/chat/completions", ask_headers, NULL, &r), 204);
  const char *const wanted[][2] = {
      {"access-control-allow-origin", "https://a.example"},
      {"access-control-allow-methods", "POST, OPTIONS"},
      {"access-control-allow-headers", "authorization, content-type, x-stainless-os"},
      {"access-control-allow-private-network", "true"},
      {"access-control-max-age", "600"},
      {"vary", "Origin"},
      {"allow", "POST, OPTIONS"}};
  for (size_t i = 0; i < COUNT_OF(wanted); i++)
    if (!str_equal(client_header(&r, wanted[i][0]), str_of(wanted[i][1])))
      fail_msg("%s in:\n%s", wanted[i][0], r.head.data);
  client_clear(&r);
  // Headers that are not a plain list of names are not sent back.
  assert_int_equal(
      ask(&f, "OPTIONS", "/v1/models",
          "Origin: https://a.example\r\nAccess-Control-Request-Headers: a;b\r\n", NULL, &r),
      204);
  assert_int_equal(client_header(&r, "access-control-allow-headers").length, 0);
  assert_int_equal(client_header(&r, "access-control-allow-private-network").length, 0);
  assert_true(
      str_equal(client_header(&r, "access-control-allow-methods"), STR("GET, HEAD, OPTIONS")));
  client_clear(&r);
  // Another page learns that it may not, and what would change that.
  assert_int_equal(ask(&f, "OPTIONS", "/v1/models", "Origin: https://b.example\r\n", NULL, &r),
                   403);
  assert_int_equal(client_header(&r, "access-control-allow-methods").length, 0);
  assert_non_null(strstr(r.body.data, "--cors"));
  client_clear(&r);
  // A real request still needs the key, and the page may read that.
  check_request(&f, "GET", "/v1/models", "Origin: https://a.example\r\n",
                (struct seen){401, "https://a.example"});
  check_request(&f, "GET", "/v1/models", "Origin: https://a.example\r\nAuthorization: Bearer k\r\n",
                (struct seen){200, "https://a.example"});
  stop(&f);
}

static void a_star_allows_every_page(void **state) {
  (void)state;
  struct fixture f;
  start_cors(&f, "*");
  check_request(&f, "GET", "/v1/models", "Origin: https://x.example\r\n",
                (struct seen){200, "https://x.example"});
  check_request(&f, "GET", "/v1/models", "Origin: null\r\n", (struct seen){200, "null"});
  stop(&f);
}

static void without_cors_no_header_is_sent(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  start(&f);
  check_request(&f, "GET", "/v1/models", "Origin: https://x.example\r\n", (struct seen){403, ""});
  check_request(&f, "OPTIONS", "/v1/models", "Origin: https://x.example\r\n",
                (struct seen){403, ""});
  check_request(&f, "OPTIONS", "/healthz", "Origin: https://x.example\r\n", (struct seen){204, ""});
  assert_int_equal(ask(&f, "GET", "/healthz", "", NULL, &r), 200);
  assert_int_equal(client_header(&r, "vary").length, 0);
  client_clear(&r);
  stop(&f);
}

static void lists_of_origins_are_checked(void **state) {
  (void)state;
  static const struct {
    const char *cors;
    bool good;
  } cases[] = {
      {"*", true},
      {"https://a.example", true},
      {"http://localhost:3000,https://b.example , *", true},
      {"http://[::1]:80", true},
      {"", false},
      {",", false},
      {"https://a.example,", true},
      {"a.example", false},
      {"https://", false},
      {"https://a.example/", false},
      {"https://a.example/path", false},
      {"https://user@a.example", false},
      {"ftp://a.example", false},
      {"https://a example", false},
      {"null", false},
      {"https://a.example\r\nX: y", false},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct error e = {0};
    struct server_options options = {.cors = cases[i].cors, .model_name = "m"};
    struct server *s = server_new(&options, &e);
    if ((s != NULL) != cases[i].good) fail_msg("\"%s\": %s", cases[i].cors, e.text);
    if (!s) assert_non_null(strstr(e.text, "--cors"));
    server_free(s);
  }
}

static void the_key_is_wanted_where_it_was_asked_for(void **state) {
  (void)state;
  static const struct {
    const char *path;
    int open[3];  // status without the key, by scope
  } cases[] = {
      {"/v1/models", {401, 401, 401}}, {"/api/status", {401, 401, 401}},
      {"/metrics", {200, 401, 401}},   {"/healthz", {200, 200, 401}},
      {"/", {200, 200, 401}},
  };
  for (int scope = KEY_FOR_API; scope <= KEY_FOR_ALL; scope++) {
    struct fixture f;
    struct server_options options = {.api_key = "k", .key_for = (enum server_key_scope)scope};
    start_unattached(&f, &options);
    attach(&f, 256, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
      struct client_response r;
      int status = ask(&f, "GET", cases[i].path, "", NULL, &r);
      if (status != cases[i].open[scope])
        fail_msg("%s in scope %d: %d", cases[i].path, scope, status);
      client_clear(&r);
      assert_int_equal(ask(&f, "GET", cases[i].path, "Authorization: Bearer k\r\n", NULL, &r), 200);
      client_clear(&r);
    }
    stop(&f);
  }
  // Without a key nothing is closed.
  struct fixture f;
  struct server_options options = {.key_for = KEY_FOR_ALL};
  struct engine_options shorter = {.context = 100};
  start_unattached(&f, &options);
  attach(&f, 256, &shorter);
  json_t *list = ask_json(&f, "GET", "/v1/models", NULL, 200);
  assert_string_equal(text_at(list, "data.0.id"), "tiny/1");
  assert_int_equal(number_at(list, "data.0.max_model_len"), 100);  // what this server takes
  json_decref(list);
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allowed_pages_may_read_answers),
      cmocka_unit_test(preflights_say_what_a_page_may_send),
      cmocka_unit_test(a_star_allows_every_page),
      cmocka_unit_test(without_cors_no_header_is_sent),
      cmocka_unit_test(lists_of_origins_are_checked),
      cmocka_unit_test(the_key_is_wanted_where_it_was_asked_for),
  };
  log_set_level(LOG_ERROR);
  return cmocka_run_group_tests_name("server access", tests, NULL, NULL);
}
