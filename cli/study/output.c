/* Reports: in the terminal, as files, in a browser. */
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "folders.h"
#include "study/study.h"

enum { LINE = 80 };

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

static bool is_mark(char c) { return c == '`' || c == '$'; }

/* Broken at spaces; the marks around code and formulas are left out. */
static void print_text(const char *text, FILE *out) {
  int at = 0;
  while (*text) {
    size_t n = strcspn(text, " \n");
    int wide = 0;
    for (size_t i = 0; i < n; i++)
      wide += !is_mark(text[i]) && ((unsigned char)text[i] & 0xc0) != 0x80;
    if (at && at + 1 + wide > LINE) {
      fputc('\n', out);
      at = 0;
    }
    if (at) fputc(' ', out), at++;
    for (size_t i = 0; i < n; i++)
      if (!is_mark(text[i])) fputc(text[i], out);
    at += wide;
    text += n;
    text += strspn(text, " \n");
  }
  fputs("\n\n", out);
}

/* ---- tables ------------------------------------------------------------------------- */

static cell_kind kind_of(attend_cell_kind kind) {
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
    columns[i] =
        (column){from->column[i].name, from->column[i].title, kind_of(from->column[i].kind)};
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
  size_t wrong = attend_report_refuted(report), shown = 0;
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

static int print(const attend_report *report, bool claims, FILE *out) {
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

int study_print_formulas(attend_context *ctx) {
  char *line = NULL, *html;
  size_t capacity = 0;
  int code = EXIT_OK;
  for (ssize_t n; !code && (n = getline(&line, &capacity, stdin)) > 0;) {
    if (line[n - 1] == '\n') line[n - 1] = 0;
    attend_status status = attend_formula_mathml(ctx, line, &html);
    if (status)
      code = complain_status(ctx, status);
    else
      puts(html);
    attend_plot_free(ctx, html);
  }
  free(line);
  return code ? code : check_written(stdout, "the formulas");
}

/* ---- files ---------------------------------------------------------------------------- */

static const attend_report *const *list_of(const studied *s) {
  return (const attend_report *const *)s->reports;
}

static int write_page(const studied *s, const char *path) {
  char *html;
  size_t length;
  attend_status status = attend_report_html(s->ctx, s->count, list_of(s), &html, &length);
  if (!status) status = attend_file_write(s->ctx, path, html, length);
  attend_plot_free(s->ctx, html);
  return status ? complain_status(s->ctx, status) : EXIT_OK;
}

/* path NULL: the output. */
static int write_json(const studied *s, const char *path) {
  char *json;
  size_t length;
  attend_status status = attend_report_json(s->ctx, s->count, list_of(s), &json, &length);
  if (!status && path) status = attend_file_write(s->ctx, path, json, length);
  if (!status && !path) fwrite(json, 1, length, stdout);
  attend_plot_free(s->ctx, json);
  if (status) return complain_status(s->ctx, status);
  return path ? EXIT_OK : check_written(stdout, "the study");
}

/* The next figure of a report, from block *at on. */
static const attend_study_figure *next_figure(const attend_report *r, size_t *at) {
  while (*at < r->n_blocks) {
    const attend_study_block *b = &r->blocks[(*at)++];
    if (b->kind == ATTEND_BLOCK_FIGURE) return b->figure;
  }
  return NULL;
}

static int save(const studied *s, const attend_study_figure *f, const char *path) {
  attend_status status = attend_plot_save(s->ctx, &f->plot, path);
  return status ? complain_status(s->ctx, status) : EXIT_OK;
}

static int write_plot(const studied *s, const study_options *o) {
  const attend_study_figure *f, *found = NULL;
  char all[600] = "";
  size_t n = 0, at = 0;
  while ((f = next_figure(s->reports[0], &at))) {
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, "%s%s", n++ ? ", " : "", f->name);
    if (!o->figure || !strcmp(f->name, o->figure)) found = f;
  }
  if (found && (o->figure || n == 1)) return save(s, found, o->out);
  complain(n ? "this study has %zu plots: say which with --figure, one of %s"
             : "this study has no plot%.0zu%s",
           n, all);
  return EXIT_USAGE;
}

static int write_folder(const studied *s, const char *folder) {
  char *page = path_of("%s/index.html", folder), *data = path_of("%s/study.json", folder);
  int code = make_folder(folder) ? write_page(s, page) : EXIT_FAILED;
  if (!code) code = write_json(s, data);
  for (size_t i = 0; i < s->count; i++) {
    const attend_study_figure *f;
    size_t at = 0;
    while (!code && (f = next_figure(s->reports[i], &at))) {
      char *path = path_of("%s/%s.svg", folder, f->name);
      code = save(s, f, path);
      free(path);
    }
  }
  free(data);
  free(page);
  return code;
}

bool study_can_write(const char *out) {
  const bool file = path_ends(out, ".html") || path_ends(out, ".json") || path_ends(out, ".svg");
  return file ? can_write(out) : make_folder(out);
}

static int write_out(const studied *s, const study_options *o) {
  int code = path_ends(o->out, ".html")   ? write_page(s, o->out)
             : path_ends(o->out, ".json") ? write_json(s, o->out)
             : path_ends(o->out, ".svg")  ? write_plot(s, o)
                                          : write_folder(s, o->out);
  if (!code) fprintf(stderr, "attend: wrote %s\n", o->out);
  return code;
}

static int open_page(const studied *s) {
  char *path = browser_file("study");
  int code = path ? write_page(s, path) : EXIT_FAILED;
  if (!code) {
    fprintf(stderr, "attend: wrote %s\n", path);
    browser_open(path);
  }
  free(path);
  return code;
}

int study_show(const studied *s, const study_options *o) {
  int code = EXIT_OK;
  size_t wrong = 0;
  bool quiet = (o->out || o->open) && s->count > 1;
  if (o->out) code = write_out(s, o);
  if (!code && o->common.json) code = write_json(s, NULL);
  for (size_t i = 0; i < s->count && !code && !quiet && !o->common.json; i++) {
    if (i) fputs("\n\n", stdout);
    code = print(s->reports[i], o->claims, stdout);
  }
  if (!code && o->open) code = open_page(s);
  for (size_t i = 0; i < s->count; i++) wrong += attend_report_refuted(s->reports[i]);
  if (code || !wrong) return code;
  complain("%zu prediction%s not hold: --claims shows which", wrong, wrong == 1 ? " does" : "s do");
  return EXIT_FAILED;
}
