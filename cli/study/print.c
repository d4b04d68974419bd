/* A report in the terminal: paragraphs, tables, claims. */
#include <stdlib.h>
#include <string.h>

#include "study/study.h"

enum { LINE = 80 };

size_t study_refuted(const attend_report *report) {
  size_t n = 0;
  for (size_t i = 0; i < report->n_claims; i++) n += !report->claims[i].holds;
  return n;
}

/* ---- the list ------------------------------------------------------------------- */

static void fill_list(table *t) {
  const attend_study *s;
  for (size_t i = 0; (s = attend_study_at(i)); i++)
    table_add(t, (cell[]){cell_text(s->name), cell_text(s->title), cell_text(s->question),
                          cell_text(s->answers)});
}

int study_print_list(bool json, attend_context *ctx, FILE *out) {
  static const column columns[] = {{"topic", "topic", CELL_TEXT},
                                   {"title", "shows", CELL_TEXT},
                                   {"question", NULL, CELL_TEXT},
                                   {"answers", "documents", CELL_TEXT},
                                   {0}};
  table t = table_start(columns);
  fill_list(&t);
  int code = json ? table_print_json(&t, ctx, out) : table_print(&t, out);
  if (!json && !code)
    fputs(
        "\nattend study TOPIC runs one, attend study TOPIC --help has its "
        "sizes,\nattend study all --out DIR makes a book of all.\n",
        out);
  table_free(&t);
  return code ? code : check_written(out, "the list");
}

/* ---- words ------------------------------------------------------------------------- */

/* Broken at spaces; the back quotes around code are left out. */
static void print_text(const char *text, FILE *out) {
  int at = 0;
  while (*text) {
    size_t n = strcspn(text, " \n");
    int wide = 0;
    for (size_t i = 0; i < n; i++)
      wide += text[i] != '`' && ((unsigned char)text[i] & 0xc0) != 0x80;
    if (at && at + 1 + wide > LINE) {
      fputc('\n', out);
      at = 0;
    }
    if (at) fputc(' ', out), at++;
    for (size_t i = 0; i < n; i++)
      if (text[i] != '`') fputc(text[i], out);
    at += wide;
    text += n;
    text += strspn(text, " \n");
  }
  fputs("\n\n", out);
}

/* ---- tables ------------------------------------------------------------------------- */

cell_kind study_cell_kind(attend_cell_kind kind) {
  static const cell_kind kinds[] = {
      [ATTEND_CELL_TEXT] = CELL_TEXT,       [ATTEND_CELL_COUNT] = CELL_COUNT,
      [ATTEND_CELL_NUMBER] = CELL_PLAIN,    [ATTEND_CELL_SMALL] = CELL_SMALL,
      [ATTEND_CELL_SECONDS] = CELL_SECONDS, [ATTEND_CELL_BYTES] = CELL_BYTES};
  return kinds[kind];
}

static int print_table(const attend_study_table *from, FILE *out) {
  column *columns = need(from->columns + 1, sizeof *columns);
  cell *row = need(from->columns, sizeof *row);
  for (size_t i = 0; i < from->columns; i++)
    columns[i] = (column){from->column[i].name, from->column[i].title,
                          study_cell_kind(from->column[i].kind)};
  table t = table_start(columns);
  for (size_t y = 0; y < from->rows; y++) {
    for (size_t x = 0; x < from->columns; x++) {
      const attend_study_cell *c = &from->cells[y * from->columns + x];
      row[x] = (cell){c->text, c->number};
    }
    table_add(&t, row);
  }
  if (from->title) fprintf(out, "%s\n\n", from->title);
  int code = table_print(&t, out);
  fputc('\n', out);
  table_free(&t);
  free(row);
  free(columns);
  return code;
}

/* ---- claims ---------------------------------------------------------------------- */

static int print_claims(const attend_report *report, bool all, FILE *out) {
  static const column columns[] = {{"claim", "predicted and measured", CELL_TEXT},
                                   {"expected", "predicted", CELL_PLAIN},
                                   {"measured", "measured", CELL_PLAIN},
                                   {"slack", "may differ by", CELL_SMALL},
                                   {"holds", "", CELL_OK},
                                   {0}};
  size_t wrong = study_refuted(report), shown = 0;
  table t = table_start(columns);
  for (size_t i = 0; i < report->n_claims; i++) {
    const attend_study_claim *c = &report->claims[i];
    if (c->holds && !all) continue;
    table_add(&t, (cell[]){cell_text(c->text), cell_number(c->expected), cell_number(c->measured),
                           cell_number(c->slack), cell_number(c->holds)});
    shown++;
  }
  int code = shown ? table_print(&t, out) : EXIT_OK;
  fprintf(out, "%s%zu of %zu predictions hold.\n", shown ? "\n" : "", report->n_claims - wrong,
          report->n_claims);
  table_free(&t);
  return code;
}

int study_print(const attend_report *report, bool claims, FILE *out) {
  int code = EXIT_OK;
  size_t figures = 0;
  fprintf(out, "%s: %s\n", report->study->name, report->study->title);
  fprintf(out, "(documents %s)\n\n", report->study->answers);
  for (size_t i = 0; i < report->n_blocks && !code; i++) {
    const attend_study_block *b = &report->blocks[i];
    if (b->kind == ATTEND_BLOCK_HEADING)
      fprintf(out, "## %s\n\n", b->text);
    else if (b->kind == ATTEND_BLOCK_TEXT)
      print_text(b->text, out);
    else if (b->kind == ATTEND_BLOCK_TABLE)
      code = print_table(b->table, out);
    else
      figures++;
  }
  if (!code && report->n_claims) code = print_claims(report, claims, out);
  if (figures)
    fprintf(out, "%zu plot%s: --open, or --out %s.html\n", figures, figures == 1 ? "" : "s",
            report->study->name);
  return code ? code : check_written(out, "the study");
}
