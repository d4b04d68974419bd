/* Painting a view: view.c, and predictions in view_predictions.c. */
#ifndef PICTURES_PAINTER_H
#define PICTURES_PAINTER_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/view.h"

typedef struct block { /* memory that lives as long as the painter */
  struct block *next;
  max_align_t bytes[];
} block;

typedef struct {
  view_subject s;
  attend_lens_shape shape; /* of s.head; running other steps may drop the run */
  picture_look look;
  const terminal_look *terminal; /* NULL: into out */
  FILE *file;
  drawing out;
  char name[160], notice[256];
  picture_about about;
  picture_tokens rows, keys;
  block *blocks;
  char *error;
} painter;

/* True where there is no sentence. */
static inline bool succeed(painter *p, const char *sentence) {
  if (sentence) snprintf(p->error, VIEW_ERROR, "%s", sentence);
  return !sentence;
}

static inline bool computed(painter *p, attend_status status) {
  return succeed(p, status ? attend_message(p->s.ctx) : NULL);
}

/* Zeroed; NULL after a sentence. */
static inline void *take(painter *p, size_t count, size_t size) {
  block *b = calloc(1, sizeof *b + count * size);
  if (!b) return succeed(p, draw_message(ATTEND_NO_MEMORY)), NULL;
  b->next = p->blocks;
  p->blocks = b;
  return b->bytes;
}

/* A label, as long as the painter. */
static inline const char *kept(painter *p, const char *label) {
  char *copy = take(p, strlen(label) + 1, 1);
  return copy ? strcpy(copy, label) : "";
}

static inline const char *label_of(painter *p, int model, int32_t id) {
  char label[ATTEND_VIEWER_TOKEN];
  attend_viewer_token_label(attend_viewer_get_model(p->s.viewer, model), id, label);
  return kept(p, label);
}

bool paint_intervene(painter *p);
bool paint_attribute(painter *p);

#endif
