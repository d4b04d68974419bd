/* Extracted sentences: with their ranks, as a table of all, as JSON, and as a page
 * of the text in which they are marked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/summarize.h"
#include "table.h"
#include "text.h"
#include "view/view.h"

enum {
  BAR = 8,         /* columns */
  CUT = 60,        /* characters of a sentence in a table */
  LEAST_ROOM = 40, /* columns in which sentences are still wrapped */
  BAR_BYTES = 3 * BAR + 1
};

static void make_bar(double share, char bar[BAR_BYTES]) {
  static const char *const eighths[] = {"▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  int left = (int)lround(share * BAR * 8);
  *bar = 0;
  for (int i = 0; i < BAR; i++, left -= 8)
    strcat(bar, left <= 0 ? " " : eighths[left > 8 ? 7 : left - 1]);
}

/* The sentence on one line: runs of white space become a space. */
static char *make_line(const extracted *e, const attend_ranked_sentence *s) {
  char *line = need(s->length + 1, 1);
  size_t n = 0;
  for (size_t i = 0; i < s->length; i++) {
    unsigned char c = (unsigned char)e->text[s->start + i];
    bool gap = c <= 32 || c == 127;
    if (gap && n && line[n - 1] == ' ') continue;
    line[n++] = gap ? ' ' : (char)c;
  }
  return line;
}

static const attend_ranked_sentence *sentence_of(const extracted *e, int i) {
  return attend_extraction_get(e->x, i);
}

/* ---- sentences ------------------------------------------------------------------ */

/* Words on lines of `room` columns, all but the first indented. */
static void print_wrapped(const char *text, int indent, int room) {
  for (int at = indent; *text;) {
    size_t n = strcspn(text, " ");
    char *word = text_copy(text, n);
    int width = text_width(word);
    bool first = at == indent;
    if (!first && at + 1 + width > room) {
      printf("\n%*s", indent, "");
      at = indent;
      first = true;
    }
    if (!first) putchar(' ');
    put_printable(stdout, word, n);
    at += width + !first;
    free(word);
    text += n + (text[n] == ' ');
  }
  putchar('\n');
}

static int digits_of(int n) { return snprintf(NULL, 0, "%d", n); }

static void print_sentence(const extracted *e, int i, int digits, int room) {
  const attend_ranked_sentence *s = sentence_of(e, i);
  char *line = make_line(e, s), bar[BAR_BYTES];
  printf("%*d  ", digits, s->rank);
  if (room < LEAST_ROOM) {
    puts(line);
  } else {
    make_bar(s->height, bar);
    printf("%s  ", bar);
    print_wrapped(line, digits + 2 + BAR + 2, room);
  }
  free(line);
}

static void print_chosen(const extract_options *o, const extracted *e) {
  const attend_ranked_sentence *s;
  int most = 0, room = text_room(stdout);
  for (int i = 0; (s = sentence_of(e, i)); i++)
    if (s->chosen && s->rank > most) most = s->rank;
  for (int i = 0; (s = sentence_of(e, i)); i++) {
    if (!s->chosen) continue;
    if (!o->bare) {
      print_sentence(e, i, digits_of(most), room);
      continue;
    }
    char *line = make_line(e, s);
    puts(line);
    free(line);
  }
}

/* ---- the table ------------------------------------------------------------------ */

static const column columns[] = {{"chosen", "", CELL_TEXT},
                                 {"rank", "rank", CELL_COUNT},
                                 {"centrality", "centrality", CELL_TEXT},
                                 {"bar", "", CELL_TEXT},
                                 {"sentence", "sentence", CELL_COUNT},
                                 {"start", "start", CELL_COUNT},
                                 {"end", "end", CELL_COUNT},
                                 {"text", "text", CELL_TEXT},
                                 {0}};

/* At most CUT characters. */
static char *make_cut(const extracted *e, const attend_ranked_sentence *s) {
  char *line = make_line(e, s), *cut = need(4 * CUT + 8, 1);
  FILE *to = fmemopen(cut, 4 * CUT + 8, "w");
  if (to) {
    text_print_cut(to, line, CUT);
    fclose(to);
  }
  free(line);
  return cut;
}

static void add_row(table *t, const extracted *e, int i) {
  const attend_ranked_sentence *s = sentence_of(e, i);
  char mark[16] = "", share[32], bar[BAR_BYTES];
  char *text = make_cut(e, s);
  if (s->chosen) strcpy(mark, "*");
  if (s->same >= 0) snprintf(mark, sizeof mark, "=%d", s->same + 1);
  snprintf(share, sizeof share, "%.3g%%", 100 * s->centrality);
  make_bar(s->height, bar);
  cell row[] = {cell_text(mark),
                cell_number(s->rank),
                cell_text(share),
                cell_text(bar),
                cell_number(i + 1),
                cell_number((double)s->start),
                cell_number((double)(s->start + s->length)),
                cell_text(text)};
  table_add(t, row);
  free(text);
}

static int print_table(const extracted *e) {
  const attend_ranked_sentence *s;
  table t = table_start(columns);
  for (int i = 0; (s = sentence_of(e, i)); i++)
    if (s->words) add_row(&t, e, i);
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

/* ---- JSON ----------------------------------------------------------------------- */

static void put_sentence(attend_json_writer *w, const extracted *e, int number, int i) {
  const attend_ranked_sentence *s = sentence_of(e, i);
  char *line = make_line(e, s);
  attend_json_indent(w, true); /* one line a row */
  attend_json_open(w, '{');
  attend_json_indent(w, false);
  json_text(w, "document", e->name);
  json_number(w, "number", number);
  json_number(w, "sentence", i + 1);
  json_number(w, "rank", s->rank);
  json_number(w, "centrality", s->centrality);
  json_truth(w, "chosen", s->chosen);
  json_number(w, "same_as", s->same < 0 ? (double)NAN : s->same + 1);
  json_number(w, "start", (double)s->start);
  json_number(w, "end", (double)(s->start + s->length));
  json_text(w, "text", line);
  attend_json_close(w, '}');
  free(line);
}

static void put_document(attend_json_writer *w, const extract_options *o, const extracted *e,
                         int number) {
  const attend_ranked_sentence *s;
  for (int i = 0; (s = sentence_of(e, i)); i++)
    if (s->chosen || (o->ranks && s->words)) put_sentence(w, e, number, i);
}

static int print_json(const extract_options *o, attend_context *ctx, const extracted *all,
                      int count) {
  attend_json_writer w = attend_json_writer_file(ctx, stdout);
  attend_json_open(&w, '[');
  for (int d = 0; d < count; d++)
    if (all[d].done) put_document(&w, o, &all[d], d);
  attend_json_indent(&w, true);
  attend_json_close(&w, ']');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

int extracted_print(const extract_options *o, bool json, attend_context *ctx, const extracted *all,
                    int count) {
  int code = EXIT_OK;
  if (json) return print_json(o, ctx, all, count);
  for (int d = 0; d < count && !code; d++) {
    if (!all[d].done) continue;
    if (count > 1) printf("%s%s\n", d ? "\n" : "", all[d].name);
    if (o->ranks)
      code = print_table(&all[d]);
    else
      print_chosen(o, &all[d]);
  }
  return code ? code : check_written(stdout, "the sentences");
}

/* ---- the page -------------------------------------------------------------------- */

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>Sentences that say most</title>\n<style>\n"
    ":root { color-scheme: light dark; --hue: 212 100% 45%; }\n"
    "body { font: 17px/1.6 Georgia, serif; margin: 2rem auto;\n"
    "  max-width: 42rem; padding: 0 1rem; }\n"
    "h1 { font-size: 1.2rem; } small, h1, ol, sup, footer {\n"
    "  font-family: system-ui, sans-serif; }\n"
    "ol { padding: 0; list-style: none; } li { margin: .4rem 0;\n"
    "  display: grid; grid-template-columns: 2rem 5rem 1fr; gap: .6rem;\n"
    "  font-size: .92rem; }\n"
    "li a { color: inherit; text-decoration: none; }\n"
    "li i { height: .5rem; margin-top: .55rem; border-radius: 2px;\n"
    "  width: calc(100% * var(--c)); background: hsl(var(--hue)); }\n"
    "mark { color: inherit; border-radius: 3px; padding: .05em .15em;\n"
    "  background: hsl(var(--hue) / calc(.1 + .25 * var(--c)));\n"
    "  box-decoration-break: clone; -webkit-box-decoration-break: clone; }\n"
    "mark:target { outline: 2px solid hsl(var(--hue)); }\n"
    "sup { font-size: .65em; opacity: .7; } footer { opacity: .7;\n"
    "  font-size: .85rem; margin: 3rem 0; }\n"
    "@media (prefers-color-scheme: dark) { :root { --hue: 205 100% 65%; } }\n"
    "</style>\n";

/* Anchors are numbered by document and sentence. */
static void put_list(FILE *to, const extracted *e, int d) {
  fputs("<ol>\n", to);
  const attend_ranked_sentence *s;
  for (int i = 0; (s = sentence_of(e, i)); i++) {
    if (!s->chosen) continue;
    char *line = make_line(e, s);
    fprintf(to, "<li><b>%d</b><i style=\"--c: %.3f\"></i><a href=\"#s%d-%d\">", s->rank, s->height,
            d, i);
    html_put_n(to, line, strlen(line));
    fputs("</a></li>\n", to);
    free(line);
  }
  fputs("</ol>\n<hr>\n", to);
}

static void put_marked(FILE *to, const extracted *e, int d, int i) {
  const attend_ranked_sentence *s = sentence_of(e, i);
  if (s->chosen)
    fprintf(to,
            "<mark id=\"s%d-%d\" style=\"--c: %.3f\" title=\"rank %d, %.2f %% "
            "of the attention\">",
            d, i, s->height, s->rank, 100 * s->centrality);
  html_put_n(to, e->text + s->start, s->length);
  if (s->chosen) fprintf(to, "<sup> %d</sup></mark>", s->rank);
}

static void put_text(FILE *to, const extracted *e, int d) {
  fputs("<h1>", to);
  html_put_n(to, e->name, strlen(e->name));
  fprintf(to, "</h1>\n<small>%d of %d sentences</small>\n", attend_extraction_chosen(e->x),
          attend_extraction_rows(e->x));
  put_list(to, e, d);
  const attend_ranked_sentence *s;
  for (int i = 0; (s = sentence_of(e, i)); i++) {
    if (i == 0 || sentence_of(e, i - 1)->ends_paragraph) fputs("<p>", to);
    put_marked(to, e, d, i);
    fputs(s->ends_paragraph ? "</p>\n" : " ", to);
  }
}

int extracted_page(attend_context *ctx, const char *path, double tau, const char *model,
                   const extracted *all, int count) {
  char *bytes = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&bytes, &length);
  if (!to) {
    complain("there is no memory for the page");
    return EXIT_FAILED;
  }
  fputs(head, to);
  for (int d = 0; d < count; d++)
    if (all[d].done) put_text(to, &all[d], d);
  fprintf(to, "<footer>Ranked by centrality: attention among the vectors of ");
  html_put_n(to, model, strlen(model));
  fprintf(to, ", tau %g. The number after a sentence is its rank.</footer>\n", tau);
  bool whole = !ferror(to);
  int code = fclose(to) || !whole ? EXIT_FAILED : EXIT_OK;
  if (code) complain("there is no memory for the page");
  if (!code) code = view_write_bytes(ctx, path, bytes, length);
  free(bytes);
  if (!code) fprintf(stderr, "attend: wrote %s\n", path);
  return code;
}
