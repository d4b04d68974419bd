/* The two ways to fill a mask: a head that sees it, or writing it anew.
 *
 * Fill; encoders go one way, models with both parts the other.
 */
#ifndef CLI_FILL_WAYS_H
#define CLI_FILL_WAYS_H

#include "fill/masks.h"
#include "model_open.h"
#include "table.h"

typedef struct {
  model_opened *m;
  attend_encoding *encoding;
  attend_detokenizer *decoder;
  attend_session *run;
  char spelling[LONGEST_MASK];
  bool sentinels; /* masks are numbered: T5 */
  int top;
  /* of the text at hand */
  size_t line;
  masked_text text, pair;
} filling;

/* Columns: line, mask, rank, token, id, probability, text. */
extern const column fill_columns[];

/* Rows for every mask of text and pair; an exit code after a complaint. */
int fill_by_head(filling *f, table *rows);
int fill_by_writing(filling *f, table *rows);

#endif
