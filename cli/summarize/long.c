/* attend summarize --long: documents longer than the encoder's context. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "folders.h"
#include "progress.h"
#include "summarize/summarize.h"
#include "table.h"

/* ---- options --------------------------------------------------------------------- */

enum { KEY_LONG = 1750, KEY_TREE, KEY_WORK, KEY_PARTS, KEY_LEVELS, KEY_STATS };

static const struct argp_option list[] = {
    {"long", KEY_LONG, "MODE", 0,
     "Documents of any length. chunks: summaries of parts that fit the "
     "encoder, then of these summaries, until one is left. linear: the encoder "
     "reads all of it with a linear form of attention (--attention; default: "
     "the model's, else favor(m=256))",
     1},
    {"tree", KEY_TREE, 0, 0,
     "With chunks: print the summaries of all parts, and the words that each "
     "covers",
     1},
    {"parts", KEY_PARTS, "N", 0, "With chunks: stop at N summaries or fewer (default: 1)", 1},
    {"levels", KEY_LEVELS, "N", 0,
     "With chunks: at most N levels, 1 being the parts of the document", 1},
    {"work", KEY_WORK, "DIR", 0, "Journal the work in this directory, and resume from it", 1},
    {"stats", KEY_STATS, 0, 0, "Print time and memory on the standard error", 1},
    {0}};

static void read_mode(struct argp_state *state, const char *mode, long_options *o) {
  o->chunks = !strcmp(mode, "chunks");
  o->linear = !strcmp(mode, "linear");
  if (!o->chunks && !o->linear) argp_error(state, "--long is chunks or linear, not \"%s\"", mode);
}

static error_t check(struct argp_state *state, const long_options *o) {
  if (!o->chunks && (o->tree || o->parts || o->levels))
    argp_error(state, "--tree, --parts and --levels need --long chunks");
  if (!o->chunks && !o->linear && (o->work || o->stats))
    argp_error(state, "--work and --stats need --long chunks or --long linear");
  return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  long_options *o = state->input;
  switch (key) {
    case KEY_LONG:
      read_mode(state, arg, o);
      return 0;
    case KEY_TREE:
      o->tree = true;
      return 0;
    case KEY_WORK:
      o->work = arg;
      return 0;
    case KEY_PARTS:
      o->parts = (int)options_number(state, "--parts", arg, 1, 1 << 20);
      return 0;
    case KEY_LEVELS:
      o->levels = (int)options_number(state, "--levels", arg, 1, 1 << 20);
      return 0;
    case KEY_STATS:
      o->stats = true;
      return 0;
    case ARGP_KEY_END:
      return check(state, o);
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

const struct argp options_long = {.options = list, .parser = parse};

typedef struct {
  const summarize_options *o;
  summarizer s;
  documents docs;
  int done;
  attend_long_summary **x; /* [docs.count]; NULL: blank, or not begun */
  double seconds;
} job;

/* ---- cost ------------------------------------------------------------------------ */

enum {
  PROGRAM = 24 << 20, /* code, its libraries, threads and their stacks */
  LONG = 20000        /* tokens that take seconds */
};

static double row_floats(const attend_stack *s, int gated) {
  double qkv = s->heads * s->dim + s->kv_heads * (s->dim + s->dim_v);
  return 2.0 * s->width + qkv + s->heads * s->dim_v + s->mlp * (1.0 + gated);
}

/* Keys and values of a token, in a layer. */
static double key_floats(const attend_stack *s) { return s->kv_heads * (s->dim + s->dim_v); }

/* Of a batch of texts of so many tokens. */
static double batch_bytes(const summarizer *s, int tokens) {
  const attend_config *c = attend_model_config(s->m.model);
  const attend_generate_options *how = attend_summarizer_generate(s->s);
  int each = how->beams > 1 ? how->beams : how->samples;
  double together = how->batch > each ? how->batch : each;
  double floats = together * tokens * row_floats(&c->encoder, c->gated);
  floats += together * c->decoder.layers * key_floats(&c->decoder) * (tokens + how->max_new);
  floats += 2.0 * (together + 1) * c->vocab;
  return floats * sizeof(float);
}

/* The program, the model and the text. Embedding rows come from the mapped file. */
static double base_bytes(const summarizer *s, const attend_document *d) {
  const attend_config *c = attend_model_config(s->m.model);
  double rows =
      4.0 * c->vocab * (c->encoder.width > c->decoder.width ? c->encoder.width : c->decoder.width);
  double files = (double)attend_checkpoint_bytes(s->m.files);
  return PROGRAM + (double)attend_model_bytes(s->m.model) + (rows < files ? rows : files) +
         3.0 * (double)d->length;
}

static size_t peak_bytes(void) {
  struct rusage r;
  return getrusage(RUSAGE_SELF, &r) ? 0 : (size_t)r.ru_maxrss << 10;
}

static void say_plan(double bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say_plan(double bytes, const char *format, ...) {
  char text[256], memory[32];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  format_cell(CELL_BYTES, bytes, memory, sizeof memory);
  fprintf(stderr, "attend: %s; about %s of memory\n", text, memory);
}

/* Before work that takes long. */
static void say_cost(const job *j, int i) {
  const attend_long_state state = attend_long_summary_state(j->x[i]);
  double base = base_bytes(&j->s, &j->docs.at[i]);
  int context = attend_summarizer_context(j->s.s);
  if (state.tokens < LONG) return;
  if (j->o->longer.linear)
    say_plan(base + (double)state.bytes + batch_bytes(&j->s, 1),
             "%lld tokens, read %d times in portions", (long long)state.tokens,
             attend_model_config(j->s.m.model)->encoder.layers + 1);
  else
    say_plan(base + batch_bytes(&j->s, context ? context : state.part_tokens),
             "%lld tokens in %d parts of up to %d, and summaries of their "
             "summaries",
             (long long)state.tokens, attend_long_summary_count(j->x[i], 0), state.part_tokens);
}

/* ---- writing -------------------------------------------------------------------- */

static bool is_blank(const attend_document *d) {
  size_t i = 0;
  while (i < d->length && isspace((unsigned char)d->text[i])) i++;
  return i == d->length;
}

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

static int on_progress(double done, void *user) {
  progress_line *p = user;
  if (p->linear) {
    progress_step((size_t)(100 * done), "%");
  } else if (p->x) {
    const attend_long_state state = attend_long_summary_state(p->x);
    show_level(p, &state);
    progress_step((size_t)state.written, "parts");
  }
  return is_interrupted();
}

static void say_form(const job *j, int i) {
  if (i == 0 && attend_long_summary_state(j->x[i]).other_form)
    fprintf(stderr,
            "attend: the model's attention is not linear: reading with "
            "favor(m=256) in its place (--attention chooses another)\n");
}

static int say_interrupted(const job *j, int i) {
  const attend_long_state state = attend_long_summary_state(j->x[i]);
  const char *work = j->o->longer.work;
  int all = attend_long_summary_count(j->x[i], state.levels - 1);
  if (j->o->longer.linear && work)
    complain("%.1f %% of the reading is saved in %s: the same command resumes", 100 * state.read,
             work);
  else if (j->o->longer.linear)
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
  const long_options *l = &j->o->longer;
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
  progress_line line = {.linear = j->o->longer.linear};
  attend_status status = open_document(j, i, work, &line);
  if (status) return complain_status(j->s.m.ctx, status);
  line.x = j->x[i];
  say_form(j, i);
  say_cost(j, i);
  if (line.linear) progress_start("reading", 100);
  status = attend_long_summary_write(j->x[i]);
  progress_end();
  if (status == ATTEND_STOPPED) return say_interrupted(j, i);
  return status ? complain_status(j->s.m.ctx, status) : EXIT_OK;
}

static int write_document(job *j, int i) {
  const char *work = j->o->longer.work;
  bool own = work && j->o->longer.linear && j->docs.count > 1;
  if (!work) return write_in(j, i, NULL);
  char *directory = own ? path_of("%s/%d", work, i + 1) : need_copy(work);
  char *path = path_of("%s/.lock", directory);
  int lock = lock_take(path);
  int code = lock < 0 ? EXIT_FAILED : write_in(j, i, directory);
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
    if (!is_blank(&j->docs.at[i])) code = write_document(j, i);
    if (!code && !is_interrupted()) j->done = i + 1;
  }
  j->seconds = seconds_now() - start;
  return code;
}

/* ---- printing -------------------------------------------------------------------- */

static int64_t tokens_of(const job *j, int i) {
  return j->x[i] ? attend_long_summary_state(j->x[i]).tokens : 0;
}

static int top_level(const job *j, int i) { return attend_long_summary_state(j->x[i]).levels - 1; }

/* one: NULL of a blank document. */
static void put_row(attend_json_writer *w, const job *j, int i, int node, const attend_summary *one,
                    bool first) {
  const attend_long_summary *x = j->o->longer.chunks ? j->x[i] : NULL;
  attend_json_indent(w, true); /* one line a row */
  attend_json_open(w, '{');
  attend_json_indent(w, false);
  json_text(w, "document", j->docs.name[i]);
  json_number(w, "number", j->docs.at[i].number);
  json_text(w, "long", j->o->longer.chunks ? "chunks" : "linear");
  json_text(w, "summary", one ? one->text : NULL);
  json_number(w, "score", one ? one->score : NAN);
  json_number(w, "log_probability", one ? one->log_probability : NAN);
  json_number(w, "words", one ? count_words(one->text) : 0);
  json_number(w, "tokens", one ? one->count : 0);
  json_number(w, "document_tokens", (double)tokens_of(j, i));
  if (j->o->longer.stats) {
    json_number(w, "seconds", j->seconds);
    json_number(w, "peak_bytes", (double)peak_bytes());
  }
  if (x) json_number(w, "levels", attend_long_summary_state(x).levels);
  if (x) json_number(w, "cut_tokens", attend_long_summary_state(x).cut);
  if (x && first) {
    attend_json_member(w, "tree");
    tree_put_json(w, x, top_level(j, i), node);
  }
  attend_json_close(w, '}');
}

static void put_document(attend_json_writer *w, const job *j, int i) {
  const attend_summary_node *n;
  if (!j->x[i]) put_row(w, j, i, 0, NULL, false);
  for (int k = 0; j->x[i] && (n = attend_long_summary_node(j->x[i], top_level(j, i), k)); k++)
    for (int s = 0; s < n->n_best; s++) put_row(w, j, i, k, &n->best[s], s == 0);
}

static int print_json(const job *j) {
  attend_json_writer w = attend_json_writer_file(j->s.m.ctx, stdout);
  attend_json_open(&w, '[');
  for (int i = 0; i < j->done; i++) put_document(&w, j, i);
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
    if (!j->x[i]) {
      empty++;
      first = j->docs.name[i];
    }
  return say_empty(empty, j->docs.count, first, documents_are_rows(j->o));
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
  } else if (!j->o->longer.tree) {
    print_tops(j, p, i);
  } else {
    if (j->docs.count > 1) printf("%s==> %s <==\n", i ? "\n" : "", j->docs.name[i]);
    p->notices.done++;
    tree_print(j->x[i]);
  }
}

static int print(job *j) {
  summary_printer p;
  if (j->o->common.json) {
    int code = print_json(j);
    return code ? code : say_blank(j);
  }
  summary_printer_start(&p, j->o, &j->s, j->docs.count);
  for (int i = 0; i < j->done && !p.code; i++) print_document(j, &p, i);
  return summary_printer_end(&p, EXIT_OK);
}

static void say_stats(const job *j) {
  char time[32], memory[32];
  int64_t tokens = 0;
  for (int i = 0; i < j->done; i++) tokens += tokens_of(j, i);
  format_cell(CELL_SECONDS, j->seconds, time, sizeof time);
  format_cell(CELL_BYTES, (double)peak_bytes(), memory, sizeof memory);
  fprintf(stderr, "%lld tokens in %s, %s of memory at most\n", (long long)tokens, time, memory);
  for (int i = 0; i < j->done && j->o->longer.chunks; i++) {
    if (!j->x[i]) continue;
    const attend_long_state s = attend_long_summary_state(j->x[i]);
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
  if (!code && o->out) code = tree_page(&j.docs, j.x, j.done, j.s.m.ctx, o->out);
  if (!code && o->longer.stats) say_stats(&j);
  for (int i = 0; j.x && i < j.docs.count; i++) attend_long_summary_free(j.x[i]);
  free(j.x);
  summarizer_close(&j.s);
  documents_free(&j.docs);
  return stopped ? EXIT_INTERRUPTED : code;
}
