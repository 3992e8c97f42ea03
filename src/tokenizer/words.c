// SPDX-License-Identifier: Apache-2.0
//
// words.c: cuts text into the words that byte-level BPE merges within.
//
// A pre-tokenizer is a list of regular expressions (rules.c).  The first cuts the whole
// text: each match is a word and so is what lies between two matches.  The next cuts each of those
// words again, and so on:
//
//   "ab 12 cd"   \p{N}      →  [ab ] [1] [2] [ cd]
//                the second →  [ab] [ ] [1] [2] [ cd]
//
// Patterns never look beyond the word they cut.  They are written so that matching is linear:
// repeats of single characters only, and no run that is tried again from each of its characters.
// Should a match still meet a limit, the rest of the word stays whole.
//
// Ids must equal llama.cpp's, whose character classes are newer than PCRE2's and differ in one
// space, so matching runs on a copy where the few characters in `stand_ins` are replaced by one of
// the same length and the wanted class.  Invalid UTF-8 becomes U+FFFD byte by byte, but overlong
// forms and surrogates are taken for what they encode, both as llama.cpp does.

#include <string.h>

#include "tokenizer/internal.h"

// ---- stand-ins

#define NUMBER 0x11066       // BRAHMI DIGIT ZERO
#define LETTER 0x20000       // a Han character
#define MARK 0x11001         // BRAHMI SIGN ANUSVARA
#define PUNCTUATION 0x11047  // BRAHMI DANDA
#define SYMBOL 0x1F600       // an emoji
#define MARK_SHORT 0x901     // DEVANAGARI SIGN CANDRABINDU: three bytes, as what it stands for
#define SYMBOL_SHORT 0x2FF0  // an ideographic description character
#define FORMAT_SHORT 0x200B  // ZERO WIDTH SPACE, which is no space
#define PRIVATE_SHORT 0xE000

// Characters that PCRE2 10.42 (Unicode 14) classes unlike llama.cpp (Unicode 15.1; U+180E no space;
// surrogates are characters).  Sorted; not overlapping.
static const struct stand_in {
  uint32_t first, last;
  uint32_t by;  // as long in UTF-8
} stand_ins[] = {
    {0xCF3, 0xCF3, MARK_SHORT},     {0xECE, 0xECE, MARK_SHORT},
    {0x180E, 0x180E, FORMAT_SHORT}, {0x2FFC, 0x2FFF, SYMBOL_SHORT},
    {0x31EF, 0x31EF, SYMBOL_SHORT}, {0xD800, 0xDFFF, PRIVATE_SHORT},
    {0x10EFD, 0x10EFF, MARK},       {0x1123F, 0x11240, LETTER},
    {0x11241, 0x11241, MARK},       {0x11B00, 0x11B09, PUNCTUATION},
    {0x11F00, 0x11F01, MARK},       {0x11F02, 0x11F02, LETTER},
    {0x11F03, 0x11F03, MARK},       {0x11F04, 0x11F10, LETTER},
    {0x11F12, 0x11F33, LETTER},     {0x11F34, 0x11F3A, MARK},
    {0x11F3E, 0x11F42, MARK},       {0x11F43, 0x11F4F, PUNCTUATION},
    {0x11F50, 0x11F59, NUMBER},     {0x1342F, 0x1342F, LETTER},
    {0x13440, 0x13440, MARK},       {0x13441, 0x13446, LETTER},
    {0x13447, 0x13455, MARK},       {0x1B132, 0x1B132, LETTER},
    {0x1B155, 0x1B155, LETTER},     {0x1D2C0, 0x1D2D3, NUMBER},
    {0x1DF25, 0x1DF2A, LETTER},     {0x1E030, 0x1E06D, LETTER},
    {0x1E08F, 0x1E08F, MARK},       {0x1E4D0, 0x1E4EB, LETTER},
    {0x1E4EC, 0x1E4EF, MARK},       {0x1E4F0, 0x1E4F9, NUMBER},
    {0x1F6DC, 0x1F6DC, SYMBOL},     {0x1F774, 0x1F776, SYMBOL},
    {0x1F77B, 0x1F77F, SYMBOL},     {0x1F7D9, 0x1F7D9, SYMBOL},
    {0x1FA75, 0x1FA77, SYMBOL},     {0x1FA87, 0x1FA88, SYMBOL},
    {0x1FAAD, 0x1FAAF, SYMBOL},     {0x1FABB, 0x1FABD, SYMBOL},
    {0x1FABF, 0x1FABF, SYMBOL},     {0x1FACE, 0x1FACF, SYMBOL},
    {0x1FADA, 0x1FADB, SYMBOL},     {0x1FAE8, 0x1FAE8, SYMBOL},
    {0x1FAF7, 0x1FAF8, SYMBOL},     {0x2B739, 0x2B739, LETTER},
    {0x2EBF0, 0x2EE5D, LETTER},     {0x31350, 0x323AF, LETTER},
};

// What patterns see in place of a character, mostly itself.  The first test spares the search for
// nearly all text there is.
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
  int length = first < 0x80   ? 1
               : first < 0xC0 ? 0
               : first < 0xE0 ? 2
               : first < 0xF0 ? 3
               : first < 0xF8 ? 4
                              : 0;
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

// Whether patterns can match the text itself: valid UTF-8 and no character with a stand-in.
static bool is_clean(struct str text) {
  for (size_t at = 0; at < text.length;) {
    uint32_t character = (unsigned char)text.data[at];
    int length = character < 0x80 ? 1 : str_utf8_decode(text, at, &character);
    if (length == 0 || stand_in_for(character) != character) return false;
    at += (size_t)length;
  }
  return true;
}

// Surrogates go out in three bytes, as they came in: words must keep them, though no UTF-8 has any.
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

// Fills two buffers of equal length: `clean`, which words are made of, and `subject`, which
// patterns match.
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

// Cuts bytes begin..end by pattern number `depth` and those after it; recursion is as deep as the
// list is long.
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
    size_t match_begin = begin + at[0],
           match_end = begin + at[1];  // the deeper call overwrites *at
    cut(c, depth + 1, done, match_begin);
    cut(c, depth + 1, match_begin, match_end);
    done = match_end;
  }
  cut(c, depth + 1, done, end);
}

// A clean text, the usual case, is matched in place.  Without memory for a match the text is one
// word: ids may differ, nothing is lost.
bool tokenizer_split_words(const struct word_rules *rules, struct str text, tokenizer_word word,
                           void *context) {
  struct buffer clean = {.may_fail = true}, subject = {.may_fail = true};
  struct cutting c = {rules, pcre2_match_data_create(1, NULL), text.data, text.data, word, context};
  size_t length = text.length;
  if (!is_clean(text)) {
    clean_text(text, &clean, &subject);
    c.clean = clean.data, c.subject = subject.data, length = clean.length;
  }
  bool good = !clean.failed && !subject.failed;
  if (c.match && good)
    cut(&c, 0, 0, length);
  else if (length && good)
    word(context, (struct str){c.clean, length});
  pcre2_match_data_free(c.match);
  buffer_clear(&clean);
  buffer_clear(&subject);
  return good;
}
