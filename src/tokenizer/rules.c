// SPDX-License-Identifier: Apache-2.0
//
// rules.c: the regular expressions of each pre-tokenizer, by the name that GGUF gives it.
//
// What they mean and how they are applied is told in words.c.  The expressions are those
// of the models' own tokenizer files, rewritten where matching would not be linear or would need
// memory for each character:
//
//   there                             here
//   ((?=\p{L})[^a-z])*                [^\P{L}a-z]*      the letters without a to z, as one class
//   \s+$                              (?<!\s)\s++\z     only tried where a run of spaces begins
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)      ANY_CASE          no other character folds to these letters
//
// A name that is not here is refused: a near miss would change ids silently.

#include <stdio.h>
#include <string.h>

#include "tokenizer/internal.h"

#define MATCH_LIMIT 10000000u  // steps of one match; a linear pattern needs few per byte
#define HEAP_LIMIT_KIB 65536u  // of one match, for the interpreter that runs where JIT may not

// ---- parts

#define ANY_CASE "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"  // English contractions
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define LINES "|\\s*[\\r\\n]+"
#define SPACES "|\\s+(?!\\S)|\\s+"  // all but the last before a word, which keeps that one
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+"
#define ENDS OTHERS "[\\r\\n]*" LINES SPACES
#define ENDS_SLASH OTHERS "[\\r\\n/]*" LINES SPACES
#define LOWER_WORD "[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]*[^\\P{L}A-Z]+"
#define UPPER_WORD "[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]+[^\\P{L}A-Z]*"

// ---- whole expressions

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+" OTHERS SPACES
#define LLAMA3 ANY_CASE "|" WORD "|\\p{N}{1,3}" ENDS
#define QWEN2 ANY_CASE "|" WORD "|\\p{N}" ENDS
#define QWEN35_WORD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+"
#define QWEN35_OTHERS "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
#define QWEN35 ANY_CASE "|" QWEN35_WORD "|\\p{N}" QWEN35_OTHERS LINES SPACES
#define TEKKEN LOWER_WORD "|" UPPER_WORD "|\\p{N}" ENDS_SLASH
#define GPT4O_WORDS LOWER_WORD "(?:" ANY_CASE ")?|" UPPER_WORD "(?:" ANY_CASE ")?"
#define GPT4O GPT4O_WORDS "|\\p{N}{1,3}" ENDS_SLASH
#define MINICPM5 ANY_CASE "|" WORD "|\\p{N}+" ENDS
#define BAILING ANY_CASE "|" WORD "|\\p{N}" OTHERS "[\\r\\n]*|\\s*[\\r\\n]" SPACES
#define SEED_CODER ANY_CASE "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" LINES SPACES
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"
#define HAN_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"

#define YOUTU_HANGUL "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+"
#define YOUTU_MARKS "[！…“”‘’—：；，\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+"
#define YOUTU_EAST YOUTU_HANGUL "|" YOUTU_MARKS "|[\\x{3105}-\\x{312F}]+|" HAN_KANA
#define YOUTU QWEN35_WORD "(?:" ANY_CASE ")?|\\p{N}" ENDS_SLASH

#define DEEPSEEK3_WORDS "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3 DEEPSEEK3_WORDS "| ?[\\p{P}\\p{S}]+[\\r\\n]*" LINES SPACES
#define DEEPSEEK_MARKS "\\s?[!-/:-~！-／：-～‘-‟\\x{3001}\\x{3002}]+"
#define DEEPSEEK_LAST_SPACES "(?<!\\s)\\s++\\z"
// Every script from U+0800 up to Han and Hangul, without the spaces that lie between.
#define DEEPSEEK_EAST                                         \
  "[\\x{800}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}" \
  "\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}" \
  "\\x{3001}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"
// Letters that have case.
#define DEEPSEEK_CASED                                                                    \
  "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"     \
  "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"  \
  "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"           \
  "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                \
  "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"          \
  "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"          \
  "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}" \
  "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"  \
  "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"          \
  "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"           \
  "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"            \
  "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}" \
  "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"  \
  "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"           \
  "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"          \
  "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"        \
  "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"  \
  "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"

static const struct rules_entry {
  const char *names;  // each between spaces
  bool whole_words_first;
  const char *patterns[TOKENIZER_PATTERNS_MAX];
} rules_table[] = {
    {" default ", false, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2 midm-2.0 ", true, {LLAMA3}},
    {" glm4 chatglm-bpe dbrx smaug-bpe ", false, {LLAMA3}},
    {" smollm starcoder refact command-r codeshell exaone ", false, {"\\p{N}", GPT2}},
    {" minerva-7b mellum2 ", false, {"\\p{N}", GPT2}},
    {" gpt-2 phi-2 mpt olmo jais exaone4 gigachat a.x-4.0 ", false, {GPT2}},
    {" mellum trillion granite-docling ", false, {GPT2}},
    {" qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan ", false, {QWEN2}},
    {" solar-open grok-2 kormo ", false, {QWEN2}},
    {" qwen35 ", false, {QWEN35}},
    {" tekken ", true, {TEKKEN}},
    {" gpt-4o llama4 kanana2 talkie minimax-m2 ", false, {GPT4O}},
    {" deepseek-llm ",
     false,
     {"[\\r\\n]", DEEPSEEK_CASED, DEEPSEEK_MARKS, DEEPSEEK_LAST_SPACES, DEEPSEEK_EAST, "\\p{N}+"}},
    {" deepseek-coder ",
     false,
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_EAST, "\\p{N}"}},
    {" deepseek-v3 hunyuan-dense joyai-llm ", false, {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3}},
    {" falcon ", false, {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {" minicpm5 ", true, {"\\p{N}{1,3}", MINICPM5}},
    {" bailingmoe bailingmoe2 llada-moe ", false, {BAILING}},
    {" seed-coder ", false, {SEED_CODER}},
    {" youtu ", true, {YOUTU_EAST, YOUTU}},
    {" chameleon ",
     false,
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", GPT2}},
    {" poro-chat bloom gpt3-finnish ", false, {BLOOM}},
    {" viking ", false, {BLOOM, "\\p{N}"}},
    {" laguna ", false, {"[^\\n]+|\\n+", QWEN2}},
};

// ---- finding the rules of a name

static const struct rules_entry *find_entry(struct str name) {
  char key[64];
  if (name.length == 0) return &rules_table[0];  // old files do not say
  if (name.length + 3 > sizeof key || memchr(name.data, ' ', name.length) ||
      memchr(name.data, 0, name.length))
    return NULL;
  snprintf(key, sizeof key, " %.*s ", (int)name.length, name.data);
  for (size_t i = 0; i < COUNT_OF(rules_table); i++)
    if (strstr(rules_table[i].names, key)) return &rules_table[i];
  return NULL;
}

// Lists the first name of each row: all of them would not fit one line.
static bool refuse(struct str name, struct error *e) {
  struct buffer known = {0};
  for (size_t i = 0; i < COUNT_OF(rules_table); i++) {
    const char *first = rules_table[i].names + 1;
    if (i) buffer_add_char(&known, ' ');
    buffer_add(&known, first, (size_t)(strchr(first, ' ') - first));
  }
  error_set(
      e, ERROR_UNSUPPORTED,
      "tokenizer: the pre-tokenizer \"%.*s\" is not supported; supported are the families of: %s",
      (int)(name.length < 64 ? name.length : 64), name.data, known.data);
  buffer_clear(&known);
  return false;
}

// A failure here is the library's (built without Unicode, say): the patterns are our own.
static bool compile(struct word_rules *rules, const char *pattern, struct error *e) {
  int code;
  PCRE2_SIZE offset;
  pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
  if (!compiled)
    return error_set(e, ERROR_SYSTEM,
                     "tokenizer: PCRE2 refuses a pattern (error %d at byte %zu): %s", code, offset,
                     pattern);
  // Where the system forbids memory to be written and run, this fails and the interpreter runs.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  rules->patterns[rules->count++] = compiled;
  return true;
}

// What is half filled when a step fails is released with the tokenizer.
bool tokenizer_find_rules(struct str name, struct word_rules *rules, struct error *e) {
  const struct rules_entry *entry = find_entry(name);
  if (!entry) return refuse(name, e);
  rules->whole_words_first = entry->whole_words_first;
  rules->limits = pcre2_match_context_create(NULL);
  if (!rules->limits) return error_set(e, ERROR_MEMORY, "tokenizer: no memory for its patterns");
  pcre2_set_match_limit(rules->limits, MATCH_LIMIT);
  pcre2_set_heap_limit(rules->limits, HEAP_LIMIT_KIB);
  for (int i = 0; i < TOKENIZER_PATTERNS_MAX && entry->patterns[i]; i++)
    if (!compile(rules, entry->patterns[i], e)) return false;
  return true;
}

void tokenizer_clear_rules(struct word_rules *rules) {
  for (int i = 0; i < rules->count; i++) pcre2_code_free(rules->patterns[i]);
  pcre2_match_context_free(rules->limits);
  *rules = (struct word_rules){0};
}
