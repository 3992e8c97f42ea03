// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_words.c: cuts text into the words that byte-level BPE merges within.
//
// A pre-tokenizer is a list of regular expressions (table `rules_table`, named as GGUF names them).  The first cuts
// the whole text: each match is a word and so is what lies between two matches.  The next cuts each of those words
// again, and so on:
//
//   "ab 12 cd"   \p{N}      →  [ab ] [1] [2] [ cd]
//                the second →  [ab] [ ] [1] [2] [ cd]
//
// Patterns never look beyond the word they cut.  They are written so that matching is linear: repeats of single
// characters only, and no run that is tried again from each of its characters.  Should a match still meet a limit,
// the rest of the word stays whole.
//
// Ids must equal llama.cpp's, whose character classes are newer than PCRE2's and differ in one space, so matching
// runs on a copy where the few characters in `stand_ins` are replaced by one of the same length and the wanted
// class. Invalid UTF-8 becomes U+FFFD byte by byte, but overlong forms and surrogates are taken for what they
// encode, both as llama.cpp does.

#include <stdio.h>
#include <string.h>

#include "model/tokenizer_internal.h"

#define REPLACEMENT "\xEF\xBF\xBD"  // U+FFFD
#define MATCH_LIMIT 10000000u       // steps of one match; a linear pattern needs few per byte
#define HEAP_LIMIT_KIB 65536u       // of one match, for the interpreter that runs where JIT is not allowed

// ---- the table

// English contractions, in lower or in any case, and the ends that several families share.
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_CASE "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define SPACES "|\\s+(?!\\S)|\\s+"
#define LINES_SPACES "|\\s*[\\r\\n]+" SPACES
#define OTHERS_LINES_SPACES "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINES_SPACES
#define SLASHES_LINES_SPACES "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" LINES_SPACES
// [^\P{L}a-z] are the letters without a to z.
#define UPPER_LOWER "[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]*[^\\P{L}A-Z]+"
#define UPPER "[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]+[^\\P{L}A-Z]*"

#define GPT2 CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" SPACES
#define LLAMA3 ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" OTHERS_LINES_SPACES
#define QWEN2 ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" OTHERS_LINES_SPACES
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define GPT4O UPPER_LOWER "(?:" ANY_CASE ")?|" UPPER "(?:" ANY_CASE ")?|\\p{N}{1,3}" SLASHES_LINES_SPACES
// Han, and every script from U+0800 on up to it, without the spaces that lie between.
#define DEEPSEEK_EAST                                                                               \
  "[\\x{800}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}" \
  "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK_CASED                                                                    \
  "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"          \
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
  "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"

static const struct rules_entry {
  const char *names;  // between spaces
  bool whole_words_first;
  const char *patterns[TOKENIZER_PATTERNS_MAX];
} rules_table[] = {
    {" default ", false, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2 midm-2.0 ", true, {LLAMA3}},
    {" dbrx smaug-bpe glm4 chatglm-bpe ", false, {LLAMA3}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", false, {"\\p{N}", GPT2}},
    {" gpt-2 phi-2 mpt olmo jais exaone4 gigachat a.x-4.0 mellum trillion granite-docling ", false, {GPT2}},
    {" qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan solar-open grok-2 kormo ", false, {QWEN2}},
    {" qwen35 ",
     false,
     {ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINES_SPACES}},
    {" tekken ", true, {UPPER_LOWER "|" UPPER "|\\p{N}" SLASHES_LINES_SPACES}},
    {" gpt-4o llama4 kanana2 talkie minimax-m2 ", false, {GPT4O}},
    {" deepseek-llm ",
     false,
     {"[\\r\\n]", "\\s?[" DEEPSEEK_CASED "]+", "\\s?[!-/:-~！-／：-～‘-‟\\x{3001}\\x{3002}]+", "(?<!\\s)\\s++\\z",
      DEEPSEEK_EAST, "\\p{N}+"}},
    {" deepseek-coder ", false, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_EAST, "\\p{N}"}},
    {" deepseek-v3 hunyuan-dense joyai-llm ",
     false,
     {"\\p{N}{1,3}", CJK,
      "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
      "| ?[\\p{P}\\p{S}]+[\\r\\n]*" LINES_SPACES}},
    {" falcon ", false, {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {" minicpm5 ", true, {"\\p{N}{1,3}", ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+" OTHERS_LINES_SPACES}},
    {" bailingmoe bailingmoe2 llada-moe ",
     false,
     {ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]" SPACES}},
    {" seed-coder ",
     false,
     {ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" LINES_SPACES}},
    {" youtu ",
     true,
     {"[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[！…“”‘’—：；，\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+"
      "|[\\x{3105}-\\x{312F}]+|" CJK,
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+(?:" ANY_CASE ")?|\\p{N}" SLASHES_LINES_SPACES}},
    {" chameleon ",
     false,
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2}},
    {" poro-chat bloom gpt3-finnish ", false, {BLOOM}},
    {" viking ", false, {BLOOM, "\\p{N}"}},
    {" laguna ", false, {"[^\\n]+|\\n+", QWEN2}},
};

// ---- finding the rules of a name

static const struct rules_entry *find_entry(struct str name) {
  char key[64];
  if (name.length == 0) return &rules_table[0];  // old files do not say
  if (name.length + 3 > sizeof key || memchr(name.data, ' ', name.length) || memchr(name.data, 0, name.length))
    return NULL;
  snprintf(key, sizeof key, " %.*s ", (int)name.length, name.data);
  for (size_t i = 0; i < COUNT_OF(rules_table); i++)
    if (strstr(rules_table[i].names, key)) return &rules_table[i];
  return NULL;
}

static bool refuse(struct str name, struct error *e) {
  struct buffer known = {0};
  for (size_t i = 0; i < COUNT_OF(rules_table); i++) {
    struct str names = str_trim(str_of(rules_table[i].names));
    if (i) buffer_add_char(&known, ' ');
    buffer_add_str(&known, names);
  }
  error_set(e, ERROR_UNSUPPORTED, "tokenizer: the pre-tokenizer \"%.*s\" is not supported; known are: %s",
            (int)(name.length < 64 ? name.length : 64), name.data, known.data);
  buffer_clear(&known);
  return false;
}

static bool compile(struct word_rules *rules, const char *pattern, struct error *e) {
  int code;
  PCRE2_SIZE offset;
  pcre2_code *compiled =
      pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
  if (!compiled)
    return error_set(e, ERROR_SYSTEM, "tokenizer: PCRE2 refuses a pattern (error %d at byte %zu): %s", code, offset,
                     pattern);
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // where the system allows it; else the interpreter runs
  rules->patterns[rules->count++] = compiled;
  return true;
}

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

// ---- characters that PCRE2 10.42 (Unicode 14) classes unlike llama.cpp (Unicode 15.1, White_Space)

#define NUMBER 0x11066       // BRAHMI DIGIT ZERO
#define LETTER 0x20000       // a Han character
#define MARK 0x11001         // BRAHMI SIGN ANUSVARA
#define PUNCTUATION 0x11047  // BRAHMI DANDA
#define SYMBOL 0x1F600       // an emoji
#define MARK_SHORT 0x901     // DEVANAGARI SIGN CANDRABINDU: three bytes, as what it stands for
#define SYMBOL_SHORT 0x2FF0  // an ideographic description character
#define FORMAT_SHORT 0x200B  // ZERO WIDTH SPACE, which is no space
#define PRIVATE_SHORT 0xE000

// Sorted; not overlapping.
static const struct stand_in {
  uint32_t first, last;
  uint32_t by;  // as long in UTF-8
} stand_ins[] = {
    {0xCF3, 0xCF3, MARK_SHORT},      {0xECE, 0xECE, MARK_SHORT},     {0x180E, 0x180E, FORMAT_SHORT},
    {0x2FFC, 0x2FFF, SYMBOL_SHORT},  {0x31EF, 0x31EF, SYMBOL_SHORT}, {0xD800, 0xDFFF, PRIVATE_SHORT},
    {0x10EFD, 0x10EFF, MARK},        {0x1123F, 0x11240, LETTER},     {0x11241, 0x11241, MARK},
    {0x11B00, 0x11B09, PUNCTUATION}, {0x11F00, 0x11F01, MARK},       {0x11F02, 0x11F02, LETTER},
    {0x11F03, 0x11F03, MARK},        {0x11F04, 0x11F10, LETTER},     {0x11F12, 0x11F33, LETTER},
    {0x11F34, 0x11F3A, MARK},        {0x11F3E, 0x11F42, MARK},       {0x11F43, 0x11F4F, PUNCTUATION},
    {0x11F50, 0x11F59, NUMBER},      {0x1342F, 0x1342F, LETTER},     {0x13440, 0x13440, MARK},
    {0x13441, 0x13446, LETTER},      {0x13447, 0x13455, MARK},       {0x1B132, 0x1B132, LETTER},
    {0x1B155, 0x1B155, LETTER},      {0x1D2C0, 0x1D2D3, NUMBER},     {0x1DF25, 0x1DF2A, LETTER},
    {0x1E030, 0x1E06D, LETTER},      {0x1E08F, 0x1E08F, MARK},       {0x1E4D0, 0x1E4EB, LETTER},
    {0x1E4EC, 0x1E4EF, MARK},        {0x1E4F0, 0x1E4F9, NUMBER},     {0x1F6DC, 0x1F6DC, SYMBOL},
    {0x1F774, 0x1F776, SYMBOL},      {0x1F77B, 0x1F77F, SYMBOL},     {0x1F7D9, 0x1F7D9, SYMBOL},
    {0x1FA75, 0x1FA77, SYMBOL},      {0x1FA87, 0x1FA88, SYMBOL},     {0x1FAAD, 0x1FAAF, SYMBOL},
    {0x1FABB, 0x1FABD, SYMBOL},      {0x1FABF, 0x1FABF, SYMBOL},     {0x1FACE, 0x1FACF, SYMBOL},
    {0x1FADA, 0x1FADB, SYMBOL},      {0x1FAE8, 0x1FAE8, SYMBOL},     {0x1FAF7, 0x1FAF8, SYMBOL},
    {0x2B739, 0x2B739, LETTER},      {0x2EBF0, 0x2EE5D, LETTER},     {0x31350, 0x323AF, LETTER},
};

static uint32_t stand_in_for(uint32_t character) {
  if (character < stand_ins[0].first) return character;
  size_t low = 0, high = COUNT_OF(stand_ins);
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (stand_ins[middle].last < character)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < COUNT_OF(stand_ins) && stand_ins[low].first <= character;
  return found ? stand_ins[low].by : character;
}

// ---- cleaning the text

// Decodes one character, also an overlong one or a surrogate; 0 where the bytes are none at all.
static int decode_leniently(struct str s, size_t at, uint32_t *character) {
  unsigned char first = (unsigned char)s.data[at];
  int length = first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0;
  if (length == 0 || (size_t)length > s.length - at) return 0;
  uint32_t c = length == 1 ? first : first & (0x7Fu >> length);
  for (int i = 1; i < length; i++) {
    unsigned char byte = (unsigned char)s.data[at + (size_t)i];
    if ((byte & 0xC0) != 0x80) return 0;
    c = c << 6 | (byte & 0x3Fu);
  }
  *character = c;
  return c > 0x10FFFF ? 0 : length;
}

static bool is_clean(struct str text) {
  for (size_t at = 0; at < text.length;) {
    uint32_t character = (unsigned char)text.data[at];
    int length = character < 0x80 ? 1 : str_utf8_decode(text, at, &character);
    if (length == 0 || stand_in_for(character) != character) return false;
    at += (size_t)length;
  }
  return true;
}

static void add_character(struct buffer *b, uint32_t character) {
  char bytes[4];
  int length = str_utf8_encode(character, bytes);
  if (length == 0) {  // a surrogate
    bytes[0] = (char)(0xE0 | character >> 12);
    bytes[1] = (char)(0x80 | (character >> 6 & 0x3F));
    bytes[2] = (char)(0x80 | (character & 0x3F));
    length = 3;
  }
  buffer_add(b, bytes, (size_t)length);
}

// Fills two buffers of equal length: `clean`, which words are made of, and `subject`, which patterns match.
static void clean_text(struct str text, struct buffer *clean, struct buffer *subject) {
  for (size_t at = 0; at < text.length;) {
    uint32_t character;
    int length = decode_leniently(text, at, &character);
    if (length == 0) character = 0xFFFD, length = 1;
    add_character(clean, character);
    add_character(subject, stand_in_for(character));
    at += (size_t)length;
  }
}

// ---- cutting

struct cutting {
  const struct word_rules *rules;
  pcre2_match_data *match;
  const char *clean, *subject;
  tokenizer_word word;
  void *context;
};

// Cuts bytes begin..end by pattern number `depth` and those after it; recursion is as deep as the list is long.
static void cut(const struct cutting *c, int depth, size_t begin, size_t end) {
  if (begin == end) return;
  if (depth == c->rules->count) {
    c->word(c->context, (struct str){c->clean + begin, end - begin});
    return;
  }
  size_t done = begin;
  while (done < end) {
    PCRE2_SPTR subject = (PCRE2_SPTR)c->subject + begin;
    int found = pcre2_match(c->rules->patterns[depth], subject, end - begin, done - begin,
                            PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, c->match, c->rules->limits);
    if (found <= 0) break;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(c->match);
    size_t match_begin = begin + at[0], match_end = begin + at[1];  // the deeper call overwrites *at
    cut(c, depth + 1, done, match_begin);
    cut(c, depth + 1, match_begin, match_end);
    done = match_end;
  }
  cut(c, depth + 1, done, end);
}

void tokenizer_split_words(const struct word_rules *rules, struct str text, tokenizer_word word, void *context) {
  struct buffer clean = {0}, subject = {0};
  struct cutting c = {rules, pcre2_match_data_create(1, NULL), text.data, text.data, word, context};
  size_t length = text.length;
  if (!is_clean(text)) {
    clean_text(text, &clean, &subject);
    c.clean = clean.data, c.subject = subject.data, length = clean.length;
  }
  if (c.match)
    cut(&c, 0, 0, length);
  else if (length)
    word(context, (struct str){c.clean, length});
  pcre2_match_data_free(c.match);
  buffer_clear(&clean);
  buffer_clear(&subject);
}
