/* Masks in a text: finding them, however they are spelled, and filling one.
 *
 * Fill, between what the user wrote and the tokenizer.
 */
#include "fill/masks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool opens_with(const char *text, size_t length, const char *word) {
  size_t n = strlen(word);
  return n && n <= length && !memcmp(text, word, n);
}

/* Bytes of a mask that the text begins with; 0: none. */
static size_t mask_at(const char *text, size_t length, const char *own) {
  size_t blank = 0;
  if (opens_with(text, length, own)) return strlen(own);
  if (opens_with(text, length, "[MASK]") || opens_with(text, length, "<mask>"))
    return 6;
  while (blank < length && text[blank] == '_') blank++;
  return blank >= 3 ? blank : 0;
}

static void spell(char own[LONGEST_MASK], const char *spelling, int number) {
  const char *place = strstr(spelling, "%d");
  if (place)
    snprintf(own, LONGEST_MASK, "%.*s%d%s", (int)(place - spelling), spelling,
             number, place + 2);
  else
    snprintf(own, LONGEST_MASK, "%s", spelling);
}

masked_text masks_find(const char *text, size_t length, const char *spelling) {
  char own[LONGEST_MASK];
  masked_text m = {.text = need(length + MOST_MASKS * LONGEST_MASK + 1, 1)};
  for (size_t at = 0; at < length;) {
    spell(own, spelling, m.masks);
    size_t n = m.masks < MOST_MASKS ? mask_at(text + at, length - at, own) : 0;
    if (n) {
      m.start[m.masks] = m.length;
      memcpy(m.text + m.length, own, strlen(own));
      m.length += strlen(own);
      m.end[m.masks++] = m.length;
      at += n;
    } else {
      m.text[m.length++] = text[at++];
    }
  }
  return m;
}

void masks_free(masked_text *m) {
  free(m->text);
  m->text = NULL;
}

char *text_filled(const masked_text *m, size_t start, size_t end,
                  const char *word) {
  size_t size = start + strlen(word) + (m->length - end) + 1;
  char *text = need(size, 1);
  memcpy(text, m->text, start);
  strcpy(text + start, word);
  memcpy(text + strlen(text), m->text + end, m->length - end);
  return text;
}
