// SPDX-License-Identifier: Apache-2.0
//
// value.h: what a template computes with.
//
// A value is 24 bytes: its kind and a payload, which for everything bigger than a number is a
// pointer into the rendering's arena, into the JSON that was handed in, or into the tree.
//
//   {'a': [1, 'x']}   DICT ──▶ dict ──▶ pairs[0]  key    STRING "a"
//                                                 value  LIST ──▶ list ──▶ items[0]  INT 1
//                                                                          items[1]  STRING "x"
//
// Invariants.  Lists, tuples, dicts and ranges never change once a value points to them;
// namespaces, loop state and the position of a stream do.  Text is UTF-8.
// Functions that make values return none (or what they had) when a limit was reached; render.failed
// says so.
#pragma once

#include "template/template.h"

#define RANGE_MAX 100000         // items of a range(), the bound of Jinja's sandbox
#define RANGE_BOUND (1ll << 40)  // of a range's numbers, so that sums of them never overflow
#define PARAMETERS_MAX 8         // of a built-in function

struct render;
struct node;
struct scope;

enum value_kind {
  VALUE_UNDEFINED,
  VALUE_NONE,
  VALUE_BOOL,
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_WIDE,  // a number beyond the two above (base/json_tree.h): printed, never computed with
  VALUE_STRING,
  VALUE_LIST,
  VALUE_TUPLE,
  VALUE_DICT,
  VALUE_RANGE,
  VALUE_STREAM,     // a list that can be walked once: what map, select, items, … return
  VALUE_VIEW,       // the keys, values or items of a dict
  VALUE_NAMESPACE,  // attributes that a template may set
  VALUE_FUNCTION,   // a built-in function, or a method together with its object
  VALUE_MACRO,
  VALUE_LOOP,
  VALUE_ABSENT,  // no value at all: an argument that was not given, a variable that was not set
  VALUE_KINDS,
};

enum undefined_reason {  // decides the sentence that a use of the value fails with
  UNDEFINED_NAME,        // text: the variable's name
  UNDEFINED_PARAMETER,   // text: the name of a macro's parameter that was not given
  UNDEFINED_ATTRIBUTE,   // text: the attribute's name, of: kind of the object
  UNDEFINED_ELEMENT,     // text: the index as it is printed, of: kind of the object
  UNDEFINED_SENTENCE,    // text: the sentence itself
};

enum view_of { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

struct value {
  uint8_t kind;  // enum value_kind
  uint8_t of;    // UNDEFINED: kind of the object; VIEW: enum view_of
  uint8_t why;   // UNDEFINED: enum undefined_reason
  bool safe;     // STRING: marked by the `safe` and `escape` filters (Jinja's Markup)
  bool own;      // INT, FLOAT: the template's own number.  The origin of text lies beside it.
  union {
    bool boolean;
    int64_t integer;
    double real;
    struct str text;          // STRING and UNDEFINED; UTF-8.  WIDE: the number as written
    const struct list *list;  // LIST, TUPLE
    const struct dict *dict;  // DICT, VIEW
    const struct range *range;
    struct stream *stream;
    struct dict *attributes;  // NAMESPACE
    const struct function *function;
    const struct macro *macro;
    struct loop *loop;
  };
};

struct list {
  struct value *items;
  size_t count, capacity;
};

struct pair {
  struct value key, value;
};

// Insertion-ordered.  Keys are hashable values; 1, 1.0 and true are one key.  Small dicts are
// searched in order, larger ones through `index`, an open-addressed table of (position in pairs +
// 1), 0 = free.
struct dict {
  struct pair *pairs;
  size_t count, capacity;
  uint32_t *index;    // NULL up to DICT_LINEAR_MAX pairs
  size_t index_size;  // slots, a power of two
};

struct range {  // start, start + step, … : count items, none at or beyond stop; all within
                // ±RANGE_BOUND
  int64_t start, stop, step;
  int64_t count;
};

struct stream {
  struct list items;
  size_t next;
};

// What a call hands over.  A built-in with a parameter list gets them bound: values[i] is parameter
// i, ABSENT where it was not given, and nothing is named.  For filters, tests and methods values[0]
// is the object.
struct arguments {
  const struct value *values;
  size_t count;
  const struct str *names;
  const struct value *named;
  size_t named_count;
};

typedef struct value (*builtin_function)(struct render *r, const struct arguments *a);

struct builtin {
  const char *name;
  builtin_function run;
  const char *parameters;  // names separated by blanks; NULL: takes what comes, unbound
  int required;            // parameters that must be given
};

struct function {
  const struct builtin *builtin;
  struct value self;  // ABSENT for a plain function
};

struct macro {
  const struct node *definition;  // NODE_CLOSURE
  struct scope *scope;            // the one it was written in
};

// Walks anything iterable.
struct iterator {
  struct value source;
  size_t at;  // item, pair, or byte of a string
};

// The state behind the variable `loop`.
struct loop {
  const struct node *node;  // NODE_FOR
  struct scope *outer;      // the scope around the statement
  struct iterator iterator;
  struct value before, current, after;  // after: looked at early, or ABSENT
  int64_t index0, length;               // length: -1 until asked for
};

// ---- making and asking, without a rendering

static inline struct value value_none(void) { return (struct value){.kind = VALUE_NONE}; }
static inline struct value value_absent(void) { return (struct value){.kind = VALUE_ABSENT}; }
static inline struct value value_bool(bool b) {
  return (struct value){.kind = VALUE_BOOL, .boolean = b};
}
static inline struct value value_int(int64_t i) {
  return (struct value){.kind = VALUE_INT, .integer = i};
}
static inline struct value value_own_int(int64_t i) {
  return (struct value){.kind = VALUE_INT, .own = true, .integer = i};
}
static inline struct value value_float(double d) {
  return (struct value){.kind = VALUE_FLOAT, .real = d};
}
static inline struct value value_string(struct str s) {
  return (struct value){.kind = VALUE_STRING, .text = s};
}
// text: see enum undefined_reason.
static inline struct value value_undefined(enum undefined_reason why, struct str text) {
  return (struct value){.kind = VALUE_UNDEFINED, .why = (uint8_t)why, .text = text};
}
static inline bool value_given(struct value v) { return v.kind != VALUE_ABSENT; }
static inline bool value_is_sequence(struct value v) {
  return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}
// bool counts as a number, as in Python
static inline bool value_is_whole(struct value v) {
  return v.kind == VALUE_BOOL || v.kind == VALUE_INT;
}
static inline bool value_is_number(struct value v) {
  return value_is_whole(v) || v.kind == VALUE_FLOAT;
}
static inline int64_t value_whole(struct value v) {
  return v.kind == VALUE_BOOL ? v.boolean : v.integer;
}
static inline double value_real(struct value v) {
  return v.kind == VALUE_FLOAT ? v.real : (double)value_whole(v);
}

const char *template_kind_name(struct value v);         // as Python names the type
bool template_truth(struct value v);                    // as `if v` sees it
bool template_hashable(struct value v);                 // may be a key
bool template_length(struct value v, int64_t *length);  // false: it has none
// NULL when absent.  A key that is not hashable is absent too.
const struct value *template_dict_get(const struct dict *d, struct value key);

// ---- making values in a rendering

// Converts all of json, which must outlive the value: its strings are borrowed.
struct value template_value_from_json(struct render *r, const json_t *json);
// Adds to a list that no value points to yet.
void template_list_push(struct render *r, struct list *l, struct value v);
// A LIST, TUPLE or STREAM of l's items.
struct value template_list_value(struct render *r, struct list l, enum value_kind kind);
struct value template_pair_value(struct render *r, struct value a, struct value b);  // a tuple
// Adds or replaces; false when the key is not hashable or memory is at its limit.
bool template_dict_put(struct render *r, struct dict *d, struct value key, struct value value);
struct value template_dict_value(struct render *r, struct dict d);  // of a dict that is complete
// Sorts by key, stable also in reverse, as Python's sorted.
void template_sort(struct render *r, struct pair *pairs, size_t count, bool reverse);

// ---- comparing and walking

struct value template_use_undefined(struct render *r, struct value v);  // fails with the reason
bool template_equal(struct render *r, struct value a, struct value b);  // ==
// <0, 0, >0; fails for kinds that Python does not order.  `operator` is for the message: "<", …
int template_order(struct render *r, struct value a, struct value b, const char *operator);
bool template_contains(struct render *r, struct value container,
                       struct value item);  // item in container
// Starts a walk over anything iterable; fails, with an empty walk, for anything else.
bool template_iterate(struct render *r, struct value v, struct iterator *it);
bool template_next(struct render *r, struct iterator *it, struct value *item);  // false at the end
struct list template_collect(struct render *r, struct value v);  // everything iterable as a list

// ---- text (text.c, format.c)

// Text is built at the end of render.out, used as a stack: note its length, add, take.  What is
// added and taken in between leaves it as it was.  Bytes keep the origin they have where they lie
// (origin.c); bytes of the C stack and constants of the program are input.
size_t template_mark(const struct render *r);
void template_add(struct render *r, struct str s);
void template_add_text(struct render *r, const char *text);
void template_add_char(struct render *r, char c);
void template_add_code_point(struct render *r, uint32_t c);
// printf for numbers and short names: at most 511 bytes.
void template_print(struct render *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct value template_take(struct render *r, size_t mark);  // a string of what was added since

void template_add_value(struct render *r, struct value v);  // as {{ v }} prints it
void template_add_repr(struct render *r, struct value v);   // as Python's repr
void template_add_escaped(struct render *r, struct str s);  // &, <, >, " and ' as HTML entities
struct value template_string_of(struct render *r, struct value v);  // Python's str(v)

struct json_style {
  int indent;              // blanks per level, or -1: all on one line
  struct str indent_text;  // instead of blanks when not empty
  struct str item_separator, key_separator;
  bool sort_keys, ensure_ascii;
};
void template_add_json(struct render *r, struct value v, const struct json_style *style);
// text % values, in the notation of printf.
struct value template_format_percent(struct render *r, struct value text, struct value values);
// text.format(…), in the notation of braces.
struct value template_format_braces(struct render *r, struct str text, const struct arguments *a);

// ---- characters, as Python's str sees them (unicode.c)

size_t template_count_characters(struct str s);
size_t template_character_offset(struct str s,
                                 size_t index);  // byte at which character `index` starts
bool template_is_space(uint32_t c);
bool template_is_printable(uint32_t c);              // repr shows it as it is
int template_to_upper(uint32_t c, uint32_t out[3]);  // returns how many characters it becomes
int template_to_lower(uint32_t c, uint32_t out[3]);  // likewise
// Without the given characters (NULL: white space) at its ends; sides: 1 left, 2 right, 3 both.
struct str template_strip(struct str s, const struct str *characters, int sides);
