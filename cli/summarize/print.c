/* Printing summaries: text with scores, JSON, sources, warnings; opening the view.
 *
 * With --lines, or a field of each line, the summary of a line is a line; files have
 * their names above.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/score.h"
#include "text.h"
#include "table.h"
#include "summarize/summarize.h"

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

static void put_word(json_writer *w, const attend_sourced_word *word) {
  json_open(w, '{');
  json_member_string(w, "word", word->word);
  json_member(w, "from");
  json_open(w, '[');
  for (int i = 0; i < word->count; i++) {
    json_open(w, '{');
    json_member_string(w, "word", word->source[i].word);
    json_member_number(w, "weight", word->source[i].weight);
    json_close(w, '}');
  }
  json_close(w, ']');
  json_close(w, '}');
}

static void put_sources(summary_printer *p, const printed *x, int i) {
  const attend_sourced_word *word;
  attend_sources *sources = find_sources(p, x, i);
  json_member(&p->w, "sources");
  json_open(&p->w, '[');
  for (int k = 0; sources && (word = attend_sources_get(sources, k)); k++) put_word(&p->w, word);
  json_close(&p->w, ']');
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
                           cell_number((double)attend_word_count(one->text, strlen(one->text))),
                           cell_text(line)});
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

void put_summary(json_writer *w, const char *name, int number, const char *mode,
                 const attend_summary *one) {
  json_member_string(w, "document", name);
  json_member_number(w, "number", number);
  if (mode) json_member_string(w, "long", mode);
  json_member_string(w, "summary", one ? one->text : NULL);
  json_member_number(w, "score", one ? one->score : NAN);
  json_member_number(w, "log_probability", one ? one->log_probability : NAN);
  json_member_number(w, "words", one ? (double)attend_word_count(one->text, strlen(one->text)) : 0);
  json_member_number(w, "tokens", one ? one->count : 0);
}

static void put_row(summary_printer *p, const printed *x, int i) {
  static const char *const ends[] = {"length", "end", "stop", "context", "interrupted"};
  const attend_summary *one = i < x->d->count ? &x->d->best[i] : NULL;
  json_writer *w = &p->w;
  json_row_open(w);
  put_summary(w, x->name, x->number, NULL, one);
  json_member_string(w, "end", one ? ends[one->end] : NULL);
  json_member_number(w, "document_tokens", x->d->tokens);
  json_member_number(w, "cut_tokens", x->d->cut);
  json_member(w, "ids");
  json_open(w, '[');
  for (int k = 0; one && k < one->count; k++) json_put_integer(w, one->ids[k]);
  json_close(w, ']');
  if (p->o->sources && one) put_sources(p, x, i);
  json_close(w, '}');
}

/* ---- warnings --------------------------------------------------------------------- */

static void count_notices(summary_printer *p, const printed *x) {
  const attend_summarized *d = x->d;
  p->notices.done++;
  if (!d->tokens && !p->notices.empty++) p->notices.first_empty = x->name;
  if (d->cut && !p->notices.cut++) {
    p->notices.first_cut = x->name;
    p->notices.cut_tokens = d->tokens + d->cut;
  }
  if (d->tokens && d->count < samples_of(p) && !p->notices.few++) p->notices.few_count = d->count;
  for (int i = 0; i < d->count; i++) p->notices.context += d->best[i].end == ATTEND_FINISH_CONTEXT;
}

int warn_empty(int empty, int count, const char *first, bool rows) {
  if (empty && count == 1)
    complain("%s is empty: there is nothing to summarize", first);
  else if (empty)
    complain("%d of %d documents are empty, such as %s", empty, count, first);
  return count && empty == count && !rows ? EXIT_FAILED : EXIT_OK;
}

static void warn_cut(const summary_printer *p) {
  int cut = p->notices.cut, context = attend_summarizer_context(p->s->s);
  if (cut == 1)
    complain(
        "%s has %d tokens and the model reads %d: the rest was left out; "
        "--long chunks reads all of it",
        p->notices.first_cut, p->notices.cut_tokens, context);
  else if (cut)
    complain(
        "%d of %d documents have more than the %d tokens that the model reads, "
        "and the rest of them was left out; --long chunks reads all of them",
        cut, p->count, context);
}

static void warn_few(const summary_printer *p) {
  int few = p->notices.few, count = p->notices.few_count;
  bool samples = attend_summarizer_generate(p->s->s)->temperature > 0;
  char which[64] = "the document";
  if (!few) return;
  if (p->count > 1) snprintf(which, sizeof which, "%d of %d documents", few, p->count);
  complain("%s: %s%d different summar%s of %d found: %s", which, few > 1 ? "as few as " : "", count,
           count == 1 ? "y" : "ies", samples_of(p),
           samples ? "raise --temp or --top-p" : "use more --beams");
}

static int warn_notices(const summary_printer *p) {
  int code = warn_empty(p->notices.empty, p->count, p->notices.first_empty, p->rows);
  int done = p->notices.done, context = p->notices.context;
  warn_cut(p);
  warn_few(p);
  if (context)
    complain("%d summar%s ended because the decoder has %d positions", context,
             context == 1 ? "y" : "ies",
             attend_config_get(attend_model_config(p->s->m.model), ATTEND_CONFIG_POSITIONS));
  if (done < p->count) complain("interrupted: %d of %d documents are done", done, p->count);
  return code;
}

/* ---- the printer ------------------------------------------------------------------ */

void summary_printer_start(summary_printer *p, const summarize_options *o, summarizer *s,
                           int count) {
  *p = (summary_printer){.o = o, .s = s, .count = count};
  p->rows = documents_are_rows(o);
  if (o->common.json) p->w = json_rows_open(s->m.ctx);
}

bool summary_printer_put(summary_printer *p, const printed *one) {
  bool json = p->o->common.json;
  if (!one->d->done) return json || !p->rows;
  count_notices(p, one);
  if (!json) print_document(p, one);
  for (int i = 0; json && (i < one->d->count || i == 0); i++) put_row(p, one, i);
  return !p->code;
}

int summary_printer_end(summary_printer *p, int code) {
  int finished = p->o->common.json ? json_rows_close(&p->w, p->s->m.ctx) : EXIT_OK;
  if (!code) code = finished;
  if (!code) code = p->code;
  if (!code) code = check_written(stdout, "the summaries");
  return code ? code : warn_notices(p);
}

/* ---- the view ------------------------------------------------------------------------- */

enum { MOST_WORDS = 32 };

typedef struct {
  char *word[MOST_WORDS];
  int count;
} command;

static void add(command *c, const char *name, const char *value) {
  if (!value) return;
  c->word[c->count++] = (char *)name;
  c->word[c->count++] = (char *)value;
}

/* What the encoder read: the prefix and the part of the text that fitted. */
static char *input_of(const summarizer *s, const attend_document *from,
                      const attend_summarized *d) {
  const char *prefix = attend_summarizer_prefix(s->s);
  size_t front = strlen(prefix);
  char *text = need(front + d->read + 1, 1);
  memcpy(text, prefix, front);
  memcpy(text + front, from->text, d->read);
  return text;
}

/* All heads of a layer: "0,1,2". */
static char *all_heads(int heads) {
  size_t size = 12 * (size_t)heads + 1, used = 0;
  char *text = need(size, 1);
  for (int i = 0; i < heads; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", i);
  return text;
}

/* The decoder's position that writes the first token which is not special: the one before it. */
static int first_step(const summarizer *s, const attend_summary *one) {
  int i = 0;
  while (i + 1 < one->count &&
         attend_tokenizer_is_special(attend_summarizer_tokenizer(s->s), one->ids[i]))
    i++;
  return i;
}

/* At the last layer's cross-attention, with the first word selected. */
int summary_show(const summarize_options *o, const summarizer *s, const attend_document *from,
                 const attend_summarized *d) {
  char layer[16], threads[16], place[16];
  command c = {{(char *)"attend view"}, 1};
  if (!d->count) return EXIT_OK;
  const attend_stack *decoder =
      attend_config_stack(attend_model_config(s->m.model), ATTEND_DECODER);
  char *text = input_of(s, from, d), *heads = all_heads(decoder->heads);
  snprintf(layer, sizeof layer, "%d", decoder->layers - 1);
  snprintf(threads, sizeof threads, "%d", o->common.threads);
  add(&c, "--model", s->m.path);
  add(&c, "--view", "head");
  add(&c, "--role", "cross");
  add(&c, "--layer", layer);
  add(&c, "--head", heads);
  snprintf(place, sizeof place, "%d", first_step(s, &d->best[0]));
  add(&c, "--token", d->best[0].count > 1 ? place : NULL);
  add(&c, "--attention", o->model.attention);
  if (o->model.attention)
    add(&c, "--attention-roles", o->model.roles ? o->model.roles : SUMMARY_ROLES);
  add(&c, "--weights", o->model.weights_given);
  add(&c, "--precision", o->model.bf16 ? "bf16" : NULL);
  add(&c, "--threads", o->common.threads ? threads : NULL);
  add(&c, "--out", o->out);
  if (!o->out) c.word[c.count++] = (char *)"--open";
  add(&c, "--", text);
  c.word[c.count++] = (char *)d->best[0].text;
  int code = cmd_view(c.count, c.word);
  free(text);
  free(heads);
  return code;
}
