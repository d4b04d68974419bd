/* Maps of numbers or words, scores of tokens, a neuron's numbers and generated tokens, in a
 * terminal.
 *
 * In colour a cell is drawn on the colour of its number; without, the number or word alone is
 * printed.
 */
#include <math.h>
#include <string.h>

#include "pictures/pictures.h"

enum { NAME_MOST = 16, NUMBER_WIDTH = 7, WORD_MOST = 10, BAR_MOST = 24 };

/* A text cut or padded to so many columns; right: its end is aligned. */
static void print_text(FILE *out, const char *text, int columns, bool right) {
  int width = letters_width(text), available = width > columns ? columns - 1 : columns, used = 0;
  if (right && width < columns) fprintf(out, "%*s", columns - width, "");
  for (uint32_t code; (code = letters_next(&text));) {
    char bytes[LETTER_BYTES];
    int wide = letters_columns(code);
    if (used + wide > available) break;
    fwrite(bytes, 1, letters_put(code, bytes), out);
    used += wide;
  }
  if (width > columns) fputs("…", out), used++;
  if (!(right && width < columns)) fprintf(out, "%*s", columns - used > 0 ? columns - used : 0, "");
}

static const char *name_of(const picture_tokens *t, int i, char number[16]) {
  if (t->text) return t->text[i];
  snprintf(number, 16, "%d", i);
  return number;
}

static int widest(const picture_tokens *t, int most) {
  int wide = 1;
  char number[16];
  for (int i = 0; i < t->count; i++) {
    int w = letters_width(name_of(t, i, number));
    if (w > wide) wide = w;
  }
  return wide < most ? wide : most;
}

static double largest(const float *x, int n) {
  double max = 0;
  for (int i = 0; i < n; i++) max = fmax(max, fabs((double)x[i]));
  return max;
}

static void print_number(char text[24], double x) {
  double size = fabs(x);
  int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  snprintf(text, 24, "%+.*f", digits, x);
}

/* The colour behind a value, and letters that can be read on it. */
static void set_cell(FILE *out, const terminal_look *look, bool is_signed, double value,
                     double max) {
  const palette *p = palette_get(look->dark);
  double share = palette_share(value, max);
  colour under = is_signed ? palette_sign(p, share) : palette_weight(p, share);
  terminal_colour(out, look, true, under);
  terminal_colour(out, look, false,
                  colour_on(under, palette_get(false)->ink, palette_get(false)->background));
}

/* ---- maps ------------------------------------------------------------------------------------ */

typedef struct {
  FILE *out;
  const picture_map_data *d;
  const terminal_look *look;
  int names, cell; /* columns of the names of rows, of a cell */
  double max;
} drawn_map;

static void print_cell(const drawn_map *m, int i, int j) {
  const size_t at = (size_t)i * (size_t)m->d->columns.count + (size_t)j;
  char number[24];
  const char *text = number;
  print_number(number, (double)m->d->cells[at]);
  if (m->d->words) text = m->d->words[at];
  set_cell(m->out, m->look, m->d->is_signed, (double)m->d->cells[at], m->max);
  print_text(m->out, text, m->cell, !m->d->words);
  terminal_plain(m->out, m->look);
  fputc(' ', m->out);
}

static void print_block(const drawn_map *m, int from, int end) {
  char number[16];
  fprintf(m->out, "%*s ", m->names, "");
  for (int j = from; j < end; j++) {
    print_text(m->out, name_of(&m->d->columns, j, number), m->cell, !m->d->words);
    fputc(' ', m->out);
  }
  fputc('\n', m->out);
  for (int i = 0; i < m->d->rows.count; i++) {
    print_text(m->out, name_of(&m->d->rows, i, number), m->names, true);
    fputc(' ', m->out);
    for (int j = from; j < end; j++) print_cell(m, i, j);
    fputc('\n', m->out);
  }
}

void terminal_map(FILE *out, const picture_map_data *d, const terminal_look *look) {
  const int n = d->rows.count * d->columns.count;
  drawn_map m = {out, d, look, widest(&d->rows, NAME_MOST), NUMBER_WIDTH, largest(d->cells, n)};
  if (d->words) m.cell = widest(&(picture_tokens){d->words, n}, WORD_MOST);
  int names = widest(&d->columns, NUMBER_WIDTH);
  if (m.cell < names) m.cell = names;
  int fit = (look->columns - m.names - 1) / (m.cell + 1);
  if (fit < 1) fit = 1;
  fprintf(out, "%s ↓, %s →: %s\n", d->row_axis, d->column_axis, d->what);
  for (int from = 0; from < d->columns.count; from += fit) {
    int end = from + fit < d->columns.count ? from + fit : d->columns.count;
    if (from) fputc('\n', out);
    print_block(&m, from, end);
  }
}

/* ---- scores ------------------------------------------------------------------------------------ */

static void print_line(FILE *out, const picture_scores_data *d, const terminal_look *look,
                       double max) {
  int used = 0;
  for (int i = 0; i < d->tokens.count; i++) {
    const char *text = d->tokens.text[i];
    int wide = letters_width(text) + 1;
    if (used && used + wide > look->columns) {
      fputc('\n', out);
      used = 0;
    }
    set_cell(out, look, true, (double)d->scores[i], max);
    print_text(out, text, wide - 1, false);
    terminal_plain(out, look);
    fputc(' ', out);
    used += wide;
  }
  fputs("\n\n", out);
}

static void print_bar(FILE *out, const terminal_look *look, double value, double max) {
  int length = max > 0 ? (int)lround(fabs(value) / max * BAR_MOST) : 0;
  const palette *p = palette_get(look->dark);
  terminal_colour(out, look, false, palette_sign(p, value < 0 ? -0.75 : 0.75));
  for (int i = 0; i < length; i++) fputs(value < 0 ? "▒" : "█", out);
  terminal_plain(out, look);
}

void terminal_scores(FILE *out, const picture_scores_data *d, const terminal_look *look) {
  const double max = largest(d->scores, d->tokens.count);
  const int names = widest(&d->tokens, NAME_MOST);
  if (look->colours != TERMINAL_SHADES) print_line(out, d, look, max);
  for (int i = 0; i < d->tokens.count; i++) {
    char number[24];
    print_number(number, (double)d->scores[i]);
    fprintf(out, "%4d  ", i);
    print_text(out, d->tokens.text[i], names, false);
    fprintf(out, " %8s  ", number);
    print_bar(out, look, (double)d->scores[i], max);
    fputc('\n', out);
  }
}

/* ---- one query, number by number ------------------------------------------------------------- */

static double product_of(const picture_neuron_data *d, int key) {
  double sum = 0;
  for (int i = 0; i < d->dim; i++) sum += (double)d->q[i] * (double)d->k[key * d->dim + i];
  return sum;
}

void terminal_neuron(FILE *out, const picture_neuron_data *d, const terminal_look *look) {
  const double max = largest(d->weights, d->keys.count);
  const int names = widest(&d->keys, NAME_MOST);
  fprintf(out, "query %d ", d->row);
  print_text(out, d->query, letters_width(d->query), false);
  fprintf(out, "\n%4s  %-*s %9s %9s %8s\n", "", names, "key", "q·k", "score", "weight");
  for (int i = 0; i < d->keys.count; i++) {
    const double product = product_of(d, i);
    fprintf(out, "%4d  ", d->first + i);
    print_text(out, d->keys.text[i], names, false);
    fprintf(out, " %9.3f %9.3f %7.3f  ", product, product * d->scale, (double)d->weights[i]);
    print_bar(out, look, (double)d->weights[i], max);
    fputc('\n', out);
  }
  char position[16];
  snprintf(position, sizeof position, "%d", d->row);
  const picture_facts facts = {.query = picture_spelled(d->query), .position = position};
  terminal_caption(out, "neuron", &d->about, facts, look);
}

/* ---- tokens as they were chosen ---------------------------------------------------------------- */

void terminal_generate(FILE *out, const picture_generate_data *d, const terminal_look *look) {
  enum { STEP = 4, TOKEN = 14, BEFORE = STEP + 2 + TOKEN + 9 };
  fprintf(out, "%s\n", d->prompt);
  for (int i = 0; i < d->step_count; i++) {
    const picture_step *step = &d->steps[i];
    int used = BEFORE;
    fprintf(out, "%*d  ", STEP, i + 1);
    print_text(out, step->text, TOKEN, false);
    fprintf(out, " %5.3f  ", step->p);
    for (int k = 0; k < step->candidate_count; k++) {
      const int wide = letters_width(step->candidates[k].text);
      if ((used += wide + 7) > look->columns) break;
      print_text(out, step->candidates[k].text, wide, false);
      fprintf(out, " %.2f  ", step->candidates[k].p);
    }
    fputc('\n', out);
  }
  terminal_caption(out, "generate", &d->about, (picture_facts){0}, look);
}
