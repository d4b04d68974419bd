/* attend bench: options; problems, ceilings and crossovers as tables. */
#include "bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "progress.h"
#include "table.h"

/* What `--table` times: bench/results.csv is diffed, so the list is fixed. */
static const char *const fixed_list[] = {
    "sgemm:m1024n1024k1024",
    "softmax:b1h12n4096d64",
    "softmax:b1h12n4096d64:causal",
    "softmax:b1h12n1024d64:f16",
    "softmax:b1h12n1024d64:bf16",
    "softmax:b1h12n1024d64:causal:alibi",
    "softmax:b1h12n1024d64:causal:buckets",
    "softmax:b1h12n2048d64:causal:window=256",
    "softmax:b2h12g4n512x2048d64v128:bottom",
    "softmax:b1h12n1024d64:bthd",
    "softmax:b1h12n1024d64:causal:bwd",
    "softmax:b1h12n1024d64:causal:bf16:bwd",
    "softmax:b1h32n16384d64:decode",
    "softmax:b1h32g8n16384d64:decode",
    "softmax:b1h32g1n16384d64:decode",
    "argmax:b1h12n1024d64",
    "argmax(t=0.5):b1h12n1024d64",
    "gaussian:b1h12n1024d64",
    "poly(p=2,c=1):b1h12n1024d64",
    "elu:b1h12n4096d64:causal",
    "elu:b1h12n4096d64",
    "elu:b1h12n4096d64:causal:bwd",
    "elu:b1h12n16384d64:decode",
    "favor:b1h12n4096d64:causal",
    "favor:b1h12n4096d64:causal:bwd",
    "favor:b1h12n16384d64:decode",
    "fourier:b1h12n4096d64:causal",
};
enum { FIXED = sizeof fixed_list / sizeof *fixed_list };

/* ---- options ------------------------------------------------------------------- */

static const option_row own[] = {
    {"table", NULL, "Time a fixed list of problems and write it as CSV",
     FLAG(bench_options, table)},
    {"out", "FILE", "Where --table writes (default: bench/results.csv)", TEXT(bench_options, out)},
    {"dim", "N", "Width of q and k for crossover, unless FORM has one (default: 64)",
     NUMBER(bench_options, dim, 1, 1 << 16)},
    {"seconds", "N",
     "Time limit of crossover for each operation (default: 20); of one encoding in summarize "
     "(default: 180)",
     NUMBER(bench_options, limit_s, 1, 1 << 16)},
    {"tokens", "N",
     "Tokens of a text that model reads or train learns from (default: 512; encoders that "
     "read: 128)",
     NUMBER(bench_options, tokens, 1, 1 << 20), .letter = 'n'},
    {"batch", "N", "Texts at once, of model (default: 1; encoders 32) and of train (default: 2)",
     NUMBER(bench_options, batch, 1, 1 << 16)},
    {"recompute", NULL, "Of train: keep only each layer's input and recompute activations",
     FLAG(bench_options, recompute)},
    {"curve", "FILE.svg",
     "Of summarize: a plot of time and memory. Of train: softmax, elu and favor at one text of "
     "512 tokens, 1024, up to --tokens (default: 16384), and a plot of the time of a step and "
     "of its memory",
     TEXT(bench_options, curve)},
    {"lengths", "FROM..TO",
     "Tokens that summarize, or train with --curve, reads: FROM, twice as many, up to TO "
     "(default: 256..65536; 512..16384)",
     TEXT(bench_options, lengths)},
    {"forms", "FORM,FORM..",
     "Forms for those lengths (default: softmax,elu,favor(m=64); summarize favor(m=256) too)",
     TEXT(bench_options, forms)},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_run, offsetof(bench_options, common)},
                                    {option_rows_seed, offsetof(bench_options, common)},
                                    {option_rows_repeat, offsetof(bench_options, common)},
                                    {option_rows_engine, offsetof(bench_options, common)},
                                    {option_rows_json, offsetof(bench_options, common)},
                                    {option_rows_model, offsetof(bench_options, model)},
                                    {0}};

static bool is_mode(const bench_options *o, const char *name) {
  return o->count > 0 && !strcmp(o->problems[0], name);
}

static bool is_model_mode(const bench_options *o) {
  return is_mode(o, "model") || is_mode(o, "train") || is_mode(o, "summarize");
}

static void finish(struct argp_state *state, char **words, int count, void *input) {
  bench_options *o = input;
  int lengths[MOST_LENGTHS];
  o->problems = words;
  o->count = count;
  bool crossover = is_mode(o, "crossover"), train = is_mode(o, "train");
  bool summarize = is_mode(o, "summarize"), by_length = summarize || (train && o->curve);
  const struct {
    bool given, fits;
    const char *sentence;
  } rules[] = {
      {true, o->table != (count > 0), "name problems, or machine, crossover or --table"},
      {o->out, o->table, "--out goes with --table"},
      {o->dim, crossover, "--dim goes with crossover"},
      {o->limit_s, crossover || summarize, "--seconds goes with crossover and summarize"},
      {crossover, count == 2, "crossover takes a form, such as \"favor(m=256)\""},
      {o->common.engine, !crossover, "crossover compares engines: leave out --engine"},
      {o->recompute, train, "--recompute goes with train"},
      {o->curve, train || summarize, "--curve goes with train and summarize"},
      {o->lengths || o->forms, by_length,
       "--lengths and --forms go with summarize and train --curve"},
      {o->tokens || o->batch, !summarize, "summarize takes --lengths, not --tokens or --batch"}};
  for (size_t n = 0; n < sizeof rules / sizeof *rules; n++)
    if (rules[n].given && !rules[n].fits) argp_error(state, "%s", rules[n].sentence);
  if (is_model_mode(o) && count != 2)
    argp_error(state, "%s takes a folder, which may hold config.json alone", words[0]);
  if (o->lengths && !lengths_parse(o->lengths, lengths))
    argp_error(state, "--lengths %s: give numbers of tokens, as 256..65536", o->lengths);
}

static const verb_options verb_bench = {
    parts,
    "PROBLEM...\nmachine\nmodel MODEL\ntrain MODEL\nsummarize MODEL\ncrossover "
    "FORM[:SHAPE]\n--table",
    "Verifies each problem at a small size, then times it: medians. Several problems are "
    "interleaved, and compared with the first.\v`machine' measures the ceilings that `attend "
    "explain' divides by, and keeps them. `crossover' finds the length from which a form with a "
    "feature map is faster by sums than pairwise. `model' times prefill and decoding, relative to "
    "sgemm and memory bandwidth; a directory with config.json alone is enough. `summarize' encodes "
    "documents of 256 to 65536 tokens with an encoder-decoder and generates: time and memory by "
    "length, for several forms.",
    finish};

/* ---- the machine ----------------------------------------------------------------- */

attend_status ceilings_get(attend_context *ctx, attend_machine *machine) {
  int threads = attend_context_threads(ctx);
  const char *what = options_computes(ctx, "");
  if (attend_machine_load(ctx, machine)) return ATTEND_OK;
  if (strcmp(what, attend_context_isa(ctx)) != 0)
    fprintf(stderr, "attend: measuring what %s can do, once\n", what);
  else
    fprintf(stderr, "attend: measuring what this machine can do with %s on %d thread%s, once\n",
            what, threads, threads == 1 ? "" : "s");
  attend_status status = attend_machine_measure(ctx, machine);
  if (!status) attend_machine_save(ctx, machine);
  return status;
}

/* threads: multiprocessors. */
static int print_gpu(const bench_options *o, attend_context *ctx, const attend_machine *m) {
  static const column columns[] = {{"isa", "GPU", CELL_TEXT},
                                   {"threads", "multiprocessors", CELL_COUNT},
                                   {"flops_all", "f32 FLOP/s", CELL_NUMBER},
                                   {"flops_16", "bf16 FLOP/s, tensor cores", CELL_NUMBER},
                                   {"exponentials", "exponentials/s", CELL_NUMBER},
                                   {"read_all", "copied bytes/s", CELL_NUMBER},
                                   {NULL, NULL, CELL_TEXT}};
  table t = table_start(columns);
  table_add(&t, (cell[]){cell_text(attend_context_device(ctx)), cell_number(m->threads),
                         cell_number(m->flops_all), cell_number(m->flops_16),
                         cell_number(m->exponentials), cell_number(m->read_all)});
  return table_finish(&t, ctx, o->common.json);
}

static int bench_machine(const bench_options *o, attend_context *ctx) {
  static const column columns[] = {{"isa", "isa", CELL_TEXT},
                                   {"threads", "threads", CELL_COUNT},
                                   {"flops_one", "FLOP/s, 1 thread", CELL_NUMBER},
                                   {"flops_all", "FLOP/s, all", CELL_NUMBER},
                                   {"read_one", "bytes/s, 1 thread", CELL_NUMBER},
                                   {"read_all", "bytes/s, all", CELL_NUMBER},
                                   {NULL, NULL, CELL_TEXT}};
  attend_machine m;
  attend_status status = attend_machine_measure(ctx, &m);
  if (status) return complain_status(ctx, status);
  attend_machine_save(ctx, &m);
  if (m.flops_16 > 0) return print_gpu(o, ctx, &m);
  table t = table_start(columns);
  table_add(&t, (cell[]){cell_text(attend_context_isa(ctx)), cell_number(m.threads),
                         cell_number(m.flops_one), cell_number(m.flops_all),
                         cell_number(m.read_one), cell_number(m.read_all)});
  return table_finish(&t, ctx, o->common.json);
}

void warn_if_slower(const attend_problem *problem, const char *engine,
                    const attend_methods *methods) {
  double exact = methods->exact.limit.least_s, linear = methods->linear.limit.least_s;
  char text[256], slow[32], fast[32], from[64] = "at no length";
  if (!strstr(engine, "linear") || !attend_problem_has_features(problem)) return;
  if (!*methods->exact.engine || !(exact > 0 && exact < linear)) return;
  attend_problem_print(problem, text, sizeof text);
  format_cell(CELL_SECONDS, linear, slow, sizeof slow);
  format_cell(CELL_SECONDS, exact, fast, sizeof fast);
  if (!isnan(methods->crossover))
    snprintf(from, sizeof from, "from n = %.0f on", methods->crossover);
  complain("%s: linear is predicted to take %s, %s by pairs %s: linear is faster %s", text, slow,
           methods->exact.engine, fast, from);
}

/* ---- crossover --------------------------------------------------------------------- */

static const column crossover_columns[] = {{"form", NULL, CELL_TEXT},
                                           {"operation", "operation", CELL_TEXT},
                                           {"isa", "isa", CELL_TEXT},
                                           {"threads", "threads", CELL_COUNT},
                                           {"predicted_n", "predicted n", CELL_COUNT},
                                           {"measured_n", "measured n", CELL_COUNT},
                                           {"n", "times at n", CELL_COUNT},
                                           {"exact_engine", "exact", CELL_TEXT},
                                           {"exact_s", "exact", CELL_SECONDS},
                                           {"linear_s", "linear", CELL_SECONDS},
                                           {NULL, NULL, CELL_TEXT}};

/* The shape without its length, which the search determines. */
static void form_text(const attend_problem *p, char *text, size_t size) {
  const attend_desc *d = &p->desc;
  attend_problem_print(p, text, size);
  char *shape = strstr(text, ":b");
  if (shape)
    snprintf(shape, size - (size_t)(shape - text), ":b%dh%dg%dd%dv%d", d->batch, d->heads,
             d->kv_heads, d->dim, d->dim_v);
}

static int bench_crossover(const bench_options *o, attend_context *ctx) {
  static const struct {
    const char *name;
    attend_op op;
  } operations[] = {{"forward", ATTEND_OP_FORWARD},
                    {"forward+backward", ATTEND_OP_BACKWARD},
                    {"decode", ATTEND_OP_DECODE}};
  attend_bench_options how = {ATTEND_INIT(attend_bench_options), .seed = o->common.seed,
                              .limit_s = o->limit_s, .progress = progress_report};
  attend_machine machine;
  attend_problem form = {ATTEND_INIT(attend_problem)};
  char text[256];
  attend_status status = attend_crossover_parse(ctx, o->problems[1], o->dim, &form);
  if (!status) status = ceilings_get(ctx, &machine);
  if (status) return complain_status(ctx, status);
  form_text(&form, text, sizeof text);
  table t = table_start(crossover_columns);
  for (size_t n = 0; n < sizeof operations / sizeof *operations && !status; n++) {
    attend_crossover at;
    progress_start(operations[n].name, 0);
    status = attend_bench_crossover(ctx, &machine, &form, operations[n].op, &how, &at);
    progress_end();
    table_add(&t, (cell[]){cell_text(text), cell_text(operations[n].name),
                           cell_text(options_computes(ctx, at.exact_engine)),
                           cell_number(attend_context_threads(ctx)), cell_number(at.predicted_n),
                           cell_number(at.found ? at.n : NAN), cell_number(at.n),
                           cell_text(at.exact_engine), cell_number(at.exact_s),
                           cell_number(at.linear_s)});
  }
  if (!status && !o->common.json) puts(text);
  if (!status) return table_finish(&t, ctx, o->common.json);
  table_free(&t);
  return complain_status(ctx, status);
}

/* ---- problems ------------------------------------------------------------------------ */

static const column columns[] = {{"problem", "problem", CELL_TEXT},
                                 {"engine", "engine", CELL_TEXT},
                                 {"isa", "isa", CELL_TEXT},
                                 {"threads", "threads", CELL_COUNT},
                                 {"median_s", "median", CELL_SECONDS},
                                 {"best_s", "best", CELL_SECONDS},
                                 {"gflops", "GFLOP/s", CELL_RATE},
                                 {"gbytes_per_s", "GB/s", CELL_RATE},
                                 {"workspace_bytes", "workspace", CELL_BYTES},
                                 {"ratio", "ratio", CELL_RATIO},
                                 {"speedup", "speedup", CELL_RATIO},
                                 {NULL, NULL, CELL_TEXT}};
enum { COLUMNS = sizeof columns / sizeof *columns - 1, ALONE = COLUMNS - 2 };

typedef struct {
  int count;
  const char *const *texts; /* [count] */
  attend_problem *problems;
  attend_timing *times;
} problem_list;

/* ratio: of GFLOP/s; speedup: of time. Both against the first. One problem is shown
 * without them. */
static table make_rows(attend_context *ctx, const problem_list *l, column shown[COLUMNS + 1]) {
  memcpy(shown, columns, sizeof columns);
  if (l->count < 2) shown[ALONE] = columns[COLUMNS];
  table t = table_start(shown);
  for (int n = 0; n < l->count; n++) {
    const attend_timing *first = &l->times[0], *r = &l->times[n];
    double rate = r->flops / r->median_s;
    table_add(&t,
              (cell[]){cell_text(l->texts[n]), cell_text(r->engine),
                       cell_text(options_computes(ctx, r->engine)),
                       cell_number(attend_context_threads(ctx)), cell_number(r->median_s),
                       cell_number(r->best_s), cell_number(rate * 1e-9),
                       cell_number(r->bytes / r->median_s * 1e-9), cell_number(r->workspace_bytes),
                       cell_number(rate / (first->flops / first->median_s)),
                       cell_number(first->median_s / r->median_s)});
  }
  return t;
}

/* Checks before minutes of timing that the result can be written. */
static int check_writable(const char *path) {
  FILE *f = fopen(path, "a");
  if (f && !fclose(f)) return EXIT_OK;
  complain("could not write %s: %s", path, strerror(errno));
  return EXIT_FAILED;
}

static void put_csv(FILE *f, const cell *cells) {
  for (int c = 0; c < ALONE; c++) {
    bool whole = columns[c].kind == CELL_COUNT || columns[c].kind == CELL_BYTES;
    if (c) fputc(',', f);
    if (cells[c].text)
      fprintf(f, c ? "%s" : "\"%s\"", cells[c].text); /* problems have commas */
    else
      fprintf(f, whole ? "%.0f" : "%.4g", cells[c].number);
  }
  fputc('\n', f);
}

static int write_csv(attend_context *ctx, const table *t, const char *path) {
  attend_draft *draft;
  attend_status status = attend_draft_open(ctx, path, &draft);
  if (status) return complain_status(ctx, status);
  FILE *f = attend_draft_file(draft);
  for (int c = 0; c < ALONE; c++) fprintf(f, "%s%s", c ? "," : "", columns[c].name);
  fputc('\n', f);
  for (size_t n = 0; n < t->rows; n++) put_csv(f, t->cells + n * (size_t)t->width);
  status = attend_draft_keep(draft);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

static int parse_all(const bench_options *o, attend_context *ctx, const problem_list *l) {
  for (int n = 0; n < l->count; n++) {
    l->problems[n].size = sizeof l->problems[n];
    attend_status status = attend_problem_parse(ctx, l->texts[n], &l->problems[n]);
    if (status) return complain_status(ctx, status);
    l->problems[n].desc.engine = o->common.engine;
    if (l->problems[n].op != ATTEND_OP_SGEMM || blas_product()) continue;
    complain("%s needs OpenBLAS; %s, or leave the problem out", l->texts[n], blas_missing());
    return EXIT_FAILED;
  }
  return EXIT_OK;
}

static attend_status warn_all(attend_context *ctx, const problem_list *l) {
  attend_machine machine;
  bool known = false;
  for (int n = 0; n < l->count; n++) {
    attend_methods methods;
    if (!strstr(l->times[n].engine, "linear")) continue;
    attend_status status = known ? ATTEND_OK : ceilings_get(ctx, &machine);
    if (status) return status;
    known = true;
    attend_problem_methods(ctx, &machine, &l->problems[n], &methods);
    warn_if_slower(&l->problems[n], l->times[n].engine, &methods);
  }
  return ATTEND_OK;
}

static int time_all(const bench_options *o, attend_context *ctx, const problem_list *l) {
  attend_bench_options how = {ATTEND_INIT(attend_bench_options), .seed = o->common.seed,
                              .repeat = o->common.repeat, .product = blas_product(),
                              .progress = progress_report};
  progress_start("bench", 0);
  attend_status status = attend_bench(ctx, l->count, l->problems, &how, l->times);
  progress_end();
  if (!status) status = warn_all(ctx, l);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

/* A ratio of AVX2 to AVX-512 says little. */
static void compare_likes(attend_context *ctx, const table *t) {
  if (strcmp(attend_context_isa(ctx), "avx2") || !blas_is_wide()) return;
  for (size_t n = 0; n < t->rows; n++)
    if (!strncmp(t->cells[n * (size_t)t->width].text, "sgemm", 5)) {
      complain(
          "%s has AVX-512 and isa avx2 has not: set OPENBLAS_CORETYPE=Haswell "
          "to compare like with like",
          blas_product()->name);
      return;
    }
}

static int print_rows(const bench_options *o, attend_context *ctx, const problem_list *l,
                      const char *path) {
  column shown[COLUMNS + 1];
  table t = make_rows(ctx, l, shown);
  int code = o->table ? write_csv(ctx, &t, path) : EXIT_OK;
  if (!code && !o->common.json) compare_likes(ctx, &t);
  int printed = table_finish(&t, ctx, o->common.json);
  return code ? code : printed;
}

static int bench_problems(const bench_options *o, attend_context *ctx) {
  const char *path = o->out ? o->out : "bench/results.csv";
  problem_list l = {o->count, (const char *const *)o->problems, NULL, NULL};
  if (o->table && check_writable(path)) return EXIT_FAILED;
  if (o->table) { /* without sgemm where there is no BLAS */
    l.texts = fixed_list + !blas_product();
    l.count = FIXED - !blas_product();
  }
  l.problems = need((size_t)l.count, sizeof *l.problems);
  l.times = need((size_t)l.count, sizeof *l.times);
  int code = parse_all(o, ctx, &l);
  if (!code) code = time_all(o, ctx, &l);
  if (!code) code = print_rows(o, ctx, &l, path);
  free(l.problems);
  free(l.times);
  return code;
}

int cmd_bench(int argc, char **argv) {
  bench_options o = {0};
  int code;
  options_read(&verb_bench, argc, argv, &o);
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!ctx) return code;
  if (o.count == 1 && is_mode(&o, "machine"))
    code = bench_machine(&o, ctx);
  else if (is_mode(&o, "crossover"))
    code = bench_crossover(&o, ctx);
  else if (is_model_mode(&o))
    code = bench_models(ctx, &o);
  else
    code = bench_problems(&o, ctx);
  attend_context_free(ctx);
  return code;
}
