/* Accessors of a JSON tree, and the index of names that json_parse.c builds. */
#include "base/json_tree.h"

#include <string.h>

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

static size_t at_most(size_t n, size_t most) { return n < most ? n : most; }

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

const attend_json *json_index(attend_json *object, uint32_t **index) {
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
