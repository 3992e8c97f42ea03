// SPDX-License-Identifier: Apache-2.0
//
// fields.c: one table of the fields that clients of OpenAI's, vLLM's and llama.cpp's servers send
// and that mean nothing here.
//
//   why given    the field would change the answer and cannot be honoured: refused by name
//   why NULL     the answer is the same without it: ignored
//
// A value that asks for nothing is let through.  That is null always; then the value in the column
// `neutral` where there is one, or else false, "", [] and {}.  docs/api.md lists every row
// (test_fields.c holds that).  Fields that are in no table are ignored, as OpenAI's clients expect.

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/internal.h"

#define NO_GRAMMAR "is not supported: this server does not force answers into a form"
#define NO_MEDIA "is not supported: this server reads and writes text only"
#define NO_TEMPLATE "is not supported: the model's own chat template is used as it is"
#define NO_SAMPLER "is not supported: this server has no such sampler"
#define NO_THINKING "is not supported: nothing here changes how much a model thinks"
#define OF_CHAT "belongs to /v1/chat/completions"
#define OF_COMPLETIONS "belongs to /v1/completions"

static const struct api_field fields[] = {
    // OpenAI
    {"functions", API_CHAT, NULL, "is not supported: use tools"},
    {"function_call", API_CHAT, NULL, "is not supported: use tool_choice"},
    {"parallel_tool_calls", API_CHAT, "true", "is not supported: a model may call several tools"},
    {"audio", API_BOTH, NULL, NO_MEDIA},
    {"web_search_options", API_BOTH, NULL, "is not supported: this server does not search the web"},
    {"reasoning_effort", API_BOTH, "none", NO_THINKING},
    {"verbosity", API_BOTH, "medium", "is not supported: ask for it in a message"},
    {"suffix", API_COMPLETIONS, NULL, "is not supported: this server does not fill text in"},
    {"user", API_BOTH, NULL, NULL},
    {"safety_identifier", API_BOTH, NULL, NULL},
    {"prompt_cache_key", API_BOTH, NULL, NULL},
    {"prompt_cache_retention", API_BOTH, NULL, NULL},
    {"store", API_BOTH, NULL, NULL},
    {"metadata", API_BOTH, NULL, NULL},
    {"service_tier", API_BOTH, NULL, NULL},
    {"prediction", API_BOTH, NULL, NULL},
    // fields of the other route
    {"prompt", API_CHAT, NULL, OF_COMPLETIONS},
    {"echo", API_CHAT, NULL, OF_COMPLETIONS},
    {"best_of", API_CHAT, "1", OF_COMPLETIONS},
    {"messages", API_COMPLETIONS, NULL, OF_CHAT},
    {"continue_final_message", API_COMPLETIONS, NULL, OF_CHAT},
    {"add_generation_prompt", API_COMPLETIONS, NULL, OF_CHAT},
    {"tools", API_COMPLETIONS, NULL, OF_CHAT},
    {"tool_choice", API_COMPLETIONS, "none", OF_CHAT},
    {"max_completion_tokens", API_COMPLETIONS, NULL, OF_CHAT ": use max_tokens"},
    {"top_logprobs", API_COMPLETIONS, NULL, OF_CHAT ": use logprobs"},
    // forms of answers
    {"guided_json", API_BOTH, NULL, NO_GRAMMAR},
    {"guided_regex", API_BOTH, NULL, NO_GRAMMAR},
    {"guided_choice", API_BOTH, NULL, NO_GRAMMAR},
    {"guided_grammar", API_BOTH, NULL, NO_GRAMMAR},
    {"structured_outputs", API_BOTH, NULL, NO_GRAMMAR},
    {"structural_tag", API_BOTH, NULL, NO_GRAMMAR},
    {"grammar", API_BOTH, NULL, NO_GRAMMAR},
    {"grammar_triggers", API_BOTH, NULL, NO_GRAMMAR},
    {"json_schema", API_BOTH, NULL, NO_GRAMMAR},
    {"regex", API_BOTH, NULL, NO_GRAMMAR},
    {"ebnf", API_BOTH, NULL, NO_GRAMMAR},
    {"format", API_BOTH, NULL, NO_GRAMMAR},
    {"guided_decoding_backend", API_BOTH, NULL, NULL},
    {"guided_whitespace_pattern", API_BOTH, NULL, NULL},
    // where an answer ends
    {"min_tokens", API_BOTH, "0", "is not supported: an answer may be as short as the model likes"},
    {"min_new_tokens", API_BOTH, "0",
     "is not supported: an answer may be as short as the model likes"},
    {"stop_token_ids", API_BOTH, NULL, "is not supported: use stop"},
    {"stop_regex", API_BOTH, NULL, "is not supported: use stop"},
    {"include_stop_str_in_output", API_BOTH, NULL, "is not supported: stop texts are never shown"},
    {"no_stop_trim", API_BOTH, NULL, "is not supported: stop texts are never shown"},
    {"n_predict", API_BOTH, "-1", "is not supported: use max_tokens"},
    {"n_indent", API_BOTH, "0", "is not supported: use stop"},
    {"t_max_predict_ms", API_BOTH, "0", "is not supported: close the connection to end an answer"},
    // how tokens are chosen
    {"allowed_token_ids", API_BOTH, NULL, "is not supported: use logit_bias"},
    {"bad_words", API_BOTH, NULL, "is not supported: use logit_bias"},
    {"logits_processors", API_BOTH, NULL, NO_SAMPLER},
    {"custom_logit_processor", API_BOTH, NULL, NO_SAMPLER},
    {"use_beam_search", API_BOTH, NULL, NO_SAMPLER},
    {"length_penalty", API_BOTH, "1", NO_SAMPLER},
    {"early_stopping", API_BOTH, NULL, NO_SAMPLER},
    {"samplers", API_BOTH, NULL, NO_SAMPLER},
    {"repeat_penalty", API_BOTH, "1", "is not supported: use repetition_penalty"},
    {"repeat_last_n", API_BOTH, "-1", "is not supported: repetition_penalty looks at everything"},
    {"penalize_nl", API_BOTH, NULL, NO_SAMPLER},
    {"penalty_prompt", API_BOTH, NULL, NO_SAMPLER},
    {"typical_p", API_BOTH, "1", NO_SAMPLER},
    {"tfs_z", API_BOTH, "1", NO_SAMPLER},
    {"top_a", API_BOTH, "0", NO_SAMPLER},
    {"top_n_sigma", API_BOTH, "-1", NO_SAMPLER},
    {"xtc_probability", API_BOTH, "0", NO_SAMPLER},
    {"dry_multiplier", API_BOTH, "0", NO_SAMPLER},
    {"mirostat", API_BOTH, "0", NO_SAMPLER},
    {"dynatemp_range", API_BOTH, "0", NO_SAMPLER},
    {"min_keep", API_BOTH, "0", NO_SAMPLER},
    {"xtc_threshold", API_BOTH, NULL, NULL},
    {"dry_base", API_BOTH, NULL, NULL},
    {"dry_allowed_length", API_BOTH, NULL, NULL},
    {"dry_penalty_last_n", API_BOTH, NULL, NULL},
    {"dry_sequence_breakers", API_BOTH, NULL, NULL},
    {"mirostat_tau", API_BOTH, NULL, NULL},
    {"mirostat_eta", API_BOTH, NULL, NULL},
    {"dynatemp_exponent", API_BOTH, NULL, NULL},
    // what the model is told
    {"add_special_tokens", API_COMPLETIONS, "true",
     "is not supported: send the prompt as token ids"},
    {"add_special_tokens", API_CHAT, "false", NO_TEMPLATE},
    {"truncate_prompt_tokens", API_BOTH, NULL, "is not supported: shorten the prompt"},
    {"prompt_embeds", API_BOTH, NULL, NO_MEDIA},
    {"image_data", API_BOTH, NULL, NO_MEDIA},
    {"multimodal_data", API_BOTH, NULL, NO_MEDIA},
    {"mm_processor_kwargs", API_BOTH, NULL, NO_MEDIA},
    {"documents", API_BOTH, NULL, NO_TEMPLATE},
    {"chat_template", API_BOTH, NULL, NO_TEMPLATE},
    {"chat_template_kwargs", API_BOTH, NULL, NO_TEMPLATE},
    {"enable_thinking", API_BOTH, "true", NO_THINKING},
    {"thinking", API_BOTH, NULL, NO_THINKING},
    {"think", API_BOTH, NULL, NO_THINKING},
    {"thinking_budget_tokens", API_BOTH, "-1", NO_THINKING},
    {"lora", API_BOTH, NULL, "is not supported: this server serves one model as it is"},
    {"lora_path", API_BOTH, NULL, "is not supported: this server serves one model as it is"},
    {"options", API_BOTH, NULL, "is not supported: give each option as a field of its own"},
    // what the answer tells
    {"skip_special_tokens", API_BOTH, "true", "is not supported: special tokens are never shown"},
    {"include_reasoning", API_CHAT, "true", "is not supported: the answer holds all of the text"},
    {"separate_reasoning", API_CHAT, NULL, "is not supported: the answer holds all of the text"},
    {"reasoning_format", API_CHAT, "none", "is not supported: the answer holds all of the text"},
    {"parse_tool_calls", API_CHAT, NULL, "is not supported: the answer holds all of the text"},
    {"prompt_logprobs", API_BOTH, NULL,
     "is not supported: use logprobs and echo of /v1/completions"},
    {"n_probs", API_BOTH, "0", "is not supported: use logprobs"},
    {"post_sampling_probs", API_BOTH, NULL, "is not supported: use logprobs"},
    {"return_tokens_as_token_ids", API_BOTH, NULL,
     "is not supported: logprobs name tokens by text"},
    {"return_token_ids", API_BOTH, NULL, "is not supported: use logprobs"},
    {"return_tokens", API_BOTH, NULL, "is not supported: use logprobs"},
    {"return_hidden_states", API_BOTH, NULL, "is not supported: this server gives text only"},
    {"response_fields", API_BOTH, NULL, "is not supported: every answer has all fields"},
    {"spaces_between_special_tokens", API_BOTH, NULL, NULL},
    {"timings_per_token", API_BOTH, NULL, NULL},
    {"return_progress", API_BOTH, NULL, NULL},
    // how the server works
    {"kv_transfer_params", API_BOTH, NULL, "is not supported: this server computes by itself"},
    {"vllm_xargs", API_BOTH, NULL, "is not supported: this is another server"},
    {"cache_prompt", API_BOTH, NULL, NULL},
    {"cache_salt", API_BOTH, NULL, NULL},
    {"priority", API_BOTH, NULL, NULL},
    {"request_id", API_BOTH, NULL, NULL},
    {"id_slot", API_BOTH, NULL, NULL},
    {"n_keep", API_BOTH, NULL, NULL},
    {"n_discard", API_BOTH, NULL, NULL},
};

const struct api_field *api_field_at(size_t index) {
  return index < COUNT_OF(fields) ? &fields[index] : NULL;
}

bool api_field_applies(enum api_route where, bool chat) {
  assert(where == API_BOTH || where == API_CHAT || where == API_COMPLETIONS);
  return where == API_BOTH || (where == API_CHAT) == chat;
}

static bool is_neutral(const char *neutral, const json_t *value) {
  double number;
  assert(neutral && value);
  if (json_is_string(value)) return str_equal(api_json_text(value), str_of(neutral));
  if (json_is_boolean(value)) return strcmp(neutral, json_is_true(value) ? "true" : "false") == 0;
  return json_is_number(value) && str_to_double(str_of(neutral), &number) &&
         json_number_value(value) == number;
}

static bool is_empty(const json_t *value) {
  return json_is_false(value) || (json_is_string(value) && !json_string_length(value)) ||
         (json_is_array(value) && !json_array_size(value)) ||
         (json_is_object(value) && !json_object_size(value));
}

static bool asks_for_nothing(const struct api_field *f, const json_t *value) {
  assert(f->name && f->why);
  return !value || (f->neutral ? is_neutral(f->neutral, value) : is_empty(value));
}

bool api_refuse_fields(struct api_reader *r) {
  for (size_t i = 0; i < COUNT_OF(fields); i++) {
    const struct api_field *f = &fields[i];
    if (!f->why || !api_field_applies(f->where, r->out->chat)) continue;
    if (asks_for_nothing(f, api_json_member(r->root, f->name))) continue;
    api_refuse(r, f->name, "%s", f->why);
    snprintf(r->e->code, sizeof r->e->code, "unsupported_parameter");
    return false;
  }
  return true;
}
