/* attend summarize --extract: the sentences of a text with the highest centrality, with
 * their ranks, as a table of all, as JSON, and as a page of the text in which they are
 * marked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/embed.h"
#include "text.h"
#include "progress.h"
#include "table.h"
#include "model_open.h"
#include "summarize/summarize.h"

static const char WORDS[] = "words"; /* no model */

typedef struct {
  const char *name, *text;
  attend_extraction *x;
} extracted;

typedef struct {
  const summarize_options *o;
  attend_context *ctx;
  model_opened m;
  attend_embedder *e; /* NULL: by words */
  const char *model;  /* as it was named */
  extracted *all;     /* [count] */
  int count;
} extract_run;

static const attend_ranked_sentence *sentence_of(const extracted *e, int i) {
  return attend_extraction_get(e->x, i);
}

/* Not after an interrupt before it was ranked. */
static bool is_done(const extracted *e) {
  return attend_extraction_chosen(e->x) || !attend_extraction_rows(e->x);
}

/* ---- sentences ------------------------------------------------------------------ */

enum {
  BAR = 8,            /* columns */
  CUT = 60,           /* characters of a sentence in a table */
  LEAST_COLUMNS = 40, /* columns in which sentences are still wrapped */
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

/* Words on lines of at most `columns` columns, all but the first indented. */
static void print_wrapped(const char *text, int indent, int columns) {
  for (int at = indent; *text;) {
    size_t n = strcspn(text, " ");
    char *word = text_copy(text, n);
    int width = text_width(word);
    bool first = at == indent;
    if (!first && at + 1 + width > columns) {
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

static void print_sentence(const extracted *e, int i, int digits, int columns) {
  const attend_ranked_sentence *s = sentence_of(e, i);
  char *line = make_line(e, s), bar[BAR_BYTES];
  printf("%*d  ", digits, s->rank);
  if (columns < LEAST_COLUMNS) {
    puts(line);
  } else {
    make_bar(s->height, bar);
    printf("%s  ", bar);
    print_wrapped(line, digits + 2 + BAR + 2, columns);
  }
  free(line);
}

static void print_chosen(const summarize_options *o, const extracted *e) {
  const attend_ranked_sentence *s;
  int max = 0, columns = terminal_columns(stdout);
  for (int i = 0; (s = sentence_of(e, i)); i++)
    if (s->chosen && s->rank > max) max = s->rank;
  for (int i = 0; (s = sentence_of(e, i)); i++) {
    if (!s->chosen) continue;
    if (!o->bare) {
      print_sentence(e, i, digits_of(max), columns);
      continue;
    }
    char *line = make_line(e, s);
    puts(line);
    free(line);
  }
}

/* ---- tables and JSON ------------------------------------------------------------- */

static const column columns[] = {{"document", NULL, CELL_TEXT},  {"number", NULL, CELL_COUNT},
                                 {"sentence", NULL, CELL_COUNT}, {"", "", CELL_TEXT},
                                 {"rank", "rank", CELL_COUNT},   {"centrality", NULL, CELL_NUMBER},
                                 {"chosen", NULL, CELL_OK},      {"same_as", NULL, CELL_COUNT},
                                 {"", "centrality", CELL_TEXT},  {"", "", CELL_TEXT},
                                 {"", "sentence", CELL_COUNT},   {"start", "start", CELL_COUNT},
                                 {"end", "end", CELL_COUNT},     {"text", NULL, CELL_TEXT},
                                 {"", "text", CELL_TEXT},        {0}};

/* At most CUT characters. */
static char *make_cut(const char *line) {
  char *cut = need(4 * CUT + 8, 1);
  FILE *to = fmemopen(cut, 4 * CUT + 8, "w");
  if (to) {
    text_print_cut(to, line, CUT);
    fclose(to);
  }
  return cut;
}

static void add_row(table *t, const extract_run *run, int d, int i) {
  const extracted *e = &run->all[d];
  const attend_ranked_sentence *s = sentence_of(e, i);
  char mark[16] = "", share[32], bar[BAR_BYTES];
  char *line = make_line(e, s), *cut = make_cut(line);
  if (s->chosen) strcpy(mark, "*");
  if (s->same >= 0) snprintf(mark, sizeof mark, "=%d", s->same + 1);
  snprintf(share, sizeof share, "%.3g%%", 100 * s->centrality);
  make_bar(s->height, bar);
  table_add(t,
            (cell[]){cell_text(e->name), cell_number(d), cell_number(i + 1), cell_text(mark),
                     cell_number(s->rank), cell_number(s->centrality), cell_number(s->chosen),
                     s->same < 0 ? cell_none() : cell_number(s->same + 1), cell_text(share),
                     cell_text(bar), cell_number(i + 1), cell_number((double)s->start),
                     cell_number((double)(s->start + s->length)), cell_text(line), cell_text(cut)});
  free(line);
  free(cut);
}

/* The chosen sentences of a document, or `all`. */
static void add_rows(table *t, const extract_run *run, int d, bool all) {
  const attend_ranked_sentence *s;
  for (int i = 0; (s = sentence_of(&run->all[d], i)); i++)
    if (s->chosen || (all && s->words)) add_row(t, run, d, i);
}

static int print_json(const extract_run *run) {
  table t = table_start(columns);
  for (int d = 0; d < run->count; d++)
    if (is_done(&run->all[d])) add_rows(&t, run, d, run->o->ranks);
  int code = table_print_json(&t, run->ctx, stdout);
  table_free(&t);
  return code;
}

static int print_table(const extract_run *run, int d) {
  table t = table_start(columns);
  add_rows(&t, run, d, true);
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static int print(const extract_run *run) {
  int code = EXIT_OK;
  if (run->o->common.json) return print_json(run);
  for (int d = 0; d < run->count && !code; d++) {
    const extracted *e = &run->all[d];
    if (!is_done(e)) continue;
    if (run->count > 1) printf("%s%s\n", d ? "\n" : "", e->name);
    if (run->o->ranks)
      code = print_table(run, d);
    else
      print_chosen(run->o, e);
  }
  return code ? code : check_written(stdout, "the sentences");
}

/* ---- the page -------------------------------------------------------------------- */

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>Central sentences</title>\n<style>\n"
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
    html_put(to, line);
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
  html_put(to, e->name);
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

static void put_page(FILE *to, const void *user) {
  const extract_run *run = user;
  fputs(head, to);
  for (int d = 0; d < run->count; d++)
    if (is_done(&run->all[d])) put_text(to, &run->all[d], d);
  fprintf(to, "<footer>Ranked by centrality: attention among the vectors of ");
  html_put(to, run->model);
  fprintf(to, ", tau %g. The number after a sentence is its rank.</footer>\n",
          run->o->rank.tau > 0 ? (double)run->o->rank.tau : 0.5);
}

/* ---- the model ------------------------------------------------------------------ */

/* The one that was given, a pulled one made for sentences, or none. */
static const char *choose_model(const summarize_options *o) {
  if (o->embed) return o->embed;
  const char *found = o->model.path ? o->model.path : model_for_sentences();
  if (found) return found;
  complain(
      "sentences are compared by the words that they share; an embedding model "
      "also recognizes synonyms: attend pull hf:sentence-transformers/all-MiniLM-L6-v2");
  return WORDS;
}

static int open_model(extract_run *run) {
  const summarize_options *o = run->o;
  model_options model = o->model;
  attend_embed_options embed = {ATTEND_INIT(attend_embed_options)};
  int code = EXIT_OK;
  run->model = model.path = choose_model(o);
  if (!strcmp(run->model, WORDS)) {
    run->ctx = run->m.ctx = options_context(&o->common, NULL, &code);
    return code;
  }
  model.no_head = model.text = true;
  code = model_open(&o->common, &model, &run->m);
  run->ctx = run->m.ctx;
  if (code) return code;
  embed.folder = run->m.path;
  attend_status status = attend_embedder_create(run->m.model, run->m.tokenizer, &embed, &run->e);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

/* ---- ranking -------------------------------------------------------------------- */

static int cut_documents(extract_run *run, const documents *docs) {
  run->all = need((size_t)docs->count + 1, sizeof *run->all);
  for (int d = 0; d < docs->count; d++) {
    const attend_document *text = &docs->at[d];
    extracted *e = &run->all[d];
    *e = (extracted){.name = docs->name[d], .text = text->text};
    attend_status status = attend_extraction_create(run->ctx, text->text, text->length, &e->x);
    if (status) return complain_status(run->ctx, status);
    run->count++;
  }
  return EXIT_OK;
}

static int on_progress(double done, const char *what, void *user) {
  (void)what;
  const extract_run *run = user;
  progress_share(done, run->model);
  return is_interrupted();
}

static int rank_all(extract_run *run) {
  attend_extract_options how = run->o->rank;
  attend_extraction **x = need((size_t)run->count + 1, sizeof *x);
  for (int d = 0; d < run->count; d++) x[d] = run->all[d].x;
  how.progress = on_progress;
  how.user = run;
  interrupt_watch();
  progress_start("ranking sentences", 1);
  attend_status status = attend_extractions_rank(run->count, x, run->e, &how);
  progress_end();
  free(x);
  return status && status != ATTEND_STOPPED ? complain_status(run->ctx, status) : EXIT_OK;
}

/* Returns how many documents have no sentences. */
static int print_warnings(const extract_run *run) {
  size_t truncated = run->e ? attend_embedder_truncated(run->e) : 0, sentences = 0;
  const char *first = NULL;
  int none = 0;
  for (int d = run->count - 1; d >= 0; d--) {
    int rows = attend_extraction_rows(run->all[d].x);
    sentences += (size_t)rows;
    none += !rows;
    if (!rows) first = run->all[d].name;
  }
  if (none == 1)
    complain("%s has no sentences", first);
  else if (none)
    complain("%d of %d documents have no sentences, such as %s", none, run->count, first);
  if (truncated)
    complain(
        "%zu of %zu sentences %s longer than the %d tokens that the model "
        "reads, and %s truncated",
        truncated, sentences, truncated == 1 ? "is" : "are", attend_embedder_max_length(run->e),
        truncated == 1 ? "was" : "were");
  return none;
}

static int show(const extract_run *run) {
  int code = print(run), done = 0;
  for (int d = 0; d < run->count; d++) done += is_done(&run->all[d]);
  if (is_interrupted()) complain("interrupted: %d of %d documents are done", done, run->count);
  if (code || !run->o->out) return code;
  code = html_write(run->ctx, run->o->out, put_page, run);
  if (!code) fprintf(stderr, "attend: wrote %s\n", run->o->out);
  return code;
}

int summarize_extract(const summarize_options *o) {
  extract_run run = {.o = o};
  documents docs = {0};
  int code = documents_read(o, &docs), none = 0;
  if (!code) code = open_model(&run);
  if (!code) code = cut_documents(&run, &docs);
  if (!code) code = rank_all(&run);
  if (!code) none = print_warnings(&run);
  if (!code) code = show(&run);
  bool nothing = run.count && none == run.count && !documents_are_rows(o);
  for (int d = 0; d < run.count; d++) attend_extraction_free(run.all[d].x);
  free(run.all);
  attend_embedder_free(run.e);
  model_close(&run.m);
  documents_free(&docs);
  if (!code && is_interrupted()) return EXIT_INTERRUPTED;
  return !code && nothing ? EXIT_FAILED : code;
}
