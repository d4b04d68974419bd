/* Reports as one self-contained HTML page, plots inside, no scripts; and as JSON. */
#include <stdio.h>

#include "attend/json.h"
#include "base/base.h"
#include "base/files.h"
#include "studies/formula.h"
#include "studies/study.h"
#include "svg/svg.h"

enum { LONG = 32 }; /* a cell of more bytes may be broken */

/* ---- numbers for readers ------------------------------------------------------- */

static void format_scaled(double number, double step, const char *const *units, int count,
                          char *text, size_t size) {
  int unit = 0;
  while (unit + 1 < count && fabs(number) >= step) {
    number /= step;
    unit++;
  }
  int digits = fabs(number) < 9.995 ? 2 : fabs(number) < 99.95 ? 1 : 0;
  if (unit == 0 && number == floor(number)) digits = 0;
  snprintf(text, size, "%.*f%s%s", digits, number, *units[unit] ? " " : "", units[unit]);
}

void attend_cell_format(attend_cell_kind kind, double number, char *text, size_t size) {
  static const char *const thousands[] = {"", "k", "M", "G", "T", "P"};
  static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  static const char *const seconds[] = {"ns", "µs", "ms", "s"};
  /* Whole numbers of five to seven digits are clearer than powers of ten. */
  const bool whole = fabs(number) >= 1000 && fabs(number) < 1e7;
  if (isnan(number))
    snprintf(text, size, "-");
  else if (kind == ATTEND_CELL_NUMBER)
    snprintf(text, size, "%.*g", whole ? 7 : 4, whole ? round(number) : number);
  else if (kind == ATTEND_CELL_SMALL)
    snprintf(text, size, "%.2e", number);
  else if (kind == ATTEND_CELL_SCALED)
    format_scaled(number, 1e3, thousands, 6, text, size);
  else if (kind == ATTEND_CELL_SECONDS)
    format_scaled(number * 1e9, 1e3, seconds, 4, text, size);
  else if (kind == ATTEND_CELL_BYTES)
    format_scaled(number, 1024, bytes, 5, text, size);
  else
    snprintf(text, size, "%.0f", number);
}

size_t attend_report_refuted(const attend_report *report) {
  size_t n = 0;
  for (size_t i = 0; i < report->n_claims; i++) n += !report->claims[i].holds;
  return n;
}

/* ---- HTML: blocks ---------------------------------------------------------------- */

static const char style[] =
    ":root{color-scheme:light dark;--text:#17202b;--page:#ffffff;--soft:#5b6776;\n"
    "--line:#dde3ea;--mark:#2466c3;--code:#f2f4f7}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e9edf2;--page:#12151b;--soft:#9aa6b5;\n"
    "--line:#2b323d;--mark:#7db7e0;--code:#1d222b}}\n"
    "body{margin:2.5rem auto;padding:0 "
    "1rem;max-width:48rem;background:var(--page);color:var(--text);font:17px/1.55 Georgia,'DejaVu "
    "Serif',serif}\n"
    "h1,h2,h3,nav,table,.soft,summary{font-family:system-ui,'DejaVu Sans',sans-serif}\n"
    "h1{font-size:1.7rem}h2{font-size:1.35rem;margin-top:3.5rem;border-top:1px solid "
    "var(--line);padding-top:1.5rem}h3{font-size:1.05rem;margin-top:2rem}\n"
    "code{background:var(--code);padding:.05em .3em;border-radius:3px;font-size:.9em}\n"
    "a{color:var(--mark)}.soft{color:var(--soft);font-size:.9rem}\n"
    "nav li{margin:.25rem 0}\n"
    "figure{margin:1.6rem 0}figure>svg{width:100%;height:auto}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.85rem;margin:1.2rem "
    "0;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;color:var(--soft);padding-bottom:.4rem}\n"
    "th,td{padding:.25rem .55rem;border-bottom:1px solid "
    "var(--line);text-align:right;vertical-align:bottom}\n"
    "th{font-weight:600}td{white-space:nowrap}td.text,th.text{text-align:left}td.long{white-space:"
    "normal}\n"
    "details{margin:1.5rem 0}summary{cursor:pointer;color:var(--soft)}\n"
    "@media "
    "print{details{display:none}.wide{overflow:visible}table{font-size:.7rem}h2{break-before:page}"
    "figure,table{break-inside:avoid}body{font-size:11pt}}\n";

/* `code` between back quotes, formulas between dollars. */
static void put_marked(svg *s, const char *text) {
  while (*text) {
    size_t n = strcspn(text, "`$");
    svg_escape(s, text, n);
    text += n;
    const char mark = *text;
    if (!mark) return;
    n = strcspn(++text, mark == '$' ? "$" : "`");
    if (mark == '$') {
      formula_put(s, text, n, false);
    } else {
      svg_add(s, "<code>");
      svg_escape(s, text, n);
      svg_add(s, "</code>");
    }
    text += n + (text[n] != 0);
  }
}

static void put_cell(svg *s, attend_cell_kind kind, const attend_study_cell *c) {
  char text[64];
  if (c->text) {
    svg_add(s, "<td class=\"text%s\">", strlen(c->text) > LONG ? " long" : "");
    put_marked(s, c->text);
  } else {
    attend_cell_format(kind, c->number, text, sizeof text);
    svg_add(s, "<td>%t", kind == ATTEND_CELL_TEXT ? "" : text);
  }
  svg_add(s, "</td>");
}

static void put_table(svg *s, const attend_study_table *t) {
  svg_add(s, "<div class=\"wide\"><table>");
  if (t->title) {
    svg_add(s, "<caption>");
    put_marked(s, t->title);
    svg_add(s, "</caption>");
  }
  svg_add(s, "<thead><tr>");
  for (size_t x = 0; x < t->columns; x++) {
    svg_add(s, t->column[x].kind == ATTEND_CELL_TEXT ? "<th class=\"text\">" : "<th>");
    put_marked(s, t->column[x].title);
    svg_add(s, "</th>");
  }
  svg_add(s, "</tr></thead><tbody>\n");
  for (size_t y = 0; y < t->rows; y++) {
    svg_add(s, "<tr>");
    for (size_t x = 0; x < t->columns; x++)
      put_cell(s, t->column[x].kind, &t->cells[y * t->columns + x]);
    svg_add(s, "</tr>\n");
  }
  svg_add(s, "</tbody></table></div>\n");
}

static attend_status put_figure(attend_context *ctx, svg *s, const attend_study_figure *figure) {
  char *plot;
  TRY(attend_plot_svg(ctx, &figure->plot, &plot, NULL));
  svg_add(s, "<figure>%s</figure>\n", plot);
  attend_plot_free(ctx, plot);
  return ATTEND_OK;
}

static attend_status put_block(attend_context *ctx, svg *s, const attend_study_block *b) {
  if (b->kind == ATTEND_BLOCK_FIGURE) return put_figure(ctx, s, b->figure);
  if (b->kind == ATTEND_BLOCK_TABLE) {
    put_table(s, b->table);
    return ATTEND_OK;
  }
  svg_add(s, b->kind == ATTEND_BLOCK_TEXT ? "<p>" : "<h3>");
  put_marked(s, b->text);
  svg_add(s, b->kind == ATTEND_BLOCK_TEXT ? "</p>\n" : "</h3>\n");
  return ATTEND_OK;
}

/* ---- HTML: a study ----------------------------------------------------------------- */

static void put_claims(svg *s, const attend_report *r) {
  if (!r->n_claims) return;
  svg_add(s,
          "<details><summary>%z of %z predictions hold</summary><div class=\"wide\"><table><thead>"
          "<tr><th class=\"text\">what</th><th>predicted</th><th>measured</th><th>may differ "
          "by</th><th></th></tr></thead><tbody>\n",
          r->n_claims - attend_report_refuted(r), r->n_claims);
  for (size_t i = 0; i < r->n_claims; i++) {
    const attend_study_claim *c = &r->claims[i];
    char numbers[160];
    snprintf(numbers, sizeof numbers, "<td>%.6g</td><td>%.6g</td><td>%.2g</td>", c->expected,
             c->measured, c->slack);
    svg_add(s, "<tr><td class=\"text long\">");
    put_marked(s, c->text);
    svg_add(s, "</td>%s<td>%s</td></tr>\n", numbers, c->holds ? "holds" : "FAILS");
  }
  svg_add(s, "</tbody></table></div></details>\n");
}

/* A word of a command, quoted for a shell where it must be. */
static void put_word(svg *s, const char *word) {
  const bool plain = !word[strcspn(word, " \t\n'\"`$&|;<>()*?[]#~!{}\\")];
  if (!plain) svg_add(s, "'");
  for (size_t n; *word; word += n) {
    n = strcspn(word, "'");
    svg_escape(s, word, n);
    if (!word[n]) break;
    svg_add(s, "'\\''");
    n++;
  }
  if (!plain) svg_add(s, "'");
}

/* The command that makes the report again. */
static void put_command(svg *s, const attend_report *r) {
  char seed[32];
  svg_add(s, "<p class=\"soft\">Again: <code>attend study %t", r->study->name);
  for (size_t i = 0; i < r->n_settings; i++) {
    const char *value = r->settings[i].value;
    if (!*value || !strcmp(value, r->study->settings[i].value)) continue;
    svg_add(s, " --%s ", r->settings[i].name);
    put_word(s, value);
  }
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)r->seed);
  svg_add(s, " --seed %s</code></p>\n", seed);
}

static attend_status put_report(attend_context *ctx, svg *s, const attend_report *r) {
  const attend_study *about = r->study;
  svg_add(s, "<section id=\"%s\"><h2>%t</h2>\n<p class=\"soft\">%t Documents: %t.</p>\n",
          about->name, about->title, about->question, about->answers);
  for (size_t i = 0; i < r->n_blocks; i++) TRY(put_block(ctx, s, &r->blocks[i]));
  put_claims(s, r);
  put_command(s, r);
  svg_add(s, "</section>\n");
  return ATTEND_OK;
}

static void put_contents(svg *s, size_t count, const attend_report *const *reports) {
  svg_add(s, "<nav><ol>\n");
  for (size_t i = 0; i < count; i++)
    svg_add(s, "<li><a href=\"#%s\">%t</a></li>\n", reports[i]->study->name,
            reports[i]->study->title);
  svg_add(s, "</ol></nav>\n");
}

static const char equation[] = "outᵢ = Σⱼ sim(qᵢ, kⱼ) vⱼ / Σⱼ sim(qᵢ, kⱼ)";

static attend_status put_page(attend_context *ctx, svg *s, size_t count,
                              const attend_report *const *reports) {
  const char *title = count == 1 ? reports[0]->study->title : "Attention, measured";
  svg_add(s,
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%t</title>\n"
          "<style>\n%s</style></head><body>\n",
          title, style);
  if (count != 1) {
    svg_add(s, "<h1>%s</h1>\n", title);
    formula_put(s, equation, sizeof equation - 1, true);
    svg_add(
        s,
        "<p>over the keys j that query i may see: what five course documents ask about it, each "
        "question answered by a measurement beside the formula.</p>\n");

    put_contents(s, count, reports);
  }
  for (size_t i = 0; i < count; i++) TRY(put_report(ctx, s, reports[i]));
  svg_add(s, "</body></html>\n");
  return s->status ? fail(ctx, s->status, "no memory for the page") : ATTEND_OK;
}

attend_status attend_report_html(attend_context *ctx, size_t count,
                                 const attend_report *const *reports, char **html, size_t *length) {
  svg s = {.memory = ctx->allocator};
  attend_status status = put_page(ctx, &s, count, reports);
  if (status) svg_free(&s);
  *html = s.text;
  *length = s.length;
  return status;
}

/* ---- JSON ------------------------------------------------------------------------ */

static void open_list(json_writer *w, const char *name) {
  json_member(w, name);
  json_open(w, '[');
}

static void json_cell(json_writer *w, const attend_study_cell *c) {
  if (c->text)
    json_put_string(w, c->text);
  else
    json_put_number(w, c->number);
}

static void json_table(json_writer *w, const attend_study_table *t) {
  json_member_string(w, "table", t->name);
  json_member_string(w, "title", t->title);
  open_list(w, "rows");
  for (size_t y = 0; y < t->rows; y++) {
    json_open(w, '{');
    for (size_t x = 0; x < t->columns; x++) {
      json_member(w, t->column[x].name);
      json_cell(w, &t->cells[y * t->columns + x]);
    }
    json_close(w, '}');
  }
  json_close(w, ']');
}

static void put_numbers(json_writer *w, const char *name, const double *list, size_t n) {
  if (!list) return;
  open_list(w, name);
  for (size_t i = 0; i < n; i++) json_put_number(w, list[i]);
  json_close(w, ']');
}

static void put_panel(json_writer *w, const attend_plot_panel *p) {
  json_open(w, '{');
  json_member_string(w, "title", p->title);
  json_member_string(w, "x", p->x.label);
  json_member_string(w, "y", p->y.label);
  open_list(w, "series");
  for (size_t i = 0; i < p->count; i++) {
    const attend_plot_series *s = &p->series[i];
    json_open(w, '{');
    json_member_string(w, "name", s->name);
    put_numbers(w, "x", s->x, s->count);
    put_numbers(w, "y", s->y, s->count);
    put_numbers(w, "low", s->low, s->count);
    put_numbers(w, "high", s->high, s->count);
    json_close(w, '}');
  }
  json_close(w, ']');
  if (p->cells) {
    json_member_number(w, "columns", (double)p->columns);
    put_numbers(w, "cells", p->cells, p->rows * p->columns);
  }
  json_close(w, '}');
}

static void json_figure(json_writer *w, const attend_study_figure *f) {
  json_member_string(w, "figure", f->name);
  open_list(w, "panels");
  for (size_t i = 0; i < f->plot.count; i++) put_panel(w, &f->plot.panels[i]);
  json_close(w, ']');
}

static void json_block(json_writer *w, const attend_study_block *b) {
  json_open(w, '{');
  if (b->kind == ATTEND_BLOCK_TABLE)
    json_table(w, b->table);
  else if (b->kind == ATTEND_BLOCK_FIGURE)
    json_figure(w, b->figure);
  else
    json_member_string(w, b->kind == ATTEND_BLOCK_TEXT ? "text" : "heading", b->text);
  json_close(w, '}');
}

static void json_claims(json_writer *w, const attend_report *r) {
  open_list(w, "claims");
  for (size_t i = 0; i < r->n_claims; i++) {
    const attend_study_claim *c = &r->claims[i];
    json_open(w, '{');
    json_member_string(w, "name", c->name);
    json_member_string(w, "text", c->text);
    json_member_number(w, "expected", c->expected);
    json_member_number(w, "measured", c->measured);
    json_member_number(w, "slack", c->slack);
    json_member_boolean(w, "holds", c->holds);
    json_close(w, '}');
  }
  json_close(w, ']');
}

static void json_report(json_writer *w, const attend_report *r) {
  json_open(w, '{');
  json_member_string(w, "study", r->study->name);
  json_member_string(w, "title", r->study->title);
  json_member_string(w, "answers", r->study->answers);
  json_member_number(w, "seed", (double)r->seed);
  json_member_number(w, "seconds", r->seconds);
  json_member(w, "settings");
  json_open(w, '{');
  for (size_t i = 0; i < r->n_settings; i++)
    json_member_string(w, r->settings[i].name, r->settings[i].value);
  json_close(w, '}');
  json_claims(w, r);
  open_list(w, "blocks");
  for (size_t i = 0; i < r->n_blocks; i++) json_block(w, &r->blocks[i]);
  json_close(w, ']');
  json_close(w, '}');
}

attend_status attend_report_json(attend_context *ctx, size_t count,
                                 const attend_report *const *reports, char **json, size_t *length) {
  json_writer w = json_writer_text(ctx);
  json_indent(&w, true);
  if (count != 1) json_open(&w, '[');
  for (size_t i = 0; i < count; i++) json_report(&w, reports[i]);
  if (count != 1) json_close(&w, ']');
  return json_take_text(&w, json, length);
}
