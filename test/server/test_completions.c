// SPDX-License-Identifier: Apache-2.0
//
// test_completions.c: chat and completions through the whole server.
//
// The oracle for texts is the engine itself, asked directly with the same ids and seed; streamed
// and whole answers must both say what it says.  Clients that leave, and clients that do not read,
// are seen in the engine's own counters.

#include "server/server_fixture.h"

#define CHAT_OPEN "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}"
#define CHAT CHAT_OPEN "]"

static struct engine_stats stats_of(struct fixture *f) {
  struct engine_stats s;
  engine_stats_read(f->engine, &s);
  return s;
}

// What the engine says to a prompt, asked without the server.
static void engine_text(struct fixture *f, const char *prompt, int max_tokens, float temperature,
                        uint64_t seed, struct buffer *out) {
  struct token_list ids = {0};
  struct engine_event event = {0};
  struct error e;
  tokenizer_encode(model_tokenizer(f->model), str_of(prompt), true, false, &ids);
  struct engine_request request = {.prompt = ids.ids,
                                   .prompt_count = (int)ids.count,
                                   .max_tokens = max_tokens,
                                   .sampling = sampling_default(),
                                   .top_logprobs = -1};
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  struct engine_stream *s = engine_submit(f->engine, &request, NULL, NULL, &e);
  if (!s) fail_msg("%s", e.text);
  do {
    if (engine_stream_next(s, &event))
      buffer_add_str(out, event.text);
    else
      usleep(500);
  } while (event.kind != EVENT_END);
  engine_stream_free(s);
  token_list_clear(&ids);
  buffer_add(out, "", 0);
}

static void whole_answers_are_the_engines(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  struct buffer expected = {0};
  engine_text(&f, "user: hello\n", 20, 0, 0, &expected);
  json_t *chat = ask_json(&f, "POST", "/v1/chat/completions",
                          CHAT ",\"max_tokens\":20,\"temperature\":0,\"model\":\"tiny/1\"}", 200);
  assert_string_equal(text_at(chat, "choices.0.message.content"), expected.data);
  assert_string_equal(text_at(chat, "object"), "chat.completion");
  assert_string_equal(text_at(chat, "model"), "tiny/1");
  assert_int_equal(strncmp(text_at(chat, "id"), "chatcmpl-", 9), 0);
  assert_int_equal(number_at(chat, "usage.completion_tokens"), 20);
  assert_int_equal(number_at(chat, "usage.total_tokens"),
                   20 + number_at(chat, "usage.prompt_tokens"));
  json_decref(chat);
  json_t *plain =
      ask_json(&f, "POST", "/v1/completions",
               "{\"prompt\":\"user: hello\\n\",\"max_tokens\":20,\"temperature\":0}", 200);
  assert_string_equal(text_at(plain, "choices.0.text"), expected.data);
  json_decref(plain);
  buffer_clear(&expected);
  stop(&f);
}

// The template renders what comes before; its text stands behind that, and only what follows is
// told.
static void a_last_message_is_continued(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  struct buffer expected = {0};
  engine_text(&f, "user: hello\nhow ", 20, 0, 0, &expected);
  json_t *chat = ask_json(&f, "POST", "/v1/chat/completions",
                          CHAT_OPEN
                          ",{\"role\":\"assistant\",\"content\":\"how \"}],"
                          "\"max_tokens\":20,\"temperature\":0}",
                          200);
  assert_string_equal(text_at(chat, "choices.0.message.content"), expected.data);
  json_t *before = ask_json(&f, "POST", "/v1/chat/completions",
                            CHAT ",\"max_tokens\":20,\"temperature\":0}", 200);
  assert_true(number_at(chat, "usage.prompt_tokens") > number_at(before, "usage.prompt_tokens"));
  json_decref(chat);
  json_decref(before);
  buffer_clear(&expected);
  stop(&f);
}

static void answers_have_seeds_of_their_own(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  json_t *many =
      ask_json(&f, "POST", "/v1/completions",
               "{\"prompt\":[\"abc\",\"xyz\"],\"n\":2,\"max_tokens\":12,\"seed\":41}", 200);
  for (int i = 0; i < 4; i++) {
    struct buffer expected = {0};
    char path[32];
    engine_text(&f, i < 2 ? "abc" : "xyz", 12, 1, 41 + (uint64_t)i, &expected);
    snprintf(path, sizeof path, "choices.%d.text", i);
    assert_string_equal(text_at(many, path), expected.data);
    buffer_clear(&expected);
  }
  assert_int_equal(json_array_size(at(many, "choices")), 4);
  assert_int_equal(number_at(many, "usage.completion_tokens"), 48);
  json_decref(many);
  stop(&f);
}

// The deltas of a stream joined, choice by choice; checks the shape of every chunk on the way.
static void join_stream(struct str body, struct buffer texts[], int *chunks, bool *done) {
  *chunks = 0;
  *done = false;
  while (body.length) {
    const char *end = memmem(body.data, body.length, "\n\n", 2);
    assert_non_null(end);
    struct str line = {body.data, (size_t)(end - body.data)};
    body.data += line.length + 2, body.length -= line.length + 2;
    assert_true(str_starts(line, STR("data: ")));
    assert_false(*done);
    *done = str_equal(line, STR("data: [DONE]"));
    if (*done) continue;
    json_error_t e;
    json_t *chunk = json_loadb(line.data + 6, line.length - 6, 0, &e);
    assert_string_equal(text_at(chunk, "object"), "chat.completion.chunk");
    const json_t *content = at(chunk, "choices.0.delta.content");
    if (json_is_string(content))
      buffer_add_text(&texts[number_at(chunk, "choices.0.index")], json_string_value(content));
    ++*chunks;
    json_decref(chunk);
  }
}

static void streams_say_what_whole_answers_say(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  struct buffer texts[3] = {0};
  int chunks;
  bool done;
  start(&f);
  const char *body = CHAT ",\"max_tokens\":30,\"seed\":5,\"n\":3%s}";
  char whole[160], streamed[160];
  snprintf(whole, sizeof whole, body, "");
  snprintf(streamed, sizeof streamed, body,
           ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
  json_t *expected = ask_json(&f, "POST", "/v1/chat/completions", whole, 200);
  assert_int_equal(ask(&f, "POST", "/v1/chat/completions", "", streamed, &r), 200);
  assert_true(r.complete);
  assert_true(str_starts(client_header(&r, "content-type"), STR("text/event-stream")));
  join_stream(buffer_str(&r.body), texts, &chunks, &done);
  assert_true(done);
  assert_in_range(chunks, 3 * 3 + 1, 3 * 33 + 1);
  for (int i = 0; i < 3; i++) {
    char path[40];
    snprintf(path, sizeof path, "choices.%d.message.content", i);
    assert_string_equal(buffer_str(&texts[i]).data, text_at(expected, path));
    buffer_clear(&texts[i]);
  }
  assert_non_null(strstr(r.body.data, "\"choices\":[],\"usage\":{\"prompt_tokens\""));
  json_decref(expected);
  client_clear(&r);
  stop(&f);
}

static void bad_requests_are_explained(void **state) {
  (void)state;
  static const struct {
    const char *path, *body;
    int status;
    const char *code, *text;
  } cases[] = {
      {"/v1/chat/completions",
       "{\"model\":\"gpt-9\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", 404,
       "model_not_found", "the model \"gpt-9\" does not exist; this server has: tiny/1"},
      {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"refuse\"}]}", 400,
       "chat_template", "no: refuse"},
      {"/v1/chat/completions", "{", 400, "invalid_json", "line 1, column 1"},
      {"/v1/completions", "{\"prompt\":[]}", 400, NULL, "prompt: must be"},
      {"/v1/completions", "{\"prompt\":[320]}", 400, NULL, "0 to 319"},
  };
  struct fixture f;
  start(&f);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    json_t *e = ask_json(&f, "POST", cases[i].path, cases[i].body, cases[i].status);
    if (cases[i].code) assert_string_equal(text_at(e, "error.code"), cases[i].code);
    if (!strstr(text_at(e, "error.message"), cases[i].text))
      fail_msg("%s", text_at(e, "error.message"));
    json_decref(e);
  }
  struct buffer longer = {0};
  buffer_add_text(&longer, "{\"prompt\":\"");
  for (int i = 0; i < 2000; i++) buffer_add_text(&longer, "q ");
  buffer_add_text(&longer, "\"}");
  json_t *e = ask_json(&f, "POST", "/v1/completions", longer.data, 400);
  assert_string_equal(text_at(e, "error.code"), "context_length_exceeded");
  assert_non_null(strstr(text_at(e, "error.message"), "this model's context is 256"));
  json_decref(e);
  buffer_clear(&longer);
  stop(&f);
}

// ---- clients

// Sends a request that goes on for ever, nearly; returns the socket.
static int start_long(struct fixture *f, const char *more) {
  struct buffer request = {0}, body = {0};
  buffer_print(&body, "{\"prompt\":\"go\",\"max_tokens\":100000,\"logit_bias\":{\"2\":-100}%s}",
               more);
  make_request(&request, "POST", "/v1/completions", "Connection: close\r\n", body.data);
  int fd = client_connect(f->port);
  assert_true(client_send(fd, buffer_str(&request)));
  buffer_clear(&request);
  buffer_clear(&body);
  return fd;
}

static void wait_running(struct fixture *f, int count) {
  for (int i = 0; i < 20000; i++) {
    struct engine_stats s = stats_of(f);
    if (s.running + s.waiting == count) return;
    usleep(500);
  }
  fail_msg("%d sequences running and %d waiting, not %d", stats_of(f).running, stats_of(f).waiting,
           count);
}

static void clients_that_leave_free_the_engine(void **state) {
  (void)state;
  struct fixture f;
  start_unattached(&f, NULL);
  attach(&f, 16384, NULL);
  int streaming = start_long(&f, ",\"stream\":true"), whole = start_long(&f, ",\"n\":2");
  wait_running(&f, 3);
  close(whole);
  wait_running(&f, 1);
  close(streaming);
  wait_running(&f, 0);
  assert_int_equal(stats_of(&f).cancelled, 3);
  json_t *still =
      ask_json(&f, "POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1}", 200);
  json_decref(still);
  stop(&f);
}

static void slow_readers_hold_the_engine_back(void **state) {
  (void)state;
  struct fixture f;
  struct buffer rest = {0};
  struct client_response r;
  start_unattached(&f, NULL);
  attach(&f, 2048, NULL);
  int fd = start_long(&f, ",\"stream\":true,\"logprobs\":20,\"temperature\":0");
  uint64_t before = 0, now = 1;
  while (now != before || now < 2) {  // until it stands still
    before = now;
    usleep(300000);
    now = stats_of(&f).generated_tokens;
  }
  assert_true(now < 2000);
  assert_int_equal(stats_of(&f).running, 1);
  client_read(fd, false, &rest, &r);
  assert_true(r.complete);
  assert_true(stats_of(&f).generated_tokens > 2000);
  assert_non_null(strstr(r.body.data, "\"finish_reason\":\"length\""));
  assert_string_equal(r.body.data + r.body.length - 14, "data: [DONE]\n\n");
  client_clear(&r);
  buffer_clear(&rest);
  close(fd);
  stop(&f);
}

static void a_full_queue_is_429(void **state) {
  (void)state;
  struct fixture f;
  struct engine_options narrow = {.sequences = 1, .queue = 1};
  start_unattached(&f, NULL);
  attach(&f, 16384, &narrow);
  int first = start_long(&f, "");
  wait_running(&f, 1);
  struct client_response r;
  int status = ask(&f, "POST", "/v1/completions", "", "{\"prompt\":\"a\",\"n\":8}", &r);
  assert_int_equal(status, 429);
  assert_true(str_equal(client_header(&r, "retry-after"), STR("1")));
  assert_non_null(strstr(r.body.data, "\"code\":\"engine_busy\""));
  client_clear(&r);
  close(first);
  wait_running(&f, 0);
  stop(&f);
}

static void stopping_ends_streams_cleanly(void **state) {
  (void)state;
  struct fixture f;
  struct buffer rest = {0}, rest_whole = {0};
  struct client_response r;
  start_unattached(&f, NULL);
  attach(&f, 16384, NULL);
  int stream = start_long(&f, ",\"stream\":true"), whole = start_long(&f, "");
  wait_running(&f, 2);
  server_stop(f.server);
  client_read(stream, false, &rest, &r);
  assert_true(r.complete);
  assert_non_null(
      strstr(r.body.data, "data: {\"error\":{\"message\":\"the server is shutting down\""));
  client_clear(&r);
  client_read(whole, false, &rest_whole, &r);
  assert_int_equal(r.status, 503);
  client_clear(&r);
  close(stream);
  close(whole);
  buffer_clear(&rest);
  buffer_clear(&rest_whole);
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_answers_are_the_engines),
      cmocka_unit_test(a_last_message_is_continued),
      cmocka_unit_test(answers_have_seeds_of_their_own),
      cmocka_unit_test(streams_say_what_whole_answers_say),
      cmocka_unit_test(bad_requests_are_explained),
      cmocka_unit_test(clients_that_leave_free_the_engine),
      cmocka_unit_test(slow_readers_hold_the_engine_back),
      cmocka_unit_test(a_full_queue_is_429),
      cmocka_unit_test(stopping_ends_streams_cleanly),
  };
  log_set_level(LOG_ERROR);
  return cmocka_run_group_tests_name("server completions", tests, NULL, NULL);
}
