/* attend summarize --long: documents longer than the encoder takes.
 *
 * Place: cli/ - see long_summary.h.
 */
#include "long_summary.h"

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
  int count;
  summary_tree *trees; /* [count] of chunks, else NULL */
  double seconds;
} job;

/* ---- writing -------------------------------------------------------------------- */

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
  for (int i = 0; i < j->count && !code; i++)
    code = j->trees ? tree_write(j->o, &j->s, &j->docs[i], &j->trees[i])
                    : write_linear(j, i);
  j->seconds = seconds_now() - start;
  return code;
}

/* ---- saying --------------------------------------------------------------------- */

static int64_t tokens_of(const job *j, int i) {
  return j->trees ? j->trees[i].tokens : j->docs[i].tokens;
}

static void put_row(attend_json_writer *w, const job *j, int i,
                    const tree_node *n, int sample) {
  const summary_document *d = &j->docs[i];
  const summary *one = n ? &n->best[sample] : &d->best[sample];
  const summary_tree *t = j->trees ? &j->trees[i] : NULL;
  attend_json_indent(w, true); /* one line a row */
  attend_json_open(w, '{');
  attend_json_indent(w, false);
  json_text(w, "document", d->name);
  json_text(w, "long", j->trees ? "chunks" : "linear");
  json_text(w, "summary", one->text);
  json_number(w, "score", one->score);
  json_number(w, "log_probability", one->log_probability);
  json_number(w, "tokens", one->count);
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
  for (int i = 0; i < j->count; i++) {
    const summary_tree *t = j->trees ? &j->trees[i] : NULL;
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

static void print_top(const summary_tree *t) {
  int top = t->levels - 1;
  for (int i = 0; i < t->level[top].count; i++)
    for (int k = 0; k < t->level[top].node[i].n_best; k++)
      puts(t->level[top].node[i].best[k].text);
}

static int print(const job *j) {
  if (j->o->common.json) return print_json(j);
  for (int i = 0; i < j->count; i++)
    if (j->trees && j->o->longer.tree)
      tree_print(&j->trees[i]);
    else if (j->trees)
      print_top(&j->trees[i]);
    else
      for (int k = 0; k < j->docs[i].count; k++) puts(j->docs[i].best[k].text);
  return check_written(stdout, "the summaries");
}

static void say_stats(const job *j) {
  char time[32], memory[32];
  int64_t tokens = 0;
  for (int i = 0; i < j->count; i++) tokens += tokens_of(j, i);
  format_cell(CELL_SECONDS, j->seconds, time, sizeof time);
  format_cell(CELL_BYTES, (double)peak_bytes(), memory, sizeof memory);
  fprintf(stderr, "%lld tokens in %s, %s of memory at most\n",
          (long long)tokens, time, memory);
  for (int i = 0; i < j->count && j->trees; i++)
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
  if (!code) code = print(&j);
  if (!code && o->out) code = tree_page(j.trees, j.count, j.s.m.ctx, o->out);
  if (!code && o->longer.stats) say_stats(&j);
  for (int i = 0; j.trees && i < j.count; i++) tree_free(&j.trees[i]);
  free(j.trees);
  documents_free(j.docs, j.count);
  summarizer_close(&j.s);
  return code;
}
