/* Reports as one self-contained HTML page, plots inside: one study or all of them.
 * No scripts.
 */
#include <string.h>

#include "study/study.h"
#include "text.h"

enum { LONG = 32 }; /* a cell of more bytes may be broken */

static const char style[] =
    ":root{color-scheme:light dark;--text:#17202b;--page:#fff;--soft:#5b6776;"
    "--line:#dde3ea;--mark:#2466c3;--code:#f2f4f7}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e9edf2;--page:#12151b;"
    "--soft:#9aa6b5;--line:#2b323d;--mark:#7db7e0;--code:#1d222b}}\n"
    "body{margin:2.5rem auto;padding:0 1rem;max-width:48rem;"
    "background:var(--page);color:var(--text);"
    "font:17px/1.55 Georgia,'DejaVu Serif',serif}\n"
    "h1,h2,h3,nav,table,.soft,summary{font-family:system-ui,'DejaVu Sans',"
    "sans-serif}\n"
    "h1{font-size:1.7rem}h2{font-size:1.35rem;margin-top:3.5rem;"
    "border-top:1px solid var(--line);padding-top:1.5rem}"
    "h3{font-size:1.05rem;margin-top:2rem}\n"
    "code{background:var(--code);padding:.05em .3em;border-radius:3px;"
    "font-size:.9em}\n"
    "a{color:var(--mark)}.soft{color:var(--soft);font-size:.9rem}\n"
    "nav li{margin:.25rem 0}\n"
    "figure{margin:1.6rem 0}figure>svg{width:100%;height:auto}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.85rem;margin:1.2rem 0;"
    "font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;color:var(--soft);padding-bottom:.4rem}\n"
    "th,td{padding:.25rem .55rem;border-bottom:1px solid var(--line);"
    "text-align:right;vertical-align:bottom}\n"
    "th{font-weight:600}td{white-space:nowrap}td.text,th.text{text-align:left}"
    "td.long{white-space:normal}\n"
    "details{margin:1.5rem 0}summary{cursor:pointer;color:var(--soft)}\n"
    "@media print{details{display:none}.wide{overflow:visible}"
    "table{font-size:.7rem}h2{break-before:page}"
    "figure,table{break-inside:avoid}body{font-size:11pt}}\n";

/* `code` between back quotes. */
static void put_marked(FILE *f, const char *text) {
  for (bool code = false;; code = !code) {
    size_t n = strcspn(text, "`");
    html_put_n(f, text, n);
    text += n;
    if (*text || code) fputs(code ? "</code>" : "<code>", f);
    if (!*text++) return;
  }
}

/* ---- blocks ------------------------------------------------------------------------ */

static void put_cell(FILE *f, attend_cell_kind kind, const attend_study_cell *c) {
  char text[64];
  bool is_long = c->text && strlen(c->text) > LONG;
  fputs(is_long ? "<td class=\"text long\">" : c->text ? "<td class=\"text\">" : "<td>", f);
  if (c->text) {
    put_marked(f, c->text);
  } else if (kind != ATTEND_CELL_TEXT) {
    format_cell(study_cell_kind(kind), c->number, text, sizeof text);
    html_put(f, text);
  }
  fputs("</td>", f);
}

static void put_table(FILE *f, const attend_study_table *t) {
  fputs("<div class=\"wide\"><table>", f);
  if (t->title) {
    fputs("<caption>", f);
    put_marked(f, t->title);
    fputs("</caption>", f);
  }
  fputs("<thead><tr>", f);
  for (size_t x = 0; x < t->columns; x++) {
    bool text = t->column[x].kind == ATTEND_CELL_TEXT;
    fputs(text ? "<th class=\"text\">" : "<th>", f);
    put_marked(f, t->column[x].title);
    fputs("</th>", f);
  }
  fputs("</tr></thead><tbody>\n", f);
  for (size_t y = 0; y < t->rows; y++) {
    fputs("<tr>", f);
    for (size_t x = 0; x < t->columns; x++)
      put_cell(f, t->column[x].kind, &t->cells[y * t->columns + x]);
    fputs("</tr>\n", f);
  }
  fputs("</tbody></table></div>\n", f);
}

static int put_figure(attend_context *ctx, FILE *f, const attend_study_figure *figure) {
  char *svg;
  attend_status status = attend_plot_svg(ctx, &figure->plot, &svg, NULL);
  if (status) return complain_status(ctx, status);
  fputs("<figure>", f);
  fputs(svg, f);
  fputs("</figure>\n", f);
  attend_plot_free(ctx, svg);
  return EXIT_OK;
}

static int put_block(attend_context *ctx, FILE *f, const attend_study_block *b) {
  switch (b->kind) {
    case ATTEND_BLOCK_TABLE:
      put_table(f, b->table);
      return EXIT_OK;
    case ATTEND_BLOCK_FIGURE:
      return put_figure(ctx, f, b->figure);
    default:
      fputs(b->kind == ATTEND_BLOCK_TEXT ? "<p>" : "<h3>", f);
      put_marked(f, b->text);
      fputs(b->kind == ATTEND_BLOCK_TEXT ? "</p>\n" : "</h3>\n", f);
      return EXIT_OK;
  }
}

/* ---- a study ------------------------------------------------------------------------- */

static void put_claims(FILE *f, const attend_report *r) {
  size_t wrong = study_refuted(r);
  if (!r->n_claims) return;
  fprintf(f,
          "<details><summary>%zu of %zu predictions hold</summary><div "
          "class=\"wide\"><table><thead><tr><th class=\"text\">what</th>"
          "<th>predicted</th><th>measured</th><th>may differ by</th>"
          "<th></th></tr></thead><tbody>\n",
          r->n_claims - wrong, r->n_claims);
  for (size_t i = 0; i < r->n_claims; i++) {
    const attend_study_claim *c = &r->claims[i];
    fputs("<tr><td class=\"text long\">", f);
    put_marked(f, c->text);
    fprintf(f, "</td><td>%.6g</td><td>%.6g</td><td>%.2g</td><td>%s</td></tr>\n", c->expected,
            c->measured, c->slack, c->holds ? "holds" : "FAILS");
  }
  fputs("</tbody></table></div></details>\n", f);
}

/* A word of a command, quoted for a shell where it must be. */
static void put_word(FILE *f, const char *word) {
  bool plain = !word[strcspn(word, " \t\n'\"`$&|;<>()*?[]#~!{}\\")];
  if (!plain) fputc('\'', f);
  for (size_t n; *word; word += n) {
    n = strcspn(word, "'");
    html_put_n(f, word, n);
    if (!word[n]) break;
    fputs("'\\''", f);
    n++;
  }
  if (!plain) fputc('\'', f);
}

/* How to run it again. */
static void put_command(FILE *f, const attend_report *r) {
  fputs("<p class=\"soft\">Again: <code>attend study ", f);
  html_put(f, r->study->name);
  for (size_t i = 0; i < r->n_settings; i++) {
    const char *value = r->settings[i].value;
    if (!*value || !strcmp(value, r->study->settings[i].value)) continue;
    fprintf(f, " --%s ", r->settings[i].name);
    put_word(f, value);
  }
  fprintf(f, " --seed %llu</code></p>\n", (unsigned long long)r->seed);
}

static int put_report(attend_context *ctx, FILE *f, const attend_report *r) {
  int code = EXIT_OK;
  fprintf(f, "<section id=\"%s\"><h2>", r->study->name);
  html_put(f, r->study->title);
  fputs("</h2>\n<p class=\"soft\">", f);
  html_put(f, r->study->question);
  fputs(" Documents: ", f);
  html_put(f, r->study->answers);
  fputs(".</p>\n", f);
  for (size_t i = 0; i < r->n_blocks && !code; i++) code = put_block(ctx, f, &r->blocks[i]);
  put_claims(f, r);
  put_command(f, r);
  fputs("</section>\n", f);
  return code;
}

static void put_contents(FILE *f, const studied *s) {
  fputs("<nav><ol>\n", f);
  for (size_t i = 0; i < s->count; i++) {
    const attend_study *about = s->reports[i]->study;
    fprintf(f, "<li><a href=\"#%s\">", about->name);
    html_put(f, about->title);
    fputs("</a></li>\n", f);
  }
  fputs("</ol></nav>\n", f);
}

int study_print_page(const studied *s, FILE *f) {
  const char *title = s->count == 1 ? s->reports[0]->study->title : "Attention, measured";
  int code = EXIT_OK;
  fputs(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>",
      f);
  html_put(f, title);
  fprintf(f, "</title>\n<style>\n%s</style></head><body>\n", style);
  if (s->count != 1) {
    fprintf(f,
            "<h1>%s</h1>\n<p><code>out_i = sum_j sim(q_i, k_j) v_j / sum_j "
            "sim(q_i, k_j)</code> over the keys j that query i may see: what "
            "five course documents ask about it, each question answered by a "
            "measurement beside the formula.</p>\n",
            title);
    put_contents(f, s);
  }
  for (size_t i = 0; i < s->count && !code; i++) code = put_report(s->ctx, f, s->reports[i]);
  fputs("</body></html>\n", f);
  return code ? code : check_written(f, "the page");
}
