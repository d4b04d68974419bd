/* Vectors, cosines and nearest texts as tables and JSON. */
#ifndef CLI_EMBED_PRINT_H
#define CLI_EMBED_PRINT_H

#include "attend/embed.h"
#include "attend/json.h"

typedef struct { /* texts that are embedded together */
  char **text;   /* [room] */
  size_t *length;
  int32_t *tokens;
  float *vectors; /* [room][width] */
  int count, room, width;
} embed_window;

static inline const float *vector_at(const embed_window *w, int i) {
  return w->vectors + (size_t)i * (size_t)w->width;
}

/* A row and a column for each text; coloured on a terminal. */
int print_cosines(const embed_window *window);
/* One line of numbers that read back as the same floats. */
void print_vector(const embed_window *window, int i);
/* One object: text, tokens, vector, and its cosines with all texts if `cosines`. */
void put_embedding(attend_json_writer *w, const embed_window *window, int i, bool cosines);

/* ---- the nearest ---------------------------------------------------------------- */

typedef struct {
  double cosine;
  size_t number; /* of the text, from 1 */
  char *text;
} hit;

typedef struct {
  const float *query; /* [width] */
  int most, count;
  hit *hits; /* [most], best first; the earlier one where cosines are equal */
} nearest;

void nearest_offer(nearest *found, size_t number, const embed_window *window, int i);
int nearest_print(const nearest *found, attend_context *ctx, bool json);
void nearest_free(nearest *found);

#endif
