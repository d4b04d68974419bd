/* The eight maps of each head in a terminal, designed above learned.
 *
 * `attend design` without a browser; the data are the picture's.
 *
 * A cell is two columns wide. In colour it is painted; without, a positive value
 * is a shade and a negative one a shade behind a minus.
 */
#include <math.h>
#include <string.h>

#include "pictures/letters.h"
#include "pictures/terminal_map.h"

enum { CELL = 2, NAME = 5, GAP = 2, MOST_COLUMNS = 40 };

static int grid_width(const picture_grid *g) {
  int columns = g->columns < MOST_COLUMNS ? g->columns : MOST_COLUMNS;
  int wide = NAME + CELL * columns, title = NAME + (int)strlen(g->title);
  return (wide > title ? wide : title) + GAP;
}

/* As many maps as fit beside each other; at least one. */
static int fitting(const picture_design_head *h, int from, int columns) {
  int n = 0, wide = 0;
  while (from + n < h->grids) {
    wide += grid_width(&h->grid[0][from + n]);
    if (n && wide - GAP > columns) break;
    n++;
  }
  return n;
}

static double largest(const picture_grid *g) {
  double most = 0;
  for (int i = 0; i < g->rows * g->columns; i++) {
    double size = fabs((double)g->cells[i]);
    if (size > most) most = size;
  }
  return g->is_weight ? 1 : most;
}

static int width_of(const char *name) {
  int n = 0;
  while (letters_next(&name)) n++;
  return n;
}

static void print_spaces(FILE *out, int n) { fprintf(out, "%*s", n, ""); }

/* A name in NAME columns, its end kept. */
static void print_name(FILE *out, const picture_grid *g, int row) {
  char number[16];
  const char *name = number;
  snprintf(number, sizeof number, "%d", row);
  if (g->row_names) name = g->row_names[row];
  int wide = width_of(name);
  const char *value = strchr(name, '=');
  if (wide > NAME - 1 && value && value > name) name = value;
  wide = width_of(name);
  while (wide > NAME - 1) {
    do name++;
    while ((*(const unsigned char *)name & 0xc0) == 0x80);
    wide = width_of(name);
  }
  print_spaces(out, NAME - 1 - wide);
  fprintf(out, "%s ", name);
}

static void print_cell(FILE *out, const terminal_look *look, const picture_grid *g, double v,
                       double most) {
  static const char *const shades[] = {"·", "░", "▒", "▓", "█"};
  const palette *p = palette_get(look->dark);
  double share = most > 0 ? v / most : 0;
  if (look->colours == TERMINAL_SHADES) {
    int shade = (int)(sqrt(fabs(share)) * 4.999);
    fprintf(out, "%s%s", shade && v < 0 ? "-" : shade ? shades[shade] : " ", shades[shade]);
    return;
  }
  terminal_colour(out, look, true,
                  g->is_weight ? palette_weight(p, palette_share(v, 1)) : palette_sign(p, share));
  print_spaces(out, CELL);
}

static void print_line(FILE *out, const terminal_look *look, const picture_grid *g, int row) {
  int columns = g->columns < MOST_COLUMNS ? g->columns : MOST_COLUMNS;
  double most = largest(g);
  if (row >= g->rows) {
    print_spaces(out, grid_width(g));
    return;
  }
  print_name(out, g, row);
  for (int j = 0; j < columns; j++)
    print_cell(out, look, g, (double)g->cells[row * g->columns + j], most);
  terminal_plain(out, look);
  print_spaces(out, grid_width(g) - NAME - CELL * columns);
}

static void print_titles(FILE *out, const picture_design_head *h, int from, int n) {
  for (int i = from; i < from + n; i++) {
    const picture_grid *g = &h->grid[0][i];
    print_spaces(out, NAME);
    fprintf(out, "%-*s", grid_width(g) - NAME, g->title);
  }
  fputc('\n', out);
}

static void print_twin(FILE *out, const picture_design_head *h, int twin, int from, int n,
                       const terminal_look *look) {
  int rows = 0;
  for (int i = from; i < from + n; i++)
    if (h->grid[twin][i].rows > rows) rows = h->grid[twin][i].rows;
  for (int r = 0; r < rows; r++) {
    for (int i = from; i < from + n; i++) print_line(out, look, &h->grid[twin][i], r);
    fputc('\n', out);
  }
}

static void print_head(FILE *out, const picture_design_head *h, const terminal_look *look) {
  static const char *const twins[] = {"designed", "learned"};
  fprintf(out, "\n%s\n", h->name);
  for (int from = 0, n; from < h->grids; from += n) {
    n = fitting(h, from, look->columns);
    print_titles(out, h, from, n);
    for (int t = 0; t < h->twins; t++) {
      fprintf(out, "%s\n", twins[t]);
      print_twin(out, h, t, from, n, look);
    }
  }
}

void terminal_design(FILE *out, const picture_design_data *d, const terminal_look *look) {
  fprintf(out, "\n%s\n", d->title);
  for (int i = 0; i < d->heads; i++) print_head(out, &d->head[i], look);
}
