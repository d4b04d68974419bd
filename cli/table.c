/* Rows printed as a table or as JSON.
 *
 * A table is as wide as its texts; on a narrower terminal the widest text column is
 * truncated. Only ok and FAILED are coloured, and only on a terminal.
 */
#include "table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend/study.h"

enum { MOST_COLUMNS = 32, NARROWEST = 80, CELL_SIZE = 32 };

cell cell_none(void) { return (cell){NULL, NAN}; }

/* ---- rows ------------------------------------------------------------------ */

table table_start(const column *columns) {
  table t = {.columns = columns};
  while (columns[t.width].name) t.width++;
  return t;
}

void table_add(table *t, const cell *row) {
  size_t width = (size_t)t->width;
  if (t->rows == t->capacity) {
    size_t capacity = 2 * t->capacity + 16;
    cell *cells = need(capacity * width, sizeof *cells);
    if (t->rows) memcpy(cells, t->cells, t->rows * width * sizeof *cells);
    free(t->cells);
    t->cells = cells;
    t->capacity = capacity;
  }
  cell *to = t->cells + t->rows++ * width;
  for (size_t i = 0; i < width; i++) {
    to[i] = row[i];
    if (row[i].text) to[i].text = need_copy(row[i].text);
  }
}

void table_free(table *t) {
  size_t n = t->rows * (size_t)t->width;
  for (size_t i = 0; i < n; i++) free((char *)t->cells[i].text);
  free(t->cells);
  t->cells = NULL;
  t->rows = t->capacity = 0;
}

/* ---- texts ----------------------------------------------------------------- */

void format_cell(cell_kind kind, double number, char *text, size_t size) {
  static const attend_cell_kind kinds[] = {
      [CELL_TEXT] = ATTEND_CELL_COUNT,   [CELL_COUNT] = ATTEND_CELL_COUNT,
      [CELL_SMALL] = ATTEND_CELL_SMALL,  [CELL_NUMBER] = ATTEND_CELL_SCALED,
      [CELL_PLAIN] = ATTEND_CELL_NUMBER, [CELL_RATE] = ATTEND_CELL_NUMBER,
      [CELL_RATIO] = ATTEND_CELL_NUMBER, [CELL_SECONDS] = ATTEND_CELL_SECONDS,
      [CELL_BYTES] = ATTEND_CELL_BYTES,  [CELL_OK] = ATTEND_CELL_NUMBER};
  if (kind == CELL_OK && !isnan(number))
    snprintf(text, size, number ? "ok" : "FAILED");
  else if ((kind == CELL_RATE || kind == CELL_RATIO) && !isnan(number))
    snprintf(text, size, "%.*f", kind == CELL_RATE ? 1 : 3, number);
  else
    attend_cell_format(kinds[kind], number, text, size);
}

/* ---- the table ------------------------------------------------------------- */

/* Names come from files: escape them. */
static void make_printable(const table *t) {
  for (size_t i = 0; i < t->rows * (size_t)t->width; i++) {
    const char *text = t->cells[i].text;
    if (!text) continue;
    t->cells[i].text = printable(text, strlen(text), "");
    free((char *)text);
  }
}

static const char *cell_string(const table *t, size_t row, int c, char buffer[CELL_SIZE]) {
  const cell *at = &t->cells[row * (size_t)t->width + (size_t)c];
  if (at->text) return at->text;
  format_cell(t->columns[c].kind, at->number, buffer, CELL_SIZE);
  return buffer;
}

static int column_width(const table *t, int c) {
  char buffer[CELL_SIZE];
  int width = text_width(t->columns[c].title);
  for (size_t r = 0; r < t->rows; r++) {
    int w = text_width(cell_string(t, r, c, buffer));
    if (w > width) width = w;
  }
  return width;
}

/* Narrows the widest text column to fit the terminal. */
static void fit(const table *t, int *widths, int available) {
  int total = 0, widest = -1;
  for (int c = 0; c < t->width; c++) {
    if (!t->columns[c].title) continue;
    total += widths[c] + 2;
    if (t->columns[c].kind == CELL_TEXT && (widest < 0 || widths[c] > widths[widest])) widest = c;
  }
  if (!available || widest < 0) return;
  if (available < NARROWEST) available = NARROWEST;
  if (total - 2 <= available) return;
  int kept = widths[widest] - (total - 2 - available);
  widths[widest] = kept < 12 ? 12 : kept;
}

static void print_cell(FILE *out, const char *text, int width, bool left, bool last,
                       const char *colour) {
  int pad = width - text_width(text);
  if (!left) fprintf(out, "%*s", pad > 0 ? pad : 0, "");
  if (colour) fputs(colour, out);
  text_print_cut(out, text, width);
  if (colour) fputs("\033[0m", out);
  if (!last && left) fprintf(out, "%*s", pad > 0 ? pad : 0, "");
  fputs(last ? "\n" : "  ", out);
}

static int last_shown(const table *t) {
  int last = t->width - 1;
  while (last > 0 && !t->columns[last].title) last--;
  return last;
}

static void print_row(const table *t, FILE *out, const int *widths, size_t row, bool colourful) {
  char buffer[CELL_SIZE];
  int last = last_shown(t);
  for (int c = 0; c <= last; c++) {
    const column *of = &t->columns[c];
    if (!of->title) continue;
    const cell *at = &t->cells[row * (size_t)t->width + (size_t)c];
    const char *colour = NULL;
    if (colourful && of->kind == CELL_OK) colour = at->number ? "\033[32m" : "\033[1;31m";
    print_cell(out, cell_string(t, row, c, buffer), widths[c], of->kind == CELL_TEXT, c == last,
               colour);
  }
}

int check_written(FILE *out, const char *name) {
  if (!fflush(out) && !ferror(out)) return EXIT_OK;
  complain("could not write %s: %s", name, errno ? strerror(errno) : "the disk may be full");
  return EXIT_FAILED;
}

int table_print(const table *t, FILE *out) {
  int widths[MOST_COLUMNS] = {0}, last = last_shown(t);
  bool colourful = is_colourful(out);
  make_printable(t);
  for (int c = 0; c < t->width; c++)
    if (t->columns[c].title) widths[c] = column_width(t, c);
  fit(t, widths, terminal_columns(out));
  for (int c = 0; c <= last; c++)
    if (t->columns[c].title)
      print_cell(out, t->columns[c].title, widths[c], t->columns[c].kind == CELL_TEXT, c == last,
                 colourful ? "\033[2m" : NULL);
  for (size_t r = 0; r < t->rows; r++) print_row(t, out, widths, r, colourful);
  return check_written(out, "the table");
}

/* ---- JSON ------------------------------------------------------------------ */

static void put_cell(json_writer *w, const column *of, const cell *at) {
  json_member(w, of->name);
  if (at->text)
    json_put_string(w, at->text);
  else if (of->kind == CELL_OK && !isnan(at->number))
    json_put_boolean(w, at->number != 0);
  else
    json_put_number(w, at->number);
}

static json_writer open_rows(attend_context *ctx, FILE *out) {
  json_writer w = json_writer_file(ctx, out);
  json_open(&w, '[');
  return w;
}

json_writer json_rows_open(attend_context *ctx) { return open_rows(ctx, stdout); }

void json_row_open(json_writer *w) {
  json_indent(w, true);
  json_open(w, '{');
  json_indent(w, false);
}

int json_rows_close(json_writer *w, attend_context *ctx) {
  json_indent(w, true);
  json_close(w, ']');
  attend_status status = json_finish(w);
  json_writer_free(w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

void table_put_members(const table *t, size_t row, json_writer *w) {
  for (int c = 0; c < t->width; c++)
    if (*t->columns[c].name)
      put_cell(w, &t->columns[c], &t->cells[row * (size_t)t->width + (size_t)c]);
}

int table_print_json(const table *t, attend_context *ctx, FILE *out) {
  json_writer w = open_rows(ctx, out);
  for (size_t r = 0; r < t->rows; r++) {
    json_row_open(&w);
    table_put_members(t, r, &w);
    json_close(&w, '}');
  }
  return json_rows_close(&w, ctx);
}

int table_finish(table *t, attend_context *ctx, bool json) {
  int code = json ? table_print_json(t, ctx, stdout) : table_print(t, stdout);
  table_free(t);
  return code;
}
