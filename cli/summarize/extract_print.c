/* What attend summarize --extract says: sentences with their ranks, a table of
 * all of them, or JSON.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/lines.h"
#include "summarize/extract.h"
#include "json_members.h"
#include "table.h"
#include "printable.h"

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

static void print_sentence(const extraction *x, int i, int digits, int room) {
  char *line = extraction_line(x, i), bar[BAR_BYTES];
  const ranked *s = &x->sentence[i];
  printf("%*d  ", digits, s->rank);
  if (room < LEAST_ROOM) {
    puts(line);
  } else {
    make_bar(extraction_height(x, i), bar);
    printf("%s  ", bar);
    print_wrapped(line, digits + 2 + BAR + 2, room);
  }
  free(line);
}

static void print_chosen(const extract_options *o, const extraction *x) {
  int most = 0, room = text_room(stdout);
  for (int i = 0; i < x->count; i++)
    if (x->sentence[i].chosen && x->sentence[i].rank > most)
      most = x->sentence[i].rank;
  for (int i = 0; i < x->count; i++) {
    if (!x->sentence[i].chosen) continue;
    if (!o->bare) {
      print_sentence(x, i, digits_of(most), room);
      continue;
    }
    char *line = extraction_line(x, i);
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
static char *make_cut(const extraction *x, int i) {
  char *line = extraction_line(x, i), *cut = need(4 * CUT + 8, 1);
  FILE *to = fmemopen(cut, 4 * CUT + 8, "w");
  if (to) {
    text_print_cut(to, line, CUT);
    fclose(to);
  }
  free(line);
  return cut;
}

static void add_row(table *t, const extraction *x, int i) {
  const ranked *s = &x->sentence[i];
  char mark[16] = "", share[32], bar[BAR_BYTES];
  char *text = make_cut(x, i);
  if (s->chosen) strcpy(mark, "*");
  if (s->same >= 0) snprintf(mark, sizeof mark, "=%d", s->same + 1);
  snprintf(share, sizeof share, "%.3g%%", 100 * s->centrality);
  make_bar(extraction_height(x, i), bar);
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

static int print_table(const extraction *x) {
  table t = table_start(columns);
  for (int i = 0; i < x->count; i++)
    if (x->sentence[i].words) add_row(&t, x, i);
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

/* ---- JSON ----------------------------------------------------------------------- */

static void put_sentence(attend_json_writer *w, const extraction *x, int number,
                         int i) {
  const ranked *s = &x->sentence[i];
  char *line = extraction_line(x, i);
  attend_json_indent(w, true); /* one line a row */
  attend_json_open(w, '{');
  attend_json_indent(w, false);
  json_text(w, "document", x->name);
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

static int print_json(const extract_options *o, attend_context *ctx,
                      const extraction *x, int count) {
  attend_json_writer w = attend_json_writer_file(ctx, stdout);
  attend_json_open(&w, '[');
  for (int d = 0; d < count; d++)
    for (int i = 0; i < x[d].count && x[d].done; i++)
      if (x[d].sentence[i].chosen || (o->ranks && x[d].sentence[i].words))
        put_sentence(&w, &x[d], d, i);
  attend_json_indent(&w, true);
  attend_json_close(&w, ']');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

int extractions_print(const extract_options *o, bool json, attend_context *ctx,
                      const extraction *x, int count) {
  int code = EXIT_OK;
  if (json) return print_json(o, ctx, x, count);
  for (int d = 0; d < count && !code; d++) {
    if (!x[d].done) continue;
    if (count > 1) printf("%s%s\n", d ? "\n" : "", x[d].name);
    if (o->ranks)
      code = print_table(&x[d]);
    else
      print_chosen(o, &x[d]);
  }
  return code ? code : check_written(stdout, "the sentences");
}
