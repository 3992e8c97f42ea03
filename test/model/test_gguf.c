// SPDX-License-Identifier: Apache-2.0
//
// test_gguf.c: the GGUF reader gives back what was written, and answers every damaged file with
// one clear line.
//
// Method: a right file made by test/support is read and compared; then it is cut at every length,
// every byte of its header is changed in several ways, and single fields are set to hostile values
// whose refusal is known.  Each variant lies in a heap block of exactly its size, so the address
// sanitizer sees a read of one byte too many.

#include "support/check.h"

#include "model/internal.h"
#include "support/gguf_writer.h"
#include "support/test_model.h"

// The smallest model the writer makes: the header is most of it.
static const struct test_model_options tiny = {.seed = 1,
                                               .layers = 1,
                                               .width = 32,
                                               .ffn_width = 32,
                                               .heads = 2,
                                               .kv_heads = 1,
                                               .vocabulary = 292,
                                               .dtype = KERNEL_Q4_0,
                                               .biases = true};

// Everything model_open does before it touches weights.
static bool check_bytes(struct str file, struct error *e) {
  struct gguf g;
  struct llama_settings s;
  struct llama_binding b;
  struct arena arena = {0};
  if (!model_gguf_open(&g, file, e)) return false;
  bool done = model_settings_read(&g, &s, e);
  const struct tensor *embedding = model_tensor_find(&g.tensors, "token_embd.weight");
  s.config.vocabulary = embedding && embedding->shape[1] < 1000 ? (int)embedding->shape[1] : 1;
  if (done) done = model_llama_bind(&g.tensors, &s, &arena, &b, e);
  if (done) {
    struct tokenizer *t = model_vocabulary_read(&g, s.config.vocabulary, e);
    done = t != NULL;
    tokenizer_free(t);
  }
  arena_clear(&arena);
  model_gguf_clear(&g);
  return done;
}

// The same on a copy that ends exactly where the file does.
static bool check_exact(struct str file, struct error *e) {
  char *copy = malloc(file.length ? file.length : 1);
  memcpy(copy, file.data, file.length);
  e->text[0] = 0;
  bool done = check_bytes((struct str){copy, file.length}, e);
  free(copy);
  if (!done) {
    assert_true(strlen(e->text) > 10);
    assert_null(strpbrk(e->text, "\n\r"));
    assert_int_not_equal(e->kind, ERROR_NONE);
  }
  return done;
}

// ---- right files

static void values_come_back(void **state) {
  (void)state;
  struct gguf_writer w = {.alignment = 64};
  struct buffer file = {0};
  struct error e;
  struct gguf g;
  gguf_writer_u32(&w, "a.number", 4000000000u);
  gguf_writer_f32(&w, "a.real", -2.5f);
  gguf_writer_bool(&w, "a.truth", true);
  gguf_writer_string(&w, "a.text", STR("zwölf"));
  gguf_writer_strings(&w, "a.list", (struct str[]){STR("x"), STR(""), STR("yz")}, 3);
  gguf_writer_ints(&w, "a.ints", (int32_t[]){-1, 7}, 2);
  gguf_writer_ints(&w, "a.same", (int32_t[]){9, 9, 9}, 3);
  float six[6] = {1, 2, 3, 4, 5, 6};
  gguf_writer_tensor(&w, "t.weight", 0, (uint64_t[]){3, 2}, 2, (struct str){(char *)six, 24});
  gguf_writer_finish(&w, &file);
  assert_true(model_gguf_open(&g, buffer_str(&file), &e));

  int64_t n = 0;
  double r = 0;
  bool b = false;
  struct str s = {0};
  const struct str *list;
  const int32_t *ints;
  uint64_t count;
  assert_true(model_gguf_int(&g, "a.number", 0, UINT32_MAX, &n, &e) && n == 4000000000u);
  assert_true(model_gguf_int(&g, "a.same", 0, 100, &n, &e) && n == 9);
  assert_true(model_gguf_float(&g, "a.real", -10, 10, &r, &e) && r == -2.5);
  assert_true(model_gguf_bool(&g, "a.truth", &b, &e) && b);
  assert_true(model_gguf_string(&g, "a.text", &s, &e) && str_equal(s, STR("zwölf")));
  assert_true(model_gguf_strings(&g, "a.list", &list, &count, &e) && count == 3);
  assert_true(str_equal(list[0], STR("x")) && list[1].length == 0 && str_equal(list[2], STR("yz")));
  assert_true(model_gguf_ints(&g, "a.ints", &ints, &count, &e) && count == 2 && ints[0] == -1);

  const struct tensor *t = model_tensor_find(&g.tensors, "t.weight");
  assert_non_null(t);
  assert_true(t->dimensions == 2 && t->shape[0] == 3 && t->shape[1] == 2 && t->bytes == 24);
  assert_int_equal(t->offset % 64, 0);
  assert_memory_equal(t->data, six, 24);
  model_gguf_clear(&g);
  buffer_clear(&file);
}

static void names_are_made_fit_for_people(void **state) {
  (void)state;
  char out[8];
  model_text_copy(STR("a\nb\x7f"), out, sizeof out);
  assert_string_equal(out, "a?b?");
  model_text_copy(STR("äöüß"), out, sizeof out);  // two bytes each: three fit
  assert_string_equal(out, "äöü");
  model_text_copy(STR("ab\xff"
                      "cd"),
                  out, sizeof out);
  assert_string_equal(out, "ab");
  assert_string_equal(model_quote(STR("zw\xc3\xb6lf\n")).text, "zw??lf?");
  char longest[200];
  memset(longest, 'x', sizeof longest);
  assert_int_equal(strlen(model_quote((struct str){longest, sizeof longest}).text), 64 + 3);
}

static void wrong_types_and_ranges_are_named(void **state) {
  (void)state;
  struct gguf_writer w = {0};
  struct buffer file = {0};
  struct error e;
  struct gguf g;
  int64_t n = 77;
  double r;
  gguf_writer_u32(&w, "a.number", 5);
  gguf_writer_ints(&w, "a.layers", (int32_t[]){4, 8}, 2);
  gguf_writer_f32(&w, "a.nan", __builtin_nanf(""));
  gguf_writer_finish(&w, &file);
  assert_true(model_gguf_open(&g, buffer_str(&file), &e));
  assert_false(model_gguf_int(&g, "a.number", 6, 9, &n, &e));
  assert_string_equal(e.text, "key \"a.number\" is 5 at byte 44, but must lie in 6..9");
  assert_false(model_gguf_float(&g, "a.number", 0, 9, &r, &e));
  assert_string_equal(e.text,
                      "key \"a.number\" holds u32 at byte 44, but a real number was expected");
  assert_false(model_gguf_int(&g, "a.layers", 0, 9, &n, &e));
  assert_non_null(strstr(e.text, "gives each layer its own value"));
  assert_false(model_gguf_float(&g, "a.nan", 0, 9, &r, &e));
  assert_true(model_gguf_int(&g, "absent", 6, 9, &n, &e));
  assert_int_equal(n, 77);
  model_gguf_clear(&g);
  buffer_clear(&file);
}

static void a_written_model_is_accepted(void **state) {
  (void)state;
  struct test_model_options o = tiny;
  for (int kind = 0; kind < 2; kind++)
    for (int dtype = 0; dtype < KERNEL_DTYPES; dtype++) {
      struct buffer file = {0};
      struct error e;
      o.tokenizer = kind ? TOKENIZER_BPE : TOKENIZER_SPM;
      o.dtype = (enum kernel_dtype)dtype;
      test_model_build(&o, &file);
      if (!check_exact(buffer_str(&file), &e)) fail_msg("%s", e.text);
      buffer_clear(&file);
    }
}

// ---- damaged files

static size_t header_length(struct str file) {
  struct gguf g;
  struct error e;
  assert_true(model_gguf_open(&g, file, &e));
  size_t first = file.length;
  for (size_t i = 0; i < g.tensors.count; i++)
    if (g.tensors.items[i].offset < first) first = g.tensors.items[i].offset;
  model_gguf_clear(&g);
  return first;
}

static void cut_at_every_length(void **state) {
  (void)state;
  struct buffer file = {0};
  struct error e;
  test_model_build(&tiny, &file);
  for (size_t length = 0; length < file.length; length++)
    if (check_exact((struct str){file.data, length}, &e)) fail_msg("cut at %zu it opened", length);
  assert_true(check_exact(buffer_str(&file), &e));
  buffer_clear(&file);
}

static void every_header_byte_changed(void **state) {
  (void)state;
  struct buffer file = {0};
  struct error e;
  test_model_build(&tiny, &file);
  size_t end = header_length(buffer_str(&file));
  int refused = 0;
  for (size_t at = 0; at < end; at++) {
    const char old = file.data[at];
    const char changed[] = {(char)~old, (char)(old ^ 1), (char)(old ^ 0x80), 0};
    for (size_t i = 0; i < sizeof changed; i++) {
      file.data[at] = changed[i];
      refused += !check_exact(buffer_str(&file), &e);
    }
    file.data[at] = old;
  }
  assert_true(refused > (int)end);  // texts and scores may change freely, structure may not
  buffer_clear(&file);
}

// A field of the file set to a value, and a piece of the line that must come of it.
struct hostile {
  const char *after;  // the field begins right behind this text in the file; NULL = `at` alone
  size_t at;
  int bytes;
  uint64_t value;
  const char *refusal;
};

static const struct hostile hostile_fields[] = {
    {NULL, 0, 4, 0, "does not begin with"},
    {NULL, 4, 4, 1, "GGUF version 1"},
    {NULL, 4, 4, 0x03000000, "big-endian"},
    {NULL, 4, 4, 4, "version 4"},
    {NULL, 8, 8, UINT64_MAX, "18446744073709551615 tensors"},
    {NULL, 8, 8, 65537, "65537 tensors"},
    {NULL, 16, 8, UINT64_MAX, "18446744073709551615 keys"},
    {NULL, 16, 8, 1000, "needs"},
    {NULL, 24, 8, UINT64_MAX, "key number 0 needs 18446744073709551615 bytes at byte 32"},
    {NULL, 24, 8, 0, "its name is empty at byte 24"},
    {"general.architectur", 0, 1, ' ', "its name is not printable ASCII"},
    {"general.architectur", 0, 1, 0x7f, "its name is not printable ASCII"},
    {"general.architecture", 0, 4, 13, "a type GGUF does not know"},
    {"general.architecture", 4, 8, 1ull << 63, "needs 9223372036854775808 bytes"},
    {"llama.block_count", 4, 4, 0, "must lie in 1..1024"},
    {"llama.block_count", 4, 4, 4000000000u, "4000000000"},
    {"llama.block_count", 4, 4, 2, "\"blk.1.attn_norm.weight\" is missing"},
    {"llama.attention.head_count", 4, 4, 3, "llama.rope.dimension_count"},
    {"blk.0.attn_q.bia", 0, 1, 'x', "\"blk.0.attn_q.biax\", which a plain llama does not have"},
    {"llama.embedding_length", 4, 4, 64, "[32, 292]"},
    {"llama.rope.freq_base", 4, 4, 0, "llama.rope.freq_base"},
    {"llama.rope.freq_base", 4, 4, 0x7fc00000, "nan"},
    {"layer_norm_rms_epsilon", 4, 4, 0x7f800000, "inf"},
    {"tokenizer.ggml.tokens", 8, 8, 1ull << 61, "needs"},
    {"tokenizer.ggml.tokens", 8, 8, 291, ""},
    {"tokenizer.ggml.tokens", 4, 4, 9, "needs"},
    {"tokenizer.ggml.token_type", 8, 8, UINT64_MAX / 4 + 2, "needs"},
    {"tokenizer.ggml.bos_token_id", 4, 4, 292, "but the vocabulary has 292 tokens"},
    {"token_embd.weight", 0, 4, 0, "1 to 4 dimensions"},
    {"token_embd.weight", 0, 4, 5, "1 to 4 dimensions"},
    {"token_embd.weight", 4, 8, 0, "one of its dimensions is 0"},
    {"token_embd.weight", 4, 8, 1ull << 60, "more than 2^63"},
    {"token_embd.weight", 4, 8, 1ull << 55, "more than 2^63"},
    {"token_embd.weight", 4, 8, 33, "no whole number of blocks"},
    {"token_embd.weight", 12, 8, 1ull << 50, "but the file ends at byte"},
    {"token_embd.weight", 20, 4, 12, "no whole number of blocks"},
    {"token_embd.weight", 20, 4, 4, "Q4_2, which was withdrawn"},
    {"token_embd.weight", 20, 4, 20, "IQ4_NL; Motley computes with"},
    {"token_embd.weight", 20, 4, 99, "a type ggml does not have"},
    {"token_embd.weight", 24, 8, 8, "its offset is not aligned"},
    {"token_embd.weight", 24, 8, 0xFFFFFFFFFFFFFFE0u, "but the file ends at byte"},
    {"blk.0.attn_norm.weight", 16, 8, 0, "overlap at byte"},
};

static size_t find_field(const struct buffer *file, const struct hostile *h) {
  if (!h->after) return h->at;
  char *found = memmem(file->data, file->length, h->after, strlen(h->after));
  assert_non_null(found);
  return (size_t)(found - file->data) + strlen(h->after) + h->at;
}

static void hostile_fields_are_refused_by_name(void **state) {
  (void)state;
  struct buffer file = {0};
  struct error e;
  test_model_build(&tiny, &file);
  for (size_t i = 0; i < COUNT_OF(hostile_fields); i++) {
    const struct hostile *h = &hostile_fields[i];
    char saved[8];
    size_t at = find_field(&file, h);
    memcpy(saved, file.data + at, (size_t)h->bytes);
    memcpy(file.data + at, &h->value, (size_t)h->bytes);
    bool opened = check_exact(buffer_str(&file), &e);
    if (opened || !strstr(e.text, h->refusal))
      fail_msg("field %zu (%s): \"%s\" lacks \"%s\"", i, h->after, opened ? "opened" : e.text,
               h->refusal);
    memcpy(file.data + at, saved, (size_t)h->bytes);
  }
  assert_true(check_exact(buffer_str(&file), &e));
  buffer_clear(&file);
}

// The right number of weights in another shape.
static void a_matrix_folded_otherwise_is_refused(void **state) {
  (void)state;
  struct buffer file = {0};
  struct arena arena = {0};
  struct llama_settings s;
  struct llama_binding b;
  struct gguf g;
  struct error e;
  test_model_build(&tiny, &file);
  assert_true(model_gguf_open(&g, buffer_str(&file), &e));
  assert_true(model_settings_read(&g, &s, &e));
  s.config.vocabulary = 292;
  assert_true(model_llama_bind(&g.tensors, &s, &arena, &b, &e));
  struct tensor *t =
      &g.tensors.items[model_tensor_find(&g.tensors, "blk.0.attn_q.weight") - g.tensors.items];
  *t = (struct tensor){t->name,     t->type,   3,        {32, 1, 32, 1},
                       t->elements, t->offset, t->bytes, t->data};
  assert_false(model_llama_bind(&g.tensors, &s, &arena, &b, &e));
  assert_string_equal(e.text,
                      "tensor \"blk.0.attn_q.weight\" has the shape [32, 1, 32], but its "
                      "settings ask for [32, 32]");
  arena_clear(&arena);
  model_gguf_clear(&g);
  buffer_clear(&file);
}

// ---- unusual models

static void add_nothing(struct gguf_writer *w) { (void)w; }
static void add_experts(struct gguf_writer *w) { gguf_writer_u32(w, "llama.expert_count", 8); }
static void add_capping(struct gguf_writer *w) {
  gguf_writer_f32(w, "llama.final_logit_softcapping", 30);
}
static void add_window(struct gguf_writer *w) {
  gguf_writer_u32(w, "llama.attention.sliding_window", 16);
}
static void add_longrope(struct gguf_writer *w) {
  gguf_writer_string(w, "llama.rope.scaling.type", STR("longrope"));
}
static void add_split(struct gguf_writer *w) { gguf_writer_u32(w, "split.count", 3); }
static void add_second(struct gguf_writer *w) { gguf_writer_u32(w, "llama.block_count", 1); }
static void add_qwen(struct gguf_writer *w) {
  gguf_writer_string(w, "general.architecture", STR("qwen\n2"));
}

static const struct {
  void (*add)(struct gguf_writer *w);
  const char *refusal;
} unusual[] = {
    {add_qwen, "architecture is \"qwen?2\"; Motley runs llama"},
    {add_experts, "a mixture of experts (\"llama.expert_count\" = 8"},
    {add_capping, "soft-capped logits"},
    {add_window, "sliding attention window of 16"},
    {add_longrope, "is \"longrope\""},
    {add_split, "parts of a split model"},
    {add_second, "\"llama.block_count\": the file has it twice"},
    {add_nothing, "\"token_embd.weight\" is missing"},
};

// The settings of a model with one thing more, and no tensors: what is unusual must come first.
static void unusual_models_are_refused_by_name(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(unusual); i++) {
    struct gguf_writer w = {0};
    struct buffer file = {0};
    struct error e;
    unusual[i].add(&w);
    if (unusual[i].add != add_qwen) gguf_writer_string(&w, "general.architecture", STR("llama"));
    gguf_writer_u32(&w, "llama.block_count", 1);
    gguf_writer_u32(&w, "llama.context_length", 256);
    gguf_writer_u32(&w, "llama.embedding_length", 32);
    gguf_writer_u32(&w, "llama.feed_forward_length", 32);
    gguf_writer_u32(&w, "llama.attention.head_count", 2);
    gguf_writer_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_writer_finish(&w, &file);
    assert_false(check_exact(buffer_str(&file), &e));
    if (!strstr(e.text, unusual[i].refusal))
      fail_msg("\"%s\" lacks \"%s\"", e.text, unusual[i].refusal);
    buffer_clear(&file);
  }
}

// ---- other formats

static const struct {
  struct str bytes;
  const char *refusal;
} formats[] = {
    {{"", 0}, "the file is empty"},
    {{"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", 58}, "Git LFS pointer"},
    {{"PK\x03\x04\x14\0\0\0\0\0", 10}, "PyTorch"},
    {{"\x80\x02\x8a\x0al\xfc\x9c\x46", 8}, "pickle"},
    {{"\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 30}, "safetensors"},
    {{"<!DOCTYPE html><html><head>404", 30}, "web page"},
    {{"\n  <html lang=\"en\">", 19}, "web page"},
    {{"{\"error\": \"not found\"}", 22},
     "it is text that begins \"{\"error\": \"not found\"}\", not a model; give a GGUF"},
    {{"tjgg\x03\0\0\0", 8}, "before GGUF"},
    {{"\x1f\x8b\x08\0\0\0", 6}, "gzip"},
    {{"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32}, "no model file"},
    {{"\xff\xfe", 2}, "cut short"},
};

static void other_formats_are_named(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(formats); i++) {
    struct error e = {0};
    assert_null(model_open_bytes(formats[i].bytes, NULL, "x.gguf", NULL, NULL, &e));
    if (!strstr(e.text, formats[i].refusal) || strncmp(e.text, "x.gguf: ", 8) != 0)
      fail_msg("\"%s\" lacks \"%s\"", e.text, formats[i].refusal);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_come_back),
      cmocka_unit_test(names_are_made_fit_for_people),
      cmocka_unit_test(wrong_types_and_ranges_are_named),
      cmocka_unit_test(a_written_model_is_accepted),
      cmocka_unit_test(cut_at_every_length),
      cmocka_unit_test(every_header_byte_changed),
      cmocka_unit_test(hostile_fields_are_refused_by_name),
      cmocka_unit_test(a_matrix_folded_otherwise_is_refused),
      cmocka_unit_test(unusual_models_are_refused_by_name),
      cmocka_unit_test(other_formats_are_named),
  };
  return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
