// SPDX-License-Identifier: Apache-2.0
//
// settings.c: GGUF metadata → llama_settings.
//
// What the file says is read by tables: whole numbers with their limits, and keys that would change
// what the model computes in a way this code does not do.  Of the latter only the neutral value is
// let through ("expert_count" 0), so a mixture of experts or a soft-capped model is refused by name
// instead of running wrongly.
//
// Rotary scaling (key llama.rope.scaling.type): "none"; "linear" divides all angles by the factor
// (also what an absent type with a factor means, and the old key rope.scale_linear); "yarn" blends
// (rope.c).  Llama 3's scaling needs no key: it comes as the tensor rope_freqs.weight.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

// ---- keys that are numbers

// Fields of the settings that one key fills.  A field holds its default before.
static const struct {
  const char *key;
  int64_t high;  // low is 1
  size_t at;     // of an int in struct model_config
  bool required;
} numbers[] = {
    {"llama.block_count", MODEL_LAYERS_MAX, offsetof(struct model_config, layers), true},
    {"llama.context_length", MODEL_CONTEXT_MAX, offsetof(struct model_config, context), true},
    {"llama.embedding_length", MODEL_WIDTH_MAX, offsetof(struct model_config, width), true},
    {"llama.feed_forward_length", MODEL_FFN_MAX, offsetof(struct model_config, ffn_width), true},
    {"llama.attention.head_count", MODEL_HEADS_MAX, offsetof(struct model_config, heads), true},
    {"llama.attention.head_count_kv", MODEL_HEADS_MAX, offsetof(struct model_config, kv_heads),
     false},
    {"llama.attention.key_length", MODEL_HEAD_DIM_MAX, offsetof(struct model_config, head_dim),
     false},
};

// Two keys have defaults that depend on others, filled in at the end.
static bool read_numbers(const struct gguf *g, struct model_config *c, struct error *e) {
  for (size_t i = 0; i < COUNT_OF(numbers); i++) {
    int64_t value = 0;
    if (!model_gguf_int(g, numbers[i].key, 1, numbers[i].high, &value, e)) return false;
    if (value == 0 && numbers[i].required)
      return error_set(e, ERROR_INPUT, "the key \"%s\" is missing: it is no complete model",
                       numbers[i].key);
    memcpy((char *)c + numbers[i].at, &(int){(int)value}, sizeof(int));
  }
  if (!c->kv_heads) c->kv_heads = c->heads;
  if (!c->head_dim) c->head_dim = c->width / c->heads;
  return true;
}

// ---- keys that must be neutral

static const struct {
  const char *key;
  double neutral[2];  // values that change nothing
  const char *what;   // what another value asks for
} neutral_keys[] = {
    {"llama.expert_count", {0, 0}, "a mixture of experts"},
    {"llama.expert_used_count", {0, 0}, "a mixture of experts"},
    {"llama.attention.clamp_kqv", {0, 0}, "clamping of queries, keys and values"},
    {"llama.attention.max_alibi_bias", {0, 0}, "ALiBi instead of rotary positions"},
    {"llama.attention.scale", {0, 0}, "its own attention scale"},
    {"llama.attn_logit_softcapping", {0, 0}, "soft-capped attention"},
    {"llama.final_logit_softcapping", {0, 0}, "soft-capped logits"},
    {"llama.logit_scale", {0, 1}, "scaled logits"},
    {"llama.residual_scale", {0, 1}, "a scaled residual stream"},
    {"llama.embedding_scale", {0, 1}, "scaled embeddings"},
    {"llama.attention.causal", {1, 1}, "attention to later tokens"},
    {"llama.use_parallel_residual", {0, 0}, "parallel residuals"},
    {"llama.pooling_type", {0, 0}, "pooling: it is an embedding model"},
    {"llama.nextn_predict_layers", {0, 0}, "multi-token prediction layers"},
    {"llama.rope.scaling.alpha", {0, 0}, "NTK-alpha rotary scaling"},
    {"llama.rope.scaling.yarn_ext_factor", {1, -1}, "a partial YaRN"},
    {"llama.rope.scaling.yarn_attn_factor", {1, 1}, "a YaRN magnitude of its own"},
    {"llama.rope.scaling.yarn_beta_fast", {32, 32}, "a YaRN ramp of its own"},
    {"llama.rope.scaling.yarn_beta_slow", {1, 1}, "a YaRN ramp of its own"},
    {"llama.rope.scaling.yarn_log_multiplier", {0, 0}, "a YaRN magnitude of its own"},
    {"split.count", {0, 1}, "the other parts of a split model: join them into one file first"},
};

// The value of a key whatever its number type; false, and *out as it was, for something else.
static bool value_of(const struct gguf *g, const struct gguf_entry *v, const char *key,
                     double *out) {
  int64_t whole;
  bool truth;
  if (v->type == GGUF_BOOL && model_gguf_bool(g, key, &truth, NULL)) return *out = truth, true;
  if (model_gguf_int(g, key, INT64_MIN, INT64_MAX, &whole, NULL)) return *out = (double)whole, true;
  return model_gguf_float(g, key, -HUGE_VAL, HUGE_VAL, out, NULL);
}

// A value of a type that is no number cannot be judged neutral and is refused as well.
static bool refuse_unusual(const struct gguf *g, struct error *e) {
  for (size_t i = 0; i < COUNT_OF(neutral_keys); i++) {
    const char *key = neutral_keys[i].key;
    const struct gguf_entry *v = model_gguf_find(g, key);
    double value = NAN;
    if (!v) continue;
    if (value_of(g, v, key, &value) &&
        (value == neutral_keys[i].neutral[0] || value == neutral_keys[i].neutral[1]))
      continue;
    return error_set(e, ERROR_UNSUPPORTED,
                     "it asks for %s (\"%s\" = %g at byte %" PRIu64
                     "), which Motley does not do yet",
                     neutral_keys[i].what, key, value, v->offset);
  }
  if (model_gguf_find(g, "llama.rope.dimension_sections"))
    return error_set(e, ERROR_UNSUPPORTED,
                     "it asks for rotary positions in sections, which Motley does not do");
  return true;
}

// A sliding window at least as long as the context never hides a token.
static bool check_window(const struct gguf *g, int context, struct error *e) {
  int64_t window = 0;
  if (!model_gguf_int(g, "llama.attention.sliding_window", 0, INT64_MAX, &window, e)) return false;
  if (window == 0 || window >= context) return true;
  return error_set(e, ERROR_UNSUPPORTED,
                   "it asks for a sliding attention window of %" PRId64
                   " of its %d positions, which Motley does not "
                   "do yet",
                   window, context);
}

// ---- rotary positions

// Absent means linear, whose factor is then 1 or given by the old key.
static bool read_scaling(const struct gguf *g, struct rope_settings *r, struct error *e) {
  static const struct {
    struct str name;
    enum rope_scaling scaling;
  } names[] = {{{"none", 4}, ROPE_NONE}, {{"linear", 6}, ROPE_LINEAR}, {{"yarn", 4}, ROPE_YARN}};
  struct str name = STR("linear");
  if (!model_gguf_string(g, "llama.rope.scaling.type", &name, e)) return false;
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (str_equal(name, names[i].name)) return r->scaling = names[i].scaling, true;
  return error_set(e, ERROR_UNSUPPORTED,
                   "its rotary scaling (\"llama.rope.scaling.type\") is \"%s\"; Motley does none, "
                   "linear and yarn, "
                   "and Llama 3's by its tensor rope_freqs.weight",
                   model_quote(name).text);
}

// A factor of 0 is what some converters write for "none".
static bool read_rope(const struct gguf *g, const struct model_config *c, struct rope_settings *r,
                      struct error *e) {
  int64_t rotated = c->head_dim, original = c->context;
  const double small = 1e-3, big = 1e12;
  *r = (struct rope_settings){.base = 10000, .factor = 0, .attention_factor = 1};
  const char *factor_key = "llama.rope.scaling.factor";
  if (!model_gguf_find(g, factor_key)) factor_key = "llama.rope.scale_linear";
  if (!read_scaling(g, r, e) ||
      !model_gguf_int(g, "llama.rope.dimension_count", 2, c->head_dim, &rotated, e) ||
      !model_gguf_int(g, "llama.rope.scaling.original_context_length", 1, MODEL_CONTEXT_MAX,
                      &original, e) ||
      !model_gguf_float(g, "llama.rope.freq_base", 1 + small, big, &r->base, e) ||
      !model_gguf_float(g, factor_key, 0, big, &r->factor, e) ||
      !model_gguf_float(g, "llama.rope.scaling.attn_factor", small, big, &r->attention_factor, e))
    return false;
  if (r->factor != 0 && r->factor < small)
    return error_set(e, ERROR_INPUT, "key \"%s\" is %g, which is no sensible factor", factor_key,
                     r->factor);
  if (r->factor == 0) r->factor = 1;  // what files without scaling write
  r->rotated = (int)rotated;
  r->original = (double)original;
  return true;
}

// ---- the whole

// Comes first: what the other keys mean depends on it.
static bool read_architecture(const struct gguf *g, struct model_config *c, struct error *e) {
  struct str name = {0};
  if (!model_gguf_string(g, "general.architecture", &name, e)) return false;
  if (!name.length)
    return error_set(e, ERROR_INPUT, "the key \"general.architecture\" is missing: it is no model");
  if (!str_equal(name, STR("llama")))
    return error_set(
        e, ERROR_UNSUPPORTED,
        "its architecture is \"%s\"; Motley runs llama (Llama 1 to 3, SmolLM2, TinyLlama, Mistral)",
        model_quote(name).text);
  snprintf(c->architecture, sizeof c->architecture, "llama");
  return true;
}

static bool read_name(const struct gguf *g, struct model_config *c, struct error *e) {
  struct str name = {0};
  if (!model_gguf_string(g, "general.name", &name, e)) return false;
  model_text_copy(name, c->name, sizeof c->name);
  return true;
}

// For both formats: what each number's own limits cannot say.
bool model_settings_check(const struct llama_settings *s, struct error *e) {
  ASSERT(s->config.architecture[0]);
  const struct model_config *c = &s->config;
  if (c->heads % c->kv_heads)
    return error_set(e, ERROR_INPUT,
                     "it has %d attention heads, which is no multiple of its %d key-value heads",
                     c->heads, c->kv_heads);
  if (c->head_dim < 1 || c->head_dim > MODEL_HEAD_DIM_MAX)
    return error_set(e, ERROR_INPUT,
                     "its attention heads are %d long (width %d, %d heads); 1..%d is possible",
                     c->head_dim, c->width, c->heads, MODEL_HEAD_DIM_MAX);
  if (s->rope.rotated % 2 || s->rope.rotated < 2)
    return error_set(e, ERROR_INPUT,
                     "it turns %d dimensions of each head; that must be an even number",
                     s->rope.rotated);
  if ((int64_t)c->heads * c->head_dim > MODEL_WIDTH_MAX)
    return error_set(e, ERROR_INPUT, "its %d heads of %d dimensions are more than %d in all",
                     c->heads, c->head_dim, MODEL_WIDTH_MAX);
  return true;
}

// Refusals go from the general to the particular, so that the line names the real reason.
bool model_settings_read(const struct gguf *g, struct llama_settings *out, struct error *e) {
  struct llama_settings s = {0};
  struct model_config *c = &s.config;
  double epsilon = 0;
  if (!read_architecture(g, c, e) || !read_numbers(g, c, e) || !refuse_unusual(g, e) ||
      !check_window(g, c->context, e) || !read_name(g, c, e) || !read_rope(g, c, &s.rope, e))
    return false;
  int64_t value_length = c->head_dim;
  if (!model_gguf_int(g, "llama.attention.value_length", c->head_dim, c->head_dim, &value_length,
                      e))
    return false;
  if (!model_gguf_float(g, "llama.attention.layer_norm_rms_epsilon", 1e-30, 1, &epsilon, e))
    return false;
  if (epsilon == 0)
    return error_set(e, ERROR_INPUT,
                     "the key \"llama.attention.layer_norm_rms_epsilon\" is missing");
  c->rms_epsilon = (float)epsilon;
  if (!model_settings_check(&s, e)) return false;
  *out = s;
  return true;
}
