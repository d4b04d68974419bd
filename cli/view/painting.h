/* A state of the page on its way to a picture: from attend/view.h to pictures.h, or to
 * the terminal. painting.c has what every picture needs.
 */
#ifndef CLI_VIEW_PAINTING_H
#define CLI_VIEW_PAINTING_H

#include "pictures/pictures.h"
#include "pictures/terminal_map.h"
#include "view/subject.h"

enum { PAINT_CELLS = SUBJECT_CELLS, PAINT_KEYS = 200 };

typedef struct {
  viewer *v;
  const view_state *s;
  picture_look look;
  const terminal_look *terminal; /* NULL: into `out` */
  int new_tokens;
  bool film; /* in place of all heads: one, at the steps of a training run */
  char name[160], notice[256];
  const attend_view_run *run, *other; /* other NULL: none */
  subject at;
  picture_about about;
  picture_tokens rows, keys;
  char **labels; /* [n_labels] the tokens as they are drawn */
  size_t n_labels, label_room;
  drawing *out;
  char error[640];
} painting;

/* Everything; false after a sentence in p->error. */
bool paint(painting *p);

/* ---- what every picture needs ------------------------------------------------- */

/* True where there is no sentence. */
bool paint_fail(painting *p, const char *sentence);
bool paint_status(painting *p, attend_status status);
/* A token as the page shows it (viewer/src/token_label.tsx): a dot is the space
 * before a word. Lives as long as the painting. */
const char *token_label(painting *p, const char *token);
/* The label of token id of a model. */
const char *id_label(painting *p, int model, int32_t id);

typedef struct { /* a head in cells */
  float *cells;
  uint8_t *mask;
  int height, width;
} grid;

/* Of the run (NULL: the first), under a form (NULL: its own). */
bool get_grid(painting *p, const attend_view_run *run, const char *form, grid *g);
void grid_free(grid *g);

/* ---- views ------------------------------------------------------------------------ */

bool paint_model(painting *p);
bool paint_film(painting *p);
bool paint_head(painting *p);
bool paint_neuron(painting *p);
bool paint_matrix(painting *p);
bool paint_flow(painting *p);
bool paint_compare(painting *p);
bool paint_generate(painting *p);
bool paint_embeddings(painting *p);

#endif
