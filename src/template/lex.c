// SPDX-License-Identifier: Apache-2.0
//
// lex.c: template source to tokens, with Jinja's white-space rules.
//
//   "Hi {% if x -%}  {{ x }}\n"
//    TEXT "Hi "  BLOCK_BEGIN NAME if NAME x BLOCK_END  PRINT_BEGIN NAME x PRINT_END  TEXT "\n"
//
// The rules are those that chat templates are written for (trim_blocks and lstrip_blocks on):
//   - a '-' beside a tag removes all white space on that side, a '+' leaves it alone;
//   - without a sign, the blanks between the start of a line and a block or comment are removed,
//   and so is one
//     newline right after it; {{ }} keeps both.
// Inside a tag brackets are counted, so that the braces of {{ {'a': {}} }} do not end it.
//
// Texts and names borrow from the source; only strings with escapes are copied.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/internal.h"

struct lexer {
  struct str source;
  size_t at;
  uint32_t line;
  bool line_start;  // the last tag ended with a newline, or nothing was read yet
  struct own_texts *texts;
  struct tokens *out;
  struct error *error;
};

static const struct {
  const char *text;
  enum token_kind kind;
} operators[] = {
    // longer ones first
    {"**", TOKEN_POWER},      {"//", TOKEN_FLOOR_DIVIDE}, {"==", TOKEN_EQUAL},
    {"!=", TOKEN_NOT_EQUAL},  {"<=", TOKEN_LESS_EQUAL},   {">=", TOKEN_GREATER_EQUAL},
    {"<", TOKEN_LESS},        {">", TOKEN_GREATER},       {"+", TOKEN_ADD},
    {"-", TOKEN_SUBTRACT},    {"*", TOKEN_MULTIPLY},      {"/", TOKEN_DIVIDE},
    {"%", TOKEN_MODULO},      {"~", TOKEN_TILDE},         {"=", TOKEN_ASSIGN},
    {".", TOKEN_DOT},         {",", TOKEN_COMMA},         {":", TOKEN_COLON},
    {";", TOKEN_SEMICOLON},   {"|", TOKEN_PIPE},          {"(", TOKEN_PAREN_OPEN},
    {")", TOKEN_PAREN_CLOSE}, {"[", TOKEN_BRACKET_OPEN},  {"]", TOKEN_BRACKET_CLOSE},
    {"{", TOKEN_BRACE_OPEN},  {"}", TOKEN_BRACE_CLOSE},
};

static struct str rest_of(const struct lexer *l) {
  return (struct str){l->source.data + l->at, l->source.length - l->at};
}

static bool ahead(const struct lexer *l, const char *text) {
  return str_starts(rest_of(l), str_of(text));
}

// The new token; its number is filled in by the caller.
static struct token *push(struct lexer *l, enum token_kind kind, struct str text) {
  struct tokens *t = l->out;
  if (t->count == t->capacity) {
    size_t capacity = t->capacity ? t->capacity * 2 : 64;
    struct token *bigger = arena_new(&t->arena, capacity * sizeof *bigger);
    if (t->count) memcpy(bigger, t->items, t->count * sizeof *bigger);
    t->items = bigger;
    t->capacity = capacity;
  }
  t->items[t->count] = (struct token){.kind = (uint8_t)kind, .line = l->line, .text = text};
  return &t->items[t->count++];
}

static void move(struct lexer *l, size_t bytes) {
  for (size_t end = l->at + bytes; l->at < end; l->at++) l->line += l->source.data[l->at] == '\n';
}

// Bytes of the white-space character at the front of s, 0 for any other.
static size_t space_length(struct str s) {
  uint32_t c;
  int length = str_utf8_decode(s, 0, &c);
  return length && template_is_space(c) ? (size_t)length : 0;
}

static void skip_space(struct lexer *l) {
  for (size_t n; (n = space_length(rest_of(l))) > 0;) move(l, n);
}

// What is left of the text before a tag: `sign` is the character after the tag's opening brace
// pair.
static struct str trim_before_tag(const struct lexer *l, struct str text, char sign,
                                  bool is_print) {
  if (sign == '-') return template_strip(text, NULL, 2);
  if (sign == '+' || is_print) return text;
  size_t start = text.length;
  while (start > 0 && text.data[start - 1] != '\n') start--;
  if (start == 0 && !l->line_start) return text;
  struct str last_line = {text.data + start, text.length - start};
  if (template_strip(last_line, NULL, 3).length == 0) text.length = start;
  return text;
}

// Behind a tag's end of `length` bytes that `sign` stands before: skips it and the white space that
// goes with it.
static void finish_tag(struct lexer *l, size_t length, char sign, bool is_print) {
  move(l, length);
  if (sign == '-')
    skip_space(l);
  else if (!is_print && sign != '+' && ahead(l, "\n"))
    move(l, 1);
  l->line_start = l->source.data[l->at - 1] == '\n';
}

static void push_text(struct lexer *l, struct str text) {
  if (text.length) push(l, TOKEN_TEXT, text);
}

// ---- raw blocks and comments

// Matches `{%` sign? space* word space* sign? `%}` at l->at without moving; returns its length, 0
// if it is not there.
static size_t word_tag_length(const struct lexer *l, const char *word, char *sign_before,
                              char *sign_after) {
  struct lexer look = *l;
  if (!ahead(&look, "{%")) return 0;
  look.at += 2;
  *sign_before = *sign_after = 0;
  if (ahead(&look, "-") || ahead(&look, "+")) *sign_before = look.source.data[look.at++];
  skip_space(&look);
  if (!ahead(&look, word)) return 0;
  look.at += strlen(word);
  skip_space(&look);
  if (ahead(&look, "-") || ahead(&look, "+")) *sign_after = look.source.data[look.at++];
  return ahead(&look, "%}") ? look.at + 2 - l->at : 0;
}

// Stands behind {% raw %}; takes everything up to {% endraw %} as text.
static bool lex_raw(struct lexer *l, uint32_t line) {
  size_t start = l->at;
  char before, after;
  size_t length = 0;
  struct lexer look = *l;
  for (; look.at < look.source.length; look.at++)
    if ((length = word_tag_length(&look, "endraw", &before, &after)) > 0) break;
  if (!length) return template_syntax_error(l->error, line, "{%% raw %%} has no {%% endraw %%}");
  struct str text = {l->source.data + start, look.at - start};
  push_text(l, trim_before_tag(l, text, before, false));
  move(l, look.at - start);
  finish_tag(l, length, after, false);
  return true;
}

// Behind {# a sign; in front of #} another: {#-#} has only the first.
static bool lex_comment(struct lexer *l) {
  uint32_t line = l->line;
  move(l, 2);
  if (ahead(l, "-") || ahead(l, "+")) move(l, 1);
  struct str inside = rest_of(l);
  const char *end = inside.length ? memmem(inside.data, inside.length, "#}", 2) : NULL;
  if (!end) return template_syntax_error(l->error, line, "a comment {# has no #}");
  size_t length = (size_t)(end - inside.data);
  char sign = length ? end[-1] : 0;
  move(l, length);
  finish_tag(l, 2, sign, false);
  return true;
}

// ---- inside tags

static bool is_digit(char c, int base) {
  int value = c >= '0' && c <= '9'                 ? c - '0'
              : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                   : 99;
  return value < base;
}

// Bytes of the digits at `at`, single underscores between them included; at most `room` digits go
// to out.
static size_t take_digits(struct str s, size_t at, int base, char *out, size_t *used, size_t room) {
  size_t i = at;
  while (i < s.length) {
    if (s.data[i] == '_' && i > at && i + 1 < s.length && is_digit(s.data[i + 1], base)) i++;
    if (!is_digit(s.data[i], base)) break;
    if (*used < room) out[(*used)++] = s.data[i];
    i++;
  }
  return i - at;
}

// 0x, 0o and 0b, when a digit of that base follows.
static int number_base(struct str s) {
  if (s.length < 3 || s.data[0] != '0') return 10;
  int base = (s.data[1] | 32) == 'x'   ? 16
             : (s.data[1] | 32) == 'o' ? 8
             : (s.data[1] | 32) == 'b' ? 2
                                       : 10;
  return base != 10 && is_digit(s.data[2], base) ? base : 10;
}

#define NUMBER_ROOM 400u  // digits; more than any finite double or int64 written in full has

// A fraction or an exponent behind the `whole` digits makes a float.  After a dot (x.1.5) none may
// follow.
static size_t take_fraction(struct str s, size_t at, char *text, size_t *used) {
  size_t i = at;
  if (i + 1 < s.length && s.data[i] == '.' && is_digit(s.data[i + 1], 10)) {
    text[(*used)++] = '.';
    i += 1 + take_digits(s, i + 1, 10, text, used, NUMBER_ROOM);
  }
  size_t e = i;
  if (e < s.length && (s.data[e] | 32) == 'e') {
    e++;
    char sign = e < s.length && (s.data[e] == '-' || s.data[e] == '+') ? s.data[e++] : '+';
    if (e < s.length && is_digit(s.data[e], 10)) {
      text[(*used)++] = 'e';
      text[(*used)++] = sign;
      i = e + take_digits(s, e, 10, text, used, NUMBER_ROOM);
    }
  }
  return i - at;
}

// Digits are collected without their underscores and read by the C library.
static bool lex_number(struct lexer *l) {
  char text[NUMBER_ROOM + 8];
  size_t used = 0;
  struct str s = rest_of(l);
  int base = number_base(s);
  size_t length = base == 10 ? 0 : 2;
  length += take_digits(s, length, base, text, &used, NUMBER_ROOM);
  bool after_dot = l->at > 0 && l->source.data[l->at - 1] == '.';
  size_t fraction = base == 10 && !after_dot ? take_fraction(s, length, text, &used) : 0;
  length += fraction;
  text[used] = 0;
  struct token *token = push(l, fraction ? TOKEN_FLOAT : TOKEN_INT, (struct str){s.data, length});
  errno = 0;
  if (fraction)
    token->real = strtod(text, NULL);
  else
    token->integer = strtoll(text, NULL, base);
  if (used >= NUMBER_ROOM || (!fraction && errno))
    return template_syntax_error(l->error, l->line, "the number %.*s does not fit into 64 bits",
                                 SHOWN(token->text));
  l->at += length;
  return true;
}

// The value of `digits` hexadecimal (or octal) digits at s[at]; -1 when they are not there.
static int64_t escape_number(struct str s, size_t at, size_t digits, int base) {
  char text[9] = {0};
  if (digits >= sizeof text || s.length - at < digits) return -1;
  for (size_t i = 0; i < digits; i++)
    if (!is_digit(text[i] = s.data[at + i], base)) return -1;
  return strtoll(text, NULL, base);
}

// Numeric escapes: \xhh \uhhhh \Uhhhhhhhh and \ooo.  Returns the bytes read after the backslash, 0
// on a bad one. Two \u escapes that are a surrogate pair give the one character they stand for.
static size_t numeric_escape(struct str s, size_t at, uint32_t *c) {
  char kind = s.data[at];
  if (kind >= '0' && kind <= '7') {
    size_t digits = 1;
    while (digits < 3 && at + digits < s.length && is_digit(s.data[at + digits], 8)) digits++;
    *c = (uint32_t)escape_number(s, at, digits, 8);
    return digits;
  }
  size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
  int64_t value = escape_number(s, at + 1, digits, 16);
  if (value < 0) return 0;
  if (value >= 0xD800 && value < 0xDC00 && at + 7 < s.length && s.data[at + 5] == '\\' &&
      s.data[at + 6] == 'u') {
    int64_t low = escape_number(s, at + 7, 4, 16);
    if (low >= 0xDC00 && low < 0xE000) {
      *c = (uint32_t)(0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00));
      return 11;
    }
  }
  *c = value > 0x10FFFF ? 0xFFFFFFFF : (uint32_t)value;
  return digits + 1;
}

// Resolves the escapes of Python's string literals into `out` (as large as s); an unknown escape
// stays as written.
static bool unescape(struct str s, char *out, size_t *length) {
  static const char letters[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";  // pairs: letter, meaning
  for (size_t i = 0; i < s.length;) {
    char c = s.data[i++];
    if (c != '\\' || i == s.length) {
      out[(*length)++] = c;
      continue;
    }
    const char *pair = letters;
    while (*pair && *pair != s.data[i]) pair += 2;
    if (*pair) {
      out[(*length)++] = pair[1];
      i++;
    } else if (s.data[i] && strchr("01234567xuU", s.data[i])) {
      uint32_t code = 0xFFFFFFFF;
      char bytes[4];
      size_t read = numeric_escape(s, i, &code);
      int size = read ? str_utf8_encode(code, bytes) : 0;
      if (!size) return false;
      memcpy(out + *length, bytes, (size_t)size);
      *length += (size_t)size;
      i += read;
    } else if (s.data[i] == '\n') {
      i++;
    } else {
      out[(*length)++] = c;
    }
  }
  return true;
}

// Only a string with a backslash in it is copied.
static bool lex_string(struct lexer *l) {
  char quote = l->source.data[l->at];
  size_t start = l->at + 1, end = start;
  bool escaped = false;
  while (end < l->source.length && l->source.data[end] != quote) {
    if (l->source.data[end] == '\\') escaped = true, end++;
    end++;
  }
  if (end >= l->source.length)
    return template_syntax_error(l->error, l->line, "a string that starts with %c is not closed",
                                 quote);
  struct str text = {l->source.data + start, end - start};
  if (escaped) {
    char *copy = template_own_room(l->texts, text.length);
    size_t length = 0;
    if (!unescape(text, copy, &length))
      return template_syntax_error(
          l->error, l->line, "a string holds an escape that is no character: %.*s", SHOWN(text));
    text = (struct str){copy, length};
  }
  push(l, TOKEN_STRING, text);
  move(l, end + 1 - l->at);
  return true;
}

static bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (c & 0x80);
}

// Counts the brackets, so that }} inside {…} is two of them and no end of the tag.
static bool lex_operator(struct lexer *l, int *brackets) {
  for (size_t i = 0; i < COUNT_OF(operators); i++) {
    if (!ahead(l, operators[i].text)) continue;
    size_t length = strlen(operators[i].text);
    push(l, operators[i].kind, (struct str){rest_of(l).data, length});
    char c = operators[i].text[0];
    if (c == '(' || c == '[' || c == '{') ++*brackets;
    if ((c == ')' || c == ']' || c == '}') && *brackets > 0) --*brackets;
    l->at += length;
    return true;
  }
  struct str wrong = rest_of(l);
  wrong.length = (size_t)str_utf8_length(wrong, 0);
  return template_syntax_error(l->error, l->line,
                               "the character '%.*s' has no meaning inside a tag", SHOWN(wrong));
}

// The end of the tag at l->at: its length and sign; 0 when there is none.
static size_t tag_end_length(const struct lexer *l, const char *end, bool is_print, char *sign) {
  *sign = 0;
  if (ahead(l, end)) return 2;
  struct lexer look = *l;
  look.at++;
  if (!(ahead(l, "-") || (ahead(l, "+") && !is_print)) || !ahead(&look, end)) return 0;
  *sign = l->source.data[l->at];
  return 3;
}

// Everything up to the end of the tag, the end included.
static bool lex_tag_content(struct lexer *l, const char *end, bool is_print) {
  uint32_t line = l->line;
  for (int brackets = 0;;) {
    skip_space(l);
    if (l->at >= l->source.length)
      return template_syntax_error(l->error, line, "a tag is not closed: %s is missing", end);
    char sign, c = l->source.data[l->at];
    size_t length = brackets ? 0 : tag_end_length(l, end, is_print, &sign);
    if (length) {
      push(l, is_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, str_of(end));
      finish_tag(l, length, sign, is_print);
      return true;
    }
    if (c == '\'' || c == '"') {
      if (!lex_string(l)) return false;
    } else if (is_digit(c, 10)) {
      if (!lex_number(l)) return false;
    } else if (is_name_byte(c)) {
      size_t start = l->at;
      while (l->at < l->source.length && is_name_byte(l->source.data[l->at])) l->at++;
      push(l, TOKEN_NAME, (struct str){l->source.data + start, l->at - start});
    } else if (!lex_operator(l, &brackets)) {
      return false;
    }
  }
}

// ---- outside tags

// Bytes up to the next {{, {% or {#, or up to the end.
static size_t text_length(struct str s) {
  for (size_t i = 0; i < s.length;) {
    const char *brace = memchr(s.data + i, '{', s.length - i);
    if (!brace) return s.length;
    i = (size_t)(brace - s.data);
    if (i + 1 < s.length && memchr("{%#", s.data[i + 1], 3)) return i;
    i++;
  }
  return s.length;
}

// Stands at text that is followed by a tag of any kind; raw blocks and comments are read to their
// ends.
static bool lex_tag(struct lexer *l, struct str text) {
  size_t tag = l->at + text.length;
  char kind = l->source.data[tag + 1];
  char sign = tag + 2 < l->source.length ? l->source.data[tag + 2] : 0;
  if (sign != '-' && sign != '+') sign = 0;
  push_text(l, trim_before_tag(l, text, sign, kind == '{'));
  move(l, text.length);
  if (kind == '#') return lex_comment(l);
  char before, after;
  uint32_t line = l->line;
  size_t raw = kind == '%' ? word_tag_length(l, "raw", &before, &after) : 0;
  if (raw && after != '+') {                              // Jinja has no {% raw +%}
    finish_tag(l, raw, after == '-' ? '-' : '+', false);  // no newline is removed behind {% raw %}
    return lex_raw(l, line);
  }
  push(l, kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN,
       (struct str){l->source.data + l->at, 2});
  move(l, sign ? 3 : 2);
  return lex_tag_content(l, kind == '{' ? "}}" : "%}", kind == '{');
}

bool template_lex(struct str source, struct own_texts *texts, struct tokens *out, struct error *e) {
  struct lexer l = {
      .source = source, .line = 1, .line_start = true, .texts = texts, .out = out, .error = e};
  while (l.at < source.length) {
    struct str text = {source.data + l.at, text_length(rest_of(&l))};
    if (l.at + text.length == source.length) {
      push_text(&l, text);
      break;
    }
    if (!lex_tag(&l, text)) return false;
  }
  push(&l, TOKEN_END, STR("the end of the template"));
  return true;
}
