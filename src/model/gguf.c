// SPDX-License-Identifier: Apache-2.0
//
// gguf.c: the GGUF container, versions 2 and 3, little-endian, read in place.
//
//   "GGUF" version:u32 tensors:u64 entries:u64
//   entry × entries     key:string type:u32 value
//   tensor × tensors    name:string n:u32 shape:u64×n type:u32 offset:u64
//   padding             to general.alignment, 32 unless the file says otherwise
//   data                of the tensors, each aligned; their offsets count from here
//
//   string = length:u64 bytes           array value = type:u32 count:u64 elements
//
// One pass over the header with a cursor that cannot leave the file: every read asks `need` first,
// so a length or count is compared with the bytes that are left before it is used, and nothing is
// allocated that the file does not pay for byte by byte.  Values stay where they are; an entry
// remembers its offset, and the typed readers in gguf_value.c fetch it.  Keys and tensor names are
// found by a hash map.
//
// Refused: duplicate keys and tensor names, names that are no printable ASCII, types GGUF does not
// have, arrays nested deeper than MODEL_NESTING_MAX, shapes whose product overflows, data outside
// the file, misaligned or overlapping data.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"

#define DEFAULT_ALIGNMENT 32
#define ALIGNMENT_MAX (1 << 20)
#define ENTRY_BYTES_MIN 13u   // an entry with an empty key and a one-byte value
#define TENSOR_BYTES_MIN 32u  // a tensor with an empty name and one dimension

// Bytes of one element by gguf_type; 0 = of variable length.
static const uint8_t element_bytes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct cursor {
  struct str file;
  uint64_t at;       // <= file.length
  const char *part;  // what is being read, for errors: "key", "tensor"
  uint64_t number;   // which one, from 0
  struct str name;   // its name, once known
  struct error *e;
};

// ---- the cursor

static bool bad(const struct cursor *c, uint64_t at, const char *what) {
  if (c->name.length)
    return error_set(c->e, ERROR_INPUT, "%s \"%s\": %s at byte %" PRIu64, c->part,
                     model_quote(c->name).text, what, at);
  return error_set(c->e, ERROR_INPUT, "%s number %" PRIu64 ": %s at byte %" PRIu64, c->part,
                   c->number, what, at);
}

// The one gate before every read: a length is compared with what is left of the file, never added
// to anything first, so no sum can overflow.
static bool need(const struct cursor *c, uint64_t bytes) {
  ASSERT(c->at <= c->file.length);
  if (bytes <= c->file.length - c->at) return true;
  if (c->name.length)
    return error_set(c->e, ERROR_INPUT,
                     "%s \"%s\" needs %" PRIu64 " bytes at byte %" PRIu64
                     ", but the file ends at byte %zu: it is cut short or damaged; fetch it again",
                     c->part, model_quote(c->name).text, bytes, c->at, c->file.length);
  return error_set(c->e, ERROR_INPUT,
                   "%s number %" PRIu64 " needs %" PRIu64 " bytes at byte %" PRIu64
                   ", but the file ends at byte %zu: it is cut short or damaged; fetch it again",
                   c->part, c->number, bytes, c->at, c->file.length);
}

static bool take_u32(struct cursor *c, uint32_t *out) {
  if (!need(c, sizeof *out)) return false;
  memcpy(out, c->file.data + c->at, sizeof *out);
  c->at += sizeof *out;
  return true;
}

static bool take_u64(struct cursor *c, uint64_t *out) {
  if (!need(c, sizeof *out)) return false;
  memcpy(out, c->file.data + c->at, sizeof *out);
  c->at += sizeof *out;
  return true;
}

static bool take_string(struct cursor *c, struct str *out) {
  uint64_t length;
  if (!take_u64(c, &length) || !need(c, length)) return false;
  *out = (struct str){c->file.data + c->at, length};
  c->at += length;
  return true;
}

// A key or a tensor's name: printable ASCII, so that it can stand in an error line and in a log.
static bool take_name(struct cursor *c, size_t most, struct str *out) {
  uint64_t start = c->at;
  struct str name;
  c->name = (struct str){0};
  if (!take_string(c, &name)) return false;
  if (name.length == 0) return bad(c, start, "its name is empty");
  if (name.length > most) return bad(c, start, "its name is too long");
  for (size_t i = 0; i < name.length; i++)
    if (name.data[i] < 0x21 || name.data[i] > 0x7e)
      return bad(c, start + 8 + i, "its name is not printable ASCII; the file is damaged");
  *out = c->name = name;
  return true;
}

// ---- entries

static bool take_type(struct cursor *c, enum gguf_type *out) {
  uint32_t type;
  if (!take_u32(c, &type)) return false;
  if (type >= GGUF_TYPES) return bad(c, c->at - 4, "its value has a type GGUF does not know");
  *out = (enum gguf_type)type;
  return true;
}

static bool skip_array(struct cursor *c, int depth);

// Steps over the elements of a value without storing them; the typed readers come back for those
// that somebody asks for.
static bool skip_elements(struct cursor *c, enum gguf_type type, uint64_t count, int depth) {
  ASSERT(depth >= 0 && depth <= MODEL_NESTING_MAX);
  if (element_bytes[type]) {
    uint64_t bytes;
    if (__builtin_mul_overflow(count, (uint64_t)element_bytes[type], &bytes)) bytes = UINT64_MAX;
    if (!need(c, bytes)) return false;
    c->at += bytes;
    return true;
  }
  struct str ignored;
  for (uint64_t i = 0; i < count; i++)  // each takes 8 bytes at least, so the file bounds the loop
    if (!(type == GGUF_STRING ? take_string(c, &ignored) : skip_array(c, depth + 1))) return false;
  return true;
}

static bool skip_array(struct cursor *c, int depth) {
  enum gguf_type type = GGUF_U8;
  uint64_t count;
  if (depth > MODEL_NESTING_MAX) return bad(c, c->at, "its arrays are nested too deeply");
  return take_type(c, &type) && take_u64(c, &count) && skip_elements(c, type, count, depth);
}

// A value that is no array counts as an array of one, so that readers need a single way to get at
// it.
static bool take_entry(struct cursor *c, struct gguf_entry *out) {
  if (!take_name(c, MODEL_KEY_BYTES_MAX, &out->key) || !take_type(c, &out->type)) return false;
  out->items = out->type;
  out->count = 1;
  if (out->type == GGUF_ARRAY && !(take_type(c, &out->items) && take_u64(c, &out->count)))
    return false;
  out->offset = c->at;
  return skip_elements(c, out->items, out->count, 1);
}

// A key that is there twice is refused: which of the two a program takes is how such files deceive.
static bool take_entries(struct gguf *g, struct cursor *c) {
  c->part = "key";
  g->entries = arena_new(&g->arena, g->entry_count * sizeof *g->entries);
  for (size_t i = 0; i < g->entry_count; i++) {
    c->number = i;
    c->name = (struct str){0};
    uint64_t start = c->at;
    struct gguf_entry *entry = &g->entries[i];
    if (!take_entry(c, entry)) return false;
    if (map_get(&g->by_key, entry->key, &(int64_t){0}))
      return bad(c, start,
                 "the file has it twice, and Motley cannot know which one counts; the second is");
    map_put(&g->by_key, entry->key, (int64_t)i);
  }
  return true;
}

// Tensor offsets are multiples of the alignment, so it must be known before the tensors are read.
static bool read_alignment(struct gguf *g, struct error *e) {
  int64_t alignment = DEFAULT_ALIGNMENT;
  if (!model_gguf_int(g, "general.alignment", 8, ALIGNMENT_MAX, &alignment, e)) return false;
  if (alignment & (alignment - 1))
    return error_set(e, ERROR_INPUT, "general.alignment is %" PRId64 ", but must be a power of two",
                     alignment);
  g->alignment = (uint64_t)alignment;
  return true;
}

// ---- tensors

// Every product is checked as it grows: later code may multiply any of the dimensions freely.
static bool take_shape(struct cursor *c, struct tensor *t) {
  uint32_t dimensions;
  if (!take_u32(c, &dimensions)) return false;
  if (dimensions < 1 || dimensions > 4)
    return bad(c, c->at - 4, "it does not have 1 to 4 dimensions");
  t->dimensions = (int)dimensions;
  t->elements = 1;
  for (uint32_t i = 0; i < 4; i++) {
    t->shape[i] = 1;
    if (i < dimensions && !take_u64(c, &t->shape[i])) return false;
    if (t->shape[i] == 0) return bad(c, c->at - 8, "one of its dimensions is 0");
    if (__builtin_mul_overflow(t->elements, t->shape[i], &t->elements) || t->elements > INT64_MAX)
      return bad(c, c->at - 8, "its dimensions multiply to more than 2^63");
  }
  return true;
}

// The size follows from type and shape; the file does not state it.  A type without blocks cannot
// be measured, so it must be refused here; types Motley merely lacks are refused by whoever needs
// the tensor.
static bool measure(struct cursor *c, struct tensor *t) {
  ASSERT(t->dimensions >= 1 && t->dimensions <= 4);
  struct tensor_type type = model_tensor_type(t->type);
  uint64_t at = c->at - 12;  // where the type stands
  if (!*type.name) return bad(c, at, "it has a type ggml does not have");
  if (!type.block)
    return error_set(c->e, ERROR_UNSUPPORTED,
                     "tensor \"%s\" has the type %s, which was withdrawn from GGUF",
                     model_quote(t->name).text, type.name);
  if (t->shape[0] % type.block) return bad(c, at, "its rows are no whole number of blocks");
  if (__builtin_mul_overflow(t->elements / type.block, (uint64_t)type.bytes, &t->bytes))
    return bad(c, at, "its size overflows");
  return true;
}

// One tensor's description.  Its data is placed later, when the end of the header is known.
static bool take_tensor(struct gguf *g, struct cursor *c, size_t index) {
  struct tensor *t = &g->tensors.items[index];
  uint64_t start = c->at;
  if (!take_name(c, MODEL_TENSOR_NAME_MAX, &t->name)) return false;
  if (map_get(&g->tensors.by_name, t->name, &(int64_t){0}))
    return bad(c, start,
               "the file has it twice, and Motley cannot know which one counts; the second is");
  map_put(&g->tensors.by_name, t->name, (int64_t)index);
  if (!take_shape(c, t) || !take_u32(c, &t->type) || !take_u64(c, &t->offset) || !measure(c, t))
    return false;
  if (t->offset % g->alignment) return bad(c, c->at - 8, "its offset is not aligned");
  return true;
}

// Names reach the map at once, which finds a second use of a name in constant time.
static bool take_tensors(struct gguf *g, struct cursor *c) {
  c->part = "tensor";
  g->tensors.items = arena_new(&g->arena, g->tensors.count * sizeof *g->tensors.items);
  for (size_t i = 0; i < g->tensors.count; i++) {
    c->number = i;
    c->name = (struct str){0};
    if (!take_tensor(g, c, i)) return false;
  }
  return true;
}

// Offsets in the file count from the start of the data; from here on they count from the start of
// the file.
static bool place_data(struct gguf *g, uint64_t header_end, struct error *e) {
  uint64_t start = (header_end + g->alignment - 1) / g->alignment * g->alignment;
  for (size_t i = 0; i < g->tensors.count; i++) {
    struct tensor *t = &g->tensors.items[i];
    uint64_t end;
    bool overflow = __builtin_add_overflow(t->offset, start, &t->offset) ||
                    __builtin_add_overflow(t->offset, t->bytes, &end);
    if (overflow || end > g->file.length)
      return error_set(e, ERROR_INPUT,
                       "tensor \"%s\" needs %" PRIu64 " bytes at byte %" PRIu64
                       ", but the file ends at byte %zu: it is cut short; fetch it again",
                       model_quote(t->name).text, t->bytes, t->offset, g->file.length);
    t->data = (const uint8_t *)g->file.data + t->offset;
  }
  return true;
}

static int by_offset(const void *a, const void *b) {
  const struct tensor *x = *(const struct tensor *const *)a, *y = *(const struct tensor *const *)b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Two tensors that share bytes are never right, and packing one would read the other's pages after
// they were given back.  Sorted by place, only neighbours can overlap.
static bool refuse_overlap(struct gguf *g, struct error *e) {
  const struct tensor **sorted = arena_new(&g->arena, g->tensors.count * sizeof *sorted);
  for (size_t i = 0; i < g->tensors.count; i++) sorted[i] = &g->tensors.items[i];
  qsort(sorted, g->tensors.count, sizeof *sorted, by_offset);
  for (size_t i = 1; i < g->tensors.count; i++)
    if (sorted[i - 1]->offset + sorted[i - 1]->bytes > sorted[i]->offset)
      return error_set(e, ERROR_INPUT,
                       "tensors \"%s\" and \"%s\" overlap at byte %" PRIu64 "; the file is damaged",
                       model_quote(sorted[i - 1]->name).text, model_quote(sorted[i]->name).text,
                       sorted[i]->offset);
  return true;
}

// ---- the whole

// Version 1 had 32-bit counts; a big-endian file shows its version in the upper half of the word.
static bool check_version(uint32_t version, struct error *e) {
  if (version == 2 || version == 3) return true;
  if (version == 1)
    return error_set(
        e, ERROR_UNSUPPORTED,
        "it is GGUF version 1, of August 2023; Motley reads 2 and 3: fetch or convert it anew");
  if (version && !(version & 0xFFFF))
    return error_set(
        e, ERROR_UNSUPPORTED,
        "it is a big-endian GGUF; Motley reads little-endian ones: fetch the usual file");
  return error_set(e, ERROR_UNSUPPORTED,
                   "it says it is GGUF version %" PRIu32 "; Motley reads 2 and 3", version);
}

// A count is believed only if the file is long enough for that many of the smallest items, so that
// tables sized by it stay in proportion to the file.
static bool check_count(const struct cursor *c, const char *what, uint64_t count, uint64_t most,
                        uint64_t bytes_each) {
  uint64_t left = c->file.length - c->at;
  if (count > most)
    return error_set(c->e, ERROR_INPUT,
                     "its header counts %" PRIu64 " %s, but at most %" PRIu64
                     " are possible: it is damaged; fetch it again",
                     count, what, most);
  if (count <= left / bytes_each) return true;
  return error_set(c->e, ERROR_INPUT,
                   "its header counts %" PRIu64 " %s, but only %" PRIu64
                   " bytes follow: it is cut short; fetch it again",
                   count, what, left);
}

// The parts in the order they lie in the file.
static bool parse(struct gguf *g, struct cursor *c) {
  uint64_t tensors, entries;
  if (!take_u32(c, &g->version) || !check_version(g->version, c->e)) return false;
  if (!take_u64(c, &tensors) || !take_u64(c, &entries)) return false;
  if (!check_count(c, "keys", entries, MODEL_ENTRIES_MAX, ENTRY_BYTES_MIN)) return false;
  if (!check_count(c, "tensors", tensors, MODEL_TENSORS_MAX, TENSOR_BYTES_MIN)) return false;
  g->entry_count = entries;
  g->tensors.count = tensors;
  return take_entries(g, c) && read_alignment(g, c->e) && take_tensors(g, c) &&
         place_data(g, c->at, c->e) && refuse_overlap(g, c->e);
}

// On failure everything found so far is dropped: there is no half-read file.
bool model_gguf_open(struct gguf *g, struct str file, struct error *e) {
  ASSERT(file.data || !file.length);
  *g = (struct gguf){.file = file};
  struct cursor c = {.file = file, .part = "header field", .e = e};
  uint32_t magic;
  if (file.length < 4 || memcmp(file.data, "GGUF", 4) != 0)
    return error_set(e, ERROR_INPUT, "it does not begin with \"GGUF\"");
  if (take_u32(&c, &magic) && parse(g, &c)) return true;
  model_gguf_clear(g);
  return false;
}

void model_gguf_clear(struct gguf *g) {
  map_clear(&g->by_key);
  map_clear(&g->tensors.by_name);
  arena_clear(&g->arena);
  *g = (struct gguf){0};
}

const struct gguf_entry *model_gguf_find(const struct gguf *g, const char *key) {
  ASSERT(key && key[0]);
  int64_t index;
  return map_get(&g->by_key, str_of(key), &index) ? &g->entries[index] : NULL;
}
