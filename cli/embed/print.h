/* Vectors, cosines and nearest texts, for people and for programs. */
#ifndef CLI_EMBED_PRINT_H
#define CLI_EMBED_PRINT_H

#include "attend/json.h"
#include "embed/vectors.h"

/* A row and a column for each text; coloured on a terminal. */
int print_cosines(const embed_text *texts, int n, int width);
/* One line of numbers that read back as the same floats. */
void print_vector(const embed_text *text, int width);
/* One object: text, tokens, vector, and with n > 0 its cosines with all. */
void put_embedding(attend_json_writer *w, const embed_text *text, int width,
                   const embed_text *all, int n);

/* ---- the nearest ---------------------------------------------------------------- */

typedef struct {
  double cosine;
  size_t number; /* of the text, from 1 */
  char *text;
} hit;

typedef struct {
  const float *query;
  int width, most, count;
  hit *hits; /* [most], the best first; the earlier one where they are equal */
} nearest;

void nearest_offer(nearest *found, size_t number, const embed_text *text);
int nearest_print(const nearest *found, attend_context *ctx, bool json);
void nearest_free(nearest *found);

#endif
