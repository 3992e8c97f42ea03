// SPDX-License-Identifier: Apache-2.0
//
// wire.c: a connection for tests, over a struct world.  Every wait has an end in the world's time.

#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Until the handle is ready for `events`; false when the time is over.
static bool wait_for_events(struct wire *x, uint32_t events, uint64_t timeout_ns) {
  struct world_ready ready;
  uint64_t end = world_monotonic_ns(x->world) + timeout_ns, now;
  int n = world_poller_set(x->world, x->poller, x->handle, events, x);
  while (n == 0 && (now = world_monotonic_ns(x->world)) < end)
    n = world_wait(x->world, x->poller, &ready, 1, end - now);
  if (n <= 0) x->error = n < 0 ? n : -ETIMEDOUT;
  world_poller_set(x->world, x->poller, x->handle, 0, NULL);
  return n > 0;
}

static void begin(struct wire *x, const struct world *w) {
  *x = (struct wire){.world = w, .handle = -1, .poller = world_poller(w)};
  if (x->poller < 0) x->error = x->poller;
}

bool wire_connect(struct wire *x, const struct world *w, const struct world_address *to,
                  uint64_t timeout_ns) {
  begin(x, w);
  if (x->poller < 0) return false;
  x->handle = world_connect(w, to);
  if (x->handle < 0) return x->error = x->handle, false;
  int code;
  while ((code = world_connected(w, x->handle)) == -EAGAIN)
    if (!wait_for_events(x, WORLD_WRITABLE, timeout_ns)) return false;
  x->error = code;
  return code == 0;
}

bool wire_accept(struct wire *x, const struct world *w, int listener, uint64_t timeout_ns) {
  begin(x, w);
  if (x->poller < 0) return false;
  for (;;) {
    x->handle = listener;
    int handle = world_accept(w, listener, NULL);
    bool waited = handle == -EAGAIN && wait_for_events(x, WORLD_READABLE, timeout_ns);
    x->handle = handle;
    if (handle >= 0) return true;
    if (waited) continue;
    if (handle != -EAGAIN) x->error = handle;
    return false;
  }
}

void wire_close(struct wire *x) {
  if (x->handle >= 0) world_close(x->world, x->handle);
  if (x->poller >= 0) world_close(x->world, x->poller);
  buffer_clear(&x->in);
  x->handle = x->poller = -1;
}

size_t wire_send(struct wire *x, struct str bytes, uint64_t timeout_ns) {
  size_t at = 0;
  while (at < bytes.length) {
    int64_t n = world_write(x->world, x->handle, bytes.data + at, bytes.length - at);
    if (n > 0) {
      at += (size_t)n;
    } else if (n != -EAGAIN) {
      x->error = (int)n;
      break;
    } else if (!wait_for_events(x, WORLD_WRITABLE, timeout_ns)) {
      break;
    }
  }
  return at;
}

bool wire_receive(struct wire *x, uint64_t timeout_ns) {
  char bytes[16384];
  size_t most = x->most && x->most < sizeof bytes ? x->most : sizeof bytes;
  if (x->pause_ns) world_sleep(x->world, x->pause_ns);
  while (!x->ended) {
    int64_t n = world_read(x->world, x->handle, bytes, most);
    if (n > 0) return buffer_add(&x->in, bytes, (size_t)n), true;
    if (n == 0) return x->ended = true, false;
    if (n != -EAGAIN) return x->error = (int)n, false;
    if (!wait_for_events(x, WORLD_READABLE, timeout_ns)) return false;
  }
  return false;
}

bool wire_is_ended(struct wire *x, uint64_t timeout_ns) {
  return x->in.length == 0 && !wire_receive(x, timeout_ns) && x->ended;
}

// ---- responses

static bool take(struct wire *x, size_t length, struct buffer *out, uint64_t timeout_ns) {
  while (x->in.length < length)
    if (!wire_receive(x, timeout_ns)) return false;
  buffer_add(out, x->in.data, length);
  buffer_drop_front(&x->in, length);
  return true;
}

static bool take_line(struct wire *x, struct buffer *out, uint64_t timeout_ns) {
  const char *end;
  while (!x->in.length || !(end = memchr(x->in.data, '\n', x->in.length)))
    if (!wire_receive(x, timeout_ns)) return false;
  return take(x, (size_t)(end - x->in.data) + 1, out, timeout_ns);
}

static bool take_chunks(struct wire *x, struct buffer *out, uint64_t timeout_ns) {
  for (;;) {
    struct buffer line = {0}, end = {0};
    bool ok = take_line(x, &line, timeout_ns);
    size_t size = ok ? strtoul(line.data, NULL, 16) : 0;
    ok = ok && take(x, size, out, timeout_ns) && take(x, 2, &end, timeout_ns) &&
         memcmp(end.data, "\r\n", 2) == 0;
    buffer_clear(&line);
    buffer_clear(&end);
    if (!ok || size == 0) return ok;
  }
}

static bool take_head(struct wire *x, struct buffer *head, uint64_t timeout_ns) {
  size_t before;
  do {
    before = head->length;
    if (!take_line(x, head, timeout_ns)) return false;
  } while (head->length - before > 2);
  return true;
}

bool wire_response(struct wire *x, bool head_only, struct client_response *out,
                   uint64_t timeout_ns) {
  int64_t length;
  *out = (struct client_response){0};
  if (!take_head(x, &out->head, timeout_ns)) return false;
  out->status = atoi(out->head.data + strcspn(out->head.data, " "));
  if (head_only || out->status < 200 || out->status == 204 || out->status == 304) {
    out->complete = true;
  } else if (str_to_int(client_header(out, "content-length"), &length)) {
    out->complete = take(x, (size_t)length, &out->body, timeout_ns);
  } else if (str_equal(client_header(out, "transfer-encoding"), STR("chunked"))) {
    out->complete = take_chunks(x, &out->body, timeout_ns);
  } else {
    while (wire_receive(x, timeout_ns)) continue;
    buffer_add_str(&out->body, buffer_str(&x->in));
    x->in.length = 0;
    out->complete = x->ended;
  }
  return out->complete;
}
