/* attend bench: options, problems and their table.
 *
 * A problem is verified at a small size before it is timed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/blas.h"
#include "bench/ceilings.h"
#include "bench/lengths.h"
#include "bench/model.h"
#include "bench/crossover.h"
#include "options.h"
#include "progress.h"
#include "table.h"
#include "bench/timing.h"
#include "verify/verify.h"
#include "bench/cost_models.h"

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

typedef struct {
  options common;
  bool table;
  const char *out;
  crossover_options crossover;
  bench_model_options model;
  char **problems;
  int count;
} bench_options;

/* ---- options ------------------------------------------------------------------- */

enum {
  KEY_TABLE = 256,
  KEY_OUT,
  KEY_DIM,
  KEY_SECONDS,
  KEY_BATCH,
  KEY_RECOMPUTE,
  KEY_CURVE,
  KEY_LENGTHS,
  KEY_FORMS
};

static const struct argp_option list[] = {
    {"table", KEY_TABLE, 0, 0, "Time a fixed list of problems and write it as CSV", 0},
    {"out", KEY_OUT, "FILE", 0, "Where --table writes (default: bench/results.csv)", 0},
    {"dim", KEY_DIM, "N", 0, "Width of q and k for crossover, unless FORM has one (default: 64)",
     0},
    {"seconds", KEY_SECONDS, "N", 0,
     "How long crossover searches, for each operation (default: 20); the "
     "longest reading of summarize (default: 180)",
     0},
    {"tokens", 'n', "N", 0,
     "Tokens of a text that model reads or train learns from (default: 512; "
     "encoders that read: 128)",
     0},
    {"batch", KEY_BATCH, "N", 0,
     "Texts at once, of model (default: 1; encoders 32) and of train "
     "(default: 2)",
     0},
    {"recompute", KEY_RECOMPUTE, 0, 0,
     "Of train: keep each layer's input alone and compute the rest again", 0},
    {"curve", KEY_CURVE, "FILE.svg", 0,
     "Of summarize: a plot of time and memory. Of train: softmax, elu and "
     "favor at one text of 512 tokens, 1024, up to --tokens (default: 16384), "
     "and a "
     "plot of the time of a step and of its memory",
     0},
    {"lengths", KEY_LENGTHS, "FROM..TO", 0,
     "Tokens that summarize, or train with --curve, reads: FROM, twice as "
     "many, up "
     "to TO (default: 256..65536; 512..16384)",
     0},
    {"forms", KEY_FORMS, "FORM,FORM..", 0,
     "Of the same (default: softmax,elu,favor(m=64); summarize favor(m=256) "
     "too)",
     0},
    {0}};

static bool is_mode(const bench_options *o, const char *name) {
  return o->count > 0 && !strcmp(o->problems[0], name);
}

/* Which options belong to which mode. */
static void check_crossover(struct argp_state *state, bench_options *o) {
  bool crossover = is_mode(o, "crossover");
  if (!crossover && o->crossover.dim) argp_error(state, "--dim goes with crossover");
  if (!crossover && !is_mode(o, "summarize") && o->crossover.limit_s)
    argp_error(state, "--seconds goes with crossover and summarize");
  if (crossover && o->count != 2)
    argp_error(state, "crossover takes a form, such as \"favor(m=256)\"");
  if (crossover && o->common.engine)
    argp_error(state, "crossover compares engines: leave out --engine");
  if (crossover) o->crossover.form = o->problems[1];
}

static void check_lengths(struct argp_state *state, const bench_options *o) {
  const bench_model_options *m = &o->model;
  length_list lengths;
  bool train = is_mode(o, "train"), summarize = is_mode(o, "summarize");
  if (!train && m->recompute) argp_error(state, "--recompute goes with train");
  if (!train && !summarize && m->curve) argp_error(state, "--curve goes with train and summarize");
  if ((m->lengths || m->forms) && !summarize && !(train && m->curve))
    argp_error(state, "--lengths and --forms go with summarize and train --curve");
  if (summarize && (m->tokens || m->batch))
    argp_error(state, "summarize takes --lengths, not --tokens or --batch");
  if (m->lengths && !lengths_parse(m->lengths, &lengths))
    argp_error(state, "--lengths %s: give numbers of tokens, as 256..65536", m->lengths);
}

static void check_options(struct argp_state *state, bench_options *o) {
  if (o->table == (o->count > 0))
    argp_error(state, "name problems, or machine, crossover or --table");
  if (o->out && !o->table) argp_error(state, "--out goes with --table");
  check_crossover(state, o);
  bool model = is_mode(o, "model") || is_mode(o, "train") || is_mode(o, "summarize");
  if (model && o->count != 2)
    argp_error(state, "%s takes a folder, which may hold config.json alone", o->problems[0]);
  if (model) o->model.model.path = o->problems[1];
  o->model.limit_s = o->crossover.limit_s;
  check_lengths(state, o);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  bench_options *o = state->input;
  switch (key) {
    case KEY_TABLE:
      o->table = true;
      return 0;
    case KEY_OUT:
      o->out = arg;
      return 0;
    case KEY_DIM:
      o->crossover.dim = (int)options_number(state, "--dim", arg, 1, 1 << 16);
      return 0;
    case KEY_SECONDS:
      o->crossover.limit_s = (int)options_number(state, "--seconds", arg, 1, 1 << 16);
      return 0;
    case 'n':
      o->model.tokens = (int)options_number(state, "--tokens", arg, 1, 1 << 20);
      return 0;
    case KEY_BATCH:
      o->model.batch = (int)options_number(state, "--batch", arg, 1, 1 << 16);
      return 0;
    case KEY_RECOMPUTE:
      o->model.recompute = true;
      return 0;
    case KEY_CURVE:
      o->model.curve = arg;
      return 0;
    case KEY_LENGTHS:
      o->model.lengths = arg;
      return 0;
    case KEY_FORMS:
      o->model.forms = arg;
      return 0;
    case ARGP_KEY_INIT:
      options_share(state, 5);
      state->child_inputs[5] = &o->model.model;
      return 0;
    case ARGP_KEY_ARGS:
      o->problems = state->argv + state->next;
      o->count = state->argc - state->next;
      return 0;
    case ARGP_KEY_END:
      check_options(state, o);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_child children[] = {{&options_run, 0, NULL, 0},
                                             {&options_seed, 0, NULL, 0},
                                             {&options_repeat, 0, NULL, 0},
                                             {&options_engine, 0, NULL, 0},
                                             {&options_json, 0, NULL, 0},
                                             {&options_model, 0, NULL, 0},
                                             {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc =
        "PROBLEM...\nmachine\nmodel MODEL\ntrain MODEL\nsummarize "
        "MODEL\ncrossover "
        "FORM[:SHAPE]\n--table",
    .doc =
        "Verifies each problem at a small size, then times it: medians. "
        "Several problems take turns, and are compared with the first."
        "\v`machine' measures the ceilings that `attend explain' divides "
        "by, and keeps them. `crossover' finds the length from which on a "
        "form with a feature map is faster by sums than pair by pair. `model' "
        "reads a prompt and writes tokens, as shares of what sgemm and memory "
        "could do; a folder with config.json alone is enough. `summarize' "
        "reads "
        "documents of 256 to 65536 tokens with an encoder-decoder and writes "
        "after them: time and memory by length, for several forms.",
    .children = children};

/* ---- the machine ----------------------------------------------------------------- */

static int bench_machine(const bench_options *o, attend_context *ctx) {
  static const column columns[] = {{"isa", "isa", CELL_TEXT},
                                   {"threads", "threads", CELL_COUNT},
                                   {"flops_one", "FLOP/s, 1 thread", CELL_NUMBER},
                                   {"flops_all", "FLOP/s, all", CELL_NUMBER},
                                   {"read_one", "bytes/s, 1 thread", CELL_NUMBER},
                                   {"read_all", "bytes/s, all", CELL_NUMBER},
                                   {NULL, NULL, CELL_TEXT}};
  attend_machine m;
  bool kept;
  attend_status status = ceilings_measure(ctx, &m, &kept);
  if (status) return complain_status(ctx, status);
  table t = table_start(columns);
  table_add(&t, (cell[]){cell_text(attend_context_isa(ctx)), cell_number(m.threads),
                         cell_number(m.flops_one), cell_number(m.flops_all),
                         cell_number(m.read_one), cell_number(m.read_all)});
  int code = o->common.json ? table_print_json(&t, ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  return code;
}

/* ---- rows ---------------------------------------------------------------------- */

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

/* ratio: of GFLOP/s; speedup: of time. Both against the first. */
static void add_row(table *t, attend_context *ctx, const bench_case *c, const bench_case *first) {
  cell row[COLUMNS] = {cell_text(c->text),
                       cell_text(c->engine),
                       cell_text(attend_context_isa(ctx)),
                       cell_number(attend_context_threads(ctx)),
                       cell_number(c->median_s),
                       cell_number(c->best_s),
                       cell_number(c->flops / c->median_s * 1e-9),
                       cell_number(c->bytes / c->median_s * 1e-9),
                       cell_number(c->workspace),
                       cell_number(c->flops / c->median_s / (first->flops / first->median_s)),
                       cell_number(first->median_s / c->median_s)};
  table_add(t, row);
}

static int print_rows(const bench_options *o, attend_context *ctx, const bench_case *all,
                      int count) {
  column shown[COLUMNS + 1];
  memcpy(shown, columns, sizeof shown);
  if (count < 2) shown[ALONE] = columns[COLUMNS];
  table t = table_start(shown);
  for (int n = 0; n < count; n++) add_row(&t, ctx, &all[n], &all[0]);
  int code = o->common.json ? table_print_json(&t, ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  return code;
}

/* Checks before minutes of timing that the result can be written. */
static int check_writable(const char *path) {
  FILE *f = fopen(path, "a");
  if (f && !fclose(f)) return EXIT_OK;
  complain("could not write %s: %s", path, strerror(errno));
  return EXIT_FAILED;
}

static void put_csv(FILE *f, const cell *row) {
  for (int c = 0; c < ALONE; c++) {
    bool whole = columns[c].kind == CELL_COUNT || columns[c].kind == CELL_BYTES;
    if (c) fputc(',', f);
    if (row[c].text)
      fprintf(f, c ? "%s" : "\"%s\"", row[c].text); /* problems have commas */
    else
      fprintf(f, whole ? "%.0f" : "%.4g", row[c].number);
  }
  fputc('\n', f);
}

static int write_csv(attend_context *ctx, const bench_case *all, int count, const char *path) {
  attend_draft *draft;
  attend_status status = attend_draft_open(ctx, path, &draft);
  if (status) return complain_status(ctx, status);
  FILE *f = attend_draft_file(draft);
  table t = table_start(columns);
  for (int c = 0; c < ALONE; c++) fprintf(f, "%s%s", c ? "," : "", columns[c].name);
  fputc('\n', f);
  for (int n = 0; n < count; n++) {
    add_row(&t, ctx, &all[n], &all[0]);
    put_csv(f, t.cells + n * COLUMNS);
  }
  table_free(&t);
  status = attend_draft_keep(draft);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

/* ---- running ------------------------------------------------------------------- */

int verify_small(attend_context *ctx, const attend_problem *problem, uint64_t seed) {
  attend_problem small = shrunken(problem);
  attend_verifier *verifier;
  attend_verification v = {0};
  verify_note(&small);
  attend_status status = attend_verifier_create(ctx, &small, seed, &verifier);
  if (!status) status = attend_verifier_run(verifier, ctx, &v);
  attend_verifier_free(verifier);
  if (status) return complain_status(ctx, status);
  if (v.ok) return EXIT_OK;
  char text[256];
  attend_problem_print(&small, text, sizeof text);
  complain(
      "%s is wrong (%s errs by %.2e, allowed are %.2e): run attend verify "
      "\"%s\"",
      text, attend_output_name(v.worst), v.error[v.worst], v.bound[v.worst], text);
  return EXIT_FAILED;
}

static int prepare(attend_context *ctx, const bench_options *o, bench_case *c) {
  attend_status status = attend_problem_parse(ctx, c->text, &c->problem);
  if (status) return complain_status(ctx, status);
  c->problem.desc.engine = o->common.engine;
  if (c->problem.op == ATTEND_OP_SGEMM) {
    if (blas_name()) return EXIT_OK;
    complain("%s needs OpenBLAS; %s, or leave the problem out", c->text, blas_missing());
    return EXIT_FAILED;
  }
  if (c->problem.op == ATTEND_OP_DECODE && c->problem.pad == ATTEND_PAD_LENGTHS) {
    complain("%s: decoding takes padleft or padright, not lengths", c->text);
    return EXIT_USAGE;
  }
  return verify_small(ctx, &c->problem, o->common.seed);
}

/* Warns of linear cases that would be faster by pairs. */
static attend_status warn_all(attend_context *ctx, const bench_case *all, int count) {
  attend_machine machine;
  bool known = false;
  attend_status status = ATTEND_OK;
  for (int n = 0; n < count && !status; n++) {
    if (strcmp(all[n].engine, "linear")) continue;
    if (!known) status = ceilings_get(ctx, &machine);
    known = true;
    if (!status) warn_if_slower(ctx, &machine, &all[n].problem, all[n].engine);
  }
  return status;
}

static int time_all(attend_context *ctx, const bench_options *o, bench_case *all, int count) {
  int code = EXIT_OK;
  attend_status status = ATTEND_OK;
  progress_start("verifying", (size_t)count);
  for (int n = 0; n < count && !code; n++) {
    progress_step((size_t)n, all[n].text);
    code = prepare(ctx, o, &all[n]);
  }
  for (int n = 0; n < count && !code && !status; n++)
    status = bench_case_open(ctx, o->common.seed, &all[n]);
  if (!code && !status) status = warn_all(ctx, all, count);
  if (!code && !status) status = time_cases(ctx, all, count, o->common.repeat);
  progress_end();
  return status ? complain_status(ctx, status) : code;
}

/* A ratio of AVX2 to AVX-512 says little. */
static void compare_likes(attend_context *ctx, const bench_case *all, int count) {
  if (strcmp(attend_context_isa(ctx), "avx2") || !blas_is_wide()) return;
  for (int n = 0; n < count; n++)
    if (all[n].problem.op == ATTEND_OP_SGEMM) {
      complain(
          "%s has AVX-512 and isa avx2 has not: set OPENBLAS_CORETYPE=Haswell "
          "to compare like with like",
          blas_name());
      return;
    }
}

static int bench(attend_context *ctx, const bench_options *o) {
  const char *path = o->out ? o->out : "bench/results.csv";
  if (o->table && check_writable(path)) return EXIT_FAILED;
  int most = o->table ? (int)(sizeof fixed_list / sizeof *fixed_list) : o->count;
  int count = 0;
  bench_case *all = need((size_t)most, sizeof *all);
  for (int n = 0; n < most; n++) {
    const char *text = o->table ? fixed_list[n] : o->problems[n];
    bool left_out = o->table && !strncmp(text, "sgemm", 5) && !blas_name();
    if (!left_out) all[count++].text = text;
  }
  int code = time_all(ctx, o, all, count);
  if (!code && o->table) code = write_csv(ctx, all, count, path);
  if (!code) code = print_rows(o, ctx, all, count);
  if (!code && !o->common.json) compare_likes(ctx, all, count);
  for (int n = 0; n < count; n++) bench_case_close(ctx, &all[n]);
  free(all);
  return code;
}

int cmd_bench(int argc, char **argv) {
  bench_options o = {0};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!ctx) return code;
  if (o.count == 1 && is_mode(&o, "machine"))
    code = bench_machine(&o, ctx);
  else if (is_mode(&o, "crossover"))
    code = bench_crossover(ctx, &o.common, &o.crossover);
  else if (is_mode(&o, "model"))
    code = bench_model(ctx, &o.common, &o.model);
  else if (is_mode(&o, "train"))
    code = bench_train(ctx, &o.common, &o.model);
  else if (is_mode(&o, "summarize"))
    code = bench_summarize(ctx, &o.common, &o.model);
  else
    code = bench(ctx, &o);
  attend_context_free(ctx);
  return code;
}
