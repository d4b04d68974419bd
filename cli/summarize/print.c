/* Printing summaries: text with scores, JSON, sources, warnings.
 *
 * With --lines, or a field of each line, the summary of a line is a line; files have
 * their names above.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/summarize.h"
#include "table.h"
#include "text.h"

int count_words(const char *text) {
  static const char between[] = " \t\r\n\v\f";
  int words = 0;
  for (text += strspn(text, between); *text; text += strspn(text, between)) {
    text += strcspn(text, between);
    words++;
  }
  return words;
}

/* ---- sources ---------------------------------------------------------------------- */

static attend_sources *find_sources(summary_printer *p, const printed *x, int i) {
  attend_sources *sources = NULL;
  attend_status status =
      attend_sources_create(p->s->s, x->all, x->index, i, p->o->sources, &sources);
  if (status) p->code = complain_status(p->s->m.ctx, status);
  return sources;
}

static void add_sources(table *t, const attend_sourced_word *w) {
  char text[1024] = "";
  size_t used = 0;
  for (int i = 0; i < w->count && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %.2f", i ? ", " : "",
                             w->source[i].word, w->source[i].weight);
  table_add(t, (cell[]){cell_text(w->word), cell_text(text)});
}

static void print_sources(summary_printer *p, const printed *x, int i, bool several) {
  static const column columns[] = {
      {"word", "word", CELL_TEXT}, {"sources", "sources", CELL_TEXT}, {0}};
  const attend_sourced_word *w;
  attend_sources *sources = find_sources(p, x, i);
  if (!sources) return;
  table t = table_start(columns);
  for (int k = 0; (w = attend_sources_get(sources, k)); k++) add_sources(&t, w);
  printf("\n");
  if (several) printf("%s\n", x->d->best[i].text);
  p->code = table_print(&t, stdout);
  table_free(&t);
  attend_sources_free(sources);
}

static void put_word(attend_json_writer *w, const attend_sourced_word *word) {
  attend_json_open(w, '{');
  json_text(w, "word", word->word);
  attend_json_member(w, "from");
  attend_json_open(w, '[');
  for (int i = 0; i < word->count; i++) {
    attend_json_open(w, '{');
    json_text(w, "word", word->source[i].word);
    json_number(w, "weight", word->source[i].weight);
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

static void put_sources(summary_printer *p, const printed *x, int i) {
  const attend_sourced_word *word;
  attend_sources *sources = find_sources(p, x, i);
  attend_json_member(&p->w, "sources");
  attend_json_open(&p->w, '[');
  for (int k = 0; sources && (word = attend_sources_get(sources, k)); k++) put_word(&p->w, word);
  attend_json_close(&p->w, ']');
  attend_sources_free(sources);
}

/* ---- text ------------------------------------------------------------------------ */

static const column columns[] = {{"score", "score", CELL_RATIO},
                                 {"log_probability", "total", CELL_RATIO},
                                 {"words", "words", CELL_COUNT},
                                 {"summary", "summary", CELL_TEXT},
                                 {0}};

static int print_table(const attend_summarized *d) {
  table t = table_start(columns);
  for (int i = 0; i < d->count; i++) {
    const attend_summary *one = &d->best[i];
    char *line = text_on_a_line(one->text, strlen(one->text));
    table_add(&t, (cell[]){cell_number(one->score), cell_number(one->log_probability),
                           cell_number(count_words(one->text)), cell_text(line)});
    free(line);
  }
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static void print_line(const attend_summarized *d) {
  const char *text = d->count ? d->best[0].text : "";
  char *line = text_on_a_line(text, strlen(text));
  puts(line);
  free(line);
}

static void print_header(const printed *x) {
  bool colour = is_colourful(stdout);
  char *name = printable(x->name, strlen(x->name), "");
  printf("%s%s==> %s <==%s\n", x->number ? "\n" : "", colour ? "\033[2m" : "", name,
         colour ? "\033[0m" : "");
  free(name);
}

static int samples_of(const summary_printer *p) {
  return attend_summarizer_generate(p->s->s)->samples;
}

static void print_document(summary_printer *p, const printed *x) {
  const attend_summarized *d = x->d;
  bool several = samples_of(p) > 1;
  if (p->rows && !several && !p->o->sources) {
    print_line(d);
    return;
  }
  if (p->count > 1) print_header(x);
  if (several)
    p->code = print_table(d);
  else if (d->count)
    print_line(d);
  for (int i = 0; i < d->count && p->o->sources && !p->code; i++) print_sources(p, x, i, several);
}

/* ---- JSON ------------------------------------------------------------------------ */

static void put_summary(summary_printer *p, const printed *x, int i) {
  static const char *const ends[] = {"length", "end", "stop", "context", "interrupted"};
  const attend_summary *one = i < x->d->count ? &x->d->best[i] : NULL;
  attend_json_writer *w = &p->w;
  json_text(w, "document", x->name);
  json_number(w, "number", x->number);
  json_text(w, "summary", one ? one->text : NULL);
  json_number(w, "score", one ? one->score : NAN);
  json_number(w, "log_probability", one ? one->log_probability : NAN);
  json_number(w, "words", one ? count_words(one->text) : 0);
  json_number(w, "tokens", one ? one->count : 0);
  json_text(w, "end", one ? ends[one->end] : NULL);
  json_number(w, "document_tokens", x->d->tokens);
  json_number(w, "cut_tokens", x->d->cut);
  attend_json_member(w, "ids");
  attend_json_open(w, '[');
  for (int k = 0; one && k < one->count; k++) attend_json_put_integer(w, one->ids[k]);
  attend_json_close(w, ']');
  if (p->o->sources && one) put_sources(p, x, i);
}

static void put_document(summary_printer *p, const printed *x) {
  for (int i = 0; i < x->d->count || i == 0; i++) {
    attend_json_indent(&p->w, true); /* one line a row */
    attend_json_open(&p->w, '{');
    attend_json_indent(&p->w, false);
    put_summary(p, x, i);
    attend_json_close(&p->w, '}');
  }
}

/* ---- warnings --------------------------------------------------------------------- */

static void count_notices(summary_printer *p, const printed *x) {
  summary_notices *n = &p->notices;
  const attend_summarized *d = x->d;
  n->done++;
  if (!d->tokens && !n->empty++) n->first_empty = x->name;
  if (d->cut && !n->cut++) {
    n->first_cut = x->name;
    n->cut_tokens = d->tokens + d->cut;
  }
  if (d->tokens && d->count < samples_of(p) && !n->few++) n->few_count = d->count;
  for (int i = 0; i < d->count; i++) n->context += d->best[i].end == ATTEND_FINISH_CONTEXT;
}

static void say_cut(const summary_printer *p) {
  const summary_notices *n = &p->notices;
  int context = attend_summarizer_context(p->s->s);
  if (n->cut == 1)
    complain(
        "%s has %d tokens and the model reads %d: the rest was left out; "
        "--long chunks reads all of it",
        n->first_cut, n->cut_tokens, context);
  else if (n->cut)
    complain(
        "%d of %d documents have more than the %d tokens that the model reads, "
        "and the rest of them was left out; --long chunks reads all of them",
        n->cut, p->count, context);
}

static void say_few(const summary_printer *p) {
  const summary_notices *n = &p->notices;
  bool samples = attend_summarizer_generate(p->s->s)->temperature > 0;
  if (!n->few) return;
  char which[64] = "the document";
  if (p->count > 1) snprintf(which, sizeof which, "%d of %d documents", n->few, p->count);
  complain("%s: %s%d different summar%s of %d found: %s", which, n->few > 1 ? "as few as " : "",
           n->few_count, n->few_count == 1 ? "y" : "ies", samples_of(p),
           samples ? "raise --temp or --top-p" : "use more --beams");
}

int say_empty(int empty, int count, const char *first, bool rows) {
  if (empty && count == 1)
    complain("%s is empty: there is nothing to summarize", first);
  else if (empty)
    complain("%d of %d documents are empty, such as %s", empty, count, first);
  return count && empty == count && !rows ? EXIT_FAILED : EXIT_OK;
}

static int say_notices(const summary_printer *p) {
  const summary_notices *n = &p->notices;
  int code = say_empty(n->empty, p->count, n->first_empty, p->rows);
  say_cut(p);
  say_few(p);
  if (n->context)
    complain("%d summar%s ended because the decoder has %d positions", n->context,
             n->context == 1 ? "y" : "ies", attend_model_config(p->s->m.model)->positions);
  if (n->done < p->count) complain("interrupted: %d of %d documents are done", n->done, p->count);
  return code;
}

/* ---- the printer ------------------------------------------------------------------ */

void summary_printer_start(summary_printer *p, const summarize_options *o, summarizer *s,
                           int count) {
  *p = (summary_printer){.o = o, .s = s, .count = count};
  p->rows = documents_are_rows(o);
  if (!o->common.json) return;
  p->w = attend_json_writer_file(s->m.ctx, stdout);
  attend_json_open(&p->w, '[');
}

bool summary_printer_put(summary_printer *p, const printed *one) {
  bool json = p->o->common.json;
  if (!one->d->done) return json || !p->rows;
  count_notices(p, one);
  if (json)
    put_document(p, one);
  else
    print_document(p, one);
  return !p->code;
}

int summary_printer_end(summary_printer *p, int code) {
  if (p->o->common.json) {
    attend_json_indent(&p->w, true);
    attend_json_close(&p->w, ']');
    attend_status status = attend_json_finish(&p->w);
    attend_json_writer_free(&p->w);
    if (status && !code) code = complain_status(p->s->m.ctx, status);
  }
  if (!code) code = p->code;
  if (!code) code = check_written(stdout, "the summaries");
  return code ? code : say_notices(p);
}
