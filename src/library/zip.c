// SPDX-License-Identifier: Apache-2.0
//
// zip.c: reads zip files (wheels are zip files) and trusts nothing in them.
//
//   | local header, name, extra, data | … | central directory | [zip64 end] | end |
//   ^ offset in the directory's record        one record an entry             ^ where it begins
//
// The end record is looked for from the back, past a comment of at most 65,535 bytes.  Sizes and
// positions come from the central directory; the local header must agree in name and method and lie
// before the directory.  All numbers are little-endian.  A size of 0xffffffff means that the real
// one is in the entry's zip64 field.
//
// Refused: encryption, methods other than stored and deflated, archives in several parts, sizes
// that deflate cannot reach (bombs), names that are absolute, have "..", a backslash or a NUL.

#include <limits.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

#include "library/internal.h"

#define END_SIGNATURE 0x06054b50u
#define END_BYTES 22
#define END64_LOCATOR_SIGNATURE 0x07064b50u
#define END64_LOCATOR_BYTES 20
#define END64_SIGNATURE 0x06064b50u
#define END64_BYTES 56
#define RECORD_SIGNATURE 0x02014b50u
#define RECORD_BYTES 46
#define LOCAL_SIGNATURE 0x04034b50u
#define LOCAL_BYTES 30
#define COMMENT_MAX 65535
#define ENTRIES_MAX 100000      // a package with a model has a few dozen
#define DEFLATE_RATIO_MAX 1032  // no deflate stream grows more than this
#define OUTPUT_BYTES (256 * 1024)
enum { METHOD_STORED = 0, METHOD_DEFLATED = 8, FLAG_ENCRYPTED = 1, EXTRA_ZIP64 = 1 };

static uint64_t read_le(const uint8_t *p, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
  return value;
}
static uint16_t read_u16(const uint8_t *p) { return (uint16_t)read_le(p, 2); }
static uint32_t read_u32(const uint8_t *p) { return (uint32_t)read_le(p, 4); }

// Whether [offset, offset + size) lies inside [0, length).
static bool is_inside(uint64_t offset, uint64_t size, uint64_t length) {
  return offset <= length && size <= length - offset;
}

// ---- the table of contents

struct directory {
  uint64_t offset, size;  // of the central directory
  uint64_t count;
  uint64_t end;  // where it must have ended: the end record, or the zip64 end record
};

// From the back, and only where the comment's length reaches no further than the file: a comment
// may contain the signature.
static bool find_end(const uint8_t *bytes, size_t length, size_t *at) {
  if (length < END_BYTES) return false;
  size_t last = length - END_BYTES, first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
  for (size_t i = last + 1; i-- > first;)
    if (read_u32(bytes + i) == END_SIGNATURE && read_u16(bytes + i + 20) <= last - i)
      return *at = i, true;
  return false;
}

// The zip64 end record in front of its locator, when there is one; false when it is broken.
static bool read_end64(const uint8_t *bytes, size_t end, struct directory *d) {
  if (end < END64_LOCATOR_BYTES) return true;
  const uint8_t *locator = bytes + end - END64_LOCATOR_BYTES;
  if (read_u32(locator) != END64_LOCATOR_SIGNATURE) return true;
  uint64_t at = read_le(locator + 8, 8);
  if (!is_inside(at, END64_BYTES, end - END64_LOCATOR_BYTES)) return false;
  const uint8_t *record = bytes + at;
  if (read_u32(record) != END64_SIGNATURE || read_u32(record + 16) || read_u32(record + 20))
    return false;
  *d = (struct directory){.offset = read_le(record + 48, 8),
                          .size = read_le(record + 40, 8),
                          .count = read_le(record + 32, 8),
                          .end = at};
  return true;
}

// The directory must end where the end record begins, or earlier: it cannot overlap what
// describes it.
static bool find_directory(const uint8_t *bytes, size_t length, struct directory *d) {
  size_t end;
  if (!find_end(bytes, length, &end)) return false;
  const uint8_t *record = bytes + end;
  *d = (struct directory){.offset = read_u32(record + 16),
                          .size = read_u32(record + 12),
                          .count = read_u16(record + 10),
                          .end = end};
  if (read_u16(record + 4) || read_u16(record + 6)) return false;  // several parts
  return read_end64(bytes, end, d) && is_inside(d->offset, d->size, d->end);
}

// Replaces each of the values that is 0xffffffff by the next one of the zip64 field.
static bool read_zip64(const uint8_t *extra, size_t length, uint64_t *const values[3]) {
  bool needed = *values[0] == UINT32_MAX || *values[1] == UINT32_MAX || *values[2] == UINT32_MAX;
  while (needed && length >= 4) {
    size_t size = read_u16(extra + 2);
    if (size > length - 4) return false;
    if (read_u16(extra) == EXTRA_ZIP64) {
      const uint8_t *at = extra + 4;
      for (int i = 0; i < 3; i++) {
        if (*values[i] != UINT32_MAX) continue;
        if (at + 8 > extra + 4 + size) return false;
        *values[i] = read_le(at, 8);
        at += 8;
      }
      return true;
    }
    extra += 4 + size;
    length -= 4 + size;
  }
  return !needed;
}

// Motley never makes a path of these names. A package that has such a one is not honest, though.
static bool is_safe_name(struct str name) {
  if (!name.length || name.data[0] == '/') return false;
  if (memchr(name.data, 0, name.length) || memchr(name.data, '\\', name.length)) return false;
  for (size_t at = 0; at < name.length;) {
    const char *slash = memchr(name.data + at, '/', name.length - at);
    size_t part = slash ? (size_t)(slash - name.data) - at : name.length - at;
    if (part == 2 && memcmp(name.data + at, "..", 2) == 0) return false;
    at += part + 1;
  }
  return true;
}

// The entry's local header at `offset` agrees with it; stores where its data begins.
static bool check_local(const struct library_zip *z, uint64_t offset, uint64_t before,
                        struct library_zip_entry *entry) {
  if (!is_inside(offset, LOCAL_BYTES, before)) return false;
  const uint8_t *local = z->bytes + offset;
  uint64_t name = read_u16(local + 26), extra = read_u16(local + 28);
  if (read_u32(local) != LOCAL_SIGNATURE || read_u16(local + 8) != entry->method) return false;
  entry->data = offset + LOCAL_BYTES + name + extra;
  if (name != entry->name.length || !is_inside(entry->data, entry->packed, before)) return false;
  return memcmp(local + LOCAL_BYTES, entry->name.data, name) == 0;
}

// Reads the record at *at and moves behind it; false when anything in it is wrong.
static bool read_record(struct library_zip *z, const struct directory *d, uint64_t *at,
                        struct library_zip_entry *entry) {
  uint64_t stop = d->offset + d->size;
  if (!is_inside(*at, RECORD_BYTES, stop)) return false;
  const uint8_t *record = z->bytes + *at;
  uint64_t name = read_u16(record + 28), extra = read_u16(record + 30),
           comment = read_u16(record + 32);
  if (read_u32(record) != RECORD_SIGNATURE ||
      !is_inside(*at, RECORD_BYTES + name + extra + comment, stop))
    return false;
  uint64_t offset = read_u32(record + 42);
  *entry = (struct library_zip_entry){.name = {(const char *)record + RECORD_BYTES, name},
                                      .packed = read_u32(record + 20),
                                      .size = read_u32(record + 24),
                                      .crc = read_u32(record + 16),
                                      .method = read_u16(record + 10),
                                      .encrypted = read_u16(record + 8) & FLAG_ENCRYPTED};
  uint64_t *const values[3] = {&entry->size, &entry->packed, &offset};
  if (!read_zip64(record + RECORD_BYTES + name, extra, values)) return false;
  *at += RECORD_BYTES + name + extra + comment;
  return is_safe_name(entry->name) && check_local(z, offset, d->offset, entry);
}

// The count is checked against the directory's size before memory is taken for it.
bool library_zip_open(struct library_zip *z, const uint8_t *bytes, size_t length, struct error *e) {
  struct directory d;
  *z = (struct library_zip){.bytes = bytes, .length = length};
  if (!find_directory(bytes, length, &d))
    return error_set(e, ERROR_INPUT,
                     "this is not a whole zip file: its table of contents is missing or broken");
  if (d.count > ENTRIES_MAX || d.count > d.size / RECORD_BYTES)
    return error_set(e, ERROR_INPUT,
                     "the zip file claims %llu entries, more than it can hold or Motley reads",
                     (unsigned long long)d.count);
  z->entries_bytes = (size_t)d.count * sizeof *z->entries;
  z->entries = memory_try_big(z->entries_bytes, "the table of contents of a zip file", e);
  if (!z->entries) return false;
  uint64_t at = d.offset;
  for (; z->count < (int)d.count; z->count++) {
    if (read_record(z, &d, &at, &z->entries[z->count])) continue;
    error_set(e, ERROR_INPUT, "entry %d of the zip file is broken or has a forbidden name",
              z->count + 1);
    library_zip_close(z);
    return false;
  }
  return true;
}

void library_zip_close(struct library_zip *z) {
  memory_free_big(z->entries, z->entries_bytes);
  *z = (struct library_zip){0};
}

// ---- unpacking

typedef bool sink_function(void *context, const uint8_t *data, size_t length, struct error *e);

struct unpacking {
  const struct library_zip_entry *entry;
  sink_function *sink;
  void *context;
  uint64_t done;  // bytes handed over
  uint32_t crc;   // of them
};

static bool fail_entry(const struct library_zip_entry *entry, const char *why, struct error *e) {
  return error_set(e, ERROR_INPUT, "the zip entry \"%.*s\" %s",
                   (int)(entry->name.length > 200 ? 200 : entry->name.length), entry->name.data,
                   why);
}

static bool hand_over(struct unpacking *u, const uint8_t *data, size_t length, struct error *e) {
  if (length > u->entry->size - u->done)
    return fail_entry(u->entry, "holds more bytes than it declares", e);
  u->crc = (uint32_t)crc32_z(u->crc, data, length);
  u->done += length;
  return u->sink(u->context, data, length, e);
}

// In pieces, so that the sink can report progress and stop.
static bool copy_stored(struct unpacking *u, const uint8_t *data, struct error *e) {
  while (u->done < u->entry->packed) {
    uint64_t left = u->entry->packed - u->done;
    size_t piece = left < OUTPUT_BYTES ? (size_t)left : OUTPUT_BYTES;
    if (!hand_over(u, data + u->done, piece, e)) return false;
  }
  return true;
}

// Feeds zlib in pieces, since it counts its input in 32 bits.
static int inflate_piece(z_stream *stream, const uint8_t *end, uint8_t *output) {
  size_t left = (size_t)(end - stream->next_in);
  stream->avail_in = left < INT_MAX ? (uInt)left : INT_MAX;
  stream->next_out = output;
  stream->avail_out = OUTPUT_BYTES;
  return inflate(stream, Z_NO_FLUSH);
}

static voidpf take_memory(voidpf context, uInt count, uInt size) {
  (void)context;
  return memory_new((size_t)count * size);
}
static void return_memory(voidpf context, voidpf block) {
  (void)context;
  memory_free(block);
}

// The stream must end exactly with its data: bytes behind it are as suspect as missing ones.
static bool inflate_all(struct unpacking *u, const uint8_t *data, struct error *e) {
  z_stream stream = {.next_in = data, .zalloc = take_memory, .zfree = return_memory};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return error_set(e, ERROR_MEMORY, "not enough memory to unpack a zip file");
  uint8_t *output = memory_new(OUTPUT_BYTES);
  const uint8_t *end = data + u->entry->packed;
  int state = Z_OK;
  bool good = true;
  while (good && state == Z_OK) {
    state = inflate_piece(&stream, end, output);
    good = hand_over(u, output, OUTPUT_BYTES - stream.avail_out, e);
    if (state == Z_OK && stream.avail_out && stream.next_in == end)
      state = Z_BUF_ERROR;  // cut short
  }
  if (good && (state != Z_STREAM_END || stream.next_in != end))
    good = fail_entry(u->entry, "is damaged", e);
  inflateEnd(&stream);
  memory_free(output);
  return good;
}

// All that can be known before unpacking is checked before: a bomb declares a size its data
// cannot have, or is stopped at the size it declared.
bool library_zip_unpack(const struct library_zip *z, const struct library_zip_entry *entry,
                        sink_function *sink, void *context, struct error *e) {
  struct unpacking u = {.entry = entry, .sink = sink, .context = context};
  const uint8_t *data = z->bytes + entry->data;
  if (entry->encrypted) return fail_entry(entry, "is encrypted, which Motley does not read", e);
  if (entry->method != METHOD_STORED && entry->method != METHOD_DEFLATED)
    return fail_entry(entry, "is packed in a way that Motley does not read", e);
  bool possible = entry->method == METHOD_STORED ? entry->size == entry->packed
                                                 : entry->size / DEFLATE_RATIO_MAX <= entry->packed;
  if (!possible) return fail_entry(entry, "declares a size that its data cannot have", e);
  bool done = entry->method == METHOD_STORED ? copy_stored(&u, data, e) : inflate_all(&u, data, e);
  if (done && (u.done != entry->size || u.crc != entry->crc))
    return fail_entry(entry, "is damaged: its length or CRC is wrong", e);
  return done;
}
