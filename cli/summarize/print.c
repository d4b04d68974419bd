/* What attend summarize says: summaries with their scores, or JSON; notices.
 *
 * See summarize.h; after some are written.
 *
 * With --lines, or a field of each line, the summary of a line is a line, so
 * that the two go together; files have their names above.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/lines.h"
#include "json_members.h"
#include "summarize/summarize.h"
#include "table.h"
#include "printable.h"

static int words_of(const char *text) {
  static const char between[] = " \t\r\n";
  int words = 0;
  for (text += strspn(text, between); *text; text += strspn(text, between)) {
    text += strcspn(text, between);
    words++;
  }
  return words;
}

/* ---- text ------------------------------------------------------------------------ */

static const column columns[] = {{"score", "score", CELL_RATIO},
                                 {"log_probability", "total", CELL_RATIO},
                                 {"words", "words", CELL_COUNT},
                                 {"summary", "summary", CELL_TEXT},
                                 {0}};

static int print_table(const summary_document *d) {
  table t = table_start(columns);
  for (int i = 0; i < d->count; i++) {
    const summary *one = &d->best[i];
    char *line = text_on_a_line(one->text, strlen(one->text));
    table_add(
        &t, (cell[]){cell_number(one->score), cell_number(one->log_probability),
                     cell_number(words_of(one->text)), cell_text(line)});
    free(line);
  }
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static int print_line(const summary_document *d) {
  const char *text = d->count ? d->best[0].text : "";
  char *line = text_on_a_line(text, strlen(text));
  puts(line);
  free(line);
  return EXIT_OK;
}

static void print_header(const summary_document *d) {
  bool colour = is_colourful(stdout);
  char *name = printable(d->name, strlen(d->name), "");
  printf("%s%s==> %s <==%s\n", d->number ? "\n" : "", colour ? "\033[2m" : "",
         name, colour ? "\033[0m" : "");
  free(name);
}

static int print_document(const summary_printer *p, const summary_document *d) {
  bool several = p->s->how.samples > 1;
  if (p->rows && !several && !p->o->sources) return print_line(d);
  if (p->count > 1) print_header(d);
  int code = several ? print_table(d) : d->count ? print_line(d) : EXIT_OK;
  for (int i = 0; i < d->count && p->o->sources && !code; i++)
    code = sources_print(p->o, p->s, d, &d->best[i], several);
  return code;
}

/* ---- JSON ------------------------------------------------------------------------ */

static void put_summary(const summary_printer *p, attend_json_writer *w,
                        const summary_document *d, const summary *one) {
  static const char *const ends[] = {"length", "end", "stop", "context",
                                     "interrupted"};
  json_text(w, "document", d->name);
  json_number(w, "number", d->number);
  json_text(w, "summary", one ? one->text : NULL);
  json_number(w, "score", one ? one->score : NAN);
  json_number(w, "log_probability", one ? one->log_probability : NAN);
  json_number(w, "words", one ? words_of(one->text) : 0);
  json_number(w, "tokens", one ? one->count : 0);
  json_text(w, "end", one ? ends[one->end] : NULL);
  json_number(w, "document_tokens", d->tokens);
  json_number(w, "cut_tokens", d->cut);
  attend_json_member(w, "ids");
  attend_json_open(w, '[');
  for (int i = 0; one && i < one->count; i++)
    attend_json_put_integer(w, one->ids[i]);
  attend_json_close(w, ']');
  if (p->o->sources && one) sources_put(p->o, p->s, d, one, w);
}

static void put_document(summary_printer *p, const summary_document *d) {
  for (int i = 0; i < d->count || i == 0; i++) {
    attend_json_indent(&p->w, true); /* one line a row */
    attend_json_open(&p->w, '{');
    attend_json_indent(&p->w, false);
    put_summary(p, &p->w, d, i < d->count ? &d->best[i] : NULL);
    attend_json_close(&p->w, '}');
  }
}

/* ---- what is worth a sentence ------------------------------------------------------ */

static void count_notices(summary_printer *p, const summary_document *d) {
  summary_notices *n = &p->notices;
  n->done++;
  if (!d->tokens && !n->empty++) n->first_empty = d->name;
  if (d->cut && !n->cut++) n->first_cut = d;
  if (d->tokens && d->count < p->s->how.samples && !n->few++) n->first_few = d;
  for (int i = 0; i < d->count; i++)
    n->context += d->best[i].end == ATTEND_FINISH_CONTEXT;
}

static void say_cut(const summary_printer *p) {
  const summary_notices *n = &p->notices;
  const char *remedy = "--long chunks reads all of it";
  if (n->cut == 1)
    complain(
        "%s has %d tokens and the model reads %d: its end was left out; %s",
        n->first_cut->name, n->first_cut->tokens + n->first_cut->cut,
        p->s->reads, remedy);
  else if (n->cut)
    complain(
        "%d of %d documents have more than the %d tokens that the model reads, "
        "and their ends were left out; --long chunks reads all of them",
        n->cut, p->count, p->s->reads);
}

static void say_few(const summary_printer *p) {
  const summary_notices *n = &p->notices;
  bool draws = p->s->how.temperature > 0;
  if (!n->few) return;
  char which[64] = "the document";
  if (p->count > 1)
    snprintf(which, sizeof which, "%d of %d documents", n->few, p->count);
  complain("%s: %s%d different summar%s of %d found: %s", which,
           n->few > 1 ? "as few as " : "", n->first_few->count,
           n->first_few->count == 1 ? "y" : "ies", p->s->how.samples,
           draws ? "raise --temp or --top-p" : "take more --beams");
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
    complain("%d summar%s ended because the decoder has %d positions",
             n->context, n->context == 1 ? "y" : "ies",
             attend_model_config(p->s->m.model)->positions);
  if (n->done < p->count)
    complain("interrupted: %d of %d documents are done", n->done, p->count);
  return code;
}

/* ---- the whole -------------------------------------------------------------------- */

void summary_printer_start(summary_printer *p, const summarize_options *o,
                           const summarizer *s, int count) {
  *p = (summary_printer){.o = o, .s = s, .count = count};
  p->rows = documents_are_rows(o);
  if (!o->common.json) return;
  p->w = attend_json_writer_file(s->m.ctx, stdout);
  attend_json_open(&p->w, '[');
}

int summary_printer_put(summary_printer *p, const summary_document *docs,
                        int count) {
  int code = EXIT_OK;
  for (int i = 0; i < count && !code; i++) {
    if (!docs[i].done && p->rows && !p->o->common.json)
      break; /* the lines must stay in step */
    if (!docs[i].done) continue;
    count_notices(p, &docs[i]);
    if (p->o->common.json)
      put_document(p, &docs[i]);
    else
      code = print_document(p, &docs[i]);
  }
  return code ? code : check_written(stdout, "the summaries");
}

int summary_printer_end(summary_printer *p, int code) {
  if (p->o->common.json) {
    attend_json_indent(&p->w, true);
    attend_json_close(&p->w, ']');
    attend_status status = attend_json_finish(&p->w);
    attend_json_writer_free(&p->w);
    if (status && !code) code = complain_status(p->s->m.ctx, status);
  }
  return code ? code : say_notices(p);
}
