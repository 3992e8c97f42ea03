// SPDX-License-Identifier: Apache-2.0
//
// base.h: the words every other room is written in: memory by lifetime, strings, errors, maps.
//
// Conventions that hold in the whole project:
//   - A function that can fail returns bool (true = done) or a pointer (NULL = failed) and takes a
//     `struct error *` as its last parameter.  On failure the error holds ONE line for a person:
//     what, where, why, what to do.  Outputs are untouched on failure.
//   - X_init / X_clear work on memory the caller owns; X_new / X_free allocate and release X
//     itself.  X_free(NULL) and X_clear on a zeroed object do nothing.
//   - Small allocations do not fail: when the system is out of memory the process says so in one
//     line and ends.  What grows with its input fails as an error instead: memory_try,
//     memory_try_resize, memory_try_big, arena_try, map_try_put, and a buffer whose `may_fail` is
//     set.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

// ----------------------------------------------------------------------------------------- asserts

// An assert states a contract between our own functions: when it does not hold the program has a
// bug, says where, and ends.  It is never about input: what comes from a file, a request or an
// option gets an error.
//   ASSERT        a comparison or two; stays in the release
//   ASSERT_DEBUG  walks data or sits in a hot loop; in every build but the release
#define ASSERT(condition) ((condition) ? (void)0 : error_bug(__FILE__, __LINE__, #condition))
#ifdef MOTLEY_RELEASE
#define ASSERT_DEBUG(condition) ((void)(0 && (condition)))
#else
#define ASSERT_DEBUG(condition) ASSERT(condition)
#endif
_Noreturn void error_bug(const char *file, int line, const char *condition);

// ------------------------------------------------------------------------------------------ errors

enum error_kind {
  ERROR_NONE,
  ERROR_INPUT,        // the input (file, request, option) is wrong; trying again cannot help
  ERROR_UNSUPPORTED,  // the input is right but names something Motley does not do
  ERROR_MISSING,      // a file, model, library or address is not there
  ERROR_SYSTEM,       // the operating system refused: disk full, port busy, permission
  ERROR_MEMORY,       // not enough memory for what was asked
  ERROR_BUSY,         // a limit is reached now; trying later can help
  ERROR_CANCELLED,    // the caller asked to stop
};

// bytes with the NUL; longer texts are cut at a UTF-8 border and end in "…"
#define ERROR_TEXT_MAX 512

struct error {
  enum error_kind kind;
  char text[ERROR_TEXT_MAX];  // one line, UTF-8, no newline: control characters become '?'
};

// Fills *e (which may be NULL) and returns false, so a function can `return error_set(...)`.
bool error_set(struct error *e, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Like error_set, and appends ": " and the text for `errno_value`.
bool error_set_errno(struct error *e, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Puts "prefix: " in front of the text already there; returns false.
bool error_prefix(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ------------------------------------------------------------------------------------------ memory

// Zeroed memory; on exhaustion prints one line and exits with status 70.  size 0 gives a valid
// pointer.
void *memory_new(size_t size);
// Grows or shrinks a block of memory_new; NULL starts one.  What is new is not zeroed.  Exits as
// memory_new does.
void *memory_resize(void *block, size_t size);
// The same for what grows with its input: NULL when there is no memory (a block that was to be
// resized is still there).  error_set_memory says so.
void *memory_try(size_t size);
void *memory_try_resize(void *block, size_t size);
// Fills *e with the line about `size` bytes that were wanted `for_what`; returns false.
bool error_set_memory(struct error *e, size_t size, const char *for_what);
// Zeroed, 64-byte aligned memory for big buffers (backed by huge pages where the kernel has them),
// or NULL with ERROR_MEMORY saying how much was asked `for_what`.  Release with memory_free_big and
// the same size.
void *memory_try_big(size_t size, const char *for_what, struct error *e);
// `size` is what was asked for: the block does not know it.  NULL does nothing.
void memory_free_big(void *block, size_t size);
// For blocks of memory_new, memory_try and their resizes only.  NULL does nothing.
void memory_free(void *block);
// For tests: the nth allocation from now on that may fail (from 1; in any thread) does so, once.
// 0 = none.
void memory_fail_at(uint64_t nth);
bool memory_fail_waits(void);  // it has not come to that one yet

// An arena hands out memory that dies together.  Zero-initialised = empty and ready to use.
// Invariant: every pointer it gave stays valid until arena_clear.
struct arena_block;
struct arena {
  struct arena_block *blocks;  // newest first
  size_t used;                 // bytes handed out in the newest block
};
void *arena_new(struct arena *a, size_t size);                       // zeroed, 16-byte aligned
void *arena_try(struct arena *a, size_t size);                       // NULL: no memory
char *arena_copy(struct arena *a, const void *data, size_t length);  // copies and appends a NUL
// NUL-terminated; the empty string when the format cannot be followed.
char *arena_print(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Frees all it gave; the arena is empty and usable again.
void arena_clear(struct arena *a);

// ----------------------------------------------------------------------------------------- strings

// A borrowed run of bytes, not NUL-terminated, usually UTF-8.
struct str {
  const char *data;
  size_t length;  // bytes
};
#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
struct str str_of(const char *text);  // NULL gives the empty string
// Byte by byte.  Empty strings are equal and start everything, whether or not they have data.
bool str_equal(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);  // likewise
struct str str_trim(struct str s);                 // without ASCII white space at both ends
// Bytes of the valid UTF-8 character at s[at], or 0 where there is none (cut short, overlong,
// surrogate).
int str_utf8_length(struct str s, size_t at);
// Decodes that character; returns its length as above and stores the code point.
int str_utf8_decode(struct str s, size_t at, uint32_t *code_point);
int str_utf8_encode(uint32_t code_point, char out[4]);  // returns 1..4; 0 for an invalid code point
// Parse a whole decimal integer or number; false when anything else is in s (white space, a plus
// before an integer) or it overflows, and *out is untouched.
bool str_to_int(struct str s, int64_t *out);
bool str_to_double(struct str s, double *out);  // locale-independent; no NaN, no infinity

// A growing byte buffer; always NUL-terminated after its length once something was added.
//
// For what grows with its input start with {.may_fail = true}: when memory runs out the buffer
// keeps what it has, takes nothing more, and buffer_ok, asked once at the end, is false.
struct buffer {
  char *data;  // owned; NULL while empty and never used
  size_t length, capacity;
  bool may_fail;
  bool failed;  // an addition was left out
};
// Every addition may move data, so what is added must not lie in the buffer itself.
void buffer_add(struct buffer *b, const void *data, size_t length);
void buffer_add_str(struct buffer *b, struct str s);       // s.data may be NULL when it is empty
void buffer_add_text(struct buffer *b, const char *text);  // up to its NUL
void buffer_add_char(struct buffer *b, char c);            // one byte; a NUL too counts as content
// Adds nothing when the format cannot be followed.
void buffer_print(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Afterwards `extra` more bytes fit without moving.  False only when the buffer has failed.
bool buffer_reserve(struct buffer *b, size_t extra);
// False with ERROR_MEMORY when an addition was left out; `for_what` names the content for a person.
bool buffer_ok(const struct buffer *b, const char *for_what, struct error *e);
// Moves the rest to the front: costs as much as what stays.  More than there is empties it.
void buffer_drop_front(struct buffer *b, size_t length);
void buffer_clear(struct buffer *b);  // releases; empty and usable again, may_fail stays
// Borrowed until the next addition; "" and never NULL for a buffer that was not used yet.
struct str buffer_str(const struct buffer *b);

// --------------------------------------------------------------------------------------------- map

// A hash map from byte strings to int64.  Keys are copied.  Zero-initialised = empty and ready to
// use.  Open addressing, power-of-two capacity, at most 3/4 full.  Hash is seeded with a constant:
// iteration order never matters to a caller.
struct map_slot;
struct map {
  struct map_slot *slots;
  size_t count, capacity;
  struct arena keys;
};
void map_put(struct map *m, struct str key, int64_t value);      // replaces
bool map_try_put(struct map *m, struct str key, int64_t value);  // false: no memory, m as before
// *value untouched when absent
bool map_get(const struct map *m, struct str key, int64_t *value);
// Releases slots and keys; the map is empty and usable again.
void map_clear(struct map *m);
// 64-bit, well mixed, not cryptographic
uint64_t hash_bytes(const void *data, size_t length, uint64_t seed);
