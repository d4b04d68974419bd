/* Masks in a text: finding them, however they are spelled, and filling one.
 *
 * Fill, between what the user wrote and the tokenizer.
 */
#ifndef CLI_FILL_MASKS_H
#define CLI_FILL_MASKS_H

#include "attend/text.h"
#include "cli.h"

enum { MOST_MASKS = 64, LONGEST_MASK = 32 };

typedef struct {
  char *text; /* with the masks as the tokenizer spells them */
  size_t length;
  int masks;
  size_t start[MOST_MASKS], end[MOST_MASKS]; /* bytes of the text */
} masked_text;

/* spelling: the tokenizer's mask; with %d in it, the number of the mask. In the
 * text it may also be [MASK], <mask>, or three and more underscores. Masks past
 * the last that are allowed stay as they are. */
masked_text masks_find(const char *text, size_t length, const char *spelling);
void masks_free(masked_text *m);

/* The text with bytes [start, end) replaced. The caller frees it. */
char *text_filled(const masked_text *m, size_t start, size_t end,
                  const char *word);

#endif
