/* Reading JSON: accessors of a tree, a strict parser, typed members.
 *
 * A tree is one block: the values, an index of names, the strings. A first pass over the text
 * bounds all three. While parsing, a value is either still waiting for its container to close,
 * on a stack that grows from the front of the values, or has been moved behind it, from the
 * back; so both fit where one does, and the children of a container end up side by side.
 */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/json.h"
#include "base/files.h"
#include "base/json.h"

/* ---- a tree ---------------------------------------------------------------------- */

enum { FEW = 8 }; /* members that are searched one by one, without an index */

/* By length first: most names of a large object differ there. */
static int compare_names(const attend_json *a, const char *name, size_t length) {
  if (a->name_length != length) return a->name_length < length ? -1 : 1;
  return memcmp(a->name, name, length);
}

static int compare_members(const attend_json *child, uint32_t i, uint32_t j) {
  return compare_names(child + i, child[j].name, child[j].name_length);
}

/* Merges the sorted runs [low, middle) and [middle, high) of from. */
static void merge(const attend_json *child, const uint32_t *from, size_t low, size_t middle,
                  size_t high, uint32_t *to) {
  size_t a = low, b = middle;
  for (size_t n = low; n < high; n++) {
    bool left = b >= high || (a < middle && compare_members(child, from[a], from[b]) <= 0);
    to[n] = from[left ? a++ : b++];
  }
}

static size_t at_most(size_t n, size_t max) { return n < max ? n : max; }

/* Merge sort, from short runs to long: names lie in the order of the text, so
 * that most comparisons are between neighbours, and no input is slow. */
static void sort_names(const attend_json *child, uint32_t *index, uint32_t *scratch, size_t count) {
  uint32_t *from = index, *to = scratch;
  for (size_t i = 0; i < count; i++) from[i] = (uint32_t)i;
  for (size_t run = 1; run < count; run *= 2) {
    for (size_t low = 0; low < count; low += 2 * run)
      merge(child, from, low, at_most(low + run, count), at_most(low + 2 * run, count), to);
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != index) memcpy(index, from, count * sizeof *index);
}

static const attend_json *find_duplicate(const attend_json *object) {
  const attend_json *child = object->child;
  for (uint32_t i = 1; i < object->count; i++) {
    if (object->sorted) {
      const uint32_t *s = object->sorted;
      if (!compare_members(child, s[i - 1], s[i])) return child + s[i];
      continue;
    }
    for (uint32_t j = 0; j < i; j++)
      if (!compare_members(child, i, j)) return child + i;
  }
  return NULL;
}

/* Sorts the names of an object into *index, with as much again behind it for scratch, and steps
 * over what it keeps. Returns a member whose name comes twice, or NULL. */
static const attend_json *index_names(attend_json *object, uint32_t **index) {
  if (object->count > FEW) {
    sort_names(object->child, *index, *index + object->count, object->count);
    object->sorted = *index;
    *index += object->count;
  }
  return find_duplicate(object);
}

attend_json_kind attend_json_kind_of(const attend_json *value) {
  return value ? (attend_json_kind)value->kind : ATTEND_JSON_NONE;
}

size_t attend_json_count(const attend_json *value) { return value ? value->count : 0; }

const attend_json *attend_json_at(const attend_json *value, size_t i) {
  return i < attend_json_count(value) ? value->child + i : NULL;
}

static const attend_json *search_sorted(const attend_json *object, const char *name,
                                        size_t length) {
  size_t low = 0, high = object->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const attend_json *m = object->child + object->sorted[middle];
    int order = compare_names(m, name, length);
    if (!order) return m;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

const attend_json *attend_json_get(const attend_json *object, const char *name) {
  if (attend_json_kind_of(object) != ATTEND_JSON_OBJECT) return NULL;
  size_t length = strlen(name);
  if (object->sorted) return search_sorted(object, name, length);
  for (uint32_t i = 0; i < object->count; i++)
    if (!compare_names(object->child + i, name, length)) return object->child + i;
  return NULL;
}

const char *attend_json_name(const attend_json *member, size_t *length) {
  if (length) *length = member ? member->name_length : 0;
  return member ? member->name : NULL;
}

const char *attend_json_string(const attend_json *value, size_t *length) {
  bool is = attend_json_kind_of(value) == ATTEND_JSON_STRING;
  if (length) *length = is ? value->length : 0;
  return is ? value->text : NULL;
}

double attend_json_number(const attend_json *value, double otherwise) {
  bool is = attend_json_kind_of(value) == ATTEND_JSON_NUMBER;
  return is ? value->number : otherwise;
}

bool attend_json_boolean(const attend_json *value, bool otherwise) {
  bool is = attend_json_kind_of(value) == ATTEND_JSON_BOOL;
  return is ? value->truth : otherwise;
}

bool attend_json_integer(const attend_json *value, int64_t *integer) {
  if (attend_json_kind_of(value) != ATTEND_JSON_NUMBER || !value->exact) return false;
  *integer = value->integer;
  return true;
}

/* ---- parsing --------------------------------------------------------------------- */

enum { LONGEST_NUMBER = 400 }; /* more digits than any double needs */

typedef struct {
  attend_json root; /* first: the root is the handle of the document */
  const attend_context *ctx;
} document;

typedef struct { /* a container that is still open */
  attend_json head;
  size_t first; /* its children on the stack start here */
} frame;

typedef struct {
  attend_context *ctx;
  const char *what, *begin, *at, *end;
  attend_json *value;           /* the stack, and from the back what is done */
  size_t waiting, done, values; /* done counts from the back */
  uint32_t *index;
  char *strings;
  frame open[ATTEND_JSON_DEPTH];
  int depth;
} reader;

static attend_status refuse(reader *r, const char *at, const char *why) {
  return fail(r->ctx, ATTEND_IO, "%s is not valid JSON: %s at byte %zu", r->what, why,
              (size_t)(at - r->begin));
}

/* ---- strings --------------------------------------------------------------------- */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* The four digits after \u; -1 if they are not there. */
static long hex_unit(const reader *r, const char *at) {
  long unit = 0;
  if (r->end - at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(at[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

static char *put_utf8(char *out, unsigned long c) {
  if (c < 0x80) {
    *out++ = (char)c;
  } else if (c < 0x800) {
    *out++ = (char)(0xc0 | c >> 6);
    *out++ = (char)(0x80 | (c & 63));
  } else {
    if (c < 0x10000) {
      *out++ = (char)(0xe0 | c >> 12);
    } else {
      *out++ = (char)(0xf0 | c >> 18);
      *out++ = (char)(0x80 | (c >> 12 & 63));
    }
    *out++ = (char)(0x80 | (c >> 6 & 63));
    *out++ = (char)(0x80 | (c & 63));
  }
  return out;
}

/* r->at is behind "\u". */
static attend_status read_unicode(reader *r, char **out) {
  long unit = hex_unit(r, r->at), low;
  if (unit < 0) return refuse(r, r->at, "\\u needs four hexadecimal digits");
  r->at += 4;
  if (unit >= 0xdc00 && unit <= 0xdfff) return refuse(r, r->at - 6, "half of a surrogate pair");
  if (unit >= 0xd800 && unit <= 0xdbff) {
    if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u' ||
        (low = hex_unit(r, r->at + 2)) < 0xdc00 || low > 0xdfff)
      return refuse(r, r->at - 6, "half of a surrogate pair");
    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    r->at += 6;
  }
  *out = put_utf8(*out, (unsigned long)unit);
  return ATTEND_OK;
}

static attend_status read_escape(reader *r, char **out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (++r->at >= r->end) return refuse(r, r->at, "a string has no end");
  char c = *r->at++;
  if (c == 'u') return read_unicode(r, out);
  const char *found = c ? strchr(from, c) : NULL;
  if (!found) return refuse(r, r->at - 2, "unknown escape");
  *(*out)++ = to[found - from];
  return ATTEND_OK;
}

static attend_status read_string(reader *r, const char **text, size_t *length) {
  const char *start = r->at++;
  char *out = r->strings;
  *text = out;
  for (;;) {
    if (r->at >= r->end) return refuse(r, start, "a string has no end");
    unsigned char c = (unsigned char)*r->at;
    if (c == '"') break;
    if (c < 0x20) return refuse(r, r->at, "a control character in a string");
    if (c == '\\') {
      ATTEND_TRY(read_escape(r, &out));
      continue;
    }
    int n = utf8_length((const unsigned char *)r->at, (const unsigned char *)r->end);
    if (!n) return refuse(r, r->at, "text that is not UTF-8");
    memcpy(out, r->at, (size_t)n);
    out += n;
    r->at += n;
  }
  r->at++;
  *length = (size_t)(out - *text);
  *out++ = 0;
  r->strings = out;
  return ATTEND_OK;
}

/* ---- numbers --------------------------------------------------------------------- */

static bool is_digit(const reader *r) { return r->at < r->end && *r->at >= '0' && *r->at <= '9'; }

static bool skip_digits(reader *r) {
  const char *start = r->at;
  while (is_digit(r)) r->at++;
  return r->at > start;
}

static bool next_is(const reader *r, char a, char b) {
  return r->at < r->end && (*r->at == a || *r->at == b);
}

/* strtod reads the decimal point of the host program's locale. */
static double to_double(const char *text, size_t length) {
  char copy[LONGEST_NUMBER + 1];
  memcpy(copy, text, length);
  copy[length] = 0;
  char *point = strchr(copy, '.');
  if (point) *point = *localeconv()->decimal_point;
  return strtod(copy, NULL);
}

static bool to_integer(const char *text, const char *end, int64_t *integer) {
  bool negative = *text == '-', overflow = false;
  int64_t sum = 0;
  for (text += negative; text < end; text++) {
    int digit = negative ? '0' - *text : *text - '0';
    overflow |= __builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, digit, &sum);
  }
  *integer = sum;
  return !overflow;
}

static attend_status read_number(reader *r, attend_json *value) {
  const char *start = r->at;
  bool plain = true;
  if (*r->at == '-') r->at++;
  const char *digits = r->at;
  if (!skip_digits(r)) return refuse(r, start, "a number without digits");
  if (*digits == '0' && r->at > digits + 1) return refuse(r, start, "a number that starts with 0");
  if (next_is(r, '.', '.')) {
    plain = false;
    r->at++;
    if (!skip_digits(r)) return refuse(r, start, "a fraction without digits");
  }
  if (next_is(r, 'e', 'E')) {
    plain = false;
    r->at++;
    if (next_is(r, '+', '-')) r->at++;
    if (!skip_digits(r)) return refuse(r, start, "an exponent without digits");
  }
  if (r->at - start > LONGEST_NUMBER)
    return refuse(r, start, "a number of more than 400 characters");
  value->kind = ATTEND_JSON_NUMBER;
  value->exact = plain && to_integer(start, r->at, &value->integer);
  value->number = value->exact ? (double)value->integer : to_double(start, (size_t)(r->at - start));
  if (!isfinite(value->number)) return refuse(r, start, "a number beyond the range of a double");
  if (!value->exact && fabs(value->number) <= 0x1p53 && value->number == trunc(value->number)) {
    value->exact = true;
    value->integer = (int64_t)value->number;
  }
  return ATTEND_OK;
}

/* ---- containers ------------------------------------------------------------------ */

static attend_status open_container(reader *r, attend_json *value) {
  if (r->depth == ATTEND_JSON_DEPTH) return refuse(r, r->at, "nesting deeper than 256 levels");
  value->kind = *r->at++ == '{' ? ATTEND_JSON_OBJECT : ATTEND_JSON_ARRAY;
  r->open[r->depth++] = (frame){*value, r->waiting};
  return ATTEND_OK;
}

/* Moves the children behind the stack and leaves the container on it. */
static attend_status close_container(reader *r) {
  frame *f = &r->open[--r->depth];
  attend_json value = f->head;
  size_t count = r->waiting - f->first;
  r->done += count;
  attend_json *child = r->value + (r->values - r->done);
  memmove(child, r->value + f->first, count * sizeof *child);
  value.child = child;
  value.count = (uint32_t)count;
  value.sorted = NULL;
  const attend_json *twice =
      value.kind == ATTEND_JSON_OBJECT ? index_names(&value, &r->index) : NULL;
  if (twice)
    return fail(r->ctx, ATTEND_IO,
                "%s is not valid JSON: the name \"%.80s\" comes twice in the "
                "object that ends at byte %zu",
                r->what, twice->name, (size_t)(r->at - r->begin));
  r->waiting = f->first;
  r->value[r->waiting++] = value;
  return ATTEND_OK;
}

static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
    r->at++;
}

static attend_status read_word(reader *r, attend_json *value) {
  static const struct {
    const char *word;
    attend_json_kind kind;
  } words[] = {{"true", ATTEND_JSON_BOOL}, {"false", ATTEND_JSON_BOOL}, {"null", ATTEND_JSON_NULL}};
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(words[i].word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i].word, n)) continue;
    value->kind = (unsigned char)words[i].kind;
    value->truth = i == 0;
    r->at += n;
    return ATTEND_OK;
  }
  return refuse(r, r->at, "something that is not a value");
}

/* One value; of a container only its bracket. */
static attend_status read_value(reader *r, attend_json *value) {
  skip_space(r);
  if (r->at >= r->end) return refuse(r, r->at, "the text ends too early");
  char c = *r->at;
  if (c == '{' || c == '[') return open_container(r, value);
  if (c == '"') {
    value->kind = ATTEND_JSON_STRING;
    ATTEND_TRY(read_string(r, &value->text, &value->length));
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    ATTEND_TRY(read_number(r, value));
  } else {
    ATTEND_TRY(read_word(r, value));
  }
  r->value[r->waiting++] = *value;
  return ATTEND_OK;
}

/* "name": of a member. */
static attend_status read_name(reader *r, attend_json *value) {
  size_t length;
  skip_space(r);
  if (!next_is(r, '"', '"')) return refuse(r, r->at, "a member without a name");
  ATTEND_TRY(read_string(r, &value->name, &length));
  value->name_length = (uint32_t)length;
  skip_space(r);
  if (!next_is(r, ':', ':')) return refuse(r, r->at, "a name without a colon");
  r->at++;
  return ATTEND_OK;
}

/* Between values: closes what closes here, or steps over a comma. *more says
 * whether another value must follow. */
static attend_status read_between(reader *r, bool *more) {
  for (;;) {
    skip_space(r);
    *more = false;
    if (!r->depth) return ATTEND_OK;
    frame *f = &r->open[r->depth - 1];
    bool empty = r->waiting == f->first;
    char close = f->head.kind == ATTEND_JSON_OBJECT ? '}' : ']';
    if (next_is(r, close, close)) {
      r->at++;
      ATTEND_TRY(close_container(r));
      continue;
    }
    *more = true;
    if (empty) return ATTEND_OK;
    if (!next_is(r, ',', ','))
      return refuse(r, r->at, close == '}' ? "a missing comma or }" : "a missing comma or ]");
    r->at++;
    return ATTEND_OK;
  }
}

static attend_status read_document(reader *r) {
  bool more = true;
  while (more) {
    attend_json value = {0};
    if (r->depth && r->open[r->depth - 1].head.kind == ATTEND_JSON_OBJECT)
      ATTEND_TRY(read_name(r, &value));
    ATTEND_TRY(read_value(r, &value));
    ATTEND_TRY(read_between(r, &more));
  }
  if (r->at < r->end) return refuse(r, r->at, "text after the end");
  return ATTEND_OK;
}

/* How many values there can be at most: outside strings each but the first
 * follows an opening bracket or a comma. */
static size_t count_values(const char *at, const char *end) {
  size_t count = 2;
  bool inside = false;
  for (; at < end; at++) {
    if (inside && *at == '\\')
      at++;
    else if (*at == '"')
      inside = !inside;
    else if (!inside && (*at == ',' || *at == '[' || *at == '{'))
      count++;
  }
  return count;
}

/* Cuts the block into the tree and what the reader fills. */
static document *lay_out(reader *r, arena *a) {
  a->used = 0;
  document *d = arena_cut(a, sizeof *d);
  r->value = arena_cut(a, r->values * sizeof *r->value);
  r->index = arena_cut(a, 2 * r->values * sizeof *r->index); /* and scratch */
  r->strings = arena_cut(a, (size_t)(r->end - r->begin) + 1);
  return d;
}

static attend_status read_tree(reader *r, attend_json **root) {
  arena a = {0};
  lay_out(r, &a);
  ATTEND_TRY(ctx_alloc(r->ctx, a.used, r->what, &a.base));
  document *d = lay_out(r, &a);
  attend_status status = read_document(r);
  if (status) {
    ctx_free(r->ctx, a.base);
    return status;
  }
  *d = (document){r->value[0], r->ctx};
  *root = &d->root;
  return ATTEND_OK;
}

attend_status attend_json_parse(attend_context *ctx, const char *what, const char *text,
                                size_t length, attend_json **root) {
  *root = NULL;
  if (length >= UINT32_MAX)
    return fail(ctx, ATTEND_IO, "%s is too long to be read as JSON: %zu bytes", what, length);
  reader *r;
  ATTEND_TRY(ctx_alloc(ctx, sizeof *r, what, &r));
  r->ctx = ctx;
  r->what = what;
  r->begin = r->at = text;
  r->end = text + length;
  r->values = count_values(text, text + length);
  r->waiting = r->done = 0;
  r->depth = 0;
  attend_status status = read_tree(r, root);
  ctx_free(ctx, r);
  return status;
}

void attend_json_free(attend_json *root) {
  if (root) ctx_free(((document *)root)->ctx, root);
}

/* ---- typed members: one of the wrong type is an error, not a default ------------- */

enum { SHOWN = 48 }; /* bytes of a value in a sentence */

static void describe_value(const attend_json *value, char text[SHOWN + 16]) {
  int64_t n;
  size_t size = SHOWN + 16;
  switch (attend_json_kind_of(value)) {
    case ATTEND_JSON_BOOL:
      snprintf(text, size, attend_json_boolean(value, 0) ? "true" : "false");
      return;
    case ATTEND_JSON_NUMBER:
      if (attend_json_integer(value, &n))
        snprintf(text, size, "%lld", (long long)n);
      else
        snprintf(text, size, "%.9g", attend_json_number(value, 0));
      return;
    case ATTEND_JSON_STRING:
      snprintf(text, size, "\"%.*s\"", SHOWN, attend_json_string(value, NULL));
      return;
    case ATTEND_JSON_ARRAY:
      snprintf(text, size, "an array of %zu", attend_json_count(value));
      return;
    case ATTEND_JSON_OBJECT:
      snprintf(text, size, "an object");
      return;
    case ATTEND_JSON_NULL:
    case ATTEND_JSON_NONE:
      break;
  }
  snprintf(text, size, "null");
}

static attend_status refuse_member(attend_context *ctx, const char *what, const char *name,
                                   const attend_json *value, const char *expected) {
  char found[SHOWN + 16];
  describe_value(value, found);
  return fail(ctx, ATTEND_IO, "%s: %s is %s: expected %s", what, name, found, expected);
}

/* The member if it is there and not null. */
static const attend_json *find_member(const attend_json *object, const char *name) {
  const attend_json *value = attend_json_get(object, name);
  return json_is_none(value) ? NULL : value;
}

attend_status attend_json_read_integer(attend_context *ctx, const char *what,
                                       const attend_json *object, const char *name, int64_t low,
                                       int64_t high, int64_t *integer) {
  const attend_json *value = find_member(object, name);
  char expected[96];
  int64_t n;
  if (!value) return ATTEND_OK;
  if (attend_json_integer(value, &n) && n >= low && n <= high) {
    *integer = n;
    return ATTEND_OK;
  }
  bool any = low == INT64_MIN && high == INT64_MAX;
  snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)low,
           (long long)high);
  return refuse_member(ctx, what, name, value, any ? "a whole number" : expected);
}

attend_status attend_json_read_number(attend_context *ctx, const char *what,
                                      const attend_json *object, const char *name, double low,
                                      double high, double *number) {
  const attend_json *value = find_member(object, name);
  char expected[96];
  double x = attend_json_number(value, NAN);
  if (!value) return ATTEND_OK;
  if (x >= low && x <= high) {
    *number = x;
    return ATTEND_OK;
  }
  snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
  return refuse_member(ctx, what, name, value, expected);
}

attend_status attend_json_read_boolean(attend_context *ctx, const char *what,
                                       const attend_json *object, const char *name, bool *truth) {
  const attend_json *value = find_member(object, name);
  if (value && attend_json_kind_of(value) != ATTEND_JSON_BOOL)
    return refuse_member(ctx, what, name, value, "true or false");
  *truth = attend_json_boolean(value, *truth);
  return ATTEND_OK;
}

attend_status attend_json_read_string(attend_context *ctx, const char *what,
                                      const attend_json *object, const char *name,
                                      const char **text) {
  const attend_json *value = find_member(object, name);
  if (value && attend_json_kind_of(value) != ATTEND_JSON_STRING)
    return refuse_member(ctx, what, name, value, "a string");
  if (value) *text = attend_json_string(value, NULL);
  return ATTEND_OK;
}

attend_status attend_json_read_tree(attend_context *ctx, const char *what,
                                    const attend_json *object, const char *name,
                                    attend_json_kind kind, const attend_json **tree) {
  const attend_json *value = name ? find_member(object, name) : object;
  bool wrong = value && attend_json_kind_of(value) != kind;
  const char *expected = kind == ATTEND_JSON_OBJECT ? "an object" : "an array";
  *tree = wrong ? NULL : value;
  if (!wrong) return ATTEND_OK;
  return refuse_member(ctx, what, name ? name : "the document", value, expected);
}
