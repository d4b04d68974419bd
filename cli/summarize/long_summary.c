/* attend summarize --long: documents longer than the encoder takes. */
#include "summarize/long_summary.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "folders.h"
#include "interrupt.h"
#include "json_members.h"
#include "progress.h"
#include "table.h"

typedef struct {
  const summarize_options *o;
  summarizer s;
  summary_document *docs;
  int count, done;
  summary_tree *trees; /* [count] of chunks, else NULL */
  double seconds;
} job;

/* ---- writing -------------------------------------------------------------------- */

static bool is_blank(const summary_document *d) {
  size_t i = 0;
  while (i < d->length && isspace((unsigned char)d->text[i])) i++;
  return i == d->length;
}

static int write_linear(job *j, int i) {
  const char *work = j->o->longer.work;
  char *folder = work && j->count > 1 ? path_of("%s/%d", work, i + 1)
                 : work               ? need_copy(work)
                                      : NULL;
  int code = linear_write(j->o, &j->s, folder, &j->docs[i]);
  free(folder);
  return code;
}

static int write_all(job *j) {
  double start = seconds_now();
  int code = EXIT_OK;
  interrupt_watch();
  if (j->o->longer.chunks)
    j->trees = need((size_t)j->count + 1, sizeof *j->trees);
  for (int i = 0; i < j->count && !code; i++) {
    if (is_blank(&j->docs[i]))
      j->docs[i].done = true;
    else
      code = j->trees ? tree_write(j->o, &j->s, &j->docs[i], &j->trees[i])
                      : write_linear(j, i);
    if (!code && !is_interrupted()) j->done = i + 1;
  }
  j->seconds = seconds_now() - start;
  return code;
}

/* ---- saying --------------------------------------------------------------------- */

static int64_t tokens_of(const job *j, int i) {
  return j->trees ? j->trees[i].tokens : j->docs[i].tokens;
}

static double text_words(const char *text) {
  double words = 0;
  for (size_t i = 0; text[i]; i++)
    words += !isspace((unsigned char)text[i]) &&
             (!i || isspace((unsigned char)text[i - 1]));
  return words;
}

static void put_row(attend_json_writer *w, const job *j, int i,
                    const tree_node *n, int sample) {
  const summary_document *d = &j->docs[i];
  const summary *one = n          ? &n->best[sample]
                       : d->count ? &d->best[sample]
                                  : NULL; /* of a blank document */
  const summary_tree *t = n ? &j->trees[i] : NULL;
  attend_json_indent(w, true); /* one line a row */
  attend_json_open(w, '{');
  attend_json_indent(w, false);
  json_text(w, "document", d->name);
  json_number(w, "number", d->number);
  json_text(w, "long", j->trees ? "chunks" : "linear");
  json_text(w, "summary", one ? one->text : NULL);
  json_number(w, "score", one ? one->score : NAN);
  json_number(w, "log_probability", one ? one->log_probability : NAN);
  json_number(w, "words", one ? text_words(one->text) : 0);
  json_number(w, "tokens", one ? one->count : 0);
  json_number(w, "document_tokens", (double)tokens_of(j, i));
  if (j->o->longer.stats) {
    json_number(w, "seconds", j->seconds);
    json_number(w, "peak_bytes", (double)peak_bytes());
  }
  if (t) json_number(w, "levels", t->levels);
  if (t) json_number(w, "cut_tokens", t->cut);
  if (t && !sample) {
    attend_json_member(w, "tree");
    tree_put_json(w, t, t->levels - 1, (int)(n - t->level[t->levels - 1].node));
  }
  attend_json_close(w, '}');
}

static int print_json(const job *j) {
  attend_json_writer w = attend_json_writer_file(j->s.m.ctx, stdout);
  attend_json_open(&w, '[');
  for (int i = 0; i < j->done; i++) {
    const summary_tree *t = j->trees ? &j->trees[i] : NULL;
    if (is_blank(&j->docs[i])) {
      put_row(&w, j, i, NULL, 0);
      continue;
    }
    int top = t ? t->levels - 1 : 0, nodes = t ? t->level[top].count : 1;
    for (int k = 0; k < nodes; k++) {
      const tree_node *n = t ? &t->level[top].node[k] : NULL;
      int samples = n ? n->n_best : j->docs[i].count;
      for (int x = 0; x < samples; x++) put_row(&w, j, i, n, x);
    }
  }
  attend_json_indent(&w, true);
  attend_json_close(&w, ']');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(j->s.m.ctx, status) : EXIT_OK;
}

static int say_blank(const job *j) {
  int empty = 0;
  const char *first = NULL;
  for (int i = j->done - 1; i >= 0; i--)
    if (is_blank(&j->docs[i])) {
      empty++;
      first = j->docs[i].name;
    }
  return say_empty(empty, j->count, first, documents_are_rows(j->o));
}

/* The top of a tree is the answer of its document; it stays the tree's. */
static void lend_top(const job *j, int i, int node) {
  const summary_tree *t = &j->trees[i];
  const tree_node *n = &t->level[t->levels - 1].node[node];
  j->docs[i].best = n->best;
  j->docs[i].count = n->n_best;
  j->docs[i].tokens = (int)t->tokens;
  j->docs[i].done = true;
}

static int print_tops(const job *j, summary_printer *p, int i) {
  const summary_tree *t = &j->trees[i];
  int code = EXIT_OK, before = p->notices.done;
  for (int k = 0; k < t->level[t->levels - 1].count && !code; k++) {
    lend_top(j, i, k);
    code = summary_printer_put(p, &j->docs[i], 1);
  }
  j->docs[i].best = NULL;
  j->docs[i].count = 0;
  p->notices.done = before + 1; /* one document, however many summaries */
  return code;
}

static int print_document(const job *j, summary_printer *p, int i) {
  if (!j->trees || !tokens_of(j, i))
    return summary_printer_put(p, &j->docs[i], 1);
  if (!j->o->longer.tree) return print_tops(j, p, i);
  if (j->count > 1) printf("%s==> %s <==\n", i ? "\n" : "", j->docs[i].name);
  p->notices.done++;
  return tree_print(&j->trees[i]);
}

static int print(const job *j) {
  summary_printer p;
  int code = EXIT_OK;
  if (j->o->common.json) {
    code = print_json(j);
    return code ? code : say_blank(j);
  }
  summary_printer_start(&p, j->o, &j->s, j->count);
  for (int i = 0; i < j->done && !code; i++) code = print_document(j, &p, i);
  return summary_printer_end(&p, code);
}

static void say_stats(const job *j) {
  char time[32], memory[32];
  int64_t tokens = 0;
  for (int i = 0; i < j->done; i++) tokens += tokens_of(j, i);
  format_cell(CELL_SECONDS, j->seconds, time, sizeof time);
  format_cell(CELL_BYTES, (double)peak_bytes(), memory, sizeof memory);
  fprintf(stderr, "%lld tokens in %s, %s of memory at most\n",
          (long long)tokens, time, memory);
  for (int i = 0; i < j->done && j->trees; i++)
    fprintf(stderr,
            "%s: %d parts, %d levels, %d summaries from the work folder, %d "
            "tokens that did not fit\n",
            j->docs[i].name, j->trees[i].level[0].count, j->trees[i].levels,
            j->trees[i].kept, j->trees[i].cut);
}

int summarize_long(const summarize_options *o) {
  job j = {.o = o};
  int code = documents_read(o, &j.docs, &j.count);
  if (!code) code = summarizer_open(&o->common, &o->model, &o->how, &j.s);
  if (!code) code = write_all(&j);
  bool stopped = code == EXIT_INTERRUPTED || (!code && is_interrupted());
  if (!code || (stopped && j.done)) code = print(&j);
  if (!code && o->out) code = tree_page(j.trees, j.done, j.s.m.ctx, o->out);
  if (!code && o->longer.stats) say_stats(&j);
  for (int i = 0; j.trees && i < j.count; i++) tree_free(&j.trees[i]);
  free(j.trees);
  documents_free(j.docs, j.count);
  summarizer_close(&j.s);
  return stopped ? EXIT_INTERRUPTED : code;
}
