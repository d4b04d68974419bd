/* Reading input: whole texts, and ids. */
#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *input_all(FILE *in, const char *name, size_t *length, int *code) {
  size_t capacity = 1 << 16, n;
  char *text = need(capacity, 1);
  *length = 0;
  while ((n = fread(text + *length, 1, capacity - *length - 1, in))) {
    *length += n;
    if (capacity - *length == 1) text = need_more(text, *length, capacity *= 2, 1);
  }
  text[*length] = 0;
  if (ferror(in)) {
    complain("%s cannot be read: %s", name, strerror(errno));
    *code = EXIT_FAILED;
  }
  return text;
}

void id_list_add(id_list *list, int32_t id) {
  if (list->count == list->capacity) {
    list->capacity = 2 * list->capacity + 64;
    list->id = need_more(list->id, (size_t)list->count, (size_t)list->capacity, sizeof *list->id);
  }
  list->id[list->count++] = id;
}

int input_ids(const char *text, id_list *list) {
  static const char between[] = " \t\r\n,[]";
  for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
    char *end;
    long long id = strtoll(at, &end, 10);
    if (end == at || id < 0 || id > INT32_MAX) {
      complain("\"%.20s\" is no id: give numbers, as tokenize prints them", at);
      return EXIT_USAGE;
    }
    id_list_add(list, (int32_t)id);
    at = end;
  }
  return EXIT_OK;
}
