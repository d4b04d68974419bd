/* Weights drawn in a terminal: one head's matrix, or all heads.
 *
 * The data are those of the pictures.
 */
#ifndef PICTURES_TERMINAL_MAP_H
#define PICTURES_TERMINAL_MAP_H

#include <stdio.h>

#include "pictures/pictures.h"

typedef enum {
  TERMINAL_SHADES, /* ░▒▓█, for a file or without colour */
  TERMINAL_256,
  TERMINAL_TRUE /* 24 bits */
} terminal_colours;

typedef struct {
  int columns;
  terminal_colours colours;
  bool dark; /* the terminal's background */
} terminal_look;

/* Of a stream: its width, or COLUMNS, or 80; colours by COLORTERM, NO_COLOR, TERM
 * and COLORFGBG. */
terminal_look terminal_look_of(FILE *out);

/* Sets the colour of letters, or of what is behind them; no-op for shades. */
void terminal_colour(FILE *out, const terminal_look *look, bool behind, colour c);
void terminal_plain(FILE *out, const terminal_look *look);

/* Cells are pooled by their largest where they are more than columns. Fails
 * without memory, before anything is written. */
attend_status terminal_matrix(FILE *out, const picture_matrix_data *d, const terminal_look *look);
void terminal_model(FILE *out, const picture_model_data *d, const terminal_look *look);
void terminal_design(FILE *out, const picture_design_data *d, const terminal_look *look);

#endif
