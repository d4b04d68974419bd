/* attend summarize --long: documents longer than the encoder's context. A tree of summaries
 * is printed in the terminal, as JSON and as a page.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "attend/score.h"
#include "folders.h"
#include "text.h"
#include "progress.h"
#include "table.h"
#include "summarize/summarize.h"

typedef struct {
  const summarize_options *o;
  summarizer s;
  documents docs;
  int done;
  attend_long_summary **x; /* [docs.count]; NULL: blank, or not begun */
  double seconds;
} job;

/* ---- a tree in the terminal ------------------------------------------------------ */

static const char *node_text(const attend_summary_node *n) {
  return n->n_best ? n->best[0].text : "";
}

static void print_text(const char *text, int depth) {
  char *line = text_on_a_line(text, strlen(text));
  printf("%*s%s", 2 * depth, "", line);
  free(line);
}

static void print_node(const attend_long_summary *x, int level, int i, int depth) {
  const attend_summary_node *n = attend_long_summary_node(x, level, i);
  print_text(node_text(n), depth);
  printf("  [words %zu-%zu]\n", n->first_word, n->last_word);
  for (int j = 1; j < n->n_best; j++) {
    print_text(n->best[j].text, depth);
    putchar('\n');
  }
  for (int j = n->first; j < n->first + n->count; j++) print_node(x, level - 1, j, depth + 1);
}

static void print_tree(const attend_long_summary *x) {
  int top = attend_long_summary_state(x)->levels - 1;
  for (int i = 0; i < attend_long_summary_count(x, top); i++) print_node(x, top, i, 0);
}

/* ---- a tree in JSON ------------------------------------------------------------------------ */

static void put_json_tree(json_writer *w, const attend_long_summary *x, int level, int i) {
  const attend_summary_node *n = attend_long_summary_node(x, level, i);
  json_open(w, '{');
  json_member_string(w, "summary", node_text(n));
  json_member_number(w, "score", n->n_best ? n->best[0].score : 0);
  json_member_number(w, "start", (double)n->start);
  json_member_number(w, "end", (double)n->end);
  json_member_number(w, "first_word", (double)n->first_word);
  json_member_number(w, "last_word", (double)n->last_word);
  if (n->count) {
    json_member(w, "parts");
    json_open(w, '[');
    for (int j = n->first; j < n->first + n->count; j++) put_json_tree(w, x, level - 1, j);
    json_close(w, ']');
  }
  json_close(w, '}');
}

/* ---- a tree as a page -------------------------------------------------------------- */

/* One file without scripts: nodes are <details>, which keyboards and screen readers
 * support, and open to what they were made of, down to the text itself. */
static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Summaries</title>\n<style>\n"
    ":root { color-scheme: light dark; --text: #17202b; --page: #ffffff;\n"
    "  --soft: #5b6776; --line: #dde3ea; --mark: #2466c3; }\n"
    "@media (prefers-color-scheme: dark) { :root { --text: #e9edf2;\n"
    "  --page: #12151b; --soft: #9aa6b5; --line: #2b323d; --mark: #7db7e0; } "
    "}\n"
    "body { margin: 2rem auto; padding: 0 1rem; max-width: 52rem;\n"
    "  background: var(--page); color: var(--text);\n"
    "  font: 16px/1.5 system-ui, sans-serif; }\n"
    "h1 { font-size: 1.2rem; overflow-wrap: anywhere; }\n"
    "details { margin: .2rem 0 .2rem .4rem; padding-left: .8rem;\n"
    "  border-left: 1px solid var(--line); }\n"
    "summary { cursor: pointer; padding: .15rem .2rem; }\n"
    "summary:focus-visible { outline: 2px solid var(--mark); }\n"
    "summary::marker { color: var(--mark); }\n"
    "small { color: var(--soft); white-space: nowrap; }\n"
    "p { white-space: pre-wrap; margin: .3rem 0 .6rem 1.1rem;\n"
    "  color: var(--soft); overflow-wrap: anywhere; }\n"
    "ul { margin: .2rem 0; }\n"
    "</style></head><body>\n";

static void put_samples(FILE *f, const attend_summary_node *n) {
  if (n->n_best < 2) return;
  fputs("<ul>", f);
  for (int j = 1; j < n->n_best; j++) {
    fputs("<li>", f);
    html_put(f, n->best[j].text);
    fputs("</li>\n", f);
  }
  fputs("</ul>\n", f);
}

static void put_node(FILE *f, const attend_long_summary *x, const char *document, int level, int i,
                     bool open) {
  const attend_summary_node *n = attend_long_summary_node(x, level, i);
  fputs(open ? "<details open><summary>" : "<details><summary>", f);
  html_put(f, node_text(n));
  fprintf(f, " <small>words %zu&ndash;%zu", n->first_word, n->last_word);
  if (n->count) fprintf(f, ", %d parts", n->count);
  fputs("</small></summary>\n", f);
  put_samples(f, n);
  if (!n->count) {
    fputs("<p>", f);
    html_put_n(f, document + n->start, n->end - n->start);
    fputs("</p>", f);
  }
  for (int j = n->first; j < n->first + n->count; j++)
    put_node(f, x, document, level - 1, j, false);
  fputs("</details>\n", f);
}

static void put_page(FILE *f, const void *user) {
  const job *j = user;
  fputs(head, f);
  for (int d = 0; d < j->done; d++) {
    const attend_long_summary *x = j->x[d];
    int top = x ? attend_long_summary_state(x)->levels - 1 : -1;
    fputs("<h1>", f);
    html_put(f, j->docs.name[d]);
    fputs("</h1>\n", f);
    for (int i = 0; x && i < attend_long_summary_count(x, top); i++)
      put_node(f, x, j->docs.at[d].text, top, i, true);
  }
  fputs("</body></html>\n", f);
}

/* ---- cost ------------------------------------------------------------------------ */

enum { LONG = 20000 }; /* tokens that take seconds */

static size_t peak_bytes(void) {
  struct rusage r;
  return getrusage(RUSAGE_SELF, &r) ? 0 : (size_t)r.ru_maxrss << 10;
}

/* Before work that takes long. */
static void print_cost(const job *j, int i) {
  const attend_long_state state = *attend_long_summary_state(j->x[i]);
  char memory[32];
  if (state.tokens < LONG) return;
  format_cell(CELL_BYTES, attend_long_summary_bytes(j->x[i]), memory, sizeof memory);
  fprintf(stderr, "attend: %lld tokens", (long long)state.tokens);
  if (j->o->linear)
    fprintf(stderr, ", read %d times in portions",
            attend_config_stack(attend_model_config(j->s.m.model), ATTEND_ENCODER)->layers + 1);
  else
    fprintf(stderr, " in %d parts of up to %d, and summaries of their summaries",
            attend_long_summary_count(j->x[i], 0), state.part_tokens);
  fprintf(stderr, "; about %s of memory\n", memory);
}

/* ---- writing -------------------------------------------------------------------- */

typedef struct {
  const attend_long_summary *x; /* NULL: not made yet */
  bool linear;
  int level;     /* that the progress line names */
  char name[64]; /* of it */
} progress_line;

static void show_level(progress_line *p, const attend_long_state *state) {
  if (p->level == state->levels) return;
  progress_end();
  p->level = state->levels;
  snprintf(p->name, sizeof p->name, "summaries, level %d", p->level);
  progress_start(p->name, (size_t)attend_long_summary_count(p->x, p->level - 1));
}

static int on_progress(double done, const char *what, void *user) {
  (void)what;
  progress_line *p = user;
  if (p->linear) {
    progress_step((size_t)(100 * done), "%");
  } else if (p->x) {
    const attend_long_state state = *attend_long_summary_state(p->x);
    show_level(p, &state);
    progress_step((size_t)state.written, "parts");
  }
  return is_interrupted();
}

static void print_form(const job *j, int i) {
  if (i == 0 && attend_long_summary_state(j->x[i])->other_form)
    fprintf(stderr,
            "attend: the model's attention is not linear: reading with "
            "favor(m=256) in its place (--attention chooses another)\n");
}

static int warn_interrupted(const job *j, int i) {
  const attend_long_state state = *attend_long_summary_state(j->x[i]);
  const char *work = j->o->work;
  int all = attend_long_summary_count(j->x[i], state.levels - 1);
  if (j->o->linear && work)
    complain("%.1f %% of the reading is saved in %s: the same command resumes", 100 * state.read,
             work);
  else if (j->o->linear)
    complain("%.1f %% was read: with --work DIR it would be saved", 100 * state.read);
  else if (work)
    complain(
        "%d of %d parts of level %d are in the journal of %s: the same command "
        "resumes",
        state.written, all, state.levels, work);
  else
    complain(
        "%d of %d parts of level %d were done: with --work DIR they would be "
        "saved",
        state.written, all, state.levels);
  return EXIT_INTERRUPTED;
}

static attend_status open_document(job *j, int i, const char *work, progress_line *line) {
  const summarize_options *l = j->o;
  attend_long_options o = {ATTEND_INIT(attend_long_options)};
  o.mode = l->linear ? ATTEND_LONG_LINEAR : ATTEND_LONG_CHUNKS;
  o.parts = l->parts;
  o.levels = l->levels;
  o.work = work;
  o.own_form = j->o->model.attention != NULL;
  o.progress = on_progress;
  o.user = line;
  return attend_long_summary_create(j->s.s, &j->docs.at[i], &o, &j->x[i]);
}

/* `work` is locked meanwhile: another process with the same waits. */
static int write_in(job *j, int i, const char *work) {
  progress_line line = {.linear = j->o->linear};
  attend_status status = open_document(j, i, work, &line);
  if (status) return complain_status(j->s.m.ctx, status);
  line.x = j->x[i];
  print_form(j, i);
  print_cost(j, i);
  if (line.linear) progress_start("reading", 100);
  status = attend_long_summary_write(j->x[i]);
  progress_end();
  if (status == ATTEND_STOPPED) return warn_interrupted(j, i);
  return status ? complain_status(j->s.m.ctx, status) : EXIT_OK;
}

static int show_wait(void *user) {
  char *note = path_of("waiting for another summary in %s", (const char *)user);
  progress_note(note);
  free(note);
  return is_interrupted();
}

static int write_document(job *j, int i) {
  const char *work = j->o->work;
  bool own = work && j->o->linear && j->docs.count > 1;
  if (!work) return write_in(j, i, NULL);
  char *directory = own ? path_of("%s/%d", work, i + 1) : need_copy(work);
  char *path = path_of("%s/.lock", directory);
  int lock, code;
  attend_status status = lock_take(j->s.m.ctx, path, show_wait, directory, &lock);
  progress_end();
  if (status == ATTEND_STOPPED)
    code = EXIT_INTERRUPTED;
  else
    code = status ? complain_status(j->s.m.ctx, status) : write_in(j, i, directory);
  lock_drop(lock);
  free(path);
  free(directory);
  return code;
}

static int write_all(job *j) {
  double start = seconds_now();
  int code = EXIT_OK;
  interrupt_watch();
  j->x = need((size_t)j->docs.count + 1, sizeof(void *));
  for (int i = 0; i < j->docs.count && !code; i++) {
    if (attend_word_count(j->docs.at[i].text, j->docs.at[i].length)) code = write_document(j, i);
    if (!code && !is_interrupted()) j->done = i + 1;
  }
  j->seconds = seconds_now() - start;
  return code;
}

/* ---- printing -------------------------------------------------------------------- */

static int64_t tokens_of(const job *j, int i) {
  return j->x[i] ? attend_long_summary_state(j->x[i])->tokens : 0;
}

static int top_level(const job *j, int i) { return attend_long_summary_state(j->x[i])->levels - 1; }

/* one: NULL of a blank document. */
static void put_row(json_writer *w, const job *j, int i, int node, const attend_summary *one,
                    bool first) {
  const attend_long_summary *x = j->o->chunks ? j->x[i] : NULL;
  json_row_open(w);
  put_summary(w, j->docs.name[i], j->docs.at[i].number, j->o->chunks ? "chunks" : "linear", one);
  json_member_number(w, "document_tokens", (double)tokens_of(j, i));
  if (j->o->stats) {
    json_member_number(w, "seconds", j->seconds);
    json_member_number(w, "peak_bytes", (double)peak_bytes());
  }
  if (x) json_member_number(w, "levels", attend_long_summary_state(x)->levels);
  if (x) json_member_number(w, "cut_tokens", attend_long_summary_state(x)->cut);
  if (x && first) {
    json_member(w, "tree");
    put_json_tree(w, x, top_level(j, i), node);
  }
  json_close(w, '}');
}

static void put_document(json_writer *w, const job *j, int i) {
  const attend_summary_node *n;
  if (!j->x[i]) put_row(w, j, i, 0, NULL, false);
  for (int k = 0; j->x[i] && (n = attend_long_summary_node(j->x[i], top_level(j, i), k)); k++)
    for (int s = 0; s < n->n_best; s++) put_row(w, j, i, k, &n->best[s], s == 0);
}

static int print_json(const job *j) {
  json_writer w = json_rows_open(j->s.m.ctx);
  for (int i = 0; i < j->done; i++) put_document(&w, j, i);
  return json_rows_close(&w, j->s.m.ctx);
}

static int warn_blank(const job *j) {
  int empty = 0;
  const char *first = NULL;
  for (int i = j->done - 1; i >= 0; i--)
    if (!j->x[i]) {
      empty++;
      first = j->docs.name[i];
    }
  return warn_empty(empty, j->docs.count, first, documents_are_rows(j->o));
}

static void print_tops(const job *j, summary_printer *p, int i) {
  const attend_summary_node *n;
  int before = p->notices.done, top = top_level(j, i);
  for (int k = 0; (n = attend_long_summary_node(j->x[i], top, k)); k++) {
    attend_summarized d = {
        .tokens = (int)tokens_of(j, i), .best = n->best, .count = n->n_best, .done = true};
    printed one = {j->docs.name[i], j->docs.at[i].number, &d, NULL, 0};
    summary_printer_put(p, &one);
  }
  p->notices.done = before + 1; /* one document, however many summaries */
}

static void print_document(const job *j, summary_printer *p, int i) {
  attend_summarized blank = {.done = true};
  printed none = {j->docs.name[i], j->docs.at[i].number, &blank, NULL, 0};
  if (!j->x[i]) {
    summary_printer_put(p, &none);
  } else if (!j->o->tree) {
    print_tops(j, p, i);
  } else {
    if (j->docs.count > 1) printf("%s==> %s <==\n", i ? "\n" : "", j->docs.name[i]);
    p->notices.done++;
    print_tree(j->x[i]);
  }
}

static int print(job *j) {
  summary_printer p;
  if (j->o->common.json) {
    int code = print_json(j);
    return code ? code : warn_blank(j);
  }
  summary_printer_start(&p, j->o, &j->s, j->docs.count);
  for (int i = 0; i < j->done && !p.code; i++) print_document(j, &p, i);
  return summary_printer_end(&p, EXIT_OK);
}

static void print_stats(const job *j) {
  char time[32], memory[32];
  int64_t tokens = 0;
  for (int i = 0; i < j->done; i++) tokens += tokens_of(j, i);
  format_cell(CELL_SECONDS, j->seconds, time, sizeof time);
  format_cell(CELL_BYTES, (double)peak_bytes(), memory, sizeof memory);
  fprintf(stderr, "%lld tokens in %s, %s of memory at most\n", (long long)tokens, time, memory);
  for (int i = 0; i < j->done && j->o->chunks; i++) {
    if (!j->x[i]) continue;
    const attend_long_state s = *attend_long_summary_state(j->x[i]);
    fprintf(stderr,
            "%s: %d parts, %d levels, %d summaries from the journal, %d tokens "
            "that did not fit\n",
            j->docs.name[i], attend_long_summary_count(j->x[i], 0), s.levels, s.journaled, s.cut);
  }
}

int summarize_long(const summarize_options *o) {
  job j = {.o = o};
  int code = documents_read(o, &j.docs);
  if (!code) code = summarizer_open(&o->common, &o->model, &o->how, &j.s);
  if (!code) code = write_all(&j);
  bool stopped = code == EXIT_INTERRUPTED || (!code && is_interrupted());
  if (!code || (stopped && j.done)) code = print(&j);
  if (!code && o->out) code = html_write(j.s.m.ctx, o->out, put_page, &j);
  if (!code && o->stats) print_stats(&j);
  for (int i = 0; j.x && i < j.docs.count; i++) attend_long_summary_free(j.x[i]);
  free(j.x);
  summarizer_close(&j.s);
  documents_free(&j.docs);
  return stopped ? EXIT_INTERRUPTED : code;
}
