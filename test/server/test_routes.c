// SPDX-License-Identifier: Apache-2.0
//
// test_routes.c: what is where, who may ask, and the shapes of /metrics, /api/status and the page.

#include "server/server_fixture.h"

#include "server/assets.h"

static void loading_is_said_until_a_model_is_there(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  struct error e;
  start_unattached(&f, NULL);
  static const char *const waiting[] = {"/healthz", "/v1/models", "/v1/models/tiny/1"};
  for (size_t i = 0; i < COUNT_OF(waiting); i++) {
    assert_int_equal(ask(&f, "GET", waiting[i], "", NULL, &r), 503);
    assert_true(str_equal(client_header(&r, "retry-after"), STR("1")));
    assert_non_null(strstr(r.body.data, "\"code\":\"loading\""));
    client_clear(&r);
  }
  json_t *status = ask_json(&f, "GET", "/api/status", NULL, 200);
  assert_true(json_is_null(at(status, "model")) && json_is_null(at(status, "engine")));
  json_decref(status);
  attach(&f, 256, NULL);
  assert_false(server_attach(f.server, f.model, f.engine, &e));
  json_t *health = ask_json(&f, "GET", "/healthz", NULL, 200);
  assert_string_equal(text_at(health, "status"), "ok");
  json_decref(health);
  stop(&f);
}

static void models_are_listed(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  json_t *list = ask_json(&f, "GET", "/v1/models", NULL, 200);
  assert_string_equal(text_at(list, "data.0.id"), "tiny/1");
  assert_int_equal(json_array_size(at(list, "data")), 1);
  json_t *one = ask_json(&f, "GET", "/v1/models/tiny%2F1", NULL, 200);
  assert_true(json_equal(one, at(list, "data.0")));
  json_decref(list);
  json_decref(one);
  json_t *none = ask_json(&f, "GET", "/v1/models/other", NULL, 404);
  assert_string_equal(text_at(none, "error.code"), "model_not_found");
  json_decref(none);
  stop(&f);
}

static void paths_and_methods_are_checked(void **state) {
  (void)state;
  static const struct {
    const char *method, *path;
    int status;
    const char *allow;
  } cases[] = {
      {"GET", "/nothing", 404, ""},
      {"GET", "/v1", 404, ""},
      {"GET", "/v1/chat/completions/", 404, ""},
      {"GET", "/assets/none.js", 404, ""},
      {"GET", "/assets/../etc/passwd", 404, ""},
      {"GET", "/v1/chat/completions", 405, "POST, OPTIONS"},
      {"DELETE", "/v1/models", 405, "GET, HEAD, OPTIONS"},
      {"DELETE", "/v1/models/", 404, ""},
      {"DELETE", "/v1/models/x", 405, "GET, HEAD, OPTIONS"},
      {"OPTIONS", "/v1/models", 204, "GET, HEAD, OPTIONS"},
      {"OPTIONS", "/v1/completions", 204, "POST, OPTIONS"},
      {"HEAD", "/v1/models", 200, ""},
      {"HEAD", "/", 200, ""},
  };
  struct fixture f;
  start(&f);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct client_response r;
    int status = ask(&f, cases[i].method, cases[i].path, "", NULL, &r);
    if (status != cases[i].status) fail_msg("%d for %s %s", status, cases[i].method, cases[i].path);
    assert_true(str_equal(client_header(&r, "allow"), str_of(cases[i].allow)));
    assert_int_equal(client_header(&r, "access-control-allow-origin").length, 0);
    client_clear(&r);
  }
  stop(&f);
}

// ---- who may ask

static int ask_with(struct fixture *f, const char *host, const char *more, const char *path) {
  struct buffer request = {0};
  struct client_response r;
  buffer_print(&request, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host, more);
  int status = client_once(f->port, buffer_str(&request), &r);
  client_clear(&r);
  buffer_clear(&request);
  return status;
}

static void foreign_hosts_and_origins_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *host, *more, *path;
    int status;
  } cases[] = {
      {"localhost", "", "/v1/models", 200},
      {"LocalHost:9999", "", "/v1/models", 200},
      {"127.0.0.1:80", "", "/v1/models", 200},
      {"[::1]:80", "", "/v1/models", 200},
      {"evil.example", "", "/v1/models", 403},
      {"evil.example:80", "", "/", 403},
      {"localhost.evil.example", "", "/", 403},
      {"127.0.0.1.evil.example", "", "/", 403},
      {"", "", "/v1/models", 200},
      {"localhost:80", "Origin: http://localhost:80\r\n", "/v1/models", 200},
      {"localhost:80", "Origin: https://localhost:80\r\n", "/v1/models", 200},
      {"localhost:80", "Origin: http://localhost:81\r\n", "/v1/models", 403},
      {"localhost:80", "Origin: http://evil.example\r\n", "/v1/models", 403},
      {"localhost:80", "Origin: null\r\n", "/api/status", 403},
      {"localhost:80", "Origin: http://evil.example\r\n", "/healthz", 200},
  };
  struct fixture f;
  start(&f);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    int status = ask_with(&f, cases[i].host, cases[i].more, cases[i].path);
    if (status != cases[i].status)
      fail_msg("%d for %s %s %s", status, cases[i].host, cases[i].more, cases[i].path);
  }
  stop(&f);
}

static void the_key_opens_v1_and_api(void **state) {
  (void)state;
  static const struct {
    const char *more, *path;
    int status;
  } cases[] = {
      {"", "/v1/models", 401},
      {"", "/api/status", 401},
      {"", "/healthz", 200},
      {"", "/", 200},
      {"Authorization: Bearer secret\r\n", "/v1/models", 200},
      {"authorization: bearer  secret \r\n", "/v1/models", 200},
      {"Authorization: Bearer secre\r\n", "/v1/models", 401},
      {"Authorization: Bearer secretsecret\r\n", "/v1/models", 401},
      {"Authorization: Bearer \r\n", "/v1/models", 401},
      {"Authorization: Basic secret\r\n", "/v1/models", 401},
  };
  struct fixture f;
  struct server_options options = {.api_key = "secret"};
  start_unattached(&f, &options);
  attach(&f, 256, NULL);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    int status = ask_with(&f, "localhost", cases[i].more, cases[i].path);
    if (status != cases[i].status) fail_msg("%d for %s %s", status, cases[i].more, cases[i].path);
  }
  stop(&f);
}

// ---- figures

// Prometheus' text format, as far as it matters: HELP and TYPE once before a metric's samples,
// every sample a name, labels, a number.
static void check_metrics_text(char *text) {
  char *saved, current[80] = "";
  for (char *line = strtok_r(text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved)) {
    if (str_starts(str_of(line), STR("# HELP "))) {
      sscanf(line, "# HELP %79s", current);
    } else if (str_starts(str_of(line), STR("# TYPE "))) {
      char name[80], type[16];
      assert_int_equal(sscanf(line, "# TYPE %79s %15s", name, type), 2);
      assert_string_equal(name, current);
      assert_true(!strcmp(type, "counter") || !strcmp(type, "gauge") || !strcmp(type, "histogram"));
    } else {
      double value;
      char *space = strrchr(line, ' ');
      assert_non_null(space);
      assert_true(str_starts(str_of(line), str_of(current)));
      assert_true(str_to_double(str_of(space + 1), &value) && value >= 0);
    }
  }
}

static void metrics_count_what_happened(void **state) {
  (void)state;
  static const char *const expected[] = {
      "motley_http_responses_total{route=\"/v1/completions\",code=\"200\"} 2\n",
      "motley_http_responses_total{route=\"/v1/completions\",code=\"400\"} 1\n",
      "motley_http_responses_total{route=\"(none)\",code=\"404\"} 1\n",
      "motley_generated_tokens_total 14\n",
      "motley_time_to_first_token_seconds_count 2\n",
      "motley_time_per_token_seconds_count 2\n",
      "motley_time_per_token_seconds_bucket{le=\"+Inf\"} 2\n",
      "motley_up 1\n",
  };
  struct fixture f;
  struct client_response r;
  start(&f);
  for (int i = 0; i < 2; i++)
    json_decref(ask_json(&f, "POST", "/v1/completions",
                         "{\"prompt\":\"a\",\"max_tokens\":7,\"logit_bias\":{\"2\":-100}}", 200));
  json_decref(ask_json(&f, "POST", "/v1/completions", "{}", 400));
  json_decref(ask_json(&f, "GET", "/nothing", NULL, 404));
  assert_int_equal(ask(&f, "GET", "/metrics", "", NULL, &r), 200);
  for (size_t i = 0; i < COUNT_OF(expected); i++)
    if (!strstr(r.body.data, expected[i])) fail_msg("no %s in:\n%s", expected[i], r.body.data);
  check_metrics_text(r.body.data);
  client_clear(&r);
  stop(&f);
}

// What the network refuses before any route is chosen looks like every other error, and is counted.
static void refusals_of_the_network_are_errors_like_all_others(void **state) {
  (void)state;
  static const struct {
    const char *request;
    int status;
    const char *code, *type;
  } cases[] = {
      {"GARBAGE\r\n\r\n", 400, "bad_request", "invalid_request_error"},
      {"POST /v1/completions HTTP/1.1\r\nHost: h\r\n\r\n", 411, "length_required",
       "invalid_request_error"},
      {"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", 413,
       "body_too_large", "invalid_request_error"},
      {"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 501, "unsupported_method", "server_error"},
      {"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505, "unsupported_version", "server_error"},
  };
  struct fixture f;
  struct client_response r;
  json_error_t e;
  start_unattached(&f, NULL);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    client_once(f.port, str_of(cases[i].request), &r);
    if (r.status != cases[i].status) fail_msg("%d: %s", r.status, cases[i].request);
    assert_true(str_equal(client_header(&r, "content-type"), STR("application/json")));
    assert_int_equal(r.body.data[r.body.length - 1], '\n');
    json_t *body = json_loads(r.body.data, 0, &e);
    assert_string_equal(text_at(body, "error.code"), cases[i].code);
    assert_string_equal(text_at(body, "error.type"), cases[i].type);
    assert_true(json_is_null(at(body, "error.param")));
    assert_true(strlen(text_at(body, "error.message")) > 10);
    json_decref(body);
    client_clear(&r);
  }
  assert_int_equal(ask(&f, "GET", "/metrics", "", NULL, &r), 200);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char line[100];
    snprintf(line, sizeof line, "motley_http_responses_total{route=\"(none)\",code=\"%d\"} 1\n",
             cases[i].status);
    if (!strstr(r.body.data, line)) fail_msg("no %s", line);
  }
  client_clear(&r);
  stop(&f);
}

// A connection above the limit is told so in the same shape, and when to come back.
static void refused_connections_are_counted(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  struct buffer rest = {0};
  struct server_options one = {.max_connections = 1};
  start_unattached(&f, &one);
  int fd = client_connect(f.port);
  client_send(fd, STR("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  client_read(fd, false, &rest, &r);
  assert_int_equal(r.status, 200);
  client_clear(&r);
  assert_int_equal(ask(&f, "GET", "/healthz", "", NULL, &r), 503);
  assert_true(str_equal(client_header(&r, "retry-after"), STR("1")));
  assert_non_null(strstr(r.body.data, "\"code\":\"too_many_connections\"}}\n"));
  client_clear(&r);
  client_send(fd, STR("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  client_read(fd, false, &rest, &r);
  assert_non_null(
      strstr(r.body.data, "motley_http_responses_total{route=\"(none)\",code=\"503\"} 1\n"));
  client_clear(&r);
  close(fd);
  buffer_clear(&rest);
  stop(&f);
}

static void status_has_every_figure(void **state) {
  (void)state;
  static const char *const numbers[] = {"uptime_s",
                                        "model.parameters",
                                        "model.file_bytes",
                                        "model.context",
                                        "model.layers",
                                        "model.width",
                                        "model.heads",
                                        "model.kv_heads",
                                        "model.vocabulary",
                                        "processor.cores",
                                        "processor.load_percent",
                                        "memory.total",
                                        "memory.available",
                                        "memory.resident",
                                        "engine.running",
                                        "engine.waiting",
                                        "engine.pages",
                                        "engine.pages_used",
                                        "engine.requests",
                                        "engine.prompt_tokens",
                                        "engine.generated_tokens",
                                        "engine.prefill_tok_s",
                                        "engine.decode_tok_s"};
  static const char *const texts[] = {"version",     "model.name",     "model.architecture",
                                      "model.types", "processor.name", "processor.isa"};
  struct fixture f;
  start(&f);
  json_t *status = ask_json(&f, "GET", "/api/status", NULL, 200);
  for (size_t i = 0; i < COUNT_OF(numbers); i++)
    if (!json_is_number(at(status, numbers[i]))) fail_msg("no number %s", numbers[i]);
  for (size_t i = 0; i < COUNT_OF(texts); i++)
    if (!json_is_string(at(status, texts[i]))) fail_msg("no text %s", texts[i]);
  assert_int_equal(number_at(status, "model.context"), 256);
  assert_int_equal(number_at(status, "model.vocabulary"), 320);
  json_decref(status);
  stop(&f);
}

// ---- the page

static const struct server_asset *asset_of(const char *path, const char *encoding) {
  for (int i = 0; i < server_asset_count; i++)
    if (!strcmp(server_assets[i].path, path) && !strcmp(server_assets[i].encoding, encoding))
      return &server_assets[i];
  return NULL;
}

static void the_page_comes_in_the_encoding_asked_for(void **state) {
  (void)state;
  static const struct {
    const char *accept, *encoding;
  } cases[] = {{"", ""},
               {"Accept-Encoding: gzip, deflate, br\r\n", "br"},
               {"Accept-Encoding: gzip, deflate\r\n", "gzip"},
               {"Accept-Encoding: br;q=0, GZIP;q=0.5\r\n", "gzip"},
               {"Accept-Encoding: br;q=0.000, gzip;q=0\r\n", ""},
               {"Accept-Encoding: identity\r\n", ""},
               {"Accept-Encoding: zbr, xgzip\r\n", ""}};
  struct fixture f;
  start(&f);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    const struct server_asset *a = asset_of("/", cases[i].encoding);
    struct client_response r;
    if (!a) continue;
    assert_int_equal(ask(&f, "GET", "/", cases[i].accept, NULL, &r), 200);
    assert_true(str_equal(client_header(&r, "content-encoding"), str_of(cases[i].encoding)));
    assert_int_equal(r.body.length, a->size);
    assert_memory_equal(r.body.data, a->data, a->size);
    assert_true(str_equal(client_header(&r, "etag"), str_of(a->etag)));
    assert_true(str_equal(client_header(&r, "x-content-type-options"), STR("nosniff")));
    assert_true(
        str_starts(client_header(&r, "content-security-policy"), STR("default-src 'self'")));
    assert_true(str_equal(client_header(&r, "cache-control"), STR("no-cache")));
    client_clear(&r);
  }
  stop(&f);
}

static void known_pages_are_not_sent_again(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  char headers[200];
  start(&f);
  const struct server_asset *a = asset_of("/", "");
  assert_non_null(a);
  snprintf(headers, sizeof headers, "If-None-Match: \"other\", W/%s\r\n", a->etag);
  assert_int_equal(ask(&f, "GET", "/", headers, NULL, &r), 304);
  assert_int_equal(r.body.length, 0);
  client_clear(&r);
  assert_int_equal(ask(&f, "GET", "/", "If-None-Match: \"other\"\r\n", NULL, &r), 200);
  client_clear(&r);
  for (int i = 0; i < server_asset_count; i++) {
    if (strncmp(server_assets[i].path, "/assets/", 8) != 0) continue;
    assert_int_equal(ask(&f, "GET", server_assets[i].path, "", NULL, &r), 200);
    assert_non_null(strstr(r.head.data, "immutable"));
    client_clear(&r);
  }
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loading_is_said_until_a_model_is_there),
      cmocka_unit_test(models_are_listed),
      cmocka_unit_test(paths_and_methods_are_checked),
      cmocka_unit_test(foreign_hosts_and_origins_are_refused),
      cmocka_unit_test(the_key_opens_v1_and_api),
      cmocka_unit_test(metrics_count_what_happened),
      cmocka_unit_test(refusals_of_the_network_are_errors_like_all_others),
      cmocka_unit_test(refused_connections_are_counted),
      cmocka_unit_test(status_has_every_figure),
      cmocka_unit_test(the_page_comes_in_the_encoding_asked_for),
      cmocka_unit_test(known_pages_are_not_sent_again),
  };
  log_set_level(LOG_ERROR);
  return cmocka_run_group_tests_name("server routes", tests, NULL, NULL);
}
